"""The API: what the addresses below /api do."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.background import BackgroundTask
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.recent import Recent
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.server.service.history import NO_PARTS_HERE
from sdc.server.service.outcome import Reply, SuppressedAnswer
from sdc.server.service.rules import Simulatable
from sdc.server.service.service import Service
from sdc.server.web import bodies
from sdc.server.web.access import Access, User, require_operator
from sdc.server.web.answers import Answer, AnswerFile, Shape, etag, file_name, format_of, written
from sdc.server.web.bodies import BINARY, BYTES, NOT_WELL, PENDING, PLAIN_TEXT, TABLE, Responses, documented
from sdc.server.web.connections import Connections
from sdc.server.web.problems import LIVE, METRICS, READY, UNAVAILABLE, Problem
from sdc.storage.runs import STATES, last_runs
from sdc.version import VERSION

Answered = Mapping[tuple[str, int], int]
"""How many answers were of each route, by its template, and status."""


@dataclass(frozen=True)
class _Metrics(Collector):
    """All metrics now; of the builds below `runs` the last of each name."""

    service: Service
    access: Access
    answered: Answered
    connections: Connections | None
    runs: Path

    def collect(self) -> Iterator[Metric]:
        health, (made, begun), state = self.service.health(), self.service.tally(), self.service.state
        versions = {"version": VERSION, "python": platform.python_version()}
        yield InfoMetricFamily("sdc", "Versions of what runs.", versions)
        answered = {(route, str(status)): number for (route, status), number in self.answered.items()}
        yield _counter("http_requests", "Answers since the start, an error as 500.", answered, "route", "status")
        yield _counter("decisions", "Decisions in the history, those to wait too.", made, "outcome")
        yield _counter("outages", "How often since the start a fault has begun.", begun, "fault")
        yield _gauge("ready", "1 where requests can be decided.", {(): int(health["status"] == "ok")})
        yield _gauge("version", "t, the releases after the first.", {(): state.version})
        released = state.released.sub_tables(self.service.schema)
        yield _gauge("released_sub_tables", "Sub-tables that are public.", {(): released})
        yield _gauge("pending_requests", "Requests without a decision.", {(): health["pending"]})
        if shared := self.connections:
            yield _gauge("connections", "Connections that are open.", {(): shared.open})
            yield _counter("connections_ended", "Connections that the server ended.", shared.ended, "reason")
        keys = {user: end.timestamp() for user, end in self.access.expiries().items()}
        yield _gauge("key_expiry_timestamp_seconds", "When the last key of a user expires.", keys, "user")
        runs = last_runs(self.runs)
        states = {(run.name, state): int(run.state == state) for run in runs for state in STATES}
        yield _gauge("build_state", "1 of the state of the last build.", states, "name", "state")
        seconds = {(run.name, record.name): record.seconds for run in runs for record in run.stages}
        yield _gauge("build_stage_seconds", "What each stage took.", seconds, "name", "stage")
        ended = {run.name: datetime.fromisoformat(run.ended).timestamp() for run in runs if run.ended}
        yield _gauge("build_end_timestamp_seconds", "When it ended, not while it runs.", ended, "name")


def _metric(
    kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, says: str, rows: Mapping[Any, float], *labels: str
) -> Metric:
    """The number of each value of the label, or tuple of values."""
    family = kind(f"sdc_{name}", says, labels=labels)
    for values, number in sorted(rows.items()):
        family.add_metric([values] if isinstance(values, str) else values, number)
    return family


_counter, _gauge = partial(_metric, CounterMetricFamily), partial(_metric, GaugeMetricFamily)


Found = TypeVar("Found")
TOTAL = "(total)"
KEPT_BYTES = 1 << 30  # of files with answers
SMALL_BYTES = 1 << 16  # of an answer that is sent at once; a response by file needs three threads in turn
FOR_EVER = "max-age=31536000, immutable"

Route = tuple[str, str, Callable[..., Any], Responses]
Visitor = Annotated[str, Query(description="of a visitor without a cookie, as the address of the job has it")]
Version = Annotated[int | None, Query(ge=0, description="0 is the first; the last where none is given")]


def sub_table_of(names: Iterable[str], schema: Schema) -> SubTable:
    """The sub-table of some names; Problem where there is none, one is unknown, or one is there twice."""
    names = list(names)
    if not names:
        raise Problem("empty-request", "no variable is requested; name at least one")
    for name in names:
        if name not in schema.names:
            there = ", ".join(schema.names)
            raise Problem("unknown-variable", f"there is no variable {name[:80]!r}; there are {there}")
        if names.count(name) > 1:
            raise Problem("repeated-variable", f"the variable {name[:80]!r} is requested twice; name it once")
    return st.named(names, schema)


async def asked(
    service: Service, settings: ServerConfig, variables: Sequence[str], who: str, *, in_part: bool
) -> Reply:
    """The answer to a request; Problem where it is none, or for what is too large."""
    subtable = sub_table_of(variables, service.schema)
    # the number of categories of a variable without a public table would be revealed by this
    check_cells(service, settings, subtable & service.state.named, Shape())
    if in_part and Simulatable.name in service.rules:
        raise Problem("not-possible", NO_PARTS_HERE)
    return await waited(service.ask(subtable, who, in_part=in_part))


def check_cells(service: Service, settings: ServerConfig, subtable: SubTable, shape: Shape) -> None:
    """Before anything is counted: an estimate from the categories and the records."""
    most, cells = settings.limits.cells, estimated_cells(subtable, service.schema, service.records, shape)
    if cells > most:
        text = f"the sub-table may have {cells} cells, at most {most} are answered; ask for fewer variables"
        raise Problem("too-large", text, {"limit": most, "asked": cells})


@dataclass(frozen=True)
class _Handlers:
    """What the addresses do: for everybody, for operators and auditors, and what operators change.

    runs  the folder of run folders, of whose last builds the metrics tell
    kept  answers that were written, each public for ever
    """

    service: Service
    settings: ServerConfig
    access: Access
    now: Callable[[], datetime]
    runs: Path
    kept: Recent[tuple[SubTable, str, Shape], AnswerFile] = field(
        default_factory=lambda: Recent(KEPT_BYTES, lambda file: file.size)
    )

    async def ask(self, wanted: bodies.Wanted, request: Request, response: Response) -> bodies.ReplyBody:
        """Asks for a sub-table; what it is given is public for everybody from then on."""
        user = user_of(request)
        reply = await asked(self.service, self.settings, wanted.variables, user.owner, in_part=wanted.in_part)
        return self._reply(reply, response, user)

    async def job(self, number: int, request: Request, response: Response, visitor: Visitor = "") -> bodies.ReplyBody:
        """What became of a request that was pending; of one's own alone."""
        user = user_of(request)
        if user.is_public and visitor:
            user = replace(user, visitor=visitor)
        reply = await run_in_threadpool(self.service.reply_to, number, user.owner)
        if reply is None:
            raise Problem("unknown-request", f"you have made no request of the number {number}")
        return self._reply(reply, response, user)

    def _reply(self, reply: Reply, response: Response, user: User) -> bodies.ReplyBody:
        response.status_code = reply.status
        return bodies.ReplyBody.showing(reply, self.service.schema, user.visitor)

    def requests(self, request: Request) -> bodies.RequestsBody:
        """One's own requests, the newest first."""
        asked = self.service.requests(user_of(request).owner)
        return bodies.RequestsBody.showing(asked, self.service.schema, own=True)

    async def table(
        self,
        name: str,
        request: Request,
        zeros: Annotated[bool, Query(description="list cells without records too")] = False,
        totals: Annotated[bool, Query(description="a category (total) for each variable")] = False,
    ) -> Response:
        """A released sub-table, `A*B.csv` or `A,B.csv`; without a suffix in the format that `Accept` likes best.

        Of one that was answered with suppressed cells what is public: a suppressed cell has the mark of the format.
        """
        subtable, suffix = self._parsed(name)
        format, shape = format_of(suffix, request.headers.get("accept", "")), Shape(zeros, totals)
        key = (subtable, format.suffix, shape)
        # what was written once is public for ever
        kept = self.kept.peek(key)
        public: Table | SuppressedAnswer | int | None = self.service.records
        if kept is None and subtable:
            public = await run_in_threadpool(public_of, self.service, subtable)
        if public is None:
            raise self._not_released(subtable)
        names = st.names(subtable, self.service.schema)
        kind = "inline" if suffix is None else "attachment"
        within = [table.schema.names for table in public.within] if isinstance(public, SuppressedAnswer) else None
        tag = etag(self.service.public_id, names, format, shape, self.service.texts, within)
        # a suppressed table may tell more totals when more is released, and be released whole
        how_long = FOR_EVER if within is None else "no-cache"
        headers = {
            "etag": tag,
            "cache-control": f"{'public' if self.settings.is_public else 'private'}, {how_long}",
            "vary": "Accept",
            "content-disposition": f'{kind}; filename="{file_name(names, format)}"',
        }
        if has_it(request, tag):
            return Response(status_code=304, headers=headers)
        check_cells(self.service, self.settings, subtable, shape)
        if kept is None:
            answer = await run_in_threadpool(Answer, self.service.title, public, shape, self.service.texts)
            found = await run_in_threadpool(written, answer, format)
            if not isinstance(found, AnswerFile):
                headers["accept-ranges"] = "none"
                return StreamingResponse(iterate_in_threadpool(found), headers=headers, media_type=format.media_type)
            kept = found if within is not None else self.kept.get(key, lambda: found)
        if kept.size <= SMALL_BYTES and "range" not in request.headers:
            headers["accept-ranges"] = "bytes"
            return Response(Path(kept.path).read_bytes(), headers=headers, media_type=format.media_type)
        held = BackgroundTask(kept.hold)
        return FileResponse(kept.path, headers=headers, media_type=format.media_type, background=held)

    def _parsed(self, name: str) -> tuple[SubTable, str | None]:
        stem, dot, suffix = name.rpartition(".")
        # names of variables may have dots
        schema = self.service.schema
        has_suffix = dot and bodies.names_in(name, schema)[-1] not in schema.names
        text = stem if has_suffix else name
        subtable = 0 if text == TOTAL else sub_table_of(bodies.names_in(text, schema) if text else [], schema)
        return subtable, suffix if has_suffix else None

    def _not_released(self, subtable: SubTable) -> Problem:
        """The same whether it was refused, is undecided, or was never asked for."""
        reply = Reply.not_released(subtable, self.service.state)
        facts = bodies.ReplyBody.showing(reply, self.service.schema).model_dump()
        return Problem(facts.pop("code"), facts.pop("message"), facts)

    def variables(self) -> bodies.VariablesBody:
        """What can be asked for."""
        return bodies.VariablesBody.showing(self.service)

    def frontier(self) -> bodies.FrontierBody:
        """The released frontier: what is public, by its largest sub-tables."""
        state, is_all = self.service.state, self.settings.publish_unreleasable
        more = {"unreleasable": state.unreleasable} if is_all else {}
        return bodies.FrontierBody.with_names(state.schema, **bodies.frontiers_of(state), **more)

    def matrix(self, version: Version = None) -> bodies.MatrixBody:
        """The released frontier after each release, a row of X and dots for each element."""
        moments, schema = self.service.moments(), self.service.schema
        # of what could not be released before, operators alone hear
        is_all = self.settings.publish_unreleasable and version in (None, len(moments) - 1)
        return bodies.MatrixBody.showing(moments, version, schema, is_all=is_all)

    async def alive(self) -> bodies.AliveBody:
        """That the process answers, and no more; whether it can decide is asked at /readyz."""
        return bodies.AliveBody(alive=True)

    async def ready(self, request: Request, response: Response) -> bodies.HealthBody:
        """Whether requests can be decided: the history is read now. Operators see what is wrong."""
        found = bodies.HealthBody(**await run_in_threadpool(self.service.health))
        if found.status != "ok":
            response.status_code = UNAVAILABLE.status
            if not user_of(request).may_look:
                found.status = UNAVAILABLE.code
        return found

    # For operators and auditors

    async def metrics(self, request: Request) -> Response:
        """Counters and gauges in Prometheus' text format; none reveals what was asked for, nor a value of the data."""
        answered, shared = dict(request.state.answered), request.state.connections
        found = _Metrics(self.service, self.access, answered, shared, self.runs)
        return Response(await run_in_threadpool(generate_latest, found), media_type=CONTENT_TYPE_LATEST)

    def operator_frontier(self) -> bodies.AllFrontiersBody:
        """Both frontiers, and what is undecided."""
        state = self.service.state
        return bodies.AllFrontiersBody.with_names(state.schema, state, **bodies.frontiers_of(state))

    def operator_matrix(self, version: Version = None) -> bodies.MatrixBody:
        """Both frontiers after each release, a row of X and dots for each element."""
        return bodies.MatrixBody.showing(self.service.moments(), version, self.service.schema, is_all=True)

    async def effect(
        self, variables: Annotated[str, Query(description="names, separated by commas", max_length=10_000)]
    ) -> bodies.EffectBody:
        """What releasing a sub-table would do."""
        schema, version = self.service.schema, self.service.state.version
        found = await waited(self.service.effect(sub_table_of(variables.split(",") if variables else [], schema)))
        return bodies.EffectBody.showing(found, schema, version)

    async def statuses(self) -> Response:
        """A byte a sub-table, by its number: 1 direct, 2 indirect, 3 unreleasable, 4 undecided, 5 open.

        0 at a number that is none, such as a variable without its coarser levels.
        """
        version = str(self.service.state.version)
        return Response(self.service.statuses().tobytes(), media_type=BYTES, headers={"x-version": version})

    def all_requests(self) -> bodies.RequestsBody:
        """Requests of all users, the newest first."""
        return bodies.RequestsBody.showing(self.service.requests(), self.service.schema, own=False)

    def explained(self, number: int) -> bodies.ExplainedBody:
        """Why a request was decided as it was, with the cell that shows it."""
        found = self.service.explained(number, finds=True)
        if found is None:
            raise Problem("unknown-request", f"there is no request of the number {number}")
        (asked,) = bodies.RequestsBody.showing([found.request], self.service.schema, own=False).requests
        return bodies.ExplainedBody.with_names(self.service.schema, found, request=asked)

    def history(self) -> bodies.HistoryBody:
        """Both frontiers over time."""
        moments = [bodies.MomentBody.with_names(self.service.schema, moment) for moment in self.service.moments()]
        return bodies.HistoryBody(rules=list(self.service.rules), moments=moments)

    async def round(self) -> bodies.RoundBody:
        """Holds a round of the rule batch: what waits is decided together."""
        return bodies.RoundBody(decided=await waited(self.service.round()))

    def new_key(self, wanted: bodies.NewKey, request: Request) -> bodies.KeyBody:
        """Makes a key, which is shown this once."""
        role = self.access.account(wanted.user).role
        if wanted.role not in (None, role):
            text = f"server.users gives {wanted.user} the role {role}; change it there, or ask for that one"
            raise Problem("bad-body", text)
        key = self.access.new_key(wanted.user, self.now(), wanted.days, user_of(request).name)
        return bodies.KeyBody(user=wanted.user, role=role, key=key)

    def revoke(self, number: str, request: Request) -> bodies.RevokedBody:
        """Ends a key, and the sessions that began with it."""
        if not self.access.revoke(number, user_of(request).name):
            raise Problem("unknown-key", f"there is no key {number[:40]!r}")
        return bodies.RevokedBody(revoked=number)


