"""The search for tables that show at-risk cells to be wide enough, within a budget of steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdc.bounds.method import is_small
from sdc.feasible.differences import Differences
from sdc.feasible.suppressed_cells import PricedCells, begins, cells_at
from sdc.feasible.walk import FIRST, OTHERS, can_search
from sdc.feasible.witness_pool import CellRows
from sdc.model.table import Table
from sdc.risk.effort import Depth, Effort
from sdc.risk.min_width import MinWidth
from sdc.risk.support import Component, Shift, Support
from sdc.risk.units import (
    MoveUnit,
    PricedUnit,
    ProvenUnit,
    batches,
    cut,
    move_cells,
    move_groups,
    move_priced,
)

FIRST_ROUND, LAST_ROUND = 4, 2048  # the first cells are the likeliest to fail, and a failure ends a brief search
MOST_PER_UNIT = {Shift.DOWN: 256, Shift.UP: 256, Shift.MORE_DOWN: 8, Shift.MORE_UP: 8}
FIRST_BATCH, LAST_BATCH = 2, 32
MOST_PLACES = 8  # of a unit
WALK_STEPS = 10_000  # most nodes of one cell's walks: 1 s
# brief: a walk that succeeds mostly has after 700, and a search asks dozens of questions that end with one that fails
BRIEF_STEPS = 4_000


class Certifying:
    """What is found goes to the support, by which later cells are looked at.

    missed    how often each at-risk cell stayed open, in earlier questions too; ~row for a suppressed table's own
    given_up  at-risk cells that stay open in this one
    spent     steps it has taken
    """

    def __init__(self, width: MinWidth, table: Table, support: Support, effort: Effort, missed: dict[int, int]) -> None:
        self._width, self._table, self._support, self._effort = width, table, support, effort
        self.missed, self.given_up, self.spent = missed, list[int](), 0

    def certify(self, waiting: CellRows) -> None:
        """Rounds of more and more cells, whatever the workers; what one round finds is used by the next.

        Brief: cells are walked once, and those that stay open again and again, until one does not get its width. Else
        all cells are walked once before one is walked again.
        """
        if self._is_brief:
            self._certify_briefly(waiting)
            return
        self.walk(waiting)
        self.walk(waiting, Shift.MORE_DOWN, Shift.MORE_UP)
        if self._left > 0:
            self._note_missed(waiting)

    def certify_own(self) -> None:
        """The same of primary cells of suppressed tables, by walks, and in small components by the integer program."""
        self._walk_own()
        self._prove_own()

    def _walk_own(self) -> None:
        """Their places are moved, in rounds as at-risk cells are; brief until one stays short."""
        short = self._width.short_own(self._support)
        if not self._is_brief:
            self._move_own(short, FIRST)
            self._move_own(short, OTHERS)
            return
        # their numbers as missed are below those of at-risk cells
        times = np.array([self.missed.get(~int(row), 0) for row in short], np.int64)
        for rows in batches(short[np.argsort(-times, kind="stable")], FIRST_ROUND, LAST_ROUND):
            self._move_own(rows, FIRST)
            for batch in batches(self._width.short_own(self._support, rows), FIRST_BATCH, LAST_BATCH):
                self._move_own(batch, OTHERS)
                if len(failed := self._width.short_own(self._support, batch)):
                    self.missed |= {~row: self.missed.get(~row, 0) + 1 for row in failed.tolist()}
                    return

    def _move_own(self, rows: CellRows, tries: range) -> None:
        for batch in batches(rows, FIRST_BATCH, LAST_BATCH):
            for is_down in (True, False):
                if self._left > 0:
                    self._move_own_one_way(batch, tries, is_down)

    def _move_own_one_way(self, rows: CellRows, tries: range, is_down: bool) -> None:
        rows, steps = self._width.short_own(self._support, rows), self._effort.budget.steps_per_cell
        nodes = min(BRIEF_STEPS if self._is_brief else WALK_STEPS, steps)
        wanted, units = list(self._support.own_wanted(rows, self._width.min_width, is_down)), list[PricedUnit]()
        by_unit = list[Component]()
        for component, places, changes in wanted:
            if not can_search(component.frame.table):
                continue
            frame, own = component.frame, component.frame.own
            suppressed = PricedCells(own.views, np.zeros(begins(own.views, frame.table.schema)[-1], np.int16))
            for piece in cut(np.arange(len(places)), MOST_PLACES):
                asked = frame.variables, component.knowledge, suppressed, None, places[piece], changes[piece]
                units.append(PricedUnit(*asked, tries, nodes))
                by_unit.append(component)
        found = self._effort.executor.run(move_priced, self._table, units)
        for component, moved in zip(by_unit, found, strict=True):
            component.add(moved.differences)
            self.spent += int(moved.nodes.sum())

    def _prove_own(self) -> None:
        """Of small components what walks leave open, by the integer program: as far as to one that does not move."""
        short, found = self._width.short_own(self._support), list[tuple[Component, ProvenUnit]]()
        for component in self._support.open:
            frame, own = component.frame, component.frame.own
            some = np.flatnonzero(np.isin(own.rows, short))
            if len(some) and is_small(frame.table.schema) and self._left > 0:
                groups, counts = cells_at(own.places[some], own.views, frame.table.schema), own.counts[some]
                needed = np.full(len(some), self._width.min_width)
                found.append((component, ProvenUnit(frame.variables, component.knowledge, groups, counts, needed)))
        moved = self._effort.executor.run(move_groups, self._table, [unit for _, unit in found])
        for (component, _), one in zip(found, moved, strict=True):
            component.add(one.differences)
            self.spent += one.steps

    def short(self, rows: CellRows) -> CellRows:
        """Those of the cells that are not certified yet."""
        return self._width.short(self._support, rows)

    @property
    def _is_brief(self) -> bool:
        return self._effort.depth is Depth.BRIEF

    @property
    def _left(self) -> int:
        """Steps of the budget: asked before a search begins, never of what is known."""
        return self._effort.budget.steps - self._effort.spent - self.spent

    def _certify_briefly(self, waiting: CellRows) -> None:
        for rows in batches(waiting, FIRST_ROUND, LAST_ROUND):
            if self._left <= 0:
                return  # who is not tried is not missed
            self._search(rows, Shift.DOWN, Shift.UP)
            # few at a time, because one that stays open is enough
            for batch in batches(self.short(rows), FIRST_BATCH, LAST_BATCH):
                if self._left > 0:
                    self._search(batch, Shift.MORE_DOWN, Shift.MORE_UP)
                if self._note_missed(batch):
                    return

    def walk(self, rows: CellRows, down: Shift = Shift.DOWN, up: Shift = Shift.UP) -> None:
        """Of each cell that is still short walks down and up, by default the cheapest, in rounds.

        The last round is about as large as what is left of the budget allows for, one way of a cell.
        """
        waiting, size = self.short(rows), LAST_BATCH
        while len(waiting) and self._left > 0:
            # larger rounds keep workers busy, but what one finds serves the next, and the budget must not run out
            # inside one
            size = min(2 * size, LAST_ROUND, 1 + self._left // WALK_STEPS)
            self._search(waiting[:size], down, up)
            waiting = self.short(waiting[size:])

    def _note_missed(self, rows: CellRows) -> int:
        """Counts those of the cells that are open still; how many."""
        failed = self.short(rows)
        self.given_up += failed.tolist()
        for row in failed.tolist():
            self.missed[row] = self.missed.get(row, 0) + 1
        return len(failed)

    def _search(self, rows: CellRows, *shifts: Shift) -> None:
        """What the workers find to move the cells, one way after the other."""
        for shift in shifts:
            units = list(self._move_units(self.short(rows), shift))
            results = self._effort.executor.run(move_cells, self._table, [unit for _, unit in units])
            by_component: dict[Component, list[Differences]] = {component: [] for component, _ in units}
            for (component, _), found in zip(units, results, strict=True):
                by_component[component].append(found.differences)
                self.spent += found.nodes
            # once for all units: what is known of a component is copied each time
            for component, parts in by_component.items():
                component.add(Differences.concatenated(parts))

    def _move_units(self, rows: CellRows, shift: Shift) -> Iterator[tuple[Component, MoveUnit]]:
        steps = self._effort.budget.steps_per_cell
        most = BRIEF_STEPS if self._is_brief else WALK_STEPS
        for component, cells, changes in self._support.wanted(rows, self._width.min_width, shift):
            frame, known = component.frame, component.knowledge
            for held in component.slices if can_search(frame.table) else ():
                inside = np.flatnonzero(held.holds(frame.cells[cells], frame.table.schema))
                for piece in cut(inside, MOST_PER_UNIT[shift]):
                    moved = frame.cells[cells[piece]], changes[piece]
                    yield component, MoveUnit(frame.variables, known, held, *moved, shift, min(most, steps))
