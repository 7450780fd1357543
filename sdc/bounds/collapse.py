"""The shuttle on a table collapsed around one cell: {own category, rest} of every variable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from sdc.bounds import collapse_kernel as kernel
from sdc.bounds.collapse_kernel import LANES, OWN, REST, SUM, SuperCells
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import ReleaseError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals, as_cells
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import Pattern
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

# 3^15 super-cells with two ends of 32 bits take 115 MB, and three times that for each further variable
MAX_VARIABLES = 15
MAX_DICHOTOMOUS = 16  # more, because one propagation serves all cells
# average limit of sweeps of a tile; measured: 3 to 54, for any counts
LEAST_SWEEPS, SWEEPS_A_BIT = 64, 16


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Outer bounds of (n, variables) cells by `Collapse`; inner is the count.

    0.04 s for each cell with 13 variables; InputError and ReleaseError as there.
    """
    cells = as_cells(cells, table.schema)
    outer = Collapse(table, knowledge).outer(cells)
    counts = table.count_at(cells)
    return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "collapse")


def bytes_of_collapse(table: Table) -> int:
    """Memory of the largest collapsed table; a process has one at a time."""
    variables, dichotomous = len(table.schema), st.dimension(_dichotomous(table.schema))
    limit = MAX_DICHOTOMOUS if dichotomous >= MAX_DICHOTOMOUS else MAX_VARIABLES
    return int(3 ** min(variables, limit) * 2 * _count_type(table).itemsize)


class Collapse:
    """Outer bounds of cells of one table under one knowledge.

    Every feasible table collapses to a feasible one that contains the cell, so the shuttle's bounds on the 3^K
    super-cells {own, rest, sum}^K contain the sharp ones, for any number of categories. K counts the variables in the
    release or the structural zeros. Sharp for dichotomous tables wherever the shuttle is ([DKS] section 4). A
    super-cell inside a pattern of the structural zeros is 0, and so is one with a category outside its group at a
    coarser level. Beyond 15 variables, 15 are chosen around each cell, see `variables_around`; the upper bound of that
    marginal cell holds for the cell, the lower bound becomes 0. Cells that differ only in dichotomous variables share
    their collapsed table, up to the roles of own and rest, and so one propagation: dichotomous tables need one in all,
    and may have 16 variables. A propagation takes 0.03 to 0.05 s and 13 MB for K = 13, three to four times that for
    each further variable. Instances do not change: threads may share them.
    """

    def __init__(self, table: Table, knowledge: Knowledge) -> None:
        self._table, self._knowledge = table, knowledge
        self._covered = knowledge.structure.covered & knowledge.structure.varying
        self._dichotomous = _dichotomous(table.schema)

    def at(self, cell: npt.NDArray[np.integer]) -> tuple[int, int]:
        """Lower and upper bound of one cell, (axes,) codes; InputError for an invalid cell."""
        lower, upper = self.outer(np.asarray(cell)[None, :])[0].tolist()
        return lower, upper

    def outer(self, cells: npt.NDArray[np.integer]) -> Intervals:
        """(n, 2) int64 bounds of (n, axes) cells; InputError for an invalid cell."""
        cells = as_cells(cells, self._table.schema)
        chosen = self.variables_around(cells)
        outer = np.zeros((len(cells), 2), np.int64)
        for subtable in dict.fromkeys(chosen):
            rows = np.flatnonzero([other == subtable for other in chosen])
            outer[rows] = self._outer_within(subtable, cells[rows])
        return outer

    def variables_around(self, cells: npt.NDArray[np.integer]) -> list[SubTable]:
        """The variables of the collapsed table around each of (n, axes) cells.

        All covered ones if they are at most 15, or 16 dichotomous ones. Otherwise, by cell, first those of the released
        frontier sub-table with the smallest count at the cell, so that this count still bounds it; then those whose
        category has the smallest count.
        """
        limit = MAX_DICHOTOMOUS if st.is_within(self._covered, self._dichotomous) else MAX_VARIABLES
        if st.dimension(self._covered) <= limit:
            return [self._covered] * len(cells)
        marginals = CellMarginals(self._table, cells)
        members, frontier = st.members(self._covered), self._knowledge.structure.essential.frontier
        smallest = np.argmin([marginals.at(element) for element in frontier], axis=0)
        one_way = np.array([marginals.at(1 << v) for v in members])
        within = np.array([[st.has(frontier[i], v) for i in smallest] for v in members])
        order = np.lexsort([one_way, ~within], axis=0)[:MAX_VARIABLES]
        return [st.of(members[k] for k in column) for column in order.T]

    def _outer_within(self, chosen: SubTable, cells: Codes) -> Intervals:
        """(n, 2) bounds from the collapsed table of these variables, one propagation for each choice of the others."""
        members = st.members(chosen)
        collapsed = _Collapsed(self._table, self._knowledge, members)
        # cells that differ only in dichotomous variables have the same collapsed table with own and rest exchanged:
        # such a cell is found at digit 1
        strides = np.array([3**k if st.has(self._dichotomous, v) else 0 for k, v in enumerate(members)], np.int64)
        is_shared = np.array([st.has(self._dichotomous, v) for v in range(len(self._table.schema))])
        outer, columns = np.zeros((len(cells), 2), np.int64), self._table.schema.columns(cells)
        for rows in sharing(self._table.schema, cells, chosen):
            # not one of the cells: the result must not depend on the set of cells
            around = np.where(is_shared, 0, columns[rows[0]])
            collapsed.settle_around(around)
            outer[rows] = collapsed.at((columns[rows] != around)[:, members] @ strides)
        # the lower bound of a marginal cell with several cells is none of a single cell
        outer[self._table.schema.shared(self._table.schema.levels.closed(chosen), cells), 0] = 0
        return outer


