"""Cells of suppressed tables: their places, what a walk pays to change them, and which must keep a width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences, Flags
from sdc.feasible.equations import every_cell
from sdc.model import subtable as st
from sdc.model.cell_bounds import is_wide
from sdc.model.errors import ReleaseError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

Ints = npt.NDArray[np.int64]
ANY = 1 << 40  # more than any count changes by
ANYWHERE = np.array([-ANY, ANY])
MOST_CELLS = 1 << 22  # of a fact that walks know in part
_NONE = np.zeros(0, np.int64)
MOST_BEGUN = 64  # cells of a marginal cell that a walk may begin with


@dataclass(frozen=True, eq=False)
class PricedCells:
    """Cells of suppressed tables, and what it costs a walk to change each.

    Their cells are one view's after another's, each in C order: a place is a number among all of them.

    views   the sub-tables, closed
    prices  (places,) in the weights of a walk: 0 of a suppressed cell, less than 0 of what is to change
    limits  (places, 2) between which each may change, by what is public of it; None where nothing is
    """

    views: tuple[SubTable, ...]
    prices: npt.NDArray[np.signedinteger]
    limits: Ints | None = None

    @property
    def room(self) -> Ints:
        """(places, 2) between which each may change; read-only."""
        return np.broadcast_to(ANYWHERE, (len(self.prices), 2)) if self.limits is None else self.limits

    def beside(self, other: PricedCells) -> PricedCells:
        """These and after them the others."""
        if not other.views:
            return self
        both = (np.concatenate(pair) for pair in ((self.prices, other.prices), (self.room, other.room)))
        return PricedCells((*self.views, *other.views), *both)


NO_PRICED_CELLS = PricedCells((), np.zeros(0, np.int64))


@lru_cache(maxsize=2)
def without_intervals(known: Knowledge, table: Table) -> tuple[Knowledge, PricedCells]:
    """What is known without facts that tell some counts between numbers, and these: each cell may change as they say.

    A fact of too many cells stays as it is. Kept for the units that follow.
    """
    schema = known.schema
    facts = [fact for fact in known.facts if fact.intervals is not None and st.cells(fact.view, schema) <= MOST_CELLS]
    left = tuple(fact for fact in known.facts if fact not in facts)
    room = np.concatenate([NO_PRICED_CELLS.room, *(_room(fact, table) for fact in facts)])
    views = tuple(fact.view for fact in facts)
    return known.with_facts(left), PricedCells(views, np.zeros(len(room), np.int64), room)


def _room(fact: Fact, table: Table) -> Ints:
    """(cells of its view, 2) between which each may change, by what the fact states of it."""
    schema = table.schema.restrict(st.members(fact.view))
    room = np.tile(ANYWHERE, (schema.cells, 1))
    room[fact.exactly(table.schema)] = 0
    if fact.intervals is not None:
        counts, places = (
            table.marginal(fact.view).count_at(fact.intervals.cells),
            schema.keys.pack(fact.intervals.cells),
        )
        room[places, 0], room[places, 1] = fact.intervals.low - counts, fact.intervals.high - counts
    return room


def shares(view: SubTable, schema: Schema) -> list[tuple[int, Ints]]:
    """Of each axis of a sub-table its place, and what each of its categories adds to the place in the marginal."""
    levels, kept = schema.levels, st.members(schema.levels.finest(view))
    strides = schema.space(kept).strides
    return [(levels.column_of[v], levels.groups[v] * stride) for v, stride in zip(kept, strides, strict=True)]


def begins(views: tuple[SubTable, ...], schema: Schema) -> Ints:
    """(views + 1,) where each view begins among the places."""
    return np.cumsum([0, *(st.cells(view, schema) for view in views)])


def places_of(views: tuple[SubTable, ...], schema: Schema) -> Ints:
    """(views, axes, categories) what each category adds to the place of a cell in a view."""
    found = np.zeros((len(views), len(schema.axes), max(schema.keys.sizes)), np.int64)
    for part, (view, begin) in enumerate(zip(views, begins(views, schema).tolist(), strict=False)):
        for column, share in shares(view, schema):
            found[part, column, : len(share)] += share
        found[part, 0] += begin
    return found


def places_in(cells: Codes, views: tuple[SubTable, ...], schema: Schema) -> Ints:
    """(n, views) the place of each of (n, axes) cells in every view."""
    found = np.empty((len(cells), len(views)), np.int64)
    for part, own in enumerate(places_of(views, schema)):
        found[:, part] = _places(cells, own)
    return found


def _places(cells: Codes, added: Ints) -> Ints:
    """(n,) the place of each of (n, axes) cells in a view, by what each category adds to it."""
    return np.asarray(added[np.arange(cells.shape[1]), cells].sum(axis=1))


def cells_at(places: Ints, views: tuple[SubTable, ...], schema: Schema) -> tuple[Counts, ...]:
    """Of each place the cells that are in it, as their own places in C order; every cell of the table is listed."""
    of = places_in(every_cell(schema), views, schema)
    return tuple(np.flatnonzero((of == place).any(axis=1)) for place in places.tolist())


def changed_places(
    differences: Differences, views: tuple[SubTable, ...], schema: Schema
) -> tuple[Counts, Counts, Counts]:
    """Of each place that a difference changes: which difference, the place, and by how much; in this order."""
    places = places_in(differences.cells, views, schema)
    of = np.repeat(differences.of, places.shape[1])
    number = max(1, int(begins(views, schema)[-1]))
    keys, group = np.unique(of * number + places.reshape(-1), return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, group, np.repeat(differences.changes, places.shape[1]))
    kept = sums != 0
    return keys[kept] // number, keys[kept] % number, sums[kept]


def cells_of_places(table: Table, views: tuple[SubTable, ...], places: Ints, raised: Flags) -> tuple[Ints, Ints]:
    """Of (n,) places keys of cells to begin walks with: place i has keys[begin[i]:begin[i + 1]].

    Those with records; where it is to be raised also those that would be like one with records, but for one axis of
    the view.
    """
    schema, begin, added = table.schema, begins(views, table.schema), places_of(views, table.schema)
    order, ascending = by_place(table, views)
    keys = list[Ints]()
    parts = np.searchsorted(begin, places, side="right") - 1
    for place, part, raises in zip(places.tolist(), parts.tolist(), raised.tolist(), strict=True):
        rows, column = order[part], ascending[part]
        cells = [table.codes[_rows_at(np.array([place]), rows, column)]]
        for near, axis, code in _beside(place - int(begin[part]), views[part], schema) if raises else ():
            like = table.codes[_rows_at(near + begin[part], rows, column)].copy()
            like[:, axis] = code
            cells.append(like[_places(like, added[part]) == place])
        own = np.unique(schema.keys.pack(np.concatenate(cells)))
        keys.append(own[:: max(1, -(-len(own) // MOST_BEGUN))])
    return np.cumsum([0, *map(len, keys)]), np.concatenate([np.zeros(0, np.int64), *keys])


@lru_cache(maxsize=1)
def by_place(table: Table, views: tuple[SubTable, ...]) -> tuple[Ints, Ints]:
    """(views, cells) rows of the table in the order of their places in each view, and these places, ascending.

    Kept for the units that follow.
    """
    places = places_in(table.codes, views, table.schema).T
    order = np.argsort(places, axis=1, kind="stable")
    return order, np.take_along_axis(places, order, axis=1)


def _rows_at(places: Ints, rows: Ints, column: Ints) -> Ints:
    """The rows of cells at ascending places, of rows in the order of their (rows,) places, at most some of each."""
    low, high = (np.searchsorted(column, places, side=side) for side in ("left", "right"))
    number = np.minimum(high - low, MOST_BEGUN)
    at = np.arange(int(number.sum())) + np.repeat(low - np.cumsum(number) + number, number)
    return np.asarray(rows[at], np.int64)


def _beside(at: int, view: SubTable, schema: Schema) -> Iterator[tuple[Ints, int, int]]:
    """Of each axis of a view places that differ from one in it alone, the axis, and a category of the one."""
    kept = st.members(schema.levels.finest(view))
    for v, stride in zip(kept, schema.space(kept).strides.tolist(), strict=True):
        code = at // stride % schema.sizes[v]
        others = np.delete(np.arange(schema.sizes[v]), code)
        yield at + (others - code) * stride, schema.levels.column_of[v], int(np.argmax(schema.levels.groups[v] == code))


# Small cells that must keep a width of their own


@dataclass(frozen=True, eq=False)
class PrimaryCells:
    """Primary cells of suppressed tables.

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

    def within(self, component: SubTable, schema: Schema) -> PrimaryCells:
        """Those of views that a component has, numbered as there."""
        kept = [(view, rows, places) for view, rows, places in self.of_views(schema) if st.is_within(view, component)]
        if not kept:
            return NO_PRIMARY_CELLS
        inside, rows = schema.restrict(st.members(component)), np.concatenate([rows for _, rows, _ in kept])
        views = tuple(st.within(view, component) for view, _, _ in kept)
        ends = begins(views, inside)
        places = np.concatenate([places + begin for (_, _, places), begin in zip(kept, ends, strict=False)])
        return PrimaryCells(views, places, self.counts[rows], self.rows[rows])


