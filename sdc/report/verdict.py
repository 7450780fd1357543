"""The verdict in plain words, and the checks that the evidence does not contradict it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import many
from sdc.report.evidence import AuditEvidence
from sdc.risk.verdict import Policy, Verdict

# what the assessment says, and what the listed bounds say: bounds may show less than was found for a refusal, and more
# than was found for an open question, but never less than a claim of safety
CLAIMS = {(True, True), (False, False), (False, None), (None, None), (None, True)}


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
    yield Check(f"The bounds are of exactly the {_cells(len(rows))} at risk in the table.", _same_cells(audit))
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
    again = _answer(audit)
    text = f"Decided once more from the listed bounds: {_said(again)}; the assessment says {_said(_claim(audit))}."
    yield Check(text, (_claim(audit), again) in CLAIMS)
    if (sharpness := audit.assessment.sharpness) is not None:
        sharp = _cells(int(bounds.exact.sum()))
        text = f"The listed bounds of {sharp} are sharp; the assessment says {sharpness.sharp:,}."
        yield Check(text, sharpness.sharp == bounds.exact.sum() and sharpness.cells == len(bounds))
    yield from _width_check(audit)
    if audit.criteria.rules:
        public = audit.known.plus(audit.found.release).plus_facts(audit.found.suppressed_tables.facts)
        kept = audit.criteria.broken(audit.table, public) is None
        text = "Every sub-table that is public, whole or with suppressed cells, keeps the rules on what is published."
        yield Check(text, kept == (audit.assessment.broken is None) and (kept or _claim(audit) is False))


def _width_check(audit: AuditEvidence) -> Iterator[Check]:
    """With every one-way sub-table released, a released T gives widths of at most w*(T)."""
    if audit.found.release.variables != st.full(len(audit.table.schema)):
        return
    listed, required = audit.widths.by_sub_table(), audit.min_width
    # not listed says that it is too narrow where all that reach what is required are listed, else nothing
    unlisted = audit.widths.floor - 1 if audit.widths.has_all(required) else required
    enough = audit.criteria.width.is_wide(min(listed.get(s, unlisted) for s in audit.found.release.frontier))
    text = f"No sub-table of the released frontier has a critical width below the required {required:,}."
    yield Check(text, enough or _claim(audit) is not True)


def _claim(audit: AuditEvidence) -> bool | None:
    return audit.assessment.releasable


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
            "This build accepts undecided cells (risk.accept_undecided). "
            f"{found.undecided_cells:,} of {_cells(found.at_risk_cells)} at risk rest on no proof{small}. Without that "
            "setting a release is proved."
        )
    yield from (one.warning for one in audit.found.suppressed if one.warning)


def width_of(low: int, high: int) -> str:
    return f"exactly {low:,}" if low == high else f"at least {low:,} and at most {high:,}"


def _cells(number: int) -> str:
    return many(number, "cell")


def _said(answer: bool | None) -> str:
    return {True: "releasable", False: "not releasable", None: "undecided"}[answer]
