"""Earlier public facts of a table on disk: `known.json` next to the table.

Sub-tables are named by the variables that imply the rest; structural zeros and universes use numbers of the table's
schema. `known_<i>.parquet` has the cells of the i-th fact with known ranges. A certificate has the same files for its
own facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.documents import corrupt, plain, typed
from sdc.model.errors import InputError, many
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
    """between is the number of cells in its file."""

    view: SubTable
    universe: Pattern
    between: int
    source: str


@dataclass(frozen=True)
class KnownDocument:
    release: tuple[SubTable, ...]
    structural_zeros: tuple[Pattern, ...]
    facts: tuple[_FactDocument, ...]
    listed: Pattern = ()  # version 94e8d48 wrote none


@dataclass(frozen=True)
class _RoundedDocument:
    """A rounded sub-table: its base and rounded marginals."""

    view: SubTable
    base: int
    margins: tuple[SubTable, ...]


@dataclass(frozen=True)
class SuppressedTablesDocument:
    """Suppressed and rounded tables: their facts, and which of them are rounded."""

    beside: tuple[SubTable, ...]
    facts: tuple[_FactDocument, ...]
    rounded: tuple[_RoundedDocument, ...] = ()


_OWN = tuple(field.name for field in fields(KnownDocument))


def write_known(known: Knowledge, folder: Path, **more: Any) -> None:
    """Write all files, with more keys for the JSON; equal facts give equal bytes.

    OSError if they cannot be written, ReleaseError for totals of weights.
    """
    content = plain(KnownDocument, written(known, folder), known.schema)
    write_json(folder / KNOWN, {"format": KNOWN_FORMAT, **content, **more})


def read_known(folder: Path, table: Table, listed: Pattern = ()) -> Knowledge:
    """Read the files of `write_known`; `listed` replaces the code lists that version 0.1 did not write.

    RunFolderError or InputError names a missing or corrupt file, another format or unknown names; InputError for facts
    that are not true of the table.
    """
    content = {name: part for name, part in _read(folder).items() if name in _OWN}
    document = typed(KnownDocument, content, folder / KNOWN, table.schema)
    found = read(document, table.schema, table.total, folder / KNOWN)
    return Knowledge.of(table, found.release, found.zeros, found.facts, found.listed if LISTED in content else listed)


def read_more(folder: Path) -> dict[str, Any]:
    """Return the other keys of the JSON; RunFolderError if it is missing, corrupt or of another format."""
    return {name: part for name, part in _read(folder).items() if name not in _OWN}


def _read(folder: Path) -> dict[str, Any]:
    return read_format(folder / KNOWN, KNOWN_FORMAT, "it has the earlier public facts of the table")


# The document


def written(known: Knowledge, folder: Path) -> KnownDocument:
    """Return the document, and write the cells of facts; ReleaseError for totals of weights."""
    known.require_counts_alone()
    facts = _written(known.published, known.schema, folder, KNOWN_CELLS)
    return KnownDocument(known.release.frontier, known.zeros.patterns, facts, known.listed)


def _written(facts: Iterable[Fact], schema: Schema, folder: Path, file: str) -> tuple[_FactDocument, ...]:
    """Return documents of facts; their cells go to numbered files of this name."""
    found = []
    for number, fact in enumerate(facts):
        cells = 0 if fact.intervals is None else len(fact.intervals.cells)
        found.append(_FactDocument(fact.view, fact.universe, cells, fact.source))
        if fact.intervals is not None and cells:
            ranges = {LOW: fact.intervals.low.astype(np.int64), HIGH: fact.intervals.high.astype(np.int64)}
            write_cells(folder / file.format(number), _inside(fact.view, schema), fact.intervals.cells, ranges)
    return tuple(found)


def read(document: KnownDocument, schema: Schema, total: int, path: Path) -> Knowledge:
    """Return the knowledge of a document.

    RunFolderError names the file if it does not match the table, InputError one of a fact.
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
    """Return the document of suppressed and rounded tables."""
    rounded_documents = (
        _RoundedDocument(part.view, part.base, tuple(margin.view for margin in part.margins))
        for part in parts.tables
        if part.base
    )
    facts = _written((part.fact for part in parts.tables), schema, folder, PART_CELLS)
    return SuppressedTablesDocument(parts.beside.frontier, facts, tuple(rounded_documents))


def read_parts(document: SuppressedTablesDocument, schema: Schema, path: Path) -> SuppressedTables:
    """Return the tables of a document; errors as `read`."""
    facts = _facts(document.facts, schema, path, PART_CELLS)
    try:
        for fact in facts:
            fact.check(schema)
        how = {one.view: one for one in document.rounded}
        tables = list[SuppressedTable]()
        for fact in facts:
            if (to := how.get(fact.view)) is None:
                tables.append(SuppressedTable(fact))
                continue
            counts = SuppressedTable(fact, to.base).rounded(schema)
            tables.append(SuppressedTable.rounded_to(fact.view, counts, to.base, to.margins, schema, fact.source))
        return SuppressedTables(Release.of(document.beside), tuple(tables))
    except (InputError, ValueError, OverflowError) as error:
        raise corrupt(path, error) from error


def _facts(documents: Sequence[_FactDocument], schema: Schema, path: Path, file: str) -> tuple[Fact, ...]:
    found = list[Fact]()
    for number, one in enumerate(documents):
        name, between = file.format(number), None
        if one.between:
            cells, numbers = read_cells(path.with_name(name), _inside(one.view, schema), OF_KNOWN_CELLS)
            if len(cells) != one.between:
                raise corrupt(path, f"{name} has {many(len(cells), 'cell')}, and its document states {one.between}")
            between = CellIntervals(cells, numbers[LOW], numbers[HIGH])
        found.append(Fact(one.view, one.universe, between, one.source))
    return tuple(found)


def _inside(view: SubTable, schema: Schema) -> Schema:
    return schema.restrict(st.members(view))
