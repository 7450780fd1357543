"""The steps of a build as Prefect tasks, and what they share: one cluster, one progress, the log of the run.

A step is a coarse task in this process; its units are Dask futures. Measured: 1,000 units as Prefect tasks took 124 to
254 s, as Dask futures within one task 2 to 3 s, in 20 chunks 0.12 s. A worker that dies costs its unfinished units, not
all finished tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, cast

from prefect import task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import LogCreate
from prefect.context import TaskRunContext

from flows.absence import at_work, await_server
from sdc.canonical import digest_of
from sdc.config.build import BuildConfig, ExecutionConfig
from sdc.events import FAILED, FINISHED, STARTED, EventText, heard
from sdc.execution.cluster import check_cluster, open_executor
from sdc.executor import Executor, never
from sdc.model.schema import Schema
from sdc.progress import Progress, Watched, summary
from sdc.stages.build import Build
from sdc.stages.search import SEARCH, Search, steps_of
from sdc.stages.stage import MEASURED, Stage, StageRun, run_stage
from sdc.stages.stages import stages_of
from sdc.stages.table import TABLE
from sdc.stages.warm import warming
from sdc.storage.run_folder import StageRecord

LINES_OF_A_PAGE = 40
Before = ParamSpec("Before")


@dataclass(frozen=True)
class Made:
    """What a step made: its folder, and the digest of what is in it, or of what the step found."""

    path: str
    digest: str


class Steps:
    """The steps of one build with what they share. It is no dataclass, so that Prefect does not walk through it.

    search    the steps of its search
    records   of the stages so far
    said      lines of the step at work
    on_table  hears of the schema once the table is there
    """

    def __init__(
        self,
        build: Build,
        stages: Sequence[Stage],
        executor: Executor,
        say: Callable[[str], None],
        on_table: Callable[[Schema], None],
    ) -> None:
        self.build, self.search = build, steps_of(build.config)
        self.stages, self.records, self.said = {stage.name: stage for stage in stages}, list[StageRecord](), list[str]()
        self._executor, self._say, self._on_table = executor, say, on_table
        self._run: StageRun | None = None
        self._searching: Search | None = None
        self._stack = ExitStack()

    def stage(self, name: str) -> Made:
        """Make or reuse a stage; that of the search from what its steps found."""
        if name == SEARCH.name and self._run is not None:
            record = self._run.finish()
        else:
            record = run_stage(self.stages[name], self.build, self._executor, self.say)
        self.records.append(record)
        if name == TABLE.name:
            self._on_table(self.build.made.table.schema)
        return Made(str(self.build.folder.stage(name)), record.output)

    def candidate(self, name: str) -> Made:
        """Run one step of the search, which `stage` then ends; nothing is done where the search is reused."""
        folder = str(self.build.folder.stage(SEARCH.name))
        if self._run is None:
            self._run = StageRun(self.stages[SEARCH.name], self.build, self._executor, self.say)
        with self._run.told():
            if (record := self._run.reused()) is not None:
                return Made(folder, record.output)
            if self._searching is None:
                search = Search(self.build, self._run.executor, self._run.note)
                self._searching = self._stack.enter_context(search)
                self._run.make = lambda build, into, executor, say: search.write(into)
            found = self._searching.step(name)
        frontier = None if found is None else found.frontier
        self.say(f"search: {name}: no release" if found is None else f"search: {name}: {found.sub_tables:,} sub-tables")
        return Made(folder, digest_of([name, frontier]))

    def say(self, text: str) -> None:
        """A line for the console, and for the page of the step."""
        self.said.append(text)
        self._say(text)

    def close(self) -> None:
        """Let go of what a search has opened."""
        self._stack.close()


def step(
    name: str, stage: str = ""
) -> Callable[[Callable[Concatenate[Steps, Before], Made]], Callable[Concatenate[Steps, Before], Made]]:
    """A Prefect task around a step, with a page of what it did; `stage` is the one that it ends."""

    def decorate(function: Callable[Concatenate[Steps, Before], Made]) -> Callable[Concatenate[Steps, Before], Made]:
        # Prefect's cache keys collide for closures and do not see a change in what a task calls; stages have keys of
        # their own
        @task(name=name, cache_policy=NO_CACHE, persist_result=False)
        @wraps(function)
        def run(steps: Steps, *before: Before.args, **more: Before.kwargs) -> Made:
            steps.said.clear()
            made = function(steps, *before, **more)
            if stage:
                record = steps.records[-1]
                page = _page(steps.stages[record.name], record, steps.said)
                create_markdown_artifact(key=f"stage-{record.name}", markdown=page)
            return made

        return cast(Callable[Concatenate[Steps, Before], Made], run)

    return decorate


@contextmanager
def opened(build: Build, stages: Sequence[Stage] = ()) -> Iterator[Steps]:
    """What the steps of a build share; the Dask workers start when a step first asks for them."""
    stages = stages or stages_of(build.config)
    with (
        LateExecutor(build.config.execution).open() as late,
        build.started([stage.name for stage in stages_of(build.config)]),
        Progress() as progress,
        at_work(build.folder),
        _stage_lines(),
        # from here on, while data are read: before, Prefect needs the processors
        warming(_method(build.config, stages), build.criteria.limit, progress.say) as told_of,
    ):
        steps = Steps(build, stages, Watched(late, progress), progress.say, told_of)
        try:
            yield steps
        finally:
            steps.close()
        for line in summary(steps.records):
            progress.say(line)
    create_table_artifact(key="stages", table=[asdict(record) for record in steps.records])


def made_stage(steps: Steps, name: str, *before: Made) -> Made:
    """A stage as a task of its own name, after what it takes from others."""
    return step(name, name)(_stage)(steps, name, *before)


def _stage(steps: Steps, name: str, *before: Made) -> Made:
    return steps.stage(name)


def run_stages(build: Build, stages: Sequence[Stage]) -> list[StageRecord]:
    """One task a stage, in order, for flows that have no search."""
    with opened(build, stages) as steps:
        for stage in stages:
            made_stage(steps, stage.name)
        return steps.records


@contextmanager
def _stage_lines() -> Iterator[None]:
    """What the run folder's log says when a stage begins, ends or fails is in the log of the run at Prefect too.

    At once, and by a client that waits for its server: Prefect's own loggers send from the background, a while later,
    when a server of the build's own may have ended, and only where they are loud.
    """
    with get_client(sync_client=True) as client:

        def log(line: str) -> None:
            run: Any = TaskRunContext.get()
            ids = {"flow_run_id": run.task_run.flow_run_id, "task_run_id": run.task_run.id}
            now: Any = datetime.now(UTC)
            await_server(client)
            client.create_logs([LogCreate(name="sdc", level=logging.INFO, message=line, timestamp=now, **ids)])

        with heard(EventText(log, STARTED, FINISHED, FAILED)):
            yield


def _method(config: BuildConfig, stages: Sequence[Stage]) -> str | None:
    """That of the search, where one of the stages searches."""
    return config.release.method if any(stage.name == SEARCH.name for stage in stages) else None


def stage_facts(records: list[StageRecord]) -> list[dict[str, Any]]:
    """What the command prints of each stage."""
    return [{"name": r.name, **{fact: getattr(r, fact) for fact in MEASURED}} for r in records]


def _page(stage: Stage, record: StageRecord, said: list[str]) -> str:
    """What a stage did, what it took, and its last lines."""
    facts = [f"| {fact} | {getattr(record, fact)} |" for fact in MEASURED if getattr(record, fact) is not None]
    lines = [f"- {line}" for line in said[-LINES_OF_A_PAGE:]]
    return "\n".join([f"# {stage.name}: {stage.does}", "", "| | |", "| --- | --- |", *facts, "", *lines])


class LateExecutor:
    """Opens the cluster when the first unit is to be run: a build that reuses everything starts no worker.

    That it can be opened is checked at once, before the data are read; ConfigError where it cannot.
    """

    def __init__(self, execution: ExecutionConfig) -> None:
        self._execution, self.workers = execution, check_cluster(execution)
        self._opened: Executor | None = None

    @contextmanager
    def open(self) -> Iterator[LateExecutor]:
        with ExitStack() as self._stack:
            yield self

    @property
    def scratch(self) -> Path | None:
        return self._executor().scratch

    def run(self, function: Any, table: Any, units: Any, is_over: Callable[[], bool] = never) -> Iterator[Any]:
        return self._executor().run(function, table, units, is_over)

    def _executor(self) -> Executor:
        if self._opened is None:
            # on the stack of `open`, so that workers end with the build and not with the stage that first needed them
            self._opened = self._stack.enter_context(open_executor(self._execution))
        return self._opened
