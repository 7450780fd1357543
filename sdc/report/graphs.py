"""A decomposable graph: its cliques and separators as rows, its junction tree as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from markupsafe import Markup

from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.report import svg
from sdc.report.exposure import shorten
from sdc.report.plot import PAGE

INDENT, DEEPEST = 34.0, 480.0
LINE, PADDING, BADGE, GAP = 16.0, 6.0, 34.0, 12.0


@dataclass(frozen=True)
class Node:
    """A clique of the junction tree hung up at its middle; parent is None at the root."""

    clique: int
    parent: int | None
    depth: int


@dataclass(frozen=True)
class Box:
    """A box of wrapped names with its top left corner in the drawing."""

    x: float
    y: float
    lines: tuple[str, ...]
    indent: float

    @property
    def width(self) -> float:
        return self.indent + max(map(extent, self.lines)) + 3 * PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + PADDING

    @property
    def words(self) -> Iterator[Markup]:
        for k, line in enumerate(self.lines):
            yield svg.text(self.x + self.indent + PADDING, self.y + (k + 1) * LINE - 1, line)


def between(graph: DecomposableGraph) -> dict[SubTable, list[tuple[int, int]]]:
    """Each separator, the largest first, with the edges of the junction tree that it is on: its multiplicity."""
    cliques, found = graph.cliques, dict[SubTable, list[tuple[int, int]]]()
    for a, b in graph.junction_tree:
        found.setdefault(cliques[a] & cliques[b], []).append((min(a, b), max(a, b)))
    ordered = sorted(found, key=lambda separator: (-st.dimension(separator), separator))
    return {separator: sorted(found[separator]) for separator in ordered}


def within(graph: DecomposableGraph, release: Release, schema: Schema) -> str:
    """How the graph and the release of the build are related, in one sentence."""
    own = graph.release.closed(schema)
    if own == release:
        return "The release is exactly the complete sets of this graph: its cliques are the released frontier."
    if release.contains(own):
        more = release.sub_tables(schema) - own.sub_tables(schema)
        return f"The release has every complete set of this graph and {more:,} sub-table{'s' * (more != 1)} more."
    return "The release is not that of this graph: another method found it."


def hung_up(graph: DecomposableGraph) -> list[Node]:
    """The junction tree in the order of reading, each clique after its parent, from the root of least height."""
    import networkx as nx

    tree = nx.Graph(graph.junction_tree)
    # a tree of one clique has no edge that would name it
    tree.add_nodes_from(range(len(graph.cliques)))
    # from the middle the tree is least deep, and names have most room; the smallest of two middles, so that the page is
    # the same everywhere
    root = min(nx.center(tree))
    nodes = {root: Node(root, None, 0)}
    for parent, below in nx.dfs_edges(tree, root, sort_neighbors=sorted):
        nodes[below] = Node(below, parent, nodes[parent].depth + 1)
    return list(nodes.values())


def junction_tree(graph: DecomposableGraph, schema: Schema) -> Markup:
    """A row a clique, indented below its parent, with the separator on the edge between them.

    All variables of each are named: in the graph levels are variables of their own.
    """
    nodes, cliques, named = hung_up(graph), graph.cliques, schema.flat
    indent = min(INDENT, DEEPEST / max(1, *(node.depth for node in nodes)))
    boxes: dict[int, Box] = {}
    branches: list[Markup] = []
    drawn: list[Markup] = []
    y = 2.0
    for node in nodes:
        x = 2 + indent * node.depth
        if node.parent is not None:
            separator = cliques[node.clique] & cliques[node.parent]
            on_edge = Box(x, y, _names(separator, named, x), 0)
            edge = list(_branch(boxes[node.parent], on_edge, "branch" if separator else "branch none"))
            # pale lines of empty separators first, so that the others cross over them
            branches = [*branches, *edge] if separator else [*edge, *branches]
            drawn += _separator(on_edge, separator)
            y += on_edge.height + GAP / 2
        boxes[node.clique] = box = Box(x, y, _names(cliques[node.clique], named, x + BADGE), BADGE)
        drawn += _clique(box, node.clique, cliques[node.clique], named)
        y += box.height + GAP
    return svg.figure(
        "junction-tree",
        PAGE,
        y - GAP + 6,
        "Junction tree",
        "A box a clique, indented below the clique that it is joined to; the words on a line are the separator, the "
        "variables that both have. Where two cliques share a variable, so do all on the path between them.",
        [*branches, *drawn],
    )


def _branch(parent: Box, on_edge: Box, class_: str) -> Iterator[Markup]:
    """From below the parent to the separator, and from that to the box under it."""
    x, y = parent.x + 10, on_edge.y + on_edge.height / 2
    yield svg.path([(x, parent.y + parent.height), (x, y), (on_edge.x, y)], class_)
    bottom = on_edge.y + on_edge.height
    yield svg.path([(on_edge.x + 10, bottom), (on_edge.x + 10, bottom + GAP / 2)], class_)


def _separator(box: Box, separator: SubTable) -> Iterator[Markup]:
    class_ = "separator" if separator else "separator none"
    yield svg.box(box.x, box.y, box.width, box.height, "#fff", rx=8, class_=class_)
    yield from box.words


def _clique(box: Box, position: int, clique: SubTable, schema: Schema) -> Iterator[Markup]:
    title = f"clique {position + 1}: {st.label(clique, schema)}"
    yield svg.box(box.x, box.y, box.width, box.height, "#d4e5f3", title, class_="node")
    yield svg.text(box.x + BADGE - 6, box.y + LINE - 1, position + 1, "t strong", anchor="end")
    yield from box.words


def _names(subtable: SubTable, schema: Schema, x: float) -> tuple[str, ...]:
    if not subtable:
        return ("no variable in common",)
    return tuple(wrapped([shorten(name) for name in st.names(subtable, schema)], PAGE - x - 3 * PADDING - 4))


def wrapped(names: Sequence[str], width: float) -> list[str]:
    """The names with commas between, in lines of at most that width."""
    lines = [""]
    for k, name in enumerate(names):
        word = name if k + 1 == len(names) else f"{name}, "
        if lines[-1] and extent(lines[-1] + word) > width:
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines]


def extent(words: str) -> float:
    """About how wide the words are, rather more than less."""
    return sum(_wide(letter) for letter in words)


def _wide(letter: str) -> float:
    if east_asian_width(letter) in "WF":
        return 13.5
    # there is no font to ask: a box that is too wide does no harm, one too narrow cuts a name
    if letter in " ,.:;'|ijlIt()[]f-":
        return 4.8
    return 10.5 if letter.isupper() or letter in "mw@%&" else 7.5
