"""What is likely beside what is possible: probabilities of at-risk cells against the widths of their bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from sdc.intruder.chains import written_error, written_r_hat
from sdc.intruder.measures import log_probability_if_uniform
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.report import exposure, svg
from sdc.report.evidence import AuditEvidence
from sdc.report.plot import PAGE, Plot, ticks

MOST_CELLS, MOST_DRAWN, MOST_LAWS = 20, 2_000, 50
LEFT, TOP, HEIGHT = 70.0, 44.0, 330.0
WIDEST_RATIO = 30
MOST_WRITTEN = 10**15


@dataclass(frozen=True)
class LawRow:
    """A law: its name, how it was found, and the measures of [DFT] section 4; or why there is none."""

    label: str
    engine: str
    tables: str
    true_table: str
    if_uniform: str
    identified: str
    above: str
    disclosed: str
    mean: str
    largest: str
    reason: str


@dataclass(frozen=True)
class LikelyRow:
    """An at-risk cell that may be guessed: its bounds, and how probable its true count is."""

    categories: list[str]
    count: int
    outer: tuple[int, int]
    at_truth: float
    most_likely: int
    highest: float
    disclosing: float
    group: str


@dataclass(frozen=True)
class RefusedRow:
    """An at-risk cell's range over all feasible tables, and over those that lead to the same release."""

    categories: list[str]
    count: int
    possible: tuple[int, int]
    left: tuple[int, int]
    at_truth: float


def values(audit: AuditEvidence) -> dict[str, Any]:
    """What the section shows; nothing where no posterior was asked for."""
    found = audit.posteriors
    known = next((summary for summary in found if summary.reason is None), None)
    return {
        "refusals": audit.refusals,
        "refused": _refused(audit),
        "narrowed": _narrowed(audit),
        "laws": [_law(summary, audit.threshold) for summary in found[:MOST_LAWS]],
        "groups": _groups(audit),
        "measured": [str(one["release"]) for one in audit.measures],
        "side_by_side": _measures(audit),
        "likely": _rows(audit, known) if known else [],
        "likely_law": known.label if known else "",
        "likely_drawn": MOST_DRAWN,
        "likely_figure": _figure(audit, known) if known else "",
    }


def _law(summary: Summary, threshold: float) -> LawRow:
    if summary.reason is not None:
        return LawRow(summary.label, "none", "", "", "", "", "", "", "", "", summary.reason)
    tables, count = "", summary.feasible_tables
    if count is not None:
        # the number itself may have hundreds of digits
        tables = f"{count:,}" if count < MOST_WRITTEN else f"10^{math.log10(count):.1f}"
    if_uniform = "" if count is None else f"{log_probability_if_uniform(count):,.2f}"
    true_table = "" if summary.log_probability is None else f"{summary.log_probability:,.2f}"
    shares = summary.identified(threshold), summary.above(threshold)
    measured = (*shares, float(summary.at_truth.mean()), float(summary.at_truth.max()))
    share, above, mean, largest = (f"{100 * value:.2f} %" for value in measured)
    disclosed = f"{summary.disclosed(threshold):,}"
    of_tables = tables, true_table, if_uniform
    return LawRow(summary.label, _engine(summary), *of_tables, share, above, disclosed, mean, largest, "")


def _measures(audit: AuditEvidence) -> list[tuple[str, str, list[str]]]:
    """Of each measure the section of [DFT], its name, and how large it is of each release."""
    return [
        (section, name, [_figure_of(one, key, form) for one in audit.measures])
        for key, (section, name, form) in _MEASURES.items()
        if any(one[key] is not None for one in audit.measures)
    ]


def _figure_of(measured: Mapping[str, Any], key: str, form: str) -> str:
    if measured[key] is None:
        return "not known"
    said = format(measured[key], form)
    if key in _OF_BOUNDS and not measured["bounds_are_sharp"]:
        return f"{said} by outer bounds"
    return f"{said} sampled" if measured["sampled"] and key in _OF_CELLS else said


_OF_BOUNDS, _OF_CELLS = ("known_by_bounds", "total_width", "mean_width"), ("identified", "disclosure_risk")
_MEASURES = {
    "sub_tables": ("3", "utility: sub-tables without the grand total", ",d"),
    "disclosure_risk": ("3", "disclosure risk: what claims of an intruder cost, in the mean of the cells", ".4f"),
    "known_by_bounds": ("4.1", "at-risk cells whose bounds leave one count", ",d"),
    "mean_width": ("4.1", "mean width of their bounds", ",.2f"),
    "log_probability_if_uniform": ("4.1", "log probability of the true table, all feasible ones alike", ",.2f"),
    "total_width": ("4.2", "total width of their bounds", ",d"),
    "log_probability_of_true_table": ("4.2", "log probability of the true table by the law", ",.2f"),
    "entropy": ("4.2", "entropy of the law of the tables", ",.2f"),
    "identified": ("4.3", "at-risk cells that are identified, equation 5", ".2%"),
}


