"""Every table of non-negative integers that agrees with a release, by depth-first search with propagation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from sdc.bounds.cell_marginals import CellMarginals, check_release
from sdc.bounds.coverage import on_covered_variables
from sdc.bounds.marginal_equations import MarginalEquations
from sdc.bounds.nested import frontier_bounds
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table

MAX_CELLS = 2048
MAX_TABLES = 100_000
MAX_NODES = 2_000_000
BUFFER_BYTES = 8 << 20
UNLIMITED = 1 << 62


@dataclass(frozen=True, eq=False)
class Enumeration:
    """How many tables agree with a release, and the range of every cell over those seen.

    lower, upper   (cells of the full table,) int64 in C order; sharp bounds where `complete`, and
                   reached by feasible tables, so inner bounds, where not
    """

    feasible_tables: int
    complete: bool
    lower: Counts
    upper: Counts

    def __post_init__(self) -> None:
        self.lower.setflags(write=False)
        self.upper.setflags(write=False)


def enumerate_tables(table: Table, release: Release, limit: int | None = None) -> Enumeration:
    """The number of feasible tables and each cell's range over them; with a `limit`, stops beyond that many.

    The true table always counts as seen for the ranges. Time is proportional to the tables and the
    dead ends between them; ReleaseError beyond 2,048 dense cells or for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ReleaseError(f"the limit is {limit} tables; give at least 1, or none to see all")
    return _enumerate(table, release, limit or UNLIMITED, UNLIMITED)


def feasible_tables(table: Table, release: Release) -> Iterator[Counts]:
    """The feasible tables one after another, int64 with the schema's sizes as shape; ReleaseError as above."""
    search = _Search(table, release)
    while len(found := search.more(UNLIMITED, UNLIMITED)):
        yield from found.reshape(-1, *table.schema.sizes).copy()


