"""Components at released separators, and bounds that combine."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds import branch_and_bound, nested, reducible
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Codes, Table
from tests.strategies import TWO_CYCLES, assert_around, dense, every_cell, frontier, knows, schema_of, sharp_ends


def table_of(seed: int, sizes: list[int], records: int) -> Table:
    codes = np.random.default_rng(seed).integers(0, sizes, (records, len(sizes)))
    return Table.of(schema_of(sizes), codes)


@given(hs.integers(0, 1 << 30))
@settings(max_examples=80)
def test_bounds_of_two_cycles_are_sharp(seed: int) -> None:
    """And outer and inner bounds of components stay what they are."""
    table = table_of(seed, [2, 2, 2, 2, 2, 2], 7)
    known, cells = knows(table, TWO_CYCLES), every_cell(table.schema)
    sharp, bounds = sharp_ends(table, known), reducible.bounds(table, known, cells)
    assert (bounds.method, bounds.exact.all()) == ("reducible", True)
    assert (bounds.outer == sharp).all()
    assert_around(reducible.bounds_by(nested.bounds, table, known, cells), sharp)


def test_only_components_that_are_not_released_are_searched() -> None:
    """Each once, for its different marginal cells."""
    release = frontier("AB", "BC", "AC", "CD", "DE", "EF", "DF")
    table = table_of(0, [2, 2, 2, 2, 2, 3], 12)
    asked = []

    def watched(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
        asked.append(("".join(table.schema.names), len(cells)))
        return branch_and_bound.bounds(table, knowledge, cells)

    bounds = reducible.bounds_by(watched, table, knows(table, release), every_cell(table.schema))
    assert sorted(asked) == [("ABC", 8), ("DEF", 12)]
    assert bounds.exact.all()


def test_wide_tables_of_small_components() -> None:
    """39 variables in a chain of triangles: 2^39 cells, and 8 at a time are searched."""
    pairs = [(k + a, k + b) for k in range(0, 38, 2) for a, b in ((0, 1), (1, 2), (0, 2))]
    release = Release.of(st.of(pair) for pair in pairs)
    codes = np.random.default_rng(1).integers(0, 2, (50, 39))
    table = Table.of(Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(39))), codes)
    bounds = reducible.bounds(table, knows(table, release), table.codes[:5])
    assert bounds.exact.all()
    assert (bounds.outer[:, 1] >= 1).all()


def test_structural_zeros_across_components() -> None:
    """Impossible cells named by variables of both components: they are joined and the bounds stay sharp."""
    table = table_of(3, [2, 2, 2, 2, 2, 2], 6)
    pattern = next(
        p
        for a in (0, 1)
        for f in (0, 1)
        if not StructuralZeros((p := ((0, (a,)), (5, (f,))),)).contains(table.codes, table.schema).any()
    )
    zeros = StructuralZeros((pattern,))
    known, cells = knows(table, TWO_CYCLES, zeros), every_cell(table.schema)
    bounds = reducible.bounds(table, known, cells)
    assert bounds.exact.all()
    assert (bounds.outer == sharp_ends(table, known)).all()
    assert (bounds.outer[zeros.contains(cells, table.schema)] == 0).all()


def test_nothing_released() -> None:
    table = dense(schema_of([2, 2]), [1, 0, 2, 0])
    assert (
        reducible.bounds(table, knows(table, Release.of([])), every_cell(table.schema)).outer.tolist() == [[0, 3]] * 4
    )
