"""Parquet: one column of categories for each variable, and the counts; one row group for each chunk of cells."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sdc.model.table import Counts
from sdc.publish.formats.table import NO_COUNT, CountTable, Pieces
from sdc.run_format import STATUS, WITHHELD_STATUS
from sdc.storage.parquet import FORM

ROW_GROUP, CODED_ROW_GROUP = 16, 8  # chunks: each row group has its own dictionary
# no limit on dictionaries: past it Arrow stores values plainly and the categories would lose their order
CODED_FORM: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}


def parquet(table: CountTable, *, is_coded: bool = False) -> Pieces:
    """Categories as text, counts as 64-bit integers.

    is_coded  a dictionary of each variable with all its categories in order; title and total as metadata
    """
    kind = pa.dictionary(pa.int32(), pa.string()) if is_coded else pa.string()
    columns = [pa.field(v.name, kind) for v in table.variables]
    measures = [pa.field(measure, pa.int64()) for measure in table.measures]
    status = [pa.field(STATUS, pa.string())] if table.withheld is not None else []
    metadata = {"title": table.title, "records": str(table.records)} if is_coded else {}
    schema = pa.schema([*columns, *measures, *status], metadata)
    categories = [pa.array(v.categories, pa.string()) for v in table.variables]
    written = Drained()
    with pq.ParquetWriter(written, schema, **(CODED_FORM if is_coded else FORM)) as writer:
        for codes, numbers in table.rows(CODED_ROW_GROUP if is_coded else ROW_GROUP):
            pairs = zip((pa.array(column.astype(np.int32)) for column in codes.T), categories, strict=True)
            named = [pa.DictionaryArray.from_arrays(*one) if is_coded else one[1].take(one[0]) for one in pairs]
            arrays = list(map(pa.array, numbers)) if table.withheld is None else with_status(numbers[0])
            writer.write_table(pa.Table.from_arrays([*named, *arrays], schema=schema))
            yield written.drain()
    yield written.drain()


def with_status(counts: Counts) -> list[pa.Array]:
    """The counts, null for suppressed ones, and the status of each."""
    withheld = counts == NO_COUNT
    return [pa.array(counts, mask=withheld), pa.array(np.where(withheld, WITHHELD_STATUS, ""), pa.string())]


class Drained(io.RawIOBase):
    """A file whose content is taken away while it is written."""

    def __init__(self) -> None:
        self._pending, self._taken = bytearray(), 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._pending += content
        return len(content)

    def tell(self) -> int:
        return self._taken + len(self._pending)

    def drain(self) -> bytes:
        content = bytes(self._pending)
        self._taken += len(content)
        self._pending.clear()
        return content
