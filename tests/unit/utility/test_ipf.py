"""IPF against the dense textbook iteration and the closed form."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.utility import ipf
from sdc.utility.marginal import Marginal
from tests.strategies import (
    all_ways,
    czech,
    decomposable_releases,
    dense,
    every_cell,
    frontier,
    knows,
    scattered,
    schema_of,
    small_tables,
    tables_and_knowledge,
    tables_and_releases,
)

Values = npt.NDArray[np.float64]

SWEEPS = 50
LOOSE = ipf.Stop(tolerance=1e-9, max_sweeps=SWEEPS)
"""So tight that mostly all sweeps are made: two iterations are compared, not their limits."""


def textbook(start: Values, counts: Values, release: Release, sweeps: int) -> Values:
    """Bishop, Fienberg and Holland (1975), section 3.5: each marginal in turn, on the dense table."""
    values = start.astype(float)
    for _ in range(sweeps):
        for element in release.frontier:
            others = tuple(v for v in range(counts.ndim) if not st.has(element, v))
            target, now = (array.sum(axis=others, keepdims=True) for array in (counts, values))
            values = values * np.divide(target, now, out=np.zeros(now.shape), where=now > 0)
    return values


def fit(table: Table, release: Release, **settings: Any) -> ipf.Fit:
    """For whoever knows the release alone."""
    return ipf.fit(table, knows(table, release), **settings)


def possible(table: Table, known: Knowledge) -> Values:
    """1 where all released marginals are positive and no structural zero is, as the fit begins.

    Begun elsewhere the first sweep is another, and where a cell goes to 0 only slowly the two stay apart for long.
    """
    counts, found = table.dense, 1.0 - known.zeros.contains(every_cell(table.schema), table.schema)
    found = found.reshape(table.schema.sizes)
    for element in known.release.frontier:
        others = tuple(v for v in range(counts.ndim) if not st.has(element, v))
        found = found * (counts.sum(axis=others, keepdims=True) > 0)
    return found


def at_every_cell(found: ipf.Fit) -> Values:
    return found.at(every_cell(found.schema)).reshape(found.schema.sizes)


# The iteration


@given(tables_and_knowledge())
def test_structural_zeros_stay_zero(case: tuple[Table, Knowledge]) -> None:
    table, known = case
    found = ipf.fit(table, known, stop=LOOSE)
    assert not at_every_cell(found)[
        known.zeros.contains(every_cell(table.schema), table.schema).reshape(table.schema.sizes)
    ].any()
    book = textbook(possible(table, known), table.dense, known.release, max(found.sweeps, 2))
    assert at_every_cell(found) == pytest.approx(book, abs=1e-8)


@given(tables_and_releases())
def test_fits_the_non_zero_cells_alone(case: tuple[Table, Release]) -> None:
    table, release = case
    found = fit(table, release, support="non-zero", stop=LOOSE)
    assert np.array_equal(found.cells, table.codes)
    assert found.method == "ipf"
    book = textbook(table.dense > 0, table.dense, release, found.sweeps)
    assert at_every_cell(found) == pytest.approx(book, abs=1e-8)


@pytest.mark.parametrize("support", ["possible", "non-zero"])
def test_the_largest_deviation_is_that_of_the_values(support: ipf.Support) -> None:
    table, release = scattered(), all_ways(5, 2)
    for sweeps in (1, 3, 2000):
        found = fit(table, release, support=support, stop=ipf.Stop(tolerance=0.01, max_sweeps=sweeps))
        values, counts = at_every_cell(found), table.dense
        others = [tuple(v for v in range(5) if not st.has(element, v)) for element in release.frontier]
        deviation = max(abs(values.sum(axis=axes) - counts.sum(axis=axes)).max() for axes in others)
        assert found.deviation == pytest.approx(deviation, abs=1e-9)
        assert found.converged == (deviation <= 0.01)
    assert found.converged
    assert 3 < found.sweeps < 2000


# The closed form


@given(small_tables(max_records=12), hs.data())
def test_the_closed_form_is_the_limit_of_ipf(table: Table, data: hs.DataObject) -> None:
    """On a decomposable release IPF ends after one sweep in perfect order, and in any order it converges."""
    release = data.draw(decomposable_releases(len(table.schema)))
    found = fit(table, release, stop=LOOSE)
    assert (found.method, found.sweeps, found.converged) == ("closed form", 0, True)
    book = textbook(np.ones(table.schema.sizes), table.dense, release, SWEEPS)
    assert at_every_cell(found) == pytest.approx(book, abs=1e-6)


def test_structural_zeros_within_a_sub_table_keep_the_closed_form() -> None:
    table = dense(schema_of([2, 2, 2]), [0, 0, 3, 4, 5, 6, 7, 8])
    within, across = ((0, (0,)), (1, (0,))), ((0, (0,)), (1, (0,)), (2, (0,)))
    for pattern, method in ((within, "closed form"), (across, "ipf")):
        known = knows(table, frontier("AB", "BC"), StructuralZeros((pattern,)))
        assert ipf.fit(table, known).method == method


# The possible cells


def test_a_sparse_support_of_a_table_beyond_64_bits() -> None:
    """40 variables of four categories that all say the same: 2^80 cells, four of them possible given a cycle."""
    schema = Schema(tuple(Variable(f"v{v}", tuple("abcd")) for v in range(40)))
    table = Table.of(schema, np.repeat(np.arange(4), [1, 2, 3, 4])[:, None].repeat(40, axis=1))
    cycle = Release.of(st.of({v, (v + 1) % 40}) for v in range(40))
    found = fit(table, cycle)
    assert found.method == "ipf"
    assert found.cells.tolist() == [[code] * 40 for code in range(4)]
    assert found.values == pytest.approx([1, 2, 3, 4])


def test_more_cells_than_memory_are_refused() -> None:
    schema = Schema(tuple(Variable(f"v{v}", tuple("abcd")) for v in range(40)))
    table = Table.of(schema, np.random.default_rng(0).integers(0, 4, (500, 40)))
    cycle = Release.of(st.of({v, (v + 1) % 40}) for v in range(40))
    with pytest.raises(InputError, match=r"fitting 16,777,216 cells needs 2,176 MiB; 1,024 MiB are allowed"):
        fit(table, cycle)
    with pytest.raises(InputError, match="fit the non-zero cells only"):
        fit(czech(), all_ways(6, 2), max_bytes=1000)
    assert fit(table, cycle, support="non-zero").converged


# Bad input


def test_settings_that_cannot_end_are_refused() -> None:
    for tolerance in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"tolerance = .*: give the deviation allowed in records, more than 0"):
            fit(czech(), all_ways(6, 2), stop=ipf.Stop(tolerance=tolerance))
    with pytest.raises(InputError, match="max_sweeps = 0: give at least 1"):
        fit(czech(), all_ways(6, 2), stop=ipf.Stop(max_sweeps=0))
    misspelt: Any = "nonzero"
    with pytest.raises(InputError, match="support = 'nonzero': choose possible or non-zero"):
        fit(czech(), all_ways(6, 2), support=misspelt)


def test_what_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"what is known is of 1841 records .*; give what is known of this table"):
        ipf.fit(scattered(), knows(czech(), frontier("AB")))
    with pytest.raises(ReleaseError, match="names variable number 7"):
        Marginal.of(czech(), frontier("AH").frontier[0])
    with pytest.raises(InputError, match="outside the table"):
        fit(czech(), all_ways(6, 2)).at(np.full((1, 6), 2))


def test_structural_zeros_of_another_table_are_refused() -> None:
    table, zeros = dense(schema_of([2, 2]), [1, 2, 3, 4]), StructuralZeros((((0, (1,)), (1, (0, 1))),))
    others = Knowledge(table.schema, table.total, frontier("A", "B"), zeros, ())
    with pytest.raises(InputError, match="the marginal A has the count 7 at A = 1, where every cell is a structural"):
        ipf.fit(table, others)
