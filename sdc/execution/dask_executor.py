"""Dask executor: the units of a call run as tasks, and each worker opens the table by its path."""

from __future__ import annotations

import sys
import time
from asyncio import run_coroutine_threadsafe
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import Any

from sdc.events import EXECUTION, SCHEDULER_LOST, STEP, UNIT_LOST, WORKER_LOST, EventText, emit, heard
from sdc.execution.connection import PATIENCE, SECONDS_BETWEEN_LOOKS, Waiting, require_software, software, workers_of
from sdc.executor import Input, Result, Unit, never
from sdc.memory import give_back, resident_bytes
from sdc.model.errors import ConfigError, CutShortError, SdcError, TemporaryError, many
from sdc.model.table import Cells, Table
from sdc.run_format import SCHEMA
from sdc.storage.parquet import PartedTable, Place, open_memory_form, open_parts, write_memory_form

MOST_LOSSES = 3
SECONDS_LOST = 60.0  # without a heartbeat of its worker, or without any worker, a unit is lost
SECONDS_SILENT = 10.0  # without a heartbeat, a worker counts as failed at a deadline
TIMES_AS_LONG, SECONDS_LEAST = 10, 600.0  # of the longest task of a kind; longer units are lost
SECONDS_TO_END = 30.0  # for ending a worker
SHORTEST_TASK, LONGEST_TASK = 0.1, 2.0  # seconds; Dask takes 3 ms of a core per task
REPORTS, SECONDS_BETWEEN_REPORTS = "unit reports", 2.0
TASKS_LEFT = 4  # per worker: the first units are often the longest
RUN_AGAIN = "then run again: finished stages are reused"
ON_ITS_WAY = (
    f"no worker ran the unit for {SECONDS_LOST:g} s; it was lost, or its worker is paused "
    "because of memory (memory_per_worker)"
)
LONG = f"limit: {TIMES_AS_LONG} times the longest unit of its kind, at least {SECONDS_LEAST:g} s"


class DaskExecutor:
    """Runs units on the workers of a Dask client.

    The table is written once, memory-mapped, below `scratch`, which every worker must see. It is not scattered:
    scattered data is lost with its worker. A table of parts on disk is read in place. Results come in the order of the
    units, so they do not depend on worker speed. Dask recomputes units of dead workers; this class recomputes units of
    a lost scheduler and lost units. A unit is lost if its worker sent no heartbeat for SECONDS_LOST, if it runs
    TIMES_AS_LONG the longest of its kind and at least SECONDS_LEAST, or if no worker runs it for SECONDS_LOST; its
    worker is ended. Units share tasks by the times of the function's last call.

    client     its timeout is the time to reconnect to a lost scheduler
    patience   seconds to wait for that, and for a worker if there is none
    dashboard  its address, or None
    waiting    describes workers that are still to come
    """

    def __init__(
        self,
        client: Any,
        scratch: Path,
        workers: int,
        patience: float = PATIENCE,
        *,
        dashboard: str | None = None,
        waiting: Callable[[], str] = lambda: "",
    ) -> None:
        self.client, self.scratch, self.workers, self.patience = client, scratch, workers, patience
        self.why_waiting, self.pulse = waiting, Pulse()
        # by function: seconds of a unit in the last call, and of the longest task so far
        self.seconds, self.longest = dict[str, float](), dict[str, float]()
        client.scheduler_comm.interval = 0.0  # otherwise each step waits up to 10 ms
        text = f"{many(workers, 'worker')}; dashboard: {dashboard or 'none'}"
        _log("cluster opened", text, dashboard=dashboard, workers=workers)

    def run(
        self,
        function: Callable[[Input, Unit], Result],
        table: Input,
        units: Sequence[Unit],
        is_over: Callable[[], bool] = never,
    ) -> Iterator[Result]:
        """Yield results in order; SdcError if a unit kills every worker, no worker comes, or a unit is lost repeatedly.

        Ends early as in `Executor`.
        """
        place = None if table is None or not units else self._place(table)
        done = losses = 0
        while done < len(units):
            try:
                for result in Call(self, function, place, units, done, is_over).results():
                    done, losses = done + 1, 0
                    yield result
            except OverError:
                return
            except _lost() as error:
                # recompute the rest: units are pure
                losses += 1
                self._await_scheduler(error if losses > MOST_LOSSES else None, is_over)

    def _await_scheduler(self, last: Exception | None, is_over: Callable[[], bool]) -> None:
        """Wait until the client reconnects; TemporaryError if it does not, or too often."""
        _log(SCHEDULER_LOST, "the Dask scheduler is lost; waiting for it")
        deadline = time.monotonic() + self.patience
        # the client reconnects itself, within its timeout
        while self.client.status == "connecting" and time.monotonic() < deadline:
            if is_over():
                raise CutShortError("the Dask scheduler was lost")
            time.sleep(0.1)
        if last is not None or self.client.status != "running":
            again = f"{MOST_LOSSES + 1} times in a row" if last is not None else f"for {self.patience:g} s"
            raise TemporaryError(f"the Dask scheduler was lost {again}; start it, {RUN_AGAIN}") from last
        _log("scheduler back", "the Dask scheduler is back; its units are recomputed")

    def _place(self, table: Cells) -> str | Place:
        """Return the place by which a worker opens the table."""
        if isinstance(table, PartedTable):
            return table.place
        assert isinstance(table, Table)
        folder = self.scratch / table.digest
        # once per table: a search makes hundreds of calls
        if not (folder / SCHEMA).exists():
            try:
                write_memory_form(table, folder)
            except OSError as error:
                raise SdcError(
                    f"scratch folder {self.scratch} cannot be written: {error}; free its disk or name another in the "
                    f"cluster file, {RUN_AGAIN}"
                ) from error
        return str(folder)


