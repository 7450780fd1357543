"""Suppression: which cells of one table to withhold so that nobody can pin a small count from what stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from sdc.bounds.integer_system import IntegerSystem
from sdc.model.errors import InputError, NotReleasableError
from sdc.model.table import Table
from sdc.run_format import COUNT

Dense = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MOST_CELLS, ROUNDS = 4096, 2000


@dataclass(frozen=True, eq=False)
class Suppressed:
    """Which cells are withheld.

    withheld  flags of the table's shape
    bounds    (sensitive, 2) between which each sensitive cell can move for whoever has the rest and all margins
    weight    the records in withheld cells
    optimal   whether no other choice withholds fewer records; else it is one that protects, and was not proven the best
    """

    withheld: Flags
    bounds: npt.NDArray[np.int64]
    weight: int
    optimal: bool

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Every cell by the names of the table, its count None where it is withheld."""
        dense = table.dense
        return [
            {**table.schema.named(cell), COUNT: None if self.withheld[cell] else int(dense[cell])}
            for cell in np.ndindex(dense.shape)
        ]


def suppress(counts: Dense, small_count: int, min_width: int, rounds: int = ROUNDS) -> Suppressed:
    """The cells to withhold, fewest records first, such that each count of 1 to `small_count` keeps its width.

    counts  integers of any shape; its margins with one variable summed out stay public, and so all others

    By cuts: the cheapest set that has a cell of every set known to be needed is tried; where a sensitive cell has too
    narrow bounds, one of the cells that are public then must be withheld too ([DKS] section 5; Fischetti and Salazar
    2001). InputError for counts below 0, more than 4,096 cells, or a width below 1; NotReleasableError where even
    withholding all leaves a cell too narrow.
    """
    counts = np.asarray(counts, np.int64)
    if counts.size and counts.min() < 0:
        raise InputError(f"{int((counts < 0).sum())} counts are below 0; counts must not be negative")
    if not 0 < counts.size <= MOST_CELLS:
        raise InputError(f"the table has {counts.size} cells; 1 to {MOST_CELLS} are treated at once")
    if min_width < 1 or small_count < 1:
        raise InputError(f"small count {small_count} and width {min_width}; give 1 at least of each")
    sensitive = (counts > 0) & (counts <= small_count)
    everything = np.ones(counts.shape, np.bool_)
    narrow = _narrow(counts, everything, sensitive, min_width)
    if len(narrow):
        raise NotReleasableError(
            f"{len(narrow)} cells of the table keep no width of {min_width} though all cells are withheld: its margins "
            "tell them; release fewer margins, or merge categories"
        )
    weights, cuts = counts.reshape(-1) + 1, list[npt.NDArray[np.int64]]()
    for _ in range(rounds):
        withheld = _cheapest(weights, sensitive.reshape(-1), cuts).reshape(counts.shape)
        narrow = _narrow(counts, withheld, sensitive, min_width)
        if not len(narrow):
            return _suppressed(counts, withheld, sensitive, optimal=True)
        cuts.append(_cut(counts, withheld, sensitive, min_width))
    return _suppressed(counts, _greedy(counts, withheld, sensitive, min_width), sensitive, optimal=False)


def _suppressed(counts: Dense, withheld: Flags, sensitive: Flags, *, optimal: bool) -> Suppressed:
    bounds = _bounds(counts, withheld, np.flatnonzero(sensitive))
    return Suppressed(withheld, bounds, int(counts[withheld].sum()), optimal)


def _bounds(counts: Dense, withheld: Flags, cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(n, 2) between what cells surely can move, given all that is not withheld and all margins."""
    flat, hidden = counts.reshape(-1), np.flatnonzero(withheld)
    place = np.full(counts.size, -1)
    place[hidden] = np.arange(len(hidden))
    equations, upper = [], np.full(len(hidden), np.iinfo(np.int64).max)
    grid = np.arange(counts.size).reshape(counts.shape)
    for axis in range(counts.ndim):
        for line in np.moveaxis(grid, axis, -1).reshape(-1, counts.shape[axis]):
            inside = line[place[line] >= 0]
            if len(inside):
                total = int(flat[inside].sum())
                equations.append((place[inside], total))
                upper[place[inside]] = np.minimum(upper[place[inside]], total)
    found = np.stack([flat[cells], flat[cells]], axis=1)
    asked = np.flatnonzero(place[cells] >= 0)
    if len(asked):
        # the inner ones, which tables that agree reach: what is not proven does not count as wide
        _, found[asked] = IntegerSystem(upper, equations).bounds(flat[hidden], place[cells[asked]].tolist())
    return found


def _narrow(counts: Dense, withheld: Flags, sensitive: Flags, min_width: int) -> npt.NDArray[np.int64]:
    """The sensitive cells whose bounds are narrower than asked."""
    cells = np.flatnonzero(sensitive)
    bounds = _bounds(counts, withheld, cells)
    return cells[bounds[:, 1] - bounds[:, 0] < min_width]


def _cut(counts: Dense, withheld: Flags, sensitive: Flags, min_width: int) -> npt.NDArray[np.int64]:
    """Cells of which one must be withheld: those public in a largest set that leaves some sensitive cell too narrow."""
    largest = withheld.copy()
    for cell in np.argsort(-counts.reshape(-1), kind="stable").tolist():
        if not largest.reshape(-1)[cell]:
            tried = largest.copy()
            tried.reshape(-1)[cell] = True
            if len(_narrow(counts, tried, sensitive, min_width)):
                largest = tried
    return np.flatnonzero(~largest)


def _cheapest(weights: Dense, sensitive: Flags, cuts: list[npt.NDArray[np.int64]]) -> Flags:
    """The cells of least weight that have one of every cut, and the sensitive ones."""
    if not cuts:
        return sensitive.copy()
    rows = [csr_array((np.ones(len(cut)), (np.zeros(len(cut), int), cut)), (1, len(weights))) for cut in cuts]
    found = milp(
        weights.astype(float),
        integrality=np.ones(len(weights)),
        bounds=Bounds(sensitive.astype(float), 1),
        constraints=LinearConstraint(vstack(rows, "csr"), 1, np.inf),
    )
    if found.x is None:
        raise RuntimeError("no cells have one of every cut, and all cells have")
    return np.asarray(np.rint(found.x), np.bool_)


def _greedy(counts: Dense, withheld: Flags, sensitive: Flags, min_width: int) -> Flags:
    """From all cells those public again, largest first, that are not needed."""
    kept = np.ones(counts.shape, np.bool_)
    for cell in np.argsort(-counts.reshape(-1), kind="stable").tolist():
        if not sensitive.reshape(-1)[cell]:
            tried = kept.copy()
            tried.reshape(-1)[cell] = False
            if not len(_narrow(counts, tried, sensitive, min_width)):
                kept = tried
    return kept
