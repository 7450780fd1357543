"""Laws of single cells: possible counts and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model.cell_bounds import Intervals
from sdc.model.documents import listed
from sdc.model.table import Codes, Counts, freeze

Probabilities: TypeAlias = Annotated[npt.NDArray[np.float64], listed(list[float], np.float64, -1)]
LEAST = 1e-30  # smaller probabilities at the ends of a law are left out


@dataclass(frozen=True, eq=False)
class CellLaws:
    """Pr(f_i = k | R) of some cells.

    cells          (n, variables) uint16 codes
    counts         (n,) int64 true counts
    first          (n,) int64 least count of each
    start          (n + 1,) int64 start of each cell's probabilities
    probabilities  (start[n],) of the counts from `first` on; those of one cell sum to 1
    """

    cells: Codes
    counts: Counts
    first: Counts
    start: Counts
    probabilities: Probabilities

    def __post_init__(self) -> None:
        freeze(self, "cells", "counts", "first", "start", "probabilities")

    def __len__(self) -> int:
        return len(self.counts)

    def of(self, row: int) -> Probabilities:
        """The probabilities of one cell's counts, from the least on."""
        found: Probabilities = self.probabilities[self.start[row] : self.start[row + 1]]
        return found

    @property
    def ranges(self) -> Intervals:
        """(n, 2) int64 least and largest count with a probability."""
        return np.stack([self.first, self.first + np.diff(self.start) - 1], axis=1)

    @property
    def at_truth(self) -> Probabilities:
        """(n,) probability of each cell's true count."""
        place = self.counts - self.first
        inside = (place >= 0) & (place < np.diff(self.start))
        found: Probabilities = np.where(inside, self.probabilities[np.where(inside, self.start[:-1] + place, 0)], 0.0)
        return found

    @property
    def most_likely(self) -> tuple[Counts, Probabilities]:
        """(n,) most likely count of each cell, the least of equal ones, and (n,) its probability."""
        highest = np.maximum.reduceat(self.probabilities, self.start[:-1])
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        # equal up to rounding counts as equal: the choice must not depend on the last bit
        is_highest = self.probabilities >= highest[owner] * (1 - 1e-12)
        rows, places = np.unique(owner[is_highest], return_index=True)
        return self.first[rows] + np.flatnonzero(is_highest)[places] - self.start[rows], highest

    def at_least(self, counts: Counts) -> Probabilities:
        """(n,) probability that each cell has at least the given count."""
        is_enough = self.each_count >= np.repeat(counts, np.diff(self.start))
        sums: Probabilities = np.add.reduceat(np.where(is_enough, self.probabilities, 0.0), self.start[:-1])
        return sums

    @property
    def means(self) -> Probabilities:
        """(n,) expected count of each cell."""
        sums: Probabilities = np.add.reduceat(self.probabilities * self.each_count, self.start[:-1])
        return sums

    @property
    def each_count(self) -> Counts:
        """(start[n],) the count of each probability."""
        counts: Counts = np.arange(self.start[-1]) - np.repeat(self.start[:-1] - self.first, np.diff(self.start))
        return counts

    @staticmethod
    def of_each(cells: Codes, counts: Counts, laws: Sequence[tuple[int, Probabilities]]) -> CellLaws:
        """From the least count and the probabilities of each cell."""
        start = np.concatenate([[0], np.cumsum([len(law) for _, law in laws])]).astype(np.int64)
        first = np.array([first for first, _ in laws], np.int64)
        flat = np.concatenate([law for _, law in laws]) if laws else np.empty(0)
        return CellLaws(cells, counts, first, start, flat)
