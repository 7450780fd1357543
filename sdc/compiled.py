"""How kernels are compiled: when first called, by one process for all, kept on disk, and run without Python's lock.

What is kept is for all builds of this user with the same kernels and versions, in the same place of the package.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numba
import numpy as np
from filelock import FileLock, Timeout
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError

from sdc.ownership import of_another, written_by_others

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE = 120.0  # seconds; the largest kernel takes 40
PACKAGE = Path(__file__).parent
ROOM = 64 << 20  # all kernels take some 20 MiB
SECONDS_KEPT = 60 * 86400.0  # of kernels that nobody has used since
_KERNELS = re.compile(r"^(from sdc\.compiled import .*\b(kernel|inner)\b|import numba)", re.MULTILINE)


def kernel(function: Function) -> Function:
    """The function compiled for the arrays and numbers it is called with; Numba's errors for what cannot be."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """A kernel that only kernels call: without a way in from Python it takes a quarter less to compile."""
    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _compiled(function, **bare)


def _compiled(function: Function, **bare: Any) -> Function:
    if (folder := kept_folder()) is None:  # each process compiles what it calls, and `not_kept` says so
        _without_place.append(function.__name__)
        return cast(Function, numba.njit(nogil=True, **bare)(function))
    settings = cast(Any, numba.config)
    others, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)  # code of others is kept where it was
    try:
        dispatcher: Any = numba.njit(nogil=True, cache=True, **bare)(function)
    finally:
        settings.CACHE_DIR = others
    dispatcher.compile = _in_turn(dispatcher.compile, folder, f"{function.__module__}.{function.__qualname__}")
    return cast(Function, dispatcher)


# Where they are kept

_without_place: list[str] = []


def not_kept() -> str:
    """One sentence where this process keeps no compiled code, as there is no safe place for it; else nothing."""
    if not _without_place:
        return ""
    if said := open_to_others():
        return f"compiled code is not kept, so that each process compiles for a minute: {said}"
    return (
        "compiled code has no place, so that each process compiles for a minute: this user has no cache that can be "
        "written; set NUMBA_CACHE_DIR to a folder that can"
    )


def no_room() -> str:
    """One sentence where what is compiled may not be kept, as there is too little room for it; else nothing."""
    folder = kept_folder()
    free = ROOM if folder is None else shutil.disk_usage(folder).free
    if free >= ROOM:
        return ""
    return (
        f"compiled code may have no room, so that each process compiles for a minute: {folder} has {free >> 20} "
        f"MiB left, and {ROOM >> 20} are enough; make room, or set NUMBA_CACHE_DIR to a folder that has it"
    )


def none_yet() -> str:
    """One sentence where nothing is kept yet; else nothing."""
    folder = kept_folder()
    if folder is None or any(folder.rglob("*.nbc")):
        return ""
    return "nothing is compiled on this machine yet: what a build calls first takes a minute or two longer, once"


def kept_base() -> Path:
    """Where the kernels of all states are kept, in NUMBA_CACHE_DIR or in the user's cache.

    RuntimeError where there is neither.
    """
    given, own = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    return Path(given, "sdc-kernels") if given else Path(own or Path.home() / ".cache", "sdc", "kernels")


def open_to_others() -> str:
    """Who else may have written compiled code where it is kept, and what to do; nothing where nobody may.

    It is run as this user, so that none is taken from a folder that another user could have filled.
    """
    try:
        base = kept_base()
    except RuntimeError:  # no home, and no place
        return ""
    folder = base / _state()
    # what is in a folder that is closed is out of reach, unless somebody else has put it there before
    looks = chain(map(written_by_others, (base, folder)), map(of_another, folder.rglob("*")))
    said = next(filter(None, looks), "")
    return f"{said}; remove it, or set NUMBA_CACHE_DIR to a folder of your own" if said else ""


@cache
def kept_folder() -> Path | None:
    """The folder of this state of the kernels, made where it is not there; None where that cannot be, or is not safe.

    Numba by itself looks at a kernel's own file alone, and not at the kernels in others that it calls.
    """
    if open_to_others():
        return None
    try:
        base = kept_base()
        folder = base / _state()
        if not folder.is_dir():
            for path in (*reversed(folder.parents), folder):  # whatever the umask, also those above
                if not path.is_dir():
                    path.mkdir(mode=0o700, exist_ok=True)
            _forget_unused(base)
        os.utime(folder)
        TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # it cannot be written, or there is no home
        return None
    return folder


def kernel_sources() -> list[Path]:
    """The files that have kernels."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if _KERNELS.search(path.read_text(encoding="utf-8"))]


def _state() -> str:
    """A digest of all kernels, of the versions that compile them, and of whether indices are checked."""
    versions = platform.machine(), platform.python_version(), numba.__version__, np.__version__
    found = hashlib.sha256(repr((*versions, cast(Any, numba.config).BOUNDSCHECK)).encode())
    for path in kernel_sources():
        found.update(f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def _forget_unused(base: Path) -> None:
    for folder in base.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > SECONDS_KEPT:
                shutil.rmtree(folder)


# One process for all


def _in_turn(compile_alone: Callable[[Any], Any], folder: Path, name: str) -> Callable[[Any], Any]:
    """Compiles where no other process does; else waits for it, and takes what that one has kept.

    Workers that begin together would each compile the same. And where two processes leave code of one function for
    different arguments at the same moment, Numba may keep the one under the name of the other.
    """

    def compile_in_turn(signature: Any) -> Any:
        # Numba's own lock first, as wherever it compiles: a thread that had only the file would wait for one that wants
        # the file
        with global_compiler_lock, _held(folder / f"{name}.lock"):
            try:
                return compile_alone(signature)
            except NumbaError:
                raise
            except OSError:
                pass  # it cannot be kept, and is compiled already
            except Exception:  # whatever half a file, or types that are gone, raise
                for path in folder.rglob("*.nb[ic]"):
                    with suppress(OSError):
                        path.unlink()
            return compile_alone(signature)

    return compile_in_turn


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """The lock of a file; nothing where there can be none, or where whoever has it does not end."""
    lock = FileLock(path, timeout=PATIENCE)
    # without it the kernel is compiled once more than it need be, and is right
    with suppress(OSError, NotImplementedError, Timeout):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()  # nothing where it is not held
