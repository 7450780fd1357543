"""Marginals of one table at fixed cells, each sub-table counted once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.recent import Recent
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_BYTES = 256 << 20
MAX_DENSE_CELLS = 1 << 20  # 8 MB of sums, cleared for each sub-table


class CellMarginals:
    """n_S(i_S) at the same cells for one sub-table S after another, cached.

    A search needs thousands of releases at the same at-risk cells, and their cliques repeat. At most `max_bytes` of
    results are cached, the least recently used go first. A new result takes one pass over the table's non-zero cells,
    2^20 at a time, and a search if the sub-table has more than 2^20 cells. Arrays are shared and read-only; an instance
    is for one thread. Raises InputError if a cell does not fit the table's schema.
    """

    def __init__(
        self,
        table: Table,
        cells: npt.NDArray[np.integer],
        *,
        counts: Counts | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.table = table
        checked = _checked(cells, table.schema)
        self._columns = columns_of(table.schema.columns(checked))
        self.cells: Codes = self._columns.T if table.schema.levels.is_flat else checked.astype(np.uint16)
        self.cells.setflags(write=False)
        self._table_columns = columns_of(table.all_codes)
        self.counts: Counts = _read_only(self.count(st.full(len(table.schema))) if counts is None else counts.view())
        self._cache = Recent[SubTable, Counts](max_bytes, lambda counts: counts.nbytes)
        self._excluded: tuple[StructuralZeros, npt.NDArray[np.bool_]] | None = None

    def __len__(self) -> int:
        return len(self.cells)

    def impossible(self, zeros: StructuralZeros) -> npt.NDArray[np.bool_]:
        """(n,) which cells the structural zeros exclude; the last result is cached."""
        if self._excluded is None or self._excluded[0] != zeros:
            self._excluded = zeros, zeros.contains(self.cells, self.table.schema)
        return self._excluded[1]

    def at(self, subtable: SubTable) -> Counts:
        """(n,) counts of the marginal at the cells; ReleaseError for an unknown variable."""
        return self._cache.get(subtable, lambda: self._counted(subtable))

    def _counted(self, subtable: SubTable) -> Counts:
        check_within(subtable, self.table.schema)
        is_full = subtable == st.full(len(self.table.schema))
        return self.counts if is_full else _read_only(self.count(subtable))

    def count(self, subtable: SubTable) -> Counts:
        """(n,) the counts without the cache; for sub-tables within the schema, see `check_within`."""
        # imported here: Numba takes 0.25 s, which commands without counts need not spend
        from sdc.model.marginal_kernel import add_counts, sums_at

        schema = self.table.schema
        finest, space = st.members(schema.levels.finest(subtable)), st.cells(subtable, schema)
        if space > MAX_DENSE_CELLS:
            return self.table.marginal_at(subtable, self.cells)
        variables, sizes = np.array(finest, np.int64), np.array(schema.sizes)
        sums = np.zeros(space, np.int64)
        add_counts(sums, self._table_columns, self.table.counts, variables, sizes)
        found: Counts = sums_at(sums, self._columns, variables, sizes)
        return found


def columns_of(codes: npt.NDArray[np.integer]) -> Codes:
    """(variables, n) one row for each variable, the layout that kernels read fastest; copied only if needed."""
    columns = np.ascontiguousarray(codes.T, np.uint16)
    # numba compiles extra kernels for read-only arrays
    return columns if columns.flags.writeable else columns.copy()


def as_cells(cells: npt.NDArray[np.integer], schema: Schema) -> Codes:
    """A read-only copy of (n, axes) codes; InputError if a cell does not fit the schema."""
    # after the check: the cast would wrap silently
    copied = _checked(cells, schema).astype(np.uint16)
    copied.setflags(write=False)
    return copied


def _checked(cells: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.integer]:
    given, sizes = np.asarray(cells), schema.keys.sizes
    if given.ndim != 2 or given.shape[1] != len(sizes):
        raise InputError(f"cells have the shape {given.shape}; give one row a cell with {len(sizes)} codes")
    # by column: flags of all codes would take half as much memory as the codes
    for size, column in zip(sizes, given.T, strict=True):
        if (wrong := (column < 0) | (column >= size)).any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"cell {given[row].tolist()} is outside the table; its variables have {sizes} codes")
    return given


def check_within(subtable: SubTable, schema: Schema) -> None:
    """ReleaseError if the sub-table has an unknown variable."""
    beyond = [v for v in st.members(subtable) if v >= len(schema)]
    if beyond:
        raise ReleaseError(
            f"the release names variable number {beyond[0]}; the table has {len(schema)}, numbered from 0: "
            f"{', '.join(schema.names)}"
        )


def check_release(release: Release, schema: Schema) -> None:
    """ReleaseError if the release has an unknown variable."""
    check_within(release.variables, schema)


def _read_only(counts: Counts) -> Counts:
    counts.setflags(write=False)
    return counts
