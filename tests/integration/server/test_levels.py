"""A desk of a table whose axes have levels: what is public is closed and safe, by a judge that knows no server."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.errors import ConfigError
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.state import State, Status, sub_tables
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.risk.criteria import Criteria
from sdc.server.service.audit import Standard, audit
from sdc.server.service.decision import Decider
from sdc.server.service.history import HistoryProjection, levels_of, schema_in
from sdc.server.service.judge import Judge, effect_of, one_way, surveyed
from sdc.server.service.rules import STEPS, Rule, rules_of
from sdc.server.simulation.replay import recorded
from sdc.server.simulation.run import rule_sets_of
from sdc.server.simulation.simulation import Kind, Queries, simulate_stream
from sdc.utility.measures import Weights
from tests import levels
from tests.helpers import services
from tests.helpers.http import Server, server_of
from tests.helpers.small_service import SmallService
from tests.strategies import knows

SCHEMA = Schema(
    (
        Variable("region", ("north", "south"), Coarser("area", (0, 0, 1, 1))),
        Variable("sex", ("f", "m")),
        Variable("area", ("a", "b", "c", "d")),
        Variable("coast", ("sea", "inland"), Coarser("area", (0, 1, 1, 1))),
        Variable("county", ("x", "y", "z"), Coarser("area", (0, 1, 2, 2))),
        Variable("job", ("no", "yes")),
    )
)
"""County tells region and coast, which overlap: it is what both tell together."""
EVERY = frozenset(levels.closed_sets(SCHEMA))
CRITERIA = Criteria.of(1, 2)
RULES = ("myopic", "one_step", "one_step_frontier", "batch")


def named(label: str) -> int:
    return st.parse(label, SCHEMA)


def rules(name: str) -> tuple[Rule, ...]:
    return rules_of(rule_sets_of(name, None)[name])


def table_of(seed: int, records: int = 9) -> Table:
    rng = np.random.default_rng(seed)
    sizes = [len(SCHEMA.variables[axis].categories) for axis in SCHEMA.axes]
    return Table.of(SCHEMA, np.stack([rng.integers(0, size, records) for size in sizes], axis=1))


class Truth:
    """Safe or not, by all tables that agree with what is public."""

    def __init__(self, table: Table) -> None:
        small = np.array(list(levels.counts_of(table).values())) == CRITERIA.small_count

        @cache
        def is_safe(release: Release) -> bool:
            tables = levels.agreeing(table, release.frontier)[:, small]
            return bool((tables.max(axis=0) - tables.min(axis=0) >= CRITERIA.width.min_width).all())

        self.is_safe = is_safe

    def unreleasable(self, released: Release) -> set[int]:
        """The minimal ones."""
        unsafe = [t for t in EVERY if t not in released and not self.is_safe(released.add(t))]
        return {t for t in unsafe if not any(s != t and s & ~t == 0 for s in unsafe)}

    def check(self, state: State) -> None:
        """Of what is public and of what cannot be, with the status of each number."""
        assert EVERY.issuperset(state.released.frontier)
        assert self.is_safe(state.released)
        assert set(state.unreleasable) == self.unreleasable(state.released)
        numbers = range(1 << len(SCHEMA))
        assert state.statuses.tolist() == [state.status(t) if t in EVERY else 0 for t in numbers]


@pytest.fixture(scope="module")
def desks() -> list[tuple[Judge, State, Truth]]:
    """Of tables whose one-way sub-tables are safe."""
    found = list[tuple[Judge, State, Truth]]()
    for seed in range(100):
        table = table_of(seed)
        judge, truth = Judge(table, knows(table, NOTHING), CRITERIA), Truth(table)
        if truth.is_safe(one_way(SCHEMA)):
            found.append((judge, surveyed(judge, State.first(SCHEMA, one_way(SCHEMA))), truth))
        if len(found) == 5:
            return found
    raise AssertionError("too few tables have at-risk cells that may move")


def test_every_number_that_is_a_sub_table_is_closed() -> None:
    assert set(sub_tables(SCHEMA).tolist()) == EVERY
    assert len(EVERY) == 5 * 2 * 2


@pytest.mark.parametrize("name", RULES)
def test_what_is_public_is_closed_and_safe_and_the_rest_of_what_cannot_be_is_known(
    name: str, desks: list[tuple[Judge, State, Truth]]
) -> None:
    outcomes = Counter[str]()
    for number, (judge, first, truth) in enumerate(desks):
        seen, asked = [first], np.random.default_rng(number).choice(sorted(EVERY), 30).tolist()

        def asks(k: int, state: State, seen: list[State] = seen, asked: list[int] = asked) -> tuple[int, str]:
            seen.append(state)
            return asked[k], f"user {k % 3}"

        found = simulate_stream(Decider(judge.anew(), rules(name)), first, asks, len(asked))
        for state in seen:
            truth.check(state)
        assert found.released[-1] == sum(t in Release.of(found.frontier) for t in EVERY) - 1
        assert truth.is_safe(Release.of(found.frontier))
        outcomes.update(f"{outcome} by {rule}" for outcome, rule in zip(found.outcomes, found.rules, strict=True))
    least = {"myopic": 3, "one_step": 3, "one_step_frontier": 3, "batch": 2}[name]
    assert len(outcomes) >= least, outcomes


def test_what_critical_widths_show_first_is_all_that_there_is(desks: list[tuple[Judge, State, Truth]]) -> None:
    for judge, first, truth in desks:
        shown = judge.first_unreleasable(first.released)
        assert set(shown) <= EVERY
        assert all(not truth.is_safe(first.released.add(t)) for t in shown)
        assert set(shown) == truth.unreleasable(first.released)


def test_an_effect_counts_sub_tables_and_no_other_numbers(desks: list[tuple[Judge, State, Truth]]) -> None:
    for judge, first, _ in desks:
        for asked in np.flatnonzero(first.statuses == Status.OPEN).tolist():
            effect = effect_of(judge.anew(), first, asked)
            assert set(effect.released) == {t for t in EVERY if t & ~asked == 0 and t not in first.released}
            assert EVERY.issuperset(effect.unreleasable)
            assert effect.newly[0] == len(effect.released)


def test_steps_go_to_the_next_finer_level() -> None:
    released = Release.of([named("region*sex"), named("job")])
    for asked, allowed in {
        "county": (True, False),  # region is public, and not on the frontier; coast is not public
        "coast": (True, True),  # the total is public
        "county*sex": (True, True),  # region*sex is on the frontier
        "coast*sex": (True, False),
        "area*sex": (False, False),  # neither county*sex nor area
        "area": (False, False),
        "region*job": (True, True),
        "area*sex*job": (False, False),
    }.items():
        steps = (STEPS[name].allows(released, named(asked), SCHEMA) for name in ("one_step", "one_step_frontier"))
        assert tuple(steps) == allowed, asked


@pytest.mark.parametrize("name", STEPS)
def test_a_step_allows_a_part_of_whatever_is_not_public(name: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        released = Release.of(rng.choice(sorted(EVERY), rng.integers(0, 5)).tolist())
        allowed = {t for t in EVERY if t not in released and STEPS[name].allows(released, t, SCHEMA)}
        assert all(any(t & ~asked == 0 for t in allowed) for asked in EVERY if asked not in released)


def test_tables_with_levels_are_not_drawn(desks: list[tuple[Judge, State, Truth]]) -> None:
    with pytest.raises(ConfigError, match="hierarchies"):
        Decider(desks[0][0], rules("simulatable"))


@pytest.mark.parametrize("kind", ["uniform", "popular", "greedy-user"])
def test_streams_ask_for_sub_tables(kind: Kind) -> None:
    weights = Weights.of(SCHEMA, {"region": 50.0}, {"area*sex*job": 2000.0})
    asks = Queries(kind, 3, 300, weights).asks(SCHEMA, 1, 2)
    asked = Counter(asks(k, State.first(SCHEMA, one_way(SCHEMA)))[0] for k in range(300))
    assert EVERY.issuperset(asked)
    assert 0 not in asked
    if kind == "popular":
        # what region is worth counts where it is the finest level alone
        assert asked[named("region*sex")] > 5 * max(1, asked[named("county*sex")])
        assert asked[named("area*sex*job")] > 30


# The service and its history


def is_told(names: list[str]) -> bool:
    """Whether a sub-table is named by what tells it: without any of the names it is another."""
    whole = levels.closure(SCHEMA, levels.bits(map(SCHEMA.names.index, names)))
    return all(
        levels.closure(SCHEMA, levels.bits(SCHEMA.names.index(other) for other in names if other != name)) != whole
        for name in names
    )


def sub_tables_in(body: Any) -> Iterator[list[str]]:
    """Every list of names in the body of an entry."""
    for key, value in body.items():
        if key == "sub_table":
            yield value
        elif key.split("_")[0] in ("released", "unreleasable", "undecided"):
            yield from value


@pytest.mark.parametrize("name", RULES)
def test_a_service_names_what_tells_and_its_history_is_audited(name: str, tmp_path: Path) -> None:
    table = table_of(SEED)
    truth, chosen = Truth(table), [] if name == "myopic" else [{"rule": name}]
    standard = Standard(table, knows(table, NOTHING), CRITERIA, "a test")
    service = services.open_service(table, tmp_path, rules=chosen, standard=standard)
    asked = np.random.default_rng(1).integers(1, 1 << len(SCHEMA), 25).tolist()
    with closing(service):
        for number in asked:  # closed or not
            reply = service.ask(number, "ada").result(600)
            assert reply.sub_table == levels.closure(SCHEMA, number)
            assert EVERY.issuperset(reply.projection)
        service.round().result(600)
        truth.check(service.state)
        state, entries = service.state, service.log.history.entries()
        for number in asked:
            marginal = service.marginal(levels.closure(SCHEMA, number))
            assert marginal is None or len(marginal) == len(
                {levels.categories(SCHEMA, levels.members(number), cell) for cell in table.codes.tolist()}
            )
    for entry in entries:
        if entry.kind in ("request", "decision", "frontier"):
            assert all(map(is_told, sub_tables_in(entry.body))), entry
            assert entry.subject in ("", "(total)") or is_told(entry.subject.split("*"))
    again = HistoryProjection(SCHEMA, table.total)
    for entry in entries:
        again.apply(entry)
    assert again.state == state
    assert recorded(entries, table).states[-1].released == state.released
    with closing(Chain.read(str(tmp_path / "history.db"))) as history:
        found = audit(history, standard)
        assert (found.verified, found.failures, found.released) == (True, (), state.released)
        # who has no table takes levels from the history
        alone = audit(history)
        assert (alone.verified, alone.failures, alone.released) == (None, (), state.released)
        assert alone.variables == SCHEMA.names


SEED = next(
    seed for seed in range(100) if (table_of(seed).counts == 1).any() and Truth(table_of(seed)).is_safe(one_way(SCHEMA))
)


def test_levels_are_told_as_they_are() -> None:
    told = schema_in(json.loads(json.dumps({"variables": list(SCHEMA.names), **levels_of(SCHEMA)})))
    assert told is not None
    assert (told.names, told.axes, told.levels.coarser) == (SCHEMA.names, SCHEMA.axes, SCHEMA.levels.coarser)
    assert [told.levels.closed(t) for t in range(64)] == [SCHEMA.levels.closed(t) for t in range(64)]
    assert (levels_of(SCHEMA.flat), schema_in({"variables": list(SCHEMA.names)})) == ({}, None)


@pytest.mark.parametrize(
    "told",
    [
        {"levels": 3, "variables": ["area"]},
        {"levels": {"region": {"of": "area"}}, "variables": ["area", "region"]},
        {"levels": {"region": {"of": "area", "groups": []}}, "variables": ["area", "region"]},
        {"levels": {"region": {"of": "area", "groups": ["a"]}}, "variables": ["area", "region"]},
        {"levels": {"region": {"of": "area", "groups": [0, 1]}}},
        {"levels": {"region": {"of": "none", "groups": [0, 1]}}, "variables": ["area", "region"]},
    ],
)
def test_levels_that_no_server_told_are_named(told: dict[str, Any], tmp_path: Path) -> None:
    with closing(Chain.open(str(tmp_path / "history.db"), {"table": "", **told})) as history:
        assert audit(history).failures == ("entry 1 does not say its levels as a server writes them",)


def test_a_refusal_by_a_step_is_held_against_the_levels(tmp_path: Path) -> None:
    about = {"table": "", "variables": list(SCHEMA.names), **levels_of(SCHEMA)}
    with closing(Chain.open(str(tmp_path / "history.db"), about)) as history:
        with history.turn() as turn:
            turn.append("frontier", "", "", {"version": 0, "released": [["region", "sex"]], "unreleasable": []})
            for label in ("sex*county", "sex*area"):
                body = {"sub_table": label.split("*"), "outcome": "refused", "rule": "one_step", "version": 0}
                turn.append("decision", "", label, body)
            body = {"sub_table": ["region"], "outcome": "answered", "rule": "myopic", "version": 0}
            turn.append("decision", "", "region", body)
            turn.append("decision", "", "coast", {**body, "sub_table": ["coast"]})
        assert audit(history).failures == (
            "entry 3 refuses sex*county by the rule one_step, which had nothing against it",
            "entry 6 answers coast, which was not public",
        )


# Pages and the API


@pytest.fixture(scope="module")
def opened() -> SmallService:
    """With a request that was released, and one that was refused."""
    desk = SmallService(table_of(SEED), CRITERIA)
    for t in sorted(EVERY, key=lambda t: -st.dimension(t)):
        desk.ask(t, "user")
    assert {request.decision for request in desk.requests()} >= {"released", "refused"}
    return desk


@pytest.fixture
def server(opened: SmallService) -> Server:
    return server_of(opened.copy(), publish_unreleasable=True)


def test_the_api_names_what_tells(server: Server) -> None:
    user, operator = server.client(), server.client("operator")
    variables = {v["name"]: v for v in user.get("/api/variables").json()["variables"]}
    assert {name: v.get("tells") for name, v in variables.items()} == {
        "region": None,
        "sex": None,
        "area": ["region", "coast", "county"],
        "coast": None,
        "county": ["region", "coast"],
        "job": None,
    }
    for found in (user.get("/api/frontier").json(), operator.get("/api/operator/frontier").json()):
        assert all(map(is_told, sub_tables_in(found)))
        assert any("area" in names for names in found["released"])
    same = [user.post("/api/requests", json={"variables": names}).json() for names in (["area"], ["area", "region"])]
    assert [one["table"] for one in same] == ["/api/tables/area"] * 2
    statuses = operator.get("/api/operator/statuses").content
    assert [t for t, status in enumerate(statuses) if status] == sorted(EVERY)
    # closed sets have an X for each variable that they tell
    matrix = operator.get("/api/operator/frontier/matrix").json()
    area = SCHEMA.names.index("area")
    rows = [row for row in matrix["released"] if row[area] == "X"]
    assert rows
    assert all(row[SCHEMA.names.index(name)] == "X" for row in rows for name in ("region", "coast", "county"))
    for row in (*matrix["released"], *matrix["unreleasable"]):
        assert sum(1 << v for v, mark in enumerate(row) if mark == "X") in EVERY


@pytest.mark.parametrize("totals", [False, True])
def test_a_table_has_the_variables_that_tell(totals: bool, server: Server) -> None:
    found = server.client().get(f"/api/tables/region*area.csv?totals={str(totals).lower()}")
    rows = list(csv.reader(io.StringIO(found.text)))
    table = table_of(SEED).marginal(named("area"))
    assert found.status_code == 200
    assert found.headers["content-disposition"] == 'attachment; filename="area.csv"'
    assert rows[0] == ["area", "count"]
    assert len(rows) == 1 + len(table) + totals
    assert sum(int(count) for area, count in rows[1:] if area != "(total)") == 9
