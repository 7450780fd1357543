"""The generalised shuttle ([DKS] section 4)."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.bounds import shuttle
from sdc.model.errors import ReleaseError
from sdc.model.table import Table
from tests.strategies import all_ways, dense_counts, dks_2x2x2x2, every_cell, knows, schema_of


def test_super_cells_are_products_of_non_empty_subsets() -> None:
    assert shuttle.super_cells(schema_of([2, 3, 4])) == 3 * 7 * 15


def test_super_cell_bounds_hold_the_true_sums() -> None:
    table = dks_2x2x2x2()
    lower, upper = shuttle.super_cell_bounds(table, knows(table, all_ways(4, 2)))
    counts = dense_counts(table)
    assert lower[2, 2, 2, 2] == upper[2, 2, 2, 2] == 5
    assert (lower[2, 2] == upper[2, 2]).all()
    assert lower[0, 1, 2, 0] <= counts[0, 1, :, 0].sum() <= upper[0, 1, 2, 0]


def test_fixed_point_does_not_reach_the_integers() -> None:
    """[DKS] section 4: the bounds contain the sharp ones; here only one integer table is left."""
    table = dks_2x2x2x2()
    bounds = shuttle.bounds(table, knows(table, all_ways(4, 2)), every_cell(table.schema))
    assert not bounds.exact.all()


def test_contradiction_is_refused() -> None:
    lower, upper = np.zeros(3, np.int64), np.array([1, 1, 5])
    lower[2] = 5
    with pytest.raises(ReleaseError, match="contradict each other"):
        shuttle.propagate(lower, upper)


@pytest.mark.parametrize("scale", [10**4, 10**7, 10**12])
def test_sweeps_grow_with_the_bits(scale: int) -> None:
    """With four cells told besides the marginals bounds come towards each other record by record."""
    rng, schema = np.random.default_rng(10), schema_of([3, 3, 3, 3])
    cells, small = every_cell(schema), rng.random(81) < 0.4
    table = Table.of(schema, cells, np.where(small, rng.integers(0, 3, 81), rng.integers(scale // 2, scale, 81)))
    lower, upper = shuttle.super_cell_bounds(table, knows(table, all_ways(4, 3)))
    told = {42: 11, 16: 0, 43: 0, 15: table.count_at(cells[15:16])[0] - 7}
    for cell, value in told.items():
        place = tuple((1 << cells[cell].astype(np.int64)) - 1)
        lower[place] = upper[place] = value
    assert shuttle.propagate(lower, upper) <= 16 * (table.total + 1).bit_length()


@pytest.mark.parametrize(("sizes", "needed"), [([8, 8, 8], "16581375 super-cells"), ([13, 2], "13 categories")])
def test_large_tables_are_refused(sizes: list[int], needed: str) -> None:
    table = Table.of(schema_of(sizes), np.zeros((1, len(sizes)), np.int64))
    with pytest.raises(ReleaseError, match=f"{needed}.* choose the method collapse"):
        shuttle.bounds(table, knows(table, all_ways(len(sizes), 1)), table.codes)
