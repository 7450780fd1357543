"""Columns of records without counting cells: as stored, as the distinct values of each, or as keys of records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

import pyarrow as pa

from sdc.config.table import CsvConfig
from sdc.data.reading import COUNT, looks_like_counts
from sdc.data.records import batches, check_kinds, layouts_of, require_once
from sdc.data.source import Source, SourcePart
from sdc.data.vocabulary import kind_of, missing_alike, namer
from sdc.model.alike import Alike, alike_key, require_apart
from sdc.model.errors import InputError, many, nearest
from sdc.model.totals import is_reserved

MOST_CATEGORIES = 60  # of a variable that is used as stored
MOST_VALUES = 100_000  # distinct values that are counted
FEW_NUMBERS = 20  # distinct values that need no bins
MARKS = frozenset(("NA", "N/A", "#N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "\\N", ".", "-", "?"))
_SENTINEL = re.compile("-[1-9]|-?(7{2,}|8{2,}|9{2,})")  # -9, 999: numbers that stand for missing values


def read_columns(source: Source, value: str, named: Sequence[str], csv: CsvConfig, alike: Alike = "refuse") -> pa.Table:
    """One column as stored, the others as names of values, null if missing.

    The decimal sign applies to numbers and not to codes: readers of the values handle it.
    """
    columns, as_stored = [value, *named], csv.model_copy(update={"decimal": "."})
    if odd := [name for name in (csv.missing if isinstance(csv.missing, dict) else ()) if name not in columns]:
        raise InputError(
            f"csv.missing names {odd[0]!r}, which is not a column that is used; {nearest(odd[0], columns)}"
        )
    path = source.path
    csv.require_used(source.parts[0].suffix, path)
    layouts = layouts_of(source.parts, csv)
    names = layouts[0].names
    if lacking := [name for name in columns if name not in names]:
        raise InputError(f"{path} has no column {lacking[0]!r}; {nearest(lacking[0], names)}")
    require_once(names, columns, path)
    check_kinds(source.parts, layouts, columns)
    pieces = [_read(part, value, named, as_stored, alike) for part in source.parts]
    pieces = [piece for piece in pieces if len(piece)] or pieces[:1]
    if len(types := {str(piece.schema.field(value).type) for piece in pieces}) > 1:
        raise InputError(f"{path} has {value!r} as {' and as '.join(sorted(types))}; give it one type")
    table = pa.concat_tables(pieces)
    if not len(table):
        raise InputError(f"{path} has no records; name a file that has")
    return table


def _read(part: SourcePart, value: str, named: Sequence[str], csv: CsvConfig, alike: Alike) -> pa.Table:
    columns = [value, *named]
    found = [batch for _, batch in batches([(part, None)], columns, csv)]
    table = pa.Table.from_batches(found) if found else pa.table({n: [""][:0] for n in columns})
    values = table.column(value)
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    names = {name: _named(table.column(name), name, csv, part.whole, alike) for name in named}
    return pa.table({value: plain, **names})


def _named(column: pa.ChunkedArray, name: str, csv: CsvConfig, whole: bool | None, alike: Alike) -> pa.ChunkedArray:
    marks, chunks = csv.missing_of(name), []
    name_of, is_text = namer(column.type, name, whole, marks), kind_of(column.type, name) == "text"
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = ["" if value is None else name_of(value) for value in coded.dictionary.to_pylist()]
        near = {one: mark for one in names if is_text and (mark := missing_alike(one, marks)) is not None}
        if alike == "refuse":
            require_apart(near, f"column {name!r}", "correct them, or set alike: merge to combine them, or keep")
        absent = {"", *(near if alike == "merge" else ())}
        found = [None if one in absent else one for one in names]
        chunks.append(pa.array(found, pa.string()).take(coded.indices))
    return pa.chunked_array(chunks, pa.string())


@dataclass
class Column:
    """The content of a column: its kind, values with numbers of rows, and rows without a value."""

    name: str
    kind: str
    values: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    is_cut: bool = False
    marks: tuple[str, ...] = ()  # texts that stand for missing values
    doubtful: tuple[str, ...] = ()  # others that may
    decimal: str = "."

    def add(self, column: pa.Array, whole: bool | None) -> None:
        """Add rows; once it has too many values, only missing ones are counted. `whole` as for `namer`."""
        self.missing += column.null_count
        if self.is_cut:
            return
        name_of = namer(column.type, self.name, whole)
        for pair in column.value_counts().to_pylist():
            if pair["values"] is not None:
                try:
                    value = name_of(pair["values"])
                except InputError:
                    value = str(pair["values"])  # it is not a category, and may be left out
                if not is_reserved(value):  # a total of a published table, whose cells are read without totals
                    self.values[value] += pair["counts"]
        self.missing += self.values.pop("", 0)
        self.is_cut = len(self.values) > MOST_VALUES

    def number(self, value: str) -> float:
        """A value as a number; ValueError if it is none."""
        return float(value if self.decimal == "." else value.replace(".", "_.").replace(",", "."))

    @property
    def rows(self) -> int:
        return self.values.total()

    @property
    def numbers(self) -> list[float] | None:
        """The values as ascending numbers if all are."""
        try:
            found = sorted(map(self.number, self.values))
        except ValueError:
            return None
        return found if all(map(isfinite, found)) else None

    @property
    def is_stored(self) -> bool:
        """Whether its values may be categories as stored: few, and whole if they are numbers."""
        numbers = self.numbers
        return len(self.values) <= MOST_CATEGORIES and (numbers is None or all(map(float.is_integer, numbers)))


def columns_of(source: Source, csv: CsvConfig) -> list[Column]:
    """Every column except the counts, each value with its number of rows; one pass over the parts."""
    layouts = layouts_of(source.parts, csv)
    kinds = dict(layouts[0].columns)
    found = {}
    for name, kind in kinds.items():
        if name != COUNT and not (COUNT in kinds and looks_like_counts(name)):
            try:
                found[name] = Column(name, kind_of(kind, name), decimal=csv.decimal)
            except InputError:
                continue  # a nested type, which has no categories
    if not found:
        raise InputError(
            f"{source.path} has no column that makes a variable; give a table of microdata, one record a row"
        )
    for part, batch in batches([(part, None) for part in source.parts], list(found), csv):
        for name, column in found.items():
            column.add(batch.column(name), part.whole)
    for column in found.values():
        _find_marks(column)
    if not any(column.rows for column in found.values()):
        raise InputError(f"{source.path} has no records; give a table with at least one")
    return list(found.values())


def _find_marks(column: Column) -> None:
    """Treat usual marks of missing values among numbers as missing; elsewhere NA may be a code."""
    if blanks := [value for value in column.values if not alike_key(value)]:
        column.marks = (" ",)
        column.missing += sum(column.values.pop(value) for value in blanks)
    marks = [value for value in column.values if value.strip() in MARKS]
    left = column.values - Counter({mark: column.values[mark] for mark in marks})
    numbers = Column("", "", left, decimal=column.decimal).numbers
    if marks and numbers:
        column.marks += tuple(sorted({mark.strip() for mark in marks}))
        column.missing += sum(column.values.pop(mark) for mark in marks)
        return
    ends = numbers if numbers and len(numbers) > FEW_NUMBERS else []
    apart = {ends[at] for at, beside in ((0, 1), (-1, -2)) if ends and abs(ends[at] - ends[beside]) > 1}
    odd = [value for value in column.values if _SENTINEL.fullmatch(value) and ends and column.number(value) in apart]
    column.doubtful = tuple(sorted([*marks, *odd]))


# Keys of records

SETTING = "earlier.key"


def require_disjoint(own: Source, others: Source, column: str, records: int, csv: CsvConfig) -> None:
    """InputError if a record is in both sources, or if the column cannot decide it.

    records  the least number of the other records: a file with fewer is the wrong one

    All keys of both sources are in memory.
    """
    (kind, keys), (other_kind, other_keys) = (_keys(source, column, csv) for source in (own, others))
    if kind != other_kind:
        raise InputError(
            f"{SETTING}: {column!r} is {kind} in {own.path} and {other_kind} in {others.path}; write it alike in both"
        )
    if len(other_keys) < records:
        raise InputError(
            f"{SETTING}: {others.path} has {len(other_keys)} records, and the publication of {records}; give the "
            "file of the records that were published"
        )
    # 1 in one file may be 1.0 in the other
    if both := set(map(alike_key, keys)) & set(map(alike_key, other_keys)):
        raise InputError(
            f"{others.path} is declared disjoint from {own.path}, and by the key {column!r} they share "
            f"{many(len(both), 'record')}; state by where which records the publication is of"
        )


def _keys(source: Source, column: str, csv: CsvConfig) -> tuple[str, set[str]]:
    """The kind and all keys; InputError for a missing key, or one of two records."""
    layout = layouts_of(source.parts, csv)[0]
    if column not in layout.names:
        raise InputError(f"{SETTING}: {source.path} has no column {column!r} but {', '.join(layout.names)}; name one")
    keys, rows = set[str](), 0
    for part, batch in batches([(part, None) for part in source.parts], [column], csv):
        values: pa.Array = batch.column(column)
        named = namer(values.type, column, part.whole, csv.missing_of(column))
        keys |= {"" if value is None else named(value) for value in values.unique().to_pylist()}
        rows += len(values)
    if "" in keys or len(keys) < rows:
        raise InputError(
            f"{SETTING}: {column!r} does not name each record of {source.path}: {rows} have {len(keys - {''})} "
            "different ones; name a column that does"
        )
    return kind_of(dict(layout.columns)[column], column), keys