NO_PRIMARY_CELLS = PrimaryCells((), _NONE, _NONE, _NONE)


def primary_cells(table: Table, known: Knowledge, before: Knowledge, small_count: int, min_width: int) -> PrimaryCells:
    """Cells of 1 up to the small count of suppressed tables, but those that are too narrow by what was known before.

    These are what facts tell between two numbers, withheld cells and rounded ones, and nothing exactly. ReleaseError
    where the sub-table is too large to be looked at cell by cell.
    """
    schema = table.schema
    views = tuple(dict.fromkeys(fact.view for fact in known.published if fact.intervals is not None))
    for view in views:
        if st.cells(view, schema) > MOST_CELLS:
            raise ReleaseError(
                f"{st.label(view, schema)} has suppressed cells, and {st.cells(view, schema)} cells in all; primary "
                f"cells are judged of at most {MOST_CELLS}; leave it out, or judge without its smaller categories"
            )
    ends, places, counts = begins(views, schema), [_NONE], [_NONE]
    for view, begin in zip(views, ends.tolist(), strict=False):
        own, small = _known_between(view, known), table.marginal(view).dense.reshape(-1)
        own = own[(small[own] > 0) & (small[own] <= small_count)]
        if len(own):
            own = own[~narrow(table, view, before, min_width)[own]]
        places.append(own + begin)
        counts.append(small[own])
    placed = np.concatenate(places)
    return PrimaryCells(views, placed, np.concatenate(counts), np.arange(len(placed)))


