"""A table as a trie of prefixes: what the width sweep refines and coarsens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sdc.model.table import Counts, Table


@dataclass(frozen=True, eq=False)
class PrefixTrie:
    """Distinct prefixes of the non-zero cells, for each number j of leading variables.

    order   the variables, fewest categories first, so that the deepest levels, visited most, are small
    start   (K + 2,) where level j begins in the node arrays; level K holds the cells themselves
    up      parent of each node, within level j - 1
    code    category of variable order[j - 1]
    cost    one-way count of that category
    least   smallest one-way count among the prefix's j variables
    spare   sum over them of N - one-way count
    counts  (cells,) counts in the order of level K
    """

    order: tuple[int, ...]
    start: npt.NDArray[np.int64]
    up: npt.NDArray[np.int32]
    code: npt.NDArray[np.uint16]
    cost: Counts
    least: Counts
    spare: Counts
    counts: Counts
    total: int


@lru_cache(maxsize=2)
def prefix_trie(table: Table) -> PrefixTrie:
    """The trie of a table; kept for the units of the same process that follow."""
    order = tuple(sorted(range(len(table.schema)), key=lambda v: (table.schema.sizes[v], v)))
    sort = np.lexsort([table.codes[:, v] for v in reversed(order)])
    codes, counts = table.codes[sort][:, order], table.counts[sort]
    one_way = table.one_way()
    far = np.iinfo(np.int64).max
    levels = [_root(far)]
    differs, node = np.zeros(len(codes), bool), np.zeros(len(codes), np.int32)
    differs[0] = True
    for level, v in enumerate(order):
        differs[1:] |= codes[1:, level] != codes[:-1, level]
        first = np.flatnonzero(differs)
        up, cost = node[first], one_way[v][codes[first, level]]
        least = np.minimum(levels[-1][3][up], cost)
        spare = levels[-1][4][up] + table.total - cost
        levels.append((up, codes[first, level], cost, least, spare))
        node = np.cumsum(differs, dtype=np.int32) - 1
    start = np.cumsum([0, *(len(level[0]) for level in levels)])
    up, code, cost, least, spare = (np.concatenate(arrays) for arrays in zip(*levels, strict=True))
    return PrefixTrie(order, start, up, code, cost, least, spare, counts, table.total)


def _root(far: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16], Counts, Counts, Counts]:
    zero = np.zeros(1, np.int64)
    return np.zeros(1, np.int32), np.zeros(1, np.uint16), zero, np.full(1, far), zero
