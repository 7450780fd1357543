"""Scratch folders hold confidential counts: they go with their run, also where it is killed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sdc.storage.scratch import own_scratch

HOLDING = """
import sys
from pathlib import Path
from sdc.storage.scratch import own_scratch
with own_scratch(Path(sys.argv[1])) as folder:
    (folder / "counts.npy").touch()
    print(folder.name, flush=True)
    sys.stdin.read()
"""


def test_a_scratch_folder_goes_with_its_run(tmp_path: Path) -> None:
    with own_scratch(tmp_path) as one, own_scratch(tmp_path) as other:
        (one / "counts.npy").touch()
        assert one != other
        assert one.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def gone(path: Path) -> bool:
    """Whether it goes within half a minute."""
    deadline = time.monotonic() + 30
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not path.exists()


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_scratch_folder_goes_with_its_process_however_that_ends(tmp_path: Path, death: signal.Signals) -> None:
    (tmp_path / "sdc-of-somebody").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = tmp_path / process.stdout.readline().strip()
        with own_scratch(tmp_path):
            assert (folder / "counts.npy").is_file()  # at work
        process.send_signal(death)
    assert gone(folder)
    with own_scratch(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["sdc-of-somebody"]


def test_what_was_left_all_the_same_goes_with_the_next_run(tmp_path: Path) -> None:
    """As where the whole machine was switched off; of another machine nobody knows here whether it is at work."""
    left, elsewhere = (tmp_path / f"sdc-{host}-0123456789ab" for host in (socket.gethostname(), "elsewhere"))
    for folder in (left, elsewhere):
        folder.mkdir()
        (tmp_path / f".{folder.name}.lock").touch()
    with own_scratch(tmp_path):
        assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {elsewhere.name, f".{elsewhere.name}.lock"}
