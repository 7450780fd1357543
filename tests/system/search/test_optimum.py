"""The method optimum beside a search through every down-set of 200 random tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.model.table import Table
from tests.unit.search.test_optimum import judged, sparse_tables


@pytest.mark.slow
@given(sparse_tables(4, 5), some.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_no_down_set_of_four_variables_is_better(table: Table, min_width: int) -> None:
    judged(table, min(min_width, table.total))


@pytest.mark.slow
@given(sparse_tables(5, 4), some.integers(1, 2))
@settings(max_examples=50, deadline=None)
def test_no_down_set_of_five_variables_is_better(table: Table, min_width: int) -> None:
    judged(table, min(min_width, table.total))
