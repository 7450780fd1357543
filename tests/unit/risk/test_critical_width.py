"""Critical widths: the published list, the definition, floors, and sub-lattices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk import rows
from sdc.risk import sweep_plan as sweep_plan_module
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.partitions import renumbered
from sdc.risk.reaching import neighbours
from sdc.risk.sweep_plan import sweep_bytes, sweep_order, sweep_plan
from tests import reference
from tests.profiles import scaled
from tests.strategies import dense, schema_of


def by_definition(table: Table, subtable: int, small_count: int = 2) -> int:
    """[KDSF] eq. 10, by the explicit bounds of the most parsimonious release."""
    return reference.explicit_critical_width(table.codes, table.counts, st.members(subtable), small_count)


def as_dict(widths: CriticalWidths) -> dict[int, int]:
    return dict(zip(widths.sub_tables.tolist(), widths.widths.tolist(), strict=True))


@some.composite
def tables(draw: some.DrawFn) -> Table:
    sizes = draw(some.lists(some.integers(1, 4), min_size=1, max_size=6))
    rows = draw(some.lists(some.tuples(*(some.integers(0, s - 1) for s in sizes)), min_size=1, max_size=60))
    schema = Schema(tuple(Variable(f"v{i}", tuple(map(str, range(s)))) for i, s in enumerate(sizes)))
    return Table.of(schema, np.array([*rows, rows[0]]))


def test_czech_widths(czech: Table) -> None:
    """Those that [KDSF] table 3 does not print; see `sdc.papers` for the others."""
    found = critical_widths(czech)
    widths = as_dict(found)
    assert len(found) == found.visited == 64
    assert widths[st.full(6)] == 0
    assert [widths[t] for t in (0, *(1 << v for v in range(6)))] == [260] * 7
    assert [widths[st.parse(t, czech.schema)] for t in ("B*C", "D*F")] == [119, 119]


@given(tables(), some.integers(1, 3))
@settings(max_examples=150)
def test_widths_by_definition(table: Table, small_count: int) -> None:
    if len(table.at_risk(small_count)):
        found = as_dict(critical_widths(table, small_count=small_count))
        assert found == {t: by_definition(table, t, small_count) for t in range(1 << len(table.schema))}


@pytest.mark.parametrize(("floor", "listed"), [(0, 8), (5, 8), (72, 8), (73, 0)])
def test_without_a_cell_at_risk_all_widths_are_the_total(floor: int, listed: int) -> None:
    found = critical_widths(dense(schema_of([2, 2, 2]), [9] * 8), floor=floor)
    assert (len(found), set(found.widths.tolist())) == (listed, {72} if listed else set())
    wide = Table.of(schema_of([2] * 27), np.zeros((1, 27), np.uint16), np.array([9]))
    with pytest.raises(InputError, match="no cell is at risk, so that all reach the floor: raise the small count"):
        critical_widths(wide, floor=5)


@pytest.mark.parametrize("floor", [0, 5])
def test_partitions_of_a_table_of_many_chunks(
    public_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, floor: int
) -> None:
    table = read_table(public_data("cps8.parquet"))
    whole = critical_widths(table, floor=floor)
    for module in (rows, sweep_plan_module):
        monkeypatch.setattr(module, "CELLS_PER_CHUNK", 100)
    memory = sweep_bytes(len(table), table.schema, floor=floor) // 5
    plan = sweep_plan(table, floor=floor, memory=memory)
    assert (plan.way, plan.max_rows < len(table) // 4) == ("partitions", True)
    found = critical_widths(table, floor=floor, memory=memory)
    assert np.array_equal(found.sub_tables, whole.sub_tables)
    assert np.array_equal(found.widths, whole.widths)


def test_the_smallest_partition_does_not_fit(czech: Table) -> None:
    for floor in (0, 5):
        with pytest.raises(InputError, match=r"smallest partition of 63 cells needs 1 MiB .* 0 MiB are allowed"):
            critical_widths(czech, floor=floor, memory=100)


def test_more_keys_than_rows_would_fit(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_plan_module, "CELLS_PER_CHUNK", 10)
    with pytest.raises(InputError, match=r"by 5 variables have more than 20 keys, which need more than the 0 MiB that"):
        sweep_plan_module.key_ranges(czech, (0, 1, 2, 3, 4), 2, 20)


def test_the_plan_says_which_way(czech: Table) -> None:
    plan = sweep_plan(czech)
    assert (plan.way, plan.units, plan.bytes_per_unit) == ("whole", 16, sweep_bytes(63, czech.schema))
    plan = sweep_plan(czech, memory=plan.bytes_per_unit - 1)
    assert (plan.way, plan.units) == ("partitions", len(plan.cuts))
    assert plan.max_rows < 63


def check_visited(table: Table, cut: CriticalWidths, widths: dict[int, int]) -> None:
    """The border: sub-tables that do not reach the floor, and do with one variable less."""
    schema, order = table.schema, sweep_order(table.schema)
    found, place = as_dict(cut), np.argsort(order).tolist()
    apart = [st.full(len(schema)) & ~(1 << v) for v in range(len(schema))]
    visited = renumbered(neighbours(renumbered(cut.sub_tables, place), apart), order).tolist()
    assert cut.visited == 1 + len(visited) == 1 + len(set(visited))
    assert set(found) <= {0, *visited}
    border = {t for t, w in widths.items() if w < cut.floor and any(child in found for child in st.children(t, schema))}
    assert set(visited) - set(found) <= border


def test_the_list_is_ordered_by_width_then_dimension_then_number(czech: Table) -> None:
    found = critical_widths(czech)
    keys = [(-w, -st.dimension(t), t) for t, w in zip(found.sub_tables.tolist(), found.widths.tolist(), strict=True)]
    assert keys == sorted(keys)
    assert found.reaching(61) == tuple(t for t in found.sub_tables.tolist() if found.of(t) >= 61)
    assert found.number_reaching(61) == len(found.reaching(61))


@pytest.mark.parametrize("floor", [0, 61])
def test_widths_are_found_by_their_sub_tables(floor: int, czech: Table) -> None:
    found = critical_widths(czech, floor=floor)
    expected = dict(zip(found.sub_tables.tolist(), found.widths.tolist(), strict=True))
    known = found.by_sub_table()
    assert list(known.items()) == list(expected.items())
    assert [known.get(t) for t in range(1 << 7)] == [expected.get(t) for t in range(1 << 7)]
    with pytest.raises(KeyError):
        found.of(1 << 6)


def test_forty_variables_need_a_floor() -> None:
    codes = np.random.default_rng(7).integers(0, 4, (3000, 40))
    schema = Schema(tuple(Variable(f"v{i}", ("a", "b", "c", "d")) for i in range(40)))
    table = Table.of(schema, codes)
    with pytest.raises(InputError, match=r"40 variables have 2\^40 sub-tables.*give a floor"):
        critical_widths(table)
    found = critical_widths(table, floor=30)
    assert found.visited < len(found) * 40
    assert {st.dimension(t) for t in found.sub_tables.tolist()} == {0, 1, 2, 3}
    parts = critical_widths(table, floor=300, memory=sweep_bytes(len(table), table.schema, floor=300) * 2 // 3)
    assert parts.sub_tables.tolist() == list(found.reaching(300))
    sample = found.sub_tables[:: len(found) // 50].tolist()
    assert [found.of(t) for t in sample] == [by_definition(table, t) for t in sample]


def test_twelve_variables_at_every_floor(public_data: Callable[[str], Path]) -> None:
    """In CI at some eight of them, the lowest and the highest."""
    cells = read_table(public_data("cps13.parquet"))
    people = Table.of(cells.schema.restrict(range(12)), cells.codes[::60, :12], cells.counts[::60])
    codes = np.random.default_rng(3).binomial(3, np.linspace(0.02, 0.4, 12), (2000, 12))
    made = Table.of(Schema(tuple(Variable(f"v{i}", ("a", "b", "c", "d")) for i in range(12))), codes)
    for table in (people, made):
        widths = as_dict(critical_widths(table))
        assert len(widths) == 1 << 12
        assert all(width == by_definition(table, t) for t, width in [*widths.items()][::100])
        floors = np.array(sorted({1, *widths.values()} - {0}))
        taken = np.linspace(0, len(floors) - 1, scaled(len(floors), fewest=8)).astype(int)
        for floor in floors[taken].tolist():
            cut = critical_widths(table, floor=floor)
            assert as_dict(cut) == {t: w for t, w in widths.items() if w >= floor}
            check_visited(table, cut, widths)


def test_all_widths_of_the_cps_table(public_data: Callable[[str], Path]) -> None:
    table = read_table(public_data("cps13.parquet"))
    found = critical_widths(table)
    assert len(found) == found.visited == 8192
    assert (len(found.reaching(3)), len(found.reaching(10))) == (1266, 889)
    sample = found.sub_tables[::400].tolist()
    assert [found.of(t) for t in sample] == [by_definition(table, t) for t in sample]


def test_all_widths_of_sixteen_variables(public_data: Callable[[str], Path]) -> None:
    table = read_table(public_data("nltcs_cells.parquet"))
    found = critical_widths(table)
    assert len(found) == 65_536
    assert np.array_equal(critical_widths(table, floor=10).widths, found.widths[found.widths >= 10])
