"""Compiled probabilities of true counts from factorial moments, cell by cell."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
MarginalCounts: TypeAlias = npt.NDArray[Any]  # int32 or int64

ROUNDING = 2.0**-52  # relative, of one factor of a term: a quotient and a product
UNKNOWN = -1.0


@kernel
def expected(
    rows: MarginalCounts, places: Ints, signs: Ints, total: int, part: float, taken: int, means: Floats
) -> None:
    """(n,) part prod (n_C - taken) / prod (n_S - taken) of each cell, into `means`: E f for taken 0.

    For taken 1 it is E (f)_2 / E f. The other arguments are as of `probabilities`.
    """
    means[:] = total * part
    for j in range(len(places)):
        row, share = rows[places[j]], 1.0 / total
        # as shares of the total, so that products stay in the range of doubles
        for _ in range(abs(signs[j])):
            if signs[j] > 0:
                for i in range(len(means)):
                    means[i] *= (row[i] - taken) * share
            else:
                for i in range(len(means)):
                    if means[i] != 0.0:  # otherwise a clique is exhausted, before its separators
                        means[i] /= (row[i] - taken) * share


@kernel
def probabilities(
    rows: MarginalCounts,
    places: Ints,
    signs: Ints,
    total: int,
    part: float,
    counts: Ints,
    means: Floats,
    close: float,
    negligible: float,
    enough: float,
    cells: Ints,
    at: Floats,
) -> None:
    """Pr(f = count) of the listed cells, into `at`; UNKNOWN if rounding leaves an error above `close`.

    Results up to `negligible`, and above `enough`, need only be on the right side.

    rows, places, signs  a clique's or separator's (n,) marginal counts are in rows[places[j]]; the sign of a clique is
                         1, of a separator minus its multiplicity
    part                 share of a marginal cell's records expected in the cell, 1 if cliques have all variables
    counts, means        (n,) the count in question, and E f
    """
    for k in range(len(cells)):
        i = cells[k]
        at[k] = _probability(rows, places, signs, total, part, i, counts[i], means[i], close, negligible, enough)


@inner
def _probability(
    rows: MarginalCounts,
    places: Ints,
    signs: Ints,
    total: int,
    part: float,
    cell: int,
    count: int,
    mean: float,
    close: float,
    negligible: float,
    enough: float,
) -> float:
    """sum_r (-1)^(r - k) C(r, k) E (f)_r / r!, up to the r from which it is constant."""
    factors = 0
    for j in range(len(places)):
        factors += abs(signs[j])
    moment, found, noise, r = 1.0, 1.0 if count == 0 else 0.0, 0.0, 0
    # C(r, k) E (f)_r / r! = E (f)_r / (k! (r - k)!): the term of r from that of r - 1
    while True:
        r += 1
        # one clique more than separators, so that shares of the total leave one factor of it
        moment *= part * total / float(r if r <= count else r - count)
        for j in range(len(places)):
            share = (rows[places[j], cell] - r + 1) / float(total)
            for _ in range(abs(signs[j])):
                moment = moment * share if signs[j] > 0 else moment / share
            if moment == 0.0:
                break  # a clique is exhausted
        if moment == 0.0:
            break
        if r >= count:
            found += moment if (r - count) % 2 == 0 else -moment
            noise += ROUNDING * r * (factors + 2) * moment
            if noise > close:
                return UNKNOWN
            # sums that end with an added term are too large, the others too small (Bonferroni)
            if found + noise <= negligible if (r - count) % 2 == 0 else found - noise > enough:
                break
            # from here on each term is less than half the one before, as E (f)_(r+1) <= E f E (f)_r
            if moment < 0.5 * close and mean < 0.5 * (r + 1 - count):
                break
    return min(max(found, 0.0), 1.0)
