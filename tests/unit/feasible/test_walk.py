"""Walks of moves: every table found is feasible, no cell's answer depends on another's, and the moves fit."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.feasible import walk
from sdc.feasible.walk import Moved, find, reached, shift, trie
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Counts, Table
from tests.levels import random_case
from tests.profiles import scaled
from tests.strategies import (
    ORDERED_60,
    all_ways,
    czech,
    dense,
    every_cell,
    frontier,
    gives_feasible,
    knows,
    schema_of,
    subtable,
    tables_and_knowledge,
)
from tests.unit.feasible.test_differences import assert_same

NODES = 300
FEW_NODES = (
    10 if settings.get_current_profile_name() == "ci" else NODES
)  # where no end is to be reached: a cell that cannot move uses all


def found_for(table: Table, known: Knowledge, rows: slice = slice(None), width: int = 3) -> Moved:
    """What is found to move the cells, zero cells too, by a width of three."""
    cells = every_cell(table.schema)[rows]
    return find(table, known, cells, np.full(len(cells), width), nodes=FEW_NODES)


# What is found


def test_nearly_every_width_that_there_is_is_reached() -> None:
    """Of occupied cells whose exact bounds are 3 apart, with levels and zeros too, at most one in 20 is missed."""
    rng, there, missed = np.random.default_rng(3), 0, 0
    for _ in range(scaled(300, fewest=30)):
        of = random_case(rng)
        table, (low, high) = of.table, of.sharp_at(of.table.codes).T
        found = find(table, of.known, table.codes, np.full(len(table), 3), nodes=NODES)
        ends = reached(found.differences, table.codes, table.counts, table)
        assert (low <= ends[:, 0]).all()
        assert (ends[:, 1] <= high).all()
        wide, narrow = high - low >= 3, ends[:, 1] - ends[:, 0] < 3
        there, missed = there + int(wide.sum()), missed + int((wide & narrow).sum())
    assert there > scaled(100, fewest=10)
    assert missed <= there / 20


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


def test_on_a_long_axis_the_ends_of_a_decomposable_release_are_reached() -> None:
    """Of 700 categories some are looked at each time; the ends follow from n(ab) and n(bc) ([DF])."""
    rng = np.random.default_rng(9)
    table = dense(schema_of([700, 4, 3]), rng.poisson(0.7, 700 * 12).tolist())
    cells = table.codes[table.counts == 1][::40]
    areas, both = table.marginal(subtable("AB")).dense, table.marginal(subtable("BC")).dense
    a, b, c = cells.T
    upper = np.minimum(areas[a, b], both[b, c])
    found = find(table, knows(table, frontier("AB", "BC")), cells, upper, nodes=NODES)
    ends = reached(found.differences, cells, table.count_at(cells), table)
    assert (ends[:, 0] == 0).all()
    assert (ends[:, 1] == upper).all()


# Published tables, and limits


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
    """A move of fewer variables would change a released marginal; structural zeros are not part of it."""
    _, known = example
    assert sorted(sets_of(*trie(known.structure.minimal_unreleased))) == sorted(known.structure.minimal_unreleased)
