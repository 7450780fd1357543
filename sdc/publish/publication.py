"""The published folder: frontier sub-tables, data dictionary and metadata, and nothing that these do not imply."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdc.config.publication import PublicationConfig
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError, RunFolderError, many
from sdc.model.labels import Labels
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.publish.catalogue import SigningKey, catalogue_files, files_below, of_file, sums_files
from sdc.publish.formats import FORMATS, CountTable, Pieces
from sdc.publish.formats.table import Dimension, dictionary_rows
from sdc.publish.formats.xlsx import MAX_ROWS
from sdc.publish.gate import Cleared, GateSubject
from sdc.run_format import (
    CODE_LISTS,
    COUNT,
    DICTIONARY,
    GUIDE,
    IN_PART,
    LEVELS,
    MARGINS,
    METADATA,
    OF_SUMS,
    PX_API,
    RELEASE_FORMAT,
    ROUNDED_COUNT,
    ROUNDED_TO,
    SHA256,
    STATUS,
    SUB_TABLE,
    TOTAL,
    TOTALS,
    WEIGHTED_TOTAL,
    WITHHELD_STATUS,
    ZEROS,
    in_csv,
    is_formula,
)
from sdc.storage.run_folder import json_of
from sdc.storage.whole_file import replacing

READ = ("csv", "parquet")  # formats whose columns the metadata describe
MOST_CELLS = 1 << 28  # of a file, beyond the cells with records
EXACT = "Exact marginal tables of counts"


@dataclass(frozen=True)
class Texts:
    """Texts for readers of the files; none depends on the records.

    code_lists  variables whose categories are listed in the config, with or without records, and their levels
    """

    about: PublicationConfig
    labels: Labels
    totals: Literal["beside", "instead"] = "beside"
    code_lists: frozenset[str] = frozenset()

    def of(self, names: Iterable[str]) -> Texts:
        """The texts of these variables."""
        own = {name: self.labels.variables[name] for name in names if name in self.labels.variables}
        return replace(self, labels=Labels(own))

    @property
    def given(self) -> dict[str, Any]:
        """Everything for programs except the title."""
        labels = {name: own.given for name, own in self.labels.variables.items()}
        return ({"about": self.about.given} if self.about.given else {}) | ({"labels": labels} if labels else {})


NO_TEXTS = Texts(PublicationConfig(), Labels())


@dataclass(frozen=True)
class File:
    """A published file: its format, content and table (None: all tables)."""

    path: str
    format: str
    pieces: Callable[[], Pieces]
    table: CountTable | None = None
    subtable: SubTable = st.GRAND_TOTAL


def write_publication(
    cleared: Cleared, subject: GateSubject, name: str, folder: Path, *, texts: Texts = NO_TEXTS
) -> None:
    """Write each frontier sub-table and child table in each format, the data dictionary and a data package.

    Raises ReleaseError, before writing, if the clearance is for another table, criterion or policy; if a text that a
    spreadsheet would run is to be refused; if the release does not imply a child table; or if a format cannot carry a
    name.
    """
    cleared.require(subject)
    if texts.about.formulas == "refuse":
        _refuse_formulas(cleared.schema.variables, texts.labels)
    for file in _files(cleared, name, texts):
        file.pieces()  # refuse what a format cannot carry before any file exists
    for path, pieces in _contents(cleared, name, folder, texts):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(folder / path) as temporary, temporary.open("wb") as into:
            into.writelines(pieces)


def require_formats(table: Table, name: str, texts: Texts, wanted: Iterable[SubTable], shown: SubTable) -> None:
    """ReleaseError for categories, names or wanted sub-tables that a format cannot carry.

    Known as soon as the categories are; levels added by a search are checked later.
    """
    schema, about = table.schema, texts.about
    alone = [Variable(schema.names[v], schema.variables[v].categories) for v in st.members(shown)]
    if about.formulas == "refuse":
        _refuse_formulas(alone, texts.labels)
    tables = list[tuple[list[Variable], Table | None]](([one], None) for one in alone)
    for element in filter(None, wanted):
        own = schema.restrict(st.members(element))
        rows = table.marginal(element) if st.cells(element, schema) >= MAX_ROWS else None
        tables.append(([Variable(own.names[v], own.variables[v].categories) for v in own.axes], rows))
    for variables, rows in tables:
        one_cell = np.zeros((1, len(variables)), np.uint16), np.array([table.total])
        marginal = rows or Table.of(Schema(tuple(variables)), *one_cell)
        called = "*".join(one.name for one in variables)
        listed = CountTable.of(called, about.title or name, marginal, texts.labels, about)
        _require_listed(listed, called, len(marginal))
        for format in about.formats:
            for write in FORMATS[format].of_table.values():
                write(listed)
            for pieces in FORMATS[format].files([listed]).values():
                pieces()


def _require_listed(table: CountTable, file: str, cells: int) -> None:
    if table.at_most > max(MOST_CELLS, cells):
        raise ReleaseError(
            f"{file} would list up to {table.at_most} cells with zeros or totals, more than {MOST_CELLS}; publish it "
            "without them"
        )


def check_publication(cleared: Cleared, folder: Path, name: str, texts: Texts = NO_TEXTS) -> None:
    """RunFolderError for the first file that differs from what would be written now, or that does not belong there."""
    if wrong := dict(differences(cleared, folder, name, texts)):
        path = min(wrong, key=lambda path: path in OF_SUMS)  # checksums may differ because of another file
        raise RunFolderError(
            f"published file {folder / path} is not as it was written: {wrong[path]}; nothing is released"
        )


def differences(cleared: Cleared, folder: Path, name: str, texts: Texts = NO_TEXTS) -> Iterator[tuple[str, str]]:
    """Yield each file that differs from what would be written now, and where; a missing file ends the list."""
    made = set[str]()
    for path, pieces in _contents(cleared, name, folder, texts):
        if how := _difference(folder / path, pieces):
            yield path, how
        if not (folder / path).is_file():
            return
        made.add(path)
    yield from ((path, "no such file is written") for path in sorted(files_below(folder) - made))


def _difference(path: Path, pieces: Iterable[bytes]) -> str:
    if not path.is_file():
        return "it is missing"
    place, line = 0, 1
    with path.open("rb") as file:
        for piece in pieces:
            if (found := file.read(len(piece))) != piece:
                pairs = enumerate(zip(found, piece, strict=False))
                same = next((k for k, (one, other) in pairs if one != other), len(found))
                return f"byte {place + same + 1} is another, in line {line + piece[:same].count(10)}"
            place, line = place + len(piece), line + piece.count(10)
        return f"it goes on after byte {place}" if file.read(1) else ""


def _contents(cleared: Cleared, name: str, folder: Path, texts: Texts) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Each file by name; files about other files come last, because they read the folder."""
    key = signing_key(texts.about)
    yield from ((file.path, file.pieces()) for file in _files(cleared, name, texts))
    yield DICTIONARY, [_dictionary(cleared, texts).encode()]
    yield GUIDE, [_guide(cleared, name, texts).encode()]
    metadata = _metadata(cleared, name, texts, folder)
    yield METADATA, [json_of(metadata).encode()]
    yield from ((path, [text.encode()]) for path, text in catalogue_files(metadata).items())
    yield from ((path, [text.encode()]) for path, text in sums_files(folder, key, metadata).items())


