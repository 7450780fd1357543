"""Dask executor: the units of one call are futures, and the table is opened by path in each worker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sdc.executor import Input, Result, Unit
from sdc.model.errors import SdcError
from sdc.model.table import Table
from sdc.storage.parquet import open_memory_form, write_memory_form


class DaskExecutor:
    """Runs units on the workers of a Dask client.

    The table is written once in its memory-mapped form below `scratch`, which every worker must
    see, and is never scattered: scattered data is lost with its worker, a file is opened again.
    Results come in the order of the units, so they do not depend on which worker was quickest; the
    units of a worker that died are computed again.
    """

    def __init__(self, client: Any, scratch: Path, workers: int) -> None:
        self.client, self.scratch, self.workers = client, scratch, workers

    def run(self, function: Callable[[Input, Unit], Result], table: Input, units: Sequence[Unit]) -> Iterator[Result]:
        """The results in order; SdcError where a unit killed every worker that tried it."""
        if not units:
            return
        folder = None if table is None else self._memory_form(table)
        same = [function] * len(units), [folder] * len(units)
        futures = self.client.map(_call, *same, list(units), pure=False)
        try:
            yield from self._in_order(futures, function)
        finally:
            self.client.cancel(futures)

    def _in_order(self, futures: list[Any], function: Callable[..., Result]) -> Iterator[Result]:
        """Waits for the first that is missing, then fetches at one stroke all that are there in a row."""
        from distributed import wait

        start = 0
        while start < len(futures):
            wait(futures[start])  # type: ignore[no-untyped-call]
            stop = start + 1
            while stop < len(futures) and futures[stop].status == "finished":
                stop += 1
            yield from self._gathered(futures[start:stop], f"unit {start} of {len(futures)} of {function.__name__}")
            start = stop

    def _memory_form(self, table: Table) -> str:
        folder = self.scratch / table.digest
        if not folder.exists():
            unfinished = self.scratch / f"{table.digest}.{uuid.uuid4().hex[:8]}"
            write_memory_form(table, unfinished)
            with suppress(OSError):  # another run has just made the same
                unfinished.rename(folder)
        return str(folder)

    def _gathered(self, futures: list[Any], first: str) -> list[Any]:
        """Results of units of which only the first may have failed; it raises what it raised in the worker."""
        from distributed.scheduler import KilledWorker

        try:
            results: list[Any] = self.client.gather(futures)
        except KilledWorker as error:
            raise SdcError(
                f"{first} killed every worker that tried it (out of memory?); give the workers more memory or use "
                "fewer of them"
            ) from error
        return results


def _call(function: Callable[[Any, Unit], Result], folder: str | None, unit: Unit) -> Result:
    return function(None if folder is None else open_memory_form(Path(folder)), unit)
