"""Batches of records from a part of any kind, or a data frame, and the layout of a part."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sdc.config.table import EXCEL, CsvConfig
from sdc.data.child import FoundLayout, RecordFile, narrow
from sdc.data.reader import MOST, READER
from sdc.data.source import Source, SourcePart, counted, open_source
from sdc.data.text import Text, text_batches, text_layout
from sdc.data.vocabulary import kind_of, without_values
from sdc.model.alike import alike_key
from sdc.model.errors import InputError, many

_BATCH_ROWS = 1 << 17
_PAGES = 1 << 20  # bytes of a column that are read at a time
_NOT_HELD = pa.ArrowException, TypeError, ValueError, OverflowError  # for values that Arrow cannot hold


FRAME = "the data frame"


@dataclass(frozen=True, eq=False)
class FramePart(SourcePart):
    """A data frame, read like a file."""

    frame: pa.Table


def source_of(source: Any, ignore: Sequence[str], used: Collection[str] | None) -> Source:
    """The parts of a path or URL, see `open_source`; or a data frame as one, see `arrow_of` for `used`."""
    if isinstance(source, str | Path):
        return open_source(source, ignore=ignore)
    return Source(FRAME, (FramePart(FRAME, None, "", arrow_of(source, used)),))


def parquet_layout(part: RecordFile, how: None) -> FoundLayout:
    """The columns with their types, and the rows of each row group."""
    with part.opened() as source:
        file = pq.ParquetFile(source)
        schema = file.schema_arrow
        return tuple(zip(schema.names, schema.types, strict=True)), tuple(_rows(file)), None


def parquet_batches(
    part: RecordFile, columns: Sequence[str], how: None, groups: range | None
) -> Iterator[pa.RecordBatch]:
    """The records of some row groups, None for all; texts as dictionaries, so that each is examined once for each
    batch.
    """
    with part.opened() as source:
        metadata = pq.ParquetFile(source).metadata
        paths = {metadata.schema.column(c).path for c in range(metadata.num_columns)}
        texts = [name for name in columns if name in paths]  # other types stay as they are
        file = pq.ParquetFile(
            source, metadata=metadata, read_dictionary=texts, buffer_size=_PAGES, page_checksum_verification=True
        )
        chosen = range(file.num_row_groups) if groups is None else groups
        rows = sum(list(_rows(file))[g] for g in chosen)
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=list(chosen), columns=list(columns), use_threads=False):
            rows -= len(batch)
            yield pa.record_batch(list(map(_checked, batch.columns)), names=batch.schema.names)
        if rows:
            raise pa.ArrowInvalid(f"{rows} rows fewer than its metadata state")


def _rows(file: pq.ParquetFile) -> Iterator[int]:
    """The rows of each row group; Arrow does not check the columns' numbers of values."""
    metadata = file.metadata
    flat = [c for c in range(metadata.num_columns) if not file.schema.column(c).max_repetition_level]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        if any(group.column(c).num_values != group.num_rows for c in flat):
            raise pa.ArrowInvalid("a row group with columns of several lengths")
        yield group.num_rows


def _checked(column: pa.Array) -> pa.Array:
    """The column with the indices of a dictionary narrowed; Arrow checks neither these nor UTF-8."""
    if not pa.types.is_dictionary(column.type) or column.null_count or column.indices.type != pa.int32():
        column.validate(full=True)
        return column
    dictionary, indices = column.dictionary, column.indices
    dictionary.validate(full=True)
    own = np.frombuffer(indices.buffers()[1], np.int32)[indices.offset : indices.offset + len(indices)]
    if len(own) and not 0 <= own.min() <= own.max() < len(dictionary):
        raise pa.ArrowInvalid("an index of a dictionary is out of bounds")
    return narrow(own, dictionary)


_CSV = CsvConfig()
Piece: TypeAlias = tuple[SourcePart, range | None]
"""A part, or some of its row groups, or the lines of a text that begin in a range of bytes."""


@dataclass(frozen=True)
class Layout:
    """Columns of a part with their types, and the rows of each row group, or the bytes of a divisible text."""

    columns: tuple[tuple[str, pa.DataType], ...]
    groups: tuple[int, ...] = ()
    size: int | None = None

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