def signing_key(about: PublicationConfig) -> SigningKey | None:
    """The key for the signatures, None if the config has none; ConfigError if it cannot be read."""
    return None if about.signing_key is None else SigningKey.read(Path(about.signing_key))


def _refuse_formulas(variables: Iterable[Variable], labels: Labels) -> None:
    advice = "or set publication.formulas to quote; nothing is published"
    for variable in variables:
        if found := [category for category in variable.categories if is_formula(category)]:
            raise ReleaseError(
                f"a spreadsheet would run {many(len(found), 'category')} of {variable.name!r} as formulas; recode "
                "them, "
                f"{advice}",
                f"categories {found}",
            )
        if text := next(filter(is_formula, labels.of(variable.name).texts), None):
            raise ReleaseError(f"{text!r}, of {variable.name!r}, would be run by a spreadsheet; reword it, {advice}")


def _files(cleared: Cleared, name: str, texts: Texts) -> Iterator[File]:
    """All files. Their content is made on demand, with a ReleaseError if a format cannot carry it."""
    for element, file in _named(cleared, texts):
        table = _table(cleared, element, file, name, texts)
        for format in texts.about.formats:
            for suffix, write in FORMATS[format].of_table.items():
                yield File(f"{file}{suffix}", format, partial(write, table), table, element)
    named = _named(cleared, texts)
    for format in texts.about.formats:
        if FORMATS[format].of_all or FORMATS[format].tree:
            tables = [_table(cleared, element, file, name, texts) for element, file in named]
            yield from (File(path, format, pieces) for path, pieces in FORMATS[format].files(tables).items())


