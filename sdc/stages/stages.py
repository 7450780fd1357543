"""The stages of a build: one table of them, and how they are run.

A stage reads the folders of earlier stages and writes its own. Its key is the digest of all that its outputs depend on,
so that a rerun takes over whatever was made with the same key.
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
from sdc.events import FAILED, FINISHED, STARTED, tell
from sdc.executor import IN_PROCESS, Executor
from sdc.memory import give_back
from sdc.model.errors import ReleaseError, SdcError
from sdc.model.table import Table
from sdc.progress import Measured
from sdc.record.ledger import MovedError
from sdc.refusal import file_detail
from sdc.stages import release, report, search, table
from sdc.stages.build import Build, Say, Step, Work, directly, effort_settings, plain
from sdc.storage.run_folder import StageRecord, code_digest, folder_digest
from sdc.version import VERSION, deciding

MOST_RUNS = 3  # of one build, where others publish meanwhile
MEASURED = ("status", "seconds", "driver_mib", "worker_mib")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Stage:
    """`needs` names the earlier stages and `sections` the parts of the config that its outputs depend on.

    make     fills its folder
    fault    what is wrong with outputs that were found, or made just now; nothing where they are right
    enter    what is noted or said elsewhere before outputs have their place; where that fails they have none
    require  refuses a table that does not fit, before anything is made of it
    asked    whether a build of the config has it; of its needs only those are meant that the build has
    version  its STAGE_VERSION: raise it with each change of the code that may change its outputs, see CONTRIBUTING.md
    task     what it is called as a task, where not by its name
    """

    name: str
    does: str
    needs: tuple[str, ...]
    sections: Callable[[Build], Any]
    make: Callable[[Work, Path], None]
    fault: Callable[[Build, Path, bool], str] = lambda build, folder, made: ""
    enter: Callable[[Build, Path, Say], None] = lambda build, folder, say: None
    require: Callable[[Build, Table], None] = lambda build, table: build.needs.require(table)
    asked: Callable[[BuildConfig], Any] = lambda config: True
    version: int = 1
    task: str = ""

    def key(self, build: Build, outputs: Mapping[str, str] | None = None) -> str:
        """Digest of all that its outputs depend on, given the digests of earlier stages' outputs, or as they are."""
        if outputs is None:
            outputs = {name: record.output for name, record in build.folder.records().items()}
        # outputs, not keys: a stage that came out the same by another version or other settings is the same to what
        # follows. The first has the data for its input
        inputs = {name: outputs[name] for name in self.needs} or build.digests["data"]
        return digest_of([self.name, self.version, deciding(), self.sections(build), inputs])


TABLE = Stage(
    names.TABLE,
    "counts the records",
    needs=(),
    sections=table.table_settings,
    make=table.count,
    enter=table.warn_of_loss,
    version=2,
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
    version=4,
    task="choose release",
)
ASSESSMENT = Stage(
    names.ASSESSMENT,
    "bounds every at-risk cell under the release",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: [plain(build.config.risk), effort_settings(build.config), build.config.seconds_to_sharpen],
    make=search.assess,
    task="sharp bounds",
)
CURVE = Stage(
    names.CURVE,
    "finds the releases of other risk criteria",
    needs=(names.TABLE, names.WIDTHS),
    sections=lambda build: [plain(part) for part in (build.config.curve, build.config.risk, build.config.release)],
    make=report.curve,
    asked=lambda config: config.curve,
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
    make=report.remedy,
    asked=lambda config: config.remedies,
)
POSTERIOR = Stage(
    names.POSTERIOR,
    "says what an intruder may hold likely",
    needs=(names.TABLE, names.SEARCH),
    sections=report.posterior_settings,
    make=report.posterior,
    asked=lambda config: config.posterior,
    version=2,
)
UNIQUES = Stage(
    names.UNIQUES,
    "says how probably sample uniques are population uniques",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: plain(build.config.uniques),
    make=report.uniques,
    asked=lambda config: config.uniques,
)
ATTACK = Stage(
    names.ATTACK,
    "guesses at-risk cells from all that is public",
    needs=(names.TABLE, names.SEARCH),
    sections=lambda build: plain(build.config.attack),
    make=report.attack,
    asked=lambda config: config.attack,
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
    asked=lambda config: config.totals,
)
ASKED = (CURVE, REMEDIES, POSTERIOR, UNIQUES, ATTACK, WEIGHTED)  # that only some configs ask for
REPORT = Stage(
    names.REPORT,
    "writes the audit report",
    needs=tuple(of.name for of in (TABLE, WIDTHS, SEARCH, ASSESSMENT, *ASKED)),
    sections=lambda build: build.config.recorded(exclude=ELSEWHERE),
    make=report.report,
    version=2,
    task="report",
)
RELEASE = Stage(
    names.RELEASE,
    "publishes, checking the files once more",
    needs=(names.TABLE, names.SEARCH, names.ASSESSMENT, names.WEIGHTED),
    sections=release.release_settings,
    make=release.publish,
    fault=release.unverified,
    enter=release.enter,
    task="publish",
)
STAGES = (TABLE, WIDTHS, SEARCH, ASSESSMENT, REPORT, RELEASE)  # of every build
SWEEP = (replace(TABLE, task=""), replace(WIDTHS, task=""))
ALONE = (
    replace(SWEEP[0], enter=table.require_at_risk),
    replace(SWEEP[1], require=lambda build, table: build.needs.require_sweep(table)),
)
"""The stages of a sweep with no build after it; what they make is the same."""


def stages_of(config: BuildConfig) -> tuple[Stage, ...]:
    """The stages of a build; those that only some configs ask for come before the report, which shows them."""
    *first, last, published = STAGES
    stages = [*first, *(stage for stage in ASKED if stage.asked(config) is not None), last, published]
    own = {stage.name for stage in stages}
    return tuple(replace(stage, needs=tuple(name for name in stage.needs if name in own)) for stage in stages)


