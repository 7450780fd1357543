"""The bodies of the API: what its addresses take and answer with, and the OpenAPI document that says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, BeforeValidator, Field, StrictBool, ValidationInfo, model_validator

from sdc.model import subtable as st
from sdc.model.schema import Schema
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.server.service.history import implied_levels
from sdc.server.service.judge import Effect
from sdc.server.service.outcome import PUBLIC, Decided, Moment, Reply, Request
from sdc.server.service.service import Service
from sdc.server.web.access import NAME, Role
from sdc.server.web.answers import FORMATS
from sdc.server.web.problems import Problem

PREFIX = "/api"
BOTH = ("released", "unreleasable")


def address_of(subtable: SubTable, schema: Schema) -> str:
    """What a sub-table is called in addresses; nothing of the grand total, which has none."""
    return "*".join(quote(name, safe="") for name in st.names(subtable, schema))


def names_in(text: str, schema: Schema) -> list[str]:
    """The variables of an address: `A*B`, or `A,B` for clients that take a star for a pattern."""
    return text.split("*" if "*" in text or text in schema.names else ",")


def moment_at(moments: Sequence[Moment], version: int | None) -> Moment:
    """The frontiers at a version, the last where none is given; Problem where it is yet to come."""
    last = len(moments) - 1
    if version is not None and version > last:
        raise Problem("unknown-version", f"there is no version {version} yet, the last is {last}")
    return moments[last if version is None else version]


# What is taken


class Wanted(BaseModel):
    """A request for a sub-table."""

    variables: Annotated[list[str], Field(description="names of variables, each once", max_length=63)]
    in_part: Annotated[
        StrictBool,
        Field(description="true: a table with suppressed cells is accepted where the whole one is not released"),
    ] = False


class NewKey(BaseModel):
    """A key that an operator makes for a user of the config; by default it is valid as long as the config says."""

    user: Annotated[str, Field(pattern=NAME)]
    role: Annotated[Role | None, Field(description="that of the config, if given")] = None
    days: Annotated[int | None, Field(ge=1, le=3660)] = None


# What is answered


def _named(found: Any, info: ValidationInfo) -> Any:
    return st.names(found, info.context) if isinstance(found, int) and info.context else found


Names = Annotated[list[str], BeforeValidator(_named)]
"""The variables of a sub-table, which may be given by its number."""


class Body(BaseModel):
    """What is answered."""

    @classmethod
    def with_names(cls, schema: Schema, *parts: object, **own: Any) -> Self:
        """The attributes of the parts, and its own, with sub-tables by their numbers; what has no field is left out."""
        return cls.model_validate({k: v for part in parts for k, v in vars(part).items()} | own, context=schema)


class WithSuppressed(Body):
    """With the suppressed tables, where there are any; by their old key too, for one release."""

    suppressed_tables: list[Names] | None = None
    in_part: list[Names] | None = None

    @model_validator(mode="before")
    @classmethod
    def _both(cls, found: dict[str, Any]) -> dict[str, Any]:
        shown = found.pop("suppressed_tables")
        return found | (dict.fromkeys(("suppressed_tables", "in_part"), shown) if shown else {})


class ProblemBody(Body):
    """What goes wrong; the problems of limits also have the limit and what was asked for."""

    code: str
    message: str


class ReplyBody(Body):
    """What became of a request."""

    decision: Decided
    code: str
    message: str
    table: str | None
    projection: list[Names]
    job: str | None
    version: int

    @classmethod
    def showing(cls, reply: Reply, schema: Schema, visitor: str = "") -> Self:
        """With what leads a visitor without cookies to the job again."""
        table = f"{PREFIX}/tables/{address_of(reply.sub_table, schema)}" if reply.decision in PUBLIC else None
        job = f"{PREFIX}/jobs/{reply.job}" + (f"?visitor={visitor}" if visitor else "")
        return cls.with_names(schema, reply, table=table, job=None if reply.job is None else job)


class VariableBody(Body):
    """A variable; `implies` are its coarser levels, which a table of it implies, if there are any."""

    name: str
    categories: Annotated[list[str] | None, Field(description="null while no table of the variable is public")] = None
    implies: Names | None = None
    tells: Annotated[Names | None, Field(description="old name of implies")] = None


class LabelsBody(Body):
    """What a variable and its categories are called, where labels are given."""

    label: str | None = None
    note: str | None = None
    unit: str | None = None
    categories: dict[str, str] | None = None


class AboutBody(Body):
    """What the tables are of, as far as it is given."""

    population: str | None = None
    period: str | None = None
    source: str | None = None
    licence: str | None = None
    contact: str | None = None
    notes: list[str] | None = None


class VariablesBody(Body):
    """What can be asked for."""

    title: str
    records: int
    variables: list[VariableBody]
    about: AboutBody | None = None
    labels: dict[str, LabelsBody] | None = None

    @classmethod
    def showing(cls, service: Service) -> Self:
        schema, implied = service.schema, implied_levels(service.schema)
        listed = {schema.names[v] for v in st.members(service.state.named)}
        variables = list[VariableBody]()
        for v in schema.variables:
            found = VariableBody(name=v.name, categories=list(v.categories) if v.name in listed else None)
            if v.name in implied:
                found.implies = found.tells = implied[v.name]
            variables.append(found)
        texts = replace(service.texts, labels=service.texts.labels.of_categories(listed))
        return cls.with_names(schema, title=service.title, records=service.records, variables=variables, **texts.given)


class FrontierBody(WithSuppressed):
    """The released frontier, and the unreleasable one where the operator publishes it."""

    released: list[Names]
    version: int
    unreleasable: list[Names] | None = None


class AllFrontiersBody(WithSuppressed):
    """What is public, by its frontier and as it was asked for, and what is not."""

    released: list[Names]
    direct: list[Names]
    unreleasable: list[Names]
    undecided: list[Names]
    version: int


def frontiers_of(state: State) -> dict[str, Any]:
    """What is public, as both bodies have it."""
    views = state.suppressed_tables.views
    return {"released": state.released.frontier, "version": state.version, "suppressed_tables": views}


class MatrixBody(Body):
    """The frontiers after a release: each row has an X for each of `variables` that is in it, and else a dot."""

    version: int
    last: int
    at: str
    cause: Names | None
    variables: Names
    released: list[str]
    unreleasable: list[str] | None = None

    @classmethod
    def showing(cls, moments: Sequence[Moment], version: int | None, schema: Schema, *, is_all: bool) -> Self:
        """At a version, with the unreleasable frontier where `is_all`; Problem as `moment_at`."""
        moment = moment_at(moments, version)
        rows = {name: [st.marks(t, len(schema)) for t in getattr(moment, name)] for name in BOTH[: 1 + is_all]}
        own = {"version": moment.version, "at": moment.at, "cause": moment.cause}
        return cls.with_names(schema, **own, last=len(moments) - 1, variables=schema.names, **rows)


class RequestBody(Body):
    """One request; its number is that of its user's requests, or for operators that in the history."""

    number: int
    at: str
    who: str
    sub_table: Names
    decision: str
    code: str
    message: str
    version: int
    in_part: bool


