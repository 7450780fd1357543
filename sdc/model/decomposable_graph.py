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
    """A chordal graph on up to 63 variables; every variable is in a clique, alone where it has no neighbour.

    neighbours     bit set of the neighbours of each variable
    complete_sets  how many non-empty sets of variables are complete: the sub-tables of its release

    Build one with `from_cliques` or `parse`; `toggled` makes the legal moves and keeps the count: an edge uv with the
    common neighbours S changes it by 2^|S|. Any chordal graph reaches any other by them.
    """

    neighbours: Adjacency
    complete_sets: int

    @staticmethod
    def from_neighbours(neighbours: Adjacency) -> DecomposableGraph:
        """The graph with these neighbours; the caller knows that it is chordal."""
        found = _decomposition(neighbours)
        # the cliques that contain a complete set are a subtree of the junction tree, with one edge, a separator that
        # contains it too, fewer than nodes: so each set is counted once
        count = sum(2 ** st.dimension(c) - 1 for c in found.cliques)
        return DecomposableGraph(neighbours, count - sum(2 ** st.dimension(s) - 1 for s in found.separators))

    @staticmethod
    def from_cliques(cliques: Iterable[SubTable], schema: Schema) -> DecomposableGraph:
        """The graph whose maximal cliques are the given ones, and the variables in none.

        InputError where a clique has a variable the schema does not have, where the graph of the cliques has a
        cycle without a chord, or where it is chordal and its cliques are larger than the given ones.
        """
        # single variables are vertices of every graph; those within a clique drop out of the frontier
        release = Release.of([*cliques, *(1 << v for v in range(len(schema)))])
        if release.variables >> len(schema):
            beyond = release.variables.bit_length() - 1
            raise InputError(f"a clique has variable number {beyond}; the table has {len(schema)}, numbered from 0")
        neighbours = independence_graph(release.frontier, len(schema))
        if not is_chordal(neighbours):
            cycle = " - ".join(schema.names[v] for v in chordless_cycle(neighbours))
            raise InputError(f"the graph is not decomposable: the cycle {cycle} has no chord; add one, or drop an edge")
        graph = DecomposableGraph.from_neighbours(neighbours)
        # three edges of a triangle are a chordal graph whose clique is the triangle: more than what was given would be
        # released
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
        """The graph written `[a,b] [b,c]`, as `text` prints it; variables left out are alone. InputError otherwise."""
        if re.sub(r"\[[^\[\]]*\]", "", text).strip():
            raise InputError(f"graph {text!r} cannot be read; write its cliques as [a,b] [b,c]")
        cliques = []
        for inside in re.findall(r"\[([^\[\]]*)\]", text):
            names = [name.strip() for name in inside.split(",")]
            cliques.append(st.of(schema.index(name) for name in names))
        return DecomposableGraph.from_cliques(cliques, schema)

    def text(self, schema: Schema) -> str:
        """`[a,b] [b,c]`: the cliques with the schema's names, the largest first."""
        return " ".join(f"[{','.join(st.names(clique, schema.flat))}]" for clique in self.cliques)

    def __len__(self) -> int:
        """Number of variables."""
        return len(self.neighbours)

    def has_edge(self, u: int, v: int) -> bool:
        return st.has(self.neighbours[u], v)

    def is_complete(self, subtable: SubTable) -> bool:
        """Whether every two of the variables are neighbours."""
        return all(st.is_within(subtable, self.neighbours[v] | 1 << v) for v in st.members(subtable))

    def toggled(self, u: int, v: int) -> DecomposableGraph:
        """This graph without the edge uv, or with it where it is not there; ValueError where that is no legal move.

        A deletion leaves the graph chordal where S = N(u) & N(v) is complete, so that the edge is in one maximal clique
        only; an addition where S separates u from v.
        """
        common, has_edge = self.neighbours[u] & self.neighbours[v], self.has_edge(u, v)
        # of an S that is not complete two vertices that are no neighbours would form a chordless cycle with u and v
        if not (self.is_complete(common) if has_edge else self._is_separated(u, v)):
            what = "removed" if has_edge else "added"
            raise ValueError(f"the edge {u}-{v} cannot be {what}: the graph would not stay chordal")
        neighbours = list(self.neighbours)
        neighbours[u] ^= 1 << v
        neighbours[v] ^= 1 << u
        # the complete sets that hold both ends are S' + u + v for the subsets S' of S, which is complete
        change = (-1 if has_edge else 1) * 2 ** st.dimension(common)
        return DecomposableGraph(tuple(neighbours), self.complete_sets + change)

    def _is_separated(self, u: int, v: int) -> bool:
        """Whether every path from u to v goes through a common neighbour."""
        # a flood from u that does not enter S. Where it reaches v, the shortest such path has two vertices or more
        # between, and the edge uv would close it to a cycle without a chord
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
        """One fewer than there are cliques; empty ones, between components, too."""
        return self.decomposition.separators

    @property
    def junction_tree(self) -> tuple[Edge, ...]:
        """Edges between positions in `cliques`; where two cliques share a variable, so do all on the path between."""
        ordered, cliques = self.decomposition.cliques, self.cliques
        edges = []
        for position, separator in enumerate(self.separators, start=1):
            earlier = next(c for c in ordered[:position] if st.is_within(separator, c))
            edges.append((cliques.index(earlier), cliques.index(ordered[position])))
        return tuple(edges)

    @cached_property
    def release(self) -> Release:
        """The complete sets as sub-tables; the frontier is the cliques."""
        return Release(self.cliques)

    def value(self, weights: tuple[float, ...], corrections: Iterable[tuple[SubTable, float]] = ()) -> float:
        """Sum over the non-empty complete sets of the product of their variables' weights.

        sum_j (prod_C (1 + w) - 1) - sum_j (prod_S (1 + w) - 1), to 12 digits so that equal values are equal; with
        all weights 1 it is `complete_sets`. What is given as the correction of a complete set is added.
        """
        cliques, separators = ([_value(s, weights) for s in sets] for sets in (self.cliques, self.separators))
        listed = [correction for subtable, correction in corrections if self.is_complete(subtable)]
        # the sum of the same terms in another order must not differ in its last bits: best graphs are told by value
        return float(f"{fsum([*cliques, *(-value for value in separators), *listed]):.12g}")


