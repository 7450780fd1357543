"""A trial of a build: its stages in another process, each for a limited time, in a folder that is removed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sdc import run_format as names
from sdc.config.build import ExecutionConfig
from sdc.events import OUTLOOK, QUESTIONS, heard
from sdc.execution.cluster import cluster_of, open_executor, worker_memory
from sdc.executor import without_main_script
from sdc.memory import MIB
from sdc.model.errors import SdcError
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.stages.build import Build, Say
from sdc.stages.search import ending_of
from sdc.stages.stages import run_stages, stages_of
from sdc.stages.warm import warm_first
from sdc.storage.run_folder import StageRecord
from sdc.storage.scratch import own_scratch

STAGE_SECONDS = 30.0
SECONDS_TO_END = 15.0  # for a search to write what is proven after it was ended


@dataclass(frozen=True)
class Tried:
    """What a trial showed of a stage.

    seconds  that it ran
    left     estimated seconds until it would have ended; 0 if it ended, None if unknown
    """

    seconds: float
    left: float | None = 0.0


@dataclass(frozen=True)
class Trial:
    """The stages that a trial reached, by name; `refused` is why it ended before its time, or ""."""

    stages: dict[str, Tried]
    refused: str = ""


def tried_execution(execution: ExecutionConfig) -> ExecutionConfig:
    """Return where trials run: as the build, but with one local worker in place of a cluster of other machines."""
    settings = cluster_of(execution)
    if settings is None or settings.kind == "local":
        return execution
    return ExecutionConfig(workers=1, memory_per_worker=f"{worker_memory(execution) // MIB}MiB")


def run_trial(build: Build, seconds: float, say: Say) -> Trial:
    """Run the stages before the publication, in a folder of its own; existing results are reused.

    A search that takes longer than `seconds` ends with what it has proven, and the trial goes on with that; where it
    does not say what is left, it gets twice as long. Any other stage ends the trial. Nothing is published or entered.
    """
    with own_scratch() as folder:
        own = _beside(build, folder)
        with _spawned(own) as messages:
            return _Watch(own, seconds, say).follow(messages)


def _beside(build: Build, folder: Path) -> Build:
    """Return the same build below another folder, whose runs of the name are links to the existing ones."""
    output = build.config.output.model_copy(update={"folder": str(folder)})
    execution = tried_execution(build.config.execution)
    own = replace(build, config=build.config.model_copy(update={"output": output, "execution": execution}))
    runs = folder / build.config.name
    runs.mkdir(mode=0o700)
    if (existing := build.folder.path.parent.absolute()).is_dir():
        for run in (run for run in existing.iterdir() if not run.name.startswith(".")):
            (runs / f"of-{run.name}").symlink_to(run)
    return own


@contextmanager
def _spawned(build: Build) -> Iterator[Connection]:
    """Run the trial in a process that ends with the block."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_run, args=(build, theirs))
    with without_main_script():
        process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()  # which ends it, with its workers
        process.join(SECONDS_TO_END)
        process.kill()
        process.join()


class _Watch:
    """The parent's side: follows the stages and ends those that take too long."""

    def __init__(self, build: Build, seconds: float, say: Say) -> None:
        self._build, self._seconds, self._say = build, seconds, say
        self._found, self._refused = dict[str, Tried](), ""
        self._stage, self._begun, self._limit, self._allowed = "", 0.0, inf, seconds
        self._left: float | None = None
        self._is_ending = self._is_over = False

    def follow(self, messages: Connection) -> Trial:
        while not self._is_over:
            if messages.poll(None if self._limit == inf else max(0.0, self._limit - time.monotonic())):
                try:
                    kind, *content = messages.recv()
                except (EOFError, OSError):
                    kind, content = "refuse", [f"its process ended in the stage {self._stage or names.TABLE}"]
                getattr(self, f"_{kind}")(*content)
            else:
                self._go_on()
        return Trial(self._found, self._refused)

    def _go_on(self) -> None:
        """Give a stage whose time is over more of it, or end it."""
        if self._stage != names.SEARCH or self._is_ending:
            self._found.setdefault(self._stage, Tried(self._allowed, self._left))
            self._is_over = True
        elif self._left is None and self._allowed == self._seconds:  # nothing would be known of its time
            self._allow(2 * self._seconds)
        else:
            self._is_ending = True
            self._limit += SECONDS_TO_END
            ending_of(self._build).touch()

    def _begin(self, stage: str) -> None:
        self._stage, self._begun, self._left = stage, time.monotonic(), None
        self._say(f"trial: {stage}")
        config = self._build.config
        sharpen = (config.seconds_to_sharpen or 0.0) if stage == names.ASSESSMENT else 0.0
        # without the table nothing is known
        is_free = stage == names.TABLE and not config.release.coarsens
        self._allow(inf if is_free else self._seconds + min(sharpen, self._seconds))

    def _allow(self, seconds: float) -> None:
        self._allowed, self._limit = seconds, self._begun + seconds

    def _end(self, stage: str, seconds: float) -> None:
        self._found[stage] = Tried(self._allowed, self._left) if self._is_ending else Tried(seconds)
        self._is_ending, self._limit = False, inf

    def _outlook(self, seconds: float) -> None:
        if not self._is_ending:
            self._left = seconds

    def _refuse(self, text: str) -> None:
        if self._is_ending:  # nothing was proven by then, which more time may change
            self._found[self._stage] = Tried(self._allowed, self._left)
        else:
            self._found.setdefault(self._stage, Tried(time.monotonic() - self._begun, None))
            self._refused = text
        self._is_over = True

    def _finish(self) -> None:
        self._is_over = True


class _Outlooks(logging.Handler):
    """Sends the remaining seconds of a search."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        if vars(record).get("event") == OUTLOOK and (left := vars(record)["fields"]["seconds"]) is not None:
            self._send(("outlook", left))


def _run(build: Build, parent: Connection) -> None:
    """Run the trial in its own process, which the end of the parent's connection ends."""
    os.environ["TMPDIR"] = build.config.output.folder  # whatever it leaves is removed with its folder
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # on which libraries complain about a process that was ended
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    config = build.config

    def step(name: str, part: Callable[[], Any], before: Any = ()) -> Any:
        if name not in named:
            return part()
        parent.send(("begin", named[name]))
        record: StageRecord = part()
        parent.send(("end", record.name, record.seconds))
        if record.name == names.TABLE:
            # kernels that a machine compiles once are not part of later stages
            limit, schema = build.criteria.get(PosteriorLimit), build.made.table.schema
            warm_first(config.release.method, limit, schema, lambda text: parent.send(("say", text)))
        return record

    stages = [stage for stage in stages_of(config) if stage.name != names.RELEASE]
    named = {stage.task or stage.name: stage.name for stage in stages}
    try:
        with (
            open_executor(config.execution) as executor,
            build.started([stage.name for stage in stages]),
            heard(_Outlooks(parent.send), QUESTIONS),
        ):
            run_stages(build, stages, executor, lambda text: None, step)
        parent.send(("finish",))
    except BrokenPipeError:
        return  # the plan has ended
    except Exception as error:
        parent.send(("refuse", str(error) if isinstance(error, SdcError) else f"{type(error).__name__}: {error}"))


def _end_with(parent: Connection) -> None:
    with suppress(EOFError, OSError):
        parent.recv()
    os._exit(1)
