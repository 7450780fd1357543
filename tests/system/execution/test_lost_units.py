"""Units that get lost between client, scheduler and workers: they are handed out again, and no others are."""

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.core import Status

from sdc.config.build import ExecutionConfig
from sdc.deadline import Deadline, DeadlineError
from sdc.events import EXECUTION, EventText, heard
from sdc.execution import dask_executor
from sdc.execution.cluster import open_executor
from sdc.execution.dask_executor import Call, DaskExecutor
from sdc.executor import Executor
from sdc.model.errors import CutShortError, SdcError
from sdc.model.table import Table
from tests.helpers.waiting import wait_until

AGAIN = "unit {} of {} of {} is missing: {}; submitting it again ({} of at most 3)"
ENOUGH = (
    "unit 0 of 1 of mark was submitted 4 times and is missing: no worker ran the unit for 60 s.*; start the Dask "
    "scheduler and its workers anew, then run again"
)
WAYS = {"to the scheduler": 6, "to a worker": 1, "from a worker": 1, "from the scheduler": 1}
"""How many of six units are in one message."""


def mark(table: Table, unit: str) -> str:
    """Leaves a file for each time that the unit runs."""
    for number in count():
        with suppress(FileExistsError):
            Path(f"{unit}.{number}").touch(exist_ok=False)
            return Path(unit).name
    raise AssertionError


def until_seen(table: Table, unit: str) -> str:
    """Runs until there is a file beside its own that says that it has been seen."""
    done = mark(table, unit)
    wait_until(Path(unit).with_name("seen").exists)
    return done


def pause_once(table: Table, unit: str) -> tuple[str, str]:
    """The unit and its worker, which the first one pauses before it ends, so that it does not come to its next one."""
    from distributed import get_worker

    worker, done = get_worker(), mark(table, unit)
    if done == "a" and worker.status == Status.running:
        worker.loop.add_callback(setattr, worker.memory_manager, "memory_pause_fraction", False)
        worker.loop.add_callback(setattr, worker, "status", Status.paused)
        wait_until(lambda: worker.status != Status.running)
    return done, worker.address


def never_stolen(task: Any) -> tuple[None, None]:
    return None, None


