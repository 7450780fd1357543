"""Release rules: what is refused although the criterion would let it out, each a small object with a name.

The criterion decides last and alone whether a release is safe: *myopic*, the first rule of [KDSF] section 4. Rules that
look at nothing but what is public, and `batch`, which lets requests wait, come before it; the others after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from sdc.config import server as settings
from sdc.model import subtable as st
from sdc.model.graph import decompose
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.risk.effort import Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.run_format import CODE_LISTS
from sdc.search.simulatable import SimulatableSearch
from sdc.server.service.judge import Effect, Judge, effect_of
from sdc.server.service.outcome import NOR_IN_PART, NOT_RELEASED
from sdc.utility.halvings import Halvings
from sdc.utility.measures import Weights, weighted_sub_tables

MYOPIC = "myopic"
UNSAFE = "together with all earlier answers it might reveal too much"
FEWER = "of one variable fewer"
FEWER_OR_COARSER = "just below it (one variable at its next coarser level, or left out where it has none)"


@dataclass(frozen=True)
class Past:
    """What was asked and caused so far, as far as rules look at it.

    first  sub-tables that were public when the server began
    """

    first: int
    interest: Counter[SubTable] = field(default_factory=Counter)
    caused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, eq=False)
class Question:
    """A request for what is not released, as the rules see it.

    suppressed  the suppressed table that it would be answered with; None if it would go out whole
    """

    judge: Judge
    state: State
    sub_table: SubTable
    who: str
    past: Past
    weights: Weights | None = None
    suppressed: SuppressedTable | None = None

    @cached_property
    def effect(self) -> Effect:
        """What releasing it would do."""
        larger = None if self.suppressed is None else self.state.answering(self.suppressed)
        return effect_of(self.judge, self.state, self.sub_table, larger=larger)

    @property
    def weight(self) -> float:
        """What is worth that would newly be public; of a suppressed table as much as is shown of its cells."""
        schema = self.state.schema
        weights = self.weights or Weights.equal(len(schema))
        if self.suppressed is not None:
            shown = 1 - len(self.suppressed.suppressed) / st.cells(self.sub_table, schema)
            return shown * float(weights.of_sub_table(self.sub_table, schema))
        return weighted_sub_tables(self.larger, weights, schema) - weighted_sub_tables(
            self.state.released, weights, schema
        )

    @property
    def gain(self) -> float:
        """By how much it reduces the error of a reconstruction, in halvings; a suppressed table counts for nothing."""
        if self.suppressed is not None:
            return 0.0
        value = _halvings(self.judge.table, self.judge.known.plus(self.state.released))
        return value.of(Release.of([self.sub_table]))

    @property
    def larger(self) -> Release:
        """What would be public."""
        return self.state.released.add(self.sub_table)


@dataclass(frozen=True)
class Rule:
    """Objects to a request or not, as its config says.

    name       as in the config
    is_public  whether it looks at nothing but what is public, and is asked before the criterion
    refusal    why it refuses, for anybody
    """

    config: settings.RuleConfig
    name: ClassVar[str]
    is_public: ClassVar[bool] = True
    refusal: ClassVar[str]

    def objection(self, question: Question) -> str | None:
        """Why the request is refused, for operators; None where this rule has nothing against it."""
        raise NotImplementedError


@lru_cache(maxsize=1)
def _halvings(table: Table, known: Knowledge) -> Halvings:
    """The value of what may be released next: what is public already is reconstructed once."""
    return Halvings(table, known)


SUPPRESSED, KEPT, REVEALED = "suppressed", "kept", "revealed"
"""What a history says first of suppressed tables that it answers: whether what contains one may be released later."""


def reveals(about: Mapping[str, Any]) -> bool:
    """Whether a history that is about this may; those that say nothing began before there was the rule."""
    return about.get(SUPPRESSED) != KEPT


def lists_of(known: Knowledge) -> dict[str, list[str]]:
    """What a history says first of labels: the variables whose categories are from a code list."""
    return {CODE_LISTS: [known.schema.names[v] for v, _ in known.listed]}


def with_lists_of(about: Mapping[str, Any], known: Knowledge, table: Table) -> Knowledge:
    """What is known where readers have labels from a history that is about this.

    Variables that it does not name have no code list. Histories that say nothing began before there was the rule.
    """
    if CODE_LISTS not in about:
        return known
    own = about[CODE_LISTS]
    return known.listing(own if isinstance(own, list) else (), table)


class OneStep(Rule):
    """Only what is one step from R(t) ([KDSF] section 4, [CACM]): it has one variable more than something public.

    Of an axis with levels a step goes to a next finer one. There are no dead ends: the smallest parts of what is not
    public are always one step away.
    """

    name = "one_step"
    refusal = "it must follow a public table of one variable fewer, and there was none when this was decided"
    blocked: ClassVar[str] = "none of its children is released"

    def allows(self, released: Release, subtable: SubTable, schema: Schema) -> bool:
        """Whether it has nothing against a sub-table beside what is public."""
        return any(child in released for child in st.children(subtable, schema))

    def objection(self, question: Question) -> str | None:
        state = question.state
        return None if self.allows(state.released, question.sub_table, state.schema) else self.blocked


class OneStepFrontier(OneStep):
    """Only what is one step from RF(t): it has a child on the released frontier, or nothing but itself is new with it.

    The first alone has dead ends: when A*B and C*D are public, neither child of A*C is on the frontier, nor ever will
    be again. What has all its children public moves the frontier by one element, and from it the others are reached.
    """

    name = "one_step_frontier"
    refusal = (
        "it must follow a table of one variable fewer on the released frontier, or all its parts must be public, and "
        "neither was so when this was decided"
    )
    blocked = "none of its children is on the released frontier, and not all of them are released"

    def allows(self, released: Release, subtable: SubTable, schema: Schema) -> bool:
        children = tuple(st.children(subtable, schema))
        return not {*released.frontier}.isdisjoint(children) or all(child in released for child in children)


class LimitUnreleasable(Rule):
    """Not what makes more than so many others, or a larger share of those still open, unreleasable."""

    config: settings.LimitUnreleasableConfig
    name = "limit_unreleasable"
    is_public = False
    refusal = "after it too many other tables could no longer be released"

    def objection(self, question: Question) -> str | None:
        effect = question.effect
        newly, open_ = effect.newly[1], question.state.count(Status.OPEN)
        if not effect.is_complete:
            # what was not looked at may be unreleasable: the rule cannot be said to hold
            newly += effect.of - effect.looked_at
        most, share = self.config.most, self.config.share
        if most is not None and newly > most:
            return f"up to {newly} sub-tables become unreleasable, at most {most} may"
        if share is not None and newly > share * open_:
            return f"up to {newly} of {open_} open sub-tables become unreleasable, at most {share:g} of them may"
        return None


class Value(Rule):
    """Not what is worth too little for each sub-table that it makes unreleasable, or for one."""

    config: settings.ValueConfig
    name = "value"
    is_public = False
    refusal = "its value is too small for the tables that could no longer be released"

    def objection(self, question: Question) -> str | None:
        asked = sum(n for t, n in question.past.interest.items() if st.is_within(question.sub_table, t))
        worth, least = question.weight + self.config.interest * asked, self.config.least
        if self.config.reconstruction:
            worth += self.config.reconstruction * question.gain
        effect = question.effect
        price = max(1, effect.newly[1] + effect.of - effect.looked_at)
        if worth >= least * price:
            return None
        return f"it is worth {worth:g}, and makes up to {price} sub-tables unreleasable; {least:g} each is asked"


class Share(Rule):
    """Not what makes one user the cause of too much of what is public beyond the first release."""

    config: settings.ShareConfig
    name = "share"
    refusal = "too large a part of what is public would be due to one user"

    def objection(self, question: Question) -> str | None:
        schema = question.state.schema
        larger = question.larger.sub_tables(schema)
        newly = larger - question.state.released.sub_tables(schema)
        caused = question.past.caused.get(question.who, 0) + newly
        grown = larger - question.past.first
        most = self.config.most
        if caused <= max(self.config.free, most * grown):
            return None
        return f"the user would have caused {caused} of {grown} sub-tables, at most {most:g} of them may be one's"


class Batch(Rule):
    """Nothing at once: a round releases the set that serves most interest. Such requests wait."""

    name = "batch"
    is_public = False
    refusal = "together with the other answers of its round it might reveal too much"

    def objection(self, question: Question) -> str | None:
        return None


class Simulatable(Rule):
    """Only what hardly any table would forbid that agrees with all that is public already.

    Anyone could repeat each refusal from what is public (Kenthapadi, Mishra, Nissim 2005): tables are drawn from that
    alone, exactly and independently, which a decomposable release allows for; the seed is committed to beforehand. The
    criterion is asked of the true table last, and where it then says no the request is held, not refused.
    """

    config: settings.SimulatableRuleConfig
    name = "simulatable"
    refusal = "judged from public information alone it might reveal too much"

    def objection(self, question: Question) -> str | None:
        if question.state.suppressed_tables.tables:
            return "some public tables have suppressed cells, and beside these tables are not drawn"
        if decompose(question.larger, len(question.state.schema)) is None:
            return "with it the release is not decomposable, and tables could not be drawn any more"
        judge = question.judge
        evaluator = RiskEvaluator(judge.table, judge.known, judge.criteria, effort=Effort())
        breaking = SimulatableSearch(evaluator, self.config).breaking(question.state.released, question.larger)
        if breaking <= self.config.most:
            return None
        return f"more than {self.config.most} of {self.config.draws} drawn tables would break the criterion"


RULES: tuple[type[Rule], ...] = (OneStep, OneStepFrontier, Share, Simulatable, Batch, LimitUnreleasable, Value)


STEPS: Mapping[str, OneStep] = {
    "one_step": OneStep(settings.OneStepConfig(rule="one_step")),
    "one_step_frontier": OneStepFrontier(settings.OneStepFrontierConfig(rule="one_step_frontier")),
}
"""By name the rules whose refusals follow from R(t) and the request alone, so that a history shows whether they do."""


def is_rule(name: str) -> bool:
    """Whether this version knows a rule that is called so."""
    return name in {MYOPIC, *(rule.name for rule in RULES)}


def is_of_another_rule(by: str, released: Release, subtable: SubTable, schema: Schema) -> bool:
    """Whether a refusal is none by the rule that it names, as that is now: an earlier version called another so."""
    return by in STEPS and STEPS[by].allows(released, subtable, schema)


def refusal_message(by: str, rules: Collection[str], schema: Schema, *, in_part: bool = False) -> str:
    """The public sentence on a refusal by one of the rules of a server, also for one that accepts suppressed cells.

    Only a rule that looks at nothing but what is public gives its own reason. The criterion and the others have one
    sentence together: which of them it was would reveal something of the table.
    """
    own = [rule.refusal for rule in RULES if rule.is_public and rule.name == by]
    others = [rule.refusal for rule in RULES if not rule.is_public and rule.name in rules]
    why = ", or ".join(own or [UNSAFE, *others])
    what = NOR_IN_PART if in_part else NOT_RELEASED
    return f"{what.rstrip('.')}: {why if schema.levels.is_flat else why.replace(FEWER, FEWER_OR_COARSER)}."


def rules_of(configs: Sequence[settings.RuleConfig]) -> tuple[Rule, ...]:
    """The rules that a config names: those that see only what is public first, in its order."""
    kinds = {kind.name: kind for kind in RULES}
    rules = [kinds[config.rule](config) for config in configs]
    return tuple(sorted(rules, key=lambda rule: not rule.is_public))
