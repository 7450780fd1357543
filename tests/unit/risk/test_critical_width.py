"""Critical widths, with levels and without: the published list, the definition, floors and partitions."""

import re
from collections.abc import Callable
from math import comb
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.method import cheap_bounds
from sdc.data.reading import read_table
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.marginal import CellMarginals
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk import sweep_plan as sweep_plan_module
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.partitions import renumbered
from sdc.risk.reaching import neighbours
from sdc.risk.rows import rows_of
from sdc.risk.sweep_plan import sweep_bytes, sweep_order, sweep_plan
from sdc.storage.parquet import open_parts, place_of, write_table
from tests import reference
from tests.levels import (
    CASES,
    Case,
    Rng,
    agreeing,
    as_codes,
    axis_of,
    cases,
    cells_of,
    closed_sets,
    generators,
    named,
    random_schema,
)
from tests.reference import TooManyTablesError
from tests.strategies import dense, knows, most_parsimonious, schema_of
from tests.wide import copies, wide_table

SMALL = 2


def by_definition(table: Table, subtable: int, small_count: int = SMALL) -> int:
    """[KDSF] eq. 10, by the explicit bounds of the most parsimonious release."""
    return reference.explicit_critical_width(table.codes, table.counts, named(table.schema, subtable), small_count)


@hs.composite
def tables(draw: hs.DrawFn) -> Table:
    """More records than anybody lists tables of; some of them are at risk."""
    rng = draw(generators())
    schema = random_schema(rng, most_cells=80)
    codes = rng.integers(0, len(cells_of(schema)), rng.integers(1, 60))
    skewed = np.minimum(codes, rng.integers(0, len(cells_of(schema)), len(codes)))
    return Table.of(schema, as_codes(cells_of(schema), schema)[skewed])


@given(tables())
@settings(max_examples=CASES)
def test_limits_of_a_variable_are_those_at_the_at_risk_cells(table: Table) -> None:
    """The smallest count of its category, and of what is beside it within the level before it, or within the total."""
    at_risk = table.at_risk(SMALL)
    if not len(at_risk):
        return
    order, axes = sweep_order(table.schema), table.schema.levels.axis_of
    lowest, nearest = rows_of(table, SMALL, tuple(order)).nearest
    codes = dict(zip(order, table.schema.columns(table.codes[at_risk], order).T, strict=True))
    counts = {v: table.one_way()[v][codes[v]] for v in order}
    for place, v in enumerate(order):
        before = [counts[u] for u in order[:place] if axes[u] == axes[v]]
        whole = before[-1] if before else table.total
        assert (lowest[place], nearest[place]) == (counts[v].min(), (whole - counts[v]).min())


def as_dict(widths: CriticalWidths) -> dict[int, int]:
    return dict(zip(widths.sub_tables.tolist(), widths.widths.tolist(), strict=True))


def enough(table: Table) -> bool:
    return len(table.at_risk(SMALL)) > 0


@given(tables(), hs.integers(1, 3))
@settings(max_examples=CASES)
def test_widths_by_definition(table: Table, small_count: int) -> None:
    """Of exactly the closed sub-tables, the grand total and the full table among them."""
    found = critical_widths(table, small_count=small_count)
    assert sorted(found.sub_tables.tolist()) == sorted(closed_sets(table.schema))
    assert found.visited == len(found)
    if len(table.at_risk(small_count)):
        assert as_dict(found) == {t: by_definition(table, t, small_count) for t in closed_sets(table.schema)}
    else:
        assert set(found.widths.tolist()) == {table.total}


