"""Min width: every at-risk cell's bounds must stay at least so wide ([KDSF] eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Flags
from sdc.feasible.witness_pool import CellRows
from sdc.model.cell_bounds import CellBounds, is_wide
from sdc.model.errors import InputError
from sdc.model.table import Counts
from sdc.risk.assessment import Assessment, OwnJudged, Witness
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict

MAX_WITNESSES = 20
FAR = 1 << 62  # wider than any cell


class Others(NamedTuple):
    """At-risk cells that are not held one by one: how many, and of all the smallest inner and outer width."""

    cells: int
    widths: tuple[int, int]


@dataclass(frozen=True)
class MinWidth:
    """Every at-risk cell keeps a width of at least `min_width`, in records; InputError for less than 1.

    monotone  with more released no cell's bounds get wider
    """

    min_width: int
    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.min_width < 1:
            raise InputError(f"min_width is {self.min_width}; give at least 1, or nothing is protected")

    @overload
    def is_wide(self, widths: int) -> bool: ...

    @overload
    def is_wide(self, widths: Counts) -> Flags: ...

    def is_wide(self, widths: int | Counts) -> bool | Flags:
        """Whether a width, or each of (n,) widths, in records, is wide enough."""
        return is_wide(widths, self.min_width)

    def verdicts(self, bounds: CellBounds) -> npt.NDArray[np.int64]:
        """(n,) the verdict on each cell: its outer width refutes it, its inner width certifies it, or neither."""
        refuted, certified = ~self.is_wide(bounds.outer_width), self.is_wide(bounds.inner_width)
        return np.select([refuted, certified], [int(Verdict.UNSAFE), int(Verdict.SAFE)], int(Verdict.UNDECIDED))

    def assess(self, bounds: CellBounds, others: Others | None = None) -> Assessment:
        """The answer that the bounds of all at-risk cells, of which there is one at least, give: that of the worst."""
        verdicts, others = self.verdicts(bounds), others or Others(0, (FAR, FAR))
        worst = Verdict.worst(verdicts)
        telling = np.flatnonzero(verdicts == worst) if worst < Verdict.SAFE else np.zeros(0, np.int64)
        low, high = others.widths
        return Assessment(
            worst,
            self.min_width,
            (int(bounds.inner_width.min(initial=low)), int(bounds.outer_width.min(initial=high))),
            len(bounds) + others.cells,
            int((verdicts == Verdict.UNDECIDED).sum()),
            tuple(_witness(bounds, row) for row in most_exposed(bounds, telling)[:MAX_WITNESSES]),
        )

    def doubtful(self, support: Support) -> CellRows:
        """At-risk cells without those that their marginal cells alone show to be wide enough."""
        # the lower end is at most the count, and that at most the small count
        return support.below(self.min_width + support.pool.small_count)

    def short(self, support: Support, rows: CellRows) -> CellRows:
        """Those of the at-risk cells that are not shown to be wide enough."""
        inner = support.inner_at(rows)
        return rows[~self.is_wide(inner[:, 1] - inner[:, 0])]

    def short_own(self, support: Support, rows: CellRows | None = None) -> CellRows:
        """Those of some, or of all, small cells of sub-tables in part that are not shown to be wide enough."""
        inner = support.own_inner
        short = support.own_is_open & ~self.is_wide(inner[:, 1] - inner[:, 0])
        return np.flatnonzero(short) if rows is None else rows[short[rows]]

    def with_own(self, answer: Assessment, support: Support) -> Assessment:
        """An answer about at-risk cells with what is shown of small cells of parts, where there are any."""
        if not (asked := int(support.own_is_open.sum())):
            return answer
        short = len(self.short_own(support))
        by_own = Verdict.UNDECIDED if short else Verdict.SAFE
        return replace(answer, verdict=Verdict.worst([answer.verdict, by_own]), in_part=OwnJudged(asked, short))


def most_exposed(bounds: CellBounds, rows: CellRows) -> CellRows:
    """Narrowest outer first, then narrowest inner, then in the table's order."""
    order = np.lexsort([rows, bounds.inner_width[rows], bounds.outer_width[rows]])
    return rows[order]


def _witness(bounds: CellBounds, row: np.int64) -> Witness:
    low, high = bounds.outer[row].tolist()
    inner_low, inner_high = bounds.inner[row].tolist()
    cell = tuple(bounds.cells[row].tolist())
    return Witness(cell, int(bounds.counts[row]), (low, high), (inner_low, inner_high), bounds.method)
