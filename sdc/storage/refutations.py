"""What proves refusals, on disk and back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sdc.model.documents import damaged, typed
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.refutation import Refutation, refutation_facts
from sdc.run_format import NAME, REFUTATIONS, REFUTATIONS_FILE, REFUTATIONS_FORMAT
from sdc.storage.run_folder import read_format, write_json

_ALL = tuple[Refutation, ...]


def write_refutations(found: Iterable[Refutation], table: Table, criteria: Criteria, folder: Path) -> None:
    """Those that steps of a search name, of this table and for these criteria."""
    content = {
        "format": REFUTATIONS_FORMAT,
        "table": table.digest,
        "small_count": criteria.small_count,
        "min_width": criteria.floor,
        REFUTATIONS: [refutation_facts(one, table.schema) for one in found],
    }
    write_json(folder / REFUTATIONS_FILE, content)


def read_refutations(folder: Path, table: Table) -> dict[str, Refutation]:
    """What `write_refutations` wrote of this table, by name.

    RunFolderError where it is missing, damaged, of another table, or has one by a name that is not its own.
    """
    path = folder / REFUTATIONS_FILE
    content = read_format(path, REFUTATIONS_FORMAT, "it is what proves the search's refusals")
    if content.get("table") != table.digest:
        raise damaged(path, "it is of another table")
    told = content.get(REFUTATIONS)
    listed: list[Any] = told if isinstance(told, list) else []
    names = [one.pop(NAME, None) for one in listed if isinstance(one, dict)]
    found = typed(_ALL, told, path, table.schema)
    if other := next((name for name, one in zip(names, found, strict=True) if name != one.name), None):
        raise damaged(path, f"{other} is not the name of what it says")
    return {one.name: one for one in found}
