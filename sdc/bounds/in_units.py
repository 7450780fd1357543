"""Bounds of many cells, shared between the workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdc.bounds.method import cell_bounds
from sdc.executor import Executor
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Table


@dataclass(frozen=True, eq=False)
class BoundsUnit:
    """(n, variables) cells whose bounds a method gives under what is known."""

    knowledge: Knowledge
    cells: Codes
    method: str


def bounds_of_cells(table: Table, unit: BoundsUnit) -> CellBounds:
    """What a worker does of it."""
    return cell_bounds(table, unit.knowledge, unit.cells, unit.method)


def bounds_in_units(table: Table, knowledge: Knowledge, cells: Codes, method: str, executor: Executor) -> CellBounds:
    """Bounds of many cells, cut into as many units as keep the workers busy; the cut does not change them."""
    # four a worker: cells differ in cost, and one long piece at the end would keep the others waiting
    pieces = np.array_split(cells, min(len(cells), 4 * executor.workers if executor.workers > 1 else 1))
    units = [BoundsUnit(knowledge, piece, method) for piece in pieces]
    return CellBounds.concatenated(list(executor.run(bounds_of_cells, table, units)))
