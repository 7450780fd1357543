"""Guesses of counts, and how many of them are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds, is_wide
from sdc.model.errors import many
from sdc.model.named import Named, beside, named_cells
from sdc.model.schema import Schema
from sdc.model.table import freeze

Values: TypeAlias = npt.NDArray[np.float64]
ALONE = "independence"


@dataclass(frozen=True)
class Score:
    """The right guesses of an intruder, rounded to whole counts.

    cells     among all cells of the table
    at_risk   among the at-risk cells
    provable  at-risk cells that certainly hold a record: the bounds prove it without a guess
    claimed   cells that are guessed to be small; the right ones among them are at risk
    """

    cells: int
    at_risk: int
    provable: int
    claimed: int


@dataclass(frozen=True, eq=False)
class Guesses:
    """The expected counts of intruders who know the publications, and their right guesses.

    methods   of the intruders
    names     of each intruder: the reconstruction by seed, then independence
    cells     (intruders,) right guesses among all cells
    claimed   (intruders,) cells that are guessed to be small
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
        """Scores by intruder; bounds of the at-risk cells."""
        right = np.rint(self.expected) == bounds.counts
        provable = right & (bounds.outer[:, 0] > 0)
        rows = zip(self.cells, right.sum(axis=1).tolist(), provable.sum(axis=1).tolist(), self.claimed, strict=True)
        return {name: Score(*row) for name, row in zip(self.names, rows, strict=True)}

    @property
    def mean(self) -> Values | None:
        """(n,) mean over the seeds of the reconstruction's expected records; None without seeds."""
        own = [row for name, row in zip(self.names, self.expected, strict=True) if name != ALONE]
        return np.asarray(np.mean(own, axis=0)) if own else None


def mean_score(scores: Mapping[str, Score]) -> dict[str, float] | None:
    """Mean score of the reconstruction over its seeds; None without seeds."""
    own: Sequence[dict[str, int]] = [asdict(score) for name, score in scores.items() if name != ALONE]
    return {key: float(np.mean([one[key] for one in own])) for key in own[0]} if own else None


@dataclass(frozen=True, eq=False, repr=False)
class Right(Named):
    """Right guesses beside the bounds of the n at-risk cells, in the order of the table's rows.

    small_count  cells of 1 up to this count are at risk
    min_width    the required width of each, in records; None if there is none
    posteriors   of the same cells, where known
    """

    guesses: Guesses
    bounds: CellBounds
    small_count: int
    min_width: int | None = None
    posteriors: Sequence[Summary] = ()

    @property
    def headline(self) -> str:
        return f"Correct guesses of {many(len(self.bounds), 'at-risk cell')} by {'; '.join(self.guesses.methods)}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """By at-risk cell: its names, count and bounds, and the records that each intruder expects."""
        named, (lower, upper) = named_cells(self.bounds.cells, schema), self.bounds.outer.T.tolist()
        guessed = dict(zip(self.guesses.names, self.guesses.expected.tolist(), strict=True))
        numbers = {"count": self.bounds.counts.tolist(), "outer_lower": lower, "outer_upper": upper, **guessed}
        return beside(named, numbers)

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a document; the narrowest cells first."""
        scores, promised = self.guesses.scores(self.bounds), dict[str, Any]()
        if self.min_width is not None:
            kept = bool(is_wide(self.bounds.inner_width, self.min_width).all())
            promised = {"min_width": self.min_width, "width_kept": kept}
        return {
            "small_count": self.small_count,
            "at_risk_cells": len(self.bounds),
            **promised,
            "certain_cells": int((self.bounds.outer[:, 0] > 0).sum()),
            "right": {name: asdict(score) for name, score in scores.items()},
            "mean": mean_score(scores),
            "cells": [*self._cells()],
        }

    def _cells(self) -> Iterator[dict[str, Any]]:
        laws = [law for law in self.posteriors if law.reason is None]
        for row in np.argsort(self.bounds.outer_width, kind="stable").tolist():
            yield {
                "cell": self.names.named(self.bounds.cells[row].tolist()),
                "count": int(self.bounds.counts[row]),
                "outer": self.bounds.outer[row].tolist(),
                "guessed": dict(zip(self.guesses.names, self.guesses.expected[:, row].tolist(), strict=True)),
                "posterior": {law.label: float(law.at_truth[row]) for law in laws},
            }
