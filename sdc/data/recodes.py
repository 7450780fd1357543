"""Recodes: from the name of a stored value to a bin, a group, or a top or bottom code."""

from __future__ import annotations

import re
from decimal import Decimal

from sdc.config.table import RecodeConfig

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
