"""One decision: a request against what is public, the rules and the criterion. Pure but for what the judge learns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sdc.config.capabilities import require_together
from sdc.config.features import DRAWING, HIERARCHIES, ZEROS
from sdc.config.release import SimulatableConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.risk.effort import Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.search.simulatable import SimulatableSearch
from sdc.server.service.effect import Effect, effect_of
from sdc.server.service.judge import Finding, FoundSuppression, Judge, surveyed
from sdc.server.service.outcome import RequestState, Transition
from sdc.server.service.rules import MYOPIC, Batch, Question, Rule, Simulatable
from sdc.utility.halvings import Halvings
from sdc.utility.measures import Weights, weighted_sub_tables


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
        return (
            replace(self, state=self.state.knowing(undecided=[subtable]))
            if self.transition is Transition.UNPROVEN
            else self
        )


@dataclass(frozen=True)
class Past:
    """What was asked and caused so far, as far as rules look at it.

    first  sub-tables that were public when the server began
    """

    first: int
    interest: Mapping[SubTable, int] = field(default_factory=Counter)
    caused: Mapping[str, int] = field(default_factory=Counter)


BY_CRITERION = (Transition.IS_KNOWN, Transition.UNSAFE, Transition.UNPROVEN, Transition.ROUND_HAS_OTHERS)
"""Ways by which a sub-table is refused whole, and may go out with suppressed cells."""


def at_once(rules: Sequence[Rule], state: State, subtable: SubTable, *, in_part: bool = False) -> Decision | None:
    """The decision on what is public, or proven never to be; None where somebody has to look.

    A rule that looks at nothing but what is public comes before what is known of the table: whether it refuses then
    reveals nothing.
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
    executor: Executor = IN_PROCESS
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
        question = self._question(state, past, subtable, who)
        for rule in self.rules:
            if rule.is_public and (why := rule.objection(question)) is not None:
                return Decision(Transition.OBJECTED, rule.name, state, said=why)
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
        for rule in self.rules:
            if not rule.is_public and (why := rule.objection(question)) is not None:
                return Decision(Transition.OBJECTED, rule.name, state, finding, why)
        state = state.releasing(subtable)
        self.judge.settle(state)
        return Decision(Transition.SAFE, MYOPIC, surveyed(self.judge, state), finding)

    # With suppressed cells

    def decide_in_part(
        self, past: Past, subtable: SubTable, who: str, whole: Decision, found: FoundSuppression | str | None = None
    ) -> Decision:
        """The decision on a request that accepts suppressed cells where it is refused whole, as it was by then.

        It stays as it is where something else refused it than the criterion, or a round. It is judged like all else,
        by what it suppresses; the rules that weigh what it makes unreleasable are asked then.

        found  by somebody who looked for longer, maybe beside less than is public now; or why nothing was
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
        question = self._question(state, past, subtable, who)
        if suppressed is not None:
            question = self._weighed(question, hypothetical, larger, suppressed)
        for rule in self.rules:
            if not rule.is_public and (why := rule.objection(question)) is not None:
                return Decision(Transition.OBJECTED, rule.name, state, finding, why)
        self.judge.learn(proof, larger)
        if suppressed is None:
            return Decision(Transition.SAFE, MYOPIC, surveyed(self.judge, larger), finding)
        cells = st.cells(subtable, state.schema)
        return Decision(
            Transition.SAFE_IN_PART,
            MYOPIC,
            larger,
            finding,
            f"{len(suppressed.suppressed)} of {cells} cells are suppressed",
        )

    def _weighed(self, question: Question, judge: Judge, larger: State, part: SuppressedTable) -> Question:
        """As rules see a suppressed table: it is worth as much of its own value as is shown of its cells."""
        schema, state = larger.schema, question.state
        shown = 1 - len(part.suppressed) / st.cells(part.view, schema)
        value = (self.weights or Weights.equal(len(schema))).of_sub_table(part.view, schema)

        def effect() -> Effect:
            return effect_of(judge, state, part.view, larger=larger)

        return replace(question, effect=effect, weight=lambda: shown * float(value), gain=lambda: 0.0)

    def _not_released(self, transition: Transition, state: State, finding: Finding | None) -> Decision:
        # to refuse would tell of the table what the drawn ones do not
        if any(isinstance(rule, Simulatable) for rule in self.rules):
            return Decision(Transition.HELD, Simulatable.name, state, finding, transition.why)
        return Decision(transition, MYOPIC, state, finding)

    def _question(self, state: State, past: Past, subtable: SubTable, who: str) -> Question:
        def effect() -> Effect:
            return effect_of(self.judge, state, subtable)

        def weight() -> float:
            schema, larger = state.schema, state.released.add(subtable)
            weights = self.weights or Weights.equal(len(schema))
            return weighted_sub_tables(larger, weights, schema) - weighted_sub_tables(state.released, weights, schema)

        def gain() -> float:
            value = _halvings(self.judge.table, self.judge.known.plus(state.released))
            return value.of(Release.of([subtable]))

        return Question(
            state, subtable, who, past.first, past.interest, past.caused, effect, self._breaking, weight, gain
        )

    def _breaking(self, simulation: SimulatableConfig, released: Release, larger: Release) -> int:
        judge, effort = self.judge, Effort(executor=self.executor)
        evaluator = RiskEvaluator(judge.table, judge.known, judge.criteria, effort=effort)
        return SimulatableSearch(evaluator, simulation).breaking(released, larger)


@lru_cache(maxsize=1)
def _halvings(table: Table, known: Knowledge) -> Halvings:
    """The value of what may be released next: what is public already is reconstructed once."""
    return Halvings(table, known)
