"""The shuttle on a table collapsed around one cell: {its own category, the rest} for every variable."""

from __future__ import annotations

from typing import Any, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from sdc.bounds.cell_marginals import as_cells, check_release
from sdc.bounds.coverage import essential, is_floating
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

MAX_VARIABLES = 15
LANES = 16
CACHED_ROWS = 81
CHECKED_ROUNDS = 16

SuperCells: TypeAlias = npt.NDArray[Any]


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Outer bounds of (n, variables) cells, one collapsed table each; inner is the count.

    Every feasible table collapses to a feasible one in which the cell survives, so the shuttle's
    bounds on the 3^K super-cells {own, rest, sum}^K contain the sharp ones, whatever the number of
    categories. K counts the variables that the release covers. Sharp for dichotomous tables wherever
    the shuttle is ([DKS] section 4). 0.05 to 0.2 s a cell and 40 MB for K = 13, three times that for
    each further variable; ReleaseError beyond K = 15.
    """
    check_release(release, table.schema)
    cells = as_cells(cells, table.schema)
    release = essential(release, table.schema)
    collapsed = _Collapse(table, release)
    outer = np.array([collapsed.around(cell) for cell in cells], np.int64).reshape(-1, 2)
    if is_floating(release, table.schema):
        outer[:, 0] = 0
    counts = table.count_at(cells)
    return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "collapse")


class _Collapse:
    """What the collapsed tables of all cells share: the covered variables and which super-cells are public."""

    def __init__(self, table: Table, release: Release) -> None:
        members = st.members(release.variables)
        if len(members) > MAX_VARIABLES:
            raise ReleaseError(
                f"the release covers {len(members)} variables, and collapse takes at most {MAX_VARIABLES} (3^K "
                "super-cells a cell); choose the method nested or cover fewer variables"
            )
        self.members = list(members)
        self.total = table.total
        self.counts = table.counts
        self.codes = np.ascontiguousarray(table.codes[:, self.members].T)
        # two counts are added before they are compared: below 2^30 that fits 32 bits
        self.dtype = np.int32 if table.total < 1 << 30 else np.int64
        self.public = _public_super_cells(release, self.members)
        self._state = _new_state(len(self.members), self.dtype)

    def around(self, cell: npt.NDArray[np.uint16]) -> tuple[int, int]:
        return propagate(self._values(cell), self.public, self.total, self._state)

    def _values(self, cell: npt.NDArray[np.uint16]) -> SuperCells:
        """True counts of the 3^K super-cells: one variable's {own, rest} becomes {own, rest, sum} at a time."""
        pattern = np.zeros(len(self.counts), np.int64)
        for k, v in enumerate(self.members):
            pattern |= (self.codes[k] != cell[v]).astype(np.int64) << k
        values: SuperCells = np.bincount(pattern, self.counts, minlength=1 << len(self.members)).astype(self.dtype)
        for k in range(len(self.members)):
            blocks = values.reshape(-1, 2, 3**k)
            values = np.concatenate([blocks, blocks[:, :1] + blocks[:, 1:]], axis=1).reshape(-1)
        return values


def _public_super_cells(release: Release, members: list[int]) -> npt.NDArray[np.bool_]:
    """(3^K,) whether the variables a super-cell does not sum out lie within a released sub-table."""
    public = np.zeros(1 << len(members), np.bool_)
    for element in release.frontier:
        public[_packed(element, members)] = True
    for k in range(len(members)):
        without, with_it = np.moveaxis(public.reshape(-1, 2, 1 << k), 1, 0)
        without |= with_it
    for k in range(len(members)):
        public = public.reshape(-1, 2, 3**k)[:, [1, 1, 0]].reshape(-1)
    return public


def _packed(element: SubTable, members: list[int]) -> int:
    return st.of(k for k, v in enumerate(members) if st.has(element, v))


