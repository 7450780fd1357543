"""Exact integer bounds, and why rounding a linear program is not enough."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as hs

from sdc.bounds import integer_program
from sdc.feasible.equations import MarginalEquations
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.solve import integer as integer_system
from sdc.solve.integer import IntegerSystem
from tests.profiles import scaled
from tests.reference import TooManyTablesError
from tests.strategies import (
    all_ways,
    czech,
    dks_2x2x2x2,
    every_cell,
    frontier,
    knows,
    listed,
    schema_of,
    tables_and_knowledge,
)


def test_an_unfinished_proof_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    table = czech()
    cells = table.codes[table.at_risk(2)]
    sharp = integer_program.bounds(table, knows(table, all_ways(6, 2)), cells)
    assert sharp.outer[:, 1].tolist() == [95, 95, 103]
    monkeypatch.setattr(integer_system, "EFFORT", 1e-9)
    integer_program.program_of.cache_clear()
    bounds = integer_program.bounds(table, knows(table, all_ways(6, 2)), cells)
    assert not bounds.exact.any()
    assert (bounds.outer[:, 1] >= sharp.outer[:, 1]).all()
    assert (bounds.inner[:, 1] <= sharp.inner[:, 1]).all()


def test_the_same_again() -> None:
    table = czech()
    cells = table.codes[:: len(table) // scaled(len(table), fewest=8)]
    first, second = (integer_program.bounds(table, knows(table, all_ways(6, 3)), cells) for _ in range(2))
    assert (first.outer == second.outer).all()
    assert (first.inner == second.inner).all()


class Proposing:
    """A solver that proposes these counts, whatever it is asked."""

    def __init__(self, counts: npt.NDArray[np.int64]) -> None:
        self.counts = iter(counts.tolist())

    def value(self, variable: object) -> int:
        return int(next(self.counts))


@pytest.mark.parametrize(
    ("ways", "changes"), [(2, {0: 0, 3: 2}), (0, {0: 2, 1: -1})], ids=["another sum", "below zero"]
)
def test_solutions_are_checked_in_integers(ways: int, changes: dict[int, int]) -> None:
    table = dks_2x2x2x2()
    equations = MarginalEquations.of(table, knows(table, all_ways(4, ways) if ways else Release.of([])))
    nothing, total = np.zeros(16, np.int64), np.full(16, table.total)
    system = IntegerSystem(nothing, total, equations.sums, equations.truth)
    assert (system._checked(Proposing(equations.truth)) == equations.truth).all()
    wrong = equations.truth.copy()
    wrong[list(changes)] = list(changes.values())
    with pytest.raises(RuntimeError, match="do not agree with what is known"):
        system._checked(Proposing(wrong))


def test_a_solver_that_finds_no_table_is_a_fault() -> None:
    table = czech()
    equations = MarginalEquations.of(table, knows(table, all_ways(6, 2)))
    low = equations.sums.low.copy()
    low[0] += 1 << 20  # one sum taken for another, as a fault
    system = IntegerSystem(
        0 * equations.truth,
        0 * equations.truth + table.total,
        replace(equations.sums, low=low, high=np.maximum(low, equations.sums.high)),
        equations.truth,
    )
    with pytest.raises(RuntimeError, match="the solver answers INFEASIBLE though there is a solution"):
        system.farthest(0, 1)


def test_a_count_goes_no_farther_than_is_asked_for() -> None:
    """Where it can go so far: farther its end is proven as without."""
    table = czech()
    equations = MarginalEquations.of(table, knows(table, all_ways(6, 2)))
    system = IntegerSystem(0 * equations.truth, 0 * equations.truth + table.total, equations.sums, equations.truth)
    for place in (0, 27, 39):
        whole = system.farthest(place, 1)
        for far in (1, 20, 10**6):
            some = system.farthest(place, 1, far=far)
            assert whole.table is not None
            assert some.table is not None
            most, found = whole.table[place] - equations.truth[place], some.table[place] - equations.truth[place]
            assert min(far, most) <= found <= most
            assert some.proven >= whole.proven
            assert far > 1 or (found < most and some.steps < whole.steps)


def test_what_is_near_goes_as_far_as_is_asked_for() -> None:
    """Exactly so far; of rows and columns, whose vertices are whole numbers, wherever any table goes so far."""
    sizes = schema_of([4, 6])
    counts = np.random.default_rng(3).integers(0, 5, 24)
    table = Table.of(sizes, every_cell(sizes), counts)
    equations = MarginalEquations.of(table, knows(table, frontier("A", "B")))
    system = IntegerSystem(0 * counts, 0 * counts + table.total, equations.sums, equations.truth)
    for place, end in product(range(24), (0, 1)):
        whole = system.farthest(place, end).table
        assert whole is not None
        most = abs(int((whole - counts)[place]))
        assert system.nearest(place, end, most + 1) is None
        for far in {1, most} if most else ():
            near = system.nearest(place, end, far)
            assert near is not None
            assert equations.holds(near)
            assert (near - counts)[place] == (far if end else -far)


def test_large_tables_are_refused() -> None:
    table = Table.of(schema_of([17, 17, 17]), np.zeros((1, 3), np.int64))
    with pytest.raises(ReleaseError, match="4913 cells, and the integer program takes at most 4096"):
        integer_program.bounds(table, knows(table, frontier("AB", "BC", "AC")), table.codes)


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        *(([3] * 3, scale) for scale in (10**9, 10**12, 10**14)),
        *(([2] * 5, 10**14), ([2] * 4, 10**9)),
        *(pytest.param([2] * 5, scale, marks=pytest.mark.slow) for scale in (10**9, 10**12)),
        *(pytest.param([2] * 4, scale, marks=pytest.mark.slow) for scale in (10**12, 10**14)),
    ],
)
def test_large_counts_are_proven_as_small_ones_are(sizes: list[int], scale: int) -> None:
    """With 3x3x3 cells and counts up to 10^12 the solver took minutes, outside its own limit, and proved nothing."""
    rng, cells = np.random.default_rng(0), every_cell(schema_of(sizes))
    small = rng.random(len(cells)) < 0.3
    counts = np.where(small, rng.integers(0, 3, len(cells)), rng.integers(scale // 2, scale, len(cells)))
    table = Table.of(schema_of(sizes), cells, counts)
    at_risk = table.codes[table.at_risk(2)][:4]
    bounds = integer_program.bounds(table, knows(table, all_ways(len(sizes), 2)), at_risk)
    assert bounds.exact.all()


@settings(max_examples=scaled(200), deadline=None)
@given(given_=tables_and_knowledge(max_records=5), data=hs.data())
def test_groups_move_as_far_as_a_listing_of_all_tables_says(
    given_: tuple[Table, Knowledge], data: hs.DataObject
) -> None:
    """Where one of them does not, none is said to."""
    table, known = given_
    try:
        tables = listed(table, known)
    except TooManyTablesError:
        reject()
    truth, cells = table.dense.reshape(-1), hs.integers(0, table.schema.cells - 1)
    groups = [np.array(sorted(own)) for own in data.draw(hs.lists(hs.sets(cells, min_size=1), min_size=1, max_size=3))]
    useful, needed = (np.array([data.draw(hs.integers(0, 4)) for _ in groups]) for _ in range(2))
    found = integer_program.moving(table, known, groups, useful, needed)
    changes = [tables[:, own].sum(axis=1) - truth[own].sum() for own in groups]
    reached = [min(-int(by.min()), most) + int(by.max()) for by, most in zip(changes, useful.tolist(), strict=True)]
    assert found.are_moved == bool((np.array(reached) >= needed).all())
    assert found.are_moved or not len(found.differences)
    feasible = {tuple(one.tolist()) for one in tables}
    shown = list[npt.NDArray[np.int64]]()
    for codes, changes_ in found.differences:
        shown.append(truth.copy())
        shown[-1][table.schema.keys.pack(codes)] += changes_
    assert all(tuple(one.tolist()) in feasible for one in shown)
    for own, most, least in zip(groups, useful.tolist(), needed.tolist(), strict=True) if found.are_moved else ():
        by = [0, *(int((one - truth)[own].sum()) for one in shown)]
        assert min(-min(by), most) + max(by) >= least
