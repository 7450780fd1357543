"""What is proven of the questions that the search refused: by refutations, by its word alone, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdc.report import exposure
from sdc.report.evidence import AuditEvidence
from sdc.risk.refutation import Refutation
from sdc.risk.verdict import Policy
from sdc.search.step import Refused, SearchStep

MOST_ROWS, MOST_LABELS = 200, 6


@dataclass(frozen=True)
class RefutationRow:
    """An at-risk cell that is too narrow, what shows it, and how many questions that refused."""

    name: str
    categories: list[str]
    count: int
    bounds: tuple[int, int]
    support: str
    how: str
    questions: int


def sentence(audit: AuditEvidence) -> str:
    """How many questions were refused, and what is proven of that; empty where none was."""
    refused = Refused.of(audit.found.steps, audit.policy is Policy.OUTER)
    return "" if not refused.questions else f"Of {_many(refused.questions, 'refused question')} {refused.text}."


def reason(audit: AuditEvidence, step: SearchStep) -> str:
    """Of a sub-table that was tried alone, and refused."""
    if step.answer is None:
        return (
            f"undecided: no proof found for a cell in {_many(step.spent, 'step')}, {step.undecided_cells} cells were "
            "open then"
        )
    what = f"with the release a cell has outer width {step.min_width[1]}"
    if step.refutation is None:
        return f"refuted: {what}"
    one = audit.refutations.get(step.refutation)
    return f"refused, proven: {what}" + ("" if one is None else f", by {_labels(audit, one)}")


def rows(audit: AuditEvidence) -> list[RefutationRow]:
    """All refutations, those that refused most first."""
    names = [step.refutation for step in audit.found.steps]
    ordered = sorted(audit.refutations.values(), key=lambda one: (-names.count(one.name), one.name))
    return [
        RefutationRow(
            one.name,
            exposure.categories(one.cell, audit.table.schema),
            one.count,
            one.bounds,
            _labels(audit, one),
            "by the shuttle" if one.upper is None else f"by {_many(len(one.upper.of), 'multiplier')}",
            names.count(one.name),
        )
        for one in ordered[:MOST_ROWS]
    ]


def _labels(audit: AuditEvidence, one: Refutation) -> str:
    return _few(one.labels(audit.table.schema)) or "the grand total alone"


def _few(labels: Sequence[str]) -> str:
    named = ", ".join(labels[:MOST_LABELS])
    return named if len(labels) <= MOST_LABELS else f"{named} and {len(labels) - MOST_LABELS} more"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
