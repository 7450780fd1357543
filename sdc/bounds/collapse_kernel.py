"""The compiled shuttle on the 3^K super-cells {own, rest, sum}^K around one cell.

Kernels that call each other stay in this module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel
from sdc.model.table import Counts

OWN, REST, SUM = 0, 1, 2  # digits of a super-cell's number in base 3
LANES = 64
# a block of 81 rows, 41 kB of int32, stays in the fast cache while its four variables are swept
CACHED_VARIABLES = 4
CACHED_ROWS = 3**CACHED_VARIABLES
TICKS = 32  # more than the variables of a table, so that the stamps of two sweeps do not overlap
CHECKED_ROUNDS = 16  # crossed bounds may narrow for ever, and detecting them costs a pass

SuperCells: TypeAlias = npt.NDArray[Any]
Flags: TypeAlias = npt.NDArray[np.bool_]
Stamps: TypeAlias = npt.NDArray[np.int32]


# The 3^K super-cells are a matrix, rows by the high variables, columns by the low ones, stored as tiles of 64 columns.
# A tile's row is 64 lower bounds, then 64 upper bounds: the compiler sees that three such rows do not overlap, and
# vectorises; with two arrays it gives up. High variables are treated in the stored tiles, low ones in tiles of 64
# matrix rows that are transposed for it. Each tile settles while it is in cache. A row's stamp says when it last moved,
# in ticks, one a variable and 32 a sweep: a triple none of whose rows has moved since it was last treated is skipped.


@kernel
def fill(state: SuperCells, total: int, columns: int) -> None:
    """[0, total] everywhere in the (tiles, rows of 2 LANES) state; lanes beyond the matrix are 0."""
    integer = state.dtype.type
    for t in range(len(state)):
        lanes = min(LANES, columns - t * LANES)
        for row in range(0, state.shape[1], 2 * LANES):
            bounds_of_row = state[t, row : row + 2 * LANES]
            for i in range(LANES):
                bounds_of_row[i] = integer(0)
                bounds_of_row[LANES + i] = integer(total) if i < lanes else integer(0)


@kernel
def publish(
    state: SuperCells, supports: npt.NDArray[np.int64], own: Counts, powers: npt.NDArray[np.int64], columns: int
) -> None:
    """Gives the super-cells of the public supports, ascending, their values: rest is sum minus own, both known by then.

    supports  bit sets of the released sub-tables; `own` (2^K,) their counts at the cell, in records
    powers    (2^K,) the sum of 3^k over the bits of every subset
    """
    last = powers[-1] * SUM
    for support in supports:
        rests = 0
        while True:
            # n with a rest at `low` is n with the sum there less n with own there. The first has a smaller support and
            # the second fewer rests: both come before, because supports and the subsets of each are ascending and every
            # subset of a released one is released
            low = rests & -rests
            count = own[support]
            if rests:
                of_sum = last - SUM * powers[support ^ low] + powers[rests ^ low]
                of_own = last - SUM * powers[support] + powers[rests ^ low]
                count = _lower(state, of_sum, columns) - _lower(state, of_own, columns)
            assign(state, last - SUM * powers[support] + powers[rests], columns, count, count)
            if rests == support:
                break
            rests = (rests - support) & support


@inner
def _lower(state: SuperCells, place: int, columns: int) -> int:
    column = place % columns
    return int(state[column // LANES, place // columns * 2 * LANES + column % LANES])


@kernel
def assign(state: SuperCells, place: int, columns: int, lower: int, upper: int) -> None:
    """Narrows the bounds of the super-cell with this number."""
    column = place % columns
    at = place // columns * 2 * LANES + column % LANES
    state[column // LANES, at] = max(state[column // LANES, at], lower)
    state[column // LANES, at + LANES] = min(state[column // LANES, at + LANES], upper)


@kernel
def settle(state: SuperCells, columns: int, most: int) -> int:
    """Narrows the state to the fixed point, which does not depend on the order, or until `most` sweeps a tile are done.

    The shuttle of [DKS] section 4 on super-cells of {own, rest, sum}: own + rest = sum along every variable. How many
    sweeps over a tile it took, and minus that on a contradiction.
    """
    tiles, rows = len(state), state.shape[1] // (2 * LANES)
    across = np.zeros(tiles * LANES * 2 * LANES, state.dtype)
    for_columns = np.ones((tiles, rows), np.bool_)
    for_rows = np.ones((tiles, rows), np.bool_)
    stamp = np.empty(max(rows, tiles * LANES), np.int32)
    # one descent along all variables first: from [0, total] the upper bounds would come down a little in every sweep
    for t in range(tiles):
        _descend(state[t], rows)
    rounds, swept = 0, 0
    # bounds that come towards each other record by record would take as many sweeps as there are records
    enough = most * (tiles + -(-rows // LANES))
    while True:
        for first in range(0, rows, LANES):
            lanes = min(LANES, rows - first)
            if _stamp_columns(for_columns, first, lanes, stamp):
                _transpose(state, across, first, lanes)
                if rounds == 0:
                    _descend(across, columns)
                sweeps = _settle_tile(across, stamp, columns, most)
                swept += sweeps
                if sweeps > 1 or rounds == 0:
                    _transpose_back(state, across, stamp, TICKS if rounds else -1, first, lanes, for_rows)
        moved = False
        for t in range(tiles):
            if not _stamp_rows(for_rows[t], stamp):
                continue
            sweeps = _settle_tile(state[t], stamp, rows, most)
            swept += sweeps
            if sweeps > 1:
                moved = True
                for row in range(rows):
                    for_columns[t, row] = stamp[row] >= TICKS
        rounds += 1
        ended = not moved or swept >= enough
        if ended or rounds % CHECKED_ROUNDS == 0:
            crossed = False
            for t in range(tiles):
                crossed |= _has_crossed(state[t], rows)
            if crossed or ended:
                return -swept if crossed else swept


@inner
def _stamp_columns(for_columns: Flags, first: int, lanes: int, stamp: Stamps) -> bool:
    """Stamp the columns of every tile that has moved in these matrix rows, and take its flags down; whether any has."""
    any_moved = False
    for t in range(len(for_columns)):
        moved = False
        for row in range(first, first + lanes):
            moved |= for_columns[t, row]
            for_columns[t, row] = False
        stamp[t * LANES : (t + 1) * LANES] = TICKS - 1 if moved else -1
        any_moved |= moved
    return any_moved


@inner
def _stamp_rows(for_rows: Flags, stamp: Stamps) -> bool:
    """Stamp the rows that have moved, and take their flags down; whether any has."""
    any_moved = False
    for row in range(len(for_rows)):
        any_moved |= for_rows[row]
        stamp[row] = TICKS - 1 if for_rows[row] else -1
        for_rows[row] = False
    return any_moved


@inner
def _transpose(state: SuperCells, across: SuperCells, first: int, lanes: int) -> None:
    """Matrix rows from `first` on, out of the stored tiles into a tile with a lane a row."""
    for t in range(len(state)):
        tile = state[t, first * 2 * LANES : (first + lanes) * 2 * LANES]
        out = across[t * LANES * 2 * LANES : (t + 1) * LANES * 2 * LANES]
        for lane in range(2 * LANES):
            start = lane % LANES * 2 * LANES + lane // LANES * LANES
            for row in range(lanes):
                out[start + row] = tile[row * 2 * LANES + lane]


@inner
def _transpose_back(
    state: SuperCells, across: SuperCells, stamp: Stamps, since: int, first: int, lanes: int, for_rows: Flags
) -> None:
    """What is stamped `since` or later back into the matrix rows; those that differ are flagged."""
    integer = state.dtype.type
    for t in range(len(state)):
        if _latest(stamp, t * LANES, (t + 1) * LANES) < since:
            continue
        tile = across[t * LANES * 2 * LANES : (t + 1) * LANES * 2 * LANES]
        for row in range(lanes):
            out = state[t, (first + row) * 2 * LANES : (first + row + 1) * 2 * LANES]
            # differences are combined by `or` and tested once for each row: a branch for each lane prevents vectorising
            moved = integer(0)
            for lane in range(LANES):
                value = tile[lane * 2 * LANES + row]
                moved = integer(moved | (value ^ out[lane]))
                out[lane] = value
            for lane in range(LANES):
                value = tile[(lane * 2 + 1) * LANES + row]
                moved = integer(moved | (value ^ out[LANES + lane]))
                out[LANES + lane] = value
            for_rows[t, first + row] |= moved != 0


@inner
def _descend(tile: SuperCells, length: int) -> None:
    """Upper bounds of own and rest at most that of their sum, one variable after another: minima of public margins."""
    stride = 1
    while stride < length:
        step = stride * 2 * LANES
        for block in range(0, length * 2 * LANES, 3 * step):
            for row in range(block + LANES, block + LANES + step, 2 * LANES):
                own = tile[row : row + LANES]
                rest = tile[row + step : row + step + LANES]
                both = tile[row + 2 * step : row + 2 * step + LANES]
                for i in range(LANES):
                    own[i], rest[i] = min(own[i], both[i]), min(rest[i], both[i])
        stride *= 3


@inner
def _settle_tile(tile: SuperCells, stamp: Stamps, length: int, most: int) -> int:
    """Sweep until nothing moves, `most` times, or until bounds have crossed, which may never settle; how many sweeps.

    One sweep if nothing moved in it, more if something did. Rows with the stamp 31 have moved before; those that move
    here have a later one in the end.
    """
    inner = min(length, CACHED_ROWS)
    tick = TICKS
    while True:
        moved = False
        for first in range(0, length, inner):
            last = first + inner
            # a block without changes since its last sweep has nothing to narrow
            if _latest(stamp, first, last) >= tick - TICKS:
                moved |= _sweep(tile[first * 2 * LANES : last * 2 * LANES], stamp[first:last], inner, 1, tick)
        moved |= _sweep(tile, stamp, length, CACHED_ROWS, tick + CACHED_VARIABLES)
        if not moved:
            return tick // TICKS
        tick += TICKS
        if tick // TICKS > most or (tick % (TICKS * CHECKED_ROUNDS) == 0 and _has_crossed(tile, length)):
            return tick // TICKS


@inner
def _latest(stamp: Stamps, first: int, last: int) -> int:
    latest = np.int32(-1)
    for i in range(first, last):
        latest = max(latest, stamp[i])
    return int(latest)


@inner
def _sweep(tile: SuperCells, stamp: Stamps, length: int, stride: int, tick: int) -> bool:
    """One pass over the variables from that stride on; whether anything changed.

    A triple ends at the projections of {own + rest = sum} within its bounds, so its own work is done.
    """
    integer = tile.dtype.type  # numba adds two int32 to an int64, which would halve the lanes of a register
    moved = integer(0)
    while stride < length:
        step = stride * 2 * LANES
        for block in range(0, length, 3 * stride):
            for a in range(block, block + stride):
                b, c = a + stride, a + 2 * stride
                if max(stamp[a], stamp[b], stamp[c]) <= tick - TICKS:
                    continue
                row = a * 2 * LANES
                own = tile[row : row + 2 * LANES]
                rest = tile[row + step : row + step + 2 * LANES]
                both = tile[row + 2 * step : row + 2 * step + 2 * LANES]
                moved_a, moved_b, moved_c = integer(0), integer(0), integer(0)
                for i in range(LANES):
                    al, au, bl, bu, cl, cu = own[i], own[LANES + i], rest[i], rest[LANES + i], both[i], both[LANES + i]
                    # t1 + t3 = t2 in both directions; all six from the old ends: one pass is enough for a triple, see
                    # above
                    new_al, new_au = max(al, integer(cl - bu)), min(au, integer(cu - bl))
                    new_bl, new_bu = max(bl, integer(cl - au)), min(bu, integer(cu - al))
                    new_cl, new_cu = max(cl, integer(al + bl)), min(cu, integer(au + bu))
                    moved_a = integer(moved_a | (new_al ^ al) | (new_au ^ au))
                    moved_b = integer(moved_b | (new_bl ^ bl) | (new_bu ^ bu))
                    moved_c = integer(moved_c | (new_cl ^ cl) | (new_cu ^ cu))
                    own[i], own[LANES + i], rest[i], rest[LANES + i] = new_al, new_au, new_bl, new_bu
                    both[i], both[LANES + i] = new_cl, new_cu
                stamp[a] = tick if moved_a != 0 else stamp[a]
                stamp[b] = tick if moved_b != 0 else stamp[b]
                stamp[c] = tick if moved_c != 0 else stamp[c]
                moved = integer(moved | moved_a | moved_b | moved_c)
        stride *= 3
        tick += 1
    return bool(moved != 0)


@inner
def _has_crossed(tile: SuperCells, length: int) -> bool:
    for row in range(length):
        for i in range(row * 2 * LANES, row * 2 * LANES + LANES):
            if tile[i] > tile[i + LANES]:
                return True
    return False
