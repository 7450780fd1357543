"""The intruder's posterior: probabilities of cells under a law of the feasible tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.counting import count_tables
from sdc.feasible.depth_first import MAX_CELLS
from sdc.intruder import hypergeometric
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.chains import Diagnostics, Sampling, sampled
from sdc.intruder.enumerated import MAX_TABLES, TooManyTablesError, enumerated
from sdc.intruder.laws import Law, check_zeros
from sdc.intruder.losses import Claims, Losses
from sdc.intruder.measures import Groups, above, identified, log_probability_if_uniform
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.documents import picked, plain, rows
from sdc.model.errors import many
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, beside, named_cells
from sdc.model.schema import Schema
from sdc.model.table import Codes, Table

AVERAGE, OVER_DRAWS = "average", "average-over-draws"
ENGINES = ENUMERATION, HYPERGEOMETRIC, CHAINS = "enumeration", "hypergeometric", "chains"
FEW_TABLES = 1 << 16  # the limit of listed tables of a part if there is another exact method


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Named):
    """Probabilities given the released marginals.

    law              its name, or that of an average
    alpha            of its prior, None for `released`
    engine           enumeration, of all feasible tables; hypergeometric, explicit for a decomposable release; or
                     chains, which sample
    cells            the law of each cell
    feasible_tables  M(T), None if not counted
    log_probability  log Pr(F | R) of the true table, None if sampled
    entropy          of the law of the tables, in natural units ([DFT] section 4.2); None if not computed
    log_evidence     log Pr(R | A); None for `released`, which has no prior, with structural zeros, and if sampled
                     except in an average
    equals_released  whether the law given the release is `released`, because all of its model is public
    models           the laws of an average
    standard_errors  Monte Carlo errors of the probabilities of `cells`; None if exact
    log_evidence_error  that of `log_evidence`, None if exact
    groups           the smallest released group of each cell, if attribute disclosure is required
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
        return f"Posterior of {many(len(self.cells), 'cell')} under {self.law}, by {self.engine}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells by names, with counts and probabilities, and the most likely counts."""
        laws = self.cells
        likely, highest = laws.most_likely
        numbers = {"count": laws.counts, "probability": laws.at_truth, "most_likely": likely, "highest": highest}
        return beside(named_cells(laws.cells, schema), {name: own.tolist() for name, own in numbers.items()})

    @property
    def exact(self) -> bool:
        """Exact up to rounding; otherwise the probabilities are shares of draws."""
        return self.standard_errors is None


