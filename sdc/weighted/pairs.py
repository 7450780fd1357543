"""Feasible pairs of a table and its weights, as differences from the true ones: what proves that a count can move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdc.feasible.differences import Differences, Flags, extremes
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table, freeze
from sdc.model.weights import WeightRanges, Weights, at_least, at_most, rounded


@dataclass(frozen=True, eq=False)
class WeightedKnowledge:
    """What an intruder knows once totals of weights are out beside the counts.

    counts  what is known of the counts: every released marginal, whether its totals are out or not
    ranges  of the weights of each category's records
    totals  the sub-tables whose weighted totals are out
    base    what these are rounded to, in millionths; halves up
    """

    counts: Knowledge
    ranges: WeightRanges
    totals: tuple[SubTable, ...]
    base: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """Several differences; each claims that the true table and the true totals of its cells plus it are feasible.

    start    (pairs + 1,) int64; pair p has the entries start[p]:start[p + 1]
    cells    (entries, axes) uint16 codes, each cell once in a pair
    changes  (entries,) int64 of the counts
    shifts   (entries,) int64 of the totals of weights, in millionths
    """

    start: Counts
    cells: Codes
    changes: Counts
    shifts: Counts

    def __post_init__(self) -> None:
        freeze(self, "start", "cells", "changes", "shifts")

    def __len__(self) -> int:
        return len(self.start) - 1

    @staticmethod
    def none(axes: int) -> Pairs:
        """No pair."""
        nothing = np.zeros(0, np.int64)
        return Pairs(np.zeros(1, np.int64), np.zeros((0, axes), np.uint16), nothing, nothing)

    @staticmethod
    def concatenated(parts: Sequence[Pairs]) -> Pairs:
        """All of them, one part after the other; ValueError where there is no part."""
        ends = np.cumsum([0, *(len(part.changes) for part in parts)])
        start = [part.start[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return Pairs(
            np.concatenate([[0], *start]),
            np.concatenate([part.cells for part in parts]),
            np.concatenate([part.changes for part in parts]),
            np.concatenate([part.shifts for part in parts]),
        )

    def rows(self, kept: Flags) -> Pairs:
        """The pairs for which the (pairs,) flags say so."""
        entries = kept[self.of]
        start = np.concatenate([[0], np.cumsum(np.diff(self.start)[kept])])
        return Pairs(start, self.cells[entries], self.changes[entries], self.shifts[entries])

    @cached_property
    def of(self) -> Counts:
        """(entries,) the pair each entry belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    @cached_property
    def differences(self) -> Differences:
        """Those of the counts."""
        moved = self.changes != 0
        start = np.concatenate([[0], np.cumsum(np.bincount(self.of[moved], minlength=len(self)))])
        return Differences(start, self.cells[moved], self.changes[moved])

    def reached(self, table: Table, cells: Codes) -> Intervals:
        """(n, 2) smallest and largest count of each of (n, axes) cells over the true table and these pairs."""
        counts = table.count_at(cells)
        row = table.schema.keys.matching(cells, self.cells) if len(self.cells) else np.zeros(0, np.int64)
        hit = row >= 0
        return counts[:, None] + extremes(row[hit], self.changes[hit], len(cells))

    def feasible(self, table: Table, weights: Weights, known: WeightedKnowledge) -> Flags:
        """(pairs,) whether the pair is feasible for whoever knows that of the table and its weights.

        All in integers: the counts are a feasible table, each cell's total lies between what so many records can have
        together, and every released total is rounded to what is published.
        """
        good = self._known_cells(table) & self.differences.feasible(table, known.counts)
        if not good.all():
            good[good] = self.rows(good).feasible(table, weights, known)
            return good
        return self._weighs(table, weights, known) & self._shows_the_same(table, weights, known)

    def _weighs(self, table: Table, weights: Weights, known: WeightedKnowledge) -> Flags:
        """(pairs,) whether each cell's total is one that its records can have; of feasible counts."""
        # a shift near 2^63 wraps to a total below zero, which is refused like one
        totals = _total_at(table, weights, self.cells) + self.shifts
        counts, (low, high) = table.count_at(self.cells) + self.changes, known.ranges.at(self.cells)
        inside = (totals >= 0) & (totals <= MAX_TOTAL) & (np.abs(self.shifts) <= MAX_TOTAL)
        wrong = ~(inside & at_least(totals, counts, low) & at_most(totals, counts, high))
        good: Flags = np.bincount(self.of[wrong], minlength=len(self)) == 0
        # so that no sum of shifts below wraps
        return good & (np.bincount(self.of, np.abs(self.shifts).astype(np.float64), minlength=len(self)) < 2.0**61)

    def _shows_the_same(self, table: Table, weights: Weights, known: WeightedKnowledge) -> Flags:
        """(pairs,) whether every total that is out stays within what it is rounded from."""
        good = np.ones(len(self), np.bool_)
        truth = Table(table.schema, table.codes, weights.totals)
        for subtable in known.totals:
            marginal_cells = table.schema.marginal_cells(self.cells, subtable)
            sizes = table.schema.space(st.members(table.schema.telling(subtable))).sizes
            columns = np.concatenate([self.of[:, None], marginal_cells], axis=1)
            first, group = KeySpace((max(1, len(self)), *sizes)).distinct(columns)
            sums = np.zeros(len(first), np.int64)
            np.add.at(sums, group, self.shifts)
            moved = np.flatnonzero(sums)
            own = truth.marginal_at(subtable, self.cells[first[moved]])
            differs = rounded(own, known.base) != rounded(own + sums[moved], known.base)
            good[self.of[first[moved[differs]]]] = False
        return good

    def _known_cells(self, table: Table) -> Flags:
        """(pairs,) whether every cell is one of the table's, and none occurs twice, which would hide its total."""
        beyond = (self.cells >= table.schema.keys.sizes).any(axis=1)
        inside = self.of[~beyond]
        columns = np.concatenate([inside[:, None], self.cells[~beyond]], axis=1)
        first, _ = KeySpace((max(1, len(self)), *table.schema.keys.sizes)).distinct(columns)
        good: Flags = np.bincount(inside[first], minlength=len(self)) == np.diff(self.start)
        return good


def _total_at(table: Table, weights: Weights, cells: Codes) -> Counts:
    return Table(table.schema, table.codes, weights.totals).count_at(cells)
