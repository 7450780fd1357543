"""Axes and levels against their definitions, by listing: what a sub-table tells, what is closed, how releases count."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release, sum_of_products
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import NO_ZEROS
from tests import reference
from tests.levels import (
    CASES,
    Case,
    Rng,
    axis_of,
    bits,
    cases,
    categories,
    cells_of,
    closed_sets,
    closure,
    dense_of,
    generators,
    impossible_cells,
    marginal,
    members,
    named,
    partition,
    random_release,
    schemas,
)


def within(subtable: int, sets: list[int]) -> set[int]:
    return {t for t in sets if t & ~subtable == 0 and t != subtable}


def largest(sets: set[int]) -> set[int]:
    return {t for t in sets if not any(t != u and t & ~u == 0 for u in sets)}


def released_by(sets: list[int], release: Release) -> list[int]:
    """The closed sets that are public: those within one that was released."""
    return [t for t in sets if any(t & ~element == 0 for element in release.frontier)]


@given(schemas(), generators())
@settings(max_examples=CASES)
def test_a_closed_sub_table_has_all_that_it_tells(schema: Schema, rng: Rng) -> None:
    sets = set(closed_sets(schema))
    for subtable in rng.integers(0, 1 << len(schema), 30).tolist():
        closed = schema.levels.closed(subtable)
        assert closed == closure(schema, subtable)
        assert (subtable in sets) == (closed == subtable)
        assert partition(schema, closed) == partition(schema, subtable)
        told = schema.levels.finest(closed)
        assert schema.levels.closed(told) == closed
        assert partition(schema, told) == partition(schema, subtable)
        axes = [axis_of(schema, v) for v in members(told)]
        assert len(set(axes)) == len(axes) == st.ways(closed, schema)
        assert st.cells(closed, schema) == np.prod([schema.sizes[v] for v in members(told)], dtype=int)
    assert st.many_ways(np.array(sorted(sets)), schema).tolist() == [st.ways(t, schema) for t in sorted(sets)]


@given(schemas())
@settings(max_examples=CASES)
def test_coarser_and_finer_variables(schema: Schema) -> None:
    axes = [v for v in range(len(schema)) if axis_of(schema, v) == v]
    assert schema.axes == tuple(axes)
    assert schema.levels.axis_of == tuple(axis_of(schema, v) for v in range(len(schema)))
    told = [closure(schema, 1 << v) & ~(1 << v) for v in range(len(schema))]
    assert schema.levels.coarser == tuple(told)
    assert schema.levels.coarsest(2 ** len(schema) - 1) == bits(v for v in range(len(schema)) if not told[v])
    for v in range(len(schema)):
        axis = axis_of(schema, v)
        assert schema.levels.of_axis[v] == bits(u for u in range(len(schema)) if axis_of(schema, u) == axis)
        finer = {u for u in range(len(schema)) if told[u] >> v & 1}
        assert schema.levels.finer(v) == bits(finer)
        assert schema.levels.coarsest(bits(finer)) == bits(u for u in finer if not any(told[u] >> w & 1 for w in finer))
        assert schema.levels.just_coarser(v) == bits(
            u for u in members(told[v]) if not any(told[w] >> u & 1 for w in members(told[v]))
        )


@given(schemas())
@settings(max_examples=CASES)
def test_the_lattice_of_closed_sub_tables(schema: Schema) -> None:
    """Children are the largest within, parents the smallest around, each once; sub-sets are all within."""
    sets = closed_sets(schema)
    for subtable in sets:
        found = {name: list(getattr(st, name)(subtable, schema)) for name in ("children", "parents", "subsets")}
        assert all(len(set(some)) == len(some) for some in found.values())
        assert set(found["children"]) == largest(within(subtable, sets))
        assert set(found["parents"]) == {t for t in sets if subtable in largest(within(t, sets))}
        assert set(found["subsets"]) == {subtable, *within(subtable, sets)}


@given(schemas(), generators())
@settings(max_examples=CASES // 2)
def test_names_close_and_labels_tell(schema: Schema, rng: Rng) -> None:
    subtable = int(rng.integers(1, 1 << len(schema)))
    names = [schema.names[v] for v in members(subtable)]
    closed = closure(schema, subtable)
    assert st.named(names, schema) == st.parse("*".join(names), schema) == closed
    assert st.parse(st.label(closed, schema), schema) == closed
    assert set(st.names(closed, schema)) <= {schema.names[v] for v in members(closed)}


@given(schemas(), generators())
@settings(max_examples=CASES)
def test_a_restricted_schema_tells_the_same(schema: Schema, rng: Rng) -> None:
    """Of a marginal cell its variables have the groups that they have of its cells."""
    subtable = closure(schema, int(rng.integers(1, 1 << len(schema))))
    kept = tuple(rng.permutation(members(subtable)).tolist())
    inside = schema.restrict(kept)
    assert inside.names == tuple(schema.names[v] for v in kept)
    assert [v.categories for v in inside.variables] == [schema.variables[v].categories for v in kept]
    finest = [schema.names.index(inside.names[axis]) for axis in inside.axes]
    for cell in cells_of(schema):
        told = categories(schema, finest, cell)
        assert categories(inside, range(len(inside)), told) == categories(schema, kept, cell)


@given(schemas(), generators())
@settings(max_examples=CASES // 2)
def test_what_is_not_closed_is_no_schema(schema: Schema, rng: Rng) -> None:
    """Variables of an axis of which none tells the others; or two without what both tell, where another tells all."""
    kept = members(int(rng.integers(1, 1 << len(schema))))
    of_axes = [[u for u in kept if axis_of(schema, u) == axis] for axis in {axis_of(schema, v) for v in kept}]
    told = {partition(schema, 1 << v) for v in kept}
    if not all(any(bits(own) & ~closure(schema, 1 << u) == 0 for u in own) for own in of_axes):
        with pytest.raises(ValueError, match="implies the others, close the sub-table"):
            schema.restrict(kept)
    elif all(partition(schema, 1 << v | 1 << u) in told for own in of_axes for v in own for u in own):
        assert len(schema.restrict(kept)) == len(kept)
    else:
        with pytest.raises(InputError, match="overlap, and their common refinement is not a level"):
            schema.restrict(kept)


@given(schemas())
@settings(max_examples=CASES)
def test_refinements_are_what_levels_tell_together(schema: Schema) -> None:
    """Once added there are no more; without one that two levels need it is no schema."""
    assert with_refinements(schema.variables) == schema
    blocks = {v: partition(schema, 1 << v) for v in range(len(schema))}
    assert all(len(some) > 1 for v, some in blocks.items() if schema.variables[v].of is not None)
    for v in range(len(schema)):
        for u in range(v):
            if axis_of(schema, v) == axis_of(schema, u):
                assert blocks[v] != blocks[u]
                assert partition(schema, 1 << v | 1 << u) in blocks.values()
    for name in [name for name in schema.names if " & " in name]:
        left = tuple(v for v in schema.variables if v.name != name)
        added = with_refinements(left)
        assert len(added) >= len(schema)
        if len(added) > len(left):
            with pytest.raises(InputError, match="overlap, and their common refinement is not a level"):
                Schema(left)


def test_refinements_of_overlapping_levels() -> None:
    age = Variable("age", ("1", "2", "3", "4"))
    low = Variable("low", ("1", "2-4"), Coarser("age", (0, 1, 1, 1)))
    high = Variable("high", ("1-3", "4"), Coarser("age", (0, 0, 0, 1)))
    schema = with_refinements([high, age, low])
    assert schema.names == ("high", "age", "low", "high & low")
    assert schema.variables[3].categories == ("1-3 & 1", "1-3 & 2-4", "4 & 2-4")
    assert schema.variables[3].of == Coarser("age", (0, 1, 1, 2))
    assert schema.levels.closed(0b0101) == 0b1101
    assert st.label(0b1101, schema) == "high & low"


@given(schemas(), generators())
@settings(max_examples=CASES)
def test_releases_count_closed_sub_tables(schema: Schema, rng: Rng) -> None:
    sets, release = closed_sets(schema), Release.of(random_release(rng, schema)).closed(schema)
    public = released_by(sets, release)
    assert len(set(public)) == len(public) == release.sub_tables_with_total(schema) == release.sub_tables(schema) + 1
    views = release.views(schema)
    assert (len(views), set(views)) == (len(public), set(public))
    ways = [st.ways(t, schema) for t in views]
    assert ways == sorted(ways, reverse=True)
    assert release.by_dimension(schema) == tuple(ways.count(k) for k in range(max(ways) + 1))
    values = [Fraction(int(n), 7) for n in rng.integers(-5, 9, len(schema))]
    products = [prod(values[v] for v in members(schema.levels.finest(t))) for t in public]
    assert sum_of_products(release, values, schema) == sum(products)


@given(schemas(), generators())
@settings(max_examples=CASES)
def test_releases_are_closed_whatever_is_joined(schema: Schema, rng: Rng) -> None:
    """Of sub-tables each alone: two that each tell a level of an axis do not tell it together."""
    one, other = (tuple(random_release(rng, schema)) for _ in range(2))
    closed = Release.of([*one, *other]).closed(schema)
    assert closed == Release.of(one).closed(schema).join(Release.of(other).closed(schema))
    assert all(schema.levels.closed(element) == element for element in closed.frontier)
    assert {closure(schema, t) for t in (*one, *other)} >= set(closed.frontier) - {0}


@given(cases(), generators())
@settings(max_examples=CASES)
def test_marginals_are_sums_over_groups(of: Case, rng: Rng) -> None:
    schema = of.schema
    subtable = closure(schema, int(rng.integers(0, 1 << len(schema))))
    sums, groups = reference.marginal(dense_of(of.table), named(schema, subtable)), marginal(schema, subtable)
    keys = [categories(schema, members(subtable), cell) for cell in of.cells.tolist()]
    expected = [sums[key] for key in keys]
    assert of.table.marginal_at(subtable, of.cells).tolist() == expected
    marginals = CellMarginals(of.table, of.cells)
    assert marginals.at(subtable).tolist() == marginals.count(subtable).tolist() == expected
    assert schema.shared(subtable, of.cells).tolist() == [len(groups[key]) > 1 for key in keys]
    if not subtable:
        return
    told, table = schema.levels.finest(subtable), of.table.marginal(subtable)
    assert table.schema == schema.restrict(members(subtable))
    rows = zip(table.codes.tolist(), table.counts.tolist(), strict=True)
    found = {categories(table.schema, range(len(table.schema)), cell): count for cell, count in rows}
    assert found == {key: total for key, total in sums.items() if total}
    marginal_cells = [list(categories(schema, members(told), cell)) for cell in of.cells.tolist()]
    assert schema.marginal_cells(of.cells, subtable).tolist() == marginal_cells


@given(cases())
@settings(max_examples=CASES // 2)
def test_columns_and_one_way_counts(of: Case) -> None:
    schema = of.schema
    every = [list(categories(schema, range(len(schema)), cell)) for cell in of.table.codes.tolist()]
    assert of.table.all_codes.tolist() == every
    assert of.table.flat.codes.tolist() == every if len(of.table) else True
    for v, counted in enumerate(of.table.one_way()):
        column = np.array([row[v] for row in every], np.int64)
        assert counted.tolist() == np.bincount(column, of.table.counts, schema.sizes[v]).astype(int).tolist()


@given(cases(), generators())
@settings(max_examples=CASES // 2)
def test_impossible_cells_and_the_marginal_cells_that_have_no_other(of: Case, rng: Rng) -> None:
    schema, wrong = of.schema, set(impossible_cells(of.schema, of.zeros))
    assert of.zeros.contains(of.cells, schema).tolist() == [cell in wrong for cell in cells_of(schema)]
    told = schema.levels.finest(closure(schema, int(rng.integers(0, 1 << len(schema)))))
    flags = of.zeros.excluded(closure(schema, told), schema)
    assert flags.shape == tuple(schema.sizes[v] for v in members(told))
    assert all(flags[key] == (wrong >= set(inside)) for key, inside in marginal(schema, told).items())


@given(cases())
@settings(max_examples=CASES // 2)
def test_levels_as_variables_of_their_own(of: Case) -> None:
    """Exactly the cells that follow them are possible there."""
    flat, schema = of.known.flat, of.schema
    if not flat.schema.levels.is_flat or flat.schema.cells > 20_000:
        return
    assert flat.schema.names == schema.names
    every = flat.schema.keys.unpack(np.arange(flat.schema.cells))
    possible = set(map(tuple, every[~flat.impossible(every)].tolist()))
    wrong = set(impossible_cells(schema, of.zeros))
    assert possible == {categories(schema, range(len(schema)), cell) for cell in cells_of(schema) if cell not in wrong}


@given(cases())
@settings(max_examples=CASES)
def test_what_is_known_is_closed(of: Case) -> None:
    known, schema, structure = of.known, of.schema, of.known.structure
    assert known.release == Release.of(of.subtables).closed(schema)
    closed = [structure.components, structure.cover, *([structure.decomposition] if structure.decomposition else [])]
    for split in (*closed, *structure.spanning_sequences):
        # a sequence may leave a level to an earlier clique: then it is of less than is known, as its bounds may be
        assert all(schema.levels.closed(s) == s for s in (*split.cliques, *split.separators)) or split not in closed
        for j, separator in enumerate(split.separators, start=1):
            assert split.cliques[j] & bits(v for c in split.cliques[:j] for v in members(c)) == separator
            assert any(separator & ~earlier == 0 for earlier in split.cliques[:j])
    assert all(clique in known.release for split in structure.spanning_sequences for clique in split.cliques)
    informed = structure.informed
    covers = structure.cover.cliques
    assert all(any(t & ~clique == 0 for clique in covers) for t in (*informed.frontier, *known.zeros.subtables))
    assert all(separator in known.release for separator in structure.components.separators)
    parts = structure.components.cliques
    assert bits(v for part in parts for v in members(part)) == bits(range(len(schema)))
    together = [*known.release.frontier, *known.zeros.subtables, *(schema.levels.of_axis[axis] for axis in schema.axes)]
    assert all(any(t & ~part == 0 for part in parts) for t in together)


@given(cases())
@settings(max_examples=CASES // 2)
def test_floating_cells_may_lose_all_their_records(of: Case) -> None:
    """To another of the cells that everything released leaves together with them; without structural zeros."""
    floating = of.known.is_floating(of.cells)
    union = closure(of.schema, of.known.release.variables)
    inside = marginal(of.schema, union)
    alone = [len(inside[categories(of.schema, members(union), cell)]) == 1 for cell in of.cells.tolist()]
    assert floating.tolist() == [not one for one in alone]
    if not of.zeros:
        assert (of.sharp[floating, 0] == 0).all()


OVERLAPPING = (
    Variable("A", tuple("1234")),
    Variable("low", ("12", "3", "4"), Coarser("A", (0, 0, 1, 2))),
    Variable("mid", ("1", "23", "4"), Coarser("A", (0, 1, 1, 2))),
    Variable("B", ("b", "c")),
    Variable("C", ("d", "e")),
)


def test_a_release_of_levels_that_overlap_is_not_explicit() -> None:
    """{12|3|4} with B and {1|23|4} with C: there is no tree of these two, but one with a component of what A is."""
    schema = Schema(OVERLAPPING)
    known = Knowledge(schema, 9, Release.of([st.parse("low*B", schema), st.parse("mid*C", schema)]), NO_ZEROS, NO_FACTS)
    assert known.structure.decomposition is None
    split = known.structure.components
    labels = [st.label(part, schema) for part in (*split.cliques, *split.separators)]
    assert labels == ["A", "low*B", "mid*C", "low", "mid"]


@pytest.mark.parametrize(
    ("levels", "match"),
    [
        ({"a": ("B", (0, 1, 1))}, "'a' is a level of 'B', which is not a variable of the table"),
        ({"a": ("A", (0, 1))}, "'a' is not a partition of the 3 categories of 'A'"),
        ({"a": ("A", (0, 1, 1, 1))}, "'a' is not a partition of the 3 categories of 'A'"),
        ({"a": ("A", (0, 2, 2))}, "'a' is not a partition of the 3 categories of 'A'"),
        ({"a": ("A", (0, 0, 0))}, "'a' of 'A' has one group, so it has no effect"),
        ({"a": ("A", (2, 0, 1))}, "'(a|A)' and '(a|A)' are the same partition of the categories of 'A'"),
        ({"a": ("A", (0, 1, 1)), "b": ("A", (1, 0, 0))}, "'a' and 'b' are the same partition"),
        ({"a": ("A", (0, 1, 1)), "b": ("a", (0, 1))}, "'b' is a level of 'a', which is not a variable of the table"),
    ],
)
def test_what_is_no_level(levels: dict[str, tuple[str, tuple[int, ...]]], match: str) -> None:
    axis = Variable("A", ("x", "y", "z"))
    with pytest.raises(InputError, match=match):
        Schema(
            (axis, *(Variable(n, tuple(map(str, range(max(g) + 1))), Coarser(a, g)) for n, (a, g) in levels.items()))
        )
