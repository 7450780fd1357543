"""Units of a search for sharp bounds, as workers run them: ends of marginal cells of one component, by one method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdc.bounds import collapse, shuttle
from sdc.bounds.branch_and_bound import EQUATIONS_A_STEP
from sdc.feasible import walk
from sdc.feasible.depth_first import MAX_CELLS as MAX_DEPTH_FIRST
from sdc.feasible.depth_first import FeasibleTables
from sdc.feasible.differences import Differences, Flags
from sdc.feasible.equations import MAX_SUM
from sdc.feasible.witness_pool import CellRows
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.risk.slices import WHOLE, Slice
from sdc.risk.units import component_table, slice_of
from sdc.solve.ends import STEPS_PER_SECOND, Farthest, settled

if TYPE_CHECKING:
    from sdc.bounds.linear_program import Room

# Of a reference core, in super-cells a step of 0.1 ms; measured: 0.04 s for 3^13 of them, and a shuttle's sweeps.
# Beyond 3^15 they no longer fit a processor's cache: 2 s for 3^16
COLLAPSED_A_STEP, SHUTTLED_A_STEP, CACHED, UNCACHED = 4_000, 250, 3**15, 2
# of walks, measured with 56 to 120 released sub-tables: 0.05 to 0.12 ms a node, and 2 ms a unit
WALK_STEPS = 20
# of a walk from a table found for each released sub-table, as what is kept of cells near it is made anew: 6 to 8 ms
BASE_STEPS = 1
WALKS = (walk.FIRST, walk.OTHERS, walk.FIRST, walk.OTHERS)  # tries by effort; the last two go on from a table found
WALK_NODES = 5_000  # most of a walk
FIRST_SEARCH, MORE_SEARCH = 1 << 14, 8  # steps of branch and bound for an end, and how many times more each time
FIRST_SOLVER, MORE_SOLVER = 1.0, 4  # deterministic seconds of the integer program
# ends of a linear program in the steps that it counts itself, up to so many rows; measured: 0.13 s an end of 2^16 cells
PROGRAMS, SMALL_PROGRAM = 3, 180
# rows and cells of a linear program that comes before walks from tables found; measured with all pairs of 2^16: it
# settles an end in 0.13 s, and such a walk gains a few of 300 records in 0.01 s
FEW = 512, 1 << 17
MAX_INTEGER = 4096  # cells of an integer program


@dataclass(frozen=True, eq=False)
class SharpUnit:
    """Marginal cells of a component, ends of which are looked for.

    variables     the component; knowledge  of its marginal table
    rows          (n,) which cells of the component's table, each once, all in one partition of it
    absent        (n, variables of the component) codes of cells that have no record, instead of rows
    outer, inner  (n, 2) what is known of them
    wanted        (n, 2) which ends
    effort        how far the method goes, from 0 on
    held          the slice of the component's table that a walk holds
    base          a feasible table as a difference from the true one, that a walk starts from; None for the true one
    effects       most that a rounding of a linear program may use
    """

    method: str
    effort: int
    variables: SubTable
    knowledge: Knowledge
    rows: CellRows
    absent: Codes | None
    outer: Intervals
    inner: Intervals
    wanted: Flags
    held: Slice = WHOLE
    base: Differences | None = None
    effects: int = 1 << 26

    @property
    def named(self) -> CellRows | Codes:
        """What names its cells."""
        return self.rows if self.absent is None else self.absent

    def cells(self, part: Table) -> Codes:
        """(n, variables) their codes; of a table that is mapped into memory the pages that have them are read alone."""
        return part.codes[self.rows] if self.absent is None else self.absent


class FoundEnds(NamedTuple):
    """(n, 2) outer bounds, feasible tables that go beyond the inner ones, and steps of 0.1 ms of a reference core."""

    outer: Intervals
    differences: Differences
    steps: int


def seek(table: Table, unit: SharpUnit) -> FoundEnds:
    """What the unit's method finds; its differences are checked in integers."""
    part = component_table(table, unit.variables)
    cells = unit.cells(part)
    found = SEEKING[unit.method].seek(part, unit, cells)
    return found._replace(differences=_telling(found.differences, part, unit, cells))


def _telling(found: Differences, part: Table, unit: SharpUnit, cells: Codes) -> Differences:
    """The differences that take a cell of the unit beyond what was known."""
    place = part.schema.keys.matching(cells, found.cells)
    hit = np.flatnonzero(place >= 0)
    values = part.count_at(cells)[place[hit]] + found.changes[hit]
    beyond = (values < unit.inner[place[hit], 0]) | (values > unit.inner[place[hit], 1])
    kept = np.zeros(len(found), np.bool_)
    kept[found.of[hit[beyond]]] = True
    return found.rows(kept)


