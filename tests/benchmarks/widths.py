"""All critical widths of a table beside all its marginals by Polars and DuckDB, and by two processes beside one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sdc.config.build import ExecutionConfig
from sdc.data.reading import read_table
from sdc.execution.cluster import open_executor
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.table import Codes, Counts, Table
from sdc.risk.critical_width import CriticalWidths, critical_widths
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, in_turn, lacks, one_core
from tests.strategies import czech

SMALL_COUNT, ROUNDS = 2, 3
SAMPLE_EVERY = 137  # odd, so that every variable is in some sampled sub-tables and not in others

NOTE = "counted cells in memory; our widths are those that the rival's marginals give, on a sample"

Marginal = Callable[[int], Any]


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """CPS-13 on one core with each rival, then CPS-14 with two worker processes; the short form has 6 variables."""
    files = () if short else ("cps13.parquet",)
    job = "critical widths of all sub-tables, one core"
    found: list[Row | NotMeasured] = list(lacks(job, "Polars, DuckDB", files=files, packages=["polars", "duckdb"]))
    if not found:
        found += beside_rivals(czech() if short else read_table(DATA / "cps13.parquet"), short, limits)
    return found + two_processes(short, limits)


def sweep(table: Table, executor: Executor = IN_PROCESS) -> CriticalWidths:
    """All widths; a new table object, so that nothing that is kept from the call before is used."""
    again = Table(table.schema, table.codes, table.counts)
    return critical_widths(again, small_count=SMALL_COUNT, executor=executor)


def beside_rivals(table: Table, short: bool, limits: Limits) -> list[Row | NotMeasured]:
    every = range(1 << len(table.schema))
    job = f"critical widths of all {len(every):,} sub-tables of {'Czech table' if short else 'CPS-13'}, one core"
    found = sweep(table)
    check(len(found) == len(every), f"{job}: {len(found)} widths")
    with one_core(), duckdb_marginal(table) as duckdb:
        polars = polars_marginal(table)
        for name, marginal in (("Polars", polars), ("DuckDB", duckdb)):
            same_answers(f"{job}, {name}", table, found, marginal)
        rivals: dict[str, tuple[Callable[[], Any], str]] = {
            "Polars `group_by` of each": (lambda: [polars(t) for t in every], ""),
            "DuckDB `GROUP BY` of each": (lambda: [duckdb(t) for t in every], ""),
            "Polars, each from a larger one": (polars_descent(table), "; our own scheme, written in Polars"),
        }
        rounds = 1 if short else ROUNDS
        timed = {name: in_turn(rounds, partial(sweep, table), work) for name, (work, _) in rivals.items()}
    additions = len(every) * len(table.at_risk(SMALL_COUNT))
    return [
        Row(job, name, ours, theirs, limit=limits.share_of_additions(additions, ours), note=NOTE + rivals[name][1])
        for name, (ours, theirs) in timed.items()
    ]


def small_columns(table: Table) -> dict[str, np.ndarray]:
    """Codes as uint8 and counts as uint32: the fewest bytes that a rival has to touch."""
    codes = {name: table.codes[:, v].astype(np.uint8) for v, name in enumerate(table.schema.names)}
    return {**codes, "count": table.counts.astype(np.uint32)}


def polars_marginal(table: Table) -> Marginal:
    import polars as pl

    cells, total = pl.DataFrame(small_columns(table)), pl.col("count").sum()

    def marginal(subtable: int) -> pl.DataFrame:
        kept = st.names(subtable, table.schema)
        return cells.group_by(kept).agg(total) if kept else cells.select(total)

    return marginal


def polars_descent(table: Table) -> Callable[[], int]:
    """All marginals depth first, each from one with a variable more."""
    import polars as pl

    total = pl.col("count").sum()

    def descend(cells: pl.DataFrame, subtable: int, first: int) -> int:
        made = 1
        for v in range(first, len(table.schema)):
            child = subtable & ~(1 << v)
            kept = st.names(child, table.schema)
            made += descend(cells.group_by(kept).agg(total) if kept else cells.select(total), child, v + 1)
        return made

    return lambda: descend(pl.DataFrame(small_columns(table)), st.full(len(table.schema)), 0)


@contextmanager
def duckdb_marginal(table: Table) -> Iterator[Marginal]:
    import duckdb
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("given", pa.table(small_columns(table)))
        connection.execute("CREATE TABLE cells AS SELECT * FROM given")

        def marginal(subtable: int) -> dict[str, np.ndarray]:
            kept = ", ".join(f'"{name}"' for name in st.names(subtable, table.schema))
            grouped = f"{kept}, {{}} FROM cells GROUP BY {kept}" if kept else "{} FROM cells"
            query = "SELECT " + grouped.format("sum(count)::BIGINT AS count")
            return connection.execute(query).fetchnumpy()

        yield marginal


def same_answers(what: str, table: Table, found: CriticalWidths, marginal: Marginal) -> None:
    """On a sample, our widths against their definition, computed from the rival's marginals."""
    cells, variables = table.codes[table.at_risk(SMALL_COUNT)], range(len(table.schema))
    one_way = [at_cells(table, 1 << v, marginal(1 << v), cells) for v in variables]
    for t in {*found.sub_tables.tolist()[:: min(SAMPLE_EVERY, max(1, len(found) // 16))], 0, st.full(len(variables))}:
        outside = [one_way[v] for v in variables if not st.has(t, v)]
        kept = at_cells(table, t, marginal(t), cells)
        # w*(T) = min over at-risk cells of min(n_T, min n_v) - max(0, n_T + sum n_v - (K - |T|) N), v outside T
        lower = np.maximum(0, kept + sum(outside) - len(outside) * table.total)
        width = int((np.minimum.reduce([kept, *outside]) - lower).min())
        label = st.label(t, table.schema)
        check(found.of(t) == width, f"{what}: {label} has width {found.of(t)}, by the rival's marginal {width}")


def at_cells(table: Table, subtable: int, columns: Any, cells: Codes) -> Counts:
    """The counts of a rival's marginal at the cells."""
    members = list(st.members(subtable))
    counts = np.asarray(columns["count"]).astype(np.int64)
    if not members:
        return np.full(len(cells), counts[0])
    sizes = [table.schema.sizes[v] for v in members]
    keys = np.ravel_multi_index([np.asarray(columns[table.schema.names[v]]).astype(np.int64) for v in members], sizes)
    order = np.argsort(keys)
    asked = np.ravel_multi_index(list(cells[:, members].T.astype(np.int64)), sizes)
    return counts[order][np.searchsorted(keys[order], asked)]


def two_processes(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    name = "Czech table" if short else "CPS-14"
    job = f"critical widths of all sub-tables of {name}, two worker processes"
    if not short and (absent := lacks(job, "the same, one process", files=["cps14.parquet"])):
        return list(absent)
    table = czech() if short else read_table(DATA / "cps14.parquet")
    with open_executor(ExecutionConfig(workers=1)) as one, open_executor(ExecutionConfig(workers=2)) as two:
        alone, both = sweep(table, one), sweep(table, two)
        same = np.array_equal(alone.sub_tables, both.sub_tables) and np.array_equal(alone.widths, both.widths)
        check(same, f"{job}: other widths than with one process")
        ours, theirs = in_turn(1 if short else ROUNDS, lambda: sweep(table, two), lambda: sweep(table, one))
    row = Row(job, "the same, one process", ours, theirs, note="cells in memory; workers are there; the same widths")
    return [replace(row, limit=limits.share_of_scaling(row))]
