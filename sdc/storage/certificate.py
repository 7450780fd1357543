"""The certificate of an assessment: what proves, cell by cell, that a release is safe. It is confidential.

`certificate.json` says what it is about and holds the components of the release with a decomposable cover of each,
sub-tables by the names of the variables that tell their others; `differences_<i>.parquet` holds feasible tables of the
i-th component's marginal table as differences from it, shared between the cells. The cells themselves and what is
claimed of each are in the assessment's `cells.parquet`. Whether all of it is true is for `sdc.verify` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.errors import InputError, RunFolderError
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.run_format import (
    CERTIFICATE,
    CERTIFICATE_FORMAT,
    CHANGE,
    DIFFERENCE,
    DIFFERENCES,
    OF_DIFFERENCES,
    STRUCTURAL_ZEROS,
    variable_columns,
)
from sdc.storage.parquet import read_columns, write_columns
from sdc.storage.run_folder import read_json, write_json


@dataclass(frozen=True, eq=False)
class Certificate:
    """The evidence for one table, one release and one risk criterion.

    table_digest  `Table.digest` of the full table
    release       what the evidence is about
    small_count   cells of 1 up to this count are at risk
    min_width     the width that every at-risk cell must have
    proof         the release's components, and feasible tables of each
    zeros         cells that are known to be impossible
    """

    table_digest: str
    release: Release
    small_count: int
    min_width: int
    proof: Proof
    zeros: StructuralZeros = NO_ZEROS

    def known(self, table: Table) -> Knowledge:
        """What the evidence is beside; errors as `Knowledge.of`."""
        return Knowledge.of(table, self.release, self.zeros)


def write_certificate(certificate: Certificate, schema: Schema, folder: Path) -> None:
    """Writes all files; the same certificate gives the same bytes. An empty difference is left out.

    The folder exists and holds no other certificate. OSError where it cannot be written.
    """
    for number, part in enumerate(certificate.proof.parts):
        # no file without a difference: the part's number says that none is missing
        if _number(part):
            _write_differences(part, schema, folder / DIFFERENCES.format(number))
    content = {
        "format": CERTIFICATE_FORMAT,
        "table": certificate.table_digest,
        "release": _named(certificate.release.frontier, schema),
        **({STRUCTURAL_ZEROS: certificate.zeros.patterns} if certificate.zeros else {}),
        "small_count": certificate.small_count,
        "min_width": certificate.min_width,
        "components": [_part_facts(part, schema) for part in certificate.proof.parts],
        "separators": _named(certificate.proof.separators, schema),
    }
    write_json(folder / CERTIFICATE, content)


def read_certificate(folder: Path, schema: Schema) -> Certificate:
    """What `write_certificate` wrote.

    RunFolderError or InputError names the file that is missing or damaged, is of another format, or names a variable
    or a category that the table does not have.
    """
    path = folder / CERTIFICATE
    content = _content(path)
    try:
        certificate = Certificate(
            table_digest=str(content["table"]),
            release=Release.of(_bits(content["release"], schema)),
            small_count=_whole(content["small_count"]),
            min_width=_whole(content["min_width"]),
            proof=_proof(content, schema, folder),
            zeros=_zeros(content.get(STRUCTURAL_ZEROS, []), schema),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"{path} is damaged or of another table: {type(error).__name__}: {error}; run the build again"
        ) from error
    return certificate


def _number(part: ComponentProof) -> int:
    """Differences that are not empty."""
    return len(np.unique(part.differences.of))


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RunFolderError(f"{path} is missing: nothing proves that the release is safe; run the build again")
    content = read_json(path)
    found = content.get("format") if isinstance(content, dict) else None
    if found != CERTIFICATE_FORMAT:
        raise RunFolderError(
            f"{path} has format {found!r}, this version reads {CERTIFICATE_FORMAT}; run the build again or use the "
            "version that made it"
        )
    return dict(content)


def _whole(value: Any) -> int:
    # not isinstance, for which true is an integer
    if type(value) is not int:
        raise TypeError(f"{value!r} is no integer")
    return value


def _zeros(patterns: Any, schema: Schema) -> StructuralZeros:
    """Lists of (variable, codes) as structural zeros; ValueError where the table does not have them."""
    found = StructuralZeros(
        tuple(tuple((_whole(v), tuple(_whole(code) for code in codes)) for v, codes in pattern) for pattern in patterns)
    )
    try:
        found.check_names(schema)
    except InputError as error:
        raise ValueError(str(error)) from error
    return found


def _named(subtables: tuple[SubTable, ...], schema: Schema) -> list[list[str]]:
    return [st.names(subtable, schema) for subtable in subtables]


def _bits(listed: Any, schema: Schema) -> tuple[SubTable, ...]:
    """Lists of names as sub-tables; ValueError for a name that the table does not have."""
    if not isinstance(listed, list) or not all(isinstance(names, list) for names in listed):
        raise TypeError("a list of lists of variables is expected")
    # as text: a damaged list may hold anything, and what is sorted must be of one kind
    unknown = sorted({str(name) for names in listed for name in names} - set(schema.names))
    if unknown:
        raise ValueError(f"unknown variable {unknown[0]!r}, the table has {', '.join(schema.names)}")
    return tuple(st.named(names, schema) for names in listed)


def _part_facts(part: ComponentProof, schema: Schema) -> dict[str, Any]:
    inside = schema.restrict(st.members(part.variables))
    cover = part.cover and {
        "cliques": _named(part.cover.cliques, inside),
        "separators": _named(part.cover.separators, inside),
    }
    return {"variables": st.names(part.variables, schema), "cover": cover, "differences": _number(part)}


def _proof(content: dict[str, Any], schema: Schema, folder: Path) -> Proof:
    listed = content["components"]
    if not isinstance(listed, list) or not listed:
        raise ValueError("components: a list of at least one is expected")
    parts = tuple(_part(facts, schema, folder / DIFFERENCES.format(number)) for number, facts in enumerate(listed))
    return Proof(parts, _bits(content["separators"], schema))


def _part(facts: dict[str, Any], schema: Schema, path: Path) -> ComponentProof:
    # the cover numbers variables as the component's marginal table has them, so names are looked up in that schema
    (variables,) = _bits([facts["variables"]], schema)
    if not variables:
        raise ValueError("a component has no variables")
    inside = schema.restrict(st.members(variables))
    claimed = _whole(facts["differences"])
    differences = _differences(path, inside) if claimed else Differences.none(len(inside.axes))
    if len(differences) != claimed:
        raise ValueError(f"{path.name} has {len(differences)} differences, {claimed} are claimed")
    return ComponentProof(variables, _cover(facts["cover"], inside), differences)


def _cover(content: Any, schema: Schema) -> Decomposition | None:
    if content is None:
        return None
    return Decomposition(_bits(content["cliques"], schema), _bits(content["separators"], schema))


def _write_differences(part: ComponentProof, schema: Schema, path: Path) -> None:
    found, names = part.differences, _column_names(schema.restrict(st.members(part.variables)))
    # numbered without gaps: an empty difference has no row, and would be one that is claimed and not there
    _, number = np.unique(found.of, return_inverse=True)
    codes = {name: np.ascontiguousarray(found.cells[:, v]) for v, name in enumerate(names)}
    write_columns(path, {DIFFERENCE: number.astype(np.int64), **codes, CHANGE: found.changes})


def _column_names(schema: Schema) -> list[str]:
    """The axes' columns; they all get a prefix where one of them has the name of another column."""
    return [*variable_columns([schema.names[axis] for axis in schema.axes], OF_DIFFERENCES).values()]


