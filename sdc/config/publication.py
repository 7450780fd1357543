"""The sections of a config about what readers and auditors are told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, field_validator

from sdc.config.values import Category, Day, FormatName, PlainText, Section, Text
from sdc.model.labels import Labels, VariableLabels

HOW_PUBLISHED = {"title", "published", "formulas", "formats", "children", "zeros", "totals", "signing_key"}
"""What of a publication's settings is not told to readers of each table as it is."""


class PublicationConfig(Section):
    title: Annotated[PlainText | None, Field(description="the title of what is published, default the name")] = None
    population: Annotated[
        PlainText | None, Field(description="whom or what is counted, such as residents aged 15+")
    ] = None
    period: Annotated[PlainText | None, Field(description="the reference period, such as 2024-03")] = None
    published: Annotated[
        Day | None, Field(description="the day of publication, such as 2024-05-01, which catalogues ask for")
    ] = None
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
        tuple[FormatName, ...],
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
