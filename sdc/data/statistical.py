"""Read files of SPSS, Stata and SAS with pyreadstat in blocks of rows; only in the child process, see `reader`.

Values are read as stored: codes, not labels. Missing are the file's missing values: system-missing ones, declared
user-missing ones, and .a to .z. Dates become dates; formats with a time or a part of a date are refused.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import count
from typing import IO, Any, NamedTuple

import pyarrow as pa

from sdc.data.child import FoundLayout, RecordFile
from sdc.model.errors import InputError
from sdc.model.extras import require_packages

_BYTES, _OF_VALUE, _OF_TEXT = 48 << 20, 40, 64  # of a block; of a Python value, beside its letters
_GROUP = 1 << 16  # rows, whose ranges become units
_COUNTED, _COUNT = (".sav", ".zsav"), range(80, 84)  # files with a record count, and its position
_RECORD = 80  # bytes of transport files
_EXACT = 1 << 53  # floats hold every whole number up to this
_TYPES = {"string": pa.string(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "float": pa.float32()}
_NO_RULE = pa.duration("us")


class _Dates(NamedTuple):
    """Microseconds of a unit by format, the moment of 0, and formats that are refused."""

    units: dict[str, int]
    begin: datetime
    others: str


_DAY, _SECOND, _MILLISECOND = 86_400_000_000, 1_000_000, 1000
_SPSS = _Dates({r"[AEJS]?DATE|DATETIME|YMDHMS": _SECOND}, datetime(1582, 10, 14), r"[DM]?TIME|MOYR|QYR|WKYR")
_STATA = _Dates({r"%-?t?d.*": _DAY, r"%-?tc.*": _MILLISECOND}, datetime(1960, 1, 1), r"%-?t[Cwmqhb].*")
_SAS = _Dates(
    {
        r"DATE|WEEKDAT[EX]|(MMDD|DDMM|YYMM)(YY|DD)[BCDNPS]?|(IS|E|B)8601DA|MINGUO|NENGO": _DAY,
        r"DATETIME|DTDATE|DATEAMPM|MDYAMPM|(IS|E|B)8601D[TN]": _SECOND,
    },
    datetime(1960, 1, 1),
    r"HHMM|MMSS|TIME(AMPM)?|TOD|HOUR|(IS|E|B)8601TM|JUL(DATE|DAY|IAN)|MON(YY|TH|NAME)|MMYY[CDNPS]?|NL(DAT|TI).*|"
    r"YY(MM|MON|QR?)[CDNPSZ]?|YEAR|QTRR?|WEEKDAY|DOWNAME|DAY|WEEK[UVW]|DT(MONYY|WKDATX|YEAR|YYQC)",
)
_KINDS = {
    ".sav": ("read_sav", _SPSS),
    ".zsav": ("read_sav", _SPSS),
    ".dta": ("read_dta", _STATA),
    ".sas7bdat": ("read_sas7bdat", _SAS),
    ".xpt": ("read_xport", _SAS),
}


def whole_name(value: float) -> str:
    """The name of a number from programs with floats only: 1 for 1.0, and 1.5; empty for NaN."""
    if abs(value) <= _EXACT and value == int(value):
        return str(int(value))
    return str(float(value)) if value == value else ""


def layout(part: RecordFile, encoding: str | None) -> FoundLayout:
    """The columns with their types, and the rows of each group if the file has its number of rows."""
    if part.suffix == ".xpt" and (part.size or 0) % _RECORD:
        raise InputError(f"{part} has {part.size} bytes, and transport files a multiple of {_RECORD}; it was cut short")
    _, about = _read(part, encoding, metadataonly=True)
    names, rows = about.column_names, about.number_rows or 0
    # pyreadstat renames the second column of a name
    matches = [re.fullmatch(r"(.*)_duplicated\d+", name) for name in names]
    called = [m[1] if m and m[1] in names else name for m, name in zip(matches, names, strict=True)]
    columns = tuple((own, _type(part, about, name)[0]) for own, name in zip(called, names, strict=True))
    return columns, tuple(min(_GROUP, rows - at) for at in range(0, rows, _GROUP)), None


def batches(
    part: RecordFile, columns: Sequence[str], encoding: str | None, span: range | None
) -> Iterator[pa.RecordBatch]:
    """The records, or those of a range of groups."""
    _, about = _read(part, encoding, metadataonly=True)
    widths = [about.variable_storage_width[c] for c in columns if about.readstat_variable_types[c] == "string"]
    most = max(1, _BYTES // (len(columns) * _OF_VALUE + sum(_OF_TEXT + width for width in widths)))
    start, stop = (0, None) if span is None else (span.start * _GROUP, span.stop * _GROUP)
    for at in count(start, most) if stop is None else range(start, stop, most):
        rows = most if stop is None else min(most, stop - at)
        values, _ = _read(part, encoding, usecols=list(columns), row_offset=at, row_limit=rows)
        arrays = [_array(values.pop(name), *_type(part, about, name)) for name in columns]
        yield pa.record_batch(arrays, names=list(columns))
        if len(arrays[0]) < rows:
            break
    if part.suffix in _COUNTED and about.number_rows is not None and (stop is None or about.number_rows <= stop):
        # readers skip records beyond the header's count
        rows, first = about.number_rows, about.column_names[:1]
        more, _ = _read(part, encoding, is_counted=False, usecols=first, row_offset=rows, row_limit=1)
        if more and more[first[0]]:
            raise InputError(f"{part} has more records than the {rows} that its header counts; write it again")


def labels(part: RecordFile, encoding: str | None) -> dict[str, tuple[str | None, dict[str, str]]]:
    """By column its label, and the labels of its values by name."""
    _, about = _read(part, encoding, metadataonly=True)
    found = {}
    for name, label in about.column_names_to_labels.items():
        of_values, is_text = about.variable_value_labels.get(name, {}), about.readstat_variable_types[name] == "string"
        # .a to .z are texts beside numbers, and missing
        own = {value: text for value, text in of_values.items() if isinstance(value, str) == is_text}
        found[name] = label, {value if is_text else whole_name(value): text for value, text in own.items()}
    return found


class _WithoutCount(io.RawIOBase):
    """An SPSS file whose header has no record count."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        start, content = self._file.tell(), bytearray(self._file.read(size))
        for at in range(max(_COUNT.start - start, 0), min(_COUNT.stop - start, len(content))):
            content[at] = 0xFF
        return bytes(content)