def resume(fraction: float, dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = fraction
    dask_worker.status = Status.running


def pause_fraction(dask_worker: Any) -> float:
    fraction: float = dask_worker.memory_manager.memory_pause_fraction
    return fraction


@pytest.fixture
def executor(two_workers: Executor, monkeypatch: pytest.MonkeyPatch) -> DaskExecutor:
    """Looks often at workers that are heard often and are well; each unit is a task of its own."""
    monkeypatch.setattr(dask_executor.Pulse, "silent", lambda pulse, seconds: [])
    monkeypatch.setattr(dask_executor, "SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(dask_executor, "SECONDS_LOST", 0.25)
    monkeypatch.setattr("distributed.scheduler.heartbeat_interval", lambda workers: 0.05)
    assert isinstance(two_workers, DaskExecutor)
    return DaskExecutor(two_workers.client, two_workers.scratch, two_workers.workers)


@pytest.fixture
def said() -> Iterator[list[str]]:
    lines: list[str] = []
    with heard(EventText(lines.append), EXECUTION):
        yield lines


class Losing:
    """Has messages about units disappear on one of the ways that they go.

    losses  how many
    """

    def __init__(self, executor: DaskExecutor, way: str, losses: int) -> None:
        self.client, self.way, self.losses, self.lost = executor.client, way, losses, 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scheduler = self.client.cluster.scheduler
        if self.way == "to the scheduler":
            self._passes_on(self.client.scheduler_comm, monkeypatch)
        elif self.way == "to a worker":
            for comm in scheduler.stream_comms.values():
                self._passes_on(comm, monkeypatch)
        elif self.way == "from a worker":
            self._answered(scheduler.stream_handlers, "task-finished", monkeypatch)
        else:
            self._answered(self.client._stream_handlers, "key-in-memory", monkeypatch)

    def _passes_on(self, comm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        send = comm.send
        monkeypatch.setattr(comm, "send", lambda *given: send(*[one for one in given if not self._is_lost(one["op"])]))

    def _answered(self, handlers: dict[str, Any], op: str, monkeypatch: pytest.MonkeyPatch) -> None:
        handler = handlers[op]
        monkeypatch.setitem(handlers, op, lambda **message: None if self._is_lost(op) else handler(**message))

    def _is_lost(self, op: str) -> bool:
        of_unit = op in ("update-graph", "compute-task", "task-finished", "key-in-memory") and self.lost < self.losses
        self.lost += of_unit
        return of_unit


Certain = Callable[[int, Callable[[], int]], None]


@pytest.fixture
def certain(executor: DaskExecutor, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Certain:
    """However slow this machine is, nothing is taken for lost before so many are missing, or more often than it is."""

    def certain(missing: int, losses: Callable[[], int]) -> None:
        lost = Call._lost

        def certainly(self: Call, future: Any, looks: int, at_rest: int, times: int) -> Any:
            states = [state.status for state in executor.client.futures.values()]
            found = lost(self, future, looks, at_rest, times)
            return found if len(said) < losses() and states.count("pending") == missing else None

        monkeypatch.setattr(Call, "_lost", certainly)

    return certain


@pytest.fixture
def lose(executor: DaskExecutor, certain: Certain, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    def lose(way: str, losses: int, missing: int) -> None:
        losing = Losing(executor, way, losses)
        losing.install(monkeypatch)
        certain(missing, lambda: losing.lost)

    return lose


@pytest.mark.parametrize(("way", "missing"), WAYS.items())
def test_a_unit_that_gets_lost_is_handed_out_again(
    way: str,
    missing: int,
    lose: Callable[[str, int, int], None],
    executor: DaskExecutor,
    czech: Table,
    tmp_path: Path,
    said: list[str],
) -> None:
    """Those that are there are not computed again."""
    units = [str(tmp_path / name) for name in "abcdef"]
    lose(way, 1, missing)
    assert list(executor.run(mark, czech, units)) == ["a", "b", "c", "d", "e", "f"]
    times = Counter(path.stem for path in tmp_path.iterdir())
    # what a worker has answered has been computed; the answer is what got lost
    assert sorted(times.values()) == [1, 1, 1, 1, 1, 2 if way.startswith("from") else 1]
    assert len(said) == 1
    assert said[0] in [AGAIN.format(number, 6, "mark", dask_executor.ON_ITS_WAY, 1) for number in range(6)]


@pytest.mark.parametrize("way", WAYS)
def test_a_unit_that_always_gets_lost_ends_the_run(
    way: str,
    lose: Callable[[str, int, int], None],
    executor: DaskExecutor,
    czech: Table,
    tmp_path: Path,
    said: list[str],
) -> None:
    """The workers are as they were: the next one finds them at rest."""
    unit = str(tmp_path / "a")
    lose(way, 4, 1)
    with pytest.raises(SdcError, match=ENOUGH):
        list(executor.run(mark, czech, [unit]))
    assert said == [AGAIN.format(0, 1, "mark", dask_executor.ON_ITS_WAY, time) for time in (1, 2, 3)]
    assert list(executor.run(mark, czech, [unit])) == ["a"]


def test_a_unit_whose_result_is_lost_with_its_worker(
    executor: DaskExecutor,
    certain: Certain,
    czech: Table,
    tmp_path: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After it was there, and before it was fetched; and nobody hears of it again."""
    handlers, answers = executor.client.cluster.scheduler.handlers, executor.client._stream_handlers
    gather, hear, lost = handlers["gather"], answers["key-in-memory"], list[str]()

    async def gone(keys: list[str]) -> Any:
        if lost:
            return await gather(keys=keys)
        lost.extend(keys)
        return {"status": "error", "keys": keys}

    monkeypatch.setitem(handlers, "gather", gone)
    monkeypatch.setitem(answers, "key-in-memory", lambda **told: None if told["key"] in lost else hear(**told))
    certain(1, lambda: 1)
    assert list(executor.run(mark, czech, [str(tmp_path / "a")])) == ["a"]
    assert said == [AGAIN.format(0, 1, "mark", dask_executor.ON_ITS_WAY, 1)]


def test_a_unit_does_not_wait_for_a_worker_that_is_paused(
    executor: DaskExecutor,
    certain: Certain,
    czech: Table,
    tmp_path: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is behind another, whose memory paused its worker, while the other worker has nothing to do."""
    units = [str(tmp_path / name) for name in "abcdef"]
    # before it is paused, Dask might just take the unit from it
    monkeypatch.setattr(executor.client.cluster.scheduler.extensions["stealing"], "steal_time_ratio", never_stolen)
    fraction = next(iter(executor.client.run(pause_fraction).values()))
    certain(1, lambda: 1)
    try:
        found = list(executor.run(pause_once, czech, units))
    finally:
        executor.client.run(resume, fraction)
    (paused,) = [worker for unit, worker in found if unit == "a"]
    assert [unit for unit, _ in found] == ["a", "b", "c", "d", "e", "f"]
    assert [worker for _, worker in found].count(paused) == 1
    assert {path.suffix for path in tmp_path.iterdir()} == {".0"}
    assert len(said) == 1
    assert said[0] in [AGAIN.format(number, 6, "pause_once", dask_executor.ON_ITS_WAY, 1) for number in range(6)]


def test_a_unit_that_a_worker_is_at_is_not_handed_out_again(
    executor: DaskExecutor, czech: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often one looks, though the other worker rests."""
    found, lost = list[Any](), Call._lost

    def looked(self: Call, *given: Any) -> Any:
        found.append(lost(self, *given))
        if len(found) == 30:
            (tmp_path / "seen").touch()
        return found[-1]

    monkeypatch.setattr(dask_executor, "SECONDS_LOST", 5.0)  # the first looks may come before it is begun
    monkeypatch.setattr(Call, "_lost", looked)
    assert list(executor.run(until_seen, czech, [str(tmp_path / "a")])) == ["a"]
    assert len(found) >= 30
    assert not any(found)
    assert [path.name for path in tmp_path.glob("a.*")] == ["a.0"]


# Workers that stop, hang, or have too little memory, each in a cluster of its own


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes minutes takes seconds."""
    monkeypatch.setattr(dask_executor, "SECONDS_BETWEEN_LOOKS", 0.2)
    monkeypatch.setattr(dask_executor, "SECONDS_LOST", 6.0)
    monkeypatch.setattr(dask_executor, "SECONDS_SILENT", 3.0)


def once(table: Table, unit: tuple[str, str]) -> tuple[str, int]:
    """What befalls its process the first time that it runs."""
    path, fault = Path(unit[0]), unit[1]
    if fault and not path.exists():
        path.touch()
        if fault == "memory":
            KEPT.append(np.ones(1 << 28))
        elif fault == "hang":
            threading.Event().wait()
        else:
            os.kill(os.getpid(), getattr(signal, fault))
            time.sleep(5)
    return path.name, os.getpid()


KEPT: list[Any] = []
FAULTY = {
    "SIGSTOP": r"unit 0 of 2 of once is missing: worker tls://\S+, which has it, sent no heartbeat for 6 s and is",
    "hang": r"unit 0 of 2 of once is missing: after \d+ s worker tls://\S+ still runs it and is stopped; limit",
    "SIGKILL": r"worker tls://\S+ is lost; its units are recomputed",
    "memory": r"worker tls://\S+ is lost; its units are recomputed",
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_worker_costs_time_alone(
    fault: str, workers: int, soon: None, czech: Table, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another process afterwards."""
    if fault == "hang":
        monkeypatch.setattr(dask_executor, "SECONDS_LEAST", 6.0)
    units = [(str(tmp_path / name), fault if name == "a" else "") for name in "ab"]
    with open_executor(ExecutionConfig(workers=workers, memory_per_worker="1GiB")) as executor:
        before = {pid for _, pid in executor.run(once, czech, [(name, "") for name in "cdef"])}
        found = dict(executor.run(once, czech, units))
        assert list(found) == ["a", "b"]
        assert workers == 2 or not before.intersection(found.values())
        assert list(executor.run(total, czech, range(4))) == [1841] * 4
    assert any(re.match(FAULTY[fault], line) for line in said), said


def total(table: Table, unit: int) -> int:
    return table.total


def test_a_deadline_is_obeyed_while_no_unit_answers(soon: None, czech: Table, tmp_path: Path) -> None:
    """With the answers so far where workers are well; where a fault is why one is missing, that is said."""
    units, marker = [(str(tmp_path / name), "hang" if name == "b" else "") for name in "abc"], tmp_path / "over"
    with open_executor(ExecutionConfig(workers=2)) as executor:
        results = Deadline(marker=marker).limits(executor).run(once, czech, units)
        assert next(results)[0] == "a"
        wait_until((tmp_path / "b").exists)
        marker.touch()
        with pytest.raises(DeadlineError):
            next(results)
    with open_executor(ExecutionConfig(workers=2)) as executor:
        stopped = [(str(tmp_path / name), "SIGSTOP") for name in "de"]
        results = Deadline(time.time() + 8).limits(executor).run(once, czech, stopped)
        with pytest.raises(CutShortError, match=r"unit 0 of 2 of once is missing: worker tls://.+ sent no heartbeat"):
            next(results)
