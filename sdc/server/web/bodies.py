"""The bodies of the API: what its addresses take and answer with, as its document says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, Field, StrictBool

from sdc.model import subtable as st
from sdc.model.schema import Schema, Variable
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.server.service.effect import Effect
from sdc.server.service.levels import implied_levels
from sdc.server.service.outcome import PUBLIC, Decided
from sdc.server.service.query_service import Explained, Moment, QueryService, Reply, Request
from sdc.server.web.access import NAME, Role

PREFIX = "/api"
Names = list[str]
BOTH = ("released", "unreleasable")


def named(subtables: Iterable[SubTable], schema: Schema) -> list[Names]:
    return [st.names(t, schema) for t in subtables]


def names_of(subtable: SubTable | None, schema: Schema) -> Names | None:
    return None if subtable is None else st.names(subtable, schema)


def address_of(subtable: SubTable, schema: Schema) -> str:
    """What a sub-table is called in addresses; nothing of the grand total, which has none."""
    return "*".join(quote(name, safe="") for name in st.names(subtable, schema))


def names_in(text: str, schema: Schema) -> Names:
    """The variables of an address: `A*B`, or `A,B` for clients that take a star for a pattern."""
    return text.split("*" if "*" in text or text in schema.names else ",")


def in_part_of(subtables: Sequence[SubTable], schema: Schema) -> dict[str, list[Names]]:
    """The suppressed tables, where there are any; by their old key too, for one release."""
    return dict.fromkeys(("suppressed_tables", "in_part"), named(subtables, schema)) if subtables else {}


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


class ProblemBody(BaseModel):
    """What goes wrong; the problems of limits also have the limit and what was asked for."""

    code: str
    message: str


class ReplyBody(BaseModel):
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
        is_had = reply.decision in PUBLIC
        job = f"{PREFIX}/jobs/{reply.job}" + (f"?visitor={visitor}" if visitor else "")
        return cls(
            decision=reply.decision,
            code=reply.code,
            message=reply.message,
            table=f"{PREFIX}/tables/{address_of(reply.sub_table, schema)}" if is_had else None,
            projection=named(reply.projection, schema),
            job=None if reply.job is None else job,
            version=reply.version,
        )


class VariableBody(BaseModel):
    """A variable; `implies` are its coarser levels, which a table of it implies, if there are any."""

    name: str
    categories: Annotated[list[str] | None, Field(description="null while no table of the variable is public")] = None
    implies: Names | None = None
    tells: Annotated[Names | None, Field(description="old name of implies")] = None

    @classmethod
    def showing(cls, variable: Variable, is_listed: bool, implied: Names | None) -> Self:
        found = cls(name=variable.name, categories=list(variable.categories) if is_listed else None)
        if implied is not None:
            found.implies = found.tells = implied
        return found


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
    about: AboutBody | None = None
    labels: dict[str, LabelsBody] | None = None

    @classmethod
    def showing(cls, service: QueryService) -> Self:
        implied, listed = (
            implied_levels(service.schema),
            {service.schema.names[v] for v in st.members(service.state.named)},
        )
        variables = [VariableBody.showing(v, v.name in listed, implied.get(v.name)) for v in service.schema.variables]
        texts = replace(service.texts, labels=service.texts.labels.of_categories(listed))
        facts = {"title": service.title, "records": service.records, "variables": variables, **texts.given}
        return cls.model_validate(facts)


class FrontierBody(BaseModel):
    """The released frontier, and what is public with suppressed cells where anything is.

    The unreleasable one where the operator publishes it.
    """

    released: list[Names]
    version: int
    suppressed_tables: list[Names] | None = None
    in_part: list[Names] | None = None
    unreleasable: list[Names] | None = None

    @classmethod
    def showing(cls, state: State, *, is_all: bool) -> Self:
        """With the unreleasable one where `is_all`."""
        released = named(state.released.frontier, state.schema)
        found = cls(released=released, version=state.version, **in_part_of(state.suppressed_tables.views, state.schema))
        if is_all:
            found.unreleasable = named(state.unreleasable, state.schema)
        return found


class MatrixBody(BaseModel):
    """The frontiers after a release: each row has an X for each of `variables` that is in it, and else a dot."""

    version: int
    last: int
    at: str
    cause: Names | None
    variables: Names
    released: list[str]
    unreleasable: list[str] | None = None

    @classmethod
    def showing(cls, moment: Moment, last: int, schema: Schema, *, is_all: bool) -> Self:
        """With the unreleasable frontier where `is_all`."""

        def rows(frontier: Iterable[SubTable]) -> list[str]:
            return [st.marks(t, len(schema)) for t in frontier]

        return cls(
            version=moment.version,
            last=last,
            at=moment.at,
            cause=names_of(moment.cause, schema),
            variables=list(schema.names),
            released=rows(moment.released),
            **({"unreleasable": rows(moment.unreleasable)} if is_all else {}),
        )


class AllFrontiersBody(BaseModel):
    """What is public, by its frontier and as it was asked for, and what is not."""

    released: list[Names]
    direct: list[Names]
    unreleasable: list[Names]
    undecided: list[Names]
    version: int
    suppressed_tables: list[Names] | None = None
    in_part: list[Names] | None = None

    @classmethod
    def showing(cls, state: State) -> Self:
        frontiers = {"released": state.released.frontier, "direct": state.direct}
        frontiers |= {"unreleasable": state.unreleasable, "undecided": state.undecided}
        told = {name: named(found, state.schema) for name, found in frontiers.items()}
        return cls(version=state.version, **told, **in_part_of(state.suppressed_tables.views, state.schema))


class RequestBody(BaseModel):
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

    @classmethod
    def showing(cls, asked: Request, schema: Schema, number: int) -> Self:
        own = {"number": number, "who": asked.who, "sub_table": st.names(asked.sub_table, schema)}
        return cls(**(vars(asked) | own))


class RequestsBody(BaseModel):
    requests: list[RequestBody]

    @classmethod
    def showing(cls, asked: Iterable[Request], schema: Schema, *, own: bool) -> Self:
        return cls(requests=[RequestBody.showing(one, schema, one.own if own else one.number) for one in asked])


class AliveBody(BaseModel):
    """The process answers."""

    alive: Literal[True]


class HealthBody(BaseModel):
    """`ok`, or what is wrong."""

    status: str
    version: int


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

    @classmethod
    def showing(cls, effect: Effect, schema: Schema, version: int) -> Self:
        frontiers = effect.released_frontier, effect.unreleasable_frontier
        facts = {
            "sub_table": st.names(effect.sub_table, schema),
            "status": effect.status.name.lower(),
            **{name: named(getattr(effect, name), schema) for name in BOTH},
            "newly": dict(zip(BOTH, effect.newly, strict=True)),
            "frontiers": {name: named(found, schema) for name, found in zip(BOTH, frontiers, strict=True)},
            "version": version,
        }
        return cls(**(vars(effect) | facts))


class ExplainedBody(BaseModel):
    """Why a request was decided as it was."""

    request: RequestBody
    rule: str
    why: str
    verdict: str | None
    min_width: list[int] | None
    witness: dict[str, Any] | None
    milliseconds: float

    @classmethod
    def showing(cls, explained: Explained, schema: Schema) -> Self:
        asked = RequestBody.showing(explained.request, schema, explained.request.number)
        return cls(**(vars(explained) | {"request": asked}))


class MomentBody(BaseModel):
    version: int
    at: str
    cause: Names | None
    released: list[Names]
    unreleasable: list[Names]
    sub_tables: int
    suppressed_tables: list[Names] | None = None
    in_part: list[Names] | None = None

    @classmethod
    def showing(cls, moment: Moment, schema: Schema) -> Self:
        told = {"cause": names_of(moment.cause, schema), **in_part_of(moment.in_part, schema)}
        told |= {name: named(getattr(moment, name), schema) for name in BOTH}
        return cls(**({name: value for name, value in vars(moment).items() if name != "in_part"} | told))


class HistoryBody(BaseModel):
    """Both frontiers over time."""

    rules: list[str]
    moments: list[MomentBody]

    @classmethod
    def showing(cls, rules: Iterable[str], moments: Iterable[Moment], schema: Schema) -> Self:
        return cls(rules=list(rules), moments=[MomentBody.showing(moment, schema) for moment in moments])


class RoundBody(BaseModel):
    decided: int


class KeyBody(BaseModel):
    """A new key."""

    user: str
    role: str
    key: str


class RevokedBody(BaseModel):
    revoked: str
