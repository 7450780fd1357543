"""The intruder's posterior: under a law of the feasible tables, or an average of laws, what is likely of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.depth_first import MAX_CELLS
from sdc.intruder import hypergeometric
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.chains import Diagnostics, Sampling, sampled
from sdc.intruder.enumerated import MAX_TABLES, TooManyTablesError, enumerated
from sdc.intruder.laws import Law, check_zeros, law_of
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Table

AVERAGE = "average"
ENUMERATION, HYPERGEOMETRIC, CHAINS = "enumeration", "hypergeometric", "chains"
FEW_TABLES = 1 << 16  # where there is another exact way, no more of a part are listed
CLOSE = 1e-9  # how far from 1 priors may sum


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the released marginals make probable.

    law              its name, or `average`
    alpha            of its prior, None for `released`
    engine           enumeration, of all feasible tables; hypergeometric, explicit for a decomposable release; or
                     chains, which sample
    cells            the law of each cell asked about
    feasible_tables  M(T), None where they were not counted
    log_probability  log Pr(F | R) of the true table, None where it was sampled
    log_evidence     log Pr(R | A); None for `released`, which has no prior, where there are structural zeros, and where
                     it was sampled
    equals_released  whether given the release it is the law `released`, as all that the model says is public
    models           of an average, the laws that it is of
    standard_errors  Monte Carlo ones of the probabilities of `cells`, and whether chains agree; None where exact
    """

    law: str
    alpha: float | None
    engine: str
    cells: CellLaws
    feasible_tables: int | None
    log_probability: float | None
    log_evidence: float | None
    equals_released: bool
    models: tuple[Model, ...] = ()
    standard_errors: Probabilities | None = None
    diagnostics: Diagnostics | None = None

    @property
    def exact(self) -> bool:
        """Exact but for rounding; else the probabilities are shares of draws."""
        return self.standard_errors is None


@dataclass(frozen=True, eq=False)
class Model:
    """A law of an average: its prior probability, and Pr(A | R), which is proportional to Pr(A) Pr(R | A)."""

    posterior: Posterior
    prior: float
    probability: float


def posterior(
    table: Table,
    knowledge: Knowledge,
    law: Law,
    cells: Codes,
    sampling: Sampling | None = None,
    executor: Executor = IN_PROCESS,
) -> Posterior:
    """The posterior of (n, variables) cells under a law, by the cheapest exact engine, by chains where there is none.

    ReleaseError where no engine takes it.
    """
    found = exact_posterior(table, knowledge, law, cells)
    return found or by_chains(table, knowledge, law, cells, sampling or Sampling(), executor)


