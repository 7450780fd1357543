"""A marginal by itself, as published: the positive cells of one sub-table, without the full table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.marginal import check_within
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table, freeze

Rows: TypeAlias = npt.NDArray[np.int64]

MAX_BYTES = 256 << 20


@dataclass(frozen=True, eq=False)
class Marginal:
    """n_T for a sub-table T of a table with this schema.

    codes   (cells, dimension of T) uint16, read-only, sorted, each once
    counts  (cells,) int64, read-only, all positive
    """

    schema: Schema
    subtable: SubTable
    codes: Codes
    counts: Counts

    def __post_init__(self) -> None:
        freeze(self, "codes", "counts")

    @staticmethod
    def of(table: Table, subtable: SubTable) -> Marginal:
        """The marginal of a table, including its grand total; ReleaseError for an unknown variable."""
        check_within(subtable, table.schema)
        return _grouped(table.schema, subtable, table.codes[:, st.members(subtable)], table.counts)[0]

    def __len__(self) -> int:
        return len(self.counts)

    def summed(self, subtable: SubTable) -> Marginal:
        """The marginal of a sub-table within this one; KeyError for an unknown variable."""
        return self.onto(subtable)[0]

    def onto(self, subtable: SubTable) -> tuple[Marginal, Rows]:
        """The marginal of a sub-table within this one, and (cells,) the index of its cell for each of these."""
        if subtable == self.subtable:
            return self, np.arange(len(self))
        return _grouped(self.schema, subtable, self.codes[:, columns(subtable, self.subtable)], self.counts)

    def as_array(self, variables: Sequence[int]) -> Counts:
        """The counts with zeros as an array with an axis for each of these variables, of size 1 for others."""
        sizes = tuple(self.schema.sizes[v] if st.has(self.subtable, v) else 1 for v in variables)
        space = self.schema.keys.restricted(st.members(self.subtable))
        counts = np.zeros(space.cells, np.int64)
        counts[space.pack(self.codes)] = self.counts
        return counts.reshape(sizes)

    def rows(self, cells: Codes, variables: SubTable) -> Rows:
        """(n,) int64 index of its cell for each of the (n, variables) cells, -1 for a count of 0.

        KeyError if `variables` lacks one of its own.
        """
        keys = self.schema.keys.restricted(st.members(self.subtable))
        return keys.matching(self.codes, cells[:, columns(self.subtable, variables)])

    def cell_label(self, row: int) -> str:
        """`A = no, B = yes` for one of its cells."""
        schema = self.schema.restrict(st.members(self.subtable))
        return schema.written(self.codes[row])


@dataclass(frozen=True, eq=False)
class _Remembered(Marginal):
    """A marginal that caches its sums."""

    def onto(self, subtable: SubTable) -> tuple[Marginal, Rows]:
        if subtable not in self._sums:
            self._sums[subtable] = super().onto(subtable)
        return self._sums[subtable]

    @cached_property
    def _sums(self) -> dict[SubTable, tuple[Marginal, Rows]]:
        return {}


class SharedMarginals:
    """Cached marginals of one table, which many closed forms share; the least recently used are dropped.

    max_bytes  of memory, for the counts at the table's cells
    """

    def __init__(self, table: Table, max_bytes: int = MAX_BYTES) -> None:
        self._table = table
        self._cached = lru_cache(max(1, max_bytes // (8 * max(1, len(table)))))(self._found)

    def of(self, subtable: SubTable) -> Marginal:
        return self._cached(subtable)[0]

    def at(self, subtable: SubTable) -> Counts:
        """(n,) its counts at the table's cells."""
        return self._cached(subtable)[1]

    def _found(self, subtable: SubTable) -> tuple[Marginal, Counts]:
        table, own = self._table, st.members(subtable)
        found, rows = _grouped(table.schema, subtable, table.codes[:, own], table.counts)
        return _Remembered(found.schema, subtable, found.codes, found.counts), found.counts[rows]


def columns(subtable: SubTable, variables: SubTable) -> list[int]:
    """Positions of the sub-table's variables among columns of cells with `variables`; KeyError for a missing one."""
    place = {v: column for column, v in enumerate(st.members(variables))}
    return [place[v] for v in st.members(subtable)]


def _grouped(schema: Schema, subtable: SubTable, codes: Codes, counts: Counts) -> tuple[Marginal, Rows]:
    first, group = schema.keys.restricted(st.members(subtable)).distinct(codes)
    # in doubles, and exact: the total is at most 2^53
    summed = np.bincount(group, counts, minlength=len(first)).astype(np.int64)
    return Marginal(schema, subtable, codes[first], summed), group
