"""The sections of a config about the table: where it is, how it is written, its categories and recodes."""

from __future__ import annotations

import codecs
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, ValidationInfo, field_validator, model_validator

from sdc.config.values import Category, Edge, ExistingFile, Groups, NotNegative, Placed, Positive, Section, Text
from sdc.model.alike import Alike
from sdc.model.errors import InputError
from sdc.model.schema import MAX_CATEGORIES
from sdc.model.table import CELLS_PER_PARTITION, partitions_of

FILES = {"path", "structural_zeros"}
"""Settings of the table that name a file: what is in it counts, not where it lies."""
FOR_MISSING = ("path", "missing_counts", "expect", "ignore", "partitions", "structural_zeros", "weight", "hierarchies")
"""Settings beside missing_counts; the last three are refused as capabilities."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
TEXTS, EXCEL = (".csv", ".tsv", ".txt"), ".xlsx"
STATISTICAL = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
"""Files of SPSS, Stata and SAS, whose numbers are floats, whole ones too."""
KINDS = (".parquet", *TEXTS, *STATISTICAL, EXCEL)
SUFFIXES = (*KINDS, *(kind + packed for kind in TEXTS for packed in COMPRESSIONS))
"""Of parts."""


def _bins(bins: dict[str, tuple[float | None, float | None]]) -> dict[str, tuple[float | None, float | None]]:
    """Bins that follow each other without gap or overlap, open only at the ends; ascending, in whatever order given."""
    for label, (start, below) in bins.items():
        if start is not None and below is not None and start >= below:
            raise ValueError(
                f"the bin {label!r} goes from {start:g} to below {below:g} and contains no value; correct its ends"
            )
    # the order of the categories; a manifest, whose keys are sorted, gives them in another
    bins = dict(sorted(bins.items(), key=lambda one: (one[1][0] is not None, one[1][0] or 0.0)))
    labels, edges = list(bins), list(bins.values())
    for (one, other), ((_, below), (start, _)) in zip(pairwise(labels), pairwise(edges), strict=True):
        if below is None or start is None or below > start:
            raise ValueError(f"the bins {one!r} and {other!r} overlap; correct their ends")
        if below < start:
            raise ValueError(f"there is a gap between the bins {one!r} and {other!r}; close it, or add a bin")
    return bins


class RecodeConfig(Section):
    """From the values of a column to fewer categories: bins, groups, or codes at the ends."""

    column: Text | None = None
    """the column, where it is not called as the variable"""
    bins: (
        Annotated[dict[Category, tuple[Edge | None, Edge | None]], Field(min_length=1), AfterValidator(_bins)] | None
    ) = None
    """label: [from, below], null at the first or last end, in any order"""
    groups: Groups | None = None
    """label: [values]; "*" for all others in one group at most, beside which every value that is named must be there,
    so that none is misspelt"""
    top: StrictInt | None = None
    """a whole number; it and more become one category"""
    bottom: StrictInt | None = None
    """a whole number below top; it and less become one"""

    @model_validator(mode="after")
    def _one_kind(self) -> RecodeConfig:
        ends = self.top is not None or self.bottom is not None
        if [self.bins is not None, self.groups is not None, ends].count(True) != 1:
            raise ValueError("give only one of bins, groups, and top or bottom")
        if self.top is not None and self.bottom is not None and self.bottom >= self.top:
            raise ValueError(f"bottom {self.bottom} is not below top {self.top}")
        return self


def _encoding(name: str) -> str:
    try:
        ",;".encode(name)
        return codecs.lookup(name).name
    except (LookupError, UnicodeError) as error:
        raise ValueError("it is not an encoding of text") from error


class CsvConfig(Section):
    """How text files are written."""

    delimiter: Literal[",", ";", "|", "\t"] = ","
    """the separator of the columns, one of , ; | and a tab, in quotes; default of .tsv a tab"""
    encoding: Annotated[Text, AfterValidator(_encoding)] = "utf-8"
    """such as utf-8, latin-1, cp1252 or utf-16; of SPSS, Stata and SAS instead of the file's own"""
    decimal: Literal[".", ","] = "."
    """the decimal sign of numbers in bins, top, bottom, weights and counts, one of . and , in quotes; categories stay
    as they are written"""
    quote: Literal['"', "none"] = '"'
    """the quotation mark around values, or none: quotation marks are part of the values"""

    missing: tuple[Text, ...] | dict[Text, tuple[Text, ...]] = ()
    """a list of texts that stand for missing values, such as NA, in any source; or such a list for each column"""
    sheet: Text | None = None
    """the sheet of an Excel file; default the only one that has cells"""

    def missing_of(self, column: str) -> frozenset[str]:
        """The texts that stand for missing values of a column."""
        return frozenset(self.missing.get(column, ()) if isinstance(self.missing, dict) else self.missing)

    def delimiter_of(self, suffix: str) -> str:
        """That of a file whose name ends so."""
        return "\t" if suffix.startswith(".tsv") and self.delimiter == "," else self.delimiter

    def require_used(self, suffix: str, path: str) -> None:
        """InputError for settings that files whose names end so have no use for."""
        is_text = suffix.startswith(TEXTS)
        used = {"delimiter": is_text, "encoding": is_text or suffix in STATISTICAL, "quote": is_text}
        for key, is_used in {**used, "sheet": suffix == EXCEL}.items():
            if not is_used and (given := getattr(self, key)) != CsvConfig.model_fields[key].default:
                kind = "Excel" if key == "sheet" else "text"
                raise InputError(f"table.csv.{key} = {given!r} is of {kind} files, and {path} is none; take it out")

    @model_validator(mode="after")
    def _distinguishes(self) -> CsvConfig:
        if self.decimal == self.delimiter:
            raise ValueError(f"{self.decimal!r} separates the columns and is the decimal sign too; name the delimiter")
        return self


