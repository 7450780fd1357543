"""Whatever the multipliers, what they prove is so: judged by every table that agrees with what they use."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.bounds import duality
from sdc.bounds.duality import Multipliers, narrowest, proven
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from tests import levels
from tests.levels import Rng, generators
from tests.reference import TooManyTablesError
from tests.strategies import every_cell, frontier, schema_of, small_tables, structural_zeros


def random_multipliers(rng: Rng, table: Table) -> Multipliers:
    """Up to six of any marginal cells, small whole numbers, and up to two caps."""
    full = st.full(len(table.schema))
    of = []
    for _ in range(rng.integers(0, 7)):
        subtable = int(rng.integers(0, full + 1))
        codes = tuple(int(rng.integers(0, table.schema.sizes[v])) for v in st.members(subtable))
        of.append((subtable, codes, int(rng.integers(-3, 4))))
    caps = tuple(int(rng.integers(0, full + 1)) for _ in range(rng.integers(0, 3)))
    return Multipliers(int(rng.integers(1, 4)), tuple(of), caps)


@given(small_tables(max_records=6, max_cells=18), generators(), hs.data())
@settings(max_examples=1000)
def test_any_multipliers_prove_what_is_so(table: Table, rng: Rng, data: hs.DataObject) -> None:
    zeros = data.draw(structural_zeros(table))
    multipliers, cells = random_multipliers(rng, table), levels.cells_of(table.schema)
    try:
        tables = levels.agreeing(table, multipliers.support, zeros)
    except TooManyTablesError:
        assume(False)
    for place in rng.integers(0, len(cells), 4).tolist():
        values = tables[:, place]
        assert values.max() <= proven(table, zeros, cells[place], 1, multipliers)
        assert -values.min() <= proven(table, zeros, cells[place], -1, multipliers)


def test_a_cap_alone_is_the_count_of_its_marginal_cell() -> None:
    table = Table.of(schema_of([2, 2]), np.array([[0, 0], [0, 1], [1, 1]]), np.array([2, 3, 4]))
    assert proven(table, NO_ZEROS, (0, 1), 1, Multipliers(1, (), (0b01,))) == 5
    assert proven(table, NO_ZEROS, (0, 1), 1, Multipliers(1, (), (0b01, 0b10))) == 5
    assert proven(table, NO_ZEROS, (0, 1), 1, Multipliers(1, (), (0b11,))) == 3
    assert proven(table, NO_ZEROS, (0, 1), 1, Multipliers(1, (), ())) == 9


def test_an_explicit_lower_bound_has_multipliers() -> None:
    """n_A(0) + n_B(0) - N: of 7 and 6 among 9 records 4 are both."""
    table = Table.of(schema_of([2, 2]), every_cell(schema_of([2, 2])), np.array([5, 2, 1, 1]))
    of = ((0b01, (0,), -1), (0b10, (0,), -1), (0, (), 1))
    assert -proven(table, NO_ZEROS, (0, 0), -1, Multipliers(1, of, ())) == 4


def test_an_impossible_cell_has_no_record() -> None:
    table = Table.of(schema_of([2, 2]), np.array([[0, 0], [1, 1]]), np.array([2, 3]))
    zeros = StructuralZeros((((0, (0,)), (1, (1,))),))
    assert proven(table, zeros, (0, 1), 1, Multipliers(1, (), ())) == 0


def test_what_is_proposed_is_rounded_by_the_smallest_scale_with_no_cap_too_many() -> None:
    table = Table.of(schema_of([2, 2]), every_cell(schema_of([2, 2])), np.array([5, 2, 1, 1]))
    exact = {(0b01, (0,)): -1.0, (0b10, (0,)): -1.0, (0, ()): 1.0}
    found = narrowest(table, NO_ZEROS, (0, 0), -1, [{(0, ()): float("nan")}, exact], frontier("A", "B").frontier)
    assert found is not None
    value, multipliers = found
    assert (value, multipliers.scale, multipliers.caps) == (-4, 1, ())
    assert multipliers.support == frontier("A", "B").frontier
    nothing = [{(0, ()): float("inf")}, {(0, ()): 2.0**61}]
    assert narrowest(table, NO_ZEROS, (0, 0), -1, nothing, ()) is None


def test_what_cannot_be_priced_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.of(schema_of([2, 2]), np.array([[0, 0], [1, 1]]), np.array([2, 3]))
    fair = Multipliers(1, ((0b01, (0,), 1),), ())
    with pytest.raises(ReleaseError, match="scale 0 come to 1, not between"):
        proven(table, NO_ZEROS, (0, 0), 1, replace(fair, scale=0))
    with pytest.raises(ReleaseError, match="come to 4611686018427387905, not between"):
        proven(table, NO_ZEROS, (0, 0), 1, replace(fair, of=((0b01, (0,), 1 << 62),)))
    monkeypatch.setattr(duality, "MAX_CELLS", 3)
    with pytest.raises(ReleaseError, match="4 cells, and multipliers price at most 3"):
        proven(table, NO_ZEROS, (0, 0), 1, fair)
    axis = Variable("A", ("0", "1", "2"))
    schema = Schema((axis, Variable("B", ("0", "1"), Coarser("A", (0, 0, 1)))))
    with pytest.raises(ReleaseError, match="are not levels"):
        proven(Table.of(schema, np.array([[0]]), np.array([1])), NO_ZEROS, (0,), 1, fair)
