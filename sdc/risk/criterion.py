"""The risk criterion: is every at-risk cell's width at least beta? Three answers, with witnesses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdc.bounds.cell_marginals import CellMarginals
from sdc.bounds.method import cell_bounds, cheap_bounds, is_small
from sdc.executor import IN_PROCESS, Executor
from sdc.model.cell_bounds import CellBounds
from sdc.model.release import Release
from sdc.model.table import Codes, Table
from sdc.risk.critical_width import require_at_risk

CELLS_PER_UNIT = 8
MAX_WITNESSES = 20


@dataclass(frozen=True)
class Witness:
    """A cell that shows why a release is unsafe, or that nothing could decide."""

    cell: tuple[int, ...]
    count: int
    outer: tuple[int, int]
    inner: tuple[int, int]
    method: str


@dataclass(frozen=True)
class Assessment:
    """Whether a release satisfies min width >= min_width_required ([KDSF] eq. 6).

    releasable       True: every inner width reaches it; False: some outer width does not; None: undecided
    min_width        (lo, hi) that contains the sharp minimum width over the at-risk cells
    undecided_cells  cells whose outer width reaches it and whose inner width does not
    witnesses        cells that prove it unsafe, else the undecided ones, narrowest first, at most 20
    """

    releasable: bool | None
    min_width_required: int
    min_width: tuple[int, int]
    at_risk_cells: int
    undecided_cells: int
    witnesses: tuple[Witness, ...]


def judge(bounds: CellBounds, min_width: int) -> Assessment:
    """The answer that the bounds of all at-risk cells give."""
    outer, inner = bounds.outer_width, bounds.inner_width
    unsafe, undecided = outer < min_width, (outer >= min_width) & (inner < min_width)
    releasable = False if unsafe.any() else None if undecided.any() else True
    telling = np.flatnonzero(unsafe if unsafe.any() else undecided)
    return Assessment(
        releasable,
        min_width,
        (int(inner.min()), int(outer.min())),
        len(bounds),
        int(undecided.sum()),
        tuple(_witness(bounds, row) for row in _most_exposed(bounds, telling)[:MAX_WITNESSES]),
    )


def _most_exposed(bounds: CellBounds, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Narrowest outer first, then narrowest inner, then in the table's order."""
    order = np.lexsort([rows, bounds.inner_width[rows], bounds.outer_width[rows]])
    return rows[order]


def _witness(bounds: CellBounds, row: np.int64) -> Witness:
    low, high = bounds.outer[row].tolist()
    inner_low, inner_high = bounds.inner[row].tolist()
    cell = tuple(bounds.cells[row].tolist())
    return Witness(cell, int(bounds.counts[row]), (low, high), (inner_low, inner_high), bounds.method)


@dataclass(frozen=True, eq=False)
class Criterion:
    """min width >= `min_width` over the cells with 0 < count <= `small_count`, for one release after another.

    Cheap bounds of all at-risk cells come first. What they leave open goes to dearer methods, the
    most exposed cells first: all of it where the table is small enough for exact methods, else the
    first `refute_cells`. InputError where the table has no at-risk cell.
    """

    table: Table
    small_count: int
    min_width: int
    refute_cells: int = 16
    executor: Executor = IN_PROCESS

    def __post_init__(self) -> None:
        require_at_risk(self.table, self.small_count)

    @cached_property
    def _marginals(self) -> CellMarginals:
        return CellMarginals(self.table, self.table.codes[self.table.at_risk(self.small_count)])

    @property
    def is_exact(self) -> bool:
        """Whether every cell left open gets an exact method; one that reaches its limit leaves the cell undecided."""
        return is_small(self.table.schema)

    def cheap(self, release: Release) -> CellBounds:
        """Bounds of every at-risk cell that cost next to nothing."""
        return cheap_bounds(self._marginals, release)

    def assess(self, release: Release, *, dearer: bool = True) -> Assessment:
        """The answer for a release, from the cheap bounds alone unless `dearer`; stops at the first proof."""
        cheap = self.cheap(release)
        answer = judge(cheap, self.min_width)
        if answer.releasable is not None or not dearer:
            return answer
        for finer in self._refined(cheap, release, self._open(cheap)):
            answer = judge(finer, self.min_width)
            if answer.releasable is False:
                break
        return answer

    def bounds(self, release: Release) -> CellBounds:
        """The best bounds of every at-risk cell: exact where the table is small, else as in `assess`."""
        bounds = self.cheap(release)
        rows = np.flatnonzero(~bounds.exact) if self.is_exact else self._open(bounds)
        *_, best = bounds, *self._refined(bounds, release, _most_exposed(bounds, rows))
        return best

    def _open(self, bounds: CellBounds) -> npt.NDArray[np.int64]:
        undecided = (bounds.outer_width >= self.min_width) & (bounds.inner_width < self.min_width)
        rows = _most_exposed(bounds, np.flatnonzero(undecided))
        return rows if self.is_exact else rows[: self.refute_cells]

    def _refined(self, bounds: CellBounds, release: Release, rows: npt.NDArray[np.int64]) -> Iterator[CellBounds]:
        """The bounds again and again, after each unit of cells that a dearer method has treated."""
        chunks = [rows[i : i + CELLS_PER_UNIT] for i in range(0, len(rows), CELLS_PER_UNIT)]
        units = [(release.frontier, bounds.cells[chunk], "auto") for chunk in chunks]
        for chunk, finer in zip(chunks, self.executor.run(bounds_of_cells, self.table, units), strict=True):
            bounds = bounds.narrowed(chunk, finer)
            yield bounds


def bounds_of_cells(table: Table, unit: tuple[tuple[int, ...], Codes, str]) -> CellBounds:
    """Bounds of the unit (released frontier, cells, name of the method)."""
    frontier, cells, method = unit
    return cell_bounds(table, Release(frontier), cells, method)


def bounds_in_units(table: Table, release: Release, cells: Codes, method: str, executor: Executor) -> CellBounds:
    """Bounds of many cells, cut into as many units as keep the workers busy; the cut does not change them."""
    pieces = np.array_split(cells, min(len(cells), 4 * executor.workers if executor.workers > 1 else 1))
    units = [(release.frontier, piece, method) for piece in pieces]
    return CellBounds.concatenated(list(executor.run(bounds_of_cells, table, units)))


def assess(
    table: Table,
    release: Release,
    *,
    min_width: int,
    small_count: int = 2,
    refute_cells: int = 16,
    executor: Executor = IN_PROCESS,
) -> Assessment:
    """Is the release safe: does every at-risk cell keep a width of at least `min_width`?"""
    return Criterion(table, small_count, min_width, refute_cells, executor).assess(release)