def _known_between(view: SubTable, known: Knowledge) -> Ints:
    """Places of the cells for which some fact of this view states an interval, ascending, and none a count."""
    inside = known.schema.restrict(st.members(view))
    between, exact = np.zeros((2, inside.cells), np.bool_)
    for fact in known.published:
        if fact.view == view:
            exact |= fact.exactly(known.schema)
            if fact.intervals is not None:
                between[inside.keys.pack(fact.intervals.cells)] = True
    return np.flatnonzero(between & ~exact)


def narrow(table: Table, view: SubTable, known: Knowledge, min_width: int) -> npt.NDArray[np.bool_]:
    """(cells of a view,) whether the bounds of each, from what is known of the view's marginals, are too narrow.

    A cell has at most what each of its marginals has, nothing where a structural zero of the view says so, and what
    facts of the view say; at least what one of its marginals has beyond the most of all others there; and then at most
    what one has beyond the least of all others.
    """
    schema, view = table.schema, table.schema.levels.closed(view)
    low, high = np.zeros(st.cells(view, schema), np.int64), np.full(st.cells(view, schema), known.total)
    inside = schema.restrict(st.members(view))
    for fact in known.facts:
        if fact.view == view:
            ends = table.marginal(view).dense.reshape(-1) + _room(fact, table).T
            low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
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


def _counts(table: Table, part: SubTable) -> Ints:
    """(cells of the marginal,) in C order."""
    return table.marginal(part).dense.reshape(-1) if part else np.array([table.total])


def _groups(inside: Schema, part: SubTable) -> Ints:
    """(cells,) of a view the place of each in one of its marginals; 0 in that of the grand total."""
    if not part:
        return np.zeros(inside.cells, np.int64)
    of_each = inside.marginal_cells(inside.keys.unpack(np.arange(inside.cells)), part)
    return inside.restrict(st.members(part)).keys.pack(of_each)
