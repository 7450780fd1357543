"""All critical widths of cps13 on one core against its 8,192 marginals with Polars and DuckDB; then more and larger.

    python tests/benchmarks/width_sweep.py

Some four minutes. The rivals get the 41,674 counted cells, not the 299,285 records, in the form that
was fastest for each: small unsigned integers, one thread, results left in their own memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
from side_by_side import (
    check,
    data_file,
    in_child,
    in_turn,
    machine,
    medians,
    one_core,
    peak_mib,
    require,
    say,
    seconds,
    show,
)

from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.executor import IN_PROCESS, Executor
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk import critical_width
from sdc.risk.critical_width import CriticalWidths, critical_widths

SMALL_COUNT = 2
SAMPLE_EVERY = 137  # odd, so that every variable is in some sampled sub-tables and out of others
DUCKDB_SECONDS = 150.0
WORKER_ROUNDS = 9
SPIN = 3_000_000

Cells = dict[tuple[int, ...], int]
Marginal = Callable[[int], Any]


def main() -> None:
    require("polars", "duckdb")
    cps13 = data_file("cps13.parquet")
    say(machine())
    peak, cells = in_child(peak_of_sweep, cps13, limit=120)
    table = read_table(cps13)
    against_rivals(table)
    show("peak memory of a process that reads cps13 and computes all widths", ["", "MiB"], [[f"{cells} cells", peak]])
    two_workers({"cps13": table, "cps14": read_table(data_file("cps14.parquet"))})
    larger()


def sweep(table: Table, executor: Executor = IN_PROCESS) -> CriticalWidths:
    """All widths; in this process nothing is kept from the call before."""
    critical_width._whole_rows.cache_clear()
    critical_width._whole_trie.cache_clear()
    return critical_widths(table, small_count=SMALL_COUNT, executor=executor)


# Against Polars and DuckDB


def against_rivals(table: Table) -> None:
    with one_core() as pinned, duckdb_marginal(table) as duckdb:
        polars, chained = polars_marginal(table), polars_chain(table)
        cold = seconds(lambda: sweep(table))
        compare_results(table, polars, duckdb)
        every = range(1 << len(table.schema))
        (once,) = medians(5, lambda: sweep(table))
        chain = seconds(chained)
        by_polars = seconds(lambda: [polars(t) for t in every])
        by_duckdb, part = bounded(duckdb, every)
        (again,) = medians(5, lambda: sweep(table))
    ours = (once + again) / 2
    rivals = [
        ("Polars group_by", by_polars, "10"),
        (f"DuckDB GROUP BY{part}", by_duckdb, "10"),
        ("Polars, each from a parent", chain, ""),
    ]
    rows = [["sdc, all widths", ours, "", ""], ["sdc, first call (loads kernels)", cold, "", ""]]
    rows += [[name, time, f"{time / ours:.1f}", goal] for name, time, goal in rivals]
    title = f"cps13: {len(every):,} sub-tables of {len(table):,} cells, one core ({pinned})"
    show(title, ["", "seconds", "times sdc", "goal"], rows)
    say("  sdc: mean of the medians of 5 before and of 5 after the rivals. `each from a parent` is sdc's own scheme")
    say("  written in Polars: every marginal from one with a variable more, which is smaller; not part of the goal.")


def bounded(marginal: Marginal, every: range) -> tuple[float, str]:
    """Seconds for all sub-tables; every 8th times 8, and a note that says so, where all would take too long."""
    eighth = every[5::8] if len(every) > 8 else every
    sampled = seconds(lambda: [marginal(t) for t in every[::SAMPLE_EVERY]]) * SAMPLE_EVERY
    if sampled <= DUCKDB_SECONDS:
        return seconds(lambda: [marginal(t) for t in every]), ""
    return seconds(lambda: [marginal(t) for t in eighth]) * 8, " (every 8th, times 8)"


def names_of(table: Table, subtable: int) -> list[str]:
    return st.names(subtable, table.schema)


def small_columns(table: Table) -> dict[str, np.ndarray]:
    """Codes as uint8 and counts as uint32: the fewest bytes a rival has to touch."""
    codes = {name: table.codes[:, v].astype(np.uint8) for v, name in enumerate(table.schema.names)}
    return {**codes, "count": table.counts.astype(np.uint32)}


def polars_marginal(table: Table) -> Marginal:
    import polars as pl

    cells, total = pl.DataFrame(small_columns(table)), pl.col("count").sum()

    def marginal(subtable: int) -> pl.DataFrame:
        kept = names_of(table, subtable)
        return cells.group_by(kept).agg(total) if kept else cells.select(total)

    return marginal


def polars_chain(table: Table) -> Callable[[], int]:
    """All marginals depth first, each from one with a variable more."""
    import polars as pl

    total = pl.col("count").sum()

    def descend(cells: pl.DataFrame, subtable: int, first: int) -> int:
        made = 1
        for v in range(first, len(table.schema)):
            child = subtable & ~(1 << v)
            kept = names_of(table, child)
            made += descend(cells.group_by(kept).agg(total) if kept else cells.select(total), child, v + 1)
        return made

    return lambda: descend(pl.DataFrame(small_columns(table)), st.full(len(table.schema)), 0)


@contextmanager
def duckdb_marginal(table: Table) -> Iterator[Marginal]:
    import duckdb
    import pyarrow as pa

    given = pa.table(small_columns(table))  # DuckDB finds it by this name
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("given", given)
        connection.execute("CREATE TABLE cells AS SELECT * FROM given")

        def marginal(subtable: int) -> dict[str, np.ndarray]:
            kept = ", ".join(f'"{name}"' for name in names_of(table, subtable))
            grouped = f"{kept}, {{}} FROM cells GROUP BY {kept}" if kept else "{} FROM cells"
            query = "SELECT " + grouped.format("sum(count)::BIGINT AS count")
            return connection.execute(query).fetchnumpy()

        yield marginal


def compare_results(table: Table, polars: Marginal, duckdb: Marginal) -> None:
    """The rivals' marginals against the model's, and the widths against their definition, on a sample."""
    found = sweep(table)
    sample = [*found.sub_tables.tolist()[::SAMPLE_EVERY], 0, st.full(len(table.schema))]
    for t in sample:
        label = st.label(t, table.schema)
        expected = {(): table.total} if not t else as_cells(table.marginal(t).codes, table.marginal(t).counts)
        check(from_columns(table, t, polars(t)) == expected, f"marginal {label} of Polars")
        check(from_columns(table, t, duckdb(t)) == expected, f"marginal {label} of DuckDB")
        check(found.of(t) == one_by_definition(table, t), f"critical width of {label}")
    check(len(found) == found.visited == 1 << len(table.schema), "number of widths")
    say(f"equal on {len(sample)} sub-tables: marginals of Polars and DuckDB to the model's, widths to their definition")


def from_columns(table: Table, subtable: int, columns: Any) -> Cells:
    kept = [np.asarray(columns[name]) for name in names_of(table, subtable)]
    counts = np.asarray(columns["count"])
    return as_cells(np.stack(kept, axis=1) if kept else np.empty((1, 0), np.uint8), counts)


def as_cells(codes: np.ndarray, counts: np.ndarray) -> Cells:
    return dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))


def one_by_definition(table: Table, subtable: int) -> int:
    """w*(T) = min over at-risk cells of min(n_T, min n_v) - max(0, n_T + sum n_v - (K - |T|) N), v outside T."""
    cells = table.codes[table.at_risk(SMALL_COUNT)]
    outside = [table.marginal_at(1 << v, cells) for v in range(len(table.schema)) if not st.has(subtable, v)]
    kept = table.marginal_at(subtable, cells)
    lower = np.maximum(0, kept + sum(outside) - len(outside) * table.total)
    return int((np.minimum.reduce([kept, *outside]) - lower).min())


def peak_of_sweep(path: Path) -> tuple[float, int]:
    table = read_table(path)
    sweep(table)
    return peak_mib(), len(table)


# Two workers, larger tables


def two_workers(tables: dict[str, Table]) -> None:
    rows = []
    with open_executor(ExecutionConfig(workers=1)) as one, open_executor(ExecutionConfig(workers=2)) as two:
        for name, table in tables.items():
            here, alone, both = (sweep(table, executor) for executor in (IN_PROCESS, one, two))
            check(same(here, alone) and same(here, both), f"widths of {name} with one and two workers")
            rows.append([name, *worker_times(partial(sweep, table), one, two), "1.70"])
        nothing = next(iter(tables.values()))
        rows.append(["arithmetic only", *worker_times(partial(count_all, nothing), one, two), ""])
    header = ["", "in process", "1 worker", "2 workers", "1 / 2, medians", "1 / 2, best runs", "goal"]
    show(f"Dask workers, warm, median seconds of {WORKER_ROUNDS} in turn ({machine()})", header, rows)
    say("  `arithmetic only`: 16 units that touch no memory; what they fall short of 2 is the machine and Dask.")


def worker_times(work: Callable[[Executor], Any], one: Executor, two: Executor) -> list[object]:
    """Medians in process, with one worker and with two; the ratio of the latter by medians and by the best runs."""
    here, alone, both = in_turn(WORKER_ROUNDS, lambda: work(IN_PROCESS), lambda: work(one), lambda: work(two))
    ratios = [f"{take(alone) / take(both):.2f}" for take in (median, min)]
    return [median(here), median(alone), median(both), *ratios]


def count_all(table: Table, executor: Executor) -> list[int]:
    return list(executor.run(count, table, [SPIN] * 16))


def count(table: Table, steps: int) -> int:
    """Touches no memory to speak of, so it scales as well as the machine lets anything scale."""
    return sum(range(steps))


def same(one: CriticalWidths, other: CriticalWidths) -> bool:
    return np.array_equal(one.sub_tables, other.sub_tables) and np.array_equal(one.widths, other.widths)


def larger() -> None:
    nltcs = read_table(data_file("nltcs_cells.parquet"))
    found = sweep(nltcs)
    (time,) = medians(5, lambda: sweep(nltcs))
    rows: list[list[object]] = [["nltcs, 16 variables", len(found), time]]
    show("a larger query space, in process; for 40 variables see border.py", ["", "found", "seconds"], rows)


def latent_classes(
    *, records: int, variables: int, categories: int, classes: int, generator: np.random.Generator
) -> Table:
    """Records of a few kinds of people, within each of which the variables are independent."""
    share = generator.dirichlet(np.full(classes, 2.0))
    up_to = generator.dirichlet(np.full(categories, 0.5), (classes, variables)).cumsum(axis=2)[:, :, :-1]
    kind = generator.choice(classes, records, p=share)
    drawn = [(generator.random((records, 1)) > up_to[kind, v]).sum(axis=1) for v in range(variables)]
    names = tuple(map(str, range(categories)))
    return Table.of(Schema(tuple(Variable(f"v{v}", names) for v in range(variables))), np.stack(drawn, axis=1))


if __name__ == "__main__":
    main()
