"""The published folder: the frontier sub-tables, a data dictionary and metadata, and nothing they do not imply."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sdc.config import PublicationConfig
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError, RunFolderError
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.publish.gate import Cleared, Subject
from sdc.run_format import (
    COUNT,
    DICTIONARY,
    GUIDE,
    METADATA,
    SHA256,
    SUB_TABLE,
    WEIGHTED_TOTAL,
    in_csv,
    is_formula,
)
from sdc.storage.parquet import read_columns, table_columns, write_columns, write_csv
from sdc.storage.run_folder import read_json, write_json

OF_DICTIONARY = ("variable", "place", "category", "label", "variable_label", "unit", "note")


@dataclass(frozen=True)
class Texts:
    """What the files say for people beside the counts; none of it is of the records."""

    about: PublicationConfig
    labels: Labels
    totals: Literal["beside", "instead"] = "beside"

    def of(self, names: Iterable[str]) -> Texts:
        """Those of these variables."""
        own = {name: self.labels.variables[name] for name in names if name in self.labels.variables}
        return replace(self, labels=Labels(own))

    @property
    def told(self) -> dict[str, Any]:
        """All of it for programs but the title; without what is not given."""
        labels = {name: own.told for name, own in self.labels.variables.items()}
        return ({"about": self.about.told} if self.about.told else {}) | ({"labels": labels} if labels else {})


NO_TEXTS = Texts(PublicationConfig(), Labels())


def write_publication(cleared: Cleared, subject: Subject, name: str, folder: Path, *, texts: Texts = NO_TEXTS) -> None:
    """Each frontier sub-table as CSV and Parquet, the data dictionary, and metadata as a data package.

    ReleaseError where what was cleared is not the subject, another table, criterion or policy; or where a category or a
    label that a spreadsheet would run is to be refused.
    """
    cleared.require(subject)
    if texts.about.formulas == "refuse":
        _refuse_formulas(cleared, texts.labels)
    for element, file in _files(cleared, texts.totals):
        columns = _columns_of(cleared, element, texts.totals)
        write_csv(folder / f"{file}.csv", _inert(columns))
        write_columns(folder / f"{file}.parquet", columns)
    write_csv(folder / DICTIONARY, _dictionary(cleared, texts.labels))
    (folder / GUIDE).write_text(_guide(cleared, name, texts), encoding="utf-8")
    write_json(folder / METADATA, _metadata(cleared, name, texts, folder))


def check_publication(cleared: Cleared, folder: Path, name: str, texts: Texts = NO_TEXTS) -> None:
    """Reads the files back: they make public what was cleared, with these texts, no more and no less.

    RunFolderError where a file is missing, was changed, is not the exact marginal, or is of another sub-table.
    """
    metadata = read_json(folder / METADATA)
    if metadata["records"] != cleared.total:
        raise RunFolderError(f"{folder / METADATA} says {metadata['records']} records, the table has {cleared.total}")
    # from what the folder says of itself, as whoever receives it would read it
    tables = [resource for resource in metadata["resources"] if SUB_TABLE in resource]
    published = [_checked(cleared, folder, resource, texts.totals) for resource in tables]
    listed = {METADATA, DICTIONARY, GUIDE, *(resource["path"] for resource in tables)}
    if unlisted := sorted({path.name for path in folder.iterdir()} - listed):
        raise RunFolderError(f"{folder / unlisted[0]} is no table that {METADATA} lists; nothing is released")
    wanted = Release.of(element for element, _ in _files(cleared, texts.totals)).frontier
    if lacking := [element for element in wanted if element and element not in Release.of(published)]:
        label = st.label(lacking[0], cleared.schema)
        raise RunFolderError(f"{folder} lacks {label}, which was cleared; nothing is released")
    _check_texts(cleared, folder, name, texts)


def _check_texts(cleared: Cleared, folder: Path, name: str, texts: Texts) -> None:
    """What is no table says what it was given to say."""
    try:
        guide, dictionary = (folder / GUIDE).read_text(encoding="utf-8"), _rows(folder / DICTIONARY)
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{folder} cannot be read: {error}; nothing is released, run again") from error
    columns = _dictionary(cleared, texts.labels)
    rows = [list(columns), *(list(map(str, row)) for row in zip(*columns.values(), strict=True))]
    expected = {
        GUIDE: guide == _guide(cleared, name, texts),
        DICTIONARY: dictionary == rows,
        METADATA: read_json(folder / METADATA) == _metadata(cleared, name, texts, folder),
    }
    if wrong := [file for file, is_right in expected.items() if not is_right]:
        raise RunFolderError(f"{folder / wrong[0]} is not what it was to say; nothing is released, run again")


def _checked(cleared: Cleared, folder: Path, resource: dict[str, Any], totals: str) -> SubTable:
    path = folder / resource["path"]
    names, unknown = resource[SUB_TABLE], set(resource[SUB_TABLE]) - set(cleared.schema.names)
    element = st.of(cleared.schema.index(name) for name in names if name not in unknown)
    if unknown or element not in [cleared_one for cleared_one, _ in _files(cleared, totals)]:
        raise RunFolderError(f"{path} is of {'*'.join(names)}, which was not cleared; nothing is released")
    try:
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RunFolderError(f"published file {path} is missing; nothing is released, run again") from error
    # made again from the marginal that was cleared, value by value: the hash only says that a file is as it was written
    columns = _columns_of(cleared, element, totals)
    expected = {key: list(column) for key, column in (_inert(columns) if path.suffix == ".csv" else columns).items()}
    if sha != resource["hash"].removeprefix(SHA256) or _columns(path) != expected:
        raise RunFolderError(f"published file {path} is not the exact marginal of the table; nothing is released")
    return element


def _columns(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".parquet":
        return {key: list(column) for key, column in read_columns(path)[0].items()}
    header, *rows = _rows(path)
    # a CSV file has no types: names stay text, as they were written
    columns: dict[str, list[Any]] = {key: [row[i] for row in rows] for i, key in enumerate(header)}
    numbers = [key for key in (COUNT, WEIGHTED_TOTAL) if key in columns]
    return {**columns, **{key: [int(value) for value in columns[key]] for key in numbers}}


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _inert(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns as CSV has them; Parquet and JSON, which no spreadsheet runs, have them as they are."""
    return {
        key: [in_csv(value) if isinstance(value, str) else value for value in column] for key, column in columns.items()
    }


