"""Vocabularies and recodes: from the values of a column to the categories of a variable, and their order.

Codes are first given in order of appearance ("running codes"); the final ones depend on the categories only. Work is
done on dictionaries, not on records, so a recode costs nothing for each record. The default order is by number, by
interval or by text, never that of the file: the order of appearance would reveal the first record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sdc.config.table import RecodeConfig
from sdc.config.values import OTHERS
from sdc.data.statistical import whole_name
from sdc.model.alike import Alike, alike_key, alikes, decimal_of, require_apart
from sdc.model.errors import InputError
from sdc.model.schema import MAX_CATEGORIES, Variable
from sdc.model.totals import is_plain, is_reserved

# 1e+16 as floats are written to CSV; 1E5 may be a code
NUMERAL = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]+)?(e[+-][0-9]{1,2})?|-?inf")


def of_number(name: str, recode: RecodeConfig) -> str | None:
    """The category of a number by bins or top and bottom codes; None if they do not cover it."""
    if not NUMERAL.fullmatch(name):
        return None
    number = Decimal(name)
    if recode.bins is not None:
        return next((label for label, edges in recode.bins.items() if _within(number, *edges)), None)
    if recode.top is not None and number >= recode.top:
        return top_label(recode)
    if recode.bottom is not None and number <= recode.bottom:
        return bottom_label(recode)
    return f"{number.normalize() or abs(number):f}" if number.is_finite() else name


def labels_of(recode: RecodeConfig) -> tuple[str, ...] | None:
    """The categories of bins or groups, in order; None if they come from the data."""
    given = recode.bins if recode.bins is not None else recode.groups
    return None if given is None else tuple(given)


def top_label(recode: RecodeConfig) -> str:
    return f"{recode.top} or more"


def bottom_label(recode: RecodeConfig) -> str:
    return f"{recode.bottom} or less"


def _within(number: Decimal, start: float | None, below: float | None) -> bool:
    return (start is None or number >= Decimal(str(start))) and (below is None or number < Decimal(str(below)))


_NUMBER = r"[-+]?[$€£]?\d[\d,]*(?:\.\d+)?"
_UNIT = r"(?:%|K|M| ?(?!(?:to|or|and|up|through|plus)\b)[a-z]+\.?)?"
_ONE = rf"(?P<low>{_NUMBER}){_UNIT}"
_INTERVALS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_ONE}(?: ?- ?| ?\u2013 ?| ?\u2014 ?| ?\.\. ?| to | through )(?P<high>{_NUMBER}){_UNIT}",
        rf"[\[(](?P<low>{_NUMBER}), ?(?P<high>{_NUMBER})[\])]",
        rf"(?:under|below|less than|fewer than|up to|at most|<=?|≤) ?(?P<high>{_NUMBER}){_UNIT}",
        rf"(?P<high>{_NUMBER}){_UNIT} (?:or|and) (?:less|fewer|under|below|younger)",
        rf"(?:over|above|more than|from|at least|>=?|≥) ?(?P<low>{_NUMBER}){_UNIT}",
        rf"{_ONE} ?(?:\+|plus|(?:or|and) (?:more|over|above|older|up))",
    )
)
_Interval = tuple[float, float]


def canonical_order(names: Collection[str]) -> list[str]:
    """The categories in canonical order.

    By number if all are numerals; by their ends for intervals such as "under 15", "15 to 64" and "65 and over", others
    after them; else by code point.
    """
    if all(NUMERAL.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (Decimal(name), name))
    interval_of = {name: interval for name in names if (interval := _interval(name))}
    if not any(low != high for low, high in interval_of.values()):
        return sorted(names)
    inside = sorted(interval_of, key=lambda name: (interval_of[name], name))
    return [*inside, *sorted(name for name in names if name not in interval_of)]


def _interval(name: str) -> _Interval | None:
    """The ends of an interval, possibly infinite; equal for a single number."""
    if re.fullmatch(_ONE, name, re.IGNORECASE):
        found = re.match(_NUMBER, name)
        assert found is not None
        return _number(found[0]), _number(found[0])
    for pattern in _INTERVALS:
        if match := pattern.fullmatch(name):
            ends = match.groupdict()
            return _number(ends.get("low") or "-inf"), _number(ends.get("high") or "inf")
    return None


def _number(numeral: str) -> float:
    value = float(re.sub(r"[$€£,]", "", numeral))
    return value if not math.isnan(value) else math.inf


_POINT = re.compile(r"[+-]?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?")
_MOST_KNOWN = 1 << 16  # values remembered; a column of identifiers would fill the memory


class BadRecord(Enum):
    """The reason why a record is bad."""

    MISSING = "missing value without a category"
    OUTSIDE = "value outside the categories"
    UNCOVERED = "value that no bin or group covers"


PROBLEMS = tuple(BadRecord)


class Bad(NamedTuple):
    """A value that is not a category, by name."""

    problem: BadRecord
    value: str


@dataclass(frozen=True)
class BadRecords:
    """The rows with one problem in one column: their number, the first value by code point, the first part."""

    rows: int
    value: str
    part: str

    def __add__(self, other: BadRecords) -> BadRecords:
        return BadRecords(self.rows + other.rows, min(self.value, other.value), self.part)


@dataclass(frozen=True)
class Coding:
    """The mapping from a column to a variable.

    missing  the category of missing values; None makes them bad
    listed   all categories in order; None if they come from the data
    recode   from values to categories
    limit    maximum number of categories
    decimal  the decimal sign of numbers stored as text
    marks    texts that stand for missing values
    alike    whether similar names are refused, kept apart, or merged
    whole    naming of whole numbers, see `namer`
    """

    name: str
    column: str
    missing: str | None = None
    listed: tuple[str, ...] | None = None
    recode: RecodeConfig | None = None
    limit: int = MAX_CATEGORIES
    decimal: str = "."
    marks: frozenset[str] = frozenset()
    alike: Alike = "refuse"
    whole: bool | None = None

    @property
    def order(self) -> tuple[str, ...] | None:
        """The categories in order if the settings give them."""
        return labels_of(self.recode) if self.recode is not None else self.listed

    @property
    def is_number(self) -> bool:
        """Whether a recode treats the values as numbers."""
        return self.recode is not None and self.recode.groups is None

    def category(self, name: str, is_text: bool) -> str | Bad:
        """The category of a non-missing value; InputError for an ambiguous number."""
        if self.is_number:
            label = of_number(self._pointed(name) if is_text else name, cast(RecodeConfig, self.recode))
            return Bad(BadRecord.UNCOVERED, name) if label is None else label
        if self.recode is None and (self.listed is None or name == self.missing):
            return name
        # the spelling of a number or date is ours; that of the settings goes first
        if name not in self._known and (self.alike != "keep" or not is_text):
            name = self.spelled(name) or name
        bad = Bad(BadRecord.OUTSIDE if self.recode is None else BadRecord.UNCOVERED, name)
        return self._known.get(name) or self.others or bad

    def spelled(self, name: str) -> str | None:
        """A similar but different name in the settings; None if there is none."""
        return None if self.is_number or name in self._known else self._alike.get(alike_key(name, self.decimal))

    def _pointed(self, name: str) -> str:
        if self.decimal == ".":
            return name
        if _POINT.fullmatch(name):
            raise InputError(
                f"column {self.column!r} has numbers with a point, and table.csv.decimal is a comma; write them "
                "without, or correct the setting"
            )
        return name.replace(",", ".", 1)

    @property
    def others(self) -> str | None:
        """The group of all others; None without one."""
        groups = (self.recode and self.recode.groups) or {}
        return next((label for label, values in groups.items() if values == OTHERS), None)

    @property
    def grouped(self) -> frozenset[str]:
        """The values named in groups."""
        return frozenset(self._known if self.recode is not None else ())

    @property
    def named(self) -> frozenset[str]:
        """The categories named in the settings."""
        recode = self.recode
        ends = (bottom_label(recode), top_label(recode)) if recode is not None else ()
        return frozenset((*(self.order or ()), *ends, *((self.missing,) if self.missing is not None else ())))

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Categories of the data, in order."""
        if self.recode is None:
            return canonical_order(names)
        bottom, top = bottom_label(self.recode), top_label(self.recode)
        order = canonical_order([name for name in names if name not in (bottom, top)])
        return [*([bottom] if bottom in names else ()), *order, *([top] if top in names else ())]

    @cached_property
    def _known(self) -> dict[str, str]:
        if self.recode is None:
            return {name: name for name in self.listed or ()}
        groups = self.recode.groups or {}
        return {value: label for label, values in groups.items() if values != OTHERS for value in values}

    @cached_property
    def _alike(self) -> dict[str, str]:
        return {alike_key(name, self.decimal): name for name in self._known}


