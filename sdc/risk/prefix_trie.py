"""Rows as a trie of prefixes: what the width sweep refines and coarsens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model.table import Counts
from sdc.risk.rows import Rows


@dataclass(frozen=True, eq=False)
class PrefixTrie:
    """Distinct prefixes of the rows, for each number j of leading variables.

    rows     the rows, which are level K
    start    (K + 2,) where level j begins in the node arrays
    up       parent of each node, within level j - 1
    code     category of the last variable of the prefix
    cost     one-way count of that category
    gap      N less that; of an axis with a variable before it that count instead of N
    """

    rows: Rows
    start: npt.NDArray[np.int64]
    up: npt.NDArray[np.int32]
    code: npt.NDArray[np.uint16]
    cost: Counts
    gap: Counts


def prefix_trie(rows: Rows) -> PrefixTrie:
    """The trie of rows that are ascending by their codes, each once."""
    up, code, cost = [np.zeros(1, np.int32)], [np.zeros(1, np.uint16)], [np.zeros(1, np.int64)]
    gap = [np.zeros(1, np.int64)]
    # rows are ascending, so that those of one prefix are neighbours: a prefix begins where a code of it differs
    differs, node = np.zeros(len(rows), bool), np.zeros(len(rows), np.int32)
    differs[0] = True
    for codes, counts, before in zip(rows.columns, rows.one_way, rows.before, strict=True):
        differs[1:] |= codes[1:] != codes[:-1]
        first = np.flatnonzero(differs)
        up.append(node[first])
        code.append(codes[first])
        cost.append(counts[codes[first]])
        # of the same axis, and in the prefix
        whole = rows.total if before < 0 else rows.one_way[before][rows.columns[before][first]]
        gap.append(whole - cost[-1])
        # once different, two neighbours stay so in all longer prefixes: `differs` only gains
        node = np.cumsum(differs, dtype=np.int32) - 1
    start = np.cumsum([0, *map(len, up)])
    return PrefixTrie(rows, start, np.concatenate(up), np.concatenate(code), np.concatenate(cost), np.concatenate(gap))
