"""A release that grows along the ordered list: what is required first, then the list, within the limit of questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from time import monotonic

import numpy as np

from sdc.bounds.method import is_small
from sdc.checkpoint import NO_CHECKPOINT, Checkpoint
from sdc.config.capabilities import require_together
from sdc.config.values import Objective
from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.model import subtable as st
from sdc.model.errors import NothingReleasableError, ReleaseError, many
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Evaluation
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.effort import Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutation
from sdc.risk.support import Support
from sdc.risk.verdict import Policy, Verdict
from sdc.search.candidates import LeftOut, left_of, opening_pairs, stopped_by_few
from sdc.search.conflict import Parts, halves, parted
from sdc.search.constraints import Constraints
from sdc.search.found import Found
from sdc.search.grown import Grown
from sdc.search.required import Required, RequiredSearch, fitting
from sdc.search.step import SearchStep
from sdc.utility.halvings import Halvings
from sdc.utility.measures import Weights

GROWING = ("growth", "extension")
FIRST_TRIED, FEWEST_TRIED, MANY_ASKED = 32, 4, 8
FEWEST_FIRST = 16  # candidates that are refused together and not parted in the first pass
SECONDS_UNKEPT = 1.0
LEAST_AGAIN, MOST_AGAIN = 10_000, (300_000, 1_200_000, 4_800_000)  # steps of one that is asked again: 30 s and more


@dataclass(frozen=True, eq=False, repr=False)
class OrderedRelease(Found):
    """The release found, and every step that led to it.

    required  what became of the required sub-tables, where there are any
    unasked   candidates that were left when the questions had been asked; none: nothing can be added
    is_ended  whether the deadline ended the search before all questions had been asked that it may ask
    refutations  those that its steps name
    resumed   whether the checkpoint holds and the growth went on from it; None where none was there
    """

    steps: tuple[SearchStep, ...]
    required: Required | None = None
    unasked: int = 0
    is_ended: bool = False
    refutations: tuple[Refutation, ...] = ()
    resumed: bool | None = None


@dataclass(eq=False)
class OrderedSearch:
    """Releases what is required, and then by the ordered list; what the evaluator's policy does not accept is refused.

    The list has what is worth most for the room that it takes first: by weight times critical width, of equal weights
    that is the order of [KDSF] 5.2, whose own search is `BisectionSearch`. With the objective "reconstruction" a
    sub-table weighs by how many halvings it brings that nearer alone beside what is known, see `Halvings`. Every
    release on the way has the evaluation that accepted it, and ends with it: what was proven is not asked again, so no
    budget that is spent later can take it back: the `deadline` may end the search before any question but those about
    what is required. `on_step` hears of every question asked.

    proven  an evaluation that let out what is required, where there is one: what it rests on is not looked for again

    What is proven is kept in the `checkpoint`, which a killed search goes on from: from its release and all that was
    refused, once that is checked. It may end elsewhere than one that nobody disturbed.
    """

    evaluator: RiskEvaluator
    widths: CriticalWidths
    on_step: Callable[[SearchStep], None] = lambda step: None
    constraints: Constraints = field(default_factory=Constraints)
    weights: Weights | None = None
    deadline: Deadline = NEVER
    checkpoint: Checkpoint = NO_CHECKPOINT
    proven: Evaluation | None = None
    objective: Objective = "sub_tables"
    _steps: list[SearchStep] = field(default_factory=list, init=False)
    _begun: int | None = field(default=None, init=False)
    _last: Evaluation | None = field(default=None, init=False)
    _written: float = field(default=0.0, init=False)
    _resumed: bool | None = field(default=None, init=False)
    _fewest: int = field(default=1, init=False)

    def run(self) -> OrderedRelease:
        """The required sub-tables, and what grows from them as far as it can.

        First come all sub-tables of few variables, as many as `constraints.breadth`, that fit; then the others.

        ReleaseError where not even the grand total may be public, where required sub-tables do not fit, or where the
        list was cut above the width threshold; ConfigError where the criterion is not monotone: then a refusal says
        nothing of larger releases.
        """
        candidates, required, start = self._first()
        if self.constraints.only_required:
            return self._found(start, required)
        start, refused = self._take_up(start, "growth")
        if self.deadline.is_over:
            return self._found(start, required, len(left_of(start.release, candidates, refused)))
        if self._resumed:
            return self._grown(start, candidates, "growth", required, refused)
        # where all are released nothing needs to grow; where not, mostly one of the first cells says so
        if (everything := self._asked_first(start.release, candidates, "everything")) is not None:
            return self._found(everything, required)
        self.evaluator.resume(start)
        return self._grown(start, candidates, "growth", required)

    def extended(self, evaluation: Evaluation, first: Release = NOTHING) -> OrderedRelease:
        """A release that was accepted, with what candidates can be added; the steps are those of this call.

        first  a release whose sub-tables are tried before all others
        """
        self._steps.clear()
        self.require_monotone()
        self.evaluator.resume(evaluation)
        evaluation, refused = self._take_up(evaluation, "extension")
        candidates = self.candidates()
        if first != NOTHING:
            own = [t for t in candidates if t in first]
            evaluation, refused = self._extend(evaluation, own, refused, "extension")
        return self._grown(evaluation, candidates, "extension", None, refused)

    def _take_up(self, start: Evaluation, phase: str) -> tuple[Evaluation, LeftOut]:
        """Where the growth goes on: from its checkpoint where that holds and has the start, else from there.

        And what was refused by then. Nothing is kept where answers come at once, or rest on no evidence.
        """
        if self.evaluator.policy is not Policy.REFUSE or is_small(self._schema):
            return start, ()
        self._begun, self._last = len(self._steps), start
        if (kept := self.checkpoint.found.get(phase)) is None:
            return start, ()
        before, self._resumed = (self.evaluator.pool, self.evaluator.spent), False
        with suppress(LookupError, TypeError, ValueError):
            grown = Grown.read(kept, self._schema)
            evaluation = grown.evaluation(self.evaluator) if grown.release.contains(start.release) else None
            if evaluation is not None:
                self._resumed, self._last = True, evaluation
                self._steps += grown.steps
                self.evaluator.spent = before[1] + sum(step.spent for step in grown.steps)
                if self.evaluator.refutations is not None:
                    self.evaluator.refutations = self.evaluator.refutations.plus(*grown.refutations)
                alone = (step.added[0] for step in grown.steps if len(step.added) == 1 and not step.answer)
                return evaluation, tuple(t for t in dict.fromkeys(alone) if t not in evaluation.release)
        self.evaluator.pool, self.evaluator.spent = before
        return start, ()

    def _first(self) -> tuple[tuple[SubTable, ...], Required | None, Evaluation]:
        """The candidates, the outcome for the required sub-tables, and the evaluation they start from."""
        self._steps.clear()
        self.require_monotone()
        candidates = self.candidates()
        required = fitting(self.required(), self.constraints, self.evaluator.table.schema)
        start = required.evaluation if required else self.least
        self.evaluator.resume(start)
        return candidates, required, start

    @property
    def _schema(self) -> Schema:
        return self.evaluator.table.schema

    @property
    def _weights(self) -> Weights:
        return self.weights or Weights.equal(len(self._schema))

    @property
    def _most(self) -> int:
        return self.constraints.questions_for(len(self.evaluator.pool.at_risk))

    @property
    def _is_over(self) -> bool:
        """Whether nothing more is asked; once it is so it stays so."""
        return len(self._steps) >= self._most or self.deadline.is_over

    def _found(self, evaluation: Evaluation, required: Required | None, unasked: int = 0) -> OrderedRelease:
        if is_small(self.evaluator.table.schema):
            # exact methods answer at once: the bounds of the release are then sharp, not only sufficient
            evaluation = self.evaluator.evaluate(evaluation.release, Depth.EVERY)
        is_ended = unasked > 0 and len(self._steps) < self._most
        kept = self.evaluator.refutations
        named = () if kept is None else kept.named(step.refutation for step in self._steps)
        return OrderedRelease(evaluation, tuple(self._steps), required, unasked, is_ended, named, self._resumed)

    def required(self) -> Required | None:
        """What becomes of the required sub-tables, None where there are none; as far as it was found by then."""
        if not self.constraints.require:
            return None
        worth = {t: self._weights.of_sub_table(t, self._schema) for t in self.constraints.require}
        search = RequiredSearch(  # whose deadline comes sooner once not all fit
            lambda release: self._asked_required(release, search.deadline),
            self.evaluator.accepts,
            worth,
            deadline=self.deadline,
        )
        return search.run(self.constraints.require, self.least)

    @property
    def least(self) -> Evaluation:
        """What goes out whatever else does: what is proven already, which is not proven again, or the total alone."""
        return self.proven or grand_total(self.evaluator)

    def _asked_required(self, release: Release, deadline: Deadline) -> Evaluation:
        # any set of them may come after any other: what was found for it is feasible for none that is not within
        self.evaluator.resume(self.least)
        return self._answered(release, deadline, ("required", 0, release.frontier))

    def _grown(
        self,
        evaluation: Evaluation,
        candidates: Sequence[SubTable],
        phase: str,
        required: Required | None,
        refused: LeftOut = (),
    ) -> OrderedRelease:
        """An accepted release with candidates added: level by level up to the breadth, then the rest in two passes.

        A question costs about as much whatever it adds, so that the first pass adds what fits many at once, and the
        second what fits alone. Small tables, whose answers are exact at once, and weights, which the order of the list
        stands for, have the second pass alone.
        """
        breadth = self.constraints.breadth_for(len(self.evaluator.pool.at_risk))
        for level in range(1, max(1, breadth) + 1):
            alike = [t for t in candidates if st.ways(t, self._schema) == level]
            evaluation, refused = self._extend(evaluation, alike, refused, phase)
        if breadth < 2:
            evaluation, refused = self._by_components(evaluation, candidates, refused, phase)
        begin = 0
        for fewest in (FEWEST_FIRST, 1) if self._begun is not None and self._are_equal else (1,):
            self._fewest = fewest
            evaluation, refused, begin = self._passed(evaluation, candidates, phase, refused)
        if self._begun is not None and begin >= len(candidates):
            evaluation, refused = self._ask_again(evaluation, candidates, refused, phase)
        unasked = len(left_of(evaluation.release, candidates[begin:], refused))
        return self._found(evaluation, required, unasked)

    def _passed(
        self, evaluation: Evaluation, candidates: Sequence[SubTable], phase: str, refused: LeftOut
    ) -> tuple[Evaluation, LeftOut, int]:
        """One pass over the list; and how far that came."""
        size, begin = FIRST_TRIED, 0
        while begin < len(candidates) and not self._is_over:
            asked, some, before = len(self._steps), candidates[begin : begin + size], evaluation
            evaluation, refused = self._extend(evaluation, some, refused, phase)
            if self._is_over:
                break  # some of these may be left too
            if self._fewest > 1 and evaluation is before and len(self._steps) > asked:
                break  # the second pass has all of them again
            begin += size
            # as many at once as are likely to be accepted together: what is refused has to be looked for part by part
            asked = len(self._steps) - asked
            size = 2 * size if asked <= 1 else size if asked <= MANY_ASKED else max(FEWEST_TRIED, size // 2)
        return evaluation, refused, begin

    def _ask_again(
        self, evaluation: Evaluation, candidates: Sequence[SubTable], refused: LeftOut, phase: str
    ) -> tuple[Evaluation, LeftOut]:
        """What no proof was found for, once more with all means, as long as all questions before have taken together.

        Where a clock ends the search as long as the budget lasts, with more and more steps for each. First what the
        fewest cells stopped; and with what is added now what contains it.
        """
        spent, patient = sum(step.spent for step in self._steps), self.deadline.moment < inf
        left = self.evaluator.effort.budget.steps - spent if patient else spent
        for times, most in enumerate(MOST_AGAIN if patient else MOST_AGAIN[:1], start=1):
            for t in stopped_by_few(self._steps, refused, times):
                if left < LEAST_AGAIN or self._is_over:
                    return evaluation, refused
                release, length = evaluation.release, evaluation.release.sub_tables(self._schema)
                larger = self._ask(Release.of([*release.frontier, t]), phase, length, (t,), min(left, most))
                if larger is None:
                    return evaluation, refused
                left -= self._steps[-1].spent
                if self.evaluator.accepts(larger):
                    refused = tuple(other for other in refused if other != t)
                    larger_ones = [candidate for candidate in candidates if st.is_within(t, candidate)]
                    evaluation, refused = self._extend(larger, larger_ones, refused, phase)
        return evaluation, refused

    def _by_components(
        self, evaluation: Evaluation, candidates: Sequence[SubTable], refused: LeftOut, phase: str
    ) -> tuple[Evaluation, LeftOut]:
        """Pairs of variables that no released sub-table has, one by one, and with each what then lies in a component.

        Components stay small so, and cells of small components are far easier to certify; but of the pairs some are
        left out for larger sub-tables.
        """
        smaller = None
        while smaller is not evaluation:
            smaller = evaluation
            for pair in opening_pairs(self.evaluator.knows(evaluation.release), candidates, refused):
                larger, refused = self._extend(evaluation, [pair], refused, phase)
                if larger is not evaluation:
                    parts = self.evaluator.knows(larger.release).structure.components.cliques
                    flags = st.within_one_of(np.array(candidates, np.int64), parts)
                    inside = [candidates[k] for k in np.flatnonzero(flags).tolist()]
                    evaluation, refused = self._extend(larger, inside, refused, phase)
                    break
        return evaluation, refused

    def candidates(self) -> tuple[SubTable, ...]:
        """What may be released, in the order of the list."""
        listed = ordered_list(self.widths, self.evaluator.criteria.floor, self.constraints)
        if self._are_equal:
            return listed
        width, worth = self.widths.by_sub_table(), self._worth
        # sorting is stable: of the same product that comes first which the list has first
        return tuple(sorted(listed, key=lambda t: -worth(t) * width[t]))

    @property
    def _are_equal(self) -> bool:
        """Whether every sub-table is worth the same."""
        return self.objective == "sub_tables" and self._weights.are_equal

    @property
    def _worth(self) -> Callable[[SubTable], float | Fraction]:
        """What a sub-table is worth by itself."""
        if self.objective == "sub_tables":
            return lambda t: self._weights.of_sub_table(t, self._schema)
        value = Halvings(self.evaluator.table, self.evaluator.known, self.objective)
        return lambda t: value.of(Release.of([t]))

    def _asked_first(self, start: Release, first: Sequence[SubTable], phase: str) -> Evaluation | None:
        """The evaluation of the first candidates beside the start, where it is accepted."""
        evaluation = self._ask(Release.of([*start.frontier, *first]), phase, len(first), ())
        return evaluation if evaluation and self.evaluator.accepts(evaluation) else None

    def _extend(
        self, evaluation: Evaluation, candidates: Sequence[SubTable], refused: LeftOut, phase: str
    ) -> tuple[Evaluation, LeftOut]:
        """The candidates all at once, and where that is refused one part after the other; no question too many."""
        release, left = evaluation.release, left_of(evaluation.release, candidates, refused)
        if left and not self._is_over:
            left, refused = self._keeping(left, refused)
        if not left or self._is_over:
            return evaluation, refused
        length = release.sub_tables(self._schema)
        larger = self._ask(Release.of([*release.frontier, *left]), phase, length, tuple(left))
        if larger is None:
            return evaluation, refused
        if self.evaluator.accepts(larger):
            return larger, refused
        if len(left) == 1:
            return evaluation, (*refused, left[0])
        if len(left) <= self._fewest:
            return evaluation, refused  # the second pass has them again
        first, last = self._parted(evaluation, larger, left)
        evaluation, refused = self._extend(evaluation, first, refused, phase)
        return self._extend(evaluation, last, refused, phase)

    def _keeping(self, left: Sequence[SubTable], refused: LeftOut) -> tuple[list[SubTable], LeftOut]:
        """Without those that may go out beside nothing, which nobody needs to be asked about: they are refused."""
        kept = self.evaluator.criteria.keeping(self.evaluator.table, self.evaluator.known.zeros, left)
        return list(kept), (*refused, *st.minimal({*left} - {*kept}))

    def _parted(self, evaluation: Evaluation, larger: Evaluation, left: Sequence[SubTable]) -> Parts:
        """What was refused together in two parts; in halves where no evidence is kept, or the list's order counts."""
        if self._begun is None or not self._are_equal:
            return halves(left)
        return parted(evaluation, larger, left)

    def _ask(
        self, release: Release, phase: str, length: int, added: tuple[SubTable, ...], again: int | None = None
    ) -> Evaluation | None:
        """The answer to one question; None where the deadline came before it, and it was not asked.

        again  where it was asked before: how many steps it may take now, for every cell
        """
        try:
            evaluation = self._answered(release, self.deadline, (phase, length, added), again)
        except DeadlineError:
            return None
        if added and self._begun is not None:
            self._keep(evaluation, phase)
        return evaluation

    def _keep(self, answer: Evaluation, phase: str) -> None:
        """Writes the checkpoint after each question that enlarged the release, and of others once a second."""
        accepted, now = self.evaluator.accepts(answer), monotonic()
        self._last = answer if accepted else self._last
        if self.checkpoint.above is not None and self._last and (accepted or now >= self._written + SECONDS_UNKEPT):
            refuted = () if self.evaluator.refutations is None else tuple(self.evaluator.refutations.found.values())
            grown = Grown(self._last.release, self._last.proof, tuple(self._steps[self._begun :]), refutations=refuted)
            self.checkpoint.write(phase, grown.kept(self._schema))
            self._written = now

    def _answered(
        self, release: Release, deadline: Deadline, asked: tuple[str, int, LeftOut], again: int | None = None
    ) -> Evaluation:
        """The answer to one question, which is logged; DeadlineError where the deadline came before it."""
        depth = Depth.BRIEF if self.evaluator.policy is Policy.REFUSE else Depth.REFUTE
        executor = deadline.limits(self.evaluator.executor)
        evaluation = self.evaluator.evaluate(release, Depth.FULL if again else depth, executor, again)
        (phase, length, added), answer = asked, evaluation.assessment
        facts = answer.releasable, answer.min_width, answer.open_cells
        by = None if evaluation.refutation is None else evaluation.refutation.name
        left = max(0, self._most - len(self._steps) - 1) if phase in GROWING else 0
        step = SearchStep(phase, length, added, *facts, evaluation.blockers, by, evaluation.spent, left)
        self._steps.append(step)
        self.on_step(step)
        return evaluation

    def require_monotone(self, method: str = "ordered") -> None:
        """ConfigError where it is not for these criteria: such as where a refusal says nothing of larger releases."""
        require_together(method, *self.evaluator.criteria.settings)