def _refuse_formulas(cleared: Cleared, labels: Labels) -> None:
    advice = "or set publication.formulas to quote; nothing is published"
    for variable in cleared.schema.variables:
        if found := [category for category in variable.categories if is_formula(category)]:
            raise ReleaseError(
                f"{len(found)} categories of {variable.name!r} would be run as formulas by a spreadsheet; recode them, "
                f"{advice}",
                f"categories {found}",
            )
        if text := next(filter(is_formula, labels.of(variable.name).texts), None):
            raise ReleaseError(f"{text!r}, of {variable.name!r}, would be run by a spreadsheet; reword it, {advice}")


def _columns_of(cleared: Cleared, element: SubTable, totals: str) -> dict[str, Any]:
    """The columns of a published sub-table: its variables, and the counts, the weighted totals, or both."""
    columns: dict[str, Any] = dict(table_columns(cleared.marginal(element)))
    if cleared.weighted is not None and WEIGHTED_TOTAL in columns:
        raise ReleaseError(
            f"a variable is called {WEIGHTED_TOTAL!r}, which is the column of totals of weights; rename it"
        )
    if cleared.weighted is not None and element in cleared.weighted.of:
        columns[WEIGHTED_TOTAL] = cleared.weighted.of[element]
        if totals == "instead":
            del columns[COUNT]
    return columns


def _files(cleared: Cleared, totals: str) -> list[tuple[SubTable, str]]:
    """The published sub-tables and what their files are called, without suffix; the grand total is in the metadata."""
    weighted = () if cleared.weighted is None else tuple(cleared.weighted.of)
    shown = () if totals == "instead" and cleared.weighted is not None else cleared.release.frontier
    elements = [*shown, *(element for element in weighted if element not in shown)]
    numbered = enumerate(elements, start=1)
    return [(element, _file_name(number, element, cleared.schema)) for number, element in numbered if element]


def _file_name(number: int, element: SubTable, schema: Schema) -> str:
    # the number tells files apart whose names come to the same words
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(st.names(element, schema))).strip("-")
    return f"{number:03}_{words[:80]}"


def _dictionary(cleared: Cleared, labels: Labels) -> dict[str, list[Any]]:
    """A row for each category, in order, of the variables that are published."""
    # a variable that is not published is not named either: even its categories would tell something
    variables = (
        cleared.schema.restrict(st.members(cleared.release.variables)).variables if cleared.release.variables else ()
    )
    rows = [
        {
            "variable": variable.name,
            "place": place,
            "category": category,
            "label": labels.category(variable.name, category),
            "variable_label": labels.variable(variable.name),
            "unit": labels.of(variable.name).unit or "",
            "note": labels.of(variable.name).note or "",
        }
        for variable in variables
        for place, category in enumerate(variable.categories, start=1)
    ]
    return _inert({column: [row[column] for row in rows] for column in OF_DICTIONARY})


def _metadata(cleared: Cleared, name: str, texts: Texts, folder: Path) -> dict[str, Any]:
    resources = [
        _resource(element, f"{file}{suffix}", cleared, texts, folder)
        for element, file in _files(cleared, texts.totals)
        for suffix in (".csv", ".parquet")
    ]
    dictionary = {"name": "data_dictionary", "path": DICTIONARY, "format": "csv"}
    return {
        "profile": "data-package",
        "name": re.sub(r"[^a-z0-9._-]", "-", name.lower()),
        "title": texts.about.title or name,
        "description": " ".join(_what(cleared, texts.totals)),
        "records": cleared.total,
        **_told_of_weights(cleared),
        "resources": [*resources, dictionary],
        **_about(texts.about),
    }


