"""The sections of a config about the table server."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, StrictBool, StrictStr, field_validator, model_validator

from sdc.config.release import SimulatableConfig
from sdc.config.values import NotNegative, Positive, Seconds, Section, Share, Text, Weight


class OneStepConfig(Section):
    """A sub-table is released only where it is one step from R(t): one of its children is ([KDSF] section 4)."""

    rule: Literal["one_step"]


class OneStepFrontierConfig(Section):
    """A sub-table is released only where one of its children is on RF(t), or all of them are released."""

    rule: Literal["one_step_frontier"]


class BiasedConfig(Section):
    """A sub-table that would make too many others unreleasable is refused."""

    rule: Literal["biased"]
    most: Annotated[
        NotNegative | None, Field(description="how many sub-tables may newly become unreleasable; default any number")
    ] = None
    share: Annotated[
        Share | None,
        Field(description="what share of those still open may become so, at least 0 and below 1; default any"),
    ] = None

    @model_validator(mode="after")
    def _limits(self) -> BiasedConfig:
        if self.most is None and self.share is None:
            raise ValueError("it refuses nothing; give most or share")
        return self


class ValueConfig(Section):
    """A sub-table must be worth what it makes unreleasable."""

    rule: Literal["value"]
    least: Annotated[
        Weight,
        Field(description="the least value for each sub-table made unreleasable, more than 0"),
    ]
    interest: Annotated[
        Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)],
        Field(description="what each earlier request for it, or for what it contains, is worth, at least 0"),
    ] = 1.0
    reconstruction: Annotated[
        Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)],
        Field(description="what it is worth to halve the error of a reconstruction by IPF, at least 0"),
    ] = 0.0


class BatchConfig(Section):
    """Requests wait for a round, which releases the set that serves most interest."""

    rule: Literal["batch"]


class ShareConfig(Section):
    """What one user may cause."""

    rule: Literal["share"]
    most: Annotated[
        Share,
        Field(
            gt=0,
            description="the largest share of all released sub-tables beyond the first release that one user's "
            "requests may have caused, above 0 and below 1",
        ),
    ]
    free: Annotated[NotNegative, Field(description="released sub-tables that anybody may cause before it counts")] = 8


class SimulatableRuleConfig(SimulatableConfig):
    """A refusal depends on nothing but what is public."""

    rule: Literal["simulatable"]


RuleConfig: TypeAlias = Annotated[
    OneStepConfig
    | OneStepFrontierConfig
    | BiasedConfig
    | ValueConfig
    | BatchConfig
    | ShareConfig
    | SimulatableRuleConfig,
    Field(discriminator="rule"),
]


class UserConfig(Section):
    name: Annotated[
        StrictStr,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$", description="letters, digits and . _ @ -, at most 64"),
    ]
    role: Annotated[Literal["user", "operator", "auditor"], Field(description="user, operator or auditor")] = "user"
    days: Annotated[Positive, Field(le=3660, description="after how many days a key expires, from 1 to 3660")] = 365

    @field_validator("name")
    @classmethod
    def _not_everybody(cls, name: str) -> str:
        if name == "public":
            raise ValueError("this is what everybody without a key is called; choose another name")
        return name


class LimitsConfig(Section):
    cells: Annotated[Positive, Field(description="the most cells of a sub-table that is answered")] = 50_000_000
    cells_on_screen: Annotated[Positive, Field(le=1_000_000, description="the most cells that a page shows")] = 10_000
    requests_a_minute: Annotated[Positive, Field(le=1_000_000, description="of one user or address")] = 120
    body_bytes: Annotated[Positive, Field(le=1 << 24, description="the most bytes of a request's body")] = 1 << 16


class ServerConfig(Section):
    """The table server: what is public when it starts, and by which rules more becomes so."""

    start: Annotated[
        Text,
        Field(description="one-way: all one-way sub-tables; total: nothing but the total; or a finished run folder"),
    ] = "one-way"
    rules: Annotated[
        tuple[RuleConfig, ...],
        Field(
            description="a list of sections with a rule: one_step, one_step_frontier, biased, value, batch, share or "
            "simulatable",
        ),
    ] = ()
    history: Annotated[
        Text | None,
        Field(description="the URL of a PostgreSQL or SQLite database; default a SQLite file in the server's folder"),
    ] = None
    users: Annotated[tuple[UserConfig, ...], Field(description="a list of sections with a name; default: public")] = ()
    public: Annotated[
        StrictBool | None, Field(description="true or false: who has no key may ask; default where there are no users")
    ] = None
    url: Annotated[
        Text | None, Field(description="where others reach it through a proxy, such as https://tables.agency.example")
    ] = None
    proxy_header: Annotated[
        Text | None,
        Field(description="a header in which a proxy on this machine names the user that it has authenticated"),
    ] = None
    proxy_secret: Annotated[
        Text | None,
        Field(
            description="a file, relative to the config, with 32 characters or more that the proxy alone knows and "
            "sends as X-Proxy-Secret"
        ),
    ] = None
    publish_unreleasable: Annotated[
        StrictBool, Field(description="true or false: users see what can no longer be released")
    ] = False
    seconds: Annotated[
        Seconds, Field(description="what a decision may take at once, in seconds of a reference core; else it is a job")
    ] = 0.2
    job_seconds: Annotated[
        Seconds, Field(description="what a job may take, in seconds of a reference core, more than 0")
    ] = 60.0
    slot: Annotated[
        float,
        Field(ge=0, le=60, strict=True, description="seconds; decisions are told at whole multiples of it, 0: at once"),
    ] = 0.2
    limits: Annotated[LimitsConfig, Field(description="a section of settings")] = LimitsConfig()

    @field_validator("rules")
    @classmethod
    def _once(cls, rules: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [rule.rule for rule in rules]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the rule {twice[0]} is there twice; give each once")
        if "simulatable" in names and (others := {"batch", "biased", "value"} & set(names)):
            raise ValueError(
                f"the rule {min(others)} looks at the confidential table, so refusals would tell something though "
                "simulatable is there; leave one of the two out"
            )
        return rules

    @field_validator("users")
    @classmethod
    def _named_once(cls, users: tuple[UserConfig, ...]) -> tuple[UserConfig, ...]:
        names = [user.name for user in users]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the user {twice[0]} is there twice; give each once")
        return users

    @field_validator("url")
    @classmethod
    def _is_an_origin(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        plain = f"{parts.scheme}://{parts.netloc.lower()}"  # as browsers send it in the header Origin
        if url is None or (parts.scheme in ("http", "https") and parts.hostname and "@" not in url and url == plain):
            return url
        raise ValueError("give scheme, name and port alone, in small letters, such as https://tables.agency.example")

    @model_validator(mode="after")
    def _knows_its_proxy(self) -> ServerConfig:
        if self.proxy_header and not self.proxy_secret:
            raise ValueError(
                f"proxy_header = {self.proxy_header}: any program of this machine can send it; name in proxy_secret a "
                "file with a secret that the proxy alone knows"
            )
        if self.proxy_secret and not self.url:
            raise ValueError("proxy_secret: name in url where others reach the proxy")
        return self

    @model_validator(mode="after")
    def _tells_nothing(self) -> ServerConfig:
        if self.publish_unreleasable and any(rule.rule == "simulatable" for rule in self.rules):
            raise ValueError(
                "publish_unreleasable, with the rule simulatable: what can no longer be released tells of the "
                "confidential table; leave one of the two out"
            )
        return self

    @property
    def is_public(self) -> bool:
        """Whether who has no key may ask."""
        return not self.users if self.public is None else self.public
