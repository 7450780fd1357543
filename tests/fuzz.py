"""Hostile configs, command lines and tables: each is one message and a status, and leaves nothing behind.

    python -m tests.fuzz {config,command,table} CASES [SEED] [FIRST]

Each case runs in a fork of this process, which has everything imported. A case is its kind, number and seed:
`python -m tests.fuzz config 1 7 17` runs number 17 of seed 7 alone. Exit status 1 where anything was found.
"""

import collections
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from sdc import api
from sdc.commands import cli
from sdc.data import reading as _reading
from sdc.data.reader import READER
from sdc.execution import cluster as _cluster
from sdc.executor import IN_PROCESS
from sdc.refusal import as_command
from sdc.stages import plan as _plan
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.storage import runs as _runs
from sdc.storage.run_folder import RunFolder, folder_digest
from sdc.verify import run_folder as _verify
from tests import hostile

IMPORTED = (api, _plan, _cluster, _reading, _runs, _verify)
LIMIT_SECONDS, MEMORY, STATUSES = 30.0, 6 << 30, {0, 1, 2, 130}


@dataclass(frozen=True)
class End:
    """How a case ended."""

    status: int
    said: str
    is_late: bool
    left: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        messages = [line for line in self.said.splitlines() if line.startswith("sdc: ")]
        found = {
            "traceback": "Traceback (most recent call last)" in self.said,
            "abort": self.status < 0 and not self.is_late,
            "status": self.status >= 0 and self.status not in STATUSES,
            "silent": self.status == 1 and len(messages) != 1,
            "unforeseen": "sdc: unforeseen" in self.said,
            "left behind": bool(self.left),
            f"over {LIMIT_SECONDS:g} s": self.is_late,
        }
        return [fault for fault, holds in found.items() if holds]


def main() -> None:
    kind, cases, seed, first = [*sys.argv[1:], *("", "0")[len(sys.argv) - 3 :]]
    statuses, wrong = collections.Counter[int](), 0
    with tempfile.TemporaryDirectory(prefix="sdc-fuzz-") as top:
        finished = _finished(Path(top))
        for number in range(int(first), int(first) + int(cases)):
            end = one(kind, number, seed, Path(top), finished)
            statuses[end.status] += 1
            if end.faults:
                wrong += 1
                print(f"FAULT {kind} 1 {seed!r} {number}: {end.faults} {end}"[:4000], flush=True)
    print(f"{statuses.total()} cases, by status {dict(statuses)}")
    sys.exit(wrong > 0)


def one(kind: str, number: int, seed: str, top: Path, finished: Path) -> End:
    """Makes a case in a folder of its own, and runs it."""
    rng, folder = random.Random(f"{kind} {number}{seed and f' {seed}'}"), top / "case"
    (folder / "tmp").mkdir(parents=True)
    try:
        hostile.small_table(folder)
        if kind == "command":
            words = hostile.command(rng, folder, finished)
        else:
            words = {"config": hostile.config, "table": hostile.table}[kind](rng, folder)
        return _ended(_fork(words, folder), folder)
    finally:
        shutil.rmtree(folder)


def _ended(process: int, folder: Path) -> End:
    watch = os.pidfd_open(process)
    try:
        is_late = not select.select([watch], [], [], LIMIT_SECONDS)[0]
        if is_late:
            os.kill(process, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    finally:
        os.close(watch)
    said = (folder / "said").read_text(encoding="utf-8", errors="replace")
    return End(status, said, is_late, tuple(_left(folder)))


def _fork(words: list[str], folder: Path) -> int:
    """Runs a command in a fork of this process; `build` is a build without Prefect."""
    if process := os.fork():
        return process
    status = 1
    try:
        os.chdir(folder)
        _redirect()
        os.environ.update({"TMPDIR": str(folder / "tmp"), "XDG_STATE_HOME": str(folder / "state")})
        tempfile.tempdir = None
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        status = _command(words)
        sys.stdout.flush()
        READER.end()
    finally:
        os._exit(status)


def _redirect() -> None:
    said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(said, 2)


def _command(words: list[str]) -> int:
    sys.argv = ["sdc", *words]
    try:
        if words[:1] == ["build"]:
            with as_command():
                run_all(open_build(Path(*words[1:2])), IN_PROCESS)
        else:
            cli.main()
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code))
    except BaseException as error:
        print(f"Traceback (most recent call last): {error!r}", file=sys.stderr)
        return 1
    return 0


def _left(folder: Path) -> list[str]:
    """What an ended command must not leave: anything unfinished or temporary, and a release that is not whole."""
    left = [path for pattern in ("*.unfinished", "*.tmp", "*.removed") for path in folder.rglob(pattern)]
    left += (folder / "tmp").iterdir()
    for release in folder.glob("runs/*/*/release"):
        if release.parent.name != "1" and not _is_whole(release):  # that one was made, and damaged, for the case
            left.append(release)
    if (published := folder / "published").exists() and not (published / "datapackage.json").is_file():
        left.append(published)
    return [str(path.relative_to(folder)) for path in left]


def _is_whole(release: Path) -> bool:
    record = RunFolder(release.parent).records().get(release.name)
    return record is not None and record.output == folder_digest(release)


def _finished(top: Path) -> Path:
    """A build that is whole, made in this process; every kernel is compiled then."""
    folder = top / "finished"
    (folder / "tmp").mkdir(parents=True)
    hostile.small_table(folder)
    content = {
        "name": "fuzz",
        "table": {"path": hostile.TABLE},
        "risk": {"min_width": 2},
        "release": {"method": "best", "annealing": {"steps": 200, "chains": 2}},
        "execution": {"cluster": "in-process", "workers": 1},
        "output": {"folder": str(folder / "runs")},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(content))
    build = open_build(folder / "c.yaml")
    run_all(build, IN_PROCESS)
    for words in hostile.LINES:  # each once: kernels that are not compiled yet take seconds
        os.waitpid(_fork(words.split(), folder), 0)
    return build.folder.path


if __name__ == "__main__":
    main()
