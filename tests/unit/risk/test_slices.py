"""Slices: every cell is in exactly one, none has too many, and each is the table of its cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model.table import Table
from sdc.risk.slices import Slice, slices
from tests.strategies import scattered, tables_and_knowledge


@given(tables_and_knowledge().map(lambda pair: pair[0]), hs.integers(1, 40))
def test_slices_are_a_partition_of_the_cells(table: Table, most: int) -> None:
    parts = slices(table, most)
    held = np.array([part.holds(table.codes, table.schema) for part in parts])
    assert (held.sum(axis=0) == 1).all()
    assert (held.sum(axis=1) <= most).all()
    for part, rows in zip(parts, held, strict=True):
        own = part.of(table)
        assert (own.codes == table.codes[rows]).all()
        assert (own.counts == table.counts[rows]).all()
        assert own.schema == table.schema
    assert parts == slices(table, most)


def test_the_whole_is_one_slice_that_copies_nothing() -> None:
    table = scattered()
    assert slices(table, len(table)) == [Slice()]
    assert Slice().of(table) is table


@pytest.mark.parametrize(("most", "variables"), [(140, 1), (20, 2)])
def test_as_few_variables_as_will_do(most: int, variables: int) -> None:
    """Of those with most categories."""
    table = scattered()
    parts = slices(table, most)
    assert {len(part.variables) for part in parts} == {variables}
    assert set(parts[0].variables) <= {0, 1, 2}
