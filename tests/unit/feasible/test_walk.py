"""Walks of moves: every table found is feasible, no cell's answer depends on another's, and the moves fit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.bounds import moves as move_bounds
from sdc.bounds.enumeration import enumerate_tables
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.feasible.walk import Moved, find, reached, shift, trie
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Counts, Table
from tests.profiles import scaled
from tests.strategies import (
    all_ways,
    czech,
    dense,
    every_cell,
    frontier,
    gives_feasible,
    knows,
    schema_of,
    tables_and_knowledge,
)
from tests.unit.bounds.test_agreement import SIZES, random_release, random_table
from tests.unit.feasible.test_differences import assert_same

NODES = 300
FEW_NODES = (
    10 if settings.get_current_profile_name() == "ci" else NODES
)  # where no end is to be reached: a cell that cannot move uses all
MOST_TABLES = 5_000
ORDERED_60 = frontier("ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF")


def found_for(table: Table, known: Knowledge, rows: slice = slice(None), width: int = 3) -> Moved:
    """What is found to move the cells, zero cells too, by a width of three."""
    cells = every_cell(table.schema)[rows]
    return find(table, known, cells, np.full(len(cells), width), nodes=FEW_NODES)


# What is found


@given(tables_and_knowledge())
@settings(max_examples=150)
def test_every_table_found_is_feasible(example: tuple[Table, Knowledge]) -> None:
    table, known = example
    for cells, changes in found_for(table, known).differences:
        assert gives_feasible(table, known, cells, changes)


@given(tables_and_knowledge())
@settings(max_examples=150)
def test_inner_is_inside_the_sharp_bounds(example: tuple[Table, Knowledge]) -> None:
    table, known = example
    seen = enumerate_tables(table, known, MOST_TABLES)
    assume(seen.complete)
    bounds = move_bounds.bounds(table, known, every_cell(table.schema))
    assert (bounds.inner[:, 0] >= seen.lower).all()
    assert (bounds.inner[:, 1] <= seen.upper).all()
    assert (bounds.outer[:, 0] <= seen.lower).all()
    assert (bounds.outer[:, 1] >= seen.upper).all()
    assert bounds.method == "moves"


@pytest.mark.parametrize("kind", ["nested", "reducible", "cyclic", "all-ways", "uncovered", "any"])
def test_most_sharp_ends_are_reached(kind: str) -> None:
    """Seven in ten at least of the ends that are not the count itself, where no cell is impossible."""
    rng = np.random.default_rng(len(kind))
    free = hit = 0
    for example in range(scaled(60, fewest=8)):
        table = random_table(rng, SIZES[example % len(SIZES)], dense=rng.random() < 0.3)
        release = random_release(rng, kind, len(table.schema))
        seen = enumerate_tables(table, knows(table, release), MOST_TABLES)
        if seen.complete:
            bounds = move_bounds.bounds(table, knows(table, release), every_cell(table.schema))
            sharp = np.stack([seen.lower, seen.upper], axis=1)
            moving = sharp != bounds.counts[:, None]
            free, hit = free + int(moving.sum()), hit + int((bounds.inner == sharp)[moving].sum())
    assert free > scaled(50)
    assert hit >= 0.7 * free


def impossible_pairs(rng: np.random.Generator, table: Table) -> StructuralZeros:
    """Up to two pairs of categories of the first two variables that no record has."""
    there = {tuple(codes) for codes in table.codes[:, :2].tolist()}
    absent = [
        (a, b) for a, b in product(range(table.schema.sizes[0]), range(table.schema.sizes[1])) if (a, b) not in there
    ]
    rng.shuffle(absent)
    return StructuralZeros(tuple(((0, (a,)), (1, (b,))) for a, b in absent[:2]))


def test_nearly_every_width_that_there_is_is_reached() -> None:
    """Of occupied cells whose exact bounds are 3 apart, with structural zeros too, at most one in 20 is missed."""
    rng, there, missed = np.random.default_rng(3), 0, 0
    for example in range(scaled(300, fewest=30)):
        table = random_table(rng, SIZES[example % len(SIZES)], dense=rng.random() < 0.5)
        zeros = impossible_pairs(rng, table)
        release = random_release(rng, ("nested", "cyclic", "any")[example % 3], len(table.schema))
        known = knows(table, release, zeros)
        seen = enumerate_tables(table, known, MOST_TABLES)
        if seen.complete and len(table):
            at = np.ravel_multi_index(tuple(table.codes.T.astype(np.int64)), table.schema.sizes)
            wide = seen.upper[at] - seen.lower[at] >= 3
            found = find(table, known, table.codes, np.full(len(table), 3), nodes=NODES)
            ends = reached(found.differences, table.codes, table.counts, table)
            assert (seen.lower[at] <= ends[:, 0]).all()
            assert (ends[:, 1] <= seen.upper[at]).all()
            there, missed = there + int(wide.sum()), missed + int((wide & (ends[:, 1] - ends[:, 0] < 3)).sum())
    assert there > scaled(100, fewest=10)
    assert missed <= there / 20


@given(tables_and_knowledge())
@settings(max_examples=80)
def test_a_cell_does_not_depend_on_the_others(example: tuple[Table, Knowledge]) -> None:
    table, known = example
    together = found_for(table, known)
    alone = [found_for(table, known, slice(i, i + 1)) for i in range(table.schema.cells)]
    assert_same(Differences.concatenated([one.differences for one in alone]), together.differences)
    assert sum(one.nodes for one in alone) == together.nodes


@given(tables_and_knowledge())
@settings(max_examples=60)
def test_the_same_again_whatever_was_searched_before(example: tuple[Table, Knowledge]) -> None:
    table, known = example
    first = found_for(table, known)
    found_for(table, known, slice(None, None, -1), width=1)
    found_for(table, replace(known, zeros=NO_ZEROS))
    assert_same(found_for(table, known).differences, first.differences)
    walk._walker.cache_clear()
    again = found_for(table, known)
    assert_same(again.differences, first.differences)
    assert again.nodes == first.nodes


def test_threads_that_search_at_once_find_what_each_finds_alone() -> None:
    """Kernels run without Python's lock: in shared scratch arrays the walks would overwrite each other's."""
    table, known = czech(), knows(czech(), all_ways(6, 3))
    alone = found_for(table, known)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: found_for(table, known), range(200)):
            assert_same(found.differences, alone.differences)
            assert found.nodes == alone.nodes


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        *(("nested", 2), ("cyclic", -2), ("all-ways", 2), ("any", -2)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("nested", -2), ("cyclic", 2), ("all-ways", -2), ("any", 2))
        ),
    ],
)
def test_walks_from_a_table_found_are_those_of_that_table(kind: str, by: int) -> None:
    """And afterwards those from the true one are as before."""
    tried, rng = 0, np.random.default_rng(7)
    while tried < scaled(10, fewest=3):
        table = random_table(rng, SIZES[int(rng.integers(len(SIZES)))], dense=rng.random() < 0.5)
        release = random_release(rng, kind, len(table.schema))
        cells, known = every_cell(table.schema), knows(table, release)
        first = found_for(table, known)
        for number in {0, len(first.differences) - 1} if len(first.differences) else ():
            base = first.differences.at(np.array([number]))
            start = made_of(table, base)
            changes = start.count_at(cells) - table.count_at(cells) + by
            found = shift(table, known, cells, changes, nodes=FEW_NODES, base=base)
            own = shift(start, knows(start, release), cells, np.full(len(cells), by), nodes=FEW_NODES)
            assert all_made_of(table, found) == all_made_of(start, own)
            assert found.nodes == own.nodes
            tried += len(own.differences) > 0
        assert_same(found_for(table, known).differences, first.differences)


def all_made_of(table: Table, found: Moved) -> list[Table]:
    return [made_of(table, found.differences.at(np.array([i]))) for i in range(len(found.differences))]


def made_of(table: Table, difference: Differences) -> Table:
    """What one difference makes of a table."""
    cells = every_cell(table.schema)
    counts = table.count_at(cells)
    counts[table.schema.keys.matching(cells, difference.cells)] += difference.changes
    return Table.of(table.schema, cells, counts)


@given(tables_and_knowledge())
@settings(max_examples=60)
def test_what_serves_one_cell_is_reached_by_all(example: tuple[Table, Knowledge]) -> None:
    """`reached` is the range of the dense tables, and no cell asked for moves by less than nothing."""
    table, known = example
    cells = every_cell(table.schema)
    found = found_for(table, known).differences
    counts = table.count_at(cells)
    tables = np.tile(counts, (len(found) + 1, 1))
    for row, (changed, changes) in enumerate(found, start=1):
        tables[row, np.ravel_multi_index(tuple(changed.T.astype(np.int64)), table.schema.sizes)] += changes
    ends = reached(found, cells, counts, table)
    assert np.array_equal(ends, np.stack([tables.min(axis=0), tables.max(axis=0)], axis=1))


# One way only


def shifted(
    table: Table, known: Knowledge, changes: Counts, rows: slice = slice(None), nodes: int = FEW_NODES
) -> Moved:
    return shift(table, known, every_cell(table.schema)[rows], changes[rows], nodes=nodes)


def wanted(data: hs.DataObject, table: Table) -> Counts:
    """A change for every cell, some of them none, of either sign and beyond what there is."""
    number = table.schema.cells
    return np.array(data.draw(hs.lists(hs.integers(-4, 4), min_size=number, max_size=number)), np.int64)


@given(hs.data())
@settings(max_examples=120)
def test_a_shift_is_reached_or_not_overshot(data: hs.DataObject) -> None:
    """One feasible table at most for each cell, in which it has moved the way it was asked to and no farther."""
    table, known = data.draw(tables_and_knowledge())
    cells, changes = every_cell(table.schema), wanted(data, table)
    for row in range(0, len(cells), 3):
        found = shifted(table, known, changes, slice(row, row + 1)).differences
        assert len(found) <= 1
        for changed, by in found:
            assert gives_feasible(table, known, changed, by)
            moved = int(by[(changed == cells[row]).all(axis=1)].sum())
            assert 0 < moved * np.sign(changes[row]) <= abs(changes[row])


@given(hs.data())
@settings(max_examples=80)
def test_shifts_do_not_depend_on_each_other(data: hs.DataObject) -> None:
    table, known = data.draw(tables_and_knowledge())
    changes = wanted(data, table)
    together = shifted(table, known, changes)
    alone = [shifted(table, known, changes, slice(i, i + 1)) for i in range(table.schema.cells)]
    assert_same(Differences.concatenated([one.differences for one in alone]), together.differences)
    assert sum(one.nodes for one in alone) == together.nodes
    assert all(one.nodes <= FEW_NODES + 1 for one in alone)


@given(tables_and_knowledge(), hs.integers(1, 4))
@settings(max_examples=80)
def test_a_shift_is_one_way_of_find(example: tuple[Table, Knowledge], width: int) -> None:
    """Down and then up by what is left of the width, with the nodes that are left."""
    table, known = example
    for row, cell in enumerate(every_cell(table.schema)):
        one, count = slice(row, row + 1), int(table.count_at(cell[None])[0])
        both = found_for(table, known, one, width)
        down = shifted(table, known, np.full(table.schema.cells, -min(count, width)), one)
        gone = -int(sum(by[(cells == cell).all(axis=1)].sum() for cells, by in down.differences))
        rest = np.full(table.schema.cells, width - gone)
        up = shifted(table, known, rest, one, FEW_NODES - down.nodes)
        assert_same(Differences.concatenated([down.differences, up.differences]), both.differences)
        assert down.nodes + up.nodes == both.nodes


@given(tables_and_knowledge())
@settings(max_examples=80)
def test_shifts_end_inside_the_sharp_bounds(example: tuple[Table, Knowledge]) -> None:
    table, known = example
    seen = enumerate_tables(table, known, MOST_TABLES)
    assume(seen.complete)
    cells = every_cell(table.schema)
    counts = table.count_at(cells)
    for sign, end in ((-1, seen.lower), (1, seen.upper)):
        found = shifted(table, known, np.full(len(cells), sign * 9)).differences
        ends = reached(found, cells, counts, table)
        assert (ends[:, 0] >= seen.lower).all()
        assert (ends[:, 1] <= seen.upper).all()
        exact = shifted(table, known, end - counts).differences
        assert len(exact) <= int((end != counts).sum())


def test_shifts_reach_the_ends_of_a_decomposable_release() -> None:
    """Independent A and B, as above; by one, by all there is, by more than there is, and by nothing."""
    table = dense(schema_of([2, 2]), [5, 3, 2, 4])
    release = all_ways(2, 1)
    for change, end in ((-4, 1), (-9, 1), (-1, 4), (1, 6), (2, 7), (9, 7)):
        (found,) = shift(table, knows(table, release), table.codes[:1], np.array([change]), nodes=NODES).differences
        assert 5 + found[1][(found[0] == 0).all(axis=1)].sum() == end
    nothing = shift(table, knows(table, release), table.codes, np.zeros(4, np.int64), nodes=NODES)
    assert (len(nothing.differences), nothing.nodes) == (0, 0)
    spent = shift(table, knows(table, release), table.codes, np.full(4, 1), nodes=0)
    assert (len(spent.differences), spent.nodes) == (0, 0)


def test_a_table_that_is_too_large_is_not_shifted() -> None:
    table = table_of([2] * 21)
    with pytest.raises(ReleaseError, match="21 variables with 2097152 cells are too many for"):
        shift(table, knows(table, Release.of([1])), table.codes, np.ones(1, np.int64), nodes=NODES)


# Published tables, and limits


def test_the_published_czech_release_is_certified() -> None:
    """REFERENCE section 2: sharp bounds [0, 10], [0, 9], [0, 9]; width 6 is what the release is published for."""
    table = czech()
    cells = table.codes[table.at_risk(2)]
    found = find(table, knows(table, ORDERED_60), cells, np.full(3, 6), nodes=NODES)
    inner = reached(found.differences, cells, table.count_at(cells), table)
    assert (inner[:, 1] - inner[:, 0] >= 6).all()
    assert (inner >= 0).all()
    assert (inner[:, 1] <= [10, 9, 9]).all()


def test_a_decomposable_release_is_moved_to_its_ends() -> None:
    """Independent A and B: one square move after the other reaches the explicit bounds."""
    table = dense(schema_of([2, 2]), [5, 3, 2, 4])
    bounds = move_bounds.bounds(table, knows(table, all_ways(2, 1)), every_cell(table.schema))
    assert bounds.inner.tolist() == [[1, 7], [1, 7], [0, 6], [0, 6]]


def test_the_only_table_of_its_kind_does_not_move() -> None:
    """A square whose one corner is impossible: nothing can move, whatever linear programming says."""
    table, zeros = dense(schema_of([2, 2]), [0, 2, 1, 3]), StructuralZeros((((0, (0,)), (1, (0,))),))
    assert len(found_for(table, knows(table, all_ways(2, 1))).differences)
    assert len(found_for(table, knows(table, all_ways(2, 1), zeros)).differences) == 0


@pytest.mark.parametrize("release", [Release.of([st.full(6)]), Release.of([st.full(6), 3])])
def test_a_release_of_the_full_table_moves_nothing(release: Release) -> None:
    table = czech()
    known = knows(table, release)
    assert len(found_for(table, known).differences) == 0
    bounds = move_bounds.bounds(table, known, table.codes)
    assert (bounds.inner == table.counts[:, None]).all()


def test_no_cells_no_width_no_nodes_no_records() -> None:
    table, cells = czech(), czech().codes
    nothing = np.zeros(len(cells), np.int64)
    assert len(find(table, knows(table, ORDERED_60), cells[:0], nothing[:0], nodes=NODES).differences) == 0
    assert find(table, knows(table, ORDERED_60), cells, nothing, nodes=NODES).nodes == 0
    assert find(table, knows(table, ORDERED_60), cells, nothing + 6, nodes=0).nodes == 0
    empty = Table.of(schema_of([2, 3, 2]), np.empty((0, 3), np.int64))
    assert len(found_for(empty, knows(empty, all_ways(3, 2))).differences) == 0


def test_the_nodes_given_are_the_most_that_are_used() -> None:
    table = czech()
    cells = table.codes[table.at_risk(2)]
    for nodes in (1, 10, 100):
        found = find(table, knows(table, all_ways(6, 5)), cells, np.full(3, 6), nodes=nodes)
        assert found.nodes <= 3 * nodes + 3


# What is refused


def table_of(sizes: list[int]) -> Table:
    return Table.of(schema_of(sizes), np.zeros((1, len(sizes)), np.uint16))


@pytest.mark.parametrize("sizes", [[2] * 21, [8] * 20, [65_536] * 4])
def test_a_table_that_is_too_large_is_refused(sizes: list[int]) -> None:
    table = table_of(sizes)
    assert not walk.can_search(table)
    with pytest.raises(ReleaseError, match=rf"{len(sizes)} variables with {table.schema.cells} cells are too many for"):
        find(table, knows(table, Release.of([1])), table.codes, np.ones(1, np.int64), nodes=NODES)


def test_the_largest_table_is_searched() -> None:
    table = table_of([2] * 20)
    assert walk.can_search(table)
    found = find(table, knows(table, Release.of([1])), table.codes, np.ones(1, np.int64), nodes=NODES)
    assert len(found.differences) == 1
    assert found.differences.feasible(table, knows(table, Release.of([1]))).all()


def test_a_variable_that_the_table_does_not_have() -> None:
    with pytest.raises(ReleaseError, match="variable number 6; the table has 6"):
        found_for(czech(), knows(czech(), frontier("AB", "BG")))


# The moves


def sets_of(variable: Counts, begin: Counts, end: Counts, node: int = 0, above: int = 0) -> list[int]:
    """What the leaves below a node of the trie stand for."""
    if node and begin[node] == end[node]:
        return [above]
    children = range(begin[node], end[node])
    return [s for child in children for s in sets_of(variable, begin, end, child, above | 1 << int(variable[child]))]


@given(tables_and_knowledge())
@settings(max_examples=100)
def test_the_trie_has_the_smallest_unreleased_sets(example: tuple[Table, Knowledge]) -> None:
    """A move of fewer variables would change a released marginal; structural zeros are no part of it."""
    _, known = example
    assert sorted(sets_of(*trie(known.structure.minimal_unreleased))) == sorted(known.structure.minimal_unreleased)


def test_moves_leave_variables_of_one_category_alone() -> None:
    known = Knowledge(schema_of([2, 1, 3]), 1, NOTHING, NO_ZEROS, NO_FACTS)
    assert sets_of(*trie(known.structure.minimal_unreleased)) == [1, 4]


def test_a_trie_of_no_set_is_a_root() -> None:
    assert [column.tolist() for column in trie([])] == [[0], [1], [1]]
