"""Sharp integer bounds: first branch and bound, then the integer program for open cells."""

from __future__ import annotations

import numpy as np

from sdc.bounds import branch_and_bound, integer_program, reducible
from sdc.feasible.depth_first import MAX_CELLS
from sdc.feasible.differences import Differences
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table

# measured: nearly every end that a second decides is decided in these; the solver takes 5 to 100 ms for an end
STEPS = 1 << 17


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Exact bounds of (n, variables) cells if the solver finishes its proofs; see `integer_program.bounds`.

    Reducible releases are split first. In each component branch and bound gets about 3 ms for an end, in steps and not
    by a clock; beyond 2,048 cells it is skipped. Raises ReleaseError for a component of more than 4,096 cells.
    """
    return reducible.bounds_by(lambda *component: _searched(*component)[0], table, knowledge, cells)


def search(table: Table, knowledge: Knowledge, cells: Codes) -> tuple[CellBounds, Differences]:
    """Exact bounds of (n, variables) cells of one component, with feasible tables that reach their ends.

    The tables are differences from the true one, each checked in integers. An inner end from a decomposable cover needs
    no table, see `Structure.cover`. Raises ReleaseError beyond 4,096 cells.
    """
    found, tables = _searched(table, knowledge, cells)
    return found, Differences.between(table, tables)


def _searched(table: Table, knowledge: Knowledge, cells: Codes) -> tuple[CellBounds, list[Counts]]:
    if table.schema.cells > MAX_CELLS:
        return integer_program.search(table, knowledge, cells)[:2]
    found, tables, _ = branch_and_bound.search_within(STEPS, table, knowledge, cells)
    rows = np.flatnonzero(~found.exact)
    if not len(rows):
        return found, tables
    rest, more, _ = integer_program.search(table, knowledge, cells[rows])
    return found.narrowed(rows, rest), tables + more
