"""DU(R), the utility of a release, in the ways of [KDSF] section 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Literal

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError, nearest
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import check_release
from sdc.model.release import Release, sum_of_products
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.utility.closed_form import ClosedForm, Values
from sdc.utility.ipf import MAX_BYTES, STOP, Fit, Stop, Support, fit, tree_of
from sdc.utility.marginal import SharedMarginals

MAX_UTILITY = 1e300  # doubles end at 1.8e308; annealing computes with utilities as doubles


@dataclass(frozen=True)
class Weights:
    """Values of sub-tables: those that users need most count more.

    variables   one weight for each variable; a sub-table has the product of the weights of its finest variables ...
    sub_tables  ... unless it has its own value here
    """

    variables: tuple[Fraction, ...]
    sub_tables: tuple[tuple[SubTable, Fraction], ...] = ()

    @staticmethod
    def equal(variables: int) -> Weights:
        """Every sub-table counts 1: the utility is their number."""
        return Weights((Fraction(1),) * variables)

    @property
    def are_equal(self) -> bool:
        """Whether every sub-table counts 1."""
        return self == Weights.equal(len(self.variables))

    def corrections(self, schema: Schema) -> tuple[tuple[SubTable, Fraction], ...]:
        """The differences between own values of sub-tables and the products of their variables' weights."""
        return tuple((t, own - self._product(t, schema)) for t, own in self.sub_tables)

    def _product(self, subtable: SubTable, schema: Schema) -> Fraction:
        return prod((self.variables[v] for v in st.members(schema.levels.finest(subtable))), start=Fraction(1))

    def of_sub_table(self, subtable: SubTable, schema: Schema) -> Fraction:
        """The value of one sub-table."""
        own = dict(self.sub_tables).get(subtable)
        return self._product(subtable, schema) if own is None else own

    def flat(self, schema: Schema) -> Weights:
        """Weights for levels as variables of their own, with which closed releases have the same value.

        For an axis with levels, all sets of these count then: prod (1 + w) over a variable and those that it implies is
        1 more than the sum of their own weights.
        """
        if schema.levels.is_flat:
            return self
        coarser = map(st.members, schema.levels.coarser)
        coarser_size = (sum((self.variables[u] for u in own), start=Fraction(1)) for own in coarser)
        weights = Weights(tuple(own / before for own, before in zip(self.variables, coarser_size, strict=True)))
        own = ((t, weights.of_sub_table(t, schema.flat) + more) for t, more in self.corrections(schema))
        return replace(weights, sub_tables=tuple(own))

    @staticmethod
    def of(
        schema: Schema, variables: Mapping[str, float] | None = None, sub_tables: Mapping[str, float] | None = None
    ) -> Weights:
        """From names: `{"age": 2}` and `{"age*sex": 5}`; others count 1.

        Raises InputError for unknown names, a repeated sub-table, a weight that is not positive and finite, and a sum
        over all sub-tables above 1e300.
        """
        by_variable = {_variable(name, schema): _weight(name, value) for name, value in (variables or {}).items()}
        by_subtable: dict[SubTable, Fraction] = {}
        for name, value in (sub_tables or {}).items():
            subtable = _sub_table(name, schema, "weight of")
            if subtable in by_subtable:
                raise InputError(f"weight of {name!r} = {value!r}: {st.label(subtable, schema)} has one; give one")
            by_subtable[subtable] = _weight(name, value)
        weights = tuple(by_variable.get(v, Fraction(1)) for v in range(len(schema)))
        # the sum over all subsets of a product is the product of 1 + weight: no sub-table is listed
        if prod(1 + weight for weight in weights) + sum(by_subtable.values()) > MAX_UTILITY:
            raise InputError(f"the weights of all sub-tables sum to more than {MAX_UTILITY}; choose smaller weights")
        return Weights(weights, tuple(sorted(by_subtable.items())))


def cells(release: Release, schema: Schema) -> int:
    """The number of cells of all non-empty sub-tables: the sum of their products of numbers of categories.

    Exact, a Python integer; ReleaseError for an unknown variable.
    """
    check_release(release, schema)
    return sum_of_products(release, schema.sizes, schema) - 1


