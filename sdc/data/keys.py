"""Record keys: check that two sources share no record, by a column that identifies records in both."""

from __future__ import annotations

import pyarrow as pa

from sdc.config.table import CsvConfig
from sdc.data.records import batches, layouts_of
from sdc.data.source import Source
from sdc.data.vocabulary import kind_of, namer
from sdc.model.alike import alike_key
from sdc.model.errors import InputError

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
            f"{SETTING}: {others.path} has {len(other_keys)} records, and the publication is of {records}; name those "
            "that it is of"
        )
    # 1 in one file may be 1.0 in the other
    if both := set(map(alike_key, keys)) & set(map(alike_key, other_keys)):
        raise InputError(
            f"{others.path} is called disjoint from {own.path}, and by {column!r} {len(both)} records are in both; "
            "name by where which records the publication is of"
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
