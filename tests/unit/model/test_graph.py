"""Decomposable graphs, with NetworkX and published numbers as judges."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import networkx as nx
from hypothesis import example, given, settings
from hypothesis import strategies as some

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.release import Release
from tests.strategies import (
    TWO_CYCLES,
    all_ways,
    as_networkx,
    components,
    frontier,
    releases,
    schema_of,
    subtable,
)


def neighbours(edges: list[tuple[int, int]], variables: int) -> graph.Adjacency:
    return graph.independence_graph([1 << a | 1 << b for a, b in edges], variables)


graphs = some.integers(1, 8).flatmap(
    lambda n: some.lists(some.tuples(some.integers(0, n - 1), some.integers(0, n - 1)), max_size=20).map(
        lambda edges: neighbours([(a, b) for a, b in edges if a != b], n)
    )
)


@given(graphs)
def test_chordality_as_networkx_says(adjacency: graph.Adjacency) -> None:
    assert graph.is_chordal(adjacency) == nx.is_chordal(as_networkx(adjacency))


@given(graphs)
def test_decomposition_has_the_cliques_and_the_running_intersection(adjacency: graph.Adjacency) -> None:
    cliques = {st.of(c) for c in nx.find_cliques(as_networkx(adjacency))}
    found = graph.decompose(Release.of(cliques), len(adjacency))
    assert (found is not None) == nx.is_chordal(as_networkx(adjacency))
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
    cliques = [st.of(c) for c in nx.find_cliques(as_networkx(adjacency))]
    found = graph.decompose(Release.of(cliques), len(adjacency))
    if found is not None:
        sizes = Counter(2 ** st.dimension(c) - 1 for c in found.cliques)
        sizes.subtract(2 ** st.dimension(s) - 1 for s in found.separators)
        assert Release.of(cliques).sub_tables(schema_of([2] * len(adjacency))) == sum(
            size * times for size, times in sizes.items()
        )


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


# Minimal triangulations and components


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


def test_components_of_two_cycles() -> None:
    parts = components(TWO_CYCLES, 6)
    assert set(parts.cliques) == {subtable("ABCD"), subtable("CDEF")}
    assert parts.separators == (subtable("CD"),)


def test_a_separator_that_is_not_released_does_not_separate() -> None:
    """ABC are pairwise released and separate D from E, but their joint marginal is unknown."""
    release = frontier("AB", "BC", "AC", "AD", "BD", "CD", "AE", "BE", "CE")
    assert components(release, 5).cliques == (subtable("ABCDE"),)
    assert set(components(release.add(subtable("ABC")), 5).cliques) == {subtable("ABCD"), subtable("ABCE")}


def test_a_decomposable_release_falls_into_its_cliques() -> None:
    release = frontier("ABC", "BCD", "DE", "F")
    parts = components(release, 7)
    assert set(parts.cliques) == {*release.frontier, subtable("G")}
    assert sorted(parts.separators) == sorted(map(subtable, ("BC", "D", "", "")))


def test_variables_of_a_structural_zero_stay_together() -> None:
    assert components(TWO_CYCLES, 6, (subtable("AE"),)).cliques == (subtable("ABCDEF"),)


@given(some.data(), some.integers(2, 7))
@settings(max_examples=300)
def test_components_are_the_finest_junction_tree(data: some.DataObject, variables: int) -> None:
    """Running intersection, everything released lies in one component, and no released sub-table separates one."""
    release = data.draw(releases(variables))
    parts = components(release, variables)
    assert st.of(v for part in parts.cliques for v in st.members(part)) == st.full(variables)
    for element in release.frontier:
        assert any(st.is_within(element, part) for part in parts.cliques)
    earlier = parts.cliques[0]
    for k, (part, separator) in enumerate(zip(parts.cliques[1:], parts.separators, strict=True), 1):
        assert part & earlier == separator
        assert any(st.is_within(separator, other) for other in parts.cliques[:k])
        assert separator in release
        earlier |= part
    for part in parts.cliques:
        assert not any(
            separates(release, variables, part, cut)
            for cut in release.views(schema_of([2] * variables))
            if st.is_within(cut, part)
        )


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


def separates(release: Release, variables: int, part: int, cut: int) -> bool:
    """Whether the part of the independence graph without the cut is disconnected, by NetworkX."""
    adjacency = graph.independence_graph(release.frontier, variables)
    left = nx.Graph()
    left.add_nodes_from(st.members(part & ~cut))
    left.add_edges_from((u, v) for u, v in combinations(st.members(part & ~cut), 2) if st.has(adjacency[u], v))
    return len(left) > 0 and not nx.is_connected(left)


# Decomposable releases within


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
        for j, separator in enumerate(sequence.separators):
            earlier, clique = sequence.cliques[: j + 1], sequence.cliques[j + 1]
            assert separator == clique & Release.of(earlier).variables
            assert any(st.is_within(separator, one) for one in earlier)


def test_an_element_that_meets_two_cliques_keeps_one_of_them() -> None:
    """ABC, DEF, then ADG would close a cycle: only G and A, or G and D, are taken from it."""
    (first, *_) = graph.spanning_sequences(frontier("ABC", "DEF", "ADG"))
    assert Release.of(first.cliques) in (frontier("ABC", "DEF", "AG"), frontier("ABC", "DEF", "DG"))