def _table(cleared: Cleared, element: SubTable, file: str, name: str, texts: Texts) -> CountTable:
    own = [*cleared.release.frontier, *(cleared.weighted.of if cleared.weighted else ()), *cleared.suppressed_tables]
    parent = element if element in own else next(parent for parent in own if st.is_within(element, parent))
    marginal = cleared.marginal(parent)
    marginal = marginal if element == parent else marginal.marginal(st.within(element, parent))
    called = ", ".join(map(texts.labels.variable, st.names(element, cleared.schema)))
    table = CountTable.of(file, f"{texts.about.title or name}: {called}", marginal, texts.labels, texts.about)
    _require_listed(table, file, len(marginal))
    if (part := cleared.suppressed_tables.get(element)) is not None and part.base:
        return table.rounded(table.counts, part.base)
    if part is not None:
        fewer = _over_fewer(cleared, element) if texts.about.totals else ()
        within = [_table(cleared, one, file, name, texts) for one in fewer]
        return table.without(part.suppressed, within, cleared.total)
    totals = None if cleared.weighted is None else cleared.weighted.of.get(element)
    return table if totals is None else replace(table, weighted=totals, has_counts=_counted(cleared, texts))


def _over_fewer(cleared: Cleared, element: SubTable) -> tuple[SubTable, ...]:
    """The largest public sub-tables over fewer axes than a suppressed one; they give its totals."""
    exact = {one for one, part in cleared.suppressed_tables.items() if not part.base}
    return st.maximal(one for one in st.over_fewer(element, cleared.schema) if one in cleared.release or one in exact)


def _counted(cleared: Cleared, texts: Texts) -> bool:
    return cleared.weighted is None or texts.totals != "instead"


def _named(cleared: Cleared, texts: Texts) -> list[tuple[SubTable, str]]:
    """The published sub-tables with the stems of their file names; the grand total is in the metadata."""
    weighted = () if cleared.weighted is None else tuple(cleared.weighted.of)
    counted = cleared.release.frontier if _counted(cleared, texts) else ()
    children = (_child(cleared, text, texts) for text in texts.about.children)
    numbered = enumerate(dict.fromkeys([*counted, *children, *weighted, *cleared.suppressed_tables]), start=1)
    return [(element, _file_name(number, element, cleared.schema)) for number, element in numbered if element]


def _child(cleared: Cleared, text: str, texts: Texts) -> SubTable:
    """A sub-table that the release implies; ReleaseError for any other."""
    unknown = {name.strip() for name in text.split("*")} - set(cleared.schema.names)
    child = st.GRAND_TOTAL if unknown else st.parse(text, cleared.schema)
    weighted = cleared.weighted is not None and child in cleared.weighted.of
    if unknown or not (weighted or (_counted(cleared, texts) and child in cleared.release)):
        raise ReleaseError(
            f"publication.children has {text!r}, which the release does not imply; take it out, or require it of the "
            "release"
        )
    return child


def _file_name(number: int, element: SubTable, schema: Schema) -> str:
    # the number separates files whose names would be equal
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(st.names(element, schema))).strip("-")
    return f"{number:03}_{words[:80]}"


def _published(cleared: Cleared, texts: Texts) -> SubTable:
    """The variables of all files: what the release has without a file is not even named, nor are its categories."""
    return st.union(element for element, _ in _named(cleared, texts))


def _dictionary(cleared: Cleared, texts: Texts) -> str:
    """The data dictionary as CSV, safe for spreadsheets."""
    variables = (cleared.schema.variables[v] for v in st.members(_published(cleared, texts)))
    rows = dictionary_rows(Dimension.of(variable, texts.labels) for variable in variables)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [in_csv(value) if isinstance(value, str) else value for value in row] for row in rows
    )
    return text.getvalue()


def _metadata(cleared: Cleared, name: str, texts: Texts, folder: Path) -> dict[str, Any]:
    resources = [_resource(file, cleared, texts.labels, folder) for file in _files(cleared, name, texts)]
    dictionary = {"name": "data_dictionary", "path": DICTIONARY, "format": "csv"}
    return {
        "profile": "data-package",
        "format": RELEASE_FORMAT,
        "name": re.sub(r"[^a-z0-9._-]", "-", name.lower()),
        "title": texts.about.title or name,
        "description": " ".join(_what(cleared, texts)),
        "records": cleared.total,
        **_weights_of(cleared),
        **{what: True for what, is_so in ((ZEROS, texts.about.zeros), (TOTALS, texts.about.totals)) if is_so},
        "resources": [*resources, dictionary],
        **({CODE_LISTS: lists} if (lists := _code_lists(cleared, texts)) else {}),
        **({LEVELS: levels} if (levels := _levels(cleared, texts)) else {}),
        **_about(texts.about),
    }


