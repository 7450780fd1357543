"""The intruder's posterior under an average of laws, each weighed by the probability that it gives the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, logsumexp

from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.chains import Diagnostics, Sampling
from sdc.intruder.enumerated import IndependentPart, TooManyTablesError, enumerated
from sdc.intruder.ladder import MAX_CELLS, MAX_TABLES, climbed, numbers_kept
from sdc.intruder.laws import RELEASED, Law, law_of
from sdc.intruder.posterior import AVERAGE, CHAINS, ENGINES, Model, Posterior, exact_posterior, of_axes
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table

CLOSE = 1e-9  # how far from 1 priors may sum


def average(
    table: Table,
    knowledge: Knowledge,
    priors: Mapping[str, float],
    cells: Codes,
    alpha: float,
    sampling: Sampling | None = None,
    executor: Executor = IN_PROCESS,
) -> Posterior:
    """The average over a family of laws, weighed by Pr(A | R) ([DFT] (10)); sampled for what is not decomposable.

    Pr(A | R) is as the prior of A times Pr(R | A), the sum of Pr(F | A) over the feasible tables F. [DFT] 5.1 takes for
    it averages of Pr(F | theta) over draws of theta from its posterior, and prints .18 .72 .10 of its table: that
    formula gives .23 .66 .11, this one .10 .69 .20, so that 500 draws alone do not explain what differs.

    InputError where there is no law, a prior is negative, they do not sum to 1, or a law has no prior of its own or
    gives the release a probability that is not found.
    """
    check_priors(priors)
    if not table.schema.levels.is_flat:
        asked = table.schema.columns(cells)
        flat = average(table.flat, knowledge.flat, priors, asked, alpha, sampling, executor)
        return of_axes(flat, table.schema)
    laws = [law_of(name, table.schema, alpha) for name in priors]
    # all of them before anything is drawn: what is refused is not sampled first
    begun, more = [_begun(table, knowledge, law, cells) for law in laws], sampling or Sampling()
    numbers = [numbers_kept(table, one.law, cells) for one in begun if isinstance(one, _Undrawn)]
    while True:
        found = [
            one if isinstance(one, Posterior) else _sampled(table, one, cells, more, executor, number)
            for number, one in enumerate(begun)
        ]
        averaged = _averaged(found, priors, alpha)
        told = averaged.diagnostics
        if told is None or (further := more.further(told.error, max(numbers))) is None:
            return averaged
        more = further


def _averaged(found: Sequence[Posterior], priors: Mapping[str, float], alpha: float) -> Posterior:
    """Of laws by their priors and by how probable each makes the release, with errors where some were sampled."""
    with np.errstate(divide="ignore"):
        logs = np.log(list(priors.values())) + [_known(one.log_evidence) for one in found]
    weights = np.exp(logs - logsumexp(logs))
    is_exact = all(one.log_evidence_error is None for one in found)
    engines = {one.engine for one in found} | (set() if is_exact else {CHAINS})
    of_truth = [one.log_probability for one in found if one.log_probability is not None]
    averaged = Posterior(
        AVERAGE,
        alpha,
        " and ".join(sorted(engines, key=ENGINES.index)),
        mixture([one.cells for one in found], weights),
        max((one.feasible_tables for one in found if one.feasible_tables is not None), default=None),
        float(logsumexp(of_truth, b=weights)) if len(of_truth) == len(found) else None,
        float(logsumexp(logs)),
        all(one.equals_released for one in found),
        tuple(map(Model, found, priors.values(), weights.tolist())),
    )
    return averaged if is_exact else _with_errors(averaged)


def check_priors(priors: Mapping[str, float]) -> None:
    """InputError for priors that are no probabilities of a family."""
    if not priors:
        raise InputError(f"the law {AVERAGE} is of a family; give each law its prior, such as saturated=0.5")
    for name, prior in priors.items():
        if not prior >= 0:
            raise InputError(f"the prior of {name} is {prior}; give a probability")
    if abs(sum(priors.values()) - 1) > CLOSE:
        raise InputError(f"the priors of {', '.join(priors)} sum to {sum(priors.values()):g}; they must sum to 1")


@dataclass(frozen=True, eq=False)
class _Undrawn:
    """A law of an average before its draws.

    exact            its posterior but for log Pr(R | A), where all that the model says is public; None elsewhere
    parts            of the feasible tables, each of which may be drawn; none where the posterior is exact, because the
                     cell probabilities then have the same law given any of them
    feasible_tables  M(T), None where they were not counted
    log_probability  log Pr(F | R) of the true table under the law `released`
    """

    law: Law
    exact: Posterior | None
    parts: tuple[IndependentPart, ...]
    feasible_tables: int | None
    log_probability: float


def _begun(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior | _Undrawn:
    """A law of an average as far as it is exact; InputError where the probability of the release cannot be found."""
    if not law.generators and law.model is None:
        why = "it has no prior"
    elif knowledge.zeros:
        why = "there are structural zeros"
    elif law.generators and table.schema.cells > MAX_CELLS:
        why = f"its model is not decomposable, and the table has {table.schema.cells} cells, more than {MAX_CELLS}"
    else:
        why = "too many feasible tables vary together to list them"
        with suppress(TooManyTablesError):
            if not law.is_explicit(knowledge):
                listed = enumerated(table, knowledge, Law(RELEASED), MAX_TABLES)
                return _Undrawn(law, None, listed.parts, listed.feasible_tables, listed.log_probability_of_truth)
            if (exact := exact_posterior(table, knowledge, law, cells)) is not None:
                of_truth = _known(exact.log_probability)
                return _Undrawn(law, exact, (), exact.feasible_tables, of_truth) if law.generators else exact
    raise InputError(
        f"the law {law.name} cannot be averaged: {why}, so that the probability it gives the release is not known; "
        "name other models, such as [a,b][b,c], or a release under which fewer tables are feasible"
    )


def _sampled(
    table: Table, begun: _Undrawn, cells: Codes, sampling: Sampling, executor: Executor, number: int
) -> Posterior:
    """The posterior under a law whose model is not decomposable, with an estimate of Pr(R | A)."""
    law, exact = begun.law, begun.exact
    found = climbed(table, law, begun.parts, cells[:0] if exact else cells, sampling, executor, number)
    # log n! sum_f prod 1 / f!, of which the true table has the share Pr(F | R)
    log_tables = gammaln(table.total + 1) - gammaln(table.counts + 1).sum() - begun.log_probability
    evidence, top = float(log_tables + found.log_ratio), found.top
    if exact is None:
        told = None, evidence, False, (), top.standard_errors
        exact = Posterior(law.name, law.alpha, CHAINS, top.laws, begun.feasible_tables, *told)
    return replace(exact, log_evidence=evidence, log_evidence_error=found.standard_error, diagnostics=top.diagnostics)


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("of an exact law, and of a law with a prior once it is sampled, the probabilities are known")
    return value


def mixture(laws: Sequence[CellLaws], weights: Probabilities) -> CellLaws:
    """Of each cell the sum of its laws, by their weights."""
    first, start, places = _common(laws)
    mixed = np.zeros(start[-1])
    for law, place, weight in zip(laws, places, weights, strict=True):
        mixed[place] += weight * law.probabilities
    return CellLaws(laws[0].cells, laws[0].counts, first, start, mixed)


def _common(laws: Sequence[CellLaws]) -> tuple[Counts, Counts, list[Counts]]:
    """First counts and starts that have room for all laws, and where the probabilities of each law go."""
    first = np.min([law.first for law in laws], axis=0)
    last = np.max([law.ranges[:, 1] for law in laws], axis=0)
    start = np.concatenate([[0], np.cumsum(last - first + 1)])
    shifts = [np.repeat(start[:-1] + law.first - first - law.start[:-1], np.diff(law.start)) for law in laws]
    return first, start, [np.arange(len(shift)) + shift for shift in shifts]


def _with_errors(averaged: Posterior) -> Posterior:
    """An average with the errors of its sampled laws.

    With s_a the error of log Pr(R | A), w_a the probability of a model and p_a that of a count under it, whose mean is
    p, the derivatives are dw_b / dlog Pr(R | A) = w_b ([a = b] - w_a) and dp / dlog Pr(R | A) = w_a (p_a - p). Models
    are drawn independently. Within one p_a and Pr(R | A) are of the same draws: there errors add up, not squares.
    """
    found = [model.posterior for model in averaged.models]
    weights = np.array([model.probability for model in averaged.models])
    errors = np.array([one.log_evidence_error or 0.0 for one in found])
    of_weights = np.linalg.norm(weights[:, None] * (np.eye(len(found)) - weights) * errors, axis=1)
    of_cells, told = _cell_errors(averaged, weights * errors), [one.diagnostics for one in found if one.diagnostics]
    return replace(
        averaged,
        log_probability=None,
        log_evidence_error=float(np.linalg.norm(weights * errors)),
        models=tuple(
            replace(model, standard_error=error)
            for model, error in zip(averaged.models, of_weights.tolist(), strict=True)
        ),
        standard_errors=of_cells,
        diagnostics=replace(_worst(told), error=float(max(of_cells.max(initial=0.0), of_weights.max()))),
    )


def _cell_errors(averaged: Posterior, errors: Probabilities) -> Probabilities:
    """Of the probabilities of the average; (models,) errors w_a s_a."""
    mixed, squares = averaged.cells.probabilities, np.zeros_like(averaged.cells.probabilities)
    places = _common([model.posterior.cells for model in averaged.models])[2]
    for model, place, error in zip(averaged.models, places, errors, strict=True):
        own, of_own = np.zeros((2, len(mixed)))
        own[place] = model.posterior.cells.probabilities
        of_own[place] = 0.0 if model.posterior.standard_errors is None else model.posterior.standard_errors
        squares += (model.probability * of_own + error * np.abs(own - mixed)) ** 2
    found: Probabilities = np.sqrt(squares)
    return found


def _worst(told: Sequence[Diagnostics]) -> Diagnostics:
    """Of the laws that were sampled the R-hat that is furthest from 1, and the smallest effective sample size."""
    r_hats = [one.r_hat for one in told if one.r_hat is not None]
    return replace(
        told[0],
        r_hat=max(r_hats) if len(r_hats) == len(told) else None,
        effective_sample_size=min(one.effective_sample_size for one in told),
    )
