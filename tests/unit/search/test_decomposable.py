"""The best decomposable release: published figures, all graphs as the judge, workers, checkpoints and bad input."""

import json
import pickle
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.api import find_release
from sdc.bounds.decomposable import explicit_bounds
from sdc.config.release import AnnealingConfig
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.documents import plain, typed
from sdc.model.errors import InputError, NothingReleasableError
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.search.annealing import AnnealingChain, cooling_of
from sdc.search.chain_kernel import temperature
from sdc.search.decomposable import DecomposableRelease, DecomposableSearch, SearchState
from sdc.utility.measures import Weights, weighted_sub_tables
from tests.profiles import scaled
from tests.strategies import additions, dense, edgeless, evaluator_of, knows, schema_of
from tests.unit.search.test_annealing import random_table


def cooled(steps: int, start: float, end: float) -> dict[str, Any]:
    """Settings of chains that cool from one temperature to the other."""
    return {"steps": steps, "start_temperature": start, "end_temperature": end}


SHORT = cooled(3000, 20.0, 0.5)
COOLING = cooling_of(AnnealingConfig(**SHORT))


def published_width(with_total: int) -> range:
    """The widths for which the best decomposable Czech release has so many sub-tables (REFERENCE section 2)."""
    return {48: range(1, 11), 32: range(11, 31), 28: range(31, 53), 24: range(53, 65), 22: range(65, 69)}[with_total]


def optimum(table: Table, small_count: int, min_width: int) -> float:
    """The largest number of sub-tables of a releasable decomposable graph."""
    return max(graph.complete_sets for graph in releasable(table, small_count, min_width))


@cache
def releasable(table: Table, small_count: int, min_width: int) -> set[DecomposableGraph]:
    """All releasable decomposable graphs, each reached by additions alone.

    Edges can be deleted from any chordal graph one by one, and every graph on the way is chordal and releasable.
    """
    marginals = CellMarginals(table, table.codes[table.at_risk(small_count)])
    waiting = [edgeless(len(table.schema))]
    seen = set(waiting)
    while waiting:
        here = waiting.pop()
        for graph in additions(here).values():
            if graph not in seen:
                low, high = explicit_bounds(marginals, graph.decomposition, np.zeros(len(marginals), np.bool_)).T
                if (high - low).min() >= min_width:
                    seen.add(graph)
                    waiting.append(graph)
    return seen


def searched(table: Table, min_width: int, **settings: object) -> DecomposableRelease:
    return annealed_search(evaluator_of(table, min_width), **{**SHORT, "seed": 1, **settings}).run()


def annealed_search(asked: RiskEvaluator, **settings: Any) -> DecomposableSearch:
    """The search with these settings, some of which are of the annealing."""
    names = {*AnnealingConfig.model_fields} - {"start"}
    annealing = AnnealingConfig(**{name: value for name, value in settings.items() if name in names})
    return DecomposableSearch(asked, annealing, **{k: value for k, value in settings.items() if k not in names})


@pytest.mark.parametrize("with_total", [48, 32, 28, 24, 22])
def test_czech_by_every_seed(czech: Table, with_total: int) -> None:
    """REFERENCE section 2, every width of the range and 20 seeds of a single chain each, in CI a few of them."""
    for min_width in published_width(with_total):
        chain = AnnealingChain(knows(czech, NOTHING), Criteria.of(2, min_width), COOLING)
        found = [
            chain.step(czech, chain.init(czech, seed), SHORT["steps"]).best for seed in range(scaled(20, fewest=2))
        ]
        assert {best.graph.release.sub_tables_with_total(czech.schema) for best in found} == {with_total}
        assert min(best.min_width for best in found) >= min_width


@pytest.mark.parametrize(("sizes", "min_width", "seed"), [([2] * 6, 100, 2), ([3] * 7, 90, 4)])
def test_random_tables_of_more_variables(sizes: list[int], min_width: int, seed: int) -> None:
    table = random_table(seed, sizes, 1500)
    best = optimum(table, 2, min_width)
    assert best > len(sizes) + 2  # at width 110 the last table has none but the one-way sub-tables
    assert searched(table, min_width, **cooled(10_000, 20.0, 0.5)).value == best


@pytest.mark.parametrize("heavy", [{"variables": {"F": 50.0}}, {"sub_tables": {"B*D*E": 60, "A*D": 0.5}}])
def test_weights_choose_what_is_released(czech: Table, heavy: dict[str, dict[str, float]]) -> None:
    """No releasable decomposable graph has a larger value, and the one with most sub-tables has a smaller one."""
    weights, min_width = Weights.of(czech.schema, **heavy), 65
    plain, found = searched(czech, min_width), searched(czech, min_width, weights=weights)
    assert found.value == weighted_sub_tables(found.release, weights, czech.schema)
    assert found.value == max(
        weighted_sub_tables(graph.release, weights, czech.schema) for graph in releasable(czech, 2, min_width)
    )
    assert found.value > weighted_sub_tables(plain.release, weights, czech.schema)
    assert found.sub_tables <= plain.sub_tables


