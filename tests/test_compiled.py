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
from typing import NamedTuple

import numpy as np
from sdc.compiled import inner, kernel

class Given(NamedTuple):
    values: np.ndarray

@inner
def doubled(values):
    return values + values

@kernel
def twice(given):
    return doubled(given.values).sum()

values = np.arange(3)
assert twice(Given(values)) == 2 * values.sum()
print(sum(twice.stats.cache_misses.values()))
"""


def test_one_of_several_processes_compiles_and_what_cannot_be_read_is_compiled_again(tmp_path: Path) -> None:
    """What is kept is cut short first, and then of a version with other types."""
    assert compiled_by(CODE, tmp_path, processes=PROCESSES) == [0, 0, 1]
    kept = [*(tmp_path / "kept").rglob("*.nbi")]
    assert kept
    for index in kept:
        index.write_bytes(index.read_bytes()[:-5])
    assert compiled_by(CODE, tmp_path) == [1]
    newer = CODE.replace("Given", "Renamed")
    assert compiled_by(newer, tmp_path) == [1]
    assert compiled_by(newer, tmp_path) == [0]


def compiled_by(code: str, folder: Path, *, processes: int = 1) -> list[int]:
    """How often each of the processes that run the code at once has compiled `twice`, least first."""
    (folder / "kernels.py").write_text(code)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kept")}
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import kernels"]
    begun = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(processes)]
    said = [process.communicate()[0] for process in begun]
    assert [process.returncode for process in begun] == [0] * processes
    return sorted(map(int, said))


def test_where_no_file_can_be_locked_each_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with compiled._held(tmp_path / "file" / "kernel.lock"):
        pass


def test_a_process_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PATIENCE", 0.05)
    with FileLock(tmp_path / "kernel.lock"), compiled._held(tmp_path / "kernel.lock"):
        pass
