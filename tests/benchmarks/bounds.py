"""Bounds of cells given all two-way marginals of binary items, beside the whole linear program in HiGHS."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np

from sdc.bounds import linear_program
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.table import Table
from tests.benchmarks import highs
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, in_child, lacks, one_core, seconds
from tests.strategies import czech, knows

SMALL_COUNT, ROUNDS, LIMIT, TOLERANCE = 2, 3, 120.0, 1e-6
SIZES = ((12, 16), (14, 3))  # items, and cells that are bounded
RIVAL, FILE = "HiGHS", "nltcs_cells.parquet"
NOTE = "one core each, without building the model; HiGHS starts each end from the one before; the same bounds"


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """The first items of NLTCS; the short form is the Czech table."""
    files = () if short else (FILE,)
    if absent := lacks("bounds of cells given all two-way marginals", RIVAL, files=files, packages=["highspy"]):
        return list(absent)
    if short:
        return [beside(czech(), "Czech table", 3, 1)]
    nltcs = read_table(DATA / FILE)
    return [beside(nltcs.marginal(st.of(range(n))), f"NLTCS, {n} items", cells, ROUNDS) for n, cells in SIZES]


def beside(table: Table, name: str, number: int, rounds: int) -> Row | NotMeasured:
    variables = len(table.schema)
    job = f"bounds of a cell of 2^{variables} given all two-way marginals ({name})"
    known = knows(table, Release.of(st.of(pair) for pair in combinations(range(variables), 2)))
    at_risk = table.codes[table.at_risk(SMALL_COUNT)]
    cells = at_risk[:: max(1, len(at_risk) // number)][:number]
    patterns = [0, *(st.of(kept) for ways in (1, 2) for kept in combinations(range(variables), ways))]
    weights = 1 << np.arange(variables)
    occupied = table.codes.astype(np.int64) @ weights
    totals = [int(table.counts[occupied & pattern == pattern].sum()) for pattern in patterns]
    columns = (cells.astype(np.int64) @ weights).tolist()
    work = partial(linear_program.bounds, table, known, cells)
    outer = work().outer  # kernels are loaded
    ours, theirs = list[float](), list[float]()
    for _ in range(rounds):
        with one_core():
            ours.append(seconds(work) / len(cells))
            answer = in_child(highs.bounds, patterns, totals, variables, columns, limit=LIMIT)
        if answer is None:
            return NotMeasured(job, RIVAL, f"it took more than {LIMIT:.0f} s")
        theirs.append(answer[0] / len(cells))
        ends = np.array(answer[1])
        integers = np.stack([np.ceil(ends[:, 0] - TOLERANCE), np.floor(ends[:, 1] + TOLERANCE)], axis=1)
        check(np.array_equal(outer, integers), f"{job}: {outer.tolist()}, by {RIVAL} {ends.tolist()}")
    return Row(job, RIVAL, ours, theirs, unit="a cell", note=f"{len(cells)} cells; {NOTE}")
