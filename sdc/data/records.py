"""Batches of records from a part, of whatever kind, and what is to be known of a part before they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sdc.config.table import EXCEL, CsvConfig
from sdc.data.reader import READER
from sdc.data.source import SourcePart, readable
from sdc.data.text import header_of, may_be_cut, text_batches
from sdc.data.vocabulary import kind_of
from sdc.model.errors import InputError

_BATCH_ROWS = 1 << 17
Result = TypeVar("Result")

_CSV = CsvConfig()


@dataclass(frozen=True)
class Layout:
    """Columns of a part with their types, and the rows of each row group, or the bytes of a text that may be cut."""

    columns: tuple[tuple[str, pa.DataType], ...]
    groups: tuple[int, ...]
    size: int | None = None

    @property
    def names(self) -> list[str]:
        """Of the columns, in the part's order."""
        return [name for name, _ in self.columns]


def layouts_of(parts: Sequence[SourcePart], csv: CsvConfig) -> list[Layout]:
    """The layout of every part; InputError where one has other columns than the first, or another order."""
    layouts = []
    for part in parts:
        with part.at_rest():
            layouts.append(apart(_layout, part, csv))
    names = layouts[0].names
    # before any record is read: a part that does not fit is better found now than after hours
    for part, layout in zip(parts, layouts, strict=True):
        if layout.names != names:
            raise InputError(
                f"{part} has the columns {', '.join(layout.names)} but {parts[0].name} has {', '.join(names)}; "
                "give every part the same columns in the same order"
            )
    if len(names) == 1 and re.search(r"[,;\t|]", names[0]):
        raise InputError(
            f"{parts[0]} has the one column {names[0]!r}; separate the columns by commas, or name what separates them "
            "as table.csv.delimiter"
        )
    return layouts


def require_once(names: Sequence[str], used: Iterable[str | None], path: str) -> None:
    """InputError where a column that is used is there twice."""
    if twice := next((name for name in used if name is not None and names.count(name) > 1), None):
        raise InputError(f"{path} has {names.count(twice)} columns called {twice!r}; rename or drop one")


def check_kinds(parts: Sequence[SourcePart], layouts: Sequence[Layout], columns: Iterable[str]) -> None:
    """InputError where a column that is used has no categories, or is of one kind here and of another there."""
    types = [dict(layout.columns) for layout in layouts]
    for name in columns:
        first: tuple[str, pa.DataType, SourcePart] | None = None
        for part, type_of in zip(parts, types, strict=True):
            found = type_of[name]
            kind = kind_of(found, name)
            if first is not None and kind not in (first[0], "nothing"):
                raise InputError(
                    f"column {name!r} has the type {found} in {part} but {first[1]} in {first[2].name}; "
                    "give it one type in every part"
                )
            if kind != "nothing" and first is None:
                first = kind, found, part


def apart(function: Callable[..., Result], part: SourcePart, *arguments: Any) -> Result:
    """What a function of a part gives: of all but text, whose readers damage may kill, in a child."""
    if not part.is_text:
        return READER.run(function, part, *arguments)
    with readable(part.url):
        return function(part, *arguments)


def batches(
    part: SourcePart, columns: list[str], span: range | None = None, csv: CsvConfig = _CSV
) -> Iterator[pa.RecordBatch]:
    """The records of a part, of these row groups, or of the lines that begin in this range of bytes."""
    if part.suffix == ".parquet":
        return _parquet_batches(part, columns, span)
    if not part.is_text:
        reader, how = reader_of(part, csv)
        return _each(reader.batches(part, columns, how, span), part)
    return _each(text_batches(part, columns, csv, span), part)


def reader_of(part: SourcePart, csv: CsvConfig) -> tuple[Any, str | None]:
    """The module for its kind, with `layout` and `batches`, and the setting that they take."""
    from sdc.data import excel, statistical

    if part.suffix == EXCEL:
        return excel, csv.sheet
    return statistical, None if csv.encoding == _CSV.encoding else csv.encoding


def _layout(part: SourcePart, csv: CsvConfig) -> Layout:
    if part.size == 0:
        raise InputError(f"{part} is empty; give a file with a header and records")
    if part.suffix != ".parquet" and not part.is_text:
        with readable(part.url):
            reader, how = reader_of(part, csv)
            return Layout(*reader.layout(part, how))
    if part.is_text:
        with readable(part.url):
            names = header_of(part, csv)
            return Layout(
                tuple((name, pa.string()) for name in names), (), part.size if may_be_cut(part, csv) else None
            )
    with part.opened() as file, readable(part.url):
        found = pq.ParquetFile(file)
        schema, metadata = found.schema_arrow, found.metadata
        groups = tuple(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))
        return Layout(tuple(zip(schema.names, schema.types, strict=True)), groups)


def _parquet_batches(part: SourcePart, columns: list[str], groups: range | None) -> Iterator[pa.RecordBatch]:
    with part.opened() as source:
        with readable(part.url):
            schema = pq.read_schema(source)
            strings = [name for name in columns if pa.types.is_string(schema.field(name).type)]
            # strings as dictionaries: all that follows looks at each distinct value once, not at each record
            file = pq.ParquetFile(source, read_dictionary=strings)
            chosen = None if groups is None else list(groups)
            found = file.iter_batches(_BATCH_ROWS, row_groups=chosen, columns=columns)
        for batch in _each(found, part):
            with readable(part.url):
                batch.validate(full=True)  # Arrow has looked at neither indices into dictionaries nor at UTF-8
            yield batch


def _each(found: Iterable[pa.RecordBatch], part: SourcePart) -> Iterator[pa.RecordBatch]:
    """The batches, with what Arrow raises between them made an InputError."""
    iterator = iter(found)
    while True:
        with readable(part.url):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch
