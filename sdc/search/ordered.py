"""Ordered marginals: bisection for the longest releasable prefix ([KDSF] 5.2), and extension until maximal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import NothingReleasableError, ReleaseError
from sdc.model.graph import component_with, independence_graph
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criterion import Depth, Judgement
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.inquiry import Inquiry
from sdc.risk.verdict import Policy, Verdict
from sdc.search.found import Found

Refused = tuple[SubTable, ...]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "bisection", "growth" from the one-way sub-tables before it, or "extension" of the prefix; where there
               is growth and no extension, what has grown is the release
    length     bisection: length of the prefix asked about; else sub-tables released so far
    added      the sub-tables tried together; none for a prefix
    answer     True releasable, False refuted, None undecided
    blockers   codes of the at-risk cells that stopped it, see `Judgement`
    """

    phase: str
    length: int
    added: tuple[SubTable, ...]
    answer: bool | None
    min_width: tuple[int, int]
    undecided_cells: int
    blockers: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class OrderedRelease(Found):
    """The release found, and every step that led to it."""

    steps: tuple[SearchStep, ...]


@dataclass(eq=False)
class OrderedSearch:
    """Releases prefixes of the ordered list; what the inquiry's policy does not accept is refused.

    Every release on the way has the judgement that accepted it, and ends with it: what was proven is not asked
    again, so no budget that is spent later can take it back. `on_step` hears of every question asked.
    """

    inquiry: Inquiry
    widths: CriticalWidths
    extend: bool = True
    on_step: Callable[[SearchStep], None] = lambda step: None
    _steps: list[SearchStep] = field(default_factory=list, init=False)

    def run(self) -> OrderedRelease:
        """The longest releasable prefix, or what grows from the one-way sub-tables where that is more, made maximal.

        A prefix soon has all pairs of variables, and then nothing splits it into components. What grows from the
        one-way sub-tables keeps them small, and cells of small components are far easier to certify. So it is grown
        first, and only prefixes of as many sub-tables are asked about. ReleaseError where not even the grand total may
        be public, where the list was cut above the width asked for, or where the criterion is not monotone: then a
        refused prefix says nothing of a longer one.
        """
        self._steps.clear()
        self.require_monotone()
        candidates = self._candidates()
        total = self._grand_total()
        if not self.extend:
            return self._found(self._bisect(candidates, 0) or total)
        # where all are released nothing needs to grow; where not, mostly one of the first cells says so
        if (everything := self._asked_prefix(candidates, len(candidates))) is not None:
            return self._found(everything)
        one_way = [t for t in candidates if st.dimension(t) == 1]
        start, refused = self._extend(total, one_way, (), "growth")
        grown = self._extended(start, refused, "growth")
        self.inquiry.resume(total)  # what is said of a prefix is the paper's, whatever grew before
        longest = self._bisect(candidates[:-1], grown.release.sub_tables)
        if longest is None:
            return self._found(grown)
        self.inquiry.resume(longest)
        return self._found(self._extended(longest, (), "extension"))

    def extended(self, judgement: Judgement) -> OrderedRelease:
        """A release that was accepted, with candidates added until none can be; the steps are those of this call."""
        self._steps.clear()
        self.require_monotone()
        self.inquiry.resume(judgement)
        return self._found(self._extended(judgement, (), "extension"))

    def _found(self, judgement: Judgement) -> OrderedRelease:
        return OrderedRelease(judgement, tuple(self._steps))

    def _extended(self, judgement: Judgement, refused: Refused, phase: str) -> Judgement:
        """An accepted release with candidates added until none can be; those refused before are not asked about.

        First pairs of variables that no released sub-table has, one by one, and with each the candidates that then
        lie within a component; then all the others.
        """
        candidates, smaller = self._candidates(), None
        while smaller is not judgement:
            smaller = judgement
            for pair in self._pairs(judgement.release, candidates, refused):
                larger, refused = self._extend(judgement, [pair], refused, phase)
                if larger is not judgement:
                    parts = self.inquiry.knows(larger.release).components.cliques
                    inside = _those(candidates, st.within_one_of(np.array(candidates, np.int64), parts))
                    judgement, refused = self._extend(larger, inside, refused, phase)
                    break
        return self._extend(judgement, candidates, refused, phase)[0]

    def _pairs(self, release: Release, candidates: Sequence[SubTable], refused: Refused) -> Iterator[SubTable]:
        """Two-way candidates that are left; first those that make small components and open up the most.

        A pair opens up the candidates that have it and whose other pairs are released.
        """
        known, sets = self.inquiry.knows(release), np.array(candidates, np.int64)
        graph = independence_graph(release.frontier, len(self.inquiry.table.schema))
        left = [t for t in candidates if st.dimension(t) == 2 and t not in release and t not in refused]

        def size(pair: SubTable) -> int:
            return st.dimension(component_with(known.components, known.independence_graph, release, pair))

        def opened(pair: SubTable) -> int:
            u, v = st.members(pair)
            around = pair | graph[u] & graph[v]
            return int(((sets & pair == pair) & (sets & ~around == 0)).sum())

        # mostly the first is accepted, and only pairs of its size need to be told apart
        for _, alike in groupby(sorted(((size(pair), k, pair) for k, pair in enumerate(left))), key=itemgetter(0)):
            yield from sorted((pair for _, _, pair in alike), key=lambda pair: -opened(pair))

    def _candidates(self) -> tuple[SubTable, ...]:
        """Whoever has all one-way sub-tables can have none whose critical width is smaller than asked."""
        required = self.inquiry.criterion.min_width
        if self.widths.floor > required:
            raise ReleaseError(
                f"critical widths are known from the floor {self.widths.floor} on, the minimum width is {required}; "
                f"set the floor to at most {required}"
            )
        return self.widths.reaching(required) or tuple(self.widths.sub_tables.tolist())

    def _bisect(self, candidates: Sequence[SubTable], least: int) -> Judgement | None:
        """The longest prefix that is accepted, of those with at least so many sub-tables; None where there is none."""
        lengths = range(1, len(candidates) + 1)
        shortest = 1 + bisect_left(lengths, least, key=lambda n: Release.of(candidates[:n]).sub_tables)
        longest, releasable, refused = None, shortest - 1, len(candidates) + 1
        while refused - releasable > 1:
            # that none is long enough is the likeliest where others are to be beaten
            middle = shortest if least and longest is None else (releasable + refused) // 2
            if (accepted := self._asked_prefix(candidates, middle)) is not None:
                longest, releasable = accepted, middle
            else:
                refused = middle
        return longest

    def _asked_prefix(self, candidates: Sequence[SubTable], length: int) -> Judgement | None:
        """The judgement of a prefix that is accepted."""
        judgement = self._ask(Release.of(candidates[:length]), "bisection", length, ())
        return judgement if self.inquiry.accepts(judgement) else None

    def _extend(
        self, judgement: Judgement, candidates: Sequence[SubTable], refused: Refused, phase: str
    ) -> tuple[Judgement, Refused]:
        """The candidates all at once, and where that is refused one half after the other.

        What contains a refused sub-table need not be asked about: it could be released only with that.
        """
        release, sets = judgement.release, np.array(candidates, np.int64)
        is_out = st.within_one_of(sets, release.frontier)
        for smaller in refused:
            is_out |= sets & smaller == smaller
        left = _those(candidates, ~is_out)
        if not left:
            return judgement, refused
        larger = self._ask(Release.of([*release.frontier, *left]), phase, release.sub_tables, tuple(left))
        if self.inquiry.accepts(larger):
            return larger, refused
        if len(left) == 1:
            return judgement, (*refused, left[0])
        half = len(left) // 2
        judgement, refused = self._extend(judgement, left[:half], refused, phase)
        return self._extend(judgement, left[half:], refused, phase)

    def _ask(self, release: Release, phase: str, length: int, added: tuple[SubTable, ...]) -> Judgement:
        depth = Depth.BRIEF if self.inquiry.policy is Policy.REFUSE else Depth.REFUTE
        judgement = self.inquiry.ask(release, depth)
        answer = judgement.assessment
        facts = answer.releasable, answer.min_width, answer.undecided_cells
        step = SearchStep(phase, length, added, *facts, judgement.blockers)
        self._steps.append(step)
        self.on_step(step)
        return judgement

    def _grand_total(self) -> Judgement:
        judgement, total = self.inquiry.ask(Release.of([st.GRAND_TOTAL])), self.inquiry.table.total
        if judgement.verdict is not Verdict.SAFE:
            raise NothingReleasableError(
                f"the minimum width {self.inquiry.criterion.min_width} is not reached even when only the grand total "
                f"{total} is public; choose a minimum width of at most {total}"
            )
        return judgement

    def require_monotone(self) -> None:
        """ReleaseError where a refusal says nothing of larger releases."""
        if not self.inquiry.criterion.monotone:
            raise ReleaseError(
                "a limit on the posterior is not monotone: a release may keep it though one within it does not, so "
                "neither a bisection nor an extension can cut by it; choose the method decomposable or simulatable"
            )


def _those(sub_tables: Sequence[SubTable], flags: Flags) -> list[SubTable]:
    return [sub_tables[k] for k in np.flatnonzero(flags).tolist()]