def ordered_list(widths: CriticalWidths, min_width: int, constraints: Constraints) -> tuple[SubTable, ...]:
    """The sub-tables that reach the minimum width and are not forbidden: by decreasing critical width ([KDSF] 5.2).

    Ties come by decreasing dimension, then by number. With all one-way sub-tables public none with a smaller critical
    width fits; where none reaches it all that are known are listed, which with a floor are none. ReleaseError
    where a floor was given above the width; where one was chosen what is listed is all that is asked about.
    """
    if widths.floor > min_width and not widths.most:
        raise ReleaseError(
            f"critical widths are known from the floor {widths.floor} on, the minimum width is {min_width}; "
            f"set the floor to at most {min_width}"
        )
    return constraints.allowed(widths.reaching(min_width) or tuple(widths.sub_tables.tolist()))


DISCLOSES_A_CELL = (
    ", which discloses the count of a cell, as its records can be in no other; give more records, or list the "
    "categories that there may be"
)


def grand_total(evaluator: RiskEvaluator) -> Evaluation:
    """Its evaluation; NothingReleasableError where not even that may be public."""
    evaluator.criteria.require_total(evaluator.table)
    evaluation, total = evaluator.evaluate(Release.of([st.GRAND_TOTAL])), evaluator.table.total
    known = evaluator.known
    if evaluation.verdict is not Verdict.SAFE and (known.release != NOTHING or known.published):
        raise _unproven_before(evaluator, evaluation)
    if evaluation.verdict is not Verdict.SAFE:
        most = evaluation.assessment.min_width[1]
        raise NothingReleasableError(
            f"the minimum width {evaluator.criteria.floor} is not reached even when only the grand total "
            f"{total} is public" + (f"; choose a minimum width of at most {most}" if most else DISCLOSES_A_CELL)
        )
    return evaluation


