"""Kernels that several processes need at once, and what threads keep for them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest
from filelock import FileLock

from sdc import compiled
from sdc.executor import cached_per_thread

PROCESSES = 3
CODE = """
from typing import NamedTuple

import numpy as np
from sdc.compiled import inner, kernel

class Given(NamedTuple):
    values: np.ndarray

@inner
def product(values, number):
    return number * values

@kernel
def twice(given):
    return (product(given.values, 3) - product(given.values, 1)).sum()

values = np.arange(3)
assert twice(Given(values)) == 2 * values.sum()
assert len(product.signatures) <= 1, "compiled for each constant"
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


def test_the_time_of_compilation_is_known() -> None:
    before = compiled.compile_seconds()
    assert numba.njit(lambda x: x + 1)(1) == 2
    assert compiled.compile_seconds() > before


def test_where_no_file_can_be_locked_each_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with compiled._held(tmp_path / "file" / "kernel.lock"):
        pass


def test_a_process_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PATIENCE", 0.05)
    with FileLock(tmp_path / "kernel.lock"), compiled._held(tmp_path / "kernel.lock"):
        pass


def test_every_file_with_kernels_is_known() -> None:
    names = {path.name for path in compiled.kernel_sources()}
    assert {"chain_kernel.py", "ipf_kernel.py", "walk_kernel.py", "width_kernel.py"} <= names
    assert "connection.py" not in names  # it only names the package


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's caches, with nothing kept yet."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    compiled.cache_folder.cache_clear()
    yield tmp_path / "caches"
    compiled.cache_folder.cache_clear()


def test_a_state_of_the_kernels_has_a_folder_and_those_long_unused_go(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = caches / "sdc" / "kernels" / "old", caches / "sdc" / "kernels" / "new"
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (0, 0))
    first = compiled.cache_folder()
    assert first is not None
    assert {path.name for path in new.parent.iterdir()} == {"new", first.name}
    assert first.stat().st_mode & 0o077 == 0
    compiled.cache_folder.cache_clear()
    assert compiled.cache_folder() == first
    monkeypatch.setattr("numba.config.BOUNDSCHECK", 1)
    compiled.cache_folder.cache_clear()
    checked = compiled.cache_folder()
    monkeypatch.setattr(compiled, "kernel_sources", lambda: [Path(compiled.__file__)])
    compiled.cache_folder.cache_clear()
    assert len({first, checked, compiled.cache_folder(), None}) == 4


def test_a_link_that_leads_nowhere_hides_no_open_folder(caches: Path) -> None:
    folder = compiled.cache_folder()
    assert folder is not None
    (folder / "link").symlink_to(folder / "nowhere")
    assert not compiled.open_to_others()
    folder.chmod(0o777)
    assert f"every user may write {folder}" in compiled.open_to_others()


def test_whatever_the_umask_the_folder_is_closed_to_others(caches: Path) -> None:
    before = os.umask(0)
    try:
        folder = compiled.cache_folder()
        assert folder is not None
        (folder / "part").mkdir()  # as Numba makes those of its own
    finally:
        os.umask(before)
    assert not compiled.open_to_others()
    assert {path.stat().st_mode & 0o077 for path in (caches, *folder.parents[:2], folder)} == {0}


def test_where_the_cache_cannot_be_written_the_folder_is_none(caches: Path) -> None:
    caches.write_text("no folder")
    assert compiled.cache_folder() is None


WITHOUT_PLACE = """
import numpy as np
from sdc.compiled import no_cache
assert not no_cache()
from sdc.model.marginal_kernel import add_counts
print(no_cache(), flush=True)
"""


@pytest.mark.parametrize(
    ("mode", "said"),
    [(None, "no writable cache.*NUMBA_CACHE_DIR"), (0o777, "is not cached.*every user may write.*NUMBA_CACHE_DIR")],
)
def test_without_a_place_kernels_work_and_one_sentence_says_so(tmp_path: Path, mode: int | None, said: str) -> None:
    """As it is for a user without a cache that can be written, and for one whose cache others can write."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    if mode is None:
        (tmp_path / "sdc-kernels").write_text("no folder")
    else:
        (tmp_path / "sdc-kernels").mkdir()
        (tmp_path / "sdc-kernels").chmod(mode)
    code = WITHOUT_PLACE + CODE.replace("times = sum(twice.stats.cache_misses.values())\n", "")
    done = subprocess.run(
        [sys.executable, "-c", "exec(open(0).read())"], input=code, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert re.search(said, done.stdout)


def test_code_that_cannot_be_read_is_compiled_anew(compiled_by: Callable[..., list[int]], tmp_path: Path) -> None:
    assert compiled_by(CODE) == [1]
    for damage in ("cut", "gone", "no file"):
        data = [*(tmp_path / "kept").rglob("*.nbc")]
        assert data
        for path in data:
            if damage == "cut":
                path.write_bytes(path.read_bytes()[:100])
            else:
                path.unlink()
            if damage == "no file":
                path.mkdir()  # nor can it be written
        assert compiled_by(CODE) == [1]
        assert compiled_by(CODE) == [1 if damage == "no file" else 0]


def test_no_two_threads_share_what_is_kept() -> None:
    made = cached_per_thread(maxsize=1)(lambda number: [number])
    here = made(1)
    with ThreadPoolExecutor(1) as pool:
        there = [pool.submit(made, 1).result() for _ in range(2)]
    assert made(1) is here
    assert there[0] is there[1] is not here
    made.cache_clear()
    assert made(1) is not here
