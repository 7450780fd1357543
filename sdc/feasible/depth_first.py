"""Depth-first search for tables that agree with a release: reduced to independent blocks, propagated on upward sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from sdc.feasible import depth_first_kernel as kernel
from sdc.feasible.depth_first_kernel import Arrays
from sdc.feasible.equations import MarginalEquations
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Counts, Table
from sdc.solve.equations import Equations

MAX_CELLS = 2048
MAX_SUMS = 1 << 13  # cells and their sums: beyond it the cells go without sums, which propagate less
BUFFER_BYTES = 8 << 20  # of tables handed out at once
# measured: from the released marginals a propagation ends after 2 to 4 sweeps, in a search after 25 at most, whatever
# the counts; beyond that it goes on record by record, mostly
SWEEPS_A_BIT = 8
NONE, SEVERAL = -1, -2  # the component of what has no free cell, and of sums with cells of more than one


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """Equations sum_j signs_j x_j = total over non-negative integers, each x within its interval.

    cells                         how many of the variables, the first ones, are cells; the others are sums of cells
    truth, lower, upper           (variables,) int64
    totals                        (equations,) int64
    start, members, signs         equation e has the variables members[start[e]:start[e + 1]], signs +1 or -1
    where_start, where            variable i occurs in the equations where[where_start[i]:where_start[i + 1]]
    """

    cells: int
    truth: Counts
    lower: Counts
    upper: Counts
    totals: Counts
    start: Counts
    members: Counts
    signs: Counts
    where_start: Counts
    where: Counts

    @staticmethod
    def of(
        cells: int, truth: Counts, lower: Counts, upper: Counts, start: Counts, members: Counts, signs: Counts
    ) -> LinearSystem:
        """The system that the truth solves; totals and the occurrences of each variable follow."""
        equations = np.repeat(np.arange(len(start) - 1), np.diff(start))
        totals = np.zeros(len(start) - 1, np.int64)
        np.add.at(totals, equations, signs * truth[members])
        where = equations[np.argsort(members, kind="stable")]
        where_start = np.concatenate([[0], np.cumsum(np.bincount(members, minlength=len(truth)))])
        return LinearSystem(cells, truth, lower, upper, totals, start, members, signs, where_start, where)

    @property
    def arrays(self) -> Arrays:
        """As the kernels take them: totals, start, members, signs, where_start, where."""
        return self.totals, self.start, self.members, self.signs, self.where_start, self.where

    @cached_property
    def most_steps(self) -> int:
        """How many equations a propagation treats at most: a few sweeps for each bit of the widest interval."""
        widest = int((self.upper - self.lower).max(initial=0))
        return SWEEPS_A_BIT * (widest + 1).bit_length() * len(self.totals)

    def propagated(self) -> tuple[LinearSystem, int]:
        """With the intervals narrowed by the equations, and the steps; ReleaseError where an interval is empty."""
        lower, upper = self.lower.copy(), self.upper.copy()
        steps, end = kernel.settle(lower, upper, self.cells, self.most_steps, *self.arrays)
        if end == kernel.EMPTY:
            raise ReleaseError("the released marginals contradict each other; make them from one table")
        return replace(self, lower=lower, upper=upper), steps

    def restricted(self, kept: npt.NDArray[np.bool_], free: npt.NDArray[np.bool_]) -> LinearSystem:
        """The equations on some variables and on those that are not free, which have their true values; none twice."""
        place = np.cumsum(kept) - 1
        equations = np.repeat(np.arange(len(self.totals)), np.diff(self.start))
        # an equation with a free variable outside says nothing of those inside alone. It has a sum over several blocks,
        # and no released total needs it: all that a released cell sums is of one block, and so is what lies between
        free_outside = ~kept & free
        inside = kept[self.members] & ~np.logical_or.reduceat(free_outside[self.members], self.start[:-1])[equations]
        # numbered from 1, because the sign is that of the term
        signed = ((place[self.members[inside]] + 1) * self.signs[inside]).tolist()
        ends = np.cumsum(np.unique(equations[inside], return_counts=True)[1]).tolist()
        # equal equations would be propagated each for itself; sums over one category give many of them
        rows = dict.fromkeys(_canonical(signed[begin:end]) for begin, end in pairwise([0, *ends]))
        flat = np.array([j for row in rows for j in row], np.int64)
        start = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        cells = int(np.count_nonzero(kept[: self.cells]))
        # totals anew from the truth: a forced variable has its true value, so it is taken off both sides
        return LinearSystem.of(
            cells, self.truth[kept], self.lower[kept], self.upper[kept], start, np.abs(flat) - 1, np.sign(flat)
        )


def _canonical(signed: list[int]) -> tuple[int, ...]:
    """The members of an equation in one order and with one of its two signs."""
    row = sorted(signed, key=abs)
    return tuple(row) if row[0] > 0 else tuple(-j for j in row)


class FeasibleTables:
    """The tables that agree with what is known: what is forced, and independent blocks that combine freely.

    equations      the released marginals on the dense cells; `truth` is theirs
    lower, upper   (cells,) int64 what propagation alone proves, so outer bounds
    steps          how many equations that looked at
    blocks         connected components of the cells that are not forced: any table of one block goes
                   with any table of another

    ReleaseError beyond 2,048 dense cells.
    """

    def __init__(self, table: Table, knowledge: Knowledge) -> None:
        _check_size(table.schema.cells)
        equations, sizes = MarginalEquations.of(table, knowledge), table.schema.keys.sizes
        # sums over whole axes alone: what is known of a level, or of some records, is a sum of some categories
        is_whole = table.schema.levels.is_flat and not knowledge.facts
        if is_whole and prod(size + 1 for size in sizes) <= MAX_SUMS:
            self._divide(equations, _upward_sums(equations, knowledge.release, sizes), sizes)
        else:
            self._divide(equations, _cells_only(equations, table.total))

    @staticmethod
    def of_sums(equations: MarginalEquations) -> FeasibleTables:
        """Those with these sums, each cell in one, also where none says how many records there are."""
        _check_size(len(equations.truth))
        found = FeasibleTables.__new__(FeasibleTables)
        found._divide(equations, _cells_only(equations, int(equations.upper.sum())))
        return found

    def _divide(self, equations: MarginalEquations, system: LinearSystem, sizes: tuple[int, ...] | None = None) -> None:
        """From a system of the cells, with their upward sums where these sizes are given."""
        self.equations = equations
        system, self.steps = system.propagated()
        self.lower, self.upper = system.lower[: system.cells], system.upper[: system.cells]
        label = _components(equations.sums, self.lower < self.upper)
        of_variable = _labels_of_intervals(equations.sums, label) if sizes is None else _labels_of_sums(label, sizes)
        # where propagation has stopped, a sum of forced cells may have an interval left
        free = (system.lower < system.upper) & (of_variable != NONE)
        self.blocks = [
            Block(np.flatnonzero(label == number), system.restricted(free & (of_variable == number), free))
            for number in np.unique(label[label >= 0])
        ]

    @property
    def at_most(self) -> int:
        """No more tables agree: the product of the values that the cells of the blocks may have, one cell aside.

        Of cells with a sum that is known the widest follows from the others.
        """
        sums, product = self.equations.sums, 1
        known = sums.members[np.repeat(sums.low == sums.high, np.diff(sums.start))]
        for block in self.blocks:
            ranges = self.upper[block.cells] - self.lower[block.cells] + 1
            follow = ranges[np.isin(block.cells, known)].max(initial=1)
            product *= prod(ranges.tolist()) // int(follow)
        return product

    def block_of(self, cell: int) -> tuple[Block, int] | None:
        """The block with the dense cell and the cell's place in it; None where the cell is forced."""
        for block in self.blocks:
            place = int(np.searchsorted(block.cells, cell))
            if place < len(block.cells) and block.cells[place] == cell:
                return block, place
        return None


