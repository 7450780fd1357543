"""What shows that at-risk cells can move under what is known: components, their covers, and feasible tables found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdc.bounds.method import cheap_bounds
from sdc.feasible.differences import Differences, Flags
from sdc.feasible.proof import ComponentProof, Proof
from sdc.feasible.suppressed_cells import NO_PRIMARY_CELLS, PrimaryCells, changed_places
from sdc.feasible.walk import FIRST, OTHERS
from sdc.feasible.witness_pool import CellRows, Evidence, WitnessPool
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table
from sdc.risk.slices import CELLS_PER_SLICE, Slice, slices

ROWS_AT_ONCE = 1 << 18
MOST_VALUES = 1 << 12  # of a marginal cell that are listed one by one


class Shift(IntEnum):
    """A way to look for a feasible table that moves a cell."""

    DOWN = 0
    UP = 1
    MORE_DOWN = 2
    MORE_UP = 3
    PROGRAM_DOWN = 4
    PROGRAM_UP = 5

    @property
    def is_down(self) -> bool:
        return self in (Shift.DOWN, Shift.MORE_DOWN, Shift.PROGRAM_DOWN)

    @property
    def tries(self) -> range:
        """Of a walk: the first alone, which mostly does, or all others."""
        return FIRST if self in (Shift.DOWN, Shift.UP) else OTHERS


class Component:
    """One component under what is known of it, while it is searched.

    What a component shows starts from a witness pool's evidence and only grows; `evidence` is what it has come to.
    """

    def __init__(self, evidence: Evidence, knowledge: Knowledge, cells_per_slice: int = CELLS_PER_SLICE) -> None:
        self.frame, self.knowledge, self.evidence = evidence.frame, knowledge, evidence
        self._cells_per_slice = cells_per_slice
        self._kept = evidence.feasible(knowledge)
        self._tried: dict[Shift, dict[int, int]] = {}  # by marginal cell
        self._inner: Intervals | None = None

    @cached_property
    def cheap(self) -> CellBounds:
        """Bounds of its marginal cells without a search; inner ones are those that its cover shows."""
        for known, bounds in self.frame.bounded:
            if known == self.knowledge:
                return bounds
        bounds = cheap_bounds(self.frame.marginals, self.knowledge)
        # a search asks of most components again and again what it asked before
        self.frame.bounded[:] = [(self.knowledge, bounds)]
        return bounds

    @cached_property
    def is_explicit(self) -> bool:
        """Whether the bounds under its cover are sharp: what is known of it is decomposable ([DKS] theorem 1)."""
        return self.knowledge.structure.decomposition is not None and self.knowledge.structure.is_release_alone

    def places(self, rows: CellRows) -> tuple[CellRows, CellRows]:
        """The different marginal cells of some at-risk cells, and (rows,) which of these each of them is in."""
        cells, place = np.unique(self.frame.row[rows].astype(np.int64), return_inverse=True)
        return cells, place

    @cached_property
    def slices(self) -> list[Slice]:
        """Those of its table that are searched one by one."""
        return slices(self.frame.table, self._cells_per_slice)

    def add(self, found: Differences) -> None:
        """Keeps differences that are feasible under what is known."""
        if len(found):
            self.evidence = self.evidence.plus(found, self.knowledge)
            # what is found comes last in the evidence too
            self._kept = np.concatenate([self._kept, np.ones(len(found), np.bool_)])
            # a search adds little at a time, and asks each time
            if self._inner is not None:
                known = len(self.evidence.row) - len(found.changes)
                self._widen(self._inner, self.evidence.row[known:], found.changes)

    def _widen(self, inner: Intervals, row: CellRows, changes: Counts) -> None:
        """To what changes of marginal cells reach; of rows -1, which are none, nothing."""
        row, changes = row[row >= 0], changes[row >= 0]
        np.minimum.at(inner[:, 0], row, self.frame.counts[row] + changes)
        np.maximum.at(inner[:, 1], row, self.frame.counts[row] + changes)

    @property
    def inner(self) -> Intervals:
        """(n, 2) the range of each marginal cell under the cover, and over the feasible tables found."""
        if self._inner is None:
            found, covered = self.evidence.ends(self._kept), self.cheap.inner
            low, high = np.minimum(found[:, 0], covered[:, 0]), np.maximum(found[:, 1], covered[:, 1])
            self._inner = np.stack([low, high], axis=1)
        return self._inner

    def values(self, cell: int) -> Counts:
        """(n,) ascending, values of a marginal cell that feasible tables have: of long ranges the first `MOST_VALUES`.

        Tables that agree with the cover have all values between its bounds: swaps of two records connect them, and each
        changes a cell by 1 at most (Dobra, Markov bases for decomposable graphical models, 2003).
        """
        low, high = self.cheap.inner[cell].tolist()
        found = self.evidence.differences.changes[
            (self.evidence.row == cell) & self._kept[self.evidence.differences.of]
        ]
        count = self.frame.counts[cell]
        return np.unique(np.concatenate([np.arange(low, min(high, low + MOST_VALUES) + 1), [count], count + found]))

    @property
    def own_inner(self) -> Intervals:
        """(n, 2) the range of each of the frame's own cells over the feasible tables found."""
        return self.evidence.own_ends(self._kept)

    def untried(self, rows: CellRows, shift: Shift, values: Counts) -> tuple[CellRows, Counts]:
        """Marginal cells that do not reach the values asked of them yet, and the changes that would.

        rows    of at-risk cells; values  (rows,) that their marginal cell has to reach
        A change is handed out once: what was tried is not tried again.
        """
        sign = -1 if shift.is_down else 1
        cells, place = self.places(rows)
        counts, by = self.frame.counts[cells], np.zeros(len(cells), np.int64)
        # several at-risk cells may share a marginal cell: the one that needs most decides, and the others have it too
        np.maximum.at(by, place, sign * (values - counts[place]))
        reached = sign * (self.inner[cells, max(0, sign)] - counts)
        tried = self._tried.setdefault(shift, {})
        chosen = (by > reached) & (by > [tried.get(cell, 0) for cell in cells.tolist()])
        tried.update(zip(cells[chosen].tolist(), by[chosen].tolist(), strict=True))
        return cells[chosen], sign * by[chosen]

    def without(self, view: SubTable, place: int) -> Component:
        """It without the tables found that change a cell of a view within it, by its place in C order."""
        found = Component(self.evidence, self.knowledge, self._cells_per_slice)
        of, places, _ = changed_places(self.evidence.differences, (view,), self.frame.table.schema)
        found._kept = self._kept.copy()
        found._kept[of[places == place]] = False
        return found

    def settled(self) -> Evidence:
        """What its inner ends rest on."""
        return self.evidence.settled(self.knowledge, self._kept)

    def prune(self) -> None:
        """Keeps of what was found what its inner ends rest on."""
        self.evidence = self.settled()
        self._kept = np.ones(len(self.evidence.differences), np.bool_)

    def part(self) -> ComponentProof:
        """What its inner ends rest on, with the cover, as a certificate has it; a released one is its own cover."""
        return ComponentProof(self.frame.variables, self.knowledge.structure.cover, self.settled().differences)


