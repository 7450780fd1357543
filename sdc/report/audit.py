"""The audit report: one self-contained page an agency can defend before a disclosure review board."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup

from sdc.model import subtable as st
from sdc.page_templates import page_templates
from sdc.report import (
    chains,
    curve,
    exposure,
    figures,
    first_page,
    graphs,
    guesses,
    likely,
    likely_curve,
    parts,
    prefixes,
    refusals,
    sections,
    uniques,
)
from sdc.report.blockers import blockers, redesigns, remedies
from sdc.report.evidence import AuditEvidence
from sdc.report.lattice import ByDimension, levels
from sdc.report.published import published
from sdc.report.scale import Scale
from sdc.report.verdict import verdict

__all__ = ["AuditEvidence", "render"]

_TEMPLATES = page_templates("sdc.report")
_TEMPLATES.filters |= {"number": sections.number, "amount": chains.amount, "shorten": exposure.shorten}
_TEMPLATES.tests["numbered"] = lambda sentence: any(map(str.isdigit, sentence))


def render(audit: AuditEvidence) -> str:
    """The page as HTML: no network, no script but the search in its tables, the same bytes for the same audit."""
    values = _values(audit)
    values |= {**_first_page(audit, values["verdict"].done), **_script()}
    return _TEMPLATES.get_template("audit.html.j2").render(
        audit=audit, **values, sections=first_page.contents({**values, "best_reason": audit.found.reason})
    )


def _script() -> dict[str, Any]:
    text = files("sdc.report").joinpath("search.js.j2").read_text(encoding="utf-8")
    # the page's policy names this one script, so that no other one runs
    return {"script": Markup(text), "script_digest": b64encode(sha256(text.encode()).digest()).decode()}


def _first_page(audit: AuditEvidence, done: str) -> dict[str, Any]:
    tables = published(audit.table, audit.known, audit.published.frontier, audit.small_count)
    required = audit.found.required
    return {
        "facts": first_page.facts(audit),
        "criterion": first_page.criterion(audit),
        "not_promised": guesses.sentence(audit),
        "shown": first_page.shown(tables, audit.small_count),
        "weighted": first_page.weighted(audit, done),
        "most_disclosing": [one for one in tables if one.groups][: first_page.MOST_LISTED],
        "published": tables,
        "frontier": sections.frontier(audit, {one.subtable: one for one in tables}),
        "disclosing": sum(one.groups > 0 for one in tables),
        "refused_questions": first_page.course(audit),
        "required_refused": first_page.refused_rows(audit),
        "required_of": len(required.required) if required else 0,
        "required_released": len({*required.required} - {*required.refused, *required.in_part}) if required else 0,
        "required_in_part": len(required.in_part) if required else 0,
        "in_part": parts.in_part(audit),
        "rounded": parts.rounded(audit),
        "coarsened": parts.coarsened(audit),
        "before": first_page.before(audit),
        "unmet": first_page.unmet(audit),
        "assumptions": list(first_page.assumptions(audit)),
        "variables": first_page.variables(audit, first_page.MOST_NAMED)[: first_page.MOST_VARIABLES],
        "all_variables": first_page.variables(audit, first_page.MOST_CATEGORIES),
        "signatures": first_page.SIGNATURES,
    }


def _values(audit: AuditEvidence) -> dict[str, Any]:
    return {
        "verdict": verdict(audit),
        "schema": audit.table.schema,
        "axes": [audit.table.schema.names[axis] for axis in audit.table.schema.axes],
        "own": audit.table.schema.restrict(st.members(audit.variables)),
        "longest": max(len(name) for name in audit.table.schema.names),
        "witnesses": sections.witnesses(audit),
        "by_dimension": sections.by_dimension(audit),
        **_utility(audit),
        **_curve(audit),
        **_graph(audit),
        **_chains(audit),
        **_lattice(audit),
        "simulated": [
            (st.label(step.added, audit.table.schema), step) for step in audit.found.simulated[: sections.MOST_STEPS]
        ],
        "method": sections.method(audit),
        "course": sections.course(audit),
        "bisection": (asked := prefixes.rows(audit)),
        "prefixes": prefixes.figure(audit) if asked else "",
        "on_list": prefixes.listed(audit),
        "added": sections.added(audit),
        "border": (border := sections.border(audit))[: sections.MOST_STEPS],
        "border_total": len(border),
        "proven_refusals": refusals.sentence(audit),
        "refutations": refusals.rows(audit),
        "blockers": blockers(audit),
        "remedies": remedies(audit),
        "redesigns": redesigns(audit),
        **_cells(audit),
        **likely.values(audit),
        **uniques.values(audit),
        **guesses.values(audit),
        "settings": sections.settings(audit),
        "zeros": audit.known.zeros.labels(audit.table.schema)[: sections.MOST_PATTERNS],
    }


def _utility(audit: AuditEvidence) -> dict[str, Any]:
    found = audit.utility or {}
    return {
        "measures": curve.measures(found),
        "reconstruction": curve.reconstruction(found),
        "unconverged": curve.unconverged(found),
    }


def _curve(audit: AuditEvidence) -> dict[str, Any]:
    series = curve.by_series(audit.curve)
    return {
        "curve": curve.risk_utility(series, audit.min_width) if series else "",
        "curve_rows": curve.rows(audit.curve),
        "flat": curve.flat(series),
        "likely_curve": likely_curve.figure(audit.likely_curve),
        "likely_points": [(likely_curve.limit_of(point), point) for point in audit.likely_curve],
    }


def _graph(audit: AuditEvidence) -> dict[str, Any]:
    graph = audit.found.graph
    if graph is None:
        return {"cliques": []}
    return {
        "cliques": sections.cliques(audit, graph),
        "separators": sections.separators(audit, graph),
        "junction_tree": graphs.junction_tree(graph, audit.table.schema),
        "independence": graph.text(audit.table.schema),
        "within": graphs.within(graph, audit.found.release, audit.table.schema),
    }


def _chains(audit: AuditEvidence) -> dict[str, Any]:
    traces = chains.by_chain(audit.found.trace)
    if not traces:
        return {"traces": []}
    return {
        "traces": traces,
        "chain_rows": traces[: chains.MOST_CHAINS],
        "panels": min(len(traces), chains.MOST_PANELS),
        "agreement": chains.agreement(traces),
        "utility_by_step": chains.utility_by_step(traces),
        "cooling": chains.cooling(traces),
        "rounds": chains.rounds(traces),
    }


def _lattice(audit: AuditEvidence) -> dict[str, Any]:
    schema = audit.table.schema
    rows = levels(audit.widths, schema)
    by_dimension = ByDimension.of(rows, schema)
    scale = Scale.of(audit.min_width, max((int(level.widths[-1]) for level in rows), default=0))
    return {
        "lattice": figures.lattice(rows, by_dimension, audit.found.release, schema, scale) if rows else "",
        "legend": figures.legend(scale),
        "listed": sum(len(level) for level in rows),
        "squares": sum(len(level) for level in rows) <= figures.MOST_SQUARES,
        "dangerous": sections.dangerous(audit),
        "dangerous_released": sections.dangerous(audit, audit.found.release),
        "of_dimensions": sections.of_dimensions(audit, by_dimension),
        "chain": sections.chain(audit, by_dimension),
    }


def _cells(audit: AuditEvidence) -> dict[str, Any]:
    bounds = audit.bounds
    first = exposure.by_exposure(bounds, audit.criteria, max(sections.MOST_DRAWN, sections.MOST_CELLS))
    drawn = first.rows(np.arange(min(len(first), sections.MOST_DRAWN)))
    # fine classes near the required width: cells far above it need no telling apart
    scale = Scale.near(audit.min_width, int(bounds.outer_width.max(initial=0)))
    return {
        "cells": sections.cells(first, audit),
        "cell_columns": len(audit.table.schema.axes) <= sections.MOST_CELL_COLUMNS,
        "kinds": sections.kinds(bounds, audit.criteria),
        "exposed": figures.exposed_cells(drawn, audit.criteria, audit.table.schema) if len(drawn) else "",
        "drawn": len(drawn),
        "histogram": figures.width_histogram(bounds, scale) if len(bounds) else "",
    }
