"""Kernels that several processes need at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from sdc import compiled

PROCESSES = 3
CODE = """
import numpy as np
from sdc.compiled import inner, kernel

@inner
def doubled(values):
    return values + values

@kernel
def twice(values):
    return doubled(values).sum()

values = np.arange(3)
assert twice(values) == 2 * values.sum()
print(sum(twice.stats.cache_misses.values()))
"""


def test_one_of_several_processes_compiles(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(CODE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, str(tmp_path / "kernels.py")]
    begun = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(PROCESSES)]
    said = [process.communicate()[0] for process in begun]
    assert [process.returncode for process in begun] == [0] * PROCESSES
    assert sorted(map(int, said)) == [0, 0, 1]


def test_where_no_file_can_be_locked_each_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with compiled._held(tmp_path / "file" / "kernel.lock"):
        pass


def test_a_process_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PATIENCE", 0.05)
    with FileLock(tmp_path / "kernel.lock"), compiled._held(tmp_path / "kernel.lock"):
        pass
