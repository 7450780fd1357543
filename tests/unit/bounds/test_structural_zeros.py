"""Bounds of an informed intruder: every method against all tables that agree and have the structural zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from sdc.model.structural_zeros import NO_ZEROS, Pattern, StructuralZeros
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


def feasible_tables(table: Table, known: Knowledge) -> Iterator[Array]:
    """Every dense table with the released marginals and the structural zeros, cell after cell."""
    cells = every_cell(table.schema)
    possible = ~known.impossible(cells)
    keys = [[tuple(cell[list(st.members(element))].tolist()) for cell in cells] for element in known.release.frontier]
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


def sharp_bounds(table: Table, known: Knowledge) -> Intervals:
    """(cells, 2) the range of every cell over all of them."""
    tables = np.stack(list(feasible_tables(table, known)))
    return np.stack([tables.min(axis=0), tables.max(axis=0)], axis=1)


@hs.composite
def cases(draw: hs.DrawFn, decomposable_only: bool = False) -> tuple[Table, Knowledge]:
    """A small table, structural zeros and a release of any kind, with not too many feasible tables to list."""
    table = draw(small_tables(max_records=5, max_cells=16, min_size=1))
    kinds = decomposable_releases if decomposable_only else releases
    zeros = draw(structural_zeros(table))
    known = knows(table, draw(kinds(len(table.schema))), zeros)
    assume_few(table, known)
    return table, known


def assume_few(table: Table, known: Knowledge) -> None:
    # 13 records in 12 cells of which only the total is known are 2.5 million tables, minutes of a processor
    assume(sum(1 for _ in islice(feasible_tables(table, known), MOST_TABLES + 1)) <= MOST_TABLES)


def assert_sandwich(table: Table, known: Knowledge, method: str) -> None:
    cells = every_cell(table.schema)
    sharp, bounds = sharp_bounds(table, known), cell_bounds(table, known, cells, method)
    assert (bounds.outer[:, 0] <= sharp[:, 0]).all()
    assert (bounds.outer[:, 1] >= sharp[:, 1]).all()
    assert (bounds.inner[:, 0] >= sharp[:, 0]).all()
    assert (bounds.inner[:, 1] <= sharp[:, 1]).all()


def case_of(counts: list[int], *patterns: Pattern) -> tuple[Table, Knowledge]:
    """Two by two cells, of which A is released."""
    table = dense(schema_of([2, 2]), counts)
    return table, knows(table, frontier("A"), StructuralZeros(patterns))


# two patterns exclude together what neither does: A=0 is impossible only because both B are
TOGETHER = case_of([0, 0, 1, 2], ((0, (0,)), (1, (0,))), ((0, (0,)), (1, (1,))))
# the pattern names B, of which the release says nothing
UNCOVERED = case_of([1, 0, 1, 2], ((0, (0,)), (1, (1,))))


@pytest.mark.parametrize("method", [name for name in method_names() if name not in ("decomposable", "dichotomous")])
@example(case=TOGETHER)
@example(case=UNCOVERED)
@given(case=cases())
def test_every_method_contains_and_is_contained(method: str, case: tuple[Table, Knowledge]) -> None:
    assert_sandwich(*case, method)


@pytest.mark.parametrize("method", ["auto", "nested", "shuttle", "integer-program"])
@example(case=UNCOVERED)
@given(case=cases())
def test_an_impossible_cell_is_empty(method: str, case: tuple[Table, Knowledge]) -> None:
    table, known = case
    cells = every_cell(table.schema)
    assert (cell_bounds(table, known, cells[known.impossible(cells)], method).outer == 0).all()


@pytest.mark.parametrize("method", [name for name in method_names() if name not in ("decomposable", "dichotomous")])
@settings(max_examples=15)
@given(case=cases())
def test_what_is_impossible_is_what_is_known(method: str, case: tuple[Table, Knowledge]) -> None:
    """Whatever was asked of the same table before: with the structural zeros, without, and with them again."""
    table, known = case
    ignorant, cells = replace(known, zeros=NO_ZEROS), every_cell(table.schema)
    assume_few(table, ignorant)
    first = cell_bounds(table, known, cells, method)
    assert_sandwich(table, ignorant, method)
    again = cell_bounds(table, known, cells, method)
    assert (first.outer == again.outer).all()
    assert (first.inner == again.inner).all()


@example(case=UNCOVERED)
@given(case=cases(decomposable_only=True))
def test_explicit_bounds_are_outer(case: tuple[Table, Knowledge]) -> None:
    assert_sandwich(*case, "decomposable")


@given(cases())
def test_the_integer_program_is_sharp(case: tuple[Table, Knowledge]) -> None:
    table, known = case
    bounds = integer_program.bounds(table, known, every_cell(table.schema))
    assert bounds.exact.all()
    assert (bounds.outer == sharp_bounds(table, known)).all()


def test_the_marginal_of_two_patterns_together_says_less() -> None:
    table, known = TOGETHER
    ends = [[0, 0], [0, 0], [0, 3], [0, 3]]
    assert sharp_bounds(table, known).tolist() == ends
    assert nested.bounds(table, known, every_cell(table.schema)).outer.tolist() == ends


def test_a_zero_that_the_release_shows_changes_nothing() -> None:
    """The pattern is within the clique AB, whose marginal is 0 there: the explicit bounds stay exact."""
    table, zeros = dense(schema_of([2, 2, 2]), [3, 1, 0, 0, 2, 4, 1, 1]), StructuralZeros((((0, (0,)), (1, (1,))),))
    cells, release = every_cell(table.schema), frontier("AB", "BC")
    informed, ignorant = (decomposable.bounds(table, knows(table, release, z), cells) for z in (zeros, NO_ZEROS))
    assert informed.exact.all()
    assert (informed.outer == ignorant.outer).all()


def test_a_zero_narrows_what_the_release_leaves_open() -> None:
    """Independent A and B with one impossible cell of four: the table is known."""
    table, release = dense(schema_of([2, 2]), [0, 2, 1, 3]), all_ways(2, 1)
    cells = every_cell(table.schema)
    assert shuttle.bounds(table, knows(table, release), cells).outer_width.min() == 1
    known = knows(table, release, StructuralZeros((((0, (0,)), (1, (0,))),)))
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
    table, zeros = dense(schema_of([2, 2, 2]), [0, 0, 1, 2, 2, 1, 2, 2]), StructuralZeros((((0, (0,)), (1, (0,))),))
    cells = every_cell(table.schema)
    bounds = nested.bounds(table, knows(table, all_ways(3, 1), zeros), cells)
    assert (bounds.inner == decomposable.bounds(table, knows(table, frontier("AB", "C")), cells).inner).all()
    assert bounds.inner_width.tolist() == [0, 0, 3, 3, 3, 3, 4, 4]
