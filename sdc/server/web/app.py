"""The server's HTTP interface: the API, and the pages that say the same to people."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Form, Query
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from pydantic import BaseModel, Field
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, SdcError
from sdc.model.recent import Recent
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.record.history import HistoryError
from sdc.server.desk.desk import DeskLike, Explained, Moment, Reply
from sdc.server.desk.desk import Request as Asked
from sdc.server.desk.effect import Effect
from sdc.server.desk.levels import tells
from sdc.server.desk.rules import NOT_RELEASED
from sdc.server.web.access import NAME, Access, AccessError, Role, Signed, User, require_operator
from sdc.server.web.answers import Answer, Format, FormatError, Shape, etag, file_name, format_of, pieces
from sdc.server.web.documentation import (
    BINARY,
    BYTES,
    HEALTH,
    METRICS,
    METRICS_TYPE,
    NEW_KEY,
    REPLY,
    TABLE,
    AliveBody,
    AllFrontiersBody,
    EffectBody,
    ExplainedBody,
    FrontierBody,
    HistoryBody,
    MatrixBody,
    RequestsBody,
    Responses,
    RevokedBody,
    RoundBody,
    VariablesBody,
    documentation_page,
    documented,
    openapi_of,
)
from sdc.server.web.gateway import LOCAL_HOSTS, SESSION, Gateway
from sdc.server.web.problems import Problem, denied, response_to, tell_pages_by

Found = TypeVar("Found")
PREFIX, TOTAL = "/api", "(total)"
KEPT_BYTES, MOST_KEPT = 64 << 20, 1 << 20  # of written answers that are kept, and of one of them
STATUS_OF = {"answered": 200, "released": 200, "refused": 200, "pending": 202}
LAST_SECONDS = 2  # for answers that are under way when it ends; a command that ends takes no longer than twice that
FOR_EVER = "max-age=31536000, immutable"
UNAVAILABLE = Problem(
    503,
    "unavailable",
    "the history of this server cannot be written or read now, and nothing is told that is not stored; ask again later",
    {},
    {"retry-after": "5"},
)


class Wanted(BaseModel):
    """A request for a sub-table."""

    variables: Annotated[list[str], Field(description="names of variables, each once", max_length=63)]


Version = Annotated[int | None, Query(ge=0, description="0 is the first; the last where none is given")]


class NewKey(BaseModel):
    """A key that an operator makes."""

    user: Annotated[str, Field(pattern=NAME)]
    role: Role = "user"
    days: Annotated[int, Field(ge=1, le=3660)] = 365


# Sub-tables in addresses and bodies


def sub_table_of(names: Iterable[str], schema: Schema) -> SubTable:
    """The sub-table of some names; Problem where there is none, one is unknown, or one is there twice."""
    names = list(names)
    if not names:
        raise Problem(400, "empty-request", "no variable is asked for; name one at least")
    for name in names:
        if name not in schema.names:
            there = ", ".join(schema.names)
            raise Problem(400, "unknown-variable", f"there is no variable {name[:80]!r}; there are {there}")
        if names.count(name) > 1:
            raise Problem(400, "repeated-variable", f"the variable {name[:80]!r} is asked for twice; name it once")
    return st.named(names, schema)


def address_of(subtable: SubTable, schema: Schema) -> str:
    """The path of a table, below `/api/tables/` or `/tables/`."""
    from urllib.parse import quote

    return "*".join(quote(name, safe="") for name in st.names(subtable, schema)) or TOTAL


def reply_facts(reply: Reply, schema: Schema) -> dict[str, Any]:
    """The body of an answer to a request."""
    is_had = reply.decision in ("answered", "released")
    return {
        "decision": reply.decision,
        "code": reply.code,
        "message": reply.message,
        "table": f"{PREFIX}/tables/{address_of(reply.sub_table, schema)}" if is_had else None,
        "projection": [st.names(t, schema) for t in reply.projection],
        "job": None if reply.job is None else f"{PREFIX}/jobs/{reply.job}",
        "version": reply.version,
    }


def effect_facts(effect: Effect, schema: Schema, version: int) -> dict[str, Any]:
    """The body of an effect."""

    def named(subtables: Iterable[SubTable]) -> list[list[str]]:
        return [st.names(t, schema) for t in subtables]

    return {
        "sub_table": st.names(effect.sub_table, schema),
        "status": effect.status.name.lower(),
        "is_safe": effect.is_safe,
        "released": named(effect.released),
        "unreleasable": named(effect.unreleasable),
        "newly": {"released": effect.newly[0], "unreleasable": effect.newly[1]},
        "frontiers": {
            "released": named(effect.released_frontier),
            "unreleasable": named(effect.unreleasable_frontier),
        },
        "looked_at": effect.looked_at,
        "of": effect.of,
        "version": version,
    }


def asked_facts(asked: Asked, schema: Schema) -> dict[str, Any]:
    """One request, as its user and operators see it."""
    facts = asdict(asked)
    facts["sub_table"] = st.names(asked.sub_table, schema)
    return facts


def explained_facts(explained: Explained, schema: Schema) -> dict[str, Any]:
    """Why, for operators."""
    return {**asdict(explained), "request": asked_facts(explained.request, schema)}


def moment_facts(moment: Moment, schema: Schema) -> dict[str, Any]:
    """The frontiers at one version."""

    def named(subtables: Iterable[SubTable]) -> list[list[str]]:
        return [st.names(t, schema) for t in subtables]

    cause = None if moment.cause is None else st.names(moment.cause, schema)
    released, unreleasable = named(moment.released), named(moment.unreleasable)
    return {**asdict(moment), "cause": cause, "released": released, "unreleasable": unreleasable}


def matrix_facts(moments: Sequence[Moment], version: int | None, schema: Schema, *, is_all: bool) -> dict[str, Any]:
    """The frontiers at a version, the last where none is given, as rows of X and dots; Problem where it is not there.

    is_all  with the unreleasable frontier
    """
    last = len(moments) - 1
    moment = moments[version_of(version, last)]
    cause = None if moment.cause is None else st.names(moment.cause, schema)
    names = ("released", "unreleasable") if is_all else ("released",)
    rows = {name: [st.marks(t, len(schema)) for t in getattr(moment, name)] for name in names}
    facts = {"version": moment.version, "last": last, "at": moment.at, "cause": cause}
    return {**facts, "variables": list(schema.names), **rows}


def version_of(version: int | None, last: int) -> int:
    """The version that is asked for, or the last; Problem where there is none of that number."""
    if version is not None and version > last:
        raise Problem(404, "unknown-version", f"there is no version {version} yet, the last is {last}")
    return last if version is None else version


# The API


class Api:
    """What the addresses below /api do."""

    def __init__(self, desk: DeskLike, settings: ServerConfig, access: Access, now: Callable[[], datetime]) -> None:
        self._desk, self._settings, self._access, self._now = desk, settings, access, now
        self._kept = Recent[tuple[SubTable, str, Shape], bytes](KEPT_BYTES, len)

    @property
    def _schema(self) -> Schema:
        return self._desk.schema

    async def ask(self, wanted: Wanted, request: Request) -> JSONResponse:
        """Asks for a sub-table; what it is given is public for everybody from then on."""
        subtable = sub_table_of(wanted.variables, self._schema)
        self._check_cells(subtable, Shape())
        reply = await waited(self._desk.ask(subtable, user_of(request).name))
        return JSONResponse(reply_facts(reply, self._schema), STATUS_OF[reply.decision])

    async def job(self, number: int, request: Request) -> JSONResponse:
        """What became of a request that was pending; of one's own alone."""
        reply = await run_in_threadpool(self._desk.reply_to, number, user_of(request).name)
        if reply is None:
            raise Problem(404, "unknown-request", f"you have made no request of the number {number}")
        return JSONResponse(reply_facts(reply, self._schema), STATUS_OF[reply.decision])

    async def table(
        self,
        name: str,
        request: Request,
        zeros: Annotated[bool, Query(description="list cells without records too")] = False,
        totals: Annotated[bool, Query(description="a category (total) for each variable")] = False,
    ) -> Response:
        """A released sub-table, `A*B.csv`; without a suffix in the format that `Accept` likes best."""
        subtable, suffix = self._parsed(name)
        format, shape = _format(suffix, request.headers.get("accept", "")), Shape(zeros, totals)
        key = (subtable, format.suffix, shape)
        # what was written once is public for ever
        kept = self._kept.peek(key)
        marginal: Table | int | None = self._desk.records
        if kept is None and subtable:
            marginal = await run_in_threadpool(self._desk.marginal, subtable)
        if marginal is None:
            raise self._not_released(subtable)
        names = st.names(subtable, self._schema)
        kind = "inline" if suffix is None else "attachment"
        tag = etag(self._desk.public_id, names, format, shape, self._desk.texts)
        headers = {
            "etag": tag,
            "cache-control": f"{'public' if self._settings.is_public else 'private'}, {FOR_EVER}",
            "vary": "Accept",
            "content-disposition": f'{kind}; filename="{file_name(names, format)}"',
        }
        if {tag, "*"} & _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        self._check_cells(subtable, shape)
        if kept is None:
            found = await run_in_threadpool(_begun, self._desk, marginal, shape, format)
            if not isinstance(found, bytes):
                return StreamingResponse(iterate_in_threadpool(found), headers=headers, media_type=format.media_type)
            kept = self._kept.get(key, lambda: found)
        return Response(kept, headers=headers, media_type=format.media_type)

    def _parsed(self, name: str) -> tuple[SubTable, str | None]:
        stem, dot, suffix = name.rpartition(".")
        # names of variables may have dots
        has_suffix = dot and name.rpartition("*")[2] not in self._schema.names
        text = stem if has_suffix else name
        subtable = 0 if text == TOTAL else sub_table_of(text.split("*") if text else [], self._schema)
        return subtable, suffix if has_suffix else None

    def _not_released(self, subtable: SubTable) -> Problem:
        """The same whether it was refused, is undecided, or was never asked for."""
        state = self._desk.state
        reply = Reply("refused", "not-released", NOT_RELEASED, subtable, state.version, state.projection(subtable))
        facts = reply_facts(reply, self._schema)
        return Problem(404, facts.pop("code"), facts.pop("message"), facts)

    def _check_cells(self, subtable: SubTable, shape: Shape) -> None:
        """Before anything is counted: an estimate from the categories and the records."""
        cells, most = estimated_cells(subtable, self._schema, self._desk.records, shape), self._settings.limits.cells
        if cells > most:
            text = f"the sub-table may have {cells} cells, at most {most} are answered; ask for fewer variables"
            raise Problem(413, "too-large", text, {"limit": most, "asked": cells})

    async def variables(self) -> dict[str, Any]:
        """What can be asked for."""
        told = tells(self._schema)
        variables = [
            {"name": v.name, "categories": list(v.categories)} | ({"tells": told[v.name]} if v.name in told else {})
            for v in self._schema.variables
        ]
        texts = self._desk.texts.told
        return {"title": self._desk.title, "records": self._desk.records, "variables": variables, **texts}

    async def frontier(self) -> dict[str, Any]:
        """The released frontier: what is public, by its largest sub-tables."""
        state = self._desk.state
        found = {"released": self._named(state.released.frontier), "version": state.version}
        if self._settings.publish_unreleasable:
            found["unreleasable"] = self._named(state.unreleasable)
        return found

    async def matrix(self, version: Version = None) -> dict[str, Any]:
        """The released frontier after each release, a row of X and dots for each element."""
        moments = await run_in_threadpool(self._desk.moments)
        # of what could not be released before, operators alone hear
        is_all = self._settings.publish_unreleasable and version in (None, len(moments) - 1)
        return matrix_facts(moments, version, self._schema, is_all=is_all)

    async def requests(self, request: Request) -> dict[str, Any]:
        """One's own requests, the newest first."""
        asked = await run_in_threadpool(self._desk.requests, user_of(request).name)
        return {"requests": [asked_facts(one, self._schema) for one in asked]}

    async def alive(self) -> dict[str, Any]:
        """That the process answers, and no more; whether it can decide is asked at /api/health."""
        return {"alive": True}

    async def health(self, request: Request) -> JSONResponse:
        """Whether requests can be decided: the history is read now. Operators are told what is wrong."""
        found = await run_in_threadpool(self._desk.health)
        is_well = found["status"] == "ok"
        if not is_well and not user_of(request).may_look:
            found = {**found, "status": UNAVAILABLE.code}
        return JSONResponse(found, 200 if is_well else 503)

    # Of operators and auditors

    async def metrics(self, request: Request) -> Response:
        """Counters in Prometheus' text format; none tells what was asked for."""
        health, state = await run_in_threadpool(self._desk.health), self._desk.state
        answered = sorted(request.state.answered.items())
        lines = [
            *(f'sdc_answers_total{{status="{status}"}} {number}' for status, number in answered),
            f"sdc_ready {int(health['status'] == 'ok')}",
            f"sdc_version {state.version}",
            f"sdc_released_sub_tables {state.released.sub_tables(self._schema)}",
            f"sdc_pending_requests {health['pending']}",
        ]
        return Response("".join(f"{line}\n" for line in lines), media_type=METRICS_TYPE)

    async def operator_frontier(self) -> dict[str, Any]:
        """Both frontiers, and what is undecided."""
        state = self._desk.state
        frontiers = {"released": state.released.frontier, "direct": state.direct}
        frontiers |= {"unreleasable": state.unreleasable, "undecided": state.undecided}
        return {**{name: self._named(found) for name, found in frontiers.items()}, "version": state.version}

    async def operator_matrix(self, version: Version = None) -> dict[str, Any]:
        """Both frontiers after each release, a row of X and dots for each element."""
        moments = await run_in_threadpool(self._desk.moments)
        return matrix_facts(moments, version, self._schema, is_all=True)

    async def effect(
        self, variables: Annotated[str, Query(description="names, separated by commas", max_length=10_000)]
    ) -> dict[str, Any]:
        """What releasing a sub-table would do."""
        version = self._desk.state.version
        found = await waited(self._desk.effect(sub_table_of(variables.split(",") if variables else [], self._schema)))
        return effect_facts(found, self._schema, version)

    async def statuses(self) -> Response:
        """A byte a sub-table, by its number: 1 direct, 2 indirect, 3 unreleasable, 4 undecided, 5 open.

        0 at a number that is none, such as a variable without its coarser levels.
        """
        version = str(self._desk.state.version)
        return Response(self._desk.statuses().tobytes(), media_type=BYTES, headers={"x-version": version})

    async def all_requests(self) -> dict[str, Any]:
        """Requests of all users, the newest first."""
        asked = await run_in_threadpool(self._desk.requests)
        return {"requests": [asked_facts(one, self._schema) for one in asked]}

    async def explained(self, number: int) -> dict[str, Any]:
        """Why a request was decided as it was, with the cell that shows it."""
        found = await run_in_threadpool(self._desk.explained, number)
        if found is None:
            raise Problem(404, "unknown-request", f"there is no request of the number {number}")
        return explained_facts(found, self._schema)

    async def history(self) -> dict[str, Any]:
        """Both frontiers over time."""
        moments = await run_in_threadpool(self._desk.moments)
        return {"rules": list(self._desk.rules), "moments": [moment_facts(m, self._schema) for m in moments]}

    async def round(self, request: Request) -> dict[str, Any]:
        """Holds a round of the rule batch: what waits is decided together."""
        require_operator(user_of(request), changes=True)
        return {"decided": await waited(self._desk.round())}

    async def new_key(self, wanted: NewKey, request: Request) -> JSONResponse:
        """Makes a key, which is shown this once."""
        by = user_of(request)
        require_operator(by, changes=True)
        new_key = partial(self._access.new_key, wanted.user, wanted.role, wanted.days, self._now(), by.name)
        key = await run_in_threadpool(new_key)
        return JSONResponse({"user": wanted.user, "role": wanted.role, "key": key}, 201)

    async def revoke(self, number: str, request: Request) -> dict[str, Any]:
        """Ends a key, and the sessions that began with it."""
        by = user_of(request)
        require_operator(by, changes=True)
        if not await run_in_threadpool(self._access.revoke, number, by.name):
            raise Problem(404, "unknown-key", f"there is no key {number[:40]!r}")
        return {"revoked": number}

    def _named(self, subtables: Iterable[SubTable]) -> list[list[str]]:
        return [st.names(t, self._schema) for t in subtables]


