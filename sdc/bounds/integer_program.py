"""Exact integer bounds of cells by CP-SAT, from a true table and the knowledge on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sdc.bounds import nested, shuttle
from sdc.bounds.covered import on_covered_variables
from sdc.executor import cached_per_thread
from sdc.feasible.differences import Differences
from sdc.feasible.equations import MarginalEquations, every_cell
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table
from sdc.solve.ends import Reached, Settled, settled
from sdc.solve.equations import Equations
from sdc.solve.integer import NEAR_STEPS, IntegerSystem

MAX_CELLS = 4096
MAX_SUPER_CELLS = 1 << 17  # the shuttle only gives the solver a start, which must not cost more than it saves


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Smallest and largest value of (n, variables) cells over the feasible integer tables.

    inner  ends reached by solutions, each checked in integers; a solution serves all the cells
    outer  the solver's proven bounds, integers too; exact if the proof was finished within `integer_system.EFFORT`
           deterministic seconds for an end, less for cells with a wide range of counts

    The solver starts from the true table and the outer bounds of the shuttle, or of the nested method for many
    super-cells; both have 0 for every impossible cell. Raises ReleaseError beyond 4,096 cells.
    """
    return search(table, knowledge, cells).bounds


def search(table: Table, knowledge: Knowledge, cells: Codes) -> Settled:
    """`bounds` with the solver's tables; all variables remain."""
    program, place = program_of(table, knowledge), table.schema.keys.pack(cells)
    known = CellBounds(cells, table.count_at(cells), program.outer[place], program.inner[place], "integer-program")
    return settled(known, place, program.farthest, known.method)


@cached_per_thread(maxsize=1)
def program_of(table: Table, knowledge: Knowledge) -> IntegerProgram:
    """The model, cached for other cells; ReleaseError beyond 4,096 cells."""
    check_size(table)
    return IntegerProgram(table, knowledge, _known(table, knowledge, every_cell(table.schema)))


def check_size(table: Table) -> None:
    if table.schema.cells > MAX_CELLS:
        raise ReleaseError(
            f"the table has {table.schema.cells} cells, and the integer program takes at most {MAX_CELLS}; "
            "choose the method auto or a sub-table"
        )


def _known(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    cheap = nested.bounds(table, knowledge, cells)
    if not shuttle.is_affordable(table.schema, MAX_SUPER_CELLS):
        return cheap
    return cheap.meet(shuttle.bounds(table, knowledge, cells))


class IntegerProgram:
    """One integer system for all cells of a table.

    outer, inner  (cells, 2) bounds known before
    """

    def __init__(self, table: Table, knowledge: Knowledge, known: CellBounds) -> None:
        self.outer, self.inner = known.outer.copy(), known.inner.copy()
        equations = MarginalEquations.of(table, knowledge)
        self._system = IntegerSystem(self.outer[:, 0], self.outer[:, 1], equations.sums, equations.truth)

    def farthest(self, cell: int, end: int, outer: int, inner: int, effort: float | None = None) -> Reached:
        """The best value found for one end (0 or 1) of a cell, and the solver's proven bound."""
        return self._system.farthest(cell, end, effort)


class GroupsMoved(NamedTuple):
    """Whether all groups move far enough, the differences that move them if so, and the solver's steps."""

    are_moved: bool
    differences: Differences
    steps: int


def moving(table: Table, knowledge: Knowledge, groups: Sequence[Counts], useful: Counts, needed: Counts) -> GroupsMoved:
    """Feasible tables between which each group of cells moves far enough, if all groups can.

    groups  for each the positions of its cells, in C order
    useful  (groups,) the distance down that counts; needed  (groups,) the total distance down and up that is required

    Groups are tried in order, until the first failure; first those that the linear program excludes are looked for.
    Raises ReleaseError beyond 4,096 cells.
    """
    check_size(table)
    equations = MarginalEquations.of(table, knowledge)
    system = _with_others(equations, groups, table.total)
    truth, found, steps = equations.truth, list[Counts](), 0
    for at, least in enumerate((needed - useful).tolist()):
        steps += NEAR_STEPS * (least > 0)
        if least > 0 and system.excludes(len(truth) + at, 0, least):
            return GroupsMoved(False, Differences.none(len(table.schema.axes)), steps)
    for at, own in enumerate(groups):
        most, needs = int(useful[at]), int(needed[at])
        # the result for one group serves others
        moves = [int((one[own] - truth[own]).sum()) for one in found]
        gone = [max([0, *moves]), -min([0, *moves])]
        for end, least in ((1, min(most, needs)), (0, needs)):
            far = least if end else needs - min(gone[1], most)
            if gone[end] < far and min(gone[1], most) + gone[0] < needs:
                reached, used = _moved(system, len(truth) + at, end, far)
                steps += used
                if reached is not None:
                    found.append(reached[: len(truth)])
                    gone[end] = max(gone[end], abs(int((found[-1][own] - truth[own]).sum())))
        if min(gone[1], most) + gone[0] < needs:
            return GroupsMoved(False, Differences.none(len(table.schema.axes)), steps)
    return GroupsMoved(True, Differences.between(table, found), steps)


def _moved(system: IntegerSystem, count: int, end: int, far: int) -> tuple[Counts | None, int]:
    """A solution in which a count moves so far, near the truth if possible, or as far as was found."""
    near = system.nearest(count, end, far)
    if near is not None:
        return near, NEAR_STEPS
    reached = system.farthest(count, end, far=far)
    return reached.table, NEAR_STEPS + reached.steps


def sums(equations: MarginalEquations, groups: Sequence[Counts], total: int) -> tuple[Intervals, Intervals]:
    """(groups, 2) outer and inner bounds of sums over groups of cells, as `bounds` for cells.

    groups  for each the positions of its cells, in C order
    total   the largest sum in any table
    """
    system = _with_others(equations, groups, total)
    # the larger the others, the less remains for the group
    ends = [[system.farthest(len(equations.truth) + at, end) for end in (1, 0)] for at in range(len(groups))]
    outer = np.array([[total - end.proven for end in both] for both in ends], np.int64).reshape(-1, 2)
    inner = np.array([[equations.truth[own].sum()] * 2 for own in groups], np.int64).reshape(-1, 2)
    for reached in (end.table for both in ends for end in both if end.table is not None):
        found = np.array([reached[own].sum() for own in groups])
        inner = np.stack([np.minimum(inner[:, 0], found), np.maximum(inner[:, 1], found)], axis=1)
    return outer, inner


def _with_others(equations: MarginalEquations, groups: Sequence[Counts], total: int) -> IntegerSystem:
    """A system in which the complement of each group, total minus sum, is a count after those of cells.

    A solver can only move counts: as the complement increases, the group decreases.
    """
    truth, number = equations.truth, np.arange(len(groups))
    rest = np.array([total - truth[own].sum() for own in groups], np.int64)
    of = np.concatenate([np.repeat(number, [len(own) for own in groups]), number])
    members = np.concatenate([*groups, len(truth) + number])
    both = np.concatenate([truth, rest])
    joined = Equations.joined([equations.sums, Equations.of_members(of, members, both)])
    upper = np.where(np.concatenate([equations.possible, number >= 0]), joined.least(len(both)), 0)
    return IntegerSystem(np.zeros_like(both), upper, joined, both)