@given(cases(with_zeros=False), generators())
@settings(max_examples=CASES)
def test_widths_are_the_sharp_ones_of_the_most_parsimonious_release(of: Case, rng: Rng) -> None:
    """[KDSF] eq. 10 by all tables that agree, of a sub-table or two, and by explicit bounds, of all."""
    table, schema = of.table, of.schema
    if not enough(table):
        return
    widths, cells = as_dict(critical_widths(table, small_count=SMALL)), table.codes[table.at_risk(SMALL)]
    marginals = CellMarginals(table, cells)
    for subtable, width in widths.items():
        known = knows(table, most_parsimonious(subtable, schema))
        assert known.structure.decomposition is not None
        bounds = cheap_bounds(marginals, known)
        assert bounds.exact.all()
        assert bounds.outer_width.min() == width
    axes = [1 << v for v in range(len(schema)) if axis_of(schema, v) == v]
    for subtable in rng.permutation(list(widths))[:2].tolist():
        try:
            listed = Case(table, (subtable, *axes), NO_ZEROS, agreeing(table, (subtable, *axes)))
        except TooManyTablesError:
            continue
        assert np.diff(listed.sharp_at(cells), axis=1).min() == widths[subtable]


@given(tables(), hs.integers(1, 20))
@settings(max_examples=CASES)
def test_a_floor_lists_exactly_what_reaches_it(table: Table, floor: int) -> None:
    if not enough(table):
        return
    everything, cut = critical_widths(table), critical_widths(table, floor=floor)
    assert as_dict(cut) == {t: w for t, w in as_dict(everything).items() if w >= floor}
    assert cut.sub_tables.tolist() == [t for t in everything.sub_tables.tolist() if t in as_dict(cut)]


@given(tables(), hs.integers(1, 12))
@settings(max_examples=CASES)
def test_what_is_visited_is_found_or_on_the_border(table: Table, floor: int) -> None:
    """The border: closed sub-tables that do not reach the floor, and do with one axis less."""
    if not enough(table):
        return
    schema, cut, widths = table.schema, critical_widths(table, floor=floor), as_dict(critical_widths(table))
    order = sweep_order(schema)
    place, axes = np.argsort(order).tolist(), [axis_of(schema, v) for v in order]
    apart = [st.of(p for p, axis in enumerate(axes) if axis != own) for own in axes]
    told = np.array([schema.levels.finest(t) for t in cut.sub_tables.tolist()], np.uint64)
    visited = [schema.levels.closed(t) for t in renumbered(neighbours(renumbered(told, place), apart), order).tolist()]
    assert cut.visited == 1 + len(visited) == 1 + len(set(visited))
    assert set(as_dict(cut)) <= {0, *visited}
    assert all(any(c in as_dict(cut) for c in without_an_axis(schema, t)) for t in set(visited) - set(as_dict(cut)))
    assert all(widths[t] < floor for t in set(visited) - set(as_dict(cut)))


def without_an_axis(schema: Schema, subtable: int) -> list[int]:
    return [subtable & ~schema.levels.of_axis[axis] for axis in schema.axes if subtable & schema.levels.of_axis[axis]]


@given(tables(), hs.one_of(hs.just(0), hs.integers(1, 12)), hs.floats(0, 1), hs.integers(0, 3), hs.integers(2, 30))
@settings(max_examples=CASES)
def test_partitions_of_any_memory_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, table: Table, floor: int, share: float, parts: int, chunk: int
) -> None:
    """Of the table in memory, or read from so many parts on disk; some cells at a time."""
    if not enough(table):
        return
    memory, stored = int(share * sweep_bytes(len(table), table.schema, floor=floor)), None
    if parts:
        folder = tmp_path_factory.mktemp("table")
        write_table(table, folder, parts=parts)
        stored = open_parts(place_of(folder))
    whole = critical_widths(table, floor=floor)
    try:
        with patch("sdc.risk.rows.CELLS_PER_CHUNK", chunk), patch("sdc.risk.sweep_plan.CELLS_PER_CHUNK", chunk):
            found = critical_widths(table, floor=floor, memory=memory, parts=stored)
    except InputError as error:
        assert re.search("the smallest partition of|have more than .* keys", str(error))  # noqa: PT017
        return
    assert np.array_equal(found.sub_tables, whole.sub_tables)
    assert np.array_equal(found.widths, whole.widths)
    assert found.visited == whole.visited


