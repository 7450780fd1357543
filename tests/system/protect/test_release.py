"""What goes out in part beside a release that grows, against every table that agrees with all of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from sdc.api import find_release
from sdc.config.methods import SearchMethod
from sdc.config.release import ReleaseConfig
from sdc.deadline import Deadline
from sdc.executor import InProcess
from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError, ReleaseError
from sdc.model.fact import Fact
from sdc.model.release import NOTHING, Release
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES
from sdc.model.table import Table
from sdc.protect import release as protection
from sdc.protect.release import protect
from sdc.risk.verdict import Policy, Verdict
from sdc.search.best import FoundRelease
from sdc.stages.assemble import SearchSettings, release_search
from sdc.stages.report import refusals
from tests.helpers.deadlines import AfterLooks
from tests.profiles import scaled
from tests.reference import TooManyTablesError
from tests.strategies import dense
from tests.suppressed import Case, Flags, cases
from tests.unit.protect.test_suppression import yearbook

WITHHELD: Mapping[str, Any] = {"by": "suppression"}
CASES, AGAIN = scaled(300, fewest=40), scaled(12, fewest=4)


def found_for(
    case: Case, method: SearchMethod, best_subset: bool, how: Mapping[str, Any] = WITHHELD
) -> FoundRelease | None:
    """What goes out whole and in part where the sub-tables of a case are required; None where nothing may."""
    settings = settings_for(case, best_subset, how)
    try:
        return release_search(case.table, case.known, settings, settings.widths(case.table)).run(method)
    except ReleaseError:
        return None


def settings_for(case: Case, best_subset: bool, how: Mapping[str, Any] = WITHHELD) -> SearchSettings:
    """By which what does not fit whole goes out so."""
    names = [st.label(view, case.table.schema) for view in case.views]
    content = {"require": names, "protect": [{"of": name, **how} for name in names]}
    release = ReleaseConfig.model_validate(content | ({"on_conflict": "drop"} if best_subset else {}))
    return SearchSettings(case.evaluator.criteria, Policy.REFUSE, release=release)


def public(case: Case, found: FoundRelease, beside: bool) -> tuple[Case, list[Flags]]:
    """The case once all that was found is public, or what was released whole before its parts and not these.

    What parts tell is known of it, and of their views no cell besides.
    """
    parts = NO_SUPPRESSED_TABLES if beside else found.suppressed_tables
    known = case.known.plus_facts(parts.facts).plus(found.suppressed_tables.beside if beside else found.release)
    hidden = [np.ones(st.cells(view, case.table.schema), np.bool_) for view in parts.views]
    return Case(case.table, known, parts.views, case.small_count, case.min_width), hidden


@pytest.mark.parametrize(
    ("method", "how"),
    [
        *((method, WITHHELD) for method in ("ordered", "bisection", "best")),
        ("ordered", {"by": "rounding", "base": 3}),
        ("best", {"by": ["suppression", "rounding"], "base": 4, "max_share": 0.4}),
    ],
)
def test_nobody_pins_a_small_count_of_the_table_nor_of_a_part(
    method: SearchMethod, how: Mapping[str, Any], night: list[int]
) -> None:
    """Beside what grows later too; but a cell of a part that was told without it."""
    parts = grown = whole = told = 0
    ways = Counter[bool]()
    for number, case in enumerate(islice(cases(np.random.default_rng([7, *night])), CASES)):
        found = found_for(case, method, number % 2 == 0, how)
        if found is None:
            continue
        assert found.evaluation.verdict is Verdict.SAFE
        assert all(part.view not in found.release for part in found.suppressed_tables.tables)
        assert {part.fact for part in found.suppressed_tables.tables if not part.base} <= {
            *found.evaluation.knowledge.facts
        }
        after, hidden = public(case, found, beside=False)
        before, _ = public(case, found, beside=True)
        try:
            tables, without = after.agreeing(hidden), before.agreeing([])
        except TooManyTablesError:
            continue
        assert (np.ptp(tables, axis=0)[case.at_risk] >= case.min_width).all()
        ways.update(part.base > 0 for part in found.suppressed_tables.tables)
        for part in found.suppressed_tables.tables:
            view, counts = part.view, case.of(part.view, case.table.dense)[0]
            small = np.flatnonzero(case.is_small(counts))
            assert part.base or {*case.places(part.fact)} >= {*small.tolist()}
            free = np.ptp(case.of(view, without), axis=0)[small] >= case.min_width
            assert (np.ptp(case.of(view, tables), axis=0)[small][free] >= case.min_width).all()
            told += int((~free).sum())
        parts, whole = parts + len(after.views), whole + (not after.views)
        grown += bool(after.views) and found.release != found.suppressed_tables.beside
    assert min(parts, whole) > CASES // 16
    assert grown > 0
    assert ways.keys() == {way == "rounding" for way in np.atleast_1d(how["by"])}
    print(f"{parts} parts, {grown} releases grown beside them, {told} small cells told without them")


def test_who_knows_how_a_pattern_was_chosen_is_left_with_those_tables_that_lead_to_it(night: list[int]) -> None:
    """Beside a plain loop: of all tables that agree with what is public each is released again by the same settings."""
    tried = 0
    for case in islice(cases(np.random.default_rng([11, *night])), 4 * AGAIN):
        found = found_for(case, "ordered", best_subset=False)
        if found is None or not found.suppressed_tables.facts or case.known.facts:
            continue
        settings = settings_for(case, best_subset=False)
        again = refusals(case.table, case.known, settings, "ordered", found.release, 200, found.suppressed_tables)
        if again.reason is not None:
            continue
        after, hidden = public(case, found, beside=False)
        tables = after.agreeing(hidden)
        alike = [
            found_in(dense(case.table.schema, counts.tolist()), case, settings)
            == (found.release, found.suppressed_tables.facts)
            for counts in tables
        ]
        assert (again.feasible_tables, again.alike) == (len(tables), sum(alike))
        own = [after.of(view, tables) for view in after.views]
        truth = [after.of(view, case.table.dense)[0] for view in after.views]
        small = [case.at_risk, *map(case.is_small, truth)]
        cells, parts = tables[:, small[0]], [sums[:, which] for sums, which in zip(own, small[1:], strict=True)]
        for ranges, counts in (
            (again.possible, cells),
            (again.left, cells[alike]),
            (again.own_possible, np.concatenate(parts, axis=1)),
            (again.own_left, np.concatenate(parts, axis=1)[alike]),
        ):
            assert ranges.tolist() == np.stack([counts.min(axis=0), counts.max(axis=0)], axis=1).tolist()
        narrowed = [
            ((np.ptp(counts, axis=0) >= case.min_width) & (np.ptp(counts[alike], axis=0) < case.min_width)).sum()
            for counts in (cells, np.concatenate(parts, axis=1))
        ]
        assert again.narrowed(case.min_width) == tuple(narrowed)
        tried += 1
        if tried == AGAIN:
            break
    assert tried == AGAIN


def found_in(table: Table, case: Case, settings: SearchSettings) -> tuple[Release, tuple[Fact, ...]] | None:
    """What the settings let out of another table, whole and in part."""
    try:
        found = release_search(table, case.known, settings, settings.widths(table)).run("ordered")
    except NotReleasableError:
        return None
    return found.release, found.suppressed_tables.facts


@pytest.mark.parametrize("before", [NOTHING, Release.of([0b0001])])
def test_beside_suppressed_tables_a_graph_is_annealed_alone_and_judged_with_them(before: Release) -> None:
    wished = {**ASKED, "required_only": False}
    found = find_release(PEOPLE, "best", before, **wished, on_conflict="drop")
    assert len(found.suppressed_tables.tables) == 2
    assert {"annealing", "annealing extended"} < {one.method for one in found.candidates}
    assert found.graph is not None


# Told to end


IN_PART = ("A*B*C", "A*B*D")
ASKED: Mapping[str, Any] = {
    "require": ["A", "B*C*D", *IN_PART],
    "protect": [{"of": name} for name in IN_PART],
    "required_only": True,
    "min_width": 3,
}


PEOPLE, _ = yearbook(np.random.default_rng(4))
SCHEMA = PEOPLE.schema


class Clock(InProcess):
    """Of one tick a unit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("sdc.deadline.time.time", lambda: self.now)

    def run(
        self, function: Callable[[Any, Any], Any], table: Any, units: Sequence[Any], is_over: Any = None
    ) -> Iterator[Any]:
        for result in super().run(function, table, units):
            self.now += 1
            yield result


