"""The chain: every state satisfies the constraint, stop and resume, bounded memory, cooling and bad input."""

import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.api import find_release
from sdc.bounds import decomposable
from sdc.config.release import AnnealingConfig
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import InputError, ReleaseError
from sdc.model.graph import decompose
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.search.annealing import AnnealingChain, cooling_of
from sdc.search.chain_kernel import Cooling, temperature
from sdc.utility.measures import Weights, weighted_sub_tables
from tests import reference
from tests.profiles import scaled
from tests.strategies import dense, edgeless, is_safe, knows, schema_of, small_tables, structural_zeros


def cooled(steps: int, start: float, end: float, **more: Any) -> Cooling:
    """How a chain of so many steps cools from one temperature to the other."""
    return cooling_of(AnnealingConfig(steps=steps, start_temperature=start, end_temperature=end, **more))


HOT = cooled(400, 20.0, 2.0)


def random_table(seed: int, sizes: list[int], records: int) -> Table:
    """Records of a few kinds of people: some cells are frequent and many are rare."""
    generator = np.random.default_rng(seed)
    codes = np.minimum(generator.geometric(0.45, (records, len(sizes))) - 1, np.array(sizes) - 1)
    codes[:, 1:] = np.where(
        generator.random((records, len(sizes) - 1)) < 0.3, codes[:, :1] % np.array(sizes[1:]), codes[:, 1:]
    )
    return Table.of(schema_of(sizes), codes)


def narrowest(table: Table, graph: DecomposableGraph, small_count: int) -> int:
    """Smallest width of an at-risk cell, by the explicit bounds."""
    cells = table.codes[table.at_risk(small_count)]
    return int(decomposable.bounds(table, knows(table, graph.release), cells).outer_width.min())


@given(some.integers(0, 10_000), some.integers(1, 6), some.integers(1, 3))
@settings(max_examples=30)
def test_every_state_satisfies_the_constraint(seed: int, min_width: int, small_count: int) -> None:
    """Recomputed from scratch: the widths, the graph, its value; and steps are proposals."""
    table = random_table(seed, [2, 3, 2, 4, 2, 3], 300)
    chain = AnnealingChain(knows(table, NOTHING), Criteria.of(small_count, min_width), HOT)
    try:
        state = chain.init(table, seed)
    except ReleaseError:
        assert narrowest(table, edgeless(6), small_count) < min_width
        return
    for step in range(1, 40):
        state = chain.step(table, state, 3)
        assert narrowest(table, state.graph, small_count) >= min_width
        assert decompose(state.graph.release, 6) is not None
        assert state.value == state.graph.complete_sets == state.graph.release.sub_tables(table.schema)
        assert state.step == 3 * step >= state.accepted
        assert state.best.min_width == narrowest(table, state.best.graph, small_count)
        assert state.best.value >= state.value


@given(some.integers(0, 10_000), some.sampled_from([0.03, 0.1, 0.3]), some.sampled_from([0.4, 0.6]))
@settings(max_examples=15)
def test_every_state_keeps_the_limit(seed: int, most: float, threshold: float) -> None:
    """Judged by whole laws; and a chain that is stopped after every step goes the same way as one that is not."""
    table = random_table(seed, [2, 3, 2, 4, 2, 3], 300)
    limit = PosteriorLimit(threshold=threshold, max_above=most, max_probability=0.9)
    chain = AnnealingChain(knows(table, NOTHING), Criteria.of(2, 1, limit), HOT)
    try:
        state = start = chain.init(table, seed)
    except ReleaseError:
        return
    for _ in range(20):
        state = chain.step(table, state, 3)
        for graph in (state.graph, state.best.graph):
            assert limit.judge(table, knows(table, graph.release), table.at_risk(2)).is_kept
    assert chain.step(table, start, 60) == state
    scarce = replace(chain, max_bytes=1)
    assert scarce.step(table, scarce.init(table, seed), 60) == state


