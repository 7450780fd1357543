"""The loop that splits text into records and accounts for every byte of all columns.

It is compiled except for small files, which it reads faster than the compiled one loads.
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
    """Split whole lines from the position on, until the end, a full output or a problem.

    quote     its byte, or -1 without one
    places    (columns,) the output of each column, -1 if unused
    codes     (used, rows) filled with a number for each distinct value of a column
    slots     (used, 2^k) hash tables, initially zero
    edges     (used, values, 2) filled with start and end of each distinct value
    known     (used,) filled with the number of distinct values, initially zero
    rows_at   (rows,) filled with the start of each record

    Returns the number of records, the next position, the problem or DONE, and its column (or number of columns); with a
    problem the position is the start of its line. The last line needs no end.
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
                is_empty = is_empty and width > 1  # in a single column, "" is a missing value
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


class LoopOutputs(NamedTuple):
    """The outputs of the loop, see there."""

    codes: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int32]
    known: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]


def outputs(used: int, rows: int, values: int) -> LoopOutputs:
    """Outputs for so many records and distinct values of each column."""
    return LoopOutputs(
        np.empty((used, rows), np.int32),
        np.zeros((used, 1 << (2 * values - 1).bit_length()), np.int32),
        np.empty((used, values, 2), np.int32),
        np.zeros(used, np.int64),
        np.empty(rows, np.int32),
    )


@cache
def compiled() -> Split:
    """The compiled loop."""
    from sdc.compiled import kernel

    found = kernel(split)
    found(np.frombuffer(b"a\n", np.uint8), 0, 44, 34, np.zeros(1, np.int64), *outputs(1, 1, 1))
    return found
