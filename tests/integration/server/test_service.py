"""The service over a history: logged, decided, stored and then told; the same after every start."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sdc.events import PROBLEM, SERVER, EventText, heard
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.record.chain import Chain, Turn
from sdc.record.database import ChainError, ChainUnavailableError
from sdc.server.service.deciding import Deciding
from sdc.server.service.history import DECISION, REQUEST, HistoryProjection
from sdc.server.service.outcome import Transition
from sdc.server.service.prepare import is_prepared, prepare
from sdc.server.service.service import Service
from sdc.server.service.service import open_service as open_prepared
from sdc.server.service.workers import Worker
from sdc.stages.build import Build, open_build
from tests.helpers.builds import built, written
from tests.helpers.services import CRITERIA, czech_build, open_service, swept
from tests.helpers.streams import BruteForce, stream
from tests.helpers.waiting import at_once, wait_until
from tests.profiles import scaled

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Open = Callable[..., Service]


@pytest.fixture(scope="module")
def truth(czech: Table) -> BruteForce:
    return BruteForce(czech, CRITERIA)


@pytest.fixture
def opened(czech: Table, tmp_path: Path) -> Iterator[Open]:
    """Opens a service on one history; what is open is closed in the end."""
    services = list[Service]()

    def opening(rules: list[dict[str, Any]] | None = None, slot: float = 0.0, url: str | None = None) -> Service:
        services.append(open_service(czech, tmp_path, url, rules or [], slot))
        return services[-1]

    yield opening
    for service in services:
        service.close()


def test_a_stream_of_requests(opened: Open, truth: BruteForce) -> None:
    service, length = opened(), scaled(80, fewest=40)
    for subtable, who in stream(1, 6, length):
        public = service.state
        reply = service.ask(subtable, who).result(600)
        if subtable in public.released:
            assert (reply.decision, reply.code) == ("answered", "already-released")
        else:
            is_safe = truth.is_safe(public.released.add(subtable))
            assert reply.decision == ("released" if is_safe else "refused")
        assert set(service.state.unreleasable) == truth.unreleasable_frontier(service.state.released)
        assert service.reply_to(service.requests()[0].own, who) == reply
        assert service.reply_to(service.requests()[0].own, "somebody else") is None
    assert len(service.requests()) == length
    assert truth.is_safe(service.state.released)


def test_nobody_is_told_that_it_listens_before_its_kernels_are_there(czech: Table, tmp_path: Path) -> None:
    """A worker that dies of it holds up nobody: what it is asked about tells."""
    warms = list[Future[bool]]()
    both = threading.Semaphore(0)

    class Slow(Worker):
        def warm(self, public: Release) -> Future[bool]:
            warms.append(Future())
            both.release()
            return warms[-1]

    opened = list[Service]()
    opening = threading.Thread(target=lambda: opened.append(open_service(czech, tmp_path, worker=Slow)))
    opening.start()
    assert both.acquire(timeout=60)
    assert both.acquire(timeout=60)
    warms[0].set_result(True)
    assert not opened
    warms[1].set_exception(BrokenProcessPool("killed"))
    opening.join(600)
    assert not opening.is_alive()
    with closing(opened[0]) as service:
        assert service.ask(0b11, "ann").result(600).decision == "released"


def test_the_same_after_a_new_start(opened: Open) -> None:
    service = opened()
    for subtable, who in stream(2, 6, scaled(40, fewest=20)):
        service.ask(subtable, who).result(600)
    before = service.state, service.requests(), service.moments(), service.public_id
    service.close()
    again = opened()
    assert (again.state, again.requests(), again.moments(), again.public_id) == before


def test_many_clients_at_once(opened: Open, truth: BruteForce) -> None:
    service, replies, length = opened(), list[str](), scaled(50, fewest=25)

    def ask(seed: int) -> None:
        for subtable, who in stream(seed, 6, length):
            replies.append(service.ask(subtable, who).result(600).decision)

    at_once(ask, range(8))
    assert len(replies) == len(service.requests()) == 8 * length
    assert not service.log.projection.pending
    assert truth.is_safe(service.state.released)
    versions = [moment.version for moment in service.moments()]
    assert versions == list(range(len(versions)))


def test_a_decision_is_told_in_its_slot(opened: Open) -> None:
    """Whatever it is: the future of a request that is not public already is set by the clock of its slot."""
    service = opened(slot=0.3)
    future = service.ask(0b11, "ada")
    assert not future.done()
    assert future.result(600).decision in ("released", "pending")  # by how fast this machine is
    wait_until(lambda: service.ask(0b11, "ada").result(600).decision == "answered")


class Unwilling(Worker):
    """Does not decide on some sub-tables while it is told so."""

    faults: ClassVar[dict[SubTable, Exception]] = {}

    def ask(self, method: Callable[..., Any], *args: Any) -> Future[Any]:
        if method.__name__ == "decide" and args[2] in self.faults:
            raise self.faults[args[2]]
        return super().ask(method, *args)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (BrokenProcessPool("with a count of 1"), "a process that decides has died"),
        (ChainUnavailableError("at postgresql://user@host"), "the history cannot be read or written"),
        (MemoryError("with a count of 1"), "a request cannot be decided"),
    ],
)
def test_what_cannot_be_decided_waits_and_nobody_with_it(
    fault: Exception, told: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.helpers.services.Worker", Unwilling)
    monkeypatch.setattr("sdc.server.service.deciding.AGAIN", 0.01)
    monkeypatch.setattr(Unwilling, "faults", {0b11: fault})
    service, said = opened(), list[str]()
    with heard(EventText(said.append, PROBLEM), SERVER):
        waiting = service.ask(0b11, "ada").result(600)
        assert (waiting.decision, waiting.code) == ("pending", "in-progress")
        wait_until(lambda: service.health()["status"] == told)
        assert service.ask(0b101, "ada").result(600).decision == "released"
        Unwilling.faults.clear()
        wait_until(lambda: not service.log.projection.pending and service.health()["status"] == "ok")
    assert (said[0], said[-1]) == (told, "it is well again")
    assert {*said} == {told, "it is well again"}, "nothing of the error itself"
    assert waiting.job is not None
    reply = service.reply_to(waiting.job, "ada")
    assert reply is not None
    assert reply.decision == "released"


def test_a_commit_whose_answer_was_lost(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked is told nothing, and the request, which is stored, is decided once."""
    service, turn = opened(), Chain.turn
    lost = [REQUEST, DECISION]  # the first of each kind

    @contextmanager
    def unheard(self: Chain) -> Iterator[Turn]:
        before = self.head()
        with turn(self) as found:
            yield found
        for entry in self.entries(before):
            if entry.kind in lost:
                lost.remove(entry.kind)
                raise ChainUnavailableError("the answer was lost")

    monkeypatch.setattr(Chain, "turn", unheard)
    with pytest.raises(ChainUnavailableError, match="the answer was lost"):
        service.ask(0b11, "ada").result(600)
    wait_until(lambda: bool(service.requests()) and not service.log.projection.pending)
    assert not lost
    assert [request.decision for request in service.requests()] == ["released"]
    assert len(service.log.history.entries(kinds=[DECISION])) == 1


