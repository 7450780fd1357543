"""The posterior: what an intruder may hold likely of each at-risk cell, law by law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdc.checkpoint import Checkpoint, packed, unpacked
from sdc.executor import Executor
from sdc.intruder.chains import Sampling
from sdc.intruder.measures import groups
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary, laws_of, summaries
from sdc.model.marginal import CellMarginals
from sdc.stages.build import Build
from sdc.stages.refusals import refusals
from sdc.stages.search import SEARCH, search_settings
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.storage.results import write_posteriors, write_refusals


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Laws are kept one by one: a build that is killed goes on after its last whole one."""
    asked, table, release = given(build.config.posterior, "posterior"), build.made.table, build.made.found.release
    cells = table.codes[table.at_risk(build.criteria.small_count)]
    known, laws = build.made.beside.plus(release), laws_of(asked.laws, asked.alpha, table.schema)
    held = groups(CellMarginals(table, cells), known, asked.share)
    sampling = Sampling(asked.draws, asked.chains, asked.seed, asked.error, max(asked.draws, asked.most_draws))

    checkpoint, kind = (
        Checkpoint.open(build.folder.parts(POSTERIOR.name), POSTERIOR.key(build), say),
        tuple[Summary, ...],
    )
    kept = list(unpacked(kind, checkpoint.found.get("laws"), "laws") or ())

    def tell_of(found: Summary) -> None:
        kept.append(found)
        checkpoint.write("laws", {"laws": packed(kind, tuple(kept))})
        say(_describe_law(found, asked.threshold))

    told = summaries(table, known, cells, laws, held, sampling, executor, tell_of, tuple(kept))
    write_posteriors(told, held, table.schema, into)
    if asked.refusals:
        settings, method = build.settings(executor), build.config.release.method
        parts = build.made.found.parts
        if build.made.found.ended_after or build.made.found.resumed:
            again = Refusals.none("the search ended early or was resumed, and no other one goes the same way")
        else:
            again = refusals(table, build.made.known, settings, method, release, asked.refusals, parts)
        say(_describe_refusals(again))
        write_refusals(again, into)


def _describe_law(summary: Summary, threshold: float) -> str:
    if summary.reason is not None:
        return f"posterior: {summary.label}: {summary.reason}"
    return f"posterior: {summary.label}: by {summary.engine}, {100 * summary.identified(threshold):.2f} % identified"


def _describe_refusals(found: Refusals) -> str:
    if found.reason is not None:
        return f"posterior: refusals: {found.reason}"
    return f"posterior: refusals: {found.alike} of {found.feasible_tables} tables lead to the same release"


def _settings(build: Build) -> list[Any]:
    """What it depends on: on the search only where that is done again; not on the report's threshold and losses."""
    config, asked = build.config, build.config.posterior
    again = [plain(config.risk), search_settings(config), build.listing.floor, build.listing.most]
    own = asked and asked.model_dump(mode="json", exclude={"threshold", "losses"})
    return [config.risk.small_count, own, again if asked and asked.refusals else None]


POSTERIOR = Stage(
    "posterior",
    "says what an intruder may hold likely",
    needs=(TABLE.name, SEARCH.name),
    sections=_settings,
    make=_make,
    asked=lambda config: config.posterior is not None,
    version=2,
)
