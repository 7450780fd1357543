"""Rules tried before a server opens: random streams of requests, the result of each, and what all come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.state import State, Status, sub_tables
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Effort
from sdc.server.service.decision import Decider, Decision
from sdc.server.service.judge import Judge
from sdc.server.service.outcome import PUBLIC, RequestState, Transition
from sdc.server.service.rounds import decide_round
from sdc.server.service.rules import Batch, Past, Rule
from sdc.utility.measures import Weights

ROUND = 10  # requests after which a round of the rule batch comes
QUANTILES = {"q10": 0.1, "median": 0.5, "q90": 0.9}

Request: TypeAlias = tuple[SubTable, str]
"""A sub-table, and who asks for it."""
Asks: TypeAlias = Callable[[int, State], Request]
"""The request of a number, by somebody who sees what is public."""
Kind: TypeAlias = Literal["uniform", "popular", "greedy-user", "listed"]


# Streams of requests


@dataclass(frozen=True)
class Queries:
    """How requests are drawn, of a stream of this length by so many users, each of whom asks as often.

    uniform: any sub-table of a variable or more; popular: some far more often, those of few variables first;
    greedy-user: every other request is of one user, who asks for the parents of what is public, the largest first, and
    the others are popular; listed: those given
    """

    kind: Kind
    users: int
    length: int
    weights: Weights
    listed: tuple[Request, ...] = ()

    @property
    def everybody(self) -> set[str]:
        """All who may ask."""
        return {who for _, who in self.listed} or {_user(u) for u in range(self.users)}

    def asks(self, schema: Schema, seed: int, number: int) -> Asks:
        """One stream, by the seed of all and its number."""
        if self.kind == "listed":
            return lambda k, state: self.listed[k]
        drawn = self._drawn(schema, np.random.default_rng([seed, number]))
        if self.kind == "greedy-user":
            return _Greedy(drawn, _user(0))
        return lambda k, state: drawn[k]

    def _drawn(self, schema: Schema, generator: np.random.Generator) -> list[Request]:
        every = sub_tables(schema)
        users = generator.integers(0, self.users, self.length).tolist()
        if self.kind == "uniform":
            asked = every[generator.integers(1, len(every), self.length)]
        else:
            ranked, chances = _popularity(self.weights, schema, generator)
            asked = generator.choice(ranked, self.length, p=chances)
        return [(t, _user(u)) for t, u in zip(asked.tolist(), users, strict=True)]


def _user(number: int) -> str:
    return f"user {number + 1}"


def _popularity(
    weights: Weights, schema: Schema, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The sub-tables by rank, and how likely each is: its value by the weights over its rank (Zipf).

    Ranks go by dimension, and within one at random: what is popular differs from stream to stream.
    """
    every = sub_tables(schema)[1:]
    values = np.ones(len(every))
    for v, weight in enumerate(weights.variables):
        values[(every >> v & 1 == 1) & (every & schema.levels.finer(v) == 0)] *= float(weight)
    for subtable, value in weights.sub_tables:
        values[np.searchsorted(every, subtable)] = float(value)
    order = generator.permutation(len(every))
    ranked = order[np.argsort(st.many_ways(every[order], schema), kind="stable")]
    chances = values[ranked] / np.arange(1, len(ranked) + 1)
    return every[ranked], chances / chances.sum()


@dataclass(eq=False)
class _Greedy:
    """Every other request is of one user, for the largest parent of what is public that was not asked for yet."""

    others: Sequence[Request]
    who: str
    _asked: set[SubTable] = field(default_factory=set)

    def __call__(self, k: int, state: State) -> Request:
        if k % 2:
            return self.others[k]
        parents = {p for t in state.released.frontier for p in st.parents(t, state.schema)}
        if parents <= self._asked:
            self._asked.clear()  # what was refused may be let out now
        chosen = min(parents - self._asked, key=lambda t: (-st.dimension(t), t), default=st.full(len(state.schema)))
        self._asked.add(chosen)
        return chosen, self.who


# Courses


@dataclass
class Made:
    """A request, whether it accepts suppressed cells, and what became of it."""

    sub_table: SubTable
    who: str
    decision: Decision
    in_part: bool = False


