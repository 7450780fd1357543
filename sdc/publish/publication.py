"""The published folder: the frontier sub-tables, a data dictionary and metadata, and nothing they do not imply."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdc.model import subtable as st
from sdc.model.errors import ReleaseError, RunFolderError
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.publish.gate import Cleared, Subject
from sdc.run_format import COUNT, DICTIONARY, GUIDE, METADATA, SHA256, SUB_TABLE, in_csv, is_formula
from sdc.storage.parquet import read_columns, table_columns, write_columns, write_csv
from sdc.storage.run_folder import read_json, write_json


def write_publication(
    cleared: Cleared, subject: Subject, name: str, folder: Path, *, title: str | None = None, formulas: str = "quote"
) -> None:
    """Each frontier sub-table as CSV and Parquet, the data dictionary, and metadata as a data package.

    formulas  what becomes of a category that a spreadsheet would run: quote it in CSV, or refuse

    ReleaseError where what was cleared is not the subject, another table, criterion or policy; or where a category is
    refused.
    """
    cleared.require(subject)
    release, schema, title = cleared.release, cleared.schema, title or name
    if formulas == "refuse":
        _refuse_formulas(schema)
    numbered = enumerate(release.frontier, start=1)
    files = [(element, _file_name(number, element, schema)) for number, element in numbered if element]
    for element, file in files:
        columns = table_columns(cleared.marginal(element))
        write_csv(folder / f"{file}.csv", _inert(columns))
        write_columns(folder / f"{file}.parquet", columns)
    _write_dictionary(release, schema, folder)
    (folder / GUIDE).write_text(_guide(title, len(files)), encoding="utf-8")
    write_json(folder / METADATA, _metadata(cleared, name, title, files, folder))


def check_publication(cleared: Cleared, folder: Path) -> None:
    """Reads the files back: they make public what was cleared, no more and no less.

    RunFolderError where a file is missing, was changed, is not the exact marginal, or is of another sub-table.
    """
    metadata = read_json(folder / METADATA)
    if metadata["records"] != cleared.total:
        raise RunFolderError(f"{folder / METADATA} says {metadata['records']} records, the table has {cleared.total}")
    # from what the folder says of itself, as whoever receives it would read it
    tables = [resource for resource in metadata["resources"] if SUB_TABLE in resource]
    published = Release.of([_checked(cleared, folder, resource) for resource in tables])
    listed = {METADATA, DICTIONARY, GUIDE, *(resource["path"] for resource in tables)}
    if unlisted := sorted({path.name for path in folder.iterdir()} - listed):
        raise RunFolderError(f"{folder / unlisted[0]} is no table that {METADATA} lists; nothing is released")
    if lacking := [element for element in cleared.release.frontier if element not in published]:
        label = st.label(lacking[0], cleared.schema)
        raise RunFolderError(f"{folder} lacks {label}, which was cleared; nothing is released")


def _checked(cleared: Cleared, folder: Path, resource: dict[str, Any]) -> SubTable:
    path = folder / resource["path"]
    names, unknown = resource[SUB_TABLE], set(resource[SUB_TABLE]) - set(cleared.schema.names)
    element = st.of(cleared.schema.index(name) for name in names if name not in unknown)
    if unknown or element not in cleared.release.frontier:
        raise RunFolderError(f"{path} is of {'*'.join(names)}, which was not cleared; nothing is released")
    try:
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RunFolderError(f"published file {path} is missing; nothing is released, run again") from error
    # made again from the marginal that was cleared, value by value: the hash only says that a file is as it was written
    columns = table_columns(cleared.marginal(element))
    expected = {key: list(column) for key, column in (_inert(columns) if path.suffix == ".csv" else columns).items()}
    if sha != resource["hash"].removeprefix(SHA256) or _columns(path) != expected:
        raise RunFolderError(f"published file {path} is not the exact marginal of the table; nothing is released")
    return element


def _columns(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".parquet":
        return {key: list(column) for key, column in read_columns(path)[0].items()}
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    # a CSV file has no types: names stay text, as they were written
    columns: dict[str, list[Any]] = {key: [row[i] for row in rows] for i, key in enumerate(header)}
    return {**columns, COUNT: [int(value) for value in columns[COUNT]]}


def _inert(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns as CSV has them; Parquet and JSON, which no spreadsheet runs, have them as they are."""
    return {
        key: [in_csv(value) if isinstance(value, str) else value for value in column] for key, column in columns.items()
    }


def _refuse_formulas(schema: Schema) -> None:
    for variable in schema.variables:
        if found := [category for category in variable.categories if is_formula(category)]:
            raise ReleaseError(
                f"{len(found)} categories of {variable.name!r} would be run as formulas by a spreadsheet; recode them, "
                "or set publication.formulas to quote; nothing is published",
                f"categories {found}",
            )


def _file_name(number: int, element: SubTable, schema: Schema) -> str:
    # the number tells files apart whose names come to the same words
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(st.names(element, schema))).strip("-")
    return f"{number:03}_{words[:80]}"


def _write_dictionary(release: Release, schema: Schema, folder: Path) -> None:
    """Variable, place of the category, category; only of variables that are published."""
    rows = [
        (schema.names[v], place, category)
        # a variable that is not published is not named either: even its categories would tell something
        for v in st.members(release.variables)
        for place, category in enumerate(schema.variables[v].categories, start=1)
    ]
    variable, place, category = zip(*rows, strict=True) if rows else ((), (), ())
    write_csv(folder / DICTIONARY, _inert({"variable": variable, "place": place, "category": category}))


def _metadata(
    cleared: Cleared, name: str, title: str, files: list[tuple[SubTable, str]], folder: Path
) -> dict[str, Any]:
    resources = [
        _resource(element, f"{file}{suffix}", cleared.schema, folder)
        for element, file in files
        for suffix in (".csv", ".parquet")
    ]
    dictionary = {"name": "data_dictionary", "path": DICTIONARY, "format": "csv"}
    return {
        "profile": "data-package",
        "name": re.sub(r"[^a-z0-9._-]", "-", name.lower()),
        "title": title,
        "description": "Exact marginal tables of counts; a combination of categories without a row has the count 0.",
        "records": cleared.total,
        "resources": [*resources, dictionary],
    }


def _resource(element: SubTable, file: str, schema: Schema, folder: Path) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": v.name, "type": "string", "constraints": {"enum": list(v.categories)}}
        for v in schema.restrict(st.members(element)).variables
    ]
    data = (folder / file).read_bytes()
    return {
        "name": re.sub(r"[^a-z0-9._-]", "-", file.lower()),
        "path": file,
        "format": file.rsplit(".", 1)[1],
        "bytes": len(data),
        "hash": SHA256 + hashlib.sha256(data).hexdigest(),
        SUB_TABLE: st.names(element, schema),
        "schema": {"fields": [*fields, {"name": COUNT, "type": "integer"}]},
    }


def _guide(name: str, tables: int) -> str:
    return (
        f"{name}: {tables} exact tables of counts\n\n"
        "Each numbered file is one table, as CSV and as Parquet: a column for each variable and `count`.\n"
        "A combination of categories that has no row has the count 0. Tables over fewer variables follow\n"
        f"by adding up. {DICTIONARY} lists the categories of each variable in their order;\n"
        f"{METADATA} describes the files for programs (Data Package) and gives the total number of records.\n"
    )
