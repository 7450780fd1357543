"""How far can a cell move, given a release: one question, many methods, and the choice among them."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import numpy as np

from sdc.bounds import decomposable, nested
from sdc.model.cell_bounds import CellBounds
from sdc.model.coverage import essential
from sdc.model.errors import ReleaseError
from sdc.model.marginal import CellMarginals, check_release
from sdc.model.release import Release
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
    """Bounds of (n, variables) uint16 cells of the table, any cells, under any release it can treat.

    ReleaseError where it cannot.
    """

    def __call__(self, table: Table, release: Release, cells: Codes) -> CellBounds: ...


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


def cell_bounds(table: Table, release: Release, cells: Codes, method: str = "auto") -> CellBounds:
    """Bounds of (n, variables) cells of the table under the release, zero cells too.

    `auto` takes the cheapest method that is exact enough: explicit bounds where the release is
    decomposable; else nested bounds, and for the cells that they leave open it splits the release at released
    separators and takes for each component the explicit solution of dichotomous tables, an exact method (at most
    256 cells), the linear program (at most 2^18 cells and 512 independent marginal cells), or collapse.
    `CellBounds.method` says which.
    ReleaseError for an unknown method or a variable that the table does not have.
    """
    bounds = method_called(method)
    check_release(release, table.schema)
    return bounds(table, release, cells)


def cheap_bounds(marginals: CellMarginals, release: Release) -> CellBounds:
    """Bounds that are nearly free for all cells at once: explicit where the release is decomposable, else nested.

    Exact in the first case, outer and inner in the second. Asked again with the same `marginals` it costs a
    few array operations a clique.
    """
    schema = marginals.table.schema
    check_release(release, schema)
    if decomposable.decomposition_of(essential(release, schema), len(schema)) is None:
        return nested.bounds_at(marginals, release)
    return decomposable.bounds_at(marginals, release)


def is_small(schema: Schema) -> bool:
    """Whether `auto` runs an exact method on what the cheap bounds leave open."""
    return schema.cells <= SMALL_TABLE_CELLS


def _auto(table: Table, release: Release, cells: Codes) -> CellBounds:
    cheap = cheap_bounds(CellMarginals(table, cells), release)
    rows = np.flatnonzero(~cheap.exact)
    if not len(rows):
        return cheap
    from sdc.bounds import reducible

    return cheap.narrowed(rows, reducible.bounds_by(_of_component, table, release, cheap.cells[rows]))


def _of_component(table: Table, release: Release, cells: Codes) -> CellBounds:
    """The further method for a release that no released separator splits."""
    from sdc.bounds import dichotomous, linear_program

    covered = essential(release, table.schema)
    if dichotomous.is_treatable(covered, table.schema):
        return dichotomous.bounds(table, release, cells)
    if is_small(table.schema):
        return method_called("exact")(table, release, cells)
    affordable = linear_program.is_affordable(table, covered, LINEAR_ROWS)
    name = "linear-program" if affordable else "collapse"
    return method_called(name)(table, release, cells)
