"""The release of highest utility, by an implicit hitting set; or a proven release and how far it is from the best.

A refuted set of sub-tables is refuted in every release that has them. A solver proposes the best down-set of the query
space that contains none of the sets refuted so far. Where that is safe no release is better. Where it is refuted, a
minimal refuted set within it is excluded from then on (QuickXplain, Junker 2004; implicit hitting sets, Chandrasekaran,
Karp, Moreno-Centeno and Vempala 2011). A proposal bounds the best release from above whether it is safe or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, lcm
from time import time

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import InputError, many
from sdc.model.release import NOTHING, Release
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Evaluation
from sdc.risk.verdict import Verdict
from sdc.search.ordered import OrderedRelease, OrderedSearch
from sdc.solve.down_sets import FIRST_EFFORT, DownSets

MOST_LISTED, MOST_COMPLETE = 20_000, 10  # sub-tables; variables of which all are looked at
MOST_STEPS = 300_000  # of a proposal that stayed open, for every cell: 30 s
MOST_CONFLICTS = 8  # of one proposal: each is looked for in what is left without the one before


@dataclass(frozen=True)
class Bound:
    """The utility of the release that was found, and one that no release which satisfies the criteria exceeds.

    conflicts    refuted sets that show it, pairs among them
    is_complete  False where it is of releases that have all one-way sub-tables
    """

    found: Fraction
    value: Fraction
    conflicts: int
    pairs: int
    is_complete: bool

    @property
    def is_met(self) -> bool:
        """Whether no release is better."""
        return self.found >= self.value

    @property
    def text(self) -> str:
        """How far the release is from the best, in a sentence."""
        shown = f"{float(self.value):.12g}"
        by = f"{many(self.conflicts, 'refuted set')}, {self.pairs:,} of them pairs"
        of = "release" if self.is_complete else "release with all one-way sub-tables"
        share = 100 * float(self.found / self.value) if self.value else 100.0
        claim = (
            f"No {of} is better: the highest possible utility is {shown}"
            if self.is_met
            else f"This release has at least {share:.1f} % of the utility of the best {of}, which has at most {shown}"
        )
        return f"{claim}, by {by}. The bound comes from the solver and is not verified."


@dataclass(frozen=True, eq=False, repr=False)
class OptimalRelease(OrderedRelease):
    """The best release that was proven, and a bound of all."""

    bound: Bound | None = None


@dataclass(eq=False)
class OptimumSearch(OrderedSearch):
    """First the ordered search, whose release is kept unless a better one is proven; then proposals.

    A proposal that is neither proven nor refuted ends the search, as nothing excludes it: then the bound stays above
    the release. So does the deadline. The utility is the sum over sub-tables by their weights.
    """

    _best: Evaluation = field(init=False)
    _utility: Callable[[Release], int] = field(init=False)
    _scale: int = field(default=1, init=False)

    def run(self) -> OptimalRelease:
        """The release and its bound. Errors as `OrderedSearch.run`; InputError for too many sub-tables."""
        listed = self._listed()
        search = replace(self, deadline=self.deadline.halved)
        found = OrderedSearch.run(search)
        if self.constraints.only_required:
            return OptimalRelease(**vars(found))
        self._steps, self._best = [*search._steps], found.evaluation
        bound = self._improve(listed, found.required.evaluation if found.required else self.least)
        if not bound.is_met and not self.deadline.is_over and found.is_ended:
            found, steps = self.extended(self._best), self._steps
            self._steps, self._best = [*search._steps, *steps], found.evaluation
        ended = replace(self._found(self._best, found.required), unasked=found.unasked, resumed=found.resumed)
        bound = replace(bound, found=Fraction(self._utility(self._best.release), self._scale))
        is_ended = not bound.is_met and self.deadline.is_over
        return OptimalRelease(**{**vars(ended), "is_ended": is_ended}, bound=bound)

    def _listed(self) -> tuple[SubTable, ...]:
        """What may be released, in a list short enough for a solver; smaller sub-tables first.

        Of few variables every sub-table that is wide enough by itself; of more those whose critical width allows them,
        which are all that can be released beside all one-way sub-tables.
        """
        every = self._wide_alone() if self._is_complete else self.candidates()
        kept = self.evaluator.criteria.keeping(self.evaluator.table, self.evaluator.known.zeros, every)
        if len(kept) > MOST_LISTED:
            raise InputError(
                f"method optimum: {len(kept):,} sub-tables have a critical width that allows them, at most "
                f"{MOST_LISTED:,} are possible; choose the method best, or fewer variables"
            )
        return tuple(sorted((t for t in kept if t), key=lambda t: (st.dimension(t), t)))

    @property
    def _is_complete(self) -> bool:
        """Whether every sub-table is looked at."""
        return len(self._schema) <= MOST_COMPLETE

    def _wide_alone(self) -> tuple[SubTable, ...]:
        """Every sub-table that may go out if nothing else does: an at-risk cell i has from 0 to n_T(i_T) records.

        It has n_T(i_T) for certain where no other cell is in its marginal cell.
        """
        schema, cells = self._schema, self.evaluator.pool.at_risk.cells
        found = list[SubTable]()
        for t in self.constraints.allowed(Release.of([st.full(len(schema))]).views(schema)):
            widths = np.where(schema.shared(t, cells), self.evaluator.table.marginal_at(t, cells), 0)
            if self.evaluator.criteria.width.is_wide(widths).all():
                found.append(t)
        return tuple(found)

    def _improve(self, listed: Sequence[SubTable], start: Evaluation) -> Bound:
        """Proposals until the best release is proven, one stays open, or the deadline comes."""
        place = {t: number for number, t in enumerate(listed)}
        whole = [self._weights.of_sub_table(t, self._schema) for t in listed]
        scale = self._scale = lcm(*(weight.denominator for weight in whole))
        values = [int(weight * scale) for weight in whole]
        children = [[place[c] for c in st.children(t, self._schema) if c in place] for t in listed]
        master = DownSets(values, children, [place[t] for t in start.release.frontier if t in place])
        codes, own = np.array(listed, np.int64), np.array(values, np.int64)
        self._utility = lambda release: int(own[st.within_one_of(codes, release.frontier)].sum())
        pairs = 0
        for pair in self._pairs(listed):
            master.exclude(place[t] for t in pair)
            pairs += 1
        known = () if self.evaluator.refutations is None else tuple(self.evaluator.refutations.found.values())
        public = start.knowledge.release
        for refutation in known:
            frontier = Release.of(refutation.support).frontier
            if all(t in place or t in public for t in frontier):
                master.exclude(place[t] for t in frontier if t in place)
        conflicts, bound, effort = pairs + len(known), sum(values), FIRST_EFFORT
        while not self.deadline.is_over:
            left = None if self.deadline.moment == inf else self.deadline.moment - time()
            proposal = master.best(effort, left)
            if proposal is None:
                break
            bound = min(bound, proposal.bound)
            if self._utility(self._best.release) >= bound:
                break
            answer = self._proposed(start, [listed[member] for member in proposal.members])
            if answer is None:
                break
            if self.evaluator.accepts(answer):
                effort *= 2  # the solver ended before its own optimum
                continue
            found = [*self._conflicts(start, answer)]
            if not found:
                break
            for conflict in found:
                master.exclude(place[t] for t in conflict)
            conflicts += len(found)
        worth = self._utility(self._best.release)
        return Bound(Fraction(worth, scale), Fraction(max(bound, worth), scale), conflicts, pairs, self._is_complete)

    def _proposed(self, start: Evaluation, members: Sequence[SubTable]) -> Evaluation | None:
        """The evaluation of some sub-tables with what is required; None where the deadline came before it."""
        self.evaluator.resume(start)
        answer = self._ask(Release.of([*start.release.frontier, *members]), "proposal", len(members), ())
        if answer is not None and answer.verdict is Verdict.UNDECIDED and not self.evaluator.accepts(answer):
            answer = self._ask(answer.asked, "proposal", len(members), (), MOST_STEPS)
        if answer is not None and self.evaluator.accepts(answer):
            better = self._utility(answer.release) > self._utility(self._best.release)
            self._best = answer if better else self._best
        return answer

    def _conflicts(self, start: Evaluation, refuted: Evaluation) -> Iterator[tuple[SubTable, ...]]:
        """Minimal refuted sets within a refuted release, each by its largest sub-tables."""
        for _ in range(MOST_CONFLICTS):
            if refuted.verdict is not Verdict.UNSAFE:
                return
            conflict = self._minimal(start, refuted)
            if conflict is None:
                return
            yield conflict
            largest = max(conflict, key=lambda t: (st.dimension(t), t))
            left = [t for t in refuted.release.views(self._schema) if largest & ~t]
            answer = self._proposed(start, left)
            if answer is None:
                return
            refuted = answer

    def _minimal(self, start: Evaluation, refuted: Evaluation) -> tuple[SubTable, ...] | None:
        """A refuted set of which nothing can be left out or made coarser; None where the deadline came before that."""
        by = refuted.refutation
        current = list(refuted.release.frontier if by is None else Release.of(by.support).frontier)
        fixed = set[SubTable]()
        while left := [t for t in current if t not in fixed]:
            largest = max(left, key=lambda t: (st.dimension(t), t))
            others = [t for t in current if t != largest]
            below = [*others, *(c for c in st.children(largest, self._schema) if c)]
            for smaller in (others, below):
                answer = self._proposed(start, smaller)
                if answer is None:
                    return None
                if answer.verdict is Verdict.UNSAFE:
                    current = [t for t in Release.of(smaller).frontier if t]
                    break
            else:
                fixed.add(largest)
        return tuple(t for t in current if t not in start.release) or None

    def _pairs(self, listed: Sequence[SubTable]) -> Iterator[tuple[SubTable, SubTable]]:
        """Pairs of sub-tables that are refuted together, the smallest: Fréchet's bounds are sharp for two of them.

        The bounds of a cell given n_S and n_T are max(0, n_S + n_T - n_ST) and min(n_S, n_T), with the count n_ST of
        the variables that both have; its lower end is 0 where a variable is in neither ([DF] 2000). None are listed
        where more is known of the table: the search finds them then, one by one.
        """
        known, schema, is_wide = self.evaluator.known, self._schema, self.evaluator.criteria.width.is_wide
        if known.facts or known.zeros or known.release != NOTHING or not schema.levels.is_flat:
            return
        full, cells = st.full(len(schema)), self.evaluator.pool.at_risk.cells
        counts = {t: self.evaluator.table.marginal_at(t, cells) for t in (st.GRAND_TOTAL, *listed)}
        alone = np.array(listed, np.int64)
        found = list[tuple[SubTable, SubTable]]()
        for number, first in enumerate(listed):
            others = [t for t in alone[:number].tolist() if t | first == full]
            for second in others:
                if any(
                    (a & ~first == 0 and b & ~second == 0) or (a & ~second == 0 and b & ~first == 0) for a, b in found
                ):
                    continue
                low = np.maximum(0, counts[first] + counts[second] - counts[first & second])
                if not is_wide(np.minimum(counts[first], counts[second]) - low).all():
                    found.append((first, second))
                    yield first, second
