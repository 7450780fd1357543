"""Ordered marginals: bisection for the longest releasable prefix ([KDSF] 5.2), and extension until maximal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.graph import independence_graph
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criterion import Assessment, Criterion
from sdc.risk.critical_width import CriticalWidths


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "bisection", "growth" from the one-way sub-tables, or "extension" of the prefix; where there is growth
               and no extension, what has grown is the release
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
    proof: Proof


@dataclass(eq=False)
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
        """The longest releasable prefix, or what grows from the one-way sub-tables where that is more, made maximal.

        A prefix soon has all pairs of variables, and then nothing splits it into components. What grows from the
        one-way sub-tables keeps them small, and cells of small components are far easier to certify. ReleaseError
        where not even the grand total may be public, or where the list was cut above the width asked for.
        """
        self._steps.clear()
        candidates = self._candidates()
        release = self._bisect(candidates)
        if self.extend and release != Release.of(candidates):
            one_way = [t for t in candidates if st.dimension(t) == 1]
            grown = self.extended(*self._extend(Release.of([]), one_way, (), "growth"), "growth")
            release = grown if grown.sub_tables > release.sub_tables else self.extended(release)
        return self.found(release)

    def found(self, release: Release) -> OrderedRelease:
        """The release as the outcome of the search, assessed."""
        assessment = self.criterion.assess(release, certify=not self.accept_undecided)
        return OrderedRelease(release, assessment, tuple(self._steps), self.criterion.proof(release))

    def extended(self, release: Release, refused: tuple[SubTable, ...] = (), phase: str = "extension") -> Release:
        """A releasable release with candidates added until none can be; those refused before are not asked about.

        First pairs of variables that no released sub-table has, one by one, and with each the candidates that then
        lie within a component; then all the others.
        """
        candidates = self._candidates()
        pairs = [p for p in self._pairs(release, candidates) if p not in refused]
        while pairs:
            larger, refused = self._extend(release, pairs[:1], refused, phase)
            if larger == release:
                pairs = pairs[1:]
                continue
            parts = self._components(larger)
            inside = [t for t in candidates if any(st.is_within(t, part) for part in parts)]
            release, refused = self._extend(larger, inside, refused, phase)
            pairs = [p for p in self._pairs(release, candidates) if p not in refused]
        return self._extend(release, candidates, refused, phase)[0]

    def _pairs(self, release: Release, candidates: Sequence[SubTable]) -> list[SubTable]:
        """Two-way candidates that are not released; first those that make small components and open up the most.

        A pair opens up the candidates that have it and whose other pairs are released.
        """
        graph, sets = (
            independence_graph(release.frontier, len(self.criterion.table.schema)),
            np.array(candidates, np.int64),
        )

        def rank(pair: SubTable) -> tuple[int, int]:
            part = next(part for part in self._components(release.add(pair)) if st.is_within(pair, part))
            u, v = st.members(pair)
            around = pair | graph[u] & graph[v]
            return st.dimension(part), -int(((sets & pair == pair) & (sets & ~around == 0)).sum())

        return sorted((t for t in candidates if st.dimension(t) == 2 and t not in release), key=rank)

    def _components(self, release: Release) -> tuple[SubTable, ...]:
        return Knowledge.of(self.criterion.table, release).components.cliques

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
        self, release: Release, candidates: Sequence[SubTable], refused: tuple[SubTable, ...], phase: str
    ) -> tuple[Release, tuple[SubTable, ...]]:
        """The candidates all at once, and where that is refused one half after the other.

        What contains a refused sub-table need not be asked about: it could be released only with that.
        """
        left = [t for t in candidates if t not in release and not any(st.is_within(r, t) for r in refused)]
        if not left:
            return release, refused
        larger = Release.of([*release.frontier, *left])
        if self._ask(larger, phase, release.sub_tables, tuple(left)):
            return larger, refused
        if len(left) == 1:
            return release, (*refused, left[0])
        half = len(left) // 2
        release, refused = self._extend(release, left[:half], refused, phase)
        return self._extend(release, left[half:], refused, phase)

    def _ask(self, release: Release, phase: str, length: int, added: tuple[SubTable, ...]) -> bool:
        """Whether the release may go out; the criterion then settles on it."""
        certify = not self.accept_undecided
        answer = self.criterion.assess(release, certify=certify, brief=certify)
        step = SearchStep(phase, length, added, answer.releasable, answer.min_width, answer.undecided_cells)
        self._steps.append(step)
        self.on_step(step)
        accepted = answer.releasable is True or (self.accept_undecided and answer.releasable is None)
        if accepted:
            self.criterion.support.settle(release)
        return accepted

    def _require_grand_total(self) -> None:
        total = self.criterion.table.total
        if self.criterion.assess(Release.of([st.GRAND_TOTAL])).releasable is not True:
            raise ReleaseError(
                f"the minimum width {self.criterion.min_width} is not reached even when only the grand total {total} "
                f"is public; choose a minimum width of at most {total}"
            )
