"""When workers count as at rest, and what is said while they are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sdc.events import EXECUTION, EventText, heard
from sdc.execution.connection import Waiting
from sdc.execution.dask_executor import Rest


def worker(last_seen: float, status: str = "running", /, **counts: int) -> dict[str, Any]:
    """As a scheduler knows it."""
    return {"status": status, "last_seen": last_seen, "metrics": {"task_counts": counts}}


Looked = Callable[[int], dict[str, Any]]
BUSY = "executing", "ready", "waiting", "constrained", "cancelled", "fetch", "any other"
LOOKED: dict[str, tuple[Looked, bool]] = {
    # a unit that is given up is computed to its end, and another may wait for that
    **{state: (lambda look, of=state: {"a": worker(look, **{of: 1}), "b": worker(look)}, False) for state in BUSY},
    # a paused worker may never come to what it has; another one could
    "paused at no unit": (lambda look: {"a": worker(look, "paused", ready=1), "b": worker(look)}, True),
    "paused at a unit": (lambda look: {"a": worker(look, "paused", executing=1), "b": worker(look)}, False),
    "nothing but results": (lambda look: {"a": worker(look, memory=3, error=1, executing=0)}, True),
    # a unit may keep its worker from being heard: what is known of it is then from before
    "not heard": (lambda look: {"a": worker(7), "b": worker(look)}, False),
    "not in a row": (lambda look: {"a": worker(look, executing=look % 30 == 29)}, False),
    # these are another fault, which has its own message
    "nobody": (lambda look: {}, False),
    "all are paused": (lambda look: {"a": worker(look, "paused")}, False),
}


@pytest.mark.parametrize(("looked", "rests"), LOOKED.values(), ids=LOOKED)
def test_workers_rest_that_were_at_no_unit_at_30_looks(looked: Looked, rests: bool) -> None:
    rest = Rest()
    assert [rest.lasts(looked(look)) for look in range(100)] == [False] * 30 + [rests] * 70


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
