"""Feasible pairs of a table and its weights, as differences from the true ones: they prove that counts can move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdc.feasible.differences import Differences, Flags, extremes
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table, freeze
from sdc.model.weights import RecordWeights, RoundedTotals, WeightRanges, at_least, at_most


@dataclass(frozen=True, eq=False)
class Pairs:
    """Several differences; each claims that the true table and the true totals of its cells plus it are feasible.

    moves   of the counts; a change may be 0 here, if only a cell's total changes
    shifts  (entries,) int64 of the totals of weights of its cells, in millionths
    """

    moves: Differences
    shifts: Counts

    def __post_init__(self) -> None:
        freeze(self, "shifts")

    def __len__(self) -> int:
        return len(self.moves)

    @staticmethod
    def none(axes: int) -> Pairs:
        return Pairs.unweighted(Differences.none(axes))

    @staticmethod
    def unweighted(differences: Differences) -> Pairs:
        """Differences of counts with unchanged totals: for counts only."""
        return Pairs(differences, np.zeros(len(differences.changes), np.int64))

    @staticmethod
    def concatenated(parts: Sequence[Pairs]) -> Pairs:
        """All pairs, in order; ValueError without parts."""
        moves = Differences.concatenated([part.moves for part in parts])
        return Pairs(moves, np.concatenate([part.shifts for part in parts]))

    def rows(self, flags: Flags) -> Pairs:
        """The pairs with (pairs,) flags."""
        return Pairs(self.moves.rows(flags), self.shifts[flags[self.moves.of]])

    def reached(self, table: Table, cells: Codes) -> Intervals:
        """(n, 2) smallest and largest count of each of (n, axes) cells over the true table and these pairs."""
        counts, moves = table.count_at(cells), self.moves
        row = table.schema.keys.matching(cells, moves.cells) if len(moves.cells) else np.zeros(0, np.int64)
        hit = row >= 0
        return counts[:, None] + extremes(row[hit], moves.changes[hit], len(cells))

    def feasible(self, table: Table, weights: RecordWeights, known: Knowledge) -> Flags:
        """(pairs,) whether the pair is feasible under the knowledge and the true range of each category's weights.

        In integers: the counts are a feasible table, each cell's total lies between the least and most of its records,
        and every released total is rounded to the published one.
        """
        good = self.moves.feasible(table, known.counts)
        if not good.all():
            good[good] = self.rows(good).feasible(table, weights, known)
            return good
        return self._weighs(table, weights) & self._shows_the_same(table, weights, known.totals)

    def _weighs(self, table: Table, weights: RecordWeights) -> Flags:
        """(pairs,) whether each cell's total is possible for its records; for feasible counts."""
        of, cells, ranges = self.moves.of, self.moves.cells, WeightRanges.of(table, weights)
        # a shift near 2^63 wraps to a total below zero, which is refused too
        totals = Table(table.schema, table.codes, weights.totals).count_at(cells) + self.shifts
        counts, (low, high) = table.count_at(cells) + self.moves.changes, ranges.at(cells)
        inside = (totals >= 0) & (totals <= MAX_TOTAL) & (np.abs(self.shifts) <= MAX_TOTAL)
        wrong = ~(inside & at_least(totals, counts, low) & at_most(totals, counts, high))
        good: Flags = np.bincount(of[wrong], minlength=len(self)) == 0
        # so that no sum of shifts below overflows
        return good & (np.bincount(of, np.abs(self.shifts).astype(np.float64), minlength=len(self)) < 2.0**61)

    def _shows_the_same(self, table: Table, weights: RecordWeights, public: RoundedTotals) -> Flags:
        """(pairs,) whether every published total stays within its rounding interval."""
        good, of, cells = np.ones(len(self), np.bool_), self.moves.of, self.moves.cells
        truth = Table(table.schema, table.codes, weights.totals)
        for subtable in public.of:
            sizes = table.schema.space(st.members(table.schema.levels.finest(subtable))).sizes
            columns = np.concatenate([of[:, None], table.schema.marginal_cells(cells, subtable)], axis=1)
            first, group = KeySpace((max(1, len(self)), *sizes)).distinct(columns)
            sums = np.zeros(len(first), np.int64)
            np.add.at(sums, group, self.shifts)
            moved = np.flatnonzero(sums)
            own = truth.marginal_at(subtable, cells[first[moved]])
            differs = public.shown(own) != public.shown(own + sums[moved])
            good[of[first[moved[differs]]]] = False
        return good


@dataclass(frozen=True, eq=False)
class WeightedCertificate:
    """Totals of weights to be published beside the counts of a release, with their proof.

    table_digest  of the full table
    base          of rounding, in millionths
    totals        sub-tables whose totals are published
    withheld      frontier sub-tables whose totals are suppressed, though totals of their marginals may be published
    pairs         feasible pairs over which every at-risk cell keeps its width
    """

    table_digest: str
    base: int
    totals: tuple[SubTable, ...]
    withheld: tuple[SubTable, ...]
    pairs: Pairs
