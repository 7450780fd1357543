"""The release build as a Prefect flow: table, widths, search, assessment, report, publication."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import LogCreate
from prefect.context import TaskRunContext

from flows.absence import at_work, be_patient
from flows.command import run_as_command
from sdc.config.build import BuildConfig, ExecutionConfig
from sdc.events import FAILED, FINISHED, STARTED, EventText, heard
from sdc.execution.cluster import check_cluster, open_executor
from sdc.executor import Executor
from sdc.progress import Progress, Watched, summary
from sdc.refusal import NOT_RELEASABLE
from sdc.run_format import IN_PART, RELEASE
from sdc.stages.build import Build, open_build
from sdc.stages.search import SEARCH
from sdc.stages.stage import MEASURED, Stage, beside_all, run_stage
from sdc.stages.stages import stages_of
from sdc.stages.table import TABLE
from sdc.stages.upload import check_upload, upload
from sdc.stages.warm import warming
from sdc.storage.documents import part_facts, release_facts
from sdc.storage.run_folder import StageRecord

LINES_OF_A_PAGE = 40
be_patient()


@flow(name="release-build")
def release_build(config: str, data: str | None = None, workers: int | None = None) -> dict[str, Any]:
    """Builds the release of a config file; stages that were made before with the same inputs are reused."""
    build = open_build(Path(config), data, workers)
    check_upload(build)
    build, records = beside_all(build, lambda one: run_stages(one, stages_of(one.config)), _say)
    made = build.made
    release = release_facts(made.found.release, made.table.schema)
    parts, coarsened = made.found.parts, build.coarsened
    if parts.facts or coarsened:
        release[IN_PART] = part_facts(parts, coarsened, made.table, build.folder.stage(RELEASE))
    create_markdown_artifact(key="released-frontier", markdown=_frontier(release["frontier"]))
    cut = build.made.widths.cut(build.criteria.floor) if build.listing.most else ""
    found = {"run_folder": str(build.folder.path), "release": release, "stages": stage_facts(records)}
    more = {"cut": cut, "uploaded": _upload_task(build)()}
    return found | {name: told for name, told in more.items() if told}


def _upload_task(build: Build) -> Callable[[], str | None]:
    """The last step, when all else is whole; it has no parameters, as a stage has none."""

    @task(name="upload", cache_policy=NO_CACHE, persist_result=False)
    def run() -> str | None:
        return upload(build, _say)

    return run if build.config.output.upload else lambda: None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_stages(build: Build, stages: tuple[Stage, ...]) -> list[StageRecord]:
    """One coarse task a stage, in order; the Dask workers start when a stage first asks for them."""
    with (
        _LateExecutor(build.config.execution).open() as late,
        build.started([stage.name for stage in stages_of(build.config)]),
        Progress() as progress,
        at_work(build.folder),
        _stage_lines(),
        # from here on, while data are read: before, Prefect needs the processors
        warming(_method(build.config, stages), build.criteria.limit, progress.say) as told_of,
    ):
        watched = Watched(late, progress)
        # a task a stage and no more: 1,000 Prefect tasks took 124 s where 1,000 Dask futures within one took 2 s
        records = []
        for stage in stages:
            records.append(_as_task(stage, build, watched, progress)())
            if stage.name == TABLE.name:
                told_of(build.made.table.schema)
        for line in summary(records):
            progress.say(line)
    create_table_artifact(key="stages", table=[asdict(record) for record in records])
    return records


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
            client.create_logs([LogCreate(name="sdc", level=logging.INFO, message=line, timestamp=now, **ids)])

        with heard(EventText(log, STARTED, FINISHED, FAILED)):
            yield


def _method(config: BuildConfig, stages: tuple[Stage, ...]) -> str | None:
    """That of the search, where one of the stages searches."""
    return config.release.method if SEARCH in stages else None


def _as_task(stage: Stage, build: Build, executor: Executor, progress: Progress) -> Callable[[], StageRecord]:
    """The stage as a Prefect task. It has no parameters: Prefect would walk through them and copy."""

    # Prefect's cache keys collide for closures and do not see a change in what a task calls; stages have keys of their
    # own
    @task(name=stage.name, cache_policy=NO_CACHE, persist_result=False)
    def run() -> StageRecord:
        said: list[str] = []

        def say(text: str) -> None:
            said.append(text)
            progress.say(text)

        record = run_stage(stage, build, executor, say)
        create_markdown_artifact(key=f"stage-{stage.name}", markdown=_stage_page(stage, record, said))
        return record

    return run


def stage_facts(records: list[StageRecord]) -> list[dict[str, Any]]:
    """What the command prints of each stage."""
    return [{"name": r.name, **{fact: getattr(r, fact) for fact in MEASURED}} for r in records]


def _stage_page(stage: Stage, record: StageRecord, said: list[str]) -> str:
    """What a stage did, what it took, and what it said of it last."""
    facts = [f"| {fact} | {getattr(record, fact)} |" for fact in MEASURED if getattr(record, fact) is not None]
    lines = [f"- {line}" for line in said[-LINES_OF_A_PAGE:]]
    return "\n".join([f"# {stage.name}: {stage.does}", "", "| | |", "| --- | --- |", *facts, "", *lines])


def _frontier(frontier: list[list[str]]) -> str:
    return "# Released frontier\n\n" + "\n".join(f"- {' * '.join(names) or '(total)'}" for names in frontier)


class _LateExecutor:
    """Opens the cluster when the first unit is to be run: a build that reuses everything starts no worker.

    That it can be opened is checked at once, before the data are read; ConfigError where it cannot.
    """

    def __init__(self, execution: ExecutionConfig) -> None:
        self._execution, self.workers = execution, check_cluster(execution)
        self._opened: Executor | None = None

    @contextmanager
    def open(self) -> Iterator[_LateExecutor]:
        with ExitStack() as self._stack:
            yield self

    @property
    def scratch(self) -> Path | None:
        return self._executor().scratch

    def run(self, function: Any, table: Any, units: Any) -> Iterator[Any]:
        return self._executor().run(function, table, units)

    def _executor(self) -> Executor:
        if self._opened is None:
            # on the stack of `open`, so that workers end with the build and not with the stage that first needed them
            self._opened = self._stack.enter_context(open_executor(self._execution))
        return self._opened


if __name__ == "__main__":
    run_as_command(release_build, lambda made: 0 if made["release"]["sub_tables"] else NOT_RELEASABLE)
