"""Decomposable graphs as values: legal moves by one edge, cliques, separators, junction tree, complete sets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import fsum, prod
from typing import Annotated, TypeAlias

from sdc.model import subtable as st
from sdc.model.documents import InDocuments
from sdc.model.errors import InputError
from sdc.model.graph import (
    Adjacency,
    Decomposition,
    elimination_cliques,
    independence_graph,
    is_chordal,
    maximum_cardinality_order,
    perfect_sequence,
)
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable

Edge = tuple[int, int]


@dataclass(frozen=True)
class DecomposableGraph:
    """A chordal graph on up to 63 variables. Every variable is in a clique, alone if it has no neighbour.

    neighbours     bit set of the neighbours of each variable
    complete_sets  number of non-empty complete sets: the sub-tables of its release

    Create one with `from_cliques` or `parse`. `toggled` makes legal moves and updates the count: an edge uv with common
    neighbours S changes it by 2^|S|. Legal moves connect all chordal graphs.
    """

    neighbours: Adjacency
    complete_sets: int

    @staticmethod
    def from_neighbours(neighbours: Adjacency) -> DecomposableGraph:
        """The graph with these neighbours, which the caller knows to be chordal."""
        found = _decomposition(neighbours)
        # the cliques with a complete set form a subtree of the junction tree: one more node than edges, so each set is
        # counted once
        count = sum(2 ** st.dimension(c) - 1 for c in found.cliques)
        return DecomposableGraph(neighbours, count - sum(2 ** st.dimension(s) - 1 for s in found.separators))

    @staticmethod
    def from_cliques(cliques: Iterable[SubTable], schema: Schema) -> DecomposableGraph:
        """The graph with these maximal cliques, and the variables in none.

        Raises InputError for an unknown variable, for a graph with a chordless cycle, and for a chordal graph with
        larger cliques than the given ones.
        """
        # single variables are vertices of every graph; those within a clique leave the frontier
        release = Release.of([*cliques, *(1 << v for v in range(len(schema)))])
        if release.variables >> len(schema):
            beyond = release.variables.bit_length() - 1
            raise InputError(f"a clique has variable number {beyond}; the table has {len(schema)}, numbered from 0")
        neighbours = independence_graph(release.frontier, len(schema))
        if not is_chordal(neighbours):
            cycle = " - ".join(schema.names[v] for v in chordless_cycle(neighbours))
            raise InputError(f"the graph is not decomposable: the cycle {cycle} has no chord; add one, or drop an edge")
        graph = DecomposableGraph.from_neighbours(neighbours)
        # three edges of a triangle make the clique of three: that would release more than was given
        larger = [clique for clique in graph.cliques if clique not in release]
        if larger:
            within = ", ".join(st.label(c, schema.flat) for c in release.frontier if st.is_within(c, larger[0]))
            raise InputError(
                f"the cliques {within} are not those of a decomposable graph: together they join every two variables "
                f"of {st.label(larger[0], schema.flat)}; give that clique, or drop one of them"
            )
        return graph

    @staticmethod
    def parse(text: str, schema: Schema) -> DecomposableGraph:
        """The graph written `[a,b] [b,c]`, as `text` prints it; other variables are isolated. InputError for other
        texts.
        """
        if re.sub(r"\[[^\[\]]*\]", "", text).strip():
            raise InputError(f"graph {text!r} cannot be read; write its cliques as [a,b] [b,c]")
        cliques = []
        for inside in re.findall(r"\[([^\[\]]*)\]", text):
            names = [name.strip() for name in inside.split(",")]
            cliques.append(st.of(schema.index(name) for name in names))
        return DecomposableGraph.from_cliques(cliques, schema)

    def text(self, schema: Schema) -> str:
        """`[a,b] [b,c]`: the cliques by names, the largest first."""
        return " ".join(f"[{','.join(st.names(clique, schema.flat))}]" for clique in self.cliques)

    def __len__(self) -> int:
        return len(self.neighbours)

    def has_edge(self, u: int, v: int) -> bool:
        return st.has(self.neighbours[u], v)

    def is_complete(self, subtable: SubTable) -> bool:
        """Whether all pairs of the variables are neighbours."""
        return all(st.is_within(subtable, self.neighbours[v] | 1 << v) for v in st.members(subtable))

    def toggled(self, u: int, v: int) -> DecomposableGraph:
        """The graph with or without the edge uv; ValueError if the move is not legal.

        A deletion is legal if S = N(u) & N(v) is complete, so that the edge is in one maximal clique only; an addition
        is legal if S separates u from v.
        """
        common, has_edge = self.neighbours[u] & self.neighbours[v], self.has_edge(u, v)
        # otherwise two non-adjacent vertices of S form a chordless cycle with u and v
        if not (self.is_complete(common) if has_edge else self._is_separated(u, v)):
            what = "removed" if has_edge else "added"
            raise ValueError(f"the edge {u}-{v} cannot be {what}: the graph would not stay chordal")
        neighbours = list(self.neighbours)
        neighbours[u] ^= 1 << v
        neighbours[v] ^= 1 << u
        # the complete sets with both ends are S' + u + v for subsets S' of the complete set S
        change = (-1 if has_edge else 1) * 2 ** st.dimension(common)
        return DecomposableGraph(tuple(neighbours), self.complete_sets + change)

    def _is_separated(self, u: int, v: int) -> bool:
        # flood from u outside S: a path to v has two inner vertices or more, and uv would close a chordless cycle
        allowed = ~(self.neighbours[u] & self.neighbours[v])
        reached, fresh = 1 << u, 1 << u
        while fresh:
            around = 0
            for w in st.members(fresh):
                around |= self.neighbours[w]
            fresh = around & allowed & ~reached
            reached |= fresh
        return not st.has(reached, v)

    @cached_property
    def decomposition(self) -> Decomposition:
        """Cliques and separators, with multiplicity, in perfect order."""
        return _decomposition(self.neighbours)

    @property
    def cliques(self) -> tuple[SubTable, ...]:
        """Maximal complete sets, by decreasing dimension, then by number."""
        return st.maximal(self.decomposition.cliques)

    @property
    def separators(self) -> tuple[SubTable, ...]:
        """One fewer than cliques; empty ones between components are included."""
        return self.decomposition.separators

    @cached_property
    def release(self) -> Release:
        """The complete sets as sub-tables; the frontier is the cliques."""
        return Release(self.cliques)

    def value(self, weights: tuple[float, ...], corrections: Iterable[tuple[SubTable, float]] = ()) -> float:
        """The sum, over non-empty complete sets, of the product of their variables' weights.

        sum_j (prod_C (1 + w) - 1) - sum_j (prod_S (1 + w) - 1), rounded to 12 digits so that equal values compare
        equal; with weights 1 it is `complete_sets`. `corrections` of complete sets are added.
        """
        cliques, separators = ([_value(s, weights) for s in sets] for sets in (self.cliques, self.separators))
        listed = [correction for subtable, correction in corrections if self.is_complete(subtable)]
        # the order of the terms must not change the value: best graphs are compared by value
        return float(f"{fsum([*cliques, *(-value for value in separators), *listed]):.12g}")


def named_cliques(graph: DecomposableGraph, schema: Schema) -> list[list[str]]:
    """The cliques by the names of all their variables; levels are vertices of their own."""
    return [st.names(clique, schema.flat) for clique in graph.cliques]


def _of_cliques(found: list[list[str]], schema: Schema) -> DecomposableGraph:
    # from cliques, not from neighbours: a non-chordal graph is refused
    return DecomposableGraph.from_cliques((st.named(names, schema.flat) for names in found), schema)


NamedGraph: TypeAlias = Annotated[DecomposableGraph, InDocuments(list[list[str]], named_cliques, _of_cliques)]


def _decomposition(neighbours: Adjacency) -> Decomposition:
    return perfect_sequence(elimination_cliques(neighbours, maximum_cardinality_order(neighbours)))


def _value(subtable: SubTable, weights: tuple[float, ...]) -> float:
    return prod(1 + weights[v] for v in st.members(subtable)) - 1


def chordless_cycle(graph: Adjacency) -> tuple[int, ...]:
    """A chordless cycle of four or more vertices, the smallest first; empty if there is none.

    NetworkX enumerates cycles: for messages, not for searches.
    """
    import networkx as nx

    edges = ((v, u) for v, around in enumerate(graph) for u in st.members(around))
    # NetworkX counts triangles as chordless
    cycle: list[int] = next((found for found in nx.chordless_cycles(nx.Graph(edges)) if len(found) > 3), [])
    # a canonical form, so that the message does not depend on NetworkX's order
    first = cycle.index(min(cycle)) if cycle else 0
    forth = [*cycle[first:], *cycle[:first]]
    return min(tuple(forth), tuple(forth[:1] + forth[:0:-1]))
