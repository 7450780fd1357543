"""A server in process for tests of its HTTP side: a small desk, keys of each role, and a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from sdc.config.server import ServerConfig
from sdc.server.desk.desk import DeskLike
from sdc.server.web.access import Access, Role
from sdc.server.web.app import create_app

SECRET = b"s" * 32
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "http://127.0.0.1"


@dataclass
class Server:
    """An application with its desk; `time` is what its clock shows."""

    desk: DeskLike
    settings: ServerConfig
    time: float = 0.0
    now: datetime = NOW
    runs: Path = Path("no runs")

    def __post_init__(self) -> None:
        self.stored: list[tuple[str, str, str, Mapping[str, Any]]] = []
        self.access = Access(self.settings, lambda *entry: self.stored.append(entry))
        own = {"secret": SECRET, "now": lambda: self.now, "clock": lambda: self.time, "runs": self.runs}
        self.app: ASGIApp = create_app(self.desk, self.settings, self.access, **own)

    def key(self, role: Role = "user", user: str = "") -> str:
        return self.access.new_key(user or role, role, 30, self.now)

    def client(self, role: Role | None = None, host: str = "127.0.0.1") -> TestClient:
        """Of somebody with a new key of the role, or without a key."""
        headers = {} if role is None else {"authorization": f"Bearer {self.key(role)}"}
        return TestClient(self.app, URL, headers=headers, client=(host, 50_000), follow_redirects=False)


def server_of(desk: DeskLike, **settings: Any) -> Server:
    limits = {"requests_a_minute": 1_000_000, **settings.pop("limits", {})}
    return Server(desk, ServerConfig.model_validate({"limits": limits, **settings}))