def propagate(
    values: SuperCells, public: npt.NDArray[np.bool_], total: int, state: SuperCells | None = None
) -> tuple[int, int]:
    """Bounds of super-cell 0 at the fixed point of own + rest = sum, from the values that are public.

    Variable k has stride 3^k: own, rest, sum. The fixed point does not depend on the order. ReleaseError where a
    lower bound passes an upper one: no table agrees with the marginals.
    """
    variables = 0
    while 3**variables < len(values):
        variables += 1
    state = _new_state(variables, values.dtype) if state is None else state
    if not _settle(values, public, total, state, 3 ** (variables // 2)):
        raise ReleaseError("the released marginals contradict each other; make them from one table")
    return int(state[0, 0]), int(state[0, LANES])


def _new_state(variables: int, dtype: npt.DTypeLike) -> SuperCells:
    """Room for the bounds of all super-cells in tiles; used again for each cell, as new pages are dear."""
    columns = 3 ** (variables // 2)
    return np.zeros((-(-columns // LANES), 3**variables // columns * 2 * LANES), dtype)


# The 3^K super-cells are a matrix, rows by the high variables, columns by the low ones, stored as tiles of 16 columns.
# A tile's row is 16 lower bounds, then 16 upper bounds: the compiler can tell that three such rows do not overlap, and
# vectorises; with two arrays it gives up. High variables are treated in the stored tiles, low ones in tiles of 16
# matrix rows that are transposed for it. Each tile settles while it is in cache; three to eight rounds settle all.


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _settle(values: SuperCells, public: npt.NDArray[np.bool_], total: int, state: SuperCells, columns: int) -> bool:
    """Fill the state and narrow it to the fixed point; False on a contradiction."""
    rows = len(values) // columns
    _fill(values, public, total, state, columns)
    across = np.zeros(len(state) * LANES * 2 * LANES, values.dtype)
    waiting = np.ones(len(state), np.bool_)
    rounds = 0
    while True:
        moved = rounds == 0
        for t in range(len(state)):
            if waiting[t]:
                waiting[t] = False
                moved |= _settle_tile(state[t], rows)
        for first in range(0, rows if moved else 0, LANES):
            lanes = min(LANES, rows - first)
            _transpose(state, across, first, lanes)
            if _settle_tile(across[: columns * 2 * LANES], columns):
                _transpose_back(state, across, first, lanes, waiting)
        rounds += 1
        if not waiting.any() or rounds % CHECKED_ROUNDS == 0:
            crossed = False
            for t in range(len(state)):
                crossed |= _has_crossed(state[t], rows)
            if crossed or not waiting.any():
                return not crossed


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(values: SuperCells, public: npt.NDArray[np.bool_], total: int, state: SuperCells, columns: int) -> None:
    """Public super-cells have their values, the others [0, total]; lanes beyond the matrix stay 0."""
    integer = values.dtype.type
    unknown = integer(total)
    for row in range(len(values) // columns):
        for t in range(len(state)):
            at = row * 2 * LANES
            first, last = row * columns + t * LANES, row * columns + min(columns, (t + 1) * LANES)
            for place in range(first, last):
                low = values[place] if public[place] else integer(0)
                state[t, at + place - first] = low
                state[t, at + LANES + place - first] = low if public[place] else unknown


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _transpose(state: SuperCells, across: SuperCells, first: int, lanes: int) -> None:
    """Matrix rows from `first` on, out of the stored tiles into a tile with a lane a row."""
    for t in range(len(state)):
        for row in range(lanes):
            at = (first + row) * 2 * LANES
            for lane in range(LANES):
                place = (t * LANES + lane) * 2 * LANES + row
                across[place] = state[t, at + lane]
                across[place + LANES] = state[t, at + LANES + lane]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _transpose_back(
    state: SuperCells, across: SuperCells, first: int, lanes: int, waiting: npt.NDArray[np.bool_]
) -> None:
    """The tile back into its matrix rows; the stored tiles that differ have to settle again."""
    for t in range(len(state)):
        moved = state[t, 0] & 0
        for row in range(lanes):
            at = (first + row) * 2 * LANES
            for lane in range(LANES):
                place = (t * LANES + lane) * 2 * LANES + row
                moved |= (across[place] ^ state[t, at + lane]) | (across[place + LANES] ^ state[t, at + LANES + lane])
                state[t, at + lane] = across[place]
                state[t, at + LANES + lane] = across[place + LANES]
        waiting[t] |= moved != 0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _settle_tile(tile: SuperCells, length: int) -> bool:
    """Sweep until nothing moves or bounds have crossed, which may never settle; whether anything moved."""
    sweep = 0
    while True:
        moved = False
        inner = min(length, CACHED_ROWS)
        for block in range(0, length, inner):
            moved |= _sweep(tile[block * 2 * LANES : (block + inner) * 2 * LANES], inner, 1)
        moved |= _sweep(tile, length, CACHED_ROWS)
        if not moved:
            return sweep > 0
        sweep += 1
        if sweep % CHECKED_ROUNDS == 0 and _has_crossed(tile, length):
            return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _has_crossed(tile: SuperCells, length: int) -> bool:
    """Whether a lower bound has passed its upper bound in the tile."""
    for row in range(length):
        for i in range(row * 2 * LANES, row * 2 * LANES + LANES):
            if tile[i] > tile[i + LANES]:
                return True
    return False


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _sweep(tile: SuperCells, length: int, stride: int) -> bool:
    """One pass over the variables from that stride on; whether anything moved."""
    integer = tile.dtype.type  # numba adds two int32 to an int64, which would halve the lanes of a register
    moved = integer(0)
    while stride < length:
        step = stride * 2 * LANES
        for block in range(0, length * 2 * LANES, 3 * step):
            for row in range(block, block + step, 2 * LANES):
                own = tile[row : row + 2 * LANES]
                rest = tile[row + step : row + step + 2 * LANES]
                both = tile[row + 2 * step : row + 2 * step + 2 * LANES]
                for i in range(LANES):
                    al, au, bl, bu = own[i], own[LANES + i], rest[i], rest[LANES + i]
                    cl = max(both[i], integer(al + bl))
                    cu = min(both[LANES + i], integer(au + bu))
                    new_al, new_au = max(al, integer(cl - bu)), min(au, integer(cu - bl))
                    new_bl, new_bu = max(bl, integer(cl - new_au)), min(bu, integer(cu - new_al))
                    parts = (new_al ^ al) | (new_au ^ au) | (new_bl ^ bl) | (new_bu ^ bu)
                    moved = integer(moved | parts | (cl ^ both[i]) | (cu ^ both[LANES + i]))
                    own[i], own[LANES + i], rest[i], rest[LANES + i] = new_al, new_au, new_bl, new_bu
                    both[i], both[LANES + i] = cl, cu
        stride *= 3
    return bool(moved != 0)
