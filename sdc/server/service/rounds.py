"""A round of the rule batch: of the requests that wait, the set to release that serves most interest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from sdc.model import subtable as st
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.risk.verdict import Verdict
from sdc.server.service.decision import BY_CRITERION, Decider, Decision
from sdc.server.service.judge import DownSet, Judge
from sdc.server.service.outcome import Transition
from sdc.server.service.rules import Batch, Past
from sdc.utility.measures import Weights

MOST_TRIED = 12  # sub-tables of a small table, of which every safe set is tried
MOST_LOOKED_AT = 32  # of the others that wait, whether a sub-table makes them unreleasable
MOST_EXCHANGES = 4

Interest = Mapping[SubTable, float]


def round_of(
    judge: Judge,
    state: State,
    waiting: Mapping[SubTable, int],
    weights: Weights | None = None,
    seconds: float = 0.2,
) -> tuple[SubTable, ...]:
    """What a round releases, in order; nothing that still waits could be released with it.

    Served is the interest in all that is then public: how often each sub-table was asked for (`waiting`), times its
    value. Of a small table the set is the best there is, and among those the one that makes the fewest sub-tables
    unreleasable. Else sub-tables are taken by interest for each other one that they stop, and those left out are tried
    first for once. The judge learns nothing; one question to it takes `seconds` of a reference core.
    """
    values = weights or Weights.equal(len(state.schema))
    are_open = {t: n for t, n in waiting.items() if state.status(t) is Status.OPEN}
    interest = {t: n * float(values.of_sub_table(t, state.schema)) for t, n in are_open.items()}
    if judge.decides(state) and len(interest) <= MOST_TRIED:
        return st.maximal(_best(judge, state, interest))
    return _greedy(judge, state, interest, seconds)


def decide_round(
    decider: Decider, state: State, past: Past, waiting: Sequence[tuple[SubTable, str, bool]], seconds: float
) -> Iterator[tuple[int, Decision]]:
    """Decides all that waits: what the round chooses is released, and the rest refused, or public by then.

    Each of `waiting` is a sub-table, who asks, and whether they accept suppressed cells. Its place comes with its
    decision, which follows from those before it. What stands beside batch may object to what is public by then.
    """
    at_once = replace(decider, rules=tuple(rule for rule in decider.rules if not isinstance(rule, Batch)))
    interest = Counter(subtable for subtable, _, _ in waiting)
    chosen = round_of(decider.judge, state, interest, decider.weights, seconds)
    subtables = [subtable for subtable, _, _ in waiting]
    first = [subtables.index(subtable) for subtable in chosen]
    for place in [*first, *(k for k in range(len(waiting)) if k not in first)]:
        subtable, who, in_part = waiting[place]
        if place in first:
            decision = at_once.decide(state, past, subtable, who).lasting(subtable)
        else:
            is_out = subtable in state.released
            decision = Decision(Transition.ROUND_HAS_IT if is_out else Transition.ROUND_HAS_OTHERS, Batch.name, state)
        if in_part and decision.transition in BY_CRITERION:
            decision = at_once.decide_in_part(past, subtable, who, decision)
        state = decision.state
        yield place, decision


# The best set of a small table


def _best(judge: Judge, state: State, interest: Interest) -> tuple[SubTable, ...]:
    """Of the safe sets that serve most, the one that makes the fewest sub-tables unreleasable and the most public."""
    verdicts, order = judge.verdicts, sorted(interest, key=lambda t: (-interest[t], st.dimension(t), t))
    most, best = 0.0, dict[DownSet, tuple[SubTable, ...]]()  # by what is then public

    def look(public: DownSet, k: int, served: float, chosen: tuple[SubTable, ...]) -> None:
        """All that follows from what was chosen among the first k."""
        nonlocal most
        if served + sum(interest[t] for t in order[k:]) < most - 1e-9:
            return
        if k == len(order):
            if served > most + 1e-9:
                most = served
                best.clear()
            best.setdefault(public, chosen)
            return
        subtable = order[k]
        if verdicts.is_safe(public, subtable):
            look(public | verdicts.below[subtable], k + 1, served + interest[subtable], (*chosen, subtable))
        if not public >> subtable & 1:
            look(public, k + 1, served, chosen)

    def price(chosen: tuple[SubTable, ...]) -> tuple[int, int, tuple[SubTable, ...]]:
        after = state
        for subtable in chosen:
            after = after.releasing(subtable)
        unreleasable = after.knowing(judge.survey(after).unreleasable).count(Status.UNRELEASABLE)
        return unreleasable, -after.released.sub_tables(state.schema), chosen

    look(verdicts.down_set(state.released), 0, 0.0, ())
    return min(best.values(), key=price)


# A good one of a large table


def _greedy(judge: Judge, state: State, interest: Interest, seconds: float) -> tuple[SubTable, ...]:
    price = {t: 1 + _stops(judge, state, t, interest) for t in interest}
    order = sorted(interest, key=lambda t: (-interest[t] / price[t], st.dimension(t), t))
    chosen = tuple(_taken(judge, state, order, seconds))
    is_public = st.within_any(chosen)
    left = sorted((t for t in order if not is_public(t)), key=lambda t: -interest[t])[:MOST_EXCHANGES]
    others = (tuple(_taken(judge, state, [t, *order], seconds)) for t in left)
    return st.maximal(max([chosen, *others], key=lambda found: _served(found, interest)))


def _taken(judge: Judge, state: State, order: Sequence[SubTable], seconds: float) -> Iterator[SubTable]:
    """Those that are safe with all before them."""
    own = copy(judge)
    for subtable in order:
        if subtable in state.released or own.ask(state, subtable, seconds).verdict is not Verdict.SAFE:
            continue
        state = state.releasing(subtable)
        own.settle(state)
        yield subtable


def _stops(judge: Judge, state: State, subtable: SubTable, interest: Interest) -> int:
    """How many of the others that wait it makes unreleasable."""
    larger = state.releasing(subtable)
    others = [t for t in interest if larger.status(t) is Status.OPEN]
    if judge.decides(larger):
        is_out = st.containing_any(judge.survey(larger).unreleasable)
        return sum(map(is_out, others))
    found = judge.survey(larger, sorted(others, key=lambda t: (-interest[t], t)), MOST_LOOKED_AT)
    return sum(map(st.containing_any(found.unreleasable), others))


def _served(chosen: Iterable[SubTable], interest: Interest) -> float:
    is_public = st.within_any(tuple(chosen))
    return sum(n for t, n in interest.items() if is_public(t))
