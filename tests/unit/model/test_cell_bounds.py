"""Cell bounds: nested intervals, and intervals of components that combine to those of the cells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model.cell_bounds import CellBounds, combine


def test_bounds_that_are_not_nested_are_refused() -> None:
    cells, counts, wide = np.zeros((1, 2), np.uint16), np.array([3]), np.array([[0, 9]])
    for outer, inner in ([[1, 2], [1, 2]], [[2, 5], [1, 5]], [[0, 9], [4, 9]]):
        with pytest.raises(ValueError, match=r"method typed: count 3, inner .* are not nested, cell \[0, 0\]"):
            CellBounds(cells, counts, np.array([outer]), np.array([inner]), "typed")
    assert CellBounds(cells, counts, wide, wide, "typed").exact.all()


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
