"""A released sub-table as it was asked for: its cells in order, a chunk at a time, zeros and totals where wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from sdc.model.errors import InputError
from sdc.model.keys import KeySpace
from sdc.model.labels import Labels
from sdc.model.schema import MAX_CATEGORIES, Variable
from sdc.model.table import Codes, Counts, Table
from sdc.publish.formats.table import CountTable, Dimension
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.run_format import COUNT, STATUS, TOTAL
from sdc.server.service.query_service import SuppressedAnswer
from sdc.server.web.formats import FormatError


@dataclass(frozen=True)
class Shape:
    """What is listed beside the cells with records.

    zeros   the cells without records too
    totals  each variable has a last category `(total)`, so that all marginals are there, down to the grand total
    """

    zeros: bool = False
    totals: bool = False


@dataclass(frozen=True)
class Answer:
    """A released sub-table, and how it is to be listed.

    title     of the publication
    public    what is public of the sub-table: its marginal, of its variables only, or its cells but for some; the grand
              total has none and is a number of records. Listed are its axes, which tell its levels
    texts     labels, and what the table is of, for the formats that people read or that can carry them

    InputError where a variable is called as the column of counts, or of a suppressed table as that of the status.
    FormatError where there is no room for a total among the categories, or the zeros wanted are more than can be
    numbered.
    """

    title: str
    public: Table | SuppressedAnswer | int
    shape: Shape = Shape()
    texts: Texts = NO_TEXTS

    def __post_init__(self) -> None:
        for variable in self.given:
            if variable.name == STATUS and self.is_in_part:
                raise InputError(f"a variable is called {STATUS!r}, the column of the status of cells; rename it")
            if variable.name == COUNT:
                raise InputError(f"a variable is called {COUNT!r}, which is the column of counts; rename it")
            if self.shape.totals and TOTAL in (*variable.categories, *self.labels.categories(variable)):
                raise FormatError(f"variable {variable.name!r} has a category {TOTAL!r} already; ask without totals")
            if self.shape.totals and len(variable.categories) == MAX_CATEGORIES:
                raise FormatError(f"variable {variable.name!r} has {MAX_CATEGORIES} categories; ask without totals")
        if self.shape.zeros and not self.space.fits:
            raise FormatError(f"there are {self.space.cells} cells, which nobody can list; ask without zeros")

    @property
    def is_in_part(self) -> bool:
        """Whether cells of it are suppressed."""
        return isinstance(self.public, SuppressedAnswer)

    @property
    def marginal(self) -> Table | None:
        """The published cells, of all but the grand total."""
        match self.public:
            case Table():
                return self.public
            case SuppressedAnswer():
                return self.public.marginal
        return None

    @property
    def given(self) -> tuple[Variable, ...]:
        """The variables, without a total."""
        if self.marginal is None:
            return ()
        schema = self.marginal.schema
        return tuple(schema.variables[axis] for axis in schema.axes)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, with the total as their last category where it is asked for."""
        total = (TOTAL,) if self.shape.totals else ()
        return tuple(Variable(variable.name, variable.categories + total) for variable in self.given)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names."""
        return tuple(variable.name for variable in self.variables)

    @property
    def labels(self) -> Labels:
        """What variables and categories are called."""
        return self.texts.labels

    @cached_property
    def space(self) -> KeySpace:
        """All cells, totals among them where they are asked for."""
        return KeySpace(tuple(len(variable.categories) for variable in self.variables))

    @property
    def records(self) -> int:
        """N."""
        match self.public:
            case Table():
                return self.public.total
            case SuppressedAnswer():
                return self.public.records
        return self.public

    def cells(self) -> int:
        """How many cells will be listed: known without listing them, and exact; with totals, without zeros, at most."""
        return self.table.at_most

    def chunks(self, cells: int) -> Iterator[tuple[Codes, Counts]]:
        """(n, variables) codes and (n,) counts of so many cells at a time, in C order; -1 of suppressed cells."""
        return self.table.slices(cells)

    def crossed(self, cells: int) -> Iterator[tuple[Codes, Counts]]:
        """(n, variables - 1) codes of rows and (n, categories of the last) counts, some `cells` at a time.

        Without `zeros` rows without records are left out.
        """
        size = self.space.sizes[-1]
        rows = max(1, cells // size)
        if self.shape.zeros:
            for codes, counts in self.chunks(rows * size):
                yield codes[::size, :-1], counts.reshape(-1, size)
            return
        codes, counts = self.table.with_records
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = (codes[1:, :-1] != codes[:-1, :-1]).any(axis=1)
        for begin, end in pairwise([*np.flatnonzero(is_first)[::rows], len(codes)]):
            row = np.cumsum(is_first[begin:end]) - 1
            dense = np.zeros((row[-1] + 1, size), np.int64)
            dense[row, codes[begin:end, -1]] = counts[begin:end]
            yield codes[begin:end, :-1][is_first[begin:end]], dense

    @cached_property
    def table(self) -> CountTable:
        """As published formats are made of it."""
        if self.marginal is None:
            codes, counts = np.zeros((1, 0), np.uint16), np.array([self.records], np.int64)
        else:
            codes, counts = self.marginal.codes, self.marginal.counts
        dimensions = tuple(Dimension.of(variable, self.labels) for variable in self.given)
        name, about, shape = "*".join(self.names) or TOTAL, self.texts.about, self.shape
        table = CountTable(name, self.title, dimensions, codes, counts, about, shape.zeros, shape.totals)
        if not isinstance(self.public, SuppressedAnswer):
            return table
        within = [Answer(self.title, one, replace(shape, zeros=False), self.texts).table for one in self.public.within]
        return table.without(self.public.suppressed, within if shape.totals else (), self.records)
