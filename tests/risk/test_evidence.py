"""The evidence: what is kept, for which releases it counts, and what the ends of a cell rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.moves import EFFORTS, find
from sdc.model.cell_bounds import Intervals
from sdc.model.differences import Differences
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.evidence import Evidence
from tests.strategies import (
    all_ways,
    czech,
    dense,
    differences,
    frontier,
    gives_feasible,
    informed_tables_and_releases,
    releases,
    schema_of,
)

TABLE = dense(schema_of([2, 2, 2]), [1, 2, 1, 1, 2, 2, 1, 1])


def evidence_of(table: Table) -> Evidence:
    """Of all occupied cells; the tests need no cell to be at risk."""
    return Evidence(table, table.codes, table.counts)


def certified(table: Table, release: Release, width: int = 2) -> Differences:
    return find(table, release, table.codes, np.full(len(table), width), effort=EFFORTS, nodes=500).differences


def ends(table: Table, found: Differences, release: Release) -> Intervals:
    """(cells, 2) the range over the true table and the differences that are feasible, by dense tables."""
    low, high = table.counts.copy(), table.counts.copy()
    place = {tuple(cell): row for row, cell in enumerate(table.codes.tolist())}
    for cells, changes in found:
        if gives_feasible(table, release, cells, changes):
            rows = [place.get(tuple(cell), -1) for cell in cells.tolist()]
            for row, change in zip(rows, changes.tolist(), strict=True):
                if row >= 0:
                    low[row] = min(low[row], table.counts[row] + change)
                    high[row] = max(high[row], table.counts[row] + change)
    return np.stack([low, high], axis=1)


def larger(data: hs.DataObject, release: Release, variables: int) -> Release:
    """A release that contains this one."""
    return Release.of([*release.frontier, *data.draw(releases(variables)).frontier])


def test_nothing_found_is_the_true_table() -> None:
    evidence = evidence_of(TABLE)
    evidence.ask(all_ways(3, 2))
    assert (evidence.inner == TABLE.counts[:, None]).all()
    assert len(evidence.resting(np.arange(8))) == 0
    evidence.settle(all_ways(3, 2))
    assert (evidence.inner == TABLE.counts[:, None]).all()


def test_a_difference_that_does_not_preserve_a_larger_release_is_not_used() -> None:
    evidence, one_way, pairs = evidence_of(TABLE), all_ways(3, 1), all_ways(3, 2)
    evidence.ask(one_way)
    evidence.add(certified(TABLE, one_way))
    moved = evidence.inner.copy()
    assert (moved[:, 1] - moved[:, 0] >= 2).any()
    evidence.ask(frontier("ABC"))
    assert (evidence.inner == TABLE.counts[:, None]).all()
    assert len(evidence.resting(np.arange(8))) == 0
    evidence.ask(pairs)
    assert np.array_equal(evidence.inner, ends(TABLE, evidence.differences, pairs))
    evidence.ask(one_way)
    assert np.array_equal(evidence.inner, moved)


@given(hs.data())
@settings(max_examples=80)
def test_inner_is_kept_while_it_is_asked_and_settled(data: hs.DataObject) -> None:
    """The life of a search: refused releases are asked about, accepted ones settled on, each within the next."""
    table, release = data.draw(informed_tables_and_releases())
    evidence = evidence_of(table)
    known = Differences.none(len(table.schema))
    for _ in range(3):
        asked = larger(data, release, len(table.schema))
        evidence.ask(asked)
        found = certified(table, asked)
        evidence.add(found)
        known = Differences.concatenated([known, found])
        assert np.array_equal(evidence.inner, ends(table, known, asked))
        if data.draw(hs.booleans()):
            before, release = evidence.inner.copy(), asked
            evidence.settle(asked)
            assert np.array_equal(evidence.inner, before)
            known = evidence.differences
            assert all(gives_feasible(table, asked, cells, changes) for cells, changes in known)


@given(hs.data())
@settings(max_examples=80)
def test_releases_asked_about_in_any_order(data: hs.DataObject) -> None:
    """A release that does not contain the settled one: what is found for it must not count for larger ones."""
    table, _ = data.draw(informed_tables_and_releases())
    variables = len(table.schema)
    evidence = evidence_of(table)
    known = Differences.none(variables)
    for _ in range(4):
        asked = data.draw(releases(variables))
        evidence.ask(asked)
        evidence.add(certified(table, asked))
        known = evidence.differences
        assert np.array_equal(evidence.inner, ends(table, known, asked))
        if data.draw(hs.booleans()):
            before = evidence.inner.copy()
            evidence.settle(asked)
            assert np.array_equal(evidence.inner, before)


@given(hs.data())
@settings(max_examples=80)
def test_resting_is_enough_for_the_ends(data: hs.DataObject) -> None:
    table, release = data.draw(informed_tables_and_releases())
    evidence = evidence_of(table)
    evidence.ask(release)
    evidence.add(certified(table, release))
    offered = data.draw(differences(table))
    evidence.add(offered.rows(offered.feasible(table, release)))
    evidence.ask(asked := larger(data, release, len(table.schema)))
    rows = np.array(sorted(data.draw(hs.sets(hs.integers(0, len(table) - 1)))) if len(table) else [], np.int64)
    rest = evidence.resting(rows)
    assert len(rest) <= 2 * len(rows)
    assert all(gives_feasible(table, asked, cells, changes) for cells, changes in rest)
    assert np.array_equal(ends(table, rest, asked)[rows], evidence.inner[rows])


def test_what_no_cell_rests_on_is_dropped() -> None:
    """The same difference twice: the first is kept."""
    release = all_ways(3, 1)
    evidence, found = evidence_of(TABLE), certified(TABLE, release)
    evidence.ask(release)
    evidence.add(found)
    evidence.add(found)
    evidence.settle(release)
    assert len(evidence.differences) <= len(found)
    assert np.array_equal(evidence.inner, ends(TABLE, found, release))


@pytest.mark.parametrize("rows", [[], [0], [0, 2], [0, 1, 2]])
def test_the_czech_cells_rest_on_few_tables(rows: list[int]) -> None:
    table = czech()
    at_risk = table.at_risk(2)
    evidence = Evidence(table, table.codes[at_risk], table.counts[at_risk])
    release = all_ways(6, 3)
    evidence.ask(release)
    cells = table.codes[at_risk]
    evidence.add(find(table, release, cells, np.full(3, 6), effort=EFFORTS, nodes=2_000).differences)
    assert (evidence.inner[:, 1] - evidence.inner[:, 0] >= 6).all()
    assert len(evidence.resting(np.array(rows, np.int64))) <= 2 * len(rows)
