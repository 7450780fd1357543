"""Writing a published table as CSV and as Parquet, beside Polars and pandas."""

import io
from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sdc.model.labels import Labels
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.publish.formats import FORMATS, CountTable
from tests.benchmarks.measure import Limits, NotMeasured, Row, check, in_turn, lacks, one_core

SEED, CELLS, SHORT_CELLS, ROUNDS, SIZES = 2026, 1_000_000, 2_000, 3, (40, 40, 50, 50)
LIBRARIES = {"csv": ("polars", "pandas"), "parquet": ("polars",)}
NAMES = {"polars": "Polars", "pandas": "pandas"}


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """A million made-up cells of four million; the others get a data frame of categories that exists already."""
    cells, found = SHORT_CELLS if short else CELLS, list[Row | NotMeasured]()
    table = table_of(cells)
    for form, libraries in LIBRARIES.items():
        for library in libraries:
            job = f"writing {cells:,} cells as {'CSV' if form == 'csv' else 'Parquet'}"
            absent = lacks(job, NAMES[library], packages=[library])
            found += absent or [beside(job, form, library, table, 1 if short else ROUNDS, limits)]
    return found


def table_of(cells: int) -> CountTable:
    schema = Schema(tuple(Variable(f"v{v}", tuple(f"category {c}" for c in range(n))) for v, n in enumerate(SIZES)))
    rng = np.random.default_rng(SEED)
    keys = np.sort(rng.choice(prod(SIZES), cells, replace=False, shuffle=False))
    counts = rng.geometric(0.3, cells)
    return CountTable.of("001_table", "Made up", Table(schema, schema.keys.unpack(keys), counts), Labels())


def beside(job: str, form: str, library: str, table: CountTable, rounds: int, limits: Limits) -> Row:
    ours, theirs = partial(by_sdc, form, table), writer(library, form, table)
    (file, *_), other = ours(), theirs()
    check(read(form, file).equals(read(form, other)), f"{job}, {NAMES[library]}: another table is read from its file")
    with one_core():
        own, others = in_turn(rounds, ours, theirs)
    note = f"one core, to memory, {len(file) / 1e6:.0f} MB by ours and {len(other) / 1e6:.0f} by {NAMES[library]}"
    limit = limits.share_of_copy(len(file), own)
    return Row(job, NAMES[library], own, others, limit=limit, note=f"{note}; the same table is read from both")


def by_sdc(form: str, table: CountTable) -> list[bytes]:
    """The files of the format, the table's first."""
    return [b"".join(write(table)) for write in FORMATS[form].of_table.values()]


def writer(library: str, form: str, table: CountTable) -> Callable[[], bytes]:
    codes, counts = (np.concatenate(part) for part in zip(*table.chunks(), strict=True))
    columns = list(zip(table.variables, codes.T, strict=True))
    if library == "polars":
        import polars as pl

        named = {v.name: pl.Series(v.categories).gather(c.astype(np.uint32)) for v, c in columns}
        frame = pl.DataFrame({**named, "count": counts})
        write = frame.write_csv if form == "csv" else frame.write_parquet
    else:
        import pandas as pd

        made = {v.name: pd.Categorical.from_codes(c.astype(np.int64), list(v.categories)) for v, c in columns}
        other = pd.DataFrame({**made, "count": counts})
        write = partial(other.to_csv if form == "csv" else other.to_parquet, index=False)

    def work() -> bytes:
        file = io.BytesIO()
        write(file)
        return file.getvalue()

    return work


def read(form: str, file: bytes) -> pa.Table:
    """The table in the file, with texts and counts as they are and no more."""
    given = pa.BufferReader(file)
    table = pyarrow.csv.read_csv(given) if form == "csv" else pq.read_table(given)
    kinds = [pa.int64() if name == "count" else pa.string() for name in table.column_names]
    return pa.table([c.cast(k) for c, k in zip(table.columns, kinds, strict=True)], names=table.column_names)