def _code_lists(cleared: Cleared, texts: Texts) -> list[str]:
    """Variables with code lists, in suppressed, rounded or recoded tables."""
    suppressed = st.union(cleared.suppressed_tables)
    shown = suppressed | cleared.release.variables
    own = [(v, cleared.schema.variables[v]) for v in st.members(shown)]
    return [v.name for bit, v in own if v.name in texts.code_lists and (st.has(suppressed, bit) or v.is_merged)]


def _levels(cleared: Cleared, texts: Texts) -> list[dict[str, Any]]:
    schema, published = cleared.schema, _published(cleared, texts)
    implied = schema.levels.finest(published)
    finest = [v for axis in schema.axes for v in st.members(implied & schema.levels.of_axis[axis])]
    return [
        {"variable": schema.names[level], "of": schema.names[v], "categories": _within(schema, v, level)}
        for v in finest
        for level in st.members(schema.levels.coarser[v] & published)
    ]


def _within(schema: Schema, variable: int, level: int) -> dict[str, str]:
    fine, coarse = (schema.variables[v].categories for v in (variable, level))
    pairs = zip(schema.levels.groups[variable].tolist(), schema.levels.groups[level].tolist(), strict=True)
    found = dict(sorted(set(pairs)))
    return {fine[own]: coarse[group] for own, group in found.items()}


def _about(about: PublicationConfig) -> dict[str, Any]:
    facts = {
        "population": about.population,
        "period": about.period,
        "published": about.published,
        "sources": about.source and [{"title": about.source}],
        "licenses": about.licence and [_licence(about.licence)],
        "contributors": about.contact and [{"title": about.contact, "role": "contact"}],
        "notes": list(about.notes),
    }
    return {key: value for key, value in facts.items() if value}


def _licence(licence: str) -> dict[str, str]:
    if licence.startswith(("https://", "http://")):
        return {"path": licence}
    return {"name": licence} if re.fullmatch(r"[\w.-]+", licence) else {"name": "other", "title": licence}


def _what_is_listed(about: PublicationConfig) -> str:
    zeros = "a combination of categories without a row has the count 0"
    listed = "every combination of categories has a row" if about.zeros else zeros
    return f"{listed}; the category {TOTAL} of a variable is the sum of all others" if about.totals else listed


def _what(cleared: Cleared, texts: Texts) -> list[str]:
    is_rounded = any(part.base for part in cleared.suppressed_tables.values())
    tables = "Marginal tables of counts, exact but where they are rounded" if is_rounded else EXACT
    exact = f"{tables}; {_what_is_listed(texts.about)}."
    weighted = cleared.weighted
    if weighted is None:
        return [exact, *_in_part(cleared, texts)]
    sentences = [] if texts.totals == "instead" else [exact]
    base = f"{WEIGHTED_TOTAL} is the sum of the records' weights, rounded to a multiple of {weighted.base:,}"
    why = "so that totals do not add up exactly, and some are withheld where they would tell too much of a count"
    return [*sentences, f"{base}, {why}.", *_fraction(cleared)]


def _in_part(cleared: Cleared, texts: Texts) -> list[str]:
    rounded = [_how_rounded(cleared, view, part) for view, part in cleared.suppressed_tables.items() if part.base]
    parts = [part for part in cleared.suppressed_tables.values() if not part.base]
    return [_withheld(parts, texts), *rounded] if parts else rounded


def _how_rounded(cleared: Cleared, view: SubTable, part: SuppressedTable) -> str:
    """The sentence on rounding for readers."""
    sums = "".join(f", each sum by {' and '.join(st.names(margin.view, cleared.schema))}" for margin in part.margins)
    return (
        f"The table of {', '.join(st.names(view, cleared.schema))} is rounded: each count{sums} and the total became a "
        f"multiple of {part.base} that is less than {part.base} away, so that all add up."
    )


def _withheld(parts: Sequence[SuppressedTable], texts: Texts) -> str:
    number, cells = len(parts), sum(len(part.suppressed) for part in parts)
    tables, are = ("tables", "go") if number > 1 else ("table", "goes")
    totals = " So are totals of suppressed cells, unless another table has them." * texts.about.totals
    return (
        f"{number} {tables} {are} out in part: {cells:,} cells are withheld, by the marks of each format.{totals} What "
        "else is public limits what they can be."
    )


def _fraction(cleared: Cleared) -> list[str]:
    """The share of the population that a sample's count represents ([KDSF] section 2)."""
    whole = cleared.weighted.total if cleared.weighted else None
    if not whole:
        return []
    each = round(whole / cleared.total)
    return [
        f"The records are a sample: {cleared.total:,} of them stand for about {whole:,}, each for {each:,} on average. "
        "A count of 1 is one record of the sample, and seldom one of the population."
    ]


