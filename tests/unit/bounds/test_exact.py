"""Exact integer bounds: by search, by components, and by integer programs."""

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as hs

from sdc.bounds import branch_and_bound, exact, integer_program, nested, reducible
from sdc.feasible import depth_first as feasible_search
from sdc.feasible.equations import MarginalEquations
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Codes, Table
from sdc.solve import integer as integer_system
from sdc.solve.integer import IntegerSystem
from tests.profiles import scaled
from tests.reference import TooManyTablesError
from tests.strategies import (
    ORDERED_60,
    TWO_CYCLES,
    all_ways,
    assert_around,
    czech,
    dks_2x2x2x2,
    every_cell,
    frontier,
    knows,
    listed,
    nested_in,
    schema_of,
    sharp_ends,
    tables_and_knowledge,
)


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


def test_tables_found_are_checked_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarginalEquations, "holds", lambda self, dense: False)
    with pytest.raises(RuntimeError, match="does not agree with the released marginals"):
        branch_and_bound.bounds(czech(), knows(czech(), ORDERED_60), czech().codes[:1])


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


def table_of(seed: int, sizes: list[int], records: int) -> Table:
    codes = np.random.default_rng(seed).integers(0, sizes, (records, len(sizes)))
    return Table.of(schema_of(sizes), codes)


@given(hs.integers(0, 1 << 30))
@settings(max_examples=80)
def test_bounds_of_two_cycles_are_sharp(seed: int) -> None:
    """And outer and inner bounds of components stay what they are."""
    table = table_of(seed, [2, 2, 2, 2, 2, 2], 7)
    known, cells = knows(table, TWO_CYCLES), every_cell(table.schema)
    sharp, bounds = sharp_ends(table, known), reducible.bounds(table, known, cells)
    assert (bounds.method, bounds.exact.all()) == ("reducible", True)
    assert (bounds.outer == sharp).all()
    assert_around(reducible.bounds_by(nested.bounds, table, known, cells), sharp)


def test_only_components_that_are_not_released_are_searched() -> None:
    """Each once, for its different marginal cells."""
    release = frontier("AB", "BC", "AC", "CD", "DE", "EF", "DF")
    table = table_of(0, [2, 2, 2, 2, 2, 3], 12)
    asked = []

    def watched(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        asked.append(("".join(table.schema.names), len(cells)))
        return branch_and_bound.bounds(table, knowledge, cells)

    bounds = reducible.bounds_by(watched, table, knows(table, release), every_cell(table.schema))
    assert sorted(asked) == [("ABC", 8), ("DEF", 12)]
    assert bounds.exact.all()


def test_wide_tables_of_small_components() -> None:
    """39 variables in a chain of triangles: 2^39 cells, and 8 at a time are searched."""
    pairs = [(k + a, k + b) for k in range(0, 38, 2) for a, b in ((0, 1), (1, 2), (0, 2))]
    release = Release.of(st.of(pair) for pair in pairs)
    codes = np.random.default_rng(1).integers(0, 2, (50, 39))
    table = Table.of(Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(39))), codes)
    bounds = reducible.bounds(table, knows(table, release), table.codes[:5])
    assert bounds.exact.all()
    assert (bounds.outer[:, 1] >= 1).all()


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
        assert system.excludes(place, end, most + 1)
        assert not system.excludes(place, end, most)
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
    ("sizes", "scale"), [([3] * 3, 10**9), ([3] * 3, 10**12), ([3] * 3, 10**14), ([2] * 5, 10**14), ([2] * 4, 10**9)]
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
