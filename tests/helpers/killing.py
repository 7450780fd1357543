"""Builds that are killed at chosen moments and started again until they are done, under the eyes of a watcher."""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from sdc.storage.run_folder import RunFolder, folder_digest

SECONDS_BETWEEN_LOOKS = 0.02
SECONDS_AFTER_AN_EVENT = 0.3
LIMIT_SECONDS = 600.0
SECONDS_TO_END = 300.0
WORKER = "multiprocessing.spawn"


@dataclass(frozen=True)
class Made:
    """What a build that is done has left: the digest of each stage's folder, and how many events it told."""

    digests: dict[str, str]
    events: int


@dataclass
class Outcome:
    """A build that was killed and started again until it was done."""

    kills: list[str] = field(default_factory=list)
    restarts: int = 0
    digests: dict[str, str] = field(default_factory=dict)


def made(runs: Path) -> Made:
    """What the one build in `runs` has left, which is nothing half-written."""
    (manifest,) = runs.glob("*/*/manifest.json")
    folder = RunFolder(manifest.parent)
    assert not [path for path in folder.path.iterdir() if path.name.endswith((".unfinished", ".tmp"))]
    digests = {name: folder_digest(folder.stage(name)) for name in folder.records()}
    return Made(digests, len(_events(runs)))


def killed(command: Sequence[str], runs: Path, victims: Sequence[str], expected: Made, seed: int) -> Outcome:
    """The build that a command makes in `runs`; each victim, `driver` or `worker`, dies at a moment of its own.

    A moment is a number of events of the build's log and a fraction of a second. A build that ends before anybody
    was killed is done again. AssertionError where a folder release/ is seen that is not whole, or the
    build does not end well.
    """
    rng, found, waiting = random.Random(seed), Outcome(), list(victims)
    while True:
        with (runs.parent / "said.txt").open("w") as said:
            attempt = subprocess.Popen(command, cwd=runs.parent, stdout=subprocess.DEVNULL, stderr=said)
        try:
            is_dead = _strike(attempt, runs, waiting, expected, rng, found)
        finally:
            attempt.kill()  # where it hangs, or an assertion fails
        if not is_dead:
            assert attempt.returncode == 0, f"{found}: {(runs.parent / 'said.txt').read_text()[-2000:]}"
            if not found.kills:
                shutil.rmtree(runs)
                continue
            found.digests = made(runs).digests
            return found
        found.restarts += 1


def _strike(
    attempt: subprocess.Popen[bytes], runs: Path, waiting: list[str], expected: Made, rng: random.Random, found: Outcome
) -> bool:
    """Kills the next victims, each when its moment has come; True where that was the driver."""
    seen = len(_events(runs))
    moment = seen + rng.randrange(1, max(2, expected.events - seen))
    for _ in _looks(attempt):
        assert_whole(runs, expected)
        if not waiting or len(_events(runs)) < moment:
            continue
        time.sleep(rng.uniform(0, SECONDS_AFTER_AN_EVENT))
        if (process := _process(attempt, waiting[0], rng)) is None:
            continue
        found.kills.append(waiting[0])
        process.kill()
        if waiting.pop(0) == "driver":
            attempt.wait(SECONDS_TO_END)
            assert_whole(runs, expected)
            return True
        moment += rng.randrange(1, max(2, expected.events - seen))
    return False


def _looks(attempt: subprocess.Popen[bytes]) -> Iterator[None]:
    """Moments at which to look, while the process is alive."""
    started = time.monotonic()
    while attempt.poll() is None:
        assert time.monotonic() - started < LIMIT_SECONDS, "the build hangs"
        yield
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _process(attempt: subprocess.Popen[bytes], victim: str, rng: random.Random) -> psutil.Process | None:
    """The driver itself, or one of its workers where there are any."""
    try:
        driver = psutil.Process(attempt.pid)
        workers = children_with(WORKER, driver)
    except psutil.Error:
        return None
    if victim == "driver":
        return driver
    return rng.choice(workers) if workers else None


def children_with(word: str, parent: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
    """Those that have it in their command, by their numbers; what has ended meanwhile has none any more."""
    found = []
    for child in parent.children(recursive):
        with suppress(psutil.NoSuchProcess):
            if word in " ".join(child.cmdline()):
                found.append(child)
    return sorted(found, key=lambda child: child.pid)


def assert_whole(runs: Path, expected: Made) -> None:
    """A release/ is there whole or not at all, and never before the manifest has it and all that led to it."""
    for release in runs.glob("*/*/release"):
        assert folder_digest(release) == expected.digests["release"], "a release is there that is not whole"
        assert set(expected.digests) <= set(RunFolder(release.parent).records()), "a release the manifest does not know"


def _events(runs: Path) -> list[dict[str, Any]]:
    return [event for log in runs.glob("*/*/log.jsonl") for event in RunFolder(log.parent).events()]


def left_behind(folder: Path) -> list[str]:
    """Processes that were started below a folder and are still there some seconds later: there should be none."""
    psutil.wait_procs(_started_below(folder), timeout=SECONDS_TO_END)
    return [" ".join(process.cmdline()) for process in _started_below(folder)]


def _started_below(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found
