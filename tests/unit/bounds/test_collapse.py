"""The generalised shuttle ([DKS] section 4), on the whole table and on the table collapsed around a cell."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import collapse, shuttle
from sdc.bounds.collapse import Collapse, bytes_of_collapse
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from tests.strategies import (
    all_ways,
    czech,
    dense,
    every_cell,
    frontier,
    knows,
    nested_in,
    releases,
    schema_of,
    small_tables,
    structural_zeros,
    tables_and_knowledge,
    tables_and_releases,
)


def test_bounds_that_cross_are_refused() -> None:
    lower, upper = np.zeros(3, np.int64), np.array([1, 1, 5])
    lower[2] = 5
    with pytest.raises(ReleaseError, match="contradict each other"):
        shuttle.propagate(lower, upper)


@pytest.mark.parametrize("scale", [10**4, 10**7, 10**12])
def test_sweeps_grow_with_the_bits(scale: int) -> None:
    """With four cells told besides the marginals bounds come towards each other record by record."""
    rng, schema = np.random.default_rng(10), schema_of([3, 3, 3, 3])
    cells, small = every_cell(schema), rng.random(81) < 0.4
    table = Table.of(schema, cells, np.where(small, rng.integers(0, 3, 81), rng.integers(scale // 2, scale, 81)))
    lower, upper = shuttle.super_cell_bounds(table, knows(table, all_ways(4, 3)))
    told = {42: 11, 16: 0, 43: 0, 15: table.count_at(cells[15:16])[0] - 7}
    for cell, value in told.items():
        place = tuple((1 << cells[cell].astype(np.int64)) - 1)
        lower[place] = upper[place] = value
    assert shuttle.propagate(lower, upper) <= 16 * (table.total + 1).bit_length()


@pytest.mark.parametrize(("sizes", "needed"), [([8, 8, 8], "16581375 super-cells"), ([13, 2], "13 categories")])
def test_large_tables_are_refused(sizes: list[int], needed: str) -> None:
    table = Table.of(schema_of(sizes), np.zeros((1, len(sizes)), np.int64))
    with pytest.raises(ReleaseError, match=f"{needed}.* choose the method collapse"):
        shuttle.bounds(table, knows(table, all_ways(len(sizes), 1)), table.codes)


@hs.composite
def tables_of_two_categories(draw: hs.DrawFn) -> tuple[Table, Knowledge]:
    table = draw(small_tables(max_cells=32, max_size=2))
    return table, knows(table, draw(releases(len(table.schema))), draw(structural_zeros(table)))


@given(tables_and_knowledge() | tables_of_two_categories())
@settings(max_examples=200)
def test_contains_the_shuttle_and_equals_it_on_two_categories(example: tuple[Table, Knowledge]) -> None:
    """With structural zeros too."""
    table, known = example
    cells = every_cell(table.schema)
    collapsed, full = collapse.bounds(table, known, cells), shuttle.bounds(table, known, cells)
    assert nested_in(full.outer, collapsed.outer)
    if set(table.schema.sizes) == {2}:
        assert (collapsed.outer == full.outer).all()


@pytest.mark.parametrize("counts", [3, 1 << 40])
def test_its_memory_is_known_before(counts: int) -> None:
    schema = schema_of([2, 3] * 6)
    table = Table(schema, np.array([[0] * 12, [1] * 12]), np.array([1, counts]))
    collapsed = Collapse(table, knows(table, Release.of([st.full(12)])))
    collapsed.at(table.codes[0])  # compiled now
    tracemalloc.start()
    try:
        collapsed.at(table.codes[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bytes_of_collapse(table) <= peak < bytes_of_collapse(table) + (2 << 20)


@pytest.mark.parametrize("variables", range(1, 12))
@pytest.mark.parametrize("scale", [1, 1 << 40])
def test_tiles_of_every_shape_against_the_plain_shuttle(variables: int, scale: int) -> None:
    """Tiles filled in part, counts of 32 and of 64 bits."""
    table = _binary_table(variables, scale)
    release = all_ways(variables, min(2, variables))
    cells = table.codes[::29]
    collapsed, full = (
        collapse.bounds(table, knows(table, release), cells),
        shuttle.bounds(table, knows(table, release), cells),
    )
    assert (collapsed.outer == full.outer).all()


@pytest.mark.parametrize("largest", [2, 3, 5, 8])
def test_releases_of_many_sub_tables_against_the_plain_shuttle(largest: int) -> None:
    """Nine variables and frontier elements of all dimensions up to `largest`: several rounds until all is settled."""
    table = _binary_table(9, 1)
    chosen = np.random.default_rng(largest).integers(0, 1 << 9, 40).tolist()
    release = Release.of([*(s for s in chosen if st.dimension(s) <= largest), *(1 << v for v in range(9))])
    collapsed, full = (method.bounds(table, knows(table, release), table.codes) for method in (collapse, shuttle))
    assert (collapsed.outer == full.outer).all()


def _binary_table(variables: int, scale: int) -> Table:
    codes = np.arange(4000)[:, None] * np.arange(3, 3 + variables) // 7 % 5 // 3
    return Table.of(_binary(variables), codes, np.full(4000, scale))


def _binary(variables: int) -> Schema:
    return Schema(tuple(Variable(f"V{k}", ("0", "1")) for k in range(variables)))


def test_rest_of_a_single_category_is_empty() -> None:
    table = Table.of(schema_of([1, 2, 2]), np.array([[0, 0, 0], [0, 1, 1]]), np.array([3, 4]))
    bounds = collapse.bounds(table, knows(table, frontier("AB", "AC")), every_cell(table.schema))
    assert bounds.outer.tolist() == [[0, 3], [0, 3], [0, 3], [1, 4]]


# Structural zeros


def test_a_structural_zero_of_the_rest_makes_the_cell_known() -> None:
    """A by B with only A released: if B = 1, 2 is impossible where A = 0, then (0, 0) has all of A = 0."""
    table, zeros = dense(schema_of([2, 3]), [5, 0, 0, 1, 1, 1]), StructuralZeros((((0, (0,)), (1, (1, 2))),))
    outer = collapse.bounds(table, knows(table, frontier("A", "B"), zeros), every_cell(table.schema)).outer
    assert outer[:3].tolist() == [[5, 5], [0, 0], [0, 0]]


# More variables than are kept


def test_the_variables_of_the_smallest_counts_are_kept() -> None:
    """Twenty variables in pairs: V18 and V19 are 1 together for nobody, V2, V3, ... more and more often."""
    codes = (np.arange(100)[:, None] <= 2 * np.arange(20)).astype(np.int64)
    codes[:50, 18] = codes[50:, 19] = 0
    table, release = Table.of(_binary(20), codes), Release.of(st.of((v, v + 1)) for v in range(0, 20, 2))
    collapsed, cell = Collapse(table, knows(table, release)), np.ones((1, 20), np.uint16)
    assert collapsed.variables_around(cell) == [st.of([*range(13), 18, 19])]
    assert collapsed.at(cell[0]) == (0, 0)
    assert Collapse(table, knows(table, all_ways(4, 2))).variables_around(cell) == [st.full(4)]


def test_sixteen_variables_of_two_categories_are_all_kept() -> None:
    collapsed = Collapse(
        Table.of(_binary(17), np.zeros((1, 17), np.int64)),
        knows(Table.of(_binary(17), np.zeros((1, 17), np.int64)), all_ways(16, 1)),
    )
    assert collapsed.variables_around(np.zeros((1, 17), np.uint16)) == [st.full(16)]


# Refusals


@pytest.mark.parametrize("variables", [2, 9])
def test_contradiction_is_refused(variables: int) -> None:
    """No super-cell may have more than 1 record, and 4,000 are in the margins: bounds cross, and go on crossing."""
    table = _binary_table(variables, 1)
    vars(table)["total"] = 1
    with pytest.raises(ReleaseError, match="marginals contradict each other; make them from one table"):
        collapse.bounds(table, knows(table, all_ways(variables, 1)), table.codes[:1])


def test_what_does_not_fit_the_table_is_refused() -> None:
    table = czech()
    with pytest.raises(InputError, match="outside the table"):
        Collapse(table, knows(table, frontier("AB"))).at(np.full(6, 2))


@given(tables_and_releases(), hs.sampled_from([1, 2, 3]))
def test_stopped_bounds_are_outer_and_of_the_cell_alone(example: tuple[Table, Release], most: int) -> None:
    """Few sweeps lose width, never truth, and nothing depends on which cells are asked together."""
    table, release = example
    cells = every_cell(table.schema)
    settled = Collapse(table, knows(table, release)).outer(cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdc.bounds.collapse.SWEEPS_A_BIT", 0)
        patch.setattr("sdc.bounds.collapse.LEAST_SWEEPS", most)
        stopped = Collapse(table, knows(table, release))
        together, alone = stopped.outer(cells), np.concatenate([stopped.outer(cell[None, :]) for cell in cells])
    assert (together == alone).all()
    assert nested_in(settled, together)
