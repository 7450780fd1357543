"""Integer bounds of counts under any equations by CP-SAT; without a known table, one is found first.

Solutions near a known one are searched by a linear program, whose vertices are mostly integral there.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.events import STEP, emit
from sdc.model.cell_bounds import CellBounds
from sdc.model.table import Codes, Counts
from sdc.solve.ends import STEPS_PER_SECOND, Reached, settled
from sdc.solve.equations import Equations
from sdc.solve.linear import LinearSums, cheapest

MAX_CELLS = 20_000
FIRST_EFFORT, EFFORT = 60.0, 2.0  # deterministic seconds to find a first solution, and for each end
# beyond so many values of a cell the solver's own propagation goes record by record, which its clock hardly counts:
# minutes without a proof in 3x3x3 cells with counts up to 10^12. Measured there and on 2^4 and 2^5 cells: of two
# searches that begin at the proven end one finishes nearly every end in 0.1 s, and the other gives up after a second
WIDE = 1 << 24
NEAR_TRIES, NEAR_STEPS = 3, 100  # linear programs with different costs, and the steps of all of them
TOLERANCE = 1e-6
WIDE_EFFORT, WIDE_CONFLICTS = 0.2, 400
WIDE_SEARCHES: tuple[dict[str, Any], ...] = (
    {"optimize_with_lb_tree_search": True, "linearization_level": 2},
    {"optimize_with_core": True},
)


class UndecidedError(Exception):
    """No solution was found, and none was excluded, within the effort."""


class IntegerSystem:
    """Unknown counts x with bounds, and sums of some of them, known or with bounds.

    lower, upper  (n,) int64; equal for known counts
    truth         (n,) a solution, or for `solution` a guess, with which the solver begins; None if unknown
    """

    def __init__(self, lower: Counts, upper: Counts, equations: Equations, truth: Counts | None = None) -> None:
        from ortools.sat.python import cp_model

        self._lower, self._upper, self._equations, self._truth = lower, upper, equations, truth
        self._cp: Any = cp_model

    @cached_property
    def _free(self) -> dict[int, Any]:
        return {i: self._variable(i) for i in np.flatnonzero(self._lower < self._upper).tolist()}

    def _variable(self, count: int) -> Any:
        variable = self._bare.new_int_var(int(self._lower[count]), int(self._upper[count]), "")
        if self._truth is not None:
            self._bare.add_hint(variable, int(self._truth[count]))
        return variable

    @cached_property
    def _bare(self) -> Any:
        return self._cp.CpModel()

    @cached_property
    def _model(self) -> Any:
        """Known counts are subtracted from the sums; a sum with the same unknown counts as a known one adds nothing."""
        known, rows, free = dict[tuple[int, ...], int](), self._equations, self._free
        for e, (low, high) in enumerate(zip(rows.low.tolist(), rows.high.tolist(), strict=True)):
            members = rows.members[rows.start[e] : rows.start[e + 1]].tolist()
            counts = tuple(i for i in members if i in free)
            forced = sum(int(self._lower[i]) for i in members if i not in free)
            if counts in known and low - forced <= known[counts] <= high - forced:
                continue
            if low == high:
                known[counts] = low - forced
            self._bare.add_linear_constraint(sum(free[i] for i in counts), low - forced, high - forced)
        return self._bare

    def solution(self) -> Counts | None:
        """(n,) counts that solve it, None if it is proven that none do; UndecidedError if neither is found."""
        if (self._lower > self._upper).any():
            return None
        self._model.clear_objective()
        status, solver = self._solve({"max_deterministic_time": FIRST_EFFORT})
        if status == self._cp.INFEASIBLE:
            return None
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            raise UndecidedError("no solution was found and none excluded")
        return self._checked(solver)

    def nearest(self, count: int, end: int, far: int) -> Counts | None:
        """(n,) counts that solve it, with one of them so far below (end 0) or above the truth (1), and few others
        changed.

        None if none was found, which proves nothing. The truth must be known. Deterministic.
        """
        assert self._truth is not None
        free, sums = self._changes
        rooms, column = self._rooms(count)
        if count not in self._free or rooms[end, column] < far:
            return None
        least = np.zeros_like(rooms)
        least[end, column] = rooms[end, column] = far
        rooms[1 - end, column] = 0
        for number in range(NEAR_TRIES):
            # different costs give different vertices; equal costs give halves more often
            costs = np.random.default_rng(number).uniform(1, 3, rooms.size)
            found = cheapest(costs, least.reshape(-1), rooms.reshape(-1), [sums])
            if found is None:
                return None
            falls, rises = (changes := np.rint(found).astype(np.int64)).reshape(2, -1)
            table = np.array(self._truth)
            table[free] += rises - falls
            if np.abs(found - changes).max() < TOLERANCE and self._is_solved_by(table):
                return table
        return None

    def excludes(self, count: int, end: int, far: int) -> bool:
        """Whether the linear program finds that a count cannot be so far below (end 0) or above the truth (1).

        A proposal in floating point. The truth must be known. Deterministic.
        """
        (rooms, column), (_, sums) = self._rooms(count), self._changes
        if count not in self._free or rooms[end, column] < far:
            return True
        costs = np.zeros(rooms.shape)
        costs[1 - end, column], costs[end, column] = 1, -1
        found = cheapest(costs.reshape(-1), 0, rooms.reshape(-1), [sums])
        # where the solver fails nothing is excluded
        return found is not None and -float(found @ costs.reshape(-1)) < far - TOLERANCE

    def _rooms(self, count: int) -> tuple[Counts, int]:
        """(2, k) how far below and above the truth each unknown count may be; the place of a count among them."""
        assert self._truth is not None
        free, _ = self._changes
        rooms = np.stack([self._truth - self._lower, self._upper - self._truth])[:, free]
        return rooms, int(np.searchsorted(free, count))

    @cached_property
    def _changes(self) -> tuple[Counts, LinearSums]:
        """(k,) unknown counts, and sums of their decreases, then of their increases."""
        from scipy.sparse import csr_matrix, hstack

        assert self._truth is not None
        rows, free = self._equations, np.flatnonzero(self._lower < self._upper)
        shape = len(rows.low), len(self._lower)
        gained = csr_matrix((np.ones(len(rows.members)), rows.members, rows.start), shape)[:, free]
        true = rows.sums(self._truth)
        return free, LinearSums(hstack([-gained, gained]).tocsr(), rows.low - true, rows.high - true)

    def farthest(self, count: int, end: int, effort: float | None = None, far: int | None = None) -> Reached:
        """A solution with a count's least (end 0) or largest value (1), as far as was found, and the proven bound.

        far  a sufficient distance from the truth: the search ends there

        None if the effort found none. The system must have a solution. Deterministic.
        """
        inward, proven = -1 if end else 1, int((self._upper if end else self._lower)[count])
        if count not in self._free:
            return Reached(proven, self._truth, 1)
        (self._model.maximize if end else self._model.minimize)(self._free[count])
        best, seconds = self._truth, 0.0
        heard = None if far is None else self._stopping(count, end, far)
        for settings in self._searches(effort or EFFORT):
            status, solver = self._solve(settings, heard)
            seconds += float(solver.response_proto.deterministic_time)
            if status == self._cp.UNKNOWN:
                continue  # nothing was found in time: undecided, and no error
            if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
                raise RuntimeError(f"the solver answers {solver.status_name(status)} though there is a solution")
            found = self._checked(solver)
            best = found if best is None or inward * found[count] < inward * best[count] else best
            # a double: rounded outwards, so that its error can only widen a bound
            bound = solver.best_objective_bound
            proven = max(proven, math.ceil(bound) if end else math.floor(bound), key=lambda value: inward * value)
            if best[count] == proven or (far is not None and self._is_far(best[count], count, end, far)):
                break
        return Reached(proven, best, 1 + int(seconds * STEPS_PER_SECOND))

    def bounds(
        self,
        cells: Codes,
        place: npt.NDArray[np.int64],
        known: CellBounds | None = None,
        min_width: int | None = None,
    ) -> CellBounds:
        """Bounds of some counts, (n, axes) cells at (n,) positions, starting from the truth, which must be known.

        known      bounds of them that may not be sharp; then only those counts are bounded further of which they do not
                   show whether they are wide enough, until they do
        min_width  that width; without one none are
        """
        assert self._truth is not None
        counts, ends = self._truth[place], np.stack([self._lower, self._upper], axis=1)[place]
        wanted = np.ones(ends.shape, np.bool_)
        if known is not None:
            width = min_width or 0
            wanted &= ((known.inner_width < width) & (known.outer_width >= width))[:, None]
        begun = known or CellBounds(cells, counts, ends, np.stack([counts, counts], axis=1), "integer-program")
        far = None if known is None else min_width
        at = {count: n for n, count in enumerate(place.tolist(), start=1)}

        def farthest(count: int, end: int, *known: int) -> Reached:
            emit(STEP, f"bounds: cell {at[count]:,} of {len(place):,}")
            return self.farthest(count, end, far=far)

        return settled(begun, place, farthest, begun.method, wanted).bounds

    def _searches(self, effort: float) -> list[dict[str, Any]]:
        if (self._upper - self._lower).max(initial=0) < WIDE:
            return [{"max_deterministic_time": effort}]
        limits = {"max_deterministic_time": WIDE_EFFORT, "max_number_of_conflicts": WIDE_CONFLICTS}
        return [{**limits, **search} for search in WIDE_SEARCHES]

    def _is_far(self, value: int, count: int, end: int, far: int) -> bool:
        assert self._truth is not None
        return bool((value - self._truth[count]) * (1 if end else -1) >= far)

    def _stopping(self, count: int, end: int, far: int) -> Any:
        """A callback that stops the solver at the first solution that goes so far."""
        variable, is_far = self._free[count], self._is_far

        class Stopping(self._cp.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
            def on_solution_callback(self) -> None:
                if is_far(self.value(variable), count, end, far):
                    self.stop_search()

        return Stopping()

    def _solve(self, settings: dict[str, Any], heard: Any = None) -> tuple[Any, Any]:
        model, solver = self._model, self._cp.CpSolver()
        # one worker, a seed and a limit in steps: the same bounds on every machine
        for name, value in {"num_workers": 1, "random_seed": 0, **settings}.items():
            setattr(solver.parameters, name, value)
        return solver.solve(model, heard), solver

    def _checked(self, solver: Any) -> Counts:
        found = self._lower.copy()
        for count, variable in self._free.items():
            found[count] = solver.value(variable)
        if not self._is_solved_by(found):
            raise RuntimeError(
                "the solver returned counts that do not agree with what is known; this is a bug in sdc: report it"
            )
        return found

    def _is_solved_by(self, counts: Counts) -> bool:
        within = bool((counts >= self._lower).all() and (counts <= self._upper).all())
        return within and self._equations.holds(counts)