# traces have addresses and the messages of exceptions, and go wherever the environment says
UNOBSERVED: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def user_of(request: Request) -> User:
    """Who asks, as the gateway found."""
    user = request.state.user
    if not isinstance(user, User):
        raise Problem(401, "unauthorised", "give a key of this server, or log in")
    return user


async def waited(future: Future[Found]) -> Found:
    # who goes away takes no decision with them: its future is the desk's
    return await asyncio.shield(asyncio.wrap_future(future))


def estimated_cells(subtable: SubTable, schema: Schema, records: int, shape: Shape) -> int:
    """How many cells an answer has at most: no more than records where zeros are left out."""
    cells = 1
    for v in st.members(schema.telling(subtable)):
        cells *= schema.sizes[v] + shape.totals
    # each cell with records is in 2^k totals
    return cells if shape.zeros else min(cells, records << (st.ways(subtable, schema) if shape.totals else 0))


def _format(suffix: str | None, accept: str) -> Format:
    try:
        return format_of(suffix, accept)
    except FormatError as error:
        raise Problem(406, "unknown-format", str(error)) from error


def _tags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}


def _begun(desk: DeskLike, marginal: Any, shape: Shape, format: Format) -> Any:
    """The whole answer where it is small, else its pieces."""
    try:
        written = pieces(Answer(desk.title, marginal, shape, desk.texts), format)
    except FormatError as error:
        raise Problem(406, "unknown-format", str(error)) from error
    had, size = list[bytes](), 0
    for piece in written:
        had.append(piece)
        size += len(piece)
        if size > MOST_KEPT:
            return _chained(had, written)
    return b"".join(had)


