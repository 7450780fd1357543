"""Columns of records as they are, for what counts nothing: of a file, a folder, a glob, a URL or a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sdc.config.table import CsvConfig
from sdc.data.frames import arrow_of
from sdc.data.records import batches, check_kinds, layouts_of, require_once
from sdc.data.source import SourcePart, open_source
from sdc.data.vocabulary import namer
from sdc.model.alike import alike_key
from sdc.model.errors import InputError, nearest


def read_columns(source: Any, value: str, named: Sequence[str], csv: CsvConfig, ignore: Sequence[str] = ()) -> pa.Table:
    """One column as it is stored, and others as the names of their values, null where one is missing.

    The decimal sign concerns numbers and no codes, so that it is left to whoever reads the values.
    """
    columns, as_stored = [value, *named], csv.model_copy(update={"decimal": "."})
    if odd := [name for name in (csv.missing if isinstance(csv.missing, dict) else ()) if name not in columns]:
        raise InputError(f"csv.missing names {odd[0]!r}, no column that is used; {nearest(odd[0], columns)}")
    if isinstance(source, str | Path):
        found = open_source(source, ignore=ignore)
        csv.require_used(found.parts[0].suffix, found.path)
        layouts, path = layouts_of(found.parts, csv), found.path
        _require(columns, layouts[0].names, path)
        require_once(layouts[0].names, columns, path)
        check_kinds(found.parts, layouts, columns)
        pieces = [_read(part, value, named, as_stored) for part in found.parts]
        pieces = [piece for piece in pieces if len(piece)] or pieces[:1]
        if len(types := {str(piece.schema.field(value).type) for piece in pieces}) > 1:
            raise InputError(f"{path} has {value!r} as {' and as '.join(sorted(types))}; give it one type")
        table = pa.concat_tables(pieces)
    else:
        csv.require_used("", "the data frame")
        table, path = arrow_of(source, frozenset(map(alike_key, columns))), "the data frame"
        _require(columns, table.column_names, path)
        table = _chosen(table, value, named, csv)
    if not len(table):
        raise InputError(f"{path} has no records; name a file that has")
    return table


def _require(columns: Sequence[str], there: Sequence[str], path: str) -> None:
    if lacking := [name for name in columns if name not in there]:
        raise InputError(f"{path} has no column {lacking[0]!r}; {nearest(lacking[0], there)}")


def _read(part: SourcePart, value: str, named: Sequence[str], csv: CsvConfig) -> pa.Table:
    columns = [value, *named]
    found = [batch for _, batch in batches([(part, None)], columns, csv)]
    table = pa.Table.from_batches(found) if found else pa.table({n: [""][:0] for n in columns})
    return _chosen(table, value, named, csv, part.whole)


def _chosen(table: pa.Table, value: str, named: Sequence[str], csv: CsvConfig, whole: bool | None = None) -> pa.Table:
    values = table.column(value)
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    return pa.table({value: plain, **{name: _named(table.column(name), name, csv, whole) for name in named}})


def _named(column: pa.ChunkedArray, name: str, csv: CsvConfig, whole: bool | None) -> pa.ChunkedArray:
    """Its values by name; an empty name is a missing value."""
    name_of, chunks = namer(column.type, name, whole, csv.missing_of(name)), []
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = [None if value is None else name_of(value) or None for value in coded.dictionary.to_pylist()]
        chunks.append(pa.array(names, pa.string()).take(coded.indices))
    return pa.chunked_array(chunks, pa.string())
