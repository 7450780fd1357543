"""Releases by how well the full table is reconstructed from them: all graphs and a plain IPF as judges."""

from math import log2
from typing import Any

import numpy as np
import pytest

from sdc.api import find_release
from sdc.config import capabilities as table_of_pairs
from sdc.config.given import with_given
from sdc.config.release import AnnealingConfig, ReleaseConfig
from sdc.model.errors import ConfigError, InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.search.annealing import AnnealingChain, cooling_of
from sdc.search.decomposable import SearchState
from sdc.search.ordered import OrderedSearch
from sdc.utility.halvings import LEAST_ERROR, Halvings, require_listable
from tests.profiles import scaled
from tests.strategies import evaluator_of, frontier, knows, schema_of
from tests.unit.search.test_annealing import random_table
from tests.unit.search.test_decomposable import annealed_search, releasable, same
from tests.unit.utility.test_ipf import textbook

SHORT: dict[str, Any] = {"steps": 4000, "seed": 1, "objective": "reconstruction"}


def error_of(table: Table, release: Release, sweeps: int = 2000) -> float:
    """Mean squared error of IPF on the dense array, from 1 in every cell."""
    counts = table.dense.astype(float)
    return float(np.square(counts - textbook(np.ones(counts.shape), counts, release, sweeps)).mean())


def halvings_of(table: Table, release: Release) -> float:
    return log2(error_of(table, NOTHING, 1)) - log2(max(error_of(table, release), LEAST_ERROR))


def test_the_value_is_that_of_a_plain_ipf(czech: Table) -> None:
    value = Halvings(czech, knows(czech, NOTHING))
    for names in (["A"], ["AB", "BC"], ["ABC", "CDE", "F"], ["ACE", "ADE", "BC", "F"]):
        assert value.of(frontier(*names)) == pytest.approx(halvings_of(czech, frontier(*names)), abs=1e-7)
    cycle = frontier("AB", "BC", "CD", "AD", "EF")
    assert value.of(cycle) == pytest.approx(halvings_of(czech, cycle), abs=1e-3)
    assert value.of(NOTHING) == 0


def test_what_is_reconstructed_exactly_has_a_floor() -> None:
    table = random_table(1, [2, 3], 40)
    value = Halvings(table, knows(table, NOTHING)).of(Release.of([3]))
    assert value == pytest.approx(log2(error_of(table, NOTHING, 1)) - log2(LEAST_ERROR), abs=1e-9)


def test_chains_find_the_czech_release_of_least_error(czech: Table) -> None:
    min_width = 53
    value = Halvings(czech, knows(czech, NOTHING))
    graphs = releasable(czech, 2, min_width)
    best = max(value.of(graph.release) for graph in graphs)
    found = annealed_search(evaluator_of(czech, min_width), **SHORT).run()
    assert found.value == best == value.of(found.release)
    assert found.assessment.releasable is True
    least = min(error_of(czech, graph.release, 2) for graph in graphs if value.of(graph.release) > best - 0.5)
    assert error_of(czech, found.release, 2) == pytest.approx(least)
    many = annealed_search(evaluator_of(czech, min_width), **{**SHORT, "objective": "sub_tables"}).run()
    assert many.sub_tables >= found.sub_tables


def test_chains_find_the_least_error_of_random_tables(night: list[int]) -> None:
    rng = np.random.default_rng([45, *night])
    for _ in range(scaled(8, fewest=3)):
        sizes = rng.integers(2, 4, rng.integers(3, 5)).tolist()
        table = random_table(int(rng.integers(1 << 30)), sizes, int(rng.integers(60, 200)))
        if not len(table.at_risk(2)) or not (graphs := _wide(table, 2)):
            continue
        value = Halvings(table, knows(table, NOTHING))
        found = annealed_search(evaluator_of(table, 2), **SHORT).run()
        assert found.value == max(value.of(graph.release) for graph in graphs)


def _wide(table: Table, min_width: int) -> list[Any]:
    """All releasable graphs, none where already the one-way sub-tables are not."""
    one_way = Release.of(1 << v for v in range(len(table.schema)))
    if evaluator_of(table, min_width).evaluate(one_way).assessment.releasable is not True:
        return []
    return [*releasable(table, 2, min_width)]


def test_a_chain_accepts_as_metropolis_does(czech: Table) -> None:
    """Of long chains at one temperature the share of time at a graph is exp(u / T), by its legal neighbours."""
    cooling = cooling_of(AnnealingConfig(steps=10, start_temperature=60.0, end_temperature=60.0), 0, "reconstruction")
    assert cooling.start == 2.0
    table = Table.of(schema_of([2, 2, 2]), czech.codes[:, :3], czech.counts)
    chain = AnnealingChain(knows(table, NOTHING), Criteria.of(1 << 10, 1), cooling, objective="reconstruction")
    state, seen, steps = chain.init(table, 3), dict[Any, int](), scaled(6000, fewest=3000)
    for _ in range(steps):
        state = chain.step(table, state, 1)
        seen[state.graph] = seen.get(state.graph, 0) + 1
    value = Halvings(table, knows(table, NOTHING))
    # of three variables every graph is decomposable but none is complete here: all have three legal neighbours
    weights = {graph: 2.0 ** (value.of(graph.release) / 2.0 / np.log(2)) for graph in releasable(table, 1 << 10, 1)}
    for graph, weight in weights.items():
        assert seen.get(graph, 0) / steps == pytest.approx(weight / sum(weights.values()), abs=0.05)
    assert state.value == value.of(state.graph.release)


