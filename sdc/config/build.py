"""The typed config of a build."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictStr, ValidationInfo, model_validator

from sdc.canonical import digest_of
from sdc.config.analysis import (
    AttackConfig,
    CurveConfig,
    PosteriorConfig,
    RemediesConfig,
    UniquesConfig,
    WeightedConfig,
    WidthsConfig,
)
from sdc.config.capabilities import asked_at, refusal, refusals, require_together, require_used
from sdc.config.earlier import EarlierConfig
from sdc.config.features import BEFORE, COARSEN, OF_WHOLE
from sdc.config.methods import METHODS, SETTINGS_OF
from sdc.config.publication import AuditConfig, LabelsConfig, PublicationConfig
from sdc.config.release import ReleaseConfig
from sdc.config.risk import RiskConfig
from sdc.config.server import ServerConfig
from sdc.config.table import FILES, TableConfig
from sdc.config.values import EMBEDDED_CLUSTERS, Memory, Placed, Seconds, Section, Text, Workers, existing, placed
from sdc.model.sharpness import BUILD_SECONDS
from sdc.paths import at_home


def _cluster(value: str, info: ValidationInfo) -> str:
    if value in EMBEDDED_CLUSTERS:
        return value
    if not value.endswith((".yaml", ".yml")):
        raise ValueError("write one of these, or a path to a YAML file")
    return existing(value, info)


def _here(path: str, info: ValidationInfo) -> str:
    if "://" in path:
        raise ValueError(
            "it is a URL, and run folders are on this machine; name the place of a release in output.upload"
        )
    placed(path, info)
    return at_home(path)


def _place(url: str) -> str:
    if "://" not in url:
        raise ValueError("it is not a URL; write a protocol, as in s3://bucket/folder")
    return url


class ExecutionConfig(Section):
    cluster: Annotated[Text, AfterValidator(_cluster)] = "local"
    """in-process, local, or the path of a cluster's YAML file"""
    workers: Workers = 2
    """the number of workers, from 1 to 1024; a cluster's YAML file has its own"""
    memory_per_worker: Memory = "auto"
    """a size such as 4GiB, or auto: the machine's memory shared by the workers and this process; a cluster's YAML file
    has its own"""


class OutputConfig(Section):
    folder: Annotated[Text, AfterValidator(_here)] = "runs"
    """where run folders go, on this machine, relative to the current directory"""
    upload: Annotated[Text, AfterValidator(_place)] | None = None
    """an empty folder behind a URL, such as s3://bucket/folder, to which a whole release goes"""


