"""Searches that a deadline ends: what they have is proven."""

import pickle
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sdc.api import find_release
from sdc.config.release import ReleaseConfig
from sdc.deadline import Deadline
from sdc.executor import InProcess
from sdc.model.errors import ConfigError, InputError, NothingReleasableError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.verdict import Verdict
from sdc.search.best import FoundRelease
from sdc.search.reasons import NOTHING_ELSE
from sdc.stages.assemble import Watch
from tests.helpers.deadlines import AfterLooks
from tests.strategies import czech as czech_table
from tests.strategies import scattered
from tests.unit.search.test_ordered import FEW_NODES

FEW_STEPS = {"steps": 400, "chains": 2, "annealing": {"rounds": 4, "patience": 0}}
SETTINGS: dict[str, dict[str, Any]] = {"ordered": {}, "bisection": {}, "decomposable": FEW_STEPS, "best": FEW_STEPS}


def found_by(method: str, table: Table, **more: Any) -> FoundRelease:
    return find_release(table, method, min_width=3, budget=FEW_NODES, **{**SETTINGS[method], **more})


def told_to_end(method: str, table: Table, after: int, folder: Path, **more: Any) -> FoundRelease:
    """By a marker that is there once so many questions and rounds have been heard of."""
    heard, marker = count(1), folder / f"{method}-{after}"

    def hear(_: object) -> None:
        if next(heard) == after:
            marker.touch()

    if not after:
        marker.touch()
    return found_by(method, table, watch=Watch(hear, hear), deadline=Deadline(marker=marker), **more)


@pytest.mark.parametrize("require", [[], ["all:1"]])
@pytest.mark.parametrize("method", ["ordered", "bisection", "decomposable", "best"])
def test_told_to_end_at_any_moment_it_has_what_was_proven(method: str, require: list[str], tmp_path: Path) -> None:
    table, whole = scattered(), found_by(method, scattered(), require=require)
    assert not whole.ended_after
    values, moment = [], 0
    while True:
        try:
            found = told_to_end(method, table, moment, tmp_path, require=require)
        except NothingReleasableError:  # no prefix was proven yet, or not what is required
            assert require or method == "bisection"
            assert values == []
            moment += 1
            continue
        assert found.evaluation.verdict is Verdict.SAFE
        values.append(found.value)
        if not found.ended_after:
            break
        assert "was ended early after" in (found.reason or "") or "were ended early after" in (found.reason or "")
        moment += 1
    assert moment > 2
    assert values == sorted(values) or method == "best"
    assert found.release == whole.release
    assert (found.steps, found.reason) == (whole.steps, whole.reason)


def test_a_bisection_that_proved_no_prefix_has_nothing() -> None:
    with pytest.raises(NothingReleasableError, match=r"ended early after 0 questions, before a prefix of the list was"):
        found_by("bisection", scattered(), deadline=Deadline(0.0))


def test_a_question_that_is_not_answered_in_time_does_not_count(tmp_path: Path) -> None:
    """The units that are at work are the last that are waited for."""
    table, marker = scattered(), tmp_path / "ending"
    whole = found_by("ordered", table)

    class Ends(InProcess):
        """After so many units."""

        def __init__(self, units: int) -> None:
            self.left = units

        def run(self, function: Any, table: Any, units: Any, is_over: Any = None) -> Iterator[Any]:
            for result in super().run(function, table, units):
                self.left -= 1
                if not self.left:
                    marker.touch()
                yield result

    counts = set()
    for units in (1, 2, 5, 20, 60):
        marker.unlink(missing_ok=True)
        found = found_by("ordered", table, executor=Ends(units), deadline=Deadline(marker=marker))
        assert found.evaluation.verdict is Verdict.SAFE
        assert found.steps == whole.steps[: len(found.steps)]
        counts.add(len(found.steps))
    assert len(counts) > 1


@pytest.mark.parametrize("on_conflict", ["refuse", "drop"])
def test_what_is_required_is_proven_first_or_nothing_goes_out(on_conflict: str) -> None:
    what = "before any of the required sub-tables" if on_conflict == "drop" else "before all of the required sub-tables"
    with pytest.raises(NothingReleasableError, match=f"ended early after 0 questions, {what}") as told:
        found_by("ordered", czech_table(), require=["A*B"], on_conflict=on_conflict, deadline=Deadline(0.0))
    assert ("best subset" in str(told.value)) is (on_conflict == "refuse")