def _differences(path: Path, schema: Schema) -> Differences:
    columns, _ = read_columns(path)
    names = _column_names(schema)
    expected = {DIFFERENCE: np.int64, **dict.fromkeys(names, np.uint16), CHANGE: np.int64}
    # the types exactly: codes or changes stored as floats might be rounded without a word
    found = {name: column.dtype for name, column in columns.items()}
    if found != {name: np.dtype(kind) for name, kind in expected.items()}:
        raise InputError(f"{path} is damaged: its columns are not {', '.join(expected)}; run the build again")
    cells = np.empty((len(columns[DIFFERENCE]), len(names)), np.uint16)
    for v, (name, size) in enumerate(zip(names, schema.keys.sizes, strict=True)):
        cells[:, v] = columns[name]
        if (cells[:, v] >= size).any():
            raise InputError(
                f"{path} is damaged: column {name!r} has the code {cells[:, v].max()}, the variable has "
                f"{size} categories; run the build again"
            )
    return Differences(_start(columns[DIFFERENCE], path), cells, columns[CHANGE])


def _start(number: npt.NDArray[np.int64], path: Path) -> npt.NDArray[np.int64]:
    """Where each difference starts, and the end; they are numbered from 0 without a gap, each in one piece."""
    # a difference in two pieces would pass for two, of which neither need sum to zero: refused by the file's name
    is_first = np.ones(len(number), np.bool_)
    is_first[1:] = number[1:] != number[:-1]
    first = np.flatnonzero(is_first)
    if not np.array_equal(number[first], np.arange(len(first))):
        raise InputError(f"{path} is damaged: its differences are not numbered 0, 1, ... in order; run the build again")
    return np.append(first, len(number))
