"""Sparse tables: the same table whatever the order, marginals against dense sums, cell spaces beyond 2^64."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model import table as table_module
from sdc.model.cell_bounds import CellBounds, combine
from sdc.model.errors import InputError, ReleaseError
from sdc.model.keys import KeyIndex, KeySpace
from sdc.model.marginal import CellMarginals
from sdc.model.table import MAX_TOTAL, Codes, Table
from tests.strategies import czech, schema_of

SIZES = [2, 3, 4]


records = some.lists(some.tuples(*(some.integers(0, size - 1) for size in SIZES)), min_size=1, max_size=40)


@given(records, some.randoms(use_true_random=False))
def test_order_does_not_matter(rows: list[tuple[int, ...]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (Table.of(schema_of(SIZES), np.array(r)) for r in (rows, shuffled))
    assert one == other
    assert hash(one) == hash(other)
    assert one.total == len(rows)


@given(records, some.permutations(range(24)))
def test_few_cells_are_found_by_their_keys(rows: list[tuple[int, ...]], order: list[int]) -> None:
    table = Table.of(schema_of(SIZES), np.array(rows))
    # of a table with levels as variables of their own the cells need not ascend
    shuffled = np.array([row for row in order if row < len(table)])
    other = Table(table.schema, table.codes[shuffled], table.counts[shuffled])
    cells = np.indices(SIZES).reshape(3, -1).T[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "CELLS_EACH", 0)
        patch.setattr(Table, "marginal_at", None)
        found, again, none = table.count_at(cells), other.count_at(cells), table.count_at(cells[:0])
    assert np.array_equal(found, table.dense.ravel()[order])
    assert np.array_equal(again, found)
    assert none.shape == (0,)


@given(records, some.integers(1, 7))
def test_marginals_chunk_by_chunk(rows: list[tuple[int, ...]], subtable: int) -> None:
    whole = Table.of(schema_of(SIZES), np.array(rows))
    cells = np.indices(SIZES).reshape(3, -1).T[::5]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "CELLS_PER_CHUNK", 3)
        in_chunks = Table.of(schema_of(SIZES), np.array(rows))
        assert len(list(in_chunks.chunks())) == max(1, -(-len(whole) // 3))
        marginal, at, one_way = (
            in_chunks.marginal(subtable),
            in_chunks.marginal_at(subtable, cells),
            in_chunks.one_way(),
        )
    assert marginal == whole.marginal(subtable)
    assert np.array_equal(at, whole.marginal_at(subtable, cells))
    assert all(map(np.array_equal, one_way, whole.one_way()))


@given(records, some.lists(some.integers(0, 5), min_size=1))
def test_weights_are_repetitions(rows: list[tuple[int, ...]], weights: list[int]) -> None:
    weights = (weights * len(rows))[: len(rows)]
    repeated = [row for row, weight in zip(rows, weights, strict=True) for _ in range(weight)]
    table = Table.of(schema_of(SIZES), np.array(rows), np.array(weights))
    assert table == Table.of(schema_of(SIZES), np.array(repeated).reshape(-1, 3))


@pytest.mark.parametrize("rows", [None, 64])
def test_forty_variables_of_four_categories(rows: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if rows:
        monkeypatch.setattr(table_module, "CELLS_PER_CHUNK", rows)
    codes = np.random.default_rng(1).integers(0, 4, (300, 40))
    table = Table.of(schema_of([4] * 40), np.concatenate([codes, codes]))
    assert (table.schema.cells, len(table)) == (2**80, 300)
    absent = (codes[:50] + 1) % 4
    assert np.array_equal(table.count_at(np.concatenate([codes, absent, codes])), np.repeat([2, 0, 2], [300, 50, 300]))
    assert table.marginal(st.full(40)) == table
    assert np.array_equal(table.codes, np.unique(codes, axis=0))
    assert not len(table.count_at(codes[:0]))


def test_counts_are_checked() -> None:
    with pytest.raises(InputError, match="1 cell with a count below 0"):
        Table.of(schema_of([2]), np.array([[0]]), np.array([-1]))
    with pytest.raises(InputError, match="sum to more than 9007199254740992"):
        Table.of(schema_of([2]), np.array([[0], [1]]), np.array([MAX_TOTAL, 2]))


def test_arrays_are_read_only_and_those_given_stay_writable() -> None:
    codes, counts = np.array([[0], [1]], np.uint16), np.array([3, 4])
    table = Table(schema_of([2]), codes, counts)
    counts[0] = counts[0]
    for array in (table.codes, table.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_at_risk_and_one_way(czech: Table) -> None:
    assert sorted(czech.counts[czech.at_risk(2)].tolist()) == [1, 2, 2]
    assert [counts.sum() for counts in czech.one_way()] == [1841] * 6


# Marginals at fixed cells: the same as counting them anew, remembered, and bounded


def test_sub_tables_too_large_for_a_dense_count() -> None:
    schema = schema_of([100, 100, 100, 100, 2])
    codes = np.array([[1, 2, 3, 4, 0], [1, 2, 3, 4, 1], [99, 99, 99, 99, 1]])
    assert CellMarginals(Table.of(schema, codes), codes).at(st.of(range(4))).tolist() == [2, 2, 1]


def test_answers_are_remembered_and_the_oldest_forgotten() -> None:
    table = czech()
    marginals = CellMarginals(table, table.codes, max_bytes=2 * 8 * len(table))
    first = marginals.at(0b11)
    marginals.at(0b110)
    assert marginals.at(0b11) is first
    marginals.at(0b111)
    assert marginals.at(0b11) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_refusals() -> None:
    table = czech()
    with pytest.raises(ReleaseError, match="variable number 7; the table has 6, numbered from 0: A, B, C, D, E, F"):
        CellMarginals(table, table.codes).at(1 << 7)
    with pytest.raises(InputError, match="outside the table"):
        CellMarginals(table, np.array([[0, 0, 0, 0, 0, -1]]))
    with pytest.raises(InputError, match=r"shape \(6,\)"):
        CellMarginals(table, np.zeros(6, np.uint16))


# Keys: the same order and the same equality as the codes themselves, whatever the number of cells


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


# Cell bounds: nested intervals, and intervals of components that combine to those of the cells


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
