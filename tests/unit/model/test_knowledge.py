"""What is known of a table: the laws of its union, its parts, and what follows of graphs, judged by NetworkX."""

import pickle
from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from tests.levels import generators, random_pattern
from tests.strategies import as_networkx, czech, every_cell, frontier, knows, releases, schema_of, tables_and_knowledge
from tests.unit.model.test_graph import assert_running_intersection

SCHEMA = schema_of([2, 1, 3, 2, 2])


@hs.composite
def knowledge(draw: hs.DrawFn, schema: Schema = SCHEMA) -> Knowledge:
    """Any release of the same 7 records, and up to three patterns of structural zeros that leave a cell possible."""
    rng, every = draw(generators()), range(len(schema))
    patterns = [random_pattern(rng, schema, every, len(schema)) for _ in range(rng.integers(4))]
    zeros = [pattern for pattern in patterns if any(len(codes) < schema.sizes[v] for v, codes in pattern)]
    return Knowledge(schema, 7, draw(releases(len(schema))), StructuralZeros(tuple(zeros)), NO_FACTS)


WIDER = knowledge() | knowledge(schema_of([2] * 7))


@given(knowledge(), knowledge(), knowledge())
def test_union_is_commutative_associative_and_idempotent(a: Knowledge, b: Knowledge, c: Knowledge) -> None:
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a | a == a


@given(knowledge(), knowledge(), knowledge())
def test_union_is_monotone_and_the_least_that_contains_both(a: Knowledge, b: Knowledge, c: Knowledge) -> None:
    assert (a | b).contains(a)
    assert a.contains(b) == (a | b == a)
    if c.contains(a) and c.contains(b):
        assert c.contains(a | b)
    if a.contains(b):
        assert (a | c).contains(b | c)


@given(knowledge(), knowledge())
def test_union_knows_what_both_know(a: Knowledge, b: Knowledge) -> None:
    both, cells = a | b, every_cell(SCHEMA)
    assert all((t in both.release) == (t in a.release or t in b.release) for t in range(1 << len(SCHEMA)))
    assert (both.impossible(cells) == (a.impossible(cells) | b.impossible(cells))).all()


OTHER = Schema((Variable("A", ("no", "yes")), *SCHEMA.variables[1:]))


@pytest.mark.parametrize(
    ("schema", "records", "message"),
    [
        (schema_of([2, 1]), 7, r"of the variables A, B, C, D, E, the other of A, B;"),
        (OTHER, 7, r"the variable 'A' has other categories"),
        (SCHEMA, 8, r"one is of 7 records, the other of 8; join releases of one table"),
    ],
)
def test_no_union_of_two_tables(schema: Schema, records: int, message: str) -> None:
    other = Knowledge(schema, records, frontier("A"), NO_ZEROS, NO_FACTS)
    with pytest.raises(ReleaseError, match=message):
        _ = Knowledge(SCHEMA, 7, frontier("AC"), NO_ZEROS, NO_FACTS) | other
    assert not Knowledge(SCHEMA, 7, frontier("A"), NO_ZEROS, NO_FACTS).contains(other)


def test_a_release_of_another_table_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"variable number 6; the table has 6, numbered from 0: A, B"):
        knows(czech(), frontier("AB", "BG"))


def test_a_copy_for_a_worker_has_what_is_known_and_nothing_that_follows() -> None:
    known = Knowledge(SCHEMA, 7, frontier("AC", "CD"), NO_ZEROS, NO_FACTS)
    plain = pickle.dumps(known)
    assert known.structure.cover.cliques
    assert known.release.sub_tables(SCHEMA) == 5
    assert known.within(0b101).structure.components.cliques
    assert pickle.dumps(known) == plain
    assert pickle.loads(plain) == known


def test_knowledge_of_another_table_is_refused() -> None:
    known = Knowledge(SCHEMA, 7, frontier("AC"), NO_ZEROS, NO_FACTS)
    with pytest.raises(ReleaseError, match=r"is of 7 records of A, B, C, D, E, the table has 1841 of A, B, C, D, E, F"):
        known.check_is_of(czech())


@given(knowledge())
def test_covered_variables(known: Knowledge) -> None:
    named = {v for pattern in known.zeros.patterns for v, _ in pattern}
    assert st.members(known.structure.covered) == tuple(
        v for v in range(5) if v in named or (st.has(known.release.variables, v) and SCHEMA.sizes[v] > 1)
    )


@given(tables_and_knowledge())
def test_what_agrees_with_the_informed_release_has_the_structural_zeros(example: tuple[Table, Knowledge]) -> None:
    table, known = example
    for pattern, named in zip(known.zeros.patterns, known.zeros.subtables, strict=True):
        assert named in known.structure.informed
        inside = StructuralZeros((pattern,)).within(named)
        assert not inside.contains(table.marginal(named).codes, table.marginal(named).schema).any()


@given(knowledge())
def test_reduced_to_the_covered_variables(known: Knowledge) -> None:
    """What methods are asked: the same marginals and structural zeros, without variables that tell nothing."""
    kept, reduced = st.members(known.structure.covered or 1), known.reduced
    assert reduced.schema == SCHEMA.restrict(kept)
    assert reduced.release == known.structure.essential.within(st.of(kept))
    assert reduced.zeros.patterns == tuple(
        tuple((kept.index(v), codes) for v, codes in pattern) for pattern in known.zeros.patterns
    )
    assert reduced.reduced == reduced


