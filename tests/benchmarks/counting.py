"""Counting records: partitioned Parquet to the cells of the full table, beside GROUP BY of DuckDB and Polars."""

import tempfile
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sdc.config.build import ExecutionConfig
from sdc.data.reading import read_table
from sdc.execution.cluster import open_executor
from sdc.executor import Executor
from sdc.model.table import Table
from tests.benchmarks import grouping
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, in_child, lacks, seconds

SEED, WORKERS, MEMORY, ROUNDS, LIMIT = 2026, 2, 4 << 30, 3, 300.0
RECORDS, PARTS = 10_000_000, 20
SHORT_RECORDS, SHORT_PARTS = 20_000, 2
FILE = "cps13.parquet"

Cells: TypeAlias = dict[tuple[str, ...], int]
RIVALS = {"DuckDB": ("duckdb", grouping.by_duckdb), "Polars": ("polars", grouping.by_polars)}


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """Records of CPS-13 drawn with replacement; two worker processes beside two threads."""
    records, parts = (SHORT_RECORDS, SHORT_PARTS) if short else (RECORDS, PARTS)
    job = f"counting {records:,} records of {'4' if short else '13'} variables, two processes"
    files = () if short else (FILE,)
    absent = {name: lacks(job, name, files=files, packages=[package]) for name, (package, _) in RIVALS.items()}
    found: list[Row | NotMeasured] = [lack for lacking in absent.values() for lack in lacking]
    rivals = [name for name, lacking in absent.items() if not lacking]
    if rivals:
        with tempfile.TemporaryDirectory() as folder, open_executor(ExecutionConfig(workers=WORKERS)) as executor:
            make_parts(Path(folder), microdata(short), records, parts)
            counted(Path(folder), executor)  # kernels are loaded
            rounds = 1 if short else ROUNDS
            found += [beside(name, job, Path(folder), executor, rounds, limits) for name in rivals]
    return found


def counted(folder: Path, executor: Executor) -> Table:
    return read_table(folder, executor=executor, memory=MEMORY // (WORKERS + 1))


def beside(name: str, job: str, folder: Path, executor: Executor, rounds: int, limits: Limits) -> Row | NotMeasured:
    ours, theirs, tables = list[float](), list[float](), list[Table]()
    for _ in range(rounds):
        ours.append(seconds(lambda: tables.append(counted(folder, executor))))
        answer = in_child(RIVALS[name][1], str(folder), WORKERS, MEMORY, limit=LIMIT, threads=WORKERS)
        if answer is None:
            return NotMeasured(job, name, f"it took more than {LIMIT:.0f} s")
        theirs.append(answer[0])
    table = tables[-1]
    columns = zip(table.schema.variables, table.codes.T, strict=True)
    names = [np.array(variable.categories, object)[codes] for variable, codes in columns]
    cells: Cells = dict(zip(zip(*names, strict=True), table.counts.tolist(), strict=True))
    check(cells == answer[1], f"{job}, {name}: other cells than ours")
    moved = sum(path.stat().st_size for path in folder.iterdir()) + table.total * len(table.schema)
    limit = limits.share_of_copy(moved, ours, WORKERS)
    return Row(job, name, ours, theirs, limit=limit, note="with reading the Parquet files; the same cells and counts")


def microdata(short: bool) -> pa.Table:
    if not short:
        return pq.read_table(DATA / FILE).combine_chunks()
    rng = np.random.default_rng(SEED)
    return pa.table({f"v{v}": rng.integers(0, 4, 1000).astype(str) for v in range(4)})


def make_parts(folder: Path, given: pa.Table, records: int, parts: int) -> None:
    """Parts of equally many records."""
    for part in range(parts):
        size = records * (part + 1) // parts - records * part // parts
        chosen = np.random.default_rng([SEED, part]).integers(0, len(given), size)
        pq.write_table(given.take(pa.array(chosen)), folder / f"part-{part:05}.parquet", compression="zstd")
