"""Sub-tables that go out in part: of each all cells are told but those that are withheld, or all of them rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.fact import Between, Fact, withheld
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table


@dataclass(frozen=True)
class Part:
    """A sub-table that does not go out whole.

    fact     what it tells
    base     what its counts are rounded to multiples of; 0 where they are told exactly, but for some that are withheld
    margins  where it is rounded the same of each of its marginals that is rounded to a neighbouring multiple too, which
             readers are told
    """

    fact: Fact
    base: int = 0
    margins: tuple[Fact, ...] = ()

    @property
    def view(self) -> SubTable:
        """The sub-table, closed."""
        return self.fact.view

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that it tells."""
        return (self.fact, *self.margins)

    @property
    def withheld(self) -> int:
        """How many of its cells are withheld."""
        return 0 if self.base or self.fact.between is None else len(self.fact.between.cells)

    @property
    def is_withheld(self) -> bool:
        """Whether it tells all cells of its view but some, of which it tells nothing."""
        fact = self.fact
        return not self.base and not fact.universe and fact.between is not None and not fact.between.low.any()

    def is_rounded(self, table: Table) -> bool:
        """Whether it tells of every cell, and of its margins, what it would of counts rounded to its base."""
        between = self.fact.between
        if self.base < 2 or between is None or len(between.cells) != st.cells(self.view, table.schema):
            return False
        counts = self.rounded(table.schema)
        margins = tuple(margin.view for margin in self.margins)
        is_multiple = not (counts % self.base).any()
        return is_multiple and self == rounded(self.view, counts, self.base, margins, table.schema, self.fact.source)

    def rounded(self, schema: Schema) -> Counts:
        """(cells of the view,) in C order the rounded counts."""
        assert self.fact.between is not None
        inside = schema.restrict(st.members(self.view))
        counts = np.zeros(inside.cells, np.int64)
        counts[inside.keys.pack(self.fact.between.cells)] = self.fact.between.high - self.base + 1
        return counts

    def places(self, schema: Schema) -> npt.NDArray[np.int64]:
        """(withheld,) of its cells that are withheld, in C order, ascending."""
        assert self.fact.between is not None
        return np.sort(schema.restrict(st.members(self.view)).keys.pack(self.fact.between.cells))

    def shown(self, marginal: Table) -> Table:
        """The marginal without the cells that are withheld, so that nobody who publishes it has their counts."""
        assert self.fact.between is not None
        told = marginal.schema.keys.matching(self.fact.between.cells, marginal.codes) < 0
        return Table.of(marginal.schema, marginal.codes[told], marginal.counts[told])

    def label(self, schema: Schema) -> str:
        """By names."""
        return self.fact.label(schema)


def withholding(view: SubTable, places: npt.NDArray[np.int64], schema: Schema, total: int) -> Part:
    """A sub-table of N records that is told but for the cells at (n,) places, in C order."""
    cells = schema.restrict(st.members(view)).keys.unpack(places)
    return Part(withheld(view, cells, total, f"{st.label(view, schema)} in part"))


def rounded(
    view: SubTable, counts: Counts, base: int, margins: Iterable[SubTable], schema: Schema, source: str
) -> Part:
    """A sub-table of which readers have (cells,) rounded counts in C order, each less than the base from the true one.

    margins  those of its marginals whose sums are less than the base from the true ones too, and readers know it
    """
    inside = schema.restrict(st.members(view))
    cells = inside.keys.unpack(np.arange(inside.cells))
    of_margins = []
    for margin in margins:
        own = inside.restrict(st.members(st.within(margin, view)))
        sums = np.zeros(own.cells, np.int64)
        np.add.at(sums, own.keys.pack(inside.marginal_cells(cells, st.within(margin, view))), counts)
        of_margins.append(Fact(margin, (), _near(own, sums, base), f"{st.label(margin, schema)} of {source}"))
    return Part(Fact(view, (), _near(inside, counts, base), source), base, tuple(of_margins))


def base_of(fact: Fact, known: Knowledge) -> int:
    """What the counts of all cells of a fact's view are rounded to multiples of, if it tells them so; else 0."""
    between = fact.between
    if between is None or fact.universe or len(between.cells) != st.cells(fact.view, known.schema):
        return 0
    # of a count that became 0 the lower end is cut off
    first = int(np.argmax(between.low))
    low, high = int(between.low[first]), int(between.high[first])
    base = (high - low) // 2 + 1 if low else high + 1
    counts = between.high - base + 1
    is_near = np.array_equal(between.low, np.maximum(counts - base + 1, 0)) and not (counts % base).any()
    return base if is_near and 1 < base <= known.total else 0


def _near(schema: Schema, counts: Counts, base: int) -> Between:
    cells = schema.keys.unpack(np.arange(schema.cells))
    return Between(cells, counts - base + 1, counts + base - 1)


@dataclass(frozen=True)
class Parts:
    """What goes out in part, and beside what.

    beside  the sub-tables that were released whole when the last of them was made: a small cell that these and what was
            known before tell is told anyway; all others are to keep the width, and so none of an earlier one is told
    tables  one of each sub-table
    """

    beside: Release = NOTHING
    tables: tuple[Part, ...] = ()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that they tell."""
        return tuple(fact for part in self.tables for fact in part.facts)

    @property
    def views(self) -> tuple[SubTable, ...]:
        """The sub-tables."""
        return tuple(part.view for part in self.tables)

    def without(self, release: Release) -> Parts:
        """Those that are not released whole."""
        return Parts(self.beside, tuple(part for part in self.tables if part.view not in release))

    def then(self, later: Parts) -> Parts:
        """With those that go out after them."""
        return Parts(later.beside, (*self.tables, *later.tables))

    def before(self, known: Knowledge) -> Knowledge:
        """What tells of their cells without them, for whoever knew that before."""
        return known.plus(self.beside) if self.tables else known

    def labels(self, schema: Schema) -> list[str]:
        """Of each sub-table."""
        return [part.label(schema) for part in self.tables]


NO_PARTS = Parts()
