"""Linear programs over the whole table: proven in integers outside, feasible tables inside; and their factors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import integer_program, linear_program
from sdc.bounds.duality import Multipliers
from sdc.bounds.factor_kernel import PANEL, STRIP, factorise, solved
from sdc.bounds.linear_program import LinearProgram, raised, reaching
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.table import Counts, Table
from tests.strategies import (
    all_ways,
    assert_around,
    czech,
    dense,
    dft_2x3x3,
    dks_2x2x2x2,
    every_cell,
    frontier,
    knows,
    schema_of,
    tables_and_releases,
)


@pytest.mark.parametrize(
    ("dimension", "sharp"),
    [(2, [[0, 95], [0, 95], [0, 103]]), (3, [[0, 21], [0, 21], [0, 25]]), (5, [[0, 1], [2, 3], [1, 2]])],
)
def test_czech_workers(dimension: int, sharp: list[list[int]]) -> None:
    """All ways: at 2 and 3 the tables are rounded from the program, at 5 two tables are left ([KDSF] section 5.2)."""
    table = czech()
    bounds = linear_program.bounds(table, knows(table, all_ways(6, dimension)), table.codes[table.at_risk(2)])
    assert bounds.outer.tolist() == sharp
    assert bounds.inner.tolist() == sharp


def test_a_cell_does_not_depend_on_the_others_but_through_tables_found() -> None:
    table, release = czech(), all_ways(6, 3)
    together = linear_program.bounds(table, knows(table, release), table.codes)
    again = linear_program.bounds(table, knows(table, release), table.codes)
    alone = linear_program.bounds(table, knows(table, release), table.codes[7:8])
    assert (together.outer == again.outer).all()
    assert (together.inner == again.inner).all()
    assert (together.outer[7] == alone.outer[0]).all()


def bound_of(program: LinearProgram, multipliers: np.ndarray, cell: int, sign: int) -> int:
    return raised(program, multipliers, cell, sign).bound(program)


def all_covering(table: Table, release: Release) -> Release:
    """The release with every one-way sub-table, as the program itself needs it."""
    return Release.of([*release.frontier, *all_ways(len(table.schema), 1).frontier])


def test_perturbed_optimal_multipliers_are_repaired() -> None:
    """The indicator of a marginal cell is optimal; what is taken from it is made up for by the grand total."""
    table = dft_2x3x3()
    program = LinearProgram.of(table, knows(table, frontier("BC", "AC")))
    cell = int(program.place(np.array([[1, 2, 2]]))[0])
    optimal = np.zeros(len(program.totals))
    optimal[program.levels.tolist().index([0, 2, 2])] = 1.0
    upper = int(table.marginal_at(0b110, np.array([[1, 2, 2]]))[0])
    assert bound_of(program, optimal, cell, 1) == upper
    assert bound_of(program, optimal - 1e-5, cell, 1) == upper
    assert bound_of(program, optimal * 0.9, cell, 1) == int(upper * 0.9 + 0.1 * table.total)
    assert bound_of(program, optimal * np.nan, cell, 1) == table.total


def test_no_iteration_is_still_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_program, "MAX_ITERATIONS", 0)
    table = czech()
    bounds = linear_program.bounds(table, knows(table, all_ways(6, 2)), table.codes[table.at_risk(2)])
    assert (bounds.outer[:, 1] >= [95, 95, 103]).all()
    assert (bounds.inner[:, 1] <= [95, 95, 103]).all()


def test_tables_found_are_checked_in_integers() -> None:
    table = dks_2x2x2x2()
    program = LinearProgram.of(table, knows(table, all_ways(4, 2)))
    assert program.holds(program.truth)
    assert not program.holds(program.truth + np.eye(16, dtype=np.int64)[0])
    cube = np.zeros((2, 2, 2, 2), np.int64)
    cube[..., 0] = [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]
    assert (program.sums(cube.reshape(-1)) == 0).all()
    assert not program.holds(program.truth - cube.reshape(-1))
    square = dense(schema_of([2, 2]), [0, 0, 1, 1])
    assert not LinearProgram.of(square, knows(square, frontier("A", "B"))).holds(np.array([1, 0, 0, 1]))


@settings(max_examples=60, deadline=None)
@given(hs.data())
def test_what_is_proven_is_what_the_multipliers_come_to(data: hs.DataObject) -> None:
    table, release = data.draw(tables_and_releases())
    release = all_covering(table, release)
    program = LinearProgram.of(table, knows(table, release))
    cell, end = (
        data.draw(hs.sampled_from(np.flatnonzero(program.allowed).tolist() or [0])),
        data.draw(hs.integers(0, 1)),
    )
    found, multipliers = reaching(program, cell, end, (0, table.total)[end], int(program.truth[cell]))
    bound = come_to(table, multipliers, program.allowed, cell, 1 if end else -1)
    assert found.proven == (min(table.total, bound) if end else max(0, -bound))


def come_to(table: Table, multipliers: Multipliers, allowed: np.ndarray, cell: int, sign: int) -> int:
    """Weak duality with nothing but the table's marginals: every cell that may have a record is priced high enough."""
    codes = every_cell(table.schema)
    prices, value = np.zeros(len(codes), np.int64), 0
    for subtable, levels, multiplier in multipliers.of:
        within = (codes[:, list(st.members(subtable))] == levels).all(axis=1)
        prices += multiplier * within
        value += multiplier * int(table.dense.reshape(-1)[within].sum())
    prices[cell] -= sign * multipliers.scale
    assert (prices[allowed] >= 0).all()
    return value // multipliers.scale


