"""The table of what may become of a request: all of it happens, and nothing else does."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from starlette.testclient import TestClient

from sdc.config.server import ServerConfig
from sdc.model.errors import ReleaseError
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.record.database import ChainUnavailableError
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Verdict
from sdc.server.service.decision import Decider, Decision
from sdc.server.service.history import Writing
from sdc.server.service.judge import Finding, Judge, one_way, surveyed
from sdc.server.service.outcome import (
    PROBLEMS,
    PUBLIC,
    PUBLIC_STATES,
    WHOLE,
    Decided,
    Request,
    RequestState,
    Transition,
)
from sdc.server.service.rules import MYOPIC, Past, rules_of
from sdc.server.service.service import Service
from sdc.server.service.workers import Worker
from tests.helpers.http import Server, server_of
from tests.helpers.services import CRITERIA, services_of
from tests.helpers.small_service import SmallService
from tests.helpers.streams import BruteForce
from tests.helpers.waiting import wait_until
from tests.strategies import knows

EVERYTHING = 0b111111
SIMULATABLE = {"rule": "simulatable", "draws": 8, "share": 0.9}


def test_users_hear_less_than_there_is() -> None:
    """Neither what is undecided nor what is held can be told from what is alike to users."""
    standing, outcomes = get_args(RequestState), {"pending"} | {transition.after for transition in Transition}
    assert set(PUBLIC_STATES) == {"pending", *get_args(standing[1])} == outcomes
    assert {told.decision for told in PUBLIC_STATES.values()} == set(get_args(Decided))
    assert PUBLIC_STATES["undecided"] == PUBLIC_STATES["refused"]
    assert PUBLIC_STATES["held"] == PUBLIC_STATES["pending"]
    by_code = {told.code: told for told in PUBLIC_STATES.values()}
    assert all(by_code[told.code] == told for told in PUBLIC_STATES.values())
    for told in PUBLIC_STATES.values():
        assert told.status == (202 if told.decision == "pending" else 200)
    assert {name for name, told in PUBLIC_STATES.items() if told.decision in PUBLIC} == set(PUBLIC)


class Sure(Judge):
    """Finds whatever it is told."""

    verdict: Verdict = Verdict.SAFE

    def ask(self, *_: Any) -> Finding:
        return Finding(self.verdict, (0, 9))


@pytest.mark.parametrize(
    ("transition", "rules", "asked", "verdict"),
    [
        (Transition.IS_PUBLIC, [], 0b1, None),
        (Transition.IS_KNOWN, [], EVERYTHING, None),
        (Transition.WAITS, [{"rule": "batch"}], 0b11, None),
        (Transition.OBJECTED, [{"rule": "one_step"}], 0b1111, None),
        (Transition.OBJECTED, [{"rule": "value", "least": 100.0}], 0b11, None),
        (Transition.SAFE, [], 0b11, None),
        (Transition.UNSAFE, [], 0b11, Verdict.UNSAFE),
        (Transition.UNPROVEN, [], 0b11, Verdict.UNDECIDED),
        (Transition.HELD, [SIMULATABLE], 0b11, Verdict.UNSAFE),
        (Transition.HELD, [SIMULATABLE], 0b11, Verdict.UNDECIDED),
    ],
)
def test_each_way_of_one_decision(
    transition: Transition, rules: list[dict[str, Any]], asked: SubTable, verdict: Verdict | None, czech: Table
) -> None:
    judge = (Judge if verdict is None else Sure)(czech, knows(czech, NOTHING), CRITERIA)
    state = State.first(czech.schema, one_way(czech.schema))
    if isinstance(judge, Sure) and verdict is not None:
        judge.verdict = verdict
    else:
        state = surveyed(judge, state)
    decider = Decider(judge, rules_of(ServerConfig.model_validate({"rules": rules}).rules))
    decision = decider.decide(state, Past(6), asked, "ada")
    assert (decision.transition, decision.outcome) == (transition, transition.after)
    assert decision.why.startswith(transition.why.partition("{")[0])
    assert "{" not in decision.why
    assert (decision.state.version > state.version) == (transition.after == "released")
    assert (decision.lasting(asked).state != decision.state) == (transition.after == "undecided")


class Scripted(Worker):
    """Does something else where it is asked for the first time what is in the script."""

    script: ClassVar[dict[str, Callable[..., Any]]] = {}

    def ask(self, method: Callable[..., Any], *args: Any) -> Future[Any]:
        own = self.script.pop(method.__name__, None)
        found = own(*args) if own else None
        return found if isinstance(found, Future) else super().ask(method, *args)


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> list[Transition]:
    """The ways of all that is decided."""
    found, decide = list[Transition](), Writing.decide

    def noted(self: Writing, decision: Decision, number: int, *args: Any) -> None:
        found.append(decision.transition)
        decide(self, decision, number, *args)

    monkeypatch.setattr(Writing, "decide", noted)
    return found


@pytest.fixture
def opened(czech: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    monkeypatch.setattr("tests.helpers.services.Worker", Scripted)
    monkeypatch.setattr(Scripted, "script", {})
    with services_of(czech, tmp_path) as opening:
        yield opening


def test_each_way_of_a_request_in_part(opened: Callable[..., Service], gone: list[Transition]) -> None:
    """Whole where that is safe; what nothing is found for at once is looked into, and then told."""
    service = opened()
    Scripted.script |= {"decide_in_part": not_in_part, "find_in_part": failing_later}
    asked = service.ask(EVERYTHING, "ada", in_part=True).result(600)
    assert asked.code in ("in-progress", PUBLIC_STATES[Transition.SAFE_IN_PART.after].code)
    wait_until(lambda: not service.log.projection.pending)
    assert (
        service.ask(EVERYTHING, "bob", in_part=True).result(600).code
        == PUBLIC_STATES[Transition.IS_PUBLIC_IN_PART.after].code
    )
    assert service.ask(0b11, "ada", in_part=True).result(600).message == WHOLE
    assert gone == [Transition.SAFE_IN_PART, Transition.IS_PUBLIC_IN_PART, Transition.SAFE]
    Scripted.script |= {"decide_in_part": never_in_part, "find_in_part": lambda *_: done("nothing was found")}
    assert service.ask(0b11111, "ada", in_part=True).result(600).decision in ("pending", "refused")
    wait_until(lambda: not service.log.projection.pending)
    assert gone[3:] == [Transition.NOT_IN_PART]
    last = service.requests()[0]
    assert (last.decision, last.code) == ("refused", PUBLIC_STATES[Transition.NOT_IN_PART.after].code)
    explained = service.explained(last.number)
    assert explained is not None
    assert explained.why == "it is released neither whole nor with suppressed cells: 3 small cells were not proven"


def done(found: Any) -> Future[Any]:
    future = Future[Any]()
    future.set_result(found)
    return future


def failing_later(*_: Any) -> Future[Any]:
    future = Future[Any]()
    future.set_exception(BrokenProcessPool())
    return future


def not_in_part(past: Past, subtable: SubTable, who: str, whole: Decision, *_: Any) -> Future[Decision]:
    return done(Decision(Transition.NOT_IN_PART, MYOPIC, whole.state, said="3 small cells were not proven"))


def never_in_part(*args: Any) -> Future[Decision]:
    Scripted.script["decide_in_part"] = never_in_part
    return not_in_part(*args)


def two_of_which_one_can_be_public(truth: BruteForce, schema: Schema) -> tuple[Release, SubTable, SubTable]:
    """After what is public by then; each is safe alone."""
    states = [one_way(schema)]
    for subtable in range(1, 64):
        if truth.is_safe(larger := states[-1].add(subtable)):
            states.append(larger)
    for public in reversed(states):  # the last have the fewest that are open
        safe = [t for t in range(64) if t not in public and truth.is_safe(public.add(t))]
        for two in combinations(safe, 2):
            if not truth.is_safe(public.join(Release.of(two))):
                return public, *two
    raise AssertionError("there are none")


def test_each_way_of_a_round(
    opened: Callable[..., Service], gone: list[Transition], czech: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, one, other = two_of_which_one_can_be_public(BruteForce(czech, CRITERIA), czech.schema)
    monkeypatch.setattr("tests.helpers.services.one_way", lambda schema: public)
    service = opened({"rule": "batch"})
    for subtable, who in ((one, "ada"), (one, "bob"), (other, "ada"), (EVERYTHING, "ada"), (0b1, "ada")):
        service.ask(subtable, who).result(600)
    assert gone == [Transition.WAITS, Transition.WAITS, Transition.WAITS, Transition.IS_KNOWN, Transition.IS_PUBLIC]
    assert [request.code for request in service.requests()[:1:-1]] == [PUBLIC_STATES["waiting"].code] * 3
    assert service.round().result(600) == 3
    of_round = gone[5:]
    assert of_round == [Transition.SAFE, Transition.ROUND_HAS_IT, Transition.ROUND_HAS_OTHERS]
    assert [r.code for r in service.requests()[:1:-1]] == [
        PUBLIC_STATES[transition.after].code for transition in of_round
    ]


def test_a_round_that_is_not_held(opened: Callable[..., Service]) -> None:
    service = opened({"rule": "batch"})
    assert service.ask(0b11, "ada").result(600).code == "next-round"
    Scripted.script["round"] = failing(BrokenProcessPool())
    with pytest.raises(ChainUnavailableError, match=r"the round was not held: .* has died; hold it again"):
        service.round().result(600)
    assert service.requests()[0].code == "next-round"
    assert service.round().result(600) == 1
    assert service.requests()[0].decision == "released"


def failing(error: Exception) -> Callable[..., Any]:
    def fails(*_: Any) -> Any:
        raise error

    return fails


def test_a_request_that_is_looked_into(opened: Callable[..., Service], gone: list[Transition]) -> None:
    """It is pending meanwhile, and then decided once, by what was found."""
    service = opened()

    def unproven(state: State, *_: Any) -> Future[Decision]:
        future = Future[Decision]()
        future.set_result(Decision(Transition.UNPROVEN, MYOPIC, state, Finding(Verdict.UNDECIDED, (0, 9))))
        return future

    Scripted.script["decide"] = unproven
    assert service.ask(0b11, "ada").result(600).code == "in-progress"
    wait_until(lambda: not service.log.projection.pending)
    assert gone == [Transition.SAFE]


def test_a_request_that_is_overtaken(opened: Callable[..., Service], gone: list[Transition]) -> None:
    """Something is released after it was begun and before it is stored: what was found is not, and found anew."""
    service = opened()

    def other(state: State, *_: Any) -> None:
        with service.log.turn() as turn:
            number = turn.append("request", "bob", "A*C", {"sub_table": ["A", "C"]}).seq
            asked = Request(number, number, "", "bob", 0b101, "pending", "", "", -1)
            turn.decide_from(state, Decision(Transition.SAFE, MYOPIC, state.releasing(0b101)), asked)

    Scripted.script["decide"] = other
    assert service.ask(0b11, "ada").result(600).decision == "released"
    assert gone == [Transition.SAFE, Transition.SAFE]
    assert [moment.version for moment in service.moments()] == [0, 1, 2]


class Broken(SmallService):
    def __init__(self, table: Table, criteria: Criteria) -> None:
        super().__init__(table, criteria)
        self.rules = (*self.rules, "simulatable")

    def statuses(self) -> Any:
        raise ReleaseError("there are too many")

    def round(self) -> Future[int]:
        raise ChainUnavailableError("it is away")


def counted(czech: Table) -> Broken:
    """With a variable that no table on a page can have."""
    names = ("count", *czech.schema.names[1:])
    variables = [Variable(n, v.categories) for n, v in zip(names, czech.schema.variables, strict=True)]
    return Broken(Table.of(Schema(tuple(variables)), czech.codes, czech.counts), Criteria.of(2, 6))


def form(client: TestClient, path: str, **data: Any) -> Any:
    page = client.get("/").text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    return client.post(path, data={"csrf": csrf, **data})


CASES: dict[str, Callable[[TestClient, TestClient], Any]] = {
    "unknown-path": lambda user, _: user.get("/api/nothing"),
    "not-allowed": lambda user, _: user.put("/api/requests"),
    "bad-host": lambda user, _: user.get("/livez", headers={"host": "elsewhere"}),
    "unauthorised": lambda user, _: user.get("/api/frontier", headers={"authorization": "Bearer x"}),
    "forbidden": lambda user, _: user.get("/api/operator/frontier"),
    "form-expired": lambda user, _: user.post("/logout", data={"csrf": "x"}),
    "too-many-requests": lambda user, _: [ask(user, "B") for _ in range(30)][-1],
    "bad-body": lambda user, _: user.get("/api/operator/effect", headers={"content-length": "x"}),
    "body-too-large": lambda user, _: user.post("/api/requests", content=b" " * 5000),
    "unsupported-media-type": lambda user, _: user.post("/api/requests", data={"variables": "B"}),
    "empty-request": lambda user, _: form(user, "/requests"),
    "repeated-variable": lambda user, _: ask(user, "B", "B"),
    "unknown-variable": lambda user, _: ask(user, "Z"),
    "not-possible": lambda user, _: user.post("/api/requests", json={"variables": ["B"], "in_part": True}),
    "refused": lambda _, operator: operator.get("/api/operator/statuses"),
    "not-released": lambda user, _: user.get("/api/tables/B*C*D*E*F.csv"),
    "unknown-request": lambda user, _: user.get("/jobs/99"),
    "unknown-version": lambda user, _: user.get("/api/frontier/matrix?version=99"),
    "unknown-key": lambda _, operator: operator.delete("/api/operator/keys/99"),
    "unknown-user": lambda _, operator: operator.post("/api/operator/keys", json={"user": "eve"}),
    "unknown-format": lambda user, _: user.get("/api/tables/B.xls"),
    "too-large": lambda user, _: ask(user, "count", *"BCDEF"),
    "unavailable": lambda _, operator: operator.post("/api/operator/round"),
}


def ask(client: TestClient, *names: str) -> Any:
    return client.post("/api/requests", json={"variables": names})


@pytest.fixture(scope="module")
def server(czech: Table) -> Server:
    """For tests that get nothing of it but what is public, each a minute after the one before."""
    return server_of(counted(czech), limits={"cells": 32, "body_bytes": 4096, "requests_a_minute": 20})


# a body that does not come: tests/system/server/test_connections.py
@pytest.mark.parametrize("code", [code for code in PROBLEMS if code != "request-timeout"])
def test_each_problem_has_its_status(code: str, server: Server) -> None:
    server.time += 60
    found = CASES[code](server.client(), server.client("operator"))
    assert found.status_code == PROBLEMS[code], found.text
    is_page = "html" in found.headers["content-type"]
    assert f"Code: <code>{code}</code>" in found.text if is_page else found.json()["code"] == code
    assert (found.headers.get("retry-after") is not None) == (code in ("too-many-requests", "unavailable"))
