"""A server in process for tests of its HTTP side: a small service, keys of each role, a client, and a loopback port."""

import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, get_args

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from sdc.config.server import ServerConfig
from sdc.server.service.service import Service
from sdc.server.web.access import Access, Role, Signed
from sdc.server.web.app import create_app
from sdc.server.web.connections import Connections
from sdc.server.web.listening import HttpServer, unix_socket

SECRET, PROXY = b"s" * 32, b"p" * 32
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "http://127.0.0.1"
SECONDS_TO_ASK = 300  # the own limit of httpx is 5, which a busy machine meets


@dataclass
class Server:
    """An application with its service; `time` is what its clock shows."""

    service: Service
    settings: ServerConfig
    time: float = 0.0
    now: datetime = NOW
    runs: Path = Path("no runs")

    def __post_init__(self) -> None:
        self.stored: list[tuple[str, str, str, Mapping[str, Any]]] = []
        self.access = Access(self.settings, lambda *entry: self.stored.append(entry))
        own: dict[str, Any] = {"secret": SECRET, "now": lambda: self.now, "clock": lambda: self.time, "runs": self.runs}
        own["proxy_secret"] = PROXY if self.settings.proxy_secret else b""
        self.app: ASGIApp = create_app(self.service, self.settings, self.access, **own)

    def key(self, role: Role = "user", user: str = "") -> str:
        return self.access.new_key(user or role, self.now, 30)

    def client(self, role: Role | None = None, host: str = "127.0.0.1") -> TestClient:
        """Of somebody with a new key of the role, or without a key."""
        headers = {} if role is None else {"authorization": f"Bearer {self.key(role)}"}
        return TestClient(self.app, URL, headers=headers, client=(host, 50_000), follow_redirects=False)


def server_of(service: Service, **settings: Any) -> Server:
    """A user of each role, and beside them the public unless `public` or `users` say otherwise."""
    limits = {"requests_a_minute": 1_000_000, **settings.pop("limits", {})}
    if "users" not in settings:
        users = [{"name": role, "role": role} for role in get_args(Role)]
        settings = {"users": users, "public": True, **settings}
    return Server(service, ServerConfig.model_validate({"limits": limits, **settings}))


class Site(str):
    """The address of a server, with the session of somebody of each role."""

    sessions: dict[str, str]


@contextmanager
def serving(service: Service, **settings: Any) -> Iterator[Site]:
    """A server for browsers, until the block ends."""
    server, signed = server_of(service, **settings), Signed(SECRET)
    with running(server.app) as url:
        site = Site(url)
        users = {role: server.access.by_key(server.key(role), NOW) for role in get_args(Role)}
        site.sessions = {role: signed.session(user) for role, user in users.items()}
        yield site


@contextmanager
def running(app: ASGIApp, shared: Connections | None = None, path: str | None = None) -> Iterator[str]:
    """The URL at which the application listens; with limits of connections, and at a Unix socket too."""
    with ExitStack() as held:
        listening = held.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        sockets = [listening, *([held.enter_context(unix_socket(path))] if path else [])]
        server = HttpServer(app, shared or Connections(1_000))
        thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
        thread.start()
        try:
            yield f"{URL}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(600)
            assert not thread.is_alive()


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """A folder behind the file host of Python."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    host = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, end = f"http://127.0.0.1:{port}", monotonic() + 60
    try:
        while monotonic() < end:
            with suppress(OSError), urllib.request.urlopen(url):
                break
            sleep(0.1)
        yield url
    finally:
        host.terminate()
        host.wait()