def _unproven_before(evaluator: RiskEvaluator, evaluation: Evaluation) -> NothingReleasableError:
    """What is said where what was published before is not shown to be safe; the detail names the cells."""
    schema, answer = evaluator.table.schema, evaluation.assessment
    cells = [
        f"the cell {schema.written(np.array(w.cell))} (count {w.count}) has bounds within {list(w.outer)}"
        for w in answer.witnesses
    ]
    own, short = (
        evaluator.pool.at_risk.own,
        evaluator.criteria.width.short_own(Support(evaluator.known, evaluation.pool)),
    )
    for view, rows, places in own.of_views(schema):
        inside = schema.restrict(st.members(view))
        cells += [
            f"the cell {inside.written(cell)} (count {own.counts[row]}) of {st.label(view, schema)} in part is open"
            for row, cell in zip(rows, inside.keys.unpack(places), strict=True)
            if row in short
        ]
    lacking = () if evaluator.witnesses is None else evaluator.witnesses.lacking
    if answer.broken is not None:
        reason = answer.broken.text
    elif answer.releasable is False:
        reason = (
            f"a cell is proven to be too narrow for the minimum width {evaluator.criteria.floor}; ask for a smaller one"
        )
        if named := ", ".join(st.label(fact.view, schema) for fact in evaluator.known.facts if fact.of_labels):
            reason += (
                f". The labels of {named} count too: if the config that published them named the categories, name them "
                f"in table.categories, and say earlier: [{{entry: ..., code_lists: [{named}]}}]"
            )
    else:
        reason = (
            f"no proof was found that {many(answer.open_cells, 'cell')} can keep the minimum width "
            f"{evaluator.criteria.floor}; "
            "raise release.seconds, or ask for a smaller width"
        )
    return NothingReleasableError(
        f"nothing more can be published with what was published before: {'; '.join([*lacking, reason])}",
        "\n".join(cells),
    )
