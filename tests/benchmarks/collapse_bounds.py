"""Outer bounds of exposed cps13 cells by collapse, a cell at a time, beside linear programs on the same problem.

    python tests/benchmarks/collapse_bounds.py

About a minute. The release: the first 400 sub-tables of the list ordered by critical width. The linear
program has the 2^K collapsed cells as variables and one equation a released sub-table; its bounds lie
within those of collapse, which is what is checked.
"""

from __future__ import annotations

import time

import numpy as np
from ortools.linear_solver import pywraplp
from side_by_side import check, data_file, machine, medians, one_core, say, seconds, show

from sdc.bounds import collapse
from sdc.bounds.cell_marginals import CellMarginals
from sdc.bounds.decomposable import decomposition_of
from sdc.bounds.method import cheap_bounds
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.table import Codes, Table
from sdc.risk.critical_width import critical_widths
from sdc.storage.reading import read_table

SMALL_COUNT, SUB_TABLES, CELLS, LP_CELLS = 2, 400, 20, 3
LP_SECONDS = 40.0
TOLERANCE = 1e-3


def main() -> None:
    table = read_table(data_file("cps13.parquet"))
    release = Release.of(critical_widths(table, small_count=SMALL_COUNT).sub_tables[:SUB_TABLES].tolist())
    check(decomposition_of(release, len(table.schema)) is None, "a decomposable release needs no collapse; this one")
    cells = most_exposed(table, release)
    say(f"{machine()}; {release.sub_tables} sub-tables released, {len(release.frontier)} maximal, {len(cells)} cells")
    with one_core() as pinned:
        cold = seconds(lambda: collapse.bounds(table, release, cells[:1]))
        each = [medians(3, lambda: collapse.bounds(table, release, cells[i : i + 1]))[0] for i in range(len(cells))]  # noqa: B023
        (together,) = medians(3, lambda: collapse.bounds(table, release, cells))
        outer = collapse.bounds(table, release, cells).outer
        programs = [linear_program(table, release, cell) for cell in cells[:LP_CELLS]]
    for (low, high), (lp_low, lp_high, _) in zip(outer.tolist(), programs, strict=False):
        outside = lp_low < low - TOLERANCE or lp_high > high + TOLERANCE  # False where not solved, which is nan
        check(not outside, f"[{lp_low}, {lp_high}] of the linear program is not within [{low}, {high}] of collapse")
    show_times(pinned, cold, each, together, [program[2] for program in programs])
    show_bounds(table, cells, outer, programs)


def most_exposed(table: Table, release: Release) -> Codes:
    """The at-risk cells with the narrowest bounds that the cheap methods leave open."""
    at_risk = table.codes[table.at_risk(SMALL_COUNT)]
    cheap = cheap_bounds(CellMarginals(table, at_risk), release)
    still_open = np.flatnonzero(~cheap.exact)
    order = np.lexsort([still_open, cheap.inner_width[still_open], cheap.outer_width[still_open]])
    return at_risk[still_open[order[:CELLS]]]


def linear_program(table: Table, release: Release, cell: np.ndarray) -> tuple[float, float, float]:
    """(lower, upper, seconds) of the cell in the collapsed table, by GLOP; nan where it is not solved in time."""
    begun = time.perf_counter()
    variables = len(table.schema)
    solver = pywraplp.Solver.CreateSolver("GLOP")
    patterns = [solver.NumVar(0.0, solver.infinity(), "") for _ in range(1 << variables)]
    agreeing = np.arange(1 << variables)  # bit v of a pattern: the variable is in the cell's own category
    for released, count in zip(release, own_counts(table, release, cell), strict=True):
        equation = solver.Constraint(count, count)
        for pattern in agreeing[agreeing & released == released].tolist():
            equation.SetCoefficient(patterns[pattern], 1.0)
    own = patterns[st.full(variables)]
    ends = []
    for maximise in (False, True):
        (solver.Maximize if maximise else solver.Minimize)(own)
        solver.SetTimeLimit(int(LP_SECONDS * 1000))
        optimal = solver.Solve() == pywraplp.Solver.OPTIMAL
        ends.append(solver.Objective().Value() if optimal else float("nan"))
    return ends[0], ends[1], time.perf_counter() - begun


def own_counts(table: Table, release: Release, cell: np.ndarray) -> list[float]:
    """n_T at the cell for every released T: superset sums of the collapsed table."""
    return [float(table.marginal_at(t, cell[None, :])[0]) if t else float(table.total) for t in release]


def show_times(pinned: str, cold: float, each: list[float], together: float, programs: list[float]) -> None:
    mine = float(np.median(each)) * 1000
    rows = [
        ["collapse, one cell a call", mine, min(each) * 1000, max(each) * 1000, ""],
        [f"collapse, {len(each)} cells in one call", together / len(each) * 1000, "", "", ""],
        ["collapse, first call (loads kernels)", cold * 1000, "", "", ""],
    ]
    if programs:
        theirs = float(np.median(programs)) * 1000
        ends = [min(programs) * 1000, max(programs) * 1000]
        rows.append(["two linear programs, GLOP", theirs, *ends, f"{theirs / mine:.0f}"])
    show(f"milliseconds a cell ({pinned})", ["", "median", "least", "most", "times collapse"], rows)


def show_bounds(table: Table, cells: Codes, outer: np.ndarray, programs: list[tuple[float, float, float]]) -> None:
    counts = table.count_at(cells).tolist()
    rows: list[list[object]] = []
    for number, (count, (low, high)) in enumerate(zip(counts, outer.tolist(), strict=True)):
        lp = "[{:.2f}, {:.2f}]".format(*programs[number][:2]) if number < len(programs) else ""
        rows.append([str(number + 1), count, f"[{low}, {high}]", lp])
    show("outer bounds", ["cell", "count", "collapse", "linear program"], rows)
    say("  nan: not solved within the limit")


if __name__ == "__main__":
    main()
