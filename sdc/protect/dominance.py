"""Rules for cells of magnitude tables: contributors, and whether the largest can be estimated ([KDSF] section 2).

All in integers: values are whole numbers of some unit, and a share is a fraction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError, many

Values: TypeAlias = npt.NDArray[Any]
"""Of 64-bit integers, or of Python's where these do not hold the sums."""

_DECIMAL = r"(?:[0-9]{1,99}(?:\.[0-9]{0,99})?|\.[0-9]{1,99})(?:e[-+]?[0-9]{1,2})?"
_SHARE = re.compile(rf"\+?(?:{_DECIMAL}|[0-9]{{1,99}}/[1-9][0-9]{{0,98}})", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Rules:
    """What a cell of sums must keep; what is None is not asked.

    contributors  the threshold rule: at least so many contribute a value other than 0
    dominance     the (n, p)-rule: the n largest hold no more than p per cent; strictly more fails
    ambiguity     the p%-rule: what is left without the two largest is at least p per cent of the largest, so that the
                  second largest cannot tell the largest more closely; strictly less fails

    InputError where a number or a share is out of range, or where nothing is asked.
    """

    contributors: int | None = None
    dominance: tuple[int, Fraction] | None = None
    ambiguity: Fraction | None = None

    @staticmethod
    def of(contributors: Any = None, dominance: Any = None, percent: Any = None) -> Rules:
        """With shares in per cent as they are written: 85, 12.5, '12.5'."""
        rules = Rules(
            None if contributors is None else _count(contributors, f"contributors = {contributors!r}"),
            None if dominance is None else _pair(dominance),
            None if percent is None else _share(percent, f"percent = {percent!r}"),
        )
        if rules == Rules():
            raise InputError("no rule is given; give a number of contributors, dominance n:p, or a percentage")
        return rules

    def broken(self, judged: Judged, cell: int, written: Callable[[int], str]) -> Iterator[tuple[str, str]]:
        """Each rule that a cell fails, and the figures by which it does, as confidential as the records."""
        total, largest, left = (int(found[cell]) for found in (judged.totals, judged.largest, judged.left))
        if judged.few[cell]:
            yield f"contributors {self.contributors}", f"{judged.contributors[cell]} contribute"
        if judged.dominated[cell] and self.dominance is not None:
            n, p = self.dominance
            share = f"the {n} largest hold {written(int(judged.leading[cell]))} of {written(total)}"
            yield f"dominance {n}:{_decimal(p)}", f"{share}{_percent(int(judged.leading[cell]), total)}"
        if judged.estimable[cell] and self.ambiguity is not None:
            share = f"without the 2 largest {written(left)} are left, the largest holds {written(largest)}"
            yield f"percent {_decimal(self.ambiguity)}", f"{share}{_percent(left, largest)}"


def _count(given: Any, name: str) -> int:
    if not isinstance(given, Integral) or isinstance(given, bool) or given < 1:
        raise InputError(f"{name}; give a whole number of at least 1")
    return int(given)


def _pair(given: Any) -> tuple[int, Fraction]:
    name = f"dominance = {given!r}"
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(f"{name}; give a number n and a percentage p, such as (1, 70)")
    n, p = _count(given[0], name), _share(given[1], name)
    if p > 100:
        raise InputError(f"{name}; give a percentage above 0, at most 100")
    return n, p


def _share(given: Any, name: str) -> Fraction:
    """A percentage above 0, of a float the decimal number that it is written as."""
    known = isinstance(given, str | Real | Decimal) and not isinstance(given, bool)
    text = str(given).strip() if known else ""
    if not _SHARE.fullmatch(text) or Fraction(text) <= 0:
        raise InputError(f"{name}; a percentage is a number above 0, such as 85 or 12.5")
    return Fraction(text)


def _decimal(share: Fraction) -> str:
    return f"{float(share):g}"


def _percent(part: int, whole: int) -> str:
    return f", {float(Fraction(100 * part, whole)):.4g} %" if whole else ""


@dataclass(frozen=True, eq=False)
class Judged:
    """Cells of a magnitude table: what each sums to, how many contribute more than 0, and which rules it fails.

    totals, contributors      (cells,)
    leading, largest, left    (cells,) what the n largest hold, what the largest holds, what the two largest leave
    few, dominated, estimable (cells,) flags: threshold rule, (n, p)-rule, p%-rule
    """

    totals: Values
    contributors: Values
    leading: Values
    largest: Values
    left: Values
    few: npt.NDArray[np.bool_]
    dominated: npt.NDArray[np.bool_]
    estimable: npt.NDArray[np.bool_]

    @property
    def fails(self) -> npt.NDArray[np.bool_]:
        """(cells,) whether a cell with records fails any."""
        found: npt.NDArray[np.bool_] = self.few | self.dominated | self.estimable
        return found

    @property
    def passes(self) -> bool:
        """Whether all cells do."""
        return not self.fails.any()


def judge(cells: Values, values: Values, contributors: Values, number: int, rules: Rules) -> Judged:
    """Judges so many cells from records: the cell that each is in, its value, and whose it is.

    A contributor with several records in a cell has there what they sum to, and contributes where that is not 0. A cell
    without a record fails nothing; one whose records are all 0 fails every rule that is asked, for its total discloses
    each value. Sums beyond 62 bits are of Python's integers. InputError for values below 0.
    """
    if len(values) and values.min() < 0:
        raise InputError(
            f"{many(int((values < 0).sum()), 'value')} below 0, of which shares mean nothing; split them by sign, "
            "or leave them out"
        )
    if float(values.sum(dtype=np.float64)) >= 2.0**62:
        values = values.astype(object)
    has_records, contributes = np.bincount(cells, minlength=number) > 0, np.flatnonzero(values)
    own, held = _holdings(cells[contributes], values[contributes], contributors[contributes])
    contributing = np.bincount(own, minlength=number).astype(np.int64)
    totals, leading, largest, left = (np.zeros(number, values.dtype) for _ in range(4))
    np.add.at(totals, own, held)
    n, p = rules.dominance or (1, Fraction(100))
    held, ends = held[np.lexsort((-held, own))], np.cumsum(contributing)
    for cell in np.flatnonzero(contributing).tolist():
        by_size = held[ends[cell] - contributing[cell] : ends[cell]]
        leading[cell], largest[cell], left[cell] = by_size[:n].sum(), by_size[0], by_size[2:].sum()
    few, dominated, estimable = (np.zeros(number, np.bool_) for _ in range(3))
    if rules.contributors is not None:
        few = has_records & (contributing < rules.contributors)
    for cell in np.flatnonzero(has_records).tolist():
        total = int(totals[cell])
        if rules.dominance is not None:
            dominated[cell] = total == 0 or 100 * int(leading[cell]) > p * total
        if rules.ambiguity is not None:
            estimable[cell] = total == 0 or 100 * int(left[cell]) < rules.ambiguity * int(largest[cell])
    return Judged(totals, contributing, leading, largest, left, few, dominated, estimable)


def _holdings(cells: Values, values: Values, contributors: Values) -> tuple[Values, Values]:
    """What each contributor has in each cell: the cell, and the sum of the records' values."""
    order = np.lexsort((contributors, cells))
    keys = np.stack([cells[order], contributors[order]])
    first = np.ones(len(order), np.bool_)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    starts = np.flatnonzero(first)
    return keys[0][starts], np.add.reduceat(values[order], starts) if len(starts) else values[:0]
