"""Compiled kernels, kept from one run of the tests to the next: one folder of the user's cache for each state of them.

Numba finds a kernel by the path of its file, and a kernel's helpers in other files it does not look at. Here it finds
what was compiled of the same sources by the same versions, wherever the project was checked out or installed to.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import shutil
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.kept import ROOT, kept_folder

ROOTS = (ROOT, Path(sysconfig.get_path("purelib")))
"""Where `sdc` may be imported from: processes that tests start elsewhere have the installed one."""

_KERNELS = re.compile(r"^(from sdc.compiled|import numba)\b", re.MULTILINE)


def keep_kernels() -> None:
    """Lets Numba, which is not imported yet, find and leave compiled kernels there; or where the environment says."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        _choose_folder()


def _choose_folder() -> None:
    versions = (platform.machine(), platform.python_version(), *map(version, ("numba", "llvmlite", "numpy")))
    kept = kept_folder("kernels", kernel_sources(), *versions)
    os.environ["NUMBA_CACHE_DIR"] = named = tempfile.mkdtemp(prefix="sdc-kernels-")
    atexit.register(shutil.rmtree, named, ignore_errors=True)
    _name_by_path(kept, Path(named))


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
