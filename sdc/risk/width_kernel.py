"""The width sweep in compiled code: all sub-tables of a sub-lattice, or only those that reach a floor.

The width of a cell under MPR(T) is min(n_T, M, D, M + D - n_T) with M the smallest one-way count
outside T and D the sum of N - n_v outside T ([KDSF] eq. 10 with the bounds of [DKS] theorem 1). Of an axis of which
T has a level n of that takes the place of N, for the axis' one-way sub-table is in MPR(T) with all its levels. The
smallest width over the at-risk cells of a row needs only their smallest M, D and M + D, and
these can be updated row by row as variables leave: so rows are merged, not cells.

`sweep` visits every sub-table, depth first on a trie, one refinement or coarsening a step. A step decides
on one variable, the last of the prefix that is still open. At a node T holds the variables taken so far, and a
row stands for the cells that agree on T and on the open prefix, so that a row is a cell of that
marginal and there are ever fewer of them. Rows are sorted by (group of T, prefix). Leaving the
variable out merges neighbours; taking it is one stable pass by its category.

`walk` visits the sub-tables that reach a floor, and their border. There groups are few and a sub-table
that fails mostly fails in a small one: rows lie group by group, smallest first, and are not merged. M is
smallest over all at-risk rows at once; where lower limits of D and of M + D - n_T show that these
do not bind, n_T and M are the width, else it is summed up row by row.

Kernels that call each other stay in this one module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

import numpy as np

from sdc.compiled import inner, kernel

FAR = np.int64(1 << 60)  # above any count, and one bit: `D & FAR` marks a row without an at-risk cell
ONE = np.uint64(1)

# All sub-tables


@inner
def _leave(j, rows, start, up, cost, gap, free, group, node, count, least, spare, both):
    """Level j to level j - 1 without its variable: merge the rows that differed in it only.

    free  whether T has a variable after it of its axis, beside which leaving it changes no number
    """
    v, offset = j - 1, start[j]
    k = -1
    group_before, node_before = np.int32(-1), np.int32(-1)
    n = np.int64(0)
    m = d = b = FAR
    for i in range(rows):
        at = offset + node[j, i]
        c, more, parent, own = cost[at], gap[at], up[at], group[j, i]
        if free:
            c, more = FAR, np.int64(0)
        d_i = spare[j, i]
        # `| (d & FAR)` makes the number far where the row has no at-risk cell: no branch, which would be guessed wrong
        m_i = min(least[j, i], c | (d_i & FAR))
        b_i = min(both[j, i] + more, d_i + (c + more))  # min(M, c) + D + N - c, with the D before
        d_i += more
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


@inner
def _take(j, rows, start, up, code, group, node, count, least, spare, both, place, last):
    """Level j to level j - 1 with its variable taken: a stable pass by category."""
    v, offset = j - 1, start[j]
    # counting sort: rows are sorted by (group, prefix), and being stable keeps them so within each category
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
            group[v, k] = k  # a group's number is its first row
        else:
            group[v, k] = group[v, k - 1]
        node[v, k] = up[at]
        count[v, k], least[v, k], spare[v, k], both[v, k] = count[j, i], least[j, i], spare[j, i], both[j, i]
    return rows


@inner
def _last_pair(rows, start, cost, gap, free, group, node, count, least, spare, both):
    """Critical widths of T and of T with variable 0, from the rows of level 1; see `_leave`."""
    offset, without, with_it = start[1], FAR, FAR
    before = np.int32(-1)
    n = np.int64(0)
    m = d = b = FAR
    for i in range(rows):
        c, more, own = cost[offset + node[1, i]], gap[offset + node[1, i]], group[1, i]
        if free:
            c, more = FAR, np.int64(0)
        n_i, m_i, d_i, b_i = count[1, i], least[1, i], spare[1, i], both[1, i]
        with_it = min(with_it, n_i | (d_i & FAR), m_i, d_i, b_i - n_i)
        m_i = min(m_i, c | (d_i & FAR))
        b_i = min(b_i + more, d_i + (c + more))
        d_i += more
        if own != before:
            without = min(without, n | (d & FAR), m, d, b - n)
            before = own
            n, m, d, b = n_i, m_i, d_i, b_i
        else:
            n += n_i
            m, d, b = min(m, m_i), min(d, d_i), min(b, b_i)
    return min(without, n | (d & FAR), m, d, b - n), with_it


@kernel
def sweep(variables, depth, taken, start, up, cost, gap, code, numbers, finer, cats, most):
    """All sub-tables of one sub-lattice: of the last `depth` variables exactly those of `taken` are kept.

    start, up, cost, gap, code  see `PrefixTrie`; the codes are below `cats`
    numbers, finer              (4, rows) int64 and (variables,) uint64 of `Rows`
    most                        there are no more sub-tables than this

    Returns (sub_tables uint64, widths int64) of sets with one variable of an axis at most. O(rows) a sub-table and a
    level at most, and far less in the mean: rows are merged on the way down. Memory for a copy of the rows a level.
    """
    # a phase a level instead of a function that calls itself, which could not be kept on disk; and each level has its
    # arrays once, not each step
    cells = numbers.shape[1]
    shape = (variables + 1, cells)
    group, node = np.empty(shape, np.int32), np.empty(shape, np.int32)
    count, least = np.empty(shape, np.int64), np.empty(shape, np.int64)
    spare, both = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for i in range(cells):  # an assignment of whole rows takes seconds to compile
        group[variables, i], node[variables, i] = 0, i
        count[variables, i], least[variables, i] = numbers[0, i], numbers[1, i]
        spare[variables, i], both[variables, i] = numbers[2, i], numbers[3, i]
    rows = np.zeros(variables + 1, np.int64)
    rows[variables] = cells
    phase = np.zeros(variables + 1, np.int8)
    kept = np.zeros(variables + 1, np.uint64)
    place, last = np.empty(cats + 1, np.int64), np.empty(cats, np.int32)
    found, widths = np.empty(most + 1, np.uint64), np.empty(most + 1, np.int64)
    size, j = 0, variables
    while j <= variables:
        v = j - 1
        free = (kept[j] & finer[v]) != 0
        if j == 1:
            found[size], found[size + 1] = kept[1], kept[1] | ONE
            widths[size], widths[size + 1] = _last_pair(
                rows[1], start, cost, gap, free, group, node, count, least, spare, both
            )
            size, j = size + (1 if free else 2), 2
        elif phase[j] == 0:
            fixed = j > variables - depth
            if fixed and taken >> np.uint64(v) & ONE:
                phase[j] = 1
                continue
            rows[v] = _leave(j, rows[j], start, up, cost, gap, free, group, node, count, least, spare, both)
            kept[v], phase[v], phase[j] = kept[j], 0, 2 if fixed or free else 1  # one way only of a fixed one
            j = v
        elif phase[j] == 1:
            rows[v] = _take(j, rows[j], start, up, code, group, node, count, least, spare, both, place, last)
            kept[v], phase[v], phase[j] = kept[j] | (ONE << np.uint64(v)), 0, 2
            j = v
        else:
            j += 1
    return found[:size], widths[:size]


# Sub-tables that reach a floor


@inner
def _counts_reach(floor, column, categories, first, stop, row, value):
    """(smallest, largest) n_{T+v} at the at-risk cells, v the column's; (-1, 0) at the first below the floor."""
    count, at_risk = np.empty(categories, np.int64), np.empty(categories, np.int64)
    low, high = FAR, np.int64(0)
    for g in range(len(first)):
        count[:], at_risk[:] = 0, 0
        for i in range(first[g], stop[g]):
            c = column[row[i]]
            count[c] += value[i] >> 1
            at_risk[c] |= value[i] & 1
        for c in range(categories):
            if at_risk[c]:
                if count[c] < floor:  # the width is n_T at most; groups are smallest first, so this comes soon
                    return np.int64(-1), np.int64(0)
                low, high = min(low, count[c]), max(high, count[c])
    return low, high