def asked(**more: Any) -> FoundRelease:
    return find_release(PEOPLE, "ordered", **ASKED, on_conflict="drop", **more)


@pytest.mark.parametrize(("ticks", "proven"), [(80.0, ()), (200.0, ("A*B*C",)), (5000.0, IN_PART)])
def test_told_to_end_what_is_proven_by_then_goes_out_in_part(
    ticks: float, proven: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(executor=Clock(monkeypatch), deadline=Deadline(ticks))
    became, ended, reason = found.required, found.ended_after, found.reason or ""
    assert became is not None
    assert found.evaluation.verdict is Verdict.SAFE
    assert [part.label(SCHEMA) for part in found.suppressed_tables.tables] == [*proven]
    assert {*became.in_part} == {*found.suppressed_tables.views}
    left = [name for name in IN_PART if name not in proven]
    assert [st.label(view, SCHEMA) for view in became.refused] == left
    if not left:
        assert not ended
        return
    assert f"ended early before {', '.join(left)} {'was' if proven else 'were'} protected and proven" in reason
    assert ended == {"in_part_together": 0, "in_part": len(proven)}


def test_what_is_not_proven_together_in_time_is_proven_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    together = protection._together
    monkeypatch.setattr(
        protection, "_together", lambda of, constraints, _: together(of, constraints, AfterLooks(most=1))
    )
    found = asked()
    assert len(found.suppressed_tables.tables) == 2
    assert found.ended_after == {"in_part_together": 0}
    assert "before the suppressed tables were proven together, and looked for one after another" in (found.reason or "")


def test_told_to_end_while_less_is_looked_for_what_was_found_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The more it looks, the less is withheld."""
    found = [asked(executor=Clock(monkeypatch), deadline=Deadline(ticks)) for ticks in (600.0, 800.0)]
    for one in found:
        assert one.evaluation.verdict is Verdict.SAFE
        assert one.ended_after == {"in_part_together": 2}
        assert "ended early before it had seen whether less has to be suppressed; more time may" in (one.reason or "")
    withheld = [
        sum(len(fact.intervals.cells) for fact in one.suppressed_tables.facts if fact.intervals) for one in found
    ]
    assert withheld == sorted(set(withheld), reverse=True)


@pytest.mark.parametrize("how", [{"by": "suppression"}, {"by": "rounding", "base": 5}])
def test_without_a_best_subset_what_is_not_proven_in_time_lets_nothing_out(
    how: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdc.search.best.protect", lambda *asked: protect(*asked[:3], Deadline(0.0)))
    wished = {"require": ["B*C*D", "A*B"], "protect": [{"of": "A*B", **how}]}
    with pytest.raises(
        NotReleasableError, match=r"^the search was ended early before A\*B was protected and proven; give it"
    ):
        find_release(PEOPLE, "ordered", min_width=3, **wished)