def test_a_limit_leaves_less_and_a_start_beyond_it_is_refused() -> None:
    table = random_table(1, [2, 3, 2, 4, 2, 3], 300)
    free = AnnealingChain(knows(table, NOTHING), Criteria.of(2, 1), HOT)
    found = free.step(table, free.init(table, 1), 400).best
    limited = AnnealingChain(
        knows(table, NOTHING), Criteria.of(2, 1, PosteriorLimit(threshold=0.5, max_above=0.05)), HOT
    )
    kept = limited.step(table, limited.init(table, 1), 400).best
    assert 6 < kept.value < found.value
    message = r"the graph \[A,.* makes too much likely: under the law released \d+ of \d+ at-risk cells .* above 0.5"
    with pytest.raises(ReleaseError, match=message):
        limited.init(table, 1, found.graph)


@given(small_tables(max_records=25), some.data())
@settings(max_examples=40)
def test_structural_zeros_stay_in_a_clique(table: Table, data: some.DataObject) -> None:
    """Then the explicit bounds are sharp, and what the chain visits is releasable by them."""
    known = knows(table, NOTHING, data.draw(structural_zeros(table)))
    if not len(table.at_risk(2)):
        return
    chain = AnnealingChain(known, Criteria.of(2, 1), HOT)
    try:
        state = chain.init(table, 5)
    except ReleaseError:
        return
    for _ in range(10):
        state = chain.step(table, state, 7)
        assert all(zero in state.graph.release for zero in known.zeros.subtables)
        bounds = decomposable.bounds(table, known.plus(state.graph.release), table.codes[table.at_risk(2)])
        assert bounds.exact.all()
        assert bounds.inner_width.min() >= 1


BY_VARIABLE = {"A": 1.5, "B": 0.3, "D": 2.0, "E": 0.7, "F": 1.1}
BY_SUB_TABLE = {"A*B": 7.0, "C": 0.25, "B*D*E": 0.01, "A*C*D*F": 30}


@pytest.mark.parametrize(("variables", "sub_tables"), [({}, {}), (BY_VARIABLE, {}), (BY_VARIABLE, BY_SUB_TABLE)])
def test_stop_and_resume_is_never_stopping(variables: dict[str, float], sub_tables: dict[str, float]) -> None:
    table = random_table(3, [2, 3, 2, 4, 2, 3], 400)
    weights = Weights.of(table.schema, variables, sub_tables)
    chain = AnnealingChain(knows(table, NOTHING), Criteria.of(2, 2), HOT, weights)
    whole = chain.step(table, chain.init(table, 11), 400)
    parts = chain.init(table, 11)
    for steps in (1, 0, 99, 150, 150):
        parts = pickle.loads(pickle.dumps(chain.step(table, parts, steps)))
    assert parts == whole
    assert whole.value == pytest.approx(weighted_sub_tables(whole.graph.release, weights, table.schema), rel=1e-9)
    assert whole.best.value == pytest.approx(
        weighted_sub_tables(whole.best.graph.release, weights, table.schema), rel=1e-11
    )
    assert chain.step(table, chain.init(table, 12), 400) != whole


def test_memory_is_bounded_and_changes_nothing() -> None:
    """With room for few rows, and for few keys, the chain forgets and asks again."""
    table = random_table(4, [3] * 8, 500)
    chain = AnnealingChain(knows(table, NOTHING), Criteria.of(2, 1), cooled(3000, 20.0, 2.0))
    roomy = chain.step(table, chain.init(table, 1), 3000)
    scarce = replace(chain, max_bytes=1)
    workspace = scarce._workspace(table)
    assert len(workspace.work.rows) == 2 * 8 + 16
    assert scarce.step(table, scarce.init(table, 1), 3000) == roomy


