"""The linear program's arithmetic, compiled: sums over the cube, dense factors of few rows, and rounding in integers.

Kernels that call each other stay in this one module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel

SMALL = 10.0  # records; what follows and is larger is hardly made negative by rounding the others

Reals: TypeAlias = npt.NDArray[np.float64]
Codings: TypeAlias = npt.NDArray[np.int64]


@kernel
def transformed(dense: npt.NDArray[Any], sizes: Codings, summing: bool) -> npt.NDArray[Any]:
    """(cells,) each the sum over the cells that have its levels where they are not 0; not summing: the transpose.

    The last variables' steps are short, so they are treated with the array turned: then every inner loop is long.
    """
    split, last = len(sizes), 1
    while split > 0 and last * last < len(dense):
        split -= 1
        last *= sizes[split]
    first = len(dense) // last
    turned = np.ascontiguousarray(dense.reshape(first, last).T).reshape(-1)
    _transform(turned, sizes[split:], first, summing)
    back = np.ascontiguousarray(turned.reshape(last, first).T).reshape(-1)
    _transform(back, sizes[:split], last, summing)
    return back


@inner
def _transform(dense: npt.NDArray[Any], sizes: Codings, step: int, summing: bool) -> None:
    """In place, along variables of which the last has the given step (Yates)."""
    for v in range(len(sizes) - 1, -1, -1):
        span = step * sizes[v]
        for start in range(0, len(dense), span):
            for at in range(start + step, start + span, step):
                base, other = dense[start : start + step], dense[at : at + step]
                if summing:
                    for i in range(step):
                        base[i] += other[i]
                else:
                    for i in range(step):
                        other[i] += base[i]
        step = span


@kernel
def incidence(codes: Codings, levels: Codings) -> Reals:
    """(n, rows) 1 where a cell lies in a row: it has the row's levels where these are not 0."""
    within = np.ones((len(codes), len(levels)))
    for j in range(len(codes)):
        for r in range(len(levels)):
            for v in range(levels.shape[1]):
                if levels[r, v] > 0 and levels[r, v] != codes[j, v]:
                    within[j, r] = 0.0
                    break
    return within


@kernel
def factorise(matrix: Reals) -> None:
    """In place: the upper Cholesky factor of a (rows, rows) matrix; a pivot that is not positive is made infinite."""
    # LAPACK's gives up at a dependent row; with an infinite pivot its multiplier is 0, and the others are as without it
    rows = len(matrix)
    for j in range(rows):
        least = 1e-13 * matrix[j, j]
        for k in range(j):
            share = matrix[k, j]
            if share != 0.0:
                for i in range(j, rows):
                    matrix[j, i] -= share * matrix[k, i]
        pivot = 1.0 / np.sqrt(matrix[j, j]) if matrix[j, j] > least else 0.0
        for i in range(j, rows):
            matrix[j, i] *= pivot
        if pivot == 0.0:
            matrix[j, j] = np.inf


@kernel
def solved(factor: Reals, right: Reals) -> Reals:
    """(rows,) the solution of factor' factor x = right, with the factor as `factorise` leaves it."""
    rows = len(factor)
    x = right.astype(np.float64)
    for k in range(rows):
        x[k] /= factor[k, k]
        for i in range(k + 1, rows):
            x[i] -= factor[k, i] * x[k]
    for k in range(rows - 1, -1, -1):
        for i in range(k + 1, rows):
            x[k] -= factor[k, i] * x[i]
        x[k] /= factor[k, k]
    return x


@kernel
def room(value: Reals, change: Reals, allowed: npt.NDArray[np.bool_]) -> float:
    """The largest multiple of the (cells,) change that keeps every allowed value from falling below 0."""
    room = np.inf
    for j in range(len(value)):
        if allowed[j] and change[j] < 0.0 and value[j] < -room * change[j]:
            room = -value[j] / change[j]
    return room


