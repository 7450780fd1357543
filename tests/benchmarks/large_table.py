"""Counting 10^8 records in 100 parts on two workers against DuckDB's GROUP BY on the same files within the same memory.

    python tests/benchmarks/large_table.py [records] [parts] [folder]

The records are those of cps13.parquet drawn again. Without a folder they go to a temporary one that is removed; a
folder keeps them, and a second run with the same numbers reads them again.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import check, data_file, in_child, machine, peak_mib, require, say, seconds, show

from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.ingest.reading import read_table

SEED, WORKERS, LIMIT, ROUNDS = 2026, 2, 4 << 30, 3
SECONDS = 1800.0
Answer: TypeAlias = tuple[float, list[float], dict[tuple[str, ...], int]]


def make_parts(folder: Path, records: int, parts: int) -> None:
    """Parts of equally many records; those that are there already stay."""
    sizes = [records * (part + 1) // parts - records * part // parts for part in range(parts)]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        list(pool.map(make_part, range(parts), sizes, [folder] * parts))


def make_part(part: int, records: int, folder: Path) -> None:
    path = folder / f"part-{part:05}.parquet"
    if path.exists() and pq.read_metadata(path).num_rows == records:
        return
    table = pq.read_table(data_file("cps13.parquet")).combine_chunks()
    rows = np.random.default_rng([SEED, part]).integers(0, len(table), records)
    pq.write_table(table.take(pa.array(rows)), path, compression="zstd")


def ours(folder: Path) -> Answer:
    """Seconds, peak memory by process in MiB, and the cells; the workers are there before the clock starts."""
    with open_executor(ExecutionConfig(workers=WORKERS)) as executor:
        begun = time.perf_counter()
        table = read_table(folder, executor=executor, memory=LIMIT // (WORKERS + 1))
        took = time.perf_counter() - begun
        workers = executor.client.run(peak_mib).values()  # type: ignore[attr-defined]
    columns = zip(table.schema.variables, table.codes.T, strict=True)
    names = [np.array(variable.categories, object)[codes] for variable, codes in columns]
    return took, [peak_mib(), *workers], dict(zip(zip(*names, strict=True), table.counts.tolist(), strict=True))


def duckdb(folder: Path) -> Answer:
    import duckdb as rival

    limit = f"{LIMIT >> 20}MiB"
    connection = rival.connect(
        config={"threads": WORKERS, "memory_limit": limit, "temp_directory": f"{folder}/_spilled"}
    )
    names = ", ".join(f'"{name}"' for name in pq.read_schema(next(folder.glob("*.parquet"))).names)
    begun = time.perf_counter()
    rows = connection.sql(f"SELECT {names}, count(*) FROM '{folder}/*.parquet' GROUP BY {names}").fetchall()
    return time.perf_counter() - begun, [peak_mib()], {row[:-1]: row[-1] for row in rows}


def main() -> None:
    require("duckdb")
    arguments = dict(enumerate(sys.argv))
    records, parts = int(arguments.get(1, 10**8)), int(arguments.get(2, 100))
    with ExitStack() as stack:
        folder = Path(arguments.get(3) or stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        say(f"{records:,} records of 13 variables in {parts} parts; {machine()}")
        say(f"data made in {seconds(lambda: make_parts(folder, records, parts)):.0f} s")
        compare(folder, records)


def compare(folder: Path, records: int) -> None:
    times: dict[str, list[float]] = {"sdc": [], "DuckDB": []}
    peaks: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        cells = []
        for name, work in (("sdc", ours), ("DuckDB", duckdb)):
            answer = in_child(work, folder, limit=SECONDS)
            check(answer is not None, f"{name} took more than {SECONDS:.0f} s")
            times[name].append(answer[0])
            peaks[name] = max(peaks.get(name, []), answer[1], key=sum)
            cells.append(answer[2])
        check(cells[0] == cells[1] and sum(cells[0].values()) == records, "the cells of the two")
    header = ["", *(f"round {n + 1}, s" for n in range(ROUNDS)), "median, s", "peak, MiB", "of processes, MiB"]
    each = {name: " + ".join(f"{mib:.0f}" for mib in peaks[name]) for name in times}
    rows = [[name, *took, statistics.median(took), round(sum(peaks[name])), each[name]] for name, took in times.items()]
    show(f"{len(cells[0]):,} cells counted alike by both, at most {LIMIT >> 20} MiB", header, rows)
    say(f"DuckDB takes {statistics.median(times['DuckDB']) / statistics.median(times['sdc']):.2f} times as long as sdc")


if __name__ == "__main__":
    main()
