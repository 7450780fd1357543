"""The typed config of a build, its sections, and what every setting may be."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sdc.model.labels import NOT_PLAIN, Labels, VariableLabels
from sdc.model.schema import MAX_CATEGORIES, is_plain
from sdc.model.sharpness import SHARP_SECONDS
from sdc.model.table import MAX_TOTAL
from sdc.run_format import TOTAL
from sdc.search.capabilities import (
    BEFORE,
    CAPABILITIES,
    METHODS,
    SETTINGS_OF,
    refusal,
    refusals,
    require_together,
    unused,
)

EMBEDDED_CLUSTERS = ("in-process", "local")
FILES = {"path", "structural_zeros"}
"""Settings of the table that name a file: what is in it counts, not where it lies."""
SUFFIXES = (".parquet", ".csv", ".csv.gz")
"""Of parts; hidden names and those that begin with _ are none."""
OTHERS = ("*",)
"""The values of the group that has all that no other group has."""


def _cluster(value: str) -> str:
    if value not in EMBEDDED_CLUSTERS and not value.endswith((".yaml", ".yml")):
        raise ValueError("it is neither of these nor a path to a YAML file")
    return value


def size_in_bytes(value: str) -> int:
    """The bytes of a size such as 512MiB or 4GB; ValueError for what is none."""
    match = re.fullmatch(r"([0-9]{1,9})([KMGT]i?B)", value)
    if not match or not int(match[1]):
        raise ValueError("it is no size; write a whole number and a unit, such as 512MiB or 4GB")
    base, power = 1024 if "i" in match[2] else 1000, "KMGT".index(match[2][0]) + 1
    return int(match[1]) * int(base**power)


def _memory(value: str) -> str:
    if value != "auto":
        size_in_bytes(value)
    return value


def _readable(text: str) -> str:
    if not is_plain(text):
        raise ValueError(NOT_PLAIN)
    return text


def _here(path: str) -> str:
    if "://" in path:
        raise ValueError("it is a URL, and run folders are on this machine; copy release/ there afterwards")
    return path


def _not_empty(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("it is empty")
    return values


class Numeral(int):
    """An integer of a YAML file, which knows how it is written there: 01 and 0x1 are 1 too, and other categories."""

    written: str = ""

    @classmethod
    def of(cls, value: int, written: str) -> Numeral:
        """The integer as it is written."""
        numeral = cls(value)
        numeral.written = written
        return numeral


def _category(value: Any) -> Any:
    """An integer is the category of its decimal numeral; whatever else YAML makes of a name is no name."""
    if isinstance(value, bool):
        raise ValueError("YAML reads yes, no, on, off, true and false as truth values; write it in quotes")
    if not isinstance(value, int):
        return value
    if isinstance(value, Numeral) and value.written != str(int(value)):
        raise ValueError(f"{value.written} is {int(value)} to YAML; write it in quotes")
    return str(int(value))


Positive = Annotated[StrictInt, Field(ge=1, le=MAX_TOTAL)]
Seconds = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
NotNegative = Annotated[StrictInt, Field(ge=0, le=MAX_TOTAL)]
Temperature = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
CurveMethod: TypeAlias = Literal["ordered", "bisection", "decomposable", "best"]
Format: TypeAlias = Literal["csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx"]
SearchMethod: TypeAlias = Literal["ordered", "bisection", "decomposable", "best", "simulatable"]
Text = Annotated[StrictStr, Field(min_length=1)]
Category = Annotated[Text, BeforeValidator(_category)]
PlainText = Annotated[Text, AfterValidator(_readable)]
Share = Annotated[float, Field(ge=0, lt=1, strict=True, allow_inf_nan=False)]
Edge = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Memory = Annotated[Text, AfterValidator(_memory)]
Workers = Annotated[StrictInt, Field(ge=1, le=1024)]


Names = Annotated[tuple[Text, ...], Field(min_length=1)]


class Section(BaseModel):
    """A part of a file of settings: what it does not name is refused, and nothing changes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _bins(bins: dict[str, tuple[float | None, float | None]]) -> dict[str, tuple[float | None, float | None]]:
    """Bins that follow each other without gap or overlap, open only at the ends; ascending, in whatever order given."""
    for label, (start, below) in bins.items():
        if start is not None and below is not None and start >= below:
            raise ValueError(f"the bin {label!r} goes from {start:g} to below {below:g}, and holds nothing")
    # the order of the categories; a manifest, whose keys are sorted, gives them in another
    bins = dict(sorted(bins.items(), key=lambda one: (one[1][0] is not None, one[1][0] or 0.0)))
    labels, edges = list(bins), list(bins.values())
    for (one, other), ((_, below), (start, _)) in zip(pairwise(labels), pairwise(edges), strict=True):
        if below is None or start is None or below > start:
            raise ValueError(f"the bins {one!r} and {other!r} overlap")
        if below < start:
            raise ValueError(f"there is a gap between the bins {one!r} and {other!r}")
    return bins


