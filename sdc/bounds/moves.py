"""Inner bounds by walks of moves from the true table."""

from __future__ import annotations

from sdc.bounds.nested import frontier_bounds
from sdc.feasible.walk import find, reached
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.table import Codes, Table

BOUNDS_NODES = 1_000  # some 0.1 s for each cell and direction


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Inner bounds of (n, variables) cells; outer is [0, min over the frontier of n_S(i_S)].

    Each cell moves down and up as far as `BOUNDS_NODES` nodes of search allow; every table is checked in integers and
    serves all cells. Raises ReleaseError if `can_search` refuses.
    """
    marginals = CellMarginals(table, cells)
    outer = frontier_bounds(marginals, knowledge.release)
    outer[marginals.impossible(knowledge.zeros), 1] = 0
    found = find(table, knowledge, marginals.cells, outer[:, 1], nodes=BOUNDS_NODES)
    inner = reached(found.differences, marginals.cells, marginals.counts, table)
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "moves")