class RequestsBody(Body):
    requests: list[RequestBody]

    @classmethod
    def showing(cls, asked: Iterable[Request], schema: Schema, *, own: bool) -> Self:
        def body(one: Request) -> RequestBody:
            return RequestBody.with_names(schema, one, number=one.own if own else one.number, who=one.who)

        return cls(requests=[body(one) for one in asked])


class AliveBody(Body):
    """The process answers."""

    alive: Literal[True]


class HealthBody(Body):
    """`ok`, or what is wrong."""

    status: str
    version: int


class PairBody(Body):
    released: int
    unreleasable: int


class FrontierPairBody(Body):
    released: list[Names]
    unreleasable: list[Names]


class EffectBody(Body):
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

    @classmethod
    def showing(cls, effect: Effect, schema: Schema, version: int) -> Self:
        newly = dict(zip(BOTH, effect.newly, strict=True))
        frontiers = {"released": effect.after.released.frontier, "unreleasable": effect.after.unreleasable}
        own = {"status": effect.status.name.lower(), "newly": newly, "frontiers": frontiers, "version": version}
        return cls.with_names(schema, effect, **own)


class ExplainedBody(Body):
    """Why a request was decided as it was."""

    request: RequestBody
    rule: str
    why: str
    verdict: str | None
    min_width: list[int] | None
    witness: dict[str, Any] | None
    milliseconds: float


class MomentBody(WithSuppressed):
    version: int
    at: str
    cause: Names | None
    released: list[Names]
    unreleasable: list[Names]
    sub_tables: int


class HistoryBody(Body):
    """Both frontiers over time."""

    rules: list[str]
    moments: list[MomentBody]


class RoundBody(Body):
    decided: int


class KeyBody(Body):
    """A new key."""

    user: str
    role: str
    key: str


class RevokedBody(Body):
    revoked: str


# The document

Responses = dict[int | str, dict[str, Any]]
KEY_NAME = "key"
BYTES, PLAIN = "application/octet-stream", "text/plain"
ALWAYS = (400, 401, 413, 429, 503)

PENDING: Responses = {202: {"model": ReplyBody, "description": "It is pending"}}
NOT_WELL: Responses = {503: {"model": HealthBody}}
PLAIN_TEXT: Responses = {200: {"content": {PLAIN: {"schema": {"type": "string"}}}}}
BINARY: Responses = {200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}
TABLE: Responses = {
    200: {"content": {format.range: {"schema": {}} for format in FORMATS.values()}},
    304: {"description": HTTPStatus.NOT_MODIFIED.phrase},
}


def documented(*codes: int, also: Responses | None = None) -> Responses:
    """The answers of an address beside what it finds: what may go wrong, and others."""
    return {code: {"model": ProblemBody} for code in (*ALWAYS, *codes)} | (also or {})


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; what a body lacks is answered by 400, and each address takes a key."""
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    for methods in found["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            operation["security"] = [{KEY_NAME: []}, {}]
    components = found["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {KEY_NAME: {"type": "http", "scheme": "bearer"}}
    return found
