"""Feasible tables by a walk of moves from the true one: released marginals stay, negative counts are repaired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.executor import cached_per_thread
from sdc.feasible import walk_cell_kernel, walk_kernel
from sdc.feasible.differences import Differences, extremes
from sdc.feasible.suppressed_cells import (
    NO_PRICED_CELLS,
    PricedCells,
    by_place,
    cells_of_places,
    places_of,
    shares,
    without_intervals,
)
from sdc.feasible.walk_cell_kernel import (
    EASE,
    EMPTY,
    MAX_CHANGED,
    MAX_FLIPS,
    MAX_TRAIL,
    WRONG,
    Ints,
    TrueTable,
    WalkWork,
)
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.levels import Groups
from sdc.model.marginal import columns_of
from sdc.model.marginal_kernel import add_counts
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_SPACE = 1 << 59  # a key and the steps of a move from it fit int64
MAX_VARIABLES = 20
MOST_KEPT = 1 << 25  # cells, 32 MB, each of which has a place for what it weighs
SHARED = 1 << 22  # places, 36 MB, that those of larger tables share
CELLS_AT_ONCE = 64
MOST_TOTAL = 255  # a byte; larger ones all mean that there is no want of records
MAX_TOUCHED = 1 << 12  # places of sub-tables in part that a walk keeps one by one
MAX_TOTALS = 1 << 14  # cells of a released marginal that says how hard cells are to change

# Of each try its number, which its random numbers begin with, its steps and the most variables of a block
TRIES = np.array(
    [[0, 80, 2], *([n, 150, 2] for n in range(1, 11)), *([n, 150, 3] for n in range(11, 15)), [15, 300, 3]]
)
ALL, FIRST, OTHERS = range(len(TRIES)), range(1), range(1, len(TRIES))
NOWHERE = np.zeros(0, np.int64)


def can_search(table: Table) -> bool:
    """Whether a cell's key fits 59 bits and the variables are at most 20, which their sets are listed for."""
    return table.schema.cells <= MAX_SPACE and len(table.schema) <= MAX_VARIABLES


@dataclass(frozen=True, eq=False)
class Moved:
    """Differences that move some cells, and the nodes that the search looked at."""

    differences: Differences
    nodes: int


def find(table: Table, knowledge: Knowledge, cells: Codes, widths: Ints, *, nodes: int, tries: range = ALL) -> Moved:
    """Feasible tables between which each of (n, axes) cells moves by its width, or as far as was found.

    widths  (n,) in records
    nodes   most nodes a cell
    tries   which of TRIES are made, one after another

    The count goes down as far as it can (and need), then up by the rest, each time from the true table.
    Deterministic, and a cell's answer does not depend on the others. ReleaseError where `can_search` says no.
    """
    walks, counts = _Walks(table, knowledge, cells, Differences.none(len(table.schema.axes))), table.count_at(cells)
    # down first: how far that goes says how far up is left to go, and no further than to 0 whatever is wanted
    down = walks.shifted(-np.minimum(counts, widths), np.full(len(cells), nodes), tries)
    up = walks.shifted(widths + down.gone, nodes - down.nodes, tries)
    found = Differences.concatenated([down.differences, up.differences])
    by_cell = np.argsort(np.concatenate([down.moved, up.moved]), kind="stable")
    return Moved(_checked(found.at(by_cell), table, knowledge), int(down.nodes.sum() + up.nodes.sum()))


def shift(
    table: Table,
    knowledge: Knowledge,
    cells: Codes,
    changes: Counts,
    *,
    nodes: int,
    tries: range = ALL,
    base: Differences | None = None,
) -> Moved:
    """Feasible tables that move each of (n, axes) cells by its (n,) change, in records, or as far as was found.

    base  one difference that makes a feasible table, at which walks begin; None for the true one. Changes and
          differences are from the true one all the same

    Else as `find`; ReleaseError as there.
    """
    base = Differences.none(len(table.schema.axes)) if base is None else base
    walks, by = _Walks(table, knowledge, cells, base), np.maximum(changes, -table.count_at(cells))
    place = table.schema.keys.matching(base.cells, cells)
    by[place >= 0] -= base.changes[place[place >= 0]]
    found = walks.shifted(by, np.full(len(cells), nodes), tries)
    return Moved(_checked(found.differences, table, knowledge), int(found.nodes.sum()))


