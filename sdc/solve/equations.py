"""Known sums of unknown counts, or sums with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sdc.model.table import Counts


@dataclass(frozen=True, eq=False)
class Equations:
    """Sums of unknown counts, each with bounds.

    low, high       (equations,) int64; equal for a known sum
    start, members  equation e has the counts members[start[e]:start[e + 1]], at least one
    """

    low: Counts
    high: Counts
    start: Counts
    members: Counts

    @staticmethod
    def joined(parts: Sequence[Equations]) -> Equations:
        """All equations, known sums before those with bounds."""
        low, high = (np.concatenate([getattr(part, end) for part in parts]) for end in ("low", "high"))
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        members = np.concatenate([part.members for part in parts])
        order = np.argsort(low < high, kind="stable")
        # by equation where its members begin, then consecutive positions
        start = np.concatenate([[0], np.cumsum(sizes[order])])
        begin = np.repeat((np.cumsum(sizes) - sizes)[order] - start[:-1], sizes[order])
        return Equations(low[order], high[order], start, members[begin + np.arange(len(members))])

    @staticmethod
    def by_place(place: Counts, totals: Counts) -> Equations:
        """For (n,) counts that are each in one equation, by its number among the (equations,) sums; -1 for none."""
        order = np.argsort(place, kind="stable")  # so that the members of an equation are ascending
        members = order[np.searchsorted(place[order], 0) :]
        start = np.searchsorted(place[members], np.arange(len(totals) + 1))
        return Equations(totals, totals, start, members)

    @staticmethod
    def of_groups(group: Counts, truth: Counts) -> Equations:
        """For (n,) counts that are each in one group (any numbers), the sums of the true groups."""
        return Equations.of_members(group, np.arange(len(truth)), truth)

    @staticmethod
    def of_members(group: Counts, member: Counts, truth: Counts) -> Equations:
        """(m,) groups (any numbers), each with a count by position: the sums of the true groups."""
        _, place = np.unique(group, return_inverse=True)
        totals = np.zeros(int(place.max(initial=-1)) + 1, np.int64)
        np.add.at(totals, place, truth[member])
        found = Equations.by_place(place, totals)
        return Equations(totals, totals, found.start, member[found.members])

    def at(self, place: Counts) -> Equations:
        """The equations for the same counts at these (n,) positions among others."""
        return replace(self, members=place[self.members])

    def least(self, number: int) -> Counts:
        """(number,) the smallest sum that contains each count; the largest int64 if none does."""
        found = np.full(number, np.iinfo(np.int64).max)
        np.minimum.at(found, self.members, np.repeat(self.high, np.diff(self.start)))
        return found

    def sums(self, counts: npt.NDArray[np.integer]) -> Counts:
        """(equations,) the sums of these (n,) counts."""
        return np.add.reduceat(counts[self.members], self.start[:-1]) if len(self.low) else self.low

    def holds(self, counts: npt.NDArray[np.integer]) -> bool:
        """Whether (n,) counts are non-negative and have these sums, in integers."""
        # recomputed for any counts: searches and solvers propose, and this decides
        sums = self.sums(counts)
        return bool((counts >= 0).all() and (sums >= self.low).all() and (sums <= self.high).all())