@inner
def _refine(column, categories, first, stop, row, value, top):
    """The groups of T as those of T with the column's variable, in place: (first, stop), the smallest count first.

    Groups without an at-risk cell have nothing more to say and are left out. Rows from `top` on are overwritten.
    """
    place, size = np.empty(categories + 1, np.int64), 0
    count, at_risk = np.empty(categories, np.int64), np.empty(categories, np.int64)
    firsts, stops, sums = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    for g in range(len(first)):
        a, n = first[g], stop[g] - first[g]
        place[:], count[:], at_risk[:] = 0, 0, 0
        for i in range(n):
            c = column[row[a + i]]
            place[c + 1] += 1
            count[c] += value[a + i] >> 1
            at_risk[c] |= value[a + i] & 1
            row[top + i], value[top + i] = row[a + i], value[a + i]
        if size + categories > len(firsts):
            more = np.empty(max(len(firsts), categories), np.int64)
            firsts, stops, sums = np.append(firsts, more), np.append(stops, more), np.append(sums, more)
        for c in range(categories):
            place[c + 1] += place[c]
            if at_risk[c]:
                firsts[size], stops[size], sums[size] = a + place[c], a + place[c + 1], count[c]
                size += 1
        for i in range(top, top + n):
            c = column[row[i]]
            row[a + place[c]], value[a + place[c]] = row[i], value[i]
            place[c] += 1
    order = np.argsort(sums[:size])  # a sub-table that fails mostly fails in a small group: let it be the first
    return firsts[order], stops[order]


