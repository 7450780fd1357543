"""How far can a cell move, given a release: one question, many methods, and the choice among them."""

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

# measured: exact methods take up to 0.2 s a cell of 256, and 4 s without a proof of 512 (2^9, 3-way)
SMALL_TABLE_CELLS = 256
# measured: 0.8 s a cell with 432 independent marginal cells
LINEAR_ROWS = 512

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
    """Bounds of (n, variables) uint16 cells of the table, any cells, for whoever knows that of it.

    What is impossible is what the knowledge says, whatever the table says. ReleaseError where it cannot treat it.
    """

    def __call__(self, table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds: ...


def method_names() -> tuple[str, ...]:
    """What `cell_bounds` takes as a method, the choice of its own first."""
    return ("auto", *MODULES)


def method_called(name: str) -> Method:
    """The method of that name, its solver or kernels imported only now; ReleaseError where there is none."""
    if name == "auto":
        return _auto
    if name not in MODULES:
        raise ReleaseError(f"unknown method {name!r}; choose one of {', '.join(method_names())}")
    return cast(Method, import_module(MODULES[name]).bounds)


def cell_bounds(table: Table, knowledge: Knowledge, cells: Codes, method: str = "auto") -> CellBounds:
    """Bounds of (n, variables) cells of the table, zero cells too, for whoever knows that of it.

    `auto` takes the cheapest method that is exact enough: explicit bounds where the release is
    decomposable; else nested bounds, and for the cells that they leave open it splits the release at released
    separators and takes for each component the explicit solution of dichotomous tables, an exact method (at most
    256 cells), the linear program (at most 2^19 cells and 512 independent marginal cells), or collapse.
    `CellBounds.method` says which.
    ReleaseError for an unknown method or knowledge of another table.
    """
    knowledge.check_is_of(table)
    return method_called(method)(table, knowledge, cells)


def cheap_bounds(marginals: CellMarginals, knowledge: Knowledge) -> CellBounds:
    """Bounds that are nearly free for all cells at once: explicit where the release is decomposable, else nested.

    Exact in the first case, outer and inner in the second. Asked again with the same `marginals` and knowledge it
    costs a few array operations a clique.
    """
    if knowledge.structure.decomposition is None:
        return nested.bounds_at(marginals, knowledge)
    return decomposable.bounds_at(marginals, knowledge)


def is_small(schema: Schema) -> bool:
    """Whether `auto` runs an exact method on what the cheap bounds leave open."""
    return schema.cells <= SMALL_TABLE_CELLS


def _auto(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    cheap = cheap_bounds(CellMarginals(table, cells), knowledge)
    rows = np.flatnonzero(~cheap.exact)
    if not len(rows):
        return cheap
    from sdc.bounds import reducible

    return cheap.narrowed(rows, reducible.bounds_by(_of_component, table, knowledge, cheap.cells[rows]))


def _of_component(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """The further method for a release that no released separator splits."""
    from sdc.bounds import dichotomous, linear_program

    if dichotomous.is_treatable(knowledge.structure.essential, table.schema) and not knowledge.facts:
        return dichotomous.bounds(table, knowledge, cells)
    if is_small(table.schema):
        return method_called("exact")(table, knowledge, cells)
    # the linear program looks at all cells, collapse at one cell's surroundings: as a rule it is tighter
    affordable = linear_program.is_affordable(knowledge, linear_program.Room(LINEAR_ROWS))
    name = "linear-program" if affordable else "collapse"
    return method_called(name)(table, knowledge, cells)