@pytest.mark.parametrize("method", ["ordered", "bisection", "best"])
def test_of_required_ones_that_conflict_the_best_that_was_proven_goes_out(method: str, tmp_path: Path) -> None:
    """One with more time comes to no less."""
    table, required = scattered(), {"require": ["all:2"], "on_conflict": "drop"}
    kept = []
    for moment in (3, 5, 30):
        found = told_to_end(method, table, moment, tmp_path, **required)
        became, ended = found.required, found.ended_after
        assert became is not None
        assert (became.is_best, became.is_ended, ended["required"]) == (False, True, moment)
        kept.append(len(became.sub_tables) - len(became.refused))
        told = f"ended early after {moment} questions about the 10 required sub-tables: the best subset that was"
        assert f"{told} proven by then has {kept[-1]} of them" in (found.reason or "")
        assert found.evaluation.verdict is Verdict.SAFE
        assert all(t in found.release for t in became.sub_tables if t not in became.refused)
    assert kept == sorted(kept)
    assert 0 < kept[0] < kept[-1] < 10


def test_what_is_proven_after_the_best_subset_is_not_called_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A required sub-table may still grow with all others."""
    monkeypatch.setattr(Deadline, "halved", AfterLooks(most=3))
    found = found_by("ordered", scattered(), require=["all:2"], on_conflict="drop")
    became = found.required
    assert became is not None
    assert "the best subset that was proven by then has 2 of them" in (found.reason or "")
    assert 0 < len(became.refused) < 8
    assert became.refused == tuple(t for t in became.sub_tables if t not in found.release)


def test_without_a_best_subset_a_conflict_that_was_found_lets_nothing_out(tmp_path: Path) -> None:
    with pytest.raises(NothingReleasableError, match="ended early after 30 questions, before all of the required"):
        told_to_end("ordered", scattered(), 30, tmp_path, require=["all:2"])


def test_minutes_are_of_the_clock() -> None:
    now = time.time()
    assert now + 90 <= Deadline.of(ReleaseConfig(minutes=1.5)).moment <= time.time() + 90
    half = Deadline(now + 90).halved.moment - now
    assert 44 < half < 46


def test_a_clock_that_is_set_back_makes_no_search_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other machines know the moment alone, and their units are given up where it ends."""
    now, steady = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(time, "monotonic", lambda: steady)
    deadlines = [Deadline.of(ReleaseConfig(minutes=1)), Deadline.of(ReleaseConfig(minutes=2)).halved]
    now -= 3600
    for seconds, is_over in ((59, False), (2, True)):
        steady += seconds
        assert [one.is_over for one in deadlines] == [is_over, is_over]
        assert not pickle.loads(pickle.dumps(deadlines[0])).is_over


def test_how_far_an_earlier_search_went_is_read_and_has_no_effect() -> None:
    whole = found_by("ordered", scattered())
    with pytest.warns(FutureWarning, match="ended_after has no effect any more"):
        found = found_by("ordered", scattered(), ended_after={"questions": 1})
    assert (found.release, found.steps, found.ended_after) == (whole.release, whole.steps, {})


@pytest.mark.parametrize("method", ["ordered", "bisection", "best"])
def test_only_what_is_required_goes_out(method: str, czech: Table) -> None:
    schema = czech.schema
    names = [f"{schema.names[0]}*{schema.names[1]}", schema.names[2]]
    found = found_by(method, czech, require=names, required_only=True)
    assert found.release == Release.of([0b11, 0b100])
    assert (found.reason, found.method, found.ended_after) == (NOTHING_ELSE, method, {})
    assert {step.phase for step in found.steps} == {"required"}
    assert found_by("ordered", czech, require=names).sub_tables > found.sub_tables


def test_only_what_is_required_where_no_cell_is_at_risk() -> None:
    table = Table.of(scattered().schema, scattered().codes, scattered().counts + 5)
    first = table.schema.names[0]
    found = found_by("best", table, require=[first], required_only=True)
    assert found.release == Release.of([1])
    assert (found.reason or "").endswith(NOTHING_ELSE)


@pytest.mark.parametrize(
    ("method", "settings", "error", "message"),
    [
        ("ordered", {"minutes": 0}, InputError, "release.minutes = 0"),
        (
            "ordered",
            {"required_only": True},
            InputError,
            "required_only is true, and nothing is required; name sub-tables",
        ),
        ("ordered", {"required_only": 1, "require": ["all:1"]}, InputError, "release.required_only = 1"),
        ("ordered", {"ended_after": {"questions": -1}}, InputError, "release.ended_after.questions = -1"),
        (
            "decomposable",
            {"required_only": True, "require": ["all:1"]},
            ConfigError,
            "has more than the required sub-tables",
        ),
        ("simulatable", {"minutes": 3.0}, ConfigError, "the point that it reaches in a time may disclose"),
    ],
)
def test_what_makes_no_sense_is_refused(
    method: str, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        find_release(czech_table(), method, min_width=3, **settings)
