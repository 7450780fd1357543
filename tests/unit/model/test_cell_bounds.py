"""Cell bounds: nested intervals, and intervals of components that combine to those of the cells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from tests.strategies import (
    components,
    every_cell,
    frontier,
    knows,
    rewritten,
    schema_of,
    sharp_ends,
    tables_and_knowledge,
)


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


def combined(table: Table, known: Knowledge, narrowed: int = 0, seed: int = 0) -> Intervals:
    """Of every cell, from the sharp ends of the components' cells, or ends up to `narrowed` within or beyond them."""
    cells, rng = every_cell(table.schema), np.random.default_rng(seed)
    tree = components(known.release, len(table.schema), known.zeros.subtables)
    parts = []
    for part in tree.cliques:
        inside, kept = table.marginal(part), st.members(part)
        ends = sharp_ends(inside, knows(inside, rewritten(known.release.frontier, part), known.zeros.within(part)))
        counts = inside.count_at(every_cell(inside.schema))
        low, high = rng.integers(0, abs(narrowed) + 1, (2, len(ends)))
        if narrowed > 0:
            ends = np.stack([np.minimum(ends[:, 0] + low, counts), np.maximum(ends[:, 1] - high, counts)], axis=1)
        elif narrowed < 0:
            ends = np.stack([np.maximum(ends[:, 0] - low, 0), ends[:, 1] + high], axis=1)
        parts.append(ends[np.ravel_multi_index(tuple(cells[:, kept].T.astype(np.int64)), inside.schema.sizes)])
    between = sum((table.marginal_at(s, cells) for s in tree.separators), np.zeros(len(cells), np.int64))
    return combine(parts, between)


@given(tables_and_knowledge(max_records=6))
@settings(max_examples=150)
def test_sharp_ends_of_components_combine_to_sharp_ends(example: tuple[Table, Knowledge]) -> None:
    """By the listing of all feasible tables, of each component and of the whole; impossible cells included."""
    table, known = example
    assert np.array_equal(combined(table, known), sharp_ends(table, known))


@given(tables_and_knowledge(max_records=6), hs.integers(1, 3), hs.integers(0, 99))
@settings(max_examples=60)
def test_inner_ends_combine_to_inner_and_outer_to_outer(example: tuple[Table, Knowledge], by: int, seed: int) -> None:
    table, known = example
    sharp = sharp_ends(table, known)
    inner, outer = combined(table, known, by, seed), combined(table, known, -by, seed)
    assert (outer[:, 0] <= sharp[:, 0]).all()
    assert (sharp[:, 0] <= inner[:, 0]).all()
    assert (inner[:, 1] <= sharp[:, 1]).all()
    assert (sharp[:, 1] <= outer[:, 1]).all()


def test_three_components_in_a_chain() -> None:
    """AB - BC - CD of two categories each: LB takes both separators, and is 0 where their counts are more."""
    table = Table.of(schema_of([2, 2, 2, 2]), np.array([[0, 0, 0, 0]] * 3 + [[1, 0, 0, 1]] + [[1, 1, 1, 1]] * 2))
    known = knows(table, frontier("AB", "BC", "CD"))
    ends = combined(table, known)
    assert ends[0].tolist() == [2, 3]
    assert ends[15].tolist() == [2, 2]
    assert np.array_equal(ends, sharp_ends(table, known))
