"""What is public of a table before anything is released, on disk: `known.json` beside the table.

It has sub-tables by the names of the variables that tell their others, and variables and categories of structural zeros
and universes by number, as the table's schema has them. `known_<i>.parquet` has the cells of the i-th fact whose counts
are known between two numbers. A certificate has the same document, and the same files, of what it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.documents import corrupt, plain, typed
from sdc.model.errors import InputError
from sdc.model.fact import CellIntervals, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable, SuppressedTables
from sdc.model.table import Table
from sdc.run_format import HIGH, KNOWN, KNOWN_CELLS, KNOWN_FORMAT, LISTED, LOW, OF_KNOWN_CELLS, PART_CELLS
from sdc.storage.parquet import read_cells, write_cells
from sdc.storage.run_folder import read_format, write_json


@dataclass(frozen=True)
class _FactDocument:
    """between says how many cells are in its file."""

    view: SubTable
    universe: Pattern
    between: int
    source: str


@dataclass(frozen=True)
class KnownDocument:
    """What is known of counts, as JSON has it."""

    release: tuple[SubTable, ...]
    structural_zeros: tuple[Pattern, ...]
    facts: tuple[_FactDocument, ...]
    listed: Pattern = ()  # version 94e8d48 of the program wrote none


@dataclass(frozen=True)
class _RoundedDocument:
    """Of a sub-table that is rounded, to multiples of what, and which of its marginals are too."""

    view: SubTable
    base: int
    margins: tuple[SubTable, ...]


@dataclass(frozen=True)
class SuppressedTablesDocument:
    """What goes out in part, as JSON has it: the facts of sub-tables, and which of these are rounded."""

    beside: tuple[SubTable, ...]
    facts: tuple[_FactDocument, ...]
    rounded: tuple[_RoundedDocument, ...] = ()


_OWN = tuple(field.name for field in fields(KnownDocument))


def write_known(known: Knowledge, folder: Path, **more: Any) -> None:
    """Writes all files, with more that the JSON is to say; the same gives the same bytes.

    OSError where it cannot be written, ReleaseError where totals of weights are known.
    """
    told = plain(KnownDocument, written(known, folder), known.schema)
    write_json(folder / KNOWN, {"format": KNOWN_FORMAT, **told, **more})


def read_known(folder: Path, table: Table, listed: Pattern = ()) -> Knowledge:
    """What `write_known` wrote; with what code lists name where it does not say, as none of version 0.1 does.

    RunFolderError or InputError names the file that is missing or damaged, is of another format, or names what the
    table does not have; InputError where something that is known is not true of the table.
    """
    told = {name: part for name, part in _read(folder).items() if name in _OWN}
    document = typed(KnownDocument, told, folder / KNOWN, table.schema)
    found = read(document, table.schema, table.total, folder / KNOWN)
    return Knowledge.of(table, found.release, found.zeros, found.facts, found.listed if LISTED in told else listed)


def read_more(folder: Path) -> dict[str, Any]:
    """What else the JSON says; RunFolderError where it is missing, damaged or of another format."""
    return {name: part for name, part in _read(folder).items() if name not in _OWN}


def _read(folder: Path) -> dict[str, Any]:
    return read_format(folder / KNOWN, KNOWN_FORMAT, "nothing says what was public of the table before")


# The document


def written(known: Knowledge, folder: Path) -> KnownDocument:
    """The document; the cells of facts are written into the folder. ReleaseError where totals of weights are known."""
    known.require_counts_alone()
    facts = _written(known.published, known.schema, folder, KNOWN_CELLS)
    return KnownDocument(known.release.frontier, known.zeros.patterns, facts, known.listed)


def _written(facts: Iterable[Fact], schema: Schema, folder: Path, file: str) -> tuple[_FactDocument, ...]:
    """Documents of facts; their cells are written into files of this name, by number."""
    found = []
    for number, fact in enumerate(facts):
        cells = 0 if fact.intervals is None else len(fact.intervals.cells)
        found.append(_FactDocument(fact.view, fact.universe, cells, fact.source))
        if fact.intervals is not None and cells:
            told = {LOW: fact.intervals.low.astype(np.int64), HIGH: fact.intervals.high.astype(np.int64)}
            write_cells(folder / file.format(number), _inside(fact.view, schema), fact.intervals.cells, told)
    return tuple(found)


def read(document: KnownDocument, schema: Schema, total: int, path: Path) -> Knowledge:
    """What `written` made a document of, in a file beside those of its facts.

    RunFolderError names the file where it has what the table has not, InputError one of a fact.
    """
    facts = _facts(document.facts, schema, path, KNOWN_CELLS)
    try:
        zeros = StructuralZeros(document.structural_zeros)
        found = Knowledge(schema, total, Release.of(document.release), zeros, facts, listed=document.listed)
        found.check_listed()
        return found
    except (InputError, ValueError, OverflowError) as error:
        raise corrupt(path, error) from error


def written_parts(parts: SuppressedTables, schema: Schema, folder: Path) -> SuppressedTablesDocument:
    """The same of what goes out in part."""
    told = (
        _RoundedDocument(part.view, part.base, tuple(margin.view for margin in part.margins))
        for part in parts.tables
        if part.base
    )
    facts = _written((part.fact for part in parts.tables), schema, folder, PART_CELLS)
    return SuppressedTablesDocument(parts.beside.frontier, facts, tuple(told))


def read_parts(document: SuppressedTablesDocument, schema: Schema, path: Path) -> SuppressedTables:
    """What `written_parts` made a document of; errors as `read`."""
    facts = _facts(document.facts, schema, path, PART_CELLS)
    try:
        for fact in facts:
            fact.check(schema)
        how = {told.view: told for told in document.rounded}
        tables = tuple(_part(fact, how.get(fact.view), schema) for fact in facts)
        return SuppressedTables(Release.of(document.beside), tables)
    except (InputError, ValueError, OverflowError) as error:
        raise corrupt(path, error) from error


def _part(fact: Fact, told: _RoundedDocument | None, schema: Schema) -> SuppressedTable:
    if told is None:
        return SuppressedTable(fact)
    counts = SuppressedTable(fact, told.base).rounded(schema)
    return SuppressedTable.rounded_to(fact.view, counts, told.base, told.margins, schema, fact.source)


def _facts(documents: Sequence[_FactDocument], schema: Schema, path: Path, file: str) -> tuple[Fact, ...]:
    return tuple(_fact(told, schema, path, file.format(number)) for number, told in enumerate(documents))


def _fact(told: _FactDocument, schema: Schema, path: Path, name: str) -> Fact:
    file, between = path.with_name(name), None
    if told.between:
        cells, numbers = read_cells(file, _inside(told.view, schema), OF_KNOWN_CELLS)
        if len(cells) != told.between:
            raise corrupt(path, f"{name} has {len(cells)} cells, {told.between} are claimed")
        between = CellIntervals(cells, numbers[LOW], numbers[HIGH])
    return Fact(told.view, told.universe, between, told.source)


def _inside(view: SubTable, schema: Schema) -> Schema:
    return schema.restrict(st.members(view))
