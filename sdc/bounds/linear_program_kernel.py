"""The linear program's compiled arithmetic: sums over the cube, and common cells of rows.

Kernels that call each other stay in this module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel

Reals: TypeAlias = npt.NDArray[np.float64]
Codings: TypeAlias = npt.NDArray[np.int64]


@kernel
def transformed(dense: npt.NDArray[Any], sizes: Codings, summing: bool) -> npt.NDArray[Any]:
    """(cells,) each the sum over the cells that have its non-zero levels; not summing: the transpose.

    The last variables have short steps, so the array is transposed for them: then every inner loop is long.
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
def unions(levels: Codings, strides: Codings, cells: int) -> npt.NDArray[np.int32]:
    """(rows, rows) for each ordered pair the anchor of the cells in both; `cells` if there are none."""
    rows = len(levels)
    union = np.full((rows, rows), cells, np.int32)
    for r in range(rows):
        for s in range(r, rows):
            both = 0
            for v in range(len(strides)):
                one, other = levels[r, v], levels[s, v]
                if one > 0 and other > 0 and one != other:
                    both = cells
                    break
                both += max(one, other) * strides[v]
            union[r, s] = both
    return union


@kernel
def normal(sums: Reals, union: npt.NDArray[np.int32]) -> Reals:
    """(rows, rows) the sums at each pair's union, in the upper half, from (cells + 1,) sums of which the last is 0."""
    rows = len(union)
    matrix = np.empty((rows, rows))
    for r in range(rows):
        for s in range(r, rows):
            matrix[r, s] = sums[union[r, s]]
    return matrix


@kernel
def room(value: Reals, change: Reals, allowed: npt.NDArray[np.bool_]) -> float:
    """The largest multiple of the (cells,) change that keeps every allowed value from falling below 0."""
    room = np.inf
    for j in range(len(value)):
        if allowed[j] and change[j] < 0.0 and value[j] < -room * change[j]:
            room = -value[j] / change[j]
    return room
