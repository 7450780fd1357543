"""What the HTTP interface does not let in: bad requests, too much at once, other hosts, keys, sessions and forms."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from sdc.server.web.access import Signed
from sdc.server.web.gateway import BROWSER, HEADERS, OPEN_PATHS, OPEN_TO_ALL, SESSION
from tests.helpers.http import PROXY, SECRET, Server, server_of
from tests.helpers.small_service import SmallService
from tests.integration.server.test_app import RELEASED, ask, client, operator, problem, server, service, small

__all__ = ["client", "operator", "server", "service", "small"]


@pytest.fixture(scope="module")
def giving_nothing(small: SmallService) -> Server:
    """For tests that get nothing of it, so that it stays as it was."""
    return server_of(small.copy(), limits={"body_bytes": 1 << 20})


# Asking badly


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], "empty-request"),
        (["A", "G"], "unknown-variable"),
        (["a"], "unknown-variable"),
        ([""], "unknown-variable"),
        (["A*B"], "unknown-variable"),
        (["A\0"], "unknown-variable"),
        (["x" * 10_000], "unknown-variable"),
        (["A", "B", "A"], "repeated-variable"),
        (["A"] * 64, "bad-body"),
    ],
)
def test_no_such_sub_table(names: list[str], code: str, giving_nothing: Server) -> None:
    client = giving_nothing.client()
    found = ask(client, *names)
    assert problem(found) == (400, code)
    assert len(found.text) < 500
    assert client.get("/api/requests").json() == {"requests": []}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"variables": "A"}',
        b'{"variables": null}',
        b'{"variables": [1]}',
        b'{"variables": [["A"]]}',
        b'{"variables": ["\\ud800"]}',
        b'{"variables": ["\xff"]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"variables": ' + b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_no_such_body(body: bytes, giving_nothing: Server) -> None:
    found = giving_nothing.client().post("/api/requests", content=body, headers={"content-type": "application/json"})
    assert problem(found)[0] == 400
    assert len(found.text) < 500


def test_wrong_methods_and_paths(client: TestClient, operator: TestClient) -> None:
    for method, path in ("DELETE", "/api/requests"), ("TRACE", "/api/health"), ("GET", "/api/operator/keys"):
        found = operator.request(method, path)
        assert problem(found) == (405, "not-allowed")
        assert found.headers["allow"]
    for path in ("/api/nothing", "/api/", "/api/tables", "/api/operator", "/api/requests/", "/api//frontier"):
        assert problem(client.get(path)) == (404, "unknown-path")
    for path in ("/nothing", "/static/nothing", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/%00"):
        found = client.get(path)
        assert found.status_code == 404
        assert found.headers["content-security-policy"]


# Limits


def test_sub_tables_that_are_too_large(service: SmallService) -> None:
    client = server_of(service, limits={"cells": 5}).client()
    found = ask(client, "A", "B", "C")
    assert problem(found) == (413, "too-large")
    assert (found.json()["limit"], found.json()["asked"]) == (5, 8)
    assert ask(client, "A", "B").status_code == 200
    totals = client.get("/api/tables/A*B.csv?totals=1")
    assert problem(totals) == (413, "too-large")
    assert (totals.json()["limit"], totals.json()["asked"]) == (5, 9)


def chunks(size: int) -> Iterator[bytes]:
    yield b'{"variables": ["'
    for _ in range(size >> 10):
        yield b"A" * 1024


def test_bodies_that_are_too_large(client: TestClient, operator: TestClient) -> None:
    json_of = {"content-type": "application/json"}
    for whoever, path in [(client, "/api/requests"), (operator, "/api/operator/keys")]:
        announced = whoever.post(path, content=b"A" * (1 << 20), headers=json_of)
        assert problem(announced) == (413, "body-too-large")
        assert (announced.json()["limit"], announced.json()["asked"]) == (1 << 16, 1 << 20)
        streamed = whoever.post(path, content=chunks(1 << 20), headers=json_of)
        assert problem(streamed) == (413, "body-too-large")
        assert streamed.json()["limit"] == 1 << 16
        assert streamed.json()["asked"] > 1 << 16
    as_form = {"content-type": "application/x-www-form-urlencoded"}
    form = client.post("/login", content=chunks(1 << 20), headers=as_form)
    assert form.status_code == 413
    lying = client.post("/api/requests", content=chunks(1 << 20), headers={**json_of, "content-length": "20"})
    assert problem(lying) == (413, "body-too-large")
    for length in ("-1", "x", "1e3", "٣", "9" * 30, ""):
        headers = {**json_of, "content-length": length.encode()}
        assert problem(client.post("/api/requests", content=b"{}", headers=headers)) == (400, "bad-body")


def test_asking_too_often(service: SmallService) -> None:
    server = server_of(service, limits={"requests_a_minute": 2})
    client, other = server.client(), server.client("user")
    assert [ask(client, "A").status_code for _ in range(3)] == [200, 200, 429]
    found = ask(client, "A")
    assert problem(found) == (429, "too-many-requests")
    assert (found.json()["limit"], found.json()["seconds"]) == (2, 30)
    assert found.headers["retry-after"] == "30"
    assert client.get("/api/frontier").status_code == 200
    assert ask(other, "A").status_code == 200
    assert ask(server.client(host="127.0.0.2"), "A").status_code == 200
    server.time = 30.1
    assert [ask(client, "A").status_code for _ in range(2)] == [200, 429]
    assert [client.get("/api/frontier").status_code for _ in range(110)][-1] == 429


# Headers


def test_every_answer_has_its_headers(server: Server, client: TestClient, operator: TestClient) -> None:
    tag = client.get("/api/tables/A.csv").headers["etag"]
    found = [
        client.get("/api/frontier"),
        client.get("/api"),
        client.get("/api/tables/A.csv", headers={"if-none-match": tag}),
        client.get("/nothing"),
        client.get("/static/server.css"),
        client.get("/api/operator/frontier"),
        client.get("/api/frontier", headers={"authorization": "Bearer x"}),
        client.get("/api/frontier", headers={"host": "evil.example"}),
        client.post("/api/requests", content=b"x" * 100_000),
        client.post("/api/requests", content=b"x"),
        client.delete("/api/requests"),
        client.post("/login"),
        ask(client),
        operator.get("/api/operator/statuses"),
    ]
    assert {response.status_code for response in found} == {200, 304, 404, 403, 401, 400, 413, 415, 405}
    for response in found:
        is_open = response.request.url.path.startswith(OPEN_PATHS)
        for name, value in {**HEADERS, **(OPEN_TO_ALL if is_open else {})}.items():
            assert response.headers[name] == value
        assert "unsafe" not in response.headers["content-security-policy"]
        assert "server" not in response.headers
        is_table = "etag" in response.headers
        assert is_table or response.headers["cache-control"] == "no-store"


def test_a_server_has_its_own_name(server: Server, client: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "[", "127.0.0.1@evil.example"):
        assert problem(client.get("/api/frontier", headers={"host": host})) == (400, "bad-host")
    for host in ("127.0.0.1", "127.0.0.1:8090", "localhost:8090", "LOCALHOST", "[::1]:8090"):
        assert client.get("/api/frontier", headers={"host": host}).status_code == 200


def test_keys_in_headers(server: Server, client: TestClient) -> None:
    key = server.key()
    for wrong in (f"Basic {key}", key, "Bearer", f"Bearer {key}x", f"Bearer {key} {key}", ""):
        found = client.get("/api/frontier", headers={"authorization": wrong})
        assert problem(found) == (401, "unauthorised")
        assert found.headers["www-authenticate"] == "Bearer"
    for right in (f"Bearer {key}", f"bearer {key}", f"Bearer   {key}"):
        assert client.get("/api/frontier", headers={"authorization": right}).status_code == 200


# Browsers


def form_of(client: TestClient, path: str = "/nothing") -> str:
    """What a page would put into its form, for this browser."""
    client.get(path)
    browser = client.cookies.get(SESSION) or client.cookies.get(BROWSER) or ""
    return Signed(SECRET).form(browser)


def test_logging_in_and_out(service: SmallService) -> None:
    server = server_of(service, public=False)
    client = server.client()
    assert problem(client.get("/api/frontier")) == (401, "unauthorised")
    found = client.post("/login", data={"key": server.key("operator"), "csrf": form_of(client)})
    assert (found.status_code, found.headers["location"]) == (303, "/operator")
    cookie = found.headers["set-cookie"]
    assert all(word in cookie.lower() for word in ("httponly", "samesite=strict", "path=/"))
    assert client.get("/api/operator/frontier").status_code == 200
    stale, kept = form_of(client), client.cookies[SESSION]
    found = client.post("/logout", data={"csrf": stale})
    assert (found.status_code, found.headers["location"]) == (303, "/")
    assert problem(client.get("/api/frontier")) == (401, "unauthorised")
    with server.client() as thief:
        thief.cookies.set(SESSION, kept)
        assert problem(thief.get("/api/operator/frontier")) == (401, "unauthorised")
    assert client.post("/login", data={"key": server.key(), "csrf": stale}).status_code == 403
    assert client.post("/login", data={"key": server.key(), "csrf": form_of(client)}).headers["location"] == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_others_cannot_ask(headers: dict[str, str], server: Server, client: TestClient) -> None:
    wanted = {"variables": RELEASED}
    for _ in range(2):
        assert problem(client.post("/api/requests", json=wanted, headers=headers)) == (403, "forbidden")
        form = {"key": server.key("operator"), "csrf": form_of(client)}
        assert client.post("/login", data=form, headers=headers).status_code == 403
        client.post("/login", data=form)
    assert client.post("/api/operator/round", headers=headers).status_code == 403
    assert client.delete("/api/operator/keys/0", headers=headers).status_code == 403
    assert client.get("/api/frontier").json()["version"] == 0
    assert server.client("user").post("/api/requests", json=wanted, headers=headers).status_code == 200
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    assert client.post("/api/requests", json={"variables": ["A"]}, headers=own).status_code == 200


BEHIND = {"url": "https://tables.example", "proxy_header": "X-User", "proxy_secret": "a file"}


def named(user: str, **headers: str) -> dict[str, str]:
    """The headers of the proxy of BEHIND."""
    return {"x-proxy-secret": PROXY.decode(), "x-user": user, **headers}


def test_a_proxy_that_knows_the_secret_names_users(service: SmallService) -> None:
    """Else any program of this machine, or a page whose name leads here, would be the operator."""
    server = server_of(service, **BEHIND, users=[{"name": "ada", "role": "operator"}])
    space, client = "/api/operator/frontier", server.client()
    assert client.get(space, headers=named("ada")).status_code == 200
    assert client.get(space, headers=named("ada", host="tables.example")).status_code == 200
    assert problem(client.get(space, headers=named("eve"))) == (403, "forbidden")
    for wrong in ({"x-user": "ada"}, named(""), {"x-user": "ada", "x-proxy-secret": "s" * 40}):
        assert problem(client.get(space, headers=wrong)) == (401, "unauthorised")
    assert problem(client.get(space, headers=named("ada", host="evil.example"))) == (400, "bad-host")
    without = server_of(service).client()
    assert problem(without.get(space, headers={"x-user": "ada"})) == (403, "forbidden")
    assert problem(without.get(space, headers=named("ada"))) == (401, "unauthorised")
    assert problem(without.get("/api/frontier", headers={"host": "tables.example"})) == (400, "bad-host")


def test_who_is_not_named_is_a_visitor_at_an_address(service: SmallService) -> None:
    """All of them come from that of the proxy, which says whose it was; what it was told before that is not heard."""
    client = server_of(service, **BEHIND, limits={"requests_a_minute": 1}).client()
    secret, wanted = {"x-proxy-secret": PROXY.decode()}, {"variables": RELEASED}
    came = [secret | {"x-forwarded-for": text} for text in ("192.0.2.1", "192.0.2.2", "192.0.2.9, 192.0.2.1")]
    assert [client.post("/api/requests", json=wanted, headers=one).status_code for one in came] == [200, 200, 429]


def test_pages_behind_a_proxy_ask_and_have_secure_cookies(service: SmallService) -> None:
    """A proxy sends the own address of the server as Host, if nobody tells it otherwise."""
    server = server_of(service, **BEHIND)
    for host in ("127.0.0.1", "tables.example"):
        own = {"x-proxy-secret": PROXY.decode(), "host": host}
        assert "; Secure" in server.client().get("/", headers=own).headers["set-cookie"]
        for origin, status in (("https://tables.example", 200), ("http://tables.example", 403), ("https://evil", 403)):
            found = server.client().post(
                "/api/requests", json={"variables": RELEASED}, headers=own | {"origin": origin}
            )
            assert found.status_code == status, (host, origin)
    assert "Secure" in server.client().get("/").headers["set-cookie"]
    assert "Secure" not in server_of(service).client().get("/").headers["set-cookie"]


def test_at_a_unix_socket_a_proxy_needs_no_secret(service: SmallService) -> None:
    settings = {"url": "https://tables.example", "proxy_header": "X-User", "socket": "a path"}
    server = server_of(service, **settings, users=[{"name": "ada", "role": "operator"}])
    space, ada = "/api/operator/frontier", {"x-user": "ada"}
    at_socket = TestClient(Unnamed(server.app, ("/run/socket", None)), "http://127.0.0.1")
    assert at_socket.get(space, headers=ada).status_code == 200
    reset = TestClient(Unnamed(server.app, ("127.0.0.1", 8090)), "http://127.0.0.1")
    for elsewhere in (server.client(), reset):
        assert problem(elsewhere.get(space, headers=ada)) == (401, "unauthorised")
    without = TestClient(Unnamed(server_of(service).app, ("/run/socket", None)), "http://127.0.0.1")
    assert problem(without.get(space, headers=ada)) == (403, "forbidden")


@dataclass
class Unnamed:
    """An application whose clients have no address, as at a Unix socket or when a TCP connection was reset."""

    app: ASGIApp
    server: tuple[str, int | None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, "client": None, "server": self.server}, receive, send)


def test_visitors_do_not_see_requests_of_each_other(service: SmallService) -> None:
    server = server_of(service)
    one, other, operator = server.client(), server.client(), server.client("operator")
    assert ask(one, *RELEASED).json()["decision"] == "released"
    assert ask(other, "A").json()["decision"] == "answered"
    (own,) = one.get("/api/requests").json()["requests"]
    assert (own["number"], own["who"], own["sub_table"]) == (1, "public", RELEASED)
    (others,) = other.get("/api/requests").json()["requests"]
    assert (others["number"], others["sub_table"]) == (1, ["A"])
    assert server.client().get("/api/requests").json() == {"requests": []}
    assert one.get("/jobs/2").status_code == 404
    assert problem(server.client().get("/api/jobs/1")) == (404, "unknown-request")
    # who keeps no cookies has the visitor in the address of the job
    visitor = service.requests()[1].owner.partition("/")[2]
    found = server.client().get(f"/api/jobs/1?visitor={visitor}").json()
    assert found["decision"] == "released"
    listed = operator.get("/api/operator/requests").json()["requests"]
    assert [request["who"] for request in listed] == ["public", "public"]


def test_visitors_of_a_proxy_that_names_no_address_have_limits_of_their_own(service: SmallService) -> None:
    server = server_of(service, limits={"requests_a_minute": 1})
    one, other = server.client(), server.client()
    for visitor in (one, other):
        visitor.get("/")
    assert [ask(visitor, "A").status_code for visitor in (one, other, one)] == [200, 200, 429]
    fresh = [ask(server.client(), "A").status_code for _ in range(2)]
    assert fresh == [200, 429], "without a cookie they have one together"


def test_one_address_is_answered_so_much_at_once(service: SmallService, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of(service, **BEHIND, limits={"connections_each": 1})
    begun, held, client = threading.Event(), threading.Event(), server.client()

    def health() -> dict[str, Any]:
        begun.set()
        assert held.wait(300)
        return {"status": "ok", "version": 0}

    monkeypatch.setattr(service, "health", health)
    came = [{"x-proxy-secret": PROXY.decode(), "x-forwarded-for": f"192.0.2.{n}"} for n in (1, 2)]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.client().get, "/readyz", headers=came[0])
        try:
            assert begun.wait(300)
            assert problem(client.get("/livez", headers=came[0])) == (429, "too-many-requests")
            assert client.get("/livez", headers=came[1]).status_code == 200
        finally:
            held.set()
        assert first.result(300).status_code == 200
    assert client.get("/livez", headers=came[0]).status_code == 200


def test_a_proxy_names_nobody_that_no_user_could_be(service: SmallService) -> None:
    """Names go into the history: they are as those of keys."""
    client = server_of(service, **BEHIND).client()
    for name in ("x" * 65, "a b", "<b>", "\xe9", "ada, eve", ""):
        found = client.get("/api/frontier", headers={**named(""), "x-user": name.encode("latin-1")})
        assert problem(found) == (401, "unauthorised")
    twice = [("x-user", "ada"), ("x-user", "eve"), ("x-proxy-secret", PROXY.decode())]
    assert problem(client.get("/api/frontier", headers=twice)) == (401, "unauthorised")
