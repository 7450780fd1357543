"""Every method against the listing of all feasible tables, by `tests.reference`; with structural zeros too."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as hs

from sdc.bounds import decomposable, dichotomous, integer_program, nested, shuttle
from sdc.bounds.method import cell_bounds, cheap_bounds, method_called, method_names
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.structural_zeros import NO_ZEROS, Pattern, StructuralZeros
from sdc.model.table import Codes, Table
from tests.levels import CASES, Case, Rng, cases, generators, random_case
from tests.strategies import (
    all_ways,
    assert_around,
    dense,
    dks_2x2x2x2,
    every_cell,
    frontier,
    knows,
    schema_of,
    sharp_ends,
    tables_and_knowledge,
)

METHODS = {name: method_called(name) for name in method_names()}
SHARP = ("auto", "reducible", "branch-and-bound", "integer-program", "exact", "enumeration")
EXACT = ("decomposable", "dichotomous", *SHARP)


# two patterns exclude together what neither does: A = 0 is impossible only because both B are
TOGETHER = dense(schema_of([2, 2]), [0, 0, 1, 2]), (((0, (0,)), (1, (0,))), ((0, (0,)), (1, (1,))))
# the pattern names B, of which the release says nothing
UNCOVERED = dense(schema_of([2, 2]), [1, 0, 1, 2]), (((0, (0,)), (1, (1,))),)


Example: TypeAlias = tuple[Table, Knowledge, Codes, Intervals]
"""With all cells and their sharp bounds."""


def flat(table: Table, known: Knowledge) -> Example:
    return table, known, every_cell(table.schema), sharp_ends(table, known)


def beside_a(table: Table, patterns: tuple[Pattern, ...]) -> Example:
    return flat(table, knows(table, frontier("A"), StructuralZeros(patterns)))


@hs.composite
def examples(draw: hs.DrawFn) -> Example:
    """Axes with levels or without, a release of any kind and perhaps structural zeros."""
    if draw(hs.booleans()):
        return flat(*draw(tables_and_knowledge(max_records=6, min_size=1)))
    of = draw(cases())
    return of.table, of.known, of.cells, of.sharp


def treats(method: str, known: Knowledge) -> bool:
    if method == "decomposable":
        return known.structure.decomposition is not None
    if method == "dichotomous":
        return bool(known.structure.covered) and dichotomous.is_treatable(known.reduced.release, known.reduced.schema)
    return method != "linear-program" or known.reduced.schema.levels.is_flat


REFUSED = r"is not decomposable|dichotomous takes|is a level of .*the linear program takes no"


@pytest.mark.parametrize("method", sorted(METHODS))
@example(case=beside_a(*TOGETHER))
@example(case=beside_a(*UNCOVERED))
@given(case=examples())
@settings(max_examples=800)
def test_every_method_agrees_with_the_listing(method: str, case: Example) -> None:
    """Exact methods are exact, and explicit bounds are where the release is all that is known."""
    table, known, cells, sharp = case
    if not treats(method, known):
        with pytest.raises(ReleaseError, match=REFUSED):
            METHODS[method](table, known, cells)
        return
    bounds = METHODS[method](table, known, cells)
    assert np.array_equal(bounds.cells, cells)
    assert_around(bounds, sharp)
    assert not bounds.outer[known.impossible(cells)].any()
    assert bounds.exact.all() or method not in EXACT or method == "decomposable"
    assert bounds.exact.all() or method != "decomposable" or not known.structure.is_release_alone


def check(of: Case, cells: Codes, bounds: CellBounds) -> None:
    assert np.array_equal(bounds.cells, cells), bounds.method
    assert_around(bounds, of.sharp_at(cells))


@given(cases(), generators())
@settings(max_examples=CASES)
def test_cheap_bounds_agree_with_the_listing_at_any_cells(of: Case, rng: Rng) -> None:
    """Some of the cells, in any order: those of one marginal cell need not be asked together."""
    some = of.cells[rng.permutation(len(of.cells))[: rng.integers(1, len(of.cells) + 1)]]
    bounds = cheap_bounds(CellMarginals(of.table, some), of.known)
    check(of, some, bounds)
    assert bounds.exact.all() or of.known.structure.decomposition is None or not of.known.structure.is_release_alone


def test_cases_are_of_many_kinds() -> None:
    """The levels matter in them, and many cells move."""
    rng = np.random.default_rng(2)
    drawn = [of for of in (random_case(rng) for _ in range(100)) if not of.known.reduced.schema.levels.is_flat]
    assert sum(bool((of.sharp[:, 0] < of.sharp[:, 1]).any()) for of in drawn) > 20


@pytest.mark.parametrize("name", SHARP)
def test_the_integrality_gap_is_closed(name: str) -> None:
    """[DKS] section 4: linear programming leaves [0, 1.67]; the two-way marginals have one integer table."""
    table = dks_2x2x2x2()
    cells = every_cell(table.schema)
    bounds = METHODS[name](table, knows(table, all_ways(4, 2)), cells)
    assert bounds.exact.all()
    assert (bounds.outer == table.count_at(cells)[:, None]).all()


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
