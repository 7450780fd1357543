"""The minimum-frequency rule ([KDSF] section 2): no count is published that is of so few records."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import InputError, NothingReleasableError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Broken
from sdc.risk.criterion import Criterion, register


@register
@dataclass(frozen=True)
class MinFrequency(Criterion):
    """No published count is from 1 to n - 1; InputError for an n below 2, which excludes nothing.

    A sub-table implies all within it. Each count of these is a sum of its counts; where they are 0 or at least
    n, so are all such sums. So the frontier of a release is looked at, and nothing else: what breaks the rule breaks it
    with whatever else is released. Suppressed counts of a suppressed table are not published, and rounded ones
    not as they are; sums of those that are shown are 0 or at least n again. What can be worked out from all of these is
    for the width to judge, not for this.
    """

    n: int
    key: ClassVar[str] = "min_frequency"
    setting: ClassVar[str] = "risk.min_frequency"
    document: ClassVar[str] = "n_rule"
    is_of_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n < 2:
            raise InputError(f"min_frequency is {self.n}; give at least 2, or no count is excluded")

    @classmethod
    def read(cls, given: Any) -> Self:
        return given if isinstance(given, cls) else cls(given)

    @property
    def facts(self) -> int:
        return self.n

    @property
    def sentence(self) -> str:
        return f"No published count is from 1 to {self.n - 1:,}."

    @property
    def hides(self) -> int:
        return self.n - 1

    def keeps(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
        """Whether it may be published whole, and all within it; one pass over the table, the first time."""
        return not 0 < table.least_count(subtable) < self.n

    def broken(self, table: Table, known: Knowledge) -> Broken | None:
        """The first sub-table with a count that breaks it, of those with exact counts; None where it is kept."""
        frontier = reversed(known.release.frontier)
        whole = (self._broken(table, t) for t in frontier if not self.keeps(table, known.zeros, t))
        in_part = (self._broken(table, fact.view, fact) for fact in known.published)
        return next(filter(None, chain(whole, in_part)), None)

    def _broken(self, table: Table, subtable: SubTable, fact: Fact | None = None) -> Broken | None:
        """By the smallest count of a sub-table, or of what a fact states of it, where that breaks the rule."""
        label = st.label(subtable, table.schema)
        text = f"{label} has a count from 1 to {self.n - 1}, which the minimum frequency of {self.n} excludes"
        if not subtable:
            return Broken(text, f"{label}: {table.total} records")
        marginal = table.marginal(subtable)
        rows = np.flatnonzero(marginal.counts < self.n)
        if fact is not None:
            rows = rows[fact.exactly(table.schema)[marginal.schema.keys.pack(marginal.codes[rows])]]
        if not len(rows):
            return None
        row = rows[marginal.counts[rows].argmin()]
        cell = marginal.schema.written(marginal.codes[row])
        return Broken(text, f"{label}: the cell {cell} has the count {marginal.counts[row]}")

    def require_total(self, table: Table) -> None:
        """NothingReleasableError where not even the number of records may be published."""
        if 0 < table.total < self.n:
            raise NothingReleasableError(
                f"the table has {table.total} records, and the minimum frequency of {self.n} excludes counts from 1 to "
                f"{self.n - 1}: not even the grand total may be published; choose a minimum frequency of "
                f"at most {table.total}"
            )