def shift_priced(
    table: Table,
    knowledge: Knowledge,
    suppressed: PricedCells,
    cells: Codes | None,
    places: Ints,
    changes: Counts,
    *,
    nodes: int,
    tries: range,
) -> Shifted:
    """As `shift`, from the true table, by moves that cost least of what the sub-tables in part show.

    cells  (n, axes), or None for (n,) cells of the sub-tables in part, by their places among all prices

    The view of facts without intervals is as if whole. ReleaseError as `find`.
    """
    known, limits = without_intervals(knowledge, table)
    priced = suppressed.beside(limits)
    walker = _walker(table, known.with_hulls, 0, None, priced.views)
    walker.price(priced)
    if cells is None:
        begin, keys = cells_of_places(table, suppressed.views, places, changes > 0)
    else:
        begin = keys = NOWHERE
        places, changes = table.schema.keys.pack(cells), np.maximum(changes, -table.count_at(cells))
    return walker.shifted(places, changes, np.full(len(places), nodes), tries, begin, keys).agreeing(table, knowledge)


def _from(base: Differences, found: Differences, table: Table) -> Differences:
    """Differences from the table at the base as differences from the true one."""
    number = len(found)
    of = np.concatenate([found.of, np.repeat(np.arange(number), len(base.changes))])
    cells = np.concatenate([found.cells, np.tile(base.cells, (number, 1))])
    changes = np.concatenate([found.changes, np.tile(base.changes, number)])
    return Differences.summed(number, of, cells, changes, table.schema)


def _checked(differences: Differences, table: Table, knowledge: Knowledge) -> Differences:
    # by construction they are; what is published rests on it, so that it is checked nevertheless
    if not differences.feasible(table, knowledge).all():
        raise RuntimeError("a walk left the feasible tables; this is a bug in sdc: report it")
    return differences


def reached(differences: Differences, cells: Codes, counts: Counts, table: Table) -> Intervals:
    """(n, 2) int64 smallest and largest value of each of (n, axes) cells, each once, that some table has.

    Over the true table, with (n,) counts, and what the differences make of it; they are taken for feasible.
    """
    place = table.schema.keys.matching(cells, differences.cells)
    hit = place >= 0
    return counts[:, None] + extremes(place[hit], differences.changes[hit], len(cells))


class _Alike(NamedTuple):
    """Cells that walk alike: by moves that change nothing of `known`, and none between categories of `fixed`.

    also     by moves too that change nothing of this, with whatever categories; None for no others
    suppressed  what moves pay for
    """

    rows: Ints
    known: Knowledge
    fixed: SubTable
    also: Knowledge | None = None
    suppressed: PricedCells = NO_PRICED_CELLS


