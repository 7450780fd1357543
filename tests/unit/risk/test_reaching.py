"""The floor that is chosen where too many sub-tables reach the least: it follows from the widths alone."""

from __future__ import annotations

from math import comb

import pytest

from sdc.executor import Executor
from sdc.model import subtable as st
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.sweep_plan import sweep_bytes
from tests.wide import copies, wide_table

LEAST = 2


@pytest.fixture(scope="module")
def table() -> Table:
    return wide_table(11, 4_000, 5)


@pytest.mark.parametrize("most", [1, 12, 40, 100, 200])
def test_the_widest_are_listed_and_not_too_many(table: Table, most: int) -> None:
    everything = critical_widths(table, floor=LEAST)
    found = critical_widths(table, floor=LEAST, most=most)
    assert len(found) <= most < len(everything)
    reaching = everything.reaching(found.floor)
    assert found.sub_tables.tolist() == [t for t in reaching if st.dimension(t) <= found.ways]
    assert found.widths.tolist() == [everything.of(t) for t in found.sub_tables.tolist()]
    if found.ways < len(table.schema):
        assert sum(st.dimension(t) <= found.ways + 1 for t in reaching) > most
    else:
        assert found.visited == critical_widths(table, floor=found.floor).visited
        # at three quarters of the floor, and what is lost where numbers are halved, too many reach it
        assert everything.number_reaching(max(LEAST, found.floor * 3 // 4 - 2)) > most


def test_a_least_floor_that_not_too_many_reach_is_kept(table: Table) -> None:
    everything = critical_widths(table, floor=LEAST)
    found = critical_widths(table, floor=LEAST, most=len(everything))
    assert (found.floor, found.cut(LEAST)) == (LEAST, "")
    assert found.sub_tables.tolist() == everything.sub_tables.tolist()


def test_what_was_cut_is_said(table: Table) -> None:
    found = critical_widths(table, floor=LEAST, most=40)
    said = found.cut(LEAST)
    assert all(f" {number}" in said for number in (found.floor, len(found), 40, LEAST))
    assert found.cut(found.floor) == critical_widths(table, floor=found.floor).cut(LEAST) == ""


def test_workers_and_partitions_choose_the_same_floor(table: Table, two_workers: Executor) -> None:
    alone = critical_widths(table, floor=LEAST, most=200)
    parts = critical_widths(
        table, floor=LEAST, most=200, memory=sweep_bytes(len(table), table.schema, floor=LEAST) * 2 // 3
    )
    both = critical_widths(table, floor=LEAST, most=200, executor=two_workers)
    for other in (parts, both):
        assert (other.floor, other.visited) == (alone.floor, alone.visited)
        assert other.sub_tables.tolist() == alone.sub_tables.tolist()
        assert other.widths.tolist() == alone.widths.tolist()


@pytest.mark.parametrize(("most", "ways"), [(500, 1), (1_000, 2), (20_000, 3)])
def test_where_all_have_one_width_those_of_few_variables_are_listed(most: int, ways: int) -> None:
    """2^40 sub-tables reach whatever one of them does: a walk ends once it has listed too many."""
    found = critical_widths(copies(40, 100), floor=1, most=most)
    assert (found.ways, found.floor) == (ways, 1)
    assert len(found) == sum(comb(41, d) for d in range(ways + 1))
    assert f"at least 1 and of at most {ways} variable" in found.cut(1)


def test_where_not_even_the_grand_total_reaches_the_least_nothing_is_listed(table: Table) -> None:
    found = critical_widths(table, floor=table.total + 1, most=10)
    assert (len(found), found.floor) == (0, table.total + 1)
