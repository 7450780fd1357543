"""Bounds of cells given all two-way marginals of binary items: beside HiGHS, and by two processes beside one."""

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from sdc.bounds import linear_program
from sdc.config.build import ExecutionConfig
from sdc.data.reading import read_table
from sdc.execution.cluster import open_executor
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.sharp import sharp_bounds
from tests.benchmarks import highs
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, in_child, in_turn, lacks, one_core, seconds
from tests.strategies import czech, knows

SMALL_COUNT, ROUNDS, LIMIT, TOLERANCE, BUDGET = 2, 3, 120.0, 1e-6, 10
SIZES = ((12, 16), (14, 3))  # items, and cells that are bounded
RIVAL, FILE = "HiGHS", "nltcs_cells.parquet"
NOTE = "one core each, without building the model; HiGHS starts each end from the one before; the same bounds"


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """The first items of NLTCS for HiGHS, which needs hours for all; the short form is the Czech table."""
    job = "bounds of cells given all two-way marginals"
    if not short and (absent := lacks(job, f"{RIVAL}, one process", files=[FILE])):
        return list(absent)
    table = czech() if short else read_table(DATA / FILE)
    found: list[Row | NotMeasured] = list(lacks(job, RIVAL, packages=["highspy"]))
    if not found:
        sizes = ((6, 3),) if short else SIZES
        found += [beside(table.marginal(st.of(range(n))), cells, 1 if short else ROUNDS) for n, cells in sizes]
    return [*found, two_processes(table, short, limits)]


def pairs(table: Table) -> Knowledge:
    return knows(table, Release.of(st.of(pair) for pair in combinations(range(len(table.schema)), 2)))


def two_processes(table: Table, short: bool, limits: Limits) -> Row:
    """Sharp bounds of some cells within a budget, which is counted in steps, so that both do the same."""
    known, cells, budget = pairs(table), table.codes[table.at_risk(SMALL_COUNT)][::16], 1 if short else BUDGET
    name = "the Czech table" if short else "NLTCS"
    job = f"sharp bounds of {len(cells)} cells of {name} given all two-way marginals, two worker processes"
    with open_executor(ExecutionConfig(workers=1)) as one, open_executor(ExecutionConfig(workers=2)) as two:
        works = [partial(sharp_bounds, table, known, cells, seconds=budget, executor=e) for e in (two, one)]
        both, alone = (work().bounds for work in works)
        same = np.array_equal(both.inner, alone.inner) and np.array_equal(both.outer, alone.outer)
        check(same, f"{job}: other bounds than with one process")
        ours, theirs = in_turn(1 if short else ROUNDS, *works)
    note = f"the work of a budget of {budget} s, which is counted in steps; workers are there; the same bounds"
    row = Row(job, "the same, one process", ours, theirs, note=note)
    return replace(row, limit=limits.share_of_scaling(row))


def beside(table: Table, number: int, rounds: int) -> Row | NotMeasured:
    variables = len(table.schema)
    job = f"bounds of a cell of 2^{variables}, {variables} binary items, given all two-way marginals"
    known = pairs(table)
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