def test_structural_zeros_are_reconstructed_as_such() -> None:
    drawn = random_table(2, [2, 3, 2, 2], 300)
    possible = (drawn.codes[:, 0] != 1) | (drawn.codes[:, 1] != 2)
    table = Table.of(drawn.schema, drawn.codes[possible], drawn.counts[possible])
    zeros = StructuralZeros((((0, (1,)), (1, (2,))),))
    found = annealed_search(evaluator_of(table, 1, zeros=zeros), **SHORT).run()
    assert found.graph.has_edge(0, 1)
    counts, empty = table.dense.reshape(2, 3, 2, 2), np.ones((2, 3, 2, 2))
    empty[1, 2] = 0
    alone = float(np.square(counts - empty * table.total / empty.sum()).mean())
    value = log2(alone) - log2(max(error_of(table, found.release), LEAST_ERROR))
    assert found.value == pytest.approx(value, abs=1e-6)


def test_resume_changes_nothing(czech: Table) -> None:
    kept: list[SearchState] = []
    settings = {**SHORT, "steps": 1200, "rounds": 4, "patience": 0}
    whole = annealed_search(evaluator_of(czech, 11), **settings, checkpoint=kept.append).run()
    for state in kept:
        assert same(annealed_search(evaluator_of(czech, 11), **settings).run(resume=state), whole)
    other = annealed_search(evaluator_of(czech, 11), **{**settings, "objective": "sub_tables"})
    with pytest.raises(InputError, match=r"search to resume was started with .*reconstruction"):
        other.run(resume=kept[0])


def test_the_list_has_first_what_brings_most_for_its_width(czech: Table) -> None:
    widths = critical_widths(czech)
    listed = OrderedSearch(evaluator_of(czech, 11), widths, objective="reconstruction").candidates()
    value, width = Halvings(czech, knows(czech, NOTHING)), widths.by_sub_table()
    rooms = [value.of(Release.of([t])) * width[t] for t in listed]
    assert rooms == sorted(rooms, reverse=True)
    assert {*listed} == {*OrderedSearch(evaluator_of(czech, 11), widths).candidates()}


def test_best_takes_the_release_of_larger_value(czech: Table) -> None:
    known = knows(czech, NOTHING)
    found = {
        method: find_release(czech, method, known, min_width=31, objective="reconstruction", **more)
        for method, more in (("ordered", {}), ("decomposable", {"steps": 2000}), ("best", {"steps": 2000}))
    }
    value = Halvings(czech, known)
    assert all(one.halvings == one.value == value.of(one.release) for one in found.values())
    assert found["best"].value >= max(found["ordered"].value, found["decomposable"].value)
    assert "halvings" in (found["best"].reason or "")
    assert (
        find_release(czech, "ordered", known, min_width=31, objective="reconstruction").release
        == found["ordered"].release
    )


def test_the_non_zero_cells_alone_have_a_value_of_their_own(czech: Table) -> None:
    known, objective = knows(czech, NOTHING), "reconstruction_non_zero"
    value = Halvings(czech, known, "reconstruction_non_zero")
    for method, more in (("ordered", {}), ("decomposable", {"steps": 200, "chains": 1})):
        found = find_release(czech, method, known, min_width=31, objective=objective, **more)
        assert found.halvings == pytest.approx(value.of(found.release))


def test_beside_earlier_publications_it_is_what_the_release_adds(czech: Table) -> None:
    before = Knowledge.of(czech, frontier("AB", "CD"), knows(czech, NOTHING).zeros, ())
    found = find_release(czech, "ordered", before, min_width=6, objective="reconstruction")
    both = halvings_of(czech, before.release.join(found.release))
    assert found.value == pytest.approx(both - halvings_of(czech, before.release), abs=1e-2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *(({key: {"A*B": 2}}, "by which no sub-table has a weight") for key in ("weights", "demand")),
        ({"require": ["A*B"], "on_conflict": "drop"}, "on_conflict is drop, which needs a weight"),
    ],
)
def test_weights_are_refused_beside_it(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"objective is reconstruction.*{message}"):
        with_given(ReleaseConfig(), {"objective": "reconstruction", **given})


def test_another_objective_is_refused(czech: Table) -> None:
    with pytest.raises(
        InputError, match="objective = 'error': should be 'sub_tables', 'reconstruction' or 'reconstruction_non_zero'"
    ):
        find_release(czech, "ordered", knows(czech, NOTHING), min_width=3, objective="error")


def test_simulatable_refuses_what_would_tell_of_the_table(czech: Table) -> None:
    with pytest.raises(ConfigError) as refused:
        find_release(czech, "simulatable", knows(czech, NOTHING), min_width=3, objective="reconstruction")
    assert str(refused.value) == table_of_pairs.refusal("simulatable", table_of_pairs.OBJECTIVE)


def test_tables_that_ipf_does_not_list_are_for_chains_alone() -> None:
    table = random_table(3, [1300, 1300, 2], 500)
    with pytest.raises(InputError, match=r"3,380,000 cells.* 2,000,000 at most; choose the method decomposable"):
        require_listable(table)
    known = knows(table, NOTHING)
    settings: dict[str, Any] = {"min_width": 1, "objective": "reconstruction"}
    with pytest.raises(InputError, match="choose the method decomposable"):
        find_release(table, "ordered", known, **settings)
    found = find_release(table, "decomposable", known, **settings, steps=30, chains=1)
    assert found.halvings is not None
    assert found.halvings > 0
