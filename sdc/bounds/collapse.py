"""The shuttle on a table collapsed around one cell: {its own category, the rest} for every variable."""

from __future__ import annotations

from typing import Any, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.coverage import essential, informed, varying
from sdc.model.errors import ReleaseError
from sdc.model.marginal import CellMarginals, as_cells, check_release
from sdc.model.release import Release
from sdc.model.structural_zeros import Pattern
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table, group_ids

MAX_VARIABLES = 15
MAX_DICHOTOMOUS = 16
OWN, REST, SUM = 0, 1, 2
LANES = 64
CACHED_VARIABLES = 4
CACHED_ROWS = 3**CACHED_VARIABLES
TICKS = 32
CHECKED_ROUNDS = 16

SuperCells: TypeAlias = npt.NDArray[Any]
Flags: TypeAlias = npt.NDArray[np.bool_]
Stamps: TypeAlias = npt.NDArray[np.int32]


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Outer bounds of (n, variables) cells as `Collapse` gives them; inner is the count.

    0.04 s a cell for 13 variables; InputError and ReleaseError as there.
    """
    cells = as_cells(cells, table.schema)
    outer = Collapse(table, release).outer(cells)
    counts = table.count_at(cells)
    return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "collapse")


class Collapse:
    """Outer bounds of cells of one table under one release.

    Every feasible table collapses to a feasible one in which the cell survives, so the shuttle's
    bounds on the 3^K super-cells {own, rest, sum}^K contain the sharp ones, whatever the number of
    categories. K counts the variables that the release or the structural zeros name. Sharp for
    dichotomous tables wherever the shuttle is ([DKS] section 4). A super-cell all of whose cells are
    in one pattern of the structural zeros is 0.

    Beyond 15 variables the 15 that are kept are chosen around each cell, see `kept`; the upper bound
    of that marginal cell holds for the cell, its lower bound does not and becomes 0. Cells that differ
    only in variables of two categories share their collapsed table, up to what is called own and
    rest, and so one propagation: a table of two categories throughout needs one in all, and may
    have 16 variables.

    A propagation takes 0.03 to 0.05 s and 13 MB for K = 13, three to four times that for each further
    variable. ReleaseError where the release names a variable the table does not have. An instance
    never changes: threads may share it.
    """

    def __init__(self, table: Table, release: Release) -> None:
        check_release(release, table.schema)
        self._table = table
        self._release = essential(release, table.schema)
        self._covered = essential(informed(release, table.zeros), table.schema).variables
        self._dichotomous = st.of(v for v, size in enumerate(table.schema.sizes) if size == 2)

    def at(self, cell: npt.NDArray[np.integer]) -> tuple[int, int]:
        """Lower and upper bound of one cell, (variables,) codes; InputError where it does not fit the schema."""
        lower, upper = self.outer(np.asarray(cell)[None, :])[0].tolist()
        return lower, upper

    def outer(self, cells: npt.NDArray[np.integer]) -> Intervals:
        """(n, 2) int64 bounds of (n, variables) cells; InputError where one does not fit the schema."""
        cells = as_cells(cells, self._table.schema)
        kept = self.kept(cells)
        outer = np.zeros((len(cells), 2), np.int64)
        for subtable in dict.fromkeys(kept):
            rows = np.flatnonzero([other == subtable for other in kept])
            outer[rows] = self._outer_within(subtable, cells[rows])
        return outer

    def kept(self, cells: npt.NDArray[np.integer]) -> list[SubTable]:
        """The variables that the collapsed table around each of (n, variables) cells has.

        All that are covered if they are at most 15, or 16 of two categories each. Otherwise, for each cell on its
        own, first those of the released frontier's sub-table with the smallest count at the cell, which so bounds it
        still unless that sub-table is larger itself; then those whose category of the cell has the smallest count.
        """
        limit = MAX_DICHOTOMOUS if st.is_within(self._covered, self._dichotomous) else MAX_VARIABLES
        if st.dimension(self._covered) <= limit:
            return [self._covered] * len(cells)
        marginals = CellMarginals(self._table, cells)
        members, frontier = st.members(self._covered), self._release.frontier
        smallest = np.argmin([marginals.at(element) for element in frontier], axis=0)
        one_way = np.array([marginals.at(1 << v) for v in members])
        within = np.array([[st.has(frontier[i], v) for i in smallest] for v in members])
        order = np.lexsort([one_way, ~within], axis=0)[:MAX_VARIABLES]
        return [st.of(members[k] for k in column) for column in order.T]

    def _outer_within(self, kept: SubTable, cells: Codes) -> Intervals:
        """(n, 2) bounds from the collapsed table of these variables, one propagation a choice of the others."""
        members = st.members(kept)
        collapsed = _Collapsed(self._table, self._release, members)
        strides = np.array([3**k if st.has(self._dichotomous, v) else 0 for k, v in enumerate(members)], np.int64)
        outer = np.zeros((len(cells), 2), np.int64)
        for rows in self._sharing(kept, cells):
            around = cells[rows[0]]
            collapsed.settle_around(around)
            outer[rows] = collapsed.at((cells[rows] != around)[:, members] @ strides)
        if varying(self._table.schema) & ~kept:
            outer[:, 0] = 0
        return outer

    def _sharing(self, kept: SubTable, cells: Codes) -> list[npt.NDArray[np.int64]]:
        """The rows of the cells that agree in the kept variables of more than two categories, together."""
        agreeing = st.members(kept & ~self._dichotomous)
        ids = group_ids(cells[:, agreeing], [self._table.schema.sizes[v] for v in agreeing])
        order = np.argsort(ids, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(ids[order])) + 1)


class _Collapsed:
    """Room for one collapsed table of the given variables, filled for one cell after another; for one thread.

    Variable k of K has stride 3^k in the number of a super-cell, and there 0 for own, 1 for rest, 2 for their sum.
    """

    def __init__(self, table: Table, release: Release, members: tuple[int, ...]) -> None:
        self._table = table
        self._members = members
        self._codes = np.ascontiguousarray(table.codes[:, members].T)
        self._public = _public_supports(release, members)
        self._powers = np.zeros(1, np.int64)
        for k in range(len(members)):
            self._powers = np.concatenate([self._powers, self._powers + 3**k])
        self._number_of_super_cells = int(3 ** len(members))
        self._columns = 3 ** (len(members) // 2)
        shape = -(-self._columns // LANES), self._number_of_super_cells // self._columns * 2 * LANES
        # two counts are added before they are compared: below 2^30 that fits 32 bits
        self._state: SuperCells = np.empty(shape, np.int32 if table.total < 1 << 30 else np.int64)

    def settle_around(self, cell: npt.NDArray[np.integer]) -> None:
        """Narrow the bounds of all super-cells around the cell to the fixed point of own + rest = sum."""
        _fill(self._state, self._table.total, self._columns)
        _publish(self._state, self._public, self._own_counts(cell), self._powers, self._columns)
        for pattern in self._table.zeros.patterns:
            if (impossible := self._largest_within(pattern, cell)) is not None:
                _set(self._state, impossible, self._columns, 0, 0)
        if not _settle(self._state, self._columns):
            raise ReleaseError("the released marginals contradict each other; make them from one table")

    def at(self, places: npt.NDArray[np.int64]) -> Intervals:
        """(n, 2) bounds of the super-cells with these numbers."""
        row, column = np.divmod(places, self._columns)
        lower = row * 2 * LANES + column % LANES
        return np.stack([self._state[column // LANES, lower], self._state[column // LANES, lower + LANES]], axis=1)

    def _own_counts(self, cell: npt.NDArray[np.integer]) -> Counts:
        """(2^K,) n_S at the cell for every subset S of the variables: the sums over what agrees with it in S."""
        own = np.zeros(len(self._table), np.int64)
        for k, v in enumerate(self._members):
            own |= (self._codes[k] == cell[v]).astype(np.int64) << k
        counts: Counts = np.bincount(own, self._table.counts, minlength=len(self._powers)).astype(np.int64)
        for k in range(len(self._members)):
            without, with_it = np.moveaxis(counts.reshape(-1, 2, 1 << k), 1, 0)
            without += with_it
        return counts

    def _largest_within(self, pattern: Pattern, cell: npt.NDArray[np.integer]) -> int | None:
        """The super-cell that has all others within the pattern as parts; None where none is within."""
        place = self._number_of_super_cells - 1
        for v, codes in pattern:
            own = int(cell[v]) in codes
            rest = len(codes) - own == self._table.schema.sizes[v] - 1
            if own and rest:
                continue
            if not (own or rest) or v not in self._members:
                return None
            place -= (SUM - (OWN if own else REST)) * int(3 ** self._members.index(v))
        return place


def _public_supports(release: Release, members: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The sub-tables of these variables whose marginals the release tells, ascending, bit k for the k-th of them."""
    kept = (st.of(k for k, v in enumerate(members) if st.has(element, v)) for element in release.frontier)
    return np.flatnonzero(Release.of(kept).listed(len(members)))