@dataclass(frozen=True)
class StreamResult:
    """What became of the requests of one stream: `outcomes`, `rules` that decided, and `who` asked.

    released, unreleasable  (requests + 1,) how many sub-tables are so before any request, and after each
    in_part                 what is public with suppressed cells at last
    """

    released: tuple[int, ...]
    unreleasable: tuple[int, ...]
    outcomes: tuple[RequestState, ...]
    rules: tuple[str, ...]
    who: tuple[str, ...]
    caused: Mapping[str, int]
    frontier: tuple[SubTable, ...]
    in_part: tuple[SubTable, ...] = ()

    @property
    def answered(self) -> tuple[bool, ...]:
        """Whether each request was answered in the end."""
        return tuple(outcome in PUBLIC for outcome in self.outcomes)

    @property
    def saturation(self) -> int:
        """The number of the last request that released something; 0 where none did."""
        return max((k for k in range(1, len(self.released)) if self.released[k] > self.released[k - 1]), default=0)


def simulate_stream(
    decider: Decider, state: State, asks: Asks, length: int, in_part: Collection[int] = frozenset()
) -> StreamResult:
    """Simulate one stream; of its requests some, by number, accept suppressed cells."""
    made, caused = made_requests(decider, state, asks, length, in_part)
    states = [state, *(one.decision.state for one in made)]
    return StreamResult(
        tuple(_sizes(states, lambda s: s.released.sub_tables(s.schema))),
        tuple(_sizes(states, lambda s: s.count(Status.UNRELEASABLE))),
        tuple(one.decision.outcome for one in made),
        tuple(one.decision.rule for one in made),
        tuple(one.who for one in made),
        caused,
        states[-1].released.frontier,
        states[-1].suppressed_tables.views,
    )


def _sizes(states: Sequence[State], size: Callable[[State], int]) -> Iterator[int]:
    """Of each state; counted once where it stays the same."""
    for k, state in enumerate(states):
        if k == 0 or state is not states[k - 1]:
            found = size(state)
        yield found


def made_requests(
    decider: Decider, state: State, asks: Asks, length: int, in_part: Collection[int] = frozenset()
) -> tuple[list[Made], dict[str, int]]:
    """All requests as they were decided in the end, and what each user caused."""
    interest, caused, made = Counter[SubTable](), Counter[str](), list[Made]()
    past = Past(state.released.sub_tables(state.schema), interest, caused)  # it sees both grow
    waits = any(isinstance(rule, Batch) for rule in decider.rules)
    for k in range(length):
        subtable, who = asks(k, state)
        decision = decider.decide(state, past, subtable, who)
        if k in in_part:
            decision = decider.decide_in_part(past, subtable, who, decision)
        made.append(Made(subtable, who, decision, k in in_part))
        interest[subtable] += 1
        caused[who] += _grown(state, decision.state)
        state = decision.state
        if waits and (k % ROUND == ROUND - 1 or k == length - 1):
            caused.update(_hold_round(decider, made[k - k % ROUND :], past))
            state = made[-1].decision.state
    return made, dict(caused)


def _grown(before: State, after: State) -> int:
    schema = before.schema
    return 0 if after is before else after.released.sub_tables(schema) - before.released.sub_tables(schema)


def _hold_round(decider: Decider, made: Sequence[Made], past: Past) -> Counter[str]:
    """Decides the requests since the last round that wait; what each user caused."""
    before = state = made[-1].decision.state
    waiting = [one for one in made if one.decision.outcome == "waiting"]
    asked, caused = [(one.sub_table, one.who, one.in_part) for one in waiting], Counter[str]()
    for place, decision in decide_round(decider, before, past, asked, decider.seconds):
        caused[waiting[place].who] += _grown(state, decision.state)
        state = decision.state
        # what is released by a round is its choice
        rule = Batch.name if decision.transition is Transition.SAFE else decision.rule
        waiting[place].decision = replace(decision, rule=rule)
    # what is public changes with the last of them
    for one in made:
        one.decision = replace(one.decision, state=state if one is made[-1] else before, finding=None)
    return caused


# Units of work


