"""Reducible releases: components at released separators are bounded separately, and their bounds combined."""

from __future__ import annotations

import numpy as np

from sdc.bounds import branch_and_bound
from sdc.bounds.covered import Bounds, on_covered_variables
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells: branch and bound on each component, explicit for a single sub-table."""
    return bounds_by(branch_and_bound.bounds, table, knowledge, cells)


def bounds_by(component_bounds: Bounds, table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells from those of the components' marginal cells ([DKS], reducible models).

    They combine as in `cell_bounds.combine`: exact bounds of the components give exact ones. The variables of a
    structural zero stay in one component, so no impossible cell is filled. A component within a released sub-table is
    known; for each other one `component_bounds` is called once with its distinct cells, or with the cells unchanged if
    it is the only one.
    """

    @on_covered_variables
    def combined(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        parts = knowledge.structure.components
        if len(parts.cliques) == 1:
            return component_bounds(table, knowledge, cells)
        bounded = [_of_component(component_bounds, table, knowledge, cells, part) for part in parts.cliques]
        between = sum((table.marginal_at(part, cells) for part in parts.separators), np.zeros(len(cells), np.int64))
        outer, inner = (combine(of_parts, between) for of_parts in zip(*bounded, strict=True))
        return CellBounds(cells, table.count_at(cells), outer, inner, "reducible")

    return combined(table, knowledge, cells)


def _of_component(
    component_bounds: Bounds, table: Table, knowledge: Knowledge, cells: Codes, part: SubTable
) -> tuple[Intervals, Intervals]:
    """(n, 2) outer and inner bounds of the cells' marginal cells in one component."""
    if part in knowledge.release:
        counts = table.marginal_at(part, cells)
        known = np.stack([counts, counts], axis=1)
        return known, known
    # many cells share a marginal cell, whose bounds are expensive
    marginal_cells = table.schema.marginal_cells(cells, part)
    different, row = np.unique(marginal_cells, axis=0, return_inverse=True)
    found = component_bounds(table.marginal(part), knowledge.within(part), different)
    return found.outer[row], found.inner[row]
