"""Searches done again: for what may go out instead of what was refused, and of tables that agree with a release."""

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
    """What is safe with a release, what keeps most cells first.

    known    before anything is released
    levels   whether it is looked for at coarser levels, see `redesign`; merging  and with merged categories
    """
    found = list[Redesign | None]()
    if levels:
        found.append(redesign(settings.evaluator(table, known), release, refused, settings.wished(known).allows))
    if merging:
        found.append(coarsened(table, known, settings, release, refused))
    return Redesigns(sorted(filter(None, found), key=lambda one: one.lost))


def coarsened(
    table: Table, known: Knowledge, settings: SearchSettings, release: Release, refused: SubTable
) -> Redesign | None:
    """What goes out where a config requires a release, and merges categories of what was refused beside it.

    It is found as a build of that config finds it, which looks at the required sub-tables together first, and then at
    this one, as long as none of them counts less. None where there is nothing, and where it may go out whole.
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
        asked = replace(settings, release=with_given(settings.release, section))
        levelled, before, origin = asked.coarser(table, known)
        search = release_search(levelled, before, replace(asked, origin=origin), no_widths())
        evaluator = search.ordered.evaluator
        whole = evaluator.evaluate(Release.of(map(levelled.schema.levels.closed, release.frontier)), Depth.BRIEF)
        if not evaluator.accepts(whole):
            return None
        found = protect(evaluator.anew(), whole, search.ordered.constraints.protect)
    except InputError:
        return None
    return next((Redesign.of(refused, instead, levelled.schema, section) for instead in found.coarser), None)


TABLES_PER_UNIT = 16
Told: TypeAlias = tuple[frozenset[Hashable], frozenset[Hashable]]


@dataclass(frozen=True, eq=False)
class Again:
    """Tables of which a release is to be searched again: (tables, cells) dense counts, and what they are to end in.

    known  what is before anything is released, without levels for what may be coarsened: these depend on the table
    """

    settings: SearchSettings
    method: str
    known: Knowledge
    told: Told
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
    """The search of a build done again for every table that agrees with its release, on the settings' executor.

    known  what was public before it; parts  what goes out in part with it, which is to be the same, cell by cell

    Nothing is known where there are more than `most` such tables, or more than 2,048 cells. RuntimeError where the
    table itself does not lead to the release: then it was not made by this search.
    """
    public, executor = known.plus_facts(parts.facts).plus(release), settings.executor
    try:
        found = enumerate_tables(table, public, most)
    except ReleaseError as error:
        return Refusals.none(str(error))
    if not found.complete:
        return Refusals.none(f"more than {most} tables agree with the release, and no more are built again")
    tables = np.array([counts.reshape(-1) for counts in feasible_tables(table, public)])
    # a worker has no workers of its own
    alone = replace(settings, executor=IN_PROCESS, origin=settings.origin.without_merged)
    merged = st.of(map(table.schema.index, settings.origin.merged))
    own, before = without_levels(table, known, merged)
    told = _told(release, parts, table)
    units = [Again(alone, method, before, told, some) for some in _parts(tables)]
    is_alike = np.concatenate(list(executor.run(are_alike, own, units)))
    if not is_alike[(tables == _dense(table)).all(axis=1)].any():
        raise RuntimeError(
            f"of {len(tables)} tables that agree with the release {is_alike.sum()} lead to it, and the true table is "
            "not among them; this is a fault of the search, or the release is not of these settings"
        )
    rows = table.at_risk(settings.criteria.small_count)
    places, counts = table.schema.keys.pack(table.codes[rows]), table.counts[rows]
    of_cells, of_parts = tables[:, places], _small_of_parts(table, tables, parts, settings.criteria.small_count)
    at_truth = (of_cells[is_alike] == counts).mean(axis=0)
    ranges = (_range(some) for cells in (of_cells, of_parts) for some in (cells, cells[is_alike]))
    possible, left, own_possible, own_left = ranges
    return Refusals(len(tables), int(is_alike.sum()), possible, left, at_truth, own_possible, own_left)


def _range(counts: npt.NDArray[np.int64]) -> Intervals:
    """(cells, 2) of (tables, cells) counts."""
    return np.stack([counts.min(axis=0), counts.max(axis=0)], axis=1)


def _small_of_parts(
    table: Table, tables: npt.NDArray[np.int64], parts: SuppressedTables, small_count: int
) -> npt.NDArray[np.int64]:
    """(tables, small cells of sub-tables in part) the counts of these in each table."""
    schema, views = table.schema, parts.views
    places = places_in(schema.keys.unpack(np.arange(schema.cells)), views, schema)
    sums = np.zeros((int(begins(views, schema)[-1]), len(tables)), np.int64)
    for own in places.T:
        np.add.at(sums, own, tables.T)
    truth = sums[:, (tables == _dense(table)).all(axis=1).argmax()]
    return sums[(truth > 0) & (truth <= small_count)].T


def _dense(table: Table) -> npt.NDArray[np.int64]:
    """(cells,) counts."""
    counts = np.zeros(table.schema.cells, np.int64)
    counts[table.schema.keys.pack(table.codes)] = table.counts
    return counts


def are_alike(table: Table, unit: Again) -> npt.NDArray[np.bool_]:
    """The unit: of each table whether its build would have ended in the release."""
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
        return _told(found.release, found.suppressed_tables, own) == unit.told
    except NotReleasableError:
        return False


def _told(release: Release, parts: SuppressedTables, table: Table) -> Told:
    """What goes out, by what levels tell and not by their numbers: these depend on the table."""
    schema = table.schema

    def named(view: SubTable) -> Hashable:
        told = st.members(schema.levels.finest(view))
        return frozenset((schema.levels.axis_of[v], tuple(numbered(schema.levels.groups[v]).tolist())) for v in told)

    partly = ((named(part.view), part.base, replace(part.fact, view=0)) for part in parts.tables)
    return frozenset(map(named, release.frontier)), frozenset(partly)


def _parts(tables: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    return (tables[begin : begin + TABLES_PER_UNIT] for begin in range(0, len(tables), TABLES_PER_UNIT))