def _collapse(part: Table, unit: SharpUnit, cells: Codes) -> FoundEnds:
    covered = unit.knowledge.structure.covered & unit.knowledge.structure.varying
    propagations = len(collapse.sharing(part.schema, cells, covered))
    super_cells = 3 ** min(st.dimension(covered), collapse.MAX_DICHOTOMOUS)
    super_cells *= UNCACHED if super_cells > CACHED else 1
    outer = collapse.Collapse(part, unit.knowledge).outer(cells)
    return FoundEnds(outer, Differences.none(len(part.schema.axes)), 1 + propagations * super_cells // COLLAPSED_A_STEP)


def _shuttle(part: Table, unit: SharpUnit, cells: Codes) -> FoundEnds:
    outer = shuttle.bounds(part, unit.knowledge, cells).outer
    steps = 1 + shuttle.super_cells(part.schema) // SHUTTLED_A_STEP
    return FoundEnds(outer, Differences.none(len(part.schema.axes)), steps)


def _walk(part: Table, unit: SharpUnit, cells: Codes) -> FoundEnds:
    row, end = np.nonzero(unit.wanted)
    cells = cells[row]
    changes = unit.outer[row, end] - part.count_at(cells)
    tries = WALKS[unit.effort]
    # counts of a slice are not those of a fact: there its view stays whole
    known = unit.knowledge if unit.held.is_whole else unit.knowledge.with_hulls
    inside = slice_of(part, unit.held)
    moved = walk.shift(inside, known, cells, changes, nodes=WALK_NODES, tries=tries, base=unit.base)
    begun = 0 if unit.base is None else BASE_STEPS * len(row) * len(unit.knowledge.release.frontier)
    return FoundEnds(unit.outer, moved.differences, WALK_STEPS + begun + moved.nodes)


def _linear_program(part: Table, unit: SharpUnit, cells: Codes) -> FoundEnds:
    from sdc.bounds import linear_program

    program = linear_program.program_of(part, unit.knowledge, unit.effects)
    found = _one_by_one(part, unit, cells, partial(linear_program.farthest, program))
    # the way to the program's centre is counted once a unit, whether the program was kept or not
    programs = PROGRAMS if len(program.totals) <= SMALL_PROGRAM else 1
    return found._replace(steps=1 + (found.steps + program.steps_of()) // programs)


def _branch_and_bound(part: Table, unit: SharpUnit, cells: Codes) -> FoundEnds:
    from sdc.bounds import branch_and_bound

    most = FIRST_SEARCH * MORE_SEARCH**unit.effort
    found = _feasible_tables(part, unit.knowledge)
    return _one_by_one(part, unit, cells, partial(branch_and_bound.farthest, found, most))


def _integer_program(part: Table, unit: SharpUnit, cells: Codes) -> FoundEnds:
    from sdc.bounds import integer_program

    program = integer_program.program_of(part, unit.knowledge)
    found = _one_by_one(part, unit, cells, partial(program.farthest, effort=FIRST_SOLVER * MORE_SOLVER**unit.effort))
    # its tables are checked in integers, its proofs are not: they prove nothing here
    return found._replace(outer=unit.outer)


def _one_by_one(part: Table, unit: SharpUnit, cells: Codes, farthest: Farthest) -> FoundEnds:
    known = CellBounds(cells, part.count_at(cells), unit.outer, unit.inner, unit.method)
    found = settled(known, part.schema.keys.pack(cells), farthest, unit.method, unit.wanted)
    differences = Differences.between(part, found.tables)
    return FoundEnds(found.bounds.outer, differences.rows(differences.feasible(part, unit.knowledge)), 1 + found.steps)


@lru_cache(maxsize=2)
def _feasible_tables(part: Table, knowledge: Knowledge) -> FeasibleTables:
    return FeasibleTables(part, knowledge)


def _linear_program_takes(part: Table, knowledge: Knowledge, effort: int, room: Room) -> bool:
    from sdc.bounds import linear_program

    few = linear_program.Room(min(room.rows, FEW[0]), min(room.cells, FEW[1]), room.effects)
    return linear_program.is_affordable(knowledge, room if effort else few)


def _takes(part: Table, most_cells: int) -> bool:
    return part.schema.cells <= most_cells and part.total * part.schema.cells <= MAX_SUM


@dataclass(frozen=True)
class Approach:
    """One way to look for ends: what a worker does, whether a component is not too large, and most groups a unit.

    longer  most groups where the effort is odd: walks with more tries, a unit of which takes a second at most
    """

    seek: Callable[[Table, SharpUnit, Codes], FoundEnds]
    takes: Callable[[Table, Knowledge, int, Room], bool]
    most: int
    longer: int | None = None

    def most_at(self, effort: int) -> int:
        """Most groups a unit."""
        return self.most if self.longer is None or not effort % 2 else self.longer


SEEKING: Mapping[str, Approach] = {
    "collapse": Approach(_collapse, lambda part, *rest: True, 16),
    "walk": Approach(_walk, lambda part, *rest: walk.can_search(part), 32, 4),
    "shuttle": Approach(_shuttle, lambda part, *rest: shuttle.is_affordable(part.schema), 1 << 30),
    "linear-program": Approach(_linear_program, _linear_program_takes, 4),
    "branch-and-bound": Approach(_branch_and_bound, lambda part, *rest: _takes(part, MAX_DEPTH_FIRST), 8),
    "integer-program": Approach(_integer_program, lambda part, *rest: _takes(part, MAX_INTEGER), 4),
}


def most_steps(method: str, effort: int) -> int:
    """What a unit of a method that grows with its effort may take; 0 of the others, whose units are short.

    One that does not fit what is left of a budget is not begun: it would end long after the budget.
    """
    ends = 2 * SEEKING[method].most
    if method == "branch-and-bound":
        return int(ends * FIRST_SEARCH * MORE_SEARCH**effort // EQUATIONS_A_STEP)
    if method == "integer-program":
        return int(ends * FIRST_SOLVER * MORE_SOLVER**effort * STEPS_PER_SECOND)
    return 0