@dataclass(frozen=True, eq=False)
class Block:
    """A connected component: its dense cells, ascending, and its system, whose first variables they are."""

    cells: Counts
    system: LinearSystem

    @property
    def truth(self) -> Counts:
        """(cells of the block,) the true counts."""
        return self.system.truth[: len(self.cells)]


class DepthFirst:
    """A search for tables of one block that can be asked for more; its stack is kept between calls.

    Branches on the cell with the narrowest interval, on the values nearest to the true count first.
    With `fixed` (place, value) only tables with that value of the cell at that place.
    """

    def __init__(self, block: Block, fixed: tuple[int, int] | None = None) -> None:
        self._block = block
        # each level fixes a cell at least, and the level below the last one is written too
        system, levels = block.system, len(block.cells) + 2
        self._lower, self._upper = np.zeros((2, levels, len(system.truth)), np.int64)
        self._cell, self._tried = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
        self._settled = np.zeros(levels, np.bool_)
        self._lower[0], self._upper[0] = system.lower, system.upper
        if fixed is not None:
            place, value = fixed
            self._lower[0, place] = self._upper[0, place] = value
        # this counts too: steps are what a budget is measured in
        self.steps, end = kernel.settle(self._lower[0], self._upper[0], system.cells, system.most_steps, *system.arrays)
        self._depth = -1 if end == kernel.EMPTY else 0
        self._settled[0] = end == kernel.SETTLED
        if not self.exhausted:
            self._cell[0] = kernel.narrowest(self._lower[0], self._upper[0], system.cells)

    @property
    def exhausted(self) -> bool:
        """Whether every table was handed out."""
        return self._depth < 0

    def more(self, tables: int, max_steps: int) -> npt.NDArray[np.int64]:
        """(at most `tables`, cells of the block) further int64 tables; none once all are seen or `max_steps` are done.

        A step is one equation looked at, so steps measure time without a clock: about 5 * 10^7 in a second. The
        propagation in hand when they are done goes on to its end, `LinearSystem.most_steps` at most.
        """
        # nothing to branch on: propagation alone has found the one table
        if not self.exhausted and self._cell[0] < 0:
            self._depth = -1
            return self._lower[:1, : len(self._block.cells)].copy()
        system, cells = self._block.system, len(self._block.cells)
        buffer = np.empty((min(tables, max(1, BUFFER_BYTES // (8 * cells))), cells), np.int64)
        found, self._depth, self.steps = kernel.advance(
            self._lower,
            self._upper,
            self._cell,
            self._tried,
            self._settled,
            self._depth,
            self.steps,
            max_steps,
            system.most_steps,
            system.truth,
            *system.arrays,
            buffer,
        )
        return buffer[:found]


def _check_size(cells: int) -> None:
    if cells > MAX_CELLS:
        raise ReleaseError(
            f"the table has {cells} cells, and a search for feasible tables takes at most "
            f"{MAX_CELLS}; choose the method auto or a sub-table"
        )


def _cells_only(equations: MarginalEquations, total: int) -> LinearSystem:
    """Cells without other sums than those that are known between two numbers, which are variables too.

    total  no sum is larger
    """
    truth, rows = equations.truth, equations.sums
    between = np.flatnonzero(rows.low < rows.high)
    # the last equations, each with its sum as one more member
    ends, start = rows.start[between + 1], rows.start.copy()
    start[between + 1] += 1 + np.arange(len(between))
    members = np.insert(rows.members, ends, len(truth) + np.arange(len(between)))
    signs = np.insert(np.ones_like(rows.members), ends, -1)
    sums = np.add.reduceat(truth[rows.members], rows.start[:-1])[between]
    lower = np.concatenate([np.zeros_like(truth), np.maximum(rows.low[between], 0)])
    upper = np.concatenate([np.where(equations.possible, total, 0), np.minimum(rows.high[between], total)])
    return LinearSystem.of(len(truth), np.concatenate([truth, sums]), lower, upper, start, members, signs)


def _upward_sums(equations: MarginalEquations, release: Release, sizes: tuple[int, ...]) -> LinearSystem:
    """Cells and their sums over every set of variables: over each variable the categories add up to the sum.

    Released sums are known, so the equations of the release are among these, and the propagation
    of [DKS] section 4 is done on the super-cells of single categories and whole variables.
    """
    values = equations.truth.reshape(sizes)
    for v in range(len(sizes)):
        values = np.concatenate([values, values.sum(axis=v, keepdims=True)], axis=v)
    known = np.zeros(values.shape, np.bool_)
    for element in release.frontier:
        known[tuple(slice(None) if st.has(element, v) else -1 for v in range(len(sizes)))] = True
    order = _cells_first(sizes)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    # cells first, so that they keep their dense numbers and a table is the beginning of the vector
    truth, known = values.reshape(-1)[order], known.reshape(-1)[order]
    upper = np.where(known, truth, values.reshape(-1)[-1])
    upper[: len(equations.truth)][~equations.possible] = 0
    rows = [np.moveaxis(number.reshape(values.shape), v, -1).reshape(-1, size + 1) for v, size in enumerate(sizes)]
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.full(len(row), row.shape[1]) for row in rows]))])
    signs = np.concatenate([np.tile([1] * size + [-1], len(row)) for row, size in zip(rows, sizes, strict=True)])
    members = np.concatenate([row.reshape(-1) for row in rows])
    return LinearSystem.of(len(equations.truth), truth, np.where(known, truth, 0), upper, start, members, signs)


