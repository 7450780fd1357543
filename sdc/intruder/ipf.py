"""Bayesian iterative proportional fitting: draws of cell probabilities under any hierarchical log-linear model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.subtable import SubTable

Logs = npt.NDArray[np.float64]


def cycle(
    logs: Logs,
    counts: npt.NDArray[np.number],
    alpha: float,
    generators: Sequence[SubTable],
    rng: np.random.Generator,
) -> Logs:
    """The next state of a Markov chain of log cell probabilities, whose law is the posterior given the counts.

    logs, counts  (..., of the table's shape): the previous logarithms, of probabilities that fit the model, and
                  the table, which may have fractions; leading axes are independent chains
    alpha         of the conjugate prior, for each cell of the table
    generators    every variable is in one

    For each generator gammas g_c with shape n_c + alpha_c are drawn, and theta is multiplied by g_c / theta_c, theta_c
    its *current* marginal: the posterior's marginal is a Dirichlet, independent of the conditional (Gelman et al.,
    Bayesian Data Analysis; Piccioni 2000). The density is prod theta^(n + alpha) with respect to Lebesgue measure in
    the log-linear parameters.
    """
    variables = st.union(generators).bit_length()
    for generator in generators:
        away = summed_out(generator, variables)
        shape = (counts + alpha).sum(axis=away, keepdims=True)
        logs = logs + (_log_gamma(shape, rng) - log_sum(logs, away))
    return logs - log_sum(logs, tuple(range(-variables, 0)))


def summed_out(sub_table: SubTable, variables: int) -> tuple[int, ...]:
    """The axes of the variables that are not in a sub-table, counted from the last, which is -1."""
    return tuple(v - variables for v in range(variables) if not st.has(sub_table, v))


def log_sum(logs: Logs, axes: tuple[int, ...]) -> Logs:
    """Logarithms of sums over axes, which remain with size 1."""
    if not axes:
        return logs
    highest = logs.max(axis=axes, keepdims=True)
    found: Logs = highest + np.log(np.exp(logs - highest).sum(axis=axes, keepdims=True))
    return found


def _log_gamma(shape: npt.NDArray[np.float64], rng: np.random.Generator) -> Logs:
    """Logarithms of gammas: a small shape would give 0 in doubles, which later cycles could not leave.

    A gamma of shape a is one of shape a + 1 times U^(1/a) (Stuart 1962).
    """
    found: Logs = np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(shape.shape) / shape
    return found
