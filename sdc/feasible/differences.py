"""Feasible tables as sparse differences from the true one: what proves that a cell can move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.fact import Fact
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table, freeze

Flags = npt.NDArray[np.bool_]
MAX_LISTED = 20  # variables: a flag for each of 2^20 sub-tables is 1 MB, and grows twofold with each


@dataclass(frozen=True, eq=False)
class Differences:
    """Several differences z; each claims that the true table plus z is feasible.

    start    (differences + 1,) int64; difference d has the entries start[d]:start[d + 1]
    cells    (entries, axes) uint16 codes, each cell once in a difference
    changes  (entries,) int64, not zero

    Whether a claim is true is for `feasible` to say, in integers.
    """

    start: Counts
    cells: Codes
    changes: Counts

    def __post_init__(self) -> None:
        freeze(self, "start", "cells", "changes")

    def __len__(self) -> int:
        return len(self.start) - 1

    @staticmethod
    def none(axes: int) -> Differences:
        """No difference at all, of tables with that many axes."""
        return Differences(np.zeros(1, np.int64), np.zeros((0, axes), np.uint16), np.zeros(0, np.int64))

    @staticmethod
    def summed(number: int, of: npt.NDArray[np.integer], cells: Codes, changes: Counts, schema: Schema) -> Differences:
        """`number` differences from changes of which several may fall on one cell.

        of, cells, changes  (n,) whose each change is, (n, axes) codes, (n,) int64 whose sums do not wrap
        """
        # whose it is comes first in the key, so that equal cells of different differences stay apart and come out in
        # order
        space = KeySpace((max(1, number), *schema.keys.sizes))
        first, group = space.distinct(np.concatenate([of[:, None], cells], axis=1))
        total = np.zeros(len(first), np.int64)
        np.add.at(total, group, changes)
        # moves often undo each other at a cell; what is left out is not there
        kept = total != 0
        start = np.concatenate([[0], np.cumsum(np.bincount(of[first][kept], minlength=number))])
        return Differences(start, cells[first][kept], total[kept])

    @staticmethod
    def between(table: Table, dense: Sequence[Counts]) -> Differences:
        """Dense tables, (cells,) each in C order, less the true one; what does not differ is left out."""
        if not dense:
            return Differences.none(len(table.schema.axes))
        # each once, in order: a search often comes back to the same table for several cells. `np.unique` of rows takes
        # half a second where they have 2^16 cells, as it makes a field of each
        truth = table.dense.reshape(-1)
        each: dict[bytes, Counts] = {one.tobytes(): one - truth for one in dense}
        in_order: list[Counts] = sorted(each.values(), key=lambda row: row.tolist())
        changes = np.stack(in_order)
        of, cell = np.nonzero(changes)
        start = np.searchsorted(of, np.arange(len(changes) + 1))
        return Differences(start, table.schema.keys.unpack(cell), changes[of, cell])

    @staticmethod
    def concatenated(parts: Sequence[Differences]) -> Differences:
        """All of them, one part after the other; ValueError where there is no part."""
        ends = np.cumsum([0, *(len(part.changes) for part in parts)])
        start = [part.start[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return Differences(
            np.concatenate([[0], *start]),
            np.concatenate([part.cells for part in parts]),
            np.concatenate([part.changes for part in parts]),
        )

    def rows(self, kept: Flags) -> Differences:
        """The differences for which the (differences,) flags say so."""
        entries = kept[self.of]
        start = np.concatenate([[0], np.cumsum(np.diff(self.start)[kept])])
        return Differences(start, self.cells[entries], self.changes[entries])

    @cached_property
    def of(self) -> Counts:
        """(entries,) the difference each entry belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    def varying(self, schema: Schema) -> npt.NDArray[np.int64]:
        """(differences,) bit sets of the variables whose code is not the same in all entries; kept for next time."""
        if self._varying and self._varying[0][0] == schema:
            return self._varying[0][1]
        sets = np.zeros(len(self), np.int64)
        if len(self.changes):
            # an empty difference at the end begins beyond the entries; it has none that would be compared
            first = self.cells[np.minimum(self.start[:-1], len(self.changes) - 1)][self.of]
            for v, column in enumerate(schema.levels.column_of):
                differs = self.cells[:, column] != first[:, column]
                if schema.variables[v].of is not None:
                    own = schema.levels.groups[v]
                    differs = own[self.cells[:, column]] != own[first[:, column]]
                sets |= (np.bincount(self.of, differs, minlength=len(self)) > 0).astype(np.int64) << v
        self._varying[:] = [(schema, sets)]
        return sets

    @cached_property
    def _varying(self) -> list[tuple[Schema, npt.NDArray[np.int64]]]:
        return []

    def feasible(self, table: Table, knowledge: Knowledge) -> Flags:
        """(differences,) whether the table plus the difference is feasible under this knowledge.

        All in integers: no count below zero, none in an impossible cell, every released marginal as it is, and the
        counts of every other fact within what it says. Codes beyond the schema are for no cell; changes by more records
        than there are could wrap around to 0.
        """
        knowledge.require_counts_alone()
        beyond = (self.cells >= table.schema.keys.sizes).any(axis=1)
        inside: Flags = np.bincount(self.of[beyond], minlength=len(self)) == 0
        if not inside.all():
            inside[inside] = self.rows(inside).feasible(table, knowledge)
            return inside
        # a change near 2^63 wraps to a negative count, which is refused like one
        counts = table.count_at(self.cells) + self.changes
        wrong = (counts < 0) | (counts > table.total) | (knowledge.impossible(self.cells) & (counts != 0))
        # each check is needed: a cell given twice hides a count below zero, and large changes wrap around to a sum of 0
        once = np.bincount(self.of[wrong], minlength=len(self)) == 0
        once &= np.bincount(self.of, self.changes.clip(0), minlength=len(self)) <= table.total
        good: Flags = once & self._distinct(table.schema) & self.preserve(knowledge)
        for fact in knowledge.facts:
            good &= self.agree(fact, table)
        return good

    def spare(self, knowledge: Knowledge) -> Flags:
        """(differences,) whether none gives a record to an impossible cell, of a table that has none there."""
        none: Flags = np.bincount(self.of[knowledge.impossible(self.cells)], minlength=len(self)) == 0
        return none

    def agree(self, fact: Fact, table: Table) -> Flags:
        """(differences,) whether every count of the fact stays within what it states, from those of the table.

        Sums of changes could wrap, as for `preserve`.
        """
        schema = table.schema
        held = np.flatnonzero(fact.holds(self.cells, schema))
        of, cells = self.of[held], self.cells[held]
        space = schema.space(st.members(schema.levels.finest(fact.view)))
        columns = np.concatenate([of[:, None], schema.marginal_cells(cells, fact.view)], axis=1)
        first, group = KeySpace((max(1, len(self)), *space.sizes)).distinct(columns)
        sums = np.zeros(len(first), np.int64)
        np.add.at(sums, group, self.changes[held])
        moved = np.flatnonzero(sums)
        low, high = fact.room(cells[first[moved]], table)
        good = np.ones(len(self), np.bool_)
        good[of[first[moved[(sums[moved] < low) | (sums[moved] > high)]]]] = False
        return good

    def preserve(self, knowledge: Knowledge, known: Release | None = None) -> Flags:
        """(differences,) whether every marginal released is unchanged; those of `known` are so already.

        Sums of changes could wrap: only for differences that `feasible` admits is this an answer.
        """
        # here, because Numba takes 0.25 s to import, which commands that check nothing need not wait for
        from sdc.feasible.difference_kernel import preserved

        release, schema = knowledge.release, knowledge.schema
        members = [st.members(schema.levels.finest(element)) for element in release.frontier]
        return preserved(
            self.start.copy(),
            schema.columns(self.cells).astype(np.int64, order="C"),
            self.changes.copy(),
            self.varying(schema).copy(),
            np.array(release.frontier, np.int64),
            np.array([v for element in members for v in element], np.int64),
            np.cumsum([0, *map(len, members)]),
            _public(release, known),
        )

    def at(self, rows: npt.NDArray[np.int64]) -> Differences:
        """The differences with these numbers, ascending."""
        lengths = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.arange(start[-1]) + np.repeat(self.start[rows] - start[:-1], lengths)
        return Differences(start, self.cells[entries], self.changes[entries])

    def _distinct(self, schema: Schema) -> Flags:
        """(differences,) whether no cell occurs twice, which would hide a count below zero."""
        columns = np.concatenate([self.of[:, None], self.cells], axis=1)
        ids = np.sort(KeySpace((max(1, len(self)), *schema.keys.sizes)).numbers(columns))
        # one sort of all says mostly that all is well; only where some cell is twice is it asked whose
        if not (ids[1:] == ids[:-1]).any():
            return np.ones(len(self), np.bool_)
        good = np.ones(len(self), np.bool_)
        for d, (cells, _) in enumerate(self):
            good[d] = len(np.unique(cells, axis=0)) == len(cells)
        return good

    def __iter__(self) -> Iterator[tuple[Codes, Counts]]:
        """The (cells, changes) of one difference after another."""
        for begin, end in zip(self.start[:-1], self.start[1:], strict=True):
            yield self.cells[begin:end], self.changes[begin:end]


def extremes(rows: npt.NDArray[np.int64], changes: Counts, number: int) -> npt.NDArray[np.int64]:
    """(number, 2) the smallest and the largest change of each row, no change being one of them."""
    ends = np.zeros((number, 2), np.int64)
    np.minimum.at(ends[:, 0], rows, changes)
    np.maximum.at(ends[:, 1], rows, changes)
    return ends


def _public(release: Release, known: Release | None) -> Flags:
    """(2^variables,) whether a set's marginal is known to stay; none where nothing is, or the sets are too many."""
    variables = max(release.variables, known.variables if known else 0).bit_length()
    return known.listed(variables) if known and variables <= MAX_LISTED else np.zeros(0, np.bool_)