@given(hs.data(), knowledge(), hs.integers(1, 31), hs.integers(1, 31))
def test_within(data: hs.DataObject, known: Knowledge, part: int, smaller: int) -> None:
    inside = known.within(part)
    assert inside == Knowledge(
        known.schema.restrict(st.members(part)), 7, known.release.within(part), known.zeros.within(part), NO_FACTS
    )
    assert known.within(part) is inside
    assert known.within(st.full(5)) is known
    if st.is_within(smaller, part):
        place = {v: new for new, v in enumerate(st.members(part))}
        assert inside.within(st.of(place[v] for v in st.members(smaller))) == known.within(smaller)


@given(knowledge(), knowledge(), hs.integers(1, 31))
def test_the_union_of_parts_is_the_part_of_the_union(a: Knowledge, b: Knowledge, part: int) -> None:
    assert (a | b).within(part) == a.within(part) | b.within(part)


def test_no_part_on_a_variable_that_is_not_there() -> None:
    with pytest.raises(ReleaseError, match="variable number 5; the table has 5"):
        Knowledge(SCHEMA, 7, frontier("A"), NO_ZEROS, NO_FACTS).within(1 << 5)


def judge_of(known: Knowledge) -> nx.Graph:
    """Every variable, and an edge for every two that a released sub-table or a structural zero has together."""
    together = [*known.release.frontier, *known.zeros.subtables]
    return as_networkx(graph.independence_graph(together, len(known.schema)))


def assert_is_junction_tree(tree: Decomposition) -> None:
    """NetworkX builds a maximum spanning tree of the same cliques: its separators are the same, with multiplicity."""
    assert_running_intersection(tree)
    meets = nx.Graph()
    meets.add_nodes_from(range(len(tree.cliques)))
    for a, b in combinations(range(len(tree.cliques)), 2):
        meets.add_edge(a, b, weight=st.dimension(tree.cliques[a] & tree.cliques[b]))
    spanning = nx.maximum_spanning_tree(meets)
    found = sorted(tree.cliques[a] & tree.cliques[b] for a, b in spanning.edges)
    assert found == sorted(tree.separators)


@given(WIDER)
@settings(max_examples=600)
def test_components_are_the_finest_split_at_released_separators(known: Knowledge) -> None:
    """Everything known lies in one component, they are a junction tree, and nothing released separates one."""
    parts, judge = known.structure.components, judge_of(known)
    assert parts.variables == st.full(len(known.schema))
    assert_is_junction_tree(parts)
    assert all(separator in known.release for separator in parts.separators)
    for element in [*known.release.frontier, *known.zeros.subtables]:
        assert any(st.is_within(element, part) for part in parts.cliques)
    for part in parts.cliques:
        for cut in (cut for cut in known.release.views(known.schema) if st.is_within(cut, part) and cut != part):
            assert nx.is_connected(judge.subgraph(st.members(part & ~cut)))


@given(WIDER)
@settings(max_examples=300)
def test_cover(known: Knowledge) -> None:
    """It is decomposable, has the essential release and each structural zero whole, and nothing that nobody named."""
    cover = Release.of(known.structure.cover.cliques)
    assert cover.contains(known.structure.essential)
    assert all(named in cover for named in known.zeros.subtables)
    assert cover.variables == known.structure.covered
    assert_is_junction_tree(known.structure.cover)
    drawn = as_networkx(graph.independence_graph(known.structure.cover.cliques, len(known.schema)))
    judge = drawn.subgraph(st.members(cover.variables))
    if len(judge):
        assert nx.is_chordal(judge)
        assert {st.of(clique) for clique in nx.chordal_graph_cliques(judge)} == set(known.structure.cover.cliques)


@given(knowledge())
def test_variables_of_one_category_fill_nothing(known: Knowledge) -> None:
    """Without them the cover is as large as without them in the schema."""
    varying = [element & known.structure.varying for element in [*known.release.frontier, *known.zeros.subtables]]
    without = graph.chordal_cover(Release.of(varying), 5)
    assert Release.of(clique & known.structure.varying for clique in known.structure.cover.cliques) == without


@given(WIDER)
def test_what_is_decomposable_covers_itself(known: Knowledge) -> None:
    judge = judge_of(replace(known, release=known.structure.essential, zeros=NO_ZEROS))
    cliques = {st.of(c) for c in nx.find_cliques(judge)} - {
        1 << v for v in range(len(known.schema)) if not st.has(known.structure.essential.variables, v)
    }
    is_decomposable = nx.is_chordal(judge) and (cliques or {0}) == set(known.structure.essential.frontier)
    assert (known.structure.decomposition is not None) == is_decomposable
    if known.structure.decomposition is not None:
        assert set(known.structure.decomposition.cliques) == set(known.structure.essential.frontier)
        covering = Release.of(clique & known.structure.varying for clique in known.structure.cover.cliques)
        assert known.structure.is_release_alone == (covering == known.structure.essential)
