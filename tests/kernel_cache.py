"""Compiled kernels, kept from one run of the tests to the next: one folder of the user's cache for each state of them.

Numba finds a kernel by the path of its file, and a kernel's helpers in other files it does not look at. Here it finds
what was compiled of the same sources by the same versions, wherever the project was checked out or installed to.
"""

from __future__ import annotations

import atexit
import os
import pickle
import platform
import re
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from tests.kept import ROOT, kept_folder

ROOTS = (ROOT, Path(sysconfig.get_path("purelib")))
"""Where `sdc` may be imported from: processes that tests start elsewhere have the installed one."""

_KERNELS = re.compile(r"^(from sdc.compiled|import numba)\b", re.MULTILINE)


def keep_kernels() -> None:
    """Lets Numba, which is not imported yet, find and leave compiled kernels there; or where the environment says."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        _choose_folder()
    _take_turns()


def _choose_folder() -> None:
    versions = (platform.machine(), platform.python_version(), *map(version, ("numba", "llvmlite", "numpy")))
    kept = kept_folder("kernels", kernel_sources(), *versions)
    os.environ["NUMBA_CACHE_DIR"] = named = tempfile.mkdtemp(prefix="sdc-kernels-")
    atexit.register(shutil.rmtree, named, ignore_errors=True)
    _name_by_path(kept, Path(named))
    _drop_mixed_up(kept)


def kernel_sources() -> list[Path]:
    """The files that have kernels."""
    return [path for path in sorted((ROOT / "sdc").rglob("*.py")) if _KERNELS.search(path.read_text())]


def _name_by_path(kept: Path, named: Path) -> None:
    """Numba's own name of each folder of sources leads to what is kept of that package."""
    from numba.core.caching import UserProvidedCacheLocator

    for package in {path.parent.relative_to(ROOT) for path in kernel_sources()}:
        folder = kept / package
        folder.mkdir(parents=True, exist_ok=True)
        for root in ROOTS:
            name = UserProvidedCacheLocator.get_suitable_cache_subpath(str(root / package / "kernel.py"))
            (named / name).symlink_to(folder)


# Two processes that have compiled one function for different arguments at the same moment may leave the code of the one
# under the name of the other, for Numba writes its index and its code one after the other. Processes of a test run take
# turns; of others, which do not, the next run drops what was mixed up.


def _take_turns() -> None:
    from numba.core.caching import IndexDataCacheFile

    save = IndexDataCacheFile.save

    def save_alone(self: Any, key: Any, data: Any) -> None:
        with FileLock(Path(self._cache_path) / "lock"):
            save(self, key, data)

    IndexDataCacheFile.save = save_alone


def _drop_mixed_up(kept: Path) -> None:
    checked = kept / "checked"
    since, begun = checked.stat().st_mtime if checked.exists() else 0.0, time.time()
    for index in kept.rglob("*.nbi"):
        if index.stat().st_mtime >= since and not all(_is_for(key, code) for key, code in _codes(index)):
            index.unlink()
    checked.touch()
    os.utime(checked, (begun, begun))


def _codes(index: Path) -> Iterator[tuple[Any, Path]]:
    with index.open("rb") as file:
        pickle.load(file)  # Numba's version, which is that of this state
        _, names = pickle.load(file)
    yield from ((key, index.parent / name) for key, name in names.items())


def _is_for(key: Any, code: Path) -> bool:
    """Whether code is for the arguments that its index says; what is not there is compiled again."""
    if not code.exists():
        return True
    signature = pickle.loads(code.read_bytes())[3]
    return bool(signature.args == key[0])
