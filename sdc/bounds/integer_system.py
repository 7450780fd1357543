"""Integer bounds of cells under any equations, by CP-SAT; where no true table is known, one is found first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.model.table import Counts

MAX_CELLS = 20_000
FIRST_EFFORT, EFFORT = 60.0, 2.0  # deterministic seconds to find a first solution, and for each end


class UndecidedError(Exception):
    """No solution was found, and none was excluded, within the effort."""


@dataclass(eq=False)
class IntegerSystem:
    """Unknown counts x with 0 <= x <= upper, and sums of some of them that are known.

    upper      (n,) int64
    equations  the cells of each sum and its value
    """

    upper: Counts
    equations: Sequence[tuple[npt.NDArray[np.int64], int]]

    def holds(self, counts: Counts) -> bool:
        """Whether (n,) counts are a solution, in integers."""
        within = bool((counts >= 0).all() and (counts <= self.upper).all())
        return within and all(int(counts[cells].sum()) == total for cells, total in self.equations)

    def solution(self) -> Counts | None:
        """(n,) counts that solve it, None where it is proven that none do; UndecidedError where neither was found."""
        status, solver = self._solve(FIRST_EFFORT)
        if status == self._cp.INFEASIBLE:
            return None
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            raise UndecidedError("no solution was found and none excluded")
        return self._checked(solver)

    def bounds(self, truth: Counts, cells: Sequence[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(k, 2) outer and (k, 2) inner bounds of some cells, from one solution; equal where the proof was finished."""
        chosen = np.asarray(cells, np.int64)
        inner = np.stack([truth[chosen], truth[chosen]], axis=1)
        outer = np.stack([np.zeros(len(chosen), np.int64), self.upper[chosen]], axis=1)
        for row, cell in enumerate(chosen.tolist()):
            for end in (0, 1):
                if outer[row, end] == inner[row, end]:
                    continue
                found, proven = self.farthest(cell, end)
                if found is not None:
                    reached = found[chosen]
                    inner = np.stack([np.minimum(inner[:, 0], reached), np.maximum(inner[:, 1], reached)], axis=1)
                    outer[row, end] = proven
        return outer, inner

    def farthest(self, cell: int, end: int) -> tuple[Counts | None, int]:
        """A solution with a cell's least (end 0) or largest count (1), as far as was found, and what is proven of it.

        None, and a bound that holds always, where the effort did not do. The system must have a solution.
        """
        model = self._model
        (model.maximize if end else model.minimize)(self._variables[cell])
        status, solver = self._solve(EFFORT)
        if status == self._cp.INFEASIBLE:
            raise RuntimeError("the solver finds no solution where there is one")
        most = int(self.upper[cell])
        if status == self._cp.UNKNOWN:
            return None, most if end else 0
        # a double: rounded outwards, so that its error can only make a bound wider
        proven = solver.best_objective_bound
        return self._checked(solver), min(most, math.ceil(proven)) if end else max(0, math.floor(proven))

    @cached_property
    def _cp(self) -> Any:
        from ortools.sat.python import cp_model

        return cp_model

    @cached_property
    def _model(self) -> Any:
        model = self._cp.CpModel()
        self._variables = [model.new_int_var(0, int(most), "") for most in self.upper]
        for cells, total in self.equations:
            model.add(sum(self._variables[cell] for cell in cells.tolist()) == int(total))
        return model

    def _solve(self, effort: float) -> tuple[Any, Any]:
        model, solver = self._model, self._cp.CpSolver()
        # one worker, a seed and a limit in steps: the same bounds on every machine
        for name, value in {"num_workers": 1, "random_seed": 0, "max_deterministic_time": effort}.items():
            setattr(solver.parameters, name, value)
        return solver.solve(model), solver

    def _checked(self, solver: Any) -> Counts:
        """What the solver found, once it is seen to solve the equations in integers."""
        found = np.array([solver.value(variable) for variable in self._variables], np.int64)
        if not self.holds(found):
            raise RuntimeError("the solver returned counts that do not solve the equations")
        return found
