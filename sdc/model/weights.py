"""Weights: how many people of the population the records of each cell represent, in millionths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError
from sdc.model.subtable import SubTable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table, freeze
from sdc.run_format import UNIT as UNIT  # of a weight of 1: weights have six decimals, and all sums are of integers


@dataclass(frozen=True, eq=False)
class RecordWeights:
    """The weights of the records of each non-zero cell of a table, in order, in millionths.

    totals  (cells,) int64, read-only sums, together at most 2^53
    least, largest  (cells,) int64, read-only, positive: the least and largest weight of each cell
    """

    totals: Counts
    least: Counts
    largest: Counts

    def __post_init__(self) -> None:
        freeze(self, "totals", "least", "largest")

    def __repr__(self) -> str:
        return f"Weights({len(self.totals)} cells)"

    @cached_property
    def total(self) -> int:
        return int(self.totals.sum())

    def rows(self, rows: npt.NDArray[np.integer]) -> RecordWeights:
        """The weights of the cells with these row numbers, in this order."""
        return RecordWeights(self.totals[rows], self.least[rows], self.largest[rows])

    def check(self, table: Table) -> None:
        """InputError if they do not fit the table: each sum lies between what a cell's records can have."""
        sizes = {len(self.totals), len(self.least), len(self.largest), len(table)}
        # in floating point too: corrupt values may wrap
        sums = self.totals.sum(dtype=np.float64) <= 2 * MAX_TOTAL and self.total <= MAX_TOTAL
        if len(sizes) > 1 or not sums or not _between(self, table.counts):
            raise InputError(
                "the weights do not fit the table: a cell has a total that its records cannot have; "
                "give the weights of this table"
            )


def _between(weights: RecordWeights, counts: Counts) -> bool:
    positive = (weights.least > 0) & (weights.least <= weights.largest) & (weights.totals > 0)
    fits = (weights.least.astype(np.float64) * counts < 2.0**60) & positive
    return bool(fits.all() and (counts * weights.least <= weights.totals).all()) and bool(
        at_most(weights.totals, counts, weights.largest).all()
    )


def at_most(totals: Counts, counts: Counts, each: Counts) -> npt.NDArray[np.bool_]:
    """(n,) whether a total is at most `counts` times `each`; cannot wrap below 2^53."""
    is_large = counts.astype(np.float64) * each > 2.0**60
    found: npt.NDArray[np.bool_] = is_large | (totals <= np.where(is_large, 0, counts) * each)
    return found


def at_least(totals: Counts, counts: Counts, each: Counts) -> npt.NDArray[np.bool_]:
    """(n,) whether a total is at least `counts` times `each`."""
    return ~at_most(totals + 1, counts, each)


@dataclass(frozen=True, eq=False)
class WeightRanges:
    """The assumed knowledge on weights: the least and largest weight of each category's records.

    low, high  for each axis (categories,) int64, in millionths

    A record of a cell has a weight within the ranges of all its categories; less knowledge excludes less.
    """

    low: tuple[Counts, ...]
    high: tuple[Counts, ...]

    @staticmethod
    def of(table: Table, weights: RecordWeights) -> WeightRanges:
        """The true ranges. A category without records has low above high."""
        low = tuple(np.full(size, MAX_TOTAL) for size in table.schema.keys.sizes)
        high = tuple(np.zeros(size, np.int64) for size in table.schema.keys.sizes)
        for v, column in enumerate(table.codes.T):
            np.minimum.at(low[v], column, weights.least)
            np.maximum.at(high[v], column, weights.largest)
        return WeightRanges(low, high)

    def at(self, cells: Codes) -> tuple[Counts, Counts]:
        """(n,) least and largest possible weight of a record of each of (n, axes) cells."""
        low = np.max([own[column] for own, column in zip(self.low, cells.T, strict=True)], axis=0)
        high = np.min([own[column] for own, column in zip(self.high, cells.T, strict=True)], axis=0)
        return low, high

    def require_several(self, column: str) -> None:
        """InputError if all records have the same weight."""
        if self.low[0].min() == self.high[0].max():
            raise InputError(
                f"weight {column!r} is the same for every record, so that its totals are counts times it; remove "
                "table.weight from the config, and state the weight in publication.notes"
            )


@dataclass(frozen=True)
class RoundedTotals:
    """The sub-tables whose totals of weights are public, for every cell, rounded.

    of    the sub-tables, whose counts are public too; in any order, each once
    base  the base of rounding, in millionths; halves go up
    """

    of: tuple[SubTable, ...]
    base: int

    def __post_init__(self) -> None:
        if self.base < 1:
            raise InputError(f"totals of weights are rounded to {self.base} millionths; give at least 1")

    def shown(self, totals: Counts) -> Counts:
        """(n,) published values of (n,) totals, in millionths."""
        return rounded(totals, self.base)


NO_TOTALS = RoundedTotals((), 1)


def rounded(totals: Counts, base: int) -> Counts:
    """(n,) the nearest multiples of the base, in millionths; halves go up."""
    return (2 * totals + base) // (2 * base) * base
