"""Bounds on the variables that something is known of: the others are taken out, and bounds put back."""

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
    """The method applied to the marginal table of the covered variables, its bounds put back.

    Sharp bounds stay sharp. Variables that structural zeros name are kept too, because a record cannot move freely
    among their categories. Where nothing is covered one axis is kept. The method sees `Knowledge.reduced`: no
    released sub-table has a variable of one category.
    """

    @wraps(bounds)
    def reduced(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        cells = as_cells(cells, table.schema)
        kept = knowledge.structure.looked_at
        if kept == st.full(len(table.schema)):
            return bounds(table, knowledge.reduced, cells)
        inside = bounds(table.marginal(kept), knowledge.reduced, table.schema.marginal_cells(cells, kept))
        floating = table.schema.shared(kept, cells)
        outer, inner = _put_back(inside.outer, floating), _put_back(inside.inner, floating)
        return CellBounds(cells, table.count_at(cells), outer, inner, inside.method)

    return reduced


def _put_back(intervals: Intervals, floating: npt.NDArray[np.bool_]) -> Intervals:
    # all records of the marginal cell may have another category of a variable that nothing is known of, or all this
    # one: from 0 to whatever the marginal cell may have
    return np.where(floating[:, None], intervals * np.array([0, 1]), intervals)
