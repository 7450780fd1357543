"""Batches of records from a part, of whatever kind, and what is to be known of a part before they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sdc.config.table import EXCEL, CsvConfig
from sdc.data.parquet import parquet_batches, parquet_layout
from sdc.data.reader import MOST, READER
from sdc.data.source import SourcePart
from sdc.data.text import Text, header_of, may_be_cut, text_batches
from sdc.data.vocabulary import kind_of
from sdc.model.errors import InputError

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
            layouts.append(_layout(part, csv))
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


def batches(
    part: SourcePart, columns: Sequence[str], span: range | None = None, csv: CsvConfig = _CSV, room: int = MOST
) -> Iterator[pa.RecordBatch]:
    """The records of a part, of these row groups, or of the lines that begin in this range of bytes.

    room  bytes that reading may take, beside what a process that reads has anyway
    """
    with part.at_rest():
        if part.suffix == ".parquet":
            yield from READER.stream(parquet_batches, part, columns, span, room=room)
        elif not part.is_text:
            reader, how = reader_of(part, csv)
            yield from READER.stream(reader.batches, part, columns, how, span, room=room)
        else:
            yield from READER.stream(text_batches, part, columns, _written(part, csv), span, room=room)


def _written(part: SourcePart, csv: CsvConfig) -> Text:
    return Text(csv.delimiter_of(part.suffix), csv.encoding, csv.quote)


def reader_of(part: SourcePart, csv: CsvConfig) -> tuple[Any, str | None]:
    """The module for its kind, with `layout` and `batches`, and the setting that they take."""
    from sdc.data import excel, statistical

    if part.suffix == EXCEL:
        return excel, csv.sheet
    return statistical, None if csv.encoding == _CSV.encoding else csv.encoding


def _layout(part: SourcePart, csv: CsvConfig) -> Layout:
    if part.size == 0:
        raise InputError(f"{part} is empty; give a file with a header and records")
    if not part.is_text and part.suffix != ".parquet":
        reader, how = reader_of(part, csv)
        return Layout(*READER.run(reader.layout, part, how))
    if part.suffix == ".parquet":
        schema, groups = READER.run(parquet_layout, part)
        return Layout(tuple(zip(schema.names, schema.types, strict=True)), groups)
    written = _written(part, csv)
    columns = tuple((name, pa.string()) for name in READER.run(header_of, part, written))
    return Layout(columns, (), part.size if may_be_cut(part.suffix, written) else None)
