"""The linear program for the few cells that stop a release: units as workers run them, and who is asked about.

Its points, rounded to integers, are tables that prove a cell wide enough; its multipliers, rounded to integers, bound
it. A cell takes from a second to two minutes, so that no more are asked about than may change the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdc.bounds.duality import Multipliers
from sdc.bounds.method import is_small
from sdc.feasible.differences import Differences
from sdc.feasible.witness_pool import CellRows
from sdc.model.cell_bounds import Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.risk.effort import Effort
from sdc.risk.min_width import MinWidth
from sdc.risk.slices import CELLS_PER_SLICE
from sdc.risk.support import Component, Shift, Support
from sdc.risk.units import component_table, narrowed

if TYPE_CHECKING:
    from sdc.bounds.linear_program import Room

MOST_ASKED = 16  # at-risk cells of a question
FIRST_ASKED, LAST_ASKED = 2, 8  # at once; a question ends with one of them that stays open


@dataclass(frozen=True, eq=False)
class ProgramUnit:
    """Marginal cells of a component, one end of which is to reach a value.

    variables  the component; knowledge  of its marginal table
    cells      (n, variables of the component) codes
    end        the lower (0) or the upper one (1); values  (n,) that it is to reach
    outer      (n, 2) what is known of them
    effects    most that a rounding may use
    is_first   of several units of one program: the way to its centre, which each process goes once, is counted here
    """

    variables: SubTable
    knowledge: Knowledge
    cells: Codes
    end: int
    values: Counts
    outer: Intervals
    effects: int
    is_first: bool = True


class Programmed(NamedTuple):
    """What a unit found: (n, 2) outer bounds, tables that reach values, steps, and what proves the end of each cell."""

    outer: Intervals
    differences: Differences
    steps: int
    by: tuple[Multipliers, ...]


def room_of(cells_per_slice: int) -> Room:
    """A search that may hold fewer cells than by default has a smaller program, in proportion."""
    from sdc.bounds.linear_program import ROOM

    return ROOM.within(cells_per_slice / CELLS_PER_SLICE)


def bytes_of_program(table: Table, cells_per_slice: int) -> int:
    """About what a unit takes of a component of the table, which may be all of it."""
    return 0 if is_small(table.schema) else room_of(cells_per_slice).of_table(table.schema.cells).bytes


def run_programs(table: Table, unit: ProgramUnit) -> Programmed:
    """One end of each cell by the linear program; its differences are checked in integers."""
    from sdc.bounds import linear_program

    part = component_table(table, unit.variables)
    program = linear_program.program_of(part, unit.knowledge, unit.effects)
    outer, end, tables, by, steps = unit.outer.copy(), unit.end, list[Counts](), list[Multipliers](), 0
    for row, place in enumerate(program.place(unit.cells).tolist()):
        found, multipliers = linear_program.reaching(program, place, end, int(outer[row, end]), int(unit.values[row]))
        outer[row, end] = found.proven
        by.append(replace(multipliers, caps=unit.knowledge.release.frontier))
        steps += found.steps
        if found.table is not None:
            tables.append(found.table)
    differences = Differences.between(part, tables)
    good = differences.rows(differences.feasible(part, unit.knowledge))
    steps += program.steps_of() if unit.is_first else 0
    return Programmed(outer, good, steps, tuple(by))


class Priced(NamedTuple):
    """Multipliers that bound the lower (0) or upper end (1) of a cell of a component's marginal table, named by it."""

    variables: SubTable
    cell: tuple[int, ...]
    end: int
    by: Multipliers


class Programs:
    """Asks about at-risk cells that nothing else decides; tables that are found go to the support.

    spent   steps that it has taken
    priced  the ends that multipliers bound, those too that decide nothing
    """

    def __init__(self, width: MinWidth, table: Table, support: Support, effort: Effort) -> None:
        self._width, self._table, self._support, self._effort = width, table, support, effort
        self.spent, self.priced = 0, list[Priced]()

    def outer(self, rows: CellRows, left: int) -> Intervals:
        """(rows, 2) outer bounds of at-risk cells, as far as so many steps go."""
        ends: dict[SubTable, Intervals] = {}
        for shift in (Shift.PROGRAM_DOWN, Shift.PROGRAM_UP):
            asked = list(self._units(rows, shift, left - self.spent))
            results = self._effort.executor.run(run_programs, self._table, [unit for _, _, unit in asked])
            for (component, marginal_cells, unit), found in zip(asked, results, strict=True):
                component.add(found.differences)
                self.spent += found.steps
                by = zip(unit.cells.tolist(), found.by, strict=True)
                self.priced += [Priced(unit.variables, tuple(cell), unit.end, one) for cell, one in by]
                of = component.frame.row[rows]
                known = ends.setdefault(unit.variables, component.cheap.outer[of])
                place = np.searchsorted(marginal_cells, of)
                place[place == len(marginal_cells)] = 0
                hit = np.flatnonzero(marginal_cells[place] == of)
                ends[unit.variables] = narrowed(known, hit, found.outer[place[hit]])
        return self._support.outer_by(ends, rows)

    def _units(self, rows: CellRows, shift: Shift, left: int) -> Iterator[tuple[Component, CellRows, ProgramUnit]]:
        from sdc.bounds import linear_program

        room = room_of(self._effort.cells_per_slice)
        for component, cells, changes in self._support.wanted(rows, self._width.min_width, shift):
            frame, known = component.frame, component.knowledge
            about = linear_program.about(known, room)
            if about is None:
                continue
            # a unit a cell, so that ending the search never waits for several
            for number in range(len(cells)):
                is_first = number == 0
                if (cost := about[1] + (about[0] if is_first else 0)) > left:
                    break
                left -= cost
                some, end = cells[number : number + 1], 0 if shift.is_down else 1
                values = frame.counts[some] + changes[number]
                asked = frame.cells[some], end, values, component.cheap.outer[some], room.effects, is_first
                yield component, some, ProgramUnit(frame.variables, known, *asked)
