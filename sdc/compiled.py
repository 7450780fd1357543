"""Compiled kernels: compiled on first call by one process, cached on disk, and run without the GIL.

Builds of this user with the same kernels and versions share the cache.
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
from numba.core.event import Event, Listener, register

from sdc.ownership import of_another, written_by_others

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE = 120.0  # seconds; the largest kernel takes 40
PACKAGE = Path(__file__).parent
ROOM = 64 << 20  # all kernels take some 20 MiB
CACHE_SECONDS = 60 * 86400.0  # of unused kernels
_KERNELS = re.compile(r"^(from sdc\.compiled import .*\b(kernel|inner)\b|import numba)", re.MULTILINE)


def kernel(function: Function) -> Function:
    """Compile a function for the arguments of its first call; Numba's errors if it cannot be compiled."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """Compile a kernel that only kernels call; without a Python entry this takes a quarter less time."""
    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _compiled(function, **bare)


def inlined(function: Function) -> Function:
    """Make a kernel part of those that call it, rather than compile it alone.

    Numba optimises a kernel with all that it calls. Long kernels in the middle of chains of calls would be optimised
    again for each link of the chain.
    """
    return cast(Function, numba.njit(inline="always")(function))


def _compiled(function: Function, **bare: Any) -> Function:
    if (folder := cache_folder()) is None:  # each process compiles for itself; `no_cache` reports it
        _without_place.append(function.__name__)
        alone: Any = numba.njit(nogil=True, **bare)(function)
        alone.compile = _by_types(alone.compile)
        return cast(Function, alone)
    settings = cast(Any, numba.config)
    others, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)  # the cache of other packages stays
    try:
        dispatcher: Any = numba.njit(nogil=True, cache=True, **bare)(function)
    finally:
        settings.CACHE_DIR = others
    in_turn = _in_turn(dispatcher.compile, folder, f"{function.__module__}.{function.__qualname__}")
    dispatcher.compile = _by_types(in_turn)
    return cast(Function, dispatcher)


def _by_types(compile_it: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile for types alone: Numba compiles a kernel again for each constant that another passes to it."""

    def compile_by_types(signature: Any) -> Any:
        types = tuple(map(numba.types.unliteral, signature)) if isinstance(signature, tuple) else signature
        return compile_it(types)

    return compile_by_types


# The time


class _Compiling(Listener):
    """Sums the time in which this process compiles; kernels that are compiled within others count once."""

    def __init__(self) -> None:
        self.before, self.begun = 0.0, list[float]()

    def on_start(self, event: Event) -> None:
        self.begun.append(time.monotonic())

    def on_end(self, event: Event) -> None:
        begun = self.begun.pop()
        self.before += 0.0 if self.begun else time.monotonic() - begun

    @property
    def seconds(self) -> float:
        return self.before + sum(time.monotonic() - begun for begun in self.begun[:1])


_compiling = _Compiling()
register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


def compile_seconds() -> float:
    """Return how long this process has compiled kernels until now, in seconds; what the cache has takes none."""
    return _compiling.seconds


# The cache

_without_place: list[str] = []


def no_cache() -> str:
    """Return a warning if this process has no safe cache, or ""."""
    if not _without_place:
        return ""
    if reason := open_to_others():
        return f"compiled code is not cached, so each process compiles for a minute: {reason}"
    return (
        "compiled code is not cached, so each process compiles for a minute: this user has no writable cache; "
        "set NUMBA_CACHE_DIR to a writable folder"
    )


def no_room() -> str:
    """Return a warning if the disk of the cache is nearly full, or ""."""
    folder = cache_folder()
    free = ROOM if folder is None else shutil.disk_usage(folder).free
    if free >= ROOM:
        return ""
    return (
        f"compiled code may not fit, so each process may compile for a minute: {folder} has {free >> 20} "
        f"MiB free, {ROOM >> 20} MiB are enough; free space, or set NUMBA_CACHE_DIR to another disk"
    )


def none_yet() -> str:
    """Return a note if the cache is empty, or ""."""
    folder = cache_folder()
    if folder is None or any(folder.rglob("*.nbc")):
        return ""
    return "the first build on this machine compiles for a minute or two"


def cache_base() -> Path:
    """Return the cache folder of all versions: under NUMBA_CACHE_DIR or the user's cache; RuntimeError if neither
    exists.
    """
    given, own = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    return Path(given, "sdc-kernels") if given else Path(own or Path.home() / ".cache", "sdc", "kernels")


def open_to_others() -> str:
    """Return who else may have written cached code and what to do, or "".

    Cached code runs as this user, so it must not come from a folder that others can write.
    """
    try:
        base = cache_base()
    except RuntimeError:  # no home and no cache
        return ""
    folder = base / _state()
    # files in a closed folder are safe unless another user wrote them before
    looks = chain(map(written_by_others, (base, folder)), map(of_another, folder.rglob("*")))
    reason = next(filter(None, looks), "")
    return f"{reason}; remove it, or set NUMBA_CACHE_DIR to a folder of your own" if reason else ""


@cache
def cache_folder() -> Path | None:
    """Return the cache folder of these kernels, created if needed; None if that is impossible or unsafe.

    Numba itself checks only a kernel's own file, not the kernels of other files that it calls.
    """
    if open_to_others():
        return None
    try:
        base = cache_base()
        folder = base / _state()
        if not folder.is_dir():
            for path in (*reversed(folder.parents), folder):  # whatever the umask
                if not path.is_dir():
                    path.mkdir(mode=0o700, exist_ok=True)
            _forget_unused(base)
        os.utime(folder)
        TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # not writable, or no home
        return None
    return folder


def kernel_sources() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if _KERNELS.search(path.read_text(encoding="utf-8"))]


def _state() -> str:
    """Return a digest of all kernels, the compiler's versions and the index checking."""
    versions = platform.machine(), platform.python_version(), numba.__version__, np.__version__
    found = hashlib.sha256(repr((*versions, cast(Any, numba.config).BOUNDSCHECK)).encode())
    for path in kernel_sources():
        found.update(f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def _forget_unused(base: Path) -> None:
    for folder in base.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > CACHE_SECONDS:
                shutil.rmtree(folder)


# One process for all


def _in_turn(compile_alone: Callable[[Any], Any], folder: Path, name: str) -> Callable[[Any], Any]:
    """Compile unless another process does; otherwise wait and use its result.

    Without this, all workers would compile the same kernels. Two processes that compile one function for different
    arguments at once can also make Numba save one result under the name of the other.
    """

    def compile_in_turn(signature: Any) -> Any:
        # Numba's own lock comes first, as in all its compilation: otherwise two threads could each hold one lock and
        # wait for the other
        with global_compiler_lock, _held(folder / f"{name}.lock"):
            try:
                return compile_alone(signature)
            except NumbaError:
                raise
            except OSError:
                pass  # not cached, but compiled
            except Exception:  # from truncated files or missing types
                for path in folder.rglob("*.nb[ic]"):
                    with suppress(OSError):
                        path.unlink()
            return compile_alone(signature)

    return compile_in_turn


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a file lock; continue without it if it is not available in time."""
    lock = FileLock(path, timeout=PATIENCE)
    # without the lock the kernel is compiled once too often
    with suppress(OSError, NotImplementedError, Timeout):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()  # no effect if it is not held
