"""The section on the proof: the checks, and the bounds of at-risk cells, most exposed first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdc.model.cell_bounds import CellBounds
from sdc.report import exposure, figures
from sdc.report.blocks import Block, FigureBlock, ListBlock, TextBlock, interval, pairs
from sdc.report.evidence import AuditEvidence
from sdc.report.scale import Scale
from sdc.report.verdict import Check
from sdc.risk.verdict import Verdict

MOST_WITNESSES, MOST_DRAWN, MOST_CELLS, MOST_CATEGORIES = 20, 60, 500, 12_000
FOLDER = "assessment/"
STATES = {Verdict.UNSAFE: "✕ too narrow", Verdict.UNDECIDED: "◇ undecided", Verdict.SAFE: "● wide enough"}


def blocks(audit: AuditEvidence, checks: tuple[Check, ...]) -> Iterator[Block]:
    """The paragraphs, tables and figure of the section."""
    rows = [("● holds" if check.holds else "✕ fails", check.text) for check in checks]
    title = "Checks of the evidence, made when this page was written"
    yield ListBlock("checks", title, "Result | Check", rows, is_open=True)
    bounds, schema = audit.bounds, audit.table.schema
    if witnesses := audit.assessment.witnesses:
        named = [
            (pairs(w.cell, schema), w.count, interval(w.outer), interval(w.inner), w.method)
            for w in witnesses[:MOST_WITNESSES]
        ]
        columns = "Cell | #Count | #Outer | #Inner | Method"
        yield ListBlock("witnesses", "Cells that the assessment names", columns, named, is_open=True)
    if not len(bounds):
        yield TextBlock(f"No cell is at risk: the table has no count from 1 to {audit.small_count}.")
        return
    yield TextBlock(f"Bounds by “{bounds.method}”: {_kinds(audit)}.")
    if found := audit.assessment.sharpness:
        looked = found.described("at-risk cell", audit.config.seconds_to_sharpen)
        yield TextBlock(
            f"Sharp bounds were looked for: {looked}. assessment/cells.parquet has the method of each end.", "sharp"
        )
    first = exposure.by_exposure(bounds, audit.criteria, max(MOST_DRAWN, MOST_CELLS))
    drawn = first.rows(np.arange(min(len(first), MOST_DRAWN)))
    yield FigureBlock(
        figures.exposed_cells(drawn, audit.criteria, schema),
        f"The {len(drawn)} most exposed at-risk cells. Pale bar: outer interval. Dark bar: inner interval. Dot: true "
        "count. Upright mark: the end that the inner interval must reach to be wide enough. Blue: wide enough; amber: "
        "undecided; red: too narrow. ▸: goes on beyond the axis.",
    )
    yield _widths(audit)
    yield _cells(first, audit)


def _kinds(audit: AuditEvidence) -> str:
    """How many cells have bounds of each kind."""
    found = np.bincount(exposure.kinds(audit.bounds, audit.criteria), minlength=len(exposure.KINDS)).tolist()
    return ", ".join(f"{many:,} {kind}" for kind, many in zip(exposure.KINDS, found, strict=True) if many)


def _widths(audit: AuditEvidence) -> ListBlock:
    """At-risk cells by class of width: proved by the inner bounds, and not excluded by the outer ones."""
    # fine classes near the required width: cells far above it need no telling apart
    bounds = audit.bounds
    scale = Scale.near(audit.min_width, int(bounds.outer_width.max(initial=0)))
    inner, outer = (
        np.bincount(scale.classes(widths), minlength=len(scale.edges)).tolist()
        for widths in (bounds.inner_width, bounds.outer_width)
    )
    rows = list(zip(scale.labels, inner, outer, strict=True))
    title = f"Widths of all {len(bounds):,} at-risk cells, required: {audit.min_width:,}"
    return ListBlock("cell-widths", title, "#Width | #Cells by inner width | #Cells by outer width", rows)


def _cells(bounds: CellBounds, audit: AuditEvidence) -> ListBlock:
    """The first of the bounds, which are by exposure."""
    schema = audit.table.schema
    shown = bounds.rows(np.arange(min(len(bounds), MOST_CELLS, MOST_CATEGORIES // len(schema.axes))))
    states, kinds = audit.criteria.width.verdicts(shown), exposure.kinds(shown, audit.criteria)
    rows = [
        (
            f"{k + 1}",
            pairs(shown.cells[k].tolist(), schema),
            int(shown.counts[k]),
            interval(shown.outer[k].tolist()),
            interval(shown.inner[k].tolist()),
            _width(int(shown.inner_width[k]), int(shown.outer_width[k])),
            exposure.KINDS[kinds[k]],
            STATES[Verdict(states[k])],
        )
        for k in range(len(shown))
    ]
    columns = f"#No. | Cell | #Count | #Outer | #Inner | #Width | Kind | Against {audit.min_width:,}"
    return ListBlock("cells", "Most exposed cells", columns, rows, len(audit.bounds), FOLDER)


def _width(low: int, high: int) -> str:
    """`9`, or `3 to 9` where the bounds leave it open."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
