"""One stage of a build: what it is, and how it is run.

A stage reads the folders of earlier stages and writes its own. Its key is the digest of all that its outputs depend on,
so that a rerun takes over whatever was made with the same key.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from sdc.canonical import digest_of
from sdc.config.build import BuildConfig
from sdc.events import FAILED, FINISHED, STARTED, tell
from sdc.executor import Executor
from sdc.memory import give_back
from sdc.model.errors import ConfigError, ReleaseError, SdcError
from sdc.model.table import Table
from sdc.progress import Measured
from sdc.record.ledger import MovedError
from sdc.refusal import file_detail
from sdc.run_format import RELEASE, TABLE
from sdc.stages.build import Build
from sdc.storage.run_folder import StageRecord, code_digest, folder_digest
from sdc.version import VERSION, deciding

MOST_RUNS = 3  # of one build, where others publish meanwhile
MEASURED = ("status", "seconds", "driver_mib", "worker_mib")
Say = Callable[[str], None]
Made = TypeVar("Made")
Section = TypeVar("Section", bound=BaseModel)


@dataclass(frozen=True)
class Stage:
    """`needs` names the earlier stages and `sections` the parts of the config that its outputs depend on.

    fault    what is wrong with outputs that were found, or made just now; nothing where they are right
    enter    what is noted or said elsewhere before outputs have their place; where that fails they have none
    require  refuses a table that does not fit, before anything is made of it
    asked    whether a build of the config has it; of its needs only those are meant that the build has
    version  its STAGE_VERSION: raise it with each change of the code that may change its outputs, see CONTRIBUTING.md
    """

    name: str
    does: str
    needs: tuple[str, ...]
    sections: Callable[[Build], Any]
    make: Callable[[Build, Path, Executor, Say], None]
    fault: Callable[[Build, Path, bool], str] = lambda build, folder, made: ""
    enter: Callable[[Build, Path, Say], None] = lambda build, folder, say: None
    require: Callable[[Build, Table], None] = lambda build, table: build.needs.require(table)
    asked: Callable[[BuildConfig], bool] = lambda config: True
    version: int = 1

    def key(self, build: Build, outputs: Mapping[str, str] | None = None) -> str:
        """Digest of all that its outputs depend on, given the digests of earlier stages' outputs, or as they are."""
        if outputs is None:
            outputs = {name: record.output for name, record in build.folder.records().items()}
        # outputs, not keys: a stage that came out the same by another version or other settings is the same to what
        # follows. The first has the data for its input
        inputs = {name: outputs[name] for name in self.needs} or build.digests["data"]
        return digest_of([self.name, self.version, deciding(), self.sections(build), inputs])