def _read(
    part: RecordFile, encoding: str | None, *, is_counted: bool = True, **how: Any
) -> tuple[dict[str, list[Any]], Any]:
    require_packages(str(part), "pyreadstat")
    import pyreadstat

    read = getattr(pyreadstat, _KINDS[part.suffix][0])
    how |= {"encoding": encoding, "output_format": "dict", "disable_datetime_conversion": True}
    with part.opened() as opened, warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")  # of equal column names
        source: Any = os.path.abspath(opened) if isinstance(opened, str) else opened
        if not is_counted:
            source = _WithoutCount(stack.enter_context(open(source, "rb")) if isinstance(source, str) else source)
        if not isinstance(source, str):
            source.seek(0)  # a file from the parent is open already
        try:
            found: tuple[dict[str, list[Any]], Any] = read(source, **how)
        except pyreadstat.ReadstatError as error:  # the message is on the file and quotes no record
            raise InputError(
                f"{part} cannot be read: {error}; check that it is whole, and table.csv.encoding if it is of texts"
            ) from None
    return found


def _type(part: RecordFile, about: Any, name: str) -> tuple[pa.DataType, int, int]:
    """The type of a column; for dates also the microseconds of a unit, and the microsecond of 0."""
    kind, written = about.readstat_variable_types[name], about.original_variable_types[name] or ""
    stored, (_, dates) = _TYPES.get(kind, pa.float64()), _KINDS[part.suffix]
    if kind == "string":
        return stored, 0, 0
    called = written if dates is _STATA else re.sub(r"[\d.]+$", "", written).upper()
    if unit := next((unit for pattern, unit in dates.units.items() if re.fullmatch(pattern, called)), None):
        return pa.timestamp("us"), unit, round((dates.begin - datetime(1970, 1, 1)).total_seconds()) * _SECOND
    return (_NO_RULE if re.fullmatch(dates.others, called) else stored), 0, 0


def _array(values: list[Any], kind: pa.DataType, unit: int, begin: int) -> pa.Array:
    if unit:
        values = [None if value is None else round(value * unit) + begin for value in values]
        return pa.array(values, pa.int64()).cast(kind)
    return pa.nulls(len(values), kind) if kind == _NO_RULE else pa.array(values, kind)
