"""The stages of a build and how they run.

A stage reads folders of earlier stages and writes its own. Its key is the digest of all inputs, so a rerun reuses
stages with equal keys.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sdc import run_format as names
from sdc.canonical import digest_of
from sdc.config.build import ELSEWHERE, BuildConfig
from sdc.events import FAILED, FINISHED, STARTED, emit, warnings_shown
from sdc.executor import IN_PROCESS, Executor
from sdc.memory import give_back
from sdc.model.errors import ReleaseError, SdcError
from sdc.model.table import Table
from sdc.progress import MeasuringExecutor
from sdc.record.ledger import MovedError
from sdc.refusal import file_detail
from sdc.stages import release, report, search, table
from sdc.stages.build import Build, Say, Step, Work, directly, effort_settings, plain
from sdc.storage.run_folder import StageRecord, code_digest, folder_digest
from sdc.version import VERSION, deciding

MOST_RUNS = 3  # if others publish meanwhile
MEASURED = ("status", "seconds", "driver_mib", "worker_mib")
Made = TypeVar("Made")
SHOWN_SECONDS = 10.0  # stages that took less are not estimated


@dataclass(frozen=True)
class Stage:
    """`needs` names earlier stages, `sections` the parts of the config that its outputs depend on.

    make        fills the folder
    error       what is wrong with existing or new outputs, or ""
    enter       notes before the outputs are moved into place; if it fails, they are not
    require     refuses a table that does not fit, before any work
    configured  whether a build of the config has this stage; needs that are not configured do not count
    version     STAGE_VERSION: raise it with each change that may change outputs, see CONTRIBUTING.md
    task        name of the task, if not the stage's name
    """

    name: str
    does: str
    needs: tuple[str, ...]
    sections: Callable[[Build], Any]
    make: Callable[[Work, Path], None]
    error: Callable[[Build, Path, bool], str] = lambda build, folder, made: ""
    enter: Callable[[Build, Path, Say], None] = lambda build, folder, say: None
    require: Callable[[Build, Table], None] = lambda build, table: build.needs.require(table)
    configured: Callable[[BuildConfig], Any] = lambda config: True
    version: int = 1
    task: str = ""

    def announced(self, build: Build) -> str:
        """Return what the stage does, and how long it took in the last finished run of the name."""
        seconds = build.seconds_before.get(self.name, 0.0)
        before = f", {seconds:.0f} s in the last finished run" if seconds >= SHOWN_SECONDS else ""
        return f"{self.name}: {self.does}{before}"

    def key(self, build: Build, outputs: Mapping[str, str] | None = None) -> str:
        """Return the digest of all inputs; outputs of earlier stages are given, or read from the manifest."""
        if outputs is None:
            outputs = {name: record.output for name, record in build.folder.records().items()}
        # outputs, not keys: equal results of another version or other settings count as equal
        # The first stage has the data as input
        inputs = {name: outputs[name] for name in self.needs} or build.digests["data"]
        return digest_of([self.name, self.version, deciding(), self.sections(build), inputs])


TABLE = Stage(
    names.TABLE,
    "counts the records",
    needs=(),
    sections=table.table_settings,
    make=table.count,
    enter=table.warn_of_loss,
    version=3,
    task="count table",
)
WIDTHS = Stage(
    names.WIDTHS,
    "critical widths of the sub-tables",
    needs=(names.TABLE,),
    sections=lambda build: [build.config.risk.small_count, build.listing.floor, build.listing.most],
    make=table.sweep,
    task="critical widths",
)
SEARCH = Stage(
    names.SEARCH,
    "finds a release",
    needs=(names.TABLE, names.WIDTHS),
    sections=lambda build: [
        plain(build.config.risk),
        search.search_settings(build.config),
        [one.digest for one in build.like],
        *([build.again] if build.again else []),
    ],
    make=search.search,
    version=9,
    task="choose release",
)
ASSESSMENT = Stage(
    names.ASSESSMENT,
    "bounds every at-risk cell under the release",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: [plain(build.config.risk), effort_settings(build.config), build.config.seconds_to_sharpen],
    make=search.assess,
    version=4,
    task="sharp bounds",
)
CURVE = Stage(
    names.CURVE,
    "finds the releases of other risk criteria",
    needs=(names.TABLE, names.WIDTHS),
    sections=lambda build: [plain(part) for part in (build.config.curve, build.config.risk, build.config.release)],
    make=report.curve,
    configured=lambda config: config.curve,
)
REMEDIES = Stage(
    names.REMEDIES,
    "tries recodes on what stopped the release",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: [
        plain(build.config.risk),
        plain(build.config.remedies),
        search.search_settings(build.config),
        build.config.may_coarsen,
        {name: list(levels) for name, levels in build.config.table.hierarchies.items()},
    ],
    make=report.recode,
    configured=lambda config: config.remedies,
)
POSTERIOR = Stage(
    names.POSTERIOR,
    "computes an intruder's posterior",
    needs=(names.TABLE, names.SEARCH),
    sections=report.posterior_settings,
    make=report.posterior,
    configured=lambda config: config.posterior,
    version=3,
)
UNIQUES = Stage(
    names.UNIQUES,
    "estimates which sample uniques are population uniques",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: plain(build.config.uniques),
    make=report.uniques,
    configured=lambda config: config.uniques,
)
ATTACK = Stage(
    names.ATTACK,
    "guesses at-risk cells from all that is public",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: plain(build.config.attack),
    make=report.attack,
    configured=lambda config: config.attack,
)
WEIGHTED = Stage(
    names.WEIGHTED,
    "judges totals of weights beside the counts",
    needs=(names.TABLE, names.ASSESSMENT),
    sections=lambda build: [
        plain(build.config.risk),
        build.config.totals and build.config.totals.recorded(exclude={"publish"}),
    ],
    make=report.weigh,
    configured=lambda config: config.totals,
)
OPTIONAL = (CURVE, REMEDIES, POSTERIOR, UNIQUES, ATTACK, WEIGHTED)  # only in some configs
REPORT = Stage(
    names.REPORT,
    "writes the audit report",
    needs=tuple(of.name for of in (TABLE, WIDTHS, SEARCH, ASSESSMENT, *OPTIONAL)),
    sections=lambda build: build.config.recorded(exclude=ELSEWHERE),
    make=report.report,
    version=4,
    task="report",
)
RELEASE = Stage(
    names.RELEASE,
    "publishes, checking the files once more",
    needs=(names.TABLE, names.SEARCH, names.ASSESSMENT, names.WEIGHTED),
    sections=release.release_settings,
    make=release.publish,
    error=release.unverified,
    enter=release.enter,
    version=2,
    task="publish",
)
STAGES = (TABLE, WIDTHS, SEARCH, ASSESSMENT, REPORT, RELEASE)  # of every build
SWEEP = (replace(TABLE, task=""), replace(WIDTHS, task=""))
ALONE = (
    replace(SWEEP[0], enter=table.require_at_risk),
    replace(SWEEP[1], require=lambda build, table: build.needs.require_sweep(table)),
)
"""The stages of a sweep without a build; their outputs are the same."""


def stages_of(config: BuildConfig) -> tuple[Stage, ...]:
    """Return the stages of a config; optional ones come before the report, which shows them."""
    *first, last, published = STAGES
    stages = [*first, *(stage for stage in OPTIONAL if stage.configured(config) is not None), last, published]
    own = {stage.name for stage in stages}
    return tuple(replace(stage, needs=tuple(name for name in stage.needs if name in own)) for stage in stages)


def run_all(build: Build, executor: Executor = IN_PROCESS, say: Say = lambda text: None) -> list[StageRecord]:
    """Run the whole build in this process, without Prefect."""
    stages = stages_of(build.config)

    def run(build: Build) -> list[StageRecord]:
        with build.started([stage.name for stage in stages]):
            return run_stages(build, stages, executor, say)

    return beside_all(build, run, say)[1]


def beside_all(build: Build, run: Callable[[Build], Made], say: Say) -> tuple[Build, Made]:
    """Run a build, and repeat it if others publish meanwhile; return the build that ran.

    A release that was judged without their publications is not published. MovedError if they publish during each of
    MOST_RUNS runs; RunFolderError as `Build.require_result`.
    """
    for _ in range(MOST_RUNS - 1):
        build.require_result()
        try:
            return build, run(build)
        except MovedError as error:
            say(f"{error}; running again")
            build = replace(build)  # nothing cached stays
    build.require_result()
    return build, run(build)


def run_stages(build: Build, stages: Sequence[Stage], executor: Executor, say: Say, step: Step = directly) -> list[Any]:
    """Run each stage as a step with the results of its needs; return all results."""
    made = dict[str, Any]()
    for stage in stages:
        before = [made[name] for name in stage.needs if name in made]
        made[stage.name] = step(stage.task or stage.name, partial(run_stage, stage, build, executor, say, step), before)
    return [*made.values()]


def run_stage(stage: Stage, build: Build, executor: Executor, say: Say, step: Step = directly) -> StageRecord:
    """Reuse the outputs of an equal key, or make the stage; record it in the manifest."""
    folder, measured = build.folder, MeasuringExecutor(executor)
    work = Work(build, stage.name, stage.key(build), measured, say, step)
    with warnings_shown(say), _logged(stage, build):
        # look first: existing outputs need no memory
        found = _of_released(stage, work) if build.is_released else _adopted(stage, work)
        found = found or _made(stage, work)
    # after the record: a build killed in between finds the stage without the checkpoint
    (folder.path / f"{stage.name}.checkpoint.json").unlink(missing_ok=True)  # of version 0.1
    shutil.rmtree(folder.parts(stage.name), ignore_errors=True)
    line, facts = f"{stage.name}: {found.status} in {found.seconds:.1f} s", asdict(found)
    say(line)
    emit(FINISHED, line, stage=stage.name, units=measured.units, **{fact: facts[fact] for fact in MEASURED})
    return found


@contextmanager
def _logged(stage: Stage, build: Build) -> Iterator[None]:
    """Log that the stage started, and why it failed."""
    emit(STARTED, stage.announced(build), stage=stage.name)
    try:
        yield
    except BaseException as error:
        if isinstance(error, SdcError):
            file_detail(error, build.folder.path)
        emit(FAILED, str(error), stage=stage.name, error=type(error).__name__)
        raise


def _made(stage: Stage, work: Work) -> StageRecord:
    build, folder = work.build, work.build.folder
    work.show(stage.announced(build))
    if names.TABLE in stage.needs:
        stage.require(build, build.made.table)
    with folder.writing(stage.name, public=stage.name == names.RELEASE) as into:
        stage.make(work, into)
        give_back()  # the outputs are read again below
        if error := stage.error(build, into, True):
            raise ReleaseError(f"{stage.name}: {error}; nothing is released")
        stage.enter(build, into, work.show)
        return _record(work, folder_digest(into), "done")  # recorded before it is moved into place


def _adopted(stage: Stage, work: Work) -> StageRecord | None:
    def holds(found: Path) -> bool:
        if error := stage.error(work.build, found, False):
            work.say(f"{stage.name}: existing outputs are not reused: {error}")
        else:
            stage.enter(work.build, found, work.show)
        return not error

    output = work.build.folder.adopt(stage.name, work.key, holds)
    return None if output is None else _record(work, output, "reused")


def _of_released(stage: Stage, work: Work) -> StageRecord | None:
    """Return a published build's outputs of the stage, of any version; None if they are not complete.

    ReleaseError if release/ exists but is not valid: it is never replaced.
    """
    build, path = work.build, work.build.folder.stage(stage.name)
    record = build.folder.whole(stage.name)
    if stage.name == names.RELEASE and path.exists():
        error = stage.error(build, path, False)
        if error or record is None:
            error = error or "its files differ from the manifest"
            raise ReleaseError(
                f"{path} is not valid: {error}. It is never replaced: restore what was "
                "published, or make a new build of this config with sdc run --again"
            )
        stage.enter(build, path, work.show)
    # keep the original key, so that no other build reuses it as this version's output
    return None if record is None else _record(replace(work, key=record.key), record.output, "reused")


def _record(work: Work, output: str, status: str) -> StageRecord:
    one, folder = work.executor, work.build.folder
    old = folder.records().get(work.stage)
    by = old.by if old is not None and status == "reused" else written_by()
    found = StageRecord(work.stage, work.key, output, status, one.seconds, one.driver_mib, one.worker_mib, by)
    folder.record(found)
    return found


def written_by() -> dict[str, str]:
    """Return the versions that the bytes of published files depend on."""
    own = {"sdc": VERSION, "code": code_digest()[:12], "zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in ("jinja2", "pyarrow", "xlsxwriter"):
        with suppress(importlib.metadata.PackageNotFoundError):  # xlsxwriter is in an extra
            own[name] = importlib.metadata.version(name)
    return own
