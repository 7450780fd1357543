"""Vocabularies: from the values of a column to the categories of a variable, and their order.

Codes are first given in the order in which categories are met ("running codes"); the final ones depend on what was
met, not on when. All work is on dictionaries, never on records, so a recode costs nothing a record.
"""

from __future__ import annotations

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
from sdc.data.order import canonical_order
from sdc.data.recodes import bottom_label, labels_of, of_number, top_label
from sdc.data.statistical import whole_name
from sdc.model.alike import Alike, alike_key, alikes, require_apart
from sdc.model.errors import InputError
from sdc.model.schema import MAX_CATEGORIES, Variable
from sdc.model.totals import is_plain, is_reserved

_POINT = re.compile(r"[+-]?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?")
_MOST_KNOWN = 1 << 16  # values remembered; a column of identifiers would otherwise fill the memory


class Fault(Enum):
    """Why a record is bad."""

    MISSING = "missing value without a category"
    OUTSIDE = "value outside the categories"
    UNCOVERED = "value that no bin or group covers"


FAULTS = tuple(Fault)


class Bad(NamedTuple):
    """A value that is no category, by name."""

    fault: Fault
    value: str


@dataclass(frozen=True)
class BadRecords:
    """The rows with one fault in one column: how many, the first of their values by code point, the first part."""

    rows: int
    value: str
    part: str

    def __add__(self, other: BadRecords) -> BadRecords:
        """Those of later parts as well."""
        return BadRecords(self.rows + other.rows, min(self.value, other.value), self.part)


@dataclass(frozen=True)
class Coding:
    """How a variable is made from a column.

    missing  the category of missing values; None makes them bad
    listed   all categories in order; None where the data have them
    recode   from values to categories
    limit    categories it may have
    decimal  the sign of numbers that are stored as text
    marks    texts that stand for missing values
    alike    whether names that are alike are refused, kept apart, or merged
    whole    how whole numbers are named, see `namer`
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
        """The categories in order where the settings give them."""
        return labels_of(self.recode) if self.recode is not None else self.listed

    @property
    def is_number(self) -> bool:
        """Whether a recode takes the values for numbers."""
        return self.recode is not None and self.recode.groups is None

    def category(self, name: str, is_text: bool) -> str | Bad:
        """The category of a value that is not missing; InputError where nobody knows what number it is."""
        if self.is_number:
            label = of_number(self._pointed(name) if is_text else name, cast(RecodeConfig, self.recode))
            return Bad(Fault.UNCOVERED, name) if label is None else label
        if self.recode is None and (self.listed is None or name == self.missing):
            return name
        # the spelling of a number or a date is ours, and that of the settings goes before it
        if name not in self._known and (self.alike != "keep" or not is_text):
            name = self.spelled(name) or name
        bad = Bad(Fault.OUTSIDE if self.recode is None else Fault.UNCOVERED, name)
        return self._known.get(name) or self._others or bad

    def spelled(self, name: str) -> str | None:
        """What the settings name alike, and not so; None where they name it so, or not at all."""
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

    @cached_property
    def grouped(self) -> frozenset[str]:
        """The values that are named in groups."""
        groups = (self.recode and self.recode.groups) or {}
        return frozenset(value for values in groups.values() if values != OTHERS for value in values)

    @property
    def named(self) -> frozenset[str]:
        """The categories that the settings name, whoever has them."""
        recode = self.recode
        ends = (bottom_label(recode), top_label(recode)) if recode is not None else ()
        return frozenset((*(self.order or ()), *ends, *((self.missing,) if self.missing is not None else ())))

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Categories that the data have, in order."""
        if self.recode is None:
            return canonical_order(names)
        bottom, top = bottom_label(self.recode), top_label(self.recode)
        order = canonical_order([name for name in names if name not in (bottom, top)])
        return [*([bottom] if bottom in names else ()), *order, *([top] if top in names else ())]

    @cached_property
    def _known(self) -> dict[str, str]:
        """The category of each value that the settings name."""
        if self.recode is None:
            return {name: name for name in self.listed or ()}
        groups = self.recode.groups or {}
        return {value: label for label, values in groups.items() if values != OTHERS for value in values}

    @cached_property
    def _alike(self) -> dict[str, str]:
        return {alike_key(name, self.decimal): name for name in self._known}

    @cached_property
    def _others(self) -> str | None:
        groups = (self.recode and self.recode.groups) or {}
        return next((label for label, values in groups.items() if values == OTHERS), None)


