"""How probable true counts are, by factorial moments: beside the whole laws, and what may be left out."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from scipy.stats import hypergeom

from sdc.intruder import hypergeometric, moments
from sdc.intruder.moments import Modes, SumRows, TrueCounts, expected_counts
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.table import Counts, Table
from sdc.risk.posterior_limit import PosteriorLimit, true_and_highest
from sdc.verify import likely
from tests.strategies import decomposable_releases, dense, frontier, knows, schema_of, small_tables, structural_zeros


@hs.composite
def treatable(draw: hs.DrawFn, table: Table) -> Release:
    """Cliques of some or all of the variables."""
    release = draw(decomposable_releases(len(table.schema)))
    kept = draw(hs.integers(0, st.full(len(table.schema)))) if draw(hs.booleans()) else -1
    return Release.of([st.GRAND_TOTAL, *(clique & kept for clique in release.frontier)])


@given(small_tables(max_records=40), hs.data())
def test_moments_beside_whole_laws(table: Table, data: hs.DataObject) -> None:
    zeros = data.draw(structural_zeros(table))
    known = knows(table, data.draw(treatable(table)), zeros)
    rows = table.at_risk(40)
    if not hypergeometric.is_treatable(known) or not len(rows):
        return
    whole = hypergeometric.cell_laws(table, known, table.codes[rows]).at_truth
    assert moments.at_truth(table, known, rows) == pytest.approx(whole, abs=1e-9)


@given(small_tables(max_records=40), hs.data(), hs.floats(0.01, 0.9), hs.floats(0.01, 0.9))
def test_what_may_be_left_out(table: Table, data: hs.DataObject, one: float, other: float) -> None:
    """Cells that are not listed are less probable than asked, and the others are on the right side of both limits."""
    known = knows(table, data.draw(treatable(table)))
    rows, (least, most) = table.at_risk(3), sorted((one, other))
    if not hypergeometric.is_treatable(known) or not len(rows):
        return
    marginals = CellMarginals(table, table.codes[rows])
    whole = hypergeometric.cell_laws(table, known, marginals.cells).at_truth
    truth = TrueCounts(table.counts[rows], table.total, least, most)
    cells, found = truth.likely(SumRows.of(marginals, known), lambda left: whole[left])
    assert (np.delete(whole, cells) <= least + 1e-9).all()
    for limit in (least, most):
        apart = np.abs(whole[cells] - limit) > 1e-9
        assert ((found > limit) == (whole[cells] > limit))[apart].all()


@given(small_tables(max_records=40), hs.data(), hs.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]))
def test_most_likely_counts_beside_whole_laws(table: Table, data: hs.DataObject, least: float) -> None:
    zeros = data.draw(structural_zeros(table))
    known = knows(table, data.draw(treatable(table)), zeros)
    rows = table.at_risk(40)
    if not hypergeometric.is_treatable(known) or not len(rows):
        return
    marginals = CellMarginals(table, table.codes[rows])
    whole = true_and_highest(hypergeometric.cell_laws(table, known, marginals.cells))
    asked = np.array(data.draw(hs.lists(hs.integers(0, len(rows) - 1), unique=True)), np.int64)
    modes = Modes(table.counts[rows], table.total, least, lambda left: (whole[0][left], whole[1][left]))
    true, highest = modes.of(SumRows.of(marginals, known), asked)
    told = whole[1][asked] > least + 1e-9
    assert true[told] == pytest.approx(whole[0][asked][told], abs=1e-9)
    assert highest[told] == pytest.approx(whole[1][asked][told], abs=1e-9)
    assert (highest[~told] <= least + 2e-9).all()


def test_most_likely_counts_need_no_whole_law_where_few_are_expected() -> None:
    table = dense(schema_of([2, 2, 2]), [1, 4, 3, 5, 2, 6, 7, 3])
    known, rows = knows(table, frontier("AB", "BC")), table.at_risk(2)
    marginals = CellMarginals(table, table.codes[rows])
    modes = Modes(table.counts[rows], table.total, 0.0, lambda left: pytest.fail("asked"))
    whole = hypergeometric.cell_laws(table, known, marginals.cells)
    assert modes.of(SumRows.of(marginals, known), np.arange(len(rows)))[1] == pytest.approx(whole.most_likely[1])


def test_large_counts_are_asked_for_exactly() -> None:
    """Where both the count and what is expected are large, rounding spoils the sum: then whole laws are asked."""
    table = dense(schema_of([2, 2, 2]), [40, 900, 700, 800, 900, 900, 800, 700])
    known, rows = knows(table, frontier("AB", "BC")), table.at_risk(40)
    assert len(rows) == 1
    asked = []

    def exactly(left: Counts) -> Counts:
        asked.append(left.tolist())
        return np.full(len(left), 0.25)

    tree = SumRows.of(CellMarginals(table, table.codes[rows]), known)
    dense_cell = TrueCounts(np.array([300]), table.total, 1e-6)
    cells, found = dense_cell.likely(tree, exactly)
    assert (asked, cells.tolist(), found.tolist()) == ([[0]], [0], [0.25])
    assert moments.at_truth(table, known, rows) == pytest.approx(
        hypergeometric.cell_laws(table, known, table.codes[rows]).at_truth, abs=1e-9
    )


@given(hs.integers(1, 8), hs.floats(0.001, 0.95), hs.integers(1, 400), hs.integers(1, 400), hs.integers(0, 400))
def test_expected_counts_exclude_nothing_that_is_probable(
    count: int, least: float, marked: int, drawn: int, more: int
) -> None:
    """Of hypergeometric laws, whose probabilities are known another way."""
    population = max(marked, drawn) + more
    low, high = expected_counts(count, least)
    if hypergeom(population, marked, drawn).pmf(count) >= least:
        assert low <= marked * drawn / population <= high


@given(small_tables(max_records=40), hs.data(), hs.floats(0.01, 0.9))
def test_verification_counts_the_same_cells_in_integers(table: Table, data: hs.DataObject, threshold: float) -> None:
    known = knows(table, data.draw(treatable(table)))
    rows = table.at_risk(4)
    if not hypergeometric.is_treatable(known) or not len(rows):
        return
    marginals, tree = CellMarginals(table, table.codes[rows]), hypergeometric.junction_tree(known)
    uncovered = prod(table.schema.sizes[v] for v in st.members(known.structure.varying & ~tree.variables))
    counts = ([marginals.at(s) for s in sets] for sets in (tree.cliques, tree.separators))
    at_cells = likely._Tree(*counts, [uncovered] * len(rows))
    whole = hypergeometric.cell_laws(table, known, marginals.cells).at_truth
    expected = np.flatnonzero(whole > threshold + 1e-9)
    close = np.flatnonzero(np.abs(whole - threshold) < 1e-8)
    found = likely._above(table.counts[rows], at_cells, threshold)
    assert set(found) ^ set(expected.tolist()) <= set(close.tolist())


@given(hs.sampled_from([0.25, 0.5, 1 / 3]))
def test_a_probability_at_the_threshold_is_not_above_it(threshold: float) -> None:
    assert not PosteriorLimit(threshold=threshold, max_above=0.0).allows(np.array([threshold + 1e-8]), 1)
    assert PosteriorLimit(threshold=threshold, max_above=0.0).allows(np.array([threshold + 1e-12]), 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "has no limit; give max_above, max_probability or max_loss"),
        ({"max_above": 1.0}, "max_above = 1.0; give a fraction of at least 0 and less than 1"),
        ({"max_above": -0.1}, "max_above = -0.1"),
        ({"max_above": float("nan")}, "max_above = nan"),
        ({"max_probability": 0.0}, "max_probability = 0.0; give a probability between 0 and 1"),
        ({"max_probability": 1.0}, "max_probability = 1.0"),
        ({"max_probability": 0.5, "threshold": 1.0}, "threshold = 1.0 of a limit; give a probability between 0 and 1"),
        ({"max_above": 0.5, "threshold": 0.0}, "threshold = 0.0 of a limit; give a probability"),
    ],
)
def test_faulty_limits(values: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PosteriorLimit(**values)  # type: ignore[arg-type]


def test_what_is_sampled_proves_no_limit() -> None:
    table = dense(schema_of([30, 30, 30]), np.random.default_rng(3).integers(0, 3, 27_000).tolist())
    limit = PosteriorLimit("saturated", max_probability=0.9)
    with pytest.raises(ReleaseError, match=r"of the law saturated, which no exact engine gives of this release"):
        limit.judge(table, knows(table, frontier("AB", "BC")), table.at_risk(2))
