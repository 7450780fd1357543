"""A table of counts as every format writes it: variables, texts, cells in order, and rows of text, chunk by chunk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.model.keys import KeySpace
from sdc.model.labels import Labels
from sdc.model.schema import MAX_CATEGORIES, Variable
from sdc.model.table import Codes, Counts, Table
from sdc.run_format import COUNT, OF_DICTIONARY, ROUNDED_COUNT, STATUS, TOTAL, WEIGHTED_TOTAL

NOTHING, NO_COUNT = PublicationConfig(), -1
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
_TAKEN_FOR_NOTHING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"}
_TAKEN_FOR_NOTHING |= {"N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}  # by pandas
CHUNK = 1 << 18  # codes and counts per chunk: bounds memory for many variables too


@dataclass(frozen=True)
class Dimension:
    """A variable as readers see it.

    categories  codes, in order
    labels      the label of each category
    """

    name: str
    categories: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    unit: str | None = None
    note: str | None = None

    @staticmethod
    def of(variable: Variable, labels: Labels) -> Dimension:
        """A variable of a table with its labels."""
        own, label = labels.of(variable.name), labels.variable(variable.name)
        return Dimension(variable.name, variable.categories, label, labels.categories(variable), own.unit, own.note)

    @property
    def with_total(self) -> Dimension:
        """The variable with the total as its last category."""
        return replace(self, categories=(*self.categories, TOTAL), labels=(*self.labels, TOTAL))

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that readers see."""
        return (self.name, self.label, *self.categories, *self.labels, self.unit or "", self.note or "")


def dictionary_rows(variables: Iterable[Dimension]) -> Iterator[tuple[str | int, ...]]:
    """The rows of a data dictionary: the names of its columns, then the categories of each variable."""
    yield OF_DICTIONARY
    for v in variables:
        for place, (category, label) in enumerate(zip(v.categories, v.labels, strict=True), start=1):
            yield v.name, place, category, label, v.label, v.unit or "", v.note or ""


