"""The best decomposable log-linear models of a table by BIC."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import exp, fsum, log
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.documents import rows
from sdc.model.errors import InputError
from sdc.model.named import Named
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table
from sdc.utility.marginal import Marginal
from sdc.utility.measures import degrees_of_freedom

FEW_VARIABLES = 6
"""Up to so many, all graphs are examined: 18,154."""


@dataclass(frozen=True, eq=False)
class DecomposableModel:
    """A graphical model with a chordal graph and the maximum of its likelihood in closed form.

    graph       on the axes of the table, numbered by position
    parameters  free ones, without the constant; empty cells count, since N may grow
    deviance    G^2, against the saturated model
    bic         -2 log L + parameters log N (Schwarz 1978), L of a multinomial without its coefficient
    weight      exp(-BIC / 2), as a share of all examined models: the approximate probability given the table and that
                one of these is true, with equal priors (Raftery 1995)
    """

    graph: DecomposableGraph
    parameters: int
    deviance: float
    bic: float
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class ModelSearch(Named):
    """The best decomposable models, the lowest BIC first.

    looked_at    number of examined models
    is_complete  whether these were all; else none that differs from the best by one edge is better
    """

    models: tuple[DecomposableModel, ...]
    looked_at: int
    is_complete: bool

    @property
    def best(self) -> DecomposableModel:
        return self.models[0]

    def release(self, schema: Schema) -> Release:
        """The release of the best model, for a table with this schema."""
        return Release.of(_sub_table(clique, schema) for clique in self.best.graph.cliques)

    @property
    def headline(self) -> str:
        return f"Best of {self.looked_at:,} decomposable models by BIC"

    def columns(self, schema: Schema) -> dict[str, list[Any]]:
        """By model: its cliques, as a law of `sdc posterior` names them, and its figures."""
        axes = schema.restrict(schema.axes)
        numbers = ("parameters", "deviance", "bic", "weight")
        figures = {name: [getattr(model, name) for model in self.models] for name in numbers}
        return {"model": [model.graph.text(axes) for model in self.models], **figures}


def search_models(table: Table, within: Release | None = None, *, most: int = 10) -> ModelSearch:
    """All decomposable models of up to 6 variables; for more, steepest descent from independence with its neighbours.

    within  a release that must have the models' cliques as sub-tables, so that its readers can fit them; by default any
    most    number of best models to return

    A step adds or drops the edge with the largest decrease of BIC, until there is none. It costs four marginals for
    each edge, each counted once. Structural zeros are ignored, since no model has the closed form with them. Raises
    InputError for a table without records, for less than one model, and for a variable outside the release.
    """
    if not table.total:
        raise InputError("the table has no records, so models cannot be compared; give a table with records")
    if most < 1:
        raise InputError(f"most = {most}; give at least 1 model")
    axes, schema = _of_axes(table), table.schema
    if within is not None:
        for axis in schema.axes:
            if schema.levels.closed(1 << axis) not in within:
                raise InputError(
                    f"{schema.names[axis]} is not in the release, and a model has every variable; release it, or "
                    "choose variables"
                )
    steps = _Steps(axes, within, schema)
    is_complete = len(axes.schema) <= FEW_VARIABLES
    found = _every(steps) if is_complete else _descent(steps)
    least = min(found.values())
    total = fsum(exp((least - bic) / 2) for bic in found.values())
    best = heapq.nsmallest(most, found, key=lambda graph: (found[graph], graph.neighbours))
    models = [steps.model(graph, found[graph], exp((least - found[graph]) / 2) / total) for graph in best]
    return ModelSearch(tuple(models), len(found), is_complete).named_by(schema)


Examined = dict[DecomposableGraph, float]
"""BIC of each examined graph."""


@dataclass(frozen=True, eq=False)
class _Steps:
    """The graphs that differ by one edge from a graph, with their BIC.

    table   with axes only
    within  the release that must contain the cliques, for a table with this schema; None for any
    """

    table: Table
    within: Release | None
    schema: Schema

    @property
    def first(self) -> tuple[DecomposableGraph, float]:
        number = len(self.table.schema)
        start = DecomposableGraph((0,) * number, number)
        return start, fsum(map(self._score, start.cliques)) - (number - 1) * self._score(
            st.GRAND_TOTAL
        ) - self._constant

    def __call__(self, graph: DecomposableGraph, bic: float) -> Iterator[tuple[DecomposableGraph, float]]:
        for u, v in combinations(range(len(graph)), 2):
            common, adds = graph.neighbours[u] & graph.neighbours[v], not graph.has_edge(u, v)
            one, other = common | 1 << u, common | 1 << v
            if adds and self.within is not None and _sub_table(one | other, self.schema) not in self.within:
                continue
            with suppress(ValueError):  # it would not stay decomposable
                changed = graph.toggled(u, v)
                change = self._score(one | other) + self._score(common) - self._score(one) - self._score(other)
                # the same sum on every path: ties are broken by number
                yield changed, float(f"{bic + change if adds else bic - change:.13g}")

    def model(self, graph: DecomposableGraph, bic: float, weight: float) -> DecomposableModel:
        parameters = degrees_of_freedom(graph.release, self.table.schema)
        saturated = 2 * (_sum_of_logs(self.table.counts) - self.table.total * log(self.table.total))
        deviance = max(0.0, saturated + bic - parameters * log(self.table.total))
        return DecomposableModel(graph, parameters, deviance, bic, weight)

    @cached_property
    def _constant(self) -> float:
        return -2 * self.table.total * log(self.table.total) + log(self.table.total)

    def _score(self, sub_table: SubTable) -> float:
        """A clique's contribution to BIC, up to a constant; a separator's is subtracted."""
        if sub_table not in self._scores:
            counts = Marginal.of(self.table, sub_table).counts
            cells = st.cells(sub_table, self.table.schema)
            self._scores[sub_table] = -2 * _sum_of_logs(counts) + cells * log(self.table.total)
        return self._scores[sub_table]

    @cached_property
    def _scores(self) -> dict[SubTable, float]:
        return {}


def _sum_of_logs(counts: Counts) -> float:
    return float((counts * np.log(counts)).sum())


def _every(steps: _Steps) -> Examined:
    first, bic = steps.first
    found, waiting = {first: bic}, [first]
    while waiting:
        graph = waiting.pop()
        for changed, bic in steps(graph, found[graph]):
            if changed not in found:
                found[changed] = bic
                waiting.append(changed)
    return found


def _descent(steps: _Steps) -> Examined:
    """The graphs on the descent from independence, with all neighbours."""
    best, bic = steps.first
    found = {best: bic}
    while True:
        around = dict(steps(best, found[best]))
        found |= around
        ahead = min(around, key=lambda graph: (around[graph], graph.neighbours), default=best)
        if found[ahead] >= found[best]:
            return found
        best = ahead


def _of_axes(table: Table) -> Table:
    return Table(table.schema.restrict(table.schema.axes), table.codes, table.counts)


def _sub_table(clique: SubTable, schema: Schema) -> SubTable:
    """A set of axes, numbered by position, as a sub-table of a schema with levels."""
    return schema.levels.closed(st.of(schema.axes[axis] for axis in st.members(clique)))


def models_facts(found: ModelSearch, schema: Schema) -> dict[str, Any]:
    """The models of a search for documents, the best first."""
    return {"looked_at": found.looked_at, "complete": found.is_complete, "models": rows(found.columns(schema))}
