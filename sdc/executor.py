"""Executor: runs a function of (table, unit) over many units, results in the order of the units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sdc.model.table import Cells

Unit = TypeVar("Unit")
Input = TypeVar("Input", bound=Cells | None)
Result = TypeVar("Result")


class Executor(Protocol):
    """One method. A unit carries keys, never the table; how the table gets there is the executor's business.

    `function` is pure, so a unit that is lost or run twice does no harm, and the results, which
    come in the order of the units, depend on neither workers nor timing. Its table is None where
    units make one; one whose parts are on disk is opened where they run.

    scratch  a folder that every worker sees, for what is too large for a result; None where the units run here
    """

    workers: int

    @property
    def scratch(self) -> Path | None: ...

    def run(
        self, function: Callable[[Input, Unit], Result], table: Input, units: Sequence[Unit]
    ) -> Iterator[Result]: ...


class InProcess:
    """Runs the units one after the other, each when its result is asked for."""

    workers = 1
    scratch = None

    def run(self, function: Callable[[Input, Unit], Result], table: Input, units: Sequence[Unit]) -> Iterator[Result]:
        # lazily: whoever has the answer stops asking, and the units that are left cost nothing
        return (function(table, unit) for unit in units)


IN_PROCESS = InProcess()


def works_of(units: Sequence[Any]) -> tuple[int, ...] | None:
    """How units compare, where each of them says its `work`, which tells a progress how far a call is; else None."""
    works = tuple(unit.work for unit in units if hasattr(unit, "work"))
    return works if len(works) == len(units) else None
