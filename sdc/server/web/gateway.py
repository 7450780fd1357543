"""What stands before every address: who asks, how much and how often, and the headers that every answer has."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sdc.config.server import ServerConfig
from sdc.events import PROBLEM, SERVER, emit
from sdc.execution import LOOPBACK
from sdc.server.web.access import Access, Rate, Signed, User, visitor_of
from sdc.server.web.connections import Connections
from sdc.server.web.problems import PROBES, PX_PREFIX, Problem, is_for_programs, response_to

SESSION, BROWSER = "sdc_session", "sdc_browser"
SAFE = ("GET", "HEAD", "OPTIONS")
BODY_SECONDS = 30
READS_PER_REQUEST = 50  # so many answers may be read for each request that may be made
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
OPEN_PATHS = ("/api/tables/", "/api/variables", "/api/frontier", f"{PX_PREFIX}/")
OPEN_TO_ALL = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}
OPEN_REQUEST_HEADERS = ("If-None-Match", "If-Range", "Range")
OPEN_HEADERS = ("Accept-Ranges", "Content-Disposition", "Content-Range", "ETag")
PROXY_SECRET = "x-proxy-secret"
LOCAL_HOSTS = {*LOOPBACK}


class Gateway:
    """An ASGI application before another one; `answered` has how many answers were of each route and status."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerConfig,
        access: Access,
        signed: Signed,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        proxy_secret: bytes,
        connections: Connections | None,
    ) -> None:
        self._app, self._settings, self._access, self._signed, self._now = app, settings, access, signed, now
        # what is public to everybody may be read by pages of other sites, without keys
        self._shared = CORSMiddleware(app, ["*"], ("GET", "HEAD"), OPEN_REQUEST_HEADERS, expose_headers=OPEN_HEADERS)
        views = ("GET", "HEAD", "POST"), ("Content-Type", *OPEN_REQUEST_HEADERS)
        self._views = CORSMiddleware(app, ["*"], *views, expose_headers=OPEN_HEADERS)
        self._proxy_secret, self._connections = proxy_secret, connections
        own = {urlsplit(settings.url).hostname} if settings.url else set[str | None]()
        self._hosts = own | LOCAL_HOSTS
        self._is_secure = (settings.url or "").startswith("https")
        a_minute, many = settings.limits.requests_a_minute, READS_PER_REQUEST * settings.limits.requests_a_minute
        self.answered = Counter[tuple[str, int]]()
        self._asks, self._reads, self._together = Rate(a_minute, clock), Rate(many, clock), Rate(many, clock)
        self._under_way = Counter[str]()  # requests of each address that the proxy names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, method = time.perf_counter(), 500, scope["method"]
        if method == "HEAD":
            # as GET, and then without the body
            scope = {**scope, "method": "GET"}
        headers, cookies = Headers(scope=scope), HTTPConnection(scope).cookies
        browser = cookies.get(SESSION) or cookies.get(BROWSER) or ""
        needs_one = (not _is_view(scope) and "authorization" not in headers) or _is_page(scope["path"])
        given = secrets.token_urlsafe(16) if needs_one and not cookies.get(BROWSER) else ""

        is_open = self._settings.is_public and scope["path"].startswith(OPEN_PATHS)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, given, self._is_secure, OPEN_TO_ALL if is_open else {})
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        bounded, address = Bounded(receive, self._settings.limits.body_bytes), ""
        scope.setdefault("state", {})
        scope["app"] = self._app  # as the application itself would, for pages of problems that come before it
        scope["state"] |= {
            "user": User("", is_public=True),
            "csrf": self._signed.form(browser or given),
            "browser": browser,
            "is_secure": self._is_secure,
            "answered": self.answered,
            "connections": self._connections,
        }
        try:
            address = self._admit(scope, headers, cookies, given)
            bounded.check_length(headers)
            shared = self._views if scope["path"].startswith(f"{PX_PREFIX}/") else self._shared
            await (shared if is_open else self._app)(scope, bounded, sending)
        except Problem as problem:
            await response_to(Request(scope), problem)(scope, receive, sending)
        except Exception as error:
            # its words may have a value
            emit(PROBLEM, "a request was not answered", SERVER, error=type(error).__name__)
            raise
        finally:
            if address:
                self._under_way[address] -= 1
                if not self._under_way[address]:
                    del self._under_way[address]
            self.answered[_route(scope), status] += 1
            _tell_of(scope, method, status, time.perf_counter() - begun)

    def _admit(self, scope: Scope, headers: Headers, cookies: dict[str, str], given: str) -> str:
        """Set the user in the scope's state; Problem if they may not ask, or ask too often or too much at once.

        given  the cookie that this answer sets for a new browser

        Returns the address that the proxy names, whose requests under way are counted; empty without one.
        """
        if _split(f"//{headers.get('host', '')}").hostname not in self._hosts:
            text = "the header Host names another machine; ask this server by its own name, or that of server.url"
            raise Problem("bad-host", text)
        is_safe, is_proxied = _is_view(scope), self._is_proxied(scope, headers)
        try:
            user, by_cookie = self._user(is_proxied, headers, cookies)
        except Problem:
            if not _is_open(scope["path"]):
                raise
            user, by_cookie = User("", is_public=True), True
        had = cookies.get(BROWSER, "")
        if user.is_public and (had or given):
            user = replace(user, visitor=visitor_of(had or given))
        scope["state"]["user"] = user
        if not is_safe and by_cookie:
            _check_origin(headers, self._settings.url)
        client = (scope.get("client") or ("",))[0]
        # the last address that the proxy names is who asked it; those before are what that one says
        named = headers.get("x-forwarded-for", "").rpartition(",")[2].strip() if is_proxied else ""
        rate = self._reads if is_safe else self._asks
        if not user.is_public:
            _wait(rate, user.name)
        elif named:
            _wait(rate, f"address {named}")
        else:
            # visitors of a proxy that names no address are distinguished by their cookies, which they can delete
            for one in [client, f"visitor {user.visitor}"] if given else [f"visitor {user.visitor}" if had else client]:
                _wait(rate, one)
            if not is_safe:
                _wait(self._together, client)
        if named:
            if self._under_way[named] >= (most := self._settings.limits.connections_each):
                text = f"{most} requests of one address are answered at once; ask again when one has ended"
                raise Problem("too-many-requests", text, {"limit": most}, {"retry-after": "1"})
            self._under_way[named] += 1
        return named

    def _user(self, is_proxied: bool, headers: Headers, cookies: dict[str, str]) -> tuple[User, bool]:
        """Who asks, and whether a browser says so by itself: then the request may be another page's."""
        if is_proxied and (names := headers.getlist(self._settings.proxy_header or "")):
            # a name that somebody sent before the proxy added its own makes two, which are nobody's
            return self._access.by_proxy(", ".join(names)), True
        if (given := headers.get("authorization")) is not None:
            scheme, _, key = given.partition(" ")
            if scheme.lower() != "bearer":
                raise Problem("unauthorised", "give a key of this server, as `Authorization: Bearer KEY`")
            return self._access.by_key(key.strip(), self._now()), False
        if session := self._signed.session_of(cookies.get(SESSION, "")):
            # a session that has ended is as none
            with suppress(Problem):
                return self._access.by_session(session, self._now()), True
        return self._access.anybody(), True

    def _is_proxied(self, scope: Scope, headers: Headers) -> bool:
        """Whether the proxy sends it: it alone knows the secret, or reaches the Unix socket."""
        # by its own end: of a TCP connection that was reset at once the other end is unknown too
        _, port = scope.get("server") or ("", 0)
        if port is None and self._settings.socket:
            return True
        given = ", ".join(headers.getlist(PROXY_SECRET)).encode("latin-1")
        if given and not (self._proxy_secret and hmac.compare_digest(given, self._proxy_secret)):
            raise Problem("unauthorised", f"the header {PROXY_SECRET} is not server.proxy_secret")
        return bool(given)