@dataclass(frozen=True, eq=False)
class Model:
    """A law of an average: its prior probability, and Pr(A | R), which is proportional to Pr(A) Pr(R | A).

    standard_error  Monte Carlo error of `probability`; None if all laws of the average are exact
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
    """The posterior of (n, axes) cells under a law, by the fastest exact engine, or by chains if there is none.

    Raises ReleaseError if no engine applies.
    """
    found = exact_posterior(table, knowledge, law, cells)
    return found or by_chains(table, knowledge, law, cells, sampling or Sampling(), executor)


def of_axes(found: Posterior, schema: Schema) -> Posterior:
    """The posterior with cells in codes of the axes instead of all variables."""
    cells = replace(found.cells, cells=found.cells.cells[:, list(schema.axes)])
    models = tuple(replace(model, posterior=of_axes(model.posterior, schema)) for model in found.models)
    return replace(found, cells=cells, models=models)


def exact_posterior(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior | None:
    """The posterior by an exact engine, None if there is none."""
    if not table.schema.levels.is_flat:
        # engines treat every level as a variable of its own
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
    """The posterior by sampling, even if there is an exact law, until the required error or the limit is reached."""
    if not table.schema.levels.is_flat:
        flat = by_chains(table.flat, knowledge.flat, law, table.schema.columns(cells), sampling, executor)
        return of_axes(flat, table.schema)
    found = sampled(table, knowledge, law, cells, sampling, executor)
    while (further := sampling.further(found.diagnostics.error, len(cells))) is not None:
        sampling = further
        found = sampled(table, knowledge, law, cells, sampling, executor)
    equal, errors = law.equals_released(knowledge), found.standard_errors
    tables = count_tables(table, knowledge)
    return Posterior(law.name, law.alpha, CHAINS, found.laws, tables, None, None, equal, (), errors, found.diagnostics)


def _by_enumeration(table: Table, knowledge: Knowledge, law: Law, cells: Codes, max_tables: int) -> Posterior:
    found = enumerated(table, knowledge, law, max_tables)
    exact = _exact(table, knowledge, law, found.laws(cells), ENUMERATION, found.log_probability_of_truth)
    return replace(exact, feasible_tables=found.feasible_tables, entropy=found.entropy)


def _by_tree(table: Table, knowledge: Knowledge, law: Law, cells: Codes) -> Posterior:
    laws = hypergeometric.cell_laws(table, knowledge, cells)
    exact = _exact(table, knowledge, law, laws, HYPERGEOMETRIC, hypergeometric.log_probability(table, knowledge))
    entropy = hypergeometric.entropy(table, knowledge)
    return replace(exact, feasible_tables=count_tables(table, knowledge), entropy=entropy)


def _exact(
    table: Table, knowledge: Knowledge, law: Law, laws: CellLaws, engine: str, log_probability: float
) -> Posterior:
    has_evidence = law.model is not None and not knowledge.zeros
    # Pr(R | A) = Pr(F, R | A) / Pr(F | R, A), and R follows from F
    evidence = law.log_probability(table) - log_probability if has_evidence else None
    equal = law.equals_released(knowledge)
    return Posterior(law.name, law.alpha, engine, laws, None, log_probability, evidence, equal)


def posterior_facts(
    found: Posterior, bounds: CellBounds, schema: Schema, threshold: float, losses: Losses | None = None
) -> dict[str, Any]:
    """The fields of a document, with the bounds of its cells; probabilities and errors are of counts from `from`.

    losses  of the intruder and the agency, for the disclosure risk
    """
    laws, tables, errors = found.cells, found.feasible_tables, found.standard_errors
    highest = laws.most_likely[1]
    cells = {
        "cell": map(schema.named, laws.cells.tolist()),
        "count": laws.counts,
        "outer": bounds.outer,
        "from": laws.first,
        "probabilities": _of_each(laws, laws.probabilities),
        "standard_error": [None] * len(laws) if errors is None else _of_each(laws, errors),
        "group": _group_facts(found, schema),
    }
    models = [
        {
            **_law_facts(model.posterior),
            "prior": model.prior,
            "posterior": model.probability,
            "standard_error": model.standard_error,
        }
        for model in found.models
    ]
    return {
        **_law_facts(found),
        **picked(found, "engine", "exact", "feasible_tables"),
        "log_probability_of_true_table": found.log_probability,
        "probability_if_uniform": None if tables is None else 1 / tables,
        "log_probability_if_uniform": None if tables is None else log_probability_if_uniform(tables),
        "entropy": found.entropy,
        "bounds": {
            "sharp": bool(bounds.exact.all()),
            "known": int((bounds.outer_width == 0).sum()),
            "total_width": int(bounds.outer_width.sum()),
        },
        "losses": None if losses is None else _losses(losses, laws),
        "identified": {"threshold": threshold, "fraction": identified(laws.at_truth, highest, threshold)},
        "above": {"threshold": threshold, "fraction": above(laws.at_truth, threshold)},
        "attribute_disclosure": _disclosure(found, bounds, threshold),
        "cells": rows(cells),
        **({} if found.diagnostics is None else {"diagnostics": plain(Diagnostics, found.diagnostics)}),
        "models": models,
    }


def _law_facts(found: Posterior) -> dict[str, Any]:
    error = {} if found.log_evidence_error is None else {"log_evidence_standard_error": found.log_evidence_error}
    return {**picked(found, "law", "alpha", "equals_released", "log_evidence"), **error}


def _of_each(laws: CellLaws, values: Probabilities) -> list[list[float]]:
    return [values[begin:end].tolist() for begin, end in pairwise(laws.start)]


def _losses(losses: Losses, laws: CellLaws) -> dict[str, Any]:
    claims = losses.claims(laws.at_truth, laws.most_likely[1])
    return {**plain(Losses, losses), "claims": plain(Claims, claims), "disclosure_risk": losses.risk(claims)}


def _disclosure(found: Posterior, bounds: CellBounds, threshold: float) -> dict[str, Any] | None:
    """The number of cells with their share of a released group: certainly, not at all, and probably."""
    if (groups := found.groups) is None:
        return None
    return {
        "share": groups.share,
        "certain": int(groups.are_certain(bounds.outer).sum()),
        "impossible": int(groups.are_impossible(bounds.outer).sum()),
        "above_threshold": int((groups.probabilities(found.cells) > threshold).sum()),
    }


def _group_facts(found: Posterior, schema: Schema) -> list[Any]:
    """For each cell its smallest released group, and the probability of holding the share of it."""
    if (groups := found.groups) is None:
        return [None] * len(found.cells)
    named = [st.names(sub_table, schema) for sub_table in groups.sub_tables.tolist()]
    return rows({"sub_table": named, "records": groups.records, "probability": groups.probabilities(found.cells)})
