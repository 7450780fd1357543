"""Propagation of intervals through linear equations, and the depth-first search that stands on it, compiled.

Kernels that call each other stay in this one module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel
from sdc.model.table import Counts

Arrays: TypeAlias = tuple[Counts, Counts, Counts, Counts, Counts, Counts]

EMPTY, SETTLED, STOPPED = 0, 1, 2  # how a propagation ends: no table is left, nothing moves any more, out of steps
UNLIMITED = 1 << 62


@kernel
def settle(
    lower: Counts,
    upper: Counts,
    cells: int,
    most: int,
    totals: Counts,
    start: Counts,
    members: Counts,
    signs: Counts,
    where_start: Counts,
    where: Counts,
) -> tuple[int, int]:
    """Narrows the (variables,) intervals in place by all equations until nothing moves, or `most` are treated.

    Bounds consistency; the fixed point does not depend on the order, and what is stopped before it contains it.
    How many equations were treated, and EMPTY, SETTLED or STOPPED. The first `cells` variables are cells; the other
    arrays are those of `LinearSystem`.
    """
    waiting, queue = np.ones(len(totals), np.bool_), np.arange(len(totals))
    arrays = (totals, start, members, signs, where_start, where)
    return _settled(lower, upper, cells, most, arrays, waiting, queue, len(totals))


@inner
def _settled(
    lower: Counts,
    upper: Counts,
    cells: int,
    most: int,
    arrays: Arrays,
    waiting: npt.NDArray[np.bool_],
    queue: Counts,
    length: int,
) -> tuple[int, int]:
    """`_propagate`, and how it ended; where it stopped with all cells fixed, every equation is looked at again."""
    treated = _propagate(lower, upper, most, arrays, waiting, queue, length)
    if treated < most:
        return abs(treated), SETTLED if treated >= 0 else EMPTY
    # two bounds may come towards each other record by record, so that the fixed point is as far away as the counts are
    # large; but the sums of fixed cells follow in a few sweeps, and what is not a table must not be taken for one
    if narrowest(lower, upper, cells) >= 0:
        return treated, STOPPED
    more = _propagate(lower, upper, UNLIMITED, arrays, waiting, queue, _queue_all(waiting, queue))
    return treated + abs(more), SETTLED if more >= 0 else EMPTY


@inner
def _queue_all(waiting: npt.NDArray[np.bool_], queue: Counts) -> int:
    """Let every equation wait; how many they are."""
    for e in range(len(queue)):
        waiting[e], queue[e] = True, e
    return len(queue)


@inner
def _propagate(
    lower: Counts,
    upper: Counts,
    most: int,
    arrays: Arrays,
    waiting: npt.NDArray[np.bool_],
    queue: Counts,
    length: int,
) -> int:
    """Treat the first `length` equations of the queue and those of every variable that moves, `most` in all.

    How many were treated, and minus that where no table is left; nothing waits afterwards.
    """
    # a ring of equations, each in it once: first come, first treated lets what was moved far away arrive before an
    # equation is looked at again, where a stack would go back and forth between two neighbours
    totals, start, members, signs, where_start, where = arrays
    head, treated = 0, 0
    while length:
        e = queue[head]
        head = head + 1 if head + 1 < len(queue) else 0
        length -= 1
        waiting[e] = False
        treated += 1
        # every interval is within [0, records], and records times cells are at most 2^61 (`equations.MAX_SUM`), so that
        # neither these sums nor what is subtracted below can wrap
        low, up = np.int64(0), np.int64(0)
        for k in range(start[e], start[e + 1]):
            i = members[k]
            if signs[k] > 0:
                low, up = low + lower[i], up + upper[i]
            else:
                low, up = low - upper[i], up - lower[i]
        possible = low <= totals[e] <= up
        # by how much the sum could be too large and too small. Both stay as they are while the ends move: one pass
        # leaves nothing for a second, so that e need not wait for itself
        over, under = up - totals[e], totals[e] - low
        for k in range(start[e], start[e + 1] if possible else start[e]):
            i = members[k]
            if signs[k] > 0:
                new_low, new_up = max(lower[i], upper[i] - over), min(upper[i], lower[i] + under)
            else:
                new_low, new_up = max(lower[i], upper[i] - under), min(upper[i], lower[i] + over)
            if new_low == lower[i] and new_up == upper[i]:
                continue
            possible = possible and new_low <= new_up
            lower[i], upper[i] = new_low, new_up
            for w in range(where_start[i], where_start[i + 1]):
                other = where[w]
                # the ring never overflows: it has room for all equations, and `waiting` keeps each from being in it
                # twice
                if other != e and not waiting[other]:
                    waiting[other] = True
                    queue[(head + length) % len(queue)] = other
                    length += 1
        # what waits is cleared: the caller uses the arrays again for the next branch
        if not possible or treated == most:
            for k in range(length):
                waiting[queue[(head + k) % len(queue)]] = False
            if not possible:
                return -treated
            length = 0
    return treated


@kernel
def narrowest(lower: Counts, upper: Counts, cells: int) -> int:
    """The free cell with the narrowest interval, -1 where none is free.

    Fewest branches, and where there is no table it is seen soonest; the first of several, so that the order of tables
    is the same everywhere.
    """
    best, width = -1, np.int64(1 << 62)
    for i in range(cells):
        if 0 < upper[i] - lower[i] < width:
            best, width = i, upper[i] - lower[i]
    return best


@inner
def _next_value(lower: int, upper: int, near: int, tried: int) -> tuple[int, int]:
    """The next value of the interval by distance from `near`, and the count of values tried by then."""
    # near, near + 1, near - 1, ...: the true table is feasible, and so tables near to it are found soonest
    near = min(max(near, lower), upper)
    while tried <= 2 * max(upper - near, near - lower):
        value = near + (tried + 1) // 2 if tried % 2 else near - tried // 2
        tried += 1
        if lower <= value <= upper:
            return value, tried
    return lower - 1, tried


@kernel
def advance(
    lower: npt.NDArray[np.int64],
    upper: npt.NDArray[np.int64],
    cell: Counts,
    tried: Counts,
    settled: npt.NDArray[np.bool_],
    depth: int,
    steps: int,
    max_steps: int,
    most: int,
    truth: Counts,
    totals: Counts,
    start: Counts,
    members: Counts,
    signs: Counts,
    where_start: Counts,
    where: Counts,
    buffer: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Goes on from level `depth`, at which `cell` takes its next value, until the buffer is full or all is seen.

    lower, upper  (levels, variables) intervals at each level, `cell` and `tried` (levels,) what it branches on
    settled       (levels,) whether the propagation there came to its end, which is after `most` equations at most
    buffer        (tables, cells) tables found

    Returns tables found, depth (-1 where all is seen) and steps; ends too where these reach `max_steps`.
    """
    # a stack of whole intervals instead of changes to undo: levels are few, and a copy is as fast as going back
    arrays = (totals, start, members, signs, where_start, where)
    waiting, queue = np.zeros(len(totals), np.bool_), np.empty(len(totals), np.int64)
    cells = buffer.shape[1]
    found = 0
    while depth >= 0 and found < len(buffer) and steps < max_steps:
        i = cell[depth]
        value, tried[depth] = _next_value(lower[depth, i], upper[depth, i], truth[i], tried[depth])
        # all values tried: back to the level above, whose intervals are untouched
        if value < lower[depth, i]:
            depth -= 1
            continue
        below = depth + 1
        for v in range(lower.shape[1]):  # an assignment of whole rows takes seconds to compile
            lower[below, v], upper[below, v] = lower[depth, v], upper[depth, v]
        lower[below, i] = upper[below, i] = value
        length = 0
        if settled[depth]:
            for w in range(where_start[i], where_start[i + 1]):
                waiting[where[w]] = True
                queue[length] = where[w]
                length += 1
        else:
            length = _queue_all(waiting, queue)
        treated, end = _settled(lower[below], upper[below], cells, most, arrays, waiting, queue, length)
        # counted in equations, not in branches: a branch may cost anything from one to thousands of them
        steps += treated
        if end != EMPTY:
            free = narrowest(lower[below], upper[below], cells)
            # all cells fixed and no equation contradicts: with points for intervals each of them holds, so this is a
            # table
            if free < 0:
                for v in range(cells):
                    buffer[found, v] = lower[below, v]
                found += 1
            else:
                depth = below
                cell[depth], tried[depth], settled[depth] = free, 0, end == SETTLED
    return found, depth, steps