def _weights_of(cleared: Cleared) -> dict[str, Any]:
    weighted = cleared.weighted
    if weighted is None:
        return {}
    return {"weighted": {"round": weighted.base, **({} if weighted.total is None else {"total": weighted.total})}}


def _resource(file: File, cleared: Cleared, labels: Labels, folder: Path) -> dict[str, Any]:
    schema = cleared.schema
    resource = {
        "name": re.sub(r"[^a-z0-9._-]", "-", file.path.lower()),
        "path": file.path,
        "format": file.format,
        # frictionless compares the bytes of each file with those it read, and counts none of Parquet
        "size" if file.format == "parquet" else "bytes": (folder / file.path).stat().st_size,
        "hash": SHA256 + of_file(folder / file.path, file.path)["digest"]["sha256"],
    }
    if file.table is not None:
        resource[SUB_TABLE] = st.names(file.subtable, schema)
        if file.table.withheld is not None:
            resource[IN_PART] = {"cells": file.table.cells, WITHHELD_STATUS: len(file.table.withheld)}
        elif (part := cleared.suppressed_tables.get(file.subtable)) is not None:
            margins = [st.names(margin.view, schema) for margin in part.margins]
            resource[IN_PART] = {"cells": file.table.cells, ROUNDED_TO: part.base, MARGINS: margins}
    if file.format in READ:
        assert file.table is not None
        written = in_csv if file.format == "csv" else str
        own = [schema.variables[v] for v in st.members(schema.levels.finest(file.subtable))]
        fields = [_field(variable, labels, file.table.totals, written) for variable in own]
        measures = [{"name": measure, "type": "integer"} for measure in file.table.measures]
        status = [{"name": STATUS, "type": "string"}] if file.table.withheld is not None else []
        resource["schema"] = {"fields": [*fields, *measures, *status]}
    return resource


def _field(variable: Variable, labels: Labels, totals: bool, written: Callable[[str], str]) -> dict[str, Any]:
    """The column of a variable, with its categories as they are written in this file."""
    own = labels.of(variable.name)
    categories = own.categories and [
        {"value": written(category), "label": labels.category(variable.name, category)}
        for category in variable.categories
    ]
    texts = {"title": own.label, "description": own.note, "unit": own.unit, "categories": categories}
    listed = [*map(written, variable.categories), *[TOTAL] * totals]
    field = {"name": variable.name, "type": "string", "constraints": {"enum": listed}}
    return field | {key: value for key, value in texts.items() if value}


def _guide(cleared: Cleared, name: str, texts: Texts) -> str:
    about, listed = texts.about, _what_is_listed(texts.about)
    is_rounded = any(part.base for part in cleared.suppressed_tables.values())
    if cleared.weighted is None:
        tables, own = f"{'' if is_rounded else 'exact '}tables of counts", f" and `{COUNT}`"
        own += f", or `{ROUNDED_COUNT}` and a base where it is rounded" * is_rounded
        also, adding_up = [f"{listed[0].upper()}{listed[1:]}. Tables over fewer variables follow"], "by adding up. "
    else:
        tables, also, adding_up = "tables", _what(cleared, texts), ""
        columns = f"`{WEIGHTED_TOTAL}`" if texts.totals == "instead" else f"`{COUNT}`, `{WEIGHTED_TOTAL}`, or both"
        own = f", and {columns}"
    facts = [*(f"{what}: {text}" for what, text in about.facts.items()), *about.notes]
    lines = [
        f"{about.title or name}: {len(_named(cleared, texts))} {tables}",
        "",
        f"Each numbered file is one table, {_formats(about)}: a column for each variable{own}.",
        *also,
        f"{adding_up}{DICTIONARY} lists the categories of each variable in their order;",
        f"{METADATA} describes the files for programs (Data Package) and gives the total number of records.",
        *_in_part(cleared, texts),
        *(f"{METADATA} says in which {one['variable']} each {one['of']} is." for one in _levels(cleared, texts)),
        *_on_trees(about),
        *(["", *facts] if facts else []),
    ]
    return "".join(f"{line}\n" for line in lines)


def _on_trees(about: PublicationConfig) -> list[str]:
    trees = [FORMATS[name].label for name in about.formats if FORMATS[name].tree]
    return [f"{PX_API} has the same tables for clients of {label}." for label in trees]


def _formats(about: PublicationConfig) -> str:
    *before, last = (f"as {FORMATS[name].label}" for name in about.formats if FORMATS[name].tree is None)
    return " and ".join(filter(None, [", ".join(before), last]))
