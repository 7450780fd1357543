"""Junction trees as drawings: every clique once, the separator on each edge, all words inside."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.report import graphs
from tests.helpers.audits import drawing
from tests.strategies import additions, edgeless


def path_of(cliques: int, size: int = 6) -> DecomposableGraph:
    """Cliques {k, ..., k + size - 1}: a junction tree without branches."""
    return DecomposableGraph.from_cliques(
        [((1 << size) - 1) << k for k in range(cliques)], schema_named("v", cliques + size - 1)
    )


def schema_named(name: str, variables: int) -> Schema:
    return Schema(tuple(Variable(f"{name}{v}", ("no", "yes")) for v in range(variables)))


@some.composite
def walked(draw: some.DrawFn) -> DecomposableGraph:
    graph = edgeless(draw(some.integers(1, 9)))
    for _ in range(draw(some.integers(0, 20))):
        if larger := [*additions(graph).values()]:
            graph = draw(some.sampled_from(larger))
    return graph


@given(walked())
def test_each_clique_hangs_below_a_neighbour(graph: DecomposableGraph) -> None:
    nodes = graphs.hung_up(graph)
    assert sorted(node.clique for node in nodes) == list(range(len(graph.cliques)))
    seen = {node.clique: node.depth for node in nodes}
    edges = {frozenset(edge) for edge in graph.junction_tree}
    below = [node for node in nodes if node.parent is not None]
    assert {frozenset((node.clique, node.parent)) for node in below} == edges
    assert all(seen[node.parent] == node.depth - 1 for node in below if node.parent is not None)


@given(walked())
def test_separators_have_their_multiplicity(graph: DecomposableGraph) -> None:
    found = {separator: len(edges) for separator, edges in graphs.between(graph).items()}
    assert found == Counter(graph.separators)


def test_root_is_in_the_middle() -> None:
    nodes = graphs.hung_up(path_of(25))
    assert nodes[0].clique == 12
    assert max(node.depth for node in nodes) == 12


@pytest.mark.parametrize("name", ["X" * 20, "m" * 20, "short", "\N{CJK UNIFIED IDEOGRAPH-6F22}" * 20, "<a & b>"])
def test_names_are_wrapped_inside_the_figure(name: str) -> None:
    graph = path_of(30)
    root = drawing(graphs.junction_tree(graph, schema_named(name, len(graph))))
    boxes = [tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height")) for box in root.iter("rect")]
    assert len(boxes) == 30 + 29
    tops = sorted(boxes, key=lambda box: box[1])
    assert all(upper[1] + upper[3] < lower[1] for upper, lower in pairwise(tops))
    words = " ".join(text.text or "" for text in root.iter("text"))
    assert all(words.count(f"{name}{v}") >= 1 for v in range(len(graph)))


def test_how_the_release_and_the_graph_are_related() -> None:
    graph, schema = path_of(2, size=3), schema_named("v", 4)
    assert "exactly the complete sets" in graphs.within(graph, graph.release, schema)
    more = Release.of([*graph.cliques, st.of((0, 3))])
    assert "every complete set of this graph and 1 sub-table more" in graphs.within(graph, more, schema)
    assert "another method found it" in graphs.within(graph, Release.of([0b1]), schema)