def degrees_of_freedom(release: Release, schema: Schema) -> int:
    """Of the release's hierarchical log-linear model: the sum over non-empty sub-tables of prod (I_v - 1).

    Its free parameters besides the total (Bishop, Fienberg and Holland 1975, section 3.4). A variable with coarser
    levels adds its categories beyond the finest of these. ReleaseError as `cells`.
    """
    check_release(release, schema)
    return sum_of_products(release, free_categories(schema), schema) - 1


def free_categories(schema: Schema) -> tuple[int, ...]:
    """I_v - 1 for each variable; for one with coarser levels the categories beyond the finest of these."""
    before = (st.members(schema.levels.just_coarser(v)) for v in range(len(schema)))
    return tuple(
        size - max((schema.sizes[u] for u in coarser_size), default=1)
        for size, coarser_size in zip(schema.sizes, before, strict=True)
    )


def weighted_sub_tables(release: Release, weights: Weights, schema: Schema) -> float:
    """Sum of the values of the non-empty sub-tables, exact up to one rounding, so that ties are ties.

    The weights are of all variables of the table: IndexError if the release has more.
    """
    released = release.closed(schema)
    total = sum_of_products(released, weights.variables, schema) - 1
    own = weights.corrections(schema) if weights.sub_tables else ()
    return float(total + sum(correction for subtable, correction in own if subtable in released))


@dataclass(frozen=True)
class Demand:
    """Requests of users: sub-tables with positive frequencies."""

    requests: tuple[tuple[SubTable, Fraction], ...] = ()

    @staticmethod
    def of(schema: Schema, by_name: Mapping[str, float]) -> Demand:
        """From names such as `{"age*sex": 12}`; InputError for unknown names or non-positive numbers."""
        found: dict[SubTable, Fraction] = {}
        for name, frequency in by_name.items():
            subtable = _sub_table(name, schema, "demand for")
            found[subtable] = found.get(subtable, Fraction(0)) + _weight(name, frequency, "demand for")
        return Demand(tuple(sorted(found.items())))

    def added_to(self, weights: Weights, schema: Schema) -> Weights:
        """The weights, with each request for a sub-table counting 1 more."""
        own = dict(weights.sub_tables)
        own.update((t, weights.of_sub_table(t, schema) + frequency) for t, frequency in self.requests)
        return Weights(weights.variables, tuple(sorted(own.items())))

    def served(self, release: Release) -> Fraction:
        """The share of the requests whose sub-table is released."""
        total = sum((frequency for _, frequency in self.requests), start=Fraction(0))
        return sum((f for t, f in self.requests if t in release), start=Fraction(0)) / total if total else Fraction(1)


@dataclass(frozen=True)
class Reconstruction:
    """The accuracy of the full table reconstructed from a release, and the method, see `ipf.Fit`.

    mean_squared_error  of a cell of the full table, in records squared
    deviation           of the released marginals, in records; 0 in closed form
    support             the cells that were fitted, see `ipf.fit`
    """

    mean_squared_error: float
    method: Literal["closed form", "ipf"]
    sweeps: int
    deviation: float
    converged: bool
    support: Support = "possible"


def reconstruction(
    table: Table,
    known: Knowledge,
    *,
    support: Support = "possible",
    stop: Stop = STOP,
    max_bytes: int = MAX_BYTES,
    marginals: SharedMarginals | None = None,
) -> Reconstruction:
    """The accuracy of IPF's reconstruction of the full table from the knowledge, on every possible cell.

    With a closed form no cells are listed, and their number is unlimited. Raises as `ipf.fit`.

    support    "non-zero" fits the table's non-zero cells alone ([DKS] section 3.2), always by IPF
    marginals  those of the table, shared by several reconstructions
    """
    known.check_is_of(table)
    number = table.schema.cells
    table, known = table.flat, known.flat  # every level a variable of its own
    frontier = known.structure.essential.frontier
    tree = tree_of(table.schema, frontier, known.zeros) if support == "possible" else None
    if tree is None:
        found = fit(table, known, support=support, stop=stop, max_bytes=max_bytes)
        error = _mean_squared_error(table, *_at(table, found), number)
        return Reconstruction(error, found.method, found.sweeps, found.deviation, found.converged, support)
    of_table = marginals or SharedMarginals(table)
    form = ClosedForm(table.schema, {element: of_table.of(element) for element in frontier}, tree)
    error = _mean_squared_error(table, form.among(of_table.at), form.sum_of_squares, number)
    return Reconstruction(error, "closed form", 0, 0.0, True)


