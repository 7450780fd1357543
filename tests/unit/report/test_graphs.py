"""How a decomposable graph and the release of a build are related."""

from __future__ import annotations

from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.report.search import within


def test_how_the_release_and_the_graph_are_related() -> None:
    schema = Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(4)))
    graph = DecomposableGraph.from_cliques([0b0111, 0b1110], schema)
    assert "exactly the complete sets" in within(graph, graph.release, schema)
    more = Release.of([*graph.cliques, st.of((0, 3))])
    assert "every complete set of this graph and 1 sub-table more" in within(graph, more, schema)
    assert "another method found it" in within(graph, Release.of([0b1]), schema)
