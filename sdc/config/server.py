"""The sections of a config about the table server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool, StrictStr, ValidationInfo, field_validator, model_validator

from sdc.config.release import SimulatableConfig
from sdc.config.values import ExistingFile, NotNegative, Positive, Seconds, Section, Share, Text, Weight, placed


class OneStepConfig(Section):
    """A sub-table is released only where it is one step from R(t): one of its children is ([KDSF] section 4)."""

    rule: Literal["one_step"]


class OneStepFrontierConfig(Section):
    """A sub-table is released only where one of its children is on RF(t), or all of them are released."""

    rule: Literal["one_step_frontier"]


class LimitUnreleasableConfig(Section):
    """A sub-table that would make too many others unreleasable is refused."""

    rule: Literal["limit_unreleasable"]
    most: NotNegative | None = None
    """how many sub-tables may newly become unreleasable; default any number"""
    share: Share | None = None
    """what share of those still open may become so, at least 0 and below 1; default any"""

    @model_validator(mode="after")
    def _limits(self) -> LimitUnreleasableConfig:
        if self.most is None and self.share is None:
            raise ValueError("it has no limit and would refuse nothing; give most or share")
        return self


class ValueConfig(Section):
    """A sub-table must be worth what it makes unreleasable."""

    rule: Literal["value"]
    least: Weight
    """the least value for each sub-table made unreleasable, more than 0"""
    interest: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] = 1.0
    """what each earlier request for it, or for what it contains, is worth, at least 0"""
    reconstruction: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] = 0.0
    """what it is worth to halve the error of a reconstruction by IPF, at least 0"""


class BatchConfig(Section):
    """Requests wait for a round, which releases the set that serves most interest."""

    rule: Literal["batch"]


class ShareConfig(Section):
    """What one user may cause."""

    rule: Literal["share"]
    most: Annotated[Share, Field(gt=0)]
    """the largest share of all released sub-tables beyond the first release that one user's requests may have caused,
    above 0 and below 1"""
    free: NotNegative = 8
    """released sub-tables that anybody may cause before it counts"""


class SimulatableRuleConfig(SimulatableConfig):
    """A refusal depends on nothing but what is public."""

    rule: Literal["simulatable"]


RuleConfig: TypeAlias = Annotated[
    OneStepConfig
    | OneStepFrontierConfig
    | LimitUnreleasableConfig
    | ValueConfig
    | BatchConfig
    | ShareConfig
    | SimulatableRuleConfig,
    Field(discriminator="rule"),
]


class UserConfig(Section):
    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
    """letters, digits and . _ @ -, at most 64"""
    role: Literal["user", "operator", "auditor"] = "user"
    """user, operator or auditor"""
    days: Annotated[Positive, Field(le=3660)] = 365
    """after how many days a key expires, from 1 to 3660"""

    @field_validator("name")
    @classmethod
    def _not_everybody(cls, name: str) -> str:
        if name == "public":
            raise ValueError("this name stands for everybody without a key; choose another")
        return name


class LimitsConfig(Section):
    newer = frozenset({"connections", "connections_each"})
    cells: Positive = 50_000_000
    """the most cells of a sub-table that is answered"""
    cells_on_screen: Annotated[Positive, Field(le=1_000_000)] = 10_000
    """the most cells that a page shows"""
    requests_a_minute: Annotated[Positive, Field(le=1_000_000)] = 120
    """of one user or address"""
    connections: Annotated[Positive, Field(le=100_000)] = 1_000
    """how many connections may be open"""
    connections_each: Annotated[Positive, Field(le=100_000)] = 100
    """how many requests of one address, as the proxy names it, are answered at once"""
    body_bytes: Annotated[Positive, Field(le=1 << 24)] = 1 << 16
    """the most bytes of a request's body"""


ONE_WAY, TOTAL = "one-way", "total"


