"""The sub-tables that reach a floor, found unit by unit, and a floor that not too many reach.

Bit sets number the variables in the sweep's order, and have of each axis one variable at most: the others follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from sdc.executor import Executor
from sdc.model import subtable as st
from sdc.model.schema import MAX_VARIABLES, Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Cells, Counts
from sdc.risk.partitions import EVERYTHING, BitSets, Partitions, Widths, walked, whole_rows
from sdc.risk.sweep_plan import sweep_order

NOTHING: Widths = (np.empty(0, np.uint64), np.empty(0, np.int64))
BISECTIONS = 2  # of the floors between the last that not too many reach and half of it


@dataclass(frozen=True)
class Above:
    """A unit of a sweep with a floor: a start and what is above it.

    max_rows    rows that fit into memory; 0 where all do
    candidates  variables that may be added, at most `most` of them
    pairs       of each variable the others that it may be kept with; none: with all
    enough      sub-tables with which it ends; not of partitions, of which each lists what others may leave out
    work        how it compares with others of the same call
    """

    small_count: int
    floor: int
    max_rows: int
    start: SubTable
    candidates: SubTable
    pairs: tuple[SubTable, ...] = ()
    most: int = 1
    enough: int = EVERYTHING
    work: int = 1


@dataclass(frozen=True, eq=False)
class Reaching:
    """What finds the sub-tables that reach one floor after another, from the least.

    max_rows  rows that a unit may hold, 0 where each has the whole table
    """

    table: Cells
    small_count: int
    least: int
    max_rows: int
    executor: Executor
    _visited: dict[SubTable, int] = field(default_factory=dict, init=False)  # above each pair, at the last floor

    @cached_property
    def few(self) -> Widths:
        """Those of at most two variables that reach the least floor, the grand total first; none where it does not."""
        total = next(iter(self._run([self._above(0, 0, self.least)])))
        # the grand total is within all others: where not even it reaches the floor nothing does
        if not len(total[0]):
            return total[:2]
        # each pair from its higher variable, so that none is visited twice
        variables, others = len(self.table.schema), apart(self.table.schema)
        singles = [self._above(1 << v, st.full(v) & others[v], self.least) for v in reversed(range(variables))]
        return _joined([total[:2], *(unit[:2] for unit in self._run(singles))])

    def at(self, floor: int, most: int, ways: int = MAX_VARIABLES) -> Widths | None:
        """Those of at most so many variables that reach a floor, not below the least; None for more than `most`."""
        kept = (self.few[1] >= floor) & (np.bitwise_count(self.few[0]) <= ways)
        found, widths = self.few[0][kept], self.few[1][kept]
        parts, listed = [(found, widths)], len(found)
        if listed > most:
            return None
        units = self._above_pairs(found, floor, most + 1, ways) if ways > 2 else []
        for unit, (own, its_widths, visited) in zip(units, self._run(units), strict=True):
            # without the start, which is among the pairs already
            parts.append((own[1:], its_widths[1:]))
            self._visited[unit.start], listed = visited, listed + len(own) - 1
            if listed > most:
                return None
        return _joined(parts)

    def all(self) -> Widths:
        """Those that reach the least floor, however many."""
        found = self.at(self.least, EVERYTHING - 1)
        assert found is not None
        return found

    def _above_pairs(self, few: BitSets, floor: int, enough: int, ways: int) -> list[Above]:
        """Units of what is above each pair, the largest first: one that starts last would keep a worker busy alone."""
        variables = len(self.table.schema)
        pairs, units = _pairs(few, variables), []
        for high, low in combinations(reversed(range(variables)), 2):
            # a set can reach the floor only where each pair in it does
            candidates = pairs[high] & pairs[low] & st.full(low)
            if candidates and st.has(pairs[high], low):
                start = 1 << high | 1 << low
                # as many as were visited at a higher floor, else those of one or two variables more
                work = self._visited.get(start, 0) or comb(candidates.bit_count() + 1, 2)
                shared = self.small_count, floor, self.max_rows, start, candidates, pairs
                units.append(Above(*shared, ways - 2, enough, work))
        return sorted(units, key=lambda unit: -unit.work)

    def _above(self, start: SubTable, candidates: SubTable, floor: int) -> Above:
        return Above(self.small_count, floor, self.max_rows, start, candidates, work=1 + candidates.bit_count())

    def _run(self, units: Sequence[Above]) -> Iterator[tuple[BitSets, Counts, int]]:
        return self.executor.run(widths_above, self.table, units)


@dataclass(frozen=True, eq=False)
class Widest:
    """The sub-tables of at most so many variables that reach a floor."""

    floor: int
    ways: int
    found: Widths


def widest(reaching: Reaching, most: int) -> Widest:
    """Sub-tables by a floor, not below the least, that at most so many reach.

    The width of the grand total, which is the largest, is halved as long as not too many reach it; and what is between
    the last floor and the one that too many reach is bisected twice. Each floor takes about half of what the next one
    does. Where too many have one width, as where one category is rare, not half as many as might be are left; then
    those of more variables are left out instead. So all follows from the widths alone, and is the same whatever the
    workers and the units.
    """
    widths = reaching.few[1]
    if not len(widths):
        return Widest(reaching.least, MAX_VARIABLES, reaching.few)
    found, low, high = NOTHING, reaching.least - 1, int(widths[0]) + 1
    floor = max(int(widths[0]), reaching.least)
    while high > reaching.least:
        more = reaching.at(floor, most)
        if more is None:
            low = floor
            break
        high, found, floor = floor, more, max(floor // 2, reaching.least)
    for _ in range(BISECTIONS):
        floor = (low + high) // 2
        if floor == low:
            break
        more = reaching.at(floor, most)
        low, high, found = (floor, high, found) if more is None else (low, floor, more)
    all_ways = Widest(high, MAX_VARIABLES, found)
    if low < reaching.least or 2 * len(found[0]) > most:
        return all_ways
    few_ways = _few_ways(reaching, low, most)
    return max(all_ways, few_ways, key=lambda one: len(one.found[0]))


def _few_ways(reaching: Reaching, floor: int, most: int) -> Widest:
    """Of a floor that too many reach those of as many variables as not too many have."""
    kept = Widest(floor, 0, NOTHING)
    for ways in range(MAX_VARIABLES):
        more = reaching.at(floor, most, ways)
        if more is None:
            break
        kept = Widest(floor, ways, more)
    return kept


def apart(schema: Schema) -> tuple[SubTable, ...]:
    """Of each variable, in the sweep's order, those of other axes."""
    axes = [schema.levels.axis_of[v] for v in sweep_order(schema)]
    return tuple(st.of(place for place, other in enumerate(axes) if other != axis) for axis in axes)


