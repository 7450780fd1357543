"""The audit report, the optional stages that it shows, and the searches that these repeat."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.bounds.enumeration import enumerate_tables, feasible_tables
from sdc.checkpoint import packed, unpacked
from sdc.config.given import with_given
from sdc.executor import IN_PROCESS
from sdc.feasible.proof import Proof
from sdc.feasible.suppressed_cells import begins, places_in
from sdc.intruder.chains import Sampling
from sdc.intruder.decision import RatedRelease, ReleaseRating, named_releases
from sdc.intruder.guesses import Guesses
from sdc.intruder.measures import groups
from sdc.intruder.refusals import Refusals
from sdc.intruder.side_by_side import MeasuredRelease, least_releases
from sdc.intruder.summary import Summary, laws_of, summaries
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import InputError, NotReleasableError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.levels import numbered
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.model.table import Table
from sdc.model.weights import UNIT
from sdc.protect.recoding import without_levels
from sdc.protect.release import protect
from sdc.public.attack import guesses
from sdc.risk.effort import Depth
from sdc.run_format import ASSESSMENT, ATTACK, BAD_RECORDS, CURVE, POSTERIOR, REMEDIES, SEARCH, TABLE, UNIQUES, WEIGHTED
from sdc.search.best import FoundRelease
from sdc.search.blockers import blockers
from sdc.search.curve import CurvePoint, CurveSearch, LikelyCurve, LikelyPoint
from sdc.search.grown import Grown
from sdc.search.ordered import ordered_list
from sdc.search.recodings import Recoding, Recodings, coarser, recodes
from sdc.stages.answers import attack_on_public
from sdc.stages.assemble import SearchSettings, no_widths, release_search, utility_of_release
from sdc.stages.build import Build, Work, given, plain
from sdc.stages.search import search_settings
from sdc.storage import results
from sdc.storage.certificate import read_weighted, write_weighted
from sdc.storage.run_folder import read_json, write_json
from sdc.utility.halvings import halvings_facts
from sdc.utility.uniques import Uniques, uniques_by
from sdc.weighted.choice import choose

PAGE, UTILITY, MEASURES = "report.html", "utility.json", "measures.json"
MOST_REDESIGNED, MOST_MERGED = 10, 3  # sub-tables; recoding takes as long as a search of the required ones


def curve(work: Work, into: Path) -> None:
    """Find the releases of other risk criteria."""
    build, made, settings = work.build, work.build.made, given(work.build.config.curve, "curve")
    search, small_count = build.settings(work.executor), build.config.risk.small_count
    rating = None
    if settings.decision is not None:
        rating = ReleaseRating(made.table, settings.decision, small_count, work.executor)

    def rate(name: str, release: Release, proof: Proof | None = None) -> None:
        if rating is None:
            return
        evaluator = search.evaluator(made.table, made.known)
        if proof is not None:  # of a point of the curve, which may have been found by a weaker criterion
            evaluator.learn(proof, release)
        is_out = evaluator.accepts(evaluator.evaluate(release))
        rating.rate(name, made.known.plus(release), None if is_out else "the criteria of risk do not allow it")

    def on_point(point: CurvePoint, found: FoundRelease | None) -> None:
        criteria = f"small count {point.small_count}, min width {point.min_width_required}"
        work.say(f"curve: {point.method}, {criteria}: {point.sub_tables} sub-tables")
        if found:
            rate(point.name, found.release, found.proof)

    points = CurveSearch(
        release_search(made.table, made.known, search, made.widths),
        settings.min_width,
        settings.small_count or (small_count,),
        settings.methods,
        on_point,
    )
    results.write_points(points.run(), CurvePoint, into)
    if rating:
        for name, release in named_releases(given(settings.decision, "decision"), made.table.schema).items():
            rate(name, release)
        work.say(f"curve: decision: {rating.choice.headline}")
        results.write_points(rating.choice, RatedRelease, into)
    if settings.max_above:
        # fresh chains
        chains = release_search(made.table, made.known, build.settings(work.executor), made.widths).decomposable
        limits = settings.threshold, settings.max_above
        likely = LikelyCurve(chains, *limits, lambda point: work.say(_describe_likely_point(point)))
        results.write_points(likely.run(), LikelyPoint, into)


def _describe_likely_point(point: LikelyPoint) -> str:
    limit = "no limit" if point.max_above is None else f"at most {point.max_above:g} above the threshold"
    found = point.reason or f"{point.sub_tables} sub-tables, {point.above or 0:.4f} above the threshold"
    return f"curve: decomposable, {limit}: {found}"


def recode(work: Work, into: Path) -> None:
    """Find recodes that free refused sub-tables, and alternatives for them."""
    build, made, settings = work.build, work.build.made, given(work.build.config.remedies, "remedies")
    start = Grown(made.found.release, made.certificate(SEARCH).proof, made.found.steps)
    table, known, wanted, refused = made.table, made.known, build.settings(work.executor), _refused(build)
    found = recodes(start, wanted.evaluator(table, known), settings.variables, work.say)
    merging = MOST_MERGED * build.config.may_coarsen
    for place, sub_table in enumerate(refused):
        # a sub-table without levels has only sub-tables that were evaluated already
        levels = any(table.schema.levels.of_axis[v] != 1 << v for v in st.members(sub_table))
        found += recodings(table, known, wanted, made.found.release, sub_table, levels, place < merging)
    results.write_recodings(found, refused, table.schema, into)


def _refused(build: Build) -> list[SubTable]:
    """Return required sub-tables that were refused, then others."""
    found = build.made.found
    required = () if found.required is None else found.required.refused
    stopped = [t for _, sub_tables in blockers(found.steps) for t in sub_tables]
    return list(dict.fromkeys([*required, *stopped]))[:MOST_REDESIGNED]


def posterior(work: Work, into: Path) -> None:
    """Compute posteriors law by law; a killed build continues after the last finished law."""
    build, found = work.build, work.build.made.found
    posterior_config, table, release = given(build.config.posterior, "posterior"), build.made.table, found.release
    cells = table.codes[table.at_risk(build.criteria.small_count)]
    known, laws = build.made.beside.plus(release), laws_of(posterior_config.laws, posterior_config.alpha, table.schema)
    held = groups(CellMarginals(table, cells), known, posterior_config.share)
    sampling = Sampling(**posterior_config.sampling)
    checkpoint, kind = work.checkpoint(), tuple[Summary, ...]
    finished = list(unpacked(kind, checkpoint.found.get("laws"), "laws") or ())

    def on_law(found: Summary) -> None:
        finished.append(found)
        checkpoint.write("laws", {"laws": packed(kind, tuple(finished))})
        threshold = posterior_config.threshold
        line = found.reason or f"by {found.engine}, {100 * found.identified(threshold):.2f} % identified"
        work.say(f"posterior: {found.label}: {line}")

    all_laws = summaries(table, known, cells, laws, held, sampling, work.executor, on_law, tuple(finished))
    results.write_posteriors(all_laws, held, table.schema, into)
    if posterior_config.refusals:
        if found.ended_after or found.resumed:
            again = Refusals.none("the search ended early or was resumed, so it cannot be repeated")
        else:
            again_by = build.settings(work.executor), build.config.release.method, release, posterior_config.refusals
            again = refusals(table, build.made.known, *again_by, found.suppressed_tables)
        line = again.reason or f"{again.alike} of {again.feasible_tables} tables lead to the same release"
        work.say(f"posterior: refusals: {line}")
        results.write_refusals(again, into)


def posterior_settings(build: Build) -> list[Any]:
    """Return what posteriors depend on; the search counts only for refusals, thresholds and losses do not count."""
    config, section = build.config, build.config.posterior
    again = [plain(config.risk), search_settings(config), build.listing.floor, build.listing.most]
    own = section and section.recorded(exclude={"threshold", "losses"})
    return [config.risk.small_count, own, again if section and section.refusals else None]


def uniques(work: Work, into: Path) -> None:
    """Estimate uniques; a failed estimate is reported, and does not stop the release."""
    made, section = work.build.made, given(work.build.config.uniques, "uniques")
    weights = made.weights if section.fraction is None else None
    try:
        found: Uniques | str = uniques_by(made.table, made.public, section.fraction, section.model, weights)
    except InputError as error:
        found = str(error)
    results.write_uniques(found, made.table.schema, into)
    work.say(f"uniques: {found if isinstance(found, str) else f'by {found.estimator}'}")


def attack(work: Work, into: Path) -> None:
    """Attack the release; a failed attack is reported, and does not stop the release."""
    made, section = work.build.made, given(work.build.config.attack, "attack")
    try:
        attacked = attack_on_public(made.table, made.public, section.seeds)
        found: Guesses | str = guesses(attacked, made.table, work.build.criteria.small_count)
    except InputError as error:
        found = str(error)
    results.write_guesses(found, into)
    work.say(f"attack: {found if isinstance(found, str) else f'by {found.methods[0]}'}")


def weigh(work: Work, into: Path) -> None:
    """Choose the releasable totals of weights, with their proof."""
    build, made, section = work.build, work.build.made, given(work.build.config.totals, "table.weight")
    certificate, base = made.certificate(ASSESSMENT), section.round * UNIT
    known, proof = certificate.knowledge, certificate.proof
    chosen = choose(made.table, made.weights, known, build.criteria, proof, base, work.executor, section.programs)
    work.say(
        f"weighted: {len(chosen.totals)} tables of totals are releasable, {len(chosen.withheld)} of the "
        "frontier are not"
    )
    write_weighted(chosen, made.table.schema, into)


def report(work: Work, into: Path) -> None:
    """Write the audit report."""
    from sdc.report.audit import AuditEvidence, render

    build, config, made, folder = work.build, work.build.config, work.build.made, work.build.folder.stage
    wanted, schema, found = build.settings(work.executor), made.table.schema, made.found
    measured = utility_of_release(
        made.table, made.public, wanted.weights(schema), config.release.objective, wanted.requests(schema)
    )
    utility = {**measured.facts, **halvings_facts(found.halvings)}
    write_json(into / UTILITY, utility)
    assessment, bounds = made.assessed(config.risk.small_count)
    posteriors = results.read_posteriors(folder(POSTERIOR)) if config.posterior else ()
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
        curve=results.read_points(CurvePoint, folder(CURVE)) if config.curve else (),
        likely_curve=results.read_points(LikelyPoint, folder(CURVE)) if config.curve and config.curve.max_above else (),
        choice=results.read_points(RatedRelease, folder(CURVE)) if config.curve and config.curve.decision else (),
        recodings=results.read_recodings(folder(REMEDIES), schema) if config.remedies else None,
        posteriors=posteriors,
        measures=measures,
        groups=results.read_groups(folder(POSTERIOR)) if config.posterior else None,
        uniques=results.read_uniques(folder(UNIQUES), made.table) if config.uniques else None,
        guesses=results.read_guesses(folder(ATTACK)) if config.attack else None,
        refutations=made.refutations,
        refusals=results.read_refusals(folder(POSTERIOR)) if config.posterior and config.posterior.refusals else None,
        weighted=read_weighted(folder(WEIGHTED), schema) if config.totals else None,
        bad_records=read_json(folder(TABLE) / BAD_RECORDS),
        origin=build.origin,
        again={one.view: one.again for one in wanted.constraints(made.known).protect if wanted.like},
    )
    (into / PAGE).write_text(render(audit), encoding="utf-8")


def _measures(build: Build, bounds: CellBounds, posteriors: Sequence[Summary]) -> list[dict[str, Any]]:
    """Return measures of the release by the first computed law, and of the least releases; none without a posterior."""
    if (section := build.config.posterior) is None:
        return []
    made, rows = build.made, build.made.table.at_risk(build.criteria.small_count)
    summary = next((one for one in posteriors if one.reason is None), posteriors[0])
    own = MeasuredRelease("this release", made.found.release.sub_tables(made.table.schema), bounds, summary)
    every = (own, *least_releases(made.table, made.known, rows))
    return [one.facts(section.threshold, build.losses) for one in every]


def _listed(build: Build, wanted: SearchSettings) -> tuple[SubTable, ...]:
    """Return the list of a bisection."""
    if build.config.release.method != "bisection":
        return ()
    listed = ordered_list(build.made.widths, build.criteria.floor, wanted.constraints(build.made.known))
    return tuple(build.criteria.keeping(build.made.table, build.made.known.zeros, listed))


def recodings(
    table: Table,
    known: Knowledge,
    settings: SearchSettings,
    release: Release,
    refused: SubTable,
    levels: bool = True,
    merging: bool = True,
) -> Recodings:
    """Return safe alternatives to a refused sub-table; those with the most cells come first.

    known    public before the release
    levels   search coarser levels, see `coarser`; merging  and merged categories
    """
    evaluator, allows = settings.evaluator(table, known), settings.constraints(known).allows
    found = (
        coarser(evaluator, release, refused, allows) if levels else None,
        coarsened(table, known, settings, release, refused) if merging else None,
    )
    return Recodings(sorted(filter(None, found), key=lambda one: one.lost))


def coarsened(
    table: Table, known: Knowledge, settings: SearchSettings, release: Release, refused: SubTable
) -> Recoding | None:
    """Return a recoded alternative, found as a build does that requires the rest of the release.

    Such a build judges the required sub-tables together first, then this one if its weight is not larger. None if there
    is none, or if the sub-table is releasable as it is.
    """
    label, beside = st.label(refused, table.schema), [st.label(t, table.schema) for t in release.frontier if t]
    section: dict[str, Any] = {"require": beside} if beside else {}
    section["protect"] = [{"of": label, "by": "recoding"}]
    weights, evaluator = settings.weights(table.schema), settings.evaluator(table, known)
    worth = [weights.of_sub_table(t, table.schema) for t in release.frontier if t]
    if weights.of_sub_table(refused, table.schema) > min(worth, default=inf):
        return None
    if evaluator.accepts(evaluator.evaluate(release.add(refused), Depth.BRIEF)):
        return None
    try:
        settings_ = replace(settings, release=with_given(settings.release, section))
        levelled, before, origin = settings_.coarser(table, known)
        search = release_search(levelled, before, replace(settings_, origin=origin), no_widths())
        evaluator = search.ordered.evaluator
        whole = evaluator.evaluate(Release.of(map(levelled.schema.levels.closed, release.frontier)), Depth.BRIEF)
        if not evaluator.accepts(whole):
            return None
        found = protect(evaluator.anew(), whole, search.ordered.constraints.protect)
    except InputError:
        return None
    return next((Recoding.of_sub_table(refused, instead, levelled.schema, section) for instead in found.coarser), None)


TABLES_PER_UNIT = 16
Outcome: TypeAlias = tuple[frozenset[Hashable], frozenset[Hashable]]


@dataclass(frozen=True, eq=False)
class Again:
    """Tables whose searches are repeated: (tables, cells) dense counts, and the expected outcome.

    known  public before the release, without recoding levels, which depend on the table
    """

    settings: SearchSettings
    method: str
    known: Knowledge
    outcome: Outcome
    tables: npt.NDArray[np.int64]


def refusals(
    table: Table,
    known: Knowledge,
    settings: SearchSettings,
    method: str,
    release: Release,
    most: int,
    parts: SuppressedTables = NO_SUPPRESSED_TABLES,
) -> Refusals:
    """Repeat the search for every table that agrees with its release, on the settings' executor.

    known  public before it; parts  suppressed and rounded tables, which must come out equal

    Nothing is known if there are more than `most` such tables, or more than 2,048 cells. RuntimeError if the true table
    does not lead to the release: then this search did not make it.
    """
    public, executor = known.plus_facts(parts.facts).plus(release), settings.executor
    try:
        found = enumerate_tables(table, public, most)
    except ReleaseError as error:
        return Refusals.none(str(error))
    if not found.complete:
        return Refusals.none(f"more than {most} tables agree with the release, more are not searched")
    tables = np.array([counts.reshape(-1) for counts in feasible_tables(table, public)])
    # workers have no workers
    alone = replace(settings, executor=IN_PROCESS, origin=settings.origin.without_merged)
    merged = st.of(map(table.schema.index, settings.origin.merged))
    own, before = without_levels(table, known, merged)
    outcome = _outcome(release, parts, table)
    units = [Again(alone, method, before, outcome, some) for some in _parts(tables)]
    is_alike = np.concatenate(list(executor.run(are_alike, own, units)))
    if not is_alike[(tables == _dense(table)).all(axis=1)].any():
        raise RuntimeError(
            f"of {len(tables)} tables that agree with the release {is_alike.sum()} lead to it, but not the true "
            "table; check that its settings were not changed; if they were not, this is a bug in sdc: report it"
        )
    rows = table.at_risk(settings.criteria.small_count)
    places, counts = table.schema.keys.pack(table.codes[rows]), table.counts[rows]
    of_cells, of_parts = tables[:, places], _small_of_parts(table, tables, parts, settings.criteria.small_count)
    at_truth = (of_cells[is_alike] == counts).mean(axis=0)
    ranges = (_range(some) for cells in (of_cells, of_parts) for some in (cells, cells[is_alike]))
    possible, left, own_possible, own_left = ranges
    return Refusals(len(tables), int(is_alike.sum()), possible, left, at_truth, own_possible, own_left)


def _range(counts: npt.NDArray[np.int64]) -> Intervals:
    return np.stack([counts.min(axis=0), counts.max(axis=0)], axis=1)


def _small_of_parts(
    table: Table, tables: npt.NDArray[np.int64], parts: SuppressedTables, small_count: int
) -> npt.NDArray[np.int64]:
    """Return (tables, small cells of suppressed tables) counts."""
    schema, views = table.schema, parts.views
    places = places_in(schema.keys.unpack(np.arange(schema.cells)), views, schema)
    sums = np.zeros((int(begins(views, schema)[-1]), len(tables)), np.int64)
    for own in places.T:
        np.add.at(sums, own, tables.T)
    truth = sums[:, (tables == _dense(table)).all(axis=1).argmax()]
    return sums[(truth > 0) & (truth <= small_count)].T


def _dense(table: Table) -> npt.NDArray[np.int64]:
    counts = np.zeros(table.schema.cells, np.int64)
    counts[table.schema.keys.pack(table.codes)] = table.counts
    return counts


def are_alike(table: Table, unit: Again) -> npt.NDArray[np.bool_]:
    """Return for each table of a unit whether its search ends in the release."""
    cells = table.schema.keys.unpack(np.arange(table.schema.cells))
    tables = (Table.of(table.schema, cells, counts) for counts in unit.tables)
    return np.array([_leads_there(one, unit) for one in tables])


def _leads_there(table: Table, unit: Again) -> bool:
    try:
        own, known, settings = table, unit.known, unit.settings
        if settings.release.coarsens:
            own, known, origin = settings.coarser(table, known)
            settings = replace(settings, origin=origin)
        found = release_search(own, known, settings, settings.widths(own)).run(unit.method)
        return _outcome(found.release, found.suppressed_tables, own) == unit.outcome
    except NotReleasableError:
        return False


def _outcome(release: Release, parts: SuppressedTables, table: Table) -> Outcome:
    """Return a release by category groups instead of level numbers, which depend on the table."""
    schema = table.schema

    def named(view: SubTable) -> Hashable:
        members = st.members(schema.levels.finest(view))
        return frozenset((schema.levels.axis_of[v], tuple(numbered(schema.levels.groups[v]).tolist())) for v in members)

    suppressed = ((named(part.view), part.base, replace(part.fact, view=0)) for part in parts.tables)
    return frozenset(map(named, release.frontier)), frozenset(suppressed)


def _parts(tables: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    return (tables[begin : begin + TABLES_PER_UNIT] for begin in range(0, len(tables), TABLES_PER_UNIT))