def _begun(start: str, info: ValidationInfo) -> str:
    """A run folder relative to the config, or as until now to the working folder where only that has one."""
    place = start if start in (ONE_WAY, TOTAL) else placed(start, info)
    return start if not Path(place).exists() and Path(start).exists() else place


class ServerConfig(Section):
    """The table server: what is public when it starts, and by which rules more becomes so."""

    place = "server"
    newer = frozenset({"socket"})

    start: Annotated[Text, AfterValidator(_begun)] = "one-way"
    """one-way: all one-way sub-tables; total: nothing but the total; or a finished run folder, relative to the
    config"""
    rules: tuple[RuleConfig, ...] = ()
    """a list of sections with a rule: one_step, one_step_frontier, limit_unreleasable, value, batch, share or
    simulatable"""
    history: Text | None = None
    """the URL of a PostgreSQL or SQLite database; default an SQLite file in the server's folder"""
    users: tuple[UserConfig, ...] = ()
    """a list of sections with a name; default: public"""
    public: StrictBool | None = None
    """true or false: who has no key may ask; default where there are no users"""
    url: Text | None = None
    """where others reach it through a proxy, such as https://tables.agency.example"""
    proxy_header: Text | None = None
    """a header in which a proxy on this machine names the user that it has authenticated"""
    proxy_secret: ExistingFile | None = None
    """a file, relative to the config, with 32 characters or more that the proxy alone knows and sends as
    X-Proxy-Secret"""
    socket: Text | None = None
    """a Unix socket for the proxy, which then needs no secret; its folder must be closed to all others"""
    publish_unreleasable: StrictBool = False
    """true or false: users see what can no longer be released"""
    seconds: Seconds = 0.2
    """what a decision may take at once, in seconds of a reference core; else it is a job"""
    job_seconds: Seconds = 60.0
    """what a job may take, in seconds of a reference core, more than 0"""
    slot: Annotated[float, Field(ge=0, le=60, strict=True)] = 0.2
    """seconds; decisions are announced at whole multiples of it, 0: at once"""
    limits: LimitsConfig = LimitsConfig()
    """a section of settings"""

    @field_validator("rules")
    @classmethod
    def _once(cls, rules: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [rule.rule for rule in rules]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the rule {twice[0]} is listed twice; list each once")
        if "simulatable" in names and (others := {"batch", "limit_unreleasable", "value"} & set(names)):
            raise ValueError(
                f"the rule {min(others)} looks at the confidential table, so its refusals would reveal something in "
                "spite of the rule simulatable; leave one of the two out"
            )
        return rules

    @field_validator("users")
    @classmethod
    def _named_once(cls, users: tuple[UserConfig, ...]) -> tuple[UserConfig, ...]:
        names = [user.name for user in users]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the user {twice[0]} is listed twice; list each once")
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
    def _fits_together(self) -> ServerConfig:
        if self.proxy_header and not (self.proxy_secret or self.socket):
            raise ValueError(
                f"proxy_header = {self.proxy_header}: any program of this machine can send it; name in proxy_secret a "
                "file with a secret that the proxy alone knows, or in socket a Unix socket that it alone can reach"
            )
        if (name := "proxy_secret" if self.proxy_secret else "socket" if self.socket else "") and not self.url:
            raise ValueError(f"{name}: url is missing; give the address at which others reach the proxy")
        if self.publish_unreleasable and any(rule.rule == "simulatable" for rule in self.rules):
            raise ValueError(
                "publish_unreleasable, with the rule simulatable: what can no longer be released discloses "
                "something of the confidential table; leave one of the two out"
            )
        return self

    @property
    def accounts(self) -> dict[str, UserConfig]:
        """The users that exist, by name; one operator if none is named."""
        return {user.name: user for user in self.users or (UserConfig(name="operator", role="operator"),)}

    @property
    def is_public(self) -> bool:
        """Whether who has no key may ask."""
        return not self.users if self.public is None else self.public
