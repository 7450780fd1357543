"""A table of counts as every format writes it: its variables, its texts, and its cells in order, a chunk at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.model.keys import KeySpace
from sdc.model.labels import Labels
from sdc.model.schema import MAX_CATEGORIES, Variable
from sdc.model.table import Codes, Counts, Table
from sdc.run_format import COUNT, ROUNDED_COUNT, STATUS, TOTAL, WEIGHTED_TOTAL

NOTHING, NO_COUNT = PublicationConfig(), -1
CHUNK = 1 << 18  # codes and counts, so that rows of many variables take no more memory


@dataclass(frozen=True)
class Dimension:
    """A variable as readers know it.

    categories  their codes, in order
    labels      what each of them is called
    """

    name: str
    categories: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    unit: str | None = None
    note: str | None = None

    @staticmethod
    def of(variable: Variable, labels: Labels) -> Dimension:
        """A variable of a table with the labels that it has."""
        own, label = labels.of(variable.name), labels.variable(variable.name)
        return Dimension(variable.name, variable.categories, label, labels.categories(variable), own.unit, own.note)

    @property
    def with_total(self) -> Dimension:
        """The same with the total as its last category."""
        return replace(self, categories=(*self.categories, TOTAL), labels=(*self.labels, TOTAL))

    @property
    def texts(self) -> tuple[str, ...]:
        """All that readers see."""
        return (self.name, self.label, *self.categories, *self.labels, self.unit or "", self.note or "")


@dataclass(frozen=True, eq=False)
class CountTable:
    """A table of counts that may go out, and how it is to be listed.

    name        of its files, without suffix; different for different tables
    title       of the table
    dimensions  its variables, without totals
    codes       (cells, variables) of the cells that have records, in C order: the first variable is slowest
    counts      (cells,) integers, all positive
    about       population, period, source, licence, contact and notes
    zeros       whether the cells without records are listed too
    totals      whether each variable has a last category `(total)`, so that all marginals are there
    weighted    (cells,) rounded totals of weights, where they go out; CSV and Parquet have them
    has_counts  whether the counts are listed; else the totals of weights alone
    chunk       how many codes and counts are made at a time
    measure     what its numbers are called; another name than that of counts where they are not exact
    withheld    (n, dimensions) cells that are listed without a count, none of them among `codes`
    within      tables over some of its variables that are public too: what is known of totals of withheld cells
    whole       N where some cells are withheld

    ReleaseError where a variable is called as the column of counts, where there is no room for a total among the
    categories, or where the zeros wanted are more than can be numbered.
    """

    name: str
    title: str
    dimensions: tuple[Dimension, ...]
    codes: Codes
    counts: Counts
    about: PublicationConfig = NOTHING
    zeros: bool = False
    totals: bool = False
    weighted: Counts | None = None
    has_counts: bool = True
    chunk: int = CHUNK
    measure: str = COUNT
    withheld: Codes | None = None
    within: tuple[CountTable, ...] = ()
    whole: int | None = None

    def __post_init__(self) -> None:
        if self.withheld is not None:
            for dimension in self.dimensions:
                if dimension.name == STATUS:
                    raise ReleaseError(f"a variable is called {STATUS!r}, which says of cells why they have no count")
        for dimension in self.dimensions:
            if dimension.name == self.measure:
                raise ReleaseError(f"a variable is called {self.measure!r}, which is the column of counts; rename it")
            if dimension.name == WEIGHTED_TOTAL and self.weighted is not None:
                raise ReleaseError(
                    f"a variable is called {WEIGHTED_TOTAL!r}, which is the column of totals of weights; rename it"
                )
            if self.totals and TOTAL in (*dimension.categories, *dimension.labels):
                raise ReleaseError(
                    f"variable {dimension.name!r} has a category {TOTAL!r} already; recode it or publish without totals"
                )
            if self.totals and len(dimension.categories) >= MAX_CATEGORIES:
                raise ReleaseError(
                    f"variable {dimension.name!r} has {MAX_CATEGORIES} categories, which leaves no room for a total; "
                    "publish without totals"
                )
        if self.zeros and not self.space.fits:
            raise ReleaseError(f"there are {self.space.cells} cells, which nobody can list; publish without zeros")

    @staticmethod
    def of(name: str, title: str, marginal: Table, labels: Labels, about: PublicationConfig = NOTHING) -> CountTable:
        """A marginal with its labels, listed as the publication has it: by its axes."""
        axes = (marginal.schema.variables[axis] for axis in marginal.schema.axes)
        dimensions = tuple(Dimension.of(axis, labels) for axis in axes)
        cells = marginal.codes, marginal.counts
        return CountTable(name, title, dimensions, *cells, about, about.zeros, about.totals)

    def with_weighted(self, totals: Counts, *, has_counts: bool) -> CountTable:
        """The same with (cells,) totals of weights, beside the counts or instead of them."""
        return replace(self, weighted=totals, has_counts=has_counts)

    def without(self, withheld: Codes, within: Sequence[CountTable], records: int) -> CountTable:
        """The same of N records with cells that are listed without a count, whatever it is, and so their totals.

        But for totals that tables over some of its variables tell.
        """
        return replace(self, withheld=withheld, within=tuple(within), whole=records)

    def rounded(self, counts: Counts, base: int) -> CountTable:
        """The same with (cells,) rounded counts, and called so wherever it is listed; zeros of them are not listed."""
        rows = counts > 0
        title = f"{self.title} (counts rounded to multiples of {base})"
        note = (
            f"Counts are rounded to multiples of {base}, such that cells add up to margins that are rounded too; they "
            "are not exact."
        )
        about = self.about.model_copy(update={"notes": (*self.about.notes, note)})
        measure = f"{ROUNDED_COUNT}{base}"
        return replace(self, title=title, codes=self.codes[rows], counts=counts[rows], about=about, measure=measure)

    @property
    def is_exact(self) -> bool:
        """Whether its numbers are counts as they are."""
        return self.measure == COUNT

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that are no variables."""
        return (self.measure,) * self.has_counts + (WEIGHTED_TOTAL,) * (self.weighted is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The same with what is said of each cell."""
        return self.measures + (STATUS,) * (self.withheld is not None)

    @cached_property
    def variables(self) -> tuple[Dimension, ...]:
        """Its variables as they are listed, with the total as their last category where that is wanted."""
        return tuple(d.with_total for d in self.dimensions) if self.totals else self.dimensions

    @cached_property
    def space(self) -> KeySpace:
        """All cells, totals among them where they are listed."""
        return KeySpace(tuple(len(dimension.categories) for dimension in self.variables))

    @property
    def cells(self) -> int:
        """How many there are, without totals."""
        return KeySpace(tuple(len(dimension.categories) for dimension in self.dimensions)).cells

    @property
    def records(self) -> int:
        """N."""
        return int(self.counts.sum()) if self.whole is None else self.whole

    @property
    def listed(self) -> int:
        """How many cells are listed."""
        return self.space.cells if self.zeros else len(self.with_records[1])

    @property
    def at_most(self) -> int:
        """How many cells are listed, without listing them: exact but with totals and without zeros, then at most."""
        most = len(self.counts) + (0 if self.withheld is None else len(self.withheld))
        if self.zeros or not self.totals:
            return self.space.cells if self.zeros else most
        # a marginal has no more cells than its categories allow, and no more than the table has
        marginals = Counter({min(1, most): 1})
        for dimension in self.dimensions:
            marginals += _grown(marginals, len(dimension.categories), most)
        return sum(cells * number for cells, number in marginals.items())

    @property
    def is_dense(self) -> bool:
        """Whether at least half of all cells are listed, so that a format without keys takes less."""
        return 2 * self.listed >= self.space.cells

    @property
    def with_zeros(self) -> CountTable:
        """The same, with the cells without records listed too."""
        return replace(self, zeros=True)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """All that readers see, each with whose it is, which a message may say."""
        yield from (("the title", self.title), ("the name of the table", self.name))
        yield from (("publication", text) for text in (*self.about.facts.values(), *self.about.notes))
        yield from ((f"variable {d.name!r}", text) for d in self.variables for text in d.texts)

    def chunks(self, times: int = 1) -> Iterator[tuple[Codes, Counts]]:
        """(n, variables) codes and (n,) counts of so many chunks at a time, in C order."""
        yield from self.slices(max(1, times * self.chunk // (len(self.variables) + 1)))

    def slices(self, cells: int) -> Iterator[tuple[Codes, Counts]]:
        """The same, of so many cells at a time."""
        codes, counts = self.with_records
        if not self.zeros:
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

    def rows(self, times: int = 1) -> Iterator[tuple[Codes, list[Counts]]]:
        """As `chunks`, with the numbers of each measure."""
        begin = 0
        for codes, counts in self.chunks(times):
            weighted = [] if self.weighted is None else [self.weighted[begin : begin + len(counts)]]
            yield codes, [counts] * self.has_counts + weighted
            begin += len(counts)

    @cached_property
    def with_records(self) -> tuple[Codes, Counts]:
        """The cells that have records and their counts, with the totals where these are listed, in C order.

        And those that are withheld, with -1.
        """
        if self.withheld is None:
            return self._listed(self.codes, self.counts)
        codes, _ = self._listed(self.withheld, np.ones(len(self.withheld), np.int64))
        told = self._told(codes)
        others, counts = self._listed(self.codes, self.counts)
        codes, counts = np.concatenate([codes, others]), np.concatenate([told, counts])
        first, _ = self.space.distinct(codes)  # a total of withheld cells among others is not the sum of the others
        first = first[counts[first] != 0]
        return codes[first], counts[first]

    def _listed(self, codes: Codes, counts: Counts) -> tuple[Codes, Counts]:
        """These cells, with their totals where totals are listed."""
        return _with_totals(codes, counts, self.space) if self.totals else (codes, counts)

    def _told(self, codes: Codes) -> Counts:
        """(n,) what other tables tell of (n, variables) cells and totals, -1 where none does."""
        names, totals = [dimension.name for dimension in self.dimensions], np.array(self.space.sizes) - 1
        told = np.full(len(codes), NO_COUNT)
        if not self.totals:
            return told
        told[(codes == totals).all(axis=1)] = self.records
        for table in self.within:
            kept = [names.index(dimension.name) for dimension in table.dimensions]
            inside = np.flatnonzero((codes == totals)[:, np.setdiff1d(np.arange(len(names)), kept)].all(axis=1))
            listed, counts = table.with_records
            found = table.space.matching(listed, codes[inside][:, kept])
            told[inside] = np.maximum(told[inside], np.append(counts, 0)[found])  # of what is not listed 0
        return told


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