class Vocabulary:
    """The categories of one variable met so far, each with its running code, and the bad values met."""

    def __init__(self, coding: Coding) -> None:
        self.coding = coding
        self.codes: dict[str | Fault, int] = {}
        self.nulls = 0
        self.bad: dict[Fault, BadRecords] = {}
        self.unmet = set(coding.grouped)  # values named in groups that no row has
        self.alike: dict[str, str] = {}  # values that the settings name alike, and what these name
        self._known: dict[Any, tuple[str, str | Bad]] = {}

    def __len__(self) -> int:
        return len(self.codes)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: all but the values known, which only save time."""
        return {**self.__dict__, "_known": {}}

    def encode(self, column: pa.Array, part: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """The running code of each dictionary index, and the indices of the rows.

        What no row has is not met: a dictionary may name what is of nobody here.
        """
        name_of = namer(column.type, self.coding.column, self.coding.whole, self.coding.marks)
        is_text = kind_of(column.type, self.coding.column) == "text"
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        # one entry more, for rows without a value: nulls are given its index
        met = [self._met(value, name_of, is_text) for value in self._values(column.dictionary)]
        met.append(("", Bad(Fault.MISSING, "")))
        rows = _indices(column, len(met) - 1)
        times = np.bincount(rows, minlength=len(met)).tolist()
        if self.coding.order is not None:
            self._note([name for (name, _), n in zip(met, times, strict=True) if n and name], is_text)
        return np.array([self._code(c, n, part) for (_, c), n in zip(met, times, strict=True)], np.int64), rows

    def unite(self, other: Vocabulary) -> npt.NDArray[np.int64]:
        """Takes over what another vocabulary of the same variable has met; gives this one's code for each of its."""
        self.nulls += other.nulls
        self.unmet &= other.unmet
        self.alike |= other.alike
        for fault, bad in other.bad.items():
            self.bad[fault] = self.bad[fault] + bad if fault in self.bad else bad
        return np.array([self._running(category) for category in other.codes], np.int64)

    def settle(self) -> tuple[Variable, npt.NDArray[np.int64]]:
        """The variable, its categories in order, and the final code for each running code.

        A fault has the code -1 - its place in FAULTS. InputError for names that are alike, where nothing else is said.
        """
        missing, given = self.coding.missing, self.coding.order
        names = [name for name in self.codes if isinstance(name, str)]
        known = self._merged(names)
        names = list(dict.fromkeys(known.get(name, name) for name in names))
        # a category for missing values that nobody lists comes last, and only where a record has it
        last = [missing] if missing is not None and (self.nulls or (given and missing in self.codes)) else []
        last += [name for name in names if is_reserved(name)]
        order = self.coding.in_order([n for n in names if n not in last]) if given is None else list(given)
        categories = tuple(order + [name for name in last if name not in order])
        if len(categories) > self.coding.limit:
            raise _too_many(self.coding)
        place: dict[str | Fault, int] = {name: code for code, name in enumerate(categories)}
        place.update((fault, -1 - number) for number, fault in enumerate(FAULTS))
        codes = [place[c if isinstance(c, Fault) else known.get(c, c)] for c in self.codes]
        return Variable(self.coding.name, categories), np.array(codes, np.int64)

    def _merged(self, names: Sequence[str]) -> dict[str, str]:
        """Of names that are alike each with the one that it is taken for; InputError where nothing is said of them."""
        coding = self.coding
        if coding.alike == "keep" or coding.is_number:
            return {}
        found = {**self.alike, **alikes(names, coding.named, coding.decimal)}
        if coding.alike == "refuse":
            remedy = "correct them, or say table.alike: merge to take them for one, or keep"
            require_apart(found, f"column {coding.column!r}", remedy)
        return found

    def _note(self, names: Sequence[str], is_text: bool) -> None:
        """What the settings name alike or in groups.

        InputError where a row of totals, by its name, would go to the group of all others.
        """
        grouped, recode = self.coding.grouped, self.coding.recode
        alike = {name: spelled for name in names if (spelled := self.coding.spelled(name)) is not None}
        self.unmet -= {*names, *alike.values()}
        if is_text:
            self.alike |= alike
        totals = [
            name for name in names if name not in grouped | alike.keys() and is_plain(name) and not is_reserved(name)
        ]
        if totals and recode is not None and OTHERS in (recode.groups or {}).values():
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

    def _met(self, value: Any, name_of: Callable[[Any], str], is_text: bool) -> tuple[str, str | Bad]:
        """The name and the category of a stored value, which may be missing."""
        if value not in self._known:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            name = "" if value is None else name_of(value)
            _check_lines(name, self.coding.column)
            if is_reserved(name):
                category: str | Bad = "".join(name.split()).casefold()
            else:
                category = self.coding.category(name, is_text) if name else Bad(Fault.MISSING, "")
            self._known[value] = name, category
        return self._known[value]

    def _code(self, category: str | Bad, times: int, part: str) -> int:
        """Its running code; it gets one only where rows have it."""
        if not times:
            return 0
        if isinstance(category, str):
            return self._running(category)
        if category.fault is Fault.MISSING:
            self.nulls += times
            if self.coding.missing is not None:
                return self._running(self.coding.missing)
        bad = BadRecords(times, category.value, part)
        self.bad[category.fault] = self.bad[category.fault] + bad if category.fault in self.bad else bad
        return self._running(category.fault)

    def _running(self, category: str | Fault) -> int:
        if category not in self.codes and isinstance(category, str) and self._names() == self.coding.limit:
            raise _too_many(self.coding)
        return self.codes.setdefault(category, len(self.codes))

    def _names(self) -> int:
        # a fault has a running code as well, and is no category
        return len(self.codes) - len(self.bad.keys() & self.codes.keys())


