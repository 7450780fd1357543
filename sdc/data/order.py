"""The order of categories that no setting gives: by number, by interval, by text; never that of the file they are in.

A file's order tells of its records: a dictionary in order of first appearance names what record 1 has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from decimal import Decimal

from sdc.data.recodes import NUMERAL

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
    """The categories in order.

    By number where all are numerals; by their ends where they are intervals such as "under 15", "15 to 64" and "65 and
    over", the others after them; else by code point.
    """
    if all(NUMERAL.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (Decimal(name), name))
    interval_of = {name: interval for name in names if (interval := _interval(name))}
    if not any(low != high for low, high in interval_of.values()):
        return sorted(names)
    inside = sorted(interval_of, key=lambda name: (interval_of[name], name))
    return [*inside, *sorted(name for name in names if name not in interval_of)]


def _interval(name: str) -> _Interval | None:
    """Its ends, infinite where it has none; those of a single number are equal."""
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
