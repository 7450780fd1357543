"""Weights on disk, and the proof of releasable totals. Both are confidential.

`table/weights.parquet` has a row for each row of the table, in order. `weighted.json` has the releasable totals and
their rounding; `pairs.parquet` has feasible pairs as differences from the true table and totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdc import run_format as names
from sdc.feasible.differences import Differences
from sdc.model.documents import corrupt, plain, typed
from sdc.model.errors import InputError
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.storage.certificate import starts
from sdc.storage.parquet import read_cells, read_columns, write_cells, write_columns
from sdc.storage.run_folder import read_format, write_json
from sdc.weighted.pairs import Pairs
from sdc.weighted.pairs import WeightedCertificate as WeightedCertificate  # for readers of one


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
