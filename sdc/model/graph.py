"""Graphs of releases as bit sets: cliques, separators, components, and decomposable releases around and within one.

Searches call these thousands of times, so they do not use NetworkX; the tests compare each algorithm with it.
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

    In perfect order: separators[j - 1] is the part of clique j that earlier cliques have, and it lies within one of
    them (running intersection). A separator may be empty.
    """

    cliques: tuple[SubTable, ...]
    separators: tuple[SubTable, ...]

    @property
    def variables(self) -> SubTable:
        """The variables of the cliques."""
        return st.union(self.cliques)


def independence_graph(subtables: Iterable[SubTable], variables: int) -> Adjacency:
    """The neighbours of each variable: two variables are adjacent if a sub-table has both."""
    neighbours = [0] * variables
    for element in subtables:
        for v in st.members(element):
            neighbours[v] |= element & ~(1 << v)
    return tuple(neighbours)


def elimination_cliques(graph: Adjacency, order: Sequence[int]) -> tuple[SubTable, ...]:
    """Maximal cliques of the graph filled along an elimination order; the filled graph equals it iff the order is
    perfect.
    """
    neighbours = list(graph)
    found = []
    for v in order:
        around = neighbours[v]
        found.append(around | 1 << v)
        for u in st.members(around):
            neighbours[u] = (neighbours[u] | around) & ~(1 << u) & ~(1 << v)
    # each maximal clique appears at its first eliminated variable; the other sets lie within one
    return st.maximal(found)


def maximum_cardinality_order(graph: Adjacency) -> tuple[int, ...]:
    """Elimination order by maximum cardinality search, perfect iff the graph is chordal.

    Tarjan and Yannakakis (1984); ties go to the smallest variable.
    """
    left, numbered, order = set(range(len(graph))), 0, []
    while left:
        # ties by number, so that every machine gives the same order
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
        # a heuristic, since minimum fill is NP-hard (Yannakakis 1981). Any order gives a cover and inner bounds; little
        # fill keeps the cover near the release
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
    # each missing edge was counted at both ends
    return missing // 2


def is_chordal(graph: Adjacency) -> bool:
    """Whether every cycle of four or more vertices has a chord."""
    cliques = elimination_cliques(graph, maximum_cardinality_order(graph))
    return independence_graph(cliques, len(graph)) == graph


def decompose(release: Release, variables: int) -> Decomposition | None:
    """Cliques and separators of a decomposable release; None for others.

    A release is decomposable if its frontier is the set of maximal cliques of a chordal graph ([DKS] section 2). A
    variable in no sub-table belongs to no clique.
    """
    graph = independence_graph(release.frontier, variables)
    cliques = elimination_cliques(graph, maximum_cardinality_order(graph))
    # a variable in no sub-table is an isolated vertex, whose clique is not released
    covered = st.maximal([st.GRAND_TOTAL, *(c for c in cliques if st.is_within(c, release.variables))])
    # equal cliques mean equal graphs: nothing was filled, so the graph is chordal and each clique is released
    if covered != release.frontier:
        return None
    return perfect_sequence(release.frontier)


def chordal_cover(release: Release, variables: int) -> Release:
    """A small decomposable release that contains the given one: its graph filled by minimum fill.

    Variables in no sub-table stay out. Tables feasible for the cover are feasible for the release, so bounds under the
    cover are inner bounds under the release.
    """
    graph = independence_graph(release.frontier, variables)
    filled = elimination_cliques(graph, minimum_fill_order(graph))
    return Release.of(c for c in filled if st.is_within(c, release.variables))


def perfect_sequence(cliques: Sequence[SubTable]) -> Decomposition:
    """Order the cliques of a chordal graph along a maximum weight spanning tree (Prim), starting from the first.

    With the separators' sizes as weights, every such tree is a junction tree (Jensen and Jensen 1994). Ties go to the
    smallest number. O(cliques^2). IndexError without a clique.
    """
    ordered, separators = [cliques[0]], []
    # by remaining clique, its intersection with earlier ones: most variables, ties to the first
    shared = {clique: clique & cliques[0] for clique in cliques[1:]}
    while shared:
        # an edge of size 0 comes last, so that components are finished one by one
        clique = max(shared, key=lambda c: (st.dimension(shared[c]), -c))
        ordered.append(clique)
        separators.append(shared.pop(clique))
        for other, before in shared.items():
            if st.dimension(other & clique) > st.dimension(before):
                shared[other] = other & clique
    return Decomposition(tuple(ordered), tuple(separators))


def components(graph: Adjacency, release: Release) -> Decomposition:
    """The finest split of a graph into components at released separators, in perfect order.

    Two variables of a released sub-table are adjacent, and each complete set lies within one component. Every minimal
    separator that is a clique occurs in each minimal triangulation (Leimer 1993, Optimal decomposition by clique
    separators), so the junction tree of a minimal triangulation is cut at the released ones. A variable without
    neighbours is its own component. O(variables * edges) for the triangulation.
    """
    return _cut(perfect_sequence(elimination_cliques(graph, minimal_order(graph))), release)


