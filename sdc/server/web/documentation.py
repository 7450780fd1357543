"""What the API says of itself: the bodies that its addresses answer with, its OpenAPI document, and that as a page."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from markupsafe import Markup
from pydantic import BaseModel

from sdc.report.svg import element
from sdc.server.web.answers import FORMATS

Names = list[str]
Responses = dict[int | str, dict[str, Any]]
KEY_NAME = "key"
BYTES = "application/octet-stream"


class ProblemBody(BaseModel):
    """What goes wrong; the problems of limits also have the limit and what was asked for."""

    code: str
    message: str


class ReplyBody(BaseModel):
    """What became of a request."""

    decision: Literal["answered", "released", "refused", "pending"]
    code: str
    message: str
    table: str | None
    projection: list[Names]
    job: str | None
    version: int


class VariableBody(BaseModel):
    """A variable; `tells` are the coarser levels that whoever has it has, where there are any."""

    name: str
    categories: list[str]
    tells: Names | None = None


class LabelsBody(BaseModel):
    """What a variable and its categories are called, where labels are given."""

    label: str | None = None
    note: str | None = None
    unit: str | None = None
    categories: dict[str, str] | None = None


class AboutBody(BaseModel):
    """What the tables are of, as far as it is given."""

    population: str | None = None
    period: str | None = None
    source: str | None = None
    licence: str | None = None
    contact: str | None = None
    notes: list[str] | None = None


class VariablesBody(BaseModel):
    """What can be asked for."""

    title: str
    records: int
    variables: list[VariableBody]
    labels: dict[str, LabelsBody] | None = None
    about: AboutBody | None = None


class FrontierBody(BaseModel):
    """The released frontier; the unreleasable one where the operator publishes it."""

    released: list[Names]
    version: int
    unreleasable: list[Names] | None = None


class MatrixBody(BaseModel):
    """The frontiers after a release: each row has an X for each of `variables` that is in it, and else a dot."""

    version: int
    last: int
    at: str
    cause: Names | None
    variables: Names
    released: list[str]
    unreleasable: list[str] | None = None


class AllFrontiersBody(BaseModel):
    """What is public, by its frontier and as it was asked for, and what is not."""

    released: list[Names]
    direct: list[Names]
    unreleasable: list[Names]
    undecided: list[Names]
    version: int


class RequestBody(BaseModel):
    """One request."""

    number: int
    at: str
    who: str
    sub_table: Names
    decision: str
    code: str
    message: str
    version: int


class RequestsBody(BaseModel):
    requests: list[RequestBody]


class AliveBody(BaseModel):
    """The process answers."""

    alive: Literal[True]


class HealthBody(BaseModel):
    """`ok`, or what is wrong; `pending` requests have no decision."""

    status: str
    version: int
    pending: int


class PairBody(BaseModel):
    released: int
    unreleasable: int


class FrontierPairBody(BaseModel):
    released: list[Names]
    unreleasable: list[Names]


class EffectBody(BaseModel):
    """What releasing a sub-table would do; `newly` are numbers of sub-tables, `released` and `unreleasable` some."""

    sub_table: Names
    status: Literal["direct", "indirect", "unreleasable", "undecided", "open"]
    is_safe: bool | None
    released: list[Names]
    unreleasable: list[Names]
    newly: PairBody
    frontiers: FrontierPairBody
    looked_at: int
    of: int
    version: int


class ExplainedBody(BaseModel):
    """Why a request was decided as it was."""

    request: RequestBody
    rule: str
    why: str
    verdict: str | None
    min_width: list[int] | None
    witness: dict[str, Any] | None
    milliseconds: float


class MomentBody(BaseModel):
    version: int
    at: str
    cause: Names | None
    released: list[Names]
    unreleasable: list[Names]
    sub_tables: int


class HistoryBody(BaseModel):
    """Both frontiers over time."""

    rules: list[str]
    moments: list[MomentBody]


class RoundBody(BaseModel):
    decided: int


class KeyBody(BaseModel):
    """A new key."""

    user: str
    role: str
    key: str


class RevokedBody(BaseModel):
    revoked: str


REPLY: Responses = {200: {"model": ReplyBody}, 202: {"model": ReplyBody, "description": "It is pending"}}
NEW_KEY: Responses = {201: {"model": KeyBody}}
HEALTH: Responses = {200: {"model": HealthBody}, 503: {"model": HealthBody}}
METRICS_TYPE = "text/plain"
METRICS: Responses = {200: {"content": {METRICS_TYPE: {"schema": {"type": "string"}}}}}
BINARY: Responses = {200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}
TABLE: Responses = {
    200: {"content": {format.range: {"schema": {}} for format in FORMATS.values()}},
    304: {"description": HTTPStatus.NOT_MODIFIED.phrase},
}


def documented(found: type[BaseModel] | Responses, *codes: int) -> Responses:
    """The answers of an address: what it finds, by status or as 200, and what may go wrong."""
    answers: Responses = dict(found) if isinstance(found, dict) else {200: {"model": found}}
    return {code: {"model": ProblemBody} for code in (400, 401, 413, 429, 503, *codes)} | answers


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; what a body lacks is told as 400, and each address takes a key."""
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    for _, _, operation in _operations(found):
        operation["responses"].pop("422", None)
        operation["security"] = [{KEY_NAME: []}, {}]
    components = found["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {KEY_NAME: {"type": "http", "scheme": "bearer"}}
    return found


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def documentation_page(document: dict[str, Any]) -> str:
    """The document for people."""
    title = document["info"]["title"]
    intro = (
        "Give a key as ",
        element("code", "Authorization: Bearer KEY"),
        "; what goes wrong is told as JSON with a code and a sentence. The same for programs: ",
        element("a", "OpenAPI", href="/api/openapi.json"),
        ".",
    )
    sections = [_section(path, method, operation) for path, method, operation in _operations(document)]
    head = Markup(
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{0}: API</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/server.css"></head>\n'
    ).format(title)
    main = element("main", element("h1", f"{title}: API"), element("p", *intro), *sections)
    return head + element("body", main) + Markup("\n</html>\n")


def _section(path: str, method: str, operation: dict[str, Any]) -> Markup:
    parameters = [
        element("li", element("code", p["name"]), f" ({p['in']}) ", p.get("description", ""))
        for p in operation.get("parameters", ())
    ]
    answers = [
        element("li", element("code", status), " ", answer.get("description", ""), " ", _kinds(answer))
        for status, answer in operation["responses"].items()
    ]
    return element(
        "section",
        element("h2", element("code", f"{method} {path}")),
        element("p", operation["summary"], ": ", operation.get("description", "")),
        element("ul", *parameters) if parameters else "",
        element("ul", *answers),
    )


def _kinds(answer: dict[str, Any]) -> str:
    return ", ".join(answer.get("content", ()))
