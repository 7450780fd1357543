"""The linear solvers: HiGHS for programs with integers, GLOP for sparse vertices. They propose; callers check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.solve.equations import Equations

Reals = npt.NDArray[np.float64]


class LinearSums(NamedTuple):
    """Sums of unknown numbers, with bounds.

    matrix     (sums, numbers) dense or sparse
    low, high  (sums,) or one number for all
    """

    matrix: Any
    low: npt.ArrayLike
    high: npt.ArrayLike


def cheapest(
    costs: npt.NDArray[np.number],
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    sums: Sequence[LinearSums],
    *,
    whole: npt.NDArray[np.bool_] | None = None,
    **options: float,
) -> Reals | None:
    """(n,) numbers with these limits and sums and the lowest cost, by HiGHS; None if none were found.

    whole    (n,) which of them are integers, to the solver's tolerance; default none
    options  of `scipy.optimize.milp`; no clock, so that the answer is the same on every machine
    """
    # imported here: SciPy takes 0.3 s, which most commands need not spend
    from scipy.optimize import Bounds, LinearConstraint, milp

    found = milp(
        costs,
        integrality=None if whole is None else whole.astype(np.float64),
        bounds=Bounds(lower, upper),
        constraints=[LinearConstraint(*own) for own in sums],
        options=options or None,
    )
    return None if found.x is None else np.asarray(found.x, np.float64)


class Optimum(NamedTuple):
    """A solver's proposal in floating point.

    numbers      (n,) of a vertex
    multipliers  (sums,) each set bounds the optimum, up to rounding
    """

    numbers: Reals
    multipliers: Reals


def largest(weights: npt.NDArray[np.number], upper: npt.NDArray[np.number], equations: Equations) -> Optimum:
    """Numbers from 0 to these limits, (n,), with these sums and the largest weighted sum, by HiGHS.

    RuntimeError if it finds none: the caller knows some.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(
        (np.ones(len(equations.members)), equations.members, equations.start), (len(equations.low), len(upper))
    )
    known = equations.low == equations.high
    loose, ends = matrix[~known], (equations.low[~known], equations.high[~known])
    found = linprog(
        -weights,
        A_ub=_stacked(loose),
        b_ub=np.concatenate([ends[1], -ends[0]]),
        A_eq=matrix[known],
        b_eq=equations.low[known],
        bounds=np.stack([np.zeros(len(upper)), upper], axis=1),
        method="highs-ds",
    )
    if found.x is None:
        raise RuntimeError(f"the linear solver finds no numbers though there are some: {found.message}")
    multipliers, of_loose = np.zeros(len(known)), found.ineqlin.marginals
    multipliers[known] = -found.eqlin.marginals
    multipliers[~known] = of_loose[len(ends[0]) :] - of_loose[: len(ends[0])]
    return Optimum(found.x, multipliers)


def _stacked(matrix: Any) -> Any:
    """A sparse matrix over its negative: upper bounds, then lower bounds."""
    from scipy.sparse import vstack

    return vstack([matrix, -matrix])
