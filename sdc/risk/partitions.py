"""Walks over the sub-tables that reach a floor, on the whole table or on partitions of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.subtable import SubTable
from sdc.model.table import Cells, Counts
from sdc.risk.rows import AtRiskRows, rows_of
from sdc.risk.sweep_plan import key_ranges, sweep_order

BitSets: TypeAlias = npt.NDArray[np.uint64]
Widths: TypeAlias = tuple[BitSets, Counts]
"""Sub-tables and the critical width of each."""
EVERY = np.empty(0, np.uint64)
EVERYTHING = 1 << 62  # more sub-tables than any walk can list


@lru_cache(maxsize=2)
def whole_rows(table: Cells, small_count: int) -> AtRiskRows:
    """All cells, with the variables in the sweep's order; kept for the units of the same process that follow."""
    return rows_of(table, small_count, sweep_order(table.schema))


def walked(
    rows: AtRiskRows,
    floor: int,
    start: SubTable,
    candidates: SubTable,
    pairs: Sequence[SubTable],
    most: int,
    within: BitSets = EVERY,
    enough: int = EVERYTHING,
) -> tuple[BitSets, Counts, int]:
    """The kernel's `walk` over the variables of these rows: sub-tables, widths and the number visited.

    floor   records; sub-tables whose critical width ([KDSF] eq. 10) is smaller are left out
    within  bit sets, ascending, beside which none is visited; `EVERY` for any
    enough  sub-tables with which the walk ends; `EVERYTHING` for no end before the last
    """
    from sdc.risk.width_kernel import walk

    found, widths, visited = walk(
        np.uint64(start), np.uint64(candidates), np.array(pairs, np.uint64), within, most, enough, floor, rows.columns,
        rows.numbers, rows.ways, rows.sizes, np.array(rows.before, np.int64), rows.finer, *rows.nearest, rows.total,
    )  # fmt: skip
    return found, widths, visited


@dataclass(frozen=True)
class Partitions:
    """The cells of a table, of which no more than `max_rows` rows are held at once.

    Bit sets number the variables in the sweep's order. A sub-table above a start falls apart by the start's
    categories, and its width is the smallest of those in each part; variables in no sub-table are summed out.
    """

    table: Cells
    small_count: int
    floor: int
    max_rows: int
    pairs: tuple[SubTable, ...]  # of each variable the others that it may be kept with, none of its axis

    def above(self, start: SubTable, candidates: SubTable, most: int) -> Widths:
        """The start and what is above it; first what has one candidate more where one category has too many rows.

        start, candidates  bit sets in the sweep's order; at most `most` candidates are added
        """
        ranges = self._ranges(start, candidates)
        if ranges:
            return self._in_turn(start, candidates, most, ranges)
        # a level at a time: with few candidates rows are few, and what reaches the floor becomes a start of its own,
        # whose categories cut the cells further
        level = [self._in_turn(start, few, 1, self._ranges(start, few)) for few in self._groups(candidates)]
        parts = [level[0], *(_without_start(part) for part in level[1:])]
        reached = int(np.bitwise_or.reduce(np.concatenate([found for found, _ in parts]), initial=0)) & candidates
        # each set from its highest candidate downwards, so that none is visited twice
        for v in st.members(reached) if most > 1 else ():
            if lower := reached & self.pairs[v] & st.full(v):
                parts.append(_without_start(self.above(start | 1 << v, lower, most - 1)))
        return np.concatenate([found for found, _ in parts]), np.concatenate([widths for _, widths in parts])

    def _in_turn(self, start: SubTable, candidates: SubTable, most: int, ranges: list[tuple[int, int]]) -> Widths:
        """Part after part, each for what those before have left over."""
        places, free = (*st.members(candidates), *st.members(start)), st.dimension(candidates)
        pairs = [st.of(bit for bit, other in enumerate(places) if st.has(self.pairs[v], other)) for v in places]
        local = st.full(len(places)) ^ st.full(free), st.full(free), pairs, most
        found, widths = EVERY, np.empty(0, np.int64)
        for low, high in ranges:
            rows = rows_of(self.table, self.small_count, self._variables(places), self._taken(start), low, high)
            # widths are minima over at-risk cells: a part without any does not bound them
            if not rows.at_risk.any():
                continue
            left, smaller, _ = walked(rows, self.floor, *local, found)
            if not len(left):
                return left, smaller
            # what a part leaves over bounds the next: widths are minima over parts, so nothing comes back
            order = np.argsort(left)
            left, smaller = left[order], smaller[order]
            found, widths = left, np.minimum(smaller, widths[np.searchsorted(found, left)]) if len(found) else smaller
        return renumbered(found, places), widths

    def _ranges(self, start: SubTable, candidates: SubTable) -> list[tuple[int, int]]:
        """Ranges of keys of the start; none where one key may have too many rows."""
        space = prod(self._sizes(candidates))
        return key_ranges(self.table, self._taken(start), space, self.max_rows)

    def _groups(self, candidates: SubTable) -> list[SubTable]:
        """The candidates in groups that have no more cells than fit."""
        groups, space = [0], 1
        for v, size in zip(st.members(candidates), self._sizes(candidates), strict=True):
            if space * size > self.max_rows and groups[-1]:
                groups, space = [*groups, 0], 1
            groups[-1], space = groups[-1] | 1 << v, space * size
        return groups

    def _variables(self, places: Sequence[int]) -> tuple[int, ...]:
        order = sweep_order(self.table.schema)
        return tuple(order[place] for place in places)

    def _taken(self, start: SubTable) -> tuple[int, ...]:
        return tuple(sorted(self._variables(st.members(start))))

    def _sizes(self, subtable: SubTable) -> list[int]:
        return [self.table.schema.sizes[v] for v in self._variables(st.members(subtable))]


def _without_start(found: Widths) -> Widths:
    return found[0][1:], found[1][1:]


def renumbered(found: BitSets, places: Sequence[int]) -> BitSets:
    """(n,) the bit sets with bit i moved to places[i]."""
    result = np.zeros_like(found)
    for bit, place in enumerate(places):
        result |= (found >> np.uint64(bit) & np.uint64(1)) << np.uint64(place)
    return result
