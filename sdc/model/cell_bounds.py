"""Bounds of cells: outer bounds contain the sharp range, inner ones lie inside it, exact ones are both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from sdc.model.documents import listed
from sdc.model.errors import many
from sdc.model.named import Named, beside, named_cells
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, freeze

Intervals: TypeAlias = Annotated[npt.NDArray[np.int64], listed(list[tuple[int, int]], np.int64, -1, 2)]


@overload
def is_wide(width: int, least: int) -> bool: ...
@overload
def is_wide(width: Counts, least: int) -> npt.NDArray[np.bool_]: ...
def is_wide(width: int | Counts, least: int) -> bool | npt.NDArray[np.bool_]:
    """Whether a width, or each of (n,) widths, in records, is wide enough: the one place that compares them."""
    return width >= least


def end_columns(outer: npt.NDArray[Any], inner: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """The columns of two (n, 2) arrays: outer_lower, outer_upper, inner_lower and inner_upper."""
    both = {"outer": outer, "inner": inner}
    return {f"{kind}_{end}": own[:, at] for kind, own in both.items() for at, end in enumerate(("lower", "upper"))}


@dataclass(frozen=True, eq=False, repr=False)
class CellBounds(Named):
    """Bounds of some cells under a release.

    cells   (n, axes) uint16 codes
    counts  (n,) int64 true counts
    outer   (n, 2) int64, contain the sharp range [LB, UB]
    inner   (n, 2) int64, reached by feasible tables, so inside the sharp range
    method  name of the method

    Raises ValueError if a count is outside its inner interval, or an inner interval outside the outer one: then one of
    them is wrong, because the true table is feasible.

    Examples
    --------
    >>> sdc.cell_bounds("czech_auto_workers.csv", ["A*B"])
    Bounds of 3 cells by decomposable, 3 of them exact; small_count=2
    """

    cells: Codes
    counts: Counts
    outer: Intervals
    inner: Intervals
    method: str

    def __post_init__(self) -> None:
        freeze(self, "cells", "counts", "outer", "inner")
        # the true table is feasible: this check finds most errors of a method before anything rests on them
        ordered = [self.outer[:, 0], self.inner[:, 0], self.counts, self.inner[:, 1], self.outer[:, 1]]
        wrong = np.any([low > high for low, high in pairwise(ordered)], axis=0)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"method {self.method}: count {self.counts[row]}, inner {self.inner[row].tolist()} and outer "
                f"{self.outer[row].tolist()} are not nested, cell {self.cells[row].tolist()}: one is wrong"
            )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def headline(self) -> str:
        return f"Bounds of {many(len(self), 'cell')} by {self.method}, {int(self.exact.sum()):,} of them exact"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells by names, with counts and bounds."""
        return beside(named_cells(self.cells, schema), {name: own.tolist() for name, own in self.numbers.items()})

    @property
    def numbers(self) -> dict[str, npt.NDArray[Any]]:
        """Counts and bounds by column."""
        return {"count": self.counts, **end_columns(self.outer, self.inner), "exact": self.exact}

    @property
    def exact(self) -> npt.NDArray[np.bool_]:
        """(n,) where both intervals agree and so are sharp."""
        equal: npt.NDArray[np.bool_] = (self.outer == self.inner).all(axis=1)
        return equal

    @property
    def outer_width(self) -> Counts:
        """(n,) records, at least the sharp width: a value below the required width proves a cell unsafe."""
        return self.outer[:, 1] - self.outer[:, 0]

    @property
    def inner_width(self) -> Counts:
        """(n,) records, at most the sharp width: a value of at least the required width proves a cell safe."""
        return self.inner[:, 1] - self.inner[:, 0]

    def rows(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> CellBounds:
        """The bounds of some cells, by row numbers or (n,) flags."""
        return CellBounds(self.cells[rows], self.counts[rows], self.outer[rows], self.inner[rows], self.method)

    @staticmethod
    def concatenated(parts: Sequence[CellBounds]) -> CellBounds:
        """The bounds of different cells, in order; ValueError without parts."""
        methods = dict.fromkeys(name for part in parts for name in part.method.split(" + "))
        return CellBounds(
            np.concatenate([part.cells for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.outer for part in parts]),
            np.concatenate([part.inner for part in parts]),
            " + ".join(methods),
        )

    def meet(self, other: CellBounds) -> CellBounds:
        """Combine two sources for the same cells: the narrower outer and the wider inner intervals.

        Raises ValueError if the cells differ or the sources contradict each other.
        """
        if not np.array_equal(self.cells, other.cells):
            raise ValueError("the two bounds are of different cells; give both the same cells in the same order")
        methods = dict.fromkeys([*self.method.split(" + "), *other.method.split(" + ")])
        return CellBounds(
            self.cells,
            self.counts,
            _between(self.outer, other.outer, np.maximum, np.minimum),
            _between(self.inner, other.inner, np.minimum, np.maximum),
            " + ".join(methods),
        )

    def narrowed(self, rows: npt.NDArray[np.integer], finer: CellBounds) -> CellBounds:
        """These bounds, with some rows combined with `finer`, which has these cells in that order."""
        met = self.rows(rows).meet(finer)
        outer, inner = self.outer.copy(), self.inner.copy()
        outer[rows], inner[rows] = met.outer, met.inner
        return CellBounds(self.cells, self.counts, outer, inner, met.method)


def combine(parts: Sequence[Intervals], between: Counts) -> Intervals:
    """(n, 2) intervals of cells from those of their marginal cells in components ([DKS], reducible models).

    UB = min_j UB_j(i_Cj), LB = max(0, sum_j LB_j(i_Cj) - sum_j n_Sj(i_Sj)) for components C_j and released separators
    S_j; `between` is the sum over the separators. Feasible integer tables of two components agree on the separator; at
    each of its cells they are the margins of a two-way table, which has integer solutions for every value in the
    Frechet range. So exact bounds combine to exact ones, inner to inner and outer to outer ones.
    """
    # int64 cannot overflow: at most 63 components and 62 separators of at most 2^53 records each
    lower = sum((part[:, 0] for part in parts), -between)
    upper = np.min([part[:, 1] for part in parts], axis=0)
    return np.stack([np.maximum(lower, 0), upper], axis=1)


def _between(one: Intervals, other: Intervals, low: np.ufunc, high: np.ufunc) -> Intervals:
    return np.stack([low(one[:, 0], other[:, 0]), high(one[:, 1], other[:, 1])], axis=1)
