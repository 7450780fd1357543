"""Differences from the true table: put together, taken apart, and held against dense tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.feasible.differences import MAX_LISTED, Differences
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import MAX_TOTAL, Table
from tests.strategies import dense, differences, frontier, knows, schema_of, small_tables

CUBE = schema_of([2, 2, 2])
# counts 2, 0 / 1, 1 where C = 0 and 0, 3 / 1, 0 where C = 1; rows A, columns B
TABLE = dense(CUBE, [2, 0, 0, 3, 1, 1, 1, 0])
ALL_PAIRS = frontier("AB", "AC", "BC")


def difference(*entries: tuple[str, int]) -> Differences:
    """`difference(("000", 1), ("111", -1))`: one difference, cells by their codes."""
    cells = np.array([[int(code) for code in cell] for cell, _ in entries], np.uint16)
    return Differences(np.array([0, len(entries)]), cells, np.array([change for _, change in entries], np.int64))


SQUARE = difference(("000", -1), ("011", -1), ("001", 1), ("010", 1))


def assert_same(found: Differences, expected: Differences) -> None:
    for name in ("start", "cells", "changes"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name


def listed(found: Differences) -> list[list[tuple[tuple[int, ...], int]]]:
    return [list(zip(map(tuple, cells.tolist()), changes.tolist(), strict=True)) for cells, changes in found]


# Put together


def test_changes_of_one_cell_are_added_up_and_those_that_cancel_are_left_out() -> None:
    cells = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1], [1, 1, 1]], np.uint16)
    found = Differences.summed(2, np.array([0, 0, 0, 0, 0]), cells, np.array([1, -1, 1, 2, -2]), CUBE)
    assert listed(found) == [[((0, 0, 0), -1), ((0, 1, 0), 2)], []]


def test_each_change_goes_to_its_own_difference() -> None:
    cells = np.array([[0, 0, 1], [0, 0, 1], [1, 0, 0]], np.uint16)
    found = Differences.summed(4, np.array([3, 1, 3]), cells, np.array([5, 6, 7]), CUBE)
    assert listed(found) == [[], [((0, 0, 1), 6)], [], [((0, 0, 1), 5), ((1, 0, 0), 7)]]


def test_none_is_nothing() -> None:
    none = Differences.none(3)
    assert len(none) == 0
    assert none.varying(CUBE).tolist() == none.feasible(TABLE, knows(TABLE, ALL_PAIRS)).tolist() == list(none) == []
    assert_same(Differences.concatenated([none, SQUARE, none]), SQUARE)


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        SQUARE.changes[0] = 9


@given(hs.data())
def test_summed_is_the_dense_sum(data: hs.DataObject) -> None:
    table = data.draw(small_tables())
    given_changes = data.draw(differences(table))
    found = Differences.summed(
        len(given_changes), given_changes.of, given_changes.cells, given_changes.changes, table.schema
    )
    assert len(found) == len(given_changes)
    for (cells, changes), (summed, totals) in zip(given_changes, found, strict=True):
        before, after = np.zeros(table.schema.sizes, np.int64), np.zeros(table.schema.sizes, np.int64)
        np.add.at(before, tuple(cells.T), changes)
        after[tuple(summed.T)] = totals
        assert np.array_equal(before, after)
        assert np.count_nonzero(after) == len(totals)


@given(hs.data())
def test_parts_are_what_the_whole_is_made_of(data: hs.DataObject) -> None:
    table = data.draw(small_tables())
    one, other = data.draw(differences(table)), data.draw(differences(table))
    both = Differences.concatenated([one, other])
    assert listed(both) == listed(one) + listed(other)
    kept = np.array(data.draw(hs.lists(hs.booleans(), min_size=len(both), max_size=len(both))), np.bool_)
    assert listed(both.rows(kept)) == [d for d, is_kept in zip(listed(both), kept, strict=True) if is_kept]
    assert_same(both.at(np.flatnonzero(kept)), both.rows(kept))
    assert both.of.tolist() == [d for d, entries in enumerate(listed(both)) for _ in entries]


# Feasible or not


@pytest.mark.parametrize(
    ("wrong", "release"),
    [
        (difference(("000", -3), ("011", -3), ("001", 3), ("010", 3)), Release.of([])),  # a count below zero
        (SQUARE, frontier("BC")),  # a changed marginal
        (SQUARE, frontier("AB", "ABC")),
        (difference(("000", 1)), Release.of([])),  # another total
        (difference(("000", -1), ("111", 2)), Release.of([])),
        (difference(("000", -1), ("000", -1), ("011", 2)), Release.of([])),  # a cell twice
        (difference(("000", -3), ("000", 3)), Release.of([])),  # which would hide a count below zero
        (difference(("000", -1), ("021", 1)), Release.of([])),  # a code that B does not have
        (difference(("000", -1), ("002", 1)), Release.of([])),
    ],
)
def test_what_is_not_feasible(wrong: Differences, release: Release) -> None:
    assert wrong.feasible(TABLE, knows(TABLE, release)).tolist() == [False]
    beside = Differences.concatenated([SQUARE, wrong, SQUARE])
    assert beside.feasible(TABLE, knows(TABLE, frontier("A"))).tolist()[::2] == [True, True]


def test_an_impossible_cell_stays_empty() -> None:
    zeros = StructuralZeros((((0, (0,)), (1, (0,)), (2, (1,))),))
    assert SQUARE.feasible(TABLE, knows(TABLE, frontier("AB"))).tolist() == [True]
    assert SQUARE.feasible(TABLE, knows(TABLE, frontier("AB"), zeros)).tolist() == [False]
    three = Differences.concatenated([SQUARE, difference(("000", -1), ("010", 1)), SQUARE])
    assert three.spare(knows(TABLE, Release.of([]), zeros)).tolist() == [False, True, False]
    assert three.spare(knows(TABLE, Release.of([]))).all()


def test_sums_that_wrap_around_are_not_equal() -> None:
    """Four changes of 2^62 are 0 modulo 2^64, and so are 2,048 of 2^53, the largest total."""
    wrapping = difference(*((cell, 1 << 62) for cell in ("000", "001", "010", "011")))
    assert wrapping.feasible(TABLE, knows(TABLE, Release.of([]))).tolist() == [False]
    wide = schema_of([2048, 2])
    cells = np.array([(v, 0) for v in range(2048)], np.uint16)
    huge = Differences(np.array([0, 2048]), cells, np.full(2048, MAX_TOTAL))
    table = Table.of(wide, np.array([[0, 1]]), np.array([MAX_TOTAL]))
    assert huge.feasible(table, knows(table, Release.of([]))).tolist() == [False]


@pytest.mark.parametrize("variables", [MAX_LISTED, MAX_LISTED + 1, 63])
def test_many_variables(variables: int) -> None:
    """Beyond 20 variables what is known is not listed; the answer is the same."""
    schema = Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(variables)))
    cells = np.zeros((4, variables), np.uint16)
    cells[[1, 2], [0, variables - 1]] = 1
    cells[3, [0, variables - 1]] = 1
    square = Differences(np.array([0, 4]), cells, np.array([1, -1, -1, 1]))
    apart = Release.of([st.full(variables) ^ 1, st.full(variables) ^ 1 << variables - 1])
    table = Table.of(schema, cells)
    assert square.feasible(table, knows(table, apart)).tolist() == [True]
    assert square.preserve(knows(table, apart), known=Release.of([1])).tolist() == [True]
    both = apart.add(st.of([0, variables - 1]))
    assert square.preserve(knows(table, both), known=apart).tolist() == [False]
    assert square.feasible(table, knows(table, both)).tolist() == [False]
