"""Units of an evaluation, as workers run them: cells of one component to be moved, or to be bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sdc.bounds import collapse, exact, integer_program
from sdc.bounds.method import is_small
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.feasible.suppressed_cells import PricedCells
from sdc.feasible.walk import Moved, Shifted
from sdc.feasible.witness_pool import CellRows
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.recent import Recent
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.risk.slices import Slice
from sdc.risk.support import Shift

MOST_BYTES = 64 << 20  # of components that a worker keeps
UNITS_LEFT = 8  # fixed, so that units are the same however many workers there are


@dataclass(frozen=True, eq=False)
class MoveUnit:
    """Marginal cells of a component that are to move by these changes.

    variables  the component; knowledge  of its marginal table; held  the slice of that which has the cells
    cells      (n, variables of the component) codes; changes  (n,)
    steps      most nodes a cell
    """

    variables: SubTable
    knowledge: Knowledge
    held: Slice
    cells: Codes
    changes: Counts
    shift: Shift
    steps: int


@dataclass(frozen=True, eq=False)
class PricedUnit:
    """(n,) cells of a component, or places of its suppressed tables, that are to move by their changes."""

    variables: SubTable
    knowledge: Knowledge
    suppressed: PricedCells
    cells: Codes | None
    places: CellRows
    changes: Counts
    tries: range
    nodes: int


@dataclass(frozen=True, eq=False)
class ProvenUnit:
    """Groups of cells of a small component, each the places of some in C order, that are to move: see `moving`."""

    variables: SubTable
    knowledge: Knowledge
    groups: tuple[Counts, ...]
    useful: Counts
    needed: Counts


@dataclass(frozen=True, eq=False)
class Ends:
    """(n, 2) outer bounds of marginal cells, and feasible tables that reach ends of them."""

    outer: Intervals
    differences: Differences
    method: str


def move_cells(table: Table, unit: MoveUnit) -> Moved:
    """Feasible tables of the component that move its cells by the changes asked for, or as far as was found."""
    part = slice_of(component_table(table, unit.variables), unit.held)
    # counts of a slice are not those of a fact: there its view stays whole
    known = unit.knowledge if unit.held.is_whole else unit.knowledge.with_hulls
    return walk.shift(part, known, unit.cells, unit.changes, nodes=unit.steps, tries=unit.shift.tries)


def move_priced(table: Table, unit: PricedUnit) -> Shifted:
    """Differences that move them, cheap in what they change of what is shown."""
    asked = unit.knowledge, unit.suppressed, unit.cells, unit.places, unit.changes
    return walk.shift_priced(component_table(table, unit.variables), *asked, nodes=unit.nodes, tries=unit.tries)


def move_groups(table: Table, unit: ProvenUnit) -> integer_program.GroupsMoved:
    """Differences that move them as far as they must, found or excluded by the integer program."""
    part = component_table(table, unit.variables)
    return integer_program.moving(part, unit.knowledge, unit.groups, unit.useful, unit.needed)


def find_ends(table: Table, unit: tuple[SubTable, Knowledge, Codes]) -> Ends:
    """Exact bounds, with the tables that reach them, where the component is small; else outer bounds by collapse.

    unit  the component, the knowledge of its marginal table, and (n, its variables) codes of cells
    """
    variables, known, cells = unit
    part = component_table(table, variables)
    if is_small(part.schema):
        bounds, tables = exact.search(part, known, cells)
        return Ends(bounds.outer, tables, bounds.method)
    bounds = collapse.bounds(part, known, cells)
    return Ends(bounds.outer, Differences.none(len(part.schema.axes)), bounds.method)


def cut(rows: CellRows, most: int, least: int = 1) -> Iterator[CellRows]:
    """Units that get smaller, so that workers end a round together however many they are.

    Guided self-scheduling (Polychronopoulos and Kuck 1987), as if for `UNITS_LEFT` workers.
    """
    while len(rows):
        size = min(most, max(least, -(-len(rows) // UNITS_LEFT)))
        yield rows[:size]
        rows = rows[size:]


def batches(rows: CellRows, first: int, most: int) -> Iterator[CellRows]:
    """The cells in batches that grow fourfold: by less, and many short rounds wait for their last unit."""
    while len(rows):
        yield rows[:first]
        rows, first = rows[first:], min(4 * first, most)


def bytes_of_search(cells: int, variables: int) -> int:
    """Memory that a unit of a search needs at most, measured: the columns of a component and its marginals."""
    return cells * (16 * variables + 250)


# a worker's units are of few components, one after the other
_components = Recent[tuple[Table, SubTable], Table](MOST_BYTES, lambda part: part.codes.nbytes + part.counts.nbytes)


def component_table(table: Table, variables: SubTable) -> Table:
    if variables == st.full(len(table.schema)):
        return table
    return _components.get((table, variables), lambda: table.marginal(variables))


_kept: dict[tuple[Table, Slice], Table] = {}


def slice_of(table: Table, held: Slice) -> Table:
    """The slice, kept for the units that follow; the one before goes first, with all that was made of it."""
    # one slice and what was made of it at a time: that is what a worker's memory is planned for
    if _kept and (table, held) not in _kept:
        _kept.clear()
        walk.forget()
    if held.is_whole:
        return table
    if not _kept:
        _kept[table, held] = held.of(table)
    return _kept[table, held]


def narrowed(outer: Intervals, rows: CellRows, finer: Intervals) -> Intervals:
    """(n, 2) outer bounds with those of some rows met with finer ones of the same cells."""
    met = outer.copy()
    met[rows, 0] = np.maximum(met[rows, 0], finer[:, 0])
    met[rows, 1] = np.minimum(met[rows, 1], finer[:, 1])
    return met