@kernel
def exchange(effect: Reals, owed: Reals, free: Codings, following: Codings, x: Reals) -> None:
    """In place: cells that follow and are small in x change places with larger free ones, by pivots of 1 or -1."""
    for i in np.argsort(x[following]):
        if x[following[i]] > SMALL:
            break
        chosen, best = -1, 0.0
        for j in range(len(free)):
            if abs(effect[i, j]) == 1.0 and x[free[j]] > 2 * x[following[i]]:
                score = min(x[free[j]], 2 * SMALL) / np.abs(effect[:, j]).sum()
                if score > best:
                    chosen, best = j, score
        if chosen >= 0:
            _pivot(effect, owed, i, chosen)
            free[chosen], following[i] = following[i], free[chosen]


@inner
def _pivot(effect: Reals, owed: Reals, i: int, j: int) -> None:
    """following = owed - effect @ free, solved for free j instead of following i, where effect[i, j] is 1 or -1."""
    one = effect[i, j]
    effect[i] *= one
    owed[i] *= one
    for k in range(len(owed)):
        share = effect[k, j]
        if k != i and share != 0.0:
            effect[k] -= share * effect[i]
            effect[k, j] = -share * one
            owed[k] -= share * owed[i]
    effect[i, j] = one


@kernel
def rounded(x: Reals, effect: Reals, following: Reals, owed: Reals, steps: int) -> tuple[Codings, Codings]:
    """Integers next to (n,) x, and the (rows,) counts that follow: owed less effect @ integers."""
    counts = _rounded_one_by_one(x, effect, following)
    left = owed.astype(np.int64)
    for i in range(len(left)):
        for j in range(len(counts)):
            left[i] -= counts[j] * np.int64(effect[i, j])
    weights = np.ones(len(left))
    waiting = np.zeros(len(x), np.int64)
    for step in range(1, steps + 1):
        if left.min() >= 0:
            break
        j, change = _best_move(counts, effect, left, weights, waiting, step)
        if j < 0:
            # nothing helps: what is negative weighs more from now on, which leads out of a local minimum
            for i in range(len(left)):
                if left[i] < 0:
                    weights[i] += 1.0
            continue
        counts[j] += change
        waiting[j] = step + 4  # not back at once, or two cells would take turns
        for i in range(len(left)):
            left[i] -= change * np.int64(effect[i, j])
    return counts, left


@inner
def _rounded_one_by_one(x: Reals, effect: Reals, following: Reals) -> Codings:
    """Down or up, whichever leaves the smaller squared error in what follows, by its size."""
    counts = np.empty(len(x), np.int64)
    error = np.zeros(len(following))
    weights = 1.0 / np.maximum(following, 0.3)
    for j in range(len(x)):
        down = x[j] - np.floor(x[j])
        along, own = 0.0, 0.0
        for i in range(len(error)):
            along += effect[i, j] * error[i] * weights[i]
            own += effect[i, j] * effect[i, j] * weights[i]
        up = 2 * along + (2 * down - 1) * own > 0
        change = down - 1.0 if up else down
        counts[j] = np.int64(np.floor(x[j])) + (1 if up else 0)
        for i in range(len(error)):
            error[i] += change * effect[i, j]
    return counts


@inner
def _best_move(
    counts: Codings, effect: Reals, left: Codings, weights: Reals, waiting: Codings, step: int
) -> tuple[int, int]:
    """The cell and the change by one that lower the weighted negative part most; cell -1 where none does."""
    fewer, more = np.zeros(len(counts)), np.zeros(len(counts))
    for i in range(len(left)):
        now = min(0.0, left[i]) * weights[i]
        for j in range(len(counts)):
            fewer[j] += min(0.0, left[i] + effect[i, j]) * weights[i] - now
            more[j] += min(0.0, left[i] - effect[i, j]) * weights[i] - now
    best, chosen, change = 1e-9, -1, 0
    for j in range(len(counts)):
        if waiting[j] > step:
            continue
        if counts[j] > 0 and fewer[j] > best:
            best, chosen, change = fewer[j], j, -1
        if more[j] > best:
            best, chosen, change = more[j], j, 1
    return chosen, change
