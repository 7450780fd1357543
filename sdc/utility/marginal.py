"""A marginal on its own, as it is published: the positive cells of one sub-table, without the full table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.marginal import check_within
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table, freeze

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
        """The marginal of a table, its grand total too; ReleaseError for a variable the table does not have."""
        check_within(subtable, table.schema)
        return _grouped(table.schema, subtable, table.codes[:, st.members(subtable)], table.counts)[0]

    @staticmethod
    def dense(schema: Schema, subtable: SubTable, counts: npt.ArrayLike) -> Marginal:
        """The marginal with these counts, an array with one axis a variable of the sub-table, ascending.

        InputError where its shape is not that of the sub-table, or a count is not an integer, is
        negative, or they sum to more than 2^53.
        """
        check_within(subtable, schema)
        given, name = np.asarray(counts), st.label(subtable, schema)
        sizes = tuple(schema.sizes[v] for v in st.members(subtable))
        if given.shape != sizes:
            raise InputError(f"the marginal {name} has the shape {given.shape}; its categories make it {sizes}")
        if given.dtype.kind not in "iu":
            raise InputError(f"the marginal {name} has counts of type {given.dtype}; give integers")
        # in floating point first, which cannot wrap, and then exactly: 2^53 + 1 is no double
        if given.min() < 0 or given.sum(dtype=np.float64) > 2 * MAX_TOTAL or int(given.sum()) > MAX_TOTAL:
            raise InputError(
                f"the marginal {name} has counts from {given.min()} to {given.max()}; they must not be negative "
                f"nor sum to more than {MAX_TOTAL} (2^53)"
            )
        codes = np.stack([*np.nonzero(given)], axis=1) if sizes else np.zeros((int(given > 0), 0))
        return Marginal(schema, subtable, codes.astype(np.uint16), given[given > 0].astype(np.int64).reshape(-1))

    def __len__(self) -> int:
        """Number of positive cells."""
        return len(self.counts)

    def summed(self, subtable: SubTable) -> Marginal:
        """The marginal of a sub-table within this one; KeyError for a variable that this one does not have."""
        return self.onto(subtable)[0]

    def onto(self, subtable: SubTable) -> tuple[Marginal, Rows]:
        """The marginal of a sub-table within this one, and (cells,) which of its cells each of these falls in."""
        if subtable == self.subtable:
            return self, np.arange(len(self))
        return _grouped(self.schema, subtable, self.codes[:, columns(subtable, self.subtable)], self.counts)

    def as_array(self, variables: Sequence[int]) -> Counts:
        """Its counts, zeros too, as an array with an axis for each of these variables, of size 1 for the others'."""
        sizes = tuple(self.schema.sizes[v] if st.has(self.subtable, v) else 1 for v in variables)
        space = self.schema.keys.keep(st.members(self.subtable))
        counts = np.zeros(space.cells, np.int64)
        counts[space.pack(self.codes)] = self.counts
        return counts.reshape(sizes)

    def rows(self, cells: Codes, variables: SubTable) -> Rows:
        """(n,) int64 which of its cells each of the (n, variables) cells falls in, -1 where its count is 0.

        KeyError where `variables` lacks one of its own.
        """
        keys = self.schema.keys.keep(st.members(self.subtable))
        return keys.matching(self.codes, cells[:, columns(self.subtable, variables)])

    def cell_label(self, row: int) -> str:
        """`A = no, B = yes` for one of its cells."""
        return _label(self.schema, self.subtable, self.codes[row])


@dataclass(frozen=True, eq=False)
class _Remembered(Marginal):
    """One that remembers what it was summed to."""

    def onto(self, subtable: SubTable) -> tuple[Marginal, Rows]:
        if subtable not in self._sums:
            self._sums[subtable] = super().onto(subtable)
        return self._sums[subtable]

    @cached_property
    def _sums(self) -> dict[SubTable, tuple[Marginal, Rows]]:
        return {}


class SharedMarginals:
    """Marginals of one table, of which many closed forms have some in common; those used last are kept.

    max_bytes  of memory, for the counts at the table's cells
    """

    def __init__(self, table: Table, max_bytes: int = MAX_BYTES) -> None:
        self._table = table
        self._kept = lru_cache(max(1, max_bytes // (8 * max(1, len(table)))))(self._found)

    def of(self, subtable: SubTable) -> Marginal:
        """That of a sub-table."""
        return self._kept(subtable)[0]

    def at(self, subtable: SubTable) -> Counts:
        """(n,) its counts at the table's cells."""
        return self._kept(subtable)[1]

    def _found(self, subtable: SubTable) -> tuple[Marginal, Counts]:
        table, own = self._table, st.members(subtable)
        found, rows = _grouped(table.schema, subtable, table.codes[:, own], table.counts)
        return _Remembered(found.schema, subtable, found.codes, found.counts), found.counts[rows]


def columns(subtable: SubTable, variables: SubTable) -> list[int]:
    """Where the sub-table's variables are among the columns of cells that have `variables`; KeyError where not all."""
    place = {v: column for column, v in enumerate(st.members(variables))}
    return [place[v] for v in st.members(subtable)]


def check_agreement(marginals: Sequence[Marginal]) -> None:
    """InputError where two marginals have different sums over what they share, or are of different schemas."""
    if any(marginal.schema != marginals[0].schema for marginal in marginals):
        raise InputError("the marginals have different schemas; give marginals of one table")
    subtables = [marginal.subtable for marginal in marginals]
    # by what pairs share: all that have it are held against the first of them, so that each marginal is summed once for
    # it
    for common in sorted({one & other for one, other in combinations(subtables, 2)}):
        first, *others = (m for m in marginals if st.is_within(common, m.subtable))
        expected = first.summed(common)
        for other in others:
            found = other.summed(common)
            if not (np.array_equal(found.codes, expected.codes) and np.array_equal(found.counts, expected.counts)):
                raise InputError(_contradiction(first, other, *_difference(expected, found)))


def _contradiction(one: Marginal, other: Marginal, cell: str, counts: tuple[int, int]) -> str:
    first, second = (st.label(m.subtable, m.schema) for m in (one, other))
    return (
        f"the marginals {first} and {second} contradict each other: at {cell} the first sums to {counts[0]} and the "
        f"second to {counts[1]}; give marginals of one table"
    )


def _difference(a: Marginal, b: Marginal) -> tuple[str, tuple[int, int]]:
    """The first cell in which two marginals of one sub-table differ, and its count in each."""
    # cells that one of them has and the other has not are differences too
    both = np.unique(np.concatenate([a.codes, b.codes]), axis=0) if a.subtable else np.zeros((1, 0), np.uint16)
    count_a, count_b = (_counts_at(m, both) for m in (a, b))
    row = int(np.flatnonzero(count_a != count_b)[0])
    return _label(a.schema, a.subtable, both[row]), (int(count_a[row]), int(count_b[row]))


def _counts_at(marginal: Marginal, cells: Codes) -> Counts:
    return np.append(marginal.counts, 0)[marginal.rows(cells, marginal.subtable)]


def _grouped(schema: Schema, subtable: SubTable, codes: Codes, counts: Counts) -> tuple[Marginal, Rows]:
    first, group = schema.keys.keep(st.members(subtable)).distinct(codes)
    # in doubles, and exact: the total is at most 2^53
    summed = np.bincount(group, counts, minlength=len(first)).astype(np.int64)
    return Marginal(schema, subtable, codes[first], summed), group


def _label(schema: Schema, subtable: SubTable, codes: npt.NDArray[np.uint16]) -> str:
    return schema.restrict(st.members(subtable)).written(codes) if subtable else "the total"
