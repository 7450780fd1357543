"""Decomposable graphs: cliques, separators, and the smallest decomposable release around another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.subtable import SubTable

Adjacency = tuple[int, ...]


@dataclass(frozen=True)
class Decomposition:
    """Cliques C_j and separators S_j, with multiplicity, of a decomposable release.

    In perfect order: the part of clique j that earlier cliques have is separators[j - 1], and it
    lies within one of them (running intersection). A separator may be empty.
    """

    cliques: tuple[SubTable, ...]
    separators: tuple[SubTable, ...]


def independence_graph(release: Release, variables: int) -> Adjacency:
    """Neighbours of each variable: those it shares a released sub-table with."""
    neighbours = [0] * variables
    for element in release.frontier:
        for v in st.members(element):
            neighbours[v] |= element & ~(1 << v)
    return tuple(neighbours)


def graph_of(cliques: Iterable[SubTable], variables: int) -> Adjacency:
    """The graph whose edges lie within the given cliques."""
    return independence_graph(Release.of(cliques), variables)


def elimination_cliques(graph: Adjacency, order: Sequence[int]) -> tuple[SubTable, ...]:
    """Maximal cliques of the graph filled along an elimination order.

    The filled graph is the graph itself exactly when the order is perfect.
    """
    neighbours = list(graph)
    found = []
    for v in order:
        around = neighbours[v]
        found.append(around | 1 << v)
        for u in st.members(around):
            neighbours[u] = (neighbours[u] | around) & ~(1 << u) & ~(1 << v)
    return st.maximal(found)


def maximum_cardinality_order(graph: Adjacency) -> tuple[int, ...]:
    """Elimination order by maximum cardinality search, perfect iff the graph is chordal.

    Tarjan and Yannakakis (1984); ties go to the smallest variable.
    """
    left, numbered, order = set(range(len(graph))), 0, []
    while left:
        # ties by number: the order, and all that is printed in it, is the same on every machine
        v = max(left, key=lambda u: ((graph[u] & numbered).bit_count(), -u))
        left.remove(v)
        numbered |= 1 << v
        order.append(v)
    return tuple(reversed(order))


def minimum_fill_order(graph: Adjacency) -> tuple[int, ...]:
    """Elimination order that adds fewest edges at each step; ties go to the smallest variable."""
    neighbours, left, order = list(graph), set(range(len(graph))), []
    while left:
        v = min(left, key=lambda u: (_fill(neighbours, u), u))
        left.remove(v)
        order.append(v)
        around = neighbours[v]
        for u in st.members(around):
            neighbours[u] = (neighbours[u] | around) & ~(1 << u) & ~(1 << v)
    return tuple(order)


def _fill(neighbours: Sequence[int], v: int) -> int:
    around = neighbours[v]
    missing = sum((around & ~neighbours[u] & ~(1 << u)).bit_count() for u in st.members(around))
    return missing // 2


def is_chordal(graph: Adjacency) -> bool:
    """Whether every cycle of four or more vertices has a chord."""
    cliques = elimination_cliques(graph, maximum_cardinality_order(graph))
    return graph_of(cliques, len(graph)) == graph


def decompose(release: Release, variables: int) -> Decomposition | None:
    """Cliques and separators of a decomposable release; None where it is not decomposable.

    A release is decomposable when its frontier is the set of maximal cliques of a chordal graph
    ([DKS] section 2). A variable in no sub-table belongs to no clique.
    """
    graph = independence_graph(release, variables)
    cliques = elimination_cliques(graph, maximum_cardinality_order(graph))
    covered = st.maximal([st.GRAND_TOTAL, *(c for c in cliques if st.is_within(c, release.variables))])
    if covered != release.frontier:
        return None
    return perfect_sequence(release.frontier)


def chordal_cover(release: Release, variables: int) -> Release:
    """A small decomposable release that contains the given one: its graph filled by minimum fill.

    Variables in no sub-table stay out. Every table feasible for the cover is feasible for the
    release, so bounds under the cover are inner bounds under the release.
    """
    graph = independence_graph(release, variables)
    filled = elimination_cliques(graph, minimum_fill_order(graph))
    return Release.of(c for c in filled if st.is_within(c, release.variables))


def perfect_sequence(cliques: Sequence[SubTable]) -> Decomposition:
    """The cliques of a chordal graph ordered by a maximum weight spanning tree (Prim), from the first."""
    left = list(cliques)
    ordered, separators = [left.pop(0)], []
    while left:
        separator, clique = max(
            ((c & o, c) for c in left for o in ordered), key=lambda pair: (st.dimension(pair[0]), -pair[1])
        )
        left.remove(clique)
        ordered.append(clique)
        separators.append(separator)
    return Decomposition(tuple(ordered), tuple(separators))
