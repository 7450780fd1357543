"""Legal moves, cliques, junction trees and counts of decomposable graphs, with NetworkX and brute force as judges."""

from itertools import combinations
from math import prod

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph, Edge, chordless_cycle
from sdc.model.errors import InputError
from sdc.model.release import Release
from tests.strategies import additions, as_networkx, edgeless, legal_moves, schema_of

ABCDEF = schema_of([2] * 6)


def toggled(judged: nx.Graph, edge: Edge) -> nx.Graph:
    other = judged.copy()
    if judged.has_edge(*edge):
        other.remove_edge(*edge)
    else:
        other.add_edge(*edge)
    return other


@some.composite
def walks(draw: some.DrawFn) -> DecomposableGraph:
    """Where a random walk of legal moves ends, more often up than down."""
    found = edgeless(draw(some.integers(1, 9)))
    for _ in range(draw(some.integers(0, 40))):
        moves = legal_moves(found)
        if not moves:
            break
        goes_up = draw(some.integers(0, 3)) > 0
        preferred = [edge for edge in moves if found.has_edge(*edge) != goes_up]
        found = moves[draw(some.sampled_from(preferred or [*moves]))]
    return found


@given(walks())
def test_legal_moves_are_those_that_leave_the_graph_chordal(found: DecomposableGraph) -> None:
    judged = as_networkx(found.neighbours)
    assert nx.is_chordal(judged)
    legal = {pair for pair in combinations(range(len(found)), 2) if nx.is_chordal(toggled(judged, pair))}
    moves = legal_moves(found)
    assert moves.keys() == legal
    for pair, other in moves.items():
        assert other == DecomposableGraph.from_neighbours(other.neighbours)
        assert nx.utils.graphs_equal(as_networkx(other.neighbours), toggled(judged, pair))


@given(walks())
def test_cliques_and_counts(found: DecomposableGraph) -> None:
    cliques = {st.of(clique) for clique in nx.find_cliques(as_networkx(found.neighbours))}
    assert set(found.cliques) == cliques
    assert cliques == {st.of(clique) for clique in nx.chordal_graph_cliques(as_networkx(found.neighbours))}
    assert found.release == Release.of(cliques)
    assert (
        found.complete_sets == found.release.sub_tables(schema_of([2] * len(found))) == found.value((1.0,) * len(found))
    )
    assert DecomposableGraph.from_neighbours(found.neighbours) == found


@given(walks(), some.data())
def test_value_is_the_sum_over_complete_sets(found: DecomposableGraph, data: some.DataObject) -> None:
    weights = tuple(
        data.draw(some.lists(some.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=len(found), max_size=len(found)))
    )
    views = [t for t in found.release.views(schema_of([2] * len(found))) if t]
    expected = sum(prod(weights[v] for v in st.members(t)) for t in views)
    assert found.value(weights) == pytest.approx(expected, rel=1e-11)


def test_a_printed_graph() -> None:
    found = DecomposableGraph.parse("[A, B] [C,B,D]", ABCDEF)
    assert found.text(ABCDEF) == "[B,C,D] [A,B] [E] [F]"
    assert found.separators == (0b10, 0, 0)
    assert DecomposableGraph.parse("", ABCDEF) == edgeless(6)


@pytest.mark.parametrize(("variables", "number"), [(1, 1), (2, 2), (3, 8), (4, 61), (5, 822), (6, 18154)])
def test_legal_moves_reach_every_decomposable_graph(variables: int, number: int) -> None:
    """REFERENCE section 4: the numbers of chordal labelled graphs."""
    start = edgeless(variables)
    seen, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        fresh = {*additions(here).values()} - seen
        seen |= fresh
        waiting += fresh
    assert len(seen) == number


def test_illegal_moves_are_refused() -> None:
    path = DecomposableGraph.parse("[A,B] [B,C] [C,D]", ABCDEF)
    for move in [(0, 3), (0, 0)]:
        with pytest.raises(ValueError, match=r"cannot be added"):
            path.toggled(*move)
    with pytest.raises(ValueError, match=r"cannot be removed"):
        DecomposableGraph.parse("[A,B,C] [B,C,D]", ABCDEF).toggled(1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[A,B] [B,C] [C,D] [A,D]", r"not decomposable: the cycle A - B - C - D has no chord"),
        ("[A,B] [B,C] [A,C] [D]", r"cliques A\*B, A\*C, B\*C are not those .* of A\*B\*C; give that clique"),
        ("[A,B] [B,X]", r"unknown variable 'X'; the table has A, B, C, D, E, F"),
        ("[A,B", r"graph '\[A,B' cannot be read; write its cliques as \[a,b\] \[b,c\]"),
        ("A*B", r"cannot be read"),
    ],
)
def test_faulty_graphs(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DecomposableGraph.parse(text, ABCDEF)


def test_cliques_beyond_the_table() -> None:
    with pytest.raises(InputError, match=r"variable number 6; the table has 6"):
        DecomposableGraph.from_cliques([1 << 6], ABCDEF)


@given(some.lists(some.tuples(some.integers(0, 7), some.integers(0, 7)), max_size=20))
def test_chordless_cycles(edges: list[Edge]) -> None:
    neighbours = graph.independence_graph([1 << a | 1 << b for a, b in edges if a != b], 8)
    judged = nx.Graph((a, b) for a, b in edges if a != b)
    cycle = chordless_cycle(neighbours)
    assert bool(cycle) != nx.is_chordal(judged)
    if cycle:
        assert len(cycle) >= 4
        inside = judged.subgraph(cycle)
        assert all(degree == 2 for _, degree in inside.degree)
        assert nx.is_connected(inside)


def test_the_largest_graph() -> None:
    """63 variables in one clique."""
    schema_free = DecomposableGraph.from_neighbours(tuple(st.full(63) & ~(1 << v) for v in range(63)))
    assert schema_free.complete_sets == 2**63 - 1
    moves = legal_moves(schema_free)
    assert len(moves) == 63 * 62 // 2
    assert not any(smaller.has_edge(*edge) for edge, smaller in moves.items())
