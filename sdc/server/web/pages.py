"""The pages of the table server: what a person with a browser asks, gets, is refused, and, as an operator, sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError, SdcError
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import Status, by_dimension
from sdc.model.subtable import SubTable
from sdc.page_templates import page_templates
from sdc.report import svg
from sdc.report.plot import Plot, ticks
from sdc.report.space import squares
from sdc.server.service.levels import implied_levels
from sdc.server.service.outcome import PROBLEMS
from sdc.server.service.query_service import Moment, QueryService, Reply
from sdc.server.service.rules import Simulatable
from sdc.server.web.answers import FORMATS, Answer, Shape, pieces
from sdc.server.web.api import public_of, require_in_part, waited
from sdc.server.web.bodies import address_of, names_in
from sdc.server.web.chart import chart
from sdc.server.web.problems import Problem

ROWS = 100  # of a list of requests or releases, unless more are asked for
MOST_ROWS = 1000
NAMED = 12  # sub-tables of a frontier that a row of a list names

Rows = Annotated[int, Query(ge=1, le=MOST_ROWS)]
Version = Annotated[int | None, Query(ge=0)]

MEANINGS = {
    Status.DIRECT: ("direct", "released: asked for, or public from the start"),
    Status.INDIRECT: ("indirect", "released: within one that is"),
    Status.UNRELEASABLE: ("unreleasable", "proven: can no longer be released"),
    Status.UNDECIDED: ("undecided", "nothing proves either; it is not answered"),
    Status.OPEN: ("open", "not known to be unreleasable"),
}

_TEMPLATES = page_templates("sdc.server.web", "templates")
_TEMPLATES.filters["called"] = lambda name, labels: labels.variable(name)
_TEMPLATES.filters["number"] = "{:,}".format
# a long label breaks after a star, and nowhere else
_TEMPLATES.filters["breaking"] = lambda label: Markup("*<wbr>").join(label.split("*"))


def pages(service: QueryService, settings: ServerConfig) -> APIRouter:
    """The pages over a service; `request.state` has the user and the form's token when they are called."""
    for_all, for_operators = _Pages(service, settings), _OperatorPages(service, settings)
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/requests", for_all.ask, methods=["POST"])
    _add(
        router,
        {
            "/": for_all.form,
            "/tables/{label:path}": for_all.table,
            "/jobs/{number}": for_all.job,
            "/requests": for_all.requests,
            "/frontier": for_all.frontier,
            "/about": for_all.about,
            "/login": for_all.login,
        },
    )
    operator = APIRouter(prefix="/operator", route_class=_OperatorRoute)
    _add(
        operator,
        {
            "": for_operators.overview,
            "/space": for_operators.space,
            "/frontier": for_operators.frontier,
            "/requests": for_operators.requests,
            "/requests/{number}": for_operators.explained,
        },
    )
    router.include_router(operator)
    return router


def _add(router: APIRouter, handlers: Mapping[str, Callable[..., Response]]) -> None:
    for path, handler in handlers.items():
        router.add_api_route(path, handler, methods=["GET"])


def error_page(request: Request, problem: Problem) -> HTMLResponse:
    """The page of whatever fails; the user may be unknown when it does."""
    return _page(request, "error", problem.status, code=problem.code, message=problem.message)


