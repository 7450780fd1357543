"""Reducible releases: components at released separators are bounded on their own, and their bounds combine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sdc.bounds import branch_and_bound
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.coverage import Bounds, on_covered_variables
from sdc.model.graph import Decomposition
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells: branch and bound on each component, explicit where it is one sub-table."""
    return bounds_by(branch_and_bound.bounds, table, release, cells)


def bounds_by(component_bounds: Bounds, table: Table, release: Release, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells from those of the components' marginal cells ([DKS], reducible models).

    They combine as in `cell_bounds.combine`: exact bounds of the components give exact ones. The variables of a
    structural zero stay in one component, so no impossible cell is filled.

    A component within a released sub-table is known; `component_bounds` is asked once for the different
    cells of each other one, and where it is alone for the cells as they are.
    """

    @on_covered_variables
    def combined(table: Table, release: Release, cells: Codes) -> CellBounds:
        parts = components_of(table, release)
        if len(parts.cliques) == 1:
            return component_bounds(table, release, cells)
        bounded = [_of_component(component_bounds, table, release, cells, part) for part in parts.cliques]
        between = sum((table.marginal_at(part, cells) for part in parts.separators), np.zeros(len(cells), np.int64))
        outer, inner = (combine(of_parts, between) for of_parts in zip(*bounded, strict=True))
        return CellBounds(cells, table.count_at(cells), outer, inner, "reducible")

    return combined(table, release, cells)


def components_of(table: Table, release: Release) -> Decomposition:
    """The components of a release of the table; the variables of each of its structural zeros stay together."""
    return components(release, len(table.schema), table.zeros.subtables)


@lru_cache(maxsize=1024)
def components(release: Release, variables: int, together: tuple[SubTable, ...] = ()) -> Decomposition:
    """`graph.components`, remembered; each sub-table of `together` lies within one component too."""
    return graph.components(graph.independence_graph([*release.frontier, *together], variables), release)


def _of_component(
    component_bounds: Bounds, table: Table, release: Release, cells: Codes, part: SubTable
) -> tuple[Intervals, Intervals]:
    """(n, 2) outer and inner bounds of the cells' marginal cells in one component."""
    if part in release:
        counts = table.marginal_at(part, cells)
        known = np.stack([counts, counts], axis=1)
        return known, known
    kept = st.members(part)
    different, row = np.unique(cells[:, kept], axis=0, return_inverse=True)
    found = component_bounds(table.marginal(part), release.within(part), different)
    return found.outer[row], found.inner[row]
