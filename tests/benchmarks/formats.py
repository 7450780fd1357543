"""A million cells in each published format, beside pandas and polars: seconds, ratio, size, and how much memory grew.

    python tests/benchmarks/formats.py [cells]

Each in a fresh process; what it held before the first piece is not counted. The others write CSV and Parquet from a
data frame of categories that is there already. The workbook has no cells beyond a sheet of Excel.
"""

from __future__ import annotations

import io
import sys
import time

import numpy as np
from answers import forget_peak, table_of
from side_by_side import in_child, machine, peak_mib, say, show

from sdc.model.labels import Labels
from sdc.publish.formats import FORMATS, CountTable

SECONDS, AIMS, AIM_MIB = 600.0, {"csv": 2.0, "json-stat": 2.0, "px": 3.0}, 300
OTHERS = {"csv": ("pandas", "polars"), "parquet": ("pandas", "polars")}


def table(cells: int, sparse: bool) -> CountTable:
    """So many cells with records, among about as many or among fifty times as many."""
    return CountTable.of("001_table", "A million cells", table_of(cells, cells * (50 if sparse else 1)), Labels())


def ours(name: str, sparse: bool, cells: int) -> tuple[float, float, float]:
    """Seconds, MiB written, and MiB by which the memory grew."""
    found = table(cells, sparse)
    for write in FORMATS[name].of_table.values():
        sum(map(len, write(table(2, False))))  # what is loaded once a process
    forget_peak()
    before, begun = peak_mib(), time.perf_counter()
    size = sum(len(piece) for write in FORMATS[name].of_table.values() for piece in write(found))
    size += sum(len(piece) for write in FORMATS[name].of_all.values() for piece in write([found]))
    return time.perf_counter() - begun, size / (1 << 20), peak_mib() - before


def others(library: str, name: str, cells: int) -> tuple[float, float, float]:
    """The same of another library."""
    found = table(cells, True)
    codes, counts = (np.concatenate(part) for part in zip(*found.chunks(), strict=True))
    frame = _pandas(found, codes, counts) if library == "pandas" else _polars(found, codes, counts)
    forget_peak()
    before, begun, file = peak_mib(), time.perf_counter(), io.BytesIO()
    if library == "polars":
        (frame.write_csv if name == "csv" else frame.write_parquet)(file)
    elif name == "csv":
        frame.to_csv(file, index=False)
    else:
        frame.to_parquet(file, index=False)
    return time.perf_counter() - begun, file.getbuffer().nbytes / (1 << 20), peak_mib() - before


def _pandas(found: CountTable, codes: np.ndarray, counts: np.ndarray) -> object:
    import pandas as pd

    named = {
        v.name: pd.Categorical.from_codes(c, list(v.categories)) for v, c in zip(found.variables, codes.T, strict=True)
    }
    return pd.DataFrame({**named, "count": counts})


def _polars(found: CountTable, codes: np.ndarray, counts: np.ndarray) -> object:
    import polars as pl

    named = {
        v.name: pl.Series(v.categories).gather(c.astype(np.uint32))
        for v, c in zip(found.variables, codes.T, strict=True)
    }
    return pl.DataFrame({**named, "count": counts})


def main(cells: int) -> None:
    say(machine())
    rows, missed = [], []
    for name in FORMATS:
        for sparse in (True, False):
            seconds, size, grown = in_child(ours, name, sparse, cells, limit=SECONDS)
            rows.append([name, "sparse" if sparse else "dense", f"{seconds:.2f}", f"{size:.1f}", f"{grown:.0f}", ""])
            missed += [name] if seconds > AIMS.get(name, SECONDS) or grown > AIM_MIB else []
            for library in OTHERS.get(name, ()) if sparse else ():
                own, size, grown = in_child(others, library, name, cells, limit=SECONDS)
                ratio = f"{seconds / own:.2f}"
                rows.append([library, name, f"{own:.2f}", f"{size:.1f}", f"{grown:.0f}", ratio])
    show(f"{cells:,} cells", ["format", "table", "seconds", "MiB", "MiB grown", "ours by theirs"], rows)
    say(f"slower or larger than is aimed at: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**6)
