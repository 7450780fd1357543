"""Information in refusals: what stays possible for an intruder who knows settings and refused tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdc.intruder.cell_laws import Probabilities
from sdc.model.cell_bounds import Intervals, is_wide


@dataclass(frozen=True, eq=False)
class Refusals:
    """The feasible tables for which the same settings give the same release ([DFT] section 6, Meek).

    feasible_tables  M(T): all that agree with the release
    alike            how many of them lead to it, the true table included
    possible, left   (n, 2) int64 ranges of the at-risk cells over all of them, and over those alike
    at_truth         (n,) probability of each true count if those alike are equally likely
    own_possible, own_left  (m, 2) the ranges of small cells of suppressed tables, view by view in C order
    reason           why this is unknown; then the arrays are empty
    """

    feasible_tables: int | None
    alike: int | None
    possible: Intervals
    left: Intervals
    at_truth: Probabilities
    own_possible: Intervals
    own_left: Intervals
    reason: str | None = None

    @staticmethod
    def none(reason: str) -> Refusals:
        """An unknown result."""
        nothing = np.empty((0, 2), np.int64)
        return Refusals(None, None, nothing, nothing, np.empty(0), nothing, nothing, reason)

    def narrowed(self, min_width: int) -> tuple[int, int]:
        """How many at-risk cells, and small cells of suppressed tables, fall below a width that they have otherwise."""

        def below(possible: Intervals, left: Intervals) -> int:
            return int((is_wide(np.ptp(possible, axis=1), min_width) & ~is_wide(np.ptp(left, axis=1), min_width)).sum())

        return below(self.possible, self.left), below(self.own_possible, self.own_left)
