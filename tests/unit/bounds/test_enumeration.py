"""The enumeration: every feasible table, each once, as the listing has them."""

from functools import cache
from math import prod

import numpy as np
import pytest
from hypothesis import given, reject, settings

from sdc.bounds import decomposable, enumeration
from sdc.bounds.enumeration import Enumeration, EnumerationProgress, enumerate_tables, feasible_tables
from sdc.feasible import depth_first as feasible_search
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from tests import reference
from tests.reference import TooManyTablesError
from tests.strategies import (
    ORDERED_60,
    all_ways,
    czech,
    dense,
    every_cell,
    frontier,
    knows,
    listed,
    schema_of,
    tables_and_releases,
)

# 58 of 64 sub-tables; 283,285 was counted once more in corner margins
LARGE_58 = frontier("ABDEF", "ACDEF", "ABCD", "ABCE", "ABCF", "BCDF", "BCEF")


@cache
def all_of_58() -> Enumeration:
    """Every table that agrees with 58 sub-tables."""
    return enumerate_tables(czech(), knows(czech(), LARGE_58))


def check_against_the_listing(table: Table, known: Knowledge) -> None:
    try:
        expected = listed(table, known)
    except TooManyTablesError:
        reject()
    found = np.array([counts.reshape(-1) for counts in feasible_tables(table, known)])
    assert np.array_equal(np.unique(found, axis=0), np.unique(expected, axis=0))
    seen = enumerate_tables(table, known)
    assert (seen.feasible_tables, seen.complete) == (len(expected), True) == (len(found), True)
    assert np.array_equal(np.stack([seen.lower, seen.upper], axis=1), reference.bounds(expected))


def test_steps_are_shared_by_the_blocks_and_the_true_table_is_always_one() -> None:
    """Two blocks of four cells with 10 records each: 286 tables each."""
    table = dense(schema_of([2, 4]), [1, 2, 3, 4, 4, 3, 2, 1])
    known = knows(table, frontier("A"))
    assert (found := enumerate_tables(table, known, max_steps=1 << 20)).complete
    assert found.feasible_tables == enumerate_tables(table, known).feasible_tables == 286**2
    for steps in (1, 30, 300):
        left = enumerate_tables(table, known, max_steps=steps)
        assert not left.complete
        assert 1 <= left.feasible_tables < 286**2
        assert (left.lower <= table.counts).all()
        assert (table.counts <= left.upper).all()
    with pytest.raises(ReleaseError, match="max_steps = 0; give at least 1"):
        enumerate_tables(table, known, max_steps=0)


def test_counts_of_independent_parts_multiply() -> None:
    """A and F are tied within each of the 16 cells of BCDE only: 3 * 10^18 tables, and the ranges are explicit."""
    table = czech()
    release = frontier("ABCDE", "BCDEF")
    every = enumerate_tables(table, knows(table, release))
    assert every.complete
    explicit = decomposable.bounds(table, knows(table, release), every_cell(table.schema))
    assert (explicit.outer == np.stack([every.lower, every.upper], axis=1)).all()
    slices = every.upper.reshape(2, 16, 2) - every.lower.reshape(2, 16, 2) + 1
    assert every.feasible_tables == prod(slices[0, :, 0].tolist()) > 1 << 61
    limited = enumerate_tables(table, knows(table, release), 1000)
    assert (limited.feasible_tables, limited.complete) == (1000, False)
    assert (next(feasible_tables(table, knows(table, release))) >= 0).all()


def test_a_thousand_parts() -> None:
    """One pair of cells each, 2^1024 tables, listed without nesting a search in a search in a search."""
    schema = Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(11)))
    table = Table.of(schema, every_cell(schema)[::2])
    release = Release.of([st.full(10)])
    assert enumerate_tables(table, knows(table, release)).feasible_tables == 2**1024
    listed = list(zip(range(3), feasible_tables(table, knows(table, release)), strict=False))
    assert len({counts.tobytes() for _, counts in listed}) == 3
    assert all(counts.sum() == 1024 for _, counts in listed)


