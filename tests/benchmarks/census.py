"""A census: millions of records of 13 variables, planned, built and verified with two workers of 1 GiB each.

    python tests/benchmarks/census.py [records] [folder] [memory of a worker]

Records are those of cps14.parquet without its year, drawn again; each code is then replaced with probability 0.3 by
that of another record and with 0.08 by any category, so that 9 million, the default, have some 3.0 million cells, 2.5
million of them at risk. Prints what `sdc plan` says, then seconds and memory of each stage of `sdc run` (small count 2,
min width 3, ordered, slices of 500,000 cells), and what `sdc verify` finds. The folder, else a temporary one, keeps the
records for the next run. A command that takes two hours is ended.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from real_tables import HERE, command
from side_by_side import data_file, machine, say

SEED, AT_ONCE = 1, 1_000_000
OF_ANOTHER, OF_ANY = 0.3, 0.08
MOST_SECONDS = 7200.0


def main() -> None:
    arguments = dict(enumerate(sys.argv))
    records = int(float(arguments.get(1, 9e6)))
    say(machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.get(2, temporary))
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / f"{records}.parquet").exists():
            make_records(records, folder / f"{records}.parquet")
        build(folder, f"{records}.parquet", arguments.get(3, "1GiB"))


def make_records(records: int, path: Path) -> None:
    """Drawn part by part; the file is there when it is whole."""
    table = pq.read_table(data_file("cps14.parquet")).drop_columns(["year"])
    columns = [table[name].combine_chunks().cast(pa.string()).dictionary_encode() for name in table.column_names]
    codes = np.stack([column.indices.to_numpy() for column in columns], axis=1).astype(np.uint8)
    generator, names = np.random.default_rng(SEED), table.column_names
    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(path.with_suffix(".unfinished"), schema, compression="zstd") as writer:
        for begin in range(0, records, AT_ONCE):
            drawn = draw(codes, min(AT_ONCE, records - begin), generator)
            values = [column.dictionary.take(pa.array(own)) for column, own in zip(columns, drawn.T, strict=True)]
            writer.write_table(pa.table(dict(zip(names, values, strict=True)), schema))
    path.with_suffix(".unfinished").rename(path)


def draw(codes: npt.NDArray[np.uint8], records: int, generator: np.random.Generator) -> npt.NDArray[np.uint8]:
    """(records, variables) codes."""
    one, other = (codes[generator.integers(0, len(codes), records)] for _ in range(2))
    mixed = np.where(generator.random(one.shape) < OF_ANOTHER, other, one)
    anything = (generator.random(one.shape) * (codes.max(axis=0) + 1)).astype(np.uint8)
    return np.where(generator.random(one.shape) < OF_ANY, anything, mixed)


def build(folder: Path, data: str, memory: str) -> None:
    config = {
        "name": "census",
        "table": {"path": data},
        "risk": {"small_count": 2, "min_width": 3},
        "release": {"method": "ordered", "cells_per_slice": 500_000},
        "execution": {"workers": 2, "memory_per_worker": memory},
    }
    (folder / "census.yaml").write_text(yaml.safe_dump(config))
    plan, fault = command(HERE, folder, "plan", "census.yaml")
    say(fault or f"planned: worker {plan['memory_needed_mib']} MiB, process {plan['here_needed_mib']} MiB")
    begun = time.perf_counter()
    told, fault = command(HERE, folder, "run", "census.yaml", seconds=MOST_SECONDS)
    say(fault or f"sdc run: {time.perf_counter() - begun:.0f} s")
    if fault:
        return
    run = folder / told["run_folder"]
    for stage in json.loads((run / "manifest.json").read_text())["stages"]:
        worker, here = stage.get("worker_mib") or 0, stage["driver_mib"]
        say(f"  {stage['name']:12} {stage['seconds']:6.1f} s, worker {worker} MiB, process {here} MiB")
    begun = time.perf_counter()
    verified, fault = command(HERE, folder, "verify", str(run), seconds=MOST_SECONDS)
    proven = fault or f"{verified['certified_cells']} of {verified['at_risk_cells']} cells proven"
    size = told["release"]["sub_tables"]
    say(f"sdc verify: {time.perf_counter() - begun:.0f} s; {size} sub-tables, {proven}")


if __name__ == "__main__":
    main()
