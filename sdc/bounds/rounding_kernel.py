"""Compiled rounding of the linear program's tables to integers: dependent cells, and their correction.

Kernels that call each other stay in this module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inlined, inner, kernel

SMALL = 10.0  # records; larger dependent cells rarely become negative by rounding the others

Reals: TypeAlias = npt.NDArray[np.float64]
Codings: TypeAlias = npt.NDArray[np.int64]
Entries: TypeAlias = tuple[Codings, npt.NDArray[np.int32], npt.NDArray[np.int32]]
Effects: TypeAlias = npt.NDArray[np.float32]  # integers, which are exact up to 2^24


@kernel
def effects(codes: Codings, released: Codings, strides: Codings, row_at: npt.NDArray[np.int32]) -> Effects:
    """(rows, n) integers: the effect of one record in each cell on the dependent cells, one for each row.

    codes     (n, variables) with the baseline as level 0
    released  (sets,) of variables, with all subsets
    row_at    (cells,) the row whose levels a dense cell has, or -1

    A cell affects the rows of the released sets S within the set D of its variables off the baseline, by inclusion and
    exclusion over the released sets between S and D. Cost: O(n sets variables).
    """
    effect = np.zeros((row_at.max() + 1, len(codes)), np.float32)
    inside = np.empty(len(released), np.int64)
    sums = np.zeros(1 << codes.shape[1], np.int64)
    for j in range(len(codes)):
        apart = 0
        for v in range(codes.shape[1]):
            apart |= (codes[j, v] > 0) << v
        many = 0
        for subset in released:
            if subset & ~apart == 0:
                inside[many] = subset
                sums[subset] = _sign(subset)
                many += 1
        # sums over supersets, a variable at a time; unreleased sets add nothing
        for v in range(codes.shape[1]):
            if apart >> v & 1:
                for subset in inside[:many]:
                    if not subset >> v & 1:
                        sums[subset] += sums[subset | 1 << v]
        for subset in inside[:many]:
            if sums[subset] != 0:
                anchor = 0
                for v in range(codes.shape[1]):
                    if subset >> v & 1:
                        anchor += codes[j, v] * strides[v]
                effect[row_at[anchor], j] = _sign(subset) * sums[subset]
            sums[subset] = 0
    return effect


@inner
def _sign(subset: int) -> int:
    """1 for a set of even size, -1 for one of odd size."""
    sign = 1
    while subset:
        subset &= subset - 1
        sign = -sign
    return sign


@kernel
def exchange(effect: Effects, owed: Reals, free: Codings, following: Codings, x: Reals) -> None:
    """In place: exchange dependent cells that are small in x with larger free ones, by pivots of 1 or -1."""
    weights = np.zeros(len(free))
    for i in range(len(effect)):
        for j in range(len(free)):
            weights[j] += abs(effect[i, j])
    for i in np.argsort(x[following]):
        if x[following[i]] > SMALL:
            break
        chosen, best = -1, 0.0
        for j in range(len(free)):
            if abs(effect[i, j]) == 1.0 and x[free[j]] > 2 * x[following[i]]:
                score = min(x[free[j]], 2 * SMALL) / weights[j]
                if score > best:
                    chosen, best = j, score
        if chosen >= 0:
            _pivot(effect, owed, weights, i, chosen)
            free[chosen], following[i] = following[i], free[chosen]


@inlined
def _pivot(effect: Effects, owed: Reals, weights: Reals, i: int, j: int) -> None:
    """following = owed - effect @ free, solved for free j instead of following i, where effect[i, j] is 1 or -1."""
    one = effect[i, j]
    for c in range(effect.shape[1]):
        effect[i, c] *= one
    owed[i] *= one
    columns = np.flatnonzero(effect[i])
    for k in range(len(owed)):
        share = effect[k, j]
        if k != i and share != 0.0:
            row = effect[k]
            for other in columns:
                before = row[other]
                row[other] = before - share * effect[i, other]
                weights[other] += abs(row[other]) - abs(before)
            weights[j] += abs(share)
            row[j] = -share * one
            owed[k] -= share * owed[i]
    effect[i, j] = one


@kernel
def rounded(x: Reals, effect: Effects, following: Reals, owed: Reals, steps: int) -> tuple[Codings, Codings]:
    """Integers next to (n,) x, and the (rows,) dependent counts: owed less effect @ integers."""
    rows = _rows(effect)
    columns = _turned(rows, len(x))
    counts = _rounded_one_by_one(x, columns, following)
    left = owed.astype(np.int64)
    for j in range(len(counts)):
        _take(left, columns, j, counts[j])
    gains = np.zeros((2, len(counts)), np.int64)
    weights = np.ones(len(left), np.int64)
    for i in range(len(left)):
        _note(gains, rows, i, left[i], weights[i])
    waiting = np.zeros(len(x), np.int64)
    for step in range(1, steps + 1):
        if left.min() >= 0:
            break
        j, change = _best_move(counts, gains, waiting, step)
        if j >= 0:
            for e in range(columns[0][j], columns[0][j + 1]):
                i = int(np.int64(columns[1][e]))
                _note(gains, rows, i, left[i], -weights[i])
                left[i] -= change * np.int64(columns[2][e])
                _note(gains, rows, i, left[i], weights[i])
            counts[j] += change
            waiting[j] = step + 4  # not back at once, or two cells would alternate
            continue
        # no move helps: negative rows get more weight, which leaves a local minimum
        for i in range(len(left)):
            if left[i] < 0:
                weights[i] += 1
                _note(gains, rows, i, left[i], 1)
    return counts, left


@inlined
def _rows(effect: Effects) -> Entries:
    """The positions and values of the non-zero entries of each row, and where they begin."""
    start = np.zeros(len(effect) + 1, np.int64)
    for i in range(len(effect)):
        start[i + 1] = start[i] + np.count_nonzero(effect[i])
    of, values = np.empty(start[-1], np.int32), np.empty(start[-1], np.int32)
    for i in range(len(effect)):
        at = start[i]
        for j in range(effect.shape[1]):
            if effect[i, j] != 0.0:
                of[at], values[at] = j, np.int32(effect[i, j])
                at += 1
    return start, of, values


@inlined
def _turned(rows: Entries, columns: int) -> Entries:
    start = np.zeros(columns + 1, np.int64)
    for j in rows[1]:
        start[j + 1] += 1
    start = np.cumsum(start)
    at, of, values = start[:-1].copy(), np.empty(len(rows[1]), np.int32), np.empty(len(rows[1]), np.int32)
    for i in range(len(rows[0]) - 1):
        for e in range(rows[0][i], rows[0][i + 1]):
            place = at[rows[1][e]]
            of[place], values[place] = i, rows[2][e]
            at[rows[1][e]] += 1
    return start, of, values


@inner
def _take(left: Codings, columns: Entries, j: int, change: int) -> None:
    for e in range(columns[0][j], columns[0][j + 1]):
        left[columns[1][e]] -= change * np.int64(columns[2][e])


@inlined
def _rounded_one_by_one(x: Reals, columns: Entries, following: Reals) -> Codings:
    """Round down or up, whichever leaves the smaller squared error of the dependent cells, relative to their size."""
    counts = np.empty(len(x), np.int64)
    error = np.zeros(len(following))
    weights = 1.0 / np.maximum(following, 0.3)
    for j in range(len(x)):
        down = x[j] - np.floor(x[j])
        along, own = 0.0, 0.0
        for e in range(columns[0][j], columns[0][j + 1]):
            i, value = columns[1][e], float(columns[2][e])
            along += value * error[i] * weights[i]
            own += value * value * weights[i]
        up = 2 * along + (2 * down - 1) * own > 0
        change = down - 1.0 if up else down
        counts[j] = np.int64(np.floor(x[j])) + (1 if up else 0)
        for e in range(columns[0][j], columns[0][j + 1]):
            error[columns[1][e]] += change * columns[2][e]
    return counts


@inner
def _note(gains: Codings, rows: Entries, i: int, left: int, weight: int) -> None:
    """Add the gain of one fewer (0) or one more (1) in each cell for a row's weighted negative part."""
    now = min(0, left)
    for e in range(rows[0][i], rows[0][i + 1]):
        j, value = rows[1][e], int(rows[2][e])
        gains[0, j] += weight * (min(0, left + value) - now)
        gains[1, j] += weight * (min(0, left - value) - now)


@inner
def _best_move(counts: Codings, gains: Codings, waiting: Codings, step: int) -> tuple[int, int]:
    """The cell and the change by one that lower the weighted negative part most; cell -1 if none does."""
    best, chosen, change = 0, -1, 0
    for j in range(len(counts)):
        if waiting[j] > step:
            continue
        if counts[j] > 0 and gains[0, j] > best:
            best, chosen, change = gains[0, j], j, -1
        if gains[1, j] > best:
            best, chosen, change = gains[1, j], j, 1
    return chosen, change