@dataclass(frozen=True)
class Lost:
    """Why a unit is lost, and the worker to end."""

    why: str
    worker: str = ""


class OverError(Exception):
    """The caller no longer waits."""


class Call:
    """One call of an executor, from the first missing unit on.

    names  of the first unit of each task
    """

    def __init__(
        self,
        own: DaskExecutor,
        function: Callable[[Any, Any], Any],
        place: str | Place | None,
        units: Sequence[Any],
        first: int,
        is_over: Callable[[], bool],
    ) -> None:
        self.own, self.client, self.function, self.place, self.is_over = own, own.client, function, place, is_over
        self.kind, rest = function.__name__, units[first:]
        ends = list(accumulate(self._sizes_of_tasks(len(rest)), initial=0))
        self.tasks = [rest[begin:end] for begin, end in pairwise(ends)]
        self.names = [f"unit {first + begin} of {len(units)} of {self.kind}" for begin in ends]
        self.units = len(rest)

    def results(self) -> Iterator[Any]:
        """Yield results; raises one of `_lost()` if the scheduler is lost, and `OverError` if the caller stops."""
        self.client.subscribe_topic("all", _log_worker)
        self.futures, seconds, own = self._handed_out(self.tasks), 0.0, self.own
        try:
            for taken, results in self._in_order():
                seconds += taken
                yield from results
                own.longest[self.kind] = max(own.longest.get(self.kind, 0.0), taken)
            own.seconds[self.kind] = seconds / self.units
        finally:
            if self.client.status == "running":
                if not all(future.done() for future in self.futures):
                    self.client.cancel(self.futures)
                with suppress(ValueError):  # another call did it
                    self.client.unsubscribe_topic("all")

    def _handed_out(self, tasks: list[Sequence[Any]]) -> list[Any]:
        """Submit a future for each task."""
        same = [self.function] * len(tasks), [self.place] * len(tasks)
        # not pure for Dask, which would merge equal units and hash every array
        found: list[Any] = self.client.map(_call, *same, tasks, here=software(), pure=False, key=self.kind)
        return found

    def _hand_out_again(self) -> None:
        missing = [i for i, future in enumerate(self.futures) if not future.done()]
        with suppress(OSError):  # the futures will report a lost scheduler
            self.client.cancel([self.futures[i] for i in missing])
        for i, future in zip(missing, self._handed_out([self.tasks[i] for i in missing]), strict=True):
            self.futures[i] = future

    def _sizes_of_tasks(self, left: int) -> Iterator[int]:
        """Return the units of each task: ever fewer, so that workers end together; one each for unknown functions.

        Guided self-scheduling (Polychronopoulos and Kuck 1987) for `TASKS_LEFT` times the workers; each worker gets a
        task.
        """
        # times decide how units share tasks, not the results
        seconds = max(self.own.seconds.get(self.kind, LONGEST_TASK), 1e-6)
        most = max(1, left // self.own.workers)
        while left:
            share = max(left / (TASKS_LEFT * self.own.workers), SHORTEST_TASK / seconds)
            size = max(1, int(min(share, LONGEST_TASK / seconds, most, left)))
            yield size
            left -= size

    def _in_order(self) -> Iterator[Any]:
        """Wait for the first missing result, then fetch all that are ready in a row."""
        start = 0
        while start < len(self.futures):
            losses = 0
            while lost := self._await(start, losses):
                losses += 1
                _require_few(losses, self.names[start], lost.why)
                if lost.worker:  # Dask resubmits its work; a local worker restarts
                    self.client.restart_workers([lost.worker], timeout=SECONDS_TO_END, raise_for_error=False)
                else:
                    self._hand_out_again()
            stop = start + 1
            # finished ones only, so that a failed unit is the first of its fetch
            while stop < len(self.futures) and self.futures[stop].status == "finished":
                stop += 1
            found = self._gathered(self.futures[start:stop], self.names[start])
            yield from found
            start += len(found)

    def _await(self, start: int, losses: int) -> Lost | None:
        """Wait until a future is done; return how it was lost, if so.

        TemporaryError if there is no worker for long. If the caller stops, OverError, or CutShortError after a failure.
        """
        from distributed import wait

        own, name, future = self.own, self.names[start], self.futures[start]
        waited, looks, at_rest = Waiting(own.patience), 0, 0
        while True:
            with suppress(TimeoutError):
                # with a timeout: a future without scheduler or workers never ends
                wait(future, timeout=min(SECONDS_BETWEEN_LOOKS, own.patience))  # type: ignore[no-untyped-call]
                return None
            if self.client.status == "closed":
                # as with a lost scheduler: `run` continues
                raise CancelledError(name)
            workers = self._workers()
            if workers is None:  # the future will report a lost scheduler
                waited.again()
                continue
            own.pulse.look(workers)
            looks, at_rest = looks + 1, 0 if any(map(_is_busy, workers.values())) else at_rest + 1
            idle_reason = _why_idle(workers)
            if self.is_over():
                self._require_no_failure(name, idle_reason, losses)
            if lost := self._lost(future, looks, 0 if idle_reason else at_rest, losses):
                return lost
            if not idle_reason:
                waited.again()
            elif waited.seconds_left:
                waited.emit("no worker runs", own.why_waiting())
            else:
                raise TemporaryError(f"{name}: for {own.patience:g} s {idle_reason}{waited.why}, {RUN_AGAIN}")

    def _workers(self) -> dict[str, Any] | None:
        """Return the scheduler's facts about each worker; None if it does not answer."""
        try:
            return workers_of(self.client)
        except (OSError, AttributeError, KeyError):
            return None

    def _lost(self, future: Any, looks: int, at_rest: int, losses: int) -> Lost | None:
        """Return how a missing unit was lost, given the looks at it."""
        if at_rest * SECONDS_BETWEEN_LOOKS >= SECONDS_LOST:
            return Lost(ON_ITS_WAY)
        waited, longest = looks * SECONDS_BETWEEN_LOOKS, self.own.longest.get(self.kind, inf)
        is_long = waited >= max(SECONDS_LEAST, TIMES_AS_LONG * longest) * 2**losses
        silent = self.own.pulse.silent(SECONDS_LOST)
        for at in self._workers_at([future]) if is_long or silent else ():
            if at in silent:
                return Lost(f"worker {at}, which has it, sent no heartbeat for {SECONDS_LOST:g} s and is stopped", at)
            if is_long:
                return Lost(f"after {waited:g} s worker {at} still runs it and is stopped; {LONG}", at)
        return None

    def _require_no_failure(self, name: str, idle_reason: str, losses: int) -> None:
        """Raise OverError, or CutShortError if a failure is the reason for missing units."""
        silent = self.own.pulse.silent(SECONDS_SILENT, self.client.run_on_scheduler(time.time))
        stopped = [at for at in (self._workers_at(self.futures) if silent else ()) if at in silent]
        if not (idle_reason or losses or stopped):
            raise OverError
        why = f"worker {', '.join(stopped)} sent no heartbeat for {SECONDS_SILENT:g} s" if stopped else "it was lost"
        raise CutShortError(f"{name} is missing: {idle_reason or why}")

    def _workers_at(self, futures: Sequence[Any]) -> list[str]:
        """Return the workers that have one of the missing futures."""
        missing = {future.key for future in futures if not future.done()}
        with suppress(OSError):  # the scheduler is lost
            return [at for at, keys in self.client.processing().items() if missing.intersection(keys)]
        return []

    def _gathered(self, futures: list[Any], first: str) -> list[Any]:
        """Return results of tasks; the first may have failed and re-raises its error.

        None if a worker was lost, since Dask then recomputes them.
        """
        from distributed.scheduler import KilledWorker

        gathering = run_coroutine_threadsafe(
            self.client.gather(futures, asynchronous=True), self.client.loop.asyncio_loop
        )
        while not wait_for([gathering], SECONDS_BETWEEN_LOOKS).done:
            if not all(future.done() for future in futures):
                gathering.cancel()
                return []
        try:
            results: list[Any] = gathering.result()
        except KilledWorker as error:
            raise SdcError(
                f"{first} killed every worker that tried it (out of memory?); give workers more memory or use "
                "fewer of them"
            ) from error
        return results


def _call(
    function: Callable[[Any, Unit], Result], place: str | Place | None, units: Sequence[Unit], here: Mapping[str, str]
) -> tuple[float, list[Result]]:
    """Return the seconds and results of a task's units, in a worker.

    ConfigError if the worker, which may be new, has other software than `here` or does not see the scratch folder.
    """
    if software() != here:
        require_software(_worker(), software(), here)
    table = None if place is None else _opened(place)
    # after the table is open, which only a worker's first task waits for
    begun = time.perf_counter()
    with heard(EventText(_Passing(), STEP)):
        results = [function(table, unit) for unit in units]
    _make_room()
    return time.perf_counter() - begun, results


class Pulse:
    """How long workers have been silent, by the scheduler's clock."""

    def __init__(self) -> None:
        self._heard, self._looks = dict[str, float](), 0

    def look(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        heard = {address: worker["last_seen"] for address, worker in workers.items()}
        is_still = max(heard.values(), default=0.0) == max(self._heard.values(), default=0.0)
        self._heard, self._looks = heard, self._looks + 1 if is_still else 0

    def silent(self, seconds: float, now: float | None = None) -> list[str]:
        """Return workers that were silent for so long, counted by looks."""
        # looks, not the clock: this process may have been stopped itself
        now = now or max(self._heard.values(), default=0.0) + self._looks * SECONDS_BETWEEN_LOOKS
        return [address for address, moment in self._heard.items() if now - moment >= seconds]


class _Passing:
    """Passes a unit's progress on to the client, now and then."""

    def __init__(self) -> None:
        self._last = -SECONDS_BETWEEN_REPORTS

    def __call__(self, text: str) -> None:
        from distributed import get_worker

        if time.monotonic() - self._last >= SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            get_worker().log_event("all", {"action": REPORTS, "text": text})


def _make_room() -> None:
    """Have a worker with little memory return free memory: Dask pauses workers by their process size."""
    from distributed import get_worker

    if resident_bytes() > (get_worker().memory_manager.memory_limit or sys.maxsize) // 2:
        give_back()


def _opened(place: str | Place) -> Cells:
    if not isinstance(place, str):
        return open_parts(place)
    if not Path(place).is_dir():
        raise ConfigError(f"{_worker()} does not see the scratch folder {place}; mount it there")
    return open_memory_form(Path(place), Path(place).name)


def _why_idle(workers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why no worker runs units and what to do, or ""."""
    if any(worker["status"] == "running" or _is_busy(worker) for worker in workers.values()):
        return ""
    if not workers:
        return "there was no worker; start workers"
    return f"all workers ({len(workers)}) were paused, short of memory; give them more (memory_per_worker)"


def _require_few(losses: int, name: str, why: str) -> None:
    """Log that a unit is lost; SdcError if it was lost too often in a row."""
    if losses > MOST_LOSSES:
        raise SdcError(
            f"{name} was submitted {losses} times and is missing: {why}; start the Dask scheduler and its workers "
            f"anew, {RUN_AGAIN}"
        )
    text = f"{name} is missing: {why}; submitting it again ({losses} of at most {MOST_LOSSES})"
    _log(UNIT_LOST, text, unit=name)


def _is_busy(worker: Mapping[str, Any]) -> bool:
    return bool(worker["metrics"].get("task_counts", {}).get("executing"))


def _worker() -> str:
    from distributed import get_worker

    return f"worker {get_worker().address}"


def _lost() -> tuple[type[Exception], ...]:
    """Errors of a client whose scheduler is gone."""
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    return CancelledError, ClosedClientError, CommClosedError


def _log(event: str, text: str, **fields: Any) -> None:
    emit(event, text, EXECUTION, **fields)


def _log_worker(event: tuple[float, Any]) -> None:
    """Log lost workers and the progress of units."""
    what = event[1] if isinstance(event[1], dict) else {}
    if what.get("action") == REPORTS:
        emit(STEP, str(what["text"]))
    if what.get("action") == "remove-worker" and not what.get("expected"):
        worker, units = what["worker"], len(what["processing-tasks"])
        _log(WORKER_LOST, f"worker {worker} is lost; its units are recomputed", worker=worker, units=units)
