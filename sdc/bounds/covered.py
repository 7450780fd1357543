"""Bounds on the covered variables only: methods run on their marginal table."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import as_cells
from sdc.model.table import Codes, Table

Bounds = Callable[[Table, Knowledge, Codes], CellBounds]


def on_covered_variables(bounds: Bounds) -> Bounds:
    """Apply a method to the marginal table of the covered variables, and restore bounds of cells.

    Sharp bounds stay sharp. Variables of structural zeros stay too, because records cannot move freely among their
    categories. If nothing is covered, one axis stays. The method gets `Knowledge.reduced`: no released sub-table has a
    variable with one category.
    """

    @wraps(bounds)
    def reduced(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        cells = as_cells(cells, table.schema)
        used = knowledge.structure.looked_at
        if used == st.full(len(table.schema)):
            return bounds(table, knowledge.reduced, cells)
        inside = bounds(table.marginal(used), knowledge.reduced, table.schema.marginal_cells(cells, used))
        floating = table.schema.shared(used, cells)
        outer, inner = _put_back(inside.outer, floating), _put_back(inside.inner, floating)
        return CellBounds(cells, table.count_at(cells), outer, inner, inside.method)

    return reduced


def _put_back(intervals: Intervals, floating: npt.NDArray[np.bool_]) -> Intervals:
    # the records of the marginal cell may have any category of an unknown variable: from 0 to the marginal cell's
    # maximum
    return np.where(floating[:, None], intervals * np.array([0, 1]), intervals)