class _Walks:
    """Walks of some cells under what is known, each course for the cells that those before it leave short.

    First those with facts that state intervals of counts, by moves that pay for what is stated exactly, and as if the
    views of all other facts were public whole. Then as if all views were. Then from outside of a fact's universe: a
    move that stays outside changes no count of it, so that its view need not stay. And as if no fact were there. Of
    what is found so that is kept which agrees.
    """

    def __init__(self, table: Table, knowledge: Knowledge, cells: Codes, base: Differences) -> None:
        self._table, self._knowledge, self._base, self._cells = table, knowledge, base, cells

    def shifted(self, changes: Ints, nodes: Ints, tries: range) -> Shifted:
        """Moves (n,) cells by (n,) changes; differences are from the true table, each of one cell's farthest."""
        found = Shifted(Differences.none(len(self._table.schema.axes)), NOWHERE, *np.zeros((2, len(changes)), np.int64))
        for course in self._courses():
            rows = course.rows[found.gone[course.rows] != changes[course.rows]]
            if len(rows):
                further = self._shifted(course._replace(rows=rows), changes, nodes, tries)
                found = found.joined(further.agreeing(self._table, self._knowledge))
        return found

    def _shifted(self, course: _Alike, changes: Ints, nodes: Ints, tries: range) -> Shifted:
        rows, pack = course.rows, self._table.schema.keys.pack
        walker = _walker(self._table, course.known, course.fixed, course.also, course.suppressed.views)
        walker.price(course.suppressed)
        walker.begin_at(pack(self._base.cells), self._base.changes)
        found = walker.shifted(pack(self._cells[rows]), changes[rows], nodes[rows], tries)
        differences = _from(self._base, found.differences, self._table) if len(self._base) else found.differences
        return Shifted(differences, rows[found.moved], *(_spread(part, rows, len(changes)) for part in found[2:]))

    def _courses(self) -> Iterator[_Alike]:
        knowledge, facts, schema = self._knowledge, self._knowledge.facts, self._table.schema
        rows = np.arange(len(self._cells))
        if any(fact.intervals is not None for fact in facts):
            known, limits = without_intervals(knowledge, self._table)
            yield _Alike(rows, known.with_hulls, 0, suppressed=limits)
        yield _Alike(rows, knowledge.with_hulls, 0)
        if not facts:
            return
        # of each fact the variable by which a cell is outside of it, -1 where it is inside
        outside = np.stack([fact.outside(self._cells, schema) for fact in facts], axis=1)
        for by in np.unique(outside[(outside >= 0).any(axis=1)], axis=0):
            inside = tuple(fact for fact, v in zip(facts, by, strict=True) if v < 0)
            # that variable, or a coarser level of it, says what crosses its border
            fixed = st.union(1 << v | schema.levels.coarser[v] for v in by[by >= 0].tolist())
            alike = rows[(outside == by).all(axis=1)]
            course = _Alike(alike, knowledge.with_facts(inside).with_hulls, fixed)
            # what crosses the border as if all were whole, and is repaired on the other side, may agree or not
            yield from (course, course._replace(also=knowledge.with_hulls))
        if any(fact.universe for fact in facts):
            yield _Alike(rows, knowledge.with_facts(()), 0)


def _spread(values: Ints, rows: Ints, number: int) -> Ints:
    found = np.zeros(number, np.int64)
    found[rows] = values
    return found


@cached_per_thread(maxsize=2)
def _walker(
    table: Table, knowledge: Knowledge, fixed: SubTable, also: Knowledge | None, suppressed: tuple[SubTable, ...]
) -> _Walker:
    # units of one round come to a process one by one, each with a copy of what is known
    return _Walker(table, knowledge, fixed, also, suppressed)


def forget() -> None:
    """Drops what the searches of this process share."""
    for kept in (_walker, _totals, _columns, by_place, without_intervals):
        kept.cache_clear()


class Shifted(NamedTuple):
    """Differences, which of the cells or places each moves, how far each of these was moved, and its nodes."""

    differences: Differences
    moved: Ints
    gone: Ints
    nodes: Ints

    def agreeing(self, table: Table, knowledge: Knowledge) -> Shifted:
        """Those that are feasible under this knowledge of the table."""
        good = self.differences.feasible(table, knowledge)
        gone = self.gone.copy()
        gone[self.moved[~good]] = 0
        return Shifted(self.differences.rows(good), self.moved[good], gone, self.nodes)

    def joined(self, other: Shifted) -> Shifted:
        """Of each cell what moves it farther, and the nodes of both."""
        further = np.abs(other.gone) > np.abs(self.gone)
        kept, added = ~further[self.moved], further[other.moved]
        return Shifted(
            Differences.concatenated([self.differences.rows(kept), other.differences.rows(added)]),
            np.concatenate([self.moved[kept], other.moved[added]]),
            np.where(further, other.gone, self.gone),
            self.nodes + other.nodes,
        )


