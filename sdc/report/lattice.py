"""The query space level by level: its critical widths, and the most dangerous sub-tables of each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.partitions import BitSets


@dataclass(frozen=True)
class Level:
    """The listed sub-tables of one dimension, narrowest critical width first, ties by number."""

    dimension: int
    possible: int
    sub_tables: BitSets
    widths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def median(self) -> int:
        """The lower median."""
        return int(self.widths[(len(self) - 1) // 2])

    @property
    def least(self) -> BitSets:
        """All that have the smallest critical width: the most dangerous of the dimension."""
        return self.sub_tables[: np.searchsorted(self.widths, self.widths[0], "right")]

    @property
    def is_complete(self) -> bool:
        return len(self) == self.possible

    def rank(self, subtable: SubTable) -> int:
        return int(np.flatnonzero(self.sub_tables == np.uint64(subtable))[0])


def levels(widths: CriticalWidths, schema: Schema) -> tuple[Level, ...]:
    """The levels with a listed sub-table, from the full table down."""
    dimensions = st.many_ways(widths.sub_tables, schema)
    possible = Release.of([st.full(len(schema))]).by_dimension(schema)
    order = np.lexsort((widths.sub_tables, widths.widths))
    found = []
    for d in reversed(range(len(possible))):
        rows = order[dimensions[order] == d]
        if len(rows):
            found.append(Level(d, possible[d], widths.sub_tables[rows], widths.widths[rows]))
    return tuple(found)


def most_dangerous(widths: CriticalWidths, schema: Schema, limit: int) -> list[tuple[SubTable, int]]:
    """Proper sub-tables by increasing critical width, then decreasing dimension, then number."""
    kept = widths.sub_tables != np.uint64(st.full(len(schema)))
    sub_tables, narrow = widths.sub_tables[kept], widths.widths[kept]
    order = np.lexsort((sub_tables, -st.many_ways(sub_tables, schema), narrow))[:limit]
    return list(zip(sub_tables[order].tolist(), narrow[order].tolist(), strict=True))


def released(sub_tables: npt.NDArray[np.uint64], release: Release) -> npt.NDArray[np.bool_]:
    """(n,) which of the sub-tables the release has."""
    found = np.zeros(len(sub_tables), bool)
    # one element at a time: 2^23 sub-tables beside hundreds of them are gigabytes
    for element in release.frontier:
        found |= sub_tables & ~np.uint64(element) == 0
    return found


@dataclass(frozen=True)
class ByDimension:
    """The most dangerous sub-tables of each dimension, and chains of them ([KDSF] 5.2, figure 6).

    levels    of dimension 2 and more, below the full table's, while all widths are listed; the largest dimension first
    chains    one sub-table of least width a level, each contains the next one; a new chain starts where none goes on
    is_whole  whether the levels reach up to just below the full table
    """

    levels: tuple[Level, ...]
    chains: tuple[tuple[SubTable, ...], ...]
    is_whole: bool

    @staticmethod
    def of(levels: Sequence[Level], schema: Schema) -> ByDimension:
        """All ties are kept: there is one chain exactly where some choice of one sub-table a level is a chain.

        One-way sub-tables and the full table are left out: a chain has them whatever the data. Time is O(K n log n)
        for n ties and K variables, memory O(n); levels of one least width from the top down cost nothing.
        """
        known = [level for level in levels if 2 <= level.dimension < len(schema.axes)]
        # a child is no narrower than its parent: a level is listed in full where the one above is
        known = [level for level in known if level.is_complete]
        runs: list[list[BitSets]] = []
        for k, level in enumerate(known):
            reached = _reached(runs[-1][-1], known[k - 1], level, schema) if runs else level.least[:0]
            if len(reached):
                runs[-1].append(reached)
            else:
                runs.append([level.least])
        return ByDimension(tuple(known), tuple(map(_one_of_each, runs)), len(known) == max(len(schema.axes) - 2, 0))


def _reached(above: BitSets, level_above: Level, level: Level, schema: Schema) -> BitSets:
    """Those of least width of the level that are within one of those above."""
    if len(above) == len(level_above.least) and level.widths[0] == level_above.widths[0]:
        # a parent is no wider than its child: with the same least width, all parents of these are above
        return level.least
    found = np.zeros(len(level.least), bool)
    for axis in schema.axes:
        own = np.uint64(schema.levels.of_axis[axis])
        # an axis fewer and no other one coarser: a coarser one is no narrower, so this one is of least width too
        found |= np.isin(level.least, above[above & own != 0] & ~own)
    return level.least[found]


def _one_of_each(run: Sequence[BitSets]) -> tuple[SubTable, ...]:
    """From the last level up, each time the first that contains the one below."""
    chain = [int(run[-1][0])]
    for sets in reversed(run[:-1]):
        below = np.uint64(chain[-1])
        chain.append(int(sets[np.argmax(sets & below == below)]))
    return tuple(reversed(chain))


def letters(subtable: SubTable, schema: Schema) -> str:
    """The label, as `ABC` where all names are of one letter."""
    label = st.label(subtable, schema)
    return label.replace("*", "") if all(len(name) == 1 for name in schema.names) else label
