"""The steps of a build as Prefect tasks, with one cluster, one progress and the log of the run.

A step is a coarse task in this process; its units are Dask futures. Measured: 1,000 units took 124 to 254 s as Prefect
tasks, 2 to 3 s as Dask futures in one task, 0.12 s in 20 chunks. A dead worker costs only its unfinished units.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from prefect import task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import LogCreate
from prefect.context import TaskRunContext

from flows.absence import at_work, await_server
from sdc.config.build import ExecutionConfig
from sdc.events import FAILED, FINISHED, STARTED, EventText, heard
from sdc.execution.cluster import check_cluster, open_executor
from sdc.executor import never
from sdc.progress import Progress, Watched, summary
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.stages.build import Build
from sdc.stages.stages import MEASURED, SEARCH, TABLE, Stage, run_stages, stages_of
from sdc.stages.warm import warming
from sdc.storage.run_folder import StageRecord

LINES_OF_A_PAGE = 40


def run_as_task(name: str, part: Callable[[], Any], before: Sequence[str] = ()) -> Any:
    """Run a part of a build as a task; Prefect's graph shows its inputs, the digests of earlier stages."""

    # Prefect's cache keys miss changes in called code; stages have their own keys
    @task(name=name, cache_policy=NO_CACHE, persist_result=False)
    def run(before: Sequence[str]) -> Any:
        return part()

    return run(before)


def run_as_tasks(build: Build, stages: Sequence[Stage] = ()) -> list[dict[str, Any]]:
    """Run each stage of a build, or the given ones, as a task with a page; return what commands print of each.

    Dask workers start when a stage first needs them.
    """
    every = stages_of(build.config)
    stages = stages or every
    named, lines, records = {stage.task or stage.name: stage for stage in stages}, list[str](), list[StageRecord]()
    method = build.config.release.method if any(stage.name == SEARCH.name for stage in stages) else None
    stack = ExitStack()
    late = LateExecutor(build.config.execution, stack)
    with (
        stack,
        build.started([stage.name for stage in every]),
        Progress() as progress,
        at_work(build.folder),
        _stage_lines(),
        # starts here, while data are read: before, Prefect needs the processors
        warming(method, build.criteria.get(PosteriorLimit), progress.say) as on_schema,
    ):

        def log(text: str) -> None:
            lines.append(text)
            progress.say(text)

        def step(name: str, part: Callable[[], Any], before: Sequence[str] = ()) -> Any:
            def stage() -> str:
                lines.clear()
                record: StageRecord = part()
                records.append(record)
                page = _page(named[name], record, lines)
                create_markdown_artifact(key=f"stage-{record.name}", markdown=page)
                if record.name == TABLE.name:
                    on_schema(build.made.table.schema)
                return record.output  # no record: Prefect links results by their objects, and records share texts

            return run_as_task(name, stage if name in named else part, before)

        run_stages(build, stages, Watched(late, progress), log, step)
        for line in summary(records):
            progress.say(line)
    create_table_artifact(key="stages", table=[asdict(record) for record in records])
    return [{"name": r.name, **{fact: getattr(r, fact) for fact in MEASURED}} for r in records]


@contextmanager
def _stage_lines() -> Iterator[None]:
    """Send stage events of the run folder's log to Prefect's log.

    At once, by a waiting client: Prefect's loggers send later, when the build's own server may have ended.
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


def _page(stage: Stage, record: StageRecord, lines: list[str]) -> str:
    """Return a page with the work, cost and last lines of a stage."""
    facts = [f"| {fact} | {getattr(record, fact)} |" for fact in MEASURED if getattr(record, fact) is not None]
    listed = [f"- {line}" for line in lines[-LINES_OF_A_PAGE:]]
    return "\n".join([f"# {stage.name}: {stage.does}", "", "| | |", "| --- | --- |", *facts, "", *listed])


class LateExecutor:
    """Opens the cluster for the first unit: a build that reuses everything starts no worker.

    Whether it can be opened is checked at once; ConfigError if not. Workers end with the stack, not with a stage.
    """

    def __init__(self, execution: ExecutionConfig, stack: ExitStack) -> None:
        self.workers = check_cluster(execution)
        self._opened = cache(lambda: stack.enter_context(open_executor(execution)))

    @property
    def scratch(self) -> Path | None:
        return self._opened().scratch

    def run(self, function: Any, table: Any, units: Any, is_over: Callable[[], bool] = never) -> Iterator[Any]:
        return self._opened().run(function, table, units, is_over)
