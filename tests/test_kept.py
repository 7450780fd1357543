"""What runs of the tests keep for each other."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from tests import kept, kernel_cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sdc-tests"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    (tmp_path / "kernel.py").write_text("first")
    return tmp_path / "kernel.py"


def test_each_state_has_a_folder_and_the_last_are_kept(cache: Path, source: Path) -> None:
    first = kept.kept_folder("kernels", [source], "numba 1")
    assert first == kept.kept_folder("kernels", [source], "numba 1")
    for state in range(kept.STATES_KEPT):
        os.utime(first, (0, 0))
        source.write_text(f"state {state}")
        last = kept.kept_folder("kernels", [source], "numba 1")
    assert not first.exists()
    assert len(list((cache / "kernels").iterdir())) == kept.STATES_KEPT
    assert last != kept.kept_folder("kernels", [source], "numba 2")


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path, source: Path) -> None:
    cache.parent.write_text("no folder")
    folder = kept.kept_folder("kernels", [source])
    assert folder.is_dir()
    assert not folder.is_relative_to(cache.parent)
    folder.rmdir()


def test_every_file_with_kernels_is_known() -> None:
    names = {path.name for path in kernel_cache.kernel_sources()}
    assert {"chain_kernel.py", "ipf_kernel.py", "move_kernel.py", "width_kernel.py"} <= names
    assert "connection.py" not in names  # it only names the package


def test_code_under_the_name_of_other_arguments_is_dropped(tmp_path: Path) -> None:
    """As two processes leave it that write at the same moment."""
    twice = numba.njit(lambda x: x + x)
    for values in (np.ones(2), np.ones(2, np.int64)):
        twice(values)
    file = IndexDataCacheFile(str(tmp_path), "twice", "stamp")
    for signature, compiled in twice.overloads.items():
        file.save((signature, "machine"), (None, None, None, compiled.signature))
    kernel_cache._drop_mixed_up(tmp_path)
    assert len(file._load_index()) == 2
    code = sorted(tmp_path.glob("*.nbc"))
    shutil.copy(code[0], code[1])
    os.utime(tmp_path / "checked", (0, 0))
    kernel_cache._drop_mixed_up(tmp_path)
    assert file._load_index() == {}
