"""Sharp bounds against the listing of all feasible tables, and what they rest on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import sdc
from sdc.checkpoint import Arrays
from sdc.executor import IN_PROCESS, never
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk.sharp import METHODS, SharpBounds, SharpProgress, sharp_bounds
from sdc.risk.sharp_units import most_steps
from tests.strategies import (
    all_ways,
    czech,
    dense,
    every_cell,
    frontier,
    knows,
    nested_in,
    schema_of,
    sharp_ends,
    shown_by,
    tables_and_knowledge,
)


def sought(table: Table, known: Knowledge, **settings: Any) -> SharpBounds:
    return sharp_bounds(table, known, every_cell(table.schema), **{"seconds": 60, **settings})


@given(tables_and_knowledge(max_records=6))
@settings(max_examples=1_000)
def test_sharp_bounds_are_those_over_all_feasible_tables(case: tuple[Table, Knowledge]) -> None:
    found, sharp = sought(*case), sharp_ends(*case)
    assert (found.bounds.outer == sharp).all()
    assert (found.bounds.inner == sharp).all()
    assert (shown_by(*case, found.bounds.cells, found.proof) == sharp).all()


# What is kept, and how far the budget goes


def same(one: SharpBounds, other: SharpBounds) -> bool:
    return (
        all(np.array_equal(a, b) for a, b in zip(_arrays(one), _arrays(other), strict=True))
        and one.bounds.method == other.bounds.method
    )


def _arrays(found: SharpBounds) -> Iterator[np.ndarray]:
    yield from (found.bounds.cells, found.bounds.outer, found.bounds.inner, found.outer_by, found.inner_by)
    for part in found.proof.parts:
        yield from (part.differences.start, part.differences.cells, part.differences.changes)


class Kept:
    """Parts as a caller keeps them."""

    def __init__(self) -> None:
        self.parts: dict[str, Arrays] = {}
        self.progress: list[SharpProgress] = []

    def __call__(self, key: str, found: Arrays, progress: SharpProgress) -> None:
        assert key not in self.parts
        assert all(array.dtype.kind in "iu" for array in found.values())
        self.parts[key] = found
        self.progress.append(progress)


@pytest.fixture(scope="module")
def open_case() -> tuple[Table, Knowledge]:
    """2^6 cells and their pairs, which every method in turn is needed for."""
    rng = np.random.default_rng(5)
    table = dense(schema_of([2] * 6), (rng.integers(0, 4, 64) * (rng.random(64) < 0.7)).tolist())
    return table, knows(table, all_ways(6, 2))


def test_whatever_is_kept_the_bounds_are_the_same(open_case: tuple[Table, Knowledge]) -> None:
    kept = Kept()
    whole = sought(*open_case, on_part=kept)
    assert len(kept.parts) > 3
    rng = np.random.default_rng(7)
    for share in (0.0, 0.3, 0.7, 1.0):
        some = {key: part for key, part in kept.parts.items() if rng.random() < share}
        rest = Kept()
        assert same(sought(*open_case, kept=some, on_part=rest), whole)
        # what was kept is not done again
        assert {*rest.parts, *some} == {*kept.parts}
        assert not {*rest.parts} & {*some}


def test_what_is_kept_of_other_cells_is_done_again(open_case: tuple[Table, Knowledge]) -> None:
    kept = Kept()
    whole = sought(*open_case, on_part=kept)
    few = {key: {**part, "cells": part["cells"][:0]} for key, part in kept.parts.items()}
    assert same(sought(*open_case, kept=few), whole)


def test_a_kept_difference_that_is_not_feasible_shows_nothing(open_case: tuple[Table, Knowledge]) -> None:
    kept = Kept()
    whole = sought(*open_case, on_part=kept)
    forged = {key: {**part, "changes": part["changes"] * 1000} for key, part in kept.parts.items()}
    found = sought(*open_case, kept=forged)
    assert nested_in(found.bounds.inner, whole.bounds.inner)


def test_a_larger_budget_goes_on_from_what_a_smaller_one_kept(open_case: tuple[Table, Knowledge]) -> None:
    whole, kept = sought(*open_case), Kept()
    little = sought(*open_case, seconds=0.01, on_part=kept)
    assert not little.bounds.exact.all()
    rest = Kept()
    assert same(sought(*open_case, kept=kept.parts, on_part=rest), whole)
    assert kept.parts
    assert not {*rest.parts} & {*kept.parts}
    # the bracket of a small budget is around the sharp bounds
    assert nested_in(whole.bounds.outer, little.bounds.outer)


def test_every_end_names_the_method_that_gave_it() -> None:
    table = dense(schema_of([2, 2, 2]), [5, 1, 6, 2, 4, 3, 7, 1])
    case = table, knows(table, all_ways(3, 2))
    found = sought(*case)
    outer, inner, labels = found.bounds.outer, found.bounds.inner, METHODS.index
    used = {*found.outer_by.reshape(-1).tolist(), *found.inner_by.reshape(-1).tolist()} - {labels("true-table")}
    assert found.bounds.method == " + ".join(METHODS[label] for label in sorted(used))
    assert labels("given") not in used
    assert (found.outer_by[outer[:, 0] == 0, 0] == labels("nested")).all()
    assert (found.outer_by[outer[:, 0] > 0, 0] > labels("given")).any()
    assert ((found.inner_by == labels("true-table")) == (inner == found.bounds.counts[:, None])).all()
    again = sought(*case, start=found.bounds)
    assert {*again.outer_by.reshape(-1).tolist()} <= {labels("nested"), labels("given")}
    explicit = sought(table, knows(table, frontier("AB", "BC")))
    lower = explicit.bounds.outer[:, 0]
    assert (explicit.outer_by[:, 0] == np.where(lower == 0, labels("nested"), labels("explicit"))).all()
    assert {*explicit.inner_by.reshape(-1).tolist()} <= {labels("true-table"), labels("explicit")}


# What a small budget gets


@pytest.fixture(scope="module")
def sparse_case() -> tuple[Table, Knowledge, np.ndarray]:
    """2,700 cells, many of them with few records, and their pairs; the cells at risk."""
    rng = np.random.default_rng(3)
    sizes = np.array([6, 5, 5, 3, 3, 2])
    codes = np.minimum(rng.exponential(1.2, (4_000, 6)).astype(int), sizes - 1)
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    schema = Schema(tuple(Variable(f"V{v}", tuple(f"{c}" for c in range(size))) for v, size in enumerate(sizes)))
    table = Table(schema, cells.astype(np.uint16), counts.astype(np.int64))
    return table, knows(table, all_ways(6, 2)), table.codes[table.at_risk(2)]


def test_the_narrowest_cells_are_made_sharp_first(sparse_case: tuple[Table, Knowledge, np.ndarray]) -> None:
    table, known, cells = sparse_case
    found = sharp_bounds(table, known, cells, seconds=1.0)
    sharp = found.bounds.exact
    assert 0 < sharp.sum() < len(cells)
    width = found.bounds.outer_width
    assert np.median(width[sharp]) < np.median(width[~sharp]) / 2


def test_components_with_many_cells_are_walked_in_slices(sparse_case: tuple[Table, Knowledge, np.ndarray]) -> None:
    table, known, cells = sparse_case
    found = sharp_bounds(table, known, cells[::9], seconds=0.5, cells_per_slice=400)
    bounds = found.bounds
    assert (shown_by(table, known, bounds.cells, found.proof) == bounds.inner).all()
    assert bounds.exact.any()


class Seen:
    """An executor that keeps the units that it is given."""

    workers, scratch = 1, None

    def __init__(self) -> None:
        self.units: list[Any] = []

    def run(self, function: Any, table: Any, units: Any, is_over: Any = never) -> Iterator[Any]:
        self.units += units
        return IN_PROCESS.run(function, table, units, is_over)


def test_no_unit_is_begun_that_may_take_more_than_the_budget(open_case: tuple[Table, Knowledge]) -> None:
    seen = Seen()
    sought(*open_case, seconds=1.0, executor=seen)
    assert {unit.method for unit in seen.units} >= {"walk", "branch-and-bound"}
    assert max(most_steps(unit.method, unit.effort) for unit in seen.units) <= 10_000


def test_cells_without_a_record_are_named_by_their_codes(sparse_case: tuple[Table, Knowledge, np.ndarray]) -> None:
    table, known, cells = sparse_case
    every = every_cell(table.schema)
    absent = every[table.count_at(every) == 0][::40]
    seen = Seen()
    found = sharp_bounds(table, known, np.concatenate([absent, cells[::40]]), seconds=0.5, executor=seen)
    assert {unit.absent is None for unit in seen.units} == {True, False}
    assert all((unit.rows < 0).all() for unit in seen.units if unit.absent is not None)
    assert (shown_by(table, known, found.bounds.cells, found.proof) == found.bounds.inner).all()


# Bad input


@pytest.mark.parametrize("seconds", [0, -1, 0.001, float("nan")])
def test_a_budget_below_the_first_round_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match=r"the budget of sharp bounds is .* ends within the first round"):
        sdc.sharp_bounds(czech(), ["A*B"], seconds=seconds)


def test_cells_named_twice_are_refused() -> None:
    table = czech()
    with pytest.raises(InputError, match=r"cells are named twice, 1 of 64; name each cell once") as refused:
        sharp_bounds(table, knows(table, frontier("AB")), table.codes[[*range(len(table)), 3]], seconds=1)
    assert "is named twice" in refused.value.detail
