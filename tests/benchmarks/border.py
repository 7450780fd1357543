"""The sub-tables of 40 variables whose critical width reaches a floor, of 2^40 that could not even be listed.

    python tests/benchmarks/border.py

Some five minutes. Of 300,000 records, all cells of 2^80. What was visited is compared with what was found and its
border, and widths with their definition on a sample.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from side_by_side import check, in_child, machine, peak_mib, say, seconds, show
from width_sweep import SMALL_COUNT, latent_classes

from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.executor import Executor
from sdc.model import subtable as st
from sdc.model.table import Table
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.partitions import renumbered
from sdc.risk.reaching import neighbours
from sdc.risk.sweep_plan import sweep_bytes, sweep_order
from sdc.storage.parquet import open_memory_form, write_memory_form

RECORDS, VARIABLES = 300_000, 40
FLOORS = (300, 100)
SAMPLE, LIMIT = 20, 1800.0


def main() -> None:
    say(machine())
    table = forty()
    say(f"{table.total:,} records in {len(table):,} cells of 2^80, {len(table.at_risk(2)):,} of them at risk")
    with open_executor(ExecutionConfig(workers=1)) as one, open_executor(ExecutionConfig(workers=2)) as two:
        for executor in (one, two):
            critical_widths(table, floor=table.total // 4, executor=executor)
        rows = [of_floor(table, floor, one, two) for floor in FLOORS]
    with TemporaryDirectory() as folder:
        write_memory_form(table, folder)
        peak = in_child(peak_of_floor, Path(folder), max(FLOORS), limit=LIMIT)
    header = ["floor", "found", "visited", "border", "largest", "1 worker", "2 workers", "1 / 2"]
    show(f"seconds with Dask workers ({machine()})", header, rows)
    planned = sweep_bytes(len(table), table.schema, floor=FLOORS[0]) / (1 << 20)
    say("  border: visited and not found, each shown to be one variable from a sub-table that reaches the floor.")
    say(f"  memory of a process above what it has before: {peak:.0f} MiB at most, planned {planned:.0f} MiB")


def forty() -> Table:
    generator = np.random.default_rng(VARIABLES)
    return latent_classes(records=RECORDS, variables=VARIABLES, categories=4, classes=12, generator=generator)


def of_floor(table: Table, floor: int, one: Executor, two: Executor) -> list[object]:
    alone, both = [list[CriticalWidths]() for _ in range(2)]
    alone_seconds = seconds(lambda: alone.append(critical_widths(table, floor=floor, executor=one)))
    both_seconds = seconds(lambda: both.append(critical_widths(table, floor=floor, executor=two)))
    found = both[0]
    check(np.array_equal(alone[0].sub_tables, found.sub_tables), "sub-tables of one and two workers")
    check(np.array_equal(alone[0].widths, found.widths), "widths of one and two workers")
    check_widths(table, found)
    check_visited(table, found)
    largest = max(st.dimension(t) for t in found.sub_tables.tolist())
    ratio = f"{alone_seconds / both_seconds:.2f}"
    return [floor, len(found), found.visited, found.visited - len(found), largest, alone_seconds, both_seconds, ratio]


def check_widths(table: Table, found: CriticalWidths) -> None:
    """Against the definition: widths found, and that sub-tables just beyond do not reach the floor."""
    sample = found.sub_tables[:: max(1, len(found) // SAMPLE)].tolist()
    for t in sample:
        check(found.of(t) == one_by_definition(table, t), f"critical width of {st.label(t, table.schema)}")
    beyond = sorted({p for t in sample for p in st.parents(t, table.schema)} - set(found.sub_tables.tolist()))
    for t in beyond[:: max(1, len(beyond) // SAMPLE)]:
        check(one_by_definition(table, t) < found.floor, f"{st.label(t, table.schema)} does not reach the floor")


def one_by_definition(table: Table, subtable: int) -> int:
    """w*(T) = min over at-risk cells of min(n_T, min n_v) - max(0, n_T + sum n_v - (K - |T|) N), v outside T."""
    cells, one_way = table.codes[table.at_risk(SMALL_COUNT)], table.one_way()
    outside = [one_way[v][cells[:, v]] for v in range(VARIABLES) if not st.has(subtable, v)]
    kept = table.marginal_at(subtable, cells)
    lower = np.maximum(0, kept + sum(outside) - len(outside) * table.total)
    return int((np.minimum.reduce([kept, *outside]) - lower).min())


def check_visited(table: Table, found: CriticalWidths) -> None:
    """What was visited is what was found and, one variable beyond some of it, the border; as many as were counted."""
    order = sweep_order(table.schema)
    place = np.argsort(order).tolist()
    visited = renumbered(neighbours(renumbered(found.sub_tables, place), (st.full(VARIABLES),) * VARIABLES), order)
    check(found.visited == 1 + len(np.unique(visited)) == 1 + len(visited), "number visited")
    listed = set(found.sub_tables.tolist())
    check(listed <= {0, *visited.tolist()}, "what was found was visited")
    border = set(visited.tolist()) - listed
    check(
        all(any(child in listed for child in st.children(t, table.schema)) for t in border),
        "what is visited is on the border",
    )


def peak_of_floor(folder: Path, floor: int) -> float:
    table = open_memory_form(folder)
    few = Table(table.schema, table.codes[:99], table.counts[:99])
    critical_widths(few, floor=5)  # the kernels are loaded
    before = peak_mib()
    critical_widths(table, floor=floor)
    return peak_mib() - before


if __name__ == "__main__":
    main()
