"""Lifting: totals of weights under which a feasible table shows the same as the true one, by a small linear program.

A difference of counts is given. Where its cells alone cannot carry it, the cells nearest to them may take weight and
give it, within what their records can have; each cell's total is a variable, and each published total a row. Floating
point only proposes: what is found is rounded to millionths, and whether it holds is said in integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table
from sdc.model.weights import UNIT, RecordWeights, RoundedTotals, WeightRanges
from sdc.solve.linear import Sums, cheapest
from sdc.weighted.pairs import Pairs

SUPPORTS = (0, 100, 400, 1600)  # cells beside those of the difference; one program after the other, from cheap to dear
MARGIN = 1e-3  # of a weight of 1: what rounding to millionths may add up to
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LiftUnit:
    """Differences of counts that are to be lifted. The weights travel with them, in the table's order."""

    weights: RecordWeights
    known: Knowledge
    differences: Differences


@dataclass(frozen=True, eq=False)
class Lifted:
    """What was found, each pair checked; (differences,) flags of those that were lifted, in their order."""

    pairs: Pairs
    lifted: npt.NDArray[np.bool_]


def lift(table: Table, unit: LiftUnit) -> Lifted:
    """A feasible pair for each difference for which one was found."""
    lifter = _Lifter(table, unit.weights, unit.known.totals)
    found = [lifter.pair(cells, changes) for cells, changes in unit.differences]
    # of those the solver has no doubt of: the rest is decided in integers
    held = np.array([pair is not None for pair in found], np.bool_)
    pairs = Pairs.concatenated([Pairs.none(len(table.schema.axes)), *(pair for pair in found if pair is not None)])
    good = pairs.feasible(table, unit.weights, unit.known)
    held[held] = good
    return Lifted(pairs.rows(good), held)


class _Lifter:
    """Solves one program after the other about the same table."""

    def __init__(self, table: Table, weights: RecordWeights, public: RoundedTotals) -> None:
        self._table, self._weights, self._public = table, weights, public
        self._ranges = WeightRanges.of(table, weights)
        truth = Table(table.schema, table.codes, weights.totals)
        self._totals = [_Totals(truth, subtable) for subtable in public.of]

    def pair(self, cells: Codes, changes: Counts) -> Pairs | None:
        """The pair of a difference, which is feasible of the counts; None where no support carries it."""
        low, high = self._ranges.at(cells[changes > 0])
        if (low > high).any():
            return None  # no record can have all these categories, whatever else moves
        near = np.zeros(0, np.int64)
        for support in SUPPORTS:
            if support:
                near = self._nearest(cells, support)
            some = np.concatenate([cells, self._table.codes[near]])
            by = np.concatenate([changes, np.zeros(len(near), np.int64)])
            shifts = self._shifts(some, by)
            if shifts is not None:
                moved = (by != 0) | (shifts != 0)
                return Pairs(Differences(np.array([0, moved.sum()]), some[moved], by[moved]), shifts[moved])
        return None

    def _nearest(self, cells: Codes, number: int) -> npt.NDArray[np.int64]:
        """Rows of cells with records that share most categories with some cell; of equal ones those with most records.

        Not the cells themselves.
        """
        codes = self._table.codes
        distance = np.full(len(codes), len(self._table.schema) + 1)
        for cell in cells:
            distance = np.minimum(distance, (codes != cell).sum(axis=1))
        rows = np.flatnonzero(distance > 0)
        order = np.lexsort([rows, -self._table.counts[rows], distance[rows]])
        return np.sort(rows[order[:number]])

    def _shifts(self, cells: Codes, changes: Counts) -> Counts | None:
        """(cells,) int64 shifts of their totals; None where the program has no solution."""
        row = self._table.schema.keys.matching(self._table.codes, cells)
        counts = np.where(row >= 0, self._table.counts[row], 0) + changes
        totals = np.where(row >= 0, self._weights.totals[row], 0)
        low, high = self._ranges.at(cells)
        # in floating point, where a product cannot wrap; what is rounded here is checked in integers
        least = np.where(counts > 0, counts * low.astype(np.float64), 0.0) - totals
        most = np.minimum(np.where(counts > 0, counts * high.astype(np.float64), 0.0), MAX_TOTAL) - totals
        rows, least_row, most_row = self._rows(cells)
        if (least > most).any() or (least_row > most_row).any():
            return None
        sums = [Sums(rows, least_row, most_row)] if len(least_row) else []
        found = cheapest(np.zeros(len(cells)), least / UNIT, most / UNIT, sums)
        if found is None:
            return None
        shifts: Counts = np.clip(np.rint(found * UNIT), np.ceil(least), np.floor(most)).astype(np.int64)
        return shifts

    def _rows(self, cells: Codes) -> tuple[npt.ArrayLike, Reals, Reals]:
        """A row for each published total that some cells are in, and how far their shifts may move it together."""
        from scipy.sparse import csr_array

        of, start, low, high = list[Counts](), 0, list[Counts](), list[Counts]()
        for totals in self._totals:
            marginal_cells = self._table.schema.marginal_cells(cells, totals.subtable)
            first, group = totals.space.distinct(marginal_cells)
            own = totals.at(marginal_cells[first])
            least = self._public.shown(own) - self._public.base // 2
            # half-open: what is rounded up from the end belongs to the next
            low.append(least - own)
            high.append(least + self._public.base - 1 - own)
            of.append(group + start)
            start += len(first)
        if not of:
            return np.zeros((0, len(cells))), np.zeros(0), np.zeros(0)
        column = np.tile(np.arange(len(cells)), len(of))
        matrix = csr_array((np.ones(len(column)), (np.concatenate(of), column)), shape=(start, len(cells)))
        return matrix, np.concatenate(low) / UNIT + MARGIN, np.concatenate(high) / UNIT - MARGIN


class _Totals:
    """The totals of a marginal, found by their keys."""

    def __init__(self, truth: Table, subtable: SubTable) -> None:
        self.subtable = subtable
        self.space = truth.schema.space(st.members(truth.schema.levels.telling(subtable)))
        codes, self._totals = np.zeros((1, 0), np.uint16), np.array([truth.total])
        if subtable:
            marginal = truth.marginal(subtable)
            codes, self._totals = marginal.codes, marginal.counts
        # a key for each, ascending as the cells are; beyond 62 bits there is none, and no such sub-table is published
        self._keys = self.space.pack(codes)

    def at(self, cells: Codes) -> Counts:
        """(n,) of each of (n, axes of the sub-table) cells; 0 where no record is."""
        keys = self.space.pack(cells)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._totals[place], 0)
