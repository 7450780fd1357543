"""Compiled marginals of small sub-tables: sums over the cells of a table, and look-ups at others."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Columns: TypeAlias = npt.NDArray[np.uint16]


@kernel
def add_counts(sums: Ints, columns: Columns, counts: Ints, chosen: Ints, sizes: Ints) -> None:
    """Add the (n,) counts of cells with (variables, n) columns to the (prod of the chosen sizes,) sums.

    Sums are at most the table's total, 2^53.
    """
    # keys first, sums after: the first loop vectorises, which a scatter in it would prevent
    keys = _keys(columns, chosen, sizes)
    for i in range(len(keys)):
        sums[keys[i]] += counts[i]


@kernel
def sums_at(sums: Ints, columns: Columns, chosen: Ints, sizes: Ints) -> Ints:
    """(n,) the sums at cells with (variables, n) columns."""
    keys = _keys(columns, chosen, sizes)
    found = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        found[i] = sums[keys[i]]
    return found


@inner
def _keys(columns: Columns, chosen: Ints, sizes: Ints) -> npt.NDArray[np.int32]:
    # 32 bits: a register holds twice as many; densely summed sub-tables have far fewer cells
    keys = np.zeros(columns.shape[1], np.int32)
    for v in chosen:
        column, size = columns[v], np.int32(sizes[v])
        for i in range(len(keys)):
            keys[i] = keys[i] * size + column[i]
    return keys
