"""Rows and the keys that cut them: counted cell by cell, whatever the chunks and ranges."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from sdc.model.errors import InputError
from sdc.model.table import Table
from sdc.risk.rows import FAR, keys_of, rows_of
from sdc.risk.sweep_plan import cells_by, ranges_of, sweep_bytes, sweep_order, sweep_plan
from tests.strategies import schema_of

SMALL = 2


@some.composite
def tables(draw: some.DrawFn) -> Table:
    sizes = draw(some.lists(some.integers(1, 4), min_size=1, max_size=4))
    rows = draw(some.lists(some.tuples(*(some.integers(0, s - 1) for s in sizes)), min_size=1, max_size=30))
    return Table.of(schema_of(sizes), np.array(rows, np.uint16))


@given(tables(), some.data())
@settings(max_examples=200)
def test_rows_of_a_range_of_keys(table: Table, data: some.DataObject) -> None:
    """[KDSF] eq. 10: M is the smallest one-way count summed out, D the sum of N minus each."""
    order = sweep_order(table.schema)
    kept = data.draw(some.sets(some.sampled_from(order)))
    variables = tuple(v for v in order if v in kept)
    taken = tuple(sorted(data.draw(some.sets(some.sampled_from(order), min_size=1))))
    keys = keys_of(table.schema, taken, table.codes)
    low, high = sorted(data.draw(some.tuples(*[some.integers(0, int(keys.max()) + 1)] * 2)))
    wanted = np.flatnonzero((keys >= low) & (keys < high))
    assume(len(wanted))
    with patch("sdc.risk.rows.CELLS_PER_CHUNK", data.draw(some.integers(1, 8))):
        found = rows_of(table, SMALL, variables, taken, low, high)
    ways, summed_out = table.one_way(), [v for v in order if v not in variables]
    expected = dict[tuple[int, ...], list[int]]()
    for cell, count in zip(table.codes[wanted].tolist(), table.counts[wanted].tolist(), strict=True):
        at = [int(ways[v][cell[v]]) for v in summed_out]
        least, spare = min(at, default=FAR), sum(table.total - n for n in at)
        own = (least, spare, min(least + spare, FAR)) if count <= SMALL else (FAR, FAR, FAR)
        before = expected.setdefault(tuple(cell[v] for v in variables), [0, FAR, FAR, FAR])
        before[:] = [before[0] + count, *map(min, before[1:], own)]
    assert dict(zip(map(tuple, found.columns.T.tolist()), found.numbers.T.tolist(), strict=True)) == expected
    assert found.columns.T.tolist() == sorted(found.columns.T.tolist())


@given(tables(), some.data())
def test_keys_and_their_cells(table: Table, data: some.DataObject) -> None:
    variables = tuple(sorted(data.draw(some.sets(some.sampled_from(range(len(table.schema))), min_size=1))))
    with patch("sdc.risk.sweep_plan.CELLS_PER_CHUNK", data.draw(some.integers(1, 8))):
        keys, cells = cells_by(table, variables)
        assert [*map(len, cells_by(table, variables, len(keys)))] == [len(keys)] * 2
        with pytest.raises(InputError, match=f"more than {len(keys) - 1} keys"):
            cells_by(table, variables, len(keys) - 1)
    expected = np.unique(keys_of(table.schema, variables, table.codes), return_counts=True)
    assert (keys.tolist(), cells.tolist()) == (expected[0].tolist(), expected[1].tolist())


@given(some.lists(some.tuples(some.integers(1, 3), some.integers(1, 9)), min_size=1), some.integers(1, 20))
def test_ranges_of_keys_are_as_long_as_fits(steps: list[tuple[int, int]], most: int) -> None:
    keys, rows = np.cumsum([step for step, _ in steps]), np.array([number for _, number in steps])
    ranges = ranges_of(keys, rows, most)
    if rows.max() > most:
        assert ranges == []
        return
    assert [0, *(high for _, high in ranges)] == [*(low for low, _ in ranges), keys[-1] + 1]
    for low, high in ranges:
        inside = rows[(keys >= low) & (keys < high)].sum()
        assert inside <= most
        assert high > keys[-1] or inside + rows[keys >= high][0] > most


@pytest.mark.parametrize(("floor", "units"), [(0, None), (1, 1 + 6 * 7 // 2), (5, 1 + 6 * 7 // 2)])
def test_the_least_memory_holds_the_largest_variable(floor: int, units: int | None, czech: Table) -> None:
    """The memory with a floor is the same whatever that is, and less than without; a unit has a pair of variables."""
    needed = sweep_bytes(len(czech), czech.schema, floor=floor)
    assert (0 < needed == sweep_bytes(len(czech), czech.schema, floor=1)) == (floor > 0)
    assert needed <= sweep_bytes(len(czech), czech.schema)
    for memory in range(0, needed, 50):
        try:
            plan = sweep_plan(czech, floor=floor, memory=memory)
        except InputError:
            continue
        assert (plan.way, plan.max_rows) == ("partitions", max(czech.schema.sizes))
        assert plan.units == (units or len(plan.cuts))
        break
    else:
        pytest.fail("no memory is enough")
