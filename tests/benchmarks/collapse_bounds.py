"""Outer bounds of exposed cps13 cells by collapse, a cell at a time, beside HiGHS on the same collapsed problem.

    python tests/benchmarks/collapse_bounds.py

About two minutes. The releases are prefixes of the list ordered by critical width. The linear program has the 2^K
collapsed cells as variables and one equation a released sub-table; its bounds lie within those of collapse,
which is what is checked. HiGHS runs in a process of its own, on the same core.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time

import numpy as np
import numpy.typing as npt
from side_by_side import ROOT, check, data_file, in_child, machine, medians, one_core, require, say, seconds, show

from sdc.bounds import collapse
from sdc.bounds.method import cheap_bounds
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.table import Codes, Table
from sdc.risk.critical_width import critical_widths

sys.path.append(str(ROOT))
from tests.strategies import knows

SMALL_COUNT, CELLS = 2, 20
PREFIXES = (222, 445, 889)
LP_PREFIX, LP_CELLS, LP_SECONDS = 445, 4, 30.0
STARTING_SECONDS = 30.0
TOLERANCE = 1e-3

Program = tuple[float, float, float]
"""Lower and upper bound, nan where not solved in time, and seconds for both."""


def main() -> None:
    require("highspy")
    table = read_table(data_file("cps13.parquet"))
    ordered = critical_widths(table, small_count=SMALL_COUNT).sub_tables.tolist()
    say(f"{machine()}; {len(table):,} non-zero cells of {table.schema.cells:,}")
    with one_core() as pinned:
        show_times(table, ordered, pinned)
        side_by_side(table, Release.of(ordered[:LP_PREFIX]), pinned)
    show_dichotomous()


def show_times(table: Table, ordered: list[int], pinned: str) -> None:
    """Milliseconds a cell for prefixes of the list."""
    rows: list[list[object]] = []
    for number in PREFIXES:
        release = Release.of(ordered[:number])
        known = knows(table, release)
        check(known.structure.decomposition is None, "a decomposable release needs no collapse; this one")
        cells = most_exposed(table, release)
        first = seconds(lambda: collapse.bounds(table, known, cells[:1]))  # noqa: B023
        one = [functools.partial(collapse.bounds, table, known, cells[i : i + 1]) for i in range(CELLS)]
        each = [medians(3, call)[0] * 1000 for call in one]
        together = seconds(lambda: collapse.bounds(table, known, cells)) / CELLS * 1000  # noqa: B023
        frontier = len(release.frontier)
        rows.append([number, frontier, statistics.median(each), min(each), max(each), together, first * 1000])
    header = ["sub-tables", "maximal", "one a call", "least", "most", f"{CELLS} a call", "first call"]
    show(f"collapse, milliseconds a cell ({pinned})", header, rows)


def side_by_side(table: Table, release: Release, pinned: str) -> None:
    """The same cells by collapse and by linear programming, one after the other."""
    cells = most_exposed(table, release)[:: CELLS // LP_CELLS]
    rows: list[list[object]] = []
    ratios, known = [], knows(table, release)
    for cell in cells:
        (mine,) = medians(3, lambda: collapse.bounds(table, known, cell[None, :]))  # noqa: B023
        low, high = collapse.bounds(table, known, cell[None, :]).outer[0].tolist()
        lp_low, lp_high, theirs = linear_programs(table, release, cell)
        outside = lp_low < low - TOLERANCE or lp_high > high + TOLERANCE  # False where not solved, which is nan
        check(not outside, f"[{lp_low}, {lp_high}] of the linear program is not within [{low}, {high}] of collapse")
        ratios.append(theirs / mine)
        lp = f"[{lp_low:.2f}, {lp_high:.2f}]"
        count = int(table.count_at(cell[None, :])[0])
        rows.append([len(rows) + 1, count, f"[{low}, {high}]", lp, mine * 1000, theirs * 1000, f"{ratios[-1]:.0f}"])
    header = ["cell", "count", "collapse", "HiGHS", "collapse ms", "HiGHS ms", "ratio"]
    show(f"{release.sub_tables(table.schema)} sub-tables, two linear programs a cell ({pinned})", header, rows)
    say(f"  median ratio {statistics.median(ratios):.0f}; nan: not solved in {LP_SECONDS:.0f} s")


def most_exposed(table: Table, release: Release) -> Codes:
    """The at-risk cells with the narrowest bounds that the cheap methods leave open."""
    at_risk = table.codes[table.at_risk(SMALL_COUNT)]
    cheap = cheap_bounds(CellMarginals(table, at_risk), knows(table, release))
    still_open = np.flatnonzero(~cheap.exact)
    order = np.lexsort([still_open, cheap.inner_width[still_open], cheap.outer_width[still_open]])
    return at_risk[still_open[order[:CELLS]]]


def linear_programs(table: Table, release: Release, cell: npt.NDArray[np.uint16]) -> Program:
    """The cell's range over all tables of non-negative reals that collapse to the released counts at the cell."""
    released = release.views(table.schema)
    counts = [float(table.marginal_at(t, cell[None, :])[0]) if t else float(table.total) for t in released]
    limit = 2 * LP_SECONDS + STARTING_SECONDS
    nothing = (float("nan"), float("nan"), limit)
    return in_child(solve, released, counts, len(table.schema), limit=limit) or nothing


def solve(released: list[int], counts: list[float], variables: int) -> Program:
    """Both programs in one HiGHS model; the second starts from the first one's basis."""
    import highspy

    agreeing = np.arange(1 << variables, dtype=np.int32)  # bit v of a collapsed cell: it is in the cell's own category
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    model.addVars(len(agreeing), np.zeros(len(agreeing)), np.full(len(agreeing), highspy.kHighsInf))
    for sub_table, count in zip(released, counts, strict=True):
        within = agreeing[agreeing & sub_table == sub_table]
        model.addRow(count, count, len(within), within, np.ones(len(within)))
    own = st.full(variables)
    model.changeColCost(own, 1.0)
    begun = time.perf_counter()
    ends = []
    for sense in (highspy.ObjSense.kMinimize, highspy.ObjSense.kMaximize):
        model.changeObjectiveSense(sense)
        model.setOptionValue("time_limit", model.getRunTime() + LP_SECONDS)
        model.run()
        optimal = model.getModelStatus() == highspy.HighsModelStatus.kOptimal
        ends.append(float(model.getObjectiveValue()) if optimal else float("nan"))
    return ends[0], ends[1], time.perf_counter() - begun


def show_dichotomous() -> None:
    """All at-risk cells of sixteen variables of two categories, all two-way marginals: one propagation."""
    table = read_table(data_file("nltcs_cells.parquet"))
    variables = len(table.schema)
    release = Release.of(st.of((a, b)) for a in range(variables) for b in range(a))
    cells = table.codes[table.at_risk(SMALL_COUNT)]
    taken = seconds(lambda: collapse.bounds(table, knows(table, release), cells))
    say(f"\nnltcs, all two-way marginals, {len(cells):,} at-risk cells in one propagation: {taken:.1f} s")


if __name__ == "__main__":
    main()
