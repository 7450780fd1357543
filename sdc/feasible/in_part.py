"""Sub-tables of which some cells are withheld: where their cells are, and what it costs to change them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences, Flags
from sdc.feasible.equations import every_cell
from sdc.model import subtable as st
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

Ints = npt.NDArray[np.int64]
ANY = 1 << 40  # more than any count changes by
ANYWHERE = np.array([-ANY, ANY])
MOST_CELLS = 1 << 22  # of a fact that walks know in part
MOST_BEGUN = 64  # cells of a marginal cell that a walk may begin with


@dataclass(frozen=True, eq=False)
class InPart:
    """Sub-tables in part, and what it costs a walk to change each of their cells.

    Their cells are one view's after another's, each in C order: a place is a number among all of them.

    views   the sub-tables, closed
    prices  (places,) in the weights of a walk: 0 of what is withheld, less than 0 of what is to change
    told    (places, 2) between which each may change, by what is told of it; None where nothing is
    """

    views: tuple[SubTable, ...]
    prices: npt.NDArray[np.signedinteger]
    told: Ints | None = None

    @property
    def room(self) -> Ints:
        """(places, 2) between which each may change; read-only."""
        return np.broadcast_to(ANYWHERE, (len(self.prices), 2)) if self.told is None else self.told

    def beside(self, other: InPart) -> InPart:
        """These and after them the others."""
        if not other.views:
            return self
        both = (np.concatenate(pair) for pair in ((self.prices, other.prices), (self.room, other.room)))
        return InPart((*self.views, *other.views), *both)


NO_PART = InPart((), np.zeros(0, np.int64))


@lru_cache(maxsize=2)
def told_in_part(known: Knowledge, table: Table) -> tuple[Knowledge, InPart]:
    """What is known without facts that tell some counts between numbers, and these: each cell may change as they say.

    A fact of too many cells stays as it is. Kept for the units that follow.
    """
    schema = known.schema
    facts = [fact for fact in known.facts if fact.between is not None and st.cells(fact.view, schema) <= MOST_CELLS]
    left = tuple(fact for fact in known.facts if fact not in facts)
    room = np.concatenate([NO_PART.room, *(_room(fact, table) for fact in facts)])
    views = tuple(fact.view for fact in facts)
    return known.with_facts(left), InPart(views, np.zeros(len(room), np.int64), room)


def _room(fact: Fact, table: Table) -> Ints:
    """(cells of its view, 2) between which each may change, by what the fact tells of it."""
    schema = table.schema.restrict(st.members(fact.view))
    room = np.tile(ANYWHERE, (schema.cells, 1))
    room[fact.exactly(table.schema)] = 0
    if fact.between is not None:
        counts, places = table.marginal(fact.view).count_at(fact.between.cells), schema.keys.pack(fact.between.cells)
        room[places, 0], room[places, 1] = fact.between.low - counts, fact.between.high - counts
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
