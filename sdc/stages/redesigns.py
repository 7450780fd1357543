"""What may go out instead of a sub-table that was refused: at coarser levels, or with merged categories, each tried."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from sdc.config.given import with_given
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.effort import Depth
from sdc.search.parts import in_part
from sdc.search.redesign import Redesign, Redesigns, redesign
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
        found.append(redesign(settings.inquiry(table, known), release, refused, settings.wished(known)))
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
    section["in_part"] = [{"of": label, "how": "coarsen"}]
    weights, inquiry = settings.weights(table.schema), settings.inquiry(table, known)
    worth = [weights.of_sub_table(t, table.schema) for t in release.frontier if t]
    if weights.of_sub_table(refused, table.schema) > min(worth, default=inf):
        return None
    if inquiry.accepts(inquiry.ask(release.add(refused), Depth.BRIEF)):
        return None
    try:
        asked = replace(settings, release=with_given(settings.release, section))
        levelled, before, origin = asked.coarser(table, known)
        search = release_search(levelled, before, replace(asked, origin=origin), no_widths())
        ordered = search.ordered
        whole = ordered.inquiry.ask(Release.of(map(levelled.schema.levels.closed, release.frontier)), Depth.BRIEF)
        if not ordered.inquiry.accepts(whole):
            return None
        found = in_part(ordered.inquiry.anew(), whole, ordered.wishes.in_part)
    except InputError:
        return None
    return next((Redesign.of(refused, instead, levelled.schema, section) for instead in found.coarser), None)
