"""One decision: a request against what is public, the rules and the criterion. Pure but for what the judge learns."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

from sdc.config.capabilities import require_together
from sdc.config.features import DRAWING, HIERARCHIES, ZEROS
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.risk.verdict import Verdict
from sdc.server.service.judge import Finding, FoundSuppression, Judge, surveyed
from sdc.server.service.outcome import RequestState, Transition
from sdc.server.service.rules import MYOPIC, Batch, Past, Question, Rule, Simulatable
from sdc.utility.measures import Weights


@dataclass(frozen=True)
class Decision:
    """What became of a request, and what is public after it.

    rule     that decided
    finding  of the criterion, where it was asked
    said     what the transition leaves to be said of why
    """

    transition: Transition
    rule: str
    state: State
    finding: Finding | None = None
    said: str = ""

    @property
    def outcome(self) -> RequestState:
        return self.transition.after

    @property
    def why(self) -> str:
        """In words for operators."""
        return self.transition.why.format(self.said)

    def lasting(self, subtable: SubTable) -> Decision:
        """The decision as the last word: what nobody proved is undecided from then on."""
        if self.transition is not Transition.UNPROVEN:
            return self
        return replace(self, state=self.state.knowing(undecided=[subtable]))


BY_CRITERION = (Transition.IS_KNOWN, Transition.UNSAFE, Transition.UNPROVEN, Transition.ROUND_HAS_OTHERS)
"""Ways by which a sub-table is refused whole, and may go out with suppressed cells."""


def at_once(rules: Sequence[Rule], state: State, subtable: SubTable, *, in_part: bool = False) -> Decision | None:
    """The decision on what is public, or proven never to be; None where somebody has to look.

    A rule that looks at nothing but what is public comes before what is known of the table, and so reveals nothing.
    """
    if subtable in state.released:
        return Decision(Transition.IS_PUBLIC, MYOPIC, state)
    if in_part and state.part(subtable) is not None:
        return Decision(Transition.IS_PUBLIC_IN_PART, MYOPIC, state)
    if in_part or any(rule.is_public for rule in rules) or state.status(subtable) is not Status.UNRELEASABLE:
        return None
    return Decision(Transition.IS_KNOWN, MYOPIC, state)


@dataclass(frozen=True)
class Decider:
    """Decides one request after the other by the same rules.

    ConfigError for simulatable and structural zeros, or hierarchies.

    seconds  what the criterion's evaluation may take at once, in seconds of a reference core
    looks    whether it looks itself for which cells to suppress, which takes longer
    weights  what sub-tables are worth, 1 each without
    """

    judge: Judge
    rules: tuple[Rule, ...] = ()
    seconds: float = 0.2
    weights: Weights | None = None
    looks: bool = True

    def __post_init__(self) -> None:
        if not any(isinstance(rule, Simulatable) for rule in self.rules):
            return
        if self.judge.known.zeros:
            require_together(ZEROS, DRAWING)
        if self.judge.known.published:
            require_together("earlier", DRAWING)
        if not self.judge.table.schema.levels.is_flat:
            require_together(HIERARCHIES, DRAWING)

    def decide(self, state: State, past: Past, subtable: SubTable, who: str) -> Decision:
        """The decision on a request; of one that is released the judge asks about more from then on."""
        if (known := at_once(self.rules, state, subtable)) is not None:
            return known
        question = Question(self.judge, state, subtable, who, past, self.weights)
        if objected := self._objected(question, None, is_public=True):
            return objected
        if any(isinstance(rule, Batch) for rule in self.rules):
            return Decision(Transition.WAITS, Batch.name, state)
        return self._by_criterion(question)

    def _by_criterion(self, question: Question) -> Decision:
        state, subtable = question.state, question.sub_table
        status, finding = state.status(subtable), None
        if status is Status.OPEN:
            finding = self.judge.ask(state, subtable, self.seconds)
            if finding.verdict is Verdict.UNSAFE:
                state = state.knowing([subtable])
        if status is Status.UNDECIDED or (finding and finding.verdict is Verdict.UNDECIDED):
            return self._not_released(Transition.UNPROVEN, state, finding)
        if finding is None or finding.verdict is Verdict.UNSAFE:
            return self._not_released(Transition.UNSAFE, state, finding)
        if objected := self._objected(question, finding, is_public=False):
            return objected
        state = state.releasing(subtable)
        self.judge.settle(state)
        return Decision(Transition.SAFE, MYOPIC, surveyed(self.judge, state), finding)

    def _objected(self, question: Question, finding: Finding | None, *, is_public: bool) -> Decision | None:
        """The refusal by the first rule that objects, of the public ones or of the others."""
        for rule in self.rules:
            if rule.is_public is is_public and (why := rule.objection(question)) is not None:
                return Decision(Transition.OBJECTED, rule.name, question.state, finding, why)
        return None

    # With suppressed cells

    def decide_in_part(
        self, past: Past, subtable: SubTable, who: str, whole: Decision, found: FoundSuppression | str | None = None
    ) -> Decision:
        """The decision on a request that accepts suppressed cells where the criterion, or a round, refuses it whole.

        `found` is by somebody who looked for longer, maybe beside less than is public now; or why nothing was.
        """
        if whole.transition not in BY_CRITERION:
            return whole
        state = whole.lasting(subtable).state
        if (known := at_once(self.rules, state, subtable, in_part=True)) is not None:
            return known
        if any(isinstance(rule, Batch) for rule in self.rules):
            return Decision(Transition.WAITS, Batch.name, state)
        if found is None:
            found = self._looked_for(state, subtable)
        decision = None if isinstance(found, str) else self._with(found, state, past, subtable, who)
        said = found if isinstance(found, str) else "what was found is not proven beside all that is public by now"
        return decision or replace(whole, transition=Transition.NOT_IN_PART, rule=MYOPIC, state=state, said=said)

    def _looked_for(self, state: State, subtable: SubTable) -> FoundSuppression | str:
        """A suppressed table, or why there is none."""
        if not self.looks:
            return "which cells to suppress is not looked for at once"
        try:
            return self.judge.in_part(state, subtable, self.seconds)
        except ReleaseError as error:
            return str(error)

    def _with(self, found: FoundSuppression, state: State, past: Past, subtable: SubTable, who: str) -> Decision | None:
        """The decision on a suppressed table that somebody found; None where it is not proven."""
        suppressed, proof = found
        larger = state.releasing(subtable) if suppressed is None else state.answering(suppressed)
        hypothetical = copy(self.judge)
        hypothetical.learn(proof, larger)
        finding = hypothetical.ask(larger, st.GRAND_TOTAL, self.seconds)
        if finding.verdict is not Verdict.SAFE:
            return None
        question = Question(self.judge, state, subtable, who, past, self.weights)
        if suppressed is not None:
            question = replace(question, judge=hypothetical, suppressed=suppressed)
        if objected := self._objected(question, finding, is_public=False):
            return objected
        self.judge.learn(proof, larger)
        if suppressed is None:
            return Decision(Transition.SAFE, MYOPIC, surveyed(self.judge, larger), finding)
        said = f"{len(suppressed.suppressed)} of {st.cells(subtable, state.schema)} cells are suppressed"
        return Decision(Transition.SAFE_IN_PART, MYOPIC, larger, finding, said)

    def _not_released(self, transition: Transition, state: State, finding: Finding | None) -> Decision:
        # to refuse would tell of the table what the drawn ones do not
        if any(isinstance(rule, Simulatable) for rule in self.rules):
            return Decision(Transition.HELD, Simulatable.name, state, finding, transition.why)
        return Decision(transition, MYOPIC, state, finding)