def _cells_first(sizes: tuple[int, ...]) -> Counts:
    """Positions in the array with one more place an axis, for the sum: cells in C order, then the sums."""
    is_sum = np.zeros([size + 1 for size in sizes], np.bool_)
    for v in range(len(sizes)):
        np.moveaxis(is_sum, v, 0)[-1] = True
    return np.argsort(is_sum.reshape(-1), kind="stable")


def _components(equations: Equations, free: npt.NDArray[np.bool_]) -> Counts:
    """(cells,) the smallest cell that equations tie each free cell to; NONE for a forced cell."""
    label = np.where(free, np.arange(len(free)), len(free))
    while True:
        # a forced cell has the largest label of all, so that none spreads through it
        smallest = np.minimum.reduceat(label[equations.members], equations.start[:-1])
        reached = label.copy()
        np.minimum.at(reached, equations.members, np.repeat(smallest, np.diff(equations.start)))
        reached[~free] = len(free)
        if np.array_equal(reached, label):
            return np.where(free, label, NONE)
        label = reached


def _labels_of_intervals(equations: Equations, label: Counts) -> Counts:
    """The component of each cell, and of each sum between two numbers that of its cells; NONE of forced ones."""
    largest = np.maximum.reduceat(label[equations.members], equations.start[:-1])
    return np.concatenate([label, largest[equations.low < equations.high]])


def _labels_of_sums(label: Counts, sizes: tuple[int, ...]) -> Counts:
    """The component of each cell and sum, cells first; NONE for sums of forced cells, SEVERAL for those of several."""
    # forced cells must not show in a sum: they are above all labels where the least is taken, below where the largest
    # is. Least and largest agree where all free cells are of one component
    low = np.where(label == NONE, len(label), label).reshape(sizes)
    high = label.reshape(sizes)
    for v in range(len(sizes)):
        low = np.concatenate([low, low.min(axis=v, keepdims=True)], axis=v)
        high = np.concatenate([high, high.max(axis=v, keepdims=True)], axis=v)
    of_sums = np.where(high == NONE, NONE, np.where(low == high, high, SEVERAL))
    return of_sums.reshape(-1)[_cells_first(sizes)]
