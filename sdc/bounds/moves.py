"""Inner bounds by basic moves, one after another."""

from __future__ import annotations

from sdc.bounds.nested import frontier_bounds
from sdc.feasible.moves import EFFORTS, find, reached
from sdc.model.cell_bounds import CellBounds
from sdc.model.marginal import CellMarginals, check_release
from sdc.model.release import Release
from sdc.model.table import Codes, Table

BOUNDS_NODES = 20_000


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Inner bounds of (n, variables) cells; outer is [0, min over the frontier of n_S(i_S)].

    Each cell is moved as far as `BOUNDS_NODES` nodes of search allow, down and then up, every table found is
    checked in integers and serves all the cells. ReleaseError where `can_search` says no.
    """
    check_release(release, table.schema)
    marginals = CellMarginals(table, cells)
    outer = frontier_bounds(marginals, release)
    outer[marginals.impossible, 1] = 0
    found = find(table, release, marginals.cells, outer[:, 1], effort=EFFORTS, nodes=BOUNDS_NODES)
    inner = reached(found.differences, marginals.cells, marginals.counts, table)
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "moves")
