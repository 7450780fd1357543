"""Small cells of sub-tables of which cells are withheld: each of them is to keep a width of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.feasible.in_part import MOST_CELLS, begins
from sdc.model import subtable as st
from sdc.model.cell_bounds import is_wide
from sdc.model.errors import ReleaseError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnCells:
    """Some cells of sub-tables in part.

    views   the sub-tables, closed
    places  (n,) of the cells among those of one view after another's, ascending
    counts  (n,)
    rows    (n,) which each is of those of the whole table; of that their own numbers
    """

    views: tuple[SubTable, ...]
    places: Ints
    counts: Counts
    rows: Ints

    def __len__(self) -> int:
        return len(self.places)

    def of_views(self, schema: Schema) -> Iterator[tuple[SubTable, Ints, Ints]]:
        """Each view, which of the cells are its own, and their places in it, in C order."""
        ends = begins(self.views, schema)
        cuts = np.searchsorted(self.places, ends)
        for view, begin, low, high in zip(self.views, ends.tolist(), cuts.tolist(), cuts[1:].tolist(), strict=False):
            yield view, np.arange(low, high), self.places[low:high] - begin

    def within(self, component: SubTable, schema: Schema) -> OwnCells:
        """Those of views that a component has, numbered as there."""
        kept = [(view, rows, places) for view, rows, places in self.of_views(schema) if st.is_within(view, component)]
        if not kept:
            return NO_OWN_CELLS
        inside, rows = schema.restrict(st.members(component)), np.concatenate([rows for _, rows, _ in kept])
        views = tuple(st.within(view, component) for view, _, _ in kept)
        ends = begins(views, inside)
        places = np.concatenate([places + begin for (_, _, places), begin in zip(kept, ends, strict=False)])
        return OwnCells(views, places, self.counts[rows], self.rows[rows])


_NONE = np.zeros(0, np.int64)
NO_OWN_CELLS = OwnCells((), _NONE, _NONE, _NONE)


def own_cells(table: Table, known: Knowledge, before: Knowledge, small_count: int, min_width: int) -> OwnCells:
    """Cells of 1 up to the small count of sub-tables in part, but those that are too narrow by what was known before.

    These are what facts tell between two numbers, withheld cells and rounded ones, and nothing exactly. ReleaseError
    where the sub-table is too large to be looked at cell by cell.
    """
    schema = table.schema
    views = tuple(dict.fromkeys(fact.view for fact in known.published if fact.between is not None))
    for view in views:
        if st.cells(view, schema) > MOST_CELLS:
            raise ReleaseError(
                f"cells of {st.label(view, schema)} are withheld, which has {st.cells(view, schema)} cells: of at most "
                f"{MOST_CELLS} small ones are kept safe; leave it out, or judge without its smaller categories"
            )
    ends, places, counts = begins(views, schema), [_NONE], [_NONE]
    for view, begin in zip(views, ends.tolist(), strict=False):
        own, small = _told_between(view, known), table.marginal(view).dense.reshape(-1)
        own = own[(small[own] > 0) & (small[own] <= small_count)]
        if len(own):
            own = own[~narrow(table, view, before, min_width)[own]]
        places.append(own + begin)
        counts.append(small[own])
    placed = np.concatenate(places)
    return OwnCells(views, placed, np.concatenate(counts), np.arange(len(placed)))


def _told_between(view: SubTable, known: Knowledge) -> Ints:
    """Places of the cells that some fact of this view tells between two numbers, ascending, and none exactly."""
    inside = known.schema.restrict(st.members(view))
    between, told = np.zeros((2, inside.cells), np.bool_)
    for fact in known.published:
        if fact.view == view:
            told |= fact.exactly(known.schema)
            if fact.between is not None:
                between[inside.keys.pack(fact.between.cells)] = True
    return np.flatnonzero(between & ~told)


def narrow(table: Table, view: SubTable, known: Knowledge, min_width: int) -> npt.NDArray[np.bool_]:
    """(cells of a view,) whether what is known of each is too narrow, as the release tells it of what the view has.

    A cell has at most what each of its marginals has, nothing where a structural zero of the view says so, and what
    facts of the view say; at least what one of its marginals has beyond the most of all others there; and then at most
    what one has beyond the least of all others.
    """
    schema, view = table.schema, table.schema.levels.closed(view)
    low, high = np.zeros(st.cells(view, schema), np.int64), np.full(st.cells(view, schema), known.total)
    inside = schema.restrict(st.members(view))
    for fact in known.facts:
        if fact.view == view:
            room = _room(fact, table, inside.cells, known)
            low, high = np.maximum(low, room[0]), np.minimum(high, room[1])
    cells = inside.keys.unpack(np.arange(inside.cells))
    high[known.zeros.within(view).contains(cells, inside)] = 0
    shared = st.maximal([st.GRAND_TOTAL, *(element & view for element in known.release.frontier)])
    groups = [(_groups(inside, st.within(part, view)), _counts(table, part)) for part in shared]
    for group, counts in groups:
        high = np.minimum(high, counts[group])
    for group, counts in groups:
        most = np.zeros(len(counts), np.int64)
        np.add.at(most, group, high)
        low = np.maximum(low, counts[group] - (most[group] - high))
    for group, counts in groups:
        least = np.zeros(len(counts), np.int64)
        np.add.at(least, group, low)
        high = np.minimum(high, counts[group] - (least[group] - low))
    return ~is_wide(high - low, min_width)


def _room(fact: Fact, table: Table, cells: int, known: Knowledge) -> tuple[Ints, Ints]:
    """(cells of its view,) between what a fact says that each count lies."""
    low, high = np.zeros(cells, np.int64), np.full(cells, known.total)
    told = fact.exactly(known.schema)
    low[told] = high[told] = table.marginal(fact.view).dense.reshape(-1)[told]
    if fact.between is not None:
        places = known.schema.restrict(st.members(fact.view)).keys.pack(fact.between.cells)
        low[places], high[places] = fact.between.low, fact.between.high
    return low, high


def _counts(table: Table, part: SubTable) -> Ints:
    """(cells of the marginal,) in C order."""
    return table.marginal(part).dense.reshape(-1) if part else np.array([table.total])


def _groups(inside: Schema, part: SubTable) -> Ints:
    """(cells,) of a view the place of each in one of its marginals; 0 in that of the grand total."""
    if not part:
        return np.zeros(inside.cells, np.int64)
    of_each = inside.marginal_cells(inside.keys.unpack(np.arange(inside.cells)), part)
    return inside.restrict(st.members(part)).keys.pack(of_each)
