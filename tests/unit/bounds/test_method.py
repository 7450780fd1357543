"""The choice among methods, published figures by each, and what is refused."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.method import cell_bounds, is_small, method_names
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.release import Release
from sdc.model.table import Table
from tests.strategies import (
    DFT_BOUNDS,
    ORDERED_60,
    all_ways,
    assert_around,
    czech,
    decomposable_releases,
    dft_2x3x3,
    dks_2x2x2x2,
    every_cell,
    frontier,
    knows,
    schema_of,
    sharp_ends,
    small_tables,
)

ANY_RELEASE = ["nested", "shuttle", "collapse", "enumeration"]
SOLVER = ["integer-program", "auto"]
SHARP = ["integer-program", "linear-program", "auto"]


@given(hs.data())
@settings(max_examples=200)
def test_the_shuttle_is_sharp_for_decomposable_releases(data: hs.DataObject) -> None:
    table = data.draw(small_tables())
    release = data.draw(decomposable_releases(len(table.schema)))
    sharp, cells = sharp_ends(table, knows(table, release)), every_cell(table.schema)
    assert (cell_bounds(table, knows(table, release), cells, "shuttle").outer == sharp).all()
    assert cell_bounds(table, knows(table, release), cells).method == "decomposable"


@pytest.mark.parametrize("name", ["nested", "decomposable", "shuttle", "collapse", *SHARP])
def test_dft_table(name: str) -> None:
    table = dft_2x3x3()
    bounds = cell_bounds(table, knows(table, frontier("BC", "AC")), every_cell(table.schema), name)
    assert bounds.outer.tolist() == DFT_BOUNDS
    assert bounds.exact.all() or name in ("shuttle", "collapse")


@pytest.mark.parametrize("name", ["enumeration", "integer-program", "branch-and-bound", "auto"])
@pytest.mark.parametrize(
    ("added", "sharp"),
    [
        ([], [[0, 10], [0, 9], [0, 9]]),
        (["ABCEF"], [[0, 5], [0, 6], [0, 6]]),
        (["ABCEF", "BCDEF"], [[0, 5], [2, 5], [1, 6]]),
        (["ABCEF", "BCDEF", "ABCDF"], [[0, 1], [2, 3], [1, 2]]),
    ],
)
def test_czech_sharp_bounds(name: str, added: list[str], sharp: list[list[int]]) -> None:
    """REFERENCE 2: sharp bounds of the ordered release, min width 5 with ABCEF, 3 with BCDEF, 1 with all six."""
    table = czech()
    release = Release.of([*ORDERED_60.frontier, *frontier(*added).frontier])
    bounds = cell_bounds(table, knows(table, release), table.codes[table.at_risk(2)], name)
    assert bounds.exact.all()
    assert bounds.counts.tolist() == [1, 2, 2]
    assert bounds.outer.tolist() == sharp


@pytest.mark.parametrize("name", ["shuttle", "collapse", "enumeration", "integer-program", "auto"])
def test_dichotomous_table_with_all_five_way_marginals_is_sharp(name: str) -> None:
    table = czech()
    bounds = cell_bounds(table, knows(table, all_ways(6, 5)), every_cell(table.schema), name)
    assert (bounds.outer_width == 1).all()


@pytest.mark.parametrize("name", [*ANY_RELEASE, *SOLVER, "decomposable"])
def test_extreme_releases(name: str) -> None:
    table = dks_2x2x2x2()
    cells = every_cell(table.schema)
    everything = cell_bounds(table, knows(table, Release.of([st.full(4)])), cells, name)
    assert (everything.outer == table.count_at(cells)[:, None]).all()
    nothing = cell_bounds(table, knows(table, Release.of([])), cells, name)
    assert (nothing.outer == [0, 5]).all()
    assert_around(nothing, np.tile([0, 5], (16, 1)))


@pytest.mark.parametrize("name", [*ANY_RELEASE, *SOLVER])
def test_no_cells_and_no_records(name: str) -> None:
    empty = Table.of(schema_of([2, 3, 2]), np.empty((0, 3), np.int64))
    release = frontier("AB", "BC", "AC")
    assert (cell_bounds(empty, knows(empty, release), every_cell(empty.schema), name).outer == 0).all()
    assert len(cell_bounds(empty, knows(empty, release), np.empty((0, 3), np.uint16), name)) == 0


@pytest.mark.parametrize("name", method_names())
def test_bounds_leave_the_callers_cells_alone(name: str) -> None:
    """They are as they were, and may be written to."""
    cells, release = (
        every_cell(schema_of([2, 2, 2, 2])),
        all_ways(4, 3) if name == "dichotomous" else frontier("AB", "BCD"),
    )
    cell_bounds(dks_2x2x2x2(), knows(dks_2x2x2x2(), release), cells, name)
    assert np.array_equal(cells, every_cell(schema_of([2, 2, 2, 2])))
    cells[0, 0] = 1


def test_auto_on_larger_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The linear program where the released marginal cells are few, else collapse."""
    table = Table.of(schema_of([4, 4, 4, 4, 4]), np.arange(300)[:, None] * [1, 3, 5, 7, 9] // [2, 3, 5, 7, 11] % 4)
    assert not is_small(table.schema)
    assert cell_bounds(table, knows(table, all_ways(5, 2)), table.codes[:1]).method == "nested + linear-program"
    monkeypatch.setattr("sdc.bounds.method.LINEAR_ROWS", 10)
    bounds = cell_bounds(table, knows(table, all_ways(5, 2)), table.codes[:1])
    assert bounds.method == "nested + collapse"


def test_auto_says_nested_where_it_suffices() -> None:
    table = dks_2x2x2x2()
    zero = np.array([[0, 1, 0, 0]], np.uint16)
    release = frontier("AB", "BC", "CD", "AD", "ABC", "BCD", "ABD", "ACD")
    assert cell_bounds(table, knows(table, release), zero, "nested").exact.all()
    assert cell_bounds(table, knows(table, release), zero).method == "nested"


def test_importing_the_methods_imports_no_solver() -> None:
    code = "import sys, sdc.bounds.method; print({'numba', 'ortools'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_unknown_method_is_refused() -> None:
    with pytest.raises(ReleaseError, match="unknown method 'simplex'; choose one of auto, decomposable, nested, sh"):
        cell_bounds(czech(), knows(czech(), ORDERED_60), np.zeros((1, 6), np.uint16), "simplex")


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize(
    ("cells", "message"), [([[0, 0, 0, 2]], r"cell \[0, 0, 0, 2\] is outside"), ([[0, 0, 0]], "shape")]
)
def test_cells_beyond_the_schema_are_refused(name: str, cells: list[list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cell_bounds(dks_2x2x2x2(), knows(dks_2x2x2x2(), frontier("AB")), np.array(cells, np.uint16), name)
