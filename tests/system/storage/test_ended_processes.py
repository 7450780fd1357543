"""Locks and scratch folders of processes that are killed: the one is free, the other goes with its lock."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sdc.model.errors import RunFolderError
from sdc.storage.run_folder import Manifest, RunFolder
from sdc.storage.runs import read_run, remove
from sdc.storage.scratch import own_scratch
from tests.helpers.waiting import wait_until

LOCK = """
import sys
from pathlib import Path
from sdc.events import emit
from sdc.storage.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    emit("run started")
    print("held", flush=True)
    sys.stdin.read()
"""
SCRATCH = """
import sys
from pathlib import Path
from sdc.storage.scratch import own_scratch
with own_scratch(Path(sys.argv[1])) as folder:
    (folder / "counts.npy").touch()
    print(folder.name, flush=True)
    sys.stdin.read()
"""
WORKBOOK = """
import os, signal
from sdc.publish.formats.xlsx import fill, workbook

def rows():
    yield "a", 1
    os.kill(os.getpid(), signal.SIGKILL)

with open(os.devnull, "wb") as into, workbook(into, constant_memory=True) as book:
    fill(book, None, rows())
"""

SPILLED = """
import os, signal
from sdc.data import counting
from sdc.data.reading import read_table

def save(cells, folder, save=counting.save):
    assert save(cells, folder).exists()
    os.kill(os.getpid(), signal.SIGKILL)

counting.save = save
read_table("cells.csv", memory=1)
"""


@contextmanager
def holding(code: str, place: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that holds something there, and what it has said of it."""
    command = [sys.executable, "-c", code, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_lock_of_a_process_that_is_killed_is_free(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "births" / "e")
    with folder.locked():
        folder.begin(Manifest("births", planned=("table",)))
    with holding(LOCK, folder.path) as (_, said):
        assert said == "held"
        run = read_run(folder.path)
        assert run.state == "running"
        with pytest.raises(RunFolderError, match="another run of the same build is using"):
            remove(run)
    assert read_run(folder.path).state == "killed"


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_scratch_folder_goes_with_its_process_however_that_ends(tmp_path: Path, death: signal.Signals) -> None:
    (tmp_path / "sdc-of-somebody").mkdir()
    with holding(SCRATCH, tmp_path) as (process, name):
        with own_scratch(tmp_path):
            assert (tmp_path / name / "counts.npy").is_file()  # at work
        process.send_signal(death)
        process.wait(600)
    wait_until(lambda: [path.name for path in tmp_path.iterdir()] == ["sdc-of-somebody"])


@pytest.mark.parametrize("program", [WORKBOOK, SPILLED], ids=["a workbook", "cells beyond the memory"])
def test_temporary_files_go_with_a_process_that_is_killed(program: str, tmp_path: Path) -> None:
    """Sheets until the workbook is written, and cells until the table is."""
    (tmp_path / "cells.csv").write_text("A,B\nx,y\n")
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, cwd=tmp_path, timeout=600)
    assert ended.returncode == -signal.SIGKILL
    wait_until(lambda: not list((tmp_path / "temporary").iterdir()))
