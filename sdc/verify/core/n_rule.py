"""Check the minimum-frequency rule: no count that is public exactly is from 1 to n - 1.

Counts of smaller marginals are sums of counts on the frontier, so only frontier sub-tables are checked.
"""

import numpy as np

from sdc.verify.core.levels import Array, SubTable
from sdc.verify.core.own_cells import is_listed
from sdc.verify.core.proof import Claims, EvidenceFolder, folded


def check_counts(evidence: EvidenceFolder, claims: Claims, n: int, claims_safe: bool) -> bool:
    """Whether the rule holds; a violation is a failure if the release is called safe."""
    broken = list[str]()
    for view, is_public in _public(evidence, claims):
        counts = folded(np.add, evidence.levels.columns(evidence.table, view), 0 * evidence.counts, evidence.counts)
        broken += [evidence.levels.label(view)] * bool((is_public & (counts < n)).any())
    what = f"{', '.join(broken[:5])} has a count from 1 to {n - 1}, which the minimum frequency excludes"
    evidence.holds((what, claims_safe and broken))
    return not broken


def _public(evidence: EvidenceFolder, claims: Claims) -> list[tuple[SubTable, Array]]:
    """The public sub-tables with (n,) flags: is the count public at the table's cell?"""
    every = np.ones(len(evidence.counts), np.bool_)
    in_part = [fact for fact in evidence.in_part.facts if fact.view not in evidence.in_part.rounded]
    return [
        *((view, every) for view in claims.release or [frozenset[str]()]),
        *((fact.view, ~is_listed(evidence, fact, evidence.table)) for fact in in_part),
    ]
