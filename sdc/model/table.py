"""Table: a sparse table of counts, one row for each non-zero cell."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.documents import listed
from sdc.model.errors import InputError, many
from sdc.model.keys import KeyIndex, Keys
from sdc.model.named import Named, named_cells
from sdc.model.schema import Schema
from sdc.model.structural_zeros import MOST_DENSE, Pattern
from sdc.model.subtable import SubTable

Counts: TypeAlias = Annotated[npt.NDArray[np.int64], listed(list[int], np.int64, -1)]
Codes = npt.NDArray[np.uint16]

MAX_TOTAL = 1 << 53  # a sum of counts is exact in a double too, and hundreds of such sums fit int64
CELLS_PER_CHUNK = 1 << 20
MOST_KEYS = 1 << 24  # of a table whose keys are cached, 128 MiB
CELLS_EACH = 16  # cells of a table for each wanted cell: with fewer a pass is as fast
CELLS_PER_PARTITION = 250_000  # non-zero cells; a larger table is cut into partitions


def partitions_of(cells: int) -> int:
    """The default number of partitions of a table with so many non-zero cells."""
    return max(1, -(-cells // CELLS_PER_PARTITION))


def partition_edges(cells: int, partitions: int) -> list[int]:
    """The first row of each partition, and the number of cells: nearly equal ranges of rows."""
    return [cells * number // partitions for number in range(partitions + 1)]


class Cells(ABC):
    """The non-zero cells of a table and their counts, in chunks: in memory or read from files."""

    schema: Schema

    @abstractmethod
    def __len__(self) -> int:
        """Number of non-zero cells."""

    @property
    @abstractmethod
    def total(self) -> int:
        """N, the number of records."""

    @abstractmethod
    def chunks(self, cells: int = 0) -> Iterator[tuple[Codes, Counts]]:
        """(n, axes) codes and (n,) counts, in chunks of 2^20 or `cells` cells."""

    def chunks_between(self, first: int, last: int) -> Iterator[tuple[Codes, Counts]]:
        """Chunks with all cells whose code of the first axis is from `first` to `last`, and possibly others."""
        return self.chunks()

    def codes_of(self, variables: Sequence[int]) -> Iterator[Codes]:
        """(n, variables) codes of the cells of each chunk."""
        return (self.schema.columns(codes, variables) for codes, _ in self.chunks())

    def hides(self, subtable: SubTable) -> bool:
        """Whether some count of a sub-table is unknown, because counts of the table are missing."""
        return False

    def least_of(self, codes: Codes, counts: Counts) -> Counts:
        """(n,) the smallest positive count that each cell of a chunk may have: its count, unless that is missing."""
        return counts

    def one_way(self) -> list[Counts]:
        """(categories,) int64 counts of records of each variable."""
        return self._one_way

    @cached_property
    def _one_way(self) -> list[Counts]:
        axes = {axis: np.zeros(self.schema.sizes[axis], np.int64) for axis in self.schema.axes}
        for codes, counts in self.chunks():
            for column, known in zip(codes.T, axes.values(), strict=True):
                known += _sum_by(column, counts, len(known))
        return [
            axes[axis] if v == axis else _sum_by(self.schema.levels.groups[v], axes[axis], self.schema.sizes[v])
            for v, axis in enumerate(self.schema.levels.axis_of)
        ]


@dataclass(frozen=True, eq=False)
class MissingCounts:
    """What is unknown of a table with missing counts, whatever these are.

    least    (cells,) int64, positive: the smallest positive count that each cell may have
    unknown  the minimal sub-tables, closed, of which some count is unknown; none that contains one may be published
    """

    least: Counts
    unknown: tuple[SubTable, ...]

    def __post_init__(self) -> None:
        freeze(self, "least")

    def hides(self, subtable: SubTable) -> bool:
        """Whether some count of a sub-table is unknown."""
        return any(st.is_within(one, subtable) for one in self.unknown)


@dataclass(frozen=True, eq=False, repr=False)
class Table(Cells, Named):
    """Counts of the non-zero cells, sorted by their codes, first axis slowest.

    codes    (cells, axes) uint16, read-only: positions of the categories in the schema; those of levels follow
    counts   (cells,) int64, read-only, positive, with a sum of at most 2^53
    missing  what is unknown if counts are missing: then the table is one of those that agree with what is known, and
             has each cell that may have records, with 0 where this one has none

    Any cell space is allowed, beyond 2^64 too: no number stands for a cell. `Knowledge` has what is public of it.

    Examples
    --------
    >>> sdc.read_table("czech_auto_workers.csv").marginal(["A", "C"])
    Table(2 variables, 4 non-zero cells, 1841 records)
    """

    schema: Schema
    codes: Codes
    counts: Counts
    missing: MissingCounts | None = None

    def __post_init__(self) -> None:
        freeze(self, "codes", "counts")

    @staticmethod
    def of(schema: Schema, codes: npt.NDArray[np.integer], weights: npt.NDArray[np.integer] | None = None) -> Table:
        """The table of the given records, or of counted cells with `weights`; zeros are dropped.

        codes    (n, axes) integers, one row for each record or counted cell; equal rows are one cell
        weights  (n,) records of each row, 1 by default

        The order of rows has no effect. InputError for a negative weight, an invalid code, or a total above 2^53.
        """
        given, sizes = np.asarray(codes).reshape(-1, len(schema.axes)), schema.keys.sizes
        if len(given) and (given.min() < 0 or (given.max(axis=0) >= sizes).any()):
            raise InputError(f"a cell has a code outside the categories; the variables have {sizes} of them")
        # after the check: the cast would wrap silently
        codes = given.astype(np.uint16, copy=False)
        weights = np.ones(len(codes), np.int64) if weights is None else np.asarray(weights, np.int64)
        if len(weights) and weights.min() < 0:
            # first in floating point, which cannot wrap: an overflowing integer sum would look small
            raise InputError(
                f"{many(int((weights < 0).sum()), 'cell')} with a count below 0; correct the counts",
                f"a cell has the count {weights.min()}",
            )
        if weights.sum(dtype=np.float64) > 2 * MAX_TOTAL or int(weights.sum()) > MAX_TOTAL:
            raise InputError(f"the counts sum to more than {MAX_TOTAL} (2^53); divide the table or check its counts")
        if not weights.all():
            codes, weights = codes[weights > 0], weights[weights > 0]
        first, group = schema.keys.distinct(codes)
        return Table(schema, np.ascontiguousarray(codes[first]), _sum_by(group, weights, len(first)))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def headline(self) -> str:
        return f"Table({len(self.schema)} variables, {len(self)} non-zero cells, {self.total} records)"

    @property
    def names(self) -> Schema:
        return self.schema

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The non-zero cells by names, levels included, and their counts."""
        return {**named_cells(self.all_codes, schema.flat), "count": self.counts.tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def total(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over schema, codes and counts, and what is unknown of them."""
        # little-endian on every machine, so that digests are the same
        sha = hashlib.sha256(repr(self.schema).encode())
        sha.update(np.ascontiguousarray(self.codes, "<u2").reshape(-1).data)
        sha.update(np.ascontiguousarray(self.counts, "<i8").data)
        if self.missing is not None:
            sha.update(np.ascontiguousarray(self.missing.least, "<i8").data)
            sha.update(repr(self.missing.unknown).encode())
        return sha.hexdigest()

    @cached_property
    def unmet(self) -> Pattern:
        """By axis, the codes of categories without records; axes without such are left out."""
        pairs = zip(self.schema.axes, self.codes.T, strict=True)
        found = ((v, np.flatnonzero(np.bincount(codes, minlength=self.schema.sizes[v]) == 0)) for v, codes in pairs)
        return tuple((v, tuple(codes.tolist())) for v, codes in found if len(codes))

    @property
    def dense(self) -> Counts:
        """(categories of each axis) counts of all cells; InputError above 2^26 cells."""
        if self.schema.cells > MOST_DENSE:
            raise InputError(f"the table has {self.schema.cells} cells, more than {MOST_DENSE}; use fewer variables")
        dense = np.zeros(self.schema.keys.sizes, np.int64)
        dense[tuple(self.codes.T)] = self.counts
        return dense

    @cached_property
    def all_codes(self) -> Codes:
        """(cells, variables) codes, levels included."""
        return self.schema.columns(self.codes)

    @cached_property
    def flat(self) -> Table:
        """The table in which every level is its own variable."""
        return (
            self if self.schema.levels.is_flat else Table(self.schema.flat, self.all_codes, self.counts, self.missing)
        )

    def at_risk(self, small_count: int) -> npt.NDArray[np.int64]:
        """(n,) int64 rows of the at-risk cells, ascending: 0 < count <= small_count, or a missing count that may be."""
        return np.flatnonzero((self.counts if self.missing is None else self.missing.least) <= small_count)

    def hides(self, subtable: SubTable) -> bool:
        """See `Cells.hides`."""
        return self.missing is not None and self.missing.hides(subtable)

    def least_of(self, codes: Codes, counts: Counts) -> Counts:
        """See `Cells.least_of`."""
        return counts if self.missing is None else self.missing.least[self.schema.keys.matching(self.codes, codes)]

    def marginal(self, subtable: SubTable | str | Sequence[str]) -> Table:
        """n_T: the marginal of a sub-table T, the other variables summed out.

        T is `age*sex`, a list of variables, or a closed sub-table with a variable. ReleaseError for other values.
        """
        chosen = st.subtable_of(subtable, self.schema)
        schema, parts = self.schema.restrict(st.members(chosen)), []
        for codes, counts in self.chunks():
            parts.append(Table.of(schema, self.schema.marginal_cells(codes, chosen), counts))
            # summed whenever the waiting parts outweigh the sum: memory stays near the result's, time near one sort
            if sum(map(len, parts[1:])) > max(CELLS_PER_CHUNK, len(parts[0])):
                parts = [_summed(schema, parts)]
        return _summed(schema, parts)

    def least_count(self, subtable: SubTable) -> int:
        """The smallest non-zero count of a marginal, in records; 0 if there is none. Cached.

        The sub-table is closed; without variables it has the total only.
        """
        if subtable not in self._least:
            counts = self.marginal(subtable).counts if subtable else self.counts.sum(keepdims=True)
            self._least[subtable] = int(counts.min(initial=self.total))
        return self._least[subtable]

    @cached_property
    def _least(self) -> dict[SubTable, int]:
        return {}

    def marginal_at(self, subtable: SubTable, cells: npt.NDArray[np.integer]) -> Counts:
        """(n,) int64 n_T(i_T), in records, for each of (n, axes) cells; 0 without records.

        For any cell space: one pass over the table, with a search among the n cells.
        """
        chosen = st.members(self.schema.levels.finest(subtable))
        wanted = KeyIndex(self.schema.space(chosen), self.schema.columns(np.asarray(cells, np.uint16), chosen))
        # the last slot collects unwanted cells
        sums = np.zeros(wanted.groups + 1, np.int64)
        # only the wanted cells are sorted, and each chunk is looked up among them: the table may be far larger
        for codes, counts in self.chunks(len(cells)):
            place = wanted.place(self.schema.columns(codes, chosen))
            sums += _sum_by(place, counts, wanted.groups + 1)
        return sums[wanted.own]

    def chunks(self, cells: int = 0) -> Iterator[tuple[Codes, Counts]]:
        """(n, axes) codes and (n,) counts, in chunks of 2^20 or `cells` cells; memory maps are not copied whole."""
        cells = max(cells, CELLS_PER_CHUNK)
        for begin in range(0, max(1, len(self)), cells):
            yield self.codes[begin : begin + cells], self.counts[begin : begin + cells]

    def count_at(self, cells: npt.NDArray[np.integer]) -> Counts:
        """(n,) int64 count of each of (n, axes) cells, in records; for few cells without a pass over the table."""
        if not (self.schema.keys.fits and max(1, CELLS_EACH * len(cells)) <= len(self) <= MOST_KEYS):
            return self.marginal_at(st.full(len(self.schema)), cells)
        keys, counts = self._by_key
        wanted = self.schema.keys.pack(np.asarray(cells, np.uint16))
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, counts[place], 0)

    @cached_property
    def _by_key(self) -> tuple[Keys, Counts]:
        """Ascending keys of the cells, and their counts; searches look up few cells thousands of times."""
        keys = self.schema.keys.pack(self.codes)
        if (np.diff(keys) > 0).all():
            return keys, self.counts
        order = np.argsort(keys)  # if levels are variables of their own
        return keys[order], self.counts[order]


def missing_words(table: Table) -> Iterator[str]:
    """What people should know of a table with missing counts, without a count."""
    if table.missing is not None:
        unknown = ", ".join(st.label(one, table.schema) for one in table.missing.unknown)
        yield (
            f"counts are missing, and so nothing that contains {unknown} can be published; each cell that may have a "
            "small count is at risk, and what is decided holds whatever the missing counts are"
        )


def _summed(schema: Schema, parts: list[Table]) -> Table:
    if len(parts) == 1:
        return parts[0]
    return Table.of(
        schema, *(np.concatenate(arrays) for arrays in zip(*((t.codes, t.counts) for t in parts), strict=True))
    )


def _sum_by(group: npt.NDArray[np.integer], weights: npt.NDArray[np.integer], groups: int) -> Counts:
    """Sums of the weights by group; exact, because a total of at most 2^53 is exact in a double."""
    return np.bincount(group, weights, minlength=groups).astype(np.int64)


def freeze(value: object, *fields: str) -> None:
    """Make array fields of a frozen dataclass read-only views; the given arrays stay writable for their owner."""
    for field in fields:
        view = getattr(value, field).view()
        view.setflags(write=False)
        object.__setattr__(value, field, view)