@inner
def _merge(lower, codes, cats, first, stop, row, value, top):
    """Rows of T that agree on the variables `lower` as one, from `top` on: (first, stop, top after them).

    A row is one of those it stands for, and has their codes of what can still be added. Merged where that at
    least halves them, so that what is appended on the way down is no more than all rows.
    """
    space, rows, merged = 1, 0, 0
    for v in range(len(codes)):
        if lower >> np.uint64(v) & ONE and space <= len(row):  # larger merges nothing, and must not wrap
            space *= cats[v]
    for g in range(len(first)):
        rows += stop[g] - first[g]
        merged += min(stop[g] - first[g], space)
    if 2 * merged > rows:
        return first, stop, top
    firsts, stops = np.empty_like(first), np.empty_like(stop)
    sums, one = np.zeros(space, np.int64), np.zeros(space, np.int32)
    for g in range(len(first)):
        firsts[g] = top  # appended: those before stay, for the way back
        for i in range(first[g], stop[g]):
            key = 0
            for v in range(len(codes)):
                if lower >> np.uint64(v) & ONE:
                    key = key * cats[v] + codes[v, row[i]]
            sums[key] = (sums[key] + (value[i] >> 1 << 1)) | (value[i] & 1)
            one[key] = row[i]
        for key in range(space):
            if sums[key]:  # 0 where no row has the key
                row[top], value[top] = one[key], sums[key]
                sums[key] = 0
                top += 1
        stops[g] = top
    return firsts, stops, top


@inner
def _groups(subtable, codes, rows, cats):
    """The groups of a sub-table from all rows: (first, stop, row, value), with room for as many rows again.

    A value is twice the count, and 1 more where a cell of the row is at risk.
    """
    cells = codes.shape[1]
    row, value = np.empty(2 * cells, np.int32), np.empty(2 * cells, np.int64)
    for i in range(cells):
        row[i], value[i] = i, 2 * rows[0, i] + (rows[2, i] < FAR)
    first, stop = np.zeros(1, np.int64), np.full(1, cells)
    for v in range(len(codes)):
        if subtable >> np.uint64(v) & ONE:
            first, stop = _refine(codes[v], cats[v], first, stop, row, value, cells)
    return first, stop, row, value


@inner
def _is_left_out(subtable, u, finer):
    """Whether T has neither the variable nor one after it of its axis."""
    return not (subtable >> np.uint64(u) & ONE or subtable & finer[u])


@inner
def _width_by_rows(subtable, codes, rows, ways, cats, before, finer, total):
    """The critical width, row by row."""
    first, stop, row, _ = _groups(subtable, codes, rows, cats)
    width = FAR
    for g in range(len(first)):
        n, m, d, b = np.int64(0), FAR, FAR, FAR
        for r in row[first[g] : stop[g]]:
            n += rows[0, r]
            if rows[2, r] < FAR:
                low, far = FAR, np.int64(0)
                for u in range(len(codes)):
                    if _is_left_out(subtable, u, finer):
                        whole, own = total, ways[u, codes[u, r]]
                        if before[u] >= 0:
                            whole = ways[before[u], codes[before[u], r]]
                        low, far = min(low, own), far + whole - own
                m, d = min(m, rows[1, r], low), min(d, rows[2, r] + far)
                b = min(b, rows[3, r] + far, low + rows[2, r] + far)
        width = min(width, n | (d & FAR), m, d, b - n)
    return width


@inner
def _width(
    column, size, subtable, floor, first, stop, row, value,
    codes, rows, ways, cats, before, finer, lowest, nearest, total,
):  # fmt: skip
    """The critical width of a sub-table where it reaches the floor, else -1.

    The groups are those of the sub-table without the column's variable. `lowest` and `nearest` are the
    smallest one-way count and N - one-way count at the at-risk rows, of each variable, and last
    what the rows have of these already.
    """
    m, d = lowest[-1], nearest[-1]
    for u in range(len(codes)):
        if _is_left_out(subtable, u, finer):
            m, d = min(m, lowest[u]), d + nearest[u]
    if m < floor:
        return np.int64(-1)
    low, high = _counts_reach(floor, column, size, first, stop, row, value)
    width = min(low, m)
    # D is at least d at every at-risk row, and M + D - n_T at least m + d - high: where neither is below, neither binds
    if low >= 0 and (d < width or m + d - high < width):
        width = _width_by_rows(subtable, codes, rows, ways, cats, before, finer, total)
    return width if width >= floor else np.int64(-1)


