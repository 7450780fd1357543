"""Sample uniques that may be population uniques, beside the bounds of their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdc.report import exposure
from sdc.report.evidence import AuditEvidence
from sdc.utility.uniques import POISSON, Uniques

MOST_CELLS = 20


@dataclass(frozen=True)
class UniqueRow:
    """A sample unique: its bounds, how probably nobody else of the population is in its cell, and how many are."""

    categories: list[str]
    outer: tuple[int, int]
    alone: float
    matched: float
    expected: float


def values(audit: AuditEvidence) -> dict[str, Any]:
    """What the section shows; nothing where it was not asked for."""
    found = audit.uniques
    if not isinstance(found, Uniques):
        return {"uniques": found, "uniques_said": [], "unique_rows": []}
    return {"uniques": found, "uniques_said": _said(found), "unique_rows": _rows(audit, found)}


def _said(found: Uniques) -> list[str]:
    by = (
        f"the Poisson log-linear model {found.model} and a sampling fraction of {found.fraction:g} (Skinner and "
        "Holmes 1998, Skinner and Shlomo 2008)"
        if found.estimator == POISSON
        else "the weights of records, by a negative binomial distribution (Benedetti and Franconi 1998)"
    )
    alone, matched = float(found.alone.sum()), float(found.matched.sum())
    return [
        f"{len(found):,} {'cells have' if len(found) > 1 else 'cell has'} one record, a sample unique. By {by} "
        f"{alone:,.1f} of them, {100 * alone / len(found):.2f} %, are expected to be population uniques: nobody else "
        "in the population is in the cell. An intruder who links each to a random person of the population in its "
        f"cell is expected to be right {matched:,.1f} times.",
        f"Of all persons in these cells {100 * found.right_matches:.2f} % are in the sample by that; without a model, "
        f"by data intrusion simulation (Skinner and Elliot 2002), {100 * found.intrusion:.2f} % from {len(found):,} "
        f"cells of one record and {found.twos:,} of two. Where the two are far apart the first does not fit.",
        "These are estimates of the population, and decide nothing: cells are at risk, and widths are kept, as if the "
        "sample were all there is.",
    ]


def _rows(audit: AuditEvidence, found: Uniques) -> list[UniqueRow]:
    """Those that are most probably population uniques, the narrower first where one is as probable."""
    outer = audit.bounds.outer[audit.bounds.counts == 1]  # both are in the order of the table's rows
    first = np.lexsort((outer[:, 1] - outer[:, 0], -found.alone))[:MOST_CELLS]
    return [
        UniqueRow(
            exposure.categories(found.cells[row], audit.table.schema),
            (int(outer[row, 0]), int(outer[row, 1])),
            float(found.alone[row]),
            float(found.matched[row]),
            float(found.expected[row]),
        )
        for row in first
    ]
