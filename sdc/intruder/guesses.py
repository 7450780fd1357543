"""Guesses of counts, and how many of them are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds, is_wide
from sdc.model.named import Named, beside, named_cells
from sdc.model.schema import Schema
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


@dataclass(frozen=True, eq=False, repr=False)
class Right(Named):
    """What of guesses is right, beside the bounds of the n at-risk cells, in the order of the table's rows.

    small_count  cells of 1 up to this count are at risk
    min_width    what was promised of each, in records; None where nothing was
    posteriors   of the same cells, as far as they are known
    """

    guesses: Guesses
    bounds: CellBounds
    small_count: int
    min_width: int | None = None
    posteriors: Sequence[Summary] = ()

    @property
    def headline(self) -> str:
        return f"What is guessed right of {len(self.bounds):,} at-risk cells by {'; '.join(self.guesses.methods)}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """At-risk cell by at-risk cell, by names: its count and bounds, and how many records each intruder expects."""
        named, (lower, upper) = named_cells(self.bounds.cells, schema), self.bounds.outer.T.tolist()
        guessed = dict(zip(self.guesses.names, self.guesses.expected.tolist(), strict=True))
        numbers = {"count": self.bounds.counts.tolist(), "outer_lower": lower, "outer_upper": upper, **guessed}
        return beside(named, numbers)

    @property
    def facts(self) -> dict[str, Any]:
        """As documents have it; the cells narrowest first."""
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
