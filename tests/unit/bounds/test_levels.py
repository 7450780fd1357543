"""Every method on axes with levels against all tables that agree, by `tests.reference`."""

from __future__ import annotations

from collections import Counter
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import dichotomous
from sdc.bounds.method import cell_bounds, cheap_bounds, method_names
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.marginal import CellMarginals
from sdc.model.table import Codes
from tests.levels import CASES, Case, Rng, cases, generators, random_case
from tests.strategies import assert_around

SOLVERS = ("auto", "exact", "integer-program", "linear-program")
EXACT = ("dichotomous", "enumeration", "reducible", "branch-and-bound", "exact", "integer-program", "auto")


def check(of: Case, cells: Codes, bounds: CellBounds) -> None:
    assert np.array_equal(bounds.cells, cells), bounds.method
    assert_around(bounds, of.sharp_at(cells))


def treats(method: str, of: Case) -> bool:
    """Whether the method takes such a case; all take most."""
    if method == "decomposable":
        return of.known.structure.decomposition is not None
    if method == "dichotomous":
        return dichotomous.is_treatable(of.known.reduced.release, of.known.reduced.schema)
    return method != "linear-program" or of.known.reduced.schema.levels.is_flat


def held(of: Case, method: str, cells: Codes) -> bool:
    """The method held against the judge; whether it treats such a case."""
    if not treats(method, of):
        with pytest.raises(
            ReleaseError, match=r"is not decomposable|dichotomous takes|is a level of .*the linear program takes no"
        ):
            cell_bounds(of.table, of.known, cells, method)
        return False
    bounds = cell_bounds(of.table, of.known, cells, method)
    check(of, cells, bounds)
    explicit = method == "decomposable" and of.known.structure.is_release_alone
    assert bounds.exact.all() or not (method in EXACT or explicit), method
    return True


@given(cases())
@settings(max_examples=CASES)
def test_methods_agree_with_the_judge(of: Case) -> None:
    for method in sorted(set(method_names()) - set(SOLVERS)):
        held(of, method, of.cells)


@given(cases())
@settings(max_examples=CASES // 5)
def test_solvers_agree_with_the_judge(of: Case) -> None:
    for method in SOLVERS:
        held(of, method, of.cells)


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


@cache
def hundred_cases() -> list[Case]:
    rng = np.random.default_rng(2)
    return [random_case(rng) for _ in range(100)]


@pytest.mark.parametrize("method", sorted(set(method_names()) - set(SOLVERS)))
def test_cases_are_of_many_kinds(method: str) -> None:
    """Methods are tried where the levels matter: of such cases each treats some, and some move."""
    seen = Counter[str]()
    for of in hundred_cases():
        told = of.known.reduced.schema
        seen["treated"] += treats(method, of) and not told.levels.is_flat
        seen["moves"] += bool((of.sharp[:, 0] < of.sharp[:, 1]).any()) and not told.levels.is_flat
    assert seen["moves"] > 20
    assert seen["treated"] > 20 or method == "dichotomous"