class _Walker:
    """What the searches of one process share: the moves that keep what is known, and the true table as a hash table."""

    def __init__(
        self,
        table: Table,
        knowledge: Knowledge,
        fixed: SubTable,
        also: Knowledge | None,
        suppressed: tuple[SubTable, ...],
    ) -> None:
        if not can_search(table):
            raise ReleaseError(
                f"{len(table.schema)} variables with {table.schema.cells} cells are too many for basic moves (at most "
                f"{MAX_VARIABLES} variables and 2^59 cells); choose the method nested or fewer variables"
            )
        self._schema, self._keys, self._counts = table.schema, table.schema.keys.pack(table.codes), table.counts
        self._work, self._changed = _new_work(table, knowledge, fixed, also, suppressed), np.zeros(0, np.int64)
        self._put(self._keys, self._counts.copy())  # which may be written to, as what `begin_at` puts: one type
        self._priced: PricedCells | None = None

    def price(self, suppressed: PricedCells) -> None:
        """Has cells of the sub-tables in part cost what is said there, and have that room."""
        if suppressed is not self._priced:
            limits = np.zeros((0, 2), np.int64) if suppressed.limits is None else suppressed.limits
            self._work = self._work._replace(shown=suppressed.prices.astype(np.int64), room=limits)
            self._priced = suppressed

    def begin_at(self, keys: Ints, changes: Ints) -> None:
        """Has walks begin at the table that (n,) changes of (n,) cells make of the true one."""
        if len(self._changed) or len(keys):
            # what is kept of a cell follows from it and its neighbours
            walk_cell_kernel.forget_near(self._work.table, np.concatenate([self._changed, keys]))
            self._changed = keys
            self._put(np.concatenate([self._keys, keys]), np.concatenate([self._counts, changes]))

    def _put(self, keys: Ints, counts: Ints) -> None:
        """Has these counts, of cells that may be given twice, be the table."""
        # a quarter full at most, so that a probe mostly ends at its first slot
        slots = 1 << int(4 * len(keys) + 1).bit_length()
        long = sum(size > walk_cell_kernel.LONG for size in self._schema.keys.sizes)
        lines = 1 << int(2 * len(keys) * long + 1).bit_length()
        filled = self._work.table._replace(
            keys=np.full(slots, EMPTY),
            counts=np.zeros(slots, np.int64),
            lines=np.full(lines, EMPTY),
            occupied=np.zeros(lines, np.int64),
        )
        walk_cell_kernel.add(filled, keys, counts)
        walk_cell_kernel.count_lines(filled)
        self._work = self._work._replace(table=filled)

    def shifted(
        self, places: Ints, changes: Ints, nodes: Ints, tries: range, begin: Ints = NOWHERE, keys: Ints = NOWHERE
    ) -> Shifted:
        """Moves (n,) cells, by their keys, by (n,) changes with at most (n,) nodes for each.

        Where `begin` is given places of sub-tables in part instead, each from one of keys[begin[i]:begin[i + 1]].
        """
        parts, rows = list[Shifted](), TRIES[tries.start : tries.stop]
        for first in range(0, max(1, len(places)), CELLS_AT_ONCE):
            piece = slice(first, first + CELLS_AT_ONCE)
            used = np.maximum(nodes[piece], 0)
            found, gone = np.zeros(len(used) + 1, np.int64), np.zeros(len(used), np.int64)
            cells, by = np.empty((2, len(used) * MAX_CHANGED), np.int64)
            asked = begin[piece.start : piece.stop + 1], keys, places[piece], changes[piece], rows
            walk_kernel.shift(self._work, *asked, used, found, gone, cells, by)
            moved = np.flatnonzero(np.diff(found))
            start = np.concatenate([found[:1], found[1:][moved]])
            differences = Differences(start, self._schema.keys.unpack(cells[: found[-1]]), by[: found[-1]].copy())
            parts.append(Shifted(differences, first + moved, gone, used))
        rest = (np.concatenate(own) for own in zip(*(part[1:] for part in parts), strict=True))
        return Shifted(Differences.concatenated([part.differences for part in parts]), *rest)