def _pairs(found: BitSets, variables: int) -> tuple[SubTable, ...]:
    """Of each variable those with which it reaches the floor."""
    pairs = [0] * variables
    for pair in found[np.bitwise_count(found) == 2].tolist():
        low, high = st.members(pair)
        pairs[low] |= 1 << high
        pairs[high] |= 1 << low
    return tuple(pairs)


def _joined(parts: Sequence[Widths]) -> Widths:
    return np.concatenate([found for found, _ in parts]), np.concatenate([widths for _, widths in parts])


def widths_above(table: Cells, unit: Above) -> tuple[BitSets, Counts, int]:
    """Sub-tables that reach the floor, widths and number visited of a unit; its start first, where that reaches it.

    Bit sets in the sweep's order. With partitions the number visited is 1: what matters is counted at the end.
    InputError as `keys_of`.
    """
    pairs = unit.pairs or apart(table.schema)
    if unit.max_rows:
        partitions = Partitions(table, unit.small_count, unit.floor, unit.max_rows, pairs)
        return *partitions.above(unit.start, unit.candidates, unit.most), 1
    rows = whole_rows(table, unit.small_count)
    within = unit.start, unit.candidates, pairs, unit.most
    return walked(rows, unit.floor, *within, enough=unit.enough)


def neighbours(found: BitSets, apart: Sequence[SubTable]) -> BitSets:
    """(visited,) bit sets visited beside the grand total where these (n,) reach the floor: they and their border.

    apart  of each variable those of other axes

    Each is a sub-table found with a variable below its lowest, but only where the two lowest of it reach the floor
    together, and so does it without its second lowest.
    """
    found = np.sort(found)
    lowest = found & (~found + np.uint64(1))
    visited = []
    for v, others in enumerate(apart):
        bit = np.uint64(1 << v)
        some = found[(found == 0) | (lowest > bit) & (found & ~np.uint64(others) == 0)]
        low = some & (~some + np.uint64(1))
        single = some == low
        fits = np.isin(low | bit, found) & np.isin(some ^ low | bit, found)
        visited.append(some[single | fits] | bit)
    return np.concatenate(visited)
