"""The verdict in plain words, and the checks that the evidence does not contradict it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sdc.model import subtable as st
from sdc.model.sharpness import Sharpness
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
    """kind is safe, unsafe, undecided or contradicted; done is released or examined.

    sentences  each with the section that explains it; warnings  too
    """

    kind: str
    done: str
    headline: str
    sentences: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]


def verdict(audit: AuditEvidence) -> Opinion:
    """What a review board reads first."""
    made = tuple(checks(audit))
    kind, headline = _headline(audit, all(check.holds for check in made))
    let_through = kind == "undecided" and audit.policy is Policy.OUTER
    done = "released" if kind == "safe" or let_through else "examined"
    return Opinion(kind, done, headline, tuple(_sentences(audit, done)), tuple(_warnings(audit, made)), made)


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
        text = f"The min width over the listed bounds, {_width(low, high)}, agrees with the assessment's."
        # both contain the sharp minimum width, so they must meet
        yield Check(text, max(low, claimed[0]) <= min(high, claimed[1]))
    again = _answer(audit)
    text = f"Decided once more from the listed bounds: {_said(again)}; the assessment says {_said(_claim(audit))}."
    yield Check(text, (_claim(audit), again) in CLAIMS)
    if (sharpness := audit.assessment.sharpness) is not None:
        sharp = _cells(int(bounds.exact.sum()))
        text = f"Of the listed bounds {sharp} are sharp; the assessment says {sharpness.sharp:,}."
        yield Check(text, sharpness.sharp == bounds.exact.sum() and sharpness.cells == len(bounds))
    yield from _width_check(audit)
    if audit.criteria.rules:
        public = audit.known.plus(audit.found.release).plus_facts(audit.found.suppressed_tables.facts)
        kept = audit.criteria.broken(audit.table, public) is None
        text = "Every sub-table that is public, whole or in part, keeps the rules on what is published."
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
        own = " and every small cell of sub-tables in part" * (audit.assessment.in_part is not None)
        return "safe", f"Releasable: proved for every at-risk cell{own}"
    if audit.assessment.broken is not None:
        return "unsafe", f"Not releasable: {audit.assessment.broken.text}"
    if audit.assessment.releasable is False:
        return "unsafe", "Not releasable: an at-risk cell is too narrow"
    what = "some at-risk cells" if audit.assessment.undecided_cells else "some small cells of sub-tables in part"
    if audit.policy is Policy.OUTER:
        return "undecided", f"Released without proof: {what} are undecided"
    return "undecided", f"Not releasable: {what} are undecided, and undecided is treated as unsafe"


def _how_partly(audit: AuditEvidence) -> str:
    """Those that are public in part, now or from before, and those that are rounded."""
    facts = [*audit.found.suppressed_tables.facts, *audit.known.published]
    nothing = np.concatenate(
        [fact.intervals.suppressed(audit.known.total) for fact in facts if fact.intervals is not None]
    )
    kinds = {"withheld in part": nothing.any(), "rounded": not nothing.all()}
    return " or ".join(kind for kind, is_so in kinds.items() if is_so)


def _sentences(audit: AuditEvidence, done: str) -> Iterator[tuple[str, str]]:
    """Each with the section that explains it."""
    release, found, required = audit.published, audit.assessment, audit.min_width
    frontier = f"{len(release.frontier):,} frontier sub-table{'s' * (len(release.frontier) != 1)}"
    with_total, without = audit.sub_tables_with_total, audit.sub_tables
    tables = audit.found.suppressed_tables.tables
    rounded = sum(part.base > 0 for part in tables)
    parts = len(tables) - rounded
    exact = "as exact counts, without noise or suppression"
    yield (
        f"{done.capitalize()}: {without:,} sub-tables without the grand total, {with_total:,} of "
        f"{audit.possible:,} with it. They are the {frontier} and everything within, "
        f"{exact if audit.has_counts else 'of which no count goes out but totals of weights'}.",
        "released",
    )
    if parts:
        hidden = sum(len(part.suppressed) for part in tables)
        shares = sorted(one.share for one in audit.found.suppressed)
        yield (
            f"Beside them {parts:,} sub-table{'s' * (parts != 1)} {'go' if parts > 1 else 'goes'} out in part: "
            f"{_cells(hidden)} {'are' if hidden != 1 else 'is'} withheld.{_hidden(shares)}",
            "withheld",
        )
    if rounded:
        many = f"{rounded:,} sub-table{'s' * (rounded != 1)} {'go' if rounded > 1 else 'goes'}"
        yield f"Beside them {many} out rounded.", "frontier"
    if not found.at_risk_cells:
        small = audit.small_count
        keeps = "every release keeps the criterion" if not audit.criteria.rules else "every cell keeps the width"
        yield f"The table has no at-risk cell (no count from 1 to {small}), so that {keeps}.", "cells"
        return
    yield (
        f"At risk are the {_cells(found.at_risk_cells)} of the full table with a count from 1 to {audit.small_count}. "
        f"The narrowest interval that an intruder can derive for any of them from the whole release"
        f"{' and what was published before' * bool(audit.origin.sources)} is proved to have a width of "
        f"{_width(*found.min_width)}; required is at least {required:,}.",
        "cells",
    )
    if found.sharpness is not None:
        yield _sharp(found.sharpness, audit.config.seconds_to_sharpen), "cells"
    if found.in_part is not None:
        yield (
            f"Some public sub-tables are {_how_partly(audit)}. {_small(found.in_part.cells)} of these that no "
            f"publication implies, with a count from 1 to {audit.criteria.primary_count}, must keep a width of "
            f"{required:,} too; of {found.in_part.unproven:,} that is not shown.",
            "withheld" if parts else "cells",
        )
    if found.likely is not None:
        likely = found.likely
        yield (
            f"Beside its width the release keeps a limit on what it makes likely: {likely.text}."
            if likely.is_kept
            else f"It does not keep its limit on what it makes likely: {likely.text}.",
            "likely" if audit.posteriors else "glossary",
        )
    yield f"Undecided cells: {found.undecided_cells:,}.{_treatment(audit)}{_undecided_steps(audit)}", "cells"


def _hidden(shares: list[float]) -> str:
    """Which share of the records the withheld cells of each table hold; ascending."""
    if not shares:
        return ""
    if len(shares) == 1:
        return f" They hold {shares[0]:.1%} of the records."
    mean = sum(shares) / len(shares)
    return f" Those of one table hold {shares[0]:.1%} to {shares[-1]:.1%} of the records, {mean:.1%} on average."


def _small(number: int) -> str:
    return f"{number:,} small cell{'s' * (number != 1)}"


def _sharp(found: Sharpness, seconds: float | None) -> str:
    """How many cells have sharp bounds, what is known of the others, and what the budget was."""
    if found.sharp == found.cells:
        return "The bounds of all of them are sharp: the least and the largest count that the release allows."
    return (
        f"The bounds of {found.sharp:,} of them are sharp: the least and the largest count that the release allows. "
        f"Those of the other {found.cells - found.sharp:,} are bracketed by an outer and an inner interval, "
        f"within a budget of {seconds:g} seconds of a reference core."
    )


def _treatment(audit: AuditEvidence) -> str:
    if not audit.assessment.undecided_cells:
        return " For every at-risk cell one of the two proofs succeeded." if audit.assessment.releasable else ""
    if audit.policy is Policy.OUTER:
        return " Neither proof succeeded there; the policy “outer” lets that through."
    return " Neither proof succeeded there; under the policy “refuse” undecided is treated as unsafe."


def _undecided_steps(audit: AuditEvidence) -> str:
    if not audit.found.steps:
        return ""
    steps = sum(step.answer is None for step in audit.found.steps)
    if not steps:
        return " No question that the search recorded stayed undecided."
    treated = "let through" if audit.policy is Policy.OUTER else "treated as unsafe and refused"
    questions = f"{steps:,} question{'s' * (steps != 1)}"
    return f" In the search {questions} stayed undecided, {treated} (policy “{audit.policy.value}”)."


def _warnings(audit: AuditEvidence, done: tuple[Check, ...]) -> Iterator[tuple[str, str]]:
    for check in done:
        if not check.holds:
            yield f"This check failed: {check.text}", "checks"
    if audit.policy is Policy.OUTER:
        yield (
            "The undecided policy of this build is “outer”: cells that no proof could settle do not stop a release. "
            f"{audit.assessment.undecided_cells:,} of {_cells(audit.assessment.at_risk_cells)} at risk rest on no "
            f"proof{_unproven_in_part(audit)}. Set it to “refuse” for a release that is proved.",
            "checks",
        )
    for one in audit.found.suppressed:
        if one.warning:
            yield one.warning, "withheld"


def _unproven_in_part(audit: AuditEvidence) -> str:
    found = audit.assessment.in_part
    return "" if found is None else f", and {found.unproven:,} of {_small(found.cells)} of sub-tables in part"


def _width(low: int, high: int) -> str:
    return f"exactly {low:,}" if low == high else f"at least {low:,} and at most {high:,}"


def _cells(number: int) -> str:
    return f"{number:,} cell{'s' * (number != 1)}"


def _said(answer: bool | None) -> str:
    return {True: "releasable", False: "not releasable", None: "undecided"}[answer]
