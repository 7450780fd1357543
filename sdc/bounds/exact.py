"""Sharp integer bounds, whichever gets there sooner: branch and bound, then the integer program for what is open."""

from __future__ import annotations

import numpy as np

from sdc.bounds import branch_and_bound, integer_program, reducible
from sdc.feasible.depth_first import MAX_CELLS
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Table

# measured: nearly every end that a second settles is settled in these; the solver takes 5 to 100 ms an end
STEPS = 1 << 17


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Exact bounds of (n, variables) cells where the solver finishes its proofs; see `integer_program.bounds`.

    A reducible release is split first. In each component branch and bound has about 3 ms an end, in
    steps and not by a clock; beyond 2,048 cells it is left out. ReleaseError where a component has more
    than 4,096 cells.
    """
    return reducible.bounds_by(_of_component, table, knowledge, cells)


def _of_component(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    if table.schema.cells > MAX_CELLS:
        return integer_program.bounds(table, knowledge, cells)
    found = branch_and_bound.bounds_within(STEPS, table, knowledge, cells)
    rows = np.flatnonzero(~found.exact)
    return found.narrowed(rows, integer_program.bounds(table, knowledge, cells[rows])) if len(rows) else found
