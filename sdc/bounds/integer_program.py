"""Exact integer bounds of one cell after another by CP-SAT, from a true table and what is known of it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.bounds import nested, shuttle
from sdc.bounds.covered import on_covered_variables
from sdc.bounds.ends import STEPS_PER_SECOND, Reached, Settled, settled
from sdc.feasible.equations import MarginalEquations, every_cell
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table

MAX_CELLS = 4096
MAX_SUPER_CELLS = 1 << 17  # the shuttle only gives the solver a start, which must not cost more than it saves
EFFORT = 2.0
# beyond so many values of a cell the solver's own propagation goes on record by record, which its clock hardly counts:
# minutes and no proof in 3x3x3 cells with counts up to 10^12. Measured there and on 2^4 and 2^5 cells: of two searches
# that begin at the proven end one finishes nearly every end in 0.1 s, and the other gives up after a second
WIDE = 1 << 24
WIDE_EFFORT, WIDE_CONFLICTS = 0.2, 400
WIDE_SEARCHES: tuple[dict[str, Any], ...] = (
    {"optimize_with_lb_tree_search": True, "linearization_level": 2},
    {"optimize_with_core": True},
)


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Smallest and largest value of (n, variables) cells over the feasible integer tables.

    inner  ends reached by solutions found, each checked in integers; a solution serves all the cells
    outer  the solver's proven bounds, integers too; exact where the proof was finished within
           `EFFORT` deterministic seconds an end, less where counts are wide apart

    The solver starts from the true table and from the outer bounds of the shuttle, or of the nested
    method where the super-cells are many; both have 0 for every impossible cell. ReleaseError beyond
    4,096 cells.
    """
    return search(table, knowledge, cells).bounds


def search(table: Table, knowledge: Knowledge, cells: Codes) -> Settled:
    """`bounds` with the tables that the solver found; all variables are kept."""
    program, place = program_of(table, knowledge), table.schema.keys.pack(cells)
    known = CellBounds(cells, table.count_at(cells), program.outer[place], program.inner[place], "integer-program")
    return settled(known, place, program.farthest, known.method)


@lru_cache(maxsize=1)
def program_of(table: Table, knowledge: Knowledge) -> Program:
    """The model, kept for whoever asks for other cells next; ReleaseError beyond 4,096 cells."""
    _check_size(table)
    return Program(table, knowledge, _known(table, knowledge, every_cell(table.schema)))


def _check_size(table: Table) -> None:
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


class Program:
    """One model for all cells: a variable a free cell, an equation a released marginal cell."""

    def __init__(self, table: Table, knowledge: Knowledge, known: CellBounds) -> None:
        from ortools.sat.python import cp_model

        self.outer, self.inner = known.outer.copy(), known.inner.copy()
        self._equations = MarginalEquations.of(table, knowledge)
        self._truth = self._equations.truth
        self._cp_model: Any = cp_model
        self._model: Any = cp_model.CpModel()
        self._free = {int(i): self._variable(int(i)) for i in np.flatnonzero(self.outer[:, 0] < self.outer[:, 1])}
        self._add_equations()

    def _variable(self, cell: int) -> Any:
        variable = self._model.new_int_var(int(self.outer[cell, 0]), int(self.outer[cell, 1]), "")
        # the true table is feasible, so the solver begins with a solution
        self._model.add_hint(variable, int(self._truth[cell]))
        return variable

    def _add_equations(self) -> None:
        """Forced cells are taken off the totals; an equation on the same free cells is added once."""
        added = set()
        for begin, end in zip(self._equations.start[:-1], self._equations.start[1:], strict=True):
            cells = tuple(int(i) for i in self._equations.members[begin:end] if int(i) in self._free)
            if cells and cells not in added:
                added.add(cells)
                self._model.add(sum(self._free[i] for i in cells) == int(self._truth[list(cells)].sum()))

    def farthest(self, cell: int, end: int, outer: int, inner: int, effort: float | None = None) -> Reached:
        """The best value found of one end (0 or 1) of a cell, and the bound that the solver says is proven."""
        if cell not in self._free:
            return Reached(int(self._truth[cell]), None, 1)
        (self._model.maximize if end else self._model.minimize)(self._free[cell])
        inward = -1 if end else 1
        best, proven, seconds = self._truth, int(self.outer[cell, end]), 0.0
        for settings in self._searches(effort or EFFORT):
            found, bound, taken = self._solved(settings, cell, end)
            best = min(best, found, key=lambda table: inward * int(table[cell]))
            proven = max(proven, bound, key=lambda value: inward * value)
            seconds += taken
            if best[cell] == proven:
                break
        return Reached(proven, best, 1 + int(seconds * STEPS_PER_SECOND))

    def _searches(self, effort: float) -> list[dict[str, Any]]:
        """What the solver is told, one search after the other."""
        if (self.outer[:, 1] - self.outer[:, 0]).max() < WIDE:
            return [{"max_deterministic_time": effort}]
        limits = {"max_deterministic_time": WIDE_EFFORT, "max_number_of_conflicts": WIDE_CONFLICTS}
        return [{**limits, **search} for search in WIDE_SEARCHES]

    def _solved(self, settings: dict[str, Any], cell: int, end: int) -> tuple[Counts, int, float]:
        """The best table of one search, what it proves, and its deterministic seconds; else the truth, and no more."""
        solver = self._cp_model.CpSolver()
        # one worker, a seed and a limit in steps: the same bounds on every machine
        for name, value in {"num_workers": 1, "random_seed": 0, **settings}.items():
            setattr(solver.parameters, name, value)
        status = solver.solve(self._model)
        taken = float(solver.response_proto.deterministic_time)
        if status == self._cp_model.UNKNOWN:
            # nothing was found in time: that is no answer, and no fault
            return self._truth, int(self.outer[cell, end]), taken
        if status not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
            raise RuntimeError(f"the solver answers {solver.status_name(status)} though the true table is feasible")
        # a double: rounded outwards, so that its error can only make a bound wider
        bound = solver.best_objective_bound
        return self._checked(solver), math.floor(bound) if end == 0 else math.ceil(bound), taken

    def _checked(self, solver: Any) -> Counts:
        """The solver's table, once it is seen to agree with every released marginal in integers."""
        dense = self._truth.copy()
        for cell, variable in self._free.items():
            dense[cell] = solver.value(variable)
        return checked(self._equations, dense)


def checked(equations: MarginalEquations, dense: npt.NDArray[np.int64]) -> Counts:
    """The table itself; RuntimeError where it is not feasible, which would be a fault of the solver."""
    if not equations.holds(dense):
        raise RuntimeError("the solver returned a table that does not agree with the released marginals")
    return dense
