"""Dask executor: the units of one call are tasks, and the table is opened by path in each worker."""

from __future__ import annotations

import shutil
import sys
import time
import uuid
from asyncio import run_coroutine_threadsafe
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import Any

from sdc.events import EXECUTION, SCHEDULER_LOST, STEP, UNIT_LOST, WORKER_LOST, EventText, heard, tell
from sdc.execution.connection import PATIENCE, SECONDS_BETWEEN_LOOKS, Waiting, require_software, software, workers_of
from sdc.executor import Input, Result, Unit, never
from sdc.memory import give_back, resident_bytes
from sdc.model.errors import ConfigError, CutShortError, SdcError, TemporaryError
from sdc.model.table import Cells, Table
from sdc.storage.parquet import PartedTable, Place, open_memory_form, open_parts, write_memory_form

MOST_LOSSES = 3
SECONDS_LOST = 60.0  # without a heartbeat of a unit's worker, or without any worker at a unit
SECONDS_SILENT = 10.0  # without a heartbeat, after which a worker is why a unit is missing at a deadline
TIMES_AS_LONG, SECONDS_LEAST = 10, 600.0  # the longest task of a kind, and at least; then a unit is lost
SECONDS_TO_END = 30.0  # for a worker that is ended
SHORTEST_TASK, LONGEST_TASK = 0.1, 2.0  # seconds; Dask takes 3 ms for a task, on a core that a worker could use
TELLS, SECONDS_BETWEEN_TELLS = "unit tells", 2.0
TASKS_LEFT = 4  # for each worker: the first units are often the longest
RUN_AGAIN = "then run again: stages that are done are reused"
ON_ITS_WAY = (
    f"no worker was at a unit for {SECONDS_LOST:g} s; it got lost on its way, or is with a worker that is paused, "
    "short of memory (memory_per_worker)"
)
LONG = f"a unit may take {TIMES_AS_LONG} times the longest of its kind, and {SECONDS_LEAST:g} s at least"


class DaskExecutor:
    """Runs units on the workers of a Dask client.

    The table is written once in its memory-mapped form below `scratch`, which every worker must
    see, and is never scattered: scattered data is lost with its worker, a file is opened again. A table whose parts are
    on disk is read where it is.
    Results come in the order of the units, so they do not depend on which worker was quickest. Units of a worker that
    died are computed again by Dask, and those that a lost scheduler had not answered by this class. So are lost ones: a
    unit is lost whose worker sent no heartbeat for SECONDS_LOST, that runs TIMES_AS_LONG the longest of its kind and
    SECONDS_LEAST at least, or that no worker is at for SECONDS_LOST. Its worker is ended. Units share tasks by how long
    those of the same function took in its last call.

    client     its timeout is for how long it tries to reach a scheduler that it lost
    patience   seconds to wait for that, and for a worker where there is none
    dashboard  where it is, None where the scheduler has none
    waiting    what is known of workers that are still to come
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
        self.why_waiting, self.known, self.pulse = waiting, Known(), Pulse()
        client.scheduler_comm.interval = 0.0  # else it sends every 10 ms, which a search waits for at each of its steps
        _tell("cluster opened", f"Dask dashboard: {dashboard or 'none'}", dashboard=dashboard, workers=workers)

    def run(
        self,
        function: Callable[[Input, Unit], Result],
        table: Input,
        units: Sequence[Unit],
        is_over: Callable[[], bool] = never,
    ) -> Iterator[Result]:
        """The results in order; SdcError where a unit killed every worker that tried it, nobody works for long, or a
        unit gets lost time and again. As `Executor` where it is over.
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
                # what has been yielded is with the caller; the rest is pure, so computing it again changes nothing
                losses += 1
                self._await_scheduler(error if losses > MOST_LOSSES else None, is_over)

    def _await_scheduler(self, last: Exception | None, is_over: Callable[[], bool]) -> None:
        """Waits until the client has found a scheduler again; TemporaryError where it does not, or not any more."""
        _tell(SCHEDULER_LOST, "the Dask scheduler is lost; waiting for it to come back")
        deadline = time.monotonic() + self.patience
        # the client itself tries to connect again, for as long as the timeout that it was opened with
        while self.client.status == "connecting" and time.monotonic() < deadline:
            if is_over():
                raise CutShortError("the Dask scheduler was lost")
            time.sleep(0.1)
        if last is not None or self.client.status != "running":
            again = f"{MOST_LOSSES + 1} times in a row" if last is not None else f"for {self.patience:g} s"
            raise TemporaryError(f"the Dask scheduler was lost {again}; start it, {RUN_AGAIN}") from last
        _tell("scheduler back", "the Dask scheduler is back; its units are computed again")

    def _place(self, table: Cells) -> str | Place:
        """By which a worker opens it."""
        if isinstance(table, PartedTable):
            return table.place
        assert isinstance(table, Table)
        return self._memory_form(table)

    def _memory_form(self, table: Table) -> str:
        folder = self.scratch / table.digest
        # once a table and scratch, whatever the number of calls: a search makes hundreds of them
        if not folder.exists():
            unfinished = self.scratch / f"{table.digest}.{uuid.uuid4().hex[:8]}"
            try:
                write_memory_form(table, unfinished)
                with suppress(OSError):  # another run has just made the same
                    unfinished.rename(folder)
            except OSError as error:
                raise SdcError(
                    f"scratch folder {self.scratch} cannot be written: {error}; free its disk or name another in the "
                    f"cluster file, {RUN_AGAIN}"
                ) from error
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        return str(folder)


