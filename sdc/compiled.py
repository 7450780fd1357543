"""How kernels are compiled: when first called, by one process for all, kept on disk, and run without Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from filelock import FileLock, Timeout
from numba.core.compiler_lock import global_compiler_lock

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE = 120.0  # seconds; the largest kernel takes 40


def kernel(function: Function) -> Function:
    """The function compiled for the arrays and numbers it is called with; Numba's errors for what cannot be."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """A kernel that only kernels call: without a way in from Python it takes a quarter less to compile."""
    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _compiled(function, **bare)


def _compiled(function: Function, **bare: Any) -> Function:
    try:
        dispatcher: Any = numba.njit(cache=True, nogil=True, **bare)(function)
    except RuntimeError as error:  # neither beside the code nor in the user's cache can it be kept
        raise RuntimeError(
            f"compiled code has no place: {Path(__file__).parent} cannot be written, and this user has no cache; "
            "set NUMBA_CACHE_DIR to a folder that can be written"
        ) from error
    dispatcher.compile = _in_turn(dispatcher)
    return cast(Function, dispatcher)


def _in_turn(dispatcher: Any) -> Callable[[Any], Any]:
    """Compiles where no other process does; else waits for it, and takes what that one has kept.

    Workers that begin together would each compile the same. And where two processes leave code of one function for
    different arguments at the same moment, Numba may keep the one under the name of the other.
    """
    compile_alone, kept = dispatcher.compile, dispatcher._cache
    path = Path(kept.cache_path) / f"{kept._impl.filename_base}.lock"

    def compile_in_turn(signature: Any) -> Any:
        # Numba's own lock first, as wherever it compiles: a thread that had only the file would wait for one that wants
        # the file
        with global_compiler_lock, _held(path):
            _forget_unreadable(kept)
            return compile_alone(signature)

    return compile_in_turn


def _forget_unreadable(kept: Any) -> None:
    """Empties the list of what is kept of a function where it cannot be read.

    It names the types of the arguments. Numba reads those before it sees that the source is another one, so that after
    a new version in the same place it would look for types that are gone.
    """
    try:
        kept._cache_file._load_index()
    except Exception:  # whatever the types of another version, or half a file, raise
        kept.flush()


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
