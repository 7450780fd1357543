"""The query space level by level: its critical widths, and the chain of most dangerous sub-tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.critical_width import CriticalWidths


@dataclass(frozen=True)
class Level:
    """The listed sub-tables of one dimension, narrowest critical width first, ties by number."""

    dimension: int
    possible: int
    sub_tables: npt.NDArray[np.uint64]
    widths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def median(self) -> int:
        """The lower median."""
        return int(self.widths[(len(self) - 1) // 2])

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


def most_dangerous(
    widths: CriticalWidths, schema: Schema, limit: int, release: Release | None = None
) -> list[tuple[SubTable, int]]:
    """Proper sub-tables by increasing critical width, then decreasing dimension, then number.

    Only those in the release where one is given.
    """
    kept = widths.sub_tables != np.uint64(st.full(len(schema)))
    if release is not None:
        kept &= released(widths.sub_tables, release)
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


def most_dangerous_chain(widths: CriticalWidths, schema: Schema) -> tuple[tuple[SubTable, int], ...]:
    """From the full table repeatedly to the child of smallest critical width, ties by number.

    Empty where the full table is not listed, as with a floor.
    """
    known = widths.by_sub_table()
    here = st.full(len(schema))
    if here not in known:
        return ()
    chain = [here]
    # a child's width is no smaller, so it is listed where its parent is: the chain goes down to the total
    while listed := [child for child in st.children(here, schema) if child in known]:
        here = min(listed, key=lambda child: (known[child], child))
        chain.append(here)
    return tuple((subtable, known[subtable]) for subtable in chain)
