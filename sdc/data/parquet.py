"""Parquet files, as the child process reads them that may die of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sdc.data.child import Part, narrow

_BATCH_ROWS = 1 << 17
_PAGES = 1 << 20  # bytes that are read of a column at a time


def parquet_layout(part: Part) -> tuple[pa.Schema, tuple[int, ...]]:
    """The columns with their types, and the rows of each row group."""
    with part.opened() as source:
        file = pq.ParquetFile(source)
        return file.schema_arrow, tuple(_rows(file))


def parquet_batches(part: Part, columns: Sequence[str], groups: range | None) -> Iterator[pa.RecordBatch]:
    """The records of some row groups, None for all; texts as dictionaries, so that each is looked at once a batch."""
    with part.opened() as source:
        metadata = pq.ParquetFile(source).metadata
        paths = {metadata.schema.column(c).path for c in range(metadata.num_columns)}
        texts = [name for name in columns if name in paths]  # of other types it stays as it is
        file = pq.ParquetFile(
            source, metadata=metadata, read_dictionary=texts, buffer_size=_PAGES, page_checksum_verification=True
        )
        chosen = range(file.num_row_groups) if groups is None else groups
        rows = sum(list(_rows(file))[g] for g in chosen)
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=list(chosen), columns=list(columns), use_threads=False):
            rows -= len(batch)
            yield pa.record_batch(list(map(_checked, batch.columns)), names=batch.schema.names)
        if rows:
            raise pa.ArrowInvalid(f"{rows} rows fewer than it says")


def _rows(file: pq.ParquetFile) -> Iterator[int]:
    """Of each row group; Arrow does not look whether its columns have as many values."""
    metadata = file.metadata
    flat = [c for c in range(metadata.num_columns) if not file.schema.column(c).max_repetition_level]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        if any(group.column(c).num_values != group.num_rows for c in flat):
            raise pa.ArrowInvalid("a row group with columns of several lengths")
        yield group.num_rows


def _checked(column: pa.Array) -> pa.Array:
    """The column, the numbers of a dictionary in few bytes; Arrow has looked at neither these nor at UTF-8."""
    if not pa.types.is_dictionary(column.type) or column.null_count or column.indices.type != pa.int32():
        column.validate(full=True)
        return column
    dictionary, indices = column.dictionary, column.indices
    dictionary.validate(full=True)
    own = np.frombuffer(indices.buffers()[1], np.int32)[indices.offset : indices.offset + len(indices)]
    if len(own) and not 0 <= own.min() <= own.max() < len(dictionary):
        raise pa.ArrowInvalid("an index of a dictionary is out of bounds")
    return narrow(own, dictionary)
