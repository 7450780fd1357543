"""Chains of records under decomposable releases, beside the enumeration and the exact laws of junction trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import sdc
from sdc.executor import IN_PROCESS
from sdc.intruder import chains, exchanges, hypergeometric
from sdc.intruder.chains import Sampling, sampled
from sdc.intruder.enumerated import enumerated
from sdc.intruder.laws import law_of
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from tests.helpers.errors import errors_of, sampled_near_the_listing
from tests.profiles import scaled
from tests.strategies import decomposable_releases, dense, every_cell, frontier, knows, schema_of, small_tables

MODEL = "[A,B]"
LAWS = ["uniform", "released", "saturated", MODEL]


@hs.composite
def tables_and_trees(draw: hs.DrawFn) -> tuple[Table, Knowledge]:
    """A small table and of it a decomposable release, from which variables may be missing."""
    table = draw(small_tables(6))
    release = draw(decomposable_releases(len(table.schema)))
    return table, knows(table, draw(hs.sampled_from([release, *(release.within(kept) for kept in (1, 3, 6))])))


@given(tables_and_trees(), hs.sampled_from(LAWS))
def test_beside_the_enumeration(given_: tuple[Table, Knowledge], name: str) -> None:
    found = sampled_near_the_listing(*given_, name)
    assert found is None or found.diagnostics.connectivity == "proven"


@pytest.fixture
def branched() -> Table:
    """Three cliques at two separators, and D, of which nothing is released."""
    return dense(schema_of([2, 2, 3, 2, 2]), np.random.default_rng(1).multinomial(9, [1 / 48] * 48).tolist())


BRANCHED = frontier("AB", "BC", "E")


@pytest.mark.parametrize("name", ["uniform", "[A,C][C,D]"])
def test_a_tree_with_branches(name: str) -> None:
    table = dense(schema_of([2, 2, 3, 2]), [2, 0, 1, 0, 0, 3, 1, 0, 0, 1, 0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 2, 0, 0, 0])
    known, law = knows(table, frontier("AB", "BC", "BD")), law_of(name, table.schema, 0.5)
    exact = enumerated(table, known, law).laws(every_cell(table.schema))
    draws = min(1_000, scaled(1_000, fewest=300))
    found = sampled(table, known, law, exact.cells, Sampling(draws, 4, 2), IN_PROCESS)
    missed = errors_of(found, exact)
    assert np.mean(missed > 3) < 0.02
    assert missed.max() < 4
    assert found.diagnostics.r_hat < 1.02


def test_released_has_the_laws_of_the_junction_tree() -> None:
    """On a table of 2^24 cells, which no other chain takes; 3 of a thousand would miss by three errors."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, 2, (2_000, 1))
    codes = np.bitwise_xor.accumulate(np.concatenate([first, rng.random((2_000, 23)) < 0.2], axis=1), axis=1)
    table = Table.of(schema_of([2] * 24), codes)
    known = knows(table, Release.of(7 << v for v in range(22)))
    cells = table.codes[np.argsort(-table.counts, kind="stable")[:40]]
    found = sampled(table, known, law_of("released", table.schema), cells, Sampling(200, 2, 5), IN_PROCESS)
    missed = errors_of(found, hypergeometric.cell_laws(table, known, cells))
    assert np.mean(missed > 3) < 0.02
    assert missed.max() < 4
    uniform = sampled(table, known, law_of("uniform", table.schema), cells, Sampling(20, 2, 5), IN_PROCESS)
    assert 0 < uniform.diagnostics.accepted < found.diagnostics.accepted


def test_nothing_moves_where_the_table_is_known(branched: Table) -> None:
    known, law = knows(branched, frontier("ABCDE")), law_of("uniform", branched.schema)
    found = sampled(branched, known, law, branched.codes, Sampling(20, 2), IN_PROCESS)
    assert found.laws.at_truth.tolist() == [1.0] * len(branched)
    assert (found.diagnostics.r_hat, found.diagnostics.accepted, found.diagnostics.moves) == (1.0, 0.0, 0)


def test_what_is_too_large(branched: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = schema_of([2] * 62)
    table = Table.of(wide, np.zeros((3, 62), np.uint16))
    with pytest.raises(ReleaseError, match=r"62 variables have 4611686018427387904 cells, and chains number fewer"):
        sdc.posterior(table, ["v00"], law="uniform", cells="at-risk", small_count=3)
    monkeypatch.setattr(exchanges, "MAX_PLACES", 8)
    known, law = knows(branched, BRANCHED), law_of("uniform", branched.schema)
    with pytest.raises(ReleaseError, match=r"9 records have 18 places at the 2 separators .* at most 8; choose fewer"):
        sampled(branched, known, law, branched.codes, Sampling(), IN_PROCESS)


def test_many_records_in_few_cells_stay_with_the_dense_table() -> None:
    table = dense(schema_of([2, 2]), [600_000, 1, 1, 600_000])
    known, law = knows(table, frontier("A", "B")), law_of("uniform", table.schema)
    assert not chains.by_records(table, known, law)
    assert chains.by_records(dense(table.schema, [6, 1, 1, 6]), known, law)
