"""Down-sets of highest value: sets that have with each member all that is below it, by CP-SAT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_EFFORT = 20.0  # deterministic seconds of one search for the best down-set
MOST_VALUE = 1 << 50  # the solver adds values in 64 bits


@dataclass(frozen=True)
class BestDownSet:
    """members of the best down-set that was found; no down-set has a value above `bound`."""

    members: frozenset[int]
    value: int
    bound: int


class DownSets:
    """The down-sets over members 0 to n - 1 that contain none of the excluded sets whole.

    values  (n,) of each member, at least 0; ValueError where they add to more than 2^50
    below   (n,) the members just below each
    needed  members that every down-set has
    """

    def __init__(self, values: Sequence[int], below: Sequence[Sequence[int]], needed: Iterable[int] = ()) -> None:
        from ortools.sat.python import cp_model

        if sum(values) > MOST_VALUE:
            raise ValueError(f"the values add to {sum(values)}, which is more than 2^50")
        self._cp: Any = cp_model
        self._model, self._values = cp_model.CpModel(), tuple(values)
        self._has = [self._model.new_bool_var("") for _ in values]
        for member, own in enumerate(below):
            for lower in own:
                self._model.add_implication(self._has[member], self._has[lower])
        for member in needed:
            self._model.add(self._has[member] == 1)
        self._model.maximize(sum(value * has for value, has in zip(values, self._has, strict=True)))

    def exclude(self, members: Iterable[int]) -> None:
        """From now on no down-set has all of these."""
        self._model.add_bool_or([self._has[member].negated() for member in members])

    def best(self, effort: float = FIRST_EFFORT, seconds: float | None = None) -> BestDownSet | None:
        """The best down-set that is found within the effort; None where none is left, or none was found.

        seconds  ends the search by the clock too. Without it the answer is deterministic.
        """
        solver = self._cp.CpSolver()
        solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
        solver.parameters.max_deterministic_time = effort
        if seconds is not None:
            solver.parameters.max_time_in_seconds = max(0.1, seconds)
        if solver.solve(self._model) not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None
        members = frozenset(number for number, has in enumerate(self._has) if solver.boolean_value(has))
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for number, has in enumerate(self._has):
            self._model.add_hint(has, number in members)
        # the bound is of a relaxation in floating point: a whole number that is only just below it is not a proof
        bound = int(solver.best_objective_bound + 1 - 1e-6)
        return BestDownSet(members, sum(self._values[member] for member in members), bound)
