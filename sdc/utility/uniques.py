"""Sample uniques: the probability that a record alone in its cell of a sample is alone in the population too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdc.intruder.laws import generators_of
from sdc.model.documents import picked, rows
from sdc.model.errors import InputError, many
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, beside, named_cells
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table, freeze
from sdc.model.weights import UNIT, RecordWeights
from sdc.utility.closed_form import Values
from sdc.utility.estimable import Estimable
from sdc.utility.loglinear import expected_counts
from sdc.utility.model_search import search_models

BEST, RELEASED = "best", "released"
LEAST_FRACTION = 1e-12  # one record of all people who ever lived
OF_CELLS = ("population_unique", "match", "population")
"""Columns for `alone`, `matched` and `expected` of `Uniques`."""
POISSON, NEGATIVE_BINOMIAL = "Poisson log-linear model", "weights, negative binomial"


@dataclass(frozen=True, eq=False, repr=False)
class Uniques(Named):
    """The estimated population F of the n cells with one record, in the order of the table's rows.

    cells     (n, axes) codes
    alone     (n,) Pr(F = 1 | f = 1): the sample unique is one of the population
    matched   (n,) E(1 / F | f = 1): a person linked to the record by these variables is the right one
    expected  (n,) E(F | f = 1), in persons
    twos      number of cells with two records
    fraction  share of the population that is in the sample
    estimator, model  the method; the model as written, none for weights
    """

    cells: Codes
    alone: Values
    matched: Values
    expected: Values
    twos: int
    fraction: float
    estimator: str
    model: str | None

    def __post_init__(self) -> None:
        freeze(self, "cells", "alone", "matched", "expected")

    def __len__(self) -> int:
        return len(self.alone)

    @property
    def right_matches(self) -> float:
        """The share of right matches among all who match a sample unique: n / sum E(F | f = 1)."""
        return len(self) / float(self.expected.sum())

    @property
    def intrusion(self) -> float:
        """The share by data intrusion simulation, without a model: pi n1 / (pi n1 + 2 (1 - pi) n2).

        Skinner and Elliot (2002). If it is far from `right_matches`, the model does not fit.
        """
        ones = self.fraction * len(self)
        return ones / (ones + 2 * (1 - self.fraction) * self.twos)

    @property
    def headline(self) -> str:
        return f"Sample uniques, by {self.estimator}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """By sample unique, with names."""
        return beside(named_cells(self.cells, schema), {name: own.tolist() for name, own in self.numbers.items()})

    @property
    def numbers(self) -> dict[str, Values]:
        """The estimates by column."""
        return dict(zip(OF_CELLS, (self.alone, self.matched, self.expected), strict=True))


def uniques_by(
    table: Table, known: Knowledge, fraction: float | None, model: str | None, weights: RecordWeights | None
) -> Uniques:
    """Estimates by a model and a fraction, by default the `best` model; without a fraction by the records' weights.

    Raises InputError if neither is given, for a model with weights, and as both methods.
    """
    if fraction is not None:
        return uniques_by_model(table, known, fraction, model or BEST)
    if weights is None:
        raise InputError(
            "the population is unknown; give the fraction of it that is in the sample, or the weights of the records"
        )
    if model is not None:
        raise InputError(
            f"model = {model!r} is given without a fraction, and weights have no model; give a fraction, or leave the "
            "model out"
        )
    return uniques_by_weights(table, weights)


def uniques_by_model(table: Table, known: Knowledge, fraction: float, model: str = BEST) -> Uniques:
    """A Poisson log-linear model, of Skinner and Holmes (1998) and Skinner and Shlomo (2008).

    F_k is Poisson with the mean lambda_k, and each person is in the sample with probability pi, so that those outside
    it, F_k - f_k, are Poisson with mu_k = (1 - pi) lambda_k. The model fits pi lambda_k to the sample:

        Pr(F_k = 1 | f_k = 1) = exp(-mu_k)    E(1 / F_k | f_k = 1) = (1 - exp(-mu_k)) / mu_k

    fraction  pi, above 0 and at most 1
    model     `best`, the decomposable one of lowest BIC, without structural zeros; `released`, whose terms are the
              public sub-tables in `known`; or any hierarchical one `[a,b][b,c]`, in which missing variables are
              independent

    A decomposable model is fitted at these cells only, so that tables may have any size. Raises InputError for an
    invalid fraction or model, if no cell has one record, and as `fit_model`.
    """
    check_fraction(fraction)
    rows = _alone(table)
    release, written = _model(model, table, known)
    public = replace(known, release=release).with_facts(NO_FACTS)
    fitted = expected_counts(Estimable(table, public)).at(table.schema.columns(table.codes[rows]))
    others = fitted * (1 - fraction) / fraction
    # mu is 0 if the sample is the population
    matched = np.divide(-np.expm1(-others), others, out=np.ones(len(others)), where=others > 0)
    return _found(table, np.exp(-others), matched, 1 + others, float(fraction), POISSON, written)


def uniques_by_weights(table: Table, weights: RecordWeights) -> Uniques:
    """Estimates from the weights of the records, of Benedetti and Franconi (1998).

    f_k records are drawn from F_k: F_k is negative binomial with p_k = f_k / sum of the weights of the cell. For one
    record with weight w:

        Pr(F_k = 1 | f_k = 1) = 1 / w    E(1 / F_k | f_k = 1) = ln(w) / (w - 1)

    Raises InputError for a weight of a sample unique below 1, and if no cell has one record.
    """
    require_persons(table, weights)
    weight = weights.totals[_alone(table)] / UNIT
    above = weight - 1
    matched = np.divide(np.log1p(above), above, out=np.ones(len(above)), where=above > 0)
    return _found(table, 1 / weight, matched, weight, table.total / (weights.total / UNIT), NEGATIVE_BINOMIAL, None)


def check_fraction(fraction: float) -> None:
    """InputError unless 0 < fraction <= 1."""
    if not LEAST_FRACTION <= fraction <= 1:
        raise InputError(
            f"fraction = {fraction}: give the share of the population that is in the sample, above 0 and at most 1"
            + f"; it is {LEAST_FRACTION:g} at least" * (0 < fraction < 1)
        )


def check_model(text: str, schema: Schema) -> None:
    """InputError for an invalid model or an unknown variable."""
    if text.strip() not in (BEST, RELEASED):
        _generators(text, schema)


def require_persons(table: Table, weights: RecordWeights) -> None:
    """InputError if a record alone in its cell represents less than one person."""
    if below := int((weights.totals[table.counts == 1] < UNIT).sum()):
        raise InputError(
            f"{many(below, 'record')} alone in a cell with a weight below 1, so less than one person; give weights "
            "of at least 1, or a fraction"
        )


def _alone(table: Table) -> Counts:
    rows = np.flatnonzero(table.counts == 1)
    if not len(rows):
        raise InputError("no cell has exactly one record, so there is no sample unique; nothing needs estimating")
    return rows


def _found(table: Table, alone: Values, matched: Values, expected: Values, *how: Any) -> Uniques:
    cells, twos = table.codes[table.counts == 1], int((table.counts == 2).sum())
    return Uniques(cells, alone, matched, expected, twos, *how).named_by(table.schema)


def _model(model: str, table: Table, known: Knowledge) -> tuple[Release, str]:
    if (name := model.strip()) == RELEASED and known.release == NOTHING:
        raise InputError(f"nothing is released, so the model {RELEASED} does not exist; choose {BEST}, or name a model")
    if name == BEST:
        found = search_models(table, most=1)
        return found.release(table.schema), str(found.columns(table.schema)["model"][0])
    return known.release if name == RELEASED else _generators(name, table.schema), name


def _generators(text: str, schema: Schema) -> Release:
    named = generators_of(text, schema)
    if named is None:
        raise InputError(f"model {text!r} is unknown; choose {BEST}, {RELEASED}, or a model such as [a,b][b,c]")
    return Release.of(schema.levels.closed(sub_table) for sub_table in (*named, *(1 << axis for axis in schema.axes)))


def uniques_facts(found: Uniques) -> dict[str, Any]:
    """Over all sample uniques: the expected population uniques and right matches."""
    numbers = {"sample_uniques": len(found), "sample_twos": found.twos}
    sums = {"population_uniques": float(found.alone.sum()), "matched": float(found.matched.sum())}
    how = picked(found, "estimator", "model", "fraction")
    return {**how, **numbers, **sums, **picked(found, "right_matches", "intrusion")}


def unique_cells(found: Uniques, schema: Schema) -> list[dict[str, Any]]:
    """Each sample unique."""
    return rows({"cell": map(schema.named, found.cells.tolist()), **found.numbers})
