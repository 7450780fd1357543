"""The judge itself: every feasible table, each once, against a search without any idea."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.bounds import enumeration
from sdc.bounds.enumeration import enumerate_tables, feasible_tables
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.table import Table
from tests.strategies import (
    all_ways,
    czech,
    dks_2x2x2x2,
    every_cell,
    frontier,
    schema_of,
    small_tables,
    tables_and_releases,
)

ORDERED_60 = frontier("ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF")


def brute_force(table: Table, release: Release) -> set[tuple[int, ...]]:
    """Every way to place N records in the cells that agrees with the frontier."""
    cells = every_cell(table.schema)
    wanted = [table.marginal_at(element, cells) for element in release.frontier]
    found = set()
    for counts in product(range(table.total + 1), repeat=len(cells)):
        if sum(counts) == table.total:
            other = Table.of(table.schema, cells, np.array(counts))
            if all((other.marginal_at(e, cells) == w).all() for e, w in zip(release.frontier, wanted, strict=True)):
                found.add(counts)
    return found


@given(small_tables(max_records=2, max_cells=8).filter(lambda t: t.total <= 3 and len(t.schema) <= 3))
@settings(max_examples=15)
def test_against_brute_force(table: Table) -> None:
    for release in (all_ways(len(table.schema), 1), all_ways(len(table.schema), 2), Release.of([1]), Release.of([])):
        expected = brute_force(table, release)
        assert {tuple(t.reshape(-1).tolist()) for t in feasible_tables(table, release)} == expected
        assert enumerate_tables(table, release).feasible_tables == len(expected)


@given(tables_and_releases(max_records=5))
@settings(max_examples=100)
def test_tables_are_feasible_and_different(example: tuple[Table, Release]) -> None:
    table, release = example
    cells, seen = every_cell(table.schema), set()
    for _, dense in zip(range(50), feasible_tables(table, release), strict=False):
        assert dense.shape == table.schema.sizes
        assert (dense >= 0).all()
        other = Table.of(table.schema, cells, dense.reshape(-1))
        assert all((other.marginal_at(e, cells) == table.marginal_at(e, cells)).all() for e in release.frontier)
        seen.add(dense.tobytes())
    assert len(seen) == min(50, enumerate_tables(table, release, 50).feasible_tables)


def test_810_czech_tables() -> None:
    """REFERENCE 2: exactly 810 integer tables agree with the ordered release."""
    table = czech()
    every = enumerate_tables(table, ORDERED_60)
    assert (every.feasible_tables, every.complete) == (810, True)
    place = np.ravel_multi_index(tuple(table.codes[table.at_risk(2)].T), table.schema.sizes)
    assert every.lower[place].tolist() == [0, 0, 0]
    assert every.upper[place].tolist() == [10, 9, 9]


def test_two_czech_tables_with_all_five_way_marginals() -> None:
    assert enumerate_tables(czech(), all_ways(6, 5)).feasible_tables == 2


def test_limit() -> None:
    table = czech()
    assert enumerate_tables(table, ORDERED_60, 810).complete
    some = enumerate_tables(table, ORDERED_60, 809)
    assert (some.feasible_tables, some.complete) == (809, False)
    first = enumerate_tables(table, ORDERED_60, 1)
    truth = table.count_at(every_cell(table.schema))
    assert (first.lower <= truth).all()
    assert (first.upper >= truth).all()


def test_the_full_table_leaves_itself() -> None:
    table = dks_2x2x2x2()
    (only,) = feasible_tables(table, Release.of([st.full(4)]))
    assert only.reshape(-1).tolist() == table.count_at(every_cell(table.schema)).tolist()


def test_method_beyond_its_limit_is_inner_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumeration, "MAX_TABLES", 10)
    table = czech()
    bounds = enumeration.bounds(table, ORDERED_60, table.codes[table.at_risk(2)])
    assert not bounds.exact.any()
    assert bounds.outer.tolist() == [[0, 10], [0, 9], [0, 10]]
    monkeypatch.setattr(enumeration, "MAX_TABLES", 1000)
    monkeypatch.setattr(enumeration, "MAX_NODES", 100)
    assert not enumeration.bounds(table, ORDERED_60, table.codes[table.at_risk(2)]).exact.any()


def test_refusals() -> None:
    with pytest.raises(ReleaseError, match="the limit is 0 tables; give at least 1"):
        enumerate_tables(czech(), ORDERED_60, 0)
    with pytest.raises(ReleaseError, match="variable number 6"):
        enumerate_tables(czech(), frontier("AG"))
    large = Table.of(schema_of([13, 13, 13]), np.zeros((1, 3), np.int64))
    with pytest.raises(ReleaseError, match="2197 cells, and enumeration takes at most 2048"):
        next(feasible_tables(large, frontier("AB", "C")))
    heavy = Table.of(schema_of([2] * 8), np.zeros((1, 8), np.int64), np.array([1 << 53]))
    with pytest.raises(ReleaseError, match="could overflow"):
        enumerate_tables(Table.of(schema_of([40, 40]), np.zeros((1, 2), np.int64), np.array([1 << 53])), frontier("A"))
    assert enumerate_tables(heavy, all_ways(8, 1)).feasible_tables == 1
