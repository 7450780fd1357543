"""The width sweep in compiled code: depth first over a sub-lattice, one refinement or coarsening a step.

A step decides on one variable, the last of the prefix that is still open. At a node T holds the
variables taken so far, and a row stands for the cells that agree on T and on the open prefix, so
that a row is a cell of that marginal and there are ever fewer of them. Rows are sorted by (group of
T, prefix). Leaving the variable out merges neighbours; taking it is one stable pass by its category.

The width of a cell under MPR(T) is min(n_T, M, D, M + D - n_T) with M the smallest one-way count
outside T and D the sum of N - n_v outside T ([KDSF] eq. 10 with the bounds of [DKS] theorem 1). The
smallest width over the at-risk cells of a row needs only their smallest M, D and M + D, and
these can be updated row by row as variables leave: so rows are merged, not cells.

Kernels that call each other stay in this one module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAR = np.int64(1 << 60)  # above any count, and one bit: `D & FAR` tells that a row has no at-risk cell


@njit(cache=True)
def _leave(j, rows, start, up, cost, total, group, node, count, least, spare, both):  # type: ignore[no-untyped-def]
    """Level j to level j - 1 without its variable: merge the rows that differed in it only."""
    v, offset = j - 1, start[j]
    k = -1
    group_before, node_before = np.int32(-1), np.int32(-1)
    n = np.int64(0)
    m = d = b = FAR
    for i in range(rows):
        at = offset + node[j, i]
        c, parent, own = cost[at], up[at], group[j, i]
        d_i = spare[j, i]
        m_i = min(least[j, i], c | (d_i & FAR))
        b_i = min(both[j, i] + (total - c), d_i + total)
        d_i += total - c
        if own != group_before or parent != node_before:
            k += 1
            group[v, k] = group_before = own
            node[v, k] = node_before = parent
            n, m, d, b = count[j, i], m_i, d_i, b_i
        else:
            n += count[j, i]
            m, d, b = min(m, m_i), min(d, d_i), min(b, b_i)
        count[v, k], least[v, k], spare[v, k], both[v, k] = n, m, d, b
    return k + 1


@njit(cache=True)
def _take(j, rows, start, up, code, group, node, count, least, spare, both, place, last):  # type: ignore[no-untyped-def]
    """Level j to level j - 1 with its variable taken: a stable pass by category."""
    v, offset = j - 1, start[j]
    place[:] = 0
    last[:] = -1
    for i in range(rows):
        place[code[offset + node[j, i]] + 1] += 1
    for c in range(len(last)):
        place[c + 1] += place[c]
    for i in range(rows):
        at = offset + node[j, i]
        c = code[at]
        k = place[c]
        place[c] = k + 1
        own = group[j, i]
        if last[c] != own:
            last[c] = own
            group[v, k] = k
        else:
            group[v, k] = group[v, k - 1]
        node[v, k] = up[at]
        count[v, k], least[v, k], spare[v, k], both[v, k] = count[j, i], least[j, i], spare[j, i], both[j, i]
    return rows


@njit(cache=True)
def _reaches(floor, j, rows, start, up, code, trie_least, trie_spare, group, node, count, least, spare, both, sums):  # type: ignore[no-untyped-def]
    """Whether the critical width of T with the variable of level j reaches the floor; stops at the first no."""
    offset, above, categories = start[j], start[j - 1], sums.shape[1]
    i = 0
    while i < rows:
        own = group[j, i]
        sums[0, :] = 0
        sums[1:, :] = FAR
        while i < rows and group[j, i] == own:
            at = offset + node[j, i]
            c, parent = code[at], above + up[at]
            d_i = spare[j, i] + trie_spare[parent]
            sums[0, c] += count[j, i]
            if d_i < FAR:
                low = trie_least[parent]
                sums[1, c] = min(sums[1, c], least[j, i], low)
                sums[2, c] = min(sums[2, c], d_i)
                sums[3, c] = min(sums[3, c], both[j, i] + trie_spare[parent], low + d_i)
            i += 1
        for c in range(categories):
            if sums[2, c] < FAR and min(sums[0, c], sums[1, c], sums[2, c], sums[3, c] - sums[0, c]) < floor:
                return False
    return True


@njit(cache=True)
def _last_pair(rows, start, cost, total, group, node, count, least, spare, both):  # type: ignore[no-untyped-def]
    """Critical widths of T and of T with variable 0, from the rows of level 1."""
    offset, without, with_it = start[1], FAR, FAR
    before = np.int32(-1)
    n = np.int64(0)
    m = d = b = FAR
    for i in range(rows):
        c, own = cost[offset + node[1, i]], group[1, i]
        n_i, m_i, d_i, b_i = count[1, i], least[1, i], spare[1, i], both[1, i]
        with_it = min(with_it, n_i | (d_i & FAR), m_i, d_i, b_i - n_i)
        m_i = min(m_i, c | (d_i & FAR))
        b_i = min(b_i + (total - c), d_i + total)
        d_i += total - c
        if own != before:
            without = min(without, n | (d & FAR), m, d, b - n)
            before = own
            n, m, d, b = n_i, m_i, d_i, b_i
        else:
            n += n_i
            m, d, b = min(m, m_i), min(d, d_i), min(b, b_i)
    return min(without, n | (d & FAR), m, d, b - n), with_it


@njit(cache=True)
def sweep(variables, depth, taken, floor, start, up, code, cost, trie_least, trie_spare, counts, small, total, cats):  # type: ignore[no-untyped-def]
    """All sub-tables of one sub-lattice whose critical width reaches the floor.

    The sub-lattice: of the last `depth` variables (in the trie's order) exactly those of the bit set
    `taken` are kept. Returns (sub_tables uint64, widths int64, number of sub-tables visited).
    """
    cells = len(counts)
    shape = (variables + 1, cells)
    group, node = np.empty(shape, np.int32), np.empty(shape, np.int32)
    count, least = np.empty(shape, np.int64), np.empty(shape, np.int64)
    spare, both = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for i in range(cells):
        group[variables, i], node[variables, i] = 0, i
        count[variables, i] = counts[i]
        least[variables, i], both[variables, i] = FAR, FAR
        spare[variables, i] = 0 if counts[i] <= small else FAR
    rows = np.zeros(variables + 1, np.int64)
    rows[variables] = cells
    phase = np.zeros(variables + 1, np.int8)
    kept = np.zeros(variables + 1, np.uint64)
    place, last = np.empty(cats + 1, np.int64), np.empty(cats, np.int32)
    sums = np.empty((4, cats), np.int64)
    found, widths, size, visited = np.empty(64, np.uint64), np.empty(64, np.int64), 0, 0
    j = variables
    while j <= variables:
        v = j - 1
        if j == 1:
            if size + 2 > len(found):
                found, widths = np.append(found, np.empty_like(found)), np.append(widths, np.empty_like(widths))
            pair = _last_pair(rows[1], start, cost, total, group, node, count, least, spare, both)
            visited += 1 + (kept[1] == 0)
            for with_it in range(2):
                if pair[with_it] >= floor:
                    found[size], widths[size] = kept[1] | np.uint64(with_it), pair[with_it]
                    size += 1
            j = 2
            continue
        if phase[j] == 0:
            fixed = j > variables - depth
            if not (fixed and taken >> np.uint64(v) & np.uint64(1)):
                rows[v] = _leave(j, rows[j], start, up, cost, total, group, node, count, least, spare, both)
                kept[v], phase[v] = kept[j], 0
                phase[j] = 2 if fixed else 1
                j = v
                continue
            phase[j] = 1
        if phase[j] == 1:
            phase[j] = 2
            # a sub-table decided on the way to several sub-lattices is counted in the first of them
            if not (j > variables - depth and taken & ((np.uint64(1) << np.uint64(v)) - np.uint64(1))):
                visited += 1
            if floor <= 0 or _reaches(
                floor, j, rows[j], start, up, code, trie_least, trie_spare, group, node, count, least, spare, both, sums
            ):
                rows[v] = _take(j, rows[j], start, up, code, group, node, count, least, spare, both, place, last)
                kept[v], phase[v] = kept[j] | (np.uint64(1) << np.uint64(v)), 0
                j = v
            continue
        j += 1
    return found[:size], widths[:size], visited