def test_tables_beyond_all_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the upward sums the search is weaker and finds the same."""
    monkeypatch.setattr(feasible_search, "MAX_SUMS", 0)
    assert enumerate_tables(czech(), knows(czech(), ORDERED_60)).feasible_tables == 810
    table = dense(schema_of([3, 3, 2]), [0, 1, 2, 0, 1, 0, 0, 1, 1, 1, 0, 2, 0, 0, 1, 2, 1, 0])
    check_against_the_listing(table, knows(table, all_ways(3, 2)))


def test_limit() -> None:
    table = czech()
    assert enumerate_tables(table, knows(table, ORDERED_60), 810).complete
    some = enumerate_tables(table, knows(table, ORDERED_60), 809)
    assert (some.feasible_tables, some.complete) == (809, False)
    first = enumerate_tables(table, knows(table, ORDERED_60), 1)
    truth = table.count_at(every_cell(table.schema))
    assert (first.lower <= truth).all()
    assert (first.upper >= truth).all()


def test_method_beyond_its_limit_is_inner_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumeration, "MAX_TABLES", 10)
    table = czech()
    bounds = enumeration.bounds(table, knows(table, ORDERED_60), table.codes[table.at_risk(2)])
    assert not bounds.exact.any()
    assert bounds.outer.tolist() == [[0, 10], [0, 9], [0, 10]]
    monkeypatch.setattr(enumeration, "MAX_TABLES", 1000)
    monkeypatch.setattr(enumeration, "MAX_STEPS", 1000)
    assert not enumeration.bounds(table, knows(table, ORDERED_60), table.codes[table.at_risk(2)]).exact.any()


def test_refusals() -> None:
    with pytest.raises(ReleaseError, match="the limit is 0 tables; give at least 1"):
        enumerate_tables(czech(), knows(czech(), ORDERED_60), 0)
    large = Table.of(schema_of([13, 13, 13]), np.zeros((1, 3), np.int64))
    with pytest.raises(ReleaseError, match="2197 cells, and a search for feasible tables takes at most 2048"):
        next(feasible_tables(large, knows(large, frontier("AB", "C"))))
    heavy = Table.of(schema_of([2] * 8), np.zeros((1, 8), np.int64), np.array([1 << 53]))
    wide = Table.of(schema_of([40, 40]), np.zeros((1, 2), np.int64), np.array([1 << 53]))
    with pytest.raises(ReleaseError, match="could overflow"):
        enumerate_tables(wide, knows(wide, frontier("A")))
    assert enumerate_tables(heavy, knows(heavy, all_ways(8, 1))).feasible_tables == 1


@given(tables_and_releases(max_records=5))
@settings(max_examples=60)
def test_there_are_no_more_tables_than_said_at_first(example: tuple[Table, Release]) -> None:
    table, release = example
    told: list[EnumerationProgress] = []
    known, steps = knows(table, release), 1 << 22  # 5 records in 200 cells have 10^9 tables
    found = enumerate_tables(table, known, max_steps=steps, watch=lambda progress: not told.append(progress))
    assert told[0].at_most >= found.feasible_tables
    assert [progress.tables for progress in told] == sorted(progress.tables for progress in told)
    assert told[-1].tables == found.feasible_tables


def test_whoever_watches_may_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    every, table = all_of_58(), czech()
    monkeypatch.setattr(enumeration, "STEPS_AT_ONCE", 1 << 16)
    told: list[EnumerationProgress] = []

    def watch(progress: EnumerationProgress) -> bool:
        told.append(progress)
        return len(told) < 5

    found = enumerate_tables(table, knows(table, LARGE_58), watch=watch)
    assert len(told) == 5
    assert (found.complete, 0 < found.feasible_tables < every.feasible_tables) == (False, True)
    # what was seen is feasible, so the ranges are inner bounds
    assert (every.lower <= found.lower).all()
    assert (found.upper <= every.upper).all()
    assert every.feasible_tables == 283_285
