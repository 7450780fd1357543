"""Compiled Markov chains on feasible tables: moves that preserve the released marginals, accepted by the law."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inlined, inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
State: TypeAlias = npt.NDArray[np.uint64]

MAX_BLOCKS = 5  # of a cube, which then has 32 corners


@kernel
def run(
    values: Ints,
    signs: Floats,
    shifts: Floats,
    linear: Floats,
    keys: Ints,
    impossible: Flags,
    occupied: Ints,
    where: Ints,
    sizes: Ints,
    strides: Ints,
    frontier: Ints,
    start: Ints,
    places: Ints,
    changes: Ints,
    state: State,
    proposals: int,
) -> int:
    """Make so many proposals; return the number accepted.

    values           (n,) counts of the dense cells, then those of the marginal cells of a law's factors; changed
    signs, shifts    (n,) a value f has the weight Gamma(f + shift)^sign,
    linear           (cells,) and a count f of a cell also exp(linear f)
    keys             (factors, cells) position in `values` of the marginal cell of each cell
    impossible       (cells,) structural zeros
    occupied, where  (cells + 1,) the number of cells with records, then these; (cells,) the position of each there, or
    0
    sizes, strides   (variables,) of the dense cells
    frontier         (elements,) the released frontier as bit sets
    start, places, changes  move m of the list changes the cells places[start[m]:start[m + 1]]
    state            (1,) of the generator, splitmix64; advanced

    A proposal has one of three kinds. Each is proposed backwards with equal probability, up to the number of occupied
    cells, which the acceptance corrects (Metropolis et al. 1953, Hastings 1970): a move of the list, 1, 2, 4, ...
    times, each half as often as the one before; an exchange of some differing categories between two occupied cells;
    and a cube, from an occupied cell's categories to any others, with blocks of variables that no released sub-table
    meets all. If variables are in no released sub-table, a cube may have one block of these: a record moves, even
    between distant cells.
    """
    accepted, variables, released = 0, len(sizes), 0
    for element in frontier:
        released |= element
    fewest = 1 if released != (1 << variables) - 1 else 2
    room = 1 << MAX_BLOCKS
    for m in range(len(start) - 1):
        room = max(room, start[m + 1] - start[m])
    at, by = np.empty(room, np.int64), np.empty(room, np.int64)
    for _ in range(proposals):
        bits, before, powers = next_bits(state), occupied[0], 0
        if bits & np.uint64(1) and len(start) > 1:
            size = _list_move(start, places, changes, state, at, by)
        elif bits & np.uint64(2):
            x, y = occupied[1 + below(state, before)], occupied[1 + below(state, before)]
            size, powers = _cube(x, y, 2, sizes, strides, frontier, state, at, by), 2
        else:
            x, y = occupied[1 + below(state, before)], 0
            for v in range(variables):
                # small changes as often as large ones
                own = x // strides[v] % sizes[v]
                y += strides[v] * (below(state, sizes[v]) if next_bits(state) & np.uint64(1) else own)
            blocks = fewest + below(state, MAX_BLOCKS + 1 - fewest)
            size, powers = _cube(x, y, blocks, sizes, strides, frontier, state, at, by), 1
        if size == 0 or not _is_feasible(values, impossible, at, by, size):
            continue
        log = _change(values, signs, shifts, linear, keys, at, by, size, 1)
        _note(values, occupied, where, at, size)
        log += powers * (math.log(before) - math.log(occupied[0]))
        if log < 0.0 and math.log(uniform(state)) >= log:
            _change(values, signs, shifts, linear, keys, at, by, size, -1)
            _note(values, occupied, where, at, size)
            continue
        accepted += 1
    return accepted


@inlined
def _list_move(start: Ints, places: Ints, changes: Ints, state: State, at: Ints, by: Ints) -> int:
    """Draw a move of the list and its multiple, or its inverse; return the number of changed cells."""
    move, bits = below(state, len(start) - 1), next_bits(state)
    times = -1 if bits & np.uint64(1) else 1
    for k in range(1, 11):
        if (bits >> np.uint64(k)) & np.uint64(1):
            break
        times *= 2
    size: int = start[move + 1] - start[move]
    for k in range(size):
        at[k], by[k] = places[start[move] + k], times * changes[start[move] + k]
    return size


@inner
def _cube(
    x: int, y: int, blocks: int, sizes: Ints, strides: Ints, frontier: Ints, state: State, at: Ints, by: Ints
) -> int:
    """Take a record from x and change the mixtures of x and y by blocks by one; return 0 if that is no move.

    The differences of x and y are divided into blocks at random. Released marginals stay if no released sub-table meets
    all blocks: then it sums two corners that differ in a block that it does not meet.
    """
    steps, met = np.zeros(MAX_BLOCKS, np.int64), np.zeros(MAX_BLOCKS, np.int64)
    for v in range(len(sizes)):
        by_codes = y // strides[v] % sizes[v] - x // strides[v] % sizes[v]
        if by_codes != 0:
            block = below(state, blocks)
            steps[block] += by_codes * strides[v]
            met[block] |= 1 << v
    for b in range(blocks):
        if met[b] == 0:
            return 0
    for element in frontier:
        meets_all = True
        for b in range(blocks):
            meets_all &= element & met[b] != 0
        if meets_all:
            return 0
    for corner in range(1 << blocks):
        at[corner], by[corner] = x, -1
        for b in range(blocks):
            if corner >> b & 1:
                at[corner] += steps[b]
                by[corner] = -by[corner]
    return 1 << blocks


@inlined
def _is_feasible(values: Ints, impossible: Flags, at: Ints, by: Ints, size: int) -> bool:
    feasible = True
    for k in range(size):
        feasible &= values[at[k]] + by[k] >= 0 and not (by[k] > 0 and impossible[at[k]])
    return feasible


@inner
def _change(
    values: Ints,
    signs: Floats,
    shifts: Floats,
    linear: Floats,
    keys: Ints,
    at: Ints,
    by: Ints,
    size: int,
    way: int,
) -> float:
    """Apply the changes, or revert them with -1; return the change of the log weight."""
    log = 0.0
    # increases first: no marginal cell gets below 0
    for falls in range(2):
        for k in range(size):
            change = way * by[k]
            if (change < 0) == (falls == 1):
                log += linear[at[k]] * change + _moved(values, signs, shifts, at[k], change)
                for factor in range(len(keys)):
                    log += _moved(values, signs, shifts, keys[factor, at[k]], change)
    return log


@inner
def _moved(values: Ints, signs: Floats, shifts: Floats, i: int, change: int) -> float:
    """Change a value; return sign log Gamma(f' + shift) / Gamma(f + shift)."""
    x, sign = float(values[i] + shifts[i]), float(signs[i])
    values[i] += change
    if sign == 0.0:
        return 0.0
    if change > 8 or change < -8:
        return sign * (math.lgamma(x + change) - math.lgamma(x))
    product = 1.0
    for k in range(change):
        product *= x + k
    for k in range(change, 0):
        product /= x + k
    return sign * math.log(product)


@inner
def _note(values: Ints, occupied: Ints, where: Ints, at: Ints, size: int) -> None:
    for k in range(size):
        cell = at[k]
        if values[cell] > 0 and where[cell] == 0:
            occupied[0] += 1
            occupied[occupied[0]], where[cell] = cell, occupied[0]
        elif values[cell] == 0 and where[cell] > 0:
            last = occupied[occupied[0]]
            occupied[where[cell]], where[last] = last, where[cell]
            where[cell] = 0
            occupied[0] -= 1


@inner
def below(state: State, limit: int) -> int:
    """A uniform integer below the limit (at most 2^31), up to 2^-32."""
    return int(np.int64(((next_bits(state) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)))


@inner
def uniform(state: State) -> float:
    """In (0, 1)."""
    return float(next_bits(state) >> np.uint64(11)) * 2.0**-53 + 2.0**-54


@inner
def next_bits(state: State) -> np.uint64:
    """64 random bits (Steele, Lea and Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits: np.uint64 = z ^ (z >> np.uint64(31))
    return bits