class BuildConfig(Section):
    """One build. `name` is the folder of its runs; every section but `table` and `risk` has defaults."""

    place = ""

    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """letters, digits, dots, hyphens and underscores, at most 64, a letter or digit first"""
    table: TableConfig
    """a section with a path at least"""
    risk: RiskConfig
    """a section with a min_width at least"""
    release: ReleaseConfig = ReleaseConfig()
    """a section of settings"""
    publication: PublicationConfig = PublicationConfig()
    """a section of settings"""
    labels: LabelsConfig = LabelsConfig()
    """a section with variables or a code_list"""
    report: AuditConfig = AuditConfig()
    """a section with purpose, prepared_by, date"""
    weighted: WeightedConfig | None = None
    """a section of settings; without it those of its defaults, where table.weight is given"""
    earlier: tuple[EarlierConfig, ...] = ()
    """a list of sections with a folder or an entry; what is published is judged together with all"""
    ledger: Placed | None = None
    """a file that sdc ledger made, relative to the config; each publication is recorded there"""
    widths: WidthsConfig = WidthsConfig()
    """a section of settings"""
    assessment: Literal["proven", "sharp"] = "sharp"
    """how far bounds of at-risk cells go once the release is found: sharp, until outer and inner ends meet or
    sharp_seconds are spent, on the workers, the narrowest cells first; or proven, as a proof needs them. Sharp bounds
    may refute what was undecided, and then nothing is published"""
    sharp_seconds: Annotated[
        Seconds | None,
        Field(
            description="the budget of sharp bounds of all at-risk cells, in seconds of a reference core, more than 0; "
            "workers share it, and release.minutes does not limit it; cells that are not sharp then are bracketed; "
            f"default {BUILD_SECONDS:g}"
        ),
    ] = None
    curve: CurveConfig | None = None
    """a section with min_width at least; default no risk-utility curve"""
    remedies: RemediesConfig | None = None
    """a section of settings; default no recode is tried"""
    posterior: PosteriorConfig | None = None
    """a section of settings; default no posterior"""
    uniques: UniquesConfig | None = None
    """a section with a fraction, or beside table.weight; default nothing about uniques"""
    attack: AttackConfig | None = None
    """a section of settings; default nothing is reconstructed"""
    execution: ExecutionConfig = ExecutionConfig()
    """a section of settings"""
    output: OutputConfig = OutputConfig()
    """a section of settings"""
    server: ServerConfig | None = None
    """a section of settings, of the table server"""

    @property
    def totals(self) -> WeightedConfig | None:
        """How totals of weights are published; None where records have none."""
        return None if self.table.weight is None else self.weighted or WeightedConfig()

    @property
    def least_width(self) -> int:
        """The least width that is asked for: the curve asks for others too."""
        return min([self.risk.min_width, *(self.curve.min_width if self.curve else ())])

    @property
    def seconds_to_sharpen(self) -> float | None:
        """What sharp bounds may take; None where none are asked for."""
        return (self.sharp_seconds or BUILD_SECONDS) if self.assessment == "sharp" else None

    @model_validator(mode="after")
    def _fits_together(self) -> BuildConfig:
        if self.sharp_seconds is not None and self.assessment != "sharp":
            raise ValueError("sharp_seconds is given, and assessment is not sharp; set it to sharp, or leave it out")
        if self.weighted is not None and self.table.weight is None:
            raise ValueError("weighted is given, and table.weight names no column; name it, or leave the section out")
        if self.uniques is not None and self.uniques.fraction is None and self.table.weight is None:
            raise ValueError(
                "uniques has no fraction, and table.weight names no column; give the share of the population that is "
                "in the sample, or the weights"
            )
        named = [one.label for one in self.earlier]
        if twice := [name for name in named if named.count(name) > 1]:
            raise ValueError(f"earlier lists {twice[0]} twice; list each publication once")
        if entries := [one.entry for one in self.earlier if one.entry is not None and self.ledger is None]:
            raise ValueError(f"earlier has entry {entries[0]}, and no ledger is named; name the ledger")
        if said := "; ".join(refusals(self.asked)):
            raise ValueError(said)
        before = [name for name in BEFORE if getattr(self, name)]
        whys = (refusal(method, name) for method in self._methods_of_curve for name in before)
        if said := "; ".join(dict.fromkeys(filter(None, whys))):
            raise ValueError(f"curve: {said}")
        return self

    def require_used(self, settings: Iterable[str] = ()) -> None:
        """ConfigError for settings of searches that it does not ask for; those of runs from before may have some.

        settings  keys of what is set beside a file: where a method is among them, the file may be for another one
        """
        default, keys = dict(ReleaseConfig()), [*settings]
        given = [name for name, value in self.release if name in SETTINGS_OF and value != default[name]]
        if "release.method" in keys:
            seeds = {f"release.{section}.seed" for section in ("annealing", "simulatable")}
            own = [key for key in keys if not seeds <= {*keys} or key not in seeds]  # a seed of both is of either
            given = [name for name in given if any(f"{key}.".startswith(f"release.{name}.") for key in own)]
            given += ["seed"] * (len(own) < len(keys))
        require_used(self.release.method, given, self._methods_of_curve)

    @property
    def _methods_of_curve(self) -> tuple[str, ...]:
        return () if self.curve is None else (*self.curve.methods, *(["decomposable"] if self.curve.max_above else []))

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of all capabilities that it asks for, see `search.capabilities`."""
        return tuple(asked_at(self._at))

    def require(self, *asked: str) -> None:
        """ConfigError where a verb, or a method instead of its own, does not work with all that it asks for."""
        replaced = METHODS if set(METHODS) & set(asked) else ()
        require_together(*asked, *(name for name in self.asked if name not in (*replaced, *asked)))

    @property
    def may_coarsen(self) -> bool:
        """Whether `by: recoding` works with all that it asks for, but for what it asks of whole sub-tables alone."""
        return all(refusal(name, COARSEN) is None for name in self.asked if name not in OF_WHOLE)

    def _at(self, key: str) -> Any:
        """The value at a key, None where a section on the way is not there."""
        value: Any = self
        for name in key.split("."):
            value = getattr(value, name, None)
        return value


ELSEWHERE: dict[str, Any] = {
    "table": FILES,
    "execution": True,
    "output": True,
    "earlier": True,
    "ledger": True,
    "publication": {"signing_key"},
}
"""Settings that say where data lie and how a build is executed, which is not part of what is built."""


def section_digest(config: BuildConfig, *sections: str, defaults: bool = True) -> str:
    """SHA-256 over the canonical JSON of the named sections (or `name`), the same wherever the config lies.

    Without `defaults` a setting counts only where it is another, so that one that is new in a later version changes
    nothing.

    `FILES` are left out: the data are named by their content, see `sdc.data.source.Source.digest`.
    """
    if unknown := set(sections) - set(BuildConfig.model_fields):
        raise ValueError(f"no section {sorted(unknown)}; a config has {', '.join(BuildConfig.model_fields)}")
    # of the validated config, with all defaults: what is written out and what is left to its default are the same build
    content = config.recorded(
        include=set(sections), exclude={"table": FILES, "ledger": True}, exclude_defaults=not defaults
    )
    # by what is in them: which key it is the stage that signs knows, for the others see `Build.base`
    for section, file in ("publication", "signing_key"), ("release", "like"):
        if file in content.get(section, {}):
            content[section][file] = content[section][file] is not None
    for one in content.get("earlier", ()):
        one["folder"] = None
        if one.get("key") is not None:
            one["key"]["records"] = None
    for recode in content.get("table", {}).get("recodes", {}).values():
        # of groups the order is that of the categories, and counts
        recode["groups"] = recode.get("groups") and list(recode["groups"].items())
    return digest_of(content)
