"""Batches of records from a part, Parquet or CSV, and what is to be known of a part before they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sdc.config.table import CsvConfig
from sdc.data.reader import READER
from sdc.data.source import SourcePart, readable
from sdc.data.vocabulary import kind_of
from sdc.model.errors import InputError

_BATCH_ROWS = 1 << 17
_CSV_BLOCK = 1 << 24  # bytes
_HEADER_BLOCK = 1 << 20  # bytes, of which only the first line is wanted
Result = TypeVar("Result")

_CSV = CsvConfig()
_POINT, _COMMA = r"^[+-]?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?$", r"^([+-]?[0-9]+),([0-9]+([eE][+-]?[0-9]+)?)$"
_NAMES = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Layout:
    """Columns of a part with their types, and the rows of each row group; a CSV file is one of unknown length."""

    columns: tuple[tuple[str, pa.DataType], ...]
    groups: tuple[int, ...]

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
    _check_names(names, parts[0])
    return layouts


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
    """What a function of a part gives: of Parquet, which Arrow does not survive where it is damaged, in a child."""
    if part.suffix == ".parquet":
        return READER.run(function, part, *arguments)
    with readable(part.url):
        return function(part, *arguments)


def batches(
    part: SourcePart, columns: list[str], groups: range | None = None, csv: CsvConfig = _CSV
) -> Iterator[pa.RecordBatch]:
    """The records of a part, or of these row groups of it."""
    if part.suffix == ".parquet":
        return _parquet_batches(part, columns, groups)
    return _csv_batches(part, columns, csv)


def _layout(part: SourcePart, csv: CsvConfig) -> Layout:
    if part.size == 0:
        raise InputError(f"{part} is empty; give a file with a header and records")
    with part.opened() as file, readable(part.url):
        if part.suffix != ".parquet":
            return Layout(tuple((name, pa.string()) for name in _open_csv(part, file, csv).schema.names), (0,))
        found = pq.ParquetFile(file)
        schema, metadata = found.schema_arrow, found.metadata
        groups = tuple(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))
        return Layout(tuple(zip(schema.names, schema.types, strict=True)), groups)


def _check_names(names: list[str], part: SourcePart) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{part} has {names.count(twice[0])} columns called {twice[0]!r}; rename or drop one")
    if "" in names:
        raise InputError(f"{part}: column {names.index('') + 1} has no name; name it or drop it")
    if len(names) == 1 and re.search(r"[,;\t|]", names[0]):
        raise InputError(
            f"{part} has the one column {names[0]!r}; separate the columns by commas, or name what separates them as "
            "table.csv.delimiter"
        )


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


def _csv_batches(part: SourcePart, columns: list[str], csv: CsvConfig) -> Iterator[pa.RecordBatch]:
    options = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(columns, _NAMES),
        include_columns=columns,
        null_values=[""],
        strings_can_be_null=True,
    )
    # in a file of one column an empty line is a missing value, and must not vanish
    several = len(_layout(part, csv).columns) > 1
    with part.opened() as source:
        with readable(part.url):
            found = _open_csv(part, source, csv, options, skip_empty=several)
        for batch in _each(found, part):
            yield batch if csv.decimal == "." else _with_points(batch, part)


def _with_points(batch: pa.RecordBatch, part: SourcePart) -> pa.RecordBatch:
    """The batch of a file whose decimal sign is a comma, with points.

    InputError where a numeral has a point already: of 1.000 nobody knows whether it is 1 or 1000.
    """
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pc.any(pc.match_substring_regex(column.dictionary, _POINT)).as_py():
            raise InputError(
                f"{part}: column {name!r} has numbers with a point, and table.csv.decimal is a comma; write them "
                "without, or correct the setting"
            )
        pointed = pc.replace_substring_regex(column.dictionary, _COMMA, r"\1.\2")
        columns.append(pa.DictionaryArray.from_arrays(column.indices, pointed))
    return pa.record_batch(columns, names=batch.schema.names)


def _open_csv(
    part: SourcePart, file: str | IO[bytes], csv: CsvConfig, options: Any = None, *, skip_empty: bool = True
) -> Any:
    if not isinstance(file, str) and part.suffix.endswith(".gz"):
        file = pa.CompressedInputStream(file, "gzip")
    return pyarrow.csv.open_csv(
        file,
        pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK if options else _HEADER_BLOCK, encoding=csv.encoding),
        # a quoted end of line is no end of a record; `vocabulary` refuses the value then, and no record is lost
        pyarrow.csv.ParseOptions(delimiter=csv.delimiter, newlines_in_values=True, ignore_empty_lines=skip_empty),
        options,
    )


def _each(found: Iterable[pa.RecordBatch], part: SourcePart) -> Iterator[pa.RecordBatch]:
    """The batches, with what Arrow raises between them made an InputError."""
    iterator = iter(found)
    while True:
        with readable(part.url):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch
