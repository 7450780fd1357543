"""The weights of records as integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sdc.model.errors import InputError
from sdc.model.table import MAX_TOTAL, Counts
from sdc.model.weights import UNIT

Reals = npt.NDArray[np.float64]


def weights_of(column: pa.Array, name: str, part: str, decimal: str = ".") -> Counts:
    """(records,) int64, in millionths, rounded to six decimals.

    InputError for a weight that is missing, no number, negative, zero to six decimals, or too large; no value is
    quoted.
    """
    values = _numbers(column, f"{part}: weight {name!r}", decimal)
    missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if missing:
        raise InputError(f"{part}: weight {name!r} has missing values; give each record its weight, or leave it out")
    if infinite or values.max(initial=0.0) * UNIT > MAX_TOTAL:
        raise InputError(f"{part}: weight {name!r} has a value above {MAX_TOTAL // UNIT:,}; correct it")
    found: Counts = np.rint(values * UNIT).astype(np.int64)
    if found.min(initial=1) < 1:
        what = "negative" if values.min() < 0 else "zero to six decimals"
        raise InputError(
            f"{part}: weight {name!r} has values that are {what}; every record stands for somebody: leave these "
            "records out, or correct their weights"
        )
    return found


def _numbers(column: pa.Array, where: str, decimal: str) -> Reals:
    """(records,) doubles, NaN if missing."""
    values, indices = column, None
    if pa.types.is_dictionary(column.type):
        values, indices = column.dictionary, column.indices
    kind = values.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"{where} has the type {str(kind).partition('<')[0]}; a weight is a number")
    if is_text and decimal != ".":
        values = pc.replace_substring(values, decimal, ".", max_replacements=1)
    try:
        found: Reals = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise InputError(f"{where} has values that are no numbers; correct them") from None
    if indices is None:
        return found
    placed = indices.to_numpy(zero_copy_only=False)
    missing = np.isnan(placed.astype(np.float64))
    # from text: each distinct value was parsed once, and one more stands for missing ones
    places = np.where(missing, len(found), placed).astype(np.intp)
    return np.append(found, np.nan)[places]
