"""Rules for cells of magnitude tables: how many contribute, and whether the largest can be told ([KDSF] section 2).

All in integers: values are whole numbers of some unit, and a share is a fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError

Values: TypeAlias = npt.NDArray[np.int64]
Share: TypeAlias = int | str | Decimal | Fraction


@dataclass(frozen=True)
class Rules:
    """What a cell of sums must keep; what is None is not asked.

    contributors  the n-rule: at least so many contribute; who has 0 does not
    dominance     the (n, p)-rule: the n largest hold no more than p per cent; strictly more fails
    ambiguity     the p%-rule: what is left without the two largest is at least p per cent of the largest, so that the
                  second largest cannot tell the largest more closely; strictly less fails

    InputError where a number or a share is out of range, or where nothing is asked.
    """

    contributors: int | None = None
    dominance: tuple[int, Fraction] | None = None
    ambiguity: Fraction | None = None

    @staticmethod
    def of(
        contributors: int | None = None, dominance: tuple[int, Share] | None = None, percent: Share | None = None
    ) -> Rules:
        """With shares in per cent as they are written: 85, '12.5'."""
        rules = Rules(
            contributors,
            dominance and (dominance[0], _share(dominance[1])),
            None if percent is None else _share(percent),
        )
        if rules == Rules():
            raise InputError("no rule is given; give a number of contributors, dominance n:p, or a percentage")
        if contributors is not None and contributors < 1:
            raise InputError(f"contributors = {contributors}; give 1 at least")
        if rules.dominance is not None and (rules.dominance[0] < 1 or not 0 < rules.dominance[1] <= 100):
            raise InputError(f"dominance = {dominance}; give a number from 1 and a percentage above 0, at most 100")
        if rules.ambiguity is not None and rules.ambiguity <= 0:
            raise InputError(f"percentage = {percent}; give one above 0")
        return rules


def _share(text: Share) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"{text!r} is no percentage; write it such as 85 or 12.5") from error


@dataclass(frozen=True, eq=False)
class Judged:
    """Cells of a magnitude table: what each sums to, how many contribute more than 0, and which rules it fails.

    totals, contributors                          (cells,)
    few, dominated, told                          (cells,) flags: n-rule, (n, p)-rule, p%-rule
    """

    totals: Values
    contributors: Values
    few: npt.NDArray[np.bool_]
    dominated: npt.NDArray[np.bool_]
    told: npt.NDArray[np.bool_]

    @property
    def fails(self) -> npt.NDArray[np.bool_]:
        """(cells,) whether a cell with records fails any."""
        found: npt.NDArray[np.bool_] = self.few | self.dominated | self.told
        return found

    @property
    def passes(self) -> bool:
        """Whether all cells do."""
        return not self.fails.any()


def judge(cells: Values, values: Values, contributors: Values, number: int, rules: Rules) -> Judged:
    """Judges so many cells from records: the cell that each is in, its value, and whose it is.

    A contributor with several records in a cell has there what they sum to, and contributes where that is not 0. A cell
    without a record fails nothing; one whose records are all 0 fails every rule that is asked, for its total tells what
    each of them has. InputError for values below 0, or whose sum leaves 62 bits.
    """
    if len(values) and values.min() < 0:
        raise InputError(
            f"{int((values < 0).sum())} values are below 0, and shares of them mean nothing; split them by sign, or "
            "leave them out"
        )
    if float(values.sum(dtype=np.float64)) >= 2.0**62:
        raise InputError("the values sum to more than 2^62 of their unit; give them in a larger unit")
    has_records, contributes = np.bincount(cells, minlength=number) > 0, np.flatnonzero(values)
    own, held = _holdings(cells[contributes], values[contributes], contributors[contributes])
    totals, many = np.zeros(number, np.int64), np.bincount(own, minlength=number).astype(np.int64)
    np.add.at(totals, own, held)
    few = np.zeros(number, np.bool_) if rules.contributors is None else has_records & (many < rules.contributors)
    dominated, told = np.zeros(number, np.bool_), np.zeros(number, np.bool_)
    by_size = np.lexsort((-held, own))
    ends = np.cumsum(many)
    for cell in np.flatnonzero(has_records).tolist():
        largest = held[by_size[ends[cell] - many[cell] : ends[cell]]]
        total = int(totals[cell])
        if rules.dominance is not None:
            n, p = rules.dominance
            dominated[cell] = total == 0 or 100 * int(largest[:n].sum()) > p * total
        if rules.ambiguity is not None:
            told[cell] = total == 0 or 100 * (total - int(largest[:2].sum())) < rules.ambiguity * int(largest[0])
    return Judged(totals, many, few, dominated, told)


def _holdings(cells: Values, values: Values, contributors: Values) -> tuple[Values, Values]:
    """What each contributor has in each cell: the cell, and the sum of the records' values."""
    order = np.lexsort((contributors, cells))
    keys = np.stack([cells[order], contributors[order]])
    first = np.ones(len(order), np.bool_)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    starts = np.flatnonzero(first)
    return keys[0][starts], np.add.reduceat(values[order], starts) if len(starts) else values[:0]