def user_of(request: Request) -> User:
    """Who asks, as the gateway found."""
    user: User = request.state.user
    return user


async def waited(future: Future[Found]) -> Found:
    # who goes away takes no decision with them: its future is the service's
    return await asyncio.shield(asyncio.wrap_future(future))


def estimated_cells(subtable: SubTable, schema: Schema, records: int, shape: Shape) -> int:
    """How many cells an answer has at most: no more than records where zeros are left out."""
    cells = prod(schema.sizes[v] + shape.totals for v in st.members(schema.levels.finest(subtable)))
    # each cell with records is in 2^k totals
    return cells if shape.zeros else min(cells, records << (st.ways(subtable, schema) if shape.totals else 0))


def has_it(request: Request, tag: str) -> bool:
    """Whether the client has what the entity tag is of."""
    given = request.headers.get("if-none-match", "").split(",")
    return not {tag, "*"}.isdisjoint(one.strip().removeprefix("W/") for one in given)


def public_of(service: Service, subtable: SubTable) -> Table | SuppressedAnswer | None:
    """What is public of a sub-table, whole or with suppressed cells; None where nothing is."""
    whole = service.marginal(subtable)
    return service.in_part(subtable) if whole is None else whole


def must_look(request: Request) -> None:
    require_operator(user_of(request))


