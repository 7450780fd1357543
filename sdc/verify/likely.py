"""Check the posterior limit of a release with the factorial moments of each cell, in integers.

Under a decomposable release E (f)_r = prod_C (n_C)_r / prod_S (n_S)_r, (x)_r = x (x - 1) ... (x - r + 1), and Pr(f = k)
= sum_r (-1)^(r - k) C(r, k) E (f)_r / r!. Partial sums alternate above and below (Bonferroni). Categories that no
clique separates are equally likely for each record: then (f)_r is divided by cells^r, the number of cells that share
the at-risk cell's marginal cell. All these laws are sums of independent indicators. So the most likely count is next to
the mean (Darroch, On the distribution of the number of successes in independent trials, 1964), and if it has a
probability above p, the variance is below (0.469 / p)^2 (Baillon, Cominetti and Vaisman, A sharp uniform bound for the
distribution of sums of Bernoulli trials, 2016).
"""

from collections import Counter, namedtuple
from collections.abc import Iterator
from fractions import Fraction
from math import comb, exp, factorial, floor, log, prod, sqrt
from typing import Any

import numpy as np

from sdc import run_format as names
from sdc.verify.core.levels import Array, SubTable
from sdc.verify.core.proof import EvidenceFolder
from sdc.verify.words import many

# (n,) marginal counts at the at-risk cells; number of cells that no clique separates from each
_Tree = namedtuple("_Tree", "cliques separators uncovered")
EQUAL = Fraction(1, 10**9)  # differences of probabilities up to this count as equal
ALPHA = 0.5  # of the released law, which depends on no confidential data


def check_limit(
    evidence: EvidenceFolder, release: list[SubTable], limit: dict[str, Any], claims_safe: bool
) -> tuple[int, bool]:
    """Return the number of at-risk cells whose true count is above the threshold, and whether the limit holds.

    Each false claim becomes a failure.
    """
    cliques, separators = _junction_tree(release)
    decomposable = evidence.holds(
        (f"the limit on the posterior is of the law {limit['law']}, not released", limit["law"] != "released"),
        *evidence.problems(cliques, separators, release, frozenset(evidence.categories), "frontier sub-table"),
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
    claims, cheap = None, True
    if (losses := limit.get("losses")) is not None:
        claims = _claims(evidence.small, tree, losses)
        lost = losses["agency"]["right"] * claims["right"] + losses["agency"]["wrong"] * (claims["wrong"] or 0)
        cheap = lost <= limit["max_loss"] * claims["cells"]
        evidence.holds((f"claims cost {lost:g}, more than {limit['max_loss']} a cell", claims_safe and not cheap))
    evidence.holds(
        (
            f"above {threshold}: {many(above, 'true count')}, more than {limit['max_above']} of all",
            claims_safe and not few,
        ),
        (f"a true count is more probable than {most}", claims_safe and not unlikely),
    )
    claimed = evidence.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE).get("likely")
    if claimed is not None:
        own = {
            "limit": {"alpha": ALPHA, **limit},
            "is_kept": few and unlikely and cheap,
            "above": above,
            "cells": len(evidence.small),
            "claims": claims,
        }
        _check_claimed(evidence, tree, claimed, own)
    return above, few and unlikely and cheap


def _check_claimed(evidence: EvidenceFolder, tree: _Tree, claimed: dict[str, Any], own: dict[str, Any]) -> None:
    """The assessment's claims on the limit: the most probable true count and its probability."""
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
    """Order the frontier so that each next sub-table shares most variables with an earlier one (Prim); with the shared
    parts.

    For a decomposable release this order has running intersections, otherwise not.
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
    """The cells whose true count has a probability above the threshold."""
    least, cells = Fraction(threshold) + EQUAL, range(len(counts))
    cliques, separators = ([[int(n[k]) for n in sets] for k in cells] for sets in tree[:2])
    return [k for k in cells if _is_above(int(counts[k]), cliques[k], separators[k], tree.uncovered[k], least)]


def _claims(counts: Array, tree: _Tree, losses: dict[str, Any]) -> dict[str, int | None]:
    """The number of right claims of an intruder, and of wrong ones if these have a cost; None if not computed."""
    none, wrong = (Fraction(losses["intruder"][name]) for name in ("none", "wrong"))
    threshold, found = max(Fraction(0), 1 - none / wrong), Counter[bool]()
    for k, count in enumerate(map(int, counts)):
        at = [int(n[k]) for n in tree.cliques], [int(n[k]) for n in tree.separators], tree.uncovered[k]
        if _is_above(count, *at, threshold + EQUAL) and (2 * threshold >= 1 or _is_most_likely(count, *at)):
            found[True] += 1
        elif losses["agency"]["wrong"]:
            found[False] += _is_any_above(*at, threshold + EQUAL)
    return {"right": found[True], "wrong": found[False] if losses["agency"]["wrong"] else None, "cells": len(counts)}


def _is_any_above(clique: list[int], separator: list[int], uncovered: int, least: Fraction) -> bool:
    mean = Fraction(prod(clique), prod(separator) * uncovered)
    pairs = [prod(n * (n - 1) for n in sets) for sets in (clique, separator)]
    variance = (Fraction(pairs[0], pairs[1] * uncovered**2) if pairs[0] else 0) + mean - mean**2
    if variance * least**2 > Fraction(469, 1000) ** 2:
        return False
    # by Chebyshev, 3/4 lie within two deviations of the mean: on at most 4 deviations and 1 counts
    if least * (4 * Fraction(sqrt(variance)) + 1) < Fraction(74, 100):
        return True
    return any(_is_above(count, clique, separator, uncovered, least) for count in _likeliest(mean))


def _likeliest(mean: Fraction) -> tuple[int, int]:
    return floor(mean), floor(mean) + 1


def _is_most_likely(count: int, clique: list[int], separator: list[int], uncovered: int) -> bool:
    others = _likeliest(Fraction(prod(clique), prod(separator) * uncovered))
    own, *highest = (_probability(k, clique, separator, uncovered) for k in (count, *others))
    return own >= max(highest) - EQUAL


def _probability(count: int, clique: list[int], separator: list[int], uncovered: int) -> Fraction:
    """Exact to a thousandth of EQUAL: the error of a partial sum is at most its last term."""
    total, last = Fraction(0), None
    for r, term in _terms(count, clique, separator, uncovered):
        total += term if (r - count) % 2 == 0 else -term
        if last is not None and term < last and term < EQUAL / 1000:
            break
        last = term
    return total


def _is_above(count: int, clique: list[int], separator: list[int], uncovered: int, least: Fraction) -> bool:
    mean = prod(clique) / (prod(separator) * uncovered)
    # Markov; and Chernoff with room for rounding, for a sum of independent indicators
    if mean < 0.999 * count * least or (
        mean > 2 * count and exp(count - mean + (count and count * log(mean / count))) < 0.999 * least
    ):
        return False
    total = Fraction(0)
    for r, term in _terms(count, clique, separator, uncovered):
        total += term if (r - count) % 2 == 0 else -term
        if total <= least if (r - count) % 2 == 0 else total > least:
            return (r - count) % 2 == 1
    return total > least


def _terms(count: int, clique: list[int], separator: list[int], uncovered: int) -> Iterator[tuple[int, Fraction]]:
    above, below = 1, 1
    if count == 0:
        yield 0, Fraction(1)
    for r in range(1, min(clique) + 1):
        above *= prod(n - r + 1 for n in clique)
        below *= uncovered * prod(n - r + 1 for n in separator)
        if r >= count:
            yield r, Fraction(above * comb(r, count), below * factorial(r))
