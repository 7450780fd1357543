"""Bounds of an intruder who knows of structural zeros; `test_agreement` has them for every method."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from sdc.bounds import decomposable, integer_program, nested, shuttle
from sdc.bounds.method import cell_bounds, method_names
from sdc.model.knowledge import Knowledge
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from tests.strategies import (
    all_ways,
    assert_around,
    dense,
    every_cell,
    frontier,
    knows,
    schema_of,
    sharp_ends,
    tables_and_knowledge,
)


@pytest.mark.parametrize("method", [name for name in method_names() if name not in ("decomposable", "dichotomous")])
@settings(max_examples=15)
@given(case=tables_and_knowledge(max_records=5, min_size=1))
def test_what_is_impossible_is_what_is_known(method: str, case: tuple[Table, Knowledge]) -> None:
    """Whatever was asked of the same table before: with the structural zeros, without, and with them again."""
    table, known = case
    ignorant, cells = replace(known, zeros=NO_ZEROS), every_cell(table.schema)
    first = cell_bounds(table, known, cells, method)
    assert_around(cell_bounds(table, ignorant, cells, method), sharp_ends(table, ignorant))
    again = cell_bounds(table, known, cells, method)
    assert (first.outer == again.outer).all()
    assert (first.inner == again.inner).all()


def test_the_marginal_of_two_patterns_together_says_less() -> None:
    table = dense(schema_of([2, 2]), [0, 0, 1, 2])
    known = knows(table, frontier("A"), StructuralZeros((((0, (0,)), (1, (0,))), ((0, (0,)), (1, (1,))))))
    ends = [[0, 0], [0, 0], [0, 3], [0, 3]]
    assert sharp_ends(table, known).tolist() == ends
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
    assert integer_program.bounds(table, known, cells).exact.all()
    assert decomposable.bounds(table, known, cells).outer.tolist() == [[0, 0], [1, 2], [0, 1], [3, 4]]
    assert (decomposable.bounds(table, known, cells).inner_width == 0).all()


def test_inner_bounds_fix_the_variables_of_a_zero_and_move_the_others() -> None:
    """One-way marginals of A, B, C, and A=0 B=0 impossible: AB is held fixed, C still moves."""
    table, zeros = dense(schema_of([2, 2, 2]), [0, 0, 1, 2, 2, 1, 2, 2]), StructuralZeros((((0, (0,)), (1, (0,))),))
    cells = every_cell(table.schema)
    bounds = nested.bounds(table, knows(table, all_ways(3, 1), zeros), cells)
    assert (bounds.inner == decomposable.bounds(table, knows(table, frontier("AB", "C")), cells).inner).all()
    assert bounds.inner_width.tolist() == [0, 0, 3, 3, 3, 3, 4, 4]