def run_all(build: Build, executor: Executor = IN_PROCESS, say: Say = lambda text: None) -> list[StageRecord]:
    """The whole build in this process, without Prefect."""
    stages = stages_of(build.config)

    def run(build: Build) -> list[StageRecord]:
        with build.started([stage.name for stage in stages]):
            return run_stages(build, stages, executor, say)

    return beside_all(build, run, say)[1]


def beside_all(build: Build, run: Callable[[Build], Made], say: Say) -> tuple[Build, Made]:
    """Runs a build, anew and beside all that is public where others have published meanwhile; and which build ran.

    What was judged without them has no place in the ledger, and stays unpublished. MovedError where they publish
    during each of so many runs. RunFolderError as `Build.require_result`.
    """
    for _ in range(MOST_RUNS - 1):
        build.require_result()
        try:
            return build, run(build)
        except MovedError as error:
            say(f"{error}; it is run again now")
            build = replace(build)  # nothing that was read is kept
    build.require_result()
    return build, run(build)


def run_stages(build: Build, stages: Sequence[Stage], executor: Executor, say: Say, step: Step = directly) -> list[Any]:
    """Each stage as a step, given what the steps of stages that it needs gave; what every step gave."""
    made = dict[str, Any]()
    for stage in stages:
        before = [made[name] for name in stage.needs if name in made]
        made[stage.name] = step(stage.task or stage.name, partial(run_stage, stage, build, executor, say, step), before)
    return [*made.values()]


def run_stage(stage: Stage, build: Build, executor: Executor, say: Say, step: Step = directly) -> StageRecord:
    """Takes the stage over from a build that made it with the same key, or makes it; notes it in the manifest."""
    folder, measured = build.folder, Measured(executor)
    work = Work(build, stage.name, stage.key(build), measured, say, step)
    with _told(stage, folder.path):
        # looked for before memory is asked for: what is there needs none
        found = _of_released(stage, work) if build.is_released else _adopted(stage, work)
        found = found or _made(stage, work)
    # after the record: killed between, a build finds the stage and no longer needs the checkpoint
    (folder.path / f"{stage.name}.checkpoint.json").unlink(missing_ok=True)  # of version 0.1
    shutil.rmtree(folder.parts(stage.name), ignore_errors=True)
    line, facts = f"{stage.name}: {found.status} in {found.seconds:.1f} s", asdict(found)
    say(line)
    tell(FINISHED, line, stage=stage.name, units=measured.units, **{fact: facts[fact] for fact in MEASURED})
    return found


@contextmanager
def _told(stage: Stage, run_folder: Path) -> Iterator[None]:
    """The log has that the stage began, and where it fails, why."""
    tell(STARTED, f"{stage.name}: {stage.does}", stage=stage.name)
    try:
        yield
    except BaseException as error:
        if isinstance(error, SdcError):
            file_detail(error, run_folder)
        tell(FAILED, str(error), stage=stage.name, error=type(error).__name__)
        raise


def _made(stage: Stage, work: Work) -> StageRecord:
    build, folder = work.build, work.build.folder
    work.show(f"{stage.name}: {stage.does}")
    if names.TABLE in stage.needs:
        stage.require(build, build.made.table)
    with folder.writing(stage.name, public=stage.name == names.RELEASE) as into:
        stage.make(work, into)
        give_back()  # what is looked at now is read anew
        if fault := stage.fault(build, into, True):
            raise ReleaseError(f"{stage.name}: {fault}; nothing is released")
        stage.enter(build, into, work.show)
        return _record(work, folder_digest(into), "done")  # known before it is there: what is there is always known


def _adopted(stage: Stage, work: Work) -> StageRecord | None:
    def holds(found: Path) -> bool:
        if fault := stage.fault(work.build, found, False):
            work.say(f"{stage.name}: what was found is not taken over, {fault}")
        else:
            stage.enter(work.build, found, work.show)
        return not fault

    output = work.build.folder.adopt(stage.name, work.key, holds)
    return None if output is None else _record(work, output, "reused")


def _of_released(stage: Stage, work: Work) -> StageRecord | None:
    """What a build with a release has of the stage, whichever version made it; None where that is not whole.

    ReleaseError where a release/ is there that does not hold: it is never made again in place.
    """
    build, path = work.build, work.build.folder.stage(stage.name)
    record = build.folder.whole(stage.name)
    if stage.name == names.RELEASE and path.exists():
        fault = stage.fault(build, path, False)
        if fault or record is None:
            fault = fault or "its files are not what the manifest recorded"
            raise ReleaseError(
                f"{path} is there and does not hold: {fault}. It is not made again in place: put back what was "
                "published, or make a new build of this config with sdc run --again"
            )
        stage.enter(build, path, work.show)
    # with the key that it was made with: no other build is to take it for what this version makes
    return None if record is None else _record(replace(work, key=record.key), record.output, "reused")


def _record(work: Work, output: str, status: str) -> StageRecord:
    one, folder = work.executor, work.build.folder
    old = folder.records().get(work.stage)
    by = old.by if old is not None and status == "reused" else written_by()
    found = StageRecord(work.stage, work.key, output, status, one.seconds, one.driver_mib, one.worker_mib, by)
    folder.record(found)
    return found


def written_by() -> dict[str, str]:
    """The versions that the bytes of published files depend on."""
    own = {"sdc": VERSION, "code": code_digest()[:12], "zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in ("jinja2", "pyarrow", "xlsxwriter"):
        with suppress(importlib.metadata.PackageNotFoundError):  # the last is of an extra
            own[name] = importlib.metadata.version(name)
    return own