class ExpectConfig(Section):
    """What must be there of a delivery; one that is not whole is refused."""

    parts: Positive | None = None
    """the number of parts, at least 1; default any"""
    records: tuple[NotNegative, Positive] | None = None
    """a list of the least and the largest number of records, excluded ones included; default any"""
    marker: Text | None = None
    """the name of a file that is written beside the parts when they are complete, such as _SUCCESS; default none"""

    @field_validator("records")
    @classmethod
    def _ascending(cls, records: tuple[int, int] | None) -> tuple[int, int] | None:
        if records is not None and records[0] > records[1]:
            raise ValueError(f"the least number, {records[0]}, is above the largest, {records[1]}; swap them")
        return records

    @field_validator("marker")
    @classmethod
    def _beside(cls, marker: str | None) -> str | None:
        if marker is not None and ("/" in marker or marker in (".", "..")):
            raise ValueError("it is not a name of a file; it is looked for beside the parts")
        if marker is not None and marker.lower().endswith(SUFFIXES) and not marker.startswith((".", "_")):
            raise ValueError("it would be a part itself; give it another suffix, or a name that begins with _")
        return marker

    @model_validator(mode="after")
    def _asks(self) -> ExpectConfig:
        if self == ExpectConfig.model_construct():
            raise ValueError("it is empty; give parts, records or marker")
        return self


