"""Dask executor: the units of one call are futures, and the table is opened by path in each worker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sdc.executor import Result, Unit
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

    def run(self, function: Callable[[Table, Unit], Result], table: Table, units: Sequence[Unit]) -> Iterator[Result]:
        """The results in order; SdcError where a unit killed every worker that tried it."""
        folder = self._memory_form(table)
        futures = [self.client.submit(_call, function, folder, unit, pure=False) for unit in units]
        try:
            for number, future in enumerate(futures):
                yield self._result(future, function, number, len(futures))
        finally:
            self.client.cancel(futures)

    def _memory_form(self, table: Table) -> str:
        folder = self.scratch / table.digest
        if not folder.exists():
            unfinished = self.scratch / f"{table.digest}.{uuid.uuid4().hex[:8]}"
            write_memory_form(table, unfinished)
            with suppress(OSError):  # another run has just made the same
                unfinished.rename(folder)
        return str(folder)

    def _result(self, future: Any, function: Callable[..., Result], number: int, units: int) -> Result:
        from distributed.scheduler import KilledWorker

        try:
            result: Result = future.result()
        except KilledWorker as error:
            raise SdcError(
                f"unit {number} of {units} of {function.__name__} killed every worker that tried it (out of memory?); "
                "give the workers more memory or use fewer of them"
            ) from error
        return result


def _call(function: Callable[[Table, Unit], Result], folder: str, unit: Unit) -> Result:
    return function(open_memory_form(Path(folder)), unit)
