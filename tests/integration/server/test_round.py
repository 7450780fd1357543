"""The flow that has a server hold a round: over HTTP, with an operator's key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from flows.request_round import KEY, request_round
from sdc.config.server import ServerConfig
from sdc.model.errors import ConfigError, SdcError
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from tests.helpers.http import Server
from tests.helpers.small_desk import SmallDesk
from tests.helpers.waiting import wait_until


@pytest.fixture
def served(czech: Table) -> Iterator[tuple[str, Server]]:
    server = Server(SmallDesk(czech, Criteria.of(2, 6)), ServerConfig())
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        running = uvicorn.Server(uvicorn.Config(server.app, log_level="critical"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: running.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
        running.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def test_a_round_is_held(served: tuple[str, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    url, server = served
    monkeypatch.setenv(KEY, server.key("operator"))
    assert request_round.fn(url) == {"decided": 0}
    monkeypatch.setenv(KEY, server.key("auditor"))
    with pytest.raises(SdcError, match="did not hold a round: this is for operators"):
        request_round.fn(url)


def test_what_a_round_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(ConfigError, match=r"SDC_SERVER_KEY is not set; give an operator's key"):
        request_round.fn("http://127.0.0.1:1")
    monkeypatch.setenv(KEY, "sdc_x")
    with pytest.raises(SdcError, match=r"did not hold a round: .*; see that it runs, then run again"):
        request_round.fn("http://127.0.0.1:1")
