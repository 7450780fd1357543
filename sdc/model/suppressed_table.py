"""Suppressed tables: sub-tables that are published with some cells suppressed, or with all counts rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.fact import CellIntervals, Fact, suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table


@dataclass(frozen=True)
class SuppressedTable:
    """A sub-table of which some counts are published as intervals: cells are suppressed, or all counts are rounded.

    fact     the sub-table and the protection interval of each cell that is not exact
    base     what its counts are rounded to multiples of; 0 where cells are suppressed and all others exact
    margins  of a rounded table the same of each marginal whose published sums are near the true ones too
    """

    fact: Fact
    base: int = 0
    margins: tuple[Fact, ...] = ()

    @staticmethod
    def at(view: SubTable, places: npt.NDArray[np.int64], schema: Schema, total: int) -> SuppressedTable:
        """A sub-table of N records whose cells at (n,) places, in C order, are suppressed."""
        cells = schema.restrict(st.members(view)).keys.unpack(places)
        return SuppressedTable(suppressed_fact(view, cells, total, f"{st.label(view, schema)} in part"))

    @staticmethod
    def rounded_to(
        view: SubTable, counts: Counts, base: int, margins: Iterable[SubTable], schema: Schema, source: str
    ) -> SuppressedTable:
        """A sub-table with (cells,) rounded counts in C order, each less than the base from the true one.

        margins  its marginals whose sums are less than the base from the true ones too, and readers know it
        """
        inside = schema.restrict(st.members(view))
        cells = inside.keys.unpack(np.arange(inside.cells))
        of_margins = []
        for margin in margins:
            own = inside.restrict(st.members(st.within(margin, view)))
            sums = np.zeros(own.cells, np.int64)
            np.add.at(sums, own.keys.pack(inside.marginal_cells(cells, st.within(margin, view))), counts)
            of_margins.append(Fact(margin, (), _near(own, sums, base), f"{st.label(margin, schema)} of {source}"))
        return SuppressedTable(Fact(view, (), _near(inside, counts, base), source), base, tuple(of_margins))

    @property
    def view(self) -> SubTable:
        """The sub-table, closed."""
        return self.fact.view

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that is published of it."""
        return (self.fact, *self.margins)

    @property
    def suppressed(self) -> Codes:
        """(n, axes of the view) the suppressed cells; none of a rounded table."""
        if self.fact.intervals is None:
            return np.zeros((0, 0), np.uint16)
        return self.fact.intervals.cells[:0] if self.base else self.fact.intervals.cells

    @property
    def is_suppressed(self) -> bool:
        """Whether each cell is exact or suppressed, and nothing is published of a suppressed one."""
        fact = self.fact
        return not self.base and not fact.universe and fact.intervals is not None and not fact.intervals.low.any()

    def is_rounded(self, table: Table) -> bool:
        """Whether its intervals, and those of its margins, are exactly those of counts rounded to its base."""
        intervals = self.fact.intervals
        if self.base < 2 or intervals is None or len(intervals.cells) != st.cells(self.view, table.schema):
            return False
        counts = self.rounded(table.schema)
        margins = tuple(margin.view for margin in self.margins)
        alike = SuppressedTable.rounded_to(self.view, counts, self.base, margins, table.schema, self.fact.source)
        return not (counts % self.base).any() and self == alike

    def rounded(self, schema: Schema) -> Counts:
        """(cells of the view,) in C order the rounded counts."""
        inside = schema.restrict(st.members(self.view))
        assert self.fact.intervals is not None
        counts = np.zeros(inside.cells, np.int64)
        counts[inside.keys.pack(self.fact.intervals.cells)] = self.fact.intervals.high - self.base + 1
        return counts

    def places(self, schema: Schema) -> npt.NDArray[np.int64]:
        """(n,) the suppressed cells by their places in C order, ascending."""
        if self.fact.intervals is None or self.base:
            return np.zeros(0, np.int64)
        return np.sort(schema.restrict(st.members(self.view)).keys.pack(self.fact.intervals.cells))

    def flags(self, schema: Schema) -> npt.NDArray[np.bool_]:
        """(cells of the view,) in C order which are suppressed."""
        found = np.zeros(st.cells(self.view, schema), np.bool_)
        found[self.places(schema)] = True
        return found

    def published(self, marginal: Table) -> Table:
        """Its marginal as it is published: without the suppressed cells, or with rounded counts."""
        if self.base:
            assert self.fact.intervals is not None
            return Table.of(marginal.schema, self.fact.intervals.cells, self.fact.intervals.high - self.base + 1)
        shown = marginal.schema.keys.matching(self.suppressed, marginal.codes) < 0
        return Table.of(marginal.schema, marginal.codes[shown], marginal.counts[shown])

    def within(self, kept: SubTable, hidden: SubTable = st.GRAND_TOTAL) -> SuppressedTable:
        """The same without hidden levels, of the table of kept variables alone, which are numbered as there."""
        fact, *margins = (replace(fact, view=fact.view & ~hidden).within(kept) for fact in self.facts)
        return replace(self, fact=fact, margins=tuple(margins))

    def label(self, schema: Schema) -> str:
        """By names."""
        return self.fact.label(schema)


def base_of(fact: Fact, known: Knowledge) -> int:
    """What all counts of a fact's view are rounded to multiples of; 0 where its intervals are no such."""
    intervals = fact.intervals
    if intervals is None or fact.universe or len(intervals.cells) != st.cells(fact.view, known.schema):
        return 0
    # of a count that became 0 the lower end is cut off
    first = int(np.argmax(intervals.low))
    low, high = int(intervals.low[first]), int(intervals.high[first])
    base = (high - low) // 2 + 1 if low else high + 1
    counts = intervals.high - base + 1
    is_near = np.array_equal(intervals.low, np.maximum(counts - base + 1, 0)) and not (counts % base).any()
    return base if is_near and 1 < base <= known.total else 0


def _near(schema: Schema, counts: Counts, base: int) -> CellIntervals:
    cells = schema.keys.unpack(np.arange(schema.cells))
    return CellIntervals(cells, counts - base + 1, counts + base - 1)


@dataclass(frozen=True)
class SuppressedTables:
    """The suppressed tables of a release, and what they are beside.

    beside  the sub-tables that were released whole when the last of them was made: a small cell that these and what was
            known before show to be too narrow cannot be protected; all others must keep the width, and so must those
            of earlier suppressed tables
    tables  one of each sub-table
    """

    beside: Release = NOTHING
    tables: tuple[SuppressedTable, ...] = ()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that is published of them."""
        return tuple(fact for one in self.tables for fact in one.facts)

    @property
    def views(self) -> tuple[SubTable, ...]:
        """The sub-tables."""
        return tuple(one.view for one in self.tables)

    def without(self, release: Release) -> SuppressedTables:
        """Those that are not released whole."""
        return SuppressedTables(self.beside, tuple(one for one in self.tables if one.view not in release))

    def then(self, later: SuppressedTables) -> SuppressedTables:
        """With those that are published after them."""
        return SuppressedTables(later.beside, (*self.tables, *later.tables))

    def before(self, known: Knowledge) -> Knowledge:
        """What is known of their cells without them, by anyone who knew that before."""
        return known.plus(self.beside) if self.tables else known

    def labels(self, schema: Schema) -> list[str]:
        """Of each sub-table."""
        return [one.label(schema) for one in self.tables]


NO_SUPPRESSED_TABLES = SuppressedTables()
