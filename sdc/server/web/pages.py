"""The pages of the table server: what a person with a browser asks, gets, is refused, and, as an operator, sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.state import Status, by_dimension
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.publish.formats.table import Dimension
from sdc.report import svg
from sdc.report.space import squares
from sdc.report.svg import Plot, ticks
from sdc.server.service.history import implied_levels
from sdc.server.service.outcome import PROBLEMS, Moment, Reply
from sdc.server.service.rules import Simulatable
from sdc.server.service.service import Service
from sdc.server.web.answers import FORMATS, Answer, Shape
from sdc.server.web.api import Version, asked, must_look, public_of
from sdc.server.web.bodies import address_of, moment_at, names_in
from sdc.server.web.problems import Problem, page_of

ROWS = 100  # of a list of requests or releases, unless more are asked for
MOST_ROWS = 1000
NAMED = 12  # sub-tables of a frontier that a row of a list names

Rows = Annotated[int, Query(ge=1, le=MOST_ROWS)]

MEANINGS = {
    Status.DIRECT: ("direct", "released: asked for, or public from the start"),
    Status.INDIRECT: ("indirect", "released: within one that is"),
    Status.UNRELEASABLE: ("unreleasable", "proven: can no longer be released"),
    Status.UNDECIDED: ("undecided", "nothing proves either; it is not answered"),
    Status.OPEN: ("open", "not known to be unreleasable"),
}


def pages(service: Service, settings: ServerConfig) -> APIRouter:
    """The pages over a service; `request.state` has the user and the form's token when they are called."""
    own, router = _Pages(service, settings), APIRouter(include_in_schema=False)
    router.add_api_route("/requests", own.ask, methods=["POST"])
    for_all: dict[str, Callable[..., Response]] = {
        "/": own.form,
        "/tables/{label:path}": own.table,
        "/jobs/{number}": own.job,
        "/requests": own.requests,
        "/frontier": own.frontier,
        "/about": own.about,
        "/login": own.login,
    }
    for_operators: dict[str, Callable[..., Response]] = {
        "/operator": own.overview,
        "/operator/space": own.space,
        "/operator/frontier": own.all_frontiers,
        "/operator/requests": own.all_requests,
        "/operator/requests/{number}": own.explained,
    }
    for handlers, looks in (for_all, []), (for_operators, [Depends(must_look)]):
        for path, handler in handlers.items():
            router.add_api_route(path, handler, methods=["GET"], dependencies=looks)
    return router


