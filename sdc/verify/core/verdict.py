"""The verdict on a release from the table and a certificate: the width of every small cell, and each rule."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from sdc import run_format as names
from sdc.verify.core.attributes import check_attributes
from sdc.verify.core.n_rule import check_counts
from sdc.verify.core.own_cells import own_cells
from sdc.verify.core.proof import Claims, EvidenceFolder
from sdc.verify.core.weighted import check_totals, read_totals

# checks of published counts, by keys under risk
CHECKS: dict[str, Callable[..., bool]] = {"n_rule": check_counts, "attributes": check_attributes}
# (n,) lowest and highest count of each at-risk cell over feasible tables, and whether the width is too small; how many
# small cells of suppressed tables must keep the width, and for how many it is unproven; whether the rules hold
Verdict = namedtuple("Verdict", "low high is_narrow own_cells open_own_cells keeps_rules")


def judge(
    evidence: EvidenceFolder, claims: Claims, small: int, min_width: int, rules: Any, claims_safe: bool
) -> Verdict:
    """Judge a certificate; each false claim becomes a failure of the evidence."""
    check_totals(evidence, read_totals(evidence), claims.release, min_width)
    low, high = evidence.proven(claims)
    unknown = [own for own in claims.release if any(one <= own for one in evidence.unknown)]
    what = f"{', '.join(map(evidence.levels.label, unknown[:5]))} is released, and counts of it are missing"
    evidence.holds((what, claims_safe and unknown))
    # counts from 1 up to this are primary cells of a suppressed table, and must keep the width too
    primary_count = max(small, (rules.get("n_rule") or 1) - 1)
    cells, unproven, revealed = own_cells(evidence, claims, primary_count, min_width)
    revealed = [] if rules.get(names.REVEALS) else revealed
    what = f"{', '.join(revealed[:5])} is whole, and earlier publications suppressed cells of it"
    evidence.holds((f"{what}; give release.{names.REVEALS}: true, and build again", claims_safe and revealed))
    kept = [check(evidence, claims, rules[key], claims_safe) for key, check in CHECKS.items() if rules.get(key)]
    return Verdict(low, high, high - low < min_width, cells, unproven, all(kept) and not revealed and not unknown)