@kernel
def walk(
    start, candidates, pairs, within, most, enough, floor,
    codes, rows, ways, cats, before, finer, lowest, nearest, total,
):  # fmt: skip
    """The sub-tables above `start` with some of the candidates that reach the floor, depth first.

    T gets only variables below the lowest that was added, and of these only those with which T without that lowest
    reaches the floor. So all that is visited and does not reach it is on the border: it does with a variable less.

    start, candidates  bit sets; the first may be the grand total
    pairs              (variables,) of each the others that it may be kept with, none of its axis
    within             bit sets, ascending: no others are visited; any where there is none
    most               candidates that are added at most
    enough             sub-tables with which the walk ends, whatever is left
    codes, rows        `columns` and `numbers` of `Rows`
    ways, cats         (variables, categories) one-way counts, and how many categories each variable has
    before, finer      of each the one before it of its axis, and a bit set of those after it, see `Rows`
    lowest, nearest    see `_width`

    Returns (sub_tables uint64, widths int64, number of sub-tables visited), `start` first.
    """
    # One loop, longer than a function should be: its stack of groups (`firsts`, `stops`, `begin`, `top`) grows and is
    # cut on the way, so that a part of it in a function of its own would take and return nearly all of it.
    variables, cells = codes.shape
    known = codes, rows, ways, cats, before, finer, lowest, nearest, total
    first, stop, row, value = _groups(start, codes, rows, cats)
    found, widths, size, visited = np.empty(64, np.uint64), np.empty(64, np.int64), 1, 1
    nothing = np.zeros(cells, np.uint16)
    found[0], widths[0] = start, _width(nothing, 1, start, floor, first, stop, row, value, *known)
    if widths[0] < 0:
        return found[:0], widths[:0], visited
    first, stop, end = _merge(candidates, codes, cats, first, stop, row, value, cells)
    firsts, stops, begin = first, stop, np.zeros(variables + 2, np.int64)
    top = np.full(variables + 1, end)
    kept, reached, waiting = np.zeros((3, variables + 1), np.uint64)
    kept[0], begin[1], opened, depth = start, len(first), candidates, 0
    while depth >= 0:
        first, stop = firsts[begin[depth] : begin[depth + 1]], stops[begin[depth] : begin[depth + 1]]
        for v in range(variables):
            added = kept[depth] | ONE << np.uint64(v)
            if opened >> np.uint64(v) & ONE and (not len(within) or _is_among(added, within)):
                visited += 1
                width = _width(codes[v], cats[v], added, floor, first, stop, row, value, *known)
                if width >= 0:
                    if size == len(found):
                        found, widths = np.append(found, found), np.append(widths, widths)
                    found[size], widths[size] = added, width
                    size += 1
                    if size == enough:
                        return found[:size], widths[:size], visited
                    reached[depth] |= ONE << np.uint64(v)
                    waiting[depth] |= ONE << np.uint64(v)
        opened = np.uint64(0)
        if not waiting[depth]:
            depth -= 1
            continue
        v = _highest(waiting[depth])
        bit = ONE << np.uint64(v)
        waiting[depth] ^= bit
        lower = reached[depth] & (bit - ONE) & pairs[v]  # below v, so that each set is met once
        if lower and depth + 1 < most:
            first, stop = _refine(codes[v], cats[v], first, stop, row, value, top[depth])
            first, stop, top[depth + 1] = _merge(lower, codes, cats, first, stop, row, value, top[depth])
            depth, opened = depth + 1, lower
            kept[depth], reached[depth] = kept[depth - 1] | bit, 0
            begin[depth + 1] = begin[depth] + len(first)
            if begin[depth + 1] > len(firsts):  # on the way up `begin` is cut, and the room stays
                more = np.empty(begin[depth + 1], np.int64)
                firsts, stops = np.append(firsts, more), np.append(stops, more)
            firsts[begin[depth] : begin[depth + 1]] = first
            stops[begin[depth] : begin[depth + 1]] = stop
    return found[:size], widths[:size], visited


@inner
def _highest(variables):
    v = -1
    while variables:
        variables >>= ONE
        v += 1
    return v


@inner
def _is_among(subtable, ascending):
    at = np.searchsorted(ascending, subtable)
    return at < len(ascending) and ascending[at] == subtable
