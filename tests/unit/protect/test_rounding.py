"""Controlled rounding: margins kept, no cell moved by the base, as little moved as can be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.model.errors import InputError
from sdc.protect.rounding import Dense, Rounded, controlled_rounding
from tests import reference


@hs.composite
def tables(draw: hs.DrawFn) -> tuple[Dense, int]:
    shape = draw(hs.sampled_from([(3,), (2, 3), (4, 4), (1, 5), (2, 2, 2), (3, 2, 2), (2, 2, 2, 2), (5, 3)]))
    size = int(np.prod(shape))
    counts = draw(hs.lists(hs.integers(0, 30), min_size=size, max_size=size))
    return np.array(counts, np.int64).reshape(shape), draw(hs.sampled_from([2, 3, 5, 10]))


def margin(counts: Dense, kept: tuple[int, ...]) -> Dense:
    return np.asarray(counts.sum(axis=tuple(a for a in range(counts.ndim) if a not in kept)))


def require(counts: Dense, found: Rounded) -> None:
    base = found.base
    assert (found.counts % base == 0).all()
    assert (np.abs(found.counts - counts) < base).all()
    for kept in found.margins:
        assert (np.abs(margin(found.counts, kept) - margin(counts, kept)) < base).all()
    assert () in found.margins
    if counts.ndim == 2:
        assert set(found.margins) == {(), (0,), (1,)}


@settings(max_examples=300)
@given(tables())
def test_margins_are_kept_and_no_cell_moves_by_the_base(drawn: tuple[Dense, int]) -> None:
    counts, base = drawn
    found = controlled_rounding(counts, base)
    require(counts, found)
    assert found.moved == np.abs(found.counts - counts).sum()


@settings(max_examples=30)
@given(tables())
def test_as_little_is_moved_as_can_be(drawn: tuple[Dense, int]) -> None:
    counts, base = drawn
    if counts.size > 9:
        return
    found = controlled_rounding(counts, base)
    every = [*reference.controlled_roundings(counts, base, [*map(list, found.margins)])]
    assert any(np.array_equal(found.counts, one) for one in every)
    assert found.moved == min(np.abs(one - counts).sum() for one in every)


def test_a_table_of_ten_thousand_cells() -> None:
    counts = np.random.default_rng(0).integers(0, 50, (100, 100))
    found = controlled_rounding(counts, 5)
    require(counts, found)
    assert found.margins == ((), (0,), (1,))
    assert (controlled_rounding(counts, 5).counts == found.counts).all()


@pytest.mark.parametrize(
    ("counts", "base", "message"),
    [
        ([[1, 2]], 1, "the base is 1"),
        ([[1, -2]], 3, "1 count below 0"),
        ([], 3, "has 0 cells"),
        ([1 << 60], 3, "beyond 2\\^50"),
    ],
)
def test_what_cannot_be_rounded_is_refused(counts: list[int], base: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        controlled_rounding(np.array(counts, np.int64), base)
