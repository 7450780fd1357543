"""The state of a query space: which sub-tables are released, and what is known of all others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTable, SuppressedTables

MOST_LISTED = 14  # most variables for which the status of every sub-table is listed


class Status(IntEnum):
    """The status of a sub-table.

    DIRECT        released on request, or on the frontier of the first release
    INDIRECT      released within another one
    UNRELEASABLE  proven: with the released ones it would violate the criterion
    UNDECIDED     neither is proven by the search; it is not answered
    OPEN          not known to be unreleasable
    """

    DIRECT = 1
    INDIRECT = 2
    UNRELEASABLE = 3
    UNDECIDED = 4
    OPEN = 5

    @property
    def is_released(self) -> bool:
        return self <= Status.INDIRECT


@dataclass(frozen=True)
class State:
    """The public release and the knowledge on the other sub-tables.

    schema        of the full table
    released      R(t); its `frontier` is RF(t)
    direct        the requested sub-tables and the frontier of the first release, in order of release
    unreleasable  UF(t): minimal sub-tables proven to be unreleasable, with all that contain one
    undecided     minimal sub-tables without a proof either way, with all that contain one
    version       t, the number of releases after the first, suppressed tables included
    suppressed_tables  suppressed tables that are not released whole
    """

    schema: Schema
    released: Release
    direct: tuple[SubTable, ...]
    unreleasable: tuple[SubTable, ...] = ()
    undecided: tuple[SubTable, ...] = ()
    version: int = 0
    suppressed_tables: SuppressedTables = NO_SUPPRESSED_TABLES

    @staticmethod
    def first(schema: Schema, released: Release) -> State:
        """R(0): nothing is known of the unreleased sub-tables."""
        return State(schema, released, released.frontier)

    @property
    def named(self) -> SubTable:
        """The variables of public tables. Listed categories have a record: no others are listed."""
        return st.union([self.released.variables, *self.suppressed_tables.views])

    def status(self, subtable: SubTable) -> Status:
        """The status of a sub-table; the grand total is always public."""
        if subtable in self.released:
            is_direct = subtable in self.direct
            return Status.DIRECT if is_direct else Status.INDIRECT
        if st.containing_any(self.unreleasable)(subtable):
            return Status.UNRELEASABLE
        if st.containing_any(self.undecided)(subtable):
            return Status.UNDECIDED
        return Status.OPEN

    def releasing(self, subtable: SubTable) -> State:
        """R(t + 1) with all knowledge of R(t): unreleasable sub-tables stay so."""
        larger = self.released.add(subtable)
        return replace(
            self,
            released=larger,
            suppressed_tables=self.suppressed_tables.without(larger),
            direct=(*self.direct, subtable),
            undecided=tuple(s for s in self.undecided if not st.is_within(s, subtable)),
            version=self.version + 1,
        )

    def answering(self, part: SuppressedTable) -> State:
        """R(t + 1): R(t) and a suppressed table."""
        parts = self.suppressed_tables.then(SuppressedTables(self.released, (part,)))
        return replace(self, suppressed_tables=parts, version=self.version + 1)

    def part(self, subtable: SubTable) -> SuppressedTable | None:
        """The public suppressed table of a sub-table; None if there is none."""
        return next((part for part in self.suppressed_tables.tables if part.view == subtable), None)

    def knowing(self, unreleasable: Iterable[SubTable] = (), undecided: Iterable[SubTable] = ()) -> State:
        """The state with more unreleasable or undecided sub-tables."""
        proven = st.minimal([*self.unreleasable, *unreleasable])
        is_proven = st.containing_any(proven)
        left = [s for s in (*self.undecided, *undecided) if not is_proven(s) and s not in self.released]
        return replace(self, unreleasable=proven, undecided=st.minimal(left))

    def projection(self, subtable: SubTable) -> tuple[SubTable, ...]:
        """The largest released parts of a sub-table: its projection onto the released frontier."""
        return self.released.parts_of(subtable)

    @cached_property
    def statuses(self) -> npt.NDArray[np.uint8]:
        """(2^variables,) the status of each sub-table by number, 0 for numbers that are not closed sub-tables.

        For at most some 20 variables.
        """
        variables = len(self.schema)
        every, found = sub_tables(self.schema), np.full(1 << variables, Status.OPEN, np.uint8)
        found[_above(self.undecided, variables)] = Status.UNDECIDED
        found[_above(self.unreleasable, variables)] = Status.UNRELEASABLE
        found[self.released.listed(variables)] = Status.INDIRECT
        found[list(self.direct)] = Status.DIRECT
        if len(every) < len(found):
            chosen = found[every]
            found[:] = 0
            found[every] = chosen
        found.setflags(write=False)
        return found

    def count(self, status: Status) -> int:
        """The number of sub-tables with a status; where `statuses` is possible."""
        return int((self.statuses == status).sum())


@lru_cache(maxsize=4)
def sub_tables(schema: Schema) -> npt.NDArray[np.int64]:
    """(n,) every sub-table, with the total, by number; for at most some 20 variables."""
    every = range(1 << len(schema)) if schema.levels.is_flat else sorted(st.subsets(st.full(len(schema)), schema))
    found = np.array(every, np.int64)
    found.setflags(write=False)
    return found


def by_dimension(statuses: npt.NDArray[np.uint8], schema: Schema) -> list[dict[Status, int]]:
    """By dimension, from the total on, the number of sub-tables with each status."""
    dimensions = st.many_ways(np.arange(len(statuses)), schema)
    levels = (statuses[dimensions == dimension] for dimension in range(len(schema.axes) + 1))
    return [{status: int((level == status).sum()) for status in Status} for level in levels]


def _above(minimal: tuple[SubTable, ...], variables: int) -> npt.NDArray[np.bool_]:
    """(2^variables,) whether each sub-table contains one of these."""
    found = np.zeros(1 << variables, np.bool_)
    found[list(minimal)] = True
    for v in range(variables):
        without, with_it = np.moveaxis(found.reshape(-1, 2, 1 << v), 1, 0)
        with_it |= without
    return found
