"""Bounds over tables of fractions, which [DKS] table 1 prints beside the integer ones; in exact fractions.

A solver proposes cell values and multipliers of the sums in floating point. Both are replaced by nearby fractions, and
their consequences are computed without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.feasible.equations import MarginalEquations
from sdc.model.table import Counts
from sdc.solve.equations import Equations
from sdc.solve.linear import largest

DENOMINATOR = 1 << 16  # the largest denominator of a proposal

Fractions = npt.NDArray[Any]
"""Arrays of `Fraction`s."""


def sums(equations: MarginalEquations, groups: Sequence[Counts]) -> tuple[Fractions, Fractions]:
    """(groups, 2) outer and inner bounds of sums over groups of cells, over tables of non-negative reals.

    groups  for each the positions of its cells, in C order
    outer   weak duality: multipliers y bound x over a group by y * sums and, for cells that they price too low, their
            largest counts
    inner   tables of fractions that have all sums, and the true one

    Usually the solver's vertex has small denominators, and both are equal.
    """
    own, upper = equations.sums, equations.upper
    outer, inner = (np.empty((len(groups), 2), object) for _ in range(2))
    for at, group in enumerate(groups):
        weight, count = np.zeros(len(upper), np.int64), Fraction(int(equations.truth[group].sum()))
        weight[group] = 1
        for end, sign in enumerate((-1, 1)):
            found = largest(sign * weight, upper, own)
            outer[at, end] = sign * _bound(_near(found.multipliers), sign * weight, upper, own)
            inner[at, end] = _reached(_near(found.numbers), group, upper, own, count)
    return outer, inner


def _near(proposed: npt.NDArray[np.float64]) -> Fractions:
    return np.array([Fraction(value).limit_denominator(DENOMINATOR) for value in proposed.tolist()], object)


def _bound(multipliers: Fractions, weight: Counts, upper: Counts, equations: Equations) -> Fraction:
    """The upper bound of weight * x by any multipliers, a number for each sum."""
    sizes = np.diff(equations.start)
    price = np.full(len(weight), Fraction(0), object)
    np.add.at(price, equations.members, np.repeat(multipliers, sizes))
    ends = np.where(multipliers > 0, equations.high, equations.low)
    short = np.maximum(weight.astype(object) - price, 0)
    return Fraction((multipliers * ends.astype(object)).sum() + (short * upper.astype(object)).sum())


def _reached(numbers: Fractions, group: Counts, upper: Counts, equations: Equations, count: Fraction) -> Fraction:
    """The group's sum in a table of fractions, after a check of all sums; else the true count."""
    sums = np.add.reduceat(numbers[equations.members], equations.start[:-1])
    within = (sums >= equations.low).all() and (sums <= equations.high).all()
    if not within or (numbers < 0).any() or (numbers > upper).any():
        return count
    return Fraction(numbers[group].sum())