@pytest.mark.parametrize(("floor", "listed"), [(0, 8), (5, 8), (72, 8), (73, 0)])
def test_without_a_cell_at_risk_all_widths_are_the_total(floor: int, listed: int) -> None:
    found = critical_widths(dense(schema_of([2, 2, 2]), [9] * 8), floor=floor)
    assert (len(found), set(found.widths.tolist())) == (listed, {72} if listed else set())
    wide = Table.of(schema_of([2] * 27), np.zeros((1, 27), np.uint16), np.array([9]))
    with pytest.raises(InputError, match="no cell is at risk, so that all reach the floor: raise the small count"):
        critical_widths(wide, floor=5)


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
    sample = found.sub_tables[:: len(found) // 10].tolist()
    assert [found.of(t) for t in sample] == [by_definition(table, t) for t in sample]


def test_all_widths_of_the_cps_table(public_data: Callable[[str], Path]) -> None:
    table = read_table(public_data("cps13.parquet"))
    found = critical_widths(table)
    assert len(found) == found.visited == 8192
    assert (len(found.reaching(3)), len(found.reaching(10))) == (1266, 889)
    sample = found.sub_tables[::2000].tolist()
    assert [found.of(t) for t in sample] == [by_definition(table, t) for t in sample]


LEAST = 2


@pytest.fixture(scope="module")
def table() -> Table:
    return wide_table(11, 4_000, 5)


@pytest.mark.parametrize("most", [1, 12, 40, 100, 200])
def test_the_widest_are_listed_and_not_too_many(table: Table, most: int) -> None:
    everything = critical_widths(table, floor=LEAST)
    found = critical_widths(table, floor=LEAST, most=most)
    assert len(found) <= most < len(everything)
    reaching = everything.reaching(found.floor)
    assert found.sub_tables.tolist() == [t for t in reaching if st.dimension(t) <= found.ways]
    assert found.widths.tolist() == [everything.of(t) for t in found.sub_tables.tolist()]
    if found.ways < len(table.schema):
        assert sum(st.dimension(t) <= found.ways + 1 for t in reaching) > most
    else:
        assert found.visited == critical_widths(table, floor=found.floor).visited
        # at three quarters of the floor, and what is lost where numbers are halved, too many reach it
        assert everything.number_reaching(max(LEAST, found.floor * 3 // 4 - 2)) > most


def test_a_least_floor_that_not_too_many_reach_is_kept(table: Table) -> None:
    everything = critical_widths(table, floor=LEAST)
    found = critical_widths(table, floor=LEAST, most=len(everything))
    assert (found.floor, found.cut(LEAST)) == (LEAST, "")
    assert found.sub_tables.tolist() == everything.sub_tables.tolist()


def test_what_was_cut_is_said(table: Table) -> None:
    found = critical_widths(table, floor=LEAST, most=40)
    said = found.cut(LEAST)
    assert all(f" {number}" in said for number in (found.floor, len(found), 40, LEAST))
    assert found.cut(found.floor) == critical_widths(table, floor=found.floor).cut(LEAST) == ""


def test_partitions_choose_the_same_floor(table: Table) -> None:
    alone = critical_widths(table, floor=LEAST, most=200)
    parts = critical_widths(
        table, floor=LEAST, most=200, memory=sweep_bytes(len(table), table.schema, floor=LEAST) * 2 // 3
    )
    assert (parts.floor, parts.visited) == (alone.floor, alone.visited)
    assert parts.sub_tables.tolist() == alone.sub_tables.tolist()
    assert parts.widths.tolist() == alone.widths.tolist()


@pytest.mark.parametrize(("most", "ways"), [(500, 1), (1_000, 2), (20_000, 3)])
def test_where_all_have_one_width_those_of_few_variables_are_listed(most: int, ways: int) -> None:
    """2^40 sub-tables reach whatever one of them does: a walk ends once it has listed too many."""
    found = critical_widths(copies(40, 100), floor=1, most=most)
    assert (found.ways, found.floor) == (ways, 1)
    assert len(found) == sum(comb(41, d) for d in range(ways + 1))
    assert f"at least 1 and of at most {ways} variable" in found.cut(1)


def test_where_not_even_the_grand_total_reaches_the_least_nothing_is_listed(table: Table) -> None:
    found = critical_widths(table, floor=table.total + 1, most=10)
    assert (len(found), found.floor) == (0, table.total + 1)
