"""Bounds of all 2,228 at-risk cells of NLTCS (2^16 cells) given all two-way marginals, beside HiGHS on one cell.

    python tests/benchmarks/nltcs_bounds.py

About five minutes on two cores. The cells are cut into fixed units, so that the bounds do not depend on the number
of processes. HiGHS solves the whole linear program of one cell, 137 rows by 65,536 columns, once, within 300 s.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from typing import Any

import numpy as np
from side_by_side import ROOT, check, data_file, in_child, machine, require, say, show

from sdc.bounds import linear_program
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.release import Release
from sdc.model.table import Codes, Table

sys.path.append(str(ROOT))
from tests.strategies import knows

SMALL_COUNT, UNIT, PROCESSES, RIVAL_LIMIT = 2, 64, 2, 300.0


def main() -> None:
    require("highspy")
    table = read_table(data_file("nltcs_cells.parquet"))
    cells = table.codes[table.at_risk(SMALL_COUNT)]
    say(f"{machine()}; {table.schema.cells} cells, {len(cells)} at risk, {PROCESSES} processes, units of {UNIT} cells")
    begun = time.perf_counter()
    bounds = bounds_of_all(cells)
    elapsed = time.perf_counter() - begun
    show_bounds(bounds, elapsed)
    rival(table, bounds, elapsed * PROCESSES / len(cells))


def all_two_way(table: Table) -> Release:
    return Release.of(st.of(pair) for pair in combinations(range(len(table.schema)), 2))


def bounds_of_all(cells: Codes) -> CellBounds:
    """One unit of cells a task; every process reads the table for itself."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    units = [cells[first : first + UNIT] for first in range(0, len(cells), UNIT)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        return CellBounds.concatenated(list(pool.map(unit_bounds, units)))


def unit_bounds(cells: Codes) -> CellBounds:
    table = read_table(data_file("nltcs_cells.parquet"))
    return linear_program.bounds(table, knows(table, all_two_way(table)), cells)


def show_bounds(bounds: CellBounds, elapsed: float) -> None:
    apart = (bounds.outer_width - bounds.inner_width).tolist()
    rows = [
        ["seconds for all cells", elapsed],
        ["processor milliseconds a cell", 1000 * elapsed * PROCESSES / len(bounds)],
        ["exact cells", int(bounds.exact.sum())],
        *([f"cells that inner and outer leave {gap} apart", apart.count(gap)] for gap in sorted(set(apart))),
        ["outer width, least", int(bounds.outer_width.min())],
        ["outer width, median", float(np.median(bounds.outer_width))],
        ["outer width, most", int(bounds.outer_width.max())],
    ]
    show(f"bounds of {len(bounds)} cells", ["", "value"], rows)


def rival(table: Table, bounds: CellBounds, mine: float) -> None:
    """HiGHS for the upper end of the cell in the middle of the list: same bound, and how much longer."""
    cell = len(bounds) // 2
    answer = in_child(highs_maximum, table.codes, table.counts, bounds.cells[cell], limit=RIVAL_LIMIT)
    if answer is None:
        say(f"HiGHS did not finish one cell within {RIVAL_LIMIT:.0f} s: more than {RIVAL_LIMIT / mine:.0f} times sdc")
        return
    value, took = answer
    upper = int(bounds.outer[cell, 1])
    check(upper == int(np.floor(value + 1e-6)), f"the bound {upper} is not the linear program's {value}")
    rows = [["sdc, mean of all cells", mine, upper, ""], ["HiGHS, one cell", took, value, took / mine]]
    show("one cell", ["", "seconds", "upper bound", "times sdc"], rows)


def highs_maximum(codes: Codes, counts: np.ndarray, cell: np.ndarray) -> tuple[float, float]:
    """(optimum, seconds) of the full program: a row a released sub-table, over the cells that are 1 on all of it."""
    import highspy

    variables = codes.shape[1]
    weights = 1 << np.arange(variables)
    patterns = [0, *(int(weights[list(kept)].sum()) for d in (1, 2) for kept in combinations(range(variables), d))]
    occupied, every = codes.astype(np.int64) @ weights, np.arange(1 << variables)
    columns = [np.flatnonzero(every & pattern == pattern).astype(np.int32) for pattern in patterns]
    totals = np.array([counts[occupied & pattern == pattern].sum() for pattern in patterns], np.float64)
    program: Any = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(every), len(patterns)
    program.col_cost_ = (every == int(cell.astype(np.int64) @ weights)).astype(np.float64)
    program.col_lower_, program.col_upper_ = np.zeros(len(every)), np.full(len(every), highspy.kHighsInf)
    program.row_lower_ = program.row_upper_ = totals
    program.sense_ = highspy.ObjSense.kMaximize
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    program.a_matrix_.index_ = np.concatenate(columns)
    program.a_matrix_.value_ = np.ones(sum(map(len, columns)))
    solver = highspy.Highs()
    solver.silent()
    solver.passModel(program)
    begun = time.perf_counter()
    solver.run()
    return float(solver.getInfo().objective_function_value), time.perf_counter() - begun


if __name__ == "__main__":
    main()
