"""Scratch folders hold confidential counts: they go with their run, also where it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "sdc-of-somebody").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = tmp_path / process.stdout.readline().strip()
        with own_scratch(tmp_path):
            assert (left / "counts.npy").is_file()  # at work
        process.kill()
    assert (left / "counts.npy").is_file()
    with own_scratch(tmp_path):
        assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["sdc-of-somebody"]
