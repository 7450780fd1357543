"""Sparse tables: the same table whatever the order, marginals against dense sums, cell spaces beyond 2^64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model import table as table_module
from sdc.model.errors import InputError
from sdc.model.table import MAX_TOTAL, Table
from tests.strategies import schema_of

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
    with pytest.raises(InputError, match="1 cells have counts below 0"):
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
