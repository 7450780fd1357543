"""Weights on disk, and what shows which of their totals may go out. Both are confidential.

`table/weights.parquet` has a row for each row of the table, in its order. `weighted.json` says what totals go out and
how they are rounded; `pairs.parquet` holds feasible pairs as differences from the true table and the true totals.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.errors import InputError, RunFolderError
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.model.weights import Weights
from sdc.run_format import (
    CHANGE,
    LARGEST,
    LEAST,
    OF_PAIRS,
    PAIR,
    PAIRS,
    SHIFT,
    SUM,
    WEIGHTED_FILE,
    WEIGHTED_FORMAT,
    WEIGHTS,
    variable_columns,
)
from sdc.storage.parquet import read_columns, write_columns
from sdc.storage.run_folder import read_json, write_json
from sdc.weighted.pairs import Pairs
from sdc.weighted.pairs import WeightedCertificate as WeightedCertificate  # whoever reads one has it from here


def write_weights(weights: Weights, folder: Path) -> None:
    """The weights of the table that is written there."""
    columns = {SUM: weights.totals, LEAST: weights.least, LARGEST: weights.largest}
    write_columns(folder / WEIGHTS, columns)


def read_weights(folder: Path, table: Table) -> Weights:
    """What `write_weights` wrote; InputError where it is missing, damaged or of another table."""
    columns, _ = read_columns(folder / WEIGHTS)
    if {name: column.dtype for name, column in columns.items()} != dict.fromkeys((SUM, LEAST, LARGEST), np.int64):
        raise InputError(f"{folder / WEIGHTS} is damaged: its columns are not those of weights; run the build again")
    weights = Weights(columns[SUM], columns[LEAST], columns[LARGEST])
    weights.check(table)
    return weights


def write_weighted(certificate: WeightedCertificate, schema: Schema, folder: Path) -> None:
    """Writes both files; the same certificate gives the same bytes."""
    pairs, own = certificate.pairs, _columns(schema)
    codes = {name: np.ascontiguousarray(pairs.moves.cells[:, v]) for v, name in enumerate(own)}
    write_columns(folder / PAIRS, {PAIR: pairs.moves.of, **codes, CHANGE: pairs.moves.changes, SHIFT: pairs.shifts})
    content = {
        "format": WEIGHTED_FORMAT,
        "table": certificate.table_digest,
        "round": certificate.base,
        "totals": [st.names(subtable, schema) for subtable in certificate.totals],
        "withheld": [st.names(subtable, schema) for subtable in certificate.withheld],
        "pairs": len(pairs),
    }
    write_json(folder / WEIGHTED_FILE, content)


def _columns(schema: Schema) -> list[str]:
    """Those of the axes."""
    return [*variable_columns([schema.names[axis] for axis in schema.axes], OF_PAIRS).values()]


def read_weighted(folder: Path, schema: Schema) -> WeightedCertificate:
    """What `write_weighted` wrote; RunFolderError or InputError where it is missing or damaged."""
    path = folder / WEIGHTED_FILE
    if not path.is_file():
        raise RunFolderError(f"{path} is missing: nothing shows that totals of weights are safe; run the build again")
    content = read_json(path)
    if content.get("format") != WEIGHTED_FORMAT:
        raise RunFolderError(
            f"{path} has format {content.get('format')!r}, this version reads {WEIGHTED_FORMAT}; run the build again"
        )
    try:
        totals, withheld = (_bits(content[key], schema) for key in ("totals", "withheld"))
        pairs = _pairs(folder / PAIRS, schema, int(content["pairs"]))
        return WeightedCertificate(str(content["table"]), int(content["round"]), totals, withheld, pairs)
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"{path} is damaged or of another table: {type(error).__name__}: {error}; run the build again"
        ) from error


def _bits(listed: Any, schema: Schema) -> tuple[SubTable, ...]:
    unknown = sorted({str(name) for names in listed for name in names} - set(schema.names))
    if unknown:
        raise ValueError(f"unknown variable {unknown[0]!r}")
    return tuple(st.named(names, schema) for names in listed)


def _pairs(path: Path, schema: Schema, claimed: int) -> Pairs:
    columns, _ = read_columns(path)
    own = _columns(schema)
    expected = {PAIR: np.int64, **dict.fromkeys(own, np.uint16), CHANGE: np.int64, SHIFT: np.int64}
    if {name: column.dtype for name, column in columns.items()} != {n: np.dtype(k) for n, k in expected.items()}:
        raise ValueError(f"{path.name} has other columns than {', '.join(expected)}")
    number = columns[PAIR]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    if not np.array_equal(number[first], np.arange(claimed)):
        raise ValueError(f"{path.name} does not have the {claimed} pairs that are claimed, in order")
    cells = np.stack([columns[name] for name in own], axis=1)
    return Pairs(Differences(np.append(first, len(number)), cells, columns[CHANGE]), columns[SHIFT])
