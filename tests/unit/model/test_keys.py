"""Keys: the same order and the same equality as the codes themselves, whatever the number of cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model.errors import InputError
from sdc.model.keys import KeyIndex, KeySpace
from sdc.model.table import Codes

NARROW = hs.lists(hs.integers(1, 5), min_size=0, max_size=5)
WIDE = hs.lists(hs.sampled_from([2, 7, 1000, 65_536]), min_size=8, max_size=12).map(lambda sizes: [65_536] * 4 + sizes)


MEDIUM = hs.just([65_536, 65_536])  # keys fit, and more cells than a dense array has


@hs.composite
def cells_of(draw: hs.DrawFn, sizes: list[int], rows: int = 12) -> Codes:
    """Up to so many cells, in any order, of few categories a variable: so they often agree."""
    some = [hs.sampled_from(sorted({0, size // 2, size - 1})) for size in sizes]
    drawn = draw(hs.lists(hs.tuples(*some), max_size=rows))
    return np.array(drawn, np.uint16).reshape(len(drawn), len(sizes))


@hs.composite
def spaces(draw: hs.DrawFn) -> tuple[KeySpace, Codes, Codes]:
    """A space of one cell up to more than 2^70, and two lists of its cells."""
    sizes = draw(NARROW | MEDIUM | WIDE)
    return KeySpace(tuple(sizes)), draw(cells_of(sizes)), draw(cells_of(sizes))


@given(spaces())
def test_numbers_are_equal_and_ordered_as_codes_are(drawn: tuple[KeySpace, Codes, Codes]) -> None:
    space, cells, _ = drawn
    numbers, codes = space.numbers(cells).tolist(), [tuple(cell) for cell in cells.tolist()]
    for number, cell in zip(numbers, codes, strict=True):
        assert [number < other for other in numbers] == [cell < other for other in codes]


@given(spaces())
def test_packed_keys_are_places_and_unpack(drawn: tuple[KeySpace, Codes, Codes]) -> None:
    space, cells, _ = drawn
    if not space.fits:
        for refused in (lambda: space.pack(cells), lambda: space.unpack(np.zeros(1, np.int64)), lambda: space.strides):
            with pytest.raises(InputError, match=rf"have {space.cells} cells, and keys of 62 bits number fewer"):
                refused()
        return
    keys = space.pack(cells)
    assert space.unpack(keys).tolist() == cells.tolist()
    assert keys.tolist() == (cells.astype(np.int64) @ space.strides).tolist()
    if space.sizes and len(cells):
        assert keys.tolist() == np.ravel_multi_index(tuple(cells.T.astype(np.int64)), space.sizes).tolist()


@given(spaces())
def test_matching_finds_each_cell_among_the_rows(drawn: tuple[KeySpace, Codes, Codes]) -> None:
    space, rows, cells = drawn
    rows = rows[np.sort(space.distinct(rows)[0])]
    listed = [tuple(row) for row in rows.tolist()]
    expected = [listed.index(cell) if cell in listed else -1 for cell in map(tuple, cells.tolist())]
    assert space.matching(rows, cells).tolist() == expected


@given(spaces())
def test_an_index_places_cells_among_those_wanted(drawn: tuple[KeySpace, Codes, Codes]) -> None:
    space, wanted, cells = drawn
    index = KeyIndex(space, wanted)
    first, group = space.distinct(wanted)
    assert (index.groups, index.own.tolist()) == (len(first), group.tolist())
    listed = [tuple(cell) for cell in wanted[first].tolist()]
    expected = [listed.index(cell) if cell in listed else len(listed) for cell in map(tuple, cells.tolist())]
    assert index.place(cells).tolist() == expected


def test_some_variables_in_another_order() -> None:
    space = KeySpace((2, 3, 4)).restricted([2, 0])
    assert (space.sizes, space.cells, space.strides.tolist()) == ((4, 2), 8, [2, 1])
