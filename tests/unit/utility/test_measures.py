"""Utilities against listing: every released sub-table one by one, and every cell of the dense table."""

from fractions import Fraction
from itertools import combinations
from math import log2, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.utility import ipf, measures
from sdc.utility.halvings import Halvings
from sdc.utility.measures import Weights, utility_of
from tests.strategies import (
    all_ways,
    arbitrary_releases,
    czech,
    dense,
    every_cell,
    frontier,
    knows,
    schema_of,
    tables_and_knowledge,
)

TIGHT = ipf.Stop(tolerance=1e-6, max_sweeps=20_000)


@hs.composite
def schemas_and_releases(draw: hs.DrawFn) -> tuple[Schema, Release]:
    sizes = draw(hs.lists(hs.integers(1, 6), min_size=1, max_size=8))
    return schema_of(sizes), draw(arbitrary_releases(len(sizes)))


def listed(release: Release) -> list[int]:
    """Every non-empty released sub-table."""
    return [*filter(None, st.within_any_of(release.frontier))]


@given(schemas_and_releases())
def test_counts_agree_with_listing(case: tuple[Schema, Release]) -> None:
    schema, release = case
    sizes = [[schema.sizes[v] for v in st.members(subtable)] for subtable in listed(release)]
    assert release.sub_tables(schema) == len(sizes)
    assert measures.cells(release, schema) == sum(map(prod, sizes))
    assert measures.degrees_of_freedom(release, schema) == sum(prod(n - 1 for n in kept) for kept in sizes)


@given(schemas_and_releases(), hs.data())
def test_weighted_sub_tables_agree_with_listing(case: tuple[Schema, Release], data: hs.DataObject) -> None:
    schema, release = case
    weight = hs.integers(1, 40).map(lambda n: n / 8)
    by_variable = data.draw(hs.dictionaries(hs.sampled_from(schema.names), weight))
    sub_table = hs.integers(1, st.full(len(schema))).map(lambda s: st.label(s, schema))
    by_sub_table = data.draw(hs.dictionaries(sub_table, weight, max_size=3))
    values = [
        by_sub_table.get(st.label(s, schema), prod(by_variable.get(name, 1) for name in st.names(s, schema)))
        for s in listed(release)
    ]
    weights = Weights.of(schema, by_variable, by_sub_table)
    assert measures.weighted_sub_tables(release, weights, schema) == pytest.approx(sum(values), rel=1e-12)


def test_equal_sums_of_decimal_weights_are_ties() -> None:
    """In binary 0.1 + 0.2 is not 0.3."""
    schema = schema_of([2, 2, 2])
    weights = Weights.of(schema, {"A": 0.1, "B": 0.2, "C": 0.3})
    assert weights.variables == (Fraction(1, 10), Fraction(1, 5), Fraction(3, 10))
    utility = [measures.weighted_sub_tables(frontier(*names), weights, schema) for names in (("A", "B"), ("C",))]
    assert utility[0] == utility[1] == 0.3


def test_counts_beyond_64_bits() -> None:
    """63 variables of 65,536 categories: 65,537^63 - 1 cells in all sub-tables together."""
    categories = tuple(map(str, range(1 << 16)))
    schema = Schema(tuple(Variable(f"v{v}", categories) for v in range(63)))
    release = Release.of([st.full(63)])
    assert measures.cells(release, schema) == 65537**63 - 1
    assert measures.degrees_of_freedom(release, schema) == 65536**63 - 1
    assert release.sub_tables(schema) == 2**63 - 1


def test_thousands_of_frontier_elements_are_not_listed() -> None:
    """All 1,716 six-way sub-tables of 13 variables of three categories; and a band of pairs of 63 variables."""
    three = schema_of([3] * 8).variables[0].categories
    schema = Schema(tuple(Variable(f"v{v}", three) for v in range(63)))
    release = all_ways(13, 6)
    numbers = [len(list(combinations(range(13), k))) for k in range(7)]
    assert measures.cells(release, schema) == sum(n * 3**k for k, n in enumerate(numbers)) - 1
    band = Release.of(st.of({v, v + d}) for v in range(60) for d in (1, 2, 3))
    assert measures.degrees_of_freedom(band, schema) == 63 * 2 + 180 * 4


def test_unknown_variables_are_refused() -> None:
    for measure in (measures.cells, measures.degrees_of_freedom):
        with pytest.raises(ReleaseError, match="names variable number 3"):
            measure(frontier("AD"), schema_of([2, 2]))
    with pytest.raises(InputError, match="weight of 'Z': there is no such variable; the table has A, B"):
        Weights.of(schema_of([2, 2]), {"Z": 1})
    with pytest.raises(InputError, match=r"weight of 'A\*Z': sub-table 'A\*Z' names the unknown variable 'Z'"):
        Weights.of(schema_of([2, 2]), sub_tables={"A*Z": 1})


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 10**400, True, "2"])
def test_weights_are_positive_numbers(value: float) -> None:
    with pytest.raises(InputError, match=r"weight of 'A' = .*: give a number more than 0"):
        Weights.of(schema_of([2, 2]), {"A": value})
    with pytest.raises(InputError, match=r"weight of 'A\*B' = .*: give a number more than 0"):
        Weights.of(schema_of([2, 2]), sub_tables={"A*B": value})


