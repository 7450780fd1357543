"""Rows: the cells of a table, or of a part of it, with some variables summed out; what widths are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError
from sdc.model.keys import KeySpace
from sdc.model.schema import Schema
from sdc.model.table import Cells, Codes, Counts

# above any count, which is at most 2^53, and one bit, which the kernels test
FAR = 1 << 60  # `least`, `spare` and `both` of a row without an at-risk cell
CELLS_PER_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class AtRiskRows:
    """Cells that agree on the variables that are left, with what their at-risk cells have of those summed out.

    variables  those that are left, of one axis a coarser one before those that tell it
    before     of each the place of the last one before it of the same axis, -1 where there is none
    columns    (variables, rows) uint16, their codes
    numbers    (4, rows) int64: the count, and over the at-risk cells the smallest M, D and M + D, where M is
               the smallest one-way count of the axes summed out and D the sum of N - one-way count; of an axis of which
               levels are left, that of the last of these takes the place of N
    one_way    of each variable left its counts in the whole table
    total      N, the records of the whole table
    """

    variables: tuple[int, ...]
    before: tuple[int, ...]
    columns: Codes
    numbers: Counts
    one_way: list[Counts]
    total: int

    def __len__(self) -> int:
        return len(self.numbers[0])

    @property
    def at_risk(self) -> npt.NDArray[np.bool_]:
        """(rows,) which of them have an at-risk cell."""
        at_risk: npt.NDArray[np.bool_] = self.numbers[2] < FAR
        return at_risk

    @property
    def finer(self) -> npt.NDArray[np.uint64]:
        """(variables,) bit sets of those after each of the same axis: with one of them it is not decided upon."""
        found = [0] * len(self.variables)
        for place, before in enumerate(self.before):
            while before >= 0:
                found[before] |= 1 << place
                before = self.before[before]
        return np.array(found, np.uint64)

    @property
    def closed_sets(self) -> int:
        """How many sub-tables there are: of each axis none of its variables, or one."""
        of_axis: dict[int, int] = {}
        for place, before in enumerate(self.before):
            first = place
            while before >= 0:
                first, before = before, self.before[before]
            of_axis[first] = of_axis.get(first, 1) + 1
        return prod(of_axis.values())

    @cached_property
    def sizes(self) -> Counts:
        """(variables,) numbers of categories."""
        return np.array([len(counts) for counts in self.one_way], np.int64)

    @cached_property
    def ways(self) -> Counts:
        """(variables, categories) one-way counts, filled up with 0."""
        padded = np.zeros((len(self.variables), max(map(len, self.one_way), default=1)), np.int64)
        for row, counts in zip(padded, self.one_way, strict=True):
            row[: len(counts)] = counts
        return padded

    @cached_property
    def nearest(self) -> tuple[Counts, Counts]:
        """(variables + 1,) each: smallest one-way count, and smallest N - one-way count, at the at-risk cells.

        Of each variable left, and last of those summed out together; the count before it of its axis takes the place
        of N. There must be such a row.
        """
        lowest, nearest = [], []
        for codes, counts, before in zip(self.columns, self.one_way, self.before, strict=True):
            # at categories that an at-risk row has; others say nothing of its width
            seen = counts[np.bincount(codes[self.at_risk], minlength=len(counts)) > 0]
            lowest.append(seen.min())
            if before < 0:
                nearest.append(self.total - seen.max())
            else:
                whole = self.one_way[before][self.columns[before][self.at_risk]]
                nearest.append((whole - counts[codes[self.at_risk]]).min())
        smallest = self.numbers[1:3, self.at_risk].min(axis=1)
        return np.array([*lowest, smallest[0]], np.int64), np.array([*nearest, smallest[1]], np.int64)

    def merged(self) -> AtRiskRows:
        """Rows of the same codes as one, ascending by their codes."""
        ids = KeySpace(tuple(map(len, self.one_way))).numbers(self.columns.T)
        # ids are ordered as the codes are, so that the rows come out ascending, as the trie wants them
        order = np.argsort(ids, kind="stable")
        begin = np.flatnonzero(np.diff(ids[order], prepend=-1))
        numbers = np.empty((4, len(begin)), np.int64)
        np.add.reduceat(self.numbers[0, order], begin, out=numbers[0])
        for mine, out in zip(self.numbers[1:], numbers[1:], strict=True):
            np.minimum.reduceat(mine[order], begin, out=out)
        columns = np.ascontiguousarray(self.columns[:, order[begin]])
        return replace(self, columns=columns, numbers=numbers)


def rows_of(
    table: Cells, small_count: int, variables: tuple[int, ...], taken: tuple[int, ...] = (), low: int = 0, high: int = 0
) -> AtRiskRows:
    """The rows of these variables, chunk by chunk; where some are `taken` of the cells whose key of them is in a range.

    The keys run from `low` to below `high`; see `keys_of`.
    """
    one_way = ways_of(table)
    kept: list[AtRiskRows] = []
    for codes, counts in _small_chunks(table, taken, low, high):
        if taken:
            key = keys_of(table.schema, taken, codes)
            wanted = (key >= low) & (key < high)
            codes, counts = codes[wanted], counts[wanted]
        kept.append(_chunk(table, small_count, variables, codes, counts, one_way))
        # merged whenever the chunks that wait outweigh what is merged already: memory stays within twice the result
        if len(kept) > 1 and sum(map(len, kept[1:])) > max(len(kept[0]), CELLS_PER_CHUNK):
            kept = [_together(kept)]
    return _together(kept)


def _small_chunks(table: Cells, taken: tuple[int, ...], low: int, high: int) -> Iterator[tuple[Codes, Counts]]:
    """With all cells whose key is in the range: a key may begin with the first axis, by which cells are ordered."""
    axis = table.schema.axes[0]
    first, last = 0, table.schema.sizes[axis] - 1
    if taken[:1] == (axis,):
        step = prod(table.schema.sizes[v] for v in taken[1:])
        first, last = low // step, (high - 1) // step
    for codes, counts in table.chunks_between(first, last):
        for begin in range(0, len(counts), CELLS_PER_CHUNK):
            yield codes[begin : begin + CELLS_PER_CHUNK], counts[begin : begin + CELLS_PER_CHUNK]


def keys_of(schema: Schema, variables: tuple[int, ...], codes: Codes) -> npt.NDArray[np.int64]:
    """One number for what each cell has of these variables; InputError where they have 2^62 cells or more."""
    return key_space(schema, variables).pack(schema.columns(codes, variables))


def key_space(schema: Schema, variables: tuple[int, ...]) -> KeySpace:
    """The cells of these variables; InputError as `keys_of`."""
    space = schema.space(variables)
    if not space.fits:
        raise InputError(
            f"partitions by {len(variables)} variables have {space.cells} keys; allow more memory for a worker"
        )
    return space


@lru_cache(maxsize=2)
def ways_of(table: Cells) -> list[Counts]:
    """(categories,) one-way counts of each variable; kept for the units of the same process that follow.

    An unknown one-way sub-table is not published, so that it bounds no count: each category has all records.
    """
    closed = table.schema.levels.closed
    return [np.full_like(n, table.total) if table.hides(closed(1 << v)) else n for v, n in enumerate(table.one_way())]


def _chunk(
    table: Cells, small_count: int, variables: tuple[int, ...], codes: Codes, counts: Counts, one_way: list[Counts]
) -> AtRiskRows:
    schema, numbers = table.schema, np.empty((4, len(counts)), np.int64)
    numbers[0], numbers[1], numbers[2] = counts, FAR, 0
    if any(table.hides(schema.levels.closed(1 << axis)) for axis in schema.axes):
        numbers[2] = table.total  # records may move along an axis of which nothing is published: lower bounds are 0
    columns = np.ascontiguousarray(schema.columns(codes, variables).T)
    last = {schema.levels.axis_of[v]: place for place, v in enumerate(variables)}
    for axis, own in zip(schema.axes, codes.T, strict=True):
        place = last.get(axis)
        if place is not None and variables[place] == axis:
            continue
        # at most 63 terms of at most 2^53 each: D stays below FAR, and M + D is cut to it
        at = one_way[axis][own]
        np.minimum(numbers[1], at, out=numbers[1])
        numbers[2] += (table.total if place is None else one_way[variables[place]][columns[place]]) - at
    numbers[1:3, table.least_of(codes, counts) > small_count] = FAR
    numbers[3] = np.minimum(numbers[1] + numbers[2], FAR)
    return AtRiskRows(
        variables, _before(schema, variables), columns, numbers, [one_way[v] for v in variables], table.total
    )


def _before(schema: Schema, variables: Sequence[int]) -> tuple[int, ...]:
    """Of each the place of the last one before it of the same axis, -1 where there is none."""
    seen: dict[int, int] = {}
    found = []
    for place, v in enumerate(variables):
        found.append(seen.get(schema.levels.axis_of[v], -1))
        seen[schema.levels.axis_of[v]] = place
    return tuple(found)


def _together(pieces: list[AtRiskRows]) -> AtRiskRows:
    """One Rows of several; where variables are summed out they are merged."""
    first = pieces[0]
    columns = np.concatenate([piece.columns for piece in pieces], axis=1)
    numbers = np.concatenate([piece.numbers for piece in pieces], axis=1)
    return replace(first, columns=columns, numbers=numbers).merged()
