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
from sdc.risk.criterion import Assessment, Budget, Criterion
from sdc.risk.critical_width import critical_widths
from sdc.search.ordered import OrderedSearch, SearchStep
from tests.strategies import czech as czech_table
from tests.strategies import gives_feasible, scattered, small_tables

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
    assert all(step.added == () for step in bisection)
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


# The extension, many sub-tables at once


@pytest.mark.parametrize("min_width", [2, 3, 5, 6, 10, 20, 53])
def test_nothing_more_can_be_added(czech: Table, min_width: int) -> None:
    """Maximal: every single addition is refuted, whatever the search left out without asking."""
    release = ordered_release(czech, min_width=min_width).release
    criterion = Criterion(czech, 2, min_width)
    outside = [t for t in range(64) if t not in release]
    assert outside
    assert [criterion.assess(release.add(t)).releasable for t in outside] == [False] * len(outside)


@pytest.mark.parametrize("min_width", [1, 2, 3])
def test_a_larger_table_has_a_proven_release(min_width: int) -> None:
    """Beyond exact methods every at-risk cell has the width by tables that are feasible, as dense marginals say."""
    table = scattered()
    found = ordered_release(table, min_width=min_width, budget=Budget(0.3, 60))
    assert found.assessment.releasable is True
    criterion = Criterion(table, 2, min_width, budget=Budget(1e-4, 1e-4))
    assert all(gives_feasible(table, found.release, cells, changes) for cells, changes in found.evidence)
    criterion.learn(found.evidence, found.release)
    inner = criterion.supported(found.release)
    assert (inner[:, 1] - inner[:, 0] >= min_width).all()
    assert len(found.evidence) <= 2 * found.assessment.at_risk_cells


@pytest.mark.parametrize("accept_undecided", [False, True])
def test_a_second_run_with_the_same_criterion_is_as_sound(accept_undecided: bool) -> None:
    """It begins again with small releases, under which more tables are feasible than the first run settled on."""
    table = scattered()
    criterion = Criterion(table, 2, 2, budget=Budget(0.3, 60))
    search = OrderedSearch(criterion, critical_widths(table), accept_undecided=accept_undecided)
    for found in (search.run(), search.run()):
        assert all(gives_feasible(table, found.release, cells, changes) for cells, changes in found.evidence)
        assert found.assessment.releasable in (True, None) if accept_undecided else found.assessment.releasable


def asked_alone(steps: tuple[SearchStep, ...]) -> list[int]:
    return [step.added[0] for step in steps if len(step.added) == 1]


@pytest.mark.parametrize("min_width", [1, 2, 3])
def test_what_contains_a_refused_sub_table_is_not_asked_about(min_width: int) -> None:
    steps = ordered_release(scattered(), min_width=min_width, budget=Budget(0.3, 60)).steps
    refused: list[int] = []
    for step in steps:
        assert not [t for t in step.added if any(st.is_within(r, t) for r in refused)]
        if len(step.added) == 1 and step.answer is not True:
            refused.append(step.added[0])
    assert len(set(asked_alone(steps))) == len(asked_alone(steps))
    assert refused


@pytest.mark.parametrize("min_width", [2, 3, 10])
def test_the_steps_tell_how_the_release_came_about(czech: Table, min_width: int) -> None:
    """The longest accepted prefix and what was added make the release; halves of what was refused come next."""
    widths = critical_widths(czech)
    found = ordered_release(czech, min_width=min_width)
    candidates = widths.reaching(min_width)
    length = max((step.length for step in found.steps if step.phase == "bisection" and step.answer), default=0)
    added = [t for step in found.steps if step.answer for t in step.added]
    assert Release.of([*candidates[:length], *added]) == found.release
    assert {step.phase for step in found.steps} == {"bisection", "extension"}
    assert all(step.added for step in found.steps if step.phase == "extension")


class TypedCriterion(Criterion):
    """Refuses exactly the releases that contain one of some sub-tables; it counts the questions."""

    def __init__(self, table: Table, refused: frozenset[int]) -> None:
        super().__init__(table, 2, 1)
        object.__setattr__(self, "refused", refused)
        object.__setattr__(self, "asked", [])

    def assess(self, release: Release, *, certify: bool = True, brief: bool = False) -> Assessment:
        answer = not any(r in release for r in self.refused)  # type: ignore[attr-defined]
        self.asked.append(release)  # type: ignore[attr-defined]
        return Assessment(answer, 1, (int(answer), int(answer)), 1, 0, ())


@given(some.frozensets(some.integers(1, 63), max_size=8))
@settings(max_examples=100)
def test_the_extension_is_maximal_whatever_is_refused(refused: frozenset[int]) -> None:
    """All but the refused sub-tables and what contains them; a refused one costs at most two questions a halving."""
    criterion = TypedCriterion(czech_table(), refused)
    found = OrderedSearch(criterion, critical_widths(czech_table())).run()
    candidates = critical_widths(czech_table()).reaching(1)
    allowed = [t for t in candidates if not any(st.is_within(r, t) for r in refused)]
    assert found.release == Release.of(allowed)
    smallest = [t for t in refused if not any(r != t and st.is_within(r, t) for r in refused)]
    assert len(found.steps) <= 7 + 1 + 2 * 7 * (1 + len(smallest))
