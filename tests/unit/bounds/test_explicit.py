"""Explicit bounds: of decomposable releases, between two of them, and of one degree of freedom ([DKS])."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import decomposable, dichotomous, nested
from sdc.model.errors import ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from tests.strategies import (
    all_ways,
    czech,
    decomposable_releases,
    dense,
    every_cell,
    frontier,
    knows,
    listed,
    schema_of,
    sharp_ends,
    small_tables,
)


def test_an_uncovered_variable_frees_the_lower_bound() -> None:
    table = Table.of(schema_of([2, 2, 1]), np.array([[0, 0, 0]]), np.array([5]))
    cell = np.zeros((1, 3), np.uint16)
    assert decomposable.bounds(table, knows(table, frontier("A", "B")), cell).outer.tolist() == [[5, 5]]
    assert decomposable.bounds(table, knows(table, frontier("A")), cell).outer.tolist() == [[0, 5]]
    assert decomposable.bounds(table, knows(table, Release.of([])), cell).outer.tolist() == [[0, 5]]


def test_more_cells_than_64_bits_can_number() -> None:
    wide = Schema(tuple(Variable(f"V{k}", tuple(map(str, range(400)))) for k in range(56)))
    codes = np.arange(560).reshape(10, 56) % 400
    table = Table.of(wide, codes)
    bounds = decomposable.bounds(
        table, knows(table, Release.of([(1 << 40) - 1, ((1 << 56) - 1) ^ ((1 << 20) - 1)])), codes
    )
    assert bounds.outer.tolist() == [[1, 1]] * 10


def test_other_releases_are_refused() -> None:
    table = czech()
    with pytest.raises(ReleaseError, match=r"frontier A\*B, A\*C, B\*C, .*, \.\.\. is not decomposable; choose"):
        decomposable.bounds(table, knows(table, all_ways(6, 2)), every_cell(table.schema))


@given(hs.data())
def test_inner_is_exact_for_decomposable_releases(data: hs.DataObject) -> None:
    table = data.draw(small_tables())
    release = data.draw(decomposable_releases(len(table.schema)))
    cells = every_cell(table.schema)
    sharp = decomposable.bounds(table, knows(table, release), cells)
    bounds = nested.bounds(table, knows(table, release), cells)
    assert (bounds.inner == sharp.inner).all()
    assert (bounds.outer[:, 1] == sharp.outer[:, 1]).all()


def test_a_four_cycle_has_room_on_the_inside() -> None:
    table = czech()
    bounds = nested.bounds(table, knows(table, frontier("ABE", "BCF", "CD", "AD")), table.codes)
    assert bounds.method == "nested"
    assert (bounds.inner_width > 0).all()


@given(hs.integers(2, 5).flatmap(lambda k: hs.lists(hs.integers(0, 4), min_size=2**k, max_size=2**k)))
@settings(max_examples=100)
def test_all_widths_are_one_less_than_there_are_tables(counts: list[int]) -> None:
    variables = len(counts).bit_length() - 1
    table = dense(schema_of([2] * variables), counts)
    known = knows(table, all_ways(variables, variables - 1))
    bounds = dichotomous.bounds(table, known, every_cell(table.schema))
    assert (bounds.outer == sharp_ends(table, known)).all()
    assert (bounds.outer_width == len(listed(table, known)) - 1).all()


def test_forty_variables() -> None:
    schema = Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(40)))
    table = Table.of(schema, np.eye(40, dtype=np.int64))
    bounds = dichotomous.bounds(table, knows(table, all_ways(40, 39)), table.codes[:3])
    assert (bounds.outer == 1).all()


@pytest.mark.parametrize(
    ("sizes", "release"),
    [
        ([2, 2, 2], frontier("AB", "BC")),
        ([2, 2, 2], frontier("ABC")),
        ([2, 2, 3], all_ways(3, 2)),
        ([2, 2], frontier("A")),
        ([2, 2], Release.of([])),
    ],
)
def test_dichotomous_refuses_other_releases(sizes: list[int], release: Release) -> None:
    table = Table.of(schema_of(sizes), np.zeros((1, len(sizes)), np.int64))
    with pytest.raises(ReleaseError, match=r"dichotomous takes 2 categories each .* choose the method auto"):
        dichotomous.bounds(table, knows(table, release), table.codes)