def _about(about: PublicationConfig) -> dict[str, Any]:
    """What a data package has names for, and what it has none for; without what is not given."""
    told = {
        "population": about.population,
        "period": about.period,
        "sources": about.source and [{"title": about.source}],
        "licenses": about.licence and [_licence(about.licence)],
        "contributors": about.contact and [{"title": about.contact, "role": "contact"}],
        "notes": list(about.notes),
    }
    return {key: value for key, value in told.items() if value}


def _licence(licence: str) -> dict[str, str]:
    """By its address, by its name where that is one word, or by its title."""
    if licence.startswith(("https://", "http://")):
        return {"path": licence}
    return {"name": licence} if re.fullmatch(r"[\w.-]+", licence) else {"name": "other", "title": licence}


def _what(cleared: Cleared, totals: str) -> list[str]:
    """What the numbers are, in sentences."""
    exact = "Exact marginal tables of counts; a combination of categories without a row has the count 0."
    weighted = cleared.weighted
    if weighted is None:
        return [exact]
    said = [] if totals == "instead" else [exact]
    base = f"{WEIGHTED_TOTAL} is the sum of the records' weights, rounded to a multiple of {weighted.base:,}"
    why = "so that totals do not add up exactly, and some are withheld where they would tell too much of a count"
    return [*said, f"{base}, {why}.", *_fraction(cleared)]


def _fraction(cleared: Cleared) -> list[str]:
    """What a count of a sample says of the population ([KDSF] section 2)."""
    whole = cleared.weighted.total if cleared.weighted else None
    if not whole:
        return []
    each = round(whole / cleared.total)
    return [
        f"The records are a sample: {cleared.total:,} of them stand for about {whole:,}, each for {each:,} on average. "
        "A count of 1 is one record of the sample, and seldom one of the population."
    ]


def _told_of_weights(cleared: Cleared) -> dict[str, Any]:
    weighted = cleared.weighted
    if weighted is None:
        return {}
    return {"weighted": {"round": weighted.base, **({} if weighted.total is None else {"total": weighted.total})}}


def _numbers(cleared: Cleared, element: SubTable, totals: str) -> list[dict[str, str]]:
    """The columns that are no variables."""
    columns = _columns_of(cleared, element, totals)
    return [{"name": name, "type": "integer"} for name in (COUNT, WEIGHTED_TOTAL) if name in columns]


def _resource(element: SubTable, file: str, cleared: Cleared, texts: Texts, folder: Path) -> dict[str, Any]:
    schema = cleared.schema
    fields = [_field(variable, texts.labels) for variable in schema.restrict(st.members(element)).variables]
    data = (folder / file).read_bytes()
    return {
        "name": re.sub(r"[^a-z0-9._-]", "-", file.lower()),
        "path": file,
        "format": file.rsplit(".", 1)[1],
        "bytes": len(data),
        "hash": SHA256 + hashlib.sha256(data).hexdigest(),
        SUB_TABLE: st.names(element, schema),
        "schema": {"fields": [*fields, *_numbers(cleared, element, texts.totals)]},
    }


def _field(variable: Variable, labels: Labels) -> dict[str, Any]:
    own = labels.of(variable.name)
    categories = own.categories and [
        {"value": category, "label": labels.category(variable.name, category)} for category in variable.categories
    ]
    told = {"title": own.label, "description": own.note, "unit": own.unit, "categories": categories}
    field = {"name": variable.name, "type": "string", "constraints": {"enum": list(variable.categories)}}
    return field | {key: value for key, value in told.items() if value}


def _guide(cleared: Cleared, name: str, texts: Texts) -> str:
    if cleared.weighted is not None:
        return _weighted_guide(cleared, name, texts)
    about = texts.about
    said = [*(f"{what}: {text}" for what, text in about.facts.items()), *about.notes]
    return (
        f"{about.title or name}: {len(_files(cleared, texts.totals))} exact tables of counts\n\n"
        "Each numbered file is one table, as CSV and as Parquet: a column for each variable and `count`.\n"
        "A combination of categories that has no row has the count 0. Tables over fewer variables follow\n"
        f"by adding up. {DICTIONARY} lists the categories of each variable in their order;\n"
        f"{METADATA} describes the files for programs (Data Package) and gives the total number of records.\n"
        + "".join(f"\n{text}\n" for text in ["\n".join(said)] if said)
    )


def _weighted_guide(cleared: Cleared, name: str, texts: Texts) -> str:
    """The same where totals of weights go out."""
    about, number = texts.about, len(_files(cleared, texts.totals))
    columns = f"`{WEIGHTED_TOTAL}`" if texts.totals == "instead" else f"`{COUNT}`, `{WEIGHTED_TOTAL}`, or both"
    said = [*(f"{what}: {text}" for what, text in about.facts.items()), *about.notes]
    lines = [
        f"{about.title or name}: {number} tables",
        "",
        f"Each numbered file is one table, as CSV and as Parquet: a column for each variable, and {columns}.",
        *_what(cleared, texts.totals),
        f"{DICTIONARY} lists the categories of each variable in their order;",
        f"{METADATA} describes the files for programs (Data Package) and gives the total number of records.",
        *(["", *said] if said else []),
    ]
    return "".join(f"{line}\n" for line in lines)
