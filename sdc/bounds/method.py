"""The methods for bounds of cells, and the choice among them."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import numpy as np

from sdc.bounds import decomposable, nested
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.schema import Schema
from sdc.model.table import Codes, Table

# measured: exact methods take up to 0.2 s for a cell of 256, and 4 s without a proof for one of 512 (2^9, 3-way)
SMALL_TABLE_CELLS = 256
# measured: 0.8 s for a cell with 432 independent marginal cells
LINEAR_ROWS = 512
QUICK_STEPS = 1 << 18  # of branch and bound for each end, in less than 0.01 s

MODULES = {
    "decomposable": "sdc.bounds.decomposable",
    "nested": "sdc.bounds.nested",
    "shuttle": "sdc.bounds.shuttle",
    "collapse": "sdc.bounds.collapse",
    "enumeration": "sdc.bounds.enumeration",
    "integer-program": "sdc.bounds.integer_program",
    "reducible": "sdc.bounds.reducible",
    "branch-and-bound": "sdc.bounds.branch_and_bound",
    "exact": "sdc.bounds.exact",
    "linear-program": "sdc.bounds.linear_program",
    "moves": "sdc.bounds.moves",
    "dichotomous": "sdc.bounds.dichotomous",
}


class Method(Protocol):
    """Bounds of (n, variables) uint16 cells of the table under the knowledge.

    The knowledge, not the table, determines impossible cells. Raises ReleaseError if the method cannot treat it.
    """

    def __call__(self, table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds: ...


def method_names() -> tuple[str, ...]:
    """The names for `cell_bounds`, the automatic choice first."""
    return ("auto", *MODULES)


def method_called(name: str) -> Method:
    """The method of that name, imported on demand; ReleaseError for an unknown name."""
    if name == "auto":
        return _auto
    if name not in MODULES:
        raise ReleaseError(f"unknown method {name!r}; choose one of {', '.join(method_names())}")
    return cast(Method, import_module(MODULES[name]).bounds)


def cell_bounds(table: Table, knowledge: Knowledge, cells: Codes, method: str = "auto") -> CellBounds:
    """Bounds of (n, variables) cells of the table, zero cells too, under the knowledge.

    `auto` takes the fastest method that is exact enough: explicit bounds for a decomposable release; else nested
    bounds, and for cells that they leave open it splits the release at released separators and takes for each component
    the explicit solution of dichotomous tables, an exact method (at most 256 cells), the linear program (at most 2^19
    cells and 512 independent marginal cells), or collapse. `CellBounds.method` has the choice. Raises ReleaseError for
    an unknown method or knowledge of another table.
    """
    knowledge.check_is_of(table)
    return method_called(method)(table, knowledge, cells)


def cheap_bounds(marginals: CellMarginals, knowledge: Knowledge) -> CellBounds:
    """Fast bounds for all cells at once: explicit if the release is decomposable, else nested.

    Exact in the first case, outer and inner in the second. A repeated call with the same `marginals` and knowledge
    costs a few array operations for each clique.
    """
    if knowledge.structure.decomposition is None:
        return nested.bounds_at(marginals, knowledge)
    return decomposable.bounds_at(marginals, knowledge)


def quick_bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds | None:
    """Sharp bounds of (n, variables) cells by formulas and short searches; None if these do not settle all cells.

    Raises ReleaseError for knowledge of another table.
    """
    knowledge.check_is_of(table)
    found = _by_component(_quickly, table, knowledge, cells)
    return found if found.exact.all() else None


def is_small(schema: Schema) -> bool:
    """Whether `auto` runs an exact method on cells that the cheap bounds leave open."""
    return schema.cells <= SMALL_TABLE_CELLS


def _auto(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    return _by_component(_thoroughly, table, knowledge, cells)


def _by_component(of_component: Method, table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """The cheap bounds, and for cells that they leave open those of each component that no separator splits."""
    cheap = cheap_bounds(CellMarginals(table, cells), knowledge)
    rows = np.flatnonzero(~cheap.exact)
    if not len(rows):
        return cheap
    from sdc.bounds import reducible

    return cheap.narrowed(rows, reducible.bounds_by(of_component, table, knowledge, cheap.cells[rows]))


def _quickly(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    from sdc.bounds import branch_and_bound, dichotomous

    if _is_dichotomous(table, knowledge):
        return dichotomous.bounds(table, knowledge, cells)
    if is_small(table.schema):
        return branch_and_bound.bounds_within(QUICK_STEPS, table, knowledge, cells)
    return nested.bounds(table, knowledge, cells)


def _thoroughly(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    from sdc.bounds import dichotomous, linear_program

    if _is_dichotomous(table, knowledge):
        return dichotomous.bounds(table, knowledge, cells)
    if is_small(table.schema):
        return method_called("exact")(table, knowledge, cells)
    # the linear program uses all cells, collapse the surroundings of one: usually it is tighter
    affordable = linear_program.is_affordable(knowledge, linear_program.Room(LINEAR_ROWS))
    name = "linear-program" if affordable else "collapse"
    return method_called(name)(table, knowledge, cells)


def _is_dichotomous(table: Table, knowledge: Knowledge) -> bool:
    from sdc.bounds import dichotomous

    return dichotomous.is_treatable(knowledge.structure.essential, table.schema) and not knowledge.facts