class Vocabulary:
    """The categories of one variable so far, with running codes, and the bad values."""

    def __init__(self, coding: Coding) -> None:
        self.coding = coding
        self.codes: dict[str | BadRecord, int] = {}
        self.nulls = 0
        self.bad: dict[BadRecord, BadRecords] = {}
        self.unmet = set(coding.grouped)  # values named in groups without a row
        self.alike: dict[str, str] = {}  # by value, the similar name in the settings, or the similar missing value
        self._known: dict[Any, tuple[str, str | Bad, str | None]] = {}
        self._settled = coding.named | coding.grouped

    def __len__(self) -> int:
        return len(self.codes)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def encode(self, column: pa.Array, part: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """The running code of each dictionary index, and the indices of the rows.

        Unused entries of a dictionary do not count.
        """
        coding = self.coding
        name_of = namer(column.type, coding.column, coding.whole, coding.marks, are_names=not coding.is_number)
        is_text = kind_of(column.type, self.coding.column) == "text"
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        # an additional entry for rows without a value: nulls get its index
        met = [self._met(value, name_of, is_text) for value in self._values(column.dictionary)]
        met.append(("", Bad(BadRecord.MISSING, ""), None))
        rows = indices_of(column, len(met) - 1)
        times = np.bincount(rows, minlength=len(met)).tolist()
        self.alike |= {name: mark for (name, _, mark), n in zip(met, times, strict=True) if n and mark is not None}
        if self.coding.order is not None:
            self._note([name for (name, *_), n in zip(met, times, strict=True) if n and name], is_text)
        return np.array([self._code(c, n, part) for (_, c, _), n in zip(met, times, strict=True)], np.int64), rows

    def unite(self, other: Vocabulary) -> npt.NDArray[np.int64]:
        """Add the content of another vocabulary of the variable; returns this one's code for each of its."""
        self.nulls += other.nulls
        self.unmet &= other.unmet
        self.alike |= other.alike
        for problem, bad in other.bad.items():
            self.bad[problem] = self.bad[problem] + bad if problem in self.bad else bad
        return np.array([self._running(category) for category in other.codes], np.int64)

    def settle(self) -> tuple[Variable, npt.NDArray[np.int64]]:
        """The variable with its categories in order, and the final code for each running code.

        A problem has the code -1 - its position in PROBLEMS. InputError for similar names that are not declared.
        """
        missing, given = self.coding.missing, self.coding.order
        names = [name for name in self.codes if isinstance(name, str)]
        known = self._merged(names)
        names = list(dict.fromkeys(known.get(name, name) for name in names))
        # an unlisted category for missing values comes last, and only if a record has it
        last = [missing] if missing is not None and (self.nulls or (given and missing in self.codes)) else []
        last += [name for name in names if is_reserved(name)]
        order = self.coding.in_order([n for n in names if n not in last]) if given is None else list(given)
        categories = tuple(order + [name for name in last if name not in order])
        if len(categories) > self.coding.limit:
            raise _too_many(self.coding)
        place: dict[str | BadRecord, int] = {name: code for code, name in enumerate(categories)}
        place.update((problem, -1 - number) for number, problem in enumerate(PROBLEMS))
        codes = [place[c if isinstance(c, BadRecord) else known.get(c, c)] for c in self.codes]
        return Variable(self.coding.name, categories), np.array(codes, np.int64)

    def _merged(self, names: Sequence[str]) -> dict[str, str]:
        """By similar name, the one it is merged into; InputError if nothing is declared."""
        coding = self.coding
        if coding.alike == "keep" or coding.is_number:
            return {}
        found = {**self.alike, **alikes(names, coding.named, coding.decimal)}
        if coding.alike == "refuse":
            remedy = "correct them, or set table.alike: merge to combine them, or keep"
            require_apart(found, f"column {coding.column!r}", remedy)
        return found

    def _note(self, names: Sequence[str], is_text: bool) -> None:
        """Note names similar to those of the settings, and values in groups.

        InputError if a row of totals, by name, would go to the group of all others.
        """
        grouped = self.coding.grouped
        alike = {name: spelled for name in names if (spelled := self.coding.spelled(name)) is not None}
        self.unmet -= {*names, *alike.values()}
        if is_text:
            self.alike |= alike
        totals = [
            name for name in names if name not in grouped | alike.keys() and is_plain(name) and not is_reserved(name)
        ]
        if totals and self.coding.others is not None:
            raise InputError(
                f"column {self.coding.column!r} has {totals[0]!r}, by its name a total, which the group of all others "
                f"of {self.coding.name!r} would take in; leave its rows out, or name it in a group"
            )

    def _values(self, dictionary: pa.Array) -> list[Any]:
        try:
            values: list[Any] = dictionary.to_pylist()
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"column {self.coding.column!r} of the type {dictionary.type} has a value out of range; dates go from "
                "the year 1 to 9999: correct it, or store it as text",
                str(error),
            ) from None
        return values

    def _met(self, value: Any, name_of: Callable[[Any], str], is_text: bool) -> tuple[str, str | Bad, str | None]:
        """The name of a value, its category, and the missing value that it is alike, if that is to be refused."""
        if value not in self._known:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            name = "" if value is None else name_of(value)
            mark = None
            if is_text and name not in self._settled and self.coding.alike != "keep":
                mark = missing_alike(name, self.coding.marks)
            if mark is not None and self.coding.alike == "merge":
                name, mark = "", None
            if re.search(r"[\r\n]", name):
                what = f"column {self.coding.column!r} has a value of several lines"
                raise InputError(f"{what}; recode it", f"{what}, it begins {name[:20]!r}")
            if is_reserved(name):
                category: str | Bad = "".join(name.split()).casefold()
            else:
                category = self.coding.category(name, is_text) if name else Bad(BadRecord.MISSING, "")
            self._known[value] = name, category, mark
        return self._known[value]

    def _code(self, category: str | Bad, times: int, part: str) -> int:
        if not times:
            return 0
        if isinstance(category, str):
            return self._running(category)
        if category.problem is BadRecord.MISSING:
            self.nulls += times
            if self.coding.missing is not None:
                return self._running(self.coding.missing)
        bad = BadRecords(times, category.value, part)
        self.bad[category.problem] = self.bad[category.problem] + bad if category.problem in self.bad else bad
        return self._running(category.problem)

    def _running(self, category: str | BadRecord) -> int:
        if category not in self.codes and isinstance(category, str) and self._names() == self.coding.limit:
            raise _too_many(self.coding)
        return self.codes.setdefault(category, len(self.codes))

    def _names(self) -> int:
        # a problem has a running code too, but is not a category
        return len(self.codes) - len(self.bad.keys() & self.codes.keys())