def exact_posterior(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior | None:
    """The same, None where no exact engine gives it."""
    check_zeros(law, knowledge)
    if not law.is_explicit(knowledge):
        return None
    by_tree = law.equals_released(knowledge) and hypergeometric.is_treatable(knowledge)
    if table.schema.cells <= MAX_CELLS:
        with suppress(TooManyTablesError):
            return _by_enumeration(table, knowledge, law, cells, FEW_TABLES if by_tree else MAX_TABLES)
    return _by_tree(table, knowledge, law, cells) if by_tree else None


def by_chains(
    table: Table, knowledge: Knowledge, law: Law, cells: Codes, sampling: Sampling, executor: Executor
) -> Posterior:
    """The same, sampled even where there is an exact law."""
    found = sampled(table, knowledge, law, cells, sampling, executor)
    equal, errors = law.equals_released(knowledge), found.standard_errors
    return Posterior(law.name, law.alpha, CHAINS, found.laws, None, None, None, equal, (), errors, found.diagnostics)


def _by_enumeration(table: Table, knowledge: Knowledge, law: Law, cells: Codes, max_tables: int) -> Posterior:
    found = enumerated(table, knowledge, law, max_tables)
    told = _exact(table, knowledge, law, found.laws(cells), ENUMERATION, found.log_probability_of_truth)
    return replace(told, feasible_tables=found.feasible_tables)


def _by_tree(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior:
    laws = hypergeometric.cell_laws(table, knowledge, cells)
    return _exact(table, knowledge, law, laws, HYPERGEOMETRIC, hypergeometric.log_probability(table, knowledge))


def _exact(
    table: Table, knowledge: Knowledge, law: Law, laws: CellLaws, engine: str, log_probability: float
) -> Posterior:
    has_evidence = law.model is not None and not knowledge.zeros
    # Pr(R | A) = Pr(F, R | A) / Pr(F | R, A), and R follows from F
    evidence = law.log_probability(table) - log_probability if has_evidence else None
    equal = law.equals_released(knowledge)
    return Posterior(law.name, law.alpha, engine, laws, None, log_probability, evidence, equal)


def average(table: Table, knowledge: Knowledge, priors: Mapping[str, float], cells: Codes, alpha: float) -> Posterior:
    """The average over a family of laws, weighed by Pr(A | R) ([DFT] (10)).

    InputError where there is no law, a prior is negative, they do not sum to 1, or a law has no prior of its own or
    none in closed form.
    """
    check_priors(priors)
    laws = [law_of(name, table.schema, alpha) for name in priors]
    found = [_with_evidence(table, knowledge, law, cells) for law in laws]
    evidence = [_known(one.log_evidence) for one in found]
    with np.errstate(divide="ignore"):
        logs = np.log(list(priors.values())) + evidence
    weights = np.exp(logs - logsumexp(logs))
    models = tuple(map(Model, found, priors.values(), weights.tolist()))
    every = [one.feasible_tables for one in found]
    return Posterior(
        AVERAGE,
        alpha,
        " and ".join(sorted({one.engine for one in found})),
        mixture([one.cells for one in found], weights),
        max((tables for tables in every if tables is not None), default=None),
        float(logsumexp([_known(one.log_probability) for one in found], b=weights)),
        float(logsumexp(logs)),
        all(one.equals_released for one in found),
        models,
    )


def check_priors(priors: Mapping[str, float]) -> None:
    """InputError for priors that are no probabilities of a family."""
    if not priors:
        raise InputError(f"the law {AVERAGE} is of a family; give each law its prior, such as saturated=0.5")
    for name, prior in priors.items():
        if not prior >= 0:
            raise InputError(f"the prior of {name} is {prior}; give a probability")
    if abs(sum(priors.values()) - 1) > CLOSE:
        raise InputError(f"the priors of {', '.join(priors)} sum to {sum(priors.values()):g}; they must sum to 1")


def _with_evidence(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior:
    """An exact posterior under a law that gives the release a probability in closed form."""
    if law.model is None:
        why = "its model is not decomposable" if law.generators else "it has no prior"
    elif knowledge.zeros:
        why = "there are structural zeros"
    elif (found := exact_posterior(table, knowledge, law, cells)) is not None:
        return found
    else:
        why = "too many feasible tables vary together to list them"
    raise InputError(
        f"the law {law.name} cannot be averaged: {why}, so that the probability it gives the release is not known; "
        "name other models, such as [a,b][b,c], or a release under which fewer tables are feasible"
    )


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("of an exact law with a prior the probabilities are known")
    return value


def mixture(laws: Sequence[CellLaws], weights: Probabilities) -> CellLaws:
    """Of each cell the sum of its laws, by their weights."""
    first = np.min([law.first for law in laws], axis=0)
    last = np.max([law.ranges[:, 1] for law in laws], axis=0)
    start = np.concatenate([[0], np.cumsum(last - first + 1)])
    mixed = np.zeros(start[-1])
    for law, weight in zip(laws, weights, strict=True):
        shift = np.repeat(start[:-1] + law.first - first - law.start[:-1], np.diff(law.start))
        mixed[np.arange(law.start[-1]) + shift] += weight * law.probabilities
    return CellLaws(laws[0].cells, laws[0].counts, first, start, mixed)