def layouts_of(parts: Sequence[SourcePart], csv: CsvConfig) -> list[Layout]:
    """The layout of every part; InputError if columns or their order differ."""
    if empty := next((part for part in parts if part.size == 0), None):
        raise InputError(f"{empty} is empty; give a file with a header and records")
    layouts = list(counted(_layouts(parts, csv), len(parts), "looking at the columns"))
    names = layouts[0].names
    # before any record is read: better now than after hours
    for part, layout in zip(parts, layouts, strict=True):
        if layout.names != names:
            raise InputError(
                f"{part} has the columns {', '.join(layout.names)} but {parts[0].name} has {', '.join(names)}; "
                "give every part the same columns in the same order"
            )
    if parts[0].suffix and len(names) == 1 and re.search(r"[,;\t|]", names[0]):
        raise InputError(
            f"{parts[0]} has the one column {names[0]!r}; separate the columns by commas, or name what separates them "
            "as table.csv.delimiter"
        )
    return layouts


def require_once(names: Sequence[str], used: Iterable[str | None], path: str) -> None:
    """InputError if a used column occurs twice."""
    if twice := next((name for name in used if name is not None and names.count(name) > 1), None):
        raise InputError(f"{path} has {names.count(twice)} columns called {twice!r}; rename or drop one")


def check_kinds(parts: Sequence[SourcePart], layouts: Sequence[Layout], columns: Iterable[str]) -> None:
    """InputError if a used column has no categories, or different kinds in different parts."""
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
    """The records of pieces of parts, with their part.

    room  bytes for reading, beside the basic memory of a reading process
    """
    part, *_ = pieces[0]
    if isinstance(part, FramePart):
        return ((part, batch) for batch in part.frame.select(columns).to_batches(_BATCH_ROWS))
    _, read, how = reader_of(part, csv)
    found = READER.each(read, [(part, (columns, how, span)) for part, span in pieces], room)
    return ((part, batch) for part, batch in found if batch is not None)


def require_all_values(part: SourcePart, span: range | None, csv: CsvConfig, room: int) -> None:
    """InputError for a row without any value, in used or unused columns.

    Text and Excel have been checked; in a file of SPSS, Stata or SAS each row is a record.
    """
    if part.suffix not in (".parquet", ""):
        return
    (layout,) = layouts_of([part], csv)
    row = 0 if span is None else sum(layout.groups[: span.start])
    for _, batch in batches([(part, span)], list(dict.fromkeys(layout.names)), csv, room):
        if batch.num_columns > 1 and len(rows := np.flatnonzero(without_values(batch))):
            raise InputError(f"{part}, row {row + int(rows[0]) + 1}: the row is empty; delete it")
        row += len(batch)


def reader_of(part: SourcePart, csv: CsvConfig) -> tuple[Callable[..., Any], Callable[..., Any], Any]:
    """What reads the layout and the batches of a kind of file, and the setting that both take."""
    from sdc.data import excel, statistical

    if part.suffix == ".parquet":
        return parquet_layout, parquet_batches, None
    if part.is_text:
        return text_layout, text_batches, Text(csv.delimiter_of(part.suffix), csv.encoding, csv.quote)
    if part.suffix == EXCEL:
        return excel.layout, excel.batches, csv.sheet
    return statistical.layout, statistical.batches, None if csv.encoding == _CSV.encoding else csv.encoding


def _layouts(parts: Sequence[SourcePart], csv: CsvConfig) -> Iterator[Layout]:
    if isinstance(parts[0], FramePart):
        schema = parts[0].frame.schema
        yield Layout(tuple(zip(schema.names, schema.types, strict=True)))
        return
    layout, _, how = reader_of(parts[0], csv)
    for _, found in READER.each(layout, [(part, (how,)) for part in parts]):
        yield Layout(*found)


# Data frames: pandas, Polars, Arrow, relations of DuckDB, and other Arrow streams