class TableConfig(Section):
    place = "table"
    newer = frozenset({"missing_counts"})

    path: Placed
    """a file, folder or glob, relative to the config file, or a URL; --data overrides it"""
    variables: tuple[Text, ...] | None = None
    """a list of the columns to use, in order; default all"""
    columns: dict[Text, Text | None] = {}
    """the column of each variable with another name than its column; count: the column of counts, or null if each row
    is a record"""
    csv: CsvConfig = CsvConfig()
    """a section with delimiter, encoding, decimal, quote, missing and sheet"""
    categories: dict[Text, tuple[Category, ...]] = {}
    """a list of category names for each variable, in order; write no, yes and 01 in quotes"""
    missing: dict[Text, Category] | Category = {}
    """a category name for the missing values of each variable, or one for those of all"""
    exclude_missing: StrictBool | tuple[Text, ...] = False
    """a list of variables: records with a missing value of one are left out and counted, whatever invalid_records says;
    or true for all without a category under missing"""
    recodes: dict[Text, RecodeConfig] = {}
    """bins, groups, or top and bottom for each variable that is not used as it is stored"""
    not_totals: dict[Text, tuple[Category, ...]] = {}
    """a list of categories for each variable that are not totals, though they are called so or their counts are the sum
    of the others; without it rows of totals are refused"""
    missing_counts: StrictBool = False
    """true: the path is a file of counted cells and totals with missing counts or ranges, as sdc check reads it;
    decisions hold whatever these counts are"""
    weight: Text | None = None
    """the column of a record's survey weight, a positive number; counts decide what goes out, and rounded totals of
    weights go with them, see weighted; default none"""
    ignore: tuple[Text, ...] = ()
    """a list of patterns, such as readme*, of files in a folder or glob to skip; names that begin with a dot, or with _
    and another suffix than the parts, are skipped too; any other file is refused"""
    alike: Alike = "refuse"
    """names that differ only in blanks at their ends, capitals, composed accents, marks without width or the writing of
    numbers: refuse them, keep them apart, or merge them"""
    invalid_records: Literal["refuse", "exclude"] = "refuse"
    """refuse a table with records that have a missing value without a category, a value outside the categories, or one
    that no bin or group covers; or exclude: leave these records out and count them"""
    expect: ExpectConfig | None = None
    """a section with parts, records and marker: a table that lacks any of these is refused before it is read, by its
    records as soon as they are known; default nothing"""
    structural_zeros: ExistingFile | None = None
    """a YAML file of impossible patterns, relative to the config file; default none"""
    hierarchies: dict[Text, tuple[Text, ...]] = {}
    """variables that are levels of one, a list from the coarsest to the finest under a name; in which coarser category
    each category is, is taken to be public; categories of theirs that no record has are left out"""
    max_categories: Annotated[
        StrictInt, Field(ge=2, le=MAX_CATEGORIES, description=f"an integer from 2 to {MAX_CATEGORIES}")
    ] = 256
    partitions: Annotated[
        Positive | None,
        Field(
            description="the number of Parquet parts written, at least 1; a worker that cannot hold the table finds "
            f"critical widths with one of them at a time; default one for each {CELLS_PER_PARTITION:,} non-zero cells"
        ),
    ] = None

    @model_validator(mode="after")
    def _reads_missing_counts_alone(self) -> TableConfig:
        own = type(self).model_fields
        others = [key for key in own if key not in FOR_MISSING and getattr(self, key) != own[key].default]
        if self.missing_counts and others:
            raise ValueError(
                f"missing_counts is true, and the file is then read as it is, without {', '.join(others)}; drop one"
            )
        return self

    def partitions_of(self, cells: int) -> int:
        """How many Parquet parts a table with so many non-zero cells is written in."""
        return self.partitions or partitions_of(cells)

    def missing_of(self, variable: str) -> str | None:
        """The category of missing values of a variable, None where they have none."""
        given = self.missing if isinstance(self.missing, dict) else {variable: self.missing}
        return None if self.excludes_missing(variable) else given.get(variable)

    def excludes_missing(self, variable: str) -> bool:
        """Whether records with a missing value of a variable are left out."""
        if isinstance(self.exclude_missing, tuple):
            return variable in self.exclude_missing
        return self.exclude_missing and variable not in self.missing

    @property
    def code_lists(self) -> dict[str, tuple[str, ...]]:
        """Of variables the categories that the config names, whether or not they have records.

        Of the variables of a hierarchy none: their categories without records are left out.
        """
        recoded = {name: tuple(recode.bins or recode.groups or ()) for name, recode in self.recodes.items()}
        levels = {name for named in self.hierarchies.values() for name in named}
        return {name: own for name, own in {**self.categories, **recoded}.items() if own and name not in levels}

    @field_validator("exclude_missing")
    @classmethod
    def _excluded_or_kept(cls, value: bool | tuple[str, ...], info: ValidationInfo) -> bool | tuple[str, ...]:
        kept = info.data.get("missing", {})
        if value is True and isinstance(kept, str):
            raise ValueError(
                f"missing values of all variables have the category {kept!r} too; drop one of the two settings"
            )
        if isinstance(value, tuple) and isinstance(kept, dict) and (both := [name for name in value if name in kept]):
            raise ValueError(f"missing values of {both[0]!r} are to have the category {kept[both[0]]!r} too; drop one")
        return value

    @field_validator("columns")
    @classmethod
    def _one_name(cls, columns: dict[str, str | None]) -> dict[str, str | None]:
        named = [column for name, column in columns.items() if column is not None or name != "count"]
        if None in named:
            raise ValueError("only count may be null, which states that no column counts records; name a column")
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
