"""Sharp bounds with workers, and of builds and commands that are killed: the same bytes."""

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sdc.checkpoint import Arrays, Checkpoint
from sdc.executor import IN_PROCESS, Executor
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from tests.helpers.builds import built
from tests.helpers.commands import invoked
from tests.helpers.folders import contents
from tests.helpers.sharp import assessed_anew, build, file_of, large, proven

__all__ = ["build", "proven"]


class Backwards:
    """As many workers as one likes, of whom the last is always done first."""

    scratch = None

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, function: Callable[[Any, Any], Any], table: Any, units: Sequence[Any], is_over: Any = None
    ) -> Iterator[Any]:
        return iter([function(table, unit) for unit in reversed(units)][::-1])


def test_workers_change_no_byte(build: Build, two_workers: Executor) -> None:
    expected = contents(build.folder.stage("assessment"))
    for executor in (IN_PROCESS, two_workers, Backwards(4)):
        assert assessed_anew(build, executor) == expected


@pytest.mark.parametrize("partitions", [2, 5])
def test_in_however_many_parts_the_table_is_stored_the_bounds_are_the_same(
    partitions: int, build: Build, two_workers: Executor, tmp_path: Path
) -> None:
    parted = built(large(tmp_path, table={"path": str(tmp_path / "t.csv"), "partitions": partitions}), two_workers)
    assert len([*parted.folder.stage("table").glob("part-*.parquet")]) == partitions
    assert contents(parted.folder.stage("assessment")) == contents(build.folder.stage("assessment"))


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from sdc.checkpoint import Checkpoint

_, left, moment, *words = sys.argv
write, savez, left = Checkpoint.write, np.savez, int(left)

def die_if(now):
    if left == 0 and moment == now:
        os.kill(os.getpid(), signal.SIGKILL)

def write_or_die(self, name, part):
    global left
    die_if("before")
    write(self, name, part)
    die_if("after")
    left -= 1

def write_half(file, **arrays):
    savez(file, **arrays)
    if left == 0 and moment == "amid":
        file.flush()
        os.truncate(file.name, os.path.getsize(file.name) // 2)
        die_if("amid")

Checkpoint.write, np.savez, sys.argv = write_or_die, write_half, ["sdc", *words]
if words[0] == "build":
    from sdc.stages.build import open_build
    from sdc.stages.stages import run_all
    from sdc.executor import IN_PROCESS
    run_all(open_build(Path(words[1])), IN_PROCESS)
else:
    from sdc.commands.cli import main
    main()
"""


def killed(part: int, when: str, *words: Any) -> int:
    """A process that dies before, amid or after it keeps a part of a checkpoint, counted from 0; its status."""
    command = [sys.executable, "-c", KILLED, part, when, *words]
    return subprocess.run([*map(str, command)], capture_output=True, timeout=900).returncode


def parts_of(build: Build, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many there are in the assessment."""
    written: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", lambda self, name, part: written.append(name))
        assessed_anew(build)
    assert len(written) == len({*written}) > 3
    return len(written)


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_and_run_again_it_makes_the_same_bytes(
    kills: int, build: Build, monkeypatch: pytest.MonkeyPatch, night: list[int]
) -> None:
    expected, file = contents(build.folder.stage("assessment")), file_of(build)
    rng, number = random.Random(f"{kills} {night}"), parts_of(build, monkeypatch)
    build.folder.discard("assessment")
    for kill in range(kills):
        # each time some parts are left to do
        most = max(1, (number - len([*build.folder.parts("assessment").rglob("*.npz")])) // (kills - kill + 1))
        when = rng.choice(["before", "amid", "after"])
        assert killed(rng.randrange(most), when, "build", file) == -signal.SIGKILL
        assert not build.folder.stage("assessment").exists()
    kept = len([*build.folder.parts("assessment").rglob("[!.]*.npz")])
    fresh = parts_left(build, monkeypatch)
    assert fresh == number - kept
    assert contents(build.folder.stage("assessment")) == expected
    assert not build.folder.parts("assessment").exists()


def parts_left(build: Build, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many parts a build that goes on has to do."""
    write, written = Checkpoint.write, list[str]()

    def noted(self: Checkpoint, name: str, part: Arrays) -> None:
        written.append(name)
        write(self, name, part)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", noted)
        run_all(open_build(file_of(build)), IN_PROCESS)
    return len(written)


@pytest.mark.slow
def test_the_command_goes_on_where_it_was_killed(proven: Build) -> None:
    words = "bounds", proven.folder.path, "--sharp", "--seconds", 5, "--json"
    expected = invoked(*words).stdout
    assert killed(2, "after", *words) == -signal.SIGKILL
    assert len([*proven.folder.parts("bounds").rglob("*.npz")]) == 3
    answer = invoked(*words)
    assert "bounds: continues after 3 saved parts" in answer.stderr
    assert answer.stdout == expected
    assert not proven.folder.parts("bounds").exists()


def test_of_a_config_parts_are_kept_and_nothing_is_left(tmp_path: Path) -> None:
    file = large(tmp_path / "new", sharp_seconds=2.0)
    words = "bounds", file, "--release", "A*B", "--release", "A*C", "--release", "B*C*D*E", "--sharp", "--json"
    expected = invoked(*words).stdout
    assert not (tmp_path / "new" / "runs" / "large").exists()
    assert killed(0, "after", *words) == -signal.SIGKILL
    assert len([*(tmp_path / "new" / "runs").rglob("*.npz")]) == 1
    assert invoked(*words).stdout == expected
    assert not (tmp_path / "new" / "runs" / "large").exists()