def _chained(had: list[bytes], written: Iterable[bytes]) -> Iterable[bytes]:
    yield from had
    yield from written


def _must_look(request: Request) -> None:
    require_operator(user_of(request))


def _routes(api: Api) -> APIRouter:
    router = APIRouter(prefix=PREFIX)
    users: list[tuple[str, str, Callable[..., Any], Responses]] = [
        ("POST", "/requests", api.ask, documented(REPLY, 403, 415)),
        ("GET", "/jobs/{number}", api.job, documented(REPLY, 404)),
        ("GET", "/tables/{name:path}", api.table, documented(TABLE, 404, 406)),
        ("GET", "/variables", api.variables, documented(VariablesBody)),
        ("GET", "/frontier", api.frontier, documented(FrontierBody)),
        ("GET", "/frontier/matrix", api.matrix, documented(MatrixBody, 404)),
        ("GET", "/requests", api.requests, documented(RequestsBody)),
        ("GET", "/alive", api.alive, documented(AliveBody)),
        ("GET", "/health", api.health, documented(HEALTH)),
    ]
    operators: list[tuple[str, str, Callable[..., Any], Responses]] = [
        ("GET", "/operator/frontier", api.operator_frontier, documented(AllFrontiersBody, 403)),
        ("GET", "/operator/frontier/matrix", api.operator_matrix, documented(MatrixBody, 403, 404)),
        ("GET", "/operator/effect", api.effect, documented(EffectBody, 403)),
        ("GET", "/operator/metrics", api.metrics, documented(METRICS, 403)),
        ("GET", "/operator/statuses", api.statuses, documented(BINARY, 403)),
        ("GET", "/operator/requests", api.all_requests, documented(RequestsBody, 403)),
        ("GET", "/operator/requests/{number}", api.explained, documented(ExplainedBody, 403, 404)),
        ("GET", "/operator/history", api.history, documented(HistoryBody, 403)),
        ("POST", "/operator/round", api.round, documented(RoundBody, 403)),
        ("POST", "/operator/keys", api.new_key, documented(NEW_KEY, 403, 415)),
        ("DELETE", "/operator/keys/{number}", api.revoke, documented(RevokedBody, 403, 404)),
    ]
    may_look = [Depends(_must_look)]
    for asked, dependencies in ((users, []), (operators, may_look)):
        for method, path, does, answers in asked:
            router.add_api_route(
                path,
                does,
                methods=[method],
                responses=answers,
                status_code=min(status for status in answers if isinstance(status, int)),
                response_model=None,
                response_class=Response if answers.get(200, {}).get("content") else JSONResponse,
                dependencies=dependencies,
            )
    return router


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
    clock: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """The application; `secret` signs sessions and forms, `now` and `clock` say when keys expire and buckets fill."""
    app = FastAPI(
        title=desk.title, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, telemetry=UNOBSERVED
    )
    signed = Signed(secret)
    _add_problems(app)
    app.include_router(_routes(Api(desk, settings, access, now)))
    app.include_router(_documentation(app))
    app.include_router(_sessions(access, signed, now))
    _add_pages(app, desk, settings, signed)
    return Gateway(app, settings, access, signed, now, clock)


