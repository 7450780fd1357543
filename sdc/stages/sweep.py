"""The width sweep alone: its stages, which ask for no more than a sweep needs, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.release import Release
from sdc.stages.build import Build
from sdc.stages.stage import Say
from sdc.stages.table import TABLE
from sdc.stages.widths import WIDTHS
from sdc.storage.parquet import open_parts, place_of

NARROWEST = 10


def _require_at_risk(build: Build, folder: Path, say: Say) -> None:
    """InputError before the table has its place: of one without at-risk cells no width says anything."""
    TABLE.enter(build, folder, say)
    small_count = build.criteria.small_count
    if not _at_risk_cells(folder, small_count):
        raise InputError(
            f"no cell of the table has from 1 to {small_count} records, so that none is at risk and there is nothing "
            "to sweep; raise risk.small_count, or build the release: sdc run"
        )


def _at_risk_cells(folder: Path, small_count: int) -> int:
    return sum(int((counts <= small_count).sum()) for counts in open_parts(place_of(folder)).counts())


ALONE = (
    replace(TABLE, enter=_require_at_risk),
    replace(WIDTHS, require=lambda build, table: build.needs.require_sweep(table)),
)
"""The stages of a sweep with no build after it; what they make is the same."""


def sweep_facts(build: Build) -> dict[str, Any]:
    """What a sweep that is done has found: sizes, and the sub-tables of the smallest critical widths first."""
    folder, widths, small_count = build.folder.stage(TABLE.name), build.made.widths, build.criteria.small_count
    table, least = open_parts(place_of(folder)), build.criteria.floor
    last = slice(None, -NARROWEST - 1, -1)
    narrowest = zip(widths.sub_tables[last].tolist(), widths.widths[last].tolist(), strict=True)
    return {
        "run_folder": str(build.folder.path),
        "records": table.total,
        "variables": len(table.schema),
        "all_sub_tables": Release.of([st.full(len(table.schema))]).sub_tables_with_total(table.schema),
        "cells": len(table),
        "small_count": small_count,
        "at_risk_cells": _at_risk_cells(folder, small_count),
        "floor": widths.floor,
        "cut": widths.cut(build.listing.floor) or None,
        "sub_tables": len(widths),
        "visited": widths.visited,
        "min_width": least,
        "reaching": widths.number_reaching(least) if widths.has_all(least) else None,  # else some are not listed
        "narrowest": [{"sub_table": st.names(t, table.schema), "critical_width": width} for t, width in narrowest],
    }


def sweep_lines(facts: dict[str, Any]) -> Sequence[str]:
    """The same to read."""
    named = [("*".join(one["sub_table"]) or "(total)", one["critical_width"]) for one in facts["narrowest"]]
    reaching = f"min width     {facts['reaching']} of them reach the {facts['min_width']} that min_width asks for"
    listed = f", those of critical width {facts['floor']} or more" if facts["floor"] else ""
    cut = [] if facts["cut"] is None else [f"              {facts['cut']}"]
    return [
        f"table         {facts['records']:,} records of {facts['variables']} variables in {facts['cells']:,} cells, "
        f"{facts['at_risk_cells']:,} of them at risk: at most {facts['small_count']} records",
        f"sub-tables    {facts['sub_tables']:,} of {facts['all_sub_tables']:,} listed{listed}; "
        f"{facts['visited']:,} visited",
        *cut,
        *([] if facts["reaching"] is None else [reaching]),
        f"narrowest     {'critical_width  sub_table' if named else 'none is listed'}",
        *(f"              {width:14,}  {name}" for name, width in named),
        f"run folder    {facts['run_folder']}",
    ]
