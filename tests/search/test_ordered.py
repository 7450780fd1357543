"""The ordered release: the published Czech release, maximality, and the three answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.api import ordered_release
from sdc.bounds.enumeration import enumerate_tables
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.criterion import Criterion
from sdc.risk.critical_width import critical_widths
from sdc.search.ordered import OrderedSearch, SearchStep
from tests.strategies import small_tables

FRONTIER = ("A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F")


@pytest.mark.parametrize("min_width", [6, 7, 8, 9])
def test_the_published_czech_release(czech: Table, min_width: int) -> None:
    """[KDSF] section 5.2: everything but ABCDEF, ABCDF, BCDEF, ABCEF: 60 sub-tables with the total."""
    found = ordered_release(czech, min_width=min_width)
    assert found.release == Release.of(st.parse(text, czech.schema) for text in FRONTIER)
    assert found.release.sub_tables_with_total == 60
    assert found.assessment.releasable is True
    assert found.assessment.min_width == (9, 9)
    assert found.assessment.undecided_cells == 0


@pytest.mark.parametrize(("min_width", "with_total"), [(5, 61), (3, 62), (10, 59), (2, 62)])
def test_the_neighbouring_widths(czech: Table, min_width: int, with_total: int) -> None:
    """REFERENCE section 2: adding ABCEF gives 5, adding BCDEF too gives 3; 10 needs another release."""
    found = ordered_release(czech, min_width=min_width)
    if min_width < 10:
        assert found.release.sub_tables_with_total == with_total
    assert found.assessment.min_width[0] >= min_width


@given(small_tables(max_records=3, max_cells=12), some.integers(1, 4))
@settings(max_examples=100)
def test_releases_are_safe_and_maximal(table: Table, min_width: int) -> None:
    """Judged by the enumeration of all feasible tables: safe, and one more sub-table makes it unsafe."""
    if not len(table.at_risk(2)) or table.total < min_width:
        return
    release = ordered_release(table, min_width=min_width).release
    assert sharp_min_width(table, release) >= min_width
    everything = range(1 << len(table.schema))
    assert all(sharp_min_width(table, release.add(t)) < min_width for t in everything if t not in release)


def sharp_min_width(table: Table, release: Release) -> int:
    found = enumerate_tables(table, release, limit=200_000)
    assert found.complete
    dense = (found.upper - found.lower).reshape(table.schema.sizes)
    at_risk = table.codes[table.at_risk(2)]
    return int(dense[tuple(at_risk.T)].min())


def test_steps_are_told_and_kept(czech: Table) -> None:
    told: list[SearchStep] = []
    found = ordered_release(czech, min_width=6, on_step=told.append)
    assert tuple(told) == found.steps
    bisection = [step for step in found.steps if step.phase == "bisection"]
    assert 1 <= len(bisection) <= 7
    assert all(step.added is None for step in bisection)
    assert [step.answer for step in found.steps if step.phase == "extension"] == [False] * (
        len(found.steps) - len(bisection)
    )


def test_without_extension_the_prefix_is_the_release(czech: Table) -> None:
    found = ordered_release(czech, min_width=3, extend=False)
    assert all(step.phase == "bisection" for step in found.steps)


def test_a_floor_above_the_width_is_refused(czech: Table) -> None:
    search = OrderedSearch(Criterion(czech, 2, 6), critical_widths(czech, floor=7))
    with pytest.raises(ReleaseError, match=r"from the floor 7 on, the minimum width is 6; set the floor to at most 6"):
        search.run()


def test_a_floor_up_to_the_width_changes_nothing(czech: Table) -> None:
    cut = OrderedSearch(Criterion(czech, 2, 6), critical_widths(czech, floor=6)).run()
    assert cut.release == ordered_release(czech, min_width=6).release


def test_a_width_that_the_grand_total_does_not_reach(czech: Table) -> None:
    with pytest.raises(ReleaseError, match="minimum width 1842 is not reached even when only the grand total 1841"):
        ordered_release(czech, min_width=1842)


def test_a_width_that_the_one_way_sub_tables_do_not_reach(czech: Table) -> None:
    found = ordered_release(czech, min_width=261)
    assert found.assessment.releasable is True
    assert found.release.sub_tables < 63
