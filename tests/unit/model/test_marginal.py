"""Marginals at fixed cells: the same as counting them anew, remembered, and bounded."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.marginal import CellMarginals
from sdc.model.table import Table
from tests.strategies import czech, schema_of


def test_sub_tables_too_large_for_a_dense_count() -> None:
    schema = schema_of([100, 100, 100, 100, 2])
    codes = np.array([[1, 2, 3, 4, 0], [1, 2, 3, 4, 1], [99, 99, 99, 99, 1]])
    assert CellMarginals(Table.of(schema, codes), codes).at(st.of(range(4))).tolist() == [2, 2, 1]


def test_answers_are_remembered_and_the_oldest_forgotten() -> None:
    table = czech()
    marginals = CellMarginals(table, table.codes, max_bytes=2 * 8 * len(table))
    first = marginals.at(0b11)
    marginals.at(0b110)
    assert marginals.at(0b11) is first
    marginals.at(0b111)
    assert marginals.at(0b11) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_refusals() -> None:
    table = czech()
    with pytest.raises(ReleaseError, match="variable number 7; the table has 6, numbered from 0: A, B, C, D, E, F"):
        CellMarginals(table, table.codes).at(1 << 7)
    with pytest.raises(InputError, match="outside the table"):
        CellMarginals(table, np.array([[0, 0, 0, 0, 0, -1]]))
    with pytest.raises(InputError, match=r"shape \(6,\)"):
        CellMarginals(table, np.zeros(6, np.uint16))
