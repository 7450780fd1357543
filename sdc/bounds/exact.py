"""Sharp integer bounds, whichever gets there sooner: branch and bound, then the integer program for what is open."""

from __future__ import annotations

import numpy as np

from sdc.bounds import branch_and_bound, integer_program, reducible
from sdc.feasible.depth_first import MAX_CELLS
from sdc.feasible.differences import Differences
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table

# measured: nearly every end that a second settles is settled in these; the solver takes 5 to 100 ms an end
STEPS = 1 << 17


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Exact bounds of (n, variables) cells where the solver finishes its proofs; see `integer_program.bounds`.

    A reducible release is split first. In each component branch and bound has about 3 ms an end, in
    steps and not by a clock; beyond 2,048 cells it is left out. ReleaseError where a component has more
    than 4,096 cells.
    """
    return reducible.bounds_by(lambda *component: _searched(*component)[0], table, knowledge, cells)


def search(table: Table, knowledge: Knowledge, cells: Codes) -> tuple[CellBounds, Differences]:
    """Exact bounds of (n, variables) cells of one component, with feasible tables that reach their ends.

    The tables are differences from the true one, each checked in integers when it was found. Where an inner end is
    that of a decomposable cover no table need be among them: see `Structure.cover`. ReleaseError beyond 4,096 cells.
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