def arrow_of(frame: Any, used: Collection[str] | None = None) -> pa.Table:
    """The columns of a data frame; a LazyFrame or relation is executed.

    used  keys of the names of used columns, None for all; other columns are not checked

    Messages quote no data. Raises InputError for another object, a failing query, equal column names, an index that
    would be lost, and a column of mixed types.
    """
    kind = type(frame).__name__
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        table = _of_pandas(frame, used)
    elif library == "polars" and hasattr(frame, "collect"):
        table = _of_query(frame, lambda: _narrow(frame.collect()))
    elif library == "polars" and kind == "DataFrame":
        table = _of_query(frame, lambda: _narrow(frame))
    elif kind != "Series" and (isinstance(frame, pa.RecordBatch) or hasattr(frame, "__arrow_c_stream__")):
        table = _of_query(frame, lambda: frame)
    else:
        raise InputError(
            "a table is read from a path, from a data frame of pandas, Polars or Arrow, from a LazyFrame of Polars or "
            f"from a relation of DuckDB; this is a {kind}"
        )
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1 and _is_used(name, used)}):
        raise InputError(f"the data frame has {names.count(twice[0])} columns called {twice[0]!r}; rename or drop one")
    return table


def _of_query(frame: Any, run: Callable[[], Any]) -> pa.Table:
    try:
        return pa.table(run())
    except Exception as error:  # each library has its own errors, whose messages may quote a record
        raise InputError(
            f"the {type(frame).__name__} cannot be read: reading it fails with {type(error).__name__}; run the "
            "query or frame alone, and correct it",
            str(error),
        ) from None


def _narrow(frame: Any) -> Any:
    """128-bit integers as texts: Arrow lacks them."""
    wide = {name: str for name, kind in frame.schema.items() if str(kind) in ("Int128", "UInt128")}
    return frame.cast(wide) if wide else frame


def _is_used(name: object, used: Collection[str] | None) -> bool:
    return used is None or (isinstance(name, str) and alike_key(name) in used)


def _of_pandas(frame: Any, used: Collection[str] | None) -> pa.Table:
    places = [place for place, name in enumerate(frame.columns) if _is_used(name, used)]
    names = [frame.columns[place] for place in places]
    if odd := [name for name in names if not isinstance(name, str)]:
        raise InputError(
            f"the data frame has {many(len(odd), 'column')} with a name that is not text, such as one of the type "
            f"{type(odd[0]).__name__}; name them by text"
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"the data frame has {names.count(twice[0])} columns called {twice[0]!r}; rename or drop one")
    index = frame.index
    # an unnamed range index is pandas's row number; any other index is a variable that would be lost
    if used is None and (type(index).__name__ != "RangeIndex" or index.name is not None):
        called = ", ".join(repr(name) for name in index.names)
        raise InputError(
            f"the index of the data frame ({called}) would be lost; call reset_index(), with drop=True if it is not "
            "needed"
        )
    chosen = frame.iloc[:, places]
    found = pa.table({name: _of_column(name, chosen[name]) for name in names})
    for place, name in enumerate(frame.columns):
        if place not in places and isinstance(name, str):  # examined for counts and totals only
            found = found.append_column(name, _whatever(frame.iloc[:, place]))
    return found


def _of_column(name: str, column: Any) -> pa.Array:
    """InputError for values of several types, and for values that Arrow cannot hold."""
    kind = getattr(column.dtype, "categories", column).dtype
    if type(kind).__name__ == "IntervalDtype":  # named as pandas writes it, such as (0, 10]
        column = column.astype(object).map(str, na_action="ignore")
    if str(column.dtype) == "object":
        kinds = sorted({type(value).__name__ for value in column[column.notna()]})
        if len(kinds) > 1:
            raise InputError(
                f"column {name!r} of the data frame has values of the types {', '.join(kinds)}; give it one, such as "
                "text"
            )
        kind = "".join(kinds)
    try:
        return pa.Array.from_pandas(column)
    except _NOT_HELD as error:
        raise InputError(
            f"column {name!r} of the data frame has the type {kind}, which Arrow cannot hold; store it as text",
            str(error),
        ) from None


def _whatever(column: Any) -> pa.Array:
    try:
        return pa.Array.from_pandas(column)
    except _NOT_HELD:
        return pa.array([str(value) for value in column], pa.string())