def component_with(split: Decomposition, graph: Adjacency, release: Release, pair: SubTable) -> SubTable:
    """A component that contains a pair of variables once the pair is released; one of them if it is a separator.

    split  the components of the graph under the release, see `components`
    Only the part between the two is split again: all other components stay.
    """
    u, v = st.members(pair)
    # an edge between unconnected vertices is cut off at each released end
    if not st.has(_joined_with(graph, u), v) and 1 << u in release and 1 << v in release:
        return pair
    between = _between(split, u, v)
    inside = tuple(graph[w] & between for w in st.members(between))
    return _part_with(pair, between, inside, frozenset(element & between for element in release.frontier))


@lru_cache(maxsize=1 << 12)  # most pairs are evaluated again with nothing changed between their ends
def _part_with(pair: SubTable, between: SubTable, inside: Adjacency, public: frozenset[SubTable]) -> SubTable:
    """The component with the pair, of the graph on the variables between its ends; `public`: released inside."""
    place = {v: new for new, v in enumerate(st.members(between))}
    joined = [around | (pair & ~(1 << v) if st.has(pair, v) else 0) for v, around in zip(place, inside, strict=True)]
    local = tuple(st.within(around, between) for around in joined)
    parts = components(local, Release.of(public).add(pair).within(between)).cliques
    part = next(part for part in parts if st.is_within(st.within(pair, between), part))
    return st.of(v for v, new in place.items() if st.has(part, new))


@lru_cache(maxsize=1 << 8)
def _joined_with(graph: Adjacency, vertex: int) -> SubTable:
    found, border = 1 << vertex, graph[vertex]
    while border := border & ~found:
        found |= border
        border = st.union(graph[v] for v in st.members(border))
    return found


@lru_cache(maxsize=8)  # a search considers hundreds of pairs of one split
def _tree(split: Decomposition) -> tuple[tuple[int, ...], ...]:
    around: list[list[int]] = [[] for _ in split.cliques]
    for k, separator in enumerate(split.separators, start=1):
        host = next(j for j in range(k) if st.is_within(separator, split.cliques[j]))
        around[k].append(host)
        around[host].append(k)
    return tuple(map(tuple, around))


def _between(split: Decomposition, u: int, v: int) -> SubTable:
    """The union of components on the tree's path from one with u to the nearest with v."""
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
    joined, separators = [tree.cliques[0]], []
    for clique, separator in zip(tree.cliques[1:], tree.separators, strict=True):
        # an unreleased separator is in one component only: shared variables lie within the released separators between
        host = next(k for k, part in enumerate(joined) if st.is_within(separator, part))
        if separator in release:
            joined.append(clique)
            separators.append(separator)
        else:
            joined[host] |= clique
    return Decomposition(tuple(joined), tuple(separators))


def minimal_order(graph: Adjacency) -> tuple[int, ...]:
    """Elimination order of a minimal triangulation by MCS-M (Berry, Blair, Heggernes and Peyton 2004)."""
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
    """The remaining vertices that v reaches by an edge, or by a path of remaining vertices with smaller weights."""
    reached = 0
    for limit in sorted({weight[u] for u in st.members(left)}):
        # inner vertices must weigh less than the end: one flood for each possible weight; direct neighbours always
        # count
        passable = st.of(u for u in st.members(left) if weight[u] < limit)
        seen, border = 1 << v, graph[v]
        while inside := border & passable & ~seen:
            seen |= inside
            for u in st.members(inside):
                border |= graph[u]
        reached |= st.of(u for u in st.members(border & left) if weight[u] == limit)
    return reached


def spanning_sequences(release: Release) -> tuple[Decomposition, ...]:
    """Decomposable releases within the release that have all its variables, one for each of its largest elements.

    After the first element, the next clique is the part of another element that is new or within one earlier clique,
    most new variables first; so running intersection holds. Lower bounds under them are outer bounds under the release.
    At most `STARTS`, fewer for frontiers of more than 1,024 elements, since a search pays for each.
    """
    starts = release.frontier[: min(STARTS, max(1, MAX_STEPS // len(release.frontier)))]
    return tuple(dict.fromkeys(_spanning_sequence(release, start) for start in starts))


def _spanning_sequence(release: Release, start: SubTable) -> Decomposition:
    cliques, separators, covered = [start], [], start
    while covered != release.variables:
        element, host = _next_clique(release.frontier, cliques, covered)
        # variables outside the host that earlier cliques have are left out: then the new clique meets them in element &
        # host only, which is within one clique
        cliques.append(element & (~covered | host))
        separators.append(element & host)
        covered |= element
    return Decomposition(tuple(cliques), tuple(separators))


def _next_clique(
    frontier: tuple[SubTable, ...], cliques: list[SubTable], covered: SubTable
) -> tuple[SubTable, SubTable]:
    """The element with most new variables and its earlier clique; ties go to the largest intersection."""
    most = max(st.dimension(element & ~covered) for element in frontier)
    elements = [element for element in frontier if st.dimension(element & ~covered) == most]
    return max(
        ((element, host) for element in elements for host in cliques),
        key=lambda pair: (st.dimension(pair[0] & pair[1]), pair),
    )
