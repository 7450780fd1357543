"""Steps: they grow with the bits of the counts and not with the counts, and what is stopped stays right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import branch_and_bound, collapse, shuttle
from sdc.bounds.enumeration import enumerate_tables, feasible_tables
from sdc.feasible.depth_first import DepthFirst, FeasibleTables, LinearSystem
from sdc.model.release import Release
from sdc.model.table import Table
from tests.strategies import (
    all_ways,
    assert_around,
    every_cell,
    knows,
    listed,
    releases,
    schema_of,
    sharp_ends,
    small_tables,
    structural_zeros,
    tables_and_releases,
)

BUDGET = 20_000
FACTORS = hs.sampled_from([10**3, 2**20, 10**9, 10**12])


def creeping(scale: int) -> Table:
    """3x3x3x3 with counts up to the scale beside small ones: some branches narrow record by record."""
    rng, schema = np.random.default_rng(10), schema_of([3, 3, 3, 3])
    small = rng.random(81) < 0.4
    counts = np.where(small, rng.integers(0, 3, 81), rng.integers(scale // 2, scale, 81))
    return Table.of(schema, every_cell(schema), counts)


def times(table: Table, factor: int) -> Table:
    """Every count so many times as large."""
    return Table.of(table.schema, table.codes, table.counts * factor)


@pytest.mark.parametrize("scale", [10**5, 10**7, 10**9, 10**12, 10**14])
def test_steps_beyond_the_budget_grow_with_the_bits(scale: int) -> None:
    """The value 9 of the cell took 271,490 steps at a scale of 10^4 and 256,111,945 at 10^7."""
    table = creeping(scale)
    block, place = FeasibleTables(table, knows(table, all_ways(4, 3))).block_of(42) or (None, 0)
    assert block is not None
    for value in range(8, 13):
        search = DepthFirst(block, fixed=(place, value))
        search.more(1, BUDGET)
        assert search.steps <= BUDGET + 8 * (scale.bit_length() + 1) * len(block.system.totals)


@pytest.mark.parametrize("most", [1, 7, 40])
@given(data=hs.data())
@settings(max_examples=50)
def test_stopped_propagation_finds_the_same_tables(most: int, data: hs.DataObject) -> None:
    """Every table once and no other, wherever propagation stops: structural zeros, forced cells and blocks too."""
    table = data.draw(small_tables(max_records=2, max_cells=8))  # with hardly any propagation all branches are tried
    zeros = data.draw(structural_zeros(table))
    knowledge = knows(table, data.draw(releases(len(table.schema))), zeros)
    tables, ends = listed(table, knowledge), sharp_ends(table, knowledge)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinearSystem, "most_steps", most)
        stopped = enumerate_tables(table, knowledge)
        found = np.array([dense.reshape(-1) for dense in feasible_tables(table, knowledge)])
        bounds = branch_and_bound.bounds(table, knowledge, every_cell(table.schema))
    assert (stopped.feasible_tables, stopped.complete) == (len(tables), True) == (len(found), True)
    assert np.array_equal(np.unique(found, axis=0), np.unique(tables, axis=0))
    # one equation bounds hardly any cell: an end may take more steps than it has, and then it is said to be open
    assert bounds.exact.all() or most == 1
    assert_around(bounds, ends)


@given(tables_and_releases(), FACTORS)
@settings(max_examples=100)
def test_a_factor_changes_no_step_of_propagation(example: tuple[Table, Release], factor: int) -> None:
    """Sums and differences only: all counts times a factor give all bounds times the factor after as many steps."""
    table, release = example
    small, large = (FeasibleTables(t, knows(t, release)) for t in (table, times(table, factor)))
    assert small.steps == large.steps
    assert (small.lower * factor == large.lower).all()
    assert (small.upper * factor == large.upper).all()
    for method in (shuttle, collapse):
        bounds, of_large = (method.bounds(t, knows(t, release), table.codes) for t in (table, times(table, factor)))
        assert (bounds.outer * factor == of_large.outer).all()
