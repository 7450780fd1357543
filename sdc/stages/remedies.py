"""The remedies: recodes that free what stopped the release, and what may go out instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdc.executor import Executor
from sdc.model import subtable as st
from sdc.model.subtable import SubTable
from sdc.search.blockers import blockers
from sdc.search.grown import Grown
from sdc.search.remedies import Remedy, remedies
from sdc.stages.assemble import SearchSettings
from sdc.stages.build import Build
from sdc.stages.redesigns import redesigns
from sdc.stages.search import SEARCH, search_settings
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.storage.results import write_remedies
from sdc.storage.run_folder import read_json, write_json

REDESIGNS = "redesigns.json"
MOST_REDESIGNED, MOST_MERGED = 10, 3  # sub-tables; to merge categories takes as long as to search what is required


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    settings, made = given(build.config.remedies, "remedies"), build.made
    start = Grown(made.found.release, made.certificate(SEARCH.name).proof, made.found.steps)
    searched = build.settings(executor)
    inquiry = searched.inquiry(made.table, made.known)
    tried = remedies(start, inquiry, settings.variables, lambda remedy: say(_describe(remedy)))
    write_remedies(tried, made.table.schema, into)
    merging = MOST_MERGED * build.config.may_coarsen
    redesigned = [_redesigned(build, searched, t, place < merging) for place, t in enumerate(_refused(build))]
    write_json(into / REDESIGNS, {"redesigns": redesigned})


def _refused(build: Build) -> list[SubTable]:
    """Required sub-tables that were refused, then others."""
    found = build.made.found
    required = () if found.required is None else found.required.refused
    stopped = [t for _, sub_tables in blockers(found.steps) for t in sub_tables]
    return list(dict.fromkeys([*required, *stopped]))[:MOST_REDESIGNED]


def _redesigned(build: Build, settings: SearchSettings, refused: SubTable, merging: bool) -> dict[str, Any]:
    """What may go out instead; a sub-table without levels has nothing coarser within that was not asked about."""
    made, schema = build.made, build.made.table.schema
    has_levels = any(schema.levels.of_axis[v] != 1 << v for v in st.members(refused))
    asked = made.table, made.known, settings, made.found.release, refused
    instead = redesigns(*asked, levels=has_levels, merging=merging)
    return {"sub_table": st.names(refused, schema), "instead": [one.facts for one in instead]}


def read_redesigns(folder: Path) -> list[dict[str, Any]]:
    """As the stage has written them."""
    found: list[dict[str, Any]] = read_json(folder / REDESIGNS)["redesigns"]
    return found


def _describe(remedy: Remedy) -> str:
    """One line for the progress, without a category."""
    recode = remedy.recode
    name = recode.before.names[recode.variable]
    what = f"leaving out {name}" if recode.leaves_out else f"merging two categories of {name}"
    return f"remedies: {what}: {len(remedy.freed)} of {len(remedy.asked)} sub-tables freed, {remedy.lost} lost"


REMEDIES = Stage(
    "remedies",
    "tries recodes on what stopped the release",
    needs=(TABLE.name, SEARCH.name),
    sections=lambda build: [
        plain(build.config.risk),
        plain(build.config.remedies),
        search_settings(build.config),
        build.config.may_coarsen,
        {name: list(levels) for name, levels in build.config.table.hierarchies.items()},
    ],
    make=_make,
    asked=lambda config: config.remedies is not None,
)
