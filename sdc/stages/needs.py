"""Memory that a build needs, computed from the table, and may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sdc.bounds.collapse import bytes_of_collapse
from sdc.config.build import BuildConfig
from sdc.data.child import OWN_BYTES
from sdc.data.reader import LEAST
from sdc.execution.cluster import cluster_of, own_memory, unit_memory
from sdc.memory import MIB
from sdc.model.errors import ConfigError
from sdc.model.marginal import MAX_BYTES
from sdc.model.table import Table
from sdc.risk.critical_width import MAX_LISTED_VARIABLES
from sdc.risk.program_units import bytes_of_program
from sdc.risk.sweep_plan import sweep_bytes
from sdc.risk.units import bytes_of_search
from sdc.search.growth import fits_a_worker
from sdc.storage.parquet import CELLS_AT_ONCE

WORKER_BYTES = 160 * MIB  # measured: a worker before its first unit
SEARCHING_BYTES = 120 * MIB  # measured: kernels of a search and the room of its walks, of a worker
HERE_BYTES = 500 * MIB  # measured: this process with Prefect, Dask, Arrow, the kernels and the room of two walks
GROWTH_BYTES = 490 * MIB  # measured: all kernels, memory of chains, two walks and their results
KEPT_MARGINALS = 300  # measured: marginals at the at-risk cells of a search, which caches MAX_BYTES of them
COUNTING_BYTES = 32 * MIB  # for cells, however little there is
CELL_BYTES = 16  # measured: of a cell and variable while read, stored and searched, of 23 million of them
MARGINAL_BYTES = 154  # measured: of a cell while a marginal is made of it, or an outer bound, beside the slice before
WIDTH_BYTES = 100  # measured: of one critical width while they are sorted
SWEEPING_BYTES = 200 * MIB  # measured: kernels of a sweep, 117, and what reading parts leaves, 70
COLUMN_BYTES = 24  # of a cell while a column of it is read from a part


def _require(who: str, needed: int, allowed: int, remedy: str) -> None:
    if needed > allowed:
        raise ConfigError(
            f"the build does not fit: {who} needs {needed // MIB} MiB, {allowed // MIB} MiB are allowed; {remedy}, or "
            "use fewer variables"
        )


def counting_memory(allowed: int) -> int:
    """Return the bytes for counted cells of a worker with this memory, which includes its reader process."""
    left = allowed - WORKER_BYTES - OWN_BYTES
    return max(COUNTING_BYTES, min(allowed // 2, left * 2 // 3, left - LEAST))


def sweep_memory(table: Table, floor: int, allowed: int, parts: int) -> tuple[int, bool]:
    """Return the memory of a unit of the critical widths, and whether it reads the table in parts.

    It does if the table and a unit's rows do not fit; then it holds one part at a time. ConfigError if that does not
    fit.
    """
    left = _left(allowed, _table_bytes(table))
    if sweep_bytes(len(table), table.schema, floor=floor) <= left:
        return left, False
    cell = 2 * len(table.schema) + 8
    # a part as on disk, which is at most its size in memory, and some cells
    part, some = -(-len(table) // parts) * cell, min(len(table), CELLS_AT_ONCE) * (cell + COLUMN_BYTES)
    left = (allowed - WORKER_BYTES - SWEEPING_BYTES - some) // 2
    enough = f"set table.partitions to {-(-len(table) * cell // left)} or more, " if left > 0 else ""
    needed = WORKER_BYTES + SWEEPING_BYTES + part + some
    _require("a worker that reads the table in parts", needed, allowed, f"{enough}raise its memory_per_worker")
    return _left(allowed, part + some), True


def _left(allowed: int, held: int) -> int:
    """Workers do not return all freed memory; measured: 200 MiB more after units of 560 MiB."""
    return max(0, allowed - WORKER_BYTES - SWEEPING_BYTES - held) * 2 // 3


def _table_bytes(table: Table) -> int:
    return int(table.codes.nbytes + table.counts.nbytes)


def _search_bytes(table: Table, at_risk: int) -> int:
    variables = len(table.schema)
    columns = CELL_BYTES * variables * (len(table) + at_risk)
    return columns + min(MAX_BYTES, 8 * at_risk * min(KEPT_MARGINALS, 1 << variables))


def listed(table: Table, floor: int) -> int:
    """Return the number of listed critical widths; unknown but small with a threshold."""
    return 0 if floor else 1 << len(table.schema)


@dataclass(frozen=True)
class Needs:
    """Memory that a build needs and may use, in bytes.

    floor  only critical widths of at least this are listed
    """

    config: BuildConfig
    floor: int

    @cached_property
    def worker_may(self) -> int:
        """Limit of a worker process."""
        return unit_memory(self.config.execution)

    @cached_property
    def here_may(self) -> int:
        """Limit of this process."""
        return own_memory(self.config.execution)

    def here(self, table: Table) -> int:
        """Memory of this process: columns of cells and at-risk cells, cached marginals, widths, and in-process a
        worker.
        """
        searched = _search_bytes(table, len(table.at_risk(self.config.risk.small_count)))
        beside = self.worker(table) - WORKER_BYTES if cluster_of(self.config.execution) is None else 0
        return HERE_BYTES + searched + WIDTH_BYTES * listed(table, self.floor) + beside

    def worker(self, table: Table) -> int:
        """Memory of a worker: the mapped table and its largest step.

        Steps are a slice with its component, a collapsed table, a marginal, a linear program of undecided cells, or a
        greedy extension.
        """
        most = self.config.release.cells_per_slice
        # a slice is a copy of part of its component, which stays in memory
        component = _table_bytes(table) if len(table) > most else 0
        needs = [
            component + bytes_of_search(min(len(table), most), len(table.schema)),
            bytes_of_collapse(table) * 3 // 2,  # measured: half as much again, with leftovers of other units
            MARGINAL_BYTES * len(table),
            bytes_of_program(table, most),
        ]
        needed = SEARCHING_BYTES + max(needs)
        if self.config.release.method == "best" and fits_a_worker(table):
            needed = max(needed, GROWTH_BYTES + _search_bytes(table, len(table)) + bytes_of_collapse(table))
        return WORKER_BYTES + _table_bytes(table) + needed

    def sweep(self, table: Table) -> tuple[int, bool]:
        """Memory of a unit of the critical widths, and whether it reads parts; as `sweep_memory`."""
        return sweep_memory(table, self.floor, self.worker_may, self.config.table.partitions_of(len(table)))

    def require(self, table: Table) -> None:
        """Raise ConfigError if this process or a worker needs more than its limit."""
        self._require_listed(len(table.schema))
        self._require_here(self.here(table))
        remedy = "raise its memory_per_worker (a fifth stays free), lower cells_per_slice"
        _require("a worker", self.worker(table), self.worker_may, remedy)

    def require_sweep(self, table: Table) -> None:
        """Raise ConfigError if the sweep needs more than the limits."""
        self._require_listed(len(table.schema))
        # a marginal that defines the units, and the widths
        made = _table_bytes(table) + MARGINAL_BYTES * len(table)
        self._require_here(HERE_BYTES + made + WIDTH_BYTES * listed(table, self.floor))
        self.sweep(table)

    def _require_here(self, needed: int) -> None:
        remedy = "use fewer workers beside it, raise memory_per_worker where it has none"
        _require("this process", needed, self.here_may, remedy)

    def _require_listed(self, variables: int) -> None:
        """Raise ConfigError if the list of sub-tables would not fit into any memory."""
        if self.floor == 0 and variables > MAX_LISTED_VARIABLES:
            raise ConfigError(
                f"widths.threshold = 0: {variables} variables have 2^{variables} sub-tables, at most "
                f"2^{MAX_LISTED_VARIABLES} are listed; set widths.threshold to {self.config.least_width}, the least "
                "min_width"
            )
