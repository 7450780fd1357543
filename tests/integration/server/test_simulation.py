"""Streams of requests against rule sets: their results, their figures, rounds, and a history under other rules."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.api import find_release
from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NothingReleasableError, ReleaseError, RunFolderError
from sdc.model.release import NOTHING, Release
from sdc.model.state import State, Status
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.record.entry import FIRST, Entry
from sdc.risk.criteria import Criteria
from sdc.server.service.decision import Decider, Decision
from sdc.server.service.judge import Judge, surveyed
from sdc.server.service.rounds import round_of
from sdc.server.service.rules import Past, Rule, rules_of
from sdc.server.simulation.replay import HistoryInput, input_of, recorded, replay_into, replays
from sdc.server.simulation.run import ServerSimulation, first_release, requests_of, rule_sets_of
from sdc.server.simulation.simulation import (
    ROUND,
    Kind,
    Queries,
    Request,
    SimulationStart,
    StreamResult,
    gini,
    made_requests,
    simulate_stream,
    summary,
)
from sdc.storage.certificate import Certificate, write_certificate
from sdc.storage.results import write_search
from sdc.utility.measures import Weights
from tests.conftest import CZECH_CSV, CZECH_YAML
from tests.helpers.services import open_service
from tests.helpers.streams import USERS, BruteForce, stream
from tests.strategies import knows

CRITERIA = Criteria.of(2, 6)
Told = tuple[str, str, dict[str, Any]]
KINDS: tuple[Kind, ...] = ("uniform", "popular", "greedy-user")


def rules(name: str) -> tuple[Rule, ...]:
    return rules_of(rule_sets_of(name, None)[name])


def queries(kind: Kind = "uniform", length: int = 60) -> Queries:
    return Queries(kind, 4, length, Weights.equal(6))


def replayed(judge: Judge, state: State, asked: Sequence[Request], rules: tuple[Rule, ...]) -> list[Decision]:
    """The decisions on these requests."""
    made, _ = made_requests(Decider(judge, rules), state, lambda k, _: asked[k], len(asked))
    return [one.decision for one in made]


@pytest.fixture(scope="module")
def truth(czech: Table) -> BruteForce:
    return BruteForce(czech, CRITERIA)


@pytest.fixture(scope="module")
def judge(czech: Table) -> Judge:
    return Judge(czech, knows(czech, NOTHING), CRITERIA)


@pytest.fixture(scope="module")
def first(czech: Table, judge: Judge) -> State:
    return surveyed(judge, State.first(czech.schema, first_release("one-way", czech, judge.known)[0]))


@pytest.fixture(scope="module")
def opening(judge: Judge, first: State) -> SimulationStart:
    return SimulationStart(judge.known, CRITERIA, first, 0.2, Weights.equal(6))


# Courses


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_of_a_stream_keeps_the_criterion(kind: Kind, judge: Judge, first: State, truth: BruteForce) -> None:
    length = 25
    found = simulate_stream(Decider(judge.anew()), first, queries(kind, length).asks(first.schema, 7, 0), length)
    assert truth.is_safe(Release.of(found.frontier))
    assert len(found.released) == len(found.unreleasable) == length + 1
    assert found.released[0] == 6
    assert found.released[-1] == Release.of(found.frontier).sub_tables(first.schema) == 6 + sum(found.caused.values())
    assert found.saturation == max(
        (k for k in range(1, length + 1) if found.released[k] != found.released[k - 1]), default=0
    )
    assert "waiting" not in found.outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_those_of_their_seed(kind: Kind, first: State) -> None:
    def asked(seed: int, number: int) -> list[tuple[int, str]]:
        asks = queries(kind).asks(first.schema, seed, number)
        return [asks(k, first) for k in range(60)]

    assert asked(1, 2) == asked(1, 2)
    assert asked(1, 2) != asked(1, 3)
    assert asked(1, 2) != asked(2, 2)
    assert all(0 < subtable < 64 for subtable, _ in asked(1, 2))
    assert {who for _, who in asked(1, 2)} <= queries(kind).everybody


# Figures


@given(hs.lists(hs.integers(0, 50), min_size=1, max_size=9))
def test_gini_is_the_mean_difference_over_twice_the_mean(amounts: list[int]) -> None:
    n, total = len(amounts), sum(amounts)
    expected = sum(abs(a - b) for a in amounts for b in amounts) / (2 * n * total) if total else 0.0
    assert gini(amounts) == pytest.approx(expected, abs=1e-12)


def test_a_summary_by_hand() -> None:
    one = StreamResult((3, 5, 5), (0, 0, 1), ("released", "refused"), ("myopic", "share"), ("a", "b"), {"a": 2}, (7,))
    other = StreamResult((3, 3, 3), (0, 0, 0), ("answered", "answered"), ("myopic", "myopic"), ("a", "b"), {}, (1,))
    found = summary([one, other], {"a", "b"}, 10)
    assert found["released"] == {"mean": 4.0, "min": 3.0, "q10": 3.2, "median": 4.0, "q90": 4.8, "max": 5.0}
    assert found["answered_share"]["mean"] == 0.75
    assert (found["gini_caused"]["max"], found["gini_caused"]["min"]) == (0.5, 0.0)
    assert (found["saturation"]["min"], found["saturation"]["max"]) == (0, 1)
    assert found["of_batch"]["mean"] == 0.4
    assert found["not_answered_by"] == {"share": 0.5}
    assert found["curve"]["mean"] == [3.0, 4.0, 4.0]
    assert summary([one], {"a"}, 0)["of_batch"] is None


# Rounds


def served(waiting: Mapping[int, int], released: Release) -> int:
    return sum(n for t, n in waiting.items() if t in released)


@pytest.mark.parametrize("seed", range(6))
def test_a_round_serves_most_interest(seed: int, judge: Judge, first: State, truth: BruteForce) -> None:
    generator = np.random.default_rng(seed)
    state = first
    for subtable in generator.integers(1, 64, 2).tolist():
        if truth.is_safe(state.released.add(subtable)) and st.dimension(subtable) < 5:
            state = surveyed(judge, state.releasing(subtable))
    asked = generator.choice(np.arange(1, 64), 7, replace=False).tolist()
    waiting = {t: int(n) for t, n in zip(asked, generator.integers(1, 6, 7), strict=True)}
    own = judge.anew()
    chosen = round_of(own, state, waiting)
    larger = Release.of([*state.released.frontier, *chosen])
    assert round_of(own, state, waiting) == chosen  # the judge learns nothing and releases nothing
    assert truth.is_safe(larger)
    every = (some for n in range(8) for some in combinations(asked, n))
    releases = (Release.of([*state.released.frontier, *some]) for some in every)
    best = max(served(waiting, release) for release in releases if truth.is_safe(release))
    assert served(waiting, larger) == best
    assert all(t in larger or not truth.is_safe(larger.add(t)) for t in asked)


def test_a_round_goes_by_weights(judge: Judge, first: State, czech: Table, truth: BruteForce) -> None:
    """Two sub-tables that cannot both be released: the one that weighs more is."""

    def is_safe(state: State, *more: int) -> bool:
        return truth.is_safe(state.released.join(Release.of(more)))

    states = [one.state for one in replayed(judge.anew(), first, [(t, "ada") for t in range(1, 64)], ())]
    state, one, other = next(
        (state, a, b)
        for state in reversed(states)  # the last have the fewest that are open
        for a, b in combinations([t for t in range(64) if t not in state.released and is_safe(state, t)], 2)
        if not is_safe(state, a, b)
    )
    for heavy in (one, other):
        weights = Weights.of(czech.schema, None, {st.label(heavy, czech.schema): 10.0})
        assert round_of(judge.anew(), state, {one: 2, other: 2}, weights) == (heavy,)


def test_a_round_of_what_is_decided_releases_nothing(judge: Judge, first: State) -> None:
    assert round_of(judge.anew(), first, {}) == ()
    assert round_of(judge.anew(), first, {0b111111: 3, 0b1: 1}) == ()


def test_requests_of_a_batch_are_decided_by_rounds(judge: Judge, first: State) -> None:
    asked = [*stream(3, 6, 23)]
    found = replayed(judge.anew(), first, asked, rules("batch"))
    sizes = [state.released.sub_tables(first.schema) for state in (first, *(one.state for one in found))]
    grown = {k for k in range(1, len(sizes)) if sizes[k] > sizes[k - 1]}
    assert len(grown) > 0
    assert grown <= {ROUND, 2 * ROUND, 23}
    for k, (one, (subtable, _)) in enumerate(zip(found, asked, strict=True)):
        at_the_end = found[min(len(found) - 1, k - k % ROUND + ROUND - 1)].state
        assert (one.outcome in ("released", "answered")) == (subtable in at_the_end.released)
        before = found[k - 1].state if k else first
        known = subtable in before.released or before.status(subtable) is Status.UNRELEASABLE
        assert one.rule == ("myopic" if known else "batch")


def test_a_round_asks_the_other_rules_again_as_a_server_does(judge: Judge, first: State, truth: BruteForce) -> None:
    state = Decider(judge.anew()).decide(first, Past(6), 0b000011, "ada").state
    asked = [(0b000111, "ada"), (0b001011, "bob")]
    assert truth.is_safe(state.released.add(asked[0][0]).add(asked[1][0]))
    both = (*rules("one_step_frontier"), *rules("batch"))
    found = replayed(judge.anew(), state, asked, both)
    # with either public the other has no child on the frontier any more
    assert sorted((one.outcome, one.rule) for one in found) == [("refused", "one_step_frontier"), ("released", "batch")]
    assert found[-1].state.version == state.version + 1
    assert {one.outcome for one in replayed(judge.anew(), state, asked, rules("batch"))} == {"released"}


# A history under other rules


def entries_of(*told: Told) -> list[Entry]:
    """A chain of entries, each told by its kind, who caused it, and its body."""
    found = list[Entry]()
    for seq, (kind, who, body) in enumerate(told, start=1):
        entry = Entry(seq, kind, "2026-01-01T00:00:00.000+00:00", who, "", body, found[-1].hash if found else FIRST)
        found.append(replace(entry, hash=entry.hash_by(b"")))
    return found


def subject(czech: Table) -> HistoryInput:
    return HistoryInput(czech, knows(czech, NOTHING), CRITERIA, ServerConfig(), Weights.equal(6))


def test_a_history_under_its_own_rules_is_itself(czech: Table, tmp_path: Path) -> None:
    asked = [*stream(11, 6, 50)]
    with closing(open_service(czech, tmp_path)) as service:
        for subtable, who in asked:
            service.ask(subtable, who).result(600)
        entries = service.log.history.entries()
    facts = replay_into(tmp_path / "out", subject(czech), "myopic,one_step", entries)
    was, again = facts["as_it_was"], facts["as_it_would_have_been"]["myopic"]
    assert {key: again[key] for key in was} == was
    assert len(was["released"]) == 51
    assert facts["as_it_would_have_been"]["one_step"]["released"][-1] < was["released"][-1]
    assert facts["users"] == len(USERS)
    assert json.loads((tmp_path / "out" / "replay.json").read_text()) == facts
    page = (tmp_path / "out" / "replay.html").read_text()
    assert "CONFIDENTIAL" in page
    assert page.count("<polyline") == 12  # a line and its key, of three rule sets, in two figures
    assert [*recorded(entries, czech).requests] == asked
    assert (tmp_path / "out" / "replay.json").stat().st_mode & 0o077 == 0


ONE_WAY: Told = ("frontier", "", {"version": 0, "released": [["A"], ["B"]], "unreleasable": [], "undecided": []})


def test_requests_without_a_decision_are_lost(czech: Table) -> None:
    entries = entries_of(ONE_WAY, ("request", "ada", {"sub_table": ["A", "B"]}))
    assert recorded(entries, czech).outcomes == ("lost",)


def test_a_history_of_another_table_is_refused(czech: Table) -> None:
    with pytest.raises(InputError, match="names the variable 'Z', the table has A, B, C, D, E, F"):
        recorded(entries_of(("opened", "", {"about": {"variables": ["A", "Z"]}})), czech)
    with pytest.raises(InputError, match="does not begin with what was public first"):
        recorded(entries_of(("request", "ada", {"sub_table": ["A"]})), czech)
    everything = {**ONE_WAY[2], "released": [list("ABCDEF")]}
    with pytest.raises(NothingReleasableError, match="the first release of 63 sub-tables is not proven safe"):
        replays(subject(czech), "myopic", entries_of(("frontier", "", everything)))


def test_a_replay_needs_the_table_and_the_criterion(czech: Table, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give --table with the server's config or its table"):
        input_of(None)
    with pytest.raises(ConfigError, match="has no criterion; give --min-width"):
        input_of(str(CZECH_CSV))
    assert input_of(str(CZECH_CSV), {"risk.min_width": 6}).criteria == input_of(str(CZECH_YAML)).criteria == CRITERIA
    assert input_of(str(CZECH_YAML)).table.digest == czech.digest
    (tmp_path / "file").write_text("")
    entries = entries_of(ONE_WAY)
    with pytest.raises(RunFolderError, match=r"cannot be written: .*; give another --out"):
        replay_into(tmp_path / "file" / "out", subject(czech), "myopic", entries)


# What is asked for


def test_rule_sets_by_name_and_from_a_file(tmp_path: Path) -> None:
    own = ServerConfig.model_validate({"rules": [{"rule": "share", "most": 0.25}]})
    found = rule_sets_of("myopic, share,value,config", own)
    assert [*found] == ["myopic", "share", "value", "config"]
    assert found["myopic"] == ()
    assert found["share"] == found["config"] == own.rules
    file = tmp_path / "sets.yaml"
    file.write_text("strict: [{rule: one_step}, {rule: share, most: 0.1}]\nopen: []\n")
    assert [[rule.rule for rule in one] for one in rule_sets_of(str(file), None).values()] == [
        ["one_step", "share"],
        [],
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be a mapping from names to lists of rules"),
        ("[1]", "must be a mapping from names to lists of rules"),
        ("a: [{rule: share}]", r"sets.yaml: a: rules\.0\.share\.most is missing"),
        ("a: [{rule: shares}]", r"sets.yaml: a: rules\.0"),
        ("a: [{rule: one_step}, {rule: one_step}]", "the rule one_step is listed twice"),
    ],
)
def test_a_file_that_has_no_rules_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sets.yaml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        rule_sets_of(str(tmp_path / "sets.yaml"), None)


def test_an_unknown_rule_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"--rules 'two_step' is not a rule; give names of myopic, .*, config"):
        rule_sets_of("myopic,two_step", None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("asked.csv", "user,variables\nada,A*B\nbob,C\n"),
        ("asked.jsonl", '{"user": "ada", "variables": "A*B"}\n\n{"user": "bob", "variables": ["C"]}\n'),
    ],
)
def test_requests_of_a_file_are_one_stream(name: str, content: str, czech: Table, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    trial = ServerSimulation.of(None, "myopic", str(tmp_path / name), streams=200, users=8, requests=None, seed=0)
    assert (trial.streams, trial.requests, trial.facts["users"]) == (1, 2, 2)
    assert requests_of(trial, czech.schema) == ((0b11, "ada"), (0b100, "bob"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none", None, "--queries '.*none' is none of uniform, popular, greedy-user, and no file that can be read"),
        ("a.csv", "who,variables\nada,A\n", "has no column 'user'; give user and variables"),
        pytest.param(
            "a.csv", f"user,variables\nada,{'A' * 200_000}\n", "cannot be read as CSV: .*; correct it there", id="long"
        ),
        ("a.csv", "user,variables\n", "has 0 requests; give 1 to"),
        ("a.jsonl", "[]\n", "request 1 is not as "),
        ("a.jsonl", '{"user": "ada", "variables": "A"}\nno\n', "request 2 is not as "),
        ("a.jsonl", '{"user": "ada", "variables": 3}\n', "request 1 is not as "),
    ],
)
def test_a_file_that_has_no_requests_is_refused(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        ServerSimulation.of(None, "myopic", str(tmp_path / name))


def test_a_file_that_never_ends_is_refused() -> None:
    with pytest.raises(InputError, match="/dev/zero has more than 67108864 characters; give 100000 requests at most"):
        ServerSimulation.of(None, "myopic", "/dev/zero")


def test_a_request_for_what_the_table_does_not_have_is_refused(czech: Table) -> None:
    with pytest.raises(ReleaseError, match="names the unknown variable 'Z'"):
        requests_of(ServerSimulation({"myopic": ()}, "listed", (("ada", "A*Z"),)), czech.schema)


def test_what_a_server_starts_with(czech: Table, tmp_path: Path) -> None:
    known = knows(czech, NOTHING)
    assert first_release("total", czech, known)[0] == Release.of([])
    assert first_release("one-way", czech, known)[0].sub_tables(czech.schema) == 6
    with pytest.raises(ConfigError, match="write 'one-way', 'total' or the folder of a finished run"):
        first_release(str(tmp_path), czech, known)


def test_a_server_starts_with_a_run_of_its_own_table_and_what_is_known_of_it(czech: Table, tmp_path: Path) -> None:
    found = find_release(czech, "ordered", min_width=6)
    for name in ("assessment", "search", "release"):
        (tmp_path / name).mkdir()
    write_search(found, czech.schema, tmp_path / "search")
    proof, known = found.evaluation.proof, knows(czech, NOTHING)
    certificate = Certificate(czech.digest, known, found.release, 2, 6, proof)
    write_certificate(certificate, czech.schema, tmp_path / "assessment")
    released, shown = first_release(str(tmp_path), czech, known)
    assert released == found.release
    assert shown is not None
    assert [part.variables for part in shown.parts] == [part.variables for part in proof.parts]
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    more = Table.of(czech.schema, czech.codes, czech.counts + 1)
    for table, public in ((czech, knows(czech, NOTHING, zeros)), (more, knows(more, NOTHING))):
        with pytest.raises(ConfigError, match="is the release of another table, or of one with other structural zeros"):
            first_release(str(tmp_path), table, public)


@pytest.mark.parametrize("option", ["streams", "users", "requests", "seed"])
def test_a_number_of_a_simulation_that_is_too_small_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=f"{option} = -1; give at least"):
        ServerSimulation.of(None, "myopic", "uniform", **{option: -1})
