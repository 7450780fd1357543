"""What a reconstruction from the published tables guesses right, beside the bounds of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdc.intruder.guesses import Guesses, Score, mean_score
from sdc.report import exposure
from sdc.report.evidence import AuditEvidence

MOST_CELLS = 20


@dataclass(frozen=True)
class GuessRow:
    """An at-risk cell: its count and bounds, what is expected of it, and how probable its true count is.

    guessed    by the reconstruction, in the mean of its seeds; None without any; alone  by independence
    at_truth   None where no law is known
    """

    categories: list[str]
    count: int
    outer: tuple[int, int]
    guessed: float | None
    alone: float
    at_truth: float | None


def values(audit: AuditEvidence) -> dict[str, Any]:
    """What the section and the first page show; nothing where it was not asked for."""
    found = audit.guesses
    if not isinstance(found, Guesses):
        return {"guesses": found, "guess_scores": {}, "guess_rows": [], "guess_law": None}
    scores = found.scores(audit.bounds)
    law = next((law for law in audit.posteriors if law.reason is None), None)
    return {
        "guesses": found,
        "guess_scores": scores,
        "guess_mean": mean_score(scores),
        "guess_rows": _rows(audit, found, law.at_truth if law else None),
        "guess_law": law.label if law else None,
    }


def _rows(audit: AuditEvidence, found: Guesses, at_truth: Any) -> list[GuessRow]:
    """The narrowest; all are in the order of the table's rows."""
    bounds, mean = audit.bounds, found.mean
    return [
        GuessRow(
            exposure.categories(bounds.cells[row], audit.table.schema),
            int(bounds.counts[row]),
            (int(bounds.outer[row, 0]), int(bounds.outer[row, 1])),
            None if mean is None else float(mean[row]),
            float(found.expected[-1, row]),
            None if at_truth is None else float(at_truth[row]),
        )
        for row in np.argsort(bounds.outer_width, kind="stable")[:MOST_CELLS].tolist()
    ]


def sentence(audit: AuditEvidence) -> str:
    """What the first page says of it: what was not promised; empty where nothing is known."""
    found = audit.guesses
    if not isinstance(found, Guesses) or not len(audit.bounds):
        return ""
    *own, alone = found.scores(audit.bounds).values()
    by = [own, [alone]] if own else [[alone]]
    listed = [f"by {method} {_right(scores)}" for method, scores in zip(found.methods, by, strict=True)]
    return (
        "That no guess is right is not promised. Of the counts of these cells, guessed from the published tables, "
        f"are right {'; '.join(listed)}."
    )


def _right(scores: Sequence[Score]) -> str:
    """How many, over all seeds, and of how many of them a record is certain."""
    certain = max(one.provable for one in scores)
    right = sorted({one.at_risk for one in scores})
    number = " to ".join(f"{one:,}" for one in {right[0]: None, right[-1]: None})
    return number + f", of which at most {certain:,} hold a record for certain" * (certain > 0)
