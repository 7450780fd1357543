"""Requests one after the other: each rule, beside bounds of every cell and the whole lattice by brute force."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.config.server import RuleConfig, ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, NothingReleasableError
from sdc.model.release import NOTHING, Release
from sdc.model.state import State, Status
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Verdict
from sdc.server.service.decision import Decider, Decision
from sdc.server.service.judge import Judge, effect_of, one_way, surveyed
from sdc.server.service.rules import MYOPIC, STEPS, OneStep, OneStepFrontier, Past, refusal_message, rules_of
from sdc.server.service.rules import RULES as RULES_THERE_ARE
from tests import reference
from tests.helpers.streams import BruteForce, decisions, stream
from tests.profiles import scaled
from tests.strategies import dense, knows, schema_of

CRITERIA = Criteria.of(2, 6)
FLAT = schema_of((2,) * 6)
STREAMS, LENGTH = scaled(6, fewest=1), scaled(60, fewest=20)
PUBLIC_STREAMS = scaled(200, fewest=24)
RULES: dict[str, list[dict[str, object]]] = {
    "myopic": [],
    "one_step": [{"rule": "one_step"}],
    "one_step_frontier": [{"rule": "one_step_frontier"}],
    "limit_unreleasable": [{"rule": "limit_unreleasable", "most": 1, "share": 0.5}],
    "value": [{"rule": "value", "least": 2.0, "interest": 0.5}],
    "reconstruction": [{"rule": "value", "least": 2.0, "interest": 0.0, "reconstruction": 3.0}],
    "share": [{"rule": "share", "most": 0.5}],
    "simulatable": [{"rule": "simulatable", "draws": 8, "share": 0.2}],
    "all": [{"rule": "one_step"}, {"rule": "limit_unreleasable", "most": 2}, {"rule": "share", "most": 0.6}],
}


def rules(name: str) -> tuple[RuleConfig, ...]:
    return ServerConfig.model_validate({"rules": RULES[name]}).rules


def judge_of(table: Table, criteria: Criteria = CRITERIA) -> Judge:
    return Judge(table, knows(table, NOTHING), criteria)


def begun(judge: Judge) -> tuple[Judge, State]:
    """A judge that knows nothing yet but what cannot be released beside the one-way sub-tables, which are public."""
    own = judge.anew()
    return own, surveyed(own, State.first(own.table.schema, one_way(own.table.schema)))


@pytest.fixture(scope="module")
def truth(czech: Table) -> BruteForce:
    return BruteForce(czech, CRITERIA)


@pytest.fixture(scope="module")
def judge(czech: Table) -> Judge:
    return judge_of(czech)


@pytest.mark.parametrize("name", RULES)
def test_every_state_of_a_stream_is_safe_and_has_its_frontiers(
    name: str, czech: Table, judge: Judge, truth: BruteForce, night: list[int]
) -> None:
    chosen = rules_of(rules(name))
    for seed in range(min(2, STREAMS) if name in ("simulatable", "reconstruction") else STREAMS):
        own, state = begun(judge)
        for decision in decisions(Decider(own, chosen), state, stream(seed + sum(night), 6, LENGTH)):
            new = decision.state
            assert truth.is_safe(new.released)
            assert new.released.contains(state.released)
            assert set(new.unreleasable) == truth.unreleasable_frontier(new.released)
            assert (decision.outcome == "released") == (new.version == state.version + 1)
            state = new
        if name == "myopic":
            last = [*range(1, 64)]
            for decision in decisions(Decider(own, chosen), state, ((t, "ada") for t in last)):
                state = decision.state
            assert all(t in state.released or not truth.is_safe(state.released.add(t)) for t in last)


def test_what_is_direct_and_indirect(czech: Table, judge: Judge) -> None:
    own = judge.anew()
    state = State.first(czech.schema, one_way(czech.schema))
    decision = Decider(own).decide(state, Past(6), 0b000111, "ada")
    assert decision.outcome == "released"
    found = decision.state
    assert found.status(0b000111) is Status.DIRECT
    assert found.status(0b000011) is found.status(0) is Status.INDIRECT
    assert found.status(0b000001) is Status.DIRECT  # public from the beginning
    assert found.status(0b111111) is Status.UNRELEASABLE
    assert found.statuses.tolist() == [found.status(t) for t in range(64)]
    assert found.projection(0b001011) == (0b000011, 0b001000)
    assert Decider(own).decide(found, Past(6), 0b000011, "bob").outcome == "answered"


def before_a_costly_one(judge: Judge, public: Release) -> tuple[Release, int]:
    """A release, and a sub-table that makes another one unreleasable."""
    own = judge.anew()
    state = surveyed(own, State.first(judge.table.schema, public))
    for subtable in range(62, 0, -1):
        costly = [t for t in range(64) if effect_of(own, state, t).newly[1]]
        if costly:
            return state.released, costly[0]
        state = Decider(own).decide(state, Past(6), subtable, "ada").state
    raise AssertionError("none is")


def test_each_rule_names_itself(czech: Table, judge: Judge) -> None:
    public, costly = before_a_costly_one(judge, one_way(czech.schema))
    steps = dict.fromkeys(("one_step", "one_step_frontier"), 0b1111)
    asked = steps | {"limit_unreleasable": costly, "value": costly, "share": 0b1111, "simulatable": 0b111101}
    for name, subtable in asked.items():
        own = judge.anew()
        state = surveyed(own, State.first(czech.schema, public if subtable == costly else one_way(czech.schema)))
        strict = {
            "limit_unreleasable": [{"rule": "limit_unreleasable", "most": 0}],
            "value": [{"rule": "value", "least": 100.0}],
            "share": [{"rule": "share", "most": 0.1, "free": 2}],
        }.get(name, RULES[name])
        chosen = rules_of(ServerConfig.model_validate({"rules": strict}).rules)
        decision = Decider(own, chosen).decide(state, Past(6), subtable, "ada")
        assert (decision.outcome, decision.rule) == ("refused", name)
        assert decision.why
        assert decision.state == state


def test_interest_makes_it_worth_more(czech: Table, judge: Judge) -> None:
    own, state = begun(judge)
    chosen = rules_of(ServerConfig.model_validate({"rules": [{"rule": "value", "least": 3.0}]}).rules)
    pair = 0b11
    assert Decider(own, chosen).decide(state, Past(6), pair, "ada").rule == "value"
    asked = Past(6, Counter({pair: 1, 0b111: 1}))
    assert Decider(own, chosen).decide(state, asked, pair, "ada").outcome == "released"


def test_an_effect_is_what_happens(czech: Table, judge: Judge, truth: BruteForce) -> None:
    own, state = begun(judge)
    for subtable in (0b111100, 0b11, 0b001111):
        effect = effect_of(own, state, subtable)
        assert effect.is_safe is truth.is_safe(state.released.add(subtable))
        assert effect.is_complete
        if not effect.is_safe:
            continue
        new = state.released.add(subtable)
        assert set(effect.after.unreleasable) == truth.unreleasable_frontier(new)
        assert set(effect.released) == {t for t in range(64) if t in new and t not in state.released}
        was, will = (np.asarray(s.statuses) for s in (state, surveyed(own, state.releasing(subtable))))
        assert effect.newly[1] == (will == Status.UNRELEASABLE).sum() - (was == Status.UNRELEASABLE).sum()


def test_an_n_rule_refuses_what_it_excludes_and_parts_withhold_it(czech: Table) -> None:
    own, without = judge_of(czech, Criteria.of(2, 3, min_frequency=20)), judge_of(czech, Criteria.of(2, 3))
    state = State.first(czech.schema, one_way(czech.schema))
    for subtable in range(1, 64):
        found = own.ask(state, subtable, 1.0).verdict
        keeps = int(czech.marginal(subtable).counts.min()) >= 20
        assert found is (without.ask(state, subtable, 1.0).verdict if keeps else Verdict.UNSAFE)
    suppressed, _ = own.in_part(state, 0b101111, 10.0)
    assert suppressed is not None
    shown = np.delete(czech.marginal(0b101111).dense.reshape(-1), suppressed.places(czech.schema))
    assert not ((shown > 0) & (shown < 20)).any()
    with pytest.raises(NothingReleasableError, match=r"A\*B\*C\*D\*E has a count from 1 to 19, .* start with less"):
        own.require_safe(Release.of([0b011111]), 1.0)
    with pytest.raises(NothingReleasableError, match="not even the grand total may be published"):
        judge_of(czech, Criteria.of(2, 3, min_frequency=2_000)).require_safe(NOTHING, 1.0)


def test_a_limit_on_the_posterior_has_no_frontiers(czech: Table) -> None:
    with pytest.raises(ConfigError, match="not monotone"):
        judge_of(czech, Criteria.of(2, 6, PosteriorLimit(max_above=0.1)))


def test_tables_with_structural_zeros_are_not_drawn(czech: Table) -> None:
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    judge = Judge(czech, knows(czech, NOTHING, zeros), CRITERIA)
    with pytest.raises(
        ConfigError,
        match="a draw may have records where everybody knows that there are none; leave them out, or leave the rule",
    ):
        Decider(judge, rules_of(rules("simulatable")))


def test_critical_widths_give_the_first_unreleasable(czech: Table, judge: Judge, truth: BruteForce) -> None:
    own, public = judge.anew(), one_way(czech.schema)
    assert set(own.first_unreleasable(public)) == truth.unreleasable_frontier(public)
    assert own.first_unreleasable(Release.of([])) == ()


@given(hs.lists(hs.integers(0, 63), max_size=8), hs.lists(hs.integers(1, 63), max_size=8), hs.integers(0, 63))
def test_statuses_agree(released: list[int], unreleasable: list[int], undecided: int) -> None:
    state = State.first(FLAT, Release.of(released)).knowing(unreleasable, [undecided])
    assert state.statuses.tolist() == [state.status(t) for t in range(64)]
    more = state.releasing(undecided)
    assert more.version == 1
    assert undecided not in more.undecided
    assert set(st.minimal(state.unreleasable)) == set(state.unreleasable)


PUBLIC_RULES: list[list[dict[str, object]]] = [
    [{"rule": "simulatable", "draws": 3, "share": 0.4}],
    [{"rule": "one_step"}, {"rule": "limit_unreleasable", "most": 0}],
    [{"rule": "share", "most": 0.3, "free": 2}, {"rule": "value", "least": 2.0}],
    [{"rule": "one_step_frontier"}, {"rule": "value", "least": 2.0}],
]


def test_what_a_public_rule_refuses_and_says_is_the_same_for_every_table(night: list[int]) -> None:
    """Streams of requests, and of each some tables that agree with all that is public in the end, enumerated."""
    told = Counter[str]()
    for number in range(PUBLIC_STREAMS):
        rng = np.random.default_rng([17, number, *night])
        # of larger totals all tables of eight cells are too many to list
        counts = rng.choice([0, 0, 1, 2, 3, 4], [2, 3]) if number % 10 else rng.choice([0, 0, 1, 1, 2], [2, 2, 2])
        if not counts.sum():
            continue
        variables, criteria = counts.ndim, Criteria.of(int(rng.integers(1, 3)), int(rng.integers(1, 4)))
        chosen = ServerConfig.model_validate({"rules": PUBLIC_RULES[number % 4]}).rules
        names = {rule.rule for rule in chosen}
        table = dense(schema_of(counts.shape), counts.reshape(-1).tolist())
        state, asked = State.first(table.schema, Release.of([])), rng.integers(1, 1 << variables, 3).tolist()
        passed = list[tuple[State, int, str | None]]()
        for subtable in asked:
            decision = decided_by(table, criteria, chosen, state, subtable)
            passed.append((state, subtable, public_words(decision, names)))
            state = decision.state
        facts = [fact for t in state.released.frontier for fact in reference.exact(counts, st.members(t))]
        agreeing = reference.feasible(counts.shape, facts)
        is_clear = ~((agreeing > 0) & (agreeing <= criteria.small_count)).any(axis=1)
        for other in [*agreeing[is_clear][:1], *rng.permutation(agreeing)[:1]]:
            for then, subtable, words in passed:
                alike = dense(table.schema, other.tolist())
                assert public_words(decided_by(alike, criteria, chosen, then, subtable), names) == words
                told[str(words)] += 1
    assert len(told) == 5
    assert min(told.values()) > PUBLIC_STREAMS // 10


def test_myopic_answers_what_is_releasable_with_all_earlier_answers(night: list[int]) -> None:
    """By listing all tables that agree with the answers and the request."""
    rng, told = np.random.default_rng([18, *night]), Counter[bool]()
    for number in range(scaled(100, fewest=20)):
        counts = rng.choice([0, 0, 1, 2, 3, 4], [2, 3]) if number % 2 else rng.choice([0, 1, 1, 2], [2, 2, 2])
        criteria, state = Criteria.of(2, int(rng.integers(1, 4))), State.first(schema_of(counts.shape), Release.of([]))
        least = criteria.width.min_width
        if not reference.is_releasable(counts, [], 2, least):
            continue
        table, asked = dense(state.schema, counts.reshape(-1).tolist()), rng.integers(1, 1 << counts.ndim, 6).tolist()
        outcomes = list[bool]()
        for subtable in asked:
            decision = decided_by(table, criteria, (), state, subtable)
            outcomes.append(decision.outcome != "refused")
            state = decision.state
        safe = partial(reference.is_releasable, counts, small_count=2, least=least)
        assert outcomes == reference.decisions(map(st.members, asked), safe)
        told.update(outcomes)
    assert min(told[True], told[False]) > 0


def decided_by(
    table: Table, criteria: Criteria, chosen: tuple[RuleConfig, ...], state: State, subtable: int
) -> Decision:
    """The decision, where all that the table tells is known of what is public, and nothing else."""
    judge = judge_of(table, criteria)
    known = surveyed(judge, State.first(state.schema, state.released))
    return Decider(judge, rules_of(chosen)).decide(known, Past(1), subtable, "ada")


def public_words(decision: Decision, names: set[str]) -> str | None:
    """What is told of a refusal by a rule that looks at nothing but what is public; None of all other decisions."""
    said = refusal_message(decision.rule, names, FLAT)
    return None if decision.outcome != "refused" or said == refusal_message(MYOPIC, names, FLAT) else said


def test_a_refusal_has_one_sentence_for_all_that_look_at_the_table() -> None:
    every = [rule.name for rule in RULES_THERE_ARE]
    said = {name: refusal_message(name, every, FLAT) for name in (*every, MYOPIC)}
    assert len({said[name] for name in ("limit_unreleasable", "value", "batch", MYOPIC)}) == 1
    assert len(set(said.values())) == 5
    assert "a public table of one variable fewer" in said["one_step"]
    assert "on the released frontier" in said["one_step_frontier"]
    # of rules that the server does not have nothing is said
    assert len(refusal_message(MYOPIC, ["share"], FLAT)) < len(said[MYOPIC])


def releases(variables: int) -> set[Release]:
    """All there are."""
    found, left = set[Release](), {Release.of([])}
    while left:
        found |= left
        left = {release.add(t) for release in left for t in range(1 << variables)} - found
    return found


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_allows_a_part_of_whatever_is_not_public_and_never_a_leap(step: OneStep | OneStepFrontier) -> None:
    """Of four variables: from each release to each sub-table, in any order, and so to what myopic could release."""
    every = releases(4)
    assert len(every) == 167  # Dedekind's number, but for the one without the grand total
    for released in every:
        allowed = {t for t in range(16) if t not in released and step.allows(released, t, FLAT)}
        assert all(any(t in allowed for t in st.subsets(asked, FLAT)) for asked in range(16) if asked not in released)
        assert all(any(child in released for child in st.children(t, FLAT)) for t in allowed)
        if step is STEPS["one_step"]:  # all that comes with what it allows it allows too
            assert all(part in allowed or part in released for t in allowed for part in st.subsets(t, FLAT))


def test_the_two_steps_by_their_definitions() -> None:
    released = Release.of([0b000111, 0b011000])  # A*B*C and D*E are public
    at_once, of_frontier = STEPS["one_step"], STEPS["one_step_frontier"]
    for asked, allowed in {
        0b001111: (True, True),  # A*B*C*D: A*B*C is on the frontier
        0b001001: (True, True),  # A*D: A and D are public
        0b001011: (True, False),  # A*B*D: A*B is public and not on the frontier, A*D is not public
        0b101001: (False, False),  # A*D*F: none of its pairs is public
        0b100000: (True, True),  # F: the total is public
    }.items():
        assert tuple(step.allows(released, asked, FLAT) for step in (at_once, of_frontier)) == allowed
    assert of_frontier.allows(released.add(0b001001), 0b001011, FLAT)
