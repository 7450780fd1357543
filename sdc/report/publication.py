"""The section on what is published: whole tables, suppressed and recoded ones, and their utility."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from sdc.intruder.decision import RatedRelease
from sdc.model import subtable as st
from sdc.model.errors import many
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.protect.one_table import least_suppressed
from sdc.report import curve
from sdc.report.blocks import Block, Cell, FigureBlock, ListBlock, TextBlock, amount, because, few, number, shorten
from sdc.report.evidence import AuditEvidence
from sdc.report.svg import share
from sdc.search.curve import CurvePoint, LikelyPoint

MOST_DIMENSIONS = 20  # of these and the others: the page stays of bounded size, whatever the table and the search
MOST_FRONTIER = 200
MOST_NAMED = 20
MOST_FACTS = 12


def blocks(audit: AuditEvidence, tables: list[PublishedTable]) -> Iterator[Block]:
    """The paragraphs, tables and figure of the section."""
    columns = "#Dimension | #Possible | #In the release | #Share"
    yield ListBlock("by-dimension", "Sub-tables by dimension", columns, by_dimension(audit), is_open=True)
    columns = "Table | #Dimension | #Cells | #Critical width | #Small counts | #Zeros | #Groups | Variable of groups"
    rows = frontier(audit, {one.subtable: one for one in tables})
    title = "Published tables: the released frontier. Every sub-table within one of them is released with it"
    yield ListBlock("frontier", title, columns, rows, len(audit.published.frontier), "release/")
    yield from _suppressed(audit)
    yield from _recoded(audit)
    yield from _utility(audit.utility or {})
    yield from _curve(audit)


def by_dimension(audit: AuditEvidence) -> list[tuple[str, int, int, str]]:
    """From the one-way sub-tables up; of many variables, what is above the release in one row."""
    schema = audit.schema
    possible, counts = audit.everything.by_dimension(schema), audit.published.by_dimension(schema)
    most = len(possible) - 1
    # of 63 variables most dimensions hold nothing that was released
    shown = most if most <= MOST_DIMENSIONS else min(len(counts), most)
    padded = [*counts, *[0] * most]
    found = [(str(d), possible[d], padded[d]) for d in range(1, shown + 1)]
    if shown < most:
        found.append((f"{shown + 1} to {most}", sum(possible[shown + 1 :]), 0))
    found.append(("without the total", audit.possible - 1, audit.sub_tables))
    found.append(("with the total", audit.possible, audit.sub_tables + 1))
    return [(*row, share(row[2], row[1])) for row in found]


def frontier(audit: AuditEvidence, shows: Mapping[SubTable, PublishedTable]) -> list[tuple[Cell, ...]]:
    """The first of the released frontier, with its critical widths and what each table shows."""
    known, schema = audit.widths.by_sub_table(), audit.schema
    rows = list[tuple[Cell, ...]]()
    for t in audit.published.frontier[:MOST_FRONTIER]:
        # widths are those of a sub-table with its hidden levels
        width, one = known.get(schema.levels.closed(t)), shows.get(t)
        seen: tuple[Cell, ...] = (
            (one.small, one.zeros, one.groups, shorten(one.variables, 70)) if one else (0, 0, 0, "")
        )
        rows.append((st.label(t, schema), st.ways(t, schema), number(st.cells(t, schema)), width, *seen))
    return rows


# Tables that are not published whole


def _suppressed(audit: AuditEvidence) -> Iterator[Block]:
    """Suppressed cells of each table, and the largest of them with those that each protects."""
    parts, schema = audit.found.suppressed_tables, audit.schema
    known = audit.known.plus(audit.found.release).plus_facts(parts.facts)
    primary = audit.criteria.primary_cells(audit.table, known, parts.before(audit.known))
    kept = {view: places for view, _, places in primary.of_views(schema)}
    largest = {one.sub_table: one.largest for one in audit.found.suppressed}
    rows: list[tuple[Cell, ...]] = []
    notes, protecting = list[str](), list[tuple[Cell, ...]]()
    for part in parts.tables:
        fact = part.fact
        if part.base or fact.intervals is None:
            continue
        counts = audit.table.marginal(fact.view).count_at(fact.intervals.cells)
        small = int(((counts > 0) & (counts <= audit.criteria.primary_count)).sum())
        protected, label = kept.get(fact.view, np.zeros(0, np.int64)), st.label(fact.view, schema)
        least, part_of_all = _least(audit, fact.view, protected), share(counts.sum(), audit.table.total)
        numbers = len(counts), least, int(counts.sum()), part_of_all, int(counts.max()), small, small - len(protected)
        rows.append((label, st.cells(fact.view, schema), *numbers))
        notes += [_as_before(audit, fact, label)]
        why = audit.found.required.why(fact.view) if audit.found.required else ""
        notes += [because(label, why)] * bool(why)
        protecting += [(label, cell.text) for cell in largest.get(label, ())]
    if not rows:
        return
    columns = "Table | #Cells | #Suppressed | #At least | #Records in them | #Share | #Largest | #Small | #Implied"
    yield ListBlock("suppressed", "Suppressed cells", columns, rows, is_open=True)
    yield TextBlock(
        f"A cell is suppressed if it is small, with a count from 1 to {audit.small_count:,}, or if it protects others. "
        "“At least” is the smallest number of suppressions that the small cells need. “Implied” small cells are too "
        f"narrow by the other public tables, whatever is suppressed. {' '.join(filter(None, notes))}"
    )
    if protecting:
        yield ListBlock(
            "largest", "Largest suppressed cells, and the cells that each protects", "Table | Cell", protecting
        )


def _least(audit: AuditEvidence, view: SubTable, places: npt.NDArray[np.int64]) -> int:
    """How many cells of a sub-table have to be suppressed at least, given the other tables."""
    schema, known = audit.schema, audit.known.plus(audit.found.release)
    small = np.zeros(schema.restrict(st.members(view)).keys.sizes, np.bool_)
    small.reshape(-1)[places] = True
    axes = [own for axis in schema.axes if (own := view & schema.levels.of_axis[axis])]
    return least_suppressed(small, [view & ~own in known.release for own in axes])


def _as_before(audit: AuditEvidence, fact: Fact, label: str) -> str:
    """How many cells are suppressed that an earlier edition suppressed, and the names of others."""
    if fact.view not in audit.again:
        return ""
    assert fact.intervals is not None
    inside = audit.schema.restrict(st.members(fact.view))
    before = np.isin(inside.keys.pack(fact.intervals.cells), audit.again[fact.view])
    new = fact.intervals.cells[~before]
    named = f": {few(list(map(inside.written, new)), MOST_NAMED)}" if len(new) else ""
    return (
        f"The edition before suppressed {before.sum():,} of the suppressed cells of {label}; {len(new):,} are "
        f"new{named}."
    )


def _recoded(audit: AuditEvidence) -> Iterator[Block]:
    """Tables with merged categories."""
    schema, rows = audit.schema, list[tuple[Cell, ...]]()
    found = audit.origin.coarsened(audit.found.suppressed_required, audit.found.release, schema)
    for both in found.items():
        rows.append((*audit.labels(both), *(st.cells(one, schema) for one in both), share(_in_merged(audit, *both))))
    if rows:
        columns = "Table | Published as | #Cells | #Cells left | #Records in merged categories"
        yield ListBlock("coarsened", "Tables with merged categories", columns, rows, is_open=True)
        yield TextBlock(
            "The counts of a recoded table are exact. The choice of the merged categories depends on the counts; how "
            "it was made is taken as unknown to readers."
        )


def _in_merged(audit: AuditEvidence, view: SubTable, coarser: SubTable) -> float:
    """Which share of the records is in categories that were merged with others."""
    levels = audit.schema.levels
    (level,) = st.members(levels.finest(coarser) & ~levels.finest(view))
    groups = levels.groups[level]
    records = audit.table.one_way()[levels.axis_of[level]]
    return float(records[(np.bincount(groups) > 1)[groups]].sum() / records.sum())


def rounded(audit: AuditEvidence) -> str:
    """Which tables are rounded, and what readers know of their counts."""
    schema = audit.schema
    words = [
        f"{part.label(schema)} is rounded: readers know that each of its counts"
        f"{''.join(f', its sums by {st.label(margin.view, schema)}' for margin in part.margins)} and its total became "
        f"a multiple of {part.base} that is less than {part.base} away."
        for part in audit.found.suppressed_tables.tables
        if part.base
    ]
    unknown = "How one of the publishable rounded tables was chosen is taken as unknown to readers."
    return " ".join([*words, unknown]) if words else ""


# Earlier publications


def before(audit: AuditEvidence) -> list[str]:
    """Earlier publications, which are judged together with this one."""
    if not audit.origin.sources:
        return []
    schema, facts = audit.schema, audit.known.published
    known = [element for element in audit.known.release.frontier if element]
    added = sum(schema.levels.finest(element) & audit.hidden > 0 for element in known)
    again = sum(element in audit.known.release for element in audit.published.frontier if element)
    return [
        f"All is judged together with earlier publications: {'; '.join(audit.origin.sources)}.",
        f"Their largest tables of all records are {len(known):,}; {added:,} of these have other categories than the "
        "table, and are added to it as levels that are never published.",
        *(_fact(fact, schema, audit.known.total) for fact in facts[:MOST_FACTS]),
        *[f"{len(facts) - MOST_FACTS:,} more tables are known with some cells missing or as ranges."]
        * (len(facts) > MOST_FACTS),
        f"Among the tables published now {again:,} were known before, by themselves or by a table that has them.",
        *both_editions(audit),
    ]


def both_editions(audit: AuditEvidence) -> list[str]:
    """Sub-tables of both editions; nothing if the one before has no whole table, or has levels of its own."""
    schema, now = audit.schema, audit.published
    before = audit.known.release.sub_tables(schema)
    if not before or audit.hidden:
        return []
    together = audit.known.release.join(now).sub_tables(schema)
    return [
        f"Readers of both have the exact counts of {many(together, 'sub-table')} without the grand total: "
        f"{together - before:,} from this publication alone, {together - audit.sub_tables:,} from earlier ones alone, "
        f"and {before + audit.sub_tables - together:,} from each of the two."
    ]


def _fact(fact: Fact, schema: Schema, total: int) -> str:
    """A table with suppressed or rounded cells, or of some records: of whose records, how well, and from where."""
    how = ""
    if fact.intervals is not None:
        nothing = int(fact.intervals.suppressed(total).sum())
        some = len(fact.intervals.cells) - nothing
        how = f" but for {many(nothing, 'suppressed cell')}" * (nothing > 0)
        how += f", {many(some, 'count')} of which between two numbers" * (some > 0)
    return f"{shorten(fact.label(schema))} is known{how}, by {fact.source}."


# Utility


Utility = Mapping[str, int | float | str | bool]
MEASURES = {
    "sub_tables": "sub-tables without the grand total",
    "sub_tables_with_total": "sub-tables with the grand total",
    "cells": "cells of all sub-tables together",
    "degrees_of_freedom": "degrees of freedom: free parameters of the log-linear model besides the total",
    "weighted": "weighted value: the sum of the sub-tables' weights",
    "halvings": "value by reconstruction: halvings of the mean squared error of what is known without the release",
    "mean_squared_error": "mean squared error of a cell of the reconstructed full table, in records squared",
}


def _utility(found: Utility) -> Iterator[Block]:
    rows = [(name, amount(float(found[key]))) for key, name in MEASURES.items() if key in found]
    if rows:
        yield ListBlock("utility", "Utility", "Measure | #Value", rows, is_open=True)
    if words := reconstruction(found):
        yield TextBlock(words, "reconstruction")


def reconstruction(found: Utility) -> str:
    """How the full table was reconstructed and how far off it is; empty if it was not."""
    if "reconstruction_method" not in found and "mean_squared_error" not in found:
        return ""
    method = str(found.get("reconstruction_method", "ipf"))
    sweeps = f" in {int(found['sweeps']):,} sweeps" if "sweeps" in found else ""
    how = f"by {'iterative proportional fitting (IPF)' if method == 'ipf' else method}{sweeps}"
    if method == "closed form":
        how = "in closed form on the junction tree, which is exact and needs no iteration"
    alone = "alone" if "support" not in found else "and the list of non-zero cells, which readers do not have"
    words = [f"The full table was reconstructed from the release {alone}, {how}."]
    if "mean_squared_error" in found:
        off = sqrt(float(found["mean_squared_error"]))
        words.append(f"A cell is off by {off:,.3g} records (root mean square).")
    if "deviation" in found:
        words.append(f"The largest deviation from a released count is {float(found['deviation']):,.3g} records.")
    if found.get("converged") is False:
        words.append("◇ The iteration did not converge: the error is that of where it stopped.")
    elif found.get("converged") is True and method != "closed form":
        words.append("The iteration converged.")
    return " ".join(words)


def _curve(audit: AuditEvidence) -> Iterator[Block]:
    """The risk-utility curve, and releases under limits on probabilities."""
    if series := curve.by_series(audit.curve):
        yield FigureBlock(
            curve.risk_utility(series, audit.min_width),
            "Released sub-tables by required width: farther right is safer, farther up releases more. Circle: ordered. "
            "Triangle: bisection. Square: decomposable. Broad grey line: best. Only the marked widths were evaluated.",
        )
        columns = f"#Counts at risk | #Required width | Method | #Sub-tables | #Utility | #Cells | {_CURVE}"
        rows = [_point(point) for point in curve.rows(audit.curve)]
        yield ListBlock("curve", "Points of the curve", columns, rows, len(audit.curve), "curve/")
    if points := audit.likely_curve:
        columns = "Above the threshold | #Sub-tables | #Utility | #Share above | #Largest probability"
        title = (
            f"Decomposable releases of min width {audit.min_width:,} under limits on the at-risk cells whose true "
            f"count is more probable than {points[0].threshold}, law “released”"
        )
        yield ListBlock("likely-curve", title, columns, [_likely_point(point) for point in points])
    if audit.choice:
        columns = "Release | #Sub-tables | #Risk | #Utility | #Loss that scientists expect | Decision"
        title = "Releases by the risk and utility of the users that curve.decision names ([DFT], section 3)"
        rows = [_rated(one) for one in sorted(audit.choice, key=lambda one: not one.is_chosen)[:MOST_FRONTIER]]
        yield ListBlock("choice", title, columns, rows, len(audit.choice), "curve/")


_CURVE = "#Degrees of freedom | #Min width proved"


def _point(p: CurvePoint) -> tuple[Cell, ...]:
    width = "nothing releasable" if p.min_width is None else number(p.min_width)
    numbers = p.sub_tables, amount(p.value), p.cells, p.degrees_of_freedom
    return f"1 to {p.small_count:,}", p.min_width_required, p.method, *numbers, width


def _rated(one: RatedRelease) -> tuple[Cell, ...]:
    if one.risk is None or one.utility is None or one.expected_loss is None:
        return one.name, one.sub_tables, "", "", "", f"not chosen: {one.reason}"
    said = "chosen" if one.is_chosen else "of most utility" if one.is_of_most_utility else ""
    numbers = (f"{value:.6g}" for value in (one.risk, one.utility, one.expected_loss))
    return one.name, one.sub_tables, *numbers, f"{said} (sampled)".strip() if one.is_sampled else said


def _likely_point(p: LikelyPoint) -> tuple[Cell, ...]:
    limit = "no limit" if p.max_above is None else f"at most {100 * p.max_above:g} %"
    if p.above is None:
        return f"{limit}: {p.reason}", "", "", "", ""
    return limit, p.sub_tables, amount(p.value), f"{100 * p.above:.2f} %", f"{p.highest:.4f}"


MOST_COMBINATIONS = 1 << 20  # of the variables that patterns name, looked at one by one


@dataclass(frozen=True)
class PublishedTable:
    """A table of the released frontier.

    cells       of the table, zeros included
    small       cells of 1 to small_count records
    zeros       cells without records that no structural zero excludes
    disclosing  by variable, the combinations of the table's other variables all of whose records have one of its
                categories, though it has others that are possible there; of an axis and its levels by the finest
    """

    subtable: SubTable
    label: str
    cells: int
    small: int
    zeros: int
    disclosing: tuple[tuple[str, int], ...]

    @cached_property
    def groups(self) -> int:
        return sum(number for _, number in self.disclosing)

    @property
    def variables(self) -> str:
        """Whose categories are disclosed, and of how many groups: `sex 12, age 3`."""
        return ", ".join(f"{name} {number:,}" for name, number in self.disclosing if number)


def published(table: Table, known: Knowledge, frontier: tuple[SubTable, ...], small_count: int) -> list[PublishedTable]:
    """Each table of the frontier but the grand total, most disclosing first; a pass over the table each."""
    found = [_published(table, known, element, small_count) for element in frontier if element]
    return sorted(found, key=lambda one: (-one.groups, -one.small, -one.zeros, one.subtable))


def _published(table: Table, known: Knowledge, subtable: SubTable, small_count: int) -> PublishedTable:
    marginal, zeros = table.marginal(subtable), known.zeros.within(subtable)
    cells = marginal.schema.cells
    return PublishedTable(
        subtable,
        st.label(subtable, table.schema),
        cells,
        int((marginal.counts <= small_count).sum()),
        cells - len(marginal) - impossible(zeros, marginal.schema),
        tuple(_disclosing(marginal, zeros)),
    )


def impossible(zeros: StructuralZeros, schema: Schema) -> int:
    """How many cells the patterns exclude; 0 where they name too many combinations to be looked at."""
    named = sorted({schema.levels.column_of[v] for v in st.members(st.union(zeros.subtables))}) if zeros else []
    sizes = [schema.keys.sizes[column] for column in named]
    if not named or prod(sizes) > MOST_COMBINATIONS:
        return 0
    cells = np.zeros((prod(sizes), len(schema.axes)), np.uint16)
    # a category of the axes that no pattern names stands for all of them
    cells[:, named] = np.indices(sizes, np.uint16).reshape(len(sizes), -1).T
    return int(zeros.contains(cells, schema).sum()) * (schema.cells // prod(sizes))


def _disclosing(marginal: Table, zeros: StructuralZeros) -> Iterator[tuple[str, int]]:
    schema = marginal.schema
    for v, variable in enumerate(schema.variables):
        if len(schema.axes) > 1 and len(variable.categories) > 1:
            yield variable.name, len(_uncertain(marginal, zeros, _alone(marginal, v), v))


def _alone(marginal: Table, v: int) -> npt.NDArray[np.uint16]:
    """A cell of each combination of the other axes all of whose records have one category, and none of a finer one."""
    schema = marginal.schema
    others = [u for u in schema.axes if u != schema.levels.axis_of[v]]
    first, group = schema.space(others).distinct(schema.columns(marginal.codes, others))

    def agree(u: int) -> npt.NDArray[np.bool_]:
        codes = schema.columns(marginal.codes, [u])[:, 0]
        # a row of the table has records, so two of a group that differ share them
        found: npt.NDArray[np.bool_] = np.bincount(group, codes != codes[first][group], len(first)) == 0
        return found

    is_alone = agree(v)
    for finer in st.members(schema.levels.finer(v)):
        is_alone &= ~agree(finer)
    return marginal.codes[first[is_alone]]


def _uncertain(
    marginal: Table, zeros: StructuralZeros, cells: npt.NDArray[np.uint16], v: int
) -> npt.NDArray[np.uint16]:
    """Those cells beside which another category of the variable is possible: else everybody knows the category."""
    if not zeros:
        return cells
    schema, possible = marginal.schema, np.zeros(len(cells), np.bool_)
    column, own = schema.levels.column_of[v], schema.columns(cells, [v])[:, 0]
    for code, category in enumerate(schema.levels.groups[v].tolist()):
        other = cells.copy()
        other[:, column] = code
        possible |= (own != category) & ~zeros.contains(other, schema)
    return cells[possible]
