"""Decomposable graphs, with NetworkX and published numbers as judges."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as some

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.release import Release


def neighbours(edges: list[tuple[int, int]], variables: int) -> graph.Adjacency:
    return graph.graph_of([1 << a | 1 << b for a, b in edges], variables)


def all_graphs(variables: int) -> list[list[tuple[int, int]]]:
    pairs = list(combinations(range(variables), 2))
    return [[pair for k, pair in enumerate(pairs) if bits >> k & 1] for bits in range(1 << len(pairs))]


def judge(adjacency: graph.Adjacency) -> nx.Graph:
    judged = nx.Graph()
    judged.add_nodes_from(range(len(adjacency)))
    judged.add_edges_from((v, u) for v, around in enumerate(adjacency) for u in st.members(around))
    return judged


graphs = some.integers(1, 8).flatmap(
    lambda n: some.lists(some.tuples(some.integers(0, n - 1), some.integers(0, n - 1)), max_size=20).map(
        lambda edges: neighbours([(a, b) for a, b in edges if a != b], n)
    )
)


def test_number_of_decomposable_graphs() -> None:
    """[DKS] and the literature: 1, 2, 8, 61, 822 chordal labelled graphs on 1 to 5 vertices."""
    counted = [sum(graph.is_chordal(neighbours(e, n)) for e in all_graphs(n)) for n in range(1, 6)]
    assert counted == [1, 2, 8, 61, 822]


@given(graphs)
def test_chordality_as_networkx_says(adjacency: graph.Adjacency) -> None:
    assert graph.is_chordal(adjacency) == nx.is_chordal(judge(adjacency))


@given(graphs)
def test_decomposition_has_the_cliques_and_the_running_intersection(adjacency: graph.Adjacency) -> None:
    cliques = {st.of(c) for c in nx.find_cliques(judge(adjacency))}
    found = graph.decompose(Release.of(cliques), len(adjacency))
    assert (found is not None) == nx.is_chordal(judge(adjacency))
    if found is None:
        return
    assert set(found.cliques) == cliques
    for position, separator in enumerate(found.separators, start=1):
        earlier = found.cliques[:position]
        union = 0
        for clique in earlier:
            union |= clique
        assert separator == found.cliques[position] & union
        assert any(st.is_within(separator, clique) for clique in earlier)


@given(graphs)
def test_sub_tables_by_inclusion_and_exclusion(adjacency: graph.Adjacency) -> None:
    """sum_j (2^|C_j| - 1) - sum_j (2^|S_j| - 1), REFERENCE section 1, for a decomposable release."""
    cliques = [st.of(c) for c in nx.find_cliques(judge(adjacency))]
    found = graph.decompose(Release.of(cliques), len(adjacency))
    if found is not None:
        sizes = Counter(2 ** st.dimension(c) - 1 for c in found.cliques)
        sizes.subtract(2 ** st.dimension(s) - 1 for s in found.separators)
        assert Release.of(cliques).sub_tables == sum(size * times for size, times in sizes.items())


@given(some.integers(1, 7).flatmap(lambda n: some.tuples(some.just(n), some.lists(some.integers(0, 2**n - 1)))))
def test_chordal_cover_is_decomposable_and_contains_the_release(drawn: tuple[int, list[int]]) -> None:
    variables, subtables = drawn
    release = Release.of(subtables)
    cover = graph.chordal_cover(release, variables)
    assert cover.contains(release)
    assert cover.variables == release.variables
    assert graph.decompose(cover, variables) is not None
    if graph.decompose(release, variables) is not None:
        assert cover == release


def test_a_triangle_of_two_way_sub_tables_is_not_decomposable() -> None:
    assert graph.decompose(Release.of([0b011, 0b110, 0b101]), 3) is None
    assert graph.decompose(Release.of([0b111]), 3) is not None
