"""Reducible releases: components at released separators are bounded on their own, and their bounds combine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sdc.bounds import branch_and_bound
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.coverage import Bounds, on_covered_variables
from sdc.model.graph import Adjacency, Decomposition
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells: branch and bound on each component, explicit where it is one sub-table."""
    return bounds_by(branch_and_bound.bounds, table, release, cells)


def bounds_by(component_bounds: Bounds, table: Table, release: Release, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells from those of the components' marginal cells ([DKS], reducible models).

    They combine as in `cell_bounds.combine`: exact bounds of the components give exact ones. The variables of a
    structural zero stay in one component, so no impossible cell is filled.

    A component within a released sub-table is known; `component_bounds` is asked once for the different
    cells of each other one, and where it is alone for the cells as they are.
    """

    @on_covered_variables
    def combined(table: Table, release: Release, cells: Codes) -> CellBounds:
        parts = components_of(table, release)
        if len(parts.cliques) == 1:
            return component_bounds(table, release, cells)
        bounded = [_of_component(component_bounds, table, release, cells, part) for part in parts.cliques]
        between = sum((table.marginal_at(part, cells) for part in parts.separators), np.zeros(len(cells), np.int64))
        outer, inner = (combine(of_parts, between) for of_parts in zip(*bounded, strict=True))
        return CellBounds(cells, table.count_at(cells), outer, inner, "reducible")

    return combined(table, release, cells)


def components_of(table: Table, release: Release) -> Decomposition:
    """The components of a release of the table; the variables of each of its structural zeros stay together."""
    return components(release, len(table.schema), table.zeros.subtables)


@lru_cache(maxsize=1024)
def components(release: Release, variables: int, together: tuple[SubTable, ...] = ()) -> Decomposition:
    """The finest components of a release with released separators, in perfect order.

    Each frontier element, and each sub-table of `together`, lies within one component. Every minimal
    separator that is a clique of the graph occurs in each of its minimal triangulations (Leimer
    1993), so those that are released are where its junction tree is cut. A variable in no sub-table
    is a component of its own.
    """
    adjacency = graph.independence_graph(Release.of([*release.frontier, *together]), variables)
    cliques = graph.elimination_cliques(adjacency, _minimal_order(adjacency))
    return _cut(graph.perfect_sequence(cliques), release)


def _cut(tree: Decomposition, release: Release) -> Decomposition:
    """Cliques joined where their separator is not released."""
    joined, separators = [tree.cliques[0]], []
    for clique, separator in zip(tree.cliques[1:], tree.separators, strict=True):
        host = next(k for k, part in enumerate(joined) if st.is_within(separator, part))
        if separator in release:
            joined.append(clique)
            separators.append(separator)
        else:
            joined[host] |= clique
    return Decomposition(tuple(joined), tuple(separators))


def _minimal_order(adjacency: Adjacency) -> tuple[int, ...]:
    """An elimination order of a minimal triangulation, by MCS-M (Berry, Blair, Heggernes and Peyton 2004)."""
    weight, left, order = [0] * len(adjacency), st.full(len(adjacency)), []
    while left:
        v = max(st.members(left), key=lambda u: (weight[u], -u))
        left &= ~(1 << v)
        order.append(v)
        reached = _reached(adjacency, v, left, weight)
        for u in st.members(reached):
            weight[u] += 1
    return tuple(reversed(order))


def _reached(adjacency: Adjacency, v: int, left: SubTable, weight: list[int]) -> SubTable:
    """The vertices left that v has an edge to, or a path through others left that all weigh less."""
    reached = 0
    for limit in sorted({weight[u] for u in st.members(left)}):
        passable = st.of(u for u in st.members(left) if weight[u] < limit)
        seen, border = 1 << v, adjacency[v]
        while inside := border & passable & ~seen:
            seen |= inside
            for u in st.members(inside):
                border |= adjacency[u]
        reached |= st.of(u for u in st.members(border & left) if weight[u] == limit)
    return reached


def _of_component(
    component_bounds: Bounds, table: Table, release: Release, cells: Codes, part: SubTable
) -> tuple[Intervals, Intervals]:
    """(n, 2) outer and inner bounds of the cells' marginal cells in one component."""
    if part in release:
        counts = table.marginal_at(part, cells)
        known = np.stack([counts, counts], axis=1)
        return known, known
    kept = st.members(part)
    different, row = np.unique(cells[:, kept], axis=0, return_inverse=True)
    found = component_bounds(table.marginal(part), release.within(part), different)
    return found.outer[row], found.inner[row]
