"""Cell bounds: nested intervals, and intervals of components that combine to those of the cells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model.cell_bounds import CellBounds, combine
from tests.reference import bounds, every_cell, exact, feasible, marginal


def test_bounds_that_are_not_nested_are_refused() -> None:
    cells, counts, wide = np.zeros((1, 2), np.uint16), np.array([3]), np.array([[0, 9]])
    for outer, inner in ([[1, 2], [1, 2]], [[2, 5], [1, 5]], [[0, 9], [4, 9]]):
        with pytest.raises(ValueError, match=r"method typed: count 3, inner .* are not nested, cell \[0, 0\]"):
            CellBounds(cells, counts, np.array([outer]), np.array([inner]), "typed")
    assert CellBounds(cells, counts, wide, wide, "typed").exact.all()


def test_one_component_is_the_cell() -> None:
    ends = np.array([[0, 3], [2, 2], [1, 7]])
    assert np.array_equal(combine([ends], np.zeros(3, np.int64)), ends)


@given(hs.integers(0, 6).flatmap(lambda n: hs.tuples(*[hs.integers(0, n)] * 2, hs.just(n))))
def test_two_known_components_are_a_two_way_table(margins: tuple[int, int, int]) -> None:
    """Frechet: the tables of 2 x 2 cells with row sum a, column sum b and n records."""
    a, b, n = margins
    every = [x for x, y, z in product(range(n + 1), repeat=3) if x + y == a and x + z == b and n - x - y - z >= 0]
    known = [np.array([[a, a]]), np.array([[b, b]])]
    assert combine(known, np.array([n])).tolist() == [[min(every), max(every)]]


@given(hs.data())
def test_wider_intervals_of_components_combine_to_wider_ones(data: hs.DataObject) -> None:
    """So inner ends combine to inner ones and outer ends to outer ones, since sharp ends do to sharp ones."""
    numbers = hs.integers(0, 9)
    ends = [np.sort([[data.draw(numbers) for _ in range(2)]]) for _ in range(data.draw(hs.integers(1, 4)))]
    wider = [part + np.array([-data.draw(numbers), data.draw(numbers)]) for part in ends]
    between = np.array([data.draw(hs.integers(0, 20))])
    (low, high), (wide_low, wide_high) = combine(ends, between)[0], combine(wider, between)[0]
    assert wide_low <= low
    assert high <= wide_high


def test_three_components_in_a_chain() -> None:
    """AB - BC - CD of two categories each: LB takes both separators, and is 0 where their counts are more."""
    counts = np.zeros((2, 2, 2, 2), np.int64)
    counts[0, 0, 0, 0], counts[1, 0, 0, 1], counts[1, 1, 1, 1] = 3, 1, 2
    released = [marginal(counts, pair) for pair in ((0, 1), (1, 2), (2, 3))]
    tables = feasible(counts.shape, [fact for pair in ((0, 1), (1, 2), (2, 3)) for fact in exact(counts, pair)])
    for cell, sharp in zip(every_cell(counts.shape), bounds(tables).tolist(), strict=True):
        ends = [np.full((1, 2), own[cell[v : v + 2]]) for v, own in enumerate(released)]
        separators = marginal(counts, (1,))[cell[1:2]] + marginal(counts, (2,))[cell[2:3]]
        assert combine(ends, np.array([separators])).tolist() == [sharp]
