"""Compiled exchanges of records beyond a separator; counts of cells are in hash tables."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inlined, inner, kernel
from sdc.intruder.chain_kernel import State, below, next_bits, uniform

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.int32]

KEY, COUNT, FIRST = 0, 1, 2  # of a slot: the cell, its count, and a record of a full cell
EMPTY = -1  # the key of an unused slot; a cell without records has a slot until a rebuild
MOST_AT_ONCE = 10  # 2^10 pairs of records exchange at once


@kernel
def fill(records: Ints, following: Places, radix: Ints, strides: Ints, hashed: Ints, slots: Ints) -> None:
    """Count the records' cells in every empty hash table, see `run`."""
    for t in range(len(hashed)):
        for r in range(len(records)):
            slot = _slot(_within(records[r], t, radix, strides), hashed[t], slots)
            slots[slot, COUNT] += 1
            if t == 0:
                following[r], slots[slot, FIRST] = slots[slot, FIRST], r


@kernel
def counts_at(wanted: Ints, hashed: Ints, slots: Ints, counts: Ints) -> None:
    """Write the counts of the full cells with these keys."""
    for k in range(len(wanted)):
        counts[k] = _count(wanted[k], hashed[0], slots)


@kernel
def run(
    records: Ints,
    following: Places,
    moves: Ints,
    lists: Places,
    places: Places,
    radix: Ints,
    strides: Ints,
    signs: Floats,
    shifts: Floats,
    hashed: Ints,
    slots: Ints,
    state: State,
    proposals: int,
) -> int:
    """Make so many proposals; return the number that changed the table.

    records    (records,) the key of each record's cell; changed
    following  (records,) another record of the same cell, or -1 after the last; changed
    moves      (moves, 3) a part of the key, key // low % span, as low and span; first the edges of the junction tree in
               preorder, with the end of the edges below each, then unknown variables
    lists      (edges, records, 3) the records by the cell of the edge's separator, and where those of the cell begin
               and end; only the first of the three changes
    places     (edges, records) position of each record in the list; changed
    radix      (2, variables) of the key: the stride and the size of each variable
    strides    (tables, variables) of the keys of the counted tables: the table of all variables first
    signs, shifts  (tables, 2) a count f has the weight Gamma(f + shift)^sign, twice
    hashed     (tables, 3) for each hash table its first slot, its slots less 1, and the number used; changed
    slots      (slots, 3) see KEY, COUNT and FIRST; changed
    state      (1,) of the generator, splitmix64; advanced

    Two records of one cell of a separator exchange their part beyond it, together with 0, 1, 3, 7, ... others of the
    same two cells, each half as often as the one before; or so many records of a cell get any category of an unknown
    variable. The pair from a and b to c and d has a probability proportional to f_a f_b, and the reverse one to f_c f_d
    afterwards, which the acceptance corrects (Hastings 1970). For one pair both cancel prod 1/f!: labelled records
    would exchange by the prior's ratio alone.
    """
    accepted, edges, touched = 0, len(lists), np.empty((len(hashed), 4), np.int64)
    for _ in range(proposals):
        move, p, together = np.int64(below(state, len(moves))), np.int64(below(state, len(records))), _together(state)
        low, span = moves[move, 0], moves[move, 1]
        x = y = records[lists[move, p, 0]] if move < edges else records[p]
        if move < edges:
            begin, others = int(lists[move, p, 1]), int(lists[move, p, 2] - lists[move, p, 1]) - 1
            if others == 0:
                continue
            q = begin + np.int64(below(state, others))
            y = records[lists[move, q + (q >= p), 0]]
            step, size = (y // low % span - x // low % span) * low, 4
        else:
            step, size = (np.int64(below(state, span)) - x // low % span) * low, 2
        # records that differ on one side only would swap, and the table would not change
        if step == 0 or (size == 4 and x + step == y):
            continue
        if together > 1 and together > min(_count(x, hashed[0], slots), _count(y, hashed[0], slots)):
            continue
        _touch(x, y, step, size, radix, strides, hashed, slots, touched)
        log = -_log_ways(touched, size, 0, slots)
        log += _changed(touched, size, together, signs, shifts, slots) + _log_ways(touched, size, 1, slots)
        if log < 0.0 and math.log(uniform(state)) >= log:
            _changed(touched, size, -together, signs, shifts, slots)
            continue
        for _ in range(together):
            r = _passed(touched[0, 0], touched[0, 1], step, records, following, slots)
            if size == 4:
                s = _passed(touched[0, 2], touched[0, 3], -step, records, following, slots)
                _exchange(r, s, int(move) + 1, moves[move, 2], lists, places)
        accepted += 1
    return accepted


@inlined
def _together(state: State) -> int:
    """1, 2, 4, ..., each half as often as the one before."""
    bits, size = next_bits(state), 1
    for k in range(MOST_AT_ONCE):
        if (bits >> np.uint64(k)) & np.uint64(1):
            break
        size *= 2
    return size


@inner
def _passed(giver: int, taker: int, step: int, records: Ints, following: Places, slots: Ints) -> int:
    r: int = slots[giver, FIRST]
    slots[giver, FIRST] = following[r]
    following[r], slots[taker, FIRST] = slots[taker, FIRST], r
    records[r] += step
    return r


@inlined
def _exchange(r: int, s: int, first: int, last: int, lists: Places, places: Places) -> None:
    """Swap the records in the lists of the edges below, whose separators they exchanged."""
    for edge in range(first, last):
        p, q = places[edge, r], places[edge, s]
        lists[edge, p, 0], lists[edge, q, 0] = s, r
        places[edge, r], places[edge, s] = q, p


@inlined
def _touch(
    x: int, y: int, step: int, size: int, radix: Ints, strides: Ints, hashed: Ints, slots: Ints, touched: Ints
) -> None:
    for t in range(len(hashed)):
        if 2 * (hashed[t, 2] + 4) > hashed[t, 1] + 1:
            _rebuild(hashed[t], slots)
        touched[t, 0] = _slot(_within(x, t, radix, strides), hashed[t], slots)
        touched[t, 1] = _slot(_within(x + step, t, radix, strides), hashed[t], slots)
        if size == 4:
            touched[t, 2] = _slot(_within(y, t, radix, strides), hashed[t], slots)
            touched[t, 3] = _slot(_within(y - step, t, radix, strides), hashed[t], slots)


@inner
def _log_ways(touched: Ints, size: int, side: int, slots: Ints) -> float:
    ways = 1.0
    for k in range(side, size, 2):
        ways *= slots[touched[0, k], COUNT]
    return math.log(ways)


@inner
def _changed(touched: Ints, size: int, together: int, signs: Floats, shifts: Floats, slots: Ints) -> float:
    """Move so many records, or back if negative; return the change of the log weight."""
    log = 0.0
    for t in range(len(touched)):
        for k in range(size):
            slot, change = touched[t, k], -together if k % 2 == 0 else together
            for j in range(2):
                if signs[t, j] != 0.0:
                    log += signs[t, j] * _log_rising(slots[slot, COUNT] + shifts[t, j], change)
            slots[slot, COUNT] += change
    return log


@inner
def _log_rising(x: float, change: int) -> float:
    if change > 8 or change < -8:
        return math.lgamma(x + change) - math.lgamma(x)
    product = 1.0
    for k in range(change):
        product *= x + k
    for k in range(change, 0):
        product /= x + k
    return math.log(product)


@inner
def _within(key: int, t: int, radix: Ints, strides: Ints) -> int:
    if t == 0:
        return key
    found = 0
    for v in range(radix.shape[1]):
        if strides[t, v] > 0:
            found += key // radix[0, v] % radix[1, v] * strides[t, v]
    return found


@inner
def _slot(key: int, hashed: Ints, slots: Ints) -> int:
    """The slot of a cell, possibly a new one: linear probing, with at least half of the slots unused."""
    begin, mask = hashed[0], hashed[1]
    slot = _begin(key, mask)
    while slots[begin + slot, KEY] != key:
        if slots[begin + slot, KEY] == EMPTY:
            slots[begin + slot, KEY] = key
            hashed[2] += 1
            break
        slot = (slot + 1) & mask
    found: int = begin + slot
    return found


@inner
def _count(key: int, hashed: Ints, slots: Ints) -> int:
    begin, mask = hashed[0], hashed[1]
    slot = _begin(key, mask)
    while slots[begin + slot, KEY] != key and slots[begin + slot, KEY] != EMPTY:
        slot = (slot + 1) & mask
    count: int = slots[begin + slot, COUNT]
    return count


@inner
def _begin(key: int, mask: int) -> int:
    """The first slot for a key, by the golden ratio (Knuth 1998, section 6.4)."""
    high = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    # an unsigned integer with a signed mask would become a float
    return int(np.int64(high)) & mask


@inlined
def _rebuild(hashed: Ints, slots: Ints) -> None:
    own_slots = slots[hashed[0] : hashed[0] + hashed[1] + 1]
    old = own_slots.copy()
    own_slots[:, KEY], own_slots[:, COUNT], own_slots[:, FIRST] = EMPTY, 0, -1
    hashed[2] = 0
    for k in range(len(old)):
        if old[k, COUNT] > 0:
            slot = _slot(old[k, KEY], hashed, slots)
            slots[slot, COUNT], slots[slot, FIRST] = old[k, COUNT], old[k, FIRST]