def uniform_draws(state: int) -> Iterator[float]:
    """The numbers in [0, 1) of a generator of one word: splitmix64 (Steele, Lea, Flood 2014), the upper 53 bits."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            z = (z ^ z >> shift) * factor % 2**64
        yield (z >> 11) * 2.0**-53


def edges_of(graph: DecomposableGraph) -> reference.Edges:
    return frozenset(pair for pair in combinations(range(len(graph)), 2) if graph.has_edge(*pair))


def assert_steps_by_definition(
    table: Table, criteria: Criteria, seed: int, steps: int, releasable: Callable[[reference.Edges], bool]
) -> None:
    """Each from where the chain is, at the draws that its generator gives."""
    cooling = cooled(steps, 3.0, 0.5)
    chain = AnnealingChain(knows(table, NOTHING), criteria, cooling)
    state = chain.init(table, seed)
    for step in range(steps):
        heat, draws = temperature(cooling, step), uniform_draws(state.random)
        expected = reference.annealing_step(edges_of(state.graph), len(table.schema), heat, draws, releasable)
        state = chain.step(table, state, 1)
        assert edges_of(state.graph) == expected


@given(some.lists(some.integers(0, 15), min_size=2, max_size=7), some.integers(1, 2), some.integers(0, 10_000))
@settings(max_examples=100)
def test_a_step_is_that_of_the_definition(records: list[int], min_width: int, seed: int) -> None:
    """Which neighbours are drawn, which are releasable by listing all tables, and what is accepted."""
    table = Table.of(schema_of([2] * 4), np.array(records)[:, None] >> np.arange(4) & 1)
    if not len(table.at_risk(2)):
        return

    @cache
    def releasable(edges: reference.Edges) -> bool:
        return is_safe(table, reference.cliques(edges, 4), min_width)

    if releasable(frozenset()):
        assert_steps_by_definition(table, Criteria.of(2, min_width), seed, 60, releasable)


@pytest.mark.parametrize("variables", [6, 8])
def test_all_legal_moves_are_met(variables: int) -> None:
    """Where every graph may be released; what the chain remembers of moves after 150 steps is so."""
    assert_steps_by_definition(random_table(6, [2] * variables, 60), no_width(), 3, 150, lambda edges: True)


def no_width() -> Criteria:
    """Of no user: every graph may be released, so that all moves are met."""
    criteria = Criteria.of(2, 1)
    object.__setattr__(criteria.width, "min_width", 0)
    return criteria


def test_one_variable_has_no_move() -> None:
    table = Table.of(schema_of([3]), np.array([[0], [1], [1], [2], [2], [2]]))
    chain = AnnealingChain(knows(table, NOTHING), no_width(), HOT)
    state = chain.step(table, chain.init(table, 1), 50)
    assert (state.step, state.accepted, state.graph.cliques) == (50, 0, (1,))


def test_temperatures() -> None:
    cooling = cooled(100, 8.0, 2.0, cycles=2)
    assert [temperature(cooling, step) for step in (0, 25, 50, 75)] == [8.0, 4.0, 8.0, 4.0]
    linear = cooled(100, 10.0, 0.0, schedule="linear")
    assert [temperature(linear, step) for step in (0, 50, 90)] == pytest.approx([10.0, 5.0, 1.0])
    constant = cooled(10, 3.0, 3.0)
    assert {temperature(constant, step) for step in range(10)} == {3.0}


def test_a_width_that_no_release_reaches(czech: Table) -> None:
    message = "minimum width 261 is not reached even when only the one-way .*: an at-risk cell has the width 260"
    with pytest.raises(ReleaseError, match=message) as refused:
        AnnealingChain(knows(czech, NOTHING), Criteria.of(2, 261)).init(czech, 1)
    assert re.fullmatch(r"the cell A = .*\(count .\) has the width 260", refused.value.detail)
    ample = Table.of(czech.schema, czech.codes, czech.counts + 2)
    with pytest.raises(InputError, match=r"no at-risk cell"):
        AnnealingChain(knows(ample, NOTHING), Criteria.of(2, 1)).init(ample, 1)


def test_a_start_that_is_not_releasable(czech: Table) -> None:
    start = DecomposableGraph.parse("[A,B,C,D,F] [E]", czech.schema)
    message = r"not releasable at the minimum width 4: an at-risk cell has the width 3, .* clique A\*B\*C\*D\*F shows"
    with pytest.raises(ReleaseError, match=message):
        AnnealingChain(knows(czech, NOTHING), Criteria.of(2, 4)).init(czech, 1, start)
    assert AnnealingChain(knows(czech, NOTHING), Criteria.of(2, 3)).init(czech, 1, start).best.min_width == 3


def test_a_start_on_other_variables(czech: Table) -> None:
    with pytest.raises(InputError, match=r"start graph has 5 variables, the table 6"):
        AnnealingChain(knows(czech, NOTHING), Criteria.of(2, 4)).init(czech, 1, edgeless(5))


def test_a_start_that_parts_a_structural_zero(czech: Table) -> None:
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    with pytest.raises(InputError, match=r"does not join A\*B\*C\*D\*E\*F, which a structural zero names"):
        AnnealingChain(knows(czech, NOTHING, zeros), Criteria.of(2, 1)).init(czech, 1, edgeless(6))


def table_with_an_unsafe_zero() -> tuple[Table, Knowledge]:
    """A x B with A = 0 and B = 1 impossible: the one-way sub-tables keep the cell of count 1 wide, and A*B does not.

    A = 0:  9  -  7  1
    A = 1: 20 12 12  8
    """
    zeros = StructuralZeros((((0, (0,)), (1, (1,))),))
    table = dense(schema_of([2, 4]), [9, 0, 7, 1, 20, 12, 12, 8])
    return table, knows(table, NOTHING, zeros)


def test_a_structural_zero_whose_sub_table_is_unsafe() -> None:
    """It is named, and no start graph is, for there is none that would do."""
    table, known = table_with_an_unsafe_zero()
    message = (
        r"the structural zero A = 0 and B = 1 needs the sub-table A\*B in it, and then an at-risk cell "
        r"has the width 0; choose the method ordered"
    )
    for start in (None, DecomposableGraph.parse("[A,B]", table.schema)):
        with pytest.raises(ReleaseError, match=message):
            AnnealingChain(known, Criteria.of(1, 1)).init(table, 0, start)
    assert find_release(table, "ordered", known, min_width=1, small_count=1).release == Release.of([0b01, 0b10])


def test_structural_zeros_whose_sub_tables_are_unsafe_together() -> None:
    """Each alone is safe; the message is about the graph that they make, which nobody gave."""
    table = dense(schema_of([2, 2, 2]), [0, 0, 3, 1, 1, 0, 0, 0])
    zeros = StructuralZeros((((0, (0,)), (1, (0,))), ((0, (1,)), (1, (1,))), ((1, (0,)), (2, (1,)))))
    with pytest.raises(ReleaseError, match=r"the smallest graph .* is not releasable .*; choose the method ordered"):
        AnnealingChain(knows(table, NOTHING, zeros), Criteria.of(1, 1)).init(table, 0)


def test_63_variables() -> None:
    """No array of 2^63: the chain asks for critical widths as it goes."""
    generator = np.random.default_rng(7)
    schema = Schema(tuple(Variable(f"v{v}", ("a", "b")) for v in range(63)))
    table = Table.of(schema, (generator.random((400, 63)) < 0.3).astype(np.int64))
    steps = min(3_000, scaled(3_000, fewest=200))
    chain = AnnealingChain(knows(table, NOTHING), Criteria.of(2, 3), cooled(steps, 5.0, 1.0))
    state = chain.step(table, chain.init(table, 1), steps)
    assert narrowest(table, state.best.graph, 2) == state.best.min_width >= 3
    assert state.value == state.graph.complete_sets > 63
    assert st.full(63) == state.graph.release.variables
