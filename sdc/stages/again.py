"""Repeated searches: for alternatives to refused sub-tables, and of all tables that agree with a release."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.bounds.enumeration import enumerate_tables, feasible_tables
from sdc.config.given import with_given
from sdc.executor import IN_PROCESS
from sdc.feasible.suppressed_cells import begins, places_in
from sdc.intruder.refusals import Refusals
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import InputError, NotReleasableError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.levels import numbered
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.model.table import Table
from sdc.protect.recoding import Redesign, Redesigns, redesign, without_levels
from sdc.protect.release import protect
from sdc.risk.effort import Depth
from sdc.stages.assemble import SearchSettings, no_widths, release_search


def redesigns(
    table: Table,
    known: Knowledge,
    settings: SearchSettings,
    release: Release,
    refused: SubTable,
    levels: bool = True,
    merging: bool = True,
) -> Redesigns:
    """Return safe alternatives to a refused sub-table; those with the most cells come first.

    known    public before the release
    levels   search coarser levels, see `redesign`; merging  and merged categories
    """
    found = list[Redesign | None]()
    if levels:
        found.append(redesign(settings.evaluator(table, known), release, refused, settings.constraints(known).allows))
    if merging:
        found.append(coarsened(table, known, settings, release, refused))
    return Redesigns(sorted(filter(None, found), key=lambda one: one.lost))


def coarsened(
    table: Table, known: Knowledge, settings: SearchSettings, release: Release, refused: SubTable
) -> Redesign | None:
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
    return next((Redesign.of(refused, instead, levelled.schema, section) for instead in found.coarser), None)


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
            "table; the release is of other settings, or this is a bug in sdc"
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
