"""The best decomposable models beside all graphs of four variables, fitted one by one."""

from itertools import combinations
from math import log

import numpy as np
import pytest
from hypothesis import assume, given

import sdc
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.utility import model_search
from sdc.utility.loglinear import fit_model
from sdc.utility.model_search import search_models
from tests import reference
from tests.levels import random_schema, random_table
from tests.strategies import all_ways, czech, dense, frontier, knows, schema_of, small_tables


def chordal_graphs(variables: int) -> list[list[int]]:
    """Of each chordal graph its maximal cliques."""
    pairs = list(combinations(range(variables), 2))
    graphs = [frozenset(some) for size in range(len(pairs) + 1) for some in combinations(pairs, size)]
    chordal = (graph for graph in graphs if reference.is_decomposable(graph, variables))
    return [[*map(st.of, reference.cliques(graph, variables))] for graph in chordal]


def of_four(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 2, 2]
    return dense(schema_of(sizes), rng.poisson(rng.gamma(0.8, 8, 24)).tolist())


@pytest.mark.parametrize("seed", range(6))
def test_all_61_graphs_of_four_variables(seed: int) -> None:
    """BIC by fits, whose deviance is on the degrees of freedom of a table of any counts: T_e - T_p."""
    table, graphs = of_four(seed), chordal_graphs(4)
    assert len(graphs) == 61
    cells = table.schema.cells
    judged = {}
    for cliques in graphs:
        found = fit_model(table, knows(table, Release.of(cliques)))
        judged[Release.of(cliques)] = found.deviance - (cells - found.parameters) * log(table.total)
    searched = search_models(table, most=100)
    assert (searched.looked_at, searched.is_complete, len(searched.models)) == (61, True, 61)
    least = min(judged.values())
    for model in searched.models:
        assert model.bic - searched.best.bic == pytest.approx(judged[model.graph.release] - least, abs=1e-7)
        fitted = fit_model(table, knows(table, model.graph.release))
        assert (model.deviance, model.parameters) == (pytest.approx(fitted.deviance, abs=1e-7), fitted.parameters - 1)
    assert judged[searched.release(table.schema)] == least
    weights = np.exp(-(np.array([*judged.values()]) - least) / 2)
    assert searched.best.weight == pytest.approx(1 / weights.sum())
    assert [model.bic for model in searched.models] == sorted(model.bic for model in searched.models)


@pytest.mark.parametrize("seed", range(6))
def test_a_way_down_ends_where_no_edge_helps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = of_four(seed)
    every = search_models(table, most=61)
    monkeypatch.setattr(model_search, "FEW_VARIABLES", 3)
    found = search_models(table, most=61)
    assert not found.is_complete
    bic = {model.graph: model.bic for model in every.models}
    assert {model.graph: pytest.approx(model.bic) for model in found.models}.items() <= bic.items()
    best = found.best.graph
    # an edge is a neighbour of both its ends
    changed = {
        graph: sum((n ^ m).bit_count() for n, m in zip(graph.neighbours, best.neighbours, strict=True)) for graph in bic
    }
    near = [graph for graph, ends in changed.items() if ends == 2]
    assert near
    assert all(bic[graph] >= bic[best] for graph in near)


@given(small_tables())
def test_models_within_a_release_are_those_of_its_sub_tables(table: Table) -> None:
    assume(table.total)
    release = all_ways(len(table.schema), 2)
    every = search_models(table, most=1000).models
    found = search_models(table, release, most=1000).models
    assert {m.graph for m in found} == {m.graph for m in every if release.contains(m.graph.release)}


@pytest.mark.parametrize("number", range(10))
def test_models_of_a_table_with_levels_are_of_its_axes(number: int) -> None:
    rng = np.random.default_rng(number)
    schema = random_schema(rng)
    table = random_table(rng, schema)
    if table.total:
        axes = Table(schema.restrict(schema.axes), table.codes, table.counts)
        found = search_models(table)
        assert found.columns(schema) == search_models(axes).columns(axes.schema)
        fitted = fit_model(table, knows(table, found.release(schema)))
        assert fitted.deviance == pytest.approx(found.best.deviance, abs=1e-7)


def test_the_best_model_of_a_published_table() -> None:
    """Czech car workers: of all 18,154. Its laws are those of a posterior."""
    found = search_models(czech(), most=2)
    assert found.looked_at == 18154
    assert found.release(czech().schema) == frontier("ACE", "ADE", "BC", "F")
    assert (found.best.parameters, found.best.deviance) == (14, pytest.approx(62.0779, abs=1e-4))
    priors = dict.fromkeys(found.columns(czech().schema)["model"], 0.5)
    averaged = sdc.posterior(czech(), ["A*B*C*D*E", "A*B*D*E*F"], law="average", priors=priors)
    assert [model.prior for model in averaged.models] == [0.5, 0.5]
    assert repr(found) == "Best of 18,154 decomposable models by BIC"


def test_searches_that_cannot_be() -> None:
    table = czech()
    with pytest.raises(InputError, match="the table has no records, so models cannot be compared"):
        search_models(Table.of(table.schema, table.codes[:0]))
    with pytest.raises(InputError, match="most = 0; give at least 1 model"):
        search_models(table, most=0)
    with pytest.raises(InputError, match="C is not in the release, and a model has every variable; release it"):
        search_models(table, frontier("AB", "DEF"))
