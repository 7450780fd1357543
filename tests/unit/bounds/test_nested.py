"""The sandwich between decomposable releases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as hs

from sdc.bounds import decomposable, nested
from tests.strategies import czech, decomposable_releases, every_cell, frontier, knows, small_tables


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
