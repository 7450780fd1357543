"""Models that are not decomposable by numerical integration: the judges of what is sampled."""

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.special import gammaln, loggamma, logsumexp

from sdc.intruder.enumerated import enumerated
from sdc.intruder.laws import law_of
from sdc.stages.resolved import release_of
from tests.strategies import dense, knows
from tests.unit.intruder.test_posterior import DELAWARE, DELAWARE_COUNTS, DELAWARE_RELEASE, SMALL_CELLS

WITHOUT_SECOND_ORDER = "[gender,race][gender,income][race,income]"
"""[DFT] table 3."""


class Integrated:
    """Its law by numerical integration of what is left after conditioning.

    With theta = exp(l_k + g a_k + b_rk + g p_r), gender g, race r, income k, the integrals over l and b are those of
    Dirichlet densities; what is left of prod theta^n is 1 / Gamma(n) prod Gamma(n_rk) times the integral over p of
    exp(sum_r p_r n_1r) prod_k of the integral over a_k of exp(a_k n_1k) prod_r (1 + exp(a_k + p_r))^-n_rk.
    """

    P, A = np.linspace(-16, 16, 161), np.linspace(-40, 40, 801)

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def log_integrals(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """(t,) log I(n + alpha) of (t, 2, 3, 3) tables that agree in gender by income and race by income."""
        n = counts[0] + self.alpha
        second, third = np.meshgrid(self.P, self.P, indexing="ij")
        log_grid = sum(self._over_a(n[..., k]) for k in range(3))
        of_race = (counts.sum(axis=3) + 3 * self.alpha)[:, 1]
        keys, row = np.unique(of_race[:, 1:], axis=0, return_inverse=True)
        step = 2 * math.log(self.P[1] - self.P[0])
        logs = np.array([logsumexp(log_grid + second * s + third * t) + step for s, t in keys])
        return logs[row] + gammaln(n.sum(axis=0)).sum() - gammaln(n.sum())

    def _over_a(self, n: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(p, p) logarithms of the integrals over a: a matrix product, as each factor is of one of the races."""
        of_race, women = n.sum(axis=0), n[1].sum()
        logs = self.A * women - of_race[0] * np.logaddexp(0, self.A)
        rest = [np.exp(-of_race[r] * np.logaddexp(0, self.A[:, None] + self.P)) for r in (1, 2)]
        whole = np.exp(logs - logs.max())[:, None] * rest[0]
        with np.errstate(divide="ignore"):
            return np.log(whole.T @ rest[1]) + logs.max() + math.log(self.A[1] - self.A[0])


@cache
def without_second_order() -> tuple[list[list[float]], float]:
    """Of [DFT] table 3 with alpha 0.5 the laws of the small cells, and log Pr(R | A)."""
    table = dense(DELAWARE, DELAWARE_COUNTS)
    known = knows(table, release_of(table, DELAWARE_RELEASE))
    # a model that ties all incomes, so that all tables are in one part
    (part,) = enumerated(table, known, law_of("[gender,race][gender,income]", DELAWARE)).parts
    counts = np.tile(np.array(DELAWARE_COUNTS), (len(part.tables), 1))
    counts[:, part.cells] = part.tables
    judge = Integrated(0.5)
    logs = gammaln(table.total + 1) - gammaln(counts + 1).sum(axis=1)
    logs = logs + judge.log_integrals(counts.reshape(-1, 2, 3, 3))
    evidence = float(logsumexp(logs) - judge.log_integrals(np.zeros((1, 2, 3, 3), np.int64))[0])
    weights, laws = np.exp(logs - logsumexp(logs)), []
    for cell in SMALL_CELLS:
        values = counts[:, np.ravel_multi_index(cell, DELAWARE.sizes)]
        laws.append(np.bincount(values, weights).tolist())
    return laws, evidence


def log_integral_of_a_cube(shapes: npt.NDArray[np.float64]) -> float:
    """log I(a) but for a constant, of (2, 2, 2) shapes a under the model without second-order interaction.

    It is that of the saturated model, prod Gamma(a_i) / Gamma(a), times the density at 0 of the interaction
    sum_i s_i log g_i, with signs s_i and independent gammas g_i of shapes a_i (Dickey 1971). The characteristic
    function of that is prod Gamma(a_i + i s_i t) / Gamma(a_i).
    """
    signs = np.array([1, -1, -1, 1, -1, 1, 1, -1]) * 1j
    flat = shapes.reshape(-1)
    whole = gammaln(flat).sum()
    density, _ = quad(lambda t: np.exp(loggamma(flat + signs * t).sum() - whole).real, 0, 40, limit=400)
    return float(whole - gammaln(flat.sum()) + math.log(density))