def _page(request: Request, name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    user, csrf = getattr(request.state, "user", None), getattr(request.state, "csrf", "")
    common = {"title": request.app.title, "user": user, "csrf": csrf, "path": request.url.path}
    return HTMLResponse(_TEMPLATES.get_template(f"{name}.html.j2").render(common | values), status)


class _OperatorRoute(APIRoute):
    """A page that users do not see, even if its handler forgets to check."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if request.state.user.role not in ("operator", "auditor"):
                return error_page(
                    request, Problem("forbidden", "This page is for operators and auditors; log in as one.")
                )
            return await handler(request)

        return guarded


@dataclass(frozen=True)
class _NamedSubTable:
    """A sub-table as templates show it; the grand total has no address."""

    names: tuple[str, ...]
    label: str
    address: str
    marks: str


def _named(subtables: Sequence[SubTable], schema: Schema) -> list[_NamedSubTable]:
    return [
        _NamedSubTable(tuple(st.names(t, schema)), st.label(t, schema), address_of(t, schema), st.marks(t, len(schema)))
        for t in subtables
    ]


@dataclass(frozen=True)
class _Pages:
    """What everybody sees. Nothing on these pages depends on why something is refused."""

    service: QueryService
    settings: ServerConfig

    def form(self, request: Request, variable: Annotated[tuple[str, ...], Query()] = ()) -> Response:
        is_published = self.settings.publish_unreleasable
        unreleasable = self.named(self.service.state.unreleasable) if is_published else None
        return _page(
            request,
            "form",
            variables=self.service.schema.variables,
            listed={self.service.schema.names[v] for v in st.members(self.service.state.named)},
            implies=implied_levels(self.service.schema),
            names=self.service.texts.labels,
            records=self.service.records,
            chosen=variable,
            unreleasable=unreleasable,
            most=self.settings.limits.cells,
        )

    async def ask(
        self,
        request: Request,
        variable: Annotated[tuple[str, ...], Form()] = (),
        in_part: Annotated[bool, Form()] = False,
    ) -> Response:
        """Asks, and leads to the page of what became of it."""
        if not variable:
            return error_page(request, Problem("no-variables", "No variable was chosen; choose one at least."))
        try:
            subtable = st.named(variable, self.service.schema)
        except InputError as error:
            return error_page(request, Problem("unknown-variable", str(error)))
        if (cells := self.cells(subtable & self.service.state.named)) > (most := self.settings.limits.cells):
            message = f"The table has {cells:,} cells, and at most {most:,} are answered; choose fewer variables."
            return error_page(request, Problem("too-many-cells", message))
        if in_part:
            require_in_part(self.service)
        reply = await waited(self.service.ask(subtable, request.state.user.owner, in_part=in_part))
        number = reply.job
        if reply.decision == "refused":
            number = await asyncio.to_thread(self.number_of, subtable, request)
        return RedirectResponse(f"/jobs/{number}" if number else self.table_of(reply), 303)

    def job(self, request: Request, number: int) -> Response:
        """One request of this user: a page while it is pending or not released, else the table."""
        reply = self.service.reply_to(number, request.state.user.owner)
        if reply is None:
            return error_page(request, Problem("not-found", f"You have no request of number {number}."))
        if reply.decision == "pending":
            label = st.label(reply.sub_table, self.service.schema)
            return _page(request, "pending", reply.status, number=number, reply=reply, label=label)
        # what was refused once may be public by now
        if reply.decision == "refused" and not self.is_public(reply.sub_table):
            return self.not_released(request, reply.status, reply)
        return RedirectResponse(self.table_of(reply), 303)

    def table(self, request: Request, label: str, zeros: bool = False, totals: bool = False) -> Response:
        try:
            subtable = st.parse("*".join(names_in(label, self.service.schema)), self.service.schema)
        except ReleaseError as error:
            return error_page(request, Problem("unknown-variable", str(error), status=404))
        public = public_of(self.service, subtable)
        if public is None:
            return self.not_released(
                request, PROBLEMS["not-released"], self.reply_on(subtable, request.state.user.owner)
            )
        try:
            answer = Answer(request.app.title, public, Shape(zeros, totals), self.service.texts)
        except SdcError as error:
            return error_page(request, Problem("not-possible", str(error)))
        return self.shown(request, subtable, answer)

    def shown(self, request: Request, subtable: SubTable, answer: Answer) -> Response:
        cells, most = answer.cells(), self.settings.limits.cells_on_screen
        is_shown = cells <= most
        return _page(
            request,
            "table",
            subtable=self.named([subtable])[0],
            answer=answer,
            cells=cells,
            most=most,
            content=Markup(b"".join(pieces(answer, FORMATS["html"])).decode()) if is_shown else None,
            figure=chart(answer) if is_shown else None,
            formats=FORMATS.values(),
            query=_query(answer.shape.zeros, answer.shape.totals),
            turned={
                "zeros": _query(not answer.shape.zeros, answer.shape.totals),
                "totals": _query(answer.shape.zeros, not answer.shape.totals),
            },
        )

    def not_released(self, request: Request, status: int, reply: Reply) -> Response:
        """The same for whatever is not public: what was asked, and what is to be had instead."""
        return _page(
            request,
            "refusal",
            status,
            reply=reply,
            subtable=self.named([reply.sub_table])[0],
            projection=self.named(reply.projection),
            may_be_in_part=Simulatable.name not in self.service.rules,
            records=self.service.records,
            change=urlencode({"variable": st.names(reply.sub_table, self.service.schema)}, doseq=True),
        )

    def reply_on(self, subtable: SubTable, who: str) -> Reply:
        """What there is to say of what is not public: the user's own refusal; else nothing, and they may ask."""
        numbers = (r.own for r in self.service.requests(who) if r.sub_table == subtable and r.decision == "refused")
        own = self.service.reply_to(next(numbers, 0), who)
        return own or Reply.not_released(subtable, self.service.state, "")

    def requests(self, request: Request) -> Response:
        found = self.service.requests(request.state.user.owner, MOST_ROWS)
        return _page(request, "requests", rows=[(r, self.named([r.sub_table])[0]) for r in found], most=MOST_ROWS)

    def frontier(self, request: Request, version: Version = None, rows: Rows = ROWS) -> Response:
        moments = self.service.moments()
        # of what could not be released before, operators alone hear
        is_all = self.settings.publish_unreleasable and version in (None, len(moments) - 1)
        return _trajectory(request, self.service, self.settings, moments, version, rows, is_all=is_all)

    def about(self, request: Request) -> Response:
        about = self.service.texts.about
        return _page(request, "about", is_simulatable="simulatable" in self.service.rules, about=about)

    def login(self, request: Request) -> Response:
        return _page(request, "login")

    # How sub-tables are called

    def named(self, subtables: Sequence[SubTable]) -> list[_NamedSubTable]:
        return _named(subtables, self.service.schema)

    def cells(self, subtable: SubTable) -> int:
        return st.cells(subtable, self.service.schema)

    def is_public(self, subtable: SubTable) -> bool:
        """Whether there is a page of it, whole or with suppressed cells."""
        return subtable in self.service.state.released or self.service.state.part(subtable) is not None

    def table_of(self, reply: Reply) -> str:
        return f"/tables/{address_of(reply.sub_table, self.service.schema)}"

    def number_of(self, subtable: SubTable, request: Request) -> int | None:
        """The user's newest request for it."""
        found = self.service.requests(request.state.user.owner)
        return next((r.own for r in found if r.sub_table == subtable), None)


def _trajectory(
    request: Request,
    service: QueryService,
    settings: ServerConfig,
    moments: Sequence[Moment],
    version: int | None,
    rows: int,
    *,
    is_all: bool,
) -> Response:
    """The frontiers at a version as matrices, with the way to those before and after it, and all of them in a list."""
    last, named = len(moments) - 1, partial(_named, schema=service.schema)
    at = last if version is None else version
    if at > last:
        return error_page(request, Problem("unknown-version", f"There is no version {at} yet; the last is {last}."))
    now, before = moments[at], moments[max(0, at - 1)]
    listed = [_listed(moment, service.schema) for moment in moments[: -rows - 1 : -1]]
    return _page(
        request,
        "frontier",
        moment=now,
        last=last,
        cause=None if now.cause is None else named([now.cause])[0],
        gone=named([t for t in before.released if t not in now.released]),
        variables=service.schema.names,
        names=service.texts.labels,
        released=named(now.released),
        in_part=named(now.in_part),
        is_in_part=now.cause in now.in_part,
        unreleasable=named(now.unreleasable) if is_all else None,
        shown=settings.limits.cells_on_screen // len(service.schema),
        records=service.records,
        rows=listed,
        of=len(moments),
        most=MOST_ROWS,
        figure=_growth(moments) if len(moments) > 1 else None,
    )


def _listed(moment: Moment, schema: Schema) -> dict[str, Any]:
    cause = None if moment.cause is None else _named([moment.cause], schema)[0]
    more = max(0, len(moment.released) - NAMED)
    frontier, is_in_part = _named(moment.released[:NAMED], schema), moment.cause in moment.in_part
    return {"moment": moment, "cause": cause, "is_in_part": is_in_part, "frontier": frontier, "more": more}


def _query(zeros: bool, totals: bool) -> str:
    """What an address says of the shape of a table."""
    chosen = {"zeros": zeros, "totals": totals}
    return "?" * any(chosen.values()) + urlencode({name: "true" for name, is_on in chosen.items() if is_on})


def _growth(moments: Sequence[Moment]) -> Markup:
    """The number of released sub-tables after each release, as stairs."""
    last, top = moments[-1].version, max(moment.sub_tables for moment in moments)
    plot = Plot(60, 12, 560, 190, (0, max(1, last)), (0, 1.08 * top))
    stairs = [(0.0, float(moments[0].sub_tables))]
    for moment in moments[1:]:
        stairs += [(moment.version, stairs[-1][1]), (moment.version, moment.sub_tables)]
    parts = [
        *plot.grid(ticks(0, max(1, last), 8, 1), ticks(0, top, 5, 1)),
        plot.line(stairs, "trend"),
        svg.text(340, 238, "releases after the first", anchor="middle"),
    ]
    said = f"From {moments[0].sub_tables:,} sub-tables to {moments[-1].sub_tables:,} after {last:,} releases."
    return svg.figure("growth", 640, 246, "Released sub-tables over time", said, parts)


@dataclass(frozen=True)
class _OperatorPages:
    """What operators and auditors see: the whole query space, both frontiers over time, and why."""

    service: QueryService
    settings: ServerConfig

    def overview(self, request: Request) -> Response:
        counts = self.counts()
        totals = [sum(row[status] for row in counts) for status in Status] if counts else None
        return _page(
            request,
            "operator",
            service=self.service,
            health=self.service.health(),
            meanings=MEANINGS,
            totals=totals,
            frontiers={"released": len(self.service.state.released.frontier), **self.unproven()},
        )

    def unproven(self) -> dict[str, int]:
        return {"unreleasable": len(self.service.state.unreleasable), "undecided": len(self.service.state.undecided)}

    def space(self, request: Request) -> Response:
        state, schema = self.service.state, self.service.schema
        return _page(
            request,
            "space",
            schema=schema,
            record=squares(schema),
            counts=self.counts(),
            levels=Release.of([st.full(len(schema))]).by_dimension(schema),
            meanings=MEANINGS,
            version=state.version,
            released=_named(state.released.frontier, schema),
            unreleasable=_named(state.unreleasable, schema),
            undecided=_named(state.undecided, schema),
            records=self.service.records,
        )

    def frontier(self, request: Request, version: Version = None, rows: Rows = ROWS) -> Response:
        return _trajectory(request, self.service, self.settings, self.service.moments(), version, rows, is_all=True)

    def counts(self) -> list[dict[Status, int]] | None:
        """By dimension the number of sub-tables of each status; None of a table of too many variables."""
        try:
            return by_dimension(self.service.statuses(), self.service.schema)
        except ReleaseError:
            return None

    def requests(self, request: Request, rows: Rows = ROWS) -> Response:
        found = [self.service.explained(r.number) for r in self.service.requests(None, rows)]
        listed = [(one, _named([one.request.sub_table], self.service.schema)[0]) for one in found if one is not None]
        return _page(request, "operator_requests", rows=listed, limit=rows, most=MOST_ROWS)

    def explained(self, request: Request, number: int) -> Response:
        one = self.service.explained(number, finds=True)
        if one is None:
            return error_page(request, Problem("not-found", f"There is no request of number {number}."))
        asked = one.request.sub_table
        earlier, later = self.beside(number)
        return _page(
            request,
            "explained",
            one=one,
            subtable=_named([asked], self.service.schema)[0],
            is_released=asked in self.service.state.released,
            earlier=earlier,
            later=later,
        )

    def beside(self, number: int) -> tuple[int | None, int | None]:
        """The requests before and after one of the newest; their numbers have gaps."""
        numbers = [request.number for request in self.service.requests(None, MOST_ROWS)]
        if number not in numbers:
            return None, None
        at = numbers.index(number)
        return next(iter(numbers[at + 1 :]), None), numbers[at - 1] if at else None