class StageRun:
    """A stage that is reused or made: at one stroke, or in steps of which `finish` is the last.

    executor  measures what the stage takes, from here on
    make      fills the stage's folder
    """

    def __init__(self, stage: Stage, build: Build, executor: Executor, say: Say) -> None:
        self.stage, self.build, self._say, self.make = stage, build, say, stage.make
        self.executor, self.key = Measured(executor), stage.key(build)
        self._reused: StageRecord | None = None
        self._is_begun = False

    def note(self, text: str) -> None:
        """Say a line, and write it to the log."""
        self._say(text)
        tell("note", text)

    def reused(self) -> StageRecord | None:
        """The record where a build made the stage with the same key; else the stage is begun, and may be made."""
        if not self._is_begun:
            self._is_begun = True
            # looked for before memory is asked for: what is there needs none
            self._reused = self._of_released() if self.build.is_released else self._adopted()
            if self._reused is not None:
                return self._reused
            self._say(f"{self.stage.name}: {self.stage.does}")
            if TABLE in self.stage.needs:
                self.stage.require(self.build, self.build.made.table)
        return self._reused

    @contextmanager
    def told(self) -> Iterator[None]:
        """Around each step: the log has that the stage began, and where it fails, why."""
        stage = self.stage
        if not self._is_begun:
            tell(STARTED, f"{stage.name}: {stage.does}", stage=stage.name)
        try:
            yield
        except BaseException as error:
            if isinstance(error, SdcError):
                file_detail(error, self.build.folder.path)
            tell(FAILED, str(error), stage=stage.name, error=type(error).__name__)
            raise

    def finish(self) -> StageRecord:
        """Write the stage's folder, unless it is reused, and note it in the manifest."""
        stage, folder = self.stage, self.build.folder
        with self.told():
            found = self.reused() or self._made()
        # after the record: killed between, a build finds the stage and no longer needs the checkpoint
        (folder.path / f"{stage.name}.checkpoint.json").unlink(missing_ok=True)  # of version 0.1
        shutil.rmtree(folder.parts(stage.name), ignore_errors=True)
        line, facts = f"{stage.name}: {found.status} in {found.seconds:.1f} s", asdict(found)
        self._say(line)
        measured = {fact: facts[fact] for fact in MEASURED}
        tell(FINISHED, line, stage=stage.name, units=self.executor.units, **measured)
        return found

    def _made(self) -> StageRecord:
        stage, build = self.stage, self.build
        with build.folder.writing(stage.name, public=stage.name == RELEASE) as into:
            self.make(build, into, self.executor, self.note)
            give_back()  # what is looked at now is read anew
            if fault := stage.fault(build, into, True):
                raise ReleaseError(f"{stage.name}: {fault}; nothing is released")
            stage.enter(build, into, self._say)
            return self._record(folder_digest(into), "done")  # known before it is there: what is there is always known

    def _adopted(self) -> StageRecord | None:
        output = self.build.folder.adopt(self.stage.name, self.key, self._holds)
        return None if output is None else self._record(output, "reused")

    def _of_released(self) -> StageRecord | None:
        """What a build with a release has of the stage, whichever version made it; None where that is not whole.

        ReleaseError where a release/ is there that does not hold: it is never made again in place.
        """
        stage, build, path = self.stage, self.build, self.build.folder.stage(self.stage.name)
        record = build.folder.whole(stage.name)
        if stage.name == RELEASE and path.exists():
            fault = stage.fault(build, path, False)
            if fault or record is None:
                fault = fault or "its files are not what the manifest recorded"
                raise ReleaseError(
                    f"{path} is there and does not hold: {fault}. It is not made again in place: put back what was "
                    "published, or make a new build of this config with sdc run --again"
                )
            stage.enter(build, path, self._say)
        # with the key that it was made with: no other build is to take it for what this version makes
        return None if record is None else self._record(record.output, "reused", record.key)

    def _record(self, output: str, status: str, key: str = "") -> StageRecord:
        one = self.executor
        name, old = self.stage.name, self.build.folder.records().get(self.stage.name)
        by = old.by if old is not None and status == "reused" else written_by()
        key = key or self.key
        found = StageRecord(name, key, output, status, one.seconds, one.driver_mib, one.worker_mib, by)
        self.build.folder.record(found)
        return found

    def _holds(self, found: Path) -> bool:
        fault = self.stage.fault(self.build, found, False)
        if fault:
            self.note(f"{self.stage.name}: what was found is not taken over, {fault}")
        if not fault:
            self.stage.enter(self.build, found, self._say)
        return not fault


def written_by() -> dict[str, str]:
    """The versions that the bytes of published files depend on."""
    own = {"sdc": VERSION, "code": code_digest()[:12], "zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in ("jinja2", "pyarrow", "xlsxwriter"):
        with suppress(importlib.metadata.PackageNotFoundError):  # the last is of an extra
            own[name] = importlib.metadata.version(name)
    return own


def run_stage(stage: Stage, build: Build, executor: Executor, say: Say) -> StageRecord:
    """Takes the stage over from a build that made it with the same key, or makes it; notes it in the manifest."""
    return StageRun(stage, build, executor, say).finish()


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


# What stages say of the config


def given(section: Section | None, name: str) -> Section:
    """The section that a stage is about; ConfigError where the config does not have it."""
    if section is None:
        raise ConfigError(f"{name} is missing; give it, or leave out its stage")
    return section


def plain(section: BaseModel | None) -> dict[str, Any] | None:
    """A section as a key has it."""
    return None if section is None else section.model_dump(mode="json")


def effort_settings(config: BuildConfig) -> dict[str, Any]:
    """What a judgement may cost."""
    names = {"refute_cells", "seconds_per_cell", "seconds", "cells_per_slice"}
    return config.release.model_dump(mode="json", include=names)
