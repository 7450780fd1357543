"""The certificate of an assessment: cell-by-cell evidence that a release is safe. It is confidential.

`certificate.json` names the table and the earlier public facts (as `known.json`), and has the components of the release
with a decomposable cover of each; sub-tables are named by the variables that imply the rest. `differences_<i>.parquet`
has feasible tables of the i-th component as differences from its marginal table, shared between cells. The cells and
their claims are in the assessment's `cells.parquet`. `sdc.verify` checks all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc import run_format as names
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.documents import corrupt, plain, typed
from sdc.model.errors import InputError
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.run_format import CERTIFICATE, CERTIFICATE_FORMAT, CHANGE, DIFFERENCE, DIFFERENCES, OF_DIFFERENCES
from sdc.storage.known import KnownDocument, SuppressedTablesDocument, read, read_parts, written, written_parts
from sdc.storage.parquet import read_cells, read_columns, write_cells, write_columns
from sdc.storage.run_folder import read_format, write_json
from sdc.weighted.pairs import Pairs
from sdc.weighted.pairs import WeightedCertificate as WeightedCertificate  # for readers of one

NotYet: TypeAlias = tuple[()]  # a kind of evidence that no certificate has


@dataclass(frozen=True, eq=False)
class Certificate:
    """The evidence for one table, one release and one risk criterion.

    table_digest  `Table.digest` of the full table
    known         public before the release, with structural zeros and other facts
    asked         the release; parts  its suppressed and rounded tables
    small_count   cells of 1 up to this count are at risk
    min_width     the width that every at-risk cell must have
    proof         the components of all public facts, with feasible tables of each
    """

    table_digest: str
    known: Knowledge
    asked: Release
    small_count: int
    min_width: int
    proof: Proof
    suppressed_tables: SuppressedTables = NO_SUPPRESSED_TABLES

    @cached_property
    def knowledge(self) -> Knowledge:
        """Public facts including the release."""
        return self.known.plus(self.asked).plus_facts(self.suppressed_tables.facts)

    @property
    def release(self) -> Release:
        return self.knowledge.release


@dataclass(frozen=True)
class _ComponentDocument:
    """cover is a `Decomposition` by the component's schema; differences counts those in its file."""

    variables: SubTable
    cover: dict[str, Any] | None
    differences: int


@dataclass(frozen=True)
class _CertificateDocument:
    table: str
    records: int
    known: KnownDocument
    asked: tuple[SubTable, ...]
    small_count: int
    min_width: int
    components: tuple[_ComponentDocument, ...]
    separators: tuple[SubTable, ...]
    parts: tuple[SuppressedTablesDocument, ...]
    refutations: NotYet
    brackets: NotYet

    def __post_init__(self) -> None:
        if len(self.parts) > 1:
            raise ValueError("suppressed tables are listed twice")
        if not self.components or not all(component.variables for component in self.components):
            raise ValueError("there is no component, or one without variables")


def write_certificate(certificate: Certificate, schema: Schema, folder: Path) -> None:
    """Write all files; equal certificates give equal bytes, and empty differences are omitted.

    The folder exists and has no other certificate. OSError if it cannot be written.
    """
    for number, part in enumerate(certificate.proof.parts):
        # no file for 0 differences
        if _number(part):
            _write_differences(part, schema, folder / DIFFERENCES.format(number))
    content = _CertificateDocument(
        table=certificate.table_digest,
        records=certificate.known.total,
        known=written(certificate.known, folder),
        asked=certificate.asked.frontier,
        small_count=certificate.small_count,
        min_width=certificate.min_width,
        components=tuple(_component(part, schema) for part in certificate.proof.parts),
        separators=certificate.proof.separators,
        parts=(written_parts(certificate.suppressed_tables, schema, folder),)
        if certificate.suppressed_tables.tables
        else (),
        refutations=(),
        brackets=(),
    )
    write_json(folder / CERTIFICATE, {"format": CERTIFICATE_FORMAT, **plain(_CertificateDocument, content, schema)})


def read_certificate(folder: Path, schema: Schema) -> Certificate:
    """Read the files of `write_certificate`.

    RunFolderError or InputError names a missing or corrupt file, another format, or unknown variables or categories.
    """
    path = folder / CERTIFICATE
    content = read_format(path, CERTIFICATE_FORMAT, "nothing proves that the release is safe")
    found = typed(_CertificateDocument, content, path, schema)
    parts = tuple(_part(document, number, schema, path) for number, document in enumerate(found.components))
    return Certificate(
        table_digest=found.table,
        known=read(found.known, schema, found.records, path),
        asked=Release.of(found.asked),
        small_count=found.small_count,
        min_width=found.min_width,
        proof=Proof(parts, found.separators),
        suppressed_tables=next((read_parts(document, schema, path) for document in found.parts), NO_SUPPRESSED_TABLES),
    )


