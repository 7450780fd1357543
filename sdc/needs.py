"""What a build needs, known from the table alone, and whether it may have it."""

from __future__ import annotations

from sdc.memory import MIB
from sdc.model.errors import SdcError
from sdc.model.table import Table
from sdc.risk.critical_width import sweep_bytes

WORKER_BYTES = 160 * MIB  # measured: a worker before its first unit
HERE_BYTES = 450 * MIB  # measured: this process with Prefect, Dask, Arrow and the kernels
KEPT_MARGINALS, KEPT_BYTES = 300, 256 * MIB  # measured: marginals at the at-risk cells that a search keeps
WIDTH_BYTES = 100  # measured: of one critical width while they are sorted


def require_fit(table: Table, small_count: int, floor: int, allowed: int) -> None:
    """SdcError where a worker, or this process, would need more than the bytes allowed."""
    require_memory("a worker", worker_bytes(table), allowed)
    require_memory("this process", here_bytes(table, small_count, floor), allowed)


def require_memory(who: str, needed: int, allowed: int) -> None:
    """SdcError where more is needed than allowed."""
    if needed > allowed:
        raise SdcError(
            f"the build does not fit: {who} needs {needed // MIB} MiB, {allowed // MIB} MiB are allowed; raise "
            "execution.memory_per_worker, use fewer workers, or fewer variables"
        )


def worker_bytes(table: Table) -> int:
    """Of a worker that sweeps the critical widths, which every build does; the table is mapped."""
    mapped = table.codes.nbytes + table.counts.nbytes
    return WORKER_BYTES + mapped + sweep_bytes(len(table), len(table.schema))


def here_bytes(table: Table, small_count: int, floor: int) -> int:
    """Of this process: cells and at-risk cells as columns of int64, marginals kept, and the list of widths."""
    variables, at_risk = len(table.schema), len(table.at_risk(small_count))
    columns = 3 * 8 * variables * (len(table) + at_risk)
    kept = min(KEPT_BYTES, 8 * at_risk * min(KEPT_MARGINALS, 1 << variables))
    return HERE_BYTES + columns + kept + WIDTH_BYTES * listed(table, floor)


def listed(table: Table, floor: int) -> int:
    """How many critical widths are listed; with a floor far fewer than there are sub-tables, and not known before."""
    return 0 if floor else 1 << len(table.schema)