def _indices(column: pa.DictionaryArray, absent: int) -> npt.NDArray[Any]:
    """Of the rows, `absent` where a row has no value."""
    rows, start = column.indices, column.indices.offset
    known, numbers = rows.buffers()
    if not len(rows):
        return np.zeros(0, np.int64)
    # by buffers: pyarrow imports pandas for whatever it makes of NumPy
    found = np.frombuffer(numbers, rows.type.to_pandas_dtype())[start : start + len(rows)]
    if not column.null_count:
        return found
    is_there = np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")[start : start + len(rows)]
    return np.where(is_there, found, np.int64(absent))


def without_values(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """(rows,) whether a row has nothing but nulls, NaN and blanks."""
    found = np.ones(len(batch), np.bool_)
    for column in batch.columns:
        if pa.types.is_nested(column.type):
            own = column.is_null().to_numpy(zero_copy_only=False)
        else:
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            values = coded.dictionary.to_pylist()
            nothing = [v is None or v != v or (isinstance(v, str) and not v.strip()) for v in values]
            own = np.array([*nothing, True])[_indices(coded, len(nothing))]
        found &= own
        if not found.any():
            break
    return found


def _check_lines(name: str, column: str) -> None:
    if re.search(r"[\r\n]", name):
        raise InputError(
            f"column {column!r} has a value of several lines; recode it",
            f"column {column!r} has a value of several lines, it begins {name[:20]!r}",
        )


def _too_many(coding: Coding) -> InputError:
    return InputError(
        f"column {coding.column!r} has more than {coding.limit} categories; group or bin its values, leave it out of "
        f"`variables`, or raise max_categories (at most {MAX_CATEGORIES})"
    )


def namer(
    kind: pa.DataType, column: str, whole: bool | None = None, marks: Collection[str] = ()
) -> Callable[[Any], str]:
    """How values of an Arrow type are named, as Python and pandas write them; an empty name is a missing value.

    whole  whether whole numbers are named 1, floats too, or all 1.0; None: as each is stored
    marks  texts that stand for missing values; what is stored otherwise is one by its value: -9.0 by -9

    A narrow float has the shortest numeral that is read as it. InputError for types without names.
    """
    named = _namer(kind, column, whole)
    if not marks:
        return named
    same: Callable[[str], str] = str.strip if kind_of(kind, column) == "text" else alike_key
    absent = frozenset(map(same, marks))
    return lambda value: "" if same(name := named(value)) in absent else name


def _namer(kind: pa.DataType, column: str, whole: bool | None) -> Callable[[Any], str]:
    name, stored = _NAMERS[kind_of(kind, column)], kind.value_type if pa.types.is_dictionary(kind) else kind
    narrow = next((numpy for arrow, numpy in _NARROW if stored.equals(arrow)), None)
    if narrow is not None:
        own = whole_name if whole else name
        return lambda value: own(float(str(narrow(value))))
    if pa.types.is_floating(stored) and whole:
        return whole_name
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
    # of a nested type no more than its name: its fields may be called after what is in the data
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
    found = value if value else abs(value)  # there is one zero
    return f"{found:f}" if isinstance(found, Decimal) else str(found)


_NARROW = ((pa.float32(), np.float32), (pa.float16(), np.float16))
_NAMERS: dict[str, Callable[[Any], str]] = {
    "truth value": str,
    "number": _number_name,
    "text": str,
    "date": lambda value: str(value.isoformat()),
    "nothing": str,
}