def _dichotomous(schema: Schema) -> SubTable:
    """The variables of two categories; none of an axis with levels, whose categories are not own and rest of each
    other.
    """
    return st.of(v for v, size in enumerate(schema.sizes) if size == 2 and schema.levels.of_axis[v] == 1 << v)


def sharing(schema: Schema, cells: Codes, chosen: SubTable) -> list[npt.NDArray[np.int64]]:
    """The rows of cells that agree in the non-dichotomous variables: one propagation serves each group.

    The rows are ascending in each group; no group without cells.
    """
    agreeing = st.members(schema.levels.finest(chosen & ~_dichotomous(schema)))
    ids = schema.space(agreeing).numbers(schema.columns(cells, agreeing))
    order = np.argsort(ids, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(ids[order])) + 1) if len(cells) else []


class _Collapsed:
    """Memory for one collapsed table of the given variables, filled for one cell after another; for one thread.

    Variable k of K has stride 3^k in the number of a super-cell, with digit 0 for own, 1 for rest, 2 for their sum.
    """

    def __init__(self, table: Table, knowledge: Knowledge, members: tuple[int, ...]) -> None:
        self._table, self._zeros = table, knowledge.zeros
        self._members = members
        self._codes = np.ascontiguousarray(table.schema.columns(table.codes, members).T)
        self._public = _public_supports(knowledge.structure.essential, members)
        self._powers = np.zeros(1, np.int64)
        for k in range(len(members)):
            self._powers = np.concatenate([self._powers, self._powers + 3**k])
        self._number_of_super_cells = int(3 ** len(members))
        self._columns = 3 ** (len(members) // 2)
        shape = -(-self._columns // LANES), self._number_of_super_cells // self._columns * 2 * LANES
        self._nested = tuple(_nested(table.schema, members))
        finest, inside = table.schema.levels.finest, st.of(members)
        self._facts = [_Partly(table, fact) for fact in knowledge.facts if st.is_within(finest(fact.view), inside)]
        self._most_sweeps = LEAST_SWEEPS + SWEEPS_A_BIT * table.total.bit_length()
        self._state: SuperCells = np.empty(shape, _count_type(table))

    def settle_around(self, cell: npt.NDArray[np.integer]) -> None:
        """Narrow the bounds of all super-cells around the cell by own + rest = sum, usually to the fixed point.

        cell  (variables,) codes, levels included
        """
        kernel.fill(self._state, self._table.total, self._columns)
        kernel.publish(self._state, self._public, self._own_counts(cell), self._powers, self._columns)
        for pattern in self._zeros.patterns:
            if (impossible := self._largest_within(pattern, cell)) is not None:
                kernel.assign(self._state, impossible, self._columns, 0, 0)
        for fine, coarse, number in self._nested:
            # own is inside the coarser own; if nothing else is, the rest is outside
            for own, other in (
                ((OWN, REST), (REST, OWN)) if number[cell[self._members[coarse]]] == 1 else ((OWN, REST),)
            ):
                place = self._number_of_super_cells - 1 - (SUM - own) * 3**fine - (SUM - other) * 3**coarse
                kernel.assign(self._state, int(place), self._columns, 0, 0)
        for fact in self._facts:
            strides = [3 ** self._members.index(v) for v in fact.variables]
            rest = self._number_of_super_cells - 1 - SUM * sum(strides)
            for digits, low, high in fact.around(cell):
                place = rest + sum(digit * stride for digit, stride in zip(digits, strides, strict=True))
                kernel.assign(self._state, place, self._columns, low, min(high, self._table.total))
        if kernel.settle(self._state, self._columns, self._most_sweeps) < 0:
            raise ReleaseError("the released marginals contradict each other; make them from one table")

    def at(self, places: npt.NDArray[np.int64]) -> Intervals:
        """(n, 2) bounds of the super-cells with these numbers."""
        row, column = np.divmod(places, self._columns)
        lower = row * 2 * LANES + column % LANES
        return np.stack([self._state[column // LANES, lower], self._state[column // LANES, lower + LANES]], axis=1)

    def _own_counts(self, cell: npt.NDArray[np.integer]) -> Counts:
        """(2^K,) n_S at the cell for every subset S of the variables: sums over the cells that agree with it in S."""
        own = np.zeros(len(self._table), np.int64)
        for k, v in enumerate(self._members):
            own |= (self._codes[k] == cell[v]).astype(np.int64) << k
        counts: Counts = np.bincount(own, self._table.counts, minlength=len(self._powers)).astype(np.int64)
        for k in range(len(self._members)):
            without, with_it = np.moveaxis(counts.reshape(-1, 2, 1 << k), 1, 0)
            # cells that agree in more variables agree in S: sums over supersets, one variable at a time
            without += with_it
        return counts

    def _largest_within(self, pattern: Pattern, cell: npt.NDArray[np.integer]) -> int | None:
        """The largest super-cell within the pattern, which contains all others; None without one."""
        # all digits SUM. Only the largest super-cell is set: its parts become 0 in the propagation
        place = self._number_of_super_cells - 1
        for v, codes in pattern:
            own = int(cell[v]) in codes
            rest = len(codes) - own == self._table.schema.sizes[v] - 1
            if own and rest:
                continue
            if not (own or rest) or v not in self._members:
                return None
            place -= (SUM - (OWN if own else REST)) * int(3 ** self._members.index(v))
        return place


class _Partly:
    """The bounds of a fact for super-cells around a cell that lie in its universe."""

    def __init__(self, table: Table, fact: Fact) -> None:
        self.variables = st.members(table.schema.levels.finest(fact.view))
        inside = table.marginal(fact.view)
        own = fact.within(fact.view)
        held = own.holds(inside.codes, inside.schema)
        codes, low = inside.codes[held], inside.counts[held]
        high = low.copy()
        if own.intervals is not None:
            exact = inside.schema.keys.matching(own.intervals.cells, codes) < 0
            codes = np.concatenate([codes[exact], own.intervals.cells])
            low, high = (np.concatenate([low[exact], ends]) for ends in (own.intervals.low, own.intervals.high))
        self._codes, self._low, self._high = codes, np.maximum(low, 0), np.minimum(high, table.total)
        self._allowed = [np.ones(size, np.bool_) for size in inside.schema.keys.sizes]
        for v, some in own.universe:
            self._allowed[inside.schema.levels.column_of[v]] &= np.isin(inside.schema.levels.groups[v], some)

    def around(self, cell: npt.NDArray[np.integer]) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Digits of the fact's variables in the number of a super-cell, and its bounds.

        cell  (variables of the table,) codes
        """
        own = cell[list(self.variables)]
        low, high = np.zeros((2, *(2,) * len(own)), np.int64)
        digits = tuple((self._codes != own).T.astype(np.int64))
        np.add.at(low, digits, self._low)
        np.add.at(high, digits, self._high)
        # sums of own and rest follow from both
        for place in product(*(self._digits(v, int(code)) for v, code in enumerate(own))):
            yield place, int(low[place]), int(high[place])

    def _digits(self, axis: int, own: int) -> list[int]:
        allowed = self._allowed[axis]
        return [OWN] * bool(allowed[own]) + [REST] * bool(np.delete(allowed, own).all())


def _nested(schema: Schema, members: tuple[int, ...]) -> Iterator[tuple[int, int, Counts]]:
    """Positions of a variable and an implied one, and the number of categories in each of the latter's."""
    for fine, v in enumerate(members):
        for coarse, u in enumerate(members):
            if st.has(schema.levels.coarser[v], u):
                within = np.unique(np.stack([schema.levels.groups[v], schema.levels.groups[u]], axis=1), axis=0)
                yield fine, coarse, np.bincount(within[:, 1])


def _public_supports(release: Release, members: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The sub-tables of these variables with public marginals, ascending, bit k for the k-th variable.

    All of them, not only the frontier: a larger one is then filled from its subsets by subtraction.
    """
    chosen = (st.of(k for k, v in enumerate(members) if st.has(element, v)) for element in release.frontier)
    return np.flatnonzero(Release.of(chosen).listed(len(members)))


def _count_type(table: Table) -> np.dtype[np.signedinteger]:
    # two counts are added before a comparison: below 2^30 the sum fits 32 bits
    return np.dtype(np.int32 if table.total < 1 << 30 else np.int64)
