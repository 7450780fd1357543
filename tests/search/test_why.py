"""Why a sub-table is released or not: judged against every smaller release of small tables."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.api import assess, why
from sdc.model import subtable as st
from sdc.model.errors import SdcError
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.verdict import Verdict
from sdc.search.why import Reason
from tests.strategies import czech, scattered, tables_and_releases

CZECH_FRONTIER = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]


def is_refuted(table: Table, sub_tables: list[SubTable], min_width: int) -> bool:
    return assess(table, Release.of(sub_tables), min_width=min_width).verdict is Verdict.UNSAFE


def assert_minimal(table: Table, reason: Reason, release: Release, min_width: int) -> None:
    """Refuted with the conflicts, and not with any release that is less by one sub-table."""
    asked, conflicts = reason.sub_table, list(reason.conflicts)
    assert is_refuted(table, [*conflicts, asked], min_width)
    assert all(conflict in release for conflict in conflicts)
    for conflict in conflicts:
        rest = [other for other in conflicts if other != conflict]
        assert not is_refuted(table, [*rest, *st.children(conflict), asked], min_width)


@given(tables_and_releases(), hs.data())
@settings(max_examples=60)
def test_the_conflicts_are_minimal(given_: tuple[Table, Release], data: hs.DataObject) -> None:
    table, release = given_
    assume(len(table.at_risk(2)))
    asked = data.draw(hs.integers(1, st.full(len(table.schema))))
    min_width = data.draw(hs.integers(1, 3))
    found = why(table, release, st.label(asked, table.schema), min_width=min_width)
    together = is_refuted(table, [*release.frontier, asked], min_width)
    assert (found.together.verdict is Verdict.UNSAFE) == together
    assert found.released == (asked in release)
    if not together:
        assert found.conflicts == ()
        return
    assert_minimal(table, found, release, min_width)
    assert (found.conflicts == ()) == is_refuted(table, [asked], min_width)
    assert found.witness is not None


def test_the_sub_tables_that_a_published_release_leaves_out() -> None:
    table = czech()
    release = Release.of(st.parse(name, table.schema) for name in CZECH_FRONTIER)
    out = why(table, release, "A*B*C*D*F", min_width=6)
    assert (out.released, out.critical_width, out.alone.verdict) == (False, 3, Verdict.UNSAFE)
    assert out.text(table.schema) == "A*B*C*D*F breaks the criterion alone"
    held = why(table, release, "A*F", min_width=6)
    assert held.text(table.schema) == "A*F is released, within A*B*D*E*F"
    assert held.together.verdict is Verdict.SAFE


def test_what_could_be_released_says_so() -> None:
    table = scattered()
    names = table.schema.names
    found = why(table, [names[0]], names[1], min_width=1)
    assert found.together.verdict is Verdict.SAFE
    assert "and could be" in found.text(table.schema)


def test_a_sub_table_that_is_not_there() -> None:
    with pytest.raises(SdcError, match="'Q'"):
        why(czech(), ["A"], "A*Q", min_width=3)
