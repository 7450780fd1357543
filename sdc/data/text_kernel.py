"""The loop that splits text into records: every byte is accounted for, of columns used or not.

It is compiled for all but small files, for which the compiled one would take longer to load than they to read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

_LF, _CR, _SPACE, _BITS = 10, 13, 32, (1 << 62) - 1
DONE, NOT_CLOSED, AFTER_QUOTE, QUOTE_INSIDE, WIDTH, NO_VALUE = range(6)


def split(
    data: npt.NDArray[np.uint8] | bytes,
    position: int,
    delimiter: int,
    quote: int,
    places: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int32],
    slots: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int32],
    known: npt.NDArray[np.int64],
    rows_at: npt.NDArray[np.int32],
) -> tuple[int, int, int, int]:
    """Splits whole lines from the position on; ends with the text, where an output is full, or with a fault.

    quote     its byte, or -1 where there is none
    places    (columns,) which of the outputs a column goes to, -1 where it is not used
    codes     (used, rows) filled with a number for each distinct value of a column
    slots     (used, 2^k) the hash tables, zeros at first
    edges     (used, values, 2) filled with where a distinct value begins and ends
    known     (used,) filled with the number of distinct values, zeros at first
    rows_at   (rows,) filled with where records begin

    Gives the number of records, the position after the last, the fault or DONE, and the column (or the number of
    columns) that it is about; the position is then where the line with the fault begins. The last line may have no end.
    """
    stop, width, rows, most = len(data), len(places), 0, len(rows_at)
    mask, room = slots.shape[1] - 1, edges.shape[1]
    while position < stop and rows < most:
        first = position
        if width > 1 and data[position] in (_LF, _CR):
            position += 1
            continue
        column, is_empty = 0, True
        while True:
            begin, mixed = position, 0
            if position < stop and data[position] == quote:
                position += 1
                while True:
                    if position >= stop or data[position] in (_LF, _CR):
                        return rows, first, NOT_CLOSED, column
                    byte = data[position]
                    position += 1
                    if byte == quote:
                        if position >= stop or data[position] != quote:
                            break
                        position += 1
                    mixed = (mixed ^ byte) * 1099511628211 & _BITS
                    is_empty = is_empty and byte <= _SPACE
                is_empty = is_empty and width > 1  # of one column "" is a value that is missing
                if position < stop and data[position] not in (delimiter, _LF, _CR):
                    return rows, first, AFTER_QUOTE, column
            else:
                while position < stop:
                    byte = data[position]
                    if byte in (delimiter, _LF, _CR):
                        break
                    if byte == quote:
                        return rows, first, QUOTE_INSIDE, column
                    mixed = (mixed ^ byte) * 1099511628211 & _BITS
                    is_empty = is_empty and byte <= _SPACE
                    position += 1
            if column < width and places[column] >= 0:
                place, length = places[column], position - begin
                slot = (mixed ^ (mixed >> 29)) & mask
                while True:
                    code = slots[place, slot] - 1
                    if code < 0:
                        code = known[place]
                        if code == room:
                            return rows, first, DONE, 0
                        slots[place, slot], known[place] = code + 1, code + 1
                        edges[place, code, 0], edges[place, code, 1] = begin, position
                        break
                    start = edges[place, code, 0]
                    if edges[place, code, 1] - start == length:
                        same = 0
                        while same < length and data[start + same] == data[begin + same]:
                            same += 1
                        if same == length:
                            break
                    slot = (slot + 1) & mask
                codes[place, rows] = code
            column += 1
            if position >= stop or data[position] != delimiter:
                break
            position += 1
        if column != width:
            return rows, first, WIDTH, column
        if is_empty:
            return rows, first, NO_VALUE, 0
        if position < stop and data[position] == _CR:
            position += 1
        if position < stop and data[position] == _LF:
            position += 1
        rows_at[rows] = first
        rows += 1
    return rows, position, DONE, 0


Split: TypeAlias = Callable[..., tuple[int, int, int, int]]


class Outputs(NamedTuple):
    """What the loop fills, see there."""

    codes: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int32]
    known: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]


def outputs(used: int, rows: int, values: int) -> Outputs:
    """Room for so many records, and for so many distinct values of each column."""
    return Outputs(
        np.empty((used, rows), np.int32),
        np.zeros((used, 1 << (2 * values - 1).bit_length()), np.int32),
        np.empty((used, values, 2), np.int32),
        np.zeros(used, np.int64),
        np.empty(rows, np.int32),
    )


@cache
def compiled() -> Split:
    """The same compiled."""
    from sdc.compiled import kernel

    found = kernel(split)
    found(np.frombuffer(b"a\n", np.uint8), 0, 44, 34, np.zeros(1, np.int64), *outputs(1, 1, 1))
    return found
