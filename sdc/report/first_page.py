"""The first page: what a board must know before it signs, in words; and the contents of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sdc.model import subtable as st
from sdc.model.fact import Fact
from sdc.model.schema import Schema
from sdc.report.evidence import AuditEvidence
from sdc.report.exposure import shorten
from sdc.report.published import PublishedTable
from sdc.risk.verdict import Policy
from sdc.search.step import Refused
from sdc.version import VERSION

MOST_VARIABLES = 12
MOST_NAMED = 6
MOST_LISTED = 4
MOST_FACTS = 12
MOST_REQUIRED = 20
MOST_CATEGORIES = 200  # of a variable in the appendix
SIGNATURES = ("Prepared by", "Statistical disclosure control", "Data owner")


@dataclass(frozen=True)
class VariableRow:
    """A variable as people call it, its first categories, and how many more it has."""

    name: str
    label: str
    categories: tuple[str, ...]
    number: int

    @property
    def more(self) -> int:
        return self.number - len(self.categories)


@dataclass(frozen=True)
class Heading:
    """A heading and its number, `4` or `A2`."""

    number: str
    title: str


def facts(audit: AuditEvidence) -> list[tuple[str, str]]:
    """What the config says of the build, and what made it; an empty text is to be filled in by hand."""
    about, publication = audit.config.report, audit.config.publication
    code = audit.digests.get("code", "")
    given = {
        "Purpose": about.purpose,
        "Population": publication.population,
        "Period": publication.period,
        "Source": publication.source,
        "Date": about.date,
        "Prepared by": about.prepared_by,
        "Contact": publication.contact,
        "Software": f"sdc {VERSION}" + (f", code {code[:16]}" if code else ""),
    }
    return [(name, value or "") for name, value in given.items()]


def variables(audit: AuditEvidence, most: int) -> list[VariableRow]:
    """Every variable with its first categories, by their labels where the config has some."""
    rows = []
    for variable in audit.table.schema.restrict(st.members(audit.variables)).variables:
        called = audit.config.labels.variables.get(variable.name)
        labels: Mapping[str, str] = called.categories if called else {}
        named = tuple(shorten(labels.get(c, c)) for c in variable.categories[:most])
        label = (called.label if called else None) or ""
        rows.append(VariableRow(shorten(variable.name), shorten(label), named, len(variable.categories)))
    return rows


def criterion(audit: AuditEvidence) -> str:
    """The criterion in words, and what its width comes to for what is published itself."""
    return f"{_criterion(audit)}{_implied(audit)}"


def _implied(audit: AuditEvidence) -> str:
    """The minimum frequency that the width implies for whole sub-tables, where the release keeps it and none says more.

    A count of at most `small_count` has a cell in it that is at risk, and bounds that cell by itself.
    """
    most = min(audit.small_count, audit.min_width - 1)
    counts = (audit.table.least_count(t) for t in audit.published.frontier)
    implied_by_others = not audit.has_counts or most < 1 or any(one.hides >= most for one in audit.criteria.others)
    if implied_by_others or any(0 < count <= most for count in counts):
        return ""
    numbers = "of 1" if most == 1 else f"from 1 to {most:,}"
    return (
        f" So no count {numbers} is in a table that is published whole: it would bound the at-risk cell within it to a "
        f"width of {most:,} at most."
    )


def _criterion(audit: AuditEvidence) -> str:
    small, width = audit.small_count, audit.min_width
    cell = "Every cell of the full table with 1 record" if small == 1 else f"Every cell with 1 to {small:,} records"
    tables = "all published tables together" + ", these and those of before" * bool(audit.origin.sources)
    known = " and from the structural zeros" if audit.known.zeros else ""
    said = (
        f"{cell}, of all {st.dimension(audit.variables)} variables crossed, can still take values at least {width:,} "
        f"apart, whatever an intruder works out from {tables}{known}."
    )
    return " ".join([said, *audit.criteria.sentences])


def assumptions(audit: AuditEvidence) -> Iterator[str]:
    """What the intruder is assumed to know, and what not."""
    yield (
        "Knows every published table exactly, the grand total, and the names and categories of all variables, and can "
        "compute whatever follows from them."
    )
    yield from levels(audit.table.schema)
    yield zeros(audit)
    if audit.weighted is not None:
        yield (
            "Knows the least and the largest weight of the records of each category, and takes every weight between "
            "for possible: not which values occur, nor anybody's own weight."
        )
    if audit.config.release.method == "simulatable":
        yield "May know the method and all settings: what was left out reveals nothing."
    else:
        yield (
            "Does not know the settings and this report. An intruder who knows how the release was decided may derive "
            "more from what was left out."
        )
    if audit.config.release.reveal_suppressed:
        shown = [fact.label(audit.table.schema) for fact in audit.known.published if fact.view in audit.published]
        yield (
            "May learn all counts that earlier publications suppressed, by release.reveal_suppressed: "
            f"{', '.join(shown) or 'no such table'} is whole in this release."
        )
    yield from (f"Rests on the config's word of what was published before, {said}." for said in audit.origin.declared)
    if audit.config.server is not None:
        yield (
            "Has no answer of the table server but those that are among what was published before: its answers are in "
            "its own history, which sdc audit checks."
        )
    yield (
        f"Has no other figures of the same records: no {'further ' * bool(audit.origin.sources)}earlier or overlapping "
        "publication, and no knowledge of single records."
    )


def levels(schema: Schema) -> list[str]:
    """What is known of each level: which category of it each category of its axis is in."""
    return [
        f"Knows which category of {shorten(level.name)} each category of {shorten(level.of.axis)} is in."
        for level in schema.variables
        if level.of is not None
    ]


def zeros(audit: AuditEvidence) -> str:
    """How many patterns of impossible cells are known."""
    if not audit.known.zeros:
        return "Knows of no cell that it is impossible: the config names none."
    return f"Knows {_many(len(audit.known.zeros.patterns), 'pattern')} of impossible cells, which the config names."


def before(audit: AuditEvidence) -> list[str]:
    """What was published before, and judged together with what is published now."""
    if not audit.origin.sources:
        return []
    known, facts = [element for element in audit.known.release.frontier if element], audit.known.published
    added = sum(audit.table.schema.levels.finest(element) & audit.hidden > 0 for element in known)
    more = [f"Of {len(facts) - MOST_FACTS:,} more tables a part is known."] * (len(facts) > MOST_FACTS)
    again = sum(element in audit.known.release for element in audit.published.frontier if element)
    return [
        f"All is judged together with what was published before: {'; '.join(audit.origin.sources)}.",
        f"Its largest tables of all records are {len(known):,}. Of them {added:,} have other categories than the "
        "table, and stand in the judgement as levels that are added to it, and are never published.",
        *(_fact(fact, audit.table.schema, audit.known.total) for fact in facts[:MOST_FACTS]),
        *more,
        f"Of the tables published now {again:,} were known before, by themselves or by a table that has them.",
        *_both(audit),
    ]


def _both(audit: AuditEvidence) -> list[str]:
    """What both editions tell together; nothing where the one before has no whole table, or has levels of its own."""
    schema, now = audit.table.schema, audit.published
    before = audit.known.release.sub_tables(schema)
    if not before or audit.hidden:
        return []
    together = audit.known.release.join(now).sub_tables(schema)
    return [
        f"Readers of both have the exact counts of {_many(together, 'sub-table')} without the grand total: "
        f"{together - before:,} by what is published now alone, {together - audit.sub_tables:,} by what was published "
        f"before alone, and {before + audit.sub_tables - together:,} by each of the two."
    ]


def _fact(fact: Fact, schema: Schema, total: int) -> str:
    """Of what is known in part: which table, of whose records, how well, and from where."""
    how = ""
    if fact.intervals is not None:
        nothing = int(fact.intervals.suppressed(total).sum())
        some = len(fact.intervals.cells) - nothing
        how = f" but for {_many(nothing, 'withheld cell')}" * (nothing > 0)
        how += f", {_many(some, 'count')} of which between two numbers" * (some > 0)
    return f"Beside them {shorten(fact.label(schema))} is known{how}, by {fact.source}."


def unmet(audit: AuditEvidence) -> str:
    """What the config names of variables and no record has; empty where there is nothing."""
    named = (audit.bad_records or {}).get("unmet", {})
    listed = [f"{shorten(name)}: {_first(values)}" for name, values in named.items()]
    return f"Of the categories and values that the config names no record has {'; '.join(listed)}." if listed else ""


def _first(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(map(shorten, names[:MOST_NAMED])) + f" and {more:,} more" * (more > 0)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def course(audit: AuditEvidence) -> list[str]:
    """Of the questions that the search refused how many by proof, and how many for lack of time; and how it ended."""
    said = _refused(audit)
    if audit.found.ended_after:
        said.append(
            "The search ended early, and what it had not asked about by then does not go out either. What goes out is "
            "proven all the same; another run of this config may end elsewhere."
        )
    if audit.found.resumed:
        said.append(
            "The search was interrupted and resumed from a checkpoint. What goes out is proven all the same; a run "
            "that nobody interrupts may end elsewhere."
        )
    return said


def _refused(audit: AuditEvidence) -> list[str]:
    refused = Refused.of(audit.found.steps, audit.policy is Policy.OUTER)
    if not refused.questions:
        return []
    proven = refused.proven + refused.refuted
    again = f", and for {refused.proven:,} of these the proof is kept, and sdc verify works it out again" * bool(
        refused.proven
    )
    said = [f"The search refused {_many(refused.questions, 'question')}, each about one or more sub-tables."]
    if proven:
        said.append(
            f"By proof {proven:,}: with what was asked for the criterion would be broken{again}. More time changes "
            "nothing about these."
        )
    if refused.unproven:
        said.append(
            f"For lack of time {refused.unproven:,}: in {_many(refused.spent, 'step')} no proof was found either way. "
            "More time may let these out."
        )
    elif proven:
        said.append("For lack of time none.")
    return said


def refused_rows(audit: AuditEvidence) -> list[tuple[str, str]]:
    """Of what the config required of the release, what is not published, and why."""
    if audit.found.required is None:
        return []
    refused = audit.found.required.refused[:MOST_REQUIRED]
    return [(st.label(t, audit.table.schema), audit.found.required.why(t)) for t in refused]


def weighted(audit: AuditEvidence, done: str) -> list[str]:
    """What goes out of the totals of weights, and what does not; what would, of a release that is only examined."""
    found, totals, schema = audit.weighted, audit.config.totals, audit.table.schema
    if found is None or totals is None:
        return []
    out = [st.label(t, schema) for t in found.totals if t]
    how = "instead of" if totals.publish == "instead" else "beside"
    said = [
        f"Totals of the weights, rounded to multiples of {totals.round:,}, {'would ' * (done != 'released')}go out of "
        f"{len(out):,} tables, {how} the counts: with them every cell that is at risk is still proven."
    ]
    if found.withheld:
        named = ", ".join(shorten(st.label(t, schema)) for t in found.withheld[:MOST_LISTED])
        more = len(found.withheld) - MOST_LISTED
        said.append(
            f"Those of {len(found.withheld):,} published tables do not: {named}{f' and {more:,} more' * (more > 0)}. "
            "The choice depends on the records: an intruder who knows how it was decided may derive something from it."
        )
    return said


def shown(tables: list[PublishedTable], small_count: int) -> list[str]:
    """What the published tables show together."""
    disclosing = [one for one in tables if one.groups]
    return [
        f"{sum(one.small for one in tables):,} counts of 1 to {small_count} in {_of(t.small for t in tables)}",
        f"{sum(one.zeros for one in tables):,} zeros that no structural zero explains, in "
        f"{_of(t.zeros for t in tables)}",
        f"{sum(one.groups for one in disclosing):,} groups in {_of(t.groups for t in tables)}, all of whose records "
        "have the same category of one more variable: a person known to be in the group is known to have it",
    ]


def _of(numbers: Iterable[int]) -> str:
    return _many(sum(number > 0 for number in numbers), "table")


def contents(values: Mapping[str, Any]) -> dict[str, Heading]:
    """The sections that this report has by id, numbered in their order, the appendix apart."""
    is_there = {
        "released": (f"What was {values['verdict'].done}, by dimension", True),
        "frontier": ("Released frontier", True),
        "withheld": ("Withheld cells", values["in_part"]),
        "utility": ("Utility", values["measures"] or values["reconstruction"] or values["best_reason"]),
        "curve": ("Risk and utility", values["curve"]),
        "graph": ("Decomposable graph", values["cliques"]),
        "widths": ("Critical widths on the lattice", True),
        "search": ("Search", True),
        "cells": ("At-risk cells and their bounds", True),
        "likely": ("What is likely, beside what is possible", values["laws"]),
        "uniques": ("Sample uniques in the population", values["uniques"] is not None),
        "guesses": ("What is guessed from all public tables", values["guesses"] is not None),
        "checks": ("Checks made while this page was written", True),
        "settings": ("Settings and digests", True),
        "glossary": ("Glossary", True),
    }
    appendix = {
        "all-variables": ("Variables and categories", True),
        "all-frontier": ("Published tables", values["frontier"]),
        "all-curve": ("Points of the curve", values["curve"]),
        "all-graph": ("Cliques and separators", values["cliques"]),
        "all-widths": ("Most dangerous sub-tables", values["dangerous"]),
        "all-simulated": ("Simulatable decisions", values["simulated"]),
        "all-chains": ("Annealing chains", values["traces"]),
        "all-search": ("Sub-tables added", values["added"].rows),
        "all-list": ("The list", values["on_list"]),
        "all-border": ("Unreleasable frontier", values["border"]),
        "all-refutations": ("Refutations", values["refutations"]),
        "all-blockers": ("Cells that stopped most", values["blockers"]),
        "all-remedies": ("Recodes that were tried", values["remedies"]),
        "all-redesigns": ("Coarser sub-tables instead", values["redesigns"]),
        "all-cells": ("Most exposed cells", values["cells"]),
        "all-likely": ("Cells whose true count is most probable", values["laws"] and values["likely"]),
        "all-settings": ("All settings", True),
    }
    return {**_numbered(is_there, ""), **_numbered(appendix, "A")}


def _numbered(sections: Mapping[str, tuple[str, Any]], before: str) -> dict[str, Heading]:
    there = [(key, title) for key, (title, is_there) in sections.items() if is_there]
    return {key: Heading(f"{before}{k}", title) for k, (key, title) in enumerate(there, 1)}
