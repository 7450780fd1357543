"""The application that answers over HTTP: the API, the pages that say the same to people, and what listens."""

from __future__ import annotations

import os
import secrets
import socket
import stat
import sys
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Form
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sdc.config.server import ServerConfig
from sdc.events import PROBLEM, SERVER, EventLog, EventText, emit, heard
from sdc.model.errors import ConfigError, InputError, SdcError
from sdc.paths import require_own
from sdc.record.database import ChainError
from sdc.server.desk.desk import DeskLike
from sdc.server.desk.prepare import folder_of, server_of
from sdc.server.desk.service import open_service
from sdc.server.web.access import Access, AccessError, Signed, access_to, announce_expiry, new_keys, utc_now
from sdc.server.web.api import routes
from sdc.server.web.bodies import PREFIX
from sdc.server.web.documentation import documentation_page, openapi_of
from sdc.server.web.gateway import LOCAL_HOSTS, SESSION, Gateway
from sdc.server.web.problems import UNAVAILABLE, Problem, denied, response_to, tell_pages_by
from sdc.stages.build import Build
from sdc.storage.run_folder import LOG

DAY_SECONDS = 24 * 3600
LAST_SECONDS = 2  # for answers that are under way when it ends; a command that ends takes no longer than twice that

# traces have addresses and the messages of exceptions, and go wherever the environment says
UNOBSERVED: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def _documentation(app: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(f"{PREFIX}/openapi.json")
    async def document() -> JSONResponse:
        return JSONResponse(openapi_of(app))

    @router.get(PREFIX)
    async def page() -> HTMLResponse:
        return HTMLResponse(documentation_page(openapi_of(app)))

    return router


def create_app(
    desk: DeskLike,
    settings: ServerConfig,
    access: Access,
    *,
    secret: bytes,
    now: Callable[[], datetime],
    runs: Path,
    clock: Callable[[], float] = time.monotonic,
    proxy_secret: bytes = b"",
) -> ASGIApp:
    """The application; `secret` signs sessions and forms, `now` and `clock` say when keys expire and buckets fill.

    runs          the folder of run folders, of whose last builds the metrics tell
    proxy_secret  what the proxy sends as X-Proxy-Secret; empty where there is none
    """
    app = FastAPI(
        title=desk.title, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, telemetry=UNOBSERVED
    )
    signed = Signed(secret)
    _add_problems(app)
    app.include_router(routes(desk, settings, access, now, runs))
    app.include_router(_documentation(app))
    app.include_router(_sessions(access, signed, now))
    _add_pages(app, desk, settings, signed)
    return Gateway(app, settings, access, signed, now, clock, proxy_secret)


def _sessions(access: Access, signed: Signed, now: Callable[[], datetime]) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.post("/login")
    async def login(request: Request, key: Annotated[str, Form()] = "", csrf: Annotated[str, Form()] = "") -> Response:
        _check(signed, csrf, request)
        user = access.by_key(key.strip(), now())
        found = RedirectResponse("/operator" if user.may_look else "/", 303)
        secure = request.state.is_secure
        found.set_cookie(SESSION, signed.session(user), httponly=True, samesite="strict", secure=secure, path="/")
        return found

    @router.post("/logout")
    async def logout(request: Request, csrf: Annotated[str, Form()] = "") -> Response:
        _check(signed, csrf, request)
        session = signed.session_of(request.cookies.get(SESSION, ""))
        if session and not request.state.user.is_public:
            await run_in_threadpool(access.log_out, session, request.state.user.name, now())
        found = RedirectResponse("/", 303)
        found.delete_cookie(SESSION, path="/")
        return found

    return router


def static_files() -> StaticFiles:
    """Those of the pages, and what they share with an explorer's."""
    return StaticFiles(packages=[("sdc.server.web", "static"), ("sdc.report", "static")])


def _check(signed: Signed, csrf: str, request: Request) -> None:
    signed.check_form(csrf, request.state.browser)


def _add_pages(app: FastAPI, desk: DeskLike, settings: ServerConfig, signed: Signed) -> None:
    from sdc.server.web.pages import error_page, pages

    tell_pages_by(error_page)
    app.mount("/static", static_files())

    async def form_checked(request: Request) -> None:
        if request.method == "POST":
            _check(signed, str((await request.form()).get("csrf", "")), request)

    app.include_router(pages(desk, settings), include_in_schema=False, dependencies=[Depends(form_checked)])


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def told(request: Request, problem: Problem) -> Response:
        return response_to(request, problem)

    @app.exception_handler(AccessError)
    async def may_not(request: Request, error: AccessError) -> Response:
        return response_to(request, denied(error))

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        code, message = {404: ("unknown-path", "there is nothing at this address"), 405: NOT_ALLOWED}.get(
            error.status_code, ("bad-body", "the body cannot be read; send what the documentation at /api says")
        )
        return response_to(request, Problem(code, message, {}, dict(error.headers or {}), error.status_code))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and request.url.path.startswith(PREFIX) and kind != "application/json":
            text = "the body is not application/json; send JSON and say so in the header Content-Type"
            return response_to(request, Problem("unsupported-media-type", text))
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        text = f"{where[:200]}: {str(error.errors()[0]['msg'])[:200]}; see the documentation at /api"
        return response_to(request, Problem("bad-body", text))

    @app.exception_handler(ChainError)
    @app.exception_handler(BrokenProcessPool)
    async def unavailable(request: Request, error: Exception) -> Response:
        return response_to(request, UNAVAILABLE)

    @app.exception_handler(SdcError)
    async def refused(request: Request, error: SdcError) -> Response:
        return response_to(request, Problem("refused", str(error)))


NOT_ALLOWED = ("not-allowed", "this address does not do that; see the documentation at /api")


# Listening


def serve(
    app: ASGIApp, host: str, port: int, ready: Callable[[str], None], daily: Callable[[], None] = lambda: None
) -> None:
    """Listen until a signal; `ready` gets the URL once it listens, `daily` is called every day.

    ConfigError where the port is taken, or where others could reach it.
    """
    if host not in LOCAL_HOSTS:
        raise ConfigError(
            f"--host {host}: a server listens on this machine alone, at 127.0.0.1; put a proxy before it that others "
            "reach, and name its address in server.url"
        )
    listening = _bound(host, port)
    shown = f"[{host}]" if ":" in host else host

    async def notify() -> None:
        daily()

    settings = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who connects, and not whom they say that they are
        timeout_keep_alive=20,
        timeout_graceful_shutdown=LAST_SECONDS,
        h11_max_incomplete_event_size=65536,
        callback_notify=notify,
        timeout_notify=DAY_SECONDS,
    )
    server = _TellingServer(settings, lambda: ready(f"http://{shown}:{listening.getsockname()[1]}"))
    # the signal that ended it comes again when it has ended
    with listening, suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    # TCP by name: else answers in two pieces wait 40 ms for each other, see asyncio.base_events._set_nodelay
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(1024)
    except OSError as error:
        found.close()
        raise ConfigError(
            f"--port {port}: it cannot be listened on ({error.strerror}); choose another, or 0"
        ) from error
    return found


