"""The certificate of an assessment: what proves, cell by cell, that a release is safe. It is confidential.

`certificate.json` says what it is about, with what was public before as `known.json` has it, and holds the components
of the release with a decomposable cover of each, sub-tables by the names of the variables that tell their others;
`differences_<i>.parquet` holds feasible tables of the i-th component's marginal table as differences from it, shared
between the cells. The cells themselves and what is claimed of each are in the assessment's `cells.parquet`. Whether all
of it is true is for `sdc.verify` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.run_format import (
    ASKED,
    CERTIFICATE,
    CERTIFICATE_FORMAT,
    CHANGE,
    DIFFERENCE,
    DIFFERENCES,
    NOT_YET,
    OF_DIFFERENCES,
    PUBLIC_BEFORE,
)
from sdc.storage.known import damage_of, named, read, read_format, subtables, whole, written
from sdc.storage.parquet import read_cells, write_cells
from sdc.storage.run_folder import write_json


@dataclass(frozen=True, eq=False)
class Certificate:
    """The evidence for one table, one release and one risk criterion.

    table_digest  `Table.digest` of the full table
    known         what was public before, with structural zeros and other facts
    asked         what is released now
    small_count   cells of 1 up to this count are at risk
    min_width     the width that every at-risk cell must have
    proof         the components of all that is known then, and feasible tables of each
    """

    table_digest: str
    known: Knowledge
    asked: Release
    small_count: int
    min_width: int
    proof: Proof

    @cached_property
    def knowledge(self) -> Knowledge:
        """What the evidence is beside: all that is known once the release is out."""
        return self.known.plus(self.asked)

    @property
    def release(self) -> Release:
        """All that is public exactly then."""
        return self.knowledge.release


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
        "records": certificate.known.total,
        PUBLIC_BEFORE: written(certificate.known, folder),
        ASKED: named(certificate.asked.frontier, schema),
        "small_count": certificate.small_count,
        "min_width": certificate.min_width,
        "components": [_part_facts(part, schema) for part in certificate.proof.parts],
        "separators": named(certificate.proof.separators, schema),
        **{name: [] for name in NOT_YET},
    }
    write_json(folder / CERTIFICATE, content)


def read_certificate(folder: Path, schema: Schema) -> Certificate:
    """What `write_certificate` wrote.

    RunFolderError or InputError names the file that is missing or damaged, is of another format, or names a variable
    or a category that the table does not have.
    """
    path = folder / CERTIFICATE
    content = read_format(path, CERTIFICATE_FORMAT, "nothing proves that the release is safe")
    with damage_of(path):
        for name in NOT_YET:
            if content[name] != []:
                raise ValueError(f"{name}: an empty list is expected")
        return Certificate(
            table_digest=str(content["table"]),
            known=read(content[PUBLIC_BEFORE], schema, whole(content["records"]), folder),
            asked=Release.of(subtables(content[ASKED], schema)),
            small_count=whole(content["small_count"]),
            min_width=whole(content["min_width"]),
            proof=_proof(content, schema, folder),
        )


def _number(part: ComponentProof) -> int:
    """Differences that are not empty."""
    return len(np.unique(part.differences.of))


def _part_facts(part: ComponentProof, schema: Schema) -> dict[str, Any]:
    inside = schema.restrict(st.members(part.variables))
    cover = part.cover and {
        "cliques": named(part.cover.cliques, inside),
        "separators": named(part.cover.separators, inside),
    }
    return {"variables": st.names(part.variables, schema), "cover": cover, "differences": _number(part)}


def _proof(content: dict[str, Any], schema: Schema, folder: Path) -> Proof:
    listed = content["components"]
    if not isinstance(listed, list) or not listed:
        raise ValueError("components: a list of at least one is expected")
    parts = tuple(_part(facts, schema, folder / DIFFERENCES.format(number)) for number, facts in enumerate(listed))
    return Proof(parts, subtables(content["separators"], schema))


def _part(facts: dict[str, Any], schema: Schema, path: Path) -> ComponentProof:
    # the cover numbers variables as the component's marginal table has them, so names are looked up in that schema
    (variables,) = subtables([facts["variables"]], schema)
    if not variables:
        raise ValueError("a component has no variables")
    inside = schema.restrict(st.members(variables))
    claimed = whole(facts["differences"])
    differences = _differences(path, inside) if claimed else Differences.none(len(inside.axes))
    if len(differences) != claimed:
        raise ValueError(f"{path.name} has {len(differences)} differences, {claimed} are claimed")
    return ComponentProof(variables, _cover(facts["cover"], inside), differences)


def _cover(content: Any, schema: Schema) -> Decomposition | None:
    if content is None:
        return None
    return Decomposition(subtables(content["cliques"], schema), subtables(content["separators"], schema))


def _write_differences(part: ComponentProof, schema: Schema, path: Path) -> None:
    found = part.differences
    # numbered without gaps: an empty difference has no row, and would be one that is claimed and not there
    _, number = np.unique(found.of, return_inverse=True)
    numbers = {DIFFERENCE: number.astype(np.int64), CHANGE: found.changes}
    write_cells(path, schema.restrict(st.members(part.variables)), found.cells, numbers)


def _differences(path: Path, schema: Schema) -> Differences:
    cells, numbers = read_cells(path, schema, OF_DIFFERENCES)
    return Differences(starts(numbers[DIFFERENCE], path), cells, numbers[CHANGE])


def starts(number: npt.NDArray[np.int64], path: Path) -> npt.NDArray[np.int64]:
    """Where each difference starts, and the end; InputError where they are not 0, 1, ..., each in one piece."""
    # a difference in two pieces would pass for two, of which neither need sum to zero: refused by the file's name
    is_first = np.ones(len(number), np.bool_)
    is_first[1:] = number[1:] != number[:-1]
    first = np.flatnonzero(is_first)
    if not np.array_equal(number[first], np.arange(len(first))):
        raise InputError(f"{path} is damaged: its differences are not numbered 0, 1, ... in order; run the build again")
    return np.append(first, len(number))