def must_change(request: Request) -> None:
    require_operator(user_of(request), changes=True)


def routes(
    service: Service, settings: ServerConfig, access: Access, now: Callable[[], datetime], runs: Path
) -> APIRouter:
    """All addresses; answers have the type that they return, without the fields that it lacks."""
    api = _Handlers(service, settings, access, now, runs)
    for_all: list[Route] = [
        ("POST", f"{bodies.PREFIX}/requests", api.ask, documented(403, 415, also=PENDING)),
        ("GET", f"{bodies.PREFIX}/jobs/{{number}}", api.job, documented(404, also=PENDING)),
        ("GET", f"{bodies.PREFIX}/tables/{{name:path}}", api.table, documented(404, 406, also=TABLE)),
        ("GET", f"{bodies.PREFIX}/variables", api.variables, documented()),
        ("GET", f"{bodies.PREFIX}/frontier", api.frontier, documented()),
        ("GET", f"{bodies.PREFIX}/frontier/matrix", api.matrix, documented(404)),
        ("GET", f"{bodies.PREFIX}/requests", api.requests, documented()),
        ("GET", f"{bodies.PREFIX}/health", api.ready, documented(also=NOT_WELL)),
        ("GET", LIVE, api.alive, documented()),
        ("GET", READY, api.ready, documented(also=NOT_WELL)),
    ]
    for_operators: list[Route] = [
        ("GET", f"{bodies.PREFIX}/operator/frontier", api.operator_frontier, documented()),
        ("GET", f"{bodies.PREFIX}/operator/frontier/matrix", api.operator_matrix, documented(404)),
        ("GET", f"{bodies.PREFIX}/operator/effect", api.effect, documented()),
        ("GET", f"{bodies.PREFIX}/operator/statuses", api.statuses, documented(also=BINARY)),
        ("GET", f"{bodies.PREFIX}/operator/requests", api.all_requests, documented()),
        ("GET", f"{bodies.PREFIX}/operator/requests/{{number}}", api.explained, documented(404)),
        ("GET", f"{bodies.PREFIX}/operator/history", api.history, documented()),
        ("GET", METRICS, api.metrics, documented(also=PLAIN_TEXT)),
    ]
    for_changes: list[Route] = [
        ("POST", f"{bodies.PREFIX}/operator/round", api.round, documented()),
        ("POST", f"{bodies.PREFIX}/operator/keys", api.new_key, documented(404, 415)),
        ("DELETE", f"{bodies.PREFIX}/operator/keys/{{number}}", api.revoke, documented(404)),
    ]
    router = APIRouter()
    for listed, *guards in (for_all,), (for_operators, must_look), (for_changes, must_change):
        for method, path, called, answers in listed:
            router.add_api_route(
                path,
                called,
                methods=[method],
                responses=(documented(403) if guards else {}) | answers,
                status_code=201 if called == api.new_key else 200,
                response_model_exclude_unset=True,
                response_class=Response if "content" in answers.get(200, {}) else JSONResponse,
                dependencies=[Depends(guard) for guard in guards],
            )
    return router
