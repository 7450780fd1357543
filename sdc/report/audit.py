"""The audit report: one self-contained page an agency can defend before a disclosure review board; and its record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from markupsafe import Markup

from sdc.model import subtable as st
from sdc.report import first_page, proof, publication, risks, search
from sdc.report.blocks import TEMPLATES, Block, Cell, ListBlock, PageSection, TextBlock, shorten
from sdc.report.evidence import AuditEvidence
from sdc.report.proof import verdict
from sdc.report.publication import published
from sdc.version import VERSION

__all__ = ["AuditEvidence", "render"]


def render(audit: AuditEvidence) -> str:
    """The page as HTML: no network, no script but the search in its tables, the same bytes for the same audit."""
    opinion = verdict(audit)
    tables = published(audit.table, audit.known, audit.published.frontier, audit.small_count)
    contents: list[tuple[str, str, Iterable[Block]]] = [
        ("decision", "Decision", ()),
        ("publication", f"Tables that were {opinion.done}", publication.blocks(audit, tables)),
        ("proof", "Proof: bounds of at-risk cells", proof.blocks(audit, opinion.checks)),
        ("search", "Search and refusals", search.blocks(audit)),
        ("risks", "Further risks", risks.blocks(audit)),
        ("record", "Record", record_blocks(audit)),
    ]
    sections = [PageSection(k, key, title, tuple(own)) for k, (key, title, own) in enumerate(contents, 1)]
    return TEMPLATES.get_template("audit.html.j2").render(
        audit=audit,
        verdict=opinion,
        facts=first_page.facts(audit, opinion.done, tables),
        given=[(name, value) for name, value in about(audit) if value != FILL],
        signatures=first_page.SIGNATURES,
        sections=sections,
        by_key={one.key: one for one in sections},
    )


MOST_CATEGORIES = 200  # of a variable
MOST_PATTERNS = 200
FILL = Markup('<span class="fill"></span>')


def record_blocks(audit: AuditEvidence) -> Iterator[Block]:
    """The paragraphs, tables and figure of the section."""
    yield ListBlock("about", "Identification", "Field | Value", about(audit), is_open=True)
    rows = [(f"Digest of {name}", digest) for name, digest in audit.digests.items()]
    yield ListBlock("digests", "Digests", "Digest | Value", rows, is_open=True)
    yield TextBlock(
        "The same table and settings give this page again, byte for byte. The run's manifest and sdc status have the "
        "duration of each stage, and which stages were reused."
    )
    yield ListBlock("variables", "Variables and categories", _VARIABLES, list(_variables(audit)))
    yield ListBlock("settings", "All settings", "Section | Setting | Value", list(_settings(audit)))
    if audit.known.zeros:
        patterns = [(shorten(one, 200),) for one in audit.known.zeros.labels(audit.schema)[:MOST_PATTERNS]]
        total = len(audit.known.zeros.patterns)
        title = f"Structural zeros: patterns that everybody knows to be impossible, {total:,} in all"
        yield ListBlock("structural-zeros", title, "Pattern", patterns, total, "table/")
    yield ListBlock("glossary", "Terms", "Term | Meaning", _terms(audit))


def about(audit: AuditEvidence) -> list[tuple[str, str]]:
    """Text of the config about the build, and its software; a line to be filled in by hand for the others."""
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
    return [(name, value or FILL) for name, value in given.items()]


_VARIABLES = "Variable | Label | #Categories | "


def _variables(audit: AuditEvidence) -> Iterator[tuple[Cell, ...]]:
    """Every variable with its first categories, by their labels where the config has some."""
    for variable in audit.schema.restrict(st.members(audit.variables)).variables:
        called = audit.config.labels.variables.get(variable.name)
        labels: Mapping[str, str] = called.categories if called else {}
        total = len(variable.categories)
        named = "; ".join(shorten(labels.get(c, c)) for c in variable.categories[:MOST_CATEGORIES])
        more = f" … and {total - MOST_CATEGORIES:,} more" * (total > MOST_CATEGORIES)
        yield shorten(variable.name), shorten((called.label if called else None) or ""), total, named + more


def _settings(audit: AuditEvidence) -> Iterator[tuple[str, str, str]]:
    """The config by section, values as JSON unless they are text."""
    for section, pairs in audit.settings.items():
        for key, value in pairs.items():
            yield section, key, value if isinstance(value, str) else json.dumps(value, default=str)


_TERMS = """Full table, marginal: The counts of all records on all variables; a marginal sums some variables out.
Sub-table, dimension: A set of the variables, and their number; a variable and its coarser levels count \
as one. The sub-table without variables is the grand total, which is always public.
Release, released frontier: A set of sub-tables that has, with each one, every sub-table within it; its largest ones.
At-risk cell: A cell of the full table with a count from 1 to SMALL.
Bounds, width: The smallest and largest count of a cell over all tables of non-negative integers that agree with the \
whole release; the width is their difference.
Outer: An interval that contains the bounds. An outer width below the required one proves a cell unsafe.
Inner: An interval with both ends reached by tables that agree with the release. An inner width that reaches the \
required one proves a cell safe.
Exact: Outer and inner interval are the same: the bounds themselves.
Undecided: The outer width reaches the required one and the inner width does not: neither proof succeeded.
Min width: The smallest width over the at-risk cells. A release is releasable if it is at least the required one.
Critical width: The min width when one sub-table and the one-way sub-tables of the other variables are released.
Width threshold: Critical widths below it are not listed.
Candidates, list: The sub-tables that critical widths and the config allow, by decreasing critical width.
Clique: A largest set of variables every two of which are joined in a graph.
Utility: The value of a release: the number of its sub-tables, or the sum of their weights if there are any."""


def _terms(audit: AuditEvidence) -> list[list[str]]:
    return [line.split(": ", 1) for line in _TERMS.replace("SMALL", f"{audit.small_count}").splitlines()]
