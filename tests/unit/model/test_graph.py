"""Decomposable graphs, with NetworkX and published numbers as judges."""

from itertools import combinations

import networkx as nx
from hypothesis import example, given, settings
from hypothesis import strategies as some

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.release import Release
from tests.strategies import all_ways, as_networkx, components, frontier, releases


def neighbours(edges: list[tuple[int, int]], variables: int) -> graph.Adjacency:
    return graph.independence_graph([1 << a | 1 << b for a, b in edges], variables)


graphs = some.integers(1, 8).flatmap(
    lambda n: some.lists(some.tuples(some.integers(0, n - 1), some.integers(0, n - 1)), max_size=20).map(
        lambda edges: neighbours([(a, b) for a, b in edges if a != b], n)
    )
)


def assert_running_intersection(found: graph.Decomposition) -> None:
    """What a clique has in common with all before it lies within one of them, and is its separator."""
    for j, separator in enumerate(found.separators, start=1):
        assert found.cliques[j] & st.union(found.cliques[:j]) == separator
        assert any(st.is_within(separator, earlier) for earlier in found.cliques[:j])


@given(graphs)
def test_decomposition_has_the_cliques_and_the_running_intersection(adjacency: graph.Adjacency) -> None:
    cliques = {st.of(c) for c in nx.find_cliques(as_networkx(adjacency))}
    found = graph.decompose(Release.of(cliques), len(adjacency))
    assert (found is not None) == nx.is_chordal(as_networkx(adjacency))
    if found is not None:
        assert set(found.cliques) == cliques
        assert_running_intersection(found)


@given(graphs)
def test_minimal_triangulation(adjacency: graph.Adjacency) -> None:
    """Chordal, and no edge that was filled in can be left out (Rose, Tarjan and Lueker 1976)."""
    before = as_networkx(adjacency)
    cliques = graph.elimination_cliques(adjacency, graph.minimal_order(adjacency))
    filled = as_networkx(graph.independence_graph(cliques, len(adjacency)))
    assert nx.is_chordal(filled)
    assert set(before.edges) <= set(filled.edges)
    for edge in set(filled.edges) - set(before.edges):
        without = filled.copy()
        without.remove_edge(*edge)
        assert not nx.is_chordal(without)


@given(some.data(), some.integers(2, 8))
@settings(max_examples=300)
def test_a_component_with_one_more_pair_is_one_of_the_new_ones(data: some.DataObject, variables: int) -> None:
    """Split anew where the pair is, it is as large as where all is split anew."""
    release = data.draw(releases(variables))
    together = tuple(data.draw(some.lists(some.integers(1, st.full(variables)), max_size=1)))
    adjacency = graph.independence_graph([*release.frontier, *together], variables)
    pairs = [1 << u | 1 << v for u, v in combinations(range(variables), 2)]
    for pair in (p for p in pairs if p not in release):
        found = graph.component_with(graph.components(adjacency, release), adjacency, release, pair)
        whole = components(release.add(pair), variables, together)
        assert st.is_within(pair, found)
        assert st.dimension(found) in {st.dimension(part) for part in whole.cliques if st.is_within(pair, part)}


@example((7, all_ways(7, 3)))
@given(some.integers(2, 8).flatmap(lambda k: some.tuples(some.just(k), releases(k))))
def test_spanning_sequences_are_decomposable_releases_within(case: tuple[int, Release]) -> None:
    variables, release = case
    if release.variables != st.full(variables):
        return
    for sequence in graph.spanning_sequences(release):
        assert all(clique in release for clique in sequence.cliques)
        inside = Release.of(sequence.cliques)
        assert graph.decompose(inside, variables) is not None
        assert inside.variables == release.variables
        assert_running_intersection(sequence)


def test_an_element_that_meets_two_cliques_keeps_one_of_them() -> None:
    """ABC, DEF, then ADG would close a cycle: only G and A, or G and D, are taken from it."""
    (first, *_) = graph.spanning_sequences(frontier("ABC", "DEF", "ADG"))
    assert Release.of(first.cliques) in (frontier("ABC", "DEF", "AG"), frontier("ABC", "DEF", "DG"))