def _number(part: ComponentProof) -> int:
    """Number of non-empty differences."""
    return len(np.unique(part.differences.of))


def _component(part: ComponentProof, schema: Schema) -> _ComponentDocument:
    # the cover numbers variables by the schema of the component's marginal table
    inside = schema.restrict(st.members(part.variables))
    cover = None if part.cover is None else plain(Decomposition, part.cover, inside)
    return _ComponentDocument(part.variables, cover, _number(part))


def _part(document: _ComponentDocument, number: int, schema: Schema, path: Path) -> ComponentProof:
    inside, file = schema.restrict(st.members(document.variables)), path.with_name(DIFFERENCES.format(number))
    found = Differences.none(len(inside.axes))
    if document.differences:
        cells, numbers = read_cells(file, inside, OF_DIFFERENCES)
        found = Differences(starts(numbers[DIFFERENCE], file), cells, numbers[CHANGE])
    if len(found) != document.differences:
        raise corrupt(path, f"{file.name} has {len(found)} differences, {document.differences} are claimed")
    cover = None if document.cover is None else typed(Decomposition, document.cover, path, inside)
    return ComponentProof(document.variables, cover, found)


def _write_differences(part: ComponentProof, schema: Schema, path: Path) -> None:
    found = part.differences
    # numbered without gaps: an empty difference has no row
    _, number = np.unique(found.of, return_inverse=True)
    numbers = {DIFFERENCE: number.astype(np.int64), CHANGE: found.changes}
    write_cells(path, schema.restrict(st.members(part.variables)), found.cells, numbers)


def starts(number: npt.NDArray[np.int64], path: Path) -> npt.NDArray[np.int64]:
    """Return where each difference starts, and the end; InputError unless numbered 0, 1, ... in order."""
    # a difference in two pieces would count as two
    is_first = np.ones(len(number), np.bool_)
    is_first[1:] = number[1:] != number[:-1]
    first = np.flatnonzero(is_first)
    if not np.array_equal(number[first], np.arange(len(first))):
        raise InputError(f"{path} is corrupt: its differences are not numbered 0, 1, ... in order; run the build again")
    return np.append(first, len(number))


@dataclass(frozen=True)
class _WeightedDocument:
    """pairs is the number in their file."""

    table: str
    round: int
    totals: tuple[SubTable, ...]
    withheld: tuple[SubTable, ...]
    pairs: int


def write_weights(weights: RecordWeights, folder: Path) -> None:
    columns = {names.SUM: weights.totals, names.LEAST: weights.least, names.LARGEST: weights.largest}
    write_columns(folder / names.WEIGHTS, columns)


def read_weights(folder: Path, table: Table) -> RecordWeights:
    """Read the weights; InputError if they are missing, corrupt or of another table."""
    columns, _ = read_columns(folder / names.WEIGHTS)
    if {name: column.dtype for name, column in columns.items()} != dict.fromkeys(
        (names.SUM, names.LEAST, names.LARGEST), np.int64
    ):
        raise InputError(
            f"{folder / names.WEIGHTS} is corrupt: its columns are not those of weights; run the build again"
        )
    weights = RecordWeights(columns[names.SUM], columns[names.LEAST], columns[names.LARGEST])
    weights.check(table)
    return weights


def write_weighted(certificate: WeightedCertificate, schema: Schema, folder: Path) -> None:
    """Write both files; equal certificates give equal bytes."""
    pairs = certificate.pairs
    numbers = {names.PAIR: pairs.moves.of, names.CHANGE: pairs.moves.changes, names.SHIFT: pairs.shifts}
    write_cells(folder / names.PAIRS, schema, pairs.moves.cells, numbers)
    fields = certificate.table_digest, certificate.base, certificate.totals, certificate.withheld, len(pairs)
    content = plain(_WeightedDocument, _WeightedDocument(*fields), schema)
    write_json(folder / names.WEIGHTED_FILE, {"format": names.WEIGHTED_FORMAT, **content})


def read_weighted(folder: Path, schema: Schema) -> WeightedCertificate:
    """Read both files; RunFolderError or InputError if they are missing or corrupt."""
    path = folder / names.WEIGHTED_FILE
    content = read_format(path, names.WEIGHTED_FORMAT, "it has the proof of releasable totals")
    found = typed(_WeightedDocument, content, path, schema)
    cells, numbers = read_cells(folder / names.PAIRS, schema, names.OF_PAIRS)
    start = starts(numbers[names.PAIR], folder / names.PAIRS)
    if len(start) - 1 != found.pairs:
        raise corrupt(path, f"{names.PAIRS} has {len(start) - 1} pairs, {found.pairs} are claimed")
    pairs = Pairs(Differences(start, cells, numbers[names.CHANGE]), numbers[names.SHIFT])
    return WeightedCertificate(found.table, found.round, found.totals, found.withheld, pairs)
