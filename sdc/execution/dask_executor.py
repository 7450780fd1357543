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
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from sdc.events import EXECUTION, STEP, EventText, heard, tell
from sdc.execution.connection import SECONDS_BETWEEN_LOOKS, Waiting, require_software, software
from sdc.executor import Input, Result, Unit
from sdc.memory import give_back, resident_bytes
from sdc.model.errors import ConfigError, SdcError, TemporaryError
from sdc.model.table import Cells, Table
from sdc.storage.parquet import PartedTable, Place, open_memory_form, open_parts, write_memory_form

MOST_LOSSES = 3
LOOKS_AT_REST = 30  # a minute at least; what is given again in vain costs more than the wait
AT_REST = {"memory", "error", "released", "forgotten"}  # states of tasks that a worker has nothing to do for
SHORTEST_TASK, LONGEST_TASK = 0.1, 2.0  # seconds; Dask takes 3 ms for a task, on a core that a worker could use
TELLS, SECONDS_BETWEEN_TELLS = "unit tells", 2.0
TASKS_LEFT = 4  # for each worker: the first units are often the longest
RUN_AGAIN = "then run again: stages that are done are reused"


class DaskExecutor:
    """Runs units on the workers of a Dask client.

    The table is written once in its memory-mapped form below `scratch`, which every worker must
    see, and is never scattered: scattered data is lost with its worker, a file is opened again. A table whose parts are
    on disk is read where it is.
    Results come in the order of the units, so they do not depend on which worker was quickest; the
    units of a worker that died are computed again, and so are those that a lost scheduler had not answered, and those
    that are missing while all workers are at rest. Units share tasks by how long those of the same function took in its
    last call.

    patience   seconds to wait for a lost scheduler to come back, and for a worker where there is none
    dashboard  where it is, None where the scheduler has none
    waiting    what is known of workers that are still to come
    """

    def __init__(
        self,
        client: Any,
        scratch: Path,
        workers: int,
        patience: float = 300.0,
        *,
        dashboard: str | None = None,
        waiting: Callable[[], str] = lambda: "",
    ) -> None:
        self.client, self.scratch, self.workers, self.patience = client, scratch, workers, patience
        self._seconds: dict[str, float] = {}
        self._why_waiting = waiting
        client._timeout = patience  # how long the client itself tries to reach a scheduler that it lost
        client.scheduler_comm.interval = 0.0  # else it sends every 10 ms, which a search waits for at each of its steps
        _tell("cluster opened", f"Dask dashboard: {dashboard or 'none'}", dashboard=dashboard, workers=workers)

    def run(self, function: Callable[[Input, Unit], Result], table: Input, units: Sequence[Unit]) -> Iterator[Result]:
        """The results in order; SdcError where a unit killed every worker that tried it, nobody works for long, or a
        unit gets lost time and again.
        """
        place = None if table is None or not units else self._place(table)
        done = losses = 0
        while done < len(units):
            try:
                for result in self._results(function, place, units, done):
                    done, losses = done + 1, 0
                    yield result
            except _lost() as error:
                # what has been yielded is with the caller; the rest is pure, so computing it again changes nothing
                losses += 1
                self._await_scheduler(error if losses > MOST_LOSSES else None)

    def _results(
        self, function: Callable[[Input, Unit], Result], place: str | Place | None, units: Sequence[Unit], first: int
    ) -> Iterator[Result]:
        """Those of the units from the first on that is missing; raises one of `_lost()` where the scheduler is lost."""
        self.client.subscribe_topic("all", _tell_of_worker)
        name, rest = function.__name__, units[first:]
        ends = list(accumulate(self._sizes_of_tasks(name, len(rest)), initial=0))
        tasks = [rest[begin:end] for begin, end in pairwise(ends)]
        futures = self._handed_out(function, place, tasks)

        def again(start: int) -> None:
            missing = [i for i in range(start, len(tasks)) if not futures[i].done()]
            with suppress(OSError):  # the scheduler is just being lost, which the futures will say
                self.client.cancel([futures[i] for i in missing])
            for i, future in zip(missing, self._handed_out(function, place, [tasks[i] for i in missing]), strict=True):
                futures[i] = future

        names = [f"unit {first + begin} of {len(units)} of {name}" for begin in ends]
        seconds = 0.0
        try:
            for taken, results in self._in_order(futures, names, again):
                seconds += taken
                yield from results
            self._seconds[name] = seconds / len(rest)
        finally:
            if self.client.status == "running":
                if not all(future.done() for future in futures):
                    self.client.cancel(futures)
                with suppress(ValueError):  # another call has just done it
                    self.client.unsubscribe_topic("all")

    def _handed_out(
        self, function: Callable[[Input, Unit], Result], place: str | Place | None, tasks: list[Sequence[Unit]]
    ) -> list[Any]:
        """A future of each task."""
        same = [function] * len(tasks), [place] * len(tasks)
        # not pure: Dask would take units of equal arguments for one, and would hash every array to find out
        found: list[Any] = self.client.map(_call, *same, tasks, here=software(), pure=False, key=function.__name__)
        return found

    def _sizes_of_tasks(self, name: str, units: int) -> Iterator[int]:
        """Units of each task: fewer and fewer, so that workers end together, and one where nothing is known of them.

        Guided self-scheduling (Polychronopoulos and Kuck 1987), as if for `TASKS_LEFT` times the workers. Each worker
        has a task.
        """
        # the clock decides how units share tasks, never what they give: results come one by one, in order
        seconds = max(self._seconds.get(name, LONGEST_TASK), 1e-6)
        left, most = units, max(1, units // self.workers)
        while left:
            share = max(left / (TASKS_LEFT * self.workers), SHORTEST_TASK / seconds)
            size = max(1, int(min(share, LONGEST_TASK / seconds, most, left)))
            yield size
            left -= size

    def _in_order(self, futures: list[Any], names: list[str], again: Callable[[int], None]) -> Iterator[Any]:
        """Waits for the first that is missing, then fetches at one stroke all that are there in a row.

        names  of the first unit of each
        again  hands out what is missing from a future on, and puts the new futures where the old ones were
        """
        start = 0
        while start < len(futures):
            losses = 0
            while lost := self._await(futures[start], names[start]):
                losses += 1
                _require_few(losses, names[start], lost)
                again(start)
            stop = start + 1
            # finished ones only: a failed one is then the first of a later fetch, and named by its unit
            while stop < len(futures) and futures[stop].status == "finished":
                stop += 1
            found = self._gathered(futures[start:stop], names[start])
            yield from found
            start += len(found)

    def _await(self, future: Any, name: str) -> str:
        """Waits until the future is done; why it will not be, where all workers are at rest without it.

        TemporaryError where there is no worker for long.
        """
        from distributed import wait

        waited, rest = Waiting(self.patience), Rest()
        while True:
            with suppress(TimeoutError):
                # not without a timeout: a future whose scheduler or workers are gone is never done
                wait(future, timeout=min(SECONDS_BETWEEN_LOOKS, self.patience))  # type: ignore[no-untyped-call]
                return ""
            if self.client.status == "closed":
                # as a lost scheduler's futures do: `run` takes up from here
                raise CancelledError(name)
            workers = self._workers()
            if workers is None:  # the scheduler is just being lost, which the future will say
                waited.again()
                continue
            if rest.lasts(workers):
                return _why_lost(workers)
            nobody = _why_nobody_works(workers)
            if not nobody:
                waited.again()
            elif waited.seconds_left:
                waited.tell("nobody works", self._why_waiting())
            else:
                raise TemporaryError(f"{name}: for {self.patience:g} s {nobody}{waited.why}, {RUN_AGAIN}")

    def _workers(self) -> dict[str, Any] | None:
        """What the scheduler knows of each; None where it does not answer."""
        try:
            found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, AttributeError, KeyError):
            return None
        return found

    def _await_scheduler(self, last: Exception | None) -> None:
        """Waits until the client has found a scheduler again; TemporaryError where it does not, or not any more."""
        _tell("scheduler lost", "the Dask scheduler is lost; waiting for it to come back")
        deadline = time.monotonic() + self.patience
        # the client itself tries to connect again, for as long as `_timeout` allows
        while self.client.status == "connecting" and time.monotonic() < deadline:
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


