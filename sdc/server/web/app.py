"""The application that answers over HTTP: the API, the pages that say the same to people, and what listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from datetime import datetime
from pathlib import Path
from typing import Annotated

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
from sdc.model.errors import SdcError
from sdc.record.database import ChainError
from sdc.server.service.query_service import QueryService
from sdc.server.web.access import Access, AccessError, Signed
from sdc.server.web.api import routes
from sdc.server.web.bodies import PREFIX
from sdc.server.web.connections import Connections
from sdc.server.web.documentation import documentation_page, openapi_of
from sdc.server.web.gateway import SESSION, Gateway
from sdc.server.web.problems import UNAVAILABLE, Problem, denied, response_to, show_pages_by
from sdc.server.web.pxapi import px_routes

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
    service: QueryService,
    settings: ServerConfig,
    access: Access,
    *,
    secret: bytes,
    now: Callable[[], datetime],
    runs: Path,
    clock: Callable[[], float] = time.monotonic,
    proxy_secret: bytes = b"",
    connections: Connections | None = None,
) -> ASGIApp:
    """The application; `secret` signs sessions and forms, `now` and `clock` say when keys expire and buckets fill.

    runs          the folder of run folders, of whose last builds the metrics tell
    proxy_secret  what the proxy sends as X-Proxy-Secret; empty where there is none
    connections   those of what listens, for the metrics
    """
    app = FastAPI(
        title=service.title,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry=UNOBSERVED,
    )
    signed = Signed(secret)
    _add_problems(app)
    app.include_router(routes(service, settings, access, now, runs))
    app.include_router(px_routes(service, settings, now))
    app.include_router(_documentation(app))
    app.include_router(_sessions(access, signed, now))
    _add_pages(app, service, settings, signed)
    return Gateway(app, settings, access, signed, now, clock, proxy_secret, connections)


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


def _add_pages(app: FastAPI, service: QueryService, settings: ServerConfig, signed: Signed) -> None:
    from sdc.server.web.pages import error_page, pages

    show_pages_by(error_page)
    app.mount("/static", static_files())

    async def form_checked(request: Request) -> None:
        if request.method == "POST":
            _check(signed, str((await request.form()).get("csrf", "")), request)

    app.include_router(pages(service, settings), include_in_schema=False, dependencies=[Depends(form_checked)])


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
