"""Graphs of releases as bit sets: cliques, separators, components, and decomposable releases around and within one.

A search asks thousands of times, so this is not NetworkX; the tests judge each algorithm by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.subtable import SubTable

Adjacency = tuple[int, ...]

STARTS = 4  # spanning sequences tried, each from another of the largest elements
MAX_STEPS = 4096  # starts times frontier elements: each clique of a sequence is chosen among all of them


@dataclass(frozen=True)
class Decomposition:
    """Cliques C_j and separators S_j, with multiplicity, of a decomposable release.

    In perfect order: the part of clique j that earlier cliques have is separators[j - 1], and it
    lies within one of them (running intersection). A separator may be empty.
    """

    cliques: tuple[SubTable, ...]
    separators: tuple[SubTable, ...]

    @property
    def variables(self) -> SubTable:
        """Those of any clique."""
        return st.union(self.cliques)


def independence_graph(subtables: Iterable[SubTable], variables: int) -> Adjacency:
    """Neighbours of each variable: those it shares one of the sub-tables with."""
    neighbours = [0] * variables
    for element in subtables:
        for v in st.members(element):
            neighbours[v] |= element & ~(1 << v)
    return tuple(neighbours)


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
    # each maximal clique of the filled graph is found where the first of its variables is eliminated; the others found
    # lie within one
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
    # the search numbers variables from the last to be eliminated to the first
    return tuple(reversed(order))


def minimum_fill_order(graph: Adjacency) -> tuple[int, ...]:
    """Elimination order that adds fewest edges at each step; ties go to the smallest variable."""
    neighbours, left, order = list(graph), set(range(len(graph))), []
    while left:
        # a heuristic: the least fill of all is NP-hard to find (Yannakakis 1981). Any order gives a cover, and so inner
        # bounds; little fill keeps the cover near the release
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
    # each edge that is missing was counted at both of its ends
    return missing // 2


def is_chordal(graph: Adjacency) -> bool:
    """Whether every cycle of four or more vertices has a chord."""
    cliques = elimination_cliques(graph, maximum_cardinality_order(graph))
    return independence_graph(cliques, len(graph)) == graph


def decompose(release: Release, variables: int) -> Decomposition | None:
    """Cliques and separators of a decomposable release; None where it is not decomposable.

    A release is decomposable when its frontier is the set of maximal cliques of a chordal graph
    ([DKS] section 2). A variable in no sub-table belongs to no clique.
    """
    graph = independence_graph(release.frontier, variables)
    cliques = elimination_cliques(graph, maximum_cardinality_order(graph))
    # a variable in no sub-table is a vertex without neighbours, whose clique is not released
    covered = st.maximal([st.GRAND_TOTAL, *(c for c in cliques if st.is_within(c, release.variables))])
    # equal cliques mean equal graphs: nothing was filled in, so the graph is chordal, and each of its cliques is
    # released
    if covered != release.frontier:
        return None
    return perfect_sequence(release.frontier)


def chordal_cover(release: Release, variables: int) -> Release:
    """A small decomposable release that contains the given one: its graph filled by minimum fill.

    Variables in no sub-table stay out. Every table feasible for the cover is feasible for the
    release, so bounds under the cover are inner bounds under the release.
    """
    graph = independence_graph(release.frontier, variables)
    filled = elimination_cliques(graph, minimum_fill_order(graph))
    return Release.of(c for c in filled if st.is_within(c, release.variables))


def perfect_sequence(cliques: Sequence[SubTable]) -> Decomposition:
    """The cliques of a chordal graph ordered by a maximum weight spanning tree (Prim), from the first.

    With the separators' sizes as weights every such tree is a junction tree (Jensen and Jensen 1994). The first clique
    is that given first; ties go to the smallest number. O(cliques^2). IndexError without a clique.
    """
    ordered, separators = [cliques[0]], []
    # of each clique left what it shares with those before: most variables, with the first that has so many
    shared = {clique: clique & cliques[0] for clique in cliques[1:]}
    while shared:
        # an edge of size 0 is taken last, so that a component is finished before the next one is begun
        clique = max(shared, key=lambda c: (st.dimension(shared[c]), -c))
        ordered.append(clique)
        separators.append(shared.pop(clique))
        for other, before in shared.items():
            if st.dimension(other & clique) > st.dimension(before):
                shared[other] = other & clique
    return Decomposition(tuple(ordered), tuple(separators))


def components(graph: Adjacency, release: Release) -> Decomposition:
    """The finest split of a graph into components at separators that the release has, in perfect order.

    The graph has an edge at least wherever two variables share a released sub-table; each complete set of it lies
    within one component. Every minimal separator that is a clique of the graph occurs in each of its minimal
    triangulations (Leimer 1993, Optimal decomposition by clique separators), so those that are released are where a
    minimal triangulation's junction tree is cut. A variable without neighbours is a component of its own.
    O(variables * edges) for the triangulation.
    """
    return _cut(perfect_sequence(elimination_cliques(graph, minimal_order(graph))), release)


def component_with(split: Decomposition, graph: Adjacency, release: Release, pair: SubTable) -> SubTable:
    """A component that has a pair of variables once it is released too; where it separates several, one of them.

    split  the components of the graph under the release, see `components`
    Only what lies between the two is split anew: all other components stay as they are.
    """
    u, v = st.members(pair)
    # an edge between two that nothing joined is cut off at each of its ends, where these are released
    if not st.has(_joined_with(graph, u), v) and 1 << u in release and 1 << v in release:
        return pair
    between = _between(split, u, v)
    inside = tuple(graph[w] & between for w in st.members(between))
    return _part_with(pair, between, inside, frozenset(element & between for element in release.frontier))


@lru_cache(maxsize=1 << 12)  # most pairs are asked about again where nothing has changed between their ends
def _part_with(pair: SubTable, between: SubTable, inside: Adjacency, public: frozenset[SubTable]) -> SubTable:
    """The component that has the pair, of the graph among the variables between its ends; inside it what is public."""
    place = {v: new for new, v in enumerate(st.members(between))}
    joined = [around | (pair & ~(1 << v) if st.has(pair, v) else 0) for v, around in zip(place, inside, strict=True)]
    local = tuple(st.within(around, between) for around in joined)
    parts = components(local, Release.of(public).add(pair).within(between)).cliques
    part = next(part for part in parts if st.is_within(st.within(pair, between), part))
    return st.of(v for v, new in place.items() if st.has(part, new))


@lru_cache(maxsize=1 << 8)
def _joined_with(graph: Adjacency, vertex: int) -> SubTable:
    """The vertices that a path leads to, and the vertex itself."""
    found, border = 1 << vertex, graph[vertex]
    while border := border & ~found:
        found |= border
        border = st.union(graph[v] for v in st.members(border))
    return found


@lru_cache(maxsize=8)  # a search asks about hundreds of pairs of one split
def _tree(split: Decomposition) -> tuple[tuple[int, ...], ...]:
    """The parts beside each, on a tree of them."""
    around: list[list[int]] = [[] for _ in split.cliques]
    for k, separator in enumerate(split.separators, start=1):
        host = next(j for j in range(k) if st.is_within(separator, split.cliques[j]))
        around[k].append(host)
        around[host].append(k)
    return tuple(map(tuple, around))


def _between(split: Decomposition, u: int, v: int) -> SubTable:
    """The components on the tree's path from one with u to the nearest with v, as one set."""
    around = _tree(split)
    waiting = deque((k, part) for k, part in enumerate(split.cliques) if st.has(part, u))
    seen = {k for k, _ in waiting}
    while True:
        k, union = waiting.popleft()
        if st.has(split.cliques[k], v):
            return union
        for j in set(around[k]) - seen:
            seen.add(j)
            waiting.append((j, union | split.cliques[j]))


