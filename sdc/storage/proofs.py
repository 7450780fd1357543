"""Proofs on disk: feasible tables of publications next to the ledger, and proofs of a search's refusals.

A file has differences of the full table, by codes of its axes, and their criterion. Ledger entries name the digests of
files. They are as confidential as the microdata.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdc import run_format as names
from sdc.feasible.differences import Differences
from sdc.feasible.witnesses import Witnesses, lifted
from sdc.model.documents import corrupt, typed
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from sdc.paths import require_own
from sdc.risk.criteria import Criteria
from sdc.risk.refutation import Refutation, refutation_facts
from sdc.storage.certificate import Certificate, starts
from sdc.storage.parquet import columns_in_memory, read_columns
from sdc.storage.run_folder import read_format, write_json
from sdc.storage.whole_file import sync

FOLDER, FILE = ".proofs", "{}.parquet"
FORMAT = "1"


@dataclass(frozen=True, eq=False)
class SavedProofs:
    """Feasible tables of earlier proofs, unchecked; and why some could not be read."""

    found: tuple[Differences, ...]
    lacking: tuple[str, ...] = ()


def witnesses_of(table: Table, known: Knowledge, proofs: SavedProofs | None) -> Witnesses | None:
    """Return the tables that are feasible under this knowledge; None without proofs."""
    if proofs is None:
        return None
    axes = len(table.schema.axes)
    own = [one for one in proofs.found if one.cells.shape[1] == axes]
    return Witnesses.of(table, known, Differences.concatenated([Differences.none(axes), *own]), proofs.lacking)


def proofs_folder(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + FOLDER)


def save_proof(folder: Path, certificate: Certificate, table: Table, proven: bool, run: Path) -> str:
    """Write the feasible tables of a certificate durably; return the digest of the file.

    run     the run folder: its next run replaces what a killed one has begun to write
    proven  whether every cell of the criterion is proven to have the width
    """
    found = lifted(certificate.proof, table)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_own(folder)
    columns = {f"axis {number}": np.ascontiguousarray(codes) for number, codes in enumerate(found.cells.T)}
    width = certificate.min_width if proven else 0
    metadata = {"format": FORMAT, "small_count": str(certificate.small_count), "min_width": str(width)}
    content = columns_in_memory({**columns, names.DIFFERENCE: found.of, names.CHANGE: found.changes}, metadata)
    # runs of one config in two folders, or on two machines, have one name
    own = hashlib.sha256(f"{socket.gethostname()}\0{run.absolute()}".encode()).hexdigest()[:16]
    digest, new = hashlib.sha256(content).hexdigest(), folder / f".new.{own}"
    new.touch(mode=0o600)
    new.write_bytes(content)
    sync(new)
    new.rename(folder / FILE.format(digest))
    sync(folder, folder.parent)
    return names.SHA256 + digest


def read_proofs(folder: Path, entries: Iterable[tuple[int, str]], small_count: int, min_width: int) -> SavedProofs:
    """Read the proofs of entries, newest first, up to one with a criterion at least as strict."""
    found, lacking = list[Differences](), list[str]()
    for number, digest in entries:
        path = folder / FILE.format(digest.removeprefix(names.SHA256))
        try:
            differences, criterion = _read(path, digest)
        except InputError as error:
            lacking.append(f"entry {number} of the ledger: {error}")
            continue
        found.append(differences)
        if criterion[0] >= small_count and criterion[1] >= min_width:
            break
    return SavedProofs(tuple(found), tuple(lacking))


def _read(path: Path, digest: str) -> tuple[Differences, tuple[int, int]]:
    if not digest:
        raise InputError("it was published by a version of sdc without proofs")
    if not path.is_file():
        raise InputError(f"its proof {path} is missing; restore the file")
    with path.open("rb") as file:
        same = names.SHA256 + hashlib.file_digest(file, "sha256").hexdigest() == digest
    if not same:
        raise InputError(f"its proof {path} was changed; restore the file")
    columns, metadata = read_columns(path)
    if metadata.get("format") != FORMAT:
        raise InputError(f"its proof {path} is of another version of sdc; use the one that wrote it")
    try:
        axes = [columns[f"axis {number}"] for number in range(len(columns) - len(names.OF_DIFFERENCES))]
        found = Differences(starts(columns[names.DIFFERENCE], path), np.stack(axes, axis=1), columns[names.CHANGE])
        return found, (int(metadata["small_count"]), int(metadata["min_width"]))
    except (LookupError, ValueError) as error:
        raise InputError(f"its proof {path} is not a proof ({error}); restore the file") from error


_ALL = tuple[Refutation, ...]


def write_refutations(found: Iterable[Refutation], table: Table, criteria: Criteria, folder: Path) -> None:
    """Write the refutations that steps of a search name, of this table and criterion."""
    content = {
        "format": names.REFUTATIONS_FORMAT,
        "table": table.digest,
        "small_count": criteria.small_count,
        "min_width": criteria.floor,
        names.REFUTATIONS: [refutation_facts(one, table.schema) for one in found],
    }
    write_json(folder / names.REFUTATIONS_FILE, content)


def read_refutations(folder: Path, table: Table) -> dict[str, Refutation]:
    """Read the refutations of this table by name.

    RunFolderError if the file is missing, corrupt, of another table, or has one under a wrong name.
    """
    path = folder / names.REFUTATIONS_FILE
    content = read_format(path, names.REFUTATIONS_FORMAT, "it has the proofs of the search's refusals")
    if content.get("table") != table.digest:
        raise corrupt(path, "it is of another table")
    metadata = content.get(names.REFUTATIONS)
    listed: list[Any] = metadata if isinstance(metadata, list) else []
    stated = [one.pop(names.NAME, None) for one in listed if isinstance(one, dict)]
    found = typed(_ALL, metadata, path, table.schema)
    if other := next((name for name, one in zip(stated, found, strict=True) if name != one.name), None):
        raise corrupt(path, f"{other} does not match its content")
    return {one.name: one for one in found}