@on_covered_variables
def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Exact bounds where all feasible tables were seen, within 10^5 tables and 2 * 10^6 nodes; else inner bounds.

    The outer interval is then [0, min over the frontier of n_S(i_S)]. ReleaseError beyond 2,048 cells.
    """
    seen = _enumerate(table, release, MAX_TABLES, MAX_NODES)
    place = np.ravel_multi_index(tuple(cells.T.astype(np.int64)), table.schema.sizes)
    inner = np.stack([seen.lower[place], seen.upper[place]], axis=1)
    marginals = CellMarginals(table, cells)
    outer = inner if seen.complete else frontier_bounds(marginals, release)
    return CellBounds(cells, marginals.counts, outer, inner, "enumeration")


def _enumerate(table: Table, release: Release, max_tables: int, max_nodes: int) -> Enumeration:
    search = _Search(table, release)
    lower, upper, tables = search.truth.copy(), search.truth.copy(), 0
    while len(found := search.more(max_tables - tables, max_nodes)):
        tables += len(found)
        np.minimum(lower, found.min(axis=0), out=lower)
        np.maximum(upper, found.max(axis=0), out=upper)
    complete = search.nodes < max_nodes and not len(search.more(1, max_nodes)) and search.exhausted
    return Enumeration(tables, complete, lower, upper)


class _Search:
    """A depth-first search that can be asked for more tables; its stack is kept between calls."""

    def __init__(self, table: Table, release: Release) -> None:
        check_release(release, table.schema)
        if table.schema.cells > MAX_CELLS:
            raise ReleaseError(
                f"the table has {table.schema.cells} cells, and enumeration takes at most {MAX_CELLS}; "
                "choose another method or a sub-table"
            )
        self.equations = MarginalEquations.of(table, release)
        self.truth = self.equations.truth
        cells = len(self.truth)
        self._lower, self._upper = np.zeros((1, cells), np.int64), np.full((1, cells), table.total)
        self._cell, self._value = np.full(1, -1), np.zeros(1, np.int64)
        self.nodes, self._depth = 0, 0
        self._start()

    @property
    def exhausted(self) -> bool:
        return self._depth < 0

    def _start(self) -> None:
        """Propagate once, then make room for one level a cell that is still free."""
        lower, upper = self._lower[0], self._upper[0]
        _propagate(lower, upper, *self.equations.arrays, np.arange(len(self.equations.totals)))
        levels = int((lower < upper).sum()) + 2
        self._lower, self._upper = np.tile(lower, (levels, 1)), np.tile(upper, (levels, 1))
        self._cell, self._value = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
        free = np.where(lower < upper, upper - lower, UNLIMITED)
        self._cell[0] = int(free.argmin())
        self._value[0] = lower[self._cell[0]]

    def more(self, tables: int, max_nodes: int) -> npt.NDArray[np.int64]:
        """(at most `tables`, cells) further tables; none where the search or the nodes are exhausted."""
        buffer = np.empty((min(tables, max(1, BUFFER_BYTES // (8 * len(self.truth)))), len(self.truth)), np.int64)
        found, self._depth, self.nodes = _advance(
            self._lower,
            self._upper,
            self._cell,
            self._value,
            self._depth,
            self.nodes,
            max_nodes,
            *self.equations.arrays,
            buffer,
        )
        return buffer[:found]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _propagate(
    lower: Counts,
    upper: Counts,
    totals: Counts,
    start: Counts,
    members: Counts,
    cell_start: Counts,
    cell_equations: Counts,
    first: Counts,
) -> bool:
    """Narrow the cells' intervals by the equations until nothing moves; False where no table is left."""
    waiting = np.zeros(len(totals), np.bool_)
    stack = np.empty(len(totals), np.int64)
    height = 0
    for e in first:
        waiting[e] = True
        stack[height] = e
        height += 1
    while height:
        height -= 1
        e = stack[height]
        waiting[e] = False
        low, up = np.int64(0), np.int64(0)
        for i in members[start[e] : start[e + 1]]:
            low += lower[i]
            up += upper[i]
        if low > totals[e] or up < totals[e]:
            return False
        for i in members[start[e] : start[e + 1]]:
            new_low = max(lower[i], totals[e] - up + upper[i])
            new_up = min(upper[i], totals[e] - low + lower[i])
            if new_low > new_up:
                return False
            if new_low != lower[i] or new_up != upper[i]:
                low, up = low + new_low - lower[i], up + new_up - upper[i]
                lower[i], upper[i] = new_low, new_up
                for other in cell_equations[cell_start[i] : cell_start[i + 1]]:
                    if not waiting[other]:
                        waiting[other] = True
                        stack[height] = other
                        height += 1
    return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _narrowest(lower: Counts, upper: Counts) -> int:
    """The free cell with the narrowest interval, -1 where none is free."""
    best, width = -1, np.int64(UNLIMITED)
    for i in range(len(lower)):
        if 0 < upper[i] - lower[i] < width:
            best, width = i, upper[i] - lower[i]
    return best


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _advance(
    lower: npt.NDArray[np.int64],
    upper: npt.NDArray[np.int64],
    cell: Counts,
    value: Counts,
    depth: int,
    nodes: int,
    max_nodes: int,
    totals: Counts,
    start: Counts,
    members: Counts,
    cell_start: Counts,
    cell_equations: Counts,
    buffer: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Go on from level `depth`, at which `cell` takes `value` next, until the buffer is full or all is seen."""
    found = 0
    while depth >= 0 and found < len(buffer) and nodes < max_nodes:
        i = cell[depth]
        if value[depth] > upper[depth, i]:
            depth -= 1
            continue
        below = depth + 1
        lower[below], upper[below] = lower[depth], upper[depth]
        lower[below, i] = upper[below, i] = value[depth]
        value[depth] += 1
        nodes += 1
        first = cell_equations[cell_start[i] : cell_start[i + 1]]
        if _propagate(lower[below], upper[below], totals, start, members, cell_start, cell_equations, first):
            free = _narrowest(lower[below], upper[below])
            if free < 0:
                buffer[found] = lower[below]
                found += 1
            else:
                depth = below
                cell[depth], value[depth] = free, lower[below, free]
    return found, depth, nodes
