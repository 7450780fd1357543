"""A server that listens: the command from its start to its end, and what it does not begin."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from sdc.events import read_events
from sdc.model.errors import ConfigError
from sdc.server.web import listening
from sdc.server.web.listening import listen, serve
from sdc.stages.build import open_build
from tests.conftest import CZECH_CSV, CZECH_YAML
from tests.helpers.http import SECONDS_TO_ASK
from tests.helpers.prefect_home import made_home
from tests.helpers.serving import prepare
from tests.helpers.waiting import line_of, wait_until

REQUEST = {"variables": ["A", "B"]}


async def nothing(*_: Any) -> None:
    """An application that is never asked."""


def no_url(url: str) -> None:
    raise AssertionError(f"it listens at {url}")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "tables.example", ""])
def test_others_cannot_reach_it(host: str) -> None:
    with pytest.raises(ConfigError, match=f"--host {host}: a server listens on this machine alone"):
        serve(nothing, host, 0, no_url)


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"--port {port}: it cannot be listened on \(.*\); choose another, or 0"):
            serve(nothing, "127.0.0.1", port, no_url)


@dataclass(frozen=True)
class Running:
    """The command in a folder, with what it printed."""

    process: subprocess.Popen[str]
    url: str
    keys: dict[str, str]

    def connect(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=30)


@pytest.fixture(scope="module", params=["prepared", pytest.param("new", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a server that is prepared, or that the command prepares first, by a flow."""
    folder = tmp_path_factory.mktemp("server")
    if request.param == "prepared":
        prepare(config_in(folder))
    return folder


@pytest.fixture(scope="module")
def config(folder: Path) -> Path:
    return config_in(folder)


def config_in(folder: Path) -> Path:
    """The Czech one, which is prepared without workers of its own."""
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"] = str(CZECH_CSV)
    content |= {"output": {"folder": str(folder / "runs")}}
    (folder / CZECH_YAML.name).write_text(yaml.safe_dump(content | {"execution": {"cluster": "in-process"}}))
    return folder / CZECH_YAML.name