class Rest:
    """Whether workers that could work have had nothing to do, and the others were at nothing, for many looks in a row.

    What was handed out and is still missing then has got lost between client, scheduler and workers, or is with a
    worker that was paused before it came to it, from where Dask does not take it. A look counts where each worker has
    been heard since the last one that did: a unit may keep its worker from being heard, so that what is known of it is
    from before.
    """

    def __init__(self) -> None:
        self._looks, self._heard = -1, dict[str, float]()  # what is known at the first is from before

    def lasts(self, workers: Mapping[str, Mapping[str, Any]]) -> bool:
        """Looks once more."""
        heard = {address: worker["last_seen"] for address, worker in workers.items()}
        if not any(map(_is_running, workers.values())) or any(map(_has_work, workers.values())):
            self._looks = 0
        elif all(self._heard.get(address) != moment for address, moment in heard.items()):
            self._looks, self._heard = self._looks + 1, heard
        return self._looks >= LOOKS_AT_REST


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


def _why_lost(workers: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a unit may be missing while all workers are at rest."""
    if all(map(_is_running, workers.values())):
        return "it got lost on its way"
    return "it waits at a worker that is paused, short of memory (memory_per_worker), or got lost on its way"


def _require_few(losses: int, name: str, lost: str) -> None:
    """Tells that a unit is lost, and why; SdcError where it was too often in a row."""
    nobody = f"no worker that takes units has any: {lost}"
    if losses > MOST_LOSSES:
        raise SdcError(
            f"{name} was handed out {losses} times and is missing, and {nobody}; start the Dask scheduler and its "
            f"workers anew, {RUN_AGAIN}"
        )
    _tell(
        "unit lost",
        f"{name} is missing, and {nobody}; it is handed out again, with what else is missing (time {losses} of at "
        f"most {MOST_LOSSES})",
        unit=name,
    )


def _is_running(worker: Mapping[str, Any]) -> bool:
    """Whether it takes units."""
    return bool(worker["status"] == "running")


def _is_busy(worker: Mapping[str, Any]) -> bool:
    """Whether it is at a unit."""
    return bool(worker["metrics"].get("task_counts", {}).get("executing"))


def _has_work(worker: Mapping[str, Any]) -> bool:
    """Whether it is at a unit, or has one that it will be at; a paused one may never come to what it has."""
    counts = worker["metrics"].get("task_counts", {})
    has = any(number and state not in AT_REST for state, number in counts.items())
    return _is_busy(worker) or (_is_running(worker) and has)


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
            "worker lost",
            f"worker {what['worker']} is lost; its units are computed again",
            worker=what["worker"],
            units=units,
        )