def _new_work(
    table: Table, knowledge: Knowledge, fixed: SubTable, also: Knowledge | None, suppressed: tuple[SubTable, ...]
) -> WalkWork:
    """Room for the search of a table under what is known of it, with nothing in the table yet.

    Without moves between categories that a `fixed` variable is the coarsest to tell apart: as if all sets with one of
    these were released. But with those of them that change nothing of what is known `also`.
    """
    cells_suppressed = sum(st.cells(view, table.schema) for view in suppressed)
    schema, release = table.schema, knowledge.structure.essential
    weighed = schema.cells if schema.cells <= MOST_KEPT else SHARED
    frontier = [element for element in release.frontier if st.cells(element, schema) <= MAX_TOTALS]
    totals = [_totals(table, element) for element in frontier]
    parts = [shares(element, schema) for element in frontier]
    levels, groups = _levels(schema), [schema.levels.groups[v].astype(np.int64) for v in range(len(schema))]
    flip_at, flip, order = _flips(schema, levels)
    unreleased = [s for s in knowledge.structure.minimal_unreleased if not s & fixed]
    released = release.listed(len(schema))
    if fixed:
        released = released | (np.arange(len(released)) & fixed > 0)
    if also is not None:
        unreleased = [*st.minimal([*unreleased, *also.structure.minimal_unreleased])]
        released = released & also.structure.essential.listed(len(schema))
    unreleased = [s for s in unreleased if _is_of_flips(s, schema)]
    true = TrueTable(
        np.array(schema.keys.sizes),
        schema.keys.strides,
        keys=np.full(1, EMPTY),
        counts=np.zeros(1, np.int64),
        totals=np.concatenate([np.zeros(0, np.uint8), *totals]),
        total=np.cumsum([0, *map(len, totals)])[:-1],
        parts=np.array([column for element in parts for column, _ in element], np.int64),
        part=np.cumsum([0, *map(len, parts)]),
        reach=np.cumsum([0, *(len(share) for element in parts for _, share in element)])[:-1],
        shares=np.concatenate([np.zeros(0, np.int64), *(share for element in parts for _, share in element)]),
        patterns=_patterns(knowledge.zeros, schema),
        lines=np.full(1, EMPTY),
        occupied=np.zeros(1, np.int64),
        weighed=np.full(weighed, walk_cell_kernel.UNWEIGHED, np.uint8),
        whose=np.full(0 if weighed == schema.cells else weighed, EMPTY),
    )
    return WalkWork(
        true,
        *trie(unreleased),
        axis=np.array(schema.levels.column_of),
        flip_at=flip_at,
        flip=flip,
        order=order,
        levels=np.concatenate(levels),
        level_at=np.cumsum([0, *map(len, levels)]),
        groups=np.concatenate(groups),
        group_at=np.cumsum([0, *map(len, groups)])[:-1],
        coarser=np.array(schema.levels.coarser, np.int64),
        released=released,
        changed=np.full(2 * MAX_CHANGED, EMPTY),
        state=np.zeros((2 * MAX_CHANGED, WRONG + 1), np.int64),
        places=np.zeros(MAX_CHANGED, np.int64),
        wrong=np.zeros(MAX_CHANGED, np.int64),
        filled=np.array([0, 0, 0, EASE, EMPTY, 0]),
        trail=np.zeros((MAX_TRAIL, 3 + MAX_FLIPS), np.int64),
        best=np.zeros(1 + MAX_FLIPS, np.int64),
        flips=np.zeros((walk_kernel.MAX_LISTED, 4), np.int64),
        sets=np.zeros((walk_kernel.MAX_BLOCKS + 1, walk_kernel.MAX_BLOCK**walk_kernel.MAX_BLOCKS), np.int64),
        random=np.zeros(1, np.int64),
        looked=np.zeros(1, np.int64),
        shown=np.zeros(cells_suppressed, np.int64),
        room=np.zeros((0, 2), np.int64),
        place_of=places_of(suppressed, schema),
        moved=np.zeros(cells_suppressed, np.int64),
        touched=np.zeros(MAX_TOUCHED, np.int64),
    )


def _is_of_flips(unreleased: SubTable, schema: Schema) -> bool:
    """Whether flips of few single axes are a move on it: of each axis it has one variable."""
    axes = {schema.levels.axis_of[v] for v in st.members(unreleased)}
    return len(axes) == st.dimension(unreleased) <= MAX_FLIPS


def _levels(schema: Schema) -> list[Ints]:
    """The variables of each axis, a coarser one before those that tell it."""
    own = (st.members(schema.levels.of_axis[axis]) for axis in schema.axes)
    return [np.array(sorted(some, key=lambda v: (st.dimension(schema.levels.coarser[v]), v)), np.int64) for some in own]