def _cut(tree: Decomposition, release: Release) -> Decomposition:
    """Cliques joined where their separator is not released."""
    joined, separators = [tree.cliques[0]], []
    for clique, separator in zip(tree.cliques[1:], tree.separators, strict=True):
        # an unreleased separator is in one part only: what two parts share lies within the released separators between
        # them, and so is released
        host = next(k for k, part in enumerate(joined) if st.is_within(separator, part))
        if separator in release:
            joined.append(clique)
            separators.append(separator)
        else:
            joined[host] |= clique
    return Decomposition(tuple(joined), tuple(separators))


def minimal_order(graph: Adjacency) -> tuple[int, ...]:
    """An elimination order of a minimal triangulation, by MCS-M (Berry, Blair, Heggernes and Peyton 2004)."""
    weight, left, order = [0] * len(graph), st.full(len(graph)), []
    while left:
        v = max(st.members(left), key=lambda u: (weight[u], -u))
        left &= ~(1 << v)
        order.append(v)
        reached = _reached(graph, v, left, weight)
        for u in st.members(reached):
            weight[u] += 1
    return tuple(reversed(order))


def _reached(graph: Adjacency, v: int, left: SubTable, weight: list[int]) -> SubTable:
    """The vertices left that v has an edge to, or a path through others left that all weigh less."""
    reached = 0
    for limit in sorted({weight[u] for u in st.members(left)}):
        # what lies between must weigh less than the end, so there is a flood for each weight that an end may have;
        # neighbours have nothing between and count at any weight
        passable = st.of(u for u in st.members(left) if weight[u] < limit)
        seen, border = 1 << v, graph[v]
        while inside := border & passable & ~seen:
            seen |= inside
            for u in st.members(inside):
                border |= graph[u]
        reached |= st.of(u for u in st.members(border & left) if weight[u] == limit)
    return reached


def spanning_sequences(release: Release) -> tuple[Decomposition, ...]:
    """Decomposable releases within the release that have all its variables, one from each of its largest elements.

    From a frontier element on, the next clique is the part of another frontier element that is new or within one
    earlier clique, most new variables first; so the running intersection holds. Lower bounds under them are outer
    bounds under the release. At most 4 starts, fewer where the frontier has more than 1,024 elements: a search pays
    for each.
    """
    starts = release.frontier[: min(STARTS, max(1, MAX_STEPS // len(release.frontier)))]
    return tuple(dict.fromkeys(_spanning_sequence(release, start) for start in starts))


def _spanning_sequence(release: Release, start: SubTable) -> Decomposition:
    cliques, separators, covered = [start], [], start
    while covered != release.variables:
        element, host = _next_clique(release.frontier, cliques, covered)
        # what earlier cliques have of the element outside the host is left out: the rest meets them in element & host
        # alone, which is within one clique, as the running intersection wants
        cliques.append(element & (~covered | host))
        separators.append(element & host)
        covered |= element
    return Decomposition(tuple(cliques), tuple(separators))


def _next_clique(
    frontier: tuple[SubTable, ...], cliques: list[SubTable], covered: SubTable
) -> tuple[SubTable, SubTable]:
    """The element with most new variables and its earlier clique, of those the pair that shares most."""
    most = max(st.dimension(element & ~covered) for element in frontier)
    elements = [element for element in frontier if st.dimension(element & ~covered) == most]
    return max(
        ((element, host) for element in elements for host in cliques),
        key=lambda pair: (st.dimension(pair[0] & pair[1]), pair),
    )
