"""[DKS] proposition 1: dichotomous tables with all (k-1)-way marginals have one degree of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import dichotomous
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from tests.strategies import all_ways, czech, dense, every_cell, frontier, knows, listed, schema_of, sharp_ends


def test_czech_widths() -> None:
    """REFERENCE 2: all six five-way marginals leave 2 tables and bounds [0,1], [2,3], [1,2]; all widths are 1."""
    table = czech()
    bounds = dichotomous.bounds(table, knows(table, all_ways(6, 5)), table.codes[table.at_risk(2)])
    assert bounds.exact.all()
    assert bounds.outer.tolist() == [[0, 1], [2, 3], [1, 2]]
    every = dichotomous.bounds(table, knows(table, all_ways(6, 5)), every_cell(table.schema))
    assert (every.outer_width == 1).all()


@given(hs.integers(2, 5).flatmap(lambda k: hs.lists(hs.integers(0, 4), min_size=2**k, max_size=2**k)))
@settings(max_examples=100)
def test_all_widths_are_one_less_than_there_are_tables(counts: list[int]) -> None:
    variables = len(counts).bit_length() - 1
    table = dense(schema_of([2] * variables), counts)
    known = knows(table, all_ways(variables, variables - 1))
    bounds = dichotomous.bounds(table, known, every_cell(table.schema))
    assert (bounds.outer == sharp_ends(table, known)).all()
    assert (bounds.outer_width == len(listed(table, known)) - 1).all()


def test_covered_variables_are_what_counts() -> None:
    """C is in no sub-table and D has one category: AB with its one-way marginals, lower bounds 0 because of C."""
    table = dense(schema_of([2, 2, 3, 1]), [4, 0, 0, 1, 0, 0, 1, 0, 0, 2, 0, 1])
    known = knows(table, frontier("A", "B", "D"))
    bounds = dichotomous.bounds(table, known, every_cell(table.schema))
    assert bounds.exact.all()
    assert (bounds.outer == sharp_ends(table, known)).all()


def test_forty_variables() -> None:
    schema = Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(40)))
    table = Table.of(schema, np.eye(40, dtype=np.int64))
    bounds = dichotomous.bounds(table, knows(table, all_ways(40, 39)), table.codes[:3])
    assert (bounds.outer == 1).all()


def test_a_structural_zero_fixes_the_table() -> None:
    """Without it the four cells of even parity could each move by one."""
    table = dense(schema_of([2, 2, 2]), [0, 1, 2, 0, 1, 0, 0, 1])
    release, cells = all_ways(3, 2), every_cell(schema_of([2, 2, 2]))
    free = dichotomous.bounds(table, knows(table, release), cells)
    assert (free.outer_width == 1).all()
    known = knows(table, release, StructuralZeros((((0, (0,)), (1, (0,)), (2, (0,))),)))
    bounds = dichotomous.bounds(table, known, cells)
    assert (bounds.outer == table.count_at(cells)[:, None]).all()
    assert len(listed(table, known)) == 1


@pytest.mark.parametrize(
    ("sizes", "release"),
    [
        ([2, 2, 2], frontier("AB", "BC")),
        ([2, 2, 2], frontier("ABC")),
        ([2, 2, 3], all_ways(3, 2)),
        ([2, 2], frontier("A")),
        ([2, 2], Release.of([])),
    ],
)
def test_other_releases_are_refused(sizes: list[int], release: Release) -> None:
    table = Table.of(schema_of(sizes), np.zeros((1, len(sizes)), np.int64))
    with pytest.raises(ReleaseError, match=r"dichotomous takes 2 categories each .* choose the method auto"):
        dichotomous.bounds(table, knows(table, release), table.codes)
