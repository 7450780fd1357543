"""Ends of cells, searched one after another: a table found for one serves all."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.model.cell_bounds import CellBounds
from sdc.model.table import Counts

STEPS_PER_SECOND = 10_000  # of a reference core: 0.1 ms each


class Reached(NamedTuple):
    """The result for one end of a cell.

    proven  no feasible table goes beyond
    table   (cells,) a dense feasible table beyond the known end, None if none was found
    steps   the cost in 0.1 ms of a reference core, not by a clock
    """

    proven: int
    table: Counts | None
    steps: int


Farthest = Callable[[int, int, int, int], Reached]
"""Searches the lower (0) or upper end (1) of a dense cell, given the known outer and inner end."""


class Settled(NamedTuple):
    """Bounds with the dense tables, in C order, that reach the inner ends found, and the steps."""

    bounds: CellBounds
    tables: list[Counts]
    steps: int


def settled(
    known: CellBounds,
    place: npt.NDArray[np.int64],
    farthest: Farthest,
    method: str,
    wanted: npt.NDArray[np.bool_] | None = None,
) -> Settled:
    """Both ends of one cell after another, those that are open and `wanted`, (n, 2), starting from known bounds.

    place  (n,) the dense cell of each
    """
    outer, inner, tables, steps = known.outer.copy(), known.inner.copy(), list[Counts](), 0
    is_wanted = np.ones(outer.shape, np.bool_) if wanted is None else wanted
    for row, end in np.argwhere(is_wanted & (outer != inner)).tolist():
        # a table found for one cell may have decided this end already
        if outer[row, end] == inner[row, end]:
            continue
        found = farthest(int(place[row]), end, int(outer[row, end]), int(inner[row, end]))
        outer[row, end] = min(outer[row, end], found.proven) if end else max(outer[row, end], found.proven)
        steps += found.steps
        if found.table is not None:
            tables.append(found.table)
            np.minimum(inner[:, 0], found.table[place], out=inner[:, 0])
            np.maximum(inner[:, 1], found.table[place], out=inner[:, 1])
    return Settled(CellBounds(known.cells, known.counts, outer, inner, method), tables, steps)
