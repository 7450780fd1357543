"""Widths of axes with levels: what a bank shows, verdicts, and critical widths, against listing and by definition."""

from __future__ import annotations

import re
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.method import cheap_bounds
from sdc.feasible.bank import Bank
from sdc.feasible.walk import shift
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING, most_parsimonious
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.effort import Budget, Depth, Effort
from sdc.risk.partitions import renumbered
from sdc.risk.reaching import neighbours
from sdc.risk.support import Shift, Support
from sdc.risk.sweep_plan import sweep_bytes, sweep_order
from sdc.risk.verdict import Verdict
from sdc.storage.parquet import open_parts, place_of, write_table
from tests import reference
from tests.levels import (
    CASES,
    FEW_NODES,
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
from tests.strategies import knows, nested_in

SMALL = 2

# What is shown


def assert_inside(support: Support, of: Case) -> None:
    """Inner and outer bounds of the at-risk cells around and within the sharp ones."""
    at_risk = support.bank.at_risk
    sharp, rows = of.sharp_at(at_risk.cells), np.arange(len(at_risk))
    inner, outer = support.inner, support.outer_at(rows)
    assert nested_in(inner, sharp)
    assert nested_in(sharp, outer)


def searched(support: Support, width: int) -> None:
    """What a criterion does: every component's cells are moved as far as is wanted of them."""
    rows = np.arange(len(support.bank.at_risk))
    for way in (Shift.DOWN, Shift.UP):
        for component, cells, changes in support.wanted(rows, width, way):
            table, moved = component.frame.table, component.frame.cells[cells]
            component.add(shift(table, component.knowledge, moved, changes, nodes=FEW_NODES).differences)


@given(cases(), hs.integers(1, 3), hs.integers(1, 6))
@settings(max_examples=CASES)
def test_support_is_within_the_sharp_bounds(of: Case, small_count: int, width: int) -> None:
    """Before anything is found, then with what is found; what a proof hands out shows as much."""
    bank = Bank.of(of.table, small_count)
    support = Support(of.known, bank)
    assert_inside(support, of)
    searched(support, width)
    assert_inside(support, of)
    again = Support(of.known, bank.learnt(support.proof(), of.known))
    assert np.array_equal(again.inner, support.inner)


@given(cases(), generators())
@settings(max_examples=CASES)
def test_what_was_found_for_more_counts_for_less_and_for_more_where_it_is_feasible(of: Case, rng: Rng) -> None:
    less = tuple(t for t in of.subtables if rng.random() < 0.6)
    try:
        before = Case(of.table, less, of.zeros, agreeing(of.table, less, of.zeros))
    except TooManyTablesError:
        return
    asked = [of, before] if rng.random() < 0.5 else [before, of]
    bank = Bank.of(of.table, SMALL)
    for each in (*asked, asked[0]):
        support = Support(each.known, bank)
        searched(support, int(rng.integers(1, 5)))
        assert_inside(support, each)
        bank = bank.plus((c.evidence for c in support.open), {})


@given(cases(), generators())
@settings(max_examples=CASES)
def test_verdicts_are_those_of_the_sharp_widths(of: Case, rng: Rng) -> None:
    """Of small tables by exact methods, or as larger ones have theirs: by tables found, whole or slice by slice."""
    criteria = Criteria.of(int(rng.integers(1, 4)), int(rng.integers(1, 9)))
    depth, cells_per_slice = rng.choice(list(Depth)), int(rng.choice([2, 5, 100]))
    effort = Effort(Budget(0.1, 10), depth=Depth(depth), cells_per_slice=cells_per_slice)
    rows, is_small = of.table.at_risk(criteria.small_count), bool(rng.random() < 0.3)
    with patch("sdc.risk.case.is_small", lambda schema: is_small):
        judgement = criteria.judge(of.table, of.known, NOTHING, criteria.bank(of.table), effort)
    smallest = int(np.diff(of.sharp_at(of.table.codes[rows]), axis=1).min(initial=of.table.total))
    low, high = judgement.margin
    assert low <= smallest <= high
    if judgement.verdict is not Verdict.UNDECIDED:
        assert (judgement.verdict is Verdict.SAFE) == (smallest >= criteria.width.min_width or not len(rows))
    if judgement.verdict is Verdict.SAFE:
        assert criteria.unproven(of.table, judgement.knowledge, judgement.proof) == 0


# Critical widths


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
    told = np.array([schema.levels.telling(t) for t in cut.sub_tables.tolist()], np.uint64)
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
