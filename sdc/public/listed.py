"""The content of one file of published counts, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Texts: TypeAlias = Mapping[str, Sequence[str]]
Count: TypeAlias = int | tuple[int, int] | None
"""A count: exact, between two numbers, or missing."""


@dataclass(frozen=True)
class Listed:
    """The content of a file: (cells,) categories of each variable, (cells,) counts, and all categories if known.

    A count is None if it is missing, and a pair if it is between two numbers. With a positive base, counts are rounded
    to multiples of it. `totals` has, by variable, the categories of totals if the file states them.
    """

    columns: Texts
    counts: Sequence[Count]
    categories: Texts
    base: int = 0
    totals: Texts = field(default_factory=dict)

    def marked(self, total: str) -> Listed:
        """The content with `total` in place of the file's own categories of totals."""
        columns, categories = dict(self.columns), dict(self.categories)
        for name, own in self.totals.items():
            columns[name] = [total if text in own else text for text in columns[name]]
            categories[name] = [text for text in categories[name] if text not in own]
        return replace(self, columns=columns, categories=categories)
