"""What is chosen and left out on axes with levels against all tables that agree, by `tests.reference`."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.method import cell_bounds, cheap_bounds
from sdc.model.cell_bounds import CellBounds
from sdc.model.marginal import CellMarginals
from sdc.model.table import Codes
from tests.levels import CASES, Case, Rng, cases, generators, random_case
from tests.strategies import assert_around


def check(of: Case, cells: Codes, bounds: CellBounds) -> None:
    assert np.array_equal(bounds.cells, cells), bounds.method
    assert_around(bounds, of.sharp_at(cells))


@given(cases())
@settings(max_examples=CASES // 5)
def test_what_is_chosen_for_larger_tables_agrees_with_the_judge(of: Case) -> None:
    """The linear program where a component has no levels, else collapse."""
    with patch("sdc.bounds.method.is_small", lambda schema: False):
        check(of, of.cells, cell_bounds(of.table, of.known, of.cells))


@given(cases(), hs.integers(1, 5))
@settings(max_examples=CASES)
def test_collapse_to_a_few_variables_agrees_with_the_judge(of: Case, most: int) -> None:
    """Of levels that overlap perhaps both, and not what both tell."""
    with patch("sdc.bounds.collapse.MAX_VARIABLES", most), patch("sdc.bounds.collapse.MAX_DICHOTOMOUS", most):
        check(of, of.cells, cell_bounds(of.table, of.known, of.cells, "collapse"))


@given(cases(), generators())
@settings(max_examples=CASES)
def test_cheap_bounds_agree_with_the_judge_at_any_cells(of: Case, rng: Rng) -> None:
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