def test_what_was_left_behind_is_decided_under_load(opened: Open) -> None:
    """A request whose server has died, while this one never rests."""
    service = opened()
    service.log.store(REQUEST, "bob", "A*B", {"sub_table": ["A", "B"]})
    wait_until(lambda: bool(service.ask(0b111111, "ada").result(600)) and not service.log.projection.pending)
    reply = service.reply_to(1, "bob")
    assert reply is not None
    assert reply.decision == "released"


def test_who_asks_a_server_that_ends_is_told_so(opened: Open) -> None:
    service = opened()
    service.close()
    with pytest.raises(ChainUnavailableError, match="this server ends"):
        service.ask(0b11, "ada").result(600)
    with pytest.raises(ChainUnavailableError, match="this server ends"):
        service.round().result(600)


def test_who_asks_while_a_server_ends_gets_an_answer(opened: Open) -> None:
    """Logged or not: no request waits for ever, and neither does a round."""
    service = opened(slot=30.0)
    asked = [*(service.ask(0b11, "ada") for _ in range(100)), service.round()]
    service.close()
    assert all(future.exception(0) is None or "this server ends" in str(future.exception(0)) for future in asked)


def test_nobody_waits_for_a_loop_that_has_failed(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(slot=30.0)
    monkeypatch.setattr(Deciding, "_take", None)
    for _ in range(2):
        with pytest.raises(ChainUnavailableError, match="this server ends"):
            service.ask(0b11, "ada").result(60)
    assert service.health()["status"] == "a request cannot be decided"


@pytest.mark.parametrize(
    ("rule", "released", "said"),
    [
        ("one_step", ["A"], "it must follow a public table of one variable fewer, and there was none when this was"),
        ("one_step", ["A", "C*D"], None),  # as an earlier version called what is one_step_frontier now
        ("one_step_frontier", ["A", "B"], "it must follow a table of one variable fewer on the released frontier, or"),
    ],
)
def test_a_refusal_says_no_rule_that_did_not_refuse(
    rule: str, released: list[str], said: str | None, czech: Table, sqlite_url: str
) -> None:
    projection = projection_of(sqlite_url, czech, released, rule)
    (request,) = projection.requests.values()
    assert request.decision == "refused"
    assert request.message.startswith("This table is not released: " + said if said else "This table is not released.")
    assert request.message.endswith("decided.") is (said is not None)


def test_a_history_goes_on_with_no_first_release_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`server.start` may change by its name, or by the run at its place; a relative one is beside its config."""
    rows = "".join(f"a{a},b{b},{4 + a + 3 * b}\n" for a in range(3) for b in range(3))
    (tmp_path / "t.csv").write_text(f"A,B,count\n{rows}a3,b0,1\na3,b1,9\n")
    shared: dict[str, Any] = {"table": {"path": "t.csv"}, "risk": {"min_width": 2, "small_count": 1}}
    for name in "AB":
        run = built(written(tmp_path, name, release={"require": [name], "required_only": True}, **shared))
        shutil.copytree(run.folder.path, tmp_path / "kept" / name)

    def begun(start: str, name: str = "server") -> list[str]:
        build = open_build(written(tmp_path, name, server={"slot": 0, "start": start}, **shared))
        swept(build)
        if not is_prepared(build):
            prepare(build)
        with open_prepared(build) as service:
            return [st.label(view, service.schema) for view in service.state.released.frontier]

    monkeypatch.chdir(tmp_path.parent)
    assert begun("kept/A") == ["A"]
    assert begun("total") == ["A"]  # it knows more
    monkeypatch.chdir(tmp_path / "kept")
    assert begun("B", "here") == ["B"]  # as until now, where the config's folder has none
    said = r"began with another first release, and what it released was judged without B, which server\.start has"
    with pytest.raises(ChainError, match=said) as refused:
        begun("kept/B")
    shutil.rmtree(tmp_path / "kept" / "A")
    assert begun("one-way", "another") == ["A", "B"]
    shutil.copytree(tmp_path / "kept" / "B", tmp_path / "kept" / "A")
    with pytest.raises(ChainError, match=said):
        begun("kept/A")
    assert refused.tb  # the first refusal, kept until here, holds no history


def test_a_history_of_rules_of_a_newer_version_is_refused(czech: Table, tmp_path: Path) -> None:
    said = r"entry 4 of the history names the rule 'two_step', which this version of sdc does not know; use the version"
    with pytest.raises(ChainError, match=said):
        projection_of(str(tmp_path / "decided.db"), czech, ["A"], "two_step")
    with pytest.raises(ChainError, match=said.replace("4", "5")):
        projection_of(str(tmp_path / "started.db"), czech, ["A"], "one_step", "two_step")


def test_a_history_names_a_rule_as_an_earlier_version_did(czech: Table, tmp_path: Path) -> None:
    projection = projection_of(str(tmp_path / "older.db"), czech, ["A"], "biased", "one_step")
    assert projection.rules == {"limit_unreleasable", "one_step"}


def projection_of(url: str, table: Table, released: list[str], *rules: str) -> HistoryProjection:
    """Of a history with a request for C*D*E that the first rule refuses, and a server that has all of them."""
    named = [label.split("*") for label in released]
    with closing(Chain.open(url, {})) as history:
        with history.turn() as turn:
            turn.append("frontier", "", "", {"version": 0, "released": named, "unreleasable": [], "undecided": []})
            number = turn.append("request", "ada", "C*D*E", {"sub_table": [*"CDE"]}).seq
            turn.append(
                "decision", "", "C*D*E", {"request": number, "outcome": "refused", "rule": rules[0], "version": 0}
            )
            turn.append("started", "", "", {"rules": [{"rule": rule} for rule in rules]})
        projection = HistoryProjection(table.schema, table.total)
        for entry in history.entries():
            projection.apply(entry)
        return projection


def test_a_server_has_the_labels_of_its_config_and_needs_nothing_prepared_for_them(tmp_path: Path) -> None:
    def build(labels: dict[str, Any]) -> Build:
        return czech_build(tmp_path, labels={"variables": labels})

    swept(build({}))
    prepare(build({}))
    with open_prepared(build({"A": {"label": "Smokes"}})) as service:
        assert service.texts.labels.variable("A") == "Smokes"
    with (
        pytest.raises(ConfigError, match=r"labels: .* of the category 'maybe', and variable 'A' has none"),
        open_prepared(build({"A": {"categories": {"maybe": "perhaps"}}})),
    ):
        pass


def test_an_operator_sees_the_cell_of_what_was_known_before(
    czech: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal looks at nothing, so the history has no cell; it is found when somebody asks for it."""
    service = open_service(czech, tmp_path)
    try:
        assert service.ask(0b111111, "ada").result(600).decision == "refused"
        (request,) = service.requests()
        before, found = service.explained(request.number), service.explained(request.number, finds=True)
        for other in (0b1, 0b111111, 0b110011):
            service.ask(other, "bob").result(600)
        alone, read, looks = [service.explained(r.number) for r in service.requests()], service.log.history.entries, []
        monkeypatch.setattr(
            service.log.history, "entries", lambda after, **how: looks.append(how) or read(after, **how)
        )
        assert service.all_explained(9) == alone
        assert [how["kinds"] for how in looks if how] == [[DECISION]]
        service.schema = Schema(tuple(Variable(f"V{k}", ("yes",)) for k in range(21)))
        with pytest.raises(ReleaseError, match="has 21 variables, effects are shown of at most 20; look"):
            service.effect(0b11)
        with pytest.raises(ReleaseError, match="the status of every sub-table is shown of at most 14"):
            service.statuses()
    finally:
        service.close()
    assert before is not None
    assert found is not None
    assert before.why == found.why == Transition.IS_KNOWN.why
    assert (before.witness, before.verdict) == (None, None)
    assert found.verdict == "unsafe"
    assert found.witness is not None
    assert set(found.witness["cell"]) == set(czech.schema.names)
    assert found.witness["count"] <= 2
    assert found.min_width is not None
    assert found.min_width[1] < 6
