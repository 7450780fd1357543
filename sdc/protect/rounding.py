"""Controlled rounding: a table of counts in multiples of a base whose margins are rounded too, and still add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError, many
from sdc.model.named import Tabular, named_cells
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.run_format import ROUNDED_COUNT
from sdc.solve.linear import LinearSums, cheapest

Dense = npt.NDArray[np.int64]
Axes = tuple[int, ...]
MOST_CELLS = 1 << 20
NODES = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(Tabular):
    """A rounded table, the shape of the one that was given.

    counts   multiples of the base; each less than the base from the true count
    margins  the axes kept of each margin that is rounded to a neighbouring multiple, the total's are none
    moved    the sum of what counts were moved by, in records; confidential, because with the true total it
             discloses small counts

    Examples
    --------
    >>> sdc.round("czech_auto_workers.csv", by="A*C", base=5).margins
    ((), (0,), (1,))
    """

    counts: Dense
    base: int
    margins: tuple[Axes, ...]
    moved: int

    @property
    def headline(self) -> str:
        return f"{many(self.counts.size, 'cell')} in multiples of {self.base}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Every cell, in a column that says how it is rounded: `read_table` takes it for no count."""
        cells = named_cells(schema.keys.unpack(np.arange(schema.cells)), schema)
        return {**cells, f"{ROUNDED_COUNT}{self.base}": self.counts.reshape(-1).tolist()}

    def cells(self, table: Table) -> list[dict[str, Any]]:
        """Each cell that is not 0, by the names of the table that was rounded."""
        codes = np.argwhere(self.counts > 0)
        numbers = zip(codes.tolist(), self.counts[self.counts > 0].tolist(), strict=True)
        return [{"cell": table.schema.named(cell), "rounded": count} for cell, count in numbers]


def controlled_rounding(counts: Dense, base: int) -> Rounded:
    """Each cell and each margin goes to a multiple next to it, and cells add up to margins ([DKS] section 5).

    counts  records, integers of any shape, not negative
    base    in records

    Of all such tables the one that is moved least, or the best that NODES nodes of the search find. In two dimensions
    one always exists (a transportation problem); in more there may be none, and where none is found only the total and
    the margins of one variable are held to a neighbouring multiple, or the total alone; `margins` says which.

    InputError for a base below 2, for counts below 0 or above 2^50, and for more than 2^20 cells or none; ReleaseError
    where no rounding was found, RuntimeError where the solver's is none.
    """
    if base < 2:
        raise InputError(f"the base is {base}; give a whole number of at least 2")
    counts = checked(counts, MOST_CELLS)
    if counts.max() > 1 << 50:
        raise InputError("counts beyond 2^50 are not rounded; divide them")
    every = [axes for k in range(counts.ndim) for axes in combinations(range(counts.ndim), k)]
    for margins in (tuple(every), tuple(axes for axes in every if len(axes) <= 1), ((),)):
        raised = _solved(counts, base, margins)
        if raised is not None:
            found = (counts // base + raised) * base
            _require(counts, found, base, margins)
            return Rounded(found, base, margins, int(np.abs(found - counts).sum()))
    raise ReleaseError(f"no rounding of the table to base {base} was found that keeps its margins; choose another base")


def require_no_levels(view: SubTable, schema: Schema) -> None:
    """InputError for a sub-table below a level: its sums there would not be near the true ones."""
    finest = schema.levels.finest(view)
    if coarser := schema.levels.closed(finest) & ~finest:
        above = ", ".join(schema.names[v] for v in st.members(coarser))
        raise InputError(
            f"{st.label(view, schema)} is not rounded, for its sums by {above} could be far from the true ones; round "
            "a table by the coarsest level, let cells of this one be suppressed or categories merged, or drop the "
            "hierarchy if nothing is published by its other levels"
        )


def checked(counts: Dense, most: int) -> Dense:
    """The counts of a table of at most so many cells; InputError where they are more, none, or below 0."""
    counts = np.asarray(counts, np.int64)
    if counts.size and counts.min() < 0:
        raise InputError(f"{many(int((counts < 0).sum()), 'count')} below 0; correct the counts")
    if not 0 < counts.size <= most:
        raise InputError(f"the table has {counts.size} cells; 1 to {most} are treated at once")
    return counts


def _margin(counts: Dense, kept: Axes) -> Dense:
    out = tuple(axis for axis in range(counts.ndim) if axis not in kept)
    return np.asarray(counts.sum(axis=out), np.int64)


def _solved(counts: Dense, base: int, margins: tuple[Axes, ...]) -> Dense | None:
    """Which cells are rounded up, 0 or 1; None where no choice keeps these margins."""
    rest = (counts % base).reshape(-1)
    rows, low, high = zip(*_rows(counts, base, margins), strict=True)
    found = cheapest(
        (base - 2 * rest).astype(float),
        0,
        (rest > 0).astype(float),
        [LinearSums(vstack(rows, "csr"), np.concatenate(low), np.concatenate(high))],
        whole=np.ones(counts.size, np.bool_),
        node_limit=NODES,
    )
    return None if found is None else np.rint(found).astype(np.int64).reshape(counts.shape)


def _rows(
    counts: Dense, base: int, margins: tuple[Axes, ...]
) -> Iterator[tuple[csr_array, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """For each margin how many cells of each of its cells may be rounded up, at least and at most."""
    cells = np.indices(counts.shape).reshape(counts.ndim, -1)
    for kept in margins:
        sums, floors = _margin(counts, kept), _margin(counts // base, kept)
        sizes = [counts.shape[axis] for axis in kept]
        own = np.ravel_multi_index([cells[axis] for axis in kept], sizes) if kept else np.zeros(counts.size, np.int64)
        row = csr_array((np.ones(counts.size), (own, np.arange(counts.size))), (max(1, sums.size), counts.size))
        low = (sums // base - floors).reshape(-1)
        high = (-(-sums // base) - floors).reshape(-1)
        yield row, low.astype(float), high.astype(float)


def _require(counts: Dense, found: Dense, base: int, margins: tuple[Axes, ...]) -> None:
    """RuntimeError where the solver's table is none, looked at in integers."""
    good = (found % base == 0).all() and (np.abs(found - counts) < base).all() and (found >= 0).all()
    for kept in margins:
        good = good and bool((np.abs(_margin(found, kept) - _margin(counts, kept)) < base).all())
    if not good:
        raise RuntimeError(
            "the solver returned a table that is not rounded as it should be; this is a bug in sdc: report it"
        )
