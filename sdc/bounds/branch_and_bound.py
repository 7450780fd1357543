"""Sharp integer bounds of cells by branch and bound on propagated intervals."""

from __future__ import annotations

from functools import partial

import numpy as np

from sdc.bounds.covered import on_covered_variables
from sdc.feasible.depth_first import Block, DepthFirst, FeasibleTables
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table
from sdc.solve.ends import STEPS_PER_SECOND, Reached, Settled, settled

MAX_STEPS = 1 << 22  # for each end, in less than 0.1 s
EQUATIONS_A_STEP = 50_000_000 // STEPS_PER_SECOND


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Smallest and largest value of (n, variables) cells over the feasible tables.

    First the propagation of [DKS] section 4 on all upward sums; then each open end is tried value by value, from
    outside inward, by depth-first search on the cell's connected block of the table.

    inner  ends reached by tables found, each checked in integers; a table serves all cells
    outer  refuted values are cut off; exact if an end took at most `MAX_STEPS` steps

    Raises ReleaseError beyond 2,048 cells.
    """
    return bounds_within(MAX_STEPS, table, knowledge, cells)


def bounds_within(max_steps: int, table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """`bounds` with a number of steps for each end: a step is one equation, 5 * 10^7 take about a second."""

    @on_covered_variables
    def bounded(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        return search_within(max_steps, table, knowledge, cells).bounds

    return bounded(table, knowledge, cells)


def search_within(max_steps: int, table: Table, knowledge: Knowledge, cells: Codes) -> Settled:
    """`bounds_within` with the tables that reach the inner ends; all variables remain."""
    found, place = FeasibleTables(table, knowledge), table.schema.keys.pack(cells)
    counts = found.equations.truth[place]
    propagated = np.stack([found.lower[place], found.upper[place]], axis=1)
    known = CellBounds(cells, counts, propagated, np.stack([counts, counts], axis=1), "branch-and-bound")
    return settled(known, place, partial(farthest, found, max_steps), known.method)


def farthest(found: FeasibleTables, max_steps: int, cell: int, end: int, outer: int, inner: int) -> Reached:
    """One end of a dense cell, tried value by value from outside inward within the steps; a table reaches the end."""
    home, steps = found.block_of(cell), 0
    outer = min(outer, int(found.upper[cell])) if end else max(outer, int(found.lower[cell]))
    # refuted values are cut off, so that the outer bound is always proven; the first value with a table is the end
    while home is not None and outer != inner and steps < max_steps:
        block, place = home
        search = DepthFirst(block, fixed=(place, outer))
        values = search.more(1, max_steps - steps)
        # one more, so that a value costs something even without propagation steps
        steps += search.steps + 1
        if len(values):
            return Reached(outer, _table(found, block, values[0]), _core_steps(steps))
        if search.exhausted:
            outer += -1 if end else 1
    return Reached(outer, None, _core_steps(steps))


def _core_steps(steps: int) -> int:
    return 1 + steps // EQUATIONS_A_STEP


def _table(found: FeasibleTables, block: Block, values: Counts) -> Counts:
    """The dense table with these counts in a block, after a check that it is feasible."""
    # the other blocks keep their true counts: blocks combine freely
    dense = found.equations.truth.copy()
    dense[block.cells] = values
    if not found.equations.holds(dense):
        raise RuntimeError(
            "the search returned a table that does not agree with the released marginals; this is a "
            "bug in sdc: report it"
        )
    return dense