def indices_of(column: pa.DictionaryArray, absent: int) -> npt.NDArray[Any]:
    """(rows,) the indices of a dictionary, `absent` for nulls."""
    rows, start = column.indices, column.indices.offset
    known, numbers = rows.buffers()
    if not len(rows):
        return np.zeros(0, np.int64)
    # by buffers: pyarrow imports pandas to convert NumPy arrays
    found = np.frombuffer(numbers, rows.type.to_pandas_dtype())[start : start + len(rows)]
    if not column.null_count:
        return found
    is_there = np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")[start : start + len(rows)]
    return np.where(is_there, found, np.int64(absent))


def without_values(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """(rows,) whether a row has only nulls, NaN and blanks."""
    found = np.ones(len(batch), np.bool_)
    for column in batch.columns:
        if pa.types.is_nested(column.type):
            own = column.is_null().to_numpy(zero_copy_only=False)
        else:
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            values = coded.dictionary.to_pylist()
            nothing = [v is None or v != v or (isinstance(v, str) and not v.strip()) for v in values]
            own = np.array([*nothing, True])[indices_of(coded, len(nothing))]
        found &= own
        if not found.any():
            break
    return found


def _too_many(coding: Coding) -> InputError:
    return InputError(
        f"column {coding.column!r} has more than {coding.limit} categories; group or bin its values, leave it out of "
        f"`variables`, or raise max_categories (at most {MAX_CATEGORIES})"
    )


def missing_alike(name: str, marks: Collection[str]) -> str | None:
    """The missing value that a text is alike: an empty text for one of blanks, or a mark; None if there is none."""
    return next((mark for mark in ("", *marks) if name and alike_key(mark) == alike_key(name)), None)


def namer(
    kind: pa.DataType,
    column: str,
    whole: bool | None = None,
    marks: Collection[str] = (),
    *,
    are_names: bool = True,
) -> Callable[[Any], str]:
    """How values of an Arrow type are named, as in Python and pandas; an empty name is a missing value.

    whole  whether whole numbers, also floats, are named 1, or all 1.0; None: as stored
    marks  texts that stand for missing values; numbers are compared by value: -9.0 with -9
    are_names  whether floats that do not tell whole numbers apart are refused

    A narrow float gets its shortest numeral. InputError for types without names.
    """
    named = _namer(kind, column, whole)
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    if are_names and (about := next((own for one, *own in _DIGITS if stored.equals(one)), None)):
        named = _exact(named, column, *about)
    if not marks:
        return named
    same: Callable[[str], str] = str.strip if kind_of(kind, column) == "text" else alike_key
    absent = frozenset(map(same, marks))
    return lambda value: "" if same(name := named(value)) in absent else name


def _namer(kind: pa.DataType, column: str, whole: bool | None) -> Callable[[Any], str]:
    name, stored = _NAMERS[kind_of(kind, column)], kind.value_type if pa.types.is_dictionary(kind) else kind
    narrow = next((numpy for arrow, numpy in _NARROW if stored.equals(arrow)), None)
    if whole and pa.types.is_floating(stored):
        name = whole_name
    if narrow is not None:
        return lambda value: name(float(str(narrow(value))))
    if pa.types.is_timestamp(stored):
        return lambda value: _day(value, column)
    return (lambda value: name(float(value))) if whole is False and pa.types.is_integer(stored) else name


def kind_of(kind: pa.DataType, column: str) -> str:
    """text, number, truth value, date or nothing; values of one kind have the same names in every type."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = {
        "truth value": (types.is_boolean,),
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "date": (types.is_date, types.is_timestamp),
        "nothing": (types.is_null,),
    }
    for name, tests in kinds.items():
        if any(is_kind(kind) for is_kind in tests):
            return name
    # of a nested type only its name: its fields may have names from the data
    called = getattr(kind, "extension_name", str(kind)).partition("<")[0]
    raise InputError(
        f"column {column!r} has the type {called}, which has no categories; recode it as strings or integers, or leave "
        "it out of `variables`"
    )


def _day(value: datetime, column: str) -> str:
    if value.tzinfo is not None or value.time() != time():
        raise InputError(
            f"column {column!r} has the type timestamp with times of day, which has no categories; recode it as text, "
            "or leave it out of `variables`"
        )
    return value.date().isoformat()


def _number_name(value: float | Decimal) -> str:
    if value != value:
        return ""
    found = value if value else abs(value)  # a single zero, without a sign
    return f"{found:f}" if isinstance(found, Decimal) else str(found)


def _exact(named: Callable[[Any], str], column: str, bits: int, most: int) -> Callable[[Any], str]:
    """Refuse large floats that need all digits of their type: several whole numbers may have become one."""

    def name(value: float) -> str:
        found = named(value)
        if 1 << bits <= abs(value) < math.inf and len(str(abs((decimal_of(found) or (0, 0))[0]))) >= most:
            raise InputError(
                f"column {column!r} has floats above {1 << bits:,} with {most} digits or more, which may stand for "
                "several whole numbers; store it as integers or text, or leave it out"
            )
        return found

    return name


_NARROW = ((pa.float32(), np.float32), (pa.float16(), np.float16))
_DIGITS = ((pa.float64(), 53, 16), (pa.float32(), 24, 8), (pa.float16(), 11, 4))  # bits, and digits beyond them
_NAMERS: dict[str, Callable[[Any], str]] = {
    "truth value": str,
    "number": _number_name,
    "text": str,
    "date": lambda value: str(value.isoformat()),
    "nothing": str,
}
