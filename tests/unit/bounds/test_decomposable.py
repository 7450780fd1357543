"""Explicit bounds ([DKS] theorem 1)."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.bounds import decomposable
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from tests.strategies import all_ways, czech, every_cell, frontier, knows, schema_of


def test_most_parsimonious_release_of_the_most_dangerous_sub_table() -> None:
    """[KDSF] table 3: w* of ABCDF is 3, in the data's letters."""
    table = czech()
    bounds = decomposable.bounds(table, knows(table, frontier("ABCDF", "E")), table.codes[table.at_risk(2)])
    assert bounds.outer_width.min() == 3
    assert bounds.exact.all()


def test_an_uncovered_variable_frees_the_lower_bound() -> None:
    table = Table.of(schema_of([2, 2, 1]), np.array([[0, 0, 0]]), np.array([5]))
    cell = np.zeros((1, 3), np.uint16)
    assert decomposable.bounds(table, knows(table, frontier("A", "B")), cell).outer.tolist() == [[5, 5]]
    assert decomposable.bounds(table, knows(table, frontier("A")), cell).outer.tolist() == [[0, 5]]
    assert decomposable.bounds(table, knows(table, Release.of([])), cell).outer.tolist() == [[0, 5]]


def test_more_cells_than_64_bits_can_number() -> None:
    wide = Schema(tuple(Variable(f"V{k}", tuple(map(str, range(400)))) for k in range(56)))
    codes = np.arange(560).reshape(10, 56) % 400
    table = Table.of(wide, codes)
    bounds = decomposable.bounds(
        table, knows(table, Release.of([(1 << 40) - 1, ((1 << 56) - 1) ^ ((1 << 20) - 1)])), codes
    )
    assert bounds.outer.tolist() == [[1, 1]] * 10


def test_other_releases_are_refused() -> None:
    table = czech()
    with pytest.raises(ReleaseError, match=r"frontier A\*B, A\*C, B\*C, .*, \.\.\. is not decomposable; choose"):
        decomposable.bounds(table, knows(table, all_ways(6, 2)), every_cell(table.schema))
