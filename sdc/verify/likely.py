"""Whether a release keeps its limit on what it makes likely, in integers: by the factorial moments of each cell.

Under a decomposable release E (f)_r = prod_C (n_C)_r / prod_S (n_S)_r, (x)_r = x (x - 1) ... (x - r + 1), and
Pr(f = k) = sum_r (-1)^(r - k) C(r, k) E (f)_r / r!. Partial sums are in turn too large and too small (Bonferroni).
Categories that no clique tells apart are equally likely, each record on its own: then (f)_r is divided by cells^r, of
those that an at-risk cell shares its marginal cell with.
"""

from collections import namedtuple
from collections.abc import Iterator
from fractions import Fraction
from math import comb, exp, factorial, log, prod
from typing import Any

import numpy as np

from sdc import run_format as names
from sdc.verify.levels import Array, SubTable
from sdc.verify.proof import EvidenceFolder

# (n,) marginal counts of each, at the at-risk cells; as many cells as no clique tells it from, all as probable
_Tree = namedtuple("_Tree", "cliques separators uncovered")
EQUAL = Fraction(1, 10**9)  # a probability is above another one where it is so by more than this
ALPHA = 0.5  # of the law released, which depends on none


def check_limit(
    evidence: EvidenceFolder, release: list[SubTable], limit: dict[str, Any], claims_safe: bool
) -> tuple[int, bool]:
    """How many at-risk cells' true counts are above the threshold, and whether the limit is kept.

    Each claim that does not hold becomes a failure.
    """
    cliques, separators = _junction_tree(release)
    decomposable = evidence.holds(
        (f"the limit on the posterior is of the law {limit['law']}, not released", limit["law"] != "released"),
        *evidence.tree_faults(cliques, separators, release, frozenset(evidence.categories), "frontier sub-table"),
    )
    if not decomposable:
        return 0, False
    at_cliques, at_separators = ([evidence.at_risk(s) for s in sets] for sets in (cliques, separators))
    spread = evidence.spread(frozenset().union(*cliques), frozenset(evidence.categories))
    cells = np.prod([np.ones_like(evidence.small, object), *(each.astype(object) for each in spread)], axis=0)
    tree = _Tree(at_cliques, at_separators, cells)
    threshold, most = limit["threshold"], limit["max_probability"]
    above = len(_above(evidence.small, tree, threshold))
    few = limit["max_above"] is None or above <= limit["max_above"] * len(evidence.small)
    unlikely = most is None or not len(_above(evidence.small, tree, most))
    evidence.holds(
        (f"{above} true counts are above {threshold}, more than {limit['max_above']} of all", claims_safe and not few),
        (f"a true count is more probable than {most}", claims_safe and not unlikely),
    )
    claimed = evidence.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE).get("likely")
    if claimed is not None:
        own = {
            "limit": {"alpha": ALPHA, **limit},
            "is_kept": few and unlikely,
            "above": above,
            "cells": len(evidence.small),
        }
        _check_claimed(evidence, tree, claimed, own)
    return above, few and unlikely


def _check_claimed(evidence: EvidenceFolder, tree: _Tree, claimed: dict[str, Any], own: dict[str, Any]) -> None:
    """What the assessment says of the limit is so; the most probable true count is where it says, and as probable."""
    where, highest = f"{names.ASSESSMENT}/{names.ASSESSMENT_FILE}", claimed["highest"]
    place = {int(row): k for k, row in enumerate(evidence.rows.nonzero()[0])}.get(claimed["row"])
    reached = _above(evidence.small, tree, highest - 2 * float(EQUAL))
    evidence.holds(
        *(
            (f"{where} claims {key} = {claimed[key]} of what is likely, it is {value}", claimed[key] != value)
            for key, value in own.items()
        ),
        (f"{where} claims a most probable true count that is not", place not in reached),
        (f"{where} claims {highest}, one is more probable", bool(_above(evidence.small, tree, highest))),
        (f"{where} has something unknown of what is likely", {*claimed} != {*own, "highest", "row"}),
    )


def _junction_tree(release: list[SubTable]) -> tuple[list[SubTable], list[SubTable]]:
    """The frontier, each next with as many variables as can be of one before (Prim), and what they share.

    Of a decomposable release that is an order with running intersection; of any other one it is not.
    """
    left = [s for s in release if not any(s < other for other in release)] or [frozenset[str]()]
    cliques, separators = [left.pop(0)], list[SubTable]()
    while left:
        following = max(left, key=lambda s: max(len(s & c) for c in cliques))
        separators.append(following & frozenset().union(*cliques))
        cliques.append(following)
        left.remove(following)
    return cliques, separators


def _above(counts: Array, tree: _Tree, threshold: float) -> list[int]:
    """The cells whose true count is more probable than the threshold."""
    least, cells = Fraction(threshold) + EQUAL, range(len(counts))
    cliques, separators = ([[int(n[k]) for n in sets] for k in cells] for sets in tree[:2])
    return [k for k in cells if _is_above(int(counts[k]), cliques[k], separators[k], tree.uncovered[k], least)]


def _is_above(count: int, clique: list[int], separator: list[int], uncovered: int, least: Fraction) -> bool:
    mean = prod(clique) / (prod(separator) * uncovered)
    # Markov; and Chernoff, with room for rounding: the law is that of a sum of independent indicators
    if mean < 0.999 * count * least or (
        mean > 2 * count and exp(count - mean + count * log(mean / count)) < 0.999 * least
    ):
        return False
    total = Fraction(0)
    for r, term in _terms(count, clique, separator, uncovered):
        total += term if (r - count) % 2 == 0 else -term
        if total <= least if (r - count) % 2 == 0 else total > least:
            return (r - count) % 2 == 1
    return total > least


def _terms(count: int, clique: list[int], separator: list[int], uncovered: int) -> Iterator[tuple[int, Fraction]]:
    """C(r, k) E (f)_r / r! for r = k, k + 1, ..., min n_C."""
    above, below = 1, 1
    for r in range(1, min(clique) + 1):
        above *= prod(n - r + 1 for n in clique)
        below *= uncovered * prod(n - r + 1 for n in separator)
        if r >= count:
            yield r, Fraction(above * comb(r, count), below * factorial(r))