@pytest.fixture(scope="module")
def running(folder: Path, config: Path) -> Iterator[Running]:
    """Started once: it takes some seconds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment["PREFECT_HOME"] = str(made_home(folder / "prefect"))
    command = [sys.executable, "-m", "sdc.commands.cli", "serve", str(config), "--port", "0", "--json"]
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        line = line_of(process, 300)
        assert line, (folder / "errors").read_text()
        printed = json.loads(line)
        assert set(printed) == {"url", "keys"}
        kept = Path(printed["keys"])
        assert kept.stat().st_mode & 0o777 == 0o600
        keys = dict(line.split() for line in kept.read_text().splitlines())
        assert f"new keys are in {printed['keys']}, which only you can read" in (folder / "errors").read_text()
        assert keys["operator"] not in line
        kept.unlink()
        yield Running(process, printed["url"], keys)
    finally:
        process.kill()
        process.wait(600)


def test_it_answers(running: Running) -> None:
    assert running.url.startswith("http://127.0.0.1:")
    assert set(running.keys) == {"operator"}
    with httpx.Client(base_url=running.url, timeout=SECONDS_TO_ASK) as client:
        reply = client.post("/api/requests", json=REQUEST).json()
        if reply["decision"] == "pending":
            wait_until(lambda: client.get(reply["job"]).json()["decision"] != "pending")
            reply = client.get(reply["job"]).json()
        assert reply["decision"] == "released"
        table = client.get("/api/tables/A*B.csv")
        assert (table.status_code, table.text.splitlines()[0]) == (200, "A,B,count")
        head = client.head("/api/tables/A*B.csv")
        assert (head.content, head.headers["content-length"]) == (b"", table.headers["content-length"])
        assert client.get("/api/operator/frontier").status_code == 403
        named = {"x-forwarded-for": "192.0.2.1", "x-forwarded-proto": "https"}
        assert client.get("/api/frontier", headers=named).status_code == 200
        operator = {"authorization": f"Bearer {running.keys['operator']}"}
        found = client.get("/api/operator/requests", headers=operator).json()["requests"]
        assert [request["who"] for request in found] == ["public"]


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/frontier HTTP/1.1\r\n\r\n",
        b"GET /api/frontier HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET /api/" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/tables/%00%ff..%2f HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=range(9),
)
def test_what_is_no_http(sent: bytes, running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(sent)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 4")
    assert httpx.get(f"{running.url}/api/health", timeout=SECONDS_TO_ASK).status_code == 200


def test_a_body_in_drips_holds_up_nobody(running: Running) -> None:
    head = b"POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 23\r\n\r\n"
    slow = [running.connect() for _ in range(60)]
    for connection in slow:
        connection.sendall(head + b"{")
    for _ in range(5):
        assert httpx.post(f"{running.url}/api/requests", json=REQUEST, timeout=SECONDS_TO_ASK).status_code == 200
        slow[0].sendall(b" ")
    slow[0].sendall(b'"variables":["A"]')
    assert slow[0].recv(1 << 16).startswith(b"HTTP/1.1 4")
    for connection in slow:
        connection.close()


def test_its_log_tells_of_requests_and_of_nothing_that_was_asked_for(running: Running, folder: Path) -> None:
    operator = {"authorization": f"Bearer {running.keys['operator']}"}
    assert httpx.get(f"{running.url}/api/tables/A*B*C*D.csv", timeout=SECONDS_TO_ASK).status_code in (200, 404)
    assert (
        httpx.get(
            f"{running.url}/api/operator/effect?variables=E,F", headers=operator, timeout=SECONDS_TO_ASK
        ).status_code
        == 200
    )
    assert httpx.get(f"{running.url}/nothing/A*B", timeout=SECONDS_TO_ASK).status_code == 404
    (path,) = folder.glob("runs/*/server/log.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    # a line is written when its answer has been sent
    wait_until(lambda: read_events(path)[-1].get("route") == "")
    events = read_events(path)
    assert (events[0]["event"], events[0]["text"]) == ("server started", running.url)
    told = [tuple(event[key] for key in ("method", "route", "status", "who")) for event in events[-3:]]
    assert told == [
        ("GET", "/api/tables/{name:path}", 404, "public"),
        ("GET", "/api/operator/effect", 200, "operator"),
        ("GET", "", 404, "public"),
    ]
    known = {"time", "event", "method", "route", "status", "who", "milliseconds"}
    assert all(set(event) == known for event in events if event["event"] == "request")
    assert not re.search(r"A\*B|E,F|sdc_[0-9a-f]{12}", path.read_text())
    lines = httpx.get(f"{running.url}/metrics", headers=operator, timeout=SECONDS_TO_ASK).text.splitlines()
    assert {"sdc_ready 1.0", "sdc_version 1.0", "sdc_pending_requests 0.0"} < set(lines)


def test_it_ends_when_it_is_told(running: Running, folder: Path) -> None:
    """While a client is in the midst of sending, too."""
    with running.connect() as slow:
        slow.sendall(b"POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20\r\n\r\n{")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(600) == 0
    assert running.process.stdout is not None
    assert running.process.stdout.read() == ""
    errors = (folder / "errors").read_text()
    assert "Traceback" not in errors
    (log,) = folder.glob("runs/*/server/log.jsonl")
    assert read_events(log)[-1]["event"] == "server ended"
    assert running.keys["operator"] not in errors


def test_after_its_next_start(running: Running, folder: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was released is released, and keys are told once."""
    running.process.wait(600)
    monkeypatch.chdir(folder)
    told = list[Any]()
    apps = list[Any]()

    def serve(app: Any, host: str, port: int, ready: Any, **_: Any) -> None:
        apps.append(app)
        ready(f"http://{host}:{port}")

    monkeypatch.setattr(listening, "serve", serve)
    for _ in range(2):
        listen(open_build(config), "127.0.0.1", 1, None, lambda *facts: told.append(facts))
    assert told == [("http://127.0.0.1:1", None)] * 2
    secret = next(folder.glob("runs/**/secret"))
    assert (secret.stat().st_mode & 0o777, len(secret.read_bytes())) == (0o600, 32)
    key = running.keys["operator"].encode()
    kept = [path for path in folder.rglob("*") if path.is_file() and key in path.read_bytes()]
    assert kept == []
