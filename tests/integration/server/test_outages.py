"""A history that is away while the server answers: 503 until it is back, and then the state of before."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from sdc.model.table import Table
from sdc.record import database
from sdc.record.database import ChainError
from sdc.server.service.service import Service
from sdc.server.web.access import KINDS
from tests.helpers.http import NOW, Server, server_of
from tests.helpers.services import open_service
from tests.integration.record.test_chain import disarm, execute

Outage = Callable[[], AbstractContextManager[None]]


@pytest.fixture(params=["moved", "locked"])
def outage(request: pytest.FixtureRequest, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Outage]:
    """The URL of a new history, and what takes it away for a while."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    taking = {"moved": moved, "locked": locked}[request.param]
    return sqlite_url, lambda: taking(Path(sqlite_url))


@contextmanager
def moved(path: Path) -> Iterator[None]:
    path.rename(path.with_suffix(".away"))
    yield
    path.with_suffix(".away").rename(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def ask(client: TestClient, *names: str) -> Any:
    return client.post("/api/requests", json={"variables": names})


def served(service: Service) -> Server:
    """Over HTTP, with the keys in the history."""
    server = server_of(service)
    server.access.store = service.log.store
    for entry in service.log.history.entries(kinds=KINDS):
        server.access.apply(entry.kind, entry.body)
    return server


def test_while_the_history_is_away_nothing_is_told(outage: tuple[str, Outage], czech: Table, tmp_path: Path) -> None:
    url, away = outage
    service = open_service(czech, tmp_path, url)
    try:
        server = served(service)
        client, operator = server.client("user"), server.client("operator")
        key = operator.headers["authorization"].split("_")[1]
        assert ask(client, "A", "B").json()["decision"] == "released"
        before, requests = service.state, client.get("/api/requests").json()
        with away():
            told = [ask(client, "C", "D"), ask(client, "A", "B")]
            told += [operator.post("/api/operator/keys", json={"user": "auditor"})]
            told += [operator.delete(f"/api/operator/keys/{key}")]
            for response in told:
                assert (response.status_code, response.headers["retry-after"]) == (503, "5")
                assert set(response.json()) == {"code", "message"}
                assert str(tmp_path) not in response.text
                assert "postgres" not in response.text
            assert client.get("/api/tables/A*B.csv").status_code == 200, "what is released stays so"
            assert client.get("/api/tables/C*D.csv").status_code in (404, 503)
            assert client.get("/api/frontier").json()["version"] == 1
        assert service.state == before
        assert operator.get("/api/operator/frontier").status_code == 200, "the key was not revoked"
        assert client.get("/api/requests").json() == requests
        assert ask(client, "C", "D").json()["decision"] == "released"
        after = service.state, service.requests()
    finally:
        service.close()
    again = open_service(czech, tmp_path, url)
    try:
        assert (again.state, again.requests()) == after
        assert "auditor" in served(again).access.without_key(NOW)
        assert client.get("/api/tables/C*D.csv").status_code == 200
    finally:
        again.close()


@pytest.mark.parametrize("forget", [False, True])
def test_a_history_that_was_changed_is_seen_while_it_is_served_and_at_the_next_start(
    forget: bool, czech: Table, tmp_path: Path
) -> None:
    """An entry changed beneath the server, or the last ones gone as after a backup: nothing is decided any more."""
    url = str(tmp_path / "history.db")
    service = open_service(czech, tmp_path)
    try:
        client, operator = served(service).client("user"), served(service).client("operator")
        assert ask(client, "A", "B").json()["decision"] == "released"
        assert client.get("/api/health").json()["status"] == "ok"
        last = service.log.projection.seq
        disarm(url)
        change = "DELETE FROM entries" if forget else "UPDATE entries SET who = 'eve', hash = '0'"
        execute(url, f"{change} WHERE seq >= {last - 1}")
        assert client.get("/readyz").status_code == 503
        assert operator.get("/api/health").json()["status"] == "the history is not as it was"
        assert operator.get("/livez").json() == {"alive": True}
        assert ask(client, "C", "D").status_code == 503
        assert "sdc_ready 0.0" in operator.get("/metrics").text
    finally:
        service.close()
    if not forget:
        with pytest.raises(ChainError, match=rf"the history is not as it was written: entry {last - 1} was changed"):
            open_service(czech, tmp_path)