@dataclass(frozen=True)
class Utility:
    """DU(R) in every way: `weighted` with weights, `served` (a share) with known requests."""

    release: Release
    sub_tables: int
    cells: int
    degrees_of_freedom: int
    weighted: float | None
    reconstruction: Reconstruction | str
    served: float | None = None

    @property
    def facts(self) -> dict[str, float | int | str | bool]:
        """Names and plain values, floats of the reconstruction to 9 digits: the last ones may depend on the machine."""
        facts: dict[str, float | int | str | bool] = {
            "sub_tables": self.sub_tables,
            "sub_tables_with_total": self.sub_tables + 1,
            "cells": self.cells,
            "degrees_of_freedom": self.degrees_of_freedom,
        }
        if self.weighted is not None:
            facts["weighted"] = self.weighted
        if self.served is not None:
            facts["requests_served"] = self.served
        found = self.reconstruction
        if isinstance(found, str):
            return {**facts, "not_reconstructed": found}
        return {
            **facts,
            "mean_squared_error": float(f"{found.mean_squared_error:.9g}"),
            "reconstruction_method": found.method,
            "sweeps": found.sweeps,
            "deviation": float(f"{found.deviation:.9g}"),
            "converged": found.converged,
            **({} if found.support == "possible" else {"support": found.support}),
        }


def utility_of(
    table: Table,
    known: Knowledge,
    weights: Weights,
    demand: Demand = Demand(),
    *,
    support: Support = "possible",
    stop: Stop = STOP,
    max_bytes: int = MAX_BYTES,
) -> Utility:
    """All measures of a release; if IPF needs more than `max_bytes`, the reason replaces the accuracy."""
    found: Reconstruction | str
    try:
        if table.missing is not None:
            raise InputError("the table has missing counts, so errors are unknown; give each cell its count")
        found = reconstruction(table, known, support=support, stop=stop, max_bytes=max_bytes)
    except InputError as error:
        found = str(error)
    release, schema = known.release, table.schema
    weighted = None if weights == Weights.equal(len(schema)) else weighted_sub_tables(release, weights, schema)
    served = float(demand.served(release)) if demand.requests else None
    size, freedom = cells(release, schema), degrees_of_freedom(release, schema)
    return Utility(release, release.sub_tables(schema), size, freedom, weighted, found, served)


def mean_squared_error(table: Table, found: Fit) -> float:
    """Squared differences between counts and expected counts, in records squared, per cell of the full table."""
    return _mean_squared_error(table, *_at(table, found), table.schema.cells)


def _at(table: Table, found: Fit) -> tuple[Values, float]:
    """A fit's expected counts at the non-zero cells, and the sum of squares of all."""
    return found.at(table.codes), float(np.square(found.values).sum()) / found.spread


def _mean_squared_error(table: Table, expected_counts: Values, sum_of_all_squares: float, cells: int) -> float:
    """From the expected counts at the non-zero cells, and the sum of squares of all: elsewhere the count is 0."""
    # the difference of two nearly equal sums may come out below 0
    elsewhere = max(0.0, sum_of_all_squares - float(np.square(expected_counts).sum()))
    here = float(np.square(table.counts - expected_counts).sum())
    return (here + elsewhere) / cells


def _variable(name: str, schema: Schema) -> int:
    if name not in schema.names:
        raise InputError(
            f"weight of {name!r}: there is no such variable; {nearest(name, schema.names, 'the table has')}"
        )
    return schema.index(name)


def _sub_table(name: str, schema: Schema, what: str) -> SubTable:
    try:
        return st.parse(name, schema)
    except ReleaseError as error:
        raise InputError(f"{what} {name!r}: {error}") from error


def _weight(name: str, value: float, what: str = "weight of") -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_UTILITY:
        raise InputError(f"{what} {name!r} = {value!r}: give a number more than 0 and at most {MAX_UTILITY}")
    # as written: 0.1 is a tenth, so that equal sums on paper are equal here
    return Fraction(str(value))