@dataclass(frozen=True)
class Lost:
    """Why a unit is lost, and the worker that is to be ended for it."""

    why: str
    worker: str = ""


@dataclass(frozen=True)
class Known:
    """Of the units of each function: seconds of one in the last call, and those of the longest task so far."""

    seconds: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)


class OverError(Exception):
    """Nobody waits for what is missing any more."""


class Call:
    """The units from the first on that is missing, of one call of an executor.

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
        """Raises one of `_lost()` where the scheduler is lost, and `OverError` where it is over."""
        self.client.subscribe_topic("all", _tell_of_worker)
        self.futures, seconds, known = self._handed_out(self.tasks), 0.0, self.own.known
        try:
            for taken, results in self._in_order():
                seconds += taken
                yield from results
                known.longest[self.kind] = max(known.longest.get(self.kind, 0.0), taken)
            known.seconds[self.kind] = seconds / self.units
        finally:
            if self.client.status == "running":
                if not all(future.done() for future in self.futures):
                    self.client.cancel(self.futures)
                with suppress(ValueError):  # another call has just done it
                    self.client.unsubscribe_topic("all")

    def _handed_out(self, tasks: list[Sequence[Any]]) -> list[Any]:
        """A future of each task."""
        same = [self.function] * len(tasks), [self.place] * len(tasks)
        # not pure: Dask would take units of equal arguments for one, and would hash every array to find out
        found: list[Any] = self.client.map(_call, *same, tasks, here=software(), pure=False, key=self.kind)
        return found

    def _hand_out_again(self) -> None:
        """What is missing."""
        missing = [i for i, future in enumerate(self.futures) if not future.done()]
        with suppress(OSError):  # the scheduler is just being lost, which the futures will say
            self.client.cancel([self.futures[i] for i in missing])
        for i, future in zip(missing, self._handed_out([self.tasks[i] for i in missing]), strict=True):
            self.futures[i] = future

    def _sizes_of_tasks(self, left: int) -> Iterator[int]:
        """Units of each task: fewer and fewer, so that workers end together, and one where nothing is known of them.

        Guided self-scheduling (Polychronopoulos and Kuck 1987), as if for `TASKS_LEFT` times the workers. Each worker
        has a task.
        """
        # the clock decides how units share tasks, never what they give: results come one by one, in order
        seconds = max(self.own.known.seconds.get(self.kind, LONGEST_TASK), 1e-6)
        most = max(1, left // self.own.workers)
        while left:
            share = max(left / (TASKS_LEFT * self.own.workers), SHORTEST_TASK / seconds)
            size = max(1, int(min(share, LONGEST_TASK / seconds, most, left)))
            yield size
            left -= size

    def _in_order(self) -> Iterator[Any]:
        """Waits for the first that is missing, then fetches at one stroke all that are there in a row."""
        start = 0
        while start < len(self.futures):
            losses = 0
            while lost := self._await(start, losses):
                losses += 1
                _require_few(losses, self.names[start], lost.why)
                if lost.worker:  # Dask hands out what it was at; one that is ours comes back as another process
                    self.client.restart_workers([lost.worker], timeout=SECONDS_TO_END, raise_for_error=False)
                else:
                    self._hand_out_again()
            stop = start + 1
            # finished ones only: a failed one is then the first of a later fetch, and named by its unit
            while stop < len(self.futures) and self.futures[stop].status == "finished":
                stop += 1
            found = self._gathered(self.futures[start:stop], self.names[start])
            yield from found
            start += len(found)

    def _await(self, start: int, losses: int) -> Lost | None:
        """Waits until a future is done; how it got lost, where it did.

        TemporaryError where there is no worker for long. Where it is over, OverError, and CutShortError where a fault
        is why units are missing.
        """
        from distributed import wait

        own, name, future = self.own, self.names[start], self.futures[start]
        waited, looks, at_rest = Waiting(own.patience), 0, 0
        while True:
            with suppress(TimeoutError):
                # not without a timeout: a future whose scheduler or workers are gone is never done
                wait(future, timeout=min(SECONDS_BETWEEN_LOOKS, own.patience))  # type: ignore[no-untyped-call]
                return None
            if self.client.status == "closed":
                # as a lost scheduler's futures do: `run` takes up from here
                raise CancelledError(name)
            workers = self._workers()
            if workers is None:  # the scheduler is just being lost, which the future will say
                waited.again()
                continue
            own.pulse.look(workers)
            looks, at_rest = looks + 1, 0 if any(map(_is_busy, workers.values())) else at_rest + 1
            nobody = _why_nobody_works(workers)
            if self.is_over():
                self._require_no_fault(name, nobody, losses)
            if lost := self._lost(future, looks, 0 if nobody else at_rest, losses):
                return lost
            if not nobody:
                waited.again()
            elif waited.seconds_left:
                waited.tell("nobody works", own.why_waiting())
            else:
                raise TemporaryError(f"{name}: for {own.patience:g} s {nobody}{waited.why}, {RUN_AGAIN}")

    def _workers(self) -> dict[str, Any] | None:
        """What the scheduler knows of each; None where it does not answer."""
        try:
            return workers_of(self.client)
        except (OSError, AttributeError, KeyError):
            return None

    def _lost(self, future: Any, looks: int, at_rest: int, losses: int) -> Lost | None:
        """How a missing unit got lost, after so many looks, in the last of which all workers were at rest."""
        if at_rest * SECONDS_BETWEEN_LOOKS >= SECONDS_LOST:
            return Lost(ON_ITS_WAY)
        waited, longest = looks * SECONDS_BETWEEN_LOOKS, self.own.known.longest.get(self.kind, inf)
        is_long = waited >= max(SECONDS_LEAST, TIMES_AS_LONG * longest) * 2**losses
        silent = self.own.pulse.silent(SECONDS_LOST)
        for at in self._workers_at([future]) if is_long or silent else ():
            if at in silent:
                return Lost(f"worker {at}, which has it, sent no heartbeat for {SECONDS_LOST:g} s and is ended", at)
            if is_long:
                return Lost(f"after {waited:g} s worker {at} is still at it, which is ended; {LONG}", at)
        return None

    def _require_no_fault(self, name: str, nobody: str, losses: int) -> None:
        """Raises OverError, or CutShortError where units are missing by a fault."""
        silent = self.own.pulse.silent(SECONDS_SILENT, self.client.run_on_scheduler(time.time))
        stopped = [at for at in (self._workers_at(self.futures) if silent else ()) if at in silent]
        if not (nobody or losses or stopped):
            raise OverError
        why = f"worker {', '.join(stopped)} sent no heartbeat for {SECONDS_SILENT:g} s" if stopped else "it was lost"
        raise CutShortError(f"{name} is missing: {nobody or why}")

    def _workers_at(self, futures: Sequence[Any]) -> list[str]:
        """Those that have one of these that is missing."""
        missing = {future.key for future in futures if not future.done()}
        with suppress(OSError):  # the scheduler is just being lost
            return [at for at, keys in self.client.processing().items() if missing.intersection(keys)]
        return []

    def _gathered(self, futures: list[Any], first: str) -> list[Any]:
        """Results of tasks of which only the first may have failed; it raises what it raised in the worker.

        None where they were lost with their worker, so that Dask waits for them anew: so do we.
        """
        from distributed.scheduler import KilledWorker

        asked = run_coroutine_threadsafe(self.client.gather(futures, asynchronous=True), self.client.loop.asyncio_loop)
        while not wait_for([asked], SECONDS_BETWEEN_LOOKS).done:
            if not all(future.done() for future in futures):
                asked.cancel()
                return []
        try:
            results: list[Any] = asked.result()
        except KilledWorker as error:
            raise SdcError(
                f"{first} killed every worker that tried it (out of memory?); give the workers more memory or use "
                "fewer of them"
            ) from error
        return results


def _call(
    function: Callable[[Any, Unit], Result], place: str | Place | None, units: Sequence[Unit], here: Mapping[str, str]
) -> tuple[float, list[Result]]:
    """The seconds that the units of a task took in a worker, and their results.

    ConfigError where the worker, which may have come long after the cluster was checked, has other software than
    `here`, or does not see the scratch folder.
    """
    if software() != here:
        require_software(_worker(), software(), here)
    table = None if place is None else _opened(place)
    # after the table is opened, which only the first task of a worker waits for
    begun = time.perf_counter()
    with heard(EventText(_Passing(), STEP)):
        results = [function(table, unit) for unit in units]
    _make_room()
    return time.perf_counter() - begun, results


class Pulse:
    """For how long workers have not been heard, by the scheduler's clock."""

    def __init__(self) -> None:
        self._heard, self._looks = dict[str, float](), 0

    def look(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        heard = {address: worker["last_seen"] for address, worker in workers.items()}
        is_still = max(heard.values(), default=0.0) == max(self._heard.values(), default=0.0)
        self._heard, self._looks = heard, self._looks + 1 if is_still else 0

    def silent(self, seconds: float, now: float | None = None) -> list[str]:
        """Those that were not heard for so long; without a moment, by when others were heard, and by looks."""
        # looks, not the clock: a process that was stopped itself knows nothing of the time between
        now = now or max(self._heard.values(), default=0.0) + self._looks * SECONDS_BETWEEN_LOOKS
        return [address for address, moment in self._heard.items() if now - moment >= seconds]


class _Passing:
    """Passes what a unit tells of itself on to the client, now and then."""

    def __init__(self) -> None:
        self._last = -SECONDS_BETWEEN_TELLS

    def __call__(self, text: str) -> None:
        from distributed import get_worker

        if time.monotonic() - self._last >= SECONDS_BETWEEN_TELLS:
            self._last = time.monotonic()
            get_worker().log_event("all", {"action": TELLS, "text": text})


def _make_room() -> None:
    """Has a worker of little memory give back what is free: Dask pauses it for what its process has, used or not."""
    from distributed import get_worker

    if resident_bytes() > (get_worker().memory_manager.memory_limit or sys.maxsize) // 2:
        give_back()


def _opened(place: str | Place) -> Cells:
    if not isinstance(place, str):
        return open_parts(place)
    if not Path(place).is_dir():
        raise ConfigError(f"{_worker()} does not see the scratch folder {place}; mount it there")
    return open_memory_form(Path(place), Path(place).name)


def _why_nobody_works(workers: Mapping[str, Mapping[str, Any]]) -> str:
    """Empty where a worker takes units or is at one; else what is wrong, and what to do."""
    if any(_is_running(worker) or _is_busy(worker) for worker in workers.values()):
        return ""
    if not workers:
        return "there was no worker; start workers"
    return f"all {len(workers)} workers were paused, short of memory; give them more (memory_per_worker)"


def _require_few(losses: int, name: str, why: str) -> None:
    """Tells that a unit is lost, and why; SdcError where it was too often in a row."""
    if losses > MOST_LOSSES:
        raise SdcError(
            f"{name} was handed out {losses} times and is missing: {why}; start the Dask scheduler and its workers "
            f"anew, {RUN_AGAIN}"
        )
    text = f"{name} is missing: {why}; it is handed out again (time {losses} of at most {MOST_LOSSES})"
    _tell(UNIT_LOST, text, unit=name)


def _is_running(worker: Mapping[str, Any]) -> bool:
    """Whether it takes units."""
    return bool(worker["status"] == "running")


def _is_busy(worker: Mapping[str, Any]) -> bool:
    """Whether it is at a unit."""
    return bool(worker["metrics"].get("task_counts", {}).get("executing"))


def _worker() -> str:
    from distributed import get_worker

    return f"worker {get_worker().address}"


def _lost() -> tuple[type[Exception], ...]:
    """What a client raises whose scheduler went away."""
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    return CancelledError, ClosedClientError, CommClosedError


def _tell(event: str, text: str, **fields: Any) -> None:
    tell(event, text, EXECUTION, **fields)


def _tell_of_worker(event: tuple[float, Any]) -> None:
    """Tells of a worker that went away unasked, and what a unit tells of itself."""
    what = event[1] if isinstance(event[1], dict) else {}
    if what.get("action") == TELLS:
        tell(STEP, str(what["text"]))
    if what.get("action") == "remove-worker" and not what.get("expected"):
        units = len(what["processing-tasks"])
        _tell(
            WORKER_LOST,
            f"worker {what['worker']} is lost; its units are computed again",
            worker=what["worker"],
            units=units,
        )
