"""The intruder's posterior: under a law of the feasible tables, what is likely of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.depth_first import MAX_CELLS
from sdc.intruder import hypergeometric
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.chains import Diagnostics, Sampling, sampled
from sdc.intruder.enumerated import MAX_TABLES, TooManyTablesError, enumerated
from sdc.intruder.laws import Law, check_zeros
from sdc.intruder.measures import Groups
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, named_cells
from sdc.model.schema import Schema
from sdc.model.table import Codes, Table

AVERAGE = "average"
ENGINES = ENUMERATION, HYPERGEOMETRIC, CHAINS = "enumeration", "hypergeometric", "chains"
FEW_TABLES = 1 << 16  # where there is another exact way, no more of a part are listed


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Named):
    """What the released marginals make probable.

    law              its name, or `average`
    alpha            of its prior, None for `released`
    engine           enumeration, of all feasible tables; hypergeometric, explicit for a decomposable release; or
                     chains, which sample
    cells            the law of each cell asked about
    feasible_tables  M(T), None where they were not counted
    log_probability  log Pr(F | R) of the true table, None where it was sampled
    entropy          of the law of the tables, in natural units ([DFT] section 4.2); None where it was not summed up
    log_evidence     log Pr(R | A); None for `released`, which has no prior, where there are structural zeros, and where
                     it was sampled but for an average
    equals_released  whether given the release it is the law `released`, as all that the model says is public
    models           of an average, the laws that it is of
    standard_errors  Monte Carlo ones of the probabilities of `cells`, and whether chains agree; None where exact
    log_evidence_error  that of `log_evidence`, None where exact
    groups           the smallest released group of each of the cells, where attribute disclosure was asked for
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
    log_evidence_error: float | None = None
    groups: Groups | None = None
    entropy: float | None = None

    @property
    def headline(self) -> str:
        return f"Posterior of {len(self.cells):,} cells under {self.law}, by {self.engine}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells by names, with their counts and how probable these are, and what is most likely instead."""
        laws = self.cells
        likely, highest = laws.most_likely
        cells, counts = named_cells(laws.cells, schema), laws.counts.tolist()
        told = {"probability": laws.at_truth.tolist(), "most_likely": likely.tolist(), "highest": highest.tolist()}
        return {**cells, "count": counts, **told}

    @property
    def exact(self) -> bool:
        """Exact but for rounding; else the probabilities are shares of draws."""
        return self.standard_errors is None


@dataclass(frozen=True, eq=False)
class Model:
    """A law of an average: its prior probability, and Pr(A | R), which is proportional to Pr(A) Pr(R | A).

    standard_error  Monte Carlo one of `probability`; None where all laws of the average are exact
    """

    posterior: Posterior
    prior: float
    probability: float
    standard_error: float | None = None


def posterior(
    table: Table,
    knowledge: Knowledge,
    law: Law,
    cells: Codes,
    sampling: Sampling | None = None,
    executor: Executor = IN_PROCESS,
) -> Posterior:
    """The posterior of (n, axes) cells under a law, by the cheapest exact engine, by chains where there is none.

    ReleaseError where no engine takes it.
    """
    found = exact_posterior(table, knowledge, law, cells)
    return found or by_chains(table, knowledge, law, cells, sampling or Sampling(), executor)


def of_axes(found: Posterior, schema: Schema) -> Posterior:
    """What was found of cells with codes of all variables, as of those of the axes."""
    cells = replace(found.cells, cells=found.cells.cells[:, list(schema.axes)])
    models = tuple(replace(model, posterior=of_axes(model.posterior, schema)) for model in found.models)
    return replace(found, cells=cells, models=models)


def exact_posterior(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior | None:
    """The same, None where no exact engine gives it."""
    if not table.schema.levels.is_flat:
        # engines take every level for a variable of its own
        flat = exact_posterior(table.flat, knowledge.flat, law, table.schema.columns(cells))
        return flat and of_axes(flat, table.schema)
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
    """The same, sampled even where there is an exact law: until the error asked for is reached, or all may be drawn."""
    if not table.schema.levels.is_flat:
        flat = by_chains(table.flat, knowledge.flat, law, table.schema.columns(cells), sampling, executor)
        return of_axes(flat, table.schema)
    found = sampled(table, knowledge, law, cells, sampling, executor)
    while (further := sampling.further(found.diagnostics.error, len(cells))) is not None:
        sampling = further
        found = sampled(table, knowledge, law, cells, sampling, executor)
    equal, errors = law.equals_released(knowledge), found.standard_errors
    return Posterior(law.name, law.alpha, CHAINS, found.laws, None, None, None, equal, (), errors, found.diagnostics)


def _by_enumeration(table: Table, knowledge: Knowledge, law: Law, cells: Codes, max_tables: int) -> Posterior:
    found = enumerated(table, knowledge, law, max_tables)
    told = _exact(table, knowledge, law, found.laws(cells), ENUMERATION, found.log_probability_of_truth)
    return replace(told, feasible_tables=found.feasible_tables, entropy=found.entropy)


def _by_tree(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior:
    laws = hypergeometric.cell_laws(table, knowledge, cells)
    told = _exact(table, knowledge, law, laws, HYPERGEOMETRIC, hypergeometric.log_probability(table, knowledge))
    return replace(told, entropy=hypergeometric.entropy(table, knowledge))


def _exact(
    table: Table, knowledge: Knowledge, law: Law, laws: CellLaws, engine: str, log_probability: float
) -> Posterior:
    has_evidence = law.model is not None and not knowledge.zeros
    # Pr(R | A) = Pr(F, R | A) / Pr(F | R, A), and R follows from F
    evidence = law.log_probability(table) - log_probability if has_evidence else None
    equal = law.equals_released(knowledge)
    return Posterior(law.name, law.alpha, engine, laws, None, log_probability, evidence, equal)