def _wait(rate: Rate, caller: str) -> None:
    """Problem if the caller has to wait."""
    if wait := rate.wait(caller):
        seconds = max(1, round(wait + 0.5))
        raise Problem(
            "too-many-requests",
            f"{rate.a_minute} a minute are answered; ask again in {seconds} s",
            {"limit": rate.a_minute, "seconds": seconds},
            {"retry-after": str(seconds)},
        )


def _tell_of(scope: Scope, method: str, status: int, seconds: float) -> None:
    """Of an answer, neither address nor query: what was asked for is in the history, and in no log."""
    emit(
        "request",
        logger=SERVER,
        method=method[:16],
        route=_route(scope),
        status=status,
        who=scope["state"]["user"].name,
        milliseconds=round(1000 * seconds, 1),
    )


def _route(scope: Scope) -> str:
    """The template of the address, without what was asked for; empty where there is none."""
    return str(getattr(scope.get("route"), "path", ""))


class Bounded:
    """What is received, up to so many bytes, and for so long."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._had = receive, most, 0
        self._deadline, self._is_whole = asyncio.get_running_loop().time() + BODY_SECONDS, False

    def check_length(self, headers: Headers) -> None:
        """Problem where what is announced is too much, or no number."""
        given = headers.get("content-length", "0")
        if not given.isdecimal() or len(given) > 18:
            raise Problem("bad-body", "the header Content-Length is not a number")
        self._check(int(given))

    async def __call__(self) -> Message:
        try:
            # after the body it waits for the client to go away, as long as that takes
            async with asyncio.timeout_at(None if self._is_whole else self._deadline):
                message = await self._receive()
        except TimeoutError:
            text = f"the body has not come in {BODY_SECONDS} s; send it again"
            raise Problem("request-timeout", text, headers={"connection": "close"}) from None
        self._is_whole = not message.get("more_body", False)
        self._had += len(message.get("body", b""))
        self._check(self._had)
        return message

    def _check(self, size: int) -> None:
        if size > self._most:
            text = f"a request has at most {self._most} bytes; ask for less at once"
            raise Problem("body-too-large", text, {"limit": self._most, "asked": size})


def _is_view(scope: Scope) -> bool:
    """Whether it changes nothing: a selection of a public table is sent by POST too."""
    return scope["method"] in SAFE or (scope["method"] == "POST" and scope["path"].startswith(f"{PX_PREFIX}/"))


def _is_page(path: str) -> bool:
    return not path.startswith("/static/") and not is_for_programs(path)


def _is_open(path: str) -> bool:
    """What one sees without a key too: how to log in, and whether the server is there and well."""
    return path in ("/login", "/about", *PROBES) or path.startswith("/static/")


def _split(address: str) -> SplitResult:
    """The parts of an address; of what is none they are empty."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _check_origin(headers: Headers, url: str | None) -> None:
    """Problem where a browser says that the request comes from a page of somebody else."""
    site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
    host, from_ = _split(f"//{headers.get('host', '')}"), _split(origin or "")
    own = origin in (None, url) or (from_.netloc == host.netloc and host.hostname in LOCAL_HOSTS)
    if site not in ("same-origin", "none") or not own:
        text = "this request comes from a page of another site; send it from a page of this server"
        behind = "" if url else ", and if that is behind a proxy, name its address in server.url"
        raise Problem("forbidden", text + behind)


def _add_headers(message: Message, given: str, is_secure: bool, more: Mapping[str, str]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in {**HEADERS, **more}.items():
        headers[name] = value
    # what says nothing else is for one person, now
    headers.setdefault("cache-control", "no-store")
    if given:
        headers.append("set-cookie", f"{BROWSER}={given}; HttpOnly; SameSite=Strict; Path=/" + "; Secure" * is_secure)