def _groups(audit: AuditEvidence) -> str:
    """What the bounds prove of attribute disclosure."""
    if audit.groups is None:
        return ""
    certain, impossible = audit.groups.are_certain(audit.bounds.outer), audit.groups.are_impossible(audit.bounds.outer)
    share = "all" if audit.groups.share == 1 else f"at least {100 * audit.groups.share:g} %"
    return (
        f"A cell that holds {share} of a group, a released marginal cell, discloses all categories of a person known "
        f"to be in it: by their bounds {certain.sum():,} at-risk cells certainly do, and {impossible.sum():,} cannot; "
        "“disclose a group” is how many do with a probability above that threshold."
    )


def _engine(summary: Summary) -> str:
    made = summary.diagnostics
    if made is None:
        same = summary.equals_released and summary.law != "released"
        return f"{summary.engine}, exact{'; here the law released' if same else ''}"
    return (
        f"{made.chains} chains of {made.draws:,} draws, R-hat {written_r_hat(made.r_hat)}, effective sample size from "
        f"{made.effective_sample_size:,.0f}, standard errors {written_error(made.error, made.wanted)}, connectivity "
        f"{made.connectivity}"
    )


def _rows(audit: AuditEvidence, summary: Summary) -> list[LikelyRow]:
    """Those whose true count is most probable, the wider first where it is as probable."""
    bounds = audit.bounds
    first = np.lexsort((-bounds.outer_width, -summary.at_truth))[:MOST_CELLS]
    return [
        LikelyRow(
            exposure.categories(bounds.cells[row], audit.table.schema),
            int(bounds.counts[row]),
            (int(bounds.outer[row, 0]), int(bounds.outer[row, 1])),
            float(summary.at_truth[row]),
            int(summary.most_likely[row]),
            float(summary.highest[row]),
            float(summary.disclosing[row]),
            st.label(int(audit.groups.sub_tables[row]), audit.table.schema) if audit.groups else "",
        )
        for row in first
    ]


def _narrowed(audit: AuditEvidence) -> str:
    """How many cells are too narrow for an intruder who knows the settings."""
    refusals = audit.refusals
    if refusals is None or refusals.reason is not None:
        return ""
    width = audit.criteria.width.min_width
    cells, own = refusals.narrowed(width)
    of = f"{cells:,} of {len(refusals.left):,} at-risk cells"
    said = f"For an intruder who knows them {of} fall below the width of {width}"
    if not audit.found.suppressed_tables.tables:
        return f"{said}."
    return f"{said}, and {own:,} of {len(refusals.own_left):,} small cells of the sub-tables in part."


def _refused(audit: AuditEvidence) -> list[RefusedRow]:
    """The at-risk cells that are narrowed most."""
    refusals, bounds = audit.refusals, audit.bounds
    if refusals is None or refusals.reason is not None:
        return []
    widths = np.diff(refusals.left)[:, 0]
    first = np.lexsort((-refusals.at_truth, widths, widths - np.diff(refusals.possible)[:, 0]))[:MOST_CELLS]
    return [
        RefusedRow(
            exposure.categories(bounds.cells[row], audit.table.schema),
            int(bounds.counts[row]),
            (int(refusals.possible[row, 0]), int(refusals.possible[row, 1])),
            (int(refusals.left[row, 0]), int(refusals.left[row, 1])),
            float(refusals.at_truth[row]),
        )
        for row in first
    ]


def _figure(audit: AuditEvidence, summary: Summary) -> Markup:
    """The probability of the true count against the outer width; most probable ones where there are too many cells."""
    widths = audit.bounds.outer_width
    drawn = np.argsort(-summary.at_truth, kind="stable")[:MOST_DRAWN]
    low, high = int(widths[drawn].min()), int(widths[drawn].max())
    logarithmic = low > 0 and high > WIDEST_RATIO * low
    x_range = (low, high) if low < high else (low - 1, high + 1)
    plot = Plot(LEFT, TOP, PAGE - LEFT - 30, HEIGHT, x_range, (0.0, 1.0), logarithmic)
    parts = [svg.text(plot.left - 60, plot.top - 22, "probability of the true count", "t strong")]
    parts += plot.grid(_widths(plot), [0, 0.2, 0.4, 0.6, 0.8, 1])
    bottom = plot.top + HEIGHT
    parts.append(svg.text(plot.left + plot.width, bottom + 36, "outer width →", "t strong", anchor="end"))
    parts += _points(plot, audit, summary, drawn)
    description = (
        "To the right how wide the bounds of an at-risk cell are, upwards how probable its true count is to an "
        f"intruder under the law {summary.label}. What is far to the right and high up is wide but all but known."
    )
    return svg.figure("likely", PAGE, bottom + 44, "Bounds and probabilities", description, parts)


def _widths(plot: Plot) -> list[float]:
    low, high = plot.x_range
    if not plot.logarithmic:
        return ticks(low, high, 10, 1)
    steps = [digit * 10**power for power in range(10) for digit in (1, 2, 5)]
    return [float(step) for step in steps if low <= step <= high]


def _points(plot: Plot, audit: AuditEvidence, summary: Summary, drawn: Any) -> Iterator[Markup]:
    # cells of one place are one point
    places = {
        (int(width), round(float(p), 3))
        for width, p in zip(audit.bounds.outer_width[drawn], summary.at_truth[drawn], strict=True)
    }
    for width, probability in sorted(places):
        yield svg.element("circle", cx=plot.x(width), cy=plot.y(probability), r=3, class_="faint")
