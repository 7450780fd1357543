"""Averages over models that are not decomposable, beside numerical integration and closed forms."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import gammaln, logsumexp

import sdc
from sdc.bounds.enumeration import feasible_tables
from sdc.executor import IN_PROCESS
from sdc.intruder import average as averages
from sdc.intruder.chains import Sampling
from sdc.intruder.laws import Law, law_of
from sdc.intruder.posterior import Posterior, posterior
from sdc.model.errors import InputError
from sdc.model.release import Release
from sdc.model.table import Table
from tests.helpers.integrated import WITHOUT_SECOND_ORDER, log_integral_of_a_cube, without_second_order
from tests.papers.papers import ITEMS
from tests.profiles import scaled
from tests.strategies import dense, every_cell, frontier, knows, schema_of
from tests.unit.intruder.test_posterior import (
    CZECH_PREFIX,
    DELAWARE,
    DELAWARE_COUNTS,
    DELAWARE_RELEASE,
    SMALL_CELLS,
    place_of,
)

MODELS = {"saturated": 0.22, WITHOUT_SECOND_ORDER: 0.67, "[race,income][gender,income]": 0.11}
"""Of [DFT] table 5, with their priors."""
DRAWS = min(1_000, scaled(1_000, fewest=400))
WIDER = math.sqrt(1_000 / DRAWS)
"""The errors of so many draws beside those of a thousand."""


@cache
def published() -> Posterior:
    table = dense(DELAWARE, DELAWARE_COUNTS)
    settings = {"law": "average", "priors": MODELS, "alpha": 0.5, "draws": DRAWS, "error": None}
    return sdc.posterior(table, DELAWARE_RELEASE, **settings, cells="all", seed=3)


@cache
def exactly() -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]], float]:
    """The probabilities of the three models, the laws of the small cells, and log Pr(R)."""
    table, (laws, evidence) = dense(DELAWARE, DELAWARE_COUNTS), without_second_order()
    first, _, last = MODELS
    one, other = (sdc.posterior(table, DELAWARE_RELEASE, law=law, alpha=0.5, cells="all") for law in (first, last))
    logs = np.log(list(MODELS.values())) + np.array([one.log_evidence, evidence, other.log_evidence])
    weights, mixed = np.exp(logs - logsumexp(logs)), []
    for cell, integrated in zip(SMALL_CELLS, laws, strict=True):
        each = one.cells.of(place_of(cell)), np.array(integrated), other.cells.of(place_of(cell))
        mixed.append(sum(weight * law for weight, law in zip(weights, each, strict=True)))
    return weights, mixed, float(logsumexp(logs))


# [DFT] table 5


def test_the_published_average_beside_integration() -> None:
    found, (weights, laws, log_evidence) = published(), exactly()
    assert (found.engine, found.exact, found.feasible_tables) == ("enumeration and chains", False, 59_400)
    assert found.log_probability is None
    assert weights == pytest.approx([0.103, 0.695, 0.202], abs=6e-4)
    for model, weight in zip(found.models, weights, strict=True):
        assert model.standard_error < 0.01 * WIDER
        assert abs(model.probability - weight) < 3.5 * model.standard_error
    assert abs(found.log_evidence - log_evidence) < 3.5 * found.log_evidence_error
    for cell, law in zip(SMALL_CELLS, laws, strict=True):
        start, end = found.cells.start[place_of(cell) :][:2]
        errors = found.standard_errors[start:end]
        assert errors.max() < 0.01 * WIDER
        assert (np.abs(found.cells.of(place_of(cell)) - law) < 3.5 * errors).all()


def test_what_the_papers_are_held_to() -> None:
    """What `sdc papers` takes for exact beside what is printed; for the models that is of another formula."""
    weights, laws, _ = exactly()
    checked, models = ITEMS["dft-table-5"].checked, ITEMS["dft-models"].checked
    assert isinstance(checked, dict)
    assert isinstance(models, dict)
    assert [*checked.values()] == [pytest.approx(law, abs=6e-4) for law in laws]
    assert [*models.values()] == pytest.approx(weights, abs=6e-4)


def test_laws_of_an_average_say_how_they_were_found() -> None:
    saturated, sampled, conditional = (model.posterior for model in published().models)
    assert [one.engine for one in (saturated, sampled, conditional)] == ["enumeration", "chains", "enumeration"]
    assert saturated.log_evidence_error is conditional.log_evidence_error is None
    assert sampled.log_evidence_error < 0.05 * WIDER
    assert replace(sampled.diagnostics, error=0.0) == replace(published().diagnostics, error=0.0)
    assert sampled.diagnostics.error == sampled.standard_errors.max()
    assert published().diagnostics.error >= published().standard_errors.max()
    assert (sampled.diagnostics.draws, sampled.diagnostics.chains, sampled.diagnostics.seed) == (DRAWS, 4, 3)
    assert (sampled.diagnostics.connectivity, sampled.diagnostics.moves) == ("proven", 0)
    assert sampled.diagnostics.r_hat < 1.02


# Beside closed forms


def sampled_evidence(table: Table, release: Release, law: Law, sampling: Sampling, number: int = 0) -> Posterior:
    """As an average has it; of a decomposable model too, which is then taken for one that is not."""
    if law.model is not None:
        law = replace(law, model=None, generators=law.model.cliques)
    begun = averages._begun(table, knows(table, release), law, table.codes)
    return averages._sampled(table, begun, table.codes, sampling, IN_PROCESS, number)


def test_decomposable_models_beside_their_closed_form() -> None:
    """Released in part, wholly or not at all; their errors are neither too small nor too large."""
    rng, missed = np.random.default_rng(5), []
    for sizes, release in (
        ([2, 2, 2], frontier("AB", "C")),
        ([2, 3, 2], frontier("AB", "BC")),
        ([3, 2, 2], frontier("AB", "BC", "AC")),
        ([2, 2, 2, 2], frontier("AB", "BCD")),
    ):
        schema = schema_of(sizes)
        table = dense(schema, rng.multinomial(14, rng.dirichlet(np.full(schema.cells, 0.5))).tolist())
        rest = "".join(f"[{name}]" for name in schema.names[3:])
        for model in ("saturated", "[A,B][B,C]" + rest, "[A,B][C]" + rest, "[A][B][C]" + rest):
            law = law_of(model, schema, 0.5)
            exact = posterior(table, knows(table, release), law, table.codes).log_evidence
            found = sampled_evidence(table, release, law, Sampling(50, 4, 1), len(missed))
            # where nothing but the largest generator is left to sample, the estimate is exact
            error = max(found.log_evidence_error, 1e-9)
            assert abs(found.log_evidence - exact) < 3.5 * error
            missed += [(found.log_evidence - exact) / error] * (error > 1e-9)
    assert len(missed) >= 12
    assert 0.5 < np.sqrt(np.mean(np.square(missed))) < 1.5


# Beside an integral, of two by two by two cells

NO_THREE_WAY = "[A,B][B,C][A,C]"


@cache
def without_records(alpha: float) -> float:
    return log_integral_of_a_cube(np.full((2, 2, 2), alpha))


def exact_log(table: Table, alpha: float) -> float:
    """log Pr(F | A) of the model without second-order interaction."""
    counts = np.zeros((2, 2, 2))
    counts[tuple(table.codes.T)] = table.counts
    ratio = log_integral_of_a_cube(counts + alpha) - without_records(alpha)
    return float(gammaln(table.total + 1) - gammaln(counts + 1).sum() + ratio)


# The formulas of [DFT] (8) to (10)


def log_dirichlet(shapes: npt.NDArray[np.float64]) -> float:
    return float(gammaln(shapes).sum() - gammaln(shapes.sum()))


def test_an_average_over_draws_beside_its_closed_forms() -> None:
    """E(Pr(R | theta) | R): over pairs of feasible tables, or of the released marginals where these are the model."""
    truth, alpha = np.array([3, 1, 0, 2]), 0.5
    table, total = dense(schema_of([2, 2]), truth.tolist()), math.lgamma(truth.sum() + 1)
    tables = [truth + t * np.array([1, -1, -1, 1]) for t in (-2, -1, 0, 1)]
    tables = [one for one in tables if one.min() >= 0]
    weights = [log_dirichlet(one + alpha) - gammaln(one + 1).sum() for one in tables]
    pairs = [
        weight - logsumexp(weights) + total - gammaln(other + 1).sum()
        + log_dirichlet(one + other + alpha) - log_dirichlet(one + alpha)
        for one, weight in zip(tables, weights, strict=True)
        for other in tables
    ]  # fmt: skip
    rows, columns = truth.reshape(2, 2).sum(axis=1), truth.reshape(2, 2).sum(axis=0)
    independent = sum(
        total - gammaln(own + 1).sum() + log_dirichlet(2 * own + 1.0) - log_dirichlet(own + 1.0)
        for own in (rows, columns)
    )
    logs = np.log([0.3, 0.7]) + np.array([logsumexp(pairs), independent])
    priors = {"saturated": 0.3, "[A][B]": 0.7}
    settings = {"priors": priors, "alpha": alpha, "draws": DRAWS, "error": None}
    found = sdc.posterior(table, ["A", "B"], law="average-over-draws", **settings)
    assert found.law == "average-over-draws"
    for model, probability in zip(found.models, np.exp(logs - logsumexp(logs)), strict=True):
        assert abs(model.probability - probability) < 3.5 * model.standard_error
    assert abs(found.log_evidence - logsumexp(logs)) < 3.5 * found.log_evidence_error
    assert max(model.standard_error for model in found.models) < 0.02 * WIDER


def test_an_average_over_draws_is_refused_where_its_tables_are_not_listed() -> None:
    large, settings = dense(schema_of([3, 3, 3]), [2, *[40] * 26]), {"priors": {"saturated": 1.0}, "draws": 20}
    with pytest.raises(InputError, match="too many feasible tables vary together"):
        sdc.posterior(large, ["A*B", "B*C", "A*C"], law="average-over-draws", **settings)


# Laws that are public, and what there is no answer to


def test_a_model_that_is_released_has_the_law_released_and_evidence_of_its_own() -> None:
    """Cells are exact; only the weight is sampled."""
    table = dense(schema_of([2, 2, 2]), [4, 1, 0, 2, 1, 3, 2, 1])
    priors = {NO_THREE_WAY: 0.5, "[A,B][C]": 0.5}
    settings = {"priors": priors, "cells": "all", "draws": DRAWS}
    found = sdc.posterior(table, ["A*B", "B*C", "A*C"], law="average", **settings)
    released = sdc.posterior(table, ["A*B", "B*C", "A*C"], law="released", cells="all")
    assert found.equals_released
    assert found.models[0].posterior.engine == "enumeration"
    assert found.engine == "enumeration and chains"
    assert found.cells.probabilities == pytest.approx(released.cells.probabilities)
    assert found.standard_errors == pytest.approx(np.zeros(len(found.cells.probabilities)), abs=1e-12)
    known = knows(table, frontier("AB", "BC", "AC"))
    each = feasible_tables(table, known)
    exact = logsumexp([exact_log(dense(table.schema, counts.reshape(-1).tolist()), 0.5) for counts in each])
    one = found.models[0].posterior
    assert abs(one.log_evidence - exact) < 3.5 * one.log_evidence_error


def test_a_released_model_of_more_tables_than_are_listed() -> None:
    """Its release is decomposable: the tables are counted along the junction tree."""
    rng, schema = np.random.default_rng(2), schema_of([2, 2, 2, 4])
    table, release = dense(schema, rng.integers(20, 60, schema.cells).tolist()), frontier("ABC", "CD")
    law = law_of("[A,B][B,C][C,D]", schema, 0.5)
    exact = posterior(table, knows(table, release), law, table.codes)
    found = sampled_evidence(table, release, law, Sampling(200, 4, 1))
    assert found.engine == exact.engine == "hypergeometric"
    assert found.log_probability == exact.log_probability
    assert abs(found.log_evidence - exact.log_evidence) < 3.5 * found.log_evidence_error


def test_one_cell_of_a_record_is_as_likely_as_another() -> None:
    """With equal alphas, and so small that gammas are 0 in doubles."""
    table = dense(schema_of([2, 3, 3]), [1] + [0] * 17)
    found = sampled_evidence(table, frontier("ABC"), law_of(NO_THREE_WAY, table.schema, 0.01), Sampling(200, 4))
    assert abs(found.log_evidence + math.log(18)) < 3.5 * found.log_evidence_error < 1


def test_what_is_refused_is_not_sampled_first(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averages, "climbed", lambda *given: pytest.fail("a ladder is climbed for nothing"))
    priors = {NO_THREE_WAY: 0.5, "released": 0.5}
    with pytest.raises(InputError, match="released cannot be averaged: it has no prior"):
        sdc.posterior(czech, CZECH_PREFIX, law="average", priors=priors)
    pairs = ["A*B", "C*D", "E*F"]
    with pytest.raises(InputError, match="cannot be averaged: too many feasible tables vary together"):
        sdc.posterior(czech, pairs, law="average", priors={NO_THREE_WAY: 1.0})
    wide = schema_of([2] * 12)
    table = Table.of(wide, every_cell(schema_of([2] * 12))[:3], np.ones(3, np.int64))
    with pytest.raises(InputError, match="are drawn, and the table has 4096 cells, more than 2048"):
        sdc.posterior(table, ["v00*v01"], law="average", priors={"[v00,v01][v01,v02][v00,v02]": 1.0})
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"draws = 3000000 of 0 cells and \d+ rungs; give at most \d+, or fewer cells"):
        sdc.posterior(czech, CZECH_PREFIX, law="average", priors={NO_THREE_WAY: 1.0}, draws=3_000_000)
