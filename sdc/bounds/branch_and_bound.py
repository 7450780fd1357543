"""Sharp integer bounds of one cell after another by branch and bound on propagated intervals."""

from __future__ import annotations

import numpy as np

from sdc.bounds.covered import on_covered_variables
from sdc.feasible.depth_first import Block, DepthFirst, FeasibleTables
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table

MAX_STEPS = 1 << 22  # an end, in less than 0.1 s


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Smallest and largest value of (n, variables) cells over the feasible tables.

    First the propagation of [DKS] section 4 on all upward sums; then each end that it leaves open is
    tried from outside inward, value by value, by a depth-first search on the block of the table that
    is connected with the cell: the report's adjustment of the shuttle's bounds, cell by cell.

    inner  ends reached by tables found, each checked in integers; a table serves all cells
    outer  values refuted are cut off; exact where an end took at most `MAX_STEPS` steps

    ReleaseError beyond 2,048 cells.
    """
    return bounds_within(MAX_STEPS, table, knowledge, cells)


def bounds_within(max_steps: int, table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """`bounds` with so many steps an end: one step is one equation looked at, 5 * 10^7 of them about a second."""

    @on_covered_variables
    def bounded(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        return search_within(max_steps, table, knowledge, cells)[0]

    return bounded(table, knowledge, cells)


def search_within(max_steps: int, table: Table, knowledge: Knowledge, cells: Codes) -> tuple[CellBounds, list[Counts]]:
    """`bounds_within` with the dense tables, in C order, that reach the inner ends; all variables are kept."""
    search = _Search(FeasibleTables(table, knowledge), max_steps)
    place = table.schema.keys.pack(cells)
    for cell in np.unique(place):
        search.settle(int(cell))
    outer, inner = search.outer[place], search.inner[place]
    return CellBounds(cells, table.count_at(cells), outer, inner, "branch-and-bound"), search.tables


class _Search:
    """The bounds of all cells so far: each proof and each table found narrows the gap between them."""

    def __init__(self, found: FeasibleTables, max_steps: int) -> None:
        self._found, self._max_steps = found, max_steps
        self.outer: Intervals = np.stack([found.lower, found.upper], axis=1)
        self.inner: Intervals = np.stack([found.equations.truth, found.equations.truth], axis=1)
        self.tables: list[Counts] = []

    def settle(self, cell: int) -> None:
        """Both ends of one cell, as far as the steps go."""
        home = self._found.block_of(cell)
        if home is not None:
            for end, inward in ((0, 1), (1, -1)):
                self._settle_end(cell, *home, end, inward)

    def _settle_end(self, cell: int, block: Block, place: int, end: int, inward: int) -> None:
        steps = 0
        # from outside inward: a value that no table has is cut off, so that the outer bound stays proven all the time,
        # and the first that a table has is the end
        while self.outer[cell, end] != self.inner[cell, end] and steps < self._max_steps:
            search = DepthFirst(block, fixed=(place, int(self.outer[cell, end])))
            values = search.more(1, self._max_steps - steps)
            # one more, so that a value costs something even where propagation needs no step
            steps += search.steps + 1
            if len(values):
                self._witness(block, values[0])
            elif search.exhausted:
                self.outer[cell, end] += inward

    def _witness(self, block: Block, values: Counts) -> None:
        """Widen the inner bounds of the block's cells by a table of theirs, once seen to be feasible."""
        # the other blocks stay as they are in truth: blocks combine freely, so this is a table of its own
        dense = self._found.equations.truth.copy()
        dense[block.cells] = values
        if not self._found.equations.holds(dense):
            raise RuntimeError("the search returned a table that does not agree with the released marginals")
        self.tables.append(dense)
        np.minimum(self.inner[:, 0], dense, out=self.inner[:, 0])
        np.maximum(self.inner[:, 1], dense, out=self.inner[:, 1])