def named_cliques(graph: DecomposableGraph, schema: Schema) -> list[list[str]]:
    """The cliques by the names of all their variables, levels too, which are vertices of their own."""
    return [st.names(clique, schema.flat) for clique in graph.cliques]


def _of_cliques(found: list[list[str]], schema: Schema) -> DecomposableGraph:
    # from cliques, not from neighbours: a graph that is not chordal is refused
    return DecomposableGraph.from_cliques((st.named(names, schema.flat) for names in found), schema)


NamedGraph: TypeAlias = Annotated[DecomposableGraph, InDocuments(list[list[str]], named_cliques, _of_cliques)]


def _decomposition(neighbours: Adjacency) -> Decomposition:
    return perfect_sequence(elimination_cliques(neighbours, maximum_cardinality_order(neighbours)))


def _value(subtable: SubTable, weights: tuple[float, ...]) -> float:
    return prod(1 + weights[v] for v in st.members(subtable)) - 1


def chordless_cycle(graph: Adjacency) -> tuple[int, ...]:
    """A cycle of four or more vertices without a chord, the smallest vertex first; empty where there is none.

    By NetworkX, which enumerates them: for a message, not for a search.
    """
    import networkx as nx

    edges = ((v, u) for v, around in enumerate(graph) for u in st.members(around))
    # triangles are chordless cycles to NetworkX
    cycle: list[int] = next((found for found in nx.chordless_cycles(nx.Graph(edges)) if len(found) > 3), [])
    # one of the ways to write a cycle, so that the message does not depend on the order NetworkX met it in
    first = cycle.index(min(cycle)) if cycle else 0
    forth = [*cycle[first:], *cycle[:first]]
    return min(tuple(forth), tuple(forth[:1] + forth[:0:-1]))