def _flips(schema: Schema, levels: Sequence[Ints]) -> tuple[Ints, Ints, Ints]:
    """`flip_at`, `flip` and `order` of `WalkWork`."""
    rows: dict[int, Ints] = {}
    order: list[Ints] = []
    for own in levels:
        begin = sum(map(len, order))
        is_chain = all(st.has(schema.levels.coarser[fine], coarse) for coarse, fine in pairwise(own.tolist()))
        found, categories = (_along if is_chain else _listed)([schema.levels.groups[v] for v in own.tolist()], begin)
        rows.update(zip(own.tolist(), found, strict=True))
        order.append(categories)
    flips = [rows[v] for v in range(len(schema))]
    return np.cumsum([0, *map(len, flips)])[:-1], np.concatenate(flips), np.concatenate(order)


def _along(groups: Sequence[Groups], begin: int) -> tuple[list[Ints], Ints]:
    """Of a chain, the coarsest first: categories in an order where each group is a range within its coarser ones."""
    codes = np.arange(len(groups[-1]))
    order = np.lexsort(np.stack([codes, *reversed(groups)]))
    low, high, found = np.zeros_like(codes), np.full_like(codes, len(codes)), []
    for own in groups:
        first = np.flatnonzero(np.diff(own[order].astype(np.int64), prepend=-1))
        of = np.searchsorted(first, codes, side="right") - 1
        start, end = first[of], np.append(first[1:], len(codes))[of]
        # the others in the coarser group, from behind the own one on and around
        rows = np.empty((len(codes), 4), np.int64)
        rows[order] = np.stack([begin + low, high - low, end - low - 1, (high - low) - (end - start)], axis=1)
        found.append(rows)
        low, high = start, end
    return found, order


def _listed(groups: Sequence[Groups], begin: int) -> tuple[list[Ints], Ints]:
    """Of levels that overlap: of each variable and category a list, behind a place that is not used."""
    separates = np.array([own[:, None] != own[None, :] for own in groups])
    found, order = list[Ints](), list[Ints]()
    for k, own in enumerate(groups):
        # alone the coarsest: every other that separates two categories separates those of this level too
        finer = np.array(
            [len(np.unique(np.stack([other, own]), axis=1).T) == len(np.unique(other)) for other in groups]
        )
        alone = separates[k] & ~separates[~finer].any(axis=0)
        rows = np.zeros((len(own), 4), np.int64)
        for code, others in enumerate(alone):
            listed = np.flatnonzero(others)
            rows[code] = begin + sum(map(len, order)), len(listed) + 1, 0, len(listed)
            order.append(np.concatenate([[code], listed]))
        found.append(rows)
    return found, np.concatenate(order)


def trie(sets: Sequence[SubTable]) -> tuple[Ints, Ints, Ints]:
    """Of each node the last variable, and from where to where its children are; the root first, none within another."""
    variable, begin, end, below = [0], [], [], [sorted(map(st.members, sets))]
    depth = [0]
    for members, d in zip(below, depth, strict=True):  # both grow on the way
        begin.append(len(below))
        longer = [m for m in members if len(m) > d]
        for v in sorted({m[d] for m in longer}):
            variable.append(v)
            below.append([m for m in longer if m[d] == v])
            depth.append(d + 1)
        end.append(len(below))
    return np.array(variable, np.int64), np.array(begin, np.int64), np.array(end, np.int64)


@lru_cache(maxsize=2048)
def _totals(table: Table, element: SubTable) -> npt.NDArray[np.uint8]:
    """(cells of the marginal,) its counts in C order, no larger than a byte holds. A search asks for most again."""
    schema, sums = table.schema, np.zeros(st.cells(element, table.schema), np.int64)
    members = np.array(st.members(schema.levels.finest(element)), np.int64)
    add_counts(sums, _columns(table), table.counts, members, np.array(schema.sizes))
    return np.minimum(sums, MOST_TOTAL).astype(np.uint8)


@lru_cache(maxsize=1)
def _columns(table: Table) -> Codes:
    return columns_of(table.all_codes)


def _patterns(zeros: StructuralZeros, schema: Schema) -> npt.NDArray[np.bool_]:
    """(patterns, axes, categories) whether a cell with that code may match."""
    matches = np.ones((len(zeros.patterns), len(schema.axes), max(schema.keys.sizes)), np.bool_)
    for p, pattern in enumerate(zeros.patterns):
        for v, codes in pattern:
            groups = schema.levels.groups[v]
            matches[p, schema.levels.column_of[v], : len(groups)] &= np.isin(groups, codes)
    return matches
