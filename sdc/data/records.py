"""Batches of records from a part, of whatever kind, and what is to be known of a part before they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sdc.config.table import EXCEL, CsvConfig
from sdc.data.parquet import parquet_batches, parquet_layout
from sdc.data.reader import MOST, READER
from sdc.data.source import SourcePart, counted
from sdc.data.text import Text, header_of, may_be_cut, text_batches
from sdc.data.vocabulary import kind_of, without_values
from sdc.model.errors import InputError

_CSV = CsvConfig()
Piece: TypeAlias = tuple[SourcePart, range | None]
"""A part, or some of its row groups, or the lines of a text that begin in a range of bytes."""


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
    if empty := next((part for part in parts if part.size == 0), None):
        raise InputError(f"{empty} is empty; give a file with a header and records")
    layouts = list(counted(_layouts(parts, csv), len(parts), "looking at the columns"))
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
    pieces: Sequence[Piece], columns: Sequence[str], csv: CsvConfig = _CSV, room: int = MOST
) -> Iterator[tuple[SourcePart, pa.RecordBatch]]:
    """The records of pieces of parts, and whose they are.

    room  bytes that reading may take, beside what a process that reads has anyway
    """
    if pieces[0][0].suffix == ".parquet":
        found = READER.each(parquet_batches, [(part, (columns, span)) for part, span in pieces], room)
    elif not pieces[0][0].is_text:
        reader, how = reader_of(pieces[0][0], csv)
        found = READER.each(reader.batches, [(part, (columns, how, span)) for part, span in pieces], room)
    else:
        written = _written(pieces[0][0], csv)
        found = READER.each(text_batches, [(part, (columns, written, span)) for part, span in pieces], room)
    return ((part, batch) for part, batch in found if batch is not None)


def require_all_values(part: SourcePart, span: range | None, csv: CsvConfig, room: int) -> None:
    """InputError where a row of a piece has no value in any column, used or not.

    Of text and Excel it has been looked; in a file of SPSS, Stata or SAS each row is a record, whatever is missing.
    """
    if part.suffix != ".parquet":
        return
    (layout,) = layouts_of([part], csv)
    row = 0 if span is None else sum(layout.groups[: span.start])
    for _, batch in batches([(part, span)], list(dict.fromkeys(layout.names)), csv, room):
        require_values(batch, part, row)
        row += len(batch)


def require_values(batch: pa.RecordBatch, part: SourcePart, before: int) -> None:
    """InputError where a row has no value in any of several columns; `before` are those before the batch."""
    if batch.num_columns > 1 and len(rows := np.flatnonzero(without_values(batch))):
        raise InputError(f"{part}, row {before + int(rows[0]) + 1}: it has no value at all; take it out")


def _written(part: SourcePart, csv: CsvConfig) -> Text:
    return Text(csv.delimiter_of(part.suffix), csv.encoding, csv.quote)


def reader_of(part: SourcePart, csv: CsvConfig) -> tuple[Any, str | None]:
    """The module for its kind, with `layout` and `batches`, and the setting that they take."""
    from sdc.data import excel, statistical

    if part.suffix == EXCEL:
        return excel, csv.sheet
    return statistical, None if csv.encoding == _CSV.encoding else csv.encoding


def _layouts(parts: Sequence[SourcePart], csv: CsvConfig) -> Iterator[Layout]:
    if parts[0].suffix == ".parquet":
        for _, (schema, groups) in READER.each(parquet_layout, [(part, ()) for part in parts]):
            yield Layout(tuple(zip(schema.names, schema.types, strict=True)), groups)
        return
    if not parts[0].is_text:
        reader, how = reader_of(parts[0], csv)
        for _, found in READER.each(reader.layout, [(part, (how,)) for part in parts]):
            yield Layout(*found)
        return
    written = _written(parts[0], csv)
    for part, names in READER.each(header_of, [(part, (written,)) for part in parts]):
        size = part.size if may_be_cut(part.suffix, written) else None
        yield Layout(tuple((name, pa.string()) for name in names), (), size)
