"""Processes that judge for a server, each with the table: one decides, one certifies, one shows effects.

Of a small table, where a question takes a millisecond, they are threads.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

from sdc.bounds.method import is_small
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.executor import IN_PROCESS, Executor, without_main_script
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Depth, Effort
from sdc.risk.verdict import Verdict
from sdc.server.service.decision import Decider, Decision
from sdc.server.service.judge import Effect, Finding, FoundSuppression, Judge, effect_of
from sdc.server.service.rounds import decide_round
from sdc.server.service.rules import Past, Rule, Simulatable
from sdc.stages.warm import warm_once
from sdc.storage.parquet import read_written_table
from sdc.utility.measures import Weights

Answer = TypeVar("Answer")
PATIENT = 10  # more niceness
MOST_IN_AN_EFFECT = 3  # open sub-tables of a large table that are looked at, the most dangerous: some 40 ms


@dataclass(frozen=True)
class Bench:
    """What a worker decides by.

    folder  of the prepared table; known  what is known of it beside what is released
    evidence  what shows all that was public to be safe, and what that was
    order   the sub-tables open at the start, the most dangerous first
    """

    folder: Path
    known: Knowledge
    criteria: Criteria
    effort: Effort
    rules: tuple[Rule, ...] = ()
    weights: Weights | None = None
    seconds: float = 0.2
    job_seconds: float = 60.0
    order: tuple[SubTable, ...] = ()
    evidence: tuple[Proof, State] | None = None
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    reveals: bool = False


class Seat:
    """One worker's table and judge."""

    def __init__(self, bench: Bench, table: Table | None = None) -> None:
        self._bench = bench
        self._executor: Executor = IN_PROCESS
        held = table or read_written_table(bench.folder)
        self._schema = held.schema
        self._judge = Judge(held, bench.known, bench.criteria, bench.effort, reveals=bench.reveals)
        if bench.evidence is not None:
            self._judge.learn(*bench.evidence)
        looks = self._judge.is_exact  # of a large table others would wait for that
        self._decider = Decider(self._judge, bench.rules, bench.seconds, weights=bench.weights, looks=looks)

    def ready(self, public: Release) -> bool:
        """When questions can be asked: what they call is compiled by then, once a machine, and loaded."""
        warm_once("ordered", self._schema)  # a search whose questions are those of a judge
        if any(isinstance(rule, Simulatable) for rule in self._bench.rules):
            warm_once("simulatable", self._schema)
        self._judge.glance(State.first(self._schema, public), st.GRAND_TOTAL)
        return True

    def decide(self, state: State, past: Past, subtable: SubTable, who: str) -> Decision:
        return self._decider.decide(state, past, subtable, who)

    def decide_in_part(
        self, past: Past, subtable: SubTable, who: str, whole: Decision, found: FoundSuppression | str | None
    ) -> Decision:
        return self._decider.decide_in_part(past, subtable, who, whole, found)

    def learn(self, proof: Proof, state: State) -> None:
        self._judge.learn(proof, state)

    def certify(self, state: State, subtable: SubTable) -> tuple[Finding, Proof | None]:
        """What takes long: the verdict, and of a safe release what shows it."""
        self._judge.executor = self._dask()
        found = self._judge.ask(state, subtable, self._bench.job_seconds, Depth.FULL)
        return found, self._judge.found if found.verdict is Verdict.SAFE else None

    def find(self, state: State, subtable: SubTable) -> Finding:
        """The verdict on a sub-table beside what is public, with its bounds and cell."""
        return self._judge.ask(state, subtable, self._bench.seconds)

    def find_in_part(self, state: State, subtable: SubTable) -> FoundSuppression | str:
        """What takes long too: a suppressed table, or why none was found."""
        self._judge.executor = self._dask()
        try:
            return self._judge.in_part(state, subtable, self._bench.job_seconds)
        except ReleaseError as error:
            return str(error)

    def effect(self, state: State, subtable: SubTable) -> Effect:
        return effect_of(self._judge, state, subtable, self._bench.order, MOST_IN_AN_EFFECT)

    def round(self, state: State, past: Past, waiting: list[tuple[SubTable, str, bool]]) -> list[tuple[int, Decision]]:
        patient = replace(self._decider, seconds=self._bench.job_seconds, looks=True)
        return list(decide_round(patient, state, past, waiting, self._bench.seconds))

    def proof(self, state: State) -> Proof:
        """What shows, as far as is known, that the release is safe."""
        return self._judge.support(state)

    def _dask(self) -> Executor:
        """Opened when it is first needed, and ended with this process."""
        if self._executor is IN_PROCESS and not self._judge.is_exact:
            self._executor = _started.enter_context(open_executor(self._bench.execution))
        return self._executor


_seat: Seat | None = None
_started = ExitStack()
atexit.register(_started.close)


def _end_with_the_server() -> None:
    """However that ends: a pool's worker alone would wait for its next question for ever."""
    server = parent_process()
    if server is not None:
        server.join()
        _end()


def _end(*_: object) -> None:
    """At once, with what it started; an exception would be taken for the answer to the question that it is at."""
    try:
        _started.close()
    finally:
        os._exit(0)


def _begin(bench: Bench, is_patient: bool) -> None:
    global _seat
    if is_patient:
        os.nice(PATIENT)
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    # an interrupt at the terminal goes to the whole group; the server ends its workers itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    _seat = Seat(bench)


def _call(method: Callable[..., Answer], *args: Any) -> Answer:
    assert _seat is not None
    return method(_seat, *args)


class Worker:
    """One process, or thread, that is asked one question after the other; a process that dies is started again.

    is_patient  it leaves the processor to the others
    """

    def __init__(self, bench: Bench, table: Table, *, is_patient: bool = False) -> None:
        self._bench, self._is_patient = bench, is_patient
        self._seat = Seat(bench, table) if is_small(table.schema) else None
        self._pool: Pool | None = None
        self._lock = threading.Lock()

    def ask(self, method: Callable[..., Answer], *args: Any) -> Future[Answer]:
        """The future of a method of `Seat` with these arguments; BrokenProcessPool where the process died of it."""
        # else two threads that find it dead start one each
        call = partial(_call, method) if self._seat is None else partial(method, self._seat)
        with self._lock, without_main_script():
            self._pool = self._pool or self._start()
            try:
                return self._pool.submit(call, *args)
            except BrokenProcessPool:
                self._pool = self._start()
                return self._pool.submit(call, *args)

    def _start(self) -> Pool:
        if self._seat is not None:
            return ThreadPoolExecutor(1)
        context = get_context("spawn")  # a fork would take over threads and locks
        return ProcessPoolExecutor(1, context, _begin, (self._bench, self._is_patient))

    def warm(self, public: Release) -> Future[bool]:
        """Starts it; done when the first question does not wait for that, nor for a kernel."""
        return self.ask(Seat.ready, public)

    def end(self) -> None:
        """Ends it at once, with what it is doing."""
        if isinstance(self._pool, ProcessPoolExecutor):
            for process in list(self._pool._processes.values()):
                process.terminate()
        self.close()

    def close(self) -> None:
        """Ends it when it has answered."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
