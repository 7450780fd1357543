"""Bounds of an informed intruder: every method against all tables that agree and have the structural zeros."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as hs

from sdc.bounds import decomposable, integer_program, nested, shuttle
from sdc.bounds.method import cell_bounds, method_names
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from tests.strategies import (
    all_ways,
    decomposable_releases,
    dense,
    every_cell,
    frontier,
    knows,
    releases,
    schema_of,
    small_tables,
    structural_zeros,
)

Array = npt.NDArray[np.int64]
MOST_TABLES = 20_000


def feasible_tables(table: Table, release: Release) -> Iterator[Array]:
    """Every dense table with the released marginals and the structural zeros, cell after cell."""
    cells = every_cell(table.schema)
    possible = ~table.zeros.contains(cells)
    keys = [[tuple(cell[list(st.members(element))].tolist()) for cell in cells] for element in release.frontier]
    left = [dict.fromkeys(column, 0) for column in keys]
    for column, sums in zip(keys, left, strict=True):
        for key, count in zip(column, table.count_at(cells).tolist(), strict=True):
            sums[key] += count

    def fill(values: list[int]) -> Iterator[Array]:
        cell = len(values)
        if cell == len(cells):
            yield np.array(values)
            return
        room = [sums[column[cell]] for column, sums in zip(keys, left, strict=True)]
        last = [key[cell] not in key[cell + 1 :] for key in keys]
        for value in range(min(room) + 1 if possible[cell] else 1):
            if all(value == has for has, is_last in zip(room, last, strict=True) if is_last):
                for column, sums in zip(keys, left, strict=True):
                    sums[column[cell]] -= value
                yield from fill([*values, value])
                for column, sums in zip(keys, left, strict=True):
                    sums[column[cell]] += value

    yield from fill([])


def sharp_bounds(table: Table, release: Release) -> Intervals:
    """(cells, 2) the range of every cell over all of them."""
    tables = np.stack(list(feasible_tables(table, release)))
    return np.stack([tables.min(axis=0), tables.max(axis=0)], axis=1)


@hs.composite
def cases(draw: hs.DrawFn, decomposable_only: bool = False) -> tuple[Table, Release]:
    """A small table with structural zeros and a release of any kind, with not too many feasible tables to list."""
    table = draw(small_tables(max_records=5, max_cells=16, min_size=1))
    kinds = decomposable_releases if decomposable_only else releases
    table, release = table.with_zeros(draw(structural_zeros(table))), draw(kinds(len(table.schema)))
    # 13 records in 12 cells of which only the total is known are 2.5 million tables, minutes of a processor
    assume(sum(1 for _ in islice(feasible_tables(table, release), MOST_TABLES + 1)) <= MOST_TABLES)
    return table, release


def assert_sandwich(table: Table, release: Release, method: str) -> None:
    cells = every_cell(table.schema)
    sharp, bounds = sharp_bounds(table, release), cell_bounds(table, knows(table, release), cells, method)
    assert (bounds.outer[:, 0] <= sharp[:, 0]).all()
    assert (bounds.outer[:, 1] >= sharp[:, 1]).all()
    assert (bounds.inner[:, 0] >= sharp[:, 0]).all()
    assert (bounds.inner[:, 1] <= sharp[:, 1]).all()


# two patterns exclude together what neither does: A=0 is impossible only because both B are
TOGETHER = (
    dense(schema_of([2, 2]), [0, 0, 1, 2]).with_zeros(
        StructuralZeros((((0, (0,)), (1, (0,))), ((0, (0,)), (1, (1,)))))
    ),
    frontier("A"),
)
# the pattern names B, of which the release says nothing
UNCOVERED = (
    dense(schema_of([2, 2]), [1, 0, 1, 2]).with_zeros(StructuralZeros((((0, (0,)), (1, (1,))),))),
    frontier("A"),
)


@pytest.mark.parametrize("method", [name for name in method_names() if name not in ("decomposable", "dichotomous")])
@example(case=TOGETHER)
@example(case=UNCOVERED)
@given(case=cases())
def test_every_method_contains_and_is_contained(method: str, case: tuple[Table, Release]) -> None:
    assert_sandwich(*case, method)


@pytest.mark.parametrize("method", ["auto", "nested", "shuttle", "integer-program"])
@example(case=UNCOVERED)
@given(case=cases())
def test_an_impossible_cell_is_empty(method: str, case: tuple[Table, Release]) -> None:
    table, release = case
    cells = every_cell(table.schema)
    assert (cell_bounds(table, knows(table, release), cells[table.zeros.contains(cells)], method).outer == 0).all()


@pytest.mark.parametrize("method", [name for name in method_names() if name not in ("decomposable", "dichotomous")])
@settings(max_examples=15)
@given(case=cases())
def test_what_is_impossible_is_what_is_known(method: str, case: tuple[Table, Release]) -> None:
    """Whatever the table itself says: with the structural zeros or without, twice the same."""
    table, release = case
    plain, cells = Table.of(table.schema, table.codes, table.counts), every_cell(table.schema)
    for zeros in (table.zeros, NO_ZEROS):
        known = Knowledge.of(table, release, zeros)
        one, other = cell_bounds(table, known, cells, method), cell_bounds(plain, known, cells, method)
        assert (one.outer == other.outer).all()
        assert (one.inner == other.inner).all()


@example(case=UNCOVERED)
@given(case=cases(decomposable_only=True))
def test_explicit_bounds_are_outer(case: tuple[Table, Release]) -> None:
    assert_sandwich(*case, "decomposable")


@given(cases())
def test_the_integer_program_is_sharp(case: tuple[Table, Release]) -> None:
    table, release = case
    bounds = integer_program.bounds(table, knows(table, release), every_cell(table.schema))
    assert bounds.exact.all()
    assert (bounds.outer == sharp_bounds(table, release)).all()


def test_the_marginal_of_two_patterns_together_says_less() -> None:
    table, release = TOGETHER
    assert sharp_bounds(table, release).tolist() == [[0, 0], [0, 0], [0, 3], [0, 3]]
    assert nested.bounds(table, knows(table, release), every_cell(table.schema)).outer.tolist() == [
        [0, 0],
        [0, 0],
        [0, 3],
        [0, 3],
    ]


def test_a_zero_that_the_release_shows_changes_nothing() -> None:
    """The pattern is within the clique AB, whose marginal is 0 there: the explicit bounds stay exact."""
    plain = dense(schema_of([2, 2, 2]), [3, 1, 0, 0, 2, 4, 1, 1])
    table = plain.with_zeros(StructuralZeros((((0, (0,)), (1, (1,))),)))
    cells, release = every_cell(table.schema), frontier("AB", "BC")
    informed, ignorant = (decomposable.bounds(t, knows(t, release), cells) for t in (table, plain))
    assert informed.exact.all()
    assert (informed.outer == ignorant.outer).all()


def test_a_zero_narrows_what_the_release_leaves_open() -> None:
    """Independent A and B with one impossible cell of four: the table is known."""
    plain = dense(schema_of([2, 2]), [0, 2, 1, 3])
    table, release = plain.with_zeros(StructuralZeros((((0, (0,)), (1, (0,))),))), all_ways(2, 1)
    cells = every_cell(table.schema)
    assert shuttle.bounds(plain, knows(plain, release), cells).outer_width.min() == 1
    known = knows(table, release)
    assert shuttle.bounds(table, known, cells).outer.tolist() == [[0, 0], [2, 2], [1, 1], [3, 3]]
    assert integer_program.bounds(table, known, cells).outer.tolist() == [
        [0, 0],
        [2, 2],
        [1, 1],
        [3, 3],
    ]
    assert decomposable.bounds(table, known, cells).outer.tolist() == [[0, 0], [1, 2], [0, 1], [3, 4]]
    assert (decomposable.bounds(table, known, cells).inner_width == 0).all()


def test_inner_bounds_fix_the_variables_of_a_zero_and_move_the_others() -> None:
    """One-way marginals of A, B, C, and A=0 B=0 impossible: AB is held fixed, C still moves."""
    plain = dense(schema_of([2, 2, 2]), [0, 0, 1, 2, 2, 1, 2, 2])
    table = plain.with_zeros(StructuralZeros((((0, (0,)), (1, (0,))),)))
    cells = every_cell(table.schema)
    bounds = nested.bounds(table, knows(table, all_ways(3, 1)), cells)
    assert (bounds.inner == decomposable.bounds(plain, knows(plain, frontier("AB", "C")), cells).inner).all()
    assert bounds.inner_width.tolist() == [0, 0, 3, 3, 3, 3, 4, 4]
