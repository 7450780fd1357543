"""Factors of symmetric matrices: as NumPy's where they have full rank, and without the rows that follow from others."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.bounds.factor_kernel import PANEL, STRIP, factorise, solved


def of_rank(rows: int, rank: int) -> np.ndarray:
    some = np.random.default_rng(rows).integers(-3, 4, (rows, rank)).astype(float)
    product: np.ndarray = some @ some.T
    return product


@pytest.mark.parametrize(
    "rows", [1, 2, 7, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL + 1, STRIP + PANEL + 1, 2 * STRIP + 67]
)
def test_the_factor_is_the_usual_one(rows: int) -> None:
    """Around the ends of panels and strips, even and odd."""
    matrix = of_rank(rows, rows + 5)
    factor = matrix.copy()
    factorise(factor, 1e-13)
    assert np.allclose(np.triu(factor), np.linalg.cholesky(matrix).T, rtol=1e-9, atol=1e-9)
    right = np.arange(rows) - 2.0
    assert np.allclose(matrix @ solved(factor, right), right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [5, PANEL + 3, STRIP + PANEL + 10])
def test_rows_that_follow_from_others_have_no_multiplier(rows: int) -> None:
    """Each third row is the sum of the two before it: the others are solved for as if it were not there."""
    some = np.random.default_rng(1).integers(-3, 4, (rows, rows + 5)).astype(float)
    follows = np.arange(rows) % 3 == 2
    some[2::3] = some[0 : rows - 2 : 3] + some[1 : rows - 1 : 3]
    factor = some @ some.T
    factorise(factor, 1e-9)
    assert (np.isinf(factor.diagonal()) == follows).all()
    right = some @ np.arange(rows + 5)
    kept = some[~follows] @ some[~follows].T
    factorise(kept, 1e-9)
    found = solved(factor, right)
    assert not found[follows].any()
    assert np.allclose(found[~follows], solved(kept, right[~follows]), rtol=1e-7, atol=1e-7)
