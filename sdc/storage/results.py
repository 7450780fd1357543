"""What the stages find, on disk and back: widths, the search, the assessment."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criterion import Assessment, Witness
from sdc.risk.critical_width import CriticalWidths
from sdc.search.ordered import OrderedRelease, SearchStep
from sdc.storage.parquet import read_columns, write_columns
from sdc.storage.run_folder import read_json, write_json

WIDTHS, SEARCH, CELLS, ASSESSMENT = "widths.parquet", "search.json", "cells.parquet", "assessment.json"


def write_widths(widths: CriticalWidths, schema: Schema, folder: Path) -> None:
    """Sub-tables as names and as bit sets, with their critical widths, in the list's order."""
    named = [st.label(t, schema) for t in widths.sub_tables.tolist()]
    columns: dict[str, Any] = {"sub_table": named, "bits": widths.sub_tables, "critical_width": widths.widths}
    write_columns(folder / WIDTHS, columns, {"floor": str(widths.floor), "visited": str(widths.visited)})


def read_widths(folder: Path) -> CriticalWidths:
    """What `write_widths` wrote; InputError where it is missing or damaged."""
    columns, metadata = read_columns(folder / WIDTHS)
    bits, widths = columns["bits"].astype(np.uint64), columns["critical_width"].astype(np.int64)
    return CriticalWidths(bits, widths, int(metadata["floor"]), int(metadata["visited"]))


def write_search(found: OrderedRelease, method: str, schema: Schema, folder: Path) -> None:
    """The released frontier and every step that led to it."""
    steps = [{**asdict(step), "added": [st.names(t, schema) for t in step.added]} for step in found.steps]
    write_json(folder / SEARCH, {"method": method, **release_facts(found.release, schema), "steps": steps})


def read_search(folder: Path, schema: Schema) -> tuple[Release, tuple[SearchStep, ...]]:
    """What `write_search` wrote; RunFolderError where it is missing or damaged."""
    content = read_json(folder / SEARCH)
    release = Release.of(_bits(names, schema) for names in content["frontier"])
    return release, tuple(_step(step, schema) for step in content["steps"])


def _step(step: dict[str, Any], schema: Schema) -> SearchStep:
    added = tuple(_bits(names, schema) for names in step["added"])
    low, high = step["min_width"]
    return SearchStep(**{**step, "added": added, "min_width": (low, high)})


def release_facts(release: Release, schema: Schema) -> dict[str, Any]:
    """Frontier by names, and how many sub-tables it stands for."""
    return {
        "frontier": [st.names(element, schema) for element in release.frontier],
        "sub_tables": release.sub_tables,
        "sub_tables_with_total": release.sub_tables_with_total,
    }


def write_assessment(assessment: Assessment, bounds: CellBounds, schema: Schema, folder: Path) -> None:
    """The answer, and the bounds of every at-risk cell."""
    named = {
        variable.name: np.array(variable.categories, object)[bounds.cells[:, v]]
        for v, variable in enumerate(schema.variables)
    }
    ends = {
        "count": bounds.counts,
        "outer_lower": bounds.outer[:, 0],
        "outer_upper": bounds.outer[:, 1],
        "inner_lower": bounds.inner[:, 0],
        "inner_upper": bounds.inner[:, 1],
        "exact": bounds.exact,
    }
    clash = sorted(set(named) & set(ends))
    prefix = "variable:" if clash else ""
    columns = {**{prefix + name: column for name, column in named.items()}, **ends}
    write_columns(folder / CELLS, columns, {"method": bounds.method})
    write_json(folder / ASSESSMENT, assessment_facts(assessment, schema))


def read_assessment(folder: Path, table: Table, small_count: int) -> tuple[Assessment, CellBounds]:
    """What `write_assessment` wrote; InputError or RunFolderError where it is missing or damaged."""
    columns, metadata = read_columns(folder / CELLS)
    rows = table.at_risk(small_count)
    outer = np.stack([columns["outer_lower"], columns["outer_upper"]], axis=1)
    inner = np.stack([columns["inner_lower"], columns["inner_upper"]], axis=1)
    bounds = CellBounds(table.codes[rows], table.counts[rows], outer, inner, metadata["method"])
    content = read_json(folder / ASSESSMENT)
    witnesses = tuple(_witness(w, table.schema) for w in content["witnesses"])
    low, high = content["min_width"]
    return Assessment(**{**content, "min_width": (low, high), "witnesses": witnesses}), bounds


def assessment_facts(assessment: Assessment, schema: Schema) -> dict[str, Any]:
    """An assessment with the categories of its witnesses by name."""
    witnesses = [{**asdict(w), "cell": cell_facts(w.cell, schema)} for w in assessment.witnesses]
    return {**asdict(assessment), "witnesses": witnesses}


def cell_facts(cell: tuple[int, ...], schema: Schema) -> dict[str, str]:
    """The categories of a cell by the names of their variables."""
    return {v.name: v.categories[code] for v, code in zip(schema.variables, cell, strict=True)}


def _witness(content: dict[str, Any], schema: Schema) -> Witness:
    cell = tuple(v.categories.index(content["cell"][v.name]) for v in schema.variables)
    return Witness(cell, content["count"], tuple(content["outer"]), tuple(content["inner"]), content["method"])


def _bits(names: list[str], schema: Schema) -> SubTable:
    return st.of(schema.index(name) for name in names)
