"""Kernels of the count of feasible tables: ways to place records on cells, modulo a number up to 2^62."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.compiled import kernel
from sdc.model.table import Counts


@kernel
def add_line(
    states: npt.NDArray[np.int64],
    steps: Counts,
    shifts: Counts,
    allowed: npt.NDArray[np.bool_],
    total: int,
    modulus: int,
) -> None:
    """Place the total of a line of cells on its cells, one record after another, in place.

    states   (cells of the line, m, n) each the ways so far by partial sums; then j has all ways to use cells 0 to j
    steps, shifts  (cells,) by how much a record in the cell raises the first index and the second; shifts are 0 or 1
    allowed  (cells, m) whether the partial sums of the first index can have a record of the cell
    """
    # s records on the cells 0 to j: none in j, or one in j and s - 1 on all of them. Descending, so that what is read
    # at a lower index is still of s - 1
    cells, size, width = states.shape
    for _ in range(total):
        for j in range(cells):
            step, shift = steps[j], shifts[j]
            for i in range(size - 1, -1, -1):
                first = shift if allowed[j, i] else width
                if j:
                    for k in range(width - 1, first - 1, -1):
                        value = states[j - 1, i, k] + states[j, i - step, k - shift]
                        states[j, i, k] = value - modulus if value >= modulus else value
                    for k in range(first):
                        states[j, i, k] = states[j - 1, i, k]
                else:
                    for k in range(width - 1, first - 1, -1):
                        states[j, i, k] = states[j, i - step, k - shift]
                    for k in range(first):
                        states[j, i, k] = 0


@kernel
def add_cell(
    states: npt.NDArray[np.int64], step: int, shift: int, allowed: npt.NDArray[np.bool_], modulus: int
) -> None:
    """Place any number of records on one cell, in place; the arguments are those of one cell of `add_line`."""
    for i in range(len(states)):
        for k in range(shift if allowed[i] else states.shape[1], states.shape[1]):
            value = states[i, k] + states[i - step, k - shift]
            states[i, k] = value - modulus if value >= modulus else value
