"""The list by critical width, the prefixes of it that were asked about, and the one that may go out ([KDSF] 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from sdc.model import subtable as st
from sdc.model.table import Counts
from sdc.report import figures, svg
from sdc.report.evidence import AuditEvidence
from sdc.report.plot import PAGE, Plot, ticks
from sdc.risk.verdict import Policy
from sdc.search.step import SearchStep

MOST_ROWS = 500  # of the list
MOST_CORNERS = 400  # of its line
ANSWERS = {True: "yes", False: "no", None: "undecided"}
LEFT, TOP, WIDE, HEIGHT = 70.0, 34.0, PAGE - 120, 300.0


@dataclass(frozen=True)
class ListedRow:
    """A sub-table of the list: its number, its critical width, whether it is in the prefix that may go out."""

    number: int
    label: str
    width: int
    released: bool


@dataclass(frozen=True)
class PrefixRow:
    """A question about a prefix: its last sub-table with its critical width, and what was found of all together."""

    number: int
    length: int
    last: str
    width: int
    answer: str
    min_width: tuple[int, int]
    undecided: int
    figure: Markup


def asked(audit: AuditEvidence) -> list[SearchStep]:
    """The questions about prefixes, in order."""
    return [step for step in audit.found.steps if step.phase == "bisection"]


def passed(audit: AuditEvidence, step: SearchStep) -> bool:
    """Whether what was asked about may go out."""
    return step.answer is True or (step.answer is None and audit.policy is Policy.OUTER)


def longest(audit: AuditEvidence) -> int:
    """The length of the longest prefix that may go out; 0 where none was found."""
    return max((step.length for step in asked(audit) if passed(audit, step)), default=0)


def said(audit: AuditEvidence, steps: Sequence[SearchStep]) -> str:
    """What was looked for and found, in one sentence."""
    beside = " beside what is required" * (audit.found.required is not None)
    found = longest(audit)
    return (
        f"Of the list of {len(audit.listed):,} sub-tables the longest prefix that may go out{beside} was looked for by "
        f"bisection, in {len(steps):,} question{'s' * (len(steps) != 1)}: "
        + (f"it is the first {found:,}." if found else "there is none.")
    )


def widths(audit: AuditEvidence) -> Counts:
    """(n,) critical widths of the list, in its order."""
    found: Counts = audit.widths.widths[np.isin(audit.widths.sub_tables, np.array(audit.listed, np.uint64))]
    return found


def rows(audit: AuditEvidence) -> list[PrefixRow]:
    """The prefixes asked about, in order, with the lengths that were still open before each."""
    found, limit, known = [], len(audit.listed), widths(audit)
    low, high = 0, limit + 1
    for k, step in enumerate(asked(audit), 1):
        last, answer = st.label(audit.listed[step.length - 1], audit.table.schema), ANSWERS[step.answer]
        drawn = figures.bracket(low, min(high, limit), step.length, limit, answer)
        width = int(known[step.length - 1])
        found.append(
            PrefixRow(k, step.length, last, width, answer, step.min_width, step.undecided_cells, drawn),
        )
        low, high = (step.length, high) if passed(audit, step) else (low, step.length)
    return found


def listed(audit: AuditEvidence) -> list[ListedRow]:
    """The first of the list."""
    if not asked(audit):
        return []
    first, within = audit.listed[:MOST_ROWS], longest(audit)
    known = widths(audit)[: len(first)].tolist()
    return [
        ListedRow(k, st.label(t, audit.table.schema), width, k <= within)
        for k, (t, width) in enumerate(zip(first, known, strict=True), 1)
    ]


def figure(audit: AuditEvidence) -> Markup:
    """Sub-tables of the list against the critical width that they reach, and the prefixes against their min widths."""
    known = widths(audit)
    ends = [end for step in asked(audit) for end in step.min_width]
    x_range = (1, max(10, int(known.max(initial=1)), *ends))
    plot = Plot(LEFT, TOP, WIDE, HEIGHT, x_range, (0, len(known) * 1.04), logarithmic=True)
    tens = [10.0**k for k in range(20) if 10**k <= x_range[1]]
    parts = [svg.text(LEFT - 60, TOP - 16, "sub-tables of the list", "t strong")]
    parts += plot.grid(tens, ticks(*plot.y_range, 8, 1))
    parts.append(svg.text(LEFT + WIDE, TOP + HEIGHT + 34, "width in records →", "t strong", anchor="end"))
    parts.append(plot.line(_corners(known), "chain"))
    required = plot.x(max(1, audit.min_width))
    parts.append(svg.line(required, TOP - 8, required, TOP + HEIGHT, "required"))
    parts.append(svg.text(required + 6, TOP - 2, f"required: {audit.min_width:,}", "t strong halo"))
    for step in asked(audit):
        parts += _mark(step, plot)
    return svg.figure(
        "prefixes",
        PAGE,
        TOP + HEIGHT + 42,
        "The list and its prefixes",
        "To the right the width, upwards the number of sub-tables: a line for the sub-tables of the list that reach a "
        "critical width, and a mark for each prefix at the min width that was found for it.",
        parts,
    )


def _corners(known: Counts) -> list[tuple[float, float]]:
    """Of the stairs that the list makes, thinned: from its widest sub-table to its narrowest."""
    chosen = np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_CORNERS)).astype(int)).tolist()
    stairs = [(max(1, int(known[k])), height) for k in chosen for height in (k, k + 1)]
    return [(float(x), float(y)) for x, y in stairs]


def _mark(step: SearchStep, plot: Plot) -> Iterator[Markup]:
    """A bar from the width that is proved to the one that is not excluded, and how the question was answered."""
    low, high = (plot.x(max(1, end)) for end in step.min_width)
    x, y = low if step.answer else high, plot.y(step.length)
    title = svg.element("title", f"the first {step.length:,}: min width {step.min_width[0]:,} to {step.min_width[1]:,}")
    yield svg.line(low, y, high, y, "chain")
    if step.answer is True:
        yield svg.element("circle", title, cx=x, cy=y, r=5, class_="mark safe")
    elif step.answer is False:
        yield svg.element("path", title, d=f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8", class_="mark unsafe")
    else:
        yield svg.element("path", title, d=f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z", class_="mark undecided")
