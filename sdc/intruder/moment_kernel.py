"""Probabilities of true counts from factorial moments, of one cell after the other, compiled."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
MarginalCounts: TypeAlias = npt.NDArray[Any]  # int32 or int64

ROUNDING = 2.0**-52  # of one factor of a term: of a quotient and of a product
UNKNOWN = -1.0


@kernel
def expected(
    rows: MarginalCounts, places: Ints, signs: Ints, total: int, part: float, taken: int, means: Floats
) -> None:
    """(n,) part prod (n_C - taken) / prod (n_S - taken) of each cell, into `means`: of none taken E f.

    Of one taken it is E (f)_2 / E f. The other arguments are as of `probabilities`.
    """
    means[:] = total * part
    for j in range(len(places)):
        row, share = rows[places[j]], 1.0 / total
        # as shares of the total, so that no product leaves the range of doubles
        for _ in range(abs(signs[j])):
            if signs[j] > 0:
                for i in range(len(means)):
                    means[i] *= (row[i] - taken) * share
            else:
                for i in range(len(means)):
                    if means[i] != 0.0:  # else a clique has no more records, which comes before its separators
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
    floor: float,
    enough: float,
    cells: Ints,
    at: Floats,
) -> None:
    """Pr(f = count) of the cells listed, into `at`; UNKNOWN where rounding leaves it farther than `close` from it.

    Where it is at most `floor` a number that is too, and where it is more than `enough` another one that is more.

    rows, places, signs  a clique's or separator's (n,) marginal counts are in rows[places[j]]; the sign of a clique is
                         1, of a separator minus its multiplicity
    part                 of a marginal cell's records that are expected in the cell, 1 where cliques have all variables
    counts, means        (n,) the count asked about, and E f
    """
    for k in range(len(cells)):
        i = cells[k]
        at[k] = _probability(rows, places, signs, total, part, i, counts[i], means[i], close, floor, enough)


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
    floor: float,
    enough: float,
) -> float:
    """sum_r (-1)^(r - k) C(r, k) E (f)_r / r!, to the r from which it no longer changes."""
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
                break  # a clique has no more records
        if moment == 0.0:
            break
        if r >= count:
            found += moment if (r - count) % 2 == 0 else -moment
            noise += ROUNDING * r * (factors + 2) * moment
            if noise > close:
                return UNKNOWN
            # sums that end with a term that was added are too large, the others too small (Bonferroni)
            if found + noise <= floor if (r - count) % 2 == 0 else found - noise > enough:
                break
            # from here on each term is less than half the one before, as E (f)_(r+1) <= E f E (f)_r
            if moment < 0.5 * close and mean < 0.5 * (r + 1 - count):
                break
    return min(max(found, 0.0), 1.0)
