"""Files of SPSS, Stata and SAS, read by pyreadstat in blocks of rows; only in a child process, see `reader`.

Values are taken as they are stored: codes, and not their labels. What the file calls missing is missing: system-missing
values, those that a user of SPSS has declared missing, and .a to .z. Dates become dates; formats that show part of a
date alone, or times, have no rule.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import IO, Any, NamedTuple

import pyarrow as pa

from sdc.config.table import CsvConfig
from sdc.data.source import SourcePart
from sdc.data.vocabulary import namer
from sdc.model.errors import InputError
from sdc.model.extras import require_packages

_VALUES = 1 << 21  # of a block: some 64 MiB as Python has them
_GROUP = 1 << 16  # rows, from whose ranges units are made
_BATCH = 1 << 17
_RECORD = 80  # bytes of SAS transport files
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
_TYPES = {"string": pa.string(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "float": pa.float32()}
_NO_RULE = pa.duration("us")


class _Dates(NamedTuple):
    """Microseconds of one unit by the formats that count it, the microsecond of 0, and formats without a rule."""

    units: dict[re.Pattern[str], int]
    begin: int
    others: re.Pattern[str]


_DAY, _SECOND = 86_400_000_000, 1_000_000
_SIXTY = -round((datetime(1970, 1, 1) - datetime(1960, 1, 1)).total_seconds()) * _SECOND
_SPSS = _Dates(
    {re.compile(r"[AEJS]?DATE|DATETIME|YMDHMS"): _SECOND},
    -round((datetime(1970, 1, 1) - datetime(1582, 10, 14)).total_seconds()) * _SECOND,
    re.compile(r"D?TIME|MTIME|MOYR|QYR|WKYR"),
)
_STATA = _Dates({re.compile(r"%-?t?d.*"): _DAY, re.compile(r"%-?tc.*"): 1000}, _SIXTY, re.compile(r"%-?t[Cwmqhb].*"))
_SAS = _Dates(
    {
        re.compile(r"DATE|WEEKDAT[EX]|(MMDD|DDMM|YYMM)(YY|DD)[BCDNPS]?|(IS|E|B)8601DA|MINGUO|NENGO"): _DAY,
        re.compile(r"DATETIME|DTDATE|DATEAMPM|MDYAMPM|(IS|E|B)8601D[TN]"): _SECOND,
    },
    _SIXTY,
    re.compile(
        r"HHMM|MMSS|TIME(AMPM)?|TOD|HOUR|(IS|E|B)8601TM|JUL(DATE|DAY|IAN)|MON(YY|TH|NAME)|MMYY[CDNPS]?|"
        r"YY(MM|MON|QR?)[CDNPSZ]?|YEAR|QTRR?|WEEKDAY|DOWNAME|DAY|WEEK[UVW]|DT(MONYY|WKDATX|YEAR|YYQC)|NL(DAT|TI).*"
    ),
)


def layout(part: SourcePart, csv: CsvConfig) -> tuple[tuple[tuple[str, pa.DataType], ...], tuple[int, ...]]:
    """The columns with their types, and the rows of each group where the file says how many it has."""
    if part.suffix == ".xpt" and (part.size or 0) % _RECORD:
        raise InputError(f"{part} has {part.size} bytes, and transport files have a multiple of 80; it was cut short")
    _, about = _read(part, csv, metadataonly=True)
    columns, rows = [], about.number_rows or 0
    for name, twice in zip(about.column_names, _twice(about.column_names), strict=True):
        columns.append((twice or name, _type(part, about, name)[0]))
    return tuple(columns), tuple(min(_GROUP, rows - at) for at in range(0, rows, _GROUP))


def batches(part: SourcePart, columns: Sequence[str], csv: CsvConfig, span: range | None) -> Iterator[pa.RecordBatch]:
    """The records, or those of a range of groups."""
    start, stop = (0, None) if span is None else (span.start * _GROUP, span.stop * _GROUP)
    most = max(_GROUP, _VALUES // len(columns))
    for at in count(start, most) if stop is None else range(start, stop, most):
        rows = most if stop is None else min(most, stop - at)
        values, about = _read(part, csv, usecols=list(columns), row_offset=at, row_limit=rows)
        batch = pa.record_batch(
            [_array(part, values.pop(name), *_type(part, about, name)) for name in columns], names=list(columns)
        )
        yield from (batch.slice(first, _BATCH) for first in range(0, len(batch), _BATCH))
        if len(batch) < rows:
            return


def labels(part: SourcePart, csv: CsvConfig) -> dict[str, tuple[str | None, dict[str, str]]]:
    """Of each column its label, and the labels of its values by their names."""
    _, about = _read(part, csv, metadataonly=True)
    found = {}
    for name, label in about.column_names_to_labels.items():
        name_of = namer(pa.float64(), name, whole=True) if about.readstat_variable_types[name] != "string" else str
        stored = about.variable_value_labels.get(name, {}).items()
        # .a to .z are texts beside numbers, and missing
        named = {name_of(value): text for value, text in stored if isinstance(value, str) == (name_of is str)}
        found[name] = label, named
    return found


def _read(part: SourcePart, csv: CsvConfig, **how: Any) -> tuple[dict[str, list[Any]], Any]:
    require_packages(str(part), "pyreadstat")
    import pyreadstat

    read = getattr(pyreadstat, _READERS[part.suffix])
    if csv.encoding != CsvConfig.model_fields["encoding"].default:
        how["encoding"] = csv.encoding
    with part.opened() as source, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that are called alike, see `_twice`
        try:
            found: tuple[dict[str, list[Any]], Any] = read(
                _path(source), output_format="dict", disable_datetime_conversion=True, **how
            )
        except pyreadstat.ReadstatError as error:  # what it says is of the file and quotes no record
            raise InputError(
                f"{part} cannot be read: {error}; check that it is whole, and table.csv.encoding if it is of texts"
            ) from None
    return found


def _path(source: str | IO[bytes]) -> str | IO[bytes]:
    return os.path.abspath(source) if isinstance(source, str) else source


def _twice(names: Sequence[str]) -> list[str | None]:
    """Of each name that pyreadstat has given to a second column of a name, that name."""
    matches = (re.fullmatch(r"(.*)_duplicated\d+", name) for name in names)
    return [match[1] if match and match[1] in names else None for match in matches]


def _type(part: SourcePart, about: Any, name: str) -> tuple[pa.DataType, int, int]:
    """The type of a column; of a date also the microseconds of a unit, and the microsecond of 0."""
    kind, written = about.readstat_variable_types[name], about.original_variable_types[name] or ""
    stored = _TYPES.get(kind, pa.float64())
    if kind == "string":
        return stored, 0, 0
    is_stata = part.suffix == ".dta"
    dates = _STATA if is_stata else _SPSS if part.suffix in (".sav", ".zsav") else _SAS
    called = written if is_stata else re.sub(r"[\d.]+$", "", written).upper()
    unit = next((unit for pattern, unit in dates.units.items() if pattern.fullmatch(called)), None)
    if unit is not None:
        return pa.timestamp("us"), unit, dates.begin
    return (_NO_RULE if dates.others.fullmatch(called) else stored), 0, 0


def _array(part: SourcePart, values: list[Any], kind: pa.DataType, unit: int, begin: int) -> pa.Array:
    if pa.types.is_timestamp(kind):
        values = [None if value is None else round(value * unit) + begin for value in values]
        return pa.array(values, pa.int64()).cast(kind)
    if kind == _NO_RULE:
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)
