"""Exact integer bounds by search, alone and before the integer program."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.bounds import branch_and_bound, exact, integer_program
from sdc.feasible import depth_first as feasible_search
from sdc.feasible.equations import MarginalEquations
from sdc.model.errors import ReleaseError
from sdc.model.table import Table
from tests.strategies import ORDERED_60, all_ways, czech, every_cell, frontier, knows, nested_in, schema_of


def test_without_steps_only_propagation_is_claimed() -> None:
    table = czech()
    cells = every_cell(table.schema)
    sharp = branch_and_bound.bounds(table, knows(table, all_ways(6, 4)), cells)
    bounds = branch_and_bound.bounds_within(0, table, knows(table, all_ways(6, 4)), cells)
    assert not bounds.exact.all()
    assert (bounds.inner == bounds.counts[:, None]).all()
    assert nested_in(sharp.outer, bounds.outer)


def test_more_steps_never_lose() -> None:
    """Outer bounds shrink to the sharp ones and inner ones grow to them."""
    table, release = czech(), all_ways(6, 2)
    cells = table.codes[table.at_risk(2)]
    before = branch_and_bound.bounds_within(0, table, knows(table, release), cells)
    for steps in (1 << 10, 1 << 14, 1 << 18, 1 << 22):
        bounds = branch_and_bound.bounds_within(steps, table, knows(table, release), cells)
        assert (bounds.outer_width <= before.outer_width).all()
        assert (bounds.inner_width >= before.inner_width).all()
        before = bounds
    assert before.outer[:, 1].tolist() == [95, 95, 103]


def test_the_same_again() -> None:
    table = czech()
    first, second = (
        branch_and_bound.bounds_within(1 << 12, table, knows(table, all_ways(6, 2)), table.codes) for _ in range(2)
    )
    assert (first.outer == second.outer).all()
    assert (first.inner == second.inner).all()


def test_tables_found_are_checked_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarginalEquations, "holds", lambda self, dense: False)
    with pytest.raises(RuntimeError, match="does not agree with the released marginals"):
        branch_and_bound.bounds(czech(), knows(czech(), ORDERED_60), czech().codes[:1])


def test_large_tables_are_refused() -> None:
    table = Table.of(schema_of([13, 13, 13]), np.zeros((1, 3), np.int64))
    with pytest.raises(ReleaseError, match="2197 cells, and a search for feasible tables takes at most 2048"):
        branch_and_bound.bounds(table, knows(table, frontier("AB", "BC", "AC")), table.codes)


# exact: what the search leaves open goes to the integer program


def test_exact_asks_the_solver_for_open_cells_only(monkeypatch: pytest.MonkeyPatch) -> None:
    table, asked = czech(), []
    solve = integer_program.search

    def watched(table, release, cells):  # type: ignore[no-untyped-def]
        asked.append(len(cells))
        return solve(table, release, cells)

    monkeypatch.setattr(integer_program, "search", watched)
    assert exact.bounds(table, knows(table, ORDERED_60), table.codes).exact.all()
    assert asked == []
    monkeypatch.setattr(exact, "STEPS", 1 << 10)
    cells = table.codes[table.at_risk(2)]
    bounds = exact.bounds(table, knows(table, all_ways(6, 2)), cells)
    assert bounds.exact.all()
    assert bounds.outer[:, 1].tolist() == [95, 95, 103]
    assert bounds.method == "branch-and-bound + integer-program"
    assert len(asked) == 1


def test_exact_beyond_the_search() -> None:
    """Its cells are too many for the search, not for the solver."""
    table = Table.of(schema_of([13, 13, 13]), np.zeros((1, 3), np.int64))
    bounds = exact.bounds(table, knows(table, frontier("AB", "BC", "AC")), table.codes)
    assert table.schema.cells > feasible_search.MAX_CELLS
    assert bounds.exact.all()