def same(one: DecomposableRelease, other: DecomposableRelease) -> bool:
    names = ("release", "assessment", "graph", "value", "agreed", "trace")
    return all(getattr(one, name) == getattr(other, name) for name in names)


@pytest.mark.parametrize("tempering", [False, True])
@pytest.mark.parametrize("by", ["pickle", "json"])
def test_resumed_is_never_stopped(czech: Table, tempering: bool, by: str) -> None:
    kept: list[SearchState] = []
    annealing = AnnealingConfig(**cooled(300, 20.0, 1.0), rounds=6, patience=0, tempering=tempering)
    search = DecomposableSearch(evaluator_of(czech, 11), annealing, checkpoint=kept.append)
    whole = search.run()
    assert [state.round for state in kept] == [1, 2, 3, 4, 5, 6]
    for state in kept:
        read = (
            pickle.loads(pickle.dumps(state))
            if by == "pickle"
            else typed(SearchState, json.loads(json.dumps(plain(SearchState, state))), Path())
        )
        assert read == state
        assert same(search.run(resume=read), whole)


def test_the_state_of_another_search_is_refused(czech: Table) -> None:
    kept: list[SearchState] = []
    annealing = AnnealingConfig(**SHORT)
    search = DecomposableSearch(evaluator_of(czech, 11), annealing, checkpoint=kept.append)
    search.run()
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    others = [
        replace(search, annealing=annealing.model_copy(update={"seed": 5})),
        replace(search, annealing=annealing.model_copy(update={"chains": 3})),
        DecomposableSearch(evaluator_of(czech, 10), annealing),
        DecomposableSearch(evaluator_of(czech, 11, zeros=zeros), annealing),
        replace(search, start=DecomposableGraph.parse("[A,B]", czech.schema)),
    ]
    for other in others:
        with pytest.raises(InputError, match=r"search to resume was started with .*give the same settings and table"):
            other.run(resume=kept[0])


def test_early_agreement_stops_the_search(czech: Table) -> None:
    """All four chains find the optimum at once; a single chain has nobody to agree with."""
    early = searched(czech, 10, patience=3, rounds=30)
    assert early.agreed == 3
    assert len(early.trace) < 4 * 30
    assert len(searched(czech, 10, patience=0, rounds=30).trace) == 4 * 30
    assert len(searched(czech, 10, patience=3, rounds=30, chains=1).trace) == 30


def test_the_trace_says_what_happened(czech: Table) -> None:
    trace = searched(czech, 11, rounds=5, patience=0).trace
    for chain in range(4):
        rows = [row for row in trace if row.chain == chain]
        assert [row.round for row in rows] == [0, 1, 2, 3, 4]
        assert [row.step for row in rows] == [600, 1200, 1800, 2400, 3000]
        assert [row.temperature for row in rows] == [temperature(COOLING, row.step - 1) for row in rows]
        assert rows[0].temperature > rows[3].temperature
        assert all(one.best_value <= other.best_value for one, other in pairwise(rows))
        assert all(one.accepted <= other.accepted for one, other in pairwise(rows))
    assert len({row.accepted for row in trace if row.round == 4}) > 1


def test_tempering_keeps_a_ladder_and_exchanges(czech: Table) -> None:
    found = searched(czech, 11, tempering=True, rounds=10, patience=0, **cooled(2000, 16.0, 2.0))
    ladder = [row.temperature for row in found.trace if row.round == 3]
    assert ladder == pytest.approx([16.0, 8.0, 4.0, 2.0])
    assert found.sub_tables_with_total == 32


def test_fewer_steps_than_rounds(czech: Table) -> None:
    assert searched(czech, 11, **cooled(3, 5.0, 1.0), rounds=10, patience=0).trace[-1].step == 3


def test_weights_of_other_variables(czech: Table) -> None:
    with pytest.raises(InputError, match="2 weights for 6 variables; give one for each"):
        searched(czech, 3, weights=Weights.equal(2))


@pytest.mark.parametrize(
    "table", [dense(schema_of([1, 1]), [1]), dense(schema_of([2, 2, 2]), [1, 0, 0, 1, 0, 0, 1, 0])]
)
def test_what_nothing_fits_is_refused_with_and_without_what_is_required(table: Table) -> None:
    """Not even the one-way sub-tables keep the width: what is required conflicts with nothing else."""
    for require in ([], ["A"], ["A*B"]):
        with pytest.raises(NothingReleasableError, match="not reached even when only the one-way") as caught:
            find_release(table, "decomposable", min_width=9, require=require, steps=10)
        assert "at most 0" not in str(caught.value)


def test_a_structural_zero_that_nothing_fits_with_is_named_beside_what_is_required() -> None:
    table = Table.of(schema_of([2, 2]), np.array([[0, 0], [0, 1], [1, 0]]), np.array([1, 5, 4]))
    known = knows(table, NOTHING, StructuralZeros((((0, (1,)), (1, (1,))),)))
    for require in ([], ["A"]):
        with pytest.raises(NothingReleasableError, match=r"the structural zero A = .* needs the sub-table"):
            find_release(table, "decomposable", known, min_width=2, require=require, steps=10)
