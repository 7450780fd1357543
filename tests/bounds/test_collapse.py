"""The shuttle on the table collapsed around a cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.bounds import collapse, shuttle
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from tests.strategies import all_ways, czech, every_cell, frontier, schema_of, tables_and_releases


@given(tables_and_releases())
@settings(max_examples=200)
def test_contains_the_shuttle_and_equals_it_on_two_categories(example: tuple[Table, Release]) -> None:
    table, release = example
    cells = every_cell(table.schema)
    collapsed, full = collapse.bounds(table, release, cells), shuttle.bounds(table, release, cells)
    assert (collapsed.outer[:, 0] <= full.outer[:, 0]).all()
    assert (collapsed.outer[:, 1] >= full.outer[:, 1]).all()
    if set(table.schema.sizes) == {2}:
        assert (collapsed.outer == full.outer).all()


@pytest.mark.parametrize("variables", range(1, 12))
@pytest.mark.parametrize("scale", [1, 1 << 40])
def test_tiles_of_every_shape_against_the_plain_shuttle(variables: int, scale: int) -> None:
    """Tiles filled in part, counts of 32 and of 64 bits."""
    codes = np.arange(4000)[:, None] * np.arange(3, 3 + variables) // 7 % 5 // 3
    table = Table.of(_binary(variables), codes, np.full(4000, scale))
    release = all_ways(variables, min(2, variables))
    cells = table.codes[::29]
    collapsed, full = collapse.bounds(table, release, cells), shuttle.bounds(table, release, cells)
    assert (collapsed.outer == full.outer).all()


def _binary(variables: int) -> Schema:
    return Schema(tuple(Variable(f"V{k}", ("0", "1")) for k in range(variables)))


def test_rest_of_a_single_category_is_empty() -> None:
    table = Table.of(schema_of([1, 2, 2]), np.array([[0, 0, 0], [0, 1, 1]]), np.array([3, 4]))
    bounds = collapse.bounds(table, frontier("AB", "AC"), every_cell(table.schema))
    assert bounds.outer.tolist() == [[0, 3], [0, 3], [0, 3], [1, 4]]


def test_contradiction_is_refused() -> None:
    """2 + 2 = 5, alone and in the midst of a table of six variables."""
    with pytest.raises(ReleaseError, match="contradict each other"):
        collapse.propagate(np.array([2, 2, 5]), np.ones(3, np.bool_), 5)
    values, public = np.zeros(3**6, np.int64), np.zeros(3**6, np.bool_)
    values[[0, 1, 2, 728]], public[[0, 1, 2, 728]] = [2, 2, 5, 9], True
    with pytest.raises(ReleaseError, match="contradict each other"):
        collapse.propagate(values, public, 9)


def test_too_many_variables_are_refused() -> None:
    table = Table.of(_binary(16), np.zeros((1, 16), np.int64))
    with pytest.raises(ReleaseError, match="covers 16 variables, and collapse takes at most 15"):
        collapse.bounds(table, all_ways(16, 1), table.codes)
    assert len(collapse.bounds(table, all_ways(4, 2), table.codes)) == 1


def test_czech() -> None:
    table = czech()
    bounds = collapse.bounds(table, all_ways(6, 5), table.codes[table.at_risk(2)])
    assert bounds.outer.tolist() == [[0, 1], [2, 3], [1, 2]]