@dataclass(frozen=True, eq=False)
class CountTable:
    """A table of counts for publication, with its listing options.

    name        stem of its files, unique
    title       of the table
    dimensions  its variables, without totals
    codes       (cells, variables) of the cells with records, in C order: the first variable is slowest
    counts      (cells,) positive integers
    about       population, period, source, licence, contact and notes
    zeros       whether cells without records are listed too
    totals      whether each variable has a last category `(total)`, so that all marginals are listed
    weighted    (cells,) rounded totals of weights, if published; in CSV and Parquet
    has_counts  whether counts are listed; otherwise totals of weights only
    chunk       number of codes and counts made at a time
    measure     name of the numbers; rounded counts have another name than exact ones
    withheld    (n, dimensions) suppressed cells, listed without a count; none is among `codes`
    within      public tables over some of its variables: they give totals of suppressed cells
    whole       number of records if cells are suppressed

    Raises ReleaseError if a variable has the name of the count column, if a category has the name of totals, or if the
    zeros are too many to be numbered.
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
        for dimension in self.dimensions:
            if dimension.name == STATUS and self.withheld is not None:
                raise ReleaseError(f"a variable is called {STATUS!r}, which says of cells why they have no count")
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
        """A marginal with its labels, with the axes in publication order."""
        axes = (marginal.schema.variables[axis] for axis in marginal.schema.axes)
        dimensions = tuple(Dimension.of(axis, labels) for axis in axes)
        cells = marginal.codes, marginal.counts
        return CountTable(name, title, dimensions, *cells, about, about.zeros, about.totals)

    def without(self, withheld: Codes, within: Sequence[CountTable], records: int) -> CountTable:
        """The table of N records with suppressed cells, listed without counts.

        Totals that include suppressed cells are suppressed too, unless a table in `within` gives them.
        """
        return replace(self, withheld=withheld, within=tuple(within), whole=records)

    def rounded(self, counts: Counts, base: int) -> CountTable:
        """The table with (cells,) rounded counts under another name; rounded zeros are not listed."""
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
        return self.measure == COUNT

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return (self.measure,) * self.has_counts + (WEIGHTED_TOTAL,) * (self.weighted is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of numbers, and the status."""
        return self.measures + (STATUS,) * (self.withheld is not None)

    @cached_property
    def variables(self) -> tuple[Dimension, ...]:
        """The listed variables, with the total as last category if totals are wanted."""
        return tuple(d.with_total for d in self.dimensions) if self.totals else self.dimensions

    @cached_property
    def space(self) -> KeySpace:
        """All cells, including listed totals."""
        return KeySpace(tuple(len(dimension.categories) for dimension in self.variables))

    @property
    def cells(self) -> int:
        """The number of cells without totals."""
        return KeySpace(tuple(len(dimension.categories) for dimension in self.dimensions)).cells

    @property
    def records(self) -> int:
        return int(self.counts.sum()) if self.whole is None else self.whole

    @property
    def listed(self) -> int:
        return self.space.cells if self.zeros else len(self.with_records[1])

    @property
    def at_most(self) -> int:
        """An upper bound of the listed cells, without listing them: exact unless totals are listed without zeros."""
        most = len(self.counts) + (0 if self.withheld is None else len(self.withheld))
        if self.zeros or not self.totals:
            return self.space.cells if self.zeros else most
        # a marginal has at most as many cells as its categories allow, and as the table has
        marginals = Counter({min(1, most): 1})
        for dimension in self.dimensions:
            marginals += _grown(marginals, len(dimension.categories), most)
        return sum(cells * number for cells, number in marginals.items())

    @property
    def is_dense(self) -> bool:
        """Whether at least half of all cells are listed, so that a format without keys is smaller."""
        return 2 * self.listed >= self.space.cells

    @property
    def with_zeros(self) -> CountTable:
        """The table with zeros listed."""
        return replace(self, zeros=True)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """All texts that readers see, each with its place for messages."""
        yield from (("the title", self.title), ("the name of the table", self.name))
        yield from (("publication", text) for text in (*self.about.facts.values(), *self.about.notes))
        yield from ((f"variable {d.name!r}", text) for d in self.variables for text in d.texts)

    def chunks(self, times: int = 1) -> Iterator[tuple[Codes, Counts]]:
        """(n, variables) codes and (n,) counts in C order, `times` chunks at a time."""
        yield from self.slices(max(1, times * self.chunk // (len(self.variables) + 1)))

    def slices(self, cells: int) -> Iterator[tuple[Codes, Counts]]:
        """As `chunks`, with a given number of cells at a time."""
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

    def crossed(self) -> Iterator[tuple[Codes, Counts]]:
        """(n, variables - 1) codes of rows and (n, categories of the last) counts, a chunk at a time.

        Without `zeros` rows without records are left out.
        """
        size = self.space.sizes[-1]
        rows = max(1, self.chunk // (len(self.variables) + 1) // size)
        if self.zeros:
            for codes, counts in self.slices(rows * size):
                yield codes[::size, :-1], counts.reshape(-1, size)
            return
        codes, counts = self.with_records
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = (codes[1:, :-1] != codes[:-1, :-1]).any(axis=1)
        for begin, end in pairwise([*np.flatnonzero(is_first)[::rows], len(codes)]):
            row = np.cumsum(is_first[begin:end]) - 1
            dense = np.zeros((row[-1] + 1, size), np.int64)
            dense[row, codes[begin:end, -1]] = counts[begin:end]
            yield codes[begin:end, :-1][is_first[begin:end]], dense

    def rows(self, times: int = 1) -> Iterator[tuple[Codes, list[Counts]]]:
        """As `chunks`, with the numbers of each measure."""
        begin = 0
        for codes, counts in self.chunks(times):
            weighted = [] if self.weighted is None else [self.weighted[begin : begin + len(counts)]]
            yield codes, [counts] * self.has_counts + weighted
            begin += len(counts)

    @cached_property
    def with_records(self) -> tuple[Codes, Counts]:
        """Listed cells with records, suppressed cells (count -1) and totals, in C order."""
        if self.withheld is None:
            return self._listed(self.codes, self.counts)
        codes, _ = self._listed(self.withheld, np.ones(len(self.withheld), np.int64))
        known = self._known_from_others(codes)
        others, counts = self._listed(self.codes, self.counts)
        codes, counts = np.concatenate([codes, others]), np.concatenate([known, counts])
        first, _ = self.space.distinct(codes)  # the total of suppressed cells is not the sum of the others
        first = first[counts[first] != 0]
        return codes[first], counts[first]

    def _listed(self, codes: Codes, counts: Counts) -> tuple[Codes, Counts]:
        return _with_totals(codes, counts, self.space) if self.totals else (codes, counts)

    def _known_from_others(self, codes: Codes) -> Counts:
        """(n,) counts of cells and totals from other public tables, -1 if none gives them."""
        names, totals = [dimension.name for dimension in self.dimensions], np.array(self.space.sizes) - 1
        known = np.full(len(codes), NO_COUNT)
        if not self.totals:
            return known
        known[(codes == totals).all(axis=1)] = self.records
        for table in self.within:
            shared = [names.index(dimension.name) for dimension in table.dimensions]
            inside = np.flatnonzero((codes == totals)[:, np.setdiff1d(np.arange(len(names)), shared)].all(axis=1))
            listed, counts = table.with_records
            found = table.space.matching(listed, codes[inside][:, shared])
            known[inside] = np.maximum(known[inside], np.append(counts, 0)[found])  # 0 for cells that are not listed
        return known


def is_taken_otherwise(category: str) -> bool:
    """Whether a program that guesses types by values, as pandas does, may change this category when it reads it."""
    if category in _TAKEN_FOR_NOTHING or category.lower() in ("true", "false"):
        return True
    try:
        float(category)
    except ValueError:
        return False
    return not _WHOLE.fullmatch(category)


def _grown(marginals: Counter[int], size: int, most: int) -> Counter[int]:
    """The marginals with one more variable, with the maximum number of their cells."""
    grown: Counter[int] = Counter()
    for cells, number in marginals.items():
        grown[min(cells * size, most)] += number
    return grown


def _with_totals(codes: Codes, counts: Counts, space: KeySpace) -> tuple[Codes, Counts]:
    """The cells with those of all marginals, in C order; the last code of each variable is the total."""
    for v, size in enumerate(space.sizes):
        summed = codes.copy()
        summed[:, v] = size - 1
        first, group = space.distinct(summed)
        # exact: no sum exceeds the number of records, at most 2^53, the limit of doubles
        sums = np.bincount(group, counts, minlength=len(first)).astype(np.int64)
        codes, counts = np.concatenate([codes, summed[first]]), np.concatenate([counts, sums])
    in_order, _ = space.distinct(codes)
    return codes[in_order], counts[in_order]


Strings: TypeAlias = pa.LargeStringArray
Chunks: TypeAlias = Iterator[tuple[npt.NDArray[Any], Strings]]
Pieces: TypeAlias = Iterator[bytes]


@dataclass(frozen=True)
class TextRows:
    """The text format of one table.

    head, tail   around all rows
    words        the text of each category of each variable
    start, end   around each row
    before       before the count of each row
    between      between two rows
    """

    head: str
    tail: str
    words: Sequence[Sequence[str]] = ()
    start: str = ""
    before: str = ""
    end: str = ""
    between: str = ""

    def written(self, chunks: Chunks) -> Pieces:
        """The head, the rows of each chunk, the tail."""
        yield self.head.encode()
        words = [pa.array(of_categories, pa.large_string()) for of_categories in self.words]
        skipped = len(self.between.encode())  # nothing precedes the first row
        for codes, texts in chunks:
            texts_of_codes = (
                of_categories.take(pa.array(column)) for of_categories, column in zip(words, codes.T, strict=True)
            )
            yield bytes_of(joined(self.between + self.start, *texts_of_codes, self.before, texts, self.end))[skipped:]
            skipped = 0
        yield self.tail.encode()


def bytes_of(rows: Strings) -> bytes:
    """All strings concatenated, without a copy."""
    _, ends, content = rows.buffers()
    within = np.frombuffer(ends, np.int64)[rows.offset :][: len(rows) + 1]
    return bytes(content[within[0] : within[-1]])


def joined(*columns: str | Strings) -> Strings:
    """Concatenate strings row by row; a single text is repeated in each row."""
    # in Arrow: a loop over a million cells takes seconds
    typed = [pa.scalar(column, pa.large_string()) if isinstance(column, str) else column for column in columns]
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()))


def texts_of(counts: npt.NDArray[np.int64], withheld: str | None = None) -> Strings:
    """Numbers as text; `withheld` in place of suppressed counts."""
    texts = pc.cast(pa.array(counts), pa.large_string())
    if withheld is None:
        return texts
    return pc.if_else(pa.array(counts == NO_COUNT), pa.scalar(withheld, pa.large_string()), texts)


def cells_of(table: CountTable, before: str = "", after: str = "", withheld: str = "") -> Chunks:
    """Codes and counts as text of all listed cells, a chunk at a time.

    before, after  around each count
    withheld       in place of a suppressed count
    """
    for codes, (first, *others) in table.rows():
        more = [part for numbers in others for part in (",", texts_of(numbers))]
        texts = joined(before, texts_of(first), *more, after) if before or more or after else texts_of(first)
        if table.withheld is not None:
            texts = pc.if_else(pa.array(first == NO_COUNT), pa.scalar(withheld, pa.large_string()), texts)
        yield codes, texts


def counts_of(table: CountTable, withheld: str) -> Chunks:
    """Counts as text without codes, for formats that identify cells by position."""
    for codes, texts in cells_of(table, withheld=withheld):
        yield codes[:, :0], texts