def many_rows() -> Table:
    schema = schema_of([27, 27, 27])
    codes = np.random.default_rng(0).integers(0, 27, (60_000, 3))
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    return Table.of(schema, cells, counts)


def test_more_than_two_thousand_rows() -> None:
    """27x27x27 with all pairs: the table found agrees with every pair, and multipliers prove the end."""
    table = many_rows()
    pairs = all_ways(3, 2)
    program = LinearProgram.of(table, knows(table, pairs))
    assert len(program.rows) == 1 + 3 * 26 + 3 * 26**2
    assert len(program.totals) > 2048
    cell = table.codes[table.at_risk(1)][:1]
    place, least = int(program.place(cell)[0]), int(min(table.marginal_at(t, cell)[0] for t in pairs.frontier))
    found, multipliers = reaching(program, place, 1, least, 3)
    assert found.proven == min(least, come_to(table, multipliers, program.allowed, place, 1)) >= 3
    assert found.table is not None
    assert found.table[place] >= 3
    assert_agrees(table, found.table)


def assert_agrees(table: Table, found: Counts) -> None:
    before, after = table.dense, found.reshape(table.schema.sizes)
    assert (after >= 0).all()
    assert all((before.sum(axis=axis) == after.sum(axis=axis)).all() for axis in range(3))


def test_large_counts() -> None:
    """Up to 2^50, where floating point proposes poorly: still around and within the sharp bounds."""
    table = dense(schema_of([2, 2, 2]), [1 << 40, 1, 1, 1 << 50, 1, 1 << 45, 3, 2])
    cells = every_cell(table.schema)
    sharp = integer_program.bounds(table, knows(table, all_ways(3, 2)), cells)
    bounds = linear_program.bounds(table, knows(table, all_ways(3, 2)), cells)
    assert sharp.exact.all()
    assert_around(bounds, sharp.outer)


def test_limits() -> None:
    large = Table.of(schema_of([81, 81, 81]), np.zeros((1, 3), np.int64))
    with pytest.raises(ReleaseError, match="531441 cells, and the linear program takes at most 524288"):
        linear_program.bounds(large, knows(large, all_ways(3, 2)), large.codes)
    many = Table.of(schema_of([50, 50, 50]), np.zeros((1, 3), np.int64))
    with pytest.raises(ReleaseError, match="independent marginal cells, and the linear program takes at most 6144"):
        linear_program.bounds(many, knows(many, all_ways(3, 2)), many.codes)


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
