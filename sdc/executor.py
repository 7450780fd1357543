"""Executor: runs a function of (table, unit) over many units, results in the order of the units.

Units of one thread may share what they work on, and no two threads do: see `kept_per_thread`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from sdc.model.table import Cells

Unit = TypeVar("Unit")
Input = TypeVar("Input", bound=Cells | None)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def never() -> bool:
    """That a call of an executor goes on to its end."""
    return False


class Executor(Protocol):
    """One method. A unit carries keys, never the table; how the table gets there is the executor's business.

    `function` is pure, so a unit that is lost or run twice does no harm, and the results, which
    come in the order of the units, depend on neither workers nor timing. Its table is None where
    units make one; one whose parts are on disk is opened where they run.
    Results end early where `is_over` says so while one is waited for, whatever the workers do. CutShortError where a
    fault, and not the time, is why it is missing then.

    scratch  a folder that every worker sees, for what is too large for a result; None where the units run here
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
    """Runs the units one after the other, each when its result is asked for."""

    workers = 1
    scratch = None

    def run(
        self,
        function: Callable[[Input, Unit], Result],
        table: Input,
        units: Sequence[Unit],
        is_over: Callable[[], bool] = never,
    ) -> Iterator[Result]:
        # lazily: whoever has the answer stops asking, and the units that are left cost nothing
        return (function(table, unit) for unit in units)

    def __repr__(self) -> str:
        return "IN_PROCESS"


IN_PROCESS = InProcess()


def works_of(units: Sequence[Any]) -> tuple[int, ...] | None:
    """How units compare, where each of them says its `work`, which tells a progress how far a call is; else None."""
    works = tuple(unit.work for unit in units if hasattr(unit, "work"))
    return works if len(works) == len(units) else None


class KeptPerThread(Generic[Arguments, Result]):
    """A function with a least-recently-used cache for each thread."""

    def __init__(self, function: Callable[Arguments, Result], maxsize: int) -> None:
        self._function, self._maxsize, self._own = function, maxsize, threading.local()
        update_wrapper(self, function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        own = self._own
        if not hasattr(own, "kept"):
            own.kept = lru_cache(self._maxsize)(self._function)
        found: Result = own.kept(*args, **kwargs)
        return found

    def cache_clear(self) -> None:
        """Drops the results of all threads."""
        self._own = threading.local()


def kept_per_thread(
    maxsize: int,
) -> Callable[[Callable[Arguments, Result]], KeptPerThread[Arguments, Result]]:
    """As `functools.lru_cache`, for results that their users change: scratch arrays of kernels, models of solvers.

    Kernels and solvers run without Python's lock. Two threads that shared such a result would write to the same memory.
    """
    return lambda function: KeptPerThread(function, maxsize)
