"""The audit report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sdc.config.build import ELSEWHERE, BuildConfig
from sdc.executor import Executor
from sdc.intruder.side_by_side import Measured, least_releases
from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds
from sdc.model.subtable import SubTable
from sdc.run_format import BAD_RECORDS
from sdc.search.ordered import ordered_list
from sdc.stages.assemble import SearchSettings, utility_of_release
from sdc.stages.assessment import ASSESSMENT
from sdc.stages.attack import ATTACK
from sdc.stages.build import Build
from sdc.stages.curve import CURVE
from sdc.stages.posterior import POSTERIOR
from sdc.stages.remedies import REMEDIES, read_redesigns
from sdc.stages.search import SEARCH
from sdc.stages.stage import Say, Stage
from sdc.stages.table import TABLE
from sdc.stages.uniques import UNIQUES
from sdc.stages.weighted import WEIGHTED
from sdc.stages.widths import WIDTHS
from sdc.storage import results
from sdc.storage.run_folder import read_json, write_json
from sdc.storage.weighted import read_weighted
from sdc.utility.halvings import halvings_facts

PAGE, UTILITY, MEASURES = "report.html", "utility.json", "measures.json"


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    from sdc.report.audit import AuditEvidence, render

    config, made, found, folder = build.config, build.made, build.made.found, build.folder.stage
    wanted, schema = build.settings(executor), made.table.schema
    public = made.beside.plus(found.release)
    measured = utility_of_release(made.table, public, wanted.weights(schema), wanted.requests(schema))
    utility = {**measured.facts, **halvings_facts(found.halvings)}
    write_json(into / UTILITY, utility)
    assessment, bounds = made.assessed(config.risk.small_count)
    posteriors = results.read_posteriors(folder(POSTERIOR.name)) if config.posterior else ()
    measures = _measures(build, bounds, posteriors)
    if measures:
        write_json(into / MEASURES, {"releases": measures})
    audit = AuditEvidence(
        config,
        build.digests,
        made.table,
        made.known,
        build.criteria,
        build.policy,
        made.widths,
        found,
        assessment,
        bounds,
        listed=_listed(build, wanted),
        utility=utility,
        curve=results.read_curve(folder(CURVE.name)) if config.curve else (),
        likely_curve=results.read_likely_curve(folder(CURVE.name)) if _limits(config) else (),
        remedies=results.read_remedies(folder(REMEDIES.name), schema) if config.remedies else None,
        redesigns=read_redesigns(folder(REMEDIES.name)) if config.remedies else (),
        posteriors=posteriors,
        measures=measures,
        groups=results.read_groups(folder(POSTERIOR.name)) if config.posterior else None,
        uniques=results.read_uniques(folder(UNIQUES.name), made.table) if config.uniques else None,
        guesses=results.read_guesses(folder(ATTACK.name)) if config.attack else None,
        refutations=made.refutations,
        refusals=results.read_refusals(folder(POSTERIOR.name)) if _asks_again(config) else None,
        weighted=read_weighted(folder(WEIGHTED.name), schema) if config.totals else None,
        bad_records=read_json(folder(TABLE.name) / BAD_RECORDS),
        origin=build.origin,
        again={one.view: one.again for one in wanted.wished(made.known).in_part if wanted.like},
    )
    (into / PAGE).write_text(render(audit), encoding="utf-8")


def _measures(build: Build, bounds: CellBounds, posteriors: Sequence[Summary]) -> list[dict[str, Any]]:
    """Of the release, by the first law that is known, and of the least that might go out; none without a posterior."""
    if (asked := build.config.posterior) is None:
        return []
    made, rows = build.made, build.made.table.at_risk(build.criteria.small_count)
    summary = next((one for one in posteriors if one.reason is None), posteriors[0])
    own = Measured("this release", made.found.release.sub_tables(made.table.schema), bounds, summary)
    every = (own, *least_releases(made.table, made.known, rows))
    return [one.facts(asked.threshold, build.losses) for one in every]


def _listed(build: Build, wanted: SearchSettings) -> tuple[SubTable, ...]:
    """The list that a bisection asked about."""
    if build.config.release.method != "bisection":
        return ()
    listed = ordered_list(build.made.widths, build.criteria.floor, wanted.wished(build.made.known))
    return tuple(build.criteria.keeping(build.made.table, build.made.known.zeros, listed))


def _limits(config: BuildConfig) -> bool:
    return config.curve is not None and bool(config.curve.max_above)


def _asks_again(config: BuildConfig) -> bool:
    return config.posterior is not None and config.posterior.refusals > 0


REPORT = Stage(
    "confidential",
    "writes the audit report",
    needs=tuple(
        of.name for of in (TABLE, WIDTHS, SEARCH, ASSESSMENT, CURVE, REMEDIES, POSTERIOR, UNIQUES, ATTACK, WEIGHTED)
    ),
    sections=lambda build: build.config.model_dump(mode="json", exclude=ELSEWHERE),
    make=_make,
    version=2,
)
