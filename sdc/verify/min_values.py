"""Of how many values of each at-risk cell a certificate has a feasible table, and whether 0 is among them.

A marginal cell in a component has its count, what the differences make of it, and every value between the bounds of the
component's cover: the tables that agree with that are connected by swaps of two records, each of which changes a cell
by 1 at most. Of given marginal cells the cell has all values from their sum less the separators' to the least of them
([DKS] theorem 1), and components fit together in every way.
"""

from bisect import bisect_left
from typing import Any

import numpy as np

from sdc.verify.core.levels import Array, keys_of
from sdc.verify.core.proof import Claims, ComponentProof, EvidenceFolder
from sdc.verify.words import many

MIN_VALUES = "min_values"  # under risk in a config
MOST = 1 << 12  # values of a range that are looked at


def check_values(evidence: EvidenceFolder, claims: Claims, rule: dict[str, Any], claims_safe: bool) -> int:
    """Of how many it is not shown, once components are proven; a failure where the release is called safe."""
    if evidence.failures:
        return len(evidence.small)
    between = sum((evidence.at_risk(s) for s in claims.separators), 0 * evidence.small)
    parts = [_Part(evidence, part) for part in claims.parts]
    low = np.maximum(sum((part.low for part in parts), -between), 0)
    high = np.min([part.high for part in parts], axis=0)
    doubtful = (high - low + 1 < rule["least"]) | (rule["include_zero"] & (low > 0))
    short = sum(not _is_kept([p.values(k) for p in parts], between[k], rule) for k in np.flatnonzero(doubtful).tolist())
    zero = ", 0 among them" * rule["include_zero"]
    what = f"not shown to have {rule['least']} values{zero}: {many(short, 'at-risk cell')}"
    evidence.holds((what, claims_safe and short))
    return short


class _Part:
    """What a component shows of the at-risk cells' marginal cells: (n,) ends by its cover, and tables found."""

    def __init__(self, evidence: EvidenceFolder, part: ComponentProof) -> None:
        kept, at_risk = evidence.is_feasible[part.variables], len(evidence.small)
        self.counts = self.low = self.high = evidence.at_risk(part.variables)
        if part.cover:
            self.low, self.high = evidence.covered(part)
        columns = [np.append(evidence.cells[v], part.cells[v][kept]) for v in evidence.levels.finest(part.variables)]
        keys = keys_of(columns, np.zeros(at_risk + int(kept.sum()), np.int64)).tolist()
        self.keys, self.found = keys[:at_risk], dict[int, set[int]]()
        after: Array = (
            evidence.at(part.variables, part.cells)[kept] + part.changes[kept] if kept.any() else self.low[:0]
        )
        for key, value in zip(keys[at_risk:], after.tolist(), strict=True):
            self.found.setdefault(key, set()).add(value)

    def values(self, k: int) -> list[int]:
        low, high = int(self.low[k]), int(self.high[k])
        found = self.found.get(self.keys[k], set())
        return sorted({int(self.counts[k]), *found, *range(low, min(high, low + MOST) + 1)})


def _is_kept(parts: list[list[int]], between: int, rule: dict[str, Any]) -> bool:
    first = max(0, sum(values[0] for values in parts) - between)
    taken = 0
    for value in range(first, min(values[-1] for values in parts) + 1):
        least = sum(values[bisect_left(values, value)] for values in parts) - between
        taken += least <= value
        if rule["include_zero"] and value == first and (first or least > 0):
            return False
        if taken >= rule["least"]:
            return True
    return False