def _sessions(access: Access, signed: Signed, now: Callable[[], datetime]) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.post("/login")
    async def login(request: Request, key: Annotated[str, Form()] = "", csrf: Annotated[str, Form()] = "") -> Response:
        _check(signed, csrf, request)
        user = access.by_key(key.strip(), now())
        found = RedirectResponse("/operator" if user.may_look else "/", 303)
        secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        found.set_cookie(SESSION, signed.session(user), httponly=True, samesite="strict", secure=secure, path="/")
        return found

    @router.post("/logout")
    async def logout(request: Request, csrf: Annotated[str, Form()] = "") -> Response:
        _check(signed, csrf, request)
        found = RedirectResponse("/", 303)
        found.delete_cookie(SESSION, path="/")
        return found

    return router


def _check(signed: Signed, csrf: str, request: Request) -> None:
    signed.check_form(csrf, request.state.browser)


def _add_pages(app: FastAPI, desk: DeskLike, settings: ServerConfig, signed: Signed) -> None:
    from sdc.server.web.pages import error_page, pages

    tell_pages_by(error_page)
    app.mount("/static", StaticFiles(directory=Path(str(files("sdc.server") / "static"))))

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
        return response_to(request, Problem(error.status_code, code, message, {}, dict(error.headers or {})))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and request.url.path.startswith(PREFIX) and kind != "application/json":
            text = "the body is not application/json; send JSON and say so in the header Content-Type"
            return response_to(request, Problem(415, "unsupported-media-type", text))
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        text = f"{where[:200]}: {str(error.errors()[0]['msg'])[:200]}; see the documentation at /api"
        return response_to(request, Problem(400, "bad-body", text))

    @app.exception_handler(HistoryError)
    @app.exception_handler(BrokenProcessPool)
    async def unavailable(request: Request, error: Exception) -> Response:
        return response_to(request, UNAVAILABLE)

    @app.exception_handler(SdcError)
    async def refused(request: Request, error: SdcError) -> Response:
        return response_to(request, Problem(400, "refused", str(error)))


NOT_ALLOWED = ("not-allowed", "this address does not do that; see the documentation at /api")


# Listening


def serve(app: ASGIApp, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Listens until it is told to end; `ready` hears the URL when it does.

    ConfigError where the port is taken, or where others could reach it.
    """
    if host not in LOCAL_HOSTS:
        raise ConfigError(
            f"--host {host}: a server listens on this machine alone, at 127.0.0.1; put a proxy before it that others "
            "reach, with server.proxy_header"
        )
    listening = _bound(host, port)
    shown = f"[{host}]" if ":" in host else host
    settings = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who connects, and not whom they say that they are
        timeout_keep_alive=20,
        timeout_graceful_shutdown=LAST_SECONDS,
        h11_max_incomplete_event_size=65536,
    )
    server = _Told(settings, lambda: ready(f"http://{shown}:{listening.getsockname()[1]}"))
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


class _Told(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
