"""A released sub-table as it was asked for: its cells in order, a chunk at a time, zeros and totals where wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from sdc.model.errors import InputError
from sdc.model.keys import KeySpace
from sdc.model.labels import Labels
from sdc.model.schema import MAX_CATEGORIES, Variable
from sdc.model.table import Codes, Counts, Table
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.run_format import COUNT, TOTAL
from sdc.server.formats import FormatError


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
    marginal  of the sub-table: its variables only; the grand total has none and is a number of records
    texts     labels, and what the table is of, for the formats that people read or that can carry them

    InputError where a variable is called as the column of counts. FormatError where there is no room for a total among
    the categories, or the zeros wanted are more than can be numbered.
    """

    title: str
    marginal: Table | int
    shape: Shape = Shape()
    texts: Texts = NO_TEXTS

    def __post_init__(self) -> None:
        for variable in self._given:
            if variable.name == COUNT:
                raise InputError(f"a variable is called {COUNT!r}, which is the column of counts; rename it")
            if self.shape.totals and TOTAL in (*variable.categories, *self.labels.categories(variable)):
                raise FormatError(f"variable {variable.name!r} has a category {TOTAL!r} already; ask without totals")
            if self.shape.totals and len(variable.categories) == MAX_CATEGORIES:
                raise FormatError(f"variable {variable.name!r} has {MAX_CATEGORIES} categories; ask without totals")
        if self.shape.zeros and not self.space.fits:
            raise FormatError(f"there are {self.space.cells} cells, which nobody can list; ask without zeros")

    @property
    def _given(self) -> tuple[Variable, ...]:
        return self.marginal.schema.variables if isinstance(self.marginal, Table) else ()

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, with the total as their last category where it is asked for."""
        total = (TOTAL,) if self.shape.totals else ()
        return tuple(Variable(variable.name, variable.categories + total) for variable in self._given)

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
        return self.marginal.total if isinstance(self.marginal, Table) else self.marginal

    def cells(self) -> int:
        """How many cells will be listed: known without listing them, and exact; with totals, without zeros, at most."""
        if self.shape.zeros or not isinstance(self.marginal, Table):
            return self.space.cells
        # a marginal has no more cells than its categories allow, and no more than the sub-table has
        most = len(self.marginal)
        marginals = Counter({min(1, most): 1})
        for size in self.marginal.schema.sizes if self.shape.totals else ():
            marginals += _grown(marginals, size, most)
        return sum(cells * number for cells, number in marginals.items()) if self.shape.totals else most

    def chunks(self, cells: int) -> Iterator[tuple[Codes, Counts]]:
        """(n, variables) codes and (n,) counts of so many cells at a time, in C order."""
        codes, counts = self._listed
        if not self.shape.zeros:
            for begin in range(0, len(counts), cells):
                yield codes[begin : begin + cells], counts[begin : begin + cells]
            return
        keys = self.space.pack(codes)
        for begin in range(0, self.space.cells, cells):
            end = min(begin + cells, self.space.cells)
            first, last = np.searchsorted(keys, [begin, end])
            dense = np.zeros(end - begin, np.int64)
            dense[keys[first:last] - begin] = counts[first:last]
            yield self.space.unpack(np.arange(begin, end)), dense

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
        codes, counts = self._listed
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = (codes[1:, :-1] != codes[:-1, :-1]).any(axis=1)
        for begin, end in pairwise([*np.flatnonzero(is_first)[::rows], len(codes)]):
            row = np.cumsum(is_first[begin:end]) - 1
            dense = np.zeros((row[-1] + 1, size), np.int64)
            dense[row, codes[begin:end, -1]] = counts[begin:end]
            yield codes[begin:end, :-1][is_first[begin:end]], dense

    @cached_property
    def _listed(self) -> tuple[Codes, Counts]:
        """The cells that have records, in C order."""
        if not isinstance(self.marginal, Table):
            return np.zeros((1, 0), np.uint16), np.array([self.marginal], np.int64)
        cells = self.marginal.codes, self.marginal.counts
        return _with_totals(*cells, self.space) if self.shape.totals else cells


def _grown(marginals: Counter[int], size: int, most: int) -> Counter[int]:
    """The marginals with one more variable, by how many cells they have at most."""
    grown: Counter[int] = Counter()
    for cells, number in marginals.items():
        grown[min(cells * size, most)] += number
    return grown


def _with_totals(codes: Codes, counts: Counts, space: KeySpace) -> tuple[Codes, Counts]:
    """The cells and those of all marginals, in C order; of each variable the last code is the total."""
    for v, size in enumerate(space.sizes):
        summed = codes.copy()
        summed[:, v] = size - 1
        first, group = space.distinct(summed)
        # exact: no sum exceeds the number of records, at most 2^53, which a double holds
        sums = np.bincount(group, counts, minlength=len(first)).astype(np.int64)
        codes, counts = np.concatenate([codes, summed[first]]), np.concatenate([counts, sums])
    in_order, _ = space.distinct(codes)
    return codes[in_order], counts[in_order]