def test_a_sub_table_has_one_weight() -> None:
    with pytest.raises(InputError, match=r"weight of 'B\*A' = 2: A\*B has one; give one"):
        Weights.of(schema_of([2, 2]), sub_tables={"A*B": 1, "B*A": 2})


def test_weights_that_no_sum_can_hold() -> None:
    with pytest.raises(InputError, match="sum to more than 1e\\+300; choose smaller weights"):
        Weights.of(schema_of([2, 2]), {"A": 1e200, "B": 1e200})


# Reconstruction


def fit(table: Table, release: Release) -> ipf.Fit:
    """For whoever knows the release alone."""
    return ipf.fit(table, knows(table, release))


def reconstruction(table: Table, release: Release, **settings: Any) -> measures.Reconstruction:
    return measures.reconstruction(table, knows(table, release), **settings)


def error_of(table: Table, release: Release, stop: ipf.Stop = ipf.STOP) -> float:
    return reconstruction(table, release, stop=stop).mean_squared_error


def dense_error(table: Table, found: ipf.Fit) -> float:
    cells = every_cell(table.schema)
    return float(np.square(table.count_at(cells) - found.at(cells)).mean())


@given(tables_and_knowledge())
def test_reconstruction_error_is_that_of_the_dense_table(case: tuple[Table, Knowledge]) -> None:
    table, known = case
    stop = ipf.Stop(tolerance=0.5, max_sweeps=20_000)
    found = ipf.fit(table, known, stop=stop)
    error = pytest.approx(dense_error(table, found), abs=1e-9)
    assert measures.mean_squared_error(table, found) == error
    assert measures.reconstruction(table, known, stop=stop).mean_squared_error == error


def test_decomposable_releases_of_tables_beyond_64_bits() -> None:
    """A chain of pairs over 40 variables of four categories, 2^80 cells; no cell of them is listed but the occupied."""
    schema = Schema(tuple(Variable(f"v{v}", tuple("abcd")) for v in range(40)))
    table = Table.of(schema, np.random.default_rng(0).integers(0, 4, (500, 40)))
    chain = Release.of(st.of({v, v + 1}) for v in range(39))
    assert error_of(table, chain) == pytest.approx(500 / 4**40, rel=1e-6)
    few = Release.of([3, 4])
    assert fit(table, few).at(table.codes).max() < 500 / 4**37
    assert measures.mean_squared_error(table, fit(table, few)) == pytest.approx(error_of(table, few))


def test_a_reconstruction_says_how_it_was_found() -> None:
    one = reconstruction(czech(), all_ways(6, 2), stop=ipf.Stop(tolerance=1e-6, max_sweeps=1))
    assert (one.method, one.sweeps, one.converged) == ("ipf", 1, False)
    assert one.deviation > 1e-6
    all_sweeps = reconstruction(czech(), all_ways(6, 2), stop=TIGHT)
    assert (all_sweeps.method, all_sweeps.converged) == ("ipf", True)
    assert 1 < all_sweeps.sweeps < TIGHT.max_sweeps
    tree = reconstruction(czech(), frontier("AB", "BC"))
    assert (tree.method, tree.sweeps, tree.deviation, tree.converged) == ("closed form", 0, 0.0, True)


def test_a_reconstruction_of_the_non_zero_cells_by_hand() -> None:
    """Rows 3 0 5, 2 0 4, 6 1 0 from their margins: 1/7 record off in four cells, see the fit in `test_loglinear`.

    From the total alone each of the six cells gets 3.5. All nine cells get row total times column total by 21.
    """
    counts = [3, 0, 5, 2, 0, 4, 6, 1, 0]
    table, margins = dense(schema_of([3, 3]), counts), frontier("A", "B")
    found = reconstruction(table, margins, support="non-zero", stop=TIGHT)
    assert (found.method, found.support) == ("ipf", "non-zero")
    assert found.mean_squared_error == pytest.approx(4 / 49 / 9, rel=1e-6)  # to the tolerance of the fit
    assert Halvings(table, knows(table, Release.of([])), "reconstruction_non_zero").of(margins) == pytest.approx(
        log2(17.5 / (4 / 49)), abs=1e-3
    )
    possible = np.outer([8, 6, 7], [11, 1, 9]).reshape(-1) / 21
    assert error_of(table, margins) == pytest.approx(np.square(counts - possible).mean())
    facts = utility_of(table, knows(table, margins), Weights.equal(2), support="non-zero").facts
    assert facts["support"] == "non-zero"
    assert "support" not in utility_of(table, knows(table, margins), Weights.equal(2)).facts


def test_an_empty_table() -> None:
    table = dense(schema_of([2, 2]), [0, 0, 0, 0])
    for release in (Release.of([]), frontier("A", "B"), frontier("AB")):
        assert error_of(table, release) == 0