@dataclass(frozen=True)
class SimulationStart:
    """What a server begins with.

    seconds  what a decision may take, in seconds of a reference core
    """

    known: Knowledge
    criteria: Criteria
    state: State
    seconds: float
    weights: Weights
    effort: Effort = field(default_factory=Effort)


StreamUnit: TypeAlias = tuple[SimulationStart, tuple[Rule, ...], Queries, int, tuple[int, ...]]
"""Some streams of one rule set, by the seed of all and their numbers."""


def simulate_streams(table: Table, unit: StreamUnit) -> list[StreamResult]:
    """The results of a unit of streams: a pure function of the table and the unit."""
    start, rules, queries, seed, numbers = unit
    judge = Judge(table, start.known, start.criteria, start.effort)

    def result(number: int) -> StreamResult:
        # a judge of its own, so that what one stream finds out changes no other, however they are shared out
        decider = Decider(judge.anew(), rules, start.seconds, weights=start.weights)
        return simulate_stream(decider, start.state, queries.asks(table.schema, seed, number), queries.length)

    return [result(number) for number in numbers]


def simulated(
    table: Table,
    start: SimulationStart,
    rule_sets: Mapping[str, tuple[Rule, ...]],
    queries: Queries,
    streams: int,
    seed: int,
    executor: Executor = IN_PROCESS,
    per_unit: int = 5,
) -> dict[str, list[StreamResult]]:
    """The results of the same streams under each rule set, whatever the number of workers."""
    numbers = [tuple(range(first, min(first + per_unit, streams))) for first in range(0, streams, per_unit)]
    units: list[StreamUnit] = [(start, rules, queries, seed, some) for rules in rule_sets.values() for some in numbers]
    results = executor.run(simulate_streams, table, units)
    return {name: [one for _ in numbers for one in next(results)] for name in rule_sets}


# What they come to


def summary(found: Sequence[StreamResult], users: Iterable[str], batch: int) -> dict[str, Any]:
    """Figures of one rule set's streams, as they are printed and drawn.

    batch  sub-tables of the ordered release under the same criterion
    """
    everybody, released = sorted(users), [c.released[-1] for c in found]
    sizes = np.array([c.released for c in found])
    refused = Counter(r for c in found for r, was in zip(c.rules, c.answered, strict=True) if not was)
    return {
        "streams": len(found),
        "released": _spread(released),
        "answered_share": _spread([sum(c.answered) / max(1, len(c.answered)) for c in found]),
        "gini_caused": _spread([gini([c.caused.get(who, 0) for who in everybody]) for c in found]),
        "gini_answered": _spread([gini(_answered_of(c, everybody)) for c in found]),
        "saturation": _spread([c.saturation for c in found]),
        "of_batch": _spread([n / batch for n in released]) if batch else None,
        "not_answered_by": {rule: n / len(found) for rule, n in sorted(refused.items())},
        "curve": {
            "mean": [_rounded(v) for v in sizes.mean(0)],
            **{name: [_rounded(v) for v in np.quantile(sizes, q, axis=0)] for name, q in QUANTILES.items()},
        },
    }


def _answered_of(found: StreamResult, users: Sequence[str]) -> list[int]:
    counted = Counter(who for who, was in zip(found.who, found.answered, strict=True) if was)
    return [counted[who] for who in users]


def _spread(values: Sequence[float]) -> dict[str, float]:
    quantiles = {name: float(np.quantile(values, q)) for name, q in QUANTILES.items()}
    spread = {"mean": float(np.mean(values)), "min": min(values), **quantiles, "max": max(values)}
    return {name: _rounded(value) for name, value in spread.items()}


def _rounded(value: float) -> float:
    # the last digits of a mean may depend on the machine
    return float(f"{float(value):.9g}")


def gini(amounts: Sequence[float]) -> float:
    """Inequality between users: 0 where all have as much, near 1 where one has everything; 0 where nobody has anything.

    The mean difference between two users over twice the mean (Gini 1912), by the sorted amounts.
    """
    ordered, total = sorted(amounts), sum(amounts)
    if not total:
        return 0.0
    return (len(ordered) + 1 - 2 * sum(accumulate(ordered)) / total) / len(ordered)