def _groups(groups: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Groups of which none has a value of another, and one at most has all others."""
    first: dict[str, str] = {}
    for label, values in groups.items():
        for value in values:
            if value in first:
                raise ValueError(f"the value {value!r} is in {first[value]!r} and again in {label!r}")
            first[value] = label
    return groups


def _others(values: Any) -> Any:
    return OTHERS if values == "*" else values


Groups = Annotated[
    dict[Category, Annotated[tuple[Category, ...], BeforeValidator(_others)]],
    Field(min_length=1),
    AfterValidator(_groups),
]


class RecodeConfig(Section):
    """From the values of a column to fewer categories: bins, groups, or codes at the ends."""

    column: Annotated[Text | None, Field(description="the column, where it is not called as the variable")] = None
    bins: Annotated[
        Annotated[dict[Category, tuple[Edge | None, Edge | None]], Field(min_length=1), AfterValidator(_bins)] | None,
        Field(description="label: [from, below], null at the first or last end, in any order"),
    ] = None
    groups: Annotated[
        Groups | None,
        Field(
            description='label: [values]; "*" for all others in one group at most, beside which every value that is '
            "named must be there, so that none is misspelt"
        ),
    ] = None
    top: Annotated[StrictInt | None, Field(description="a whole number; it and more become one category")] = None
    bottom: Annotated[StrictInt | None, Field(description="a whole number below top; it and less become one")] = None

    @model_validator(mode="after")
    def _one_kind(self) -> RecodeConfig:
        ends = self.top is not None or self.bottom is not None
        if [self.bins is not None, self.groups is not None, ends].count(True) != 1:
            raise ValueError("give one of bins, groups, and top or bottom")
        if self.top is not None and self.bottom is not None and self.bottom >= self.top:
            raise ValueError(f"bottom {self.bottom} is not below top {self.top}")
        return self


def _encoding(name: str) -> str:
    try:
        ",;".encode(name)
        return codecs.lookup(name).name
    except (LookupError, UnicodeError) as error:
        raise ValueError("it is no encoding of text") from error


class CsvConfig(Section):
    """How text files are written."""

    delimiter: Annotated[
        Literal[",", ";", "|", "\t"], Field(description="what separates the columns, one of , ; | and a tab, in quotes")
    ] = ","
    encoding: Annotated[
        Text, AfterValidator(_encoding), Field(description="such as utf-8, latin-1, cp1252 or utf-16")
    ] = "utf-8"
    decimal: Annotated[
        Literal[".", ","], Field(description="the decimal sign of numbers, one of . and , in quotes")
    ] = "."

    @model_validator(mode="after")
    def _tells_apart(self) -> CsvConfig:
        if self.decimal == self.delimiter:
            raise ValueError(f"{self.decimal!r} separates the columns and is the decimal sign too; name the delimiter")
        return self


class ExpectConfig(Section):
    """What must be there of a delivery; one that is not whole is refused."""

    parts: Annotated[Positive | None, Field(description="the number of parts, at least 1; default any")] = None
    records: Annotated[
        tuple[NotNegative, Positive] | None,
        Field(description="a list of the least and the most records, those set aside among them; default any"),
    ] = None
    marker: Annotated[
        Text | None,
        Field(
            description="the name of a file that is written beside the parts when all are there, such as _SUCCESS; "
            "default none"
        ),
    ] = None

    @field_validator("records")
    @classmethod
    def _ascending(cls, records: tuple[int, int] | None) -> tuple[int, int] | None:
        if records is not None and records[0] > records[1]:
            raise ValueError(f"the least, {records[0]}, is more than the most, {records[1]}")
        return records

    @field_validator("marker")
    @classmethod
    def _beside(cls, marker: str | None) -> str | None:
        if marker is not None and ("/" in marker or marker in (".", "..")):
            raise ValueError("it is no name of a file; it is looked for beside the parts")
        if marker is not None and marker.lower().endswith(SUFFIXES) and not marker.startswith((".", "_")):
            raise ValueError("it would be a part itself; give it another suffix, or a name that begins with _")
        return marker

    @model_validator(mode="after")
    def _asks(self) -> ExpectConfig:
        if self == ExpectConfig.model_construct():
            raise ValueError("it expects nothing; give parts, records or marker")
        return self


class TableConfig(Section):
    path: Annotated[
        Text, Field(description="a file, folder or glob, relative to the config file, or a URL; --data overrides it")
    ]
    variables: Annotated[
        tuple[Text, ...] | None, Field(description="a list of the columns to use, in order; default all")
    ] = None
    columns: Annotated[
        dict[Text, Text], Field(description="the column of each variable that is not called as its column")
    ] = {}
    csv: Annotated[CsvConfig, Field(description="a section with delimiter, encoding and decimal, of text files")] = (
        CsvConfig()
    )
    categories: Annotated[
        dict[Text, tuple[Category, ...]],
        Field(description="a list of category names for each variable, in order; write no, yes and 01 in quotes"),
    ] = {}
    missing: Annotated[
        dict[Text, Category], Field(description="a category name for the missing values of each variable")
    ] = {}
    recodes: Annotated[
        dict[Text, RecodeConfig],
        Field(description="bins, groups, or top and bottom for each variable that is not used as it is stored"),
    ] = {}
    weight: Annotated[
        Text | None,
        Field(
            description="the column of a record's survey weight, a positive number; counts decide what goes out, and "
            "rounded totals of weights go with them, see weighted; default none"
        ),
    ] = None
    bad_records: Annotated[
        Literal["refuse", "set_aside"],
        Field(
            description="refuse a table with records that have a missing value without a category, a value outside the "
            "categories, or one that no bin or group covers; or set_aside: leave these records out and count them"
        ),
    ] = "refuse"
    expect: Annotated[
        ExpectConfig | None,
        Field(
            description="a section with parts, records and marker: a table that lacks any of these is refused before "
            "it is read, by its records as soon as they are known; default nothing"
        ),
    ] = None
    structural_zeros: Annotated[
        Text | None, Field(description="a YAML file of impossible patterns, relative to the config file; default none")
    ] = None
    hierarchies: Annotated[
        dict[Text, tuple[Text, ...]],
        Field(
            description="variables that are levels of one, a list from the coarsest to the finest under a name; in "
            "which coarser category each category is, is taken to be public; categories of theirs that no record has "
            "are left out"
        ),
    ] = {}
    max_categories: Annotated[
        StrictInt, Field(ge=2, le=MAX_CATEGORIES, description=f"an integer from 2 to {MAX_CATEGORIES}")
    ] = 256
    partitions: Annotated[
        Positive,
        Field(
            description="the number of Parquet parts written, at least 1; a worker that cannot hold the table finds "
            "critical widths with one of them at a time"
        ),
    ] = 1

    @field_validator("columns")
    @classmethod
    def _one_name(cls, columns: dict[str, str]) -> dict[str, str]:
        named = list(columns.values())
        if twice := next((column for column in named if named.count(column) > 1), None):
            raise ValueError(f"the column {twice!r} is there twice; one variable is of it, others by recodes")
        return columns

    @field_validator("recodes")
    @classmethod
    def _name_variables(cls, recodes: dict[str, RecodeConfig], info: ValidationInfo) -> dict[str, RecodeConfig]:
        variables = info.data.get("variables")
        for name in recodes:
            if variables is not None and name not in variables:
                raise ValueError(f"{name!r} is not among the variables; add it there or drop its recode")
            if name in info.data.get("categories", {}):
                raise ValueError(f"{name!r} has categories too; its recode gives them, drop one of the two")
            if recodes[name].column is not None and name in info.data.get("columns", {}):
                raise ValueError(f"{name!r} has a column under columns too; drop one of the two")
        return recodes


class PosteriorLimitConfig(Section):
    """How much of the at-risk cells' true counts a release may make likely; not monotone."""

    law: Annotated[
        Literal["released"],
        Field(description="released, the one law that is exact of every decomposable release"),
    ] = "released"
    threshold: Annotated[Share, Field(gt=0, description="of the probability of a true count, between 0 and 1")] = 0.5
    max_above: Annotated[
        Share | None,
        Field(
            description="the largest fraction of at-risk cells whose true count is more probable than the threshold, "
            "be another count more so or not, at least 0 and below 1; default any"
        ),
    ] = None
    max_probability: Annotated[
        Share | None,
        Field(gt=0, description="the largest probability of any one's true count, between 0 and 1; default any"),
    ] = None

    @model_validator(mode="after")
    def _limits(self) -> PosteriorLimitConfig:
        if self.max_above is None and self.max_probability is None:
            raise ValueError("it limits nothing; give max_above or max_probability")
        return self


class RiskConfig(Section):
    min_width: Annotated[
        Positive, Field(description="the smallest width allowed of the bounds of an at-risk cell, at least 1")
    ]
    small_count: Annotated[
        Positive, Field(description="cells of 1 up to this count are at risk, an integer of at least 1")
    ] = 2
    undecided: Annotated[
        Literal["refuse", "outer"],
        Field(description="refuse what is not proven safe, or outer: accept what no outer bound refutes"),
    ] = "refuse"
    posterior: Annotated[
        PosteriorLimitConfig | None,
        Field(description="a section with max_above or max_probability, for method decomposable; default no limit"),
    ] = None


class AnnealingConfig(Section):
    """Chains over decomposable graphs. A value that does not fit another one is the fault of the later one."""

    model_config = ConfigDict(validate_default=True)

    chains: Annotated[Positive, Field(le=1024, description="the number of chains, from 1 to 1024")] = 4
    steps: Annotated[Positive, Field(description="the proposals of each chain, at least 1")] = 200_000
    rounds: Annotated[
        Positive, Field(description="the parts of a chain, between which chains are compared and saved, at least 1")
    ] = 20
    patience: Annotated[
        NotNegative,
        Field(description="stop after so many rounds in which all chains had the same best value; 0: never"),
    ] = 8
    seed: Annotated[NotNegative, Field(description="the seed of all chains, at least 0")] = 0
    schedule: Annotated[
        Literal["geometric", "linear"], Field(description="how the temperature falls, geometric or linear")
    ] = "geometric"
    start_temperature: Annotated[
        Temperature, Field(gt=0, description="in units of utility, more than 0; what costs this much is often accepted")
    ] = 30.0
    end_temperature: Annotated[
        Temperature,
        Field(description="in units of utility, at most the start temperature; 0 is for the linear schedule only"),
    ] = 0.5
    cycles: Annotated[
        Positive, Field(description="how often the cooling is run through, at least 1 and at most the steps")
    ] = 1
    tempering: Annotated[
        StrictBool,
        Field(description="true or false: chains keep temperatures of their own and exchange; needs 2 chains or more"),
    ] = False
    start: Annotated[
        Text | None, Field(description="the graph to start from, by its cliques, as '[a,b] [b,c]'; default no edges")
    ] = None

    @field_validator("end_temperature")
    @classmethod
    def _cools(cls, value: float, info: ValidationInfo) -> float:
        start = info.data.get("start_temperature", value)
        if value > start:
            raise ValueError(f"it is above the start temperature {start}")
        if value == 0 and info.data.get("schedule") == "geometric":
            raise ValueError("geometric cooling never gets there; give more than 0, or the linear schedule")
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
            raise ValueError("there is 1 chain, and nothing to exchange with; give at least 2 chains")
        if value and info.data.get("end_temperature") == 0:
            raise ValueError("the end temperature is 0, at which nothing is exchanged; give more than 0")
        return value


class SimulatableConfig(Section):
    """Decisions from tables drawn given what is released already; the true table is asked in the end."""

    draws: Annotated[Positive, Field(le=100_000, description="tables drawn for each decision, at least 1")] = 100
    share: Annotated[
        Share,
        Field(
            description="a candidate is refused where more than this share of the draws would break the criterion with "
            "it, at least 0 and below 1"
        ),
    ] = 0.05
    seed: Annotated[NotNegative, Field(description="the seed of all draws, at least 0")] = 0


class WeightsConfig(Section):
    variables: Annotated[
        dict[Text, Weight],
        Field(
            description="a number more than 0 for each variable that does not count 1; a sub-table has their product"
        ),
    ] = {}
    sub_tables: Annotated[
        dict[Text, Weight],
        Field(description="a number more than 0 for sub-tables such as a*b that have a value of their own"),
    ] = {}


class PatternConfig(Section):
    """Sub-tables named by how many variables they have."""

    all: Annotated[Positive | None, Field(le=63, description="every sub-table of so many variables")] = None
    of: Annotated[Names | None, Field(description="a list of variables")] = None
    up_to: Annotated[Positive | None, Field(le=63, description="of these, every so many; default all at once")] = None

    @model_validator(mode="after")
    def _one_kind(self) -> PatternConfig:
        if (self.all is None) == (self.of is None):
            raise ValueError("give one of all, and of")
        if self.all is not None and self.up_to is not None:
            raise ValueError("up_to goes with of; give one of all and up_to")
        return self


PatternLike: TypeAlias = Text | PatternConfig


class ReleaseConfig(Section):
    method: Annotated[
        SearchMethod,
        Field(
            description="how the release is searched: ordered: grown along the list by critical width; bisection: the "
            "longest prefix of that list; decomposable: by annealing; best: the better of ordered and decomposable; or "
            "simulatable: by decisions that tell nothing of the table"
        ),
    ] = "ordered"
    require: Annotated[
        tuple[PatternLike, ...],
        Field(
            description="a list of sub-tables that the release must have: a*b, {all: 2} for every pair, or {of: [a, b, "
            "c], up_to: 2}"
        ),
    ] = ()
    forbid: Annotated[
        tuple[PatternLike, ...],
        Field(description="a list of sub-tables, as in require; none, and nothing that contains one, is released"),
    ] = ()
    conflicts: Annotated[
        Literal["refuse", "best_subset"],
        Field(
            description="where the required sub-tables do not fit together: refuse, or release the best_subset, "
            "that of the largest weight"
        ),
    ] = "refuse"
    demand: Annotated[
        dict[Text, Weight] | Text,
        Field(
            description="how often each sub-table is asked for, which is added to its weight: a CSV file with the "
            "columns sub_table and frequency, relative to the config file, or a section"
        ),
    ] = {}
    breadth: Annotated[
        NotNegative | None,
        Field(
            le=63,
            description="sub-tables of up to so many variables come before all others, in ordered and best; default 2, "
            "or 1 where more than 100000 cells are at risk; with 1 more sub-tables and fewer pairs may go out, sooner",
        ),
    ] = None
    questions: Annotated[
        Positive | None,
        Field(
            description="the most releases that an ordered search asks about, what is left then is not released; "
            "default 200, or 2000 with a breadth of 1"
        ),
    ] = None
    refute_cells: Annotated[
        NotNegative, Field(description="how many of the most exposed undecided cells get the dearer outer bound")
    ] = 16
    seconds_per_cell: Annotated[
        Seconds, Field(description="search for a cell's feasible tables, in seconds of a reference core, more than 0")
    ] = 5.0
    seconds: Annotated[
        Seconds, Field(description="search for all feasible tables, in seconds of a reference core, more than 0")
    ] = 1200.0
    cells_per_slice: Annotated[
        Positive,
        Field(
            description="the most cells that a search for feasible tables holds; larger tables are searched in slices"
        ),
    ] = 2_000_000
    annealing: Annotated[AnnealingConfig, Field(description="a section of settings")] = AnnealingConfig()
    simulatable: Annotated[SimulatableConfig, Field(description="a section of settings")] = SimulatableConfig()
    weights: Annotated[WeightsConfig, Field(description="a section with variables and sub_tables")] = WeightsConfig()


HOW_PUBLISHED = {"title", "formulas", "formats", "children", "zeros", "totals", "signing_key"}
"""What of a publication's settings is not told to readers as it is."""


class PublicationConfig(Section):
    title: Annotated[PlainText | None, Field(description="the title of what is published, default the name")] = None
    population: Annotated[
        PlainText | None, Field(description="whom or what is counted, such as residents aged 15+")
    ] = None
    period: Annotated[PlainText | None, Field(description="the reference period, such as 2024-03")] = None
    source: Annotated[PlainText | None, Field(description="where the data come from, as readers know it")] = None
    licence: Annotated[PlainText | None, Field(description="under which readers may use it, such as CC-BY-4.0")] = None
    contact: Annotated[PlainText | None, Field(description="whom readers may ask")] = None
    notes: Annotated[tuple[PlainText, ...], Field(description="a list of sentences that readers should know")] = ()
    formulas: Annotated[
        Literal["quote", "refuse"],
        Field(
            description="quote: an apostrophe before a category in CSV that a spreadsheet would run as a formula; or "
            "refuse to publish it"
        ),
    ] = "quote"
    formats: Annotated[
        tuple[Format, ...],
        Field(description="a list of csv, parquet, csvw, json-stat, px, sdmx-csv, xml, xlsx; csv or parquet is one"),
    ] = ("csv", "parquet")
    children: Annotated[
        tuple[Text, ...],
        Field(description="a list of sub-tables such as age*sex that the release implies, published beside it"),
    ] = ()
    zeros: Annotated[StrictBool, Field(description="true or false: combinations without records are listed too")] = (
        False
    )
    signing_key: Annotated[
        Text | None,
        Field(description="a file with an Ed25519 private key that signs the checksums, relative to the config"),
    ] = None
    totals: Annotated[
        StrictBool,
        Field(description="true or false: each variable has a category (total), so all marginals are listed"),
    ] = False

    @field_validator("formats")
    @classmethod
    def _readable_formats(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        if twice := next((name for name in formats if formats.count(name) > 1), None):
            raise ValueError(f"{twice} is there twice; name each format once")
        if not {"csv", "parquet"} & set(formats):
            raise ValueError("a release is verified from csv or parquet; name one of them too")
        if "csvw" in formats and "csv" not in formats:
            raise ValueError("csvw describes the CSV files; name csv too")
        return formats

    @property
    def told(self) -> dict[str, Any]:
        """What readers are told beside the title, for programs; without what is not given."""
        told = self.model_dump(mode="json", exclude=HOW_PUBLISHED)
        return {what: text for what, text in told.items() if text}

    @property
    def facts(self) -> dict[str, str]:
        """The same for people, without the notes, which nothing introduces."""
        called = {"population": "Population", "period": "Reference period", "source": "Source", "licence": "Licence"}
        called["contact"] = "Contact"
        return {name: self.told[what] for what, name in called.items() if what in self.told}


class VariableLabelsConfig(Section):
    """How a variable and its categories are called where people read them."""

    label: Annotated[PlainText | None, Field(description="what the variable is called, default its name")] = None
    note: Annotated[PlainText | None, Field(description="a sentence that readers should know")] = None
    unit: Annotated[PlainText | None, Field(description="what its categories are measured in, such as years")] = None
    categories: Annotated[dict[Category, PlainText], Field(description="a label for each category that has one")] = {}


class LabelsConfig(Section):
    """Labels of variables and categories; nothing depends on them but what people read."""

    variables: Annotated[
        dict[Text, VariableLabelsConfig], Field(description="a section with label, note, unit, categories for each")
    ] = {}
    code_list: Annotated[
        Text | None,
        Field(
            description="a CSV file with the columns variable, category, label, relative to the config; default none"
        ),
    ] = None

    @property
    def labels(self) -> Labels:
        """As they are used; those of a code list are among the variables once the config is read."""
        return Labels({name: VariableLabels(**dict(section)) for name, section in self.variables.items()})


class AuditConfig(Section):
    """What the first page of the report says of the build beside what it found."""

    purpose: Annotated[PlainText | None, Field(description="what the release is for")] = None
    prepared_by: Annotated[PlainText | None, Field(description="who answers for it")] = None
    date: Annotated[
        Text | None, Field(description="the date of the report, in quotes; default left to be filled in")
    ] = None


class CurveConfig(Section):
    """The risk-utility curve: the best release of each method for every width and small count."""

    min_width: Annotated[
        tuple[Positive, ...],
        AfterValidator(_not_empty),
        Field(description="a list of minimum widths, each at least 1"),
    ]
    small_count: Annotated[
        Annotated[tuple[Positive, ...], AfterValidator(_not_empty)] | None,
        Field(description="a list of small counts, each at least 1; default that of the build"),
    ] = None
    methods: Annotated[
        tuple[CurveMethod, ...],
        AfterValidator(_not_empty),
        Field(description="a list of ordered, bisection, decomposable and best"),
    ] = ("ordered", "decomposable")
    max_above: Annotated[
        tuple[Share, ...],
        Field(
            description="a list of fractions of at-risk cells whose true count may be above the threshold, each at "
            "least 0 and below 1: the decomposable release of the build's min_width under each, and under none; "
            "default none of these"
        ),
    ] = ()
    threshold: Annotated[Share, Field(gt=0, description="of the probability of a true count, between 0 and 1")] = 0.5


class WeightedConfig(Section):
    """Totals of survey weights, beside or instead of the counts that are published."""

    publish: Annotated[
        Literal["beside", "instead"],
        Field(
            description="beside the counts, or instead of them; the counts decide, and are taken to be known, in both"
        ),
    ] = "beside"
    round: Annotated[
        Annotated[StrictInt, Field(ge=1, le=10**9)],
        Field(
            description="totals are rounded to multiples of this whole number; the coarser, the more totals can go out"
        ),
    ] = 1000
    programs: Annotated[
        NotNegative,
        Field(description="most small linear programs that are solved for it; totals not judged by then are withheld"),
    ] = 200_000


class RemediesConfig(Section):
    """Recodes that are tried on what stopped the release."""

    variables: Annotated[
        Positive,
        Field(
            description="of how many variables, the most promising first, a merge of two categories and leaving the "
            "variable out are tried, at least 1"
        ),
    ] = 6


class PosteriorConfig(Section):
    """What an intruder may hold likely of the release, for the report."""

    laws: Annotated[
        tuple[Text, ...],
        AfterValidator(_not_empty),
        Field(description="a list of released, uniform, saturated, and models such as '[a,b][b,c]'"),
    ] = ("released",)
    alpha: Annotated[
        tuple[Weight, ...],
        AfterValidator(_not_empty),
        Field(description="a list of numbers more than 0, of the prior for each cell of the full table"),
    ] = (0.5,)
    threshold: Annotated[
        float,
        Field(
            ge=0,
            lt=1,
            strict=True,
            description="a cell is identified where its true count is its most probable one and more so than this, at "
            "least 0 and below 1",
        ),
    ] = 0.9
    share: Annotated[
        float,
        Field(
            gt=0.5,
            le=1,
            strict=True,
            description="the share of a released group in one cell that discloses the others' categories, above 0.5 up "
            "to 1, which is all",
        ),
    ] = 1.0
    draws: Annotated[
        Positive, Field(ge=20, description="the draws of each chain where there is no exact law, at least 20")
    ] = 1000
    chains: Annotated[
        Positive, Field(le=1024, description="the Markov chains where there is no exact law, from 1 to 1024")
    ] = 4
    seed: Annotated[NotNegative, Field(description="the seed of the chains, at least 0")] = 0
    refusals: Annotated[
        NotNegative,
        Field(
            le=100_000,
            description="where no more tables than this agree with the release, each is built again, for what an "
            "intruder learns who knows the settings; 0: never",
        ),
    ] = 0


class WidthsConfig(Section):
    floor: Annotated[
        NotNegative | None,
        Field(
            description="only sub-tables whose critical width reaches this; default all, above 20 variables those that "
            "reach the least min_width"
        ),
    ] = None


class ExecutionConfig(Section):
    cluster: Annotated[
        Text, AfterValidator(_cluster), Field(description="in-process, local, or the path of a cluster's YAML file")
    ] = "local"
    workers: Annotated[
        Workers, Field(description="the number of workers, from 1 to 1024; a cluster's YAML file has its own")
    ] = 2
    memory_per_worker: Annotated[
        Memory,
        Field(
            description="a size such as 4GiB, or auto: the machine's memory shared by the workers and this process; a "
            "cluster's YAML file has its own"
        ),
    ] = "auto"


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
    proxy_header: Annotated[
        Text | None,
        Field(description="a header in which a proxy on this machine names the user that it has authenticated"),
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


class RelatedVariableConfig(Section):
    """How a variable of an earlier publication is one of the table: by its name, and which categories are in each."""

    of: Annotated[Text | None, Field(description="the variable of the table, where it is not called the same")] = None
    groups: Annotated[
        Groups | None,
        Field(description='its category: [categories of the table]; "*" for all others in one at most'),
    ] = None


class RecordKeyConfig(Section):
    """What shows that records are others: a column that names them, in the table's file and in that of the others."""

    column: Annotated[Text, Field(description="the column of record identifiers, called so in both")]
    records: Annotated[
        Text, Field(description="the records that the publication is of: a file, a folder of parts, a glob or a URL")
    ]


class EarlierConfig(Section):
    """A publication that readers have already, and how its records relate to those of the table."""

    folder: Annotated[
        Text | None,
        Field(description="a published folder or file, relative to the config, as CSV, Parquet, JSON-stat or PX"),
    ] = None
    entry: Annotated[
        Positive | None, Field(description="the number of an entry of the ledger, instead of a folder")
    ] = None
    variables: Annotated[
        dict[Text, RelatedVariableConfig],
        Field(description="by name in the publication: of and groups, where name or categories differ"),
    ] = {}
    where: Annotated[
        dict[Text, Annotated[tuple[Category, ...], Field(min_length=1)]],
        Field(description="variable: [categories]; it is of the records that have these alone, default of all"),
    ] = {}
    disjoint: Annotated[
        StrictBool,
        Field(
            description="true or false: it is of other records, none of which is in the table; refused where its total "
            "or its margins are those of the table or of one category, unless a key shows it"
        ),
    ] = False
    key: Annotated[
        RecordKeyConfig | None,
        Field(description="a section with column and records, which shows that a disjoint publication is of others"),
    ] = None
    total: Annotated[
        Category, Field(description="the category that stands for all others of a variable, which is passed over")
    ] = TOTAL

    @model_validator(mode="after")
    def _one_subject(self) -> EarlierConfig:
        if (self.folder is None) == (self.entry is None):
            raise ValueError("give one of folder and entry")
        if self.disjoint and (self.where or self.variables):
            raise ValueError("disjoint is of other records; leave where and variables out")
        if self.key is not None and not self.disjoint:
            raise ValueError("key shows that records are others; say disjoint: true too, or leave it out")
        return self

    @property
    def label(self) -> str:
        """As messages name it."""
        return f"entry {self.entry}" if self.folder is None else self.folder

    @property
    def words(self) -> str:
        """What is said of its records and categories; nothing where it is of all records, as they are."""
        said = ["of other records, none of which is in this table"] if self.disjoint else []
        if self.key is not None:
            said.append(f"tested by the column {self.key.column}")
        if self.where:
            chosen = (f"{name} = {' or '.join(own)}" for name, own in self.where.items())
            said.append(f"of the records with {' and '.join(chosen)} alone")
        for name, told in self.variables.items():
            groups = "" if told.groups is None else f", grouped as {', '.join(told.groups)}"
            said.append(f"its {name} is {told.of or name}{groups}")
        return f"{Path(self.label).name}: {'; '.join(said)}" if said else ""


class OutputConfig(Section):
    folder: Annotated[
        Text,
        AfterValidator(_here),
        Field(description="where run folders go, on this machine, relative to the current directory"),
    ] = "runs"


class BuildConfig(Section):
    """One build. `name` is the folder of its runs; every section but `table` and `risk` has defaults."""

    name: Annotated[
        StrictStr,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
            description="letters, digits, dots, hyphens and underscores, at most 64, a letter or digit first",
        ),
    ]
    table: Annotated[TableConfig, Field(description="a section with a path at least")]
    risk: Annotated[RiskConfig, Field(description="a section with a min_width at least")]
    release: Annotated[ReleaseConfig, Field(description="a section of settings")] = ReleaseConfig()
    publication: Annotated[PublicationConfig, Field(description="a section of settings")] = PublicationConfig()
    labels: Annotated[LabelsConfig, Field(description="a section with variables or a code_list")] = LabelsConfig()
    report: Annotated[AuditConfig, Field(description="a section with purpose, prepared_by, date")] = AuditConfig()
    weighted: Annotated[
        WeightedConfig | None,
        Field(description="a section of settings; without it those of its defaults, where table.weight is given"),
    ] = None
    earlier: Annotated[
        tuple[EarlierConfig, ...],
        Field(
            description="a list of sections with a folder or an entry; what is published is judged together with all"
        ),
    ] = ()
    ledger: Annotated[
        Text | None,
        Field(description="a file that sdc ledger made, relative to the config; each publication is recorded there"),
    ] = None
    widths: Annotated[WidthsConfig, Field(description="a section of settings")] = WidthsConfig()
    assessment: Annotated[
        Literal["proven", "sharp"],
        Field(
            description="how far bounds of at-risk cells go once the release is found: proven, as a proof needs them, "
            "or sharp: outer and inner ends are brought together, on the workers; that may refute what was undecided"
        ),
    ] = "proven"
    sharp_seconds: Annotated[
        Seconds | None,
        Field(
            description="for sharp bounds of all at-risk cells, in seconds of a reference core, more than 0; cells "
            "that are not sharp then are bracketed; default 600"
        ),
    ] = None
    curve: Annotated[
        CurveConfig | None, Field(description="a section with min_width at least; default no risk-utility curve")
    ] = None
    remedies: Annotated[
        RemediesConfig | None, Field(description="a section of settings; default no recode is tried")
    ] = None
    posterior: Annotated[PosteriorConfig | None, Field(description="a section of settings; default no posterior")] = (
        None
    )
    execution: Annotated[ExecutionConfig, Field(description="a section of settings")] = ExecutionConfig()
    output: Annotated[OutputConfig, Field(description="a section of settings")] = OutputConfig()
    server: Annotated[ServerConfig | None, Field(description="a section of settings, of the table server")] = None

    @property
    def totals(self) -> WeightedConfig | None:
        """How totals of weights are published; None where records have none."""
        return None if self.table.weight is None else self.weighted or WeightedConfig()

    @property
    def seconds_to_sharpen(self) -> float | None:
        """What sharp bounds may take; None where none are asked for."""
        return (self.sharp_seconds or SHARP_SECONDS) if self.assessment == "sharp" else None

    @model_validator(mode="after")
    def _seconds_are_for_sharp_bounds(self) -> BuildConfig:
        if self.sharp_seconds is not None and self.assessment != "sharp":
            raise ValueError("sharp_seconds is given, and assessment is not sharp; set it to sharp, or leave it out")
        return self

    @model_validator(mode="after")
    def _weights_are_named(self) -> BuildConfig:
        if self.weighted is not None and self.table.weight is None:
            raise ValueError("weighted is given, and table.weight names no column; name it, or leave the section out")
        return self

    @model_validator(mode="after")
    def _entries_have_a_ledger(self) -> BuildConfig:
        if named := [str(one.entry) for one in self.earlier if one.entry is not None and self.ledger is None]:
            raise ValueError(f"earlier has entry {named[0]}, and no ledger is named; name the ledger")
        return self

    @model_validator(mode="after")
    def _works_together(self) -> BuildConfig:
        if said := "; ".join(refusals(self.asked)):
            raise ValueError(said)
        return self

    @model_validator(mode="after")
    def _settings_are_of_a_search(self) -> BuildConfig:
        default = dict(ReleaseConfig())
        given = [name for name, value in self.release if name in SETTINGS_OF and value != default[name]]
        if said := unused(self.release.method, given, () if self.curve is None else self.curve.methods):
            raise ValueError(said)
        return self

    @model_validator(mode="after")
    def _curves_know_what_was_published(self) -> BuildConfig:
        if self.curve is None:
            return self
        methods = (*self.curve.methods, *(["decomposable"] if self.curve.max_above else []))
        before = [name for name in BEFORE if getattr(self, name)]
        if said := [why for method in methods for name in before if (why := refusal(method, name)) is not None]:
            raise ValueError(f"curve: {'; '.join(dict.fromkeys(said))}")
        return self

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of all capabilities that it asks for, see `search.capabilities`."""
        return tuple(one.name for one in CAPABILITIES.values() if any(one.is_asked(self._at(key)) for key in one.keys))

    def require(self, *asked: str) -> None:
        """ConfigError where a verb, or a method instead of its own, does not work with all that it asks for."""
        replaced = METHODS if set(METHODS) & set(asked) else ()
        require_together(*asked, *(name for name in self.asked if name not in (*replaced, *asked)))

    def _at(self, key: str) -> Any:
        """The value at a key, None where a section on the way is not there."""
        value: Any = self
        for name in key.split("."):
            value = getattr(value, name, None)
        return value


def section_digest(config: BuildConfig, *sections: str) -> str:
    """SHA-256 over the canonical JSON of the named sections (or `name`), the same wherever the config lies.

    `FILES` are left out: the data are named by their content, see `sdc.ingest.source.Source.digest`.
    """
    if unknown := set(sections) - set(BuildConfig.model_fields):
        raise ValueError(f"no section {sorted(unknown)}; a config has {', '.join(BuildConfig.model_fields)}")
    # of the validated config, with all defaults: what is written out and what is left to its default are the same build
    content = config.model_dump(mode="json", include=set(sections), exclude={"table": FILES, "ledger": True})
    if "publication" in content:  # which key it is, the stage that signs knows
        content["publication"]["signing_key"] = content["publication"]["signing_key"] is not None
    for one in content.get("earlier", ()):
        one["folder"] = None  # by what is in it, see `build.earlier`
        if one["key"] is not None:
            one["key"]["records"] = None
    for recode in content.get("table", {}).get("recodes", {}).values():
        # of groups the order is that of the categories, and counts
        recode["groups"] = recode["groups"] and list(recode["groups"].items())
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
