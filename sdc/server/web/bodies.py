"""The bodies of the API: what its addresses take and answer with, as its document says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, Field, StrictBool, ValidationInfo

from sdc.model import subtable as st
from sdc.model.schema import Schema, Variable
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.server.service.effect import Effect
from sdc.server.service.levels import implied_levels
from sdc.server.service.outcome import PUBLIC, Decided
from sdc.server.service.service import Service
from sdc.server.service.views import Explained, Moment, Reply, Request
from sdc.server.web.access import NAME, Role
from sdc.server.web.problems import Problem

PREFIX = "/api"
BOTH = ("released", "unreleasable")


def _named(found: Any, info: ValidationInfo) -> Any:
    return st.names(found, info.context) if isinstance(found, int) and info.context else found


Names = Annotated[list[str], BeforeValidator(_named)]
"""The variables of a sub-table, which may be given by its number."""


class Body(BaseModel):
    """What is answered."""

    @classmethod
    def with_names(cls, found: Mapping[str, Any], schema: Schema) -> Self:
        """With these values, sub-tables among them by their numbers; what has no field is left out."""
        return cls.model_validate(found, context=schema)


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


def in_part_of(subtables: tuple[SubTable, ...]) -> dict[str, tuple[SubTable, ...]]:
    """The suppressed tables, where there are any; by their old key too, for one release."""
    return dict.fromkeys(("suppressed_tables", "in_part"), subtables) if subtables else {}


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
        is_had = reply.decision in PUBLIC
        job = f"{PREFIX}/jobs/{reply.job}" + (f"?visitor={visitor}" if visitor else "")
        own = {
            "table": f"{PREFIX}/tables/{address_of(reply.sub_table, schema)}" if is_had else None,
            "job": None if reply.job is None else job,
        }
        return cls.with_names(vars(reply) | own, schema)


class VariableBody(Body):
    """A variable; `implies` are its coarser levels, which a table of it implies, if there are any."""

    name: str
    categories: Annotated[list[str] | None, Field(description="null while no table of the variable is public")] = None
    implies: Names | None = None
    tells: Annotated[Names | None, Field(description="old name of implies")] = None

    @classmethod
    def showing(cls, variable: Variable, is_listed: bool, implied: list[str] | None) -> Self:
        found = cls(name=variable.name, categories=list(variable.categories) if is_listed else None)
        if implied is not None:
            found.implies = found.tells = implied
        return found


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
        variables = [VariableBody.showing(v, v.name in listed, implied.get(v.name)) for v in schema.variables]
        texts = replace(service.texts, labels=service.texts.labels.of_categories(listed))
        facts = {"title": service.title, "records": service.records, "variables": variables, **texts.given}
        return cls.with_names(facts, schema)


class FrontierBody(Body):
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
        found: dict[str, Any] = {"released": state.released.frontier, "version": state.version}
        found |= in_part_of(state.suppressed_tables.views)
        return cls.with_names(found | ({"unreleasable": state.unreleasable} if is_all else {}), state.schema)


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
        shown = BOTH if is_all else BOTH[:1]
        rows = {name: [st.marks(t, len(schema)) for t in getattr(moment, name)] for name in shown}
        own = {"version": moment.version, "at": moment.at, "cause": moment.cause}
        return cls.with_names({**own, "last": len(moments) - 1, "variables": schema.names, **rows}, schema)


class AllFrontiersBody(Body):
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
        found = {"released": state.released.frontier, "direct": state.direct, "unreleasable": state.unreleasable}
        found |= {"undecided": state.undecided, **in_part_of(state.suppressed_tables.views)}
        return cls.with_names({**found, "version": state.version}, state.schema)


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

    @classmethod
    def showing(cls, asked: Request, schema: Schema, number: int) -> Self:
        return cls.with_names(vars(asked) | {"number": number, "who": asked.who}, schema)


class RequestsBody(Body):
    requests: list[RequestBody]

    @classmethod
    def showing(cls, asked: Iterable[Request], schema: Schema, *, own: bool) -> Self:
        return cls(requests=[RequestBody.showing(one, schema, one.own if own else one.number) for one in asked])


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
        frontiers = effect.released_frontier, effect.unreleasable_frontier
        own = {
            "status": effect.status.name.lower(),
            "newly": dict(zip(BOTH, effect.newly, strict=True)),
            "frontiers": dict(zip(BOTH, frontiers, strict=True)),
            "version": version,
        }
        return cls.with_names(vars(effect) | own, schema)


class ExplainedBody(Body):
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
        return cls.with_names(vars(explained) | {"request": asked}, schema)


class MomentBody(Body):
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
        found = {name: value for name, value in vars(moment).items() if name != "in_part"}
        return cls.with_names(found | in_part_of(moment.in_part), schema)


class HistoryBody(Body):
    """Both frontiers over time."""

    rules: list[str]
    moments: list[MomentBody]

    @classmethod
    def showing(cls, rules: Iterable[str], moments: Iterable[Moment], schema: Schema) -> Self:
        return cls(rules=list(rules), moments=[MomentBody.showing(moment, schema) for moment in moments])


class RoundBody(Body):
    decided: int


class KeyBody(Body):
    """A new key."""

    user: str
    role: str
    key: str


class RevokedBody(Body):
    revoked: str
