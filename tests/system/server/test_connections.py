"""Many and slow connections, and Unix sockets that are there already."""

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from sdc.events import SERVER, EventText, heard
from sdc.model.errors import ConfigError
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.server.web import connections, gateway
from sdc.server.web.connections import (
    ACCEPTED_AT_ONCE,
    NOT_ACCEPTED,
    OWN_DESCRIPTORS,
    REFUSED,
    SLOW_HEADERS,
    SLOW_READER,
    Connections,
    room_for,
)
from sdc.server.web.listening import unix_socket
from tests.helpers.http import SECONDS_TO_ASK, running, server_of
from tests.helpers.small_service import SmallService
from tests.helpers.waiting import wait_until

HALF = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
WHOLE = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def shared() -> Connections:
    return Connections(20)


@pytest.fixture
def url(czech: Table, shared: Connections, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1)
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 1)
    monkeypatch.setattr(gateway, "BODY_SECONDS", 1)
    with running(server_of(SmallService(czech, Criteria.of(2, 6))).app, shared) as url:
        yield url


def connected(url: str, sent: bytes) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    found = socket.create_connection((host, int(port)), timeout=300)
    found.sendall(sent)
    return found


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of the next answer, whole: it may come in several pieces."""
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_too_many_and_slow_connections_end_and_the_server_goes_on(url: str, shared: Connections) -> None:
    slow = [connected(url, HALF) for _ in range(20)]
    wait_until(lambda: shared.open == 20)
    assert is_ended(connected(url, WHOLE)), "there is no room"
    assert all(is_ended(one) for one in slow)
    wait_until(lambda: shared.open == 0)
    assert httpx.get(f"{url}/livez", timeout=SECONDS_TO_ASK).status_code == 200
    assert shared.ended == {REFUSED: 1, SLOW_HEADERS: 20}
    said = list[str]()
    with heard(EventText(said.append), SERVER):
        shared.report()
        shared.report()
    assert said == [f"connections ended in the last minute: 1 {REFUSED}, 20 {SLOW_HEADERS}"]


def test_a_burst_of_connections_leaves_descriptors_for_others(url: str, shared: Connections) -> None:
    """Those beyond the limit are refused before all are accepted, and the server answers after them."""
    many, (soft, hard) = 500, resource.getrlimit(resource.RLIMIT_NOFILE)
    room = len(os.listdir("/proc/self/fd")) + many + 20 + 4 * ACCEPTED_AT_ONCE + 10
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
    try:
        burst = [connected(url, HALF) for _ in range(many)]
        assert all(is_ended(one) for one in burst)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert httpx.get(f"{url}/livez", timeout=SECONDS_TO_ASK).status_code == 200
    assert shared.ended[NOT_ACCEPTED] == 0
    assert shared.ended[REFUSED] + shared.ended[SLOW_HEADERS] == many


def test_connections_without_a_descriptor_are_counted_instead_of_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared, loop = Connections(20), asyncio.new_event_loop()
    try:
        shared.failed(loop, {"message": "no socket", "exception": OSError(errno.EMFILE, "Too many open files")})
        assert (shared.ended, caplog.messages) == ({NOT_ACCEPTED: 1}, [])
        shared.failed(loop, {"message": "another fault", "exception": ValueError()})
        assert caplog.messages == ["another fault"]
    finally:
        loop.close()


def test_headers_in_drips_end_after_a_first_answer_too(url: str, shared: Connections) -> None:
    with connected(url, WHOLE) as connection:
        assert answer(connection) == (200, b'{"alive":true}')
        connection.sendall(HALF)
        assert is_ended(connection)
    assert shared.ended == {SLOW_HEADERS: 1}


def test_a_body_that_does_not_come(url: str) -> None:
    head = b"POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 20"
    with connected(url, head + b"\r\n\r\n{") as connection:
        status, body = answer(connection)
    assert status == 408
    assert b"request-timeout" in body


def test_who_does_not_read_is_not_waited_for(url: str, shared: Connections) -> None:
    with connected(url, WHOLE * 20_000):
        wait_until(lambda: shared.ended[SLOW_READER] == 1)
    wait_until(lambda: shared.open == 0)


def test_descriptors_are_raised_or_the_connections_fewer() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert room_for(100).most == 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (OWN_DESCRIPTORS + 5, limits[1]))
        assert room_for(100).most == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= OWN_DESCRIPTORS + 100
        assert room_for(1 << 40).most == limits[1] - OWN_DESCRIPTORS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_socket_is_for_this_user_and_group_and_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with unix_socket(str(path)):
        assert path.stat().st_mode & 0o777 == 0o660
        with pytest.raises(ConfigError, match=r"cannot be listened on \(Address already in use\); remove the file"):
            unix_socket(str(path)).__enter__()
        assert path.is_socket()
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with unix_socket(str(path)):
        assert path.is_socket()
    path.write_text("not a socket")
    with pytest.raises(ConfigError, match="Address already in use"):
        unix_socket(str(path)).__enter__()
    assert path.read_text() == "not a socket"
    with pytest.raises(ConfigError, match="AF_UNIX path too long"):
        unix_socket(str(tmp_path / ("x" * 200))).__enter__()
