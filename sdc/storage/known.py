"""What is public of a table before anything is released, on disk: `known.json` beside the table.

It has sub-tables by the names of the variables that tell their others, and variables and categories of structural zeros
and universes by number, as the table's schema has them. `known_<i>.parquet` has the cells of the i-th fact whose counts
are known between two numbers. A certificate has the same document, and the same files, of what it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import InputError, RunFolderError
from sdc.model.fact import Between, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.run_format import FACTS, HIGH, KNOWN, KNOWN_CELLS, KNOWN_FORMAT, LOW, OF_KNOWN_CELLS, RELEASE, STRUCTURAL_ZEROS
from sdc.storage.parquet import read_cells, write_cells
from sdc.storage.run_folder import read_json, write_json


def write_known(known: Knowledge, folder: Path, **more: Any) -> None:
    """Writes all files, with more that the JSON is to say; the same gives the same bytes.

    OSError where it cannot be written, ReleaseError where totals of weights are known.
    """
    write_json(folder / KNOWN, {"format": KNOWN_FORMAT, **written(known, folder), **more})


def read_known(folder: Path, table: Table) -> Knowledge:
    """What `write_known` wrote.

    RunFolderError or InputError names the file that is missing or damaged, is of another format, or names what the
    table does not have; InputError where something that is known is not true of the table.
    """
    told = read_told(folder)
    with damage_of(folder / KNOWN):
        found = read(told, table.schema, table.total, folder)
    return Knowledge.of(table, found.release, found.zeros, found.facts)


def read_told(folder: Path) -> dict[str, Any]:
    """All that the JSON says; RunFolderError where it is missing, damaged or of another format."""
    return read_format(folder / KNOWN, KNOWN_FORMAT, "nothing says what was public of the table before")


def read_format(path: Path, version: int, lacks: str) -> dict[str, Any]:
    """The content of a JSON file; RunFolderError where it is damaged, of another format, or lacks, and why it must not.

    The format is that of its name.
    """
    if not path.is_file():
        raise RunFolderError(f"{path} is missing: {lacks}; run the build again")
    content = read_json(path)
    found = content.get("format") if isinstance(content, dict) else None
    if found != version:
        raise RunFolderError(
            f"{path} has format {found!r}, this version reads {version}; run the build again or use the version that "
            "made it"
        )
    return dict(content)


@contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """RunFolderError with the file's name for content that is not what is expected."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunFolderError(
            f"{path} is damaged or of another table: {type(error).__name__}: {error}; run the build again"
        ) from error


# The document


def written(known: Knowledge, folder: Path) -> dict[str, Any]:
    """What is known of counts, as JSON has it; the cells of its facts are written into the folder.

    ReleaseError where totals of weights are known.
    """
    known.require_counts_alone()
    schema, facts = known.schema, []
    for number, fact in enumerate(known.facts):
        cells = 0 if fact.between is None else len(fact.between.cells)
        facts.append(
            {
                "view": st.names(fact.view, schema),
                "universe": fact.universe,
                "between": cells,
                "source": fact.source,
            }
        )
        if fact.between is not None and cells:
            told = {LOW: fact.between.low.astype(np.int64), HIGH: fact.between.high.astype(np.int64)}
            write_cells(folder / KNOWN_CELLS.format(number), _inside(fact.view, schema), fact.between.cells, told)
    return {
        RELEASE: named(known.release.frontier, schema),
        STRUCTURAL_ZEROS: known.zeros.patterns,
        FACTS: facts,
    }


def read(content: Any, schema: Schema, total: int, folder: Path) -> Knowledge:
    """What `written` made; KeyError, TypeError or ValueError for what it cannot have made, InputError for its files."""
    release = Release.of(subtables(content[RELEASE], schema))
    zeros = StructuralZeros(tuple(map(_pattern, content[STRUCTURAL_ZEROS])))
    facts = tuple(_fact(told, number, schema, folder) for number, told in enumerate(content[FACTS]))
    try:
        return Knowledge(schema, total, release, zeros, facts)
    except InputError as error:
        raise ValueError(str(error)) from error


def _fact(told: Any, number: int, schema: Schema, folder: Path) -> Fact:
    (view,), path, between = subtables([told["view"]], schema), folder / KNOWN_CELLS.format(number), None
    if claimed := whole(told["between"]):
        cells, numbers = read_cells(path, _inside(view, schema), OF_KNOWN_CELLS)
        if len(cells) != claimed:
            raise ValueError(f"{path.name} has {len(cells)} cells, {claimed} are claimed")
        between = Between(cells, numbers[LOW], numbers[HIGH])
    return Fact(view, _pattern(told["universe"]), between, str(told["source"]))


def _inside(view: SubTable, schema: Schema) -> Schema:
    return schema.restrict(st.members(view))


def _pattern(listed: Any) -> Pattern:
    """Lists of (variable, codes); what the table has of them is looked at by who uses it."""
    return tuple((whole(v), tuple(map(whole, codes))) for v, codes in listed)


def whole(value: Any) -> int:
    """A number that JSON has as an integer; TypeError for all else."""
    # not isinstance, for which true is an integer
    if type(value) is not int:
        raise TypeError(f"{value!r} is no integer")
    return value


def named(listed: tuple[SubTable, ...], schema: Schema) -> list[list[str]]:
    """Each by the names of what tells the rest of it."""
    return [st.names(subtable, schema) for subtable in listed]


def subtables(listed: Any, schema: Schema) -> tuple[SubTable, ...]:
    """Lists of names as sub-tables; ValueError for a name that the table does not have."""
    if not isinstance(listed, list) or not all(isinstance(names, list) for names in listed):
        raise TypeError("a list of lists of variables is expected")
    # as text: a damaged list may hold anything, and what is sorted must be of one kind
    unknown = sorted({str(name) for names in listed for name in names} - set(schema.names))
    if unknown:
        raise ValueError(f"unknown variable {unknown[0]!r}, the table has {', '.join(schema.names)}")
    return tuple(st.named(names, schema) for names in listed)
