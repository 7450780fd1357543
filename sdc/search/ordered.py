"""Ordered marginals: bisection for the longest releasable prefix, then extension until maximal ([KDSF] 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criterion import Assessment, Criterion
from sdc.risk.critical_width import CriticalWidths


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "bisection", "extension" (by cheap bounds), or "border" (its sub-tables again, with all means)
    length     bisection: length of the prefix asked about; else sub-tables released so far
    added      the sub-table tried; None for a prefix
    answer     True releasable, False refuted, None undecided (treated as unsafe)
    """

    phase: str
    length: int
    added: SubTable | None
    answer: bool | None
    min_width: tuple[int, int]
    undecided_cells: int


@dataclass(frozen=True)
class OrderedRelease:
    """The release found, its assessment, and every step that led to it."""

    release: Release
    assessment: Assessment
    steps: tuple[SearchStep, ...]


@dataclass(frozen=True)
class OrderedSearch:
    """Releases prefixes of the ordered list; an undecided release is refused unless `accept_undecided`.

    `on_step` hears of every question asked.
    """

    criterion: Criterion
    widths: CriticalWidths
    extend: bool = True
    accept_undecided: bool = False
    on_step: Callable[[SearchStep], None] = lambda step: None

    def run(self) -> OrderedRelease:
        """The longest releasable prefix by bisection, extended until nothing more can be added.

        ReleaseError where not even the grand total may be public, or where the list was cut above
        the width asked for.
        """
        candidates = self._candidates()
        steps: list[SearchStep] = []
        release = self._bisect(candidates, steps)
        if self.extend:
            release = self._extend(release, candidates, steps)
        return OrderedRelease(release, self.criterion.assess(release), tuple(steps))

    def _candidates(self) -> tuple[SubTable, ...]:
        """Whoever has all one-way sub-tables can have none whose critical width is smaller than asked."""
        required = self.criterion.min_width
        if self.widths.floor > required:
            raise ReleaseError(
                f"critical widths are known from the floor {self.widths.floor} on, the minimum width is {required}; "
                f"set the floor to at most {required}"
            )
        return self.widths.reaching(required) or tuple(self.widths.sub_tables.tolist())

    def _bisect(self, candidates: Sequence[SubTable], steps: list[SearchStep]) -> Release:
        releasable, refused = 0, len(candidates) + 1
        self._require_grand_total()
        while refused - releasable > 1:
            middle = (releasable + refused) // 2
            if self._ask(Release.of(candidates[:middle]), "bisection", middle, None, steps):
                releasable = middle
            else:
                refused = middle
        return Release.of(candidates[:releasable])

    def _extend(self, release: Release, candidates: Sequence[SubTable], steps: list[SearchStep]) -> Release:
        """Rounds in the order of the list until one adds nothing; then the border once more, with all means."""
        before = None
        while before != release:
            before = release
            release = self._try(release, candidates, "extension", steps)
            if release == before and not self._always_dearer:
                release = self._try(release, self._border(release, candidates), "border", steps)
        return release

    def _try(self, release: Release, candidates: Sequence[SubTable], phase: str, steps: list[SearchStep]) -> Release:
        for subtable in candidates:
            larger = release.add(subtable)
            if larger != release and self._ask(larger, phase, release.sub_tables, subtable, steps):
                release = larger
        return release

    @staticmethod
    def _border(release: Release, candidates: Sequence[SubTable]) -> list[SubTable]:
        """The unreleasable frontier ([KDSF] section 3): candidates not released, all of whose children are."""
        outside = (t for t in candidates if t not in release)
        return [t for t in outside if all(child in release for child in st.children(t))]

    @property
    def _always_dearer(self) -> bool:
        return self.criterion.is_exact or self.accept_undecided

    def _ask(self, release: Release, phase: str, length: int, added: SubTable | None, steps: list[SearchStep]) -> bool:
        answer = self.criterion.assess(release, dearer=phase != "extension" or self._always_dearer)
        step = SearchStep(phase, length, added, answer.releasable, answer.min_width, answer.undecided_cells)
        steps.append(step)
        self.on_step(step)
        return answer.releasable is True or (self.accept_undecided and answer.releasable is None)

    def _require_grand_total(self) -> None:
        total = self.criterion.table.total
        if self.criterion.assess(Release.of([st.GRAND_TOTAL])).releasable is not True:
            raise ReleaseError(
                f"the minimum width {self.criterion.min_width} is not reached even when only the grand total {total} "
                f"is public; choose a minimum width of at most {total}"
            )
