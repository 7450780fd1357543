"""The decision in plain words, the checks that the evidence does not contradict it, and the bounds of at-risk cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import many
from sdc.report import figures
from sdc.report.blocks import Block, Cell, FigureBlock, ListBlock, TextBlock, interval, pairs
from sdc.report.evidence import AuditEvidence
from sdc.report.figures import Scale
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy, Verdict

# what the assessment says, and what the listed bounds say: bounds may show less than was found for a refusal, and more
# than was found for an open question, but never less than a claim of safety
CLAIMS = {(True, True), (False, False), (False, None), (None, None), (None, True)}
_SAID = {True: "releasable", False: "not releasable", None: "undecided"}


@dataclass(frozen=True)
class Check:
    """Something recomputed from the evidence while the report was written."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Opinion:
    """The decision: kind is safe, unsafe, undecided or contradicted; done is released or examined."""

    kind: str
    done: str
    headline: str
    warnings: tuple[str, ...]
    checks: tuple[Check, ...]


def verdict(audit: AuditEvidence) -> Opinion:
    """The decision that heads page one."""
    made = tuple(checks(audit))
    kind, headline = _headline(audit, all(check.holds for check in made))
    let_through = kind == "undecided" and audit.policy is Policy.OUTER
    done = "released" if kind == "safe" or let_through else "examined"
    return Opinion(kind, done, headline, tuple(_warnings(audit, made)), made)


def checks(audit: AuditEvidence) -> Iterator[Check]:
    """The claims of the assessment against the table, the bounds and the critical widths."""
    rows = audit.table.at_risk(audit.small_count)
    yield Check(f"The bounds are of exactly the {many(len(rows), 'cell')} at risk in the table.", _same_cells(audit))
    agreed = audit.assessment.at_risk_cells == len(rows)
    yield Check(f"The assessment is of as many at-risk cells: {audit.assessment.at_risk_cells:,}.", agreed)
    required = audit.assessment.min_width_required
    yield Check(f"The assessment asked for the required min width: {required:,}.", required == audit.min_width)
    bounds = audit.bounds
    if len(bounds):
        low, high = int(bounds.inner_width.min()), int(bounds.outer_width.min())
        claimed = audit.assessment.min_width
        text = f"The min width over the listed bounds, {width_of(low, high)}, agrees with the assessment's."
        # both contain the sharp minimum width, so they must meet
        yield Check(text, max(low, claimed[0]) <= min(high, claimed[1]))
    again, claim = _answer(audit), audit.assessment.releasable
    text = f"Decided once more from the listed bounds: {_SAID[again]}; the assessment says {_SAID[claim]}."
    yield Check(text, (claim, again) in CLAIMS)
    if (sharpness := audit.assessment.sharpness) is not None:
        sharp = many(int(bounds.exact.sum()), "cell")
        text = f"The listed bounds of {sharp} are sharp; the assessment says {sharpness.sharp:,}."
        yield Check(text, sharpness.sharp == bounds.exact.sum() and sharpness.cells == len(bounds))
    yield from _width_check(audit)
    if audit.criteria.rules:
        public = audit.known.plus(audit.found.release).plus_facts(audit.found.suppressed_tables.facts)
        kept = audit.criteria.broken(audit.table, public) is None
        text = "Every sub-table that is public, whole or with suppressed cells, keeps the rules on what is published."
        yield Check(text, kept == (audit.assessment.broken is None) and (kept or claim is False))


def _width_check(audit: AuditEvidence) -> Iterator[Check]:
    """With every one-way sub-table released, a released T gives widths of at most w*(T)."""
    if audit.found.release.variables != st.full(len(audit.schema)):
        return
    listed, required = audit.widths.by_sub_table(), audit.min_width
    # not listed says that it is too narrow where all that reach what is required are listed, else nothing
    unlisted = audit.widths.floor - 1 if audit.widths.has_all(required) else required
    enough = audit.criteria.width.is_wide(min(listed.get(s, unlisted) for s in audit.found.release.frontier))
    text = f"No sub-table of the released frontier has a critical width below the required {required:,}."
    yield Check(text, enough or audit.assessment.releasable is not True)


def _answer(audit: AuditEvidence) -> bool | None:
    by_rule = Verdict.SAFE if audit.assessment.broken is None else Verdict.UNSAFE
    return Verdict.worst([by_rule, *audit.criteria.width.verdicts(audit.bounds)]).releasable


def _same_cells(audit: AuditEvidence) -> bool:
    rows = audit.table.at_risk(audit.small_count)
    codes, counts, bounds = audit.table.codes[rows], audit.table.counts[rows], audit.bounds
    if not np.array_equal(codes, bounds.cells):
        # bounds may come by exposure; the table's cells are ascending
        bounds = bounds.rows(np.lexsort(bounds.cells.T[::-1]))
    return np.array_equal(codes, bounds.cells) and np.array_equal(counts, bounds.counts)


