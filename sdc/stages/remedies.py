"""The remedies: recodes that free what stopped the release, and what coarser sub-tables may go out instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdc.executor import Executor
from sdc.model import subtable as st
from sdc.model.subtable import SubTable
from sdc.risk.inquiry import Inquiry
from sdc.search.blockers import blockers
from sdc.search.growth import Grown
from sdc.search.redesign import redesign
from sdc.search.remedies import Remedy, remedies
from sdc.stages.build import Build
from sdc.stages.search import SEARCH
from sdc.stages.stage import Say, Stage, effort_settings, given, plain
from sdc.stages.table import TABLE
from sdc.storage.results import write_remedies
from sdc.storage.run_folder import read_json, write_json

REDESIGNS = "redesigns.json"
MOST_REDESIGNED = 10  # sub-tables


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    settings, made = given(build.config.remedies, "remedies"), build.made
    start = Grown(made.found.release, made.certificate(SEARCH.name).proof, made.found.steps)
    inquiry = build.settings(executor).inquiry(made.table, made.known)
    tried = remedies(start, inquiry, settings.variables, lambda remedy: say(_describe(remedy)))
    write_remedies(tried, made.table.schema, into)
    write_json(into / REDESIGNS, {"redesigns": [_redesign(build, inquiry, t) for t in _refused(build)]})


def _refused(build: Build) -> list[SubTable]:
    """Required sub-tables that were refused, then others, as far as they have levels that could be coarser."""
    found, schema = build.made.found, build.made.table.schema
    required = () if found.required is None else found.required.refused
    stopped = [t for _, sub_tables in blockers(found.steps) for t in sub_tables]
    leveled = st.of(v for v, own in enumerate(schema.levels.of_axis) if own != 1 << v)
    return [t for t in dict.fromkeys([*required, *stopped]) if t & leveled][:MOST_REDESIGNED]


def _redesign(build: Build, inquiry: Inquiry, refused: SubTable) -> dict[str, Any]:
    """What coarser sub-tables may go out instead."""
    schema = build.made.table.schema
    instead = redesign(inquiry, build.made.found.release, refused)
    facts = None if instead is None else instead.facts(schema)
    return {"sub_table": st.names(refused, schema), "instead": facts}


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
        effort_settings(build.config),
        {name: list(levels) for name, levels in build.config.table.hierarchies.items()},
    ],
    make=_make,
    asked=lambda config: config.remedies is not None,
)
