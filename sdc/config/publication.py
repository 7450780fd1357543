"""The sections of a config about what is stated to readers and auditors."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import StrictBool, field_validator

from sdc.config.features import FormatName
from sdc.config.values import Category, Day, ExistingFile, PlainText, Section, Text
from sdc.model.errors import ConfigError
from sdc.model.labels import Labels, VariableLabels

HOW_PUBLISHED = {"title", "published", "formulas", "formats", "children", "zeros", "totals", "signing_key"}
"""Settings of a publication that are not stated beside each table as they are."""


class PublicationConfig(Section):
    title: PlainText | None = None
    """the title of what is published, default the name"""
    population: PlainText | None = None
    """whom or what is counted, such as residents aged 15+"""
    period: PlainText | None = None
    """the reference period, such as 2024-03"""
    published: Day | None = None
    """the day of publication, such as 2024-05-01, which catalogues ask for"""
    source: PlainText | None = None
    """where the data come from, as readers know it"""
    licence: PlainText | None = None
    """the licence for readers, such as CC-BY-4.0"""
    contact: PlainText | None = None
    """the contact for readers, such as an address"""
    notes: tuple[PlainText, ...] = ()
    """a list of sentences that readers should know"""
    formulas: Literal["quote", "refuse"] = "quote"
    """quote: an apostrophe before a category in CSV that a spreadsheet would run as a formula; or refuse to publish
    it"""
    formats: tuple[FormatName, ...] = ("csv", "parquet")
    """a list of csv, parquet, csvw, json-stat, px, sdmx-csv, xml, xlsx, pxapi; csv or parquet is one"""
    children: tuple[Text, ...] = ()
    """a list of sub-tables such as age*sex that the release implies, published beside it"""
    zeros: StrictBool = False
    """true or false: combinations without records are listed too"""
    signing_key: ExistingFile | None = None
    """a file with an Ed25519 private key that signs the checksums, relative to the config"""
    totals: StrictBool = False
    """true or false: each variable has a category (total), so all marginals are listed"""

    @field_validator("formats")
    @classmethod
    def _readable_formats(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        if twice := next((name for name in formats if formats.count(name) > 1), None):
            raise ValueError(f"{twice} is listed twice; list each format once")
        if not {"csv", "parquet"} & set(formats):
            raise ValueError("a release is verified from csv or parquet; name one of them too")
        if "csvw" in formats and "csv" not in formats:
            raise ValueError("csvw describes the CSV files; name csv too")
        return formats

    @property
    def given(self) -> dict[str, Any]:
        """What is stated beside the title, for programs; without what is not given."""
        stated = self.model_dump(mode="json", exclude=HOW_PUBLISHED)
        return {what: text for what, text in stated.items() if text}

    @property
    def facts(self) -> dict[str, str]:
        """The same for people, without the notes, which nothing introduces."""
        called = {"population": "Population", "period": "Reference period", "source": "Source", "licence": "Licence"}
        called["contact"] = "Contact"
        return {name: self.given[what] for what, name in called.items() if what in self.given}


class VariableLabelsConfig(Section):
    """How a variable and its categories are called where people read them."""

    label: PlainText | None = None
    """what the variable is called, default its name"""
    note: PlainText | None = None
    """a sentence that readers should know"""
    unit: PlainText | None = None
    """what its categories are measured in, such as years"""
    categories: dict[Category, PlainText] = {}
    """a label for each category that has one"""


class LabelsConfig(Section):
    """Labels of variables and categories; nothing depends on them but what people read."""

    variables: dict[Text, VariableLabelsConfig] = {}
    """a section with label, note, unit, categories for each"""
    code_list: ExistingFile | None = None
    """a CSV file with the columns variable, category, label, relative to the config; default none"""

    @property
    def labels(self) -> Labels:
        """As they are used; those of a code list are among the variables once the config is read."""
        return Labels({name: VariableLabels(**dict(section)) for name, section in self.variables.items()})


class AuditConfig(Section):
    """What the first page of the report says of the build beside what it found."""

    purpose: PlainText | None = None
    """what the release is for"""
    prepared_by: PlainText | None = None
    """who is responsible for it"""
    date: Text | None = None
    """the date of the report, in quotes; default left to be filled in"""


# Code lists

_COLUMNS = ("variable", "category", "label")
"""Of a CSV file with labels of variables and categories."""


def with_code_list(labels: LabelsConfig, path: Path) -> LabelsConfig:
    """The labels with those of the file, which is no longer named: what is in it counts, and not where it lies.

    ConfigError where the file is not a code list, or labels what has a label already.
    """
    content = labels.model_dump(exclude={"code_list"})
    for line, (variable, category, label) in _rows(path):
        section = content["variables"].setdefault(variable, {})
        place, key = (section.setdefault("categories", {}), category) if category else (section, "label")
        if place.get(key) is not None:
            what = f"category {category!r} of variable {variable!r}" if category else f"variable {variable!r}"
            raise ConfigError(f"code list {path}, line {line}: {what} has the label {place[key]!r} already; drop one")
        place[key] = label
    return LabelsConfig.model_validate(content)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            if tuple(header := next(lines, [])) != _COLUMNS:
                raise ConfigError(f"code list {path} has the columns {header}; give it {', '.join(_COLUMNS)}")
            for row in filter(None, lines):
                if len(row) != len(_COLUMNS) or not row[0] or not row[2]:
                    raise ConfigError(
                        f"code list {path}, line {lines.line_num} is {row}; give a variable, a category or nothing for "
                        "the variable itself, and a label"
                    )
                yield lines.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"code list {path} cannot be read: {error}; give a CSV file in UTF-8") from error