def _headline(audit: AuditEvidence, sound: bool) -> tuple[str, str]:
    # before all else: evidence that contradicts itself proves nothing, whatever it says
    if not sound:
        return "contradicted", "Do not publish: the evidence contradicts itself"
    if audit.assessment.releasable:
        own = " and every small cell of suppressed tables" * (audit.assessment.in_part is not None)
        return "safe", f"Releasable: proved for every at-risk cell{own}"
    if audit.assessment.broken is not None:
        return "unsafe", f"Not releasable: {audit.assessment.broken.text}"
    if audit.assessment.releasable is False:
        return "unsafe", "Not releasable: an at-risk cell is too narrow"
    what = "some at-risk cells" if audit.assessment.undecided_cells else "some small cells of suppressed tables"
    if audit.policy is Policy.OUTER:
        return "undecided", f"Released without proof: {what} are undecided"
    return "undecided", f"Not releasable: {what} are undecided, and undecided is treated as unsafe"


def _warnings(audit: AuditEvidence, done: tuple[Check, ...]) -> Iterator[str]:
    yield from (f"This check failed: {check.text}" for check in done if not check.holds)
    found = audit.assessment
    if audit.policy is Policy.OUTER:
        part = found.in_part
        small = (
            "" if part is None else f", and {part.unproven:,} of {many(part.cells, 'small cell')} of suppressed tables"
        )
        yield (
            f"This build accepts undecided cells (risk.accept_undecided). {found.undecided_cells:,} of "
            f"{many(found.at_risk_cells, 'cell')} at risk rest on no proof{small}. Without that setting a release is "
            "proved."
        )
    yield from (one.warning for one in audit.found.suppressed if one.warning)


def width_of(low: int, high: int) -> str:
    return f"exactly {low:,}" if low == high else f"at least {low:,} and at most {high:,}"


MOST_WITNESSES, MOST_DRAWN, MOST_CELLS, MOST_CATEGORIES = 20, 60, 500, 12_000
FOLDER = "assessment/"
KINDS = ("exact", "outer and inner", "undecided")
STATES = {Verdict.UNSAFE: "✕ too narrow", Verdict.UNDECIDED: "◇ undecided", Verdict.SAFE: "● wide enough"}


def blocks(audit: AuditEvidence, checks: tuple[Check, ...]) -> Iterator[Block]:
    """The paragraphs, tables and figure of the section."""
    rows = [("● holds" if check.holds else "✕ fails", check.text) for check in checks]
    title = "Checks of the evidence, made when this page was written"
    yield ListBlock("checks", title, "Result | Check", rows, is_open=True)
    bounds, schema = audit.bounds, audit.schema
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
    first = by_exposure(bounds, audit.criteria, max(MOST_DRAWN, MOST_CELLS))
    drawn = first.rows(np.arange(min(len(first), MOST_DRAWN)))
    yield FigureBlock(
        figures.exposed_cells(drawn, audit.criteria, schema),
        f"The {len(drawn)} most exposed at-risk cells. Pale bar: outer interval. Dark bar: inner interval. Dot: true "
        "count. Upright mark: the end that the inner interval must reach to be wide enough. Blue: wide enough; amber: "
        "undecided; red: too narrow. ▸: goes on beyond the axis.",
    )
    yield _widths(audit)
    yield _cell_rows(first, audit)


def _kinds(audit: AuditEvidence) -> str:
    """How many cells have bounds of each kind."""
    found = np.bincount(kinds(audit.bounds, audit.criteria), minlength=len(KINDS)).tolist()
    return ", ".join(f"{many:,} {kind}" for kind, many in zip(KINDS, found, strict=True) if many)


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


def _cell_rows(bounds: CellBounds, audit: AuditEvidence) -> ListBlock:
    """The first of the bounds, which are by exposure."""
    schema = audit.schema
    shown = bounds.rows(np.arange(min(len(bounds), MOST_CELLS, MOST_CATEGORIES // len(schema.axes))))
    states, own = audit.criteria.width.verdicts(shown), kinds(shown, audit.criteria)
    rows = list[tuple[Cell, ...]]()
    for k in range(len(shown)):
        ends = (interval(found[k].tolist()) for found in (shown.outer, shown.inner))
        low, high = int(shown.inner_width[k]), int(shown.outer_width[k])
        width = f"{low:,}" if low == high else f"{low:,} to {high:,}"  # the bounds leave it open
        cell = pairs(shown.cells[k].tolist(), schema), int(shown.counts[k])
        rows.append((f"{k + 1}", *cell, *ends, width, KINDS[own[k]], STATES[Verdict(states[k])]))
    columns = f"#No. | Cell | #Count | #Outer | #Inner | #Width | Kind | Against {audit.min_width:,}"
    return ListBlock("cells", "Most exposed cells", columns, rows, len(audit.bounds), FOLDER)


def by_exposure(bounds: CellBounds, criteria: Criteria, most: int | None = None) -> CellBounds:
    """The first of unsafe cells, then undecided, then safe; within each by inner width, outer width, count, codes."""
    # `lexsort` takes its last key first; with the codes for a last resort the order depends on the cells alone
    keys = (bounds.counts, bounds.outer_width, bounds.inner_width, criteria.width.verdicts(bounds))
    return bounds.rows(np.lexsort((*bounds.cells.T[::-1], *keys))[:most])


def kinds(bounds: CellBounds, criteria: Criteria) -> npt.NDArray[np.int8]:
    """(n,) the kind of each cell's bounds, a place in `KINDS`."""
    undecided = criteria.width.verdicts(bounds) == Verdict.UNDECIDED
    return np.select([bounds.exact, undecided], [0, 2], 1).astype(np.int8)