@dataclass(frozen=True)
class _Pages:
    """What everybody sees, and then what operators and auditors see.

    Nothing on the pages for everybody depends on why something is refused.
    """

    service: Service
    settings: ServerConfig

    def page(self, request: Request, name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """A template with these values; it names sub-tables itself."""
        schema = self.service.schema
        own: Mapping[str, Any] = {
            "label_of": lambda t: st.label(t, schema),
            "address_of": lambda t: address_of(t, schema),
            "names_of": lambda t: st.names(t, schema),
            "marks_of": lambda t: st.marks(t, len(schema)),
            "variables": schema.variables,
            "names": self.service.texts.labels,
            "records": self.service.records,
        }
        return page_of(request, name, status, **own, **values)

    def form(self, request: Request, variable: Annotated[tuple[str, ...], Query()] = ()) -> Response:
        schema, state = self.service.schema, self.service.state
        unreleasable = state.unreleasable if self.settings.publish_unreleasable else None
        return self.page(
            request,
            "form",
            listed={schema.names[v] for v in st.members(state.named)},
            implies=implied_levels(schema),
            chosen=variable,
            unreleasable=unreleasable,
            closed=[st.names(t, schema) for t in unreleasable or ()],
            most=self.settings.limits.cells,
        )

    async def ask(
        self,
        request: Request,
        variable: Annotated[tuple[str, ...], Form()] = (),
        in_part: Annotated[bool, Form()] = False,
    ) -> Response:
        """Asks, and leads to the page of what became of it."""
        who = request.state.user.owner
        reply = await asked(self.service, self.settings, variable, who, in_part=in_part)
        number = reply.job
        if reply.decision == "refused":
            number = await asyncio.to_thread(self.newest, reply.sub_table, who)
        return RedirectResponse(f"/jobs/{number}" if number else self.table_of(reply), 303)

    def job(self, request: Request, number: int) -> Response:
        """One request of this user: a page while it is pending or not released, else the table."""
        reply = self.service.reply_to(number, request.state.user.owner)
        if reply is None:
            raise Problem("unknown-request", f"You have no request of number {number}.")
        if reply.decision == "pending":
            return self.page(request, "pending", reply.status, number=number, reply=reply)
        # what was refused once may be public by now
        if reply.decision == "refused" and not self.is_public(reply.sub_table):
            return self.not_released(request, reply.status, reply)
        return RedirectResponse(self.table_of(reply), 303)

    def table(self, request: Request, label: str, zeros: bool = False, totals: bool = False) -> Response:
        try:
            subtable = st.parse("*".join(names_in(label, self.service.schema)), self.service.schema)
        except ReleaseError as error:
            raise Problem("unknown-variable", str(error), status=404) from error
        public, most = public_of(self.service, subtable), self.settings.limits.cells_on_screen
        if public is None:
            reply = self.reply_on(subtable, request.state.user.owner)
            return self.not_released(request, PROBLEMS["not-released"], reply)
        answer = Answer(request.app.title, public, Shape(zeros, totals), self.service.texts)
        is_shown = answer.table.at_most <= most
        return self.page(
            request,
            "table",
            subtable=subtable,
            answer=answer,
            most=most,
            content=Markup(b"".join(FORMATS["html"].write(answer)).decode()) if is_shown else None,
            figure=chart(answer) if is_shown else None,
            formats=FORMATS.values(),
            query=_query(zeros, totals),
            turned={"zeros": _query(not zeros, totals), "totals": _query(zeros, not totals)},
        )

    def not_released(self, request: Request, status: int, reply: Reply) -> Response:
        """The same for whatever is not public: what was asked, and what is to be had instead."""
        return self.page(
            request,
            "refusal",
            status,
            reply=reply,
            may_be_in_part=Simulatable.name not in self.service.rules,
            change=urlencode({"variable": st.names(reply.sub_table, self.service.schema)}, doseq=True),
        )

    def reply_on(self, subtable: SubTable, who: str) -> Reply:
        """What there is to say of what is not public: the user's own refusal; else nothing, and they may ask."""
        own = self.service.reply_to(self.newest(subtable, who, "refused") or 0, who)
        return own or Reply.not_released(subtable, self.service.state, "")

    def newest(self, subtable: SubTable, who: str, decision: str = "") -> int | None:
        """The number of the user's newest request for it, with this decision."""
        found = (one for one in self.service.requests(who) if one.sub_table == subtable)
        return next((one.own for one in found if decision in ("", one.decision)), None)

    def requests(self, request: Request) -> Response:
        return self.page(
            request, "requests", rows=self.service.requests(request.state.user.owner, MOST_ROWS), most=MOST_ROWS
        )

    def frontier(self, request: Request, version: Version = None, rows: Rows = ROWS) -> Response:
        return self.trajectory(request, version, rows, self.settings.publish_unreleasable)

    def about(self, request: Request) -> Response:
        is_simulatable = Simulatable.name in self.service.rules
        return self.page(request, "about", is_simulatable=is_simulatable, about=self.service.texts.about)

    def login(self, request: Request) -> Response:
        return self.page(request, "login")

    def is_public(self, subtable: SubTable) -> bool:
        """Whether there is a page of it, whole or with suppressed cells."""
        return subtable in self.service.state.released or self.service.state.part(subtable) is not None

    def table_of(self, reply: Reply) -> str:
        return f"/tables/{address_of(reply.sub_table, self.service.schema)}"

    def trajectory(self, request: Request, version: int | None, rows: int, is_all: bool) -> Response:
        """The frontiers at a version as matrices, with the way to those before and after it, and all of them in a list.

        is_all  with what can no longer be released now; of versions before the last one operators alone see that
        """
        moments = self.service.moments()
        now, last = moment_at(moments, version), len(moments) - 1
        before = moments[max(0, now.version - 1)]
        is_seen = is_all and (request.state.user.may_look or now.version == last)
        return self.page(
            request,
            "frontier",
            moment=now,
            last=last,
            gone=[t for t in before.released if t not in now.released],
            unreleasable=now.unreleasable if is_seen else None,
            shown=self.settings.limits.cells_on_screen // len(self.service.schema),
            rows=moments[: -rows - 1 : -1],
            of=len(moments),
            most=MOST_ROWS,
            named=NAMED,
            figure=_growth(moments) if len(moments) > 1 else None,
        )

    # For operators and auditors

    def overview(self, request: Request) -> Response:
        counts = self.counts()
        totals = [sum(row[status] for row in counts) for status in Status] if counts else None
        health = self.service.health()
        return self.page(request, "operator", service=self.service, health=health, meanings=MEANINGS, totals=totals)

    def space(self, request: Request) -> Response:
        schema = self.service.schema
        return self.page(
            request,
            "space",
            record=squares(schema),
            counts=self.counts(),
            levels=Release.of([st.full(len(schema))]).by_dimension(schema),
            meanings=MEANINGS,
            state=self.service.state,
        )

    def all_frontiers(self, request: Request, version: Version = None, rows: Rows = ROWS) -> Response:
        return self.trajectory(request, version, rows, is_all=True)

    def counts(self) -> list[dict[Status, int]] | None:
        """By dimension the number of sub-tables of each status; None of a table of too many variables."""
        try:
            return by_dimension(self.service.statuses(), self.service.schema)
        except ReleaseError:
            return None

    def all_requests(self, request: Request, rows: Rows = ROWS) -> Response:
        found = self.service.all_explained(rows)
        return self.page(request, "operator_requests", rows=found, limit=rows, most=MOST_ROWS)

    def explained(self, request: Request, number: int) -> Response:
        one = self.service.explained(number, finds=True)
        if one is None:
            raise Problem("unknown-request", f"There is no request of number {number}.")
        is_released = one.request.sub_table in self.service.state.released
        # the requests before and after one of the newest; their numbers have gaps
        newest = [asked.number for asked in self.service.requests(None, MOST_ROWS)]
        numbers = newest if number in newest else []
        earlier = next((other for other in numbers if other < number), None)
        later = next((other for other in numbers[::-1] if other > number), None)
        return self.page(request, "explained", one=one, is_released=is_released, earlier=earlier, later=later)


def _query(zeros: bool, totals: bool) -> str:
    """What an address says of the shape of a table."""
    chosen = {"zeros": zeros, "totals": totals}
    return "?" * any(chosen.values()) + urlencode({name: "true" for name, is_on in chosen.items() if is_on})


def _growth(moments: Sequence[Moment]) -> Markup:
    """The number of released sub-tables after each release, as stairs."""
    last, top = moments[-1].version, max(moment.sub_tables for moment in moments)
    plot = Plot(60, 12, 560, 190, (0, last), (0, 1.08 * top))
    stairs = [(0.0, float(moments[0].sub_tables))]
    for moment in moments[1:]:
        stairs += [(moment.version, stairs[-1][1]), (moment.version, moment.sub_tables)]
    parts = [
        *plot.grid(ticks(0, last, 8, 1), ticks(0, top, 5, 1)),
        plot.line(stairs, "trend"),
        svg.text(340, 238, "releases after the first", anchor="middle"),
    ]
    said = f"From {moments[0].sub_tables:,} sub-tables to {moments[-1].sub_tables:,} after {last:,} releases."
    return svg.figure("growth", 640, 246, "Released sub-tables over time", said, parts)


MAX_BARS = 60
COLOURS = 6  # classes bar-0 to bar-5; each bar is named too, so that nobody has to tell colours apart
WIDTH, LABELS, FIGURES, ROW, MARGIN = 640.0, 210.0, 110.0, 22.0, 8.0
LONGEST = 30  # signs of a label; the tooltip has all of it


def chart(answer: Answer) -> Markup | None:
    """A bar a cell, cells without records too, totals never; None but for one or two variables and at most 60 cells.

    And of a suppressed table, whose suppressed cells have no length.

    Of two variables the bars are in groups, by the first. Nothing has a style of its own, which a page may forbid.
    """
    if not isinstance(answer.public, Table) or len(answer.table.dimensions) > 2 or answer.table.cells > MAX_BARS:
        return None
    variables = answer.table.dimensions
    codes, counts = next(replace(answer.table, zeros=True, totals=False).slices(MAX_BARS))
    names = " by ".join(variable.label for variable in variables)
    groups = len(variables[0].categories) if len(variables) == 2 else 0
    height = (len(counts) + groups) * ROW + 2 * MARGIN
    bars = Plot(LABELS, MARGIN, WIDTH - LABELS - FIGURES, height - 2 * MARGIN, (0, int(counts.max())), (0, 1))
    description = (
        f"{len(counts)} bars, one for each cell of {names}. The longest is {int(counts.max()):,} of "
        f"{answer.table.records:,} records: {_said(variables, codes[counts.argmax()].tolist())}."
    )
    rows = _rows(variables, zip(codes.tolist(), counts.tolist(), strict=True), bars)
    return svg.figure("chart", WIDTH, height, f"{answer.title}: {names}", description, rows)


def _said(variables: Sequence[Dimension], cell: list[int]) -> str:
    return ", ".join(f"{one.label} = {one.labels[code]}" for one, code in zip(variables, cell, strict=True))


def _rows(variables: Sequence[Dimension], cells: Iterable[tuple[list[int], int]], bars: Plot) -> Iterator[Markup]:
    top = bars.top
    for codes, count in cells:
        if len(codes) == 2 and codes[1] == 0:
            yield _label(f"{variables[0].label}: {variables[0].labels[codes[0]]}", 0.0, top, "t strong")
            top += ROW
        title, class_ = f"{_said(variables, codes)}: {count:,}", codes[-1] % COLOURS if len(codes) == 2 else 0
        long = bars.x(count) - bars.left
        yield svg.box(bars.left, top + 3, long, ROW - 6, None, title, class_=f"bar bar-{class_}")
        yield _label(variables[-1].labels[codes[-1]], bars.left - 8, top, "t", "end")
        yield svg.text(bars.x(count) + 6, top + ROW - 7, f"{count:,}")
        top += ROW


def _label(category: str, x: float, top: float, class_: str, anchor: str | None = None) -> Markup:
    words = category if len(category) <= LONGEST else category[: LONGEST - 1] + "…"
    return svg.text(x, top + ROW - 7, words, class_, anchor)
