"""Bounds of many cells, shared among workers: by a method that is named, or by all until a small budget is spent."""

from __future__ import annotations

import numpy as np

from sdc.bounds.method import cell_bounds, quick_bounds
from sdc.executor import Executor
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.sharpness import AUTO_SECONDS
from sdc.model.table import Codes, Table
from sdc.risk.sharp import sharp_bounds


def bounds_of_cells(table: Table, unit: tuple[Knowledge, Codes, str]) -> CellBounds:
    return cell_bounds(table, *unit)


def bounds_in_units(table: Table, knowledge: Knowledge, cells: Codes, method: str, executor: Executor) -> CellBounds:
    """Bounds of many cells; the number of workers does not change them.

    `auto` gives quick bounds where these are sharp, else the sharp bounds found within `AUTO_SECONDS`.
    """
    if method == "auto":
        known = quick_bounds(table, knowledge, cells)
        return known or sharp_bounds(table, knowledge, cells, seconds=AUTO_SECONDS, executor=executor).bounds
    # four for each worker: cells differ in cost, and a long last unit would make the others wait
    pieces = np.array_split(cells, min(len(cells), 4 * executor.workers if executor.workers > 1 else 1))
    units = [(knowledge, piece, method) for piece in pieces]
    return CellBounds.concatenated(list(executor.run(bounds_of_cells, table, units)))
