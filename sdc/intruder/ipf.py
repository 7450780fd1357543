"""Bayesian iterative proportional fitting: draws of cell probabilities under any hierarchical log-linear model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.subtable import SubTable

Probabilities = npt.NDArray[np.float64]
LEAST = 1e-280  # as good as none, but not 0, which no later cycle would leave


def cycle(
    theta: Probabilities,
    counts: npt.NDArray[np.number],
    alpha: float,
    generators: Sequence[SubTable],
    rng: np.random.Generator,
) -> Probabilities:
    """The next of a Markov chain of cell probabilities, whose law is the posterior given the counts.

    theta, counts  arrays of the table's shape: the probabilities before, which fit the model, and the table
    alpha          of the conjugate prior, for each cell of the table

    For each generator gammas g_c with shape n_c + alpha_c are drawn, and theta is multiplied by g_c / theta_c, theta_c
    its *current* marginal: that of the posterior is a Dirichlet, independent of what is conditional on it (Gelman
    et al., Bayesian Data Analysis; Piccioni 2000). The density is prod theta^(n + alpha) with respect to Lebesgue
    measure in the log-linear parameters.
    """
    for generator in generators:
        away = tuple(v for v in range(theta.ndim) if not st.has(generator, v))
        shape = (counts + alpha).sum(axis=away, keepdims=True)
        theta = theta * (rng.standard_gamma(shape) / theta.sum(axis=away, keepdims=True))
        theta = np.maximum(theta, LEAST)
    fitted: Probabilities = np.maximum(theta / theta.sum(), LEAST)
    return fitted
