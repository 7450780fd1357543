"""Executor: runs a function of (table, unit) over many units; results come in the order of the units.

Units of one thread may share scratch objects; threads never do: see `cached_per_thread`. Processes that Python spawns
for them do not import the caller's script.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from sdc.model.table import Cells

Unit = TypeVar("Unit")
Input = TypeVar("Input", bound=Cells | None)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def never() -> bool:
    """Return False: the default `is_over` of an executor, which then runs to the end."""
    return False


class Executor(Protocol):
    """One method. A unit carries keys, never the table; each executor decides how the table reaches its workers.

    `function` is pure: repeated or lost units do no harm, and results do not depend on workers or timing. The table is
    None if units create one; a table of parts on disk is opened by the workers. Results end early when `is_over`
    returns True; CutShortError if a worker failure, not the time, is the reason for a missing result.

    scratch  folder that all workers see, for large results; None if units run in this process
    """

    workers: int

    @property
    def scratch(self) -> Path | None: ...

    def run(
        self,
        function: Callable[[Input, Unit], Result],
        table: Input,
        units: Sequence[Unit],
        is_over: Callable[[], bool] = never,
    ) -> Iterator[Result]: ...


class InProcess:
    """Run the units one after the other, each when its result is read."""

    workers = 1
    scratch = None

    def run(self, function: Any, table: Any, units: Any, is_over: Callable[[], bool] = never) -> Iterator[Any]:
        # lazy: units after the last result read cost nothing
        return (function(table, unit) for unit in units)

    def __repr__(self) -> str:
        return "IN_PROCESS"


IN_PROCESS = InProcess()


class ExecutorWrapper:
    """An executor around another one; what it adds is in its `run`."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self.workers = executor, executor.workers

    @property
    def scratch(self) -> Path | None:
        return self._executor.scratch


def works_of(units: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the relative sizes of units, if each has `work`; otherwise None."""
    works = tuple(unit.work for unit in units if hasattr(unit, "work"))
    return works if len(works) == len(units) else None


class CachedPerThread(Generic[Arguments, Result]):
    def __init__(self, function: Callable[Arguments, Result], maxsize: int) -> None:
        self._function, self._maxsize, self._own = function, maxsize, threading.local()
        update_wrapper(self, function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        own = self._own
        if not hasattr(own, "cached"):
            own.cached = lru_cache(self._maxsize)(self._function)
        found: Result = own.cached(*args, **kwargs)
        return found

    def cache_clear(self) -> None:
        self._own = threading.local()


def cached_per_thread(maxsize: int) -> Callable[[Callable[Arguments, Result]], CachedPerThread[Arguments, Result]]:
    """Cache like `functools.lru_cache`, once a thread, for results that callers modify: scratch arrays, solver models.

    Kernels and solvers run without the GIL, so threads that shared such a result would write to the same memory.
    """
    return lambda function: CachedPerThread(function, maxsize)


_SPAWNING = threading.Lock()
_HIDDEN: list[dict[str, Any]] = []  # the hidden names of each active block


@contextmanager
def without_main_script() -> Iterator[None]:
    """Keep spawned processes from importing the caller's script.

    A script that calls `sdc.run` outside `if __name__ == "__main__":` would start a build in each of them. Everything
    they need is in `sdc`. `multiprocessing` looks for the script in `__main__.__spec__` and `__main__.__file__` ("Safe
    importing of main module") and finds neither, as in a REPL.
    """
    names = vars(sys.modules["__main__"])
    with _SPAWNING:
        _HIDDEN.append({name: names.pop(name) for name in ("__spec__", "__file__") if names.get(name) is not None})
        names["__spec__"] = None
    try:
        yield
    finally:
        with _SPAWNING:  # the last block to end restores all names
            mine = _HIDDEN.pop()
            (_HIDDEN[0] if _HIDDEN else names).update(mine)
