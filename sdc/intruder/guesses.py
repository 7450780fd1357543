"""Guesses of counts, and how many of them are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model.cell_bounds import CellBounds
from sdc.model.table import freeze

Values: TypeAlias = npt.NDArray[np.float64]
ALONE = "independence"


@dataclass(frozen=True)
class Score:
    """How many guesses of an intruder are right, each rounded to a whole count.

    cells     of all cells of the table
    at_risk   of those that are at risk
    provable  of these, how many hold a record for certain: the bounds prove it without a guess
    claimed   how many cells are guessed to be small; those of them that are right are at risk
    """

    cells: int
    at_risk: int
    provable: int
    claimed: int


@dataclass(frozen=True, eq=False)
class Guesses:
    """What intruders who know what is published expect of a table, and how much of it is right.

    methods   how
    names     of each intruder: the reconstruction by each seed, then independence
    cells     (intruders,) of all cells how many are guessed right
    claimed   (intruders,) how many are guessed to be small
    expected  (intruders, n) records of each of the n at-risk cells, in the order of the table's rows
    """

    methods: tuple[str, ...]
    names: tuple[str, ...]
    cells: tuple[int, ...]
    claimed: tuple[int, ...]
    expected: Values

    def __post_init__(self) -> None:
        freeze(self, "expected")

    def scores(self, bounds: CellBounds) -> dict[str, Score]:
        """Of each intruder, by name; bounds of the at-risk cells."""
        right = np.rint(self.expected) == bounds.counts
        provable = right & (bounds.outer[:, 0] > 0)
        rows = zip(self.cells, right.sum(axis=1).tolist(), provable.sum(axis=1).tolist(), self.claimed, strict=True)
        return {name: Score(*row) for name, row in zip(self.names, rows, strict=True)}

    @property
    def mean(self) -> Values | None:
        """(n,) records that the reconstruction expects in the mean of its seeds; None without any."""
        own = [row for name, row in zip(self.names, self.expected, strict=True) if name != ALONE]
        return np.asarray(np.mean(own, axis=0)) if own else None


def mean_score(scores: Mapping[str, Score]) -> dict[str, float] | None:
    """Of the reconstruction, over its seeds; None without any."""
    own: Sequence[dict[str, int]] = [asdict(score) for name, score in scores.items() if name != ALONE]
    return {key: float(np.mean([one[key] for one in own])) for key in own[0]} if own else None
