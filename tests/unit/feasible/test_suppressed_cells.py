"""Places of sub-tables in part, and walks that pay for what they change of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.feasible import walk
from sdc.feasible.suppressed_cells import PricedCells, begins, changed_places
from sdc.feasible.walk import NOWHERE, shift, shift_priced
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from tests.strategies import dense, every_cell, knows, schema_of, tables_and_knowledge

NODES = 100


@hs.composite
def tables_and_views(draw: hs.DrawFn) -> tuple[Table, Knowledge, tuple[SubTable, ...]]:
    """A table, what is known of it, and one to three sub-tables."""
    table, known = draw(tables_and_knowledge())
    full = st.full(len(table.schema))
    return table, known, tuple(draw(hs.lists(hs.integers(1, full), min_size=1, max_size=3, unique=True)))


def suppressed(table: Table, views: tuple[SubTable, ...], price: int) -> PricedCells:
    """Every cell of the views costs as much."""
    return PricedCells(views, np.full(begins(views, table.schema)[-1], price))


@settings(max_examples=50)
@given(tables_and_views(), hs.sampled_from([-2, -1, 1, 2]), hs.sampled_from([-12, 0, 15]))
def test_a_walk_moves_a_place_as_far_as_it_says(
    example: tuple[Table, Knowledge, tuple[SubTable, ...]], by: int, price: int
) -> None:
    table, known, views = example
    places = np.arange(begins(views, table.schema)[-1])
    asked = suppressed(table, views, price)
    found = shift_priced(table, known, asked, None, places, np.full(len(places), by), nodes=NODES, tries=walk.FIRST)
    of, changed, sums = changed_places(found.differences, views, table.schema)
    told = dict(zip(zip(of.tolist(), changed.tolist(), strict=True), sums.tolist(), strict=True))
    for d, row in enumerate(found.moved.tolist()):
        gone = int(found.gone[row])
        assert told[d, row] == gone
        assert 0 < gone * np.sign(by) <= abs(by)
    assert found.differences.feasible(table, known).all()


@settings(max_examples=50)
@given(tables_and_views(), hs.sampled_from([0, 15]))
def test_a_priced_walk_moves_cells_as_far_as_it_says(
    example: tuple[Table, Knowledge, tuple[SubTable, ...]], price: int
) -> None:
    table, known, views = example
    cells = every_cell(table.schema)
    asked, by = suppressed(table, views, price), np.ones(len(cells), np.int64)
    found = shift_priced(table, known, asked, cells, NOWHERE, by, nodes=NODES, tries=walk.FIRST)
    assert found.differences.feasible(table, known).all()
    for row, (own, changes) in zip(found.moved.tolist(), found.differences, strict=True):
        assert changes[(own == cells[row]).all(axis=1)].tolist() == [found.gone[row]] == [1]


def test_where_nothing_costs_anything_a_walk_is_as_it_was() -> None:
    table = dense(schema_of([3, 3, 2]), [3, 1, 0, 2, 5, 1, 0, 4, 2, 2, 1, 1, 6, 0, 3, 1, 1, 2])
    known, cells = knows(table, Release.of([0b011, 0b100])), every_cell(table.schema)
    by = np.ones(len(cells), np.int64)
    priced = shift_priced(table, known, suppressed(table, (0b101,), 0), cells, NOWHERE, by, nodes=NODES, tries=walk.ALL)
    plain = shift(table, known, cells, by, nodes=NODES)
    assert priced.differences.cells.tolist() == plain.differences.cells.tolist()
    assert priced.differences.changes.tolist() == plain.differences.changes.tolist()


def test_a_walk_that_pays_changes_less_of_what_is_shown() -> None:
    rng = np.random.default_rng(3)
    table = dense(schema_of([6, 4, 3, 2]), rng.poisson(2, 144).tolist())
    view, known, cells = 0b0011, knows(table, Release.of([0b1101, 0b1110])), every_cell(table.schema)
    changed = []
    for price in (0, 15):
        found = shift_priced(
            table,
            known,
            suppressed(table, (view,), price),
            cells,
            NOWHERE,
            np.ones(len(cells), np.int64),
            nodes=NODES,
            tries=walk.ALL,
        )
        of, _, _ = changed_places(found.differences, (view,), table.schema)
        changed.append(len(of) / len(found.differences))
    assert changed[1] < changed[0]
