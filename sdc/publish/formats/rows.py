"""Rows of text, one for each cell, made in Arrow chunk by chunk, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sdc.publish.formats.table import NO_COUNT, CountTable

Strings: TypeAlias = pa.LargeStringArray
Chunks: TypeAlias = Iterator[tuple[npt.NDArray[Any], Strings]]
Pieces: TypeAlias = Iterator[bytes]


@dataclass(frozen=True)
class TextRows:
    """The text format of one table.

    head, tail   around all rows
    words        the text of each category of each variable
    start, end   around each row
    before       before the count of each row
    between      between two rows
    """

    head: str
    tail: str
    words: Sequence[Sequence[str]] = ()
    start: str = ""
    before: str = ""
    end: str = ""
    between: str = ""

    def written(self, chunks: Chunks) -> Pieces:
        """The head, the rows of each chunk, the tail."""
        yield self.head.encode()
        words = [pa.array(of_categories, pa.large_string()) for of_categories in self.words]
        skipped = len(self.between.encode())  # nothing precedes the first row
        for codes, texts in chunks:
            texts_of_codes = (
                of_categories.take(pa.array(column)) for of_categories, column in zip(words, codes.T, strict=True)
            )
            yield bytes_of(joined(self.between + self.start, *texts_of_codes, self.before, texts, self.end))[skipped:]
            skipped = 0
        yield self.tail.encode()


def bytes_of(rows: Strings) -> bytes:
    """All strings concatenated, without a copy."""
    _, ends, content = rows.buffers()
    within = np.frombuffer(ends, np.int64)[rows.offset :][: len(rows) + 1]
    return bytes(content[within[0] : within[-1]])


def joined(*columns: str | Strings) -> Strings:
    """Concatenate strings row by row; a single text is repeated in each row."""
    # in Arrow: a loop over a million cells takes seconds
    typed = [pa.scalar(column, pa.large_string()) if isinstance(column, str) else column for column in columns]
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()))


def texts_of(counts: npt.NDArray[np.int64]) -> Strings:
    return pc.cast(pa.array(counts), pa.large_string())


def cells_of(table: CountTable, before: str = "", after: str = "", withheld: str = "") -> Chunks:
    """Codes and counts as text of all listed cells, a chunk at a time.

    before, after  around each count
    withheld       in place of a suppressed count
    """
    for codes, (first, *others) in table.rows():
        more = [part for numbers in others for part in (",", texts_of(numbers))]
        texts = joined(before, texts_of(first), *more, after) if before or more or after else texts_of(first)
        if table.withheld is not None:
            texts = pc.if_else(pa.array(first == NO_COUNT), pa.scalar(withheld, pa.large_string()), texts)
        yield codes, texts


def counts_of(table: CountTable, withheld: str) -> Chunks:
    """Counts as text without codes, for formats that identify cells by position."""
    for codes, texts in cells_of(table, withheld=withheld):
        yield codes[:, :0], texts