class Support:
    """Inner bounds of the at-risk cells under what is known, from feasible tables of its components.

    A release splits at separators that it contains, and inner bounds of the components combine ([DKS], reducible
    models); a component that is released is known. Components know their marginal cells, which are fewer than the
    at-risk cells: of these only those are looked at whose marginal cells do not speak for them.
    """

    def __init__(self, knowledge: Knowledge, pool: WitnessPool, cells_per_slice: int = CELLS_PER_SLICE) -> None:
        self.knowledge, self.pool = knowledge, pool
        self._components = {
            variables: Component(pool.of_component(variables), knowledge.within(variables), cells_per_slice)
            for variables in knowledge.structure.components.cliques
        }

    def without(self, view: SubTable, place: int) -> Support:
        """It without the tables found that change a cell of a sub-table, by its place in C order."""
        left = copy(self)
        left._components = {
            own: component.without(st.within(view, own), place) if st.is_within(view, own) else component
            for own, component in self._components.items()
        }
        return left

    @property
    def open(self) -> tuple[Component, ...]:
        """The components that are not released."""
        return tuple(c for variables, c in self._components.items() if variables not in self.knowledge.release)

    @property
    def inner(self) -> Intervals:
        """(n, 2) of each at-risk cell, each end reached by some feasible table."""
        return self.inner_at(np.arange(len(self.pool.at_risk)))

    def inner_at(self, rows: CellRows) -> Intervals:
        """(rows, 2) the same of some at-risk cells."""
        return self._combined(rows, lambda component, some: component.inner[component.frame.row[some]])

    def covered_at(self, rows: CellRows) -> Intervals:
        """(rows, 2) the same by the components' covers alone: feasible tables have all values between these ends."""
        return self._combined(rows, lambda component, some: component.cheap.inner[component.frame.row[some]])

    def of_cell(self, row: int) -> tuple[list[tuple[Component, int]], int]:
        """The marginal cell of an at-risk cell in each component, and the sum of what is known at the separators."""
        cells = [(component, int(component.frame.row[row])) for component in self._all]
        return cells, int(self._between(np.array([row]))[0])

    def outer_at(self, rows: CellRows) -> Intervals:
        """(rows, 2) what their true bounds are within, by the cheap bounds of the components."""
        return self._combined(rows, lambda component, some: component.cheap.outer[component.frame.row[some]])

    def outer_by(self, ends: Mapping[SubTable, Intervals], rows: CellRows) -> Intervals:
        """(rows, 2) the same of a few, of some components by (rows, 2) `ends` of the at-risk cells' marginal cells."""
        parts = [ends.get(c.frame.variables, c.cheap.outer[c.frame.row[rows]]) for c in self._all]
        return combine(parts, self._between(rows))

    def below(self, value: int) -> CellRows:
        """At-risk cells whose inner upper end may be below the value; of all others it is not.

        The upper end is the least of the components', so that it needs no look at an at-risk cell where all marginal
        cells of a component reach the value.
        """
        low = [(c.frame.row, c.inner[:, 1] < value) for c in self._all]
        return self._any_of(low)

    def narrowest(self) -> tuple[int, int]:
        """(lo, hi) the smallest inner and the smallest outer width of all at-risk cells."""
        inner = self._narrowest(lambda c: c.inner[:, 1], self.inner_at)
        return inner, self._narrowest(lambda c: c.cheap.outer[:, 1], self.outer_at)

    def _narrowest(self, upper: Callable[[Component], Counts], ends: Callable[[CellRows], Intervals]) -> int:
        if not len(self.pool.at_risk):
            return self.knowledge.total  # nothing is narrow, and no cell is wider
        uppers = [upper(component) for component in self._all]
        # the lower end of an at-risk cell is at most its count. So whose upper end exceeds the least one by more than
        # the small count is wider than the cell that has the least
        enough = min(int(u.min()) for u in uppers) + self.pool.small_count + 1
        rows = self._any_of([(c.frame.row, u < enough) for c, u in zip(self._all, uppers, strict=True)])
        found = (ends(rows[begin : begin + ROWS_AT_ONCE]) for begin in range(0, len(rows), ROWS_AT_ONCE))
        return min(int((some[:, 1] - some[:, 0]).min()) for some in found)

    def _any_of(self, marginal_cells: Sequence[tuple[npt.NDArray[np.unsignedinteger], Flags]]) -> CellRows:
        """At-risk cells that are in one of the flagged marginal cells of a component, by (at-risk cells,) and flags."""
        hit = np.zeros(len(self.pool.at_risk), np.bool_)
        for row, flags in marginal_cells:
            if flags.any():
                hit |= flags[row]
        return np.flatnonzero(hit)

    @property
    def _all(self) -> tuple[Component, ...]:
        return tuple(self._components.values())

    def _combined(self, rows: CellRows, ends: Callable[[Component, CellRows], Intervals]) -> Intervals:
        """(rows, 2) of some at-risk cells, from the ends of their marginal cells in the components."""
        found = np.empty((len(rows), 2), np.int64)
        # a few at once: of all components together they are many
        for begin in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[begin : begin + ROWS_AT_ONCE]
            parts = [ends(component, some) for component in self._all]
            found[begin : begin + ROWS_AT_ONCE] = combine(parts, self._between(some))
        return found

    def _between(self, rows: CellRows) -> Counts:
        """(rows,) the sum of what is known of the cells at the separators."""
        total = np.zeros(len(rows), np.int64)
        # a separator is within the component that comes after it
        for component, separator in zip(self._all[1:], self.knowledge.structure.components.separators, strict=True):
            frame = component.frame
            total += frame.marginals.at(st.within(separator, frame.variables))[frame.row[rows]]
        return total

    @property
    def own_inner(self) -> Intervals:
        """(n, 2) of each primary cell of suppressed tables, by tables of the component that has it."""
        counts = self.pool.at_risk.own.counts
        ends = np.stack([counts, counts], axis=1)
        for component in self.open:
            if len(own := component.frame.own):
                ends[own.rows] = component.own_inner
        return ends

    @property
    def own_is_open(self) -> Flags:
        """(n,) of which the sub-table is not released whole: then at-risk cells alone are asked about."""
        own, found = self.pool.at_risk.own, np.zeros(len(self.pool.at_risk.own), np.bool_)
        for view, rows, _ in own.of_views(self.knowledge.schema):
            found[rows] = view not in self.knowledge.release
        return found

    def own_wanted(self, rows: CellRows, width: int, is_down: bool) -> Iterator[tuple[Component, CellRows, Counts]]:
        """Of components that have them the own cells of these that have to move, their places, and by how much."""
        for component in self.open:
            own = component.frame.own
            some = np.flatnonzero(np.isin(own.rows, rows))
            if len(some):
                counts, lower = own.counts[some], component.own_inner[some, 0]
                changes = -np.minimum(counts, width) if is_down else width + lower - counts
                moving = lower > 0 if is_down else changes > 0
                yield component, own.places[some[moving]], changes[moving]

    def wanted(self, rows: CellRows, width: int, shift: Shift) -> Iterator[tuple[Component, CellRows, Counts]]:
        """The marginal cells of components that have to move so that at-risk cells get a width, and by how much.

        Down: so that a cell may have none. Up: so that it may have so many more than the least it is known to have.
        """
        lower = self.inner_at(rows)[:, 0]
        for component in self.open:
            # an upper bound is the least of the components', so each of them has to reach it; a lower bound is their
            # sum less the separators', so any one of them can lower it alone
            known = component.frame.counts[component.frame.row[rows]]
            values = known - np.minimum(known, lower) if shift.is_down else width + lower
            cells, changes = component.untried(rows, shift, values)
            if len(cells):
                yield component, cells, changes

    def proof(self) -> Proof:
        """What the inner bounds rest on."""
        tree = self.knowledge.structure.components
        return Proof(tuple(component.part() for component in self._all), tree.separators)


def support_of(
    proof: Proof, table: Table, small_count: int, knowledge: Knowledge, own: PrimaryCells = NO_PRIMARY_CELLS
) -> Support:
    """What a proof shows of the at-risk cells and of small cells of parts, each difference checked in integers."""
    return Support(knowledge, WitnessPool.of(table, small_count, own).learnt(proof, knowledge))