class _TellingServer(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


SECRET, SECRET_BYTES = "secret", 32
PROXY_SECRET_BYTES = 32  # at least


def listen(build: Build, host: str, port: int, history: str | None, ready: Callable[[str, Path | None], None]) -> None:
    """Serves until it is told to end; `ready` hears the URL and, where users had no key yet, the file with those made.

    Requests and faults go to `log.jsonl` in the server's folder, faults to standard error too. Errors as of
    `open_service`; ConfigError where the port is taken or the address is not this machine's own.
    """
    settings, folder = server_of(build), folder_of(build).path
    complain = EventText(lambda text: print(f"sdc: {text}", file=sys.stderr, flush=True), PROBLEM)
    with heard(EventLog(folder / LOG), SERVER), heard(complain, SERVER), open_service(build, history) as service:
        access = access_to(service.log, settings)
        runs = Path(build.config.output.folder)
        secret, behind = _secret(folder), proxy_secret(settings)
        app = create_app(service, settings, access, secret=secret, now=utc_now, runs=runs, proxy_secret=behind)

        def listening(url: str) -> None:
            emit("server started", url, SERVER, version=service.state.version)
            # keys when it listens: of one that was made before, a failure to listen would leave nobody with it
            ready(url, new_keys(access, access.without_key(utc_now()), folder))
            announce_expiry(access)

        serve(app, host, port, listening, lambda: announce_expiry(access))
        emit("server ended", logger=SERVER, version=service.state.version)


def _secret(folder: Path) -> bytes:
    """What sessions are signed with: for this server alone, and the same after its next start."""
    path = folder / SECRET
    # whole or not at all: with an empty one, that of a server killed before it wrote, anybody could sign
    with NamedTemporaryFile(dir=folder) as file, suppress(FileExistsError):
        file.write(secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)
    require_own(path, "remove it: users then log in again")
    return path.read_bytes()


def proxy_secret(settings: ServerConfig) -> bytes:
    """What the proxy sends; ConfigError where it is short, InputError where others may read or change it."""
    if (path := settings.proxy_secret) is None:
        return b""
    require_own(file := Path(path))
    if file.stat().st_mode & stat.S_IROTH:
        raise InputError(f"server.proxy_secret = {path}: every user may read it; run chmod o-r {path}")
    secret = file.read_bytes().strip()
    if len(secret) < PROXY_SECRET_BYTES:
        raise ConfigError(
            f"server.proxy_secret = {path} has {len(secret)} characters; make one of {PROXY_SECRET_BYTES} or more, as "
            "with openssl rand -hex 32"
        )
    return secret
