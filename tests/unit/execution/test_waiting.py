"""When workers count as at rest, and what is said while they are waited for."""

from __future__ import annotations

from typing import Any

import pytest

from sdc.events import EXECUTION, EventText, heard
from sdc.execution.connection import Waiting
from sdc.execution.dask_executor import Rest


def worker(last_seen: float, status: str = "running", /, **counts: int) -> dict[str, Any]:
    """As a scheduler knows it."""
    return {"status": status, "last_seen": last_seen, "metrics": {"task_counts": counts}}


@pytest.mark.parametrize("state", ["executing", "ready", "waiting", "constrained", "cancelled", "fetch", "any other"])
def test_who_has_a_unit_does_not_rest(state: str) -> None:
    """One that is given up is computed to its end, and another may wait for that."""
    rest = Rest()
    assert not any(rest.lasts({"a": worker(look, **{state: 1}), "b": worker(look)}) for look in range(100))


def test_who_is_paused_rests_once_it_is_at_no_unit() -> None:
    """It may never come to what it has; another worker could."""
    rest, never = Rest(), Rest()
    assert any(rest.lasts({"a": worker(look, "paused", ready=1), "b": worker(look)}) for look in range(100))
    assert not any(never.lasts({"a": worker(look, "paused", executing=1), "b": worker(look)}) for look in range(100))


def test_workers_rest_that_have_nothing_but_results() -> None:
    rest = Rest()
    looks = [rest.lasts({"a": worker(look, memory=3, error=1, executing=0), "b": worker(look)}) for look in range(32)]
    assert looks == [False] * 30 + [True] * 2


def test_who_is_not_heard_may_be_at_a_unit() -> None:
    """A unit may keep its worker from being heard: what is known of it is then from before."""
    rest = Rest()
    assert not any(rest.lasts({"a": worker(7), "b": worker(look)}) for look in range(100))


def test_looks_at_rest_are_in_a_row() -> None:
    rest = Rest()
    assert not any(rest.lasts({"a": worker(look, executing=look % 30 == 29)}) for look in range(100))


def test_who_takes_no_unit_does_not_rest() -> None:
    """There is no worker, or all of them are paused: that is another fault, which has its own message."""
    rest = Rest()
    assert not any(rest.lasts(workers) for look in range(100) for workers in ({}, {"a": worker(look, "paused")}))


def test_what_is_waited_for_is_told_once_a_minute_and_when_it_changes() -> None:
    now, lines = [0.0], list[str]()
    with heard(EventText(lines.append), EXECUTION):
        waiting = Waiting(100, lambda: now[0])
        for at in range(0, 80, 10):
            now[0] = at
            waiting.tell("no worker yet", "Priority" if at == 70 else "Resources")
    assert lines == [
        "no worker yet (Resources); waiting, 0 s of 100 s",
        "no worker yet (Resources); waiting, 60 s of 100 s",
        "no worker yet (Priority); waiting, 70 s of 100 s",
    ]
    assert waiting.seconds_left == 30
