"""Ordered marginals: bisection for the longest releasable prefix, then extension until maximal ([KDSF] 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sdc.model import subtable as st
from sdc.model.differences import Differences
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criterion import Assessment, Criterion
from sdc.risk.critical_width import CriticalWidths


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "bisection" or "extension"
    length     bisection: length of the prefix asked about; else sub-tables released so far
    added      the sub-tables tried together; none for a prefix
    answer     True releasable, False refuted, None undecided
    """

    phase: str
    length: int
    added: tuple[SubTable, ...]
    answer: bool | None
    min_width: tuple[int, int]
    undecided_cells: int


@dataclass(frozen=True, eq=False)
class OrderedRelease:
    """The release found, its assessment, every step that led to it, and the feasible tables found for it."""

    release: Release
    assessment: Assessment
    steps: tuple[SearchStep, ...]
    evidence: Differences


@dataclass(frozen=True)
class OrderedSearch:
    """Releases prefixes of the ordered list; an undecided release is refused unless `accept_undecided`.

    With `accept_undecided` no proof of safety is looked for while searching: what no outer bound refutes is
    accepted. `on_step` hears of every question asked.
    """

    criterion: Criterion
    widths: CriticalWidths
    extend: bool = True
    accept_undecided: bool = False
    on_step: Callable[[SearchStep], None] = lambda step: None
    _steps: list[SearchStep] = field(default_factory=list, init=False)

    def run(self) -> OrderedRelease:
        """The longest releasable prefix by bisection, extended until nothing more can be added.

        ReleaseError where not even the grand total may be public, or where the list was cut above
        the width asked for.
        """
        candidates = self._candidates()
        self._steps.clear()
        release = self._bisect(candidates)
        if self.extend:
            release, _ = self._extend(release, candidates, ())
        assessment = self.criterion.assess(release, certify=not self.accept_undecided)
        at_risk = np.arange(assessment.at_risk_cells)
        return OrderedRelease(release, assessment, tuple(self._steps), self.criterion.evidence.resting(at_risk))

    def _candidates(self) -> tuple[SubTable, ...]:
        """Whoever has all one-way sub-tables can have none whose critical width is smaller than asked."""
        required = self.criterion.min_width
        if self.widths.floor > required:
            raise ReleaseError(
                f"critical widths are known from the floor {self.widths.floor} on, the minimum width is {required}; "
                f"set the floor to at most {required}"
            )
        return self.widths.reaching(required) or tuple(self.widths.sub_tables.tolist())

    def _bisect(self, candidates: Sequence[SubTable]) -> Release:
        releasable, refused = 0, len(candidates) + 1
        self._require_grand_total()
        while refused - releasable > 1:
            middle = (releasable + refused) // 2
            if self._ask(Release.of(candidates[:middle]), "bisection", middle, ()):
                releasable = middle
            else:
                refused = middle
        return Release.of(candidates[:releasable])

    def _extend(
        self, release: Release, candidates: Sequence[SubTable], refused: tuple[SubTable, ...]
    ) -> tuple[Release, tuple[SubTable, ...]]:
        """The candidates all at once, and where that is refused one half after the other.

        What contains a refused sub-table need not be asked about: it could be released only with that.
        """
        left = [t for t in candidates if t not in release and not any(st.is_within(r, t) for r in refused)]
        if not left:
            return release, refused
        larger = Release.of([*release.frontier, *left])
        if self._ask(larger, "extension", release.sub_tables, tuple(left)):
            return larger, refused
        if len(left) == 1:
            return release, (*refused, left[0])
        half = len(left) // 2
        release, refused = self._extend(release, left[:half], refused)
        return self._extend(release, left[half:], refused)

    def _ask(self, release: Release, phase: str, length: int, added: tuple[SubTable, ...]) -> bool:
        """Whether the release may go out; the criterion then settles on it."""
        certify = not self.accept_undecided
        answer = self.criterion.assess(release, certify=certify, brief=certify)
        step = SearchStep(phase, length, added, answer.releasable, answer.min_width, answer.undecided_cells)
        self._steps.append(step)
        self.on_step(step)
        accepted = answer.releasable is True or (self.accept_undecided and answer.releasable is None)
        if accepted:
            self.criterion.evidence.settle(release)
        return accepted

    def _require_grand_total(self) -> None:
        total = self.criterion.table.total
        if self.criterion.assess(Release.of([st.GRAND_TOTAL])).releasable is not True:
            raise ReleaseError(
                f"the minimum width {self.criterion.min_width} is not reached even when only the grand total {total} "
                f"is public; choose a minimum width of at most {total}"
            )
