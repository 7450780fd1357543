"""The application that answers over HTTP: the API, the pages that say the same to people, and what listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Form
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sdc.config.server import ServerConfig
from sdc.model.errors import SdcError
from sdc.record.database import ChainError
from sdc.server.service.service import Service
from sdc.server.web.access import Access, Signed
from sdc.server.web.api import routes
from sdc.server.web.bodies import PREFIX, openapi_of
from sdc.server.web.connections import Connections
from sdc.server.web.gateway import SESSION, Gateway
from sdc.server.web.pages import pages
from sdc.server.web.problems import PX_PREFIX, UNAVAILABLE, Problem, page_of, response_to
from sdc.server.web.pxapi import px_routes

# traces have addresses and the messages of exceptions, and go wherever the environment says
UNOBSERVED = TelemetryConfig(tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False)


def create_app(
    service: Service,
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
    for kind in (Problem, HTTPException, RequestValidationError, BrokenProcessPool, SdcError):
        app.add_exception_handler(kind, _answer)

    async def form_checked(request: Request) -> None:
        if request.method == "POST":
            signed.check_form(str((await request.form()).get("csrf", "")), request.state.browser)

    app.include_router(routes(service, settings, access, now, runs))
    app.include_router(px_routes(service, settings, now))
    own = pages(service, settings)
    _add_sessions(own, access, signed, now)
    _add_documentation(own, app)
    app.include_router(own, include_in_schema=False, dependencies=[Depends(form_checked)])
    # what the pages have of their own, and what they share with an explorer's
    app.mount("/static", StaticFiles(packages=[("sdc.server.web", "static"), ("sdc.report", "static")]))
    return Gateway(app, settings, access, signed, now, clock, proxy_secret, connections)


async def _answer(request: Request, error: Exception) -> Response:
    return response_to(request, _problem_of(request, error))


def _add_documentation(router: APIRouter, app: FastAPI) -> None:
    @cache
    def content() -> dict[str, Any]:
        """Made once: it takes a tenth of a second, in which nobody else would be answered."""
        return openapi_of(app)

    @router.get(f"{PREFIX}/openapi.json")
    async def document() -> JSONResponse:
        return JSONResponse(content())

    @router.get(PREFIX)
    async def page(request: Request) -> Response:
        return page_of(request, "documentation", paths=content()["paths"], px_prefix=PX_PREFIX)


def _add_sessions(router: APIRouter, access: Access, signed: Signed, now: Callable[[], datetime]) -> None:
    @router.post("/login")
    async def login(request: Request, key: Annotated[str, Form()] = "") -> Response:
        user = access.by_key(key.strip(), now())
        found = RedirectResponse("/operator" if user.may_look else "/", 303)
        secure = request.state.is_secure
        found.set_cookie(SESSION, signed.session(user), httponly=True, samesite="strict", secure=secure, path="/")
        return found

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        session = signed.session_of(request.cookies.get(SESSION, ""))
        if session and not request.state.user.is_public:
            await run_in_threadpool(access.log_out, session, request.state.user.name, now())
        found = RedirectResponse("/", 303)
        found.delete_cookie(SESSION, path="/")
        return found


def _problem_of(request: Request, error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case HTTPException():
            code, message = _FAILED.get(error.status_code, _FAILED[400])
            return Problem(code, message, {}, dict(error.headers or {}), error.status_code)
        case RequestValidationError():
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if request.method == "POST" and request.url.path.startswith(PREFIX) and kind != "application/json":
                text = "the body is not application/json; send JSON and say so in the header Content-Type"
                return Problem("unsupported-media-type", text)
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            text = f"{where[:200]}: {str(error.errors()[0]['msg'])[:200]}; see the documentation at /api"
            return Problem("bad-body", text)
        case ChainError() | BrokenProcessPool():
            return UNAVAILABLE
    return Problem("refused", str(error))


_FAILED = {
    400: ("bad-body", "the body cannot be read; send what the documentation at /api says"),
    404: ("unknown-path", "there is nothing at this address"),
    405: ("not-allowed", "this address does not do that; see the documentation at /api"),
}
