"""Inner bounds by the sparsest difference: a linear program on the cells near a target, made integer where need be.

A feasible table is the true one plus z. With the target's z fixed, the released marginals kept and sum |z| minimised
over the cells that differ from the target in a few variables, vertices are sparse and mostly integer (REFERENCE 6).
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.compiled import kernel
from sdc.feasible.differences import Differences
from sdc.feasible.walk import Moved
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table
from sdc.solve.equations import Equations
from sdc.solve.integer import IntegerSystem, UndecidedError
from sdc.solve.linear import vertex

MAX_BALL = 30_000  # cells that are listed, before any is peeled off
MAX_COLUMNS = 25_000
MAX_RADIUS = 5  # measured: at 6 a program of 13 variables was not solved in five minutes
LINEAR_EFFORT = 4.0  # the solver's deterministic time, of a linear program
INTEGER_EFFORT = 4.0
DUAL_FROM = 1500  # columns from which the dual simplex is used
TOLERANCE = 1e-6

Ints = npt.NDArray[np.int64]


class Ball(NamedTuple):
    """The cells within some distance of any cell, as offsets of its codes, and the released marginal cells they are in.

    offsets  (cells, variables); code = (own code + offset) modulo the categories; the cell itself first
    start    (cells + 1,); cell i is in the marginal cells rows[start[i]:start[i + 1]]
    rows     a released marginal cell is numbered by the cell that equals the target outside its variables, where no
             variable has the target's category; others follow from these
    """

    offsets: Ints
    start: Ints
    rows: Ints


def find(table: Table, knowledge: Knowledge, cells: Codes, changes: Ints) -> Moved:
    """Differences that change (n, axes) cells by (n,) `changes`, at most one a cell, each checked in integers.

    For tables that `walk.can_search` admits; the number of steps is that of the columns of all programs.
    Deterministic: the solvers' limits are counted in steps.
    """
    # levels are variables of their own here: what the program finds is checked to follow them
    flat, known, axes = table.flat, knowledge.flat, list(table.schema.axes)
    parts, steps = [Differences.none(len(flat.schema))], 0
    for cell, by in zip(table.schema.columns(cells), changes, strict=True):
        found, used = _change(flat, known.structure.informed, cell, int(by))
        parts.append(found)
        steps += used
    found = Differences.concatenated(parts)
    found = found.rows(found.feasible(flat, known))
    return Moved(Differences(found.start, found.cells[:, axes], found.changes), steps)


def _change(table: Table, release: Release, cell: Codes, by: int) -> tuple[Differences, int]:
    steps, nothing = 0, Differences.none(len(table.schema.axes))
    # small balls first: their programs are far smaller
    for radius in range(2, MAX_RADIUS + 1):
        if _ball_size(table.schema.sizes, radius) > MAX_BALL:
            break
        ball = _ball(table.schema.sizes, release, radius)
        # offsets wrap around, so that one ball with its equations serves every target cell
        near = ((cell + ball.offsets) % np.array(table.schema.sizes)).astype(np.uint16)
        program = _BallProgram(ball, table.count_at(near), by)
        change = program.solution()
        steps += program.columns
        if change is not None:
            used = np.flatnonzero(change)
            return Differences(np.array([0, len(used)]), near[used], change[used]), steps
        # a larger ball has these columns and more
        if program.is_large:
            break
    return nothing, steps


class _BallProgram:
    """The columns that are left when those that must be zero are peeled off, and their equations."""

    def __init__(self, ball: Ball, counts: Counts, by: int) -> None:
        alive = np.ones(len(counts), np.bool_)
        self.by, self._cells = by, len(counts)
        self._possible = _peel(ball.start, ball.rows, counts, alive)
        self._columns = np.flatnonzero(alive)
        self.columns = len(self._columns)
        self.is_large = self.columns > MAX_COLUMNS
        self._counts = counts[self._columns]
        lengths = np.diff(ball.start)[self._columns]
        # the entries of the columns that are left, one range of them after another
        place = np.repeat(ball.start[self._columns] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        self._rows, self._row = np.unique(ball.rows[place], return_inverse=True)
        self._start = np.concatenate([[0], np.cumsum(lengths)])

    def solution(self) -> Counts | None:
        """(cells of the ball,) the change of each, or None where none was found."""
        if not self._possible or self.is_large:
            return None
        relaxed = self._relaxed()
        if relaxed is None:
            return None
        # vertices are mostly integer, but floating point only proposes: `find` checks all that is returned in integers
        change = np.round(relaxed).astype(np.int64)
        if np.abs(relaxed - change).max() > TOLERANCE:
            repaired = self._repaired(relaxed)
            if repaired is None:
                return None
            change = repaired
        whole = np.zeros(self._cells, np.int64)
        whole[self._columns] = change
        return whole

    def _relaxed(self) -> npt.NDArray[np.float64] | None:
        """A sparsest real change of the columns: each is what it gains less what it gives, which only donors can."""
        from scipy.sparse import csc_matrix, hstack

        donors = np.flatnonzero(self._counts > 0)
        matrix = csc_matrix((np.ones(len(self._row)), self._row, self._start), (len(self._rows), len(self._columns)))
        both = hstack([matrix, -matrix[:, donors]]).tocsr()
        lower, upper = np.zeros(both.shape[1]), np.full(both.shape[1], np.inf)
        upper[len(self._columns) :] = self._counts[donors]
        # the target is the first column and, where it is a donor, the first of these. Both of its parts are fixed, or
        # what it gains and gives would cancel
        lower[0] = upper[0] = max(0, self.by)
        if len(donors) and donors[0] == 0:
            lower[len(self._columns)] = upper[len(self._columns)] = max(0, -self.by)
        values = vertex(both, lower, upper, LINEAR_EFFORT, dual=both.shape[1] > DUAL_FROM)
        if values is None:
            return None
        change = values[: len(self._columns)].copy()
        change[donors] -= values[len(self._columns) :]
        return change

    def _repaired(self, relaxed: npt.NDArray[np.float64]) -> Counts | None:
        """An integer change of the columns that touches no other equation than the real change does."""
        # few columns are left, those of the equations in play, and an integer change is mostly near the real one
        touched = np.zeros(len(self._rows), np.bool_)
        of = np.repeat(np.arange(len(self._columns)), np.diff(self._start))
        touched[self._row[np.abs(relaxed[of]) > TOLERANCE]] = True
        usable = np.flatnonzero(np.bincount(of, ~touched[self._row], minlength=len(self._columns)) == 0)
        most = 2 * abs(self.by) + int(np.ceil(np.abs(relaxed).max()))
        # of the counts after the change, which keep the sums that they have before it
        counts, inside = self._counts[usable], np.isin(of, usable)
        group, place = self._row[inside], np.searchsorted(usable, of[inside])
        system = IntegerSystem(
            np.where(usable == 0, counts + self.by, counts - np.minimum(most, counts)),
            np.where(usable == 0, counts + self.by, counts + most),
            Equations.of_members(group, place, counts),
            counts + np.round(relaxed[usable]).astype(np.int64),
        )
        try:
            found = system.solution(INTEGER_EFFORT)
        except UndecidedError:
            return None
        if found is None:
            return None
        change = np.zeros(len(self._columns), np.int64)
        change[usable] = found - counts
        return change


def _ball_size(sizes: tuple[int, ...], radius: int) -> int:
    """Cells that differ in at most `radius` variables: elementary symmetric sums of the other categories."""
    sums = [1] + [0] * radius
    for size in sizes:
        # downwards, so that a variable is counted once in each sum
        for k in range(radius, 0, -1):
            sums[k] += sums[k - 1] * (size - 1)
    return sum(sums)


@lru_cache(maxsize=8)
def _ball(sizes: tuple[int, ...], release: Release, radius: int) -> Ball:
    offsets = _offsets(sizes, radius)
    strides = KeySpace(sizes).strides
    keys = offsets @ strides
    order = np.argsort(keys)
    masks = (offsets > 0) @ (1 << np.arange(len(sizes), dtype=np.int64))
    start, rows = _incidence(offsets, masks, strides, keys[order], order, release.listed(len(sizes)))
    return Ball(offsets, start, rows)


@lru_cache(maxsize=8)
def _offsets(sizes: tuple[int, ...], radius: int) -> Ints:
    parts = [np.zeros((1, len(sizes)), np.int64)]
    for distance in range(1, radius + 1):
        for changed in itertools.combinations(range(len(sizes)), distance):
            levels = np.array(list(itertools.product(*(range(1, sizes[v]) for v in changed))), np.int64)
            part = np.zeros((len(levels), len(sizes)), np.int64)
            part[:, changed] = levels.reshape(len(levels), distance)
            parts.append(part)
    return np.concatenate(parts)


@kernel
def _incidence(
    offsets: Ints, masks: Ints, strides: Ints, sorted_keys: Ints, order: Ints, released: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """For each cell the released marginal cells it is in: one a released subset of the variables it differs in."""
    # a row is a released set S of variables that differ, and their levels: it is numbered by the ball's cell with these
    # levels on S and the target's elsewhere. That cell is nearer to the target, so it is in the ball. Rows with a
    # target's level are differences of these, by inclusion and exclusion
    start = np.zeros(len(masks) + 1, np.int64)
    for c in range(len(masks)):
        number = 0
        subset = masks[c]
        while True:
            number += released[subset]
            if subset == 0:
                break
            subset = (subset - 1) & masks[c]
        start[c + 1] = start[c] + number
    rows = np.empty(start[-1], np.int64)
    for c in range(len(masks)):
        place = start[c]
        subset = masks[c]
        while True:
            if released[subset]:
                key = 0
                for v in range(len(strides)):
                    if subset >> v & 1:
                        key += offsets[c, v] * strides[v]
                rows[place] = order[np.searchsorted(sorted_keys, key)]
                place += 1
            if subset == 0:
                break
            subset = (subset - 1) & masks[c]
    return start, rows


@kernel
def _peel(start: Ints, rows: Ints, counts: Counts, alive: npt.NDArray[np.bool_]) -> bool:
    """Takes away the cells that cannot change: alone in a marginal cell, or in one without a donor.

    Whether the first cell, the target, is left.
    """
    cells, donors = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    for c in range(len(counts)):
        for row in rows[start[c] : start[c + 1]]:
            cells[row] += 1
            donors[row] += counts[c] > 0
    # changes in a released marginal cell cancel: alone in one a cell cannot change, and where none has a record to give
    # none can gain. Taking one away may leave another alone, so on until nothing changes; never wrong, because what is
    # taken away is 0 in every solution
    changed = True
    while changed and alive[0]:
        changed = False
        for c in range(len(counts)):
            stuck = False
            for row in rows[start[c] : start[c + 1]]:
                stuck |= donors[row] == 0 or cells[row] < 2
            if alive[c] and stuck:
                alive[c] = False
                changed = True
                for row in rows[start[c] : start[c + 1]]:
                    cells[row] -= 1
                    donors[row] -= counts[c] > 0
    return bool(alive[0])
