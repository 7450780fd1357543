"""The sections of a config about the search for a release."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, ValidationInfo, field_validator, model_validator

from sdc.config.methods import SearchMethod
from sdc.config.values import (
    ExistingFile,
    Minutes,
    Names,
    NotNegative,
    Objective,
    Placed,
    Positive,
    Seconds,
    Section,
    Share,
    Temperature,
    Text,
    Weight,
    folder_of,
)
from sdc.model.errors import ConfigError


class AnnealingConfig(Section):
    """Chains over decomposable graphs. A value that does not fit another one is the fault of the later one."""

    model_config = ConfigDict(validate_default=True)

    chains: Annotated[Positive, Field(le=1024)] = 4
    """the number of chains, from 1 to 1024"""
    steps: Positive = 200_000
    """the proposals of each chain, at least 1"""
    rounds: Positive = 20
    """the parts of a chain, between which chains are compared and saved, at least 1"""
    patience: NotNegative = 8
    """stop after so many rounds in which all chains had the same best value; 0: never"""
    seed: NotNegative = 0
    """the seed of all chains, at least 0"""
    schedule: Literal["geometric", "linear"] = "geometric"
    """how the temperature falls, geometric or linear"""
    start_temperature: Annotated[Temperature, Field(gt=0)] = 30.0
    """in units of utility, more than 0; what costs this much is often accepted; with the objective reconstruction 30 is
    one halving"""
    end_temperature: Temperature = 0.5
    """in units of utility, at most the start temperature; 0 is for the linear schedule only"""
    cycles: Positive = 1
    """how often the cooling is run through, at least 1 and at most the steps"""
    tempering: StrictBool = False
    """true or false: chains keep temperatures of their own and exchange; needs 2 chains or more"""
    start: Text | None = None
    """the graph to start from, by its cliques, as '[a,b] [b,c]'; default no edges"""

    @field_validator("end_temperature")
    @classmethod
    def _cools(cls, value: float, info: ValidationInfo) -> float:
        start = info.data.get("start_temperature", value)
        if value > start:
            raise ValueError(f"it is above the start temperature {start}")
        if value == 0 and info.data.get("schedule") == "geometric":
            raise ValueError("geometric cooling never reaches 0; give more than 0, or the linear schedule")
        return value

    @field_validator("cycles")
    @classmethod
    def _fits(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("steps", value):
            raise ValueError(f"there are {info.data['steps']} steps, and each cycle needs one")
        return value

    @field_validator("tempering")
    @classmethod
    def _exchanges(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("chains") == 1:
            raise ValueError("there is 1 chain, and exchanges need another; give at least 2 chains")
        if value and info.data.get("end_temperature") == 0:
            raise ValueError("the end temperature is 0, at which chains exchange nothing; give more than 0")
        return value


class SimulatableConfig(Section):
    """Decisions from tables drawn given what is released already; the true table is asked in the end."""

    draws: Annotated[Positive, Field(le=100_000)] = 100
    """tables drawn for each decision, at least 1"""
    share: Share = 0.05
    """a candidate is refused where more than this share of the draws would break the criterion with it, at least 0 and
    below 1"""
    seed: NotNegative = 0
    """the seed of all draws, at least 0"""

    @property
    def most(self) -> int:
        """How many draws may break the criterion."""
        return int(self.share * self.draws + 1e-9)


class NeighbourhoodConfig(Section):
    """Large neighbourhood search from the release that was found: less is released, and then what fits beside that."""

    rounds: NotNegative = 0
    """the rounds, at least 0; a round tries four other releases, and the best of them is kept if it is no worse"""
    seed: NotNegative = 0
    """the seed of all rounds, at least 0"""


class WeightsConfig(Section):
    variables: dict[Text, Weight] = {}
    """a number more than 0 for each variable that does not count 1; a sub-table has their product"""
    sub_tables: dict[Text, Weight] = {}
    """a number more than 0 for sub-tables such as a*b that have a value of their own"""


class PatternConfig(Section):
    """Sub-tables named by how many variables they have."""

    all: Annotated[Positive | None, Field(le=63)] = None
    """every sub-table of so many variables"""
    of: Names | None = None
    """a list of variables"""
    up_to: Annotated[Positive | None, Field(le=63)] = None
    """of these, every so many; default all at once"""

    @model_validator(mode="after")
    def _one_kind(self) -> PatternConfig:
        if (self.all is None) == (self.of is None):
            raise ValueError("give either all or of")
        if self.all is not None and self.up_to is not None:
            raise ValueError("up_to belongs to of; give either all or of with up_to")
        return self


PatternLike: TypeAlias = Text | PatternConfig


def is_name(pattern: Any) -> bool:
    """Whether this text names one variable rather than a sub-table of several."""
    return isinstance(pattern, str) and not {"*", ":"} & {*pattern}


def _several(patterns: tuple[PatternLike, ...]) -> tuple[PatternLike, ...]:
    """A list of names alone could be one sub-table or several."""
    if len(patterns) > 1 and all(map(is_name, patterns)):
        raise ValueError(f"write {'*'.join(map(str, patterns))} for one sub-table, or one section for each of several")
    return patterns


Way: TypeAlias = Literal["suppression", "recoding", "rounding"]
"""How a sub-table goes out that may not go out whole."""


def _weights(given: Any, info: ValidationInfo) -> Any:
    """What a file of weights says is part of the config, and not where it lies."""
    if not isinstance(given, str) or folder_of(info) is None:
        return given
    try:
        with Path(given).open(encoding="utf-8-sig", newline="") as content:
            return tuple(tuple(line) for line in csv.reader(content) if line)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{given} cannot be read as CSV: {error}; give a file in UTF-8") from error


class CostConfig(Section):
    """What each cell of a sub-table costs that is withheld or merged."""

    weights: Annotated[ExistingFile | tuple[tuple[Text, ...], ...], AfterValidator(_weights)]
    """a CSV file, relative to the config, with a column for each variable of the sub-table and one called weight, whole
    numbers; a cell that it does not list has 0; or its lines"""


class ProtectConfig(Section):
    """How a sub-table is protected that may not be released whole."""

    place = "release.protect"

    of: PatternLike | Annotated[tuple[PatternLike, ...], Field(min_length=1), AfterValidator(_several)]
    """a sub-table, a pattern of several, as in require, or a list of these"""
    by: Way | Annotated[tuple[Way, ...], Field(min_length=1)] = "suppression"
    """suppression: some cells are suppressed; recoding: some categories of an axis are merged; rounding: counts are
    rounded to multiples of base; or a list of these, each of which is tried where those before it are not proven"""
    merge: Text | None = None
    """the variable whose categories are merged; only for recoding; default the one that loses least"""
    base: Annotated[Positive | None, Field(ge=2)] = None
    """the base of rounding, at least 2: counts become multiples of it; only for rounding"""
    cost: Literal["cells", "records"] | CostConfig | None = None
    """the cost to keep small: cells; records, to which cells are added; or a section with weights, which are added to
    cells; default records for suppression, cells for recoding"""
    max_share: Annotated[float, Field(gt=0, le=1, strict=True, allow_inf_nan=False)] = 1.0
    """the largest share of its cells that may be suppressed, or in merged categories, more than 0 and at most 1; where
    more would have to be, the next way of `by` is tried, and without one it is not released"""

    @property
    def ways(self) -> tuple[Way, ...]:
        """In the order in which they are tried."""
        return self.by if isinstance(self.by, tuple) else (self.by,)

    @model_validator(mode="after")
    def _has_a_base(self) -> ProtectConfig:
        if ("rounding" in self.ways) != (self.base is not None):
            raise ValueError("by: rounding needs a base, and no other method has one; give both or neither")
        if self.merge is not None and "recoding" not in self.ways:
            raise ValueError("merge belongs to by: recoding; add that, or leave merge out")
        if len({*self.ways}) < len(self.ways):
            raise ValueError("by lists a method twice; list each once")
        return self


class AtLeastConfig(Section):
    """What a release must be worth to be published: the data utility of [DFT] section 3, by one measure or several."""

    sub_tables: Positive | None = None
    """so many sub-tables, without the grand total"""
    cells: Positive | None = None
    """so many cells of all sub-tables together"""
    degrees_of_freedom: Positive | None = None
    """so many free parameters of its log-linear model besides the total"""
    weighted: Weight | None = None
    """so much by release.weights and demand, more than 0"""
    requests_served: Annotated[float | None, Field(gt=0, le=1, strict=True)] = None
    """such a share of release.demand, more than 0 and at most 1"""
    halvings: Annotated[float | None, Field(gt=0, allow_inf_nan=False, strict=True)] = None
    """so often half of the mean squared error by which iterative proportional fitting misses the full table, more than
    0; the table has 2,000,000 cells at most, but where the release is decomposable"""

    @property
    def facts(self) -> dict[str, float]:
        """What is asked, by the names of measures."""
        return self.model_dump(exclude_none=True)

    @model_validator(mode="after")
    def _asks(self) -> AtLeastConfig:
        if not self.facts:
            raise ValueError("it is empty; name a measure, such as sub_tables")
        return self


def _demand(given: Any, info: ValidationInfo) -> Any:
    return read_demand(Path(given)) if isinstance(given, str) and folder_of(info) is not None else given


def read_demand(path: Path) -> dict[str, float]:
    """How often each sub-table is asked for, from a CSV file with the columns sub_table and frequency.

    ConfigError where it cannot be read, or where a row has no sub-table, or a frequency that is not more than 0. Rows
    of one sub-table add up.
    """
    found: dict[str, float] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None or not {"sub_table", "frequency"} <= set(rows.fieldnames):
                raise ConfigError(f"{path} has no columns sub_table and frequency; name them in its first line")
            for row in rows:
                name, frequency = (row["sub_table"] or "").strip(), _number(row["frequency"])
                if not name or not 0 < frequency < math.inf:
                    raise ConfigError(
                        f"{path}, line {rows.line_num}: give a sub-table such as age*sex and a frequency above 0"
                    )
                found[name] = found.get(name, 0.0) + frequency
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read as CSV: {error}; give a file in UTF-8") from error
    return found


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan


class ReleaseConfig(Section):
    place = "release"
    newer = frozenset({"neighbourhood"})

    method: SearchMethod = "ordered"
    """how the release is searched: ordered: grown along the list by critical width; bisection: the longest prefix of
    that list; decomposable: by annealing; best: the best of these three; optimum: the best of all releases, or a bound
    of it; or simulatable: by decisions that reveal nothing of the table"""
    objective: Objective = "sub_tables"
    """what a release is worth: sub_tables: how many it has, by their weights; or reconstruction: by how many halvings
    the full table is nearer to what iterative proportional fitting makes of it; or reconstruction_non_zero: the same
    with a fit of the table's non-zero cells alone, which readers do not know"""
    require: tuple[PatternLike, ...] = ()
    """a list of sub-tables that the release must have: a*b, {all: 2} for every pair, or {of: [a, b, c], up_to: 2}"""
    forbid: tuple[PatternLike, ...] = ()
    """a list of sub-tables, as in require; none, and nothing that contains one, is released"""
    required_only: StrictBool = False
    """true: the required sub-tables are released, with what they contain, and nothing else"""
    on_conflict: Literal["refuse", "drop"] = "refuse"
    """if the required sub-tables do not fit together: refuse, or drop: release the subset of the largest weight"""
    protect: Literal["suppression"] | tuple[ProtectConfig, ...] = ()
    """suppression: required sub-tables that cannot be released whole are released with suppressed cells; or a list of
    sections with of, by, cost, max_share, merge and base, also for other sub-tables"""
    previous_pattern: Placed | None = None
    """an earlier edition, a published folder or file relative to the config: cells that it suppresses are suppressed
    again if their sub-table is suppressed; default none"""
    reveal_suppressed: bool = False
    """true: a sub-table may be released whole although an earlier publication suppressed cells of a table in it;
    default false"""
    demand: Annotated[dict[Text, Weight] | ExistingFile, AfterValidator(_demand)] = {}
    """how often each sub-table is requested, which is added to its weight: a CSV file with the columns sub_table and
    frequency, relative to the config file, or a section"""
    first_dimension: Annotated[NotNegative | None, Field(le=63)] = None
    """ordered and best try sub-tables of up to this many variables first; default 2, or 1 for more than 100000 at-risk
    cells or 20 variables; 1 is faster, and may release more sub-tables and fewer pairs"""
    max_evaluations: Positive | None = None
    """the largest number of releases that an ordered search evaluates; sub-tables left then are not released; default
    200, 2000 with first_dimension 1, or 400 for more than 20 variables"""
    minutes: Minutes | None = None
    """the time limit of the search in minutes, more than 0: it ends with what is proven by then; looking for recodes
    before it has half as many; default no limit"""
    ended_after: dict[Text, NotNegative] | None = None
    """without effect: configs of earlier versions have it; leave it out"""
    at_least: AtLeastConfig | None = None
    """a section with the least worth of the release: a release below it is not published; default no limit"""
    refute_cells: NotNegative = 16
    """the number of most exposed undecided cells for which a more expensive outer bound is computed"""
    seconds_per_cell: Seconds = 5.0
    """search for a cell's feasible tables, in seconds of a reference core, more than 0"""
    seconds: Seconds = 1200.0
    """search for all feasible tables, in seconds of a reference core, more than 0"""
    cells_per_slice: Positive = 2_000_000
    """the most cells that a search for feasible tables holds; larger tables are searched in slices"""
    annealing: AnnealingConfig = AnnealingConfig()
    """a section of settings"""
    simulatable: SimulatableConfig = SimulatableConfig()
    """a section of settings"""
    neighbourhood: NeighbourhoodConfig = NeighbourhoodConfig()
    """a section of settings"""
    weights: WeightsConfig = WeightsConfig()
    """a section with variables and sub_tables"""

    @property
    def coarsens(self) -> bool:
        """Whether sub-tables may go out with some categories merged."""
        return any("recoding" in section.ways for section in self.protect if isinstance(section, ProtectConfig))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to say of settings that this version reads and does not use."""
        if self.ended_after is None:
            return ()
        return (
            "release.ended_after has no effect any more, the search goes on until it is done or its minutes are over; "
            "leave it out",
        )

    @model_validator(mode="after")
    def _fits_together(self) -> ReleaseConfig:
        if self.objective != "sub_tables" and self.on_conflict == "drop":
            raise ValueError(
                f"objective is {self.objective}, and on_conflict is drop, which needs a weight of each sub-table; set "
                "on_conflict to refuse, or objective to sub_tables"
            )
        if self.objective != "sub_tables" and (self.demand or self.weights != WeightsConfig()):
            raise ValueError(
                f"objective is {self.objective}, by which no sub-table has a weight; leave weights and demand out, or "
                "set it to sub_tables"
            )
        if self.required_only and not self.require:
            raise ValueError(
                "required_only is true, and nothing is required; name sub-tables under require, or leave it out"
            )
        if self.previous_pattern is not None and not self.protect:
            raise ValueError("previous_pattern is given, and no sub-table is protected; give protect, or leave it out")
        if self.at_least is not None and self.at_least.requests_served is not None and not self.demand:
            raise ValueError(
                "at_least has requests_served, and no demand is known; give demand, or leave requests_served out"
            )
        if self.protect == "suppression" and not self.require:
            raise ValueError(
                "protect is suppression, and nothing is required; name sub-tables under require, or by of under protect"
            )
        return self
