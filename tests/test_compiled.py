"""Kernels that several processes need at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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
times = sum(twice.stats.cache_misses.values())
"""
FORKS = """
import os, sys
import numba
import sdc.compiled
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
numba.njit(lambda number: number + 1)(1)

for line in sys.stdin:
    begun = []
    for _ in range(int(line)):
        read, write = os.pipe()
        if not (child := os.fork()):
            import kernels
            os.write(write, str(kernels.times).encode())
            os._exit(0)
        os.close(write)
        begun.append((child, read))
    assert [os.waitpid(child, 0)[1] for child, _ in begun] == [0] * len(begun)
    print(*(os.read(read, 9).decode() for _, read in begun), flush=True)
"""


@pytest.fixture
def compiled_by(tmp_path: Path) -> Iterator[Callable[..., list[int]]]:
    """How often each of the processes that run the code at once has compiled `twice`, least first.

    They are forks of one that has compiled something else before, which takes longest.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, "-c", FORKS, tmp_path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as forking:
        assert forking.stdin is not None
        assert forking.stdout is not None

        def compiled_by(code: str, *, processes: int = 1) -> list[int]:
            (tmp_path / "kernels.py").write_text(code)
            print(processes, file=forking.stdin, flush=True)
            said = forking.stdout.readline()
            assert said, "one of them has failed"
            return sorted(map(int, said.split()))

        yield compiled_by
        forking.stdin.close()
        assert forking.wait(60) == 0


def test_one_of_several_processes_compiles_and_what_cannot_be_read_is_compiled_again(
    compiled_by: Callable[..., list[int]], tmp_path: Path
) -> None:
    """What is kept is cut short first, and then of a version with other types."""
    assert compiled_by(CODE, processes=PROCESSES) == [0, 0, 1]
    kept = [*(tmp_path / "kept").rglob("*.nbi")]
    assert kept
    for index in kept:
        index.write_bytes(index.read_bytes()[:-5])
    assert compiled_by(CODE) == [1]
    newer = CODE.replace("Given", "Renamed")
    assert compiled_by(newer) == [1]
    assert compiled_by(newer) == [0]


def test_where_no_file_can_be_locked_each_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with compiled._held(tmp_path / "file" / "kernel.lock"):
        pass


def test_a_process_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PATIENCE", 0.05)
    with FileLock(tmp_path / "kernel.lock"), compiled._held(tmp_path / "kernel.lock"):
        pass
