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
        metadata = file.metadata
        return file.schema_arrow, tuple(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))


def parquet_batches(part: Part, columns: Sequence[str], groups: range | None) -> Iterator[pa.RecordBatch]:
    """The records of some row groups, None for all; texts as dictionaries, so that each is looked at once a batch."""
    with part.opened() as source:
        file = pq.ParquetFile(source, buffer_size=_PAGES)
        texts = [name for name in columns if pa.types.is_string(file.schema_arrow.field(name).type)]
        if texts:
            file = pq.ParquetFile(source, buffer_size=_PAGES, read_dictionary=texts, metadata=file.metadata)
        chosen = None if groups is None else list(groups)
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=chosen, columns=list(columns), use_threads=False):
            yield pa.record_batch(list(map(_checked, batch.columns)), names=batch.schema.names)


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