# The 3^K super-cells are a matrix, rows by the high variables, columns by the low ones, stored as tiles of 64 columns.
# A tile's row is 64 lower bounds, then 64 upper bounds: the compiler can tell that three such rows do not overlap, and
# vectorises; with two arrays it gives up. High variables are treated in the stored tiles, low ones in tiles of 64
# matrix rows that are transposed for it. Each tile settles while it is in cache. A row's stamp says when it last moved,
# in ticks, one a variable and 32 a sweep: a triple none of whose rows has moved since it was last treated is skipped.


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(state: SuperCells, total: int, columns: int) -> None:
    """[0, total] everywhere; lanes beyond the matrix stay 0."""
    integer = state.dtype.type
    for t in range(len(state)):
        lanes = min(LANES, columns - t * LANES)
        for row in range(0, state.shape[1], 2 * LANES):
            bounds_of_row = state[t, row : row + 2 * LANES]
            for i in range(LANES):
                bounds_of_row[i] = integer(0)
                bounds_of_row[LANES + i] = integer(total) if i < lanes else integer(0)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _publish(
    state: SuperCells, supports: npt.NDArray[np.int64], own: Counts, powers: npt.NDArray[np.int64], columns: int
) -> None:
    """Give the super-cells of the public supports, ascending, their values: rest is sum minus own, both known by then.

    `powers` has the sum of 3^k over the bits of every subset.
    """
    last = powers[-1] * SUM
    for support in supports:
        rests = 0
        while True:
            low = rests & -rests
            count = own[support]
            if rests:
                of_sum = last - SUM * powers[support ^ low] + powers[rests ^ low]
                of_own = last - SUM * powers[support] + powers[rests ^ low]
                count = _lower(state, of_sum, columns) - _lower(state, of_own, columns)
            _set(state, last - SUM * powers[support] + powers[rests], columns, count, count)
            if rests == support:
                break
            rests = (rests - support) & support


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _lower(state: SuperCells, place: int, columns: int) -> int:
    column = place % columns
    return int(state[column // LANES, place // columns * 2 * LANES + column % LANES])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _set(state: SuperCells, place: int, columns: int, lower: int, upper: int) -> None:
    column = place % columns
    at = place // columns * 2 * LANES + column % LANES
    state[column // LANES, at] = lower
    state[column // LANES, at + LANES] = upper


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _settle(state: SuperCells, columns: int) -> bool:
    """Narrow the state to the fixed point, which does not depend on the order; False on a contradiction."""
    tiles, rows = len(state), state.shape[1] // (2 * LANES)
    across = np.zeros(tiles * LANES * 2 * LANES, state.dtype)
    for_columns = np.ones((tiles, rows), np.bool_)
    for_rows = np.ones((tiles, rows), np.bool_)
    stamp = np.empty(max(rows, tiles * LANES), np.int32)
    for t in range(tiles):
        _descend(state[t], rows)
    rounds = 0
    while True:
        for first in range(0, rows, LANES):
            lanes = min(LANES, rows - first)
            if _stamp_columns(for_columns, first, lanes, stamp):
                _transpose(state, across, first, lanes)
                if rounds == 0:
                    _descend(across, columns)
                moved = _settle_tile(across, stamp, columns)
                if moved or rounds == 0:
                    _transpose_back(state, across, stamp, TICKS if rounds else -1, first, lanes, for_rows)
        moved = False
        for t in range(tiles):
            if _stamp_rows(for_rows[t], stamp) and _settle_tile(state[t], stamp, rows):
                moved = True
                for row in range(rows):
                    for_columns[t, row] = stamp[row] >= TICKS
        rounds += 1
        if not moved or rounds % CHECKED_ROUNDS == 0:
            crossed = False
            for t in range(tiles):
                crossed |= _has_crossed(state[t], rows)
            if crossed or not moved:
                return not crossed


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
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


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _stamp_rows(for_rows: Flags, stamp: Stamps) -> bool:
    """Stamp the rows that have moved, and take their flags down; whether any has."""
    any_moved = False
    for row in range(len(for_rows)):
        any_moved |= for_rows[row]
        stamp[row] = TICKS - 1 if for_rows[row] else -1
        for_rows[row] = False
    return any_moved


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _transpose(state: SuperCells, across: SuperCells, first: int, lanes: int) -> None:
    """Matrix rows from `first` on, out of the stored tiles into a tile with a lane a row."""
    for t in range(len(state)):
        tile = state[t, first * 2 * LANES : (first + lanes) * 2 * LANES]
        out = across[t * LANES * 2 * LANES : (t + 1) * LANES * 2 * LANES]
        for lane in range(2 * LANES):
            start = lane % LANES * 2 * LANES + lane // LANES * LANES
            for row in range(lanes):
                out[start + row] = tile[row * 2 * LANES + lane]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
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


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
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


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _settle_tile(tile: SuperCells, stamp: Stamps, length: int) -> bool:
    """Sweep until nothing moves or bounds have crossed, which may never settle; whether anything moved.

    Rows with the stamp 31 have moved before; those that move here have a later one in the end.
    """
    inner = min(length, CACHED_ROWS)
    tick = TICKS
    while True:
        moved = False
        for first in range(0, length, inner):
            last = first + inner
            if _latest(stamp, first, last) >= tick - TICKS:
                moved |= _sweep(tile[first * 2 * LANES : last * 2 * LANES], stamp[first:last], inner, 1, tick)
        moved |= _sweep(tile, stamp, length, CACHED_ROWS, tick + CACHED_VARIABLES)
        if not moved:
            return tick > TICKS
        tick += TICKS
        if tick % (TICKS * CHECKED_ROUNDS) == 0 and _has_crossed(tile, length):
            return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _latest(stamp: Stamps, first: int, last: int) -> int:
    latest = np.int32(-1)
    for i in range(first, last):
        latest = max(latest, stamp[i])
    return int(latest)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _sweep(tile: SuperCells, stamp: Stamps, length: int, stride: int, tick: int) -> bool:
    """One pass over the variables from that stride on; whether anything moved.

    A triple ends at the projections of {own + rest = sum} within its bounds, so it has no work left of its own.
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


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _has_crossed(tile: SuperCells, length: int) -> bool:
    """Whether a lower bound has passed its upper bound in the tile."""
    for row in range(length):
        for i in range(row * 2 * LANES, row * 2 * LANES + LANES):
            if tile[i] > tile[i + LANES]:
                return True
    return False
