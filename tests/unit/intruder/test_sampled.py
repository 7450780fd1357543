"""Draws and Markov chains beside exact laws, and models that are not decomposable beside numerical integration."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from scipy.stats import beta, chisquare, kstest

from sdc.bounds.enumeration import feasible_tables
from sdc.executor import IN_PROCESS
from sdc.intruder import chains, ipf
from sdc.intruder.chains import Sampling, sampled, written_error
from sdc.intruder.draws import Draws
from sdc.intruder.enumerated import enumerated
from sdc.intruder.hypergeometric import log_probability
from sdc.intruder.laws import law_of
from sdc.intruder.posterior import Posterior, by_chains
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.stages.resolved import release_of
from tests.helpers.errors import errors_of, sampled_near_the_listing
from tests.helpers.integrated import without_second_order
from tests.papers.papers import ITEMS
from tests.profiles import scaled
from tests.strategies import dense, every_cell, frontier, knows, schema_of, tables_and_knowledge
from tests.unit.intruder.test_posterior import CZECH_PREFIX

# Draws


def test_draws_have_the_law_of_whole_tables() -> None:
    """Two cliques and a variable that nothing is known of: 1,500 draws among all feasible tables."""
    table = dense(schema_of([2, 2, 2, 2]), [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0])
    known = knows(table, frontier("AB", "BC"))
    draws, seen = Draws(table, known), {}
    for seed in range(1_500):
        drawn = draws.table(seed)
        assert all(drawn.marginal(s) == table.marginal(s) for s in known.release.frontier)
        seen[drawn] = seen.get(drawn, 0) + 1
    tables = [dense(table.schema, counts.reshape(-1).tolist()) for counts in feasible_tables(table, known)]
    expected = [math.exp(log_probability(one, known)) for one in tables]
    assert sum(expected) == pytest.approx(1)
    assert chisquare([seen.get(one, 0) for one in tables], 1_500 * np.array(expected)).pvalue > 0.01


def test_draws_need_a_decomposable_release(czech: Table) -> None:
    with pytest.raises(ReleaseError, match="the release is not decomposable"):
        Draws(czech, knows(czech, frontier("AB", "BC", "AC")))


# Chains


@given(tables_and_knowledge(max_records=6), hs.sampled_from(["uniform", "released", "saturated"]))
def test_chains_beside_the_enumeration(given_: tuple[Table, Knowledge], name: str) -> None:
    """However the feasible tables hang together, with structural zeros too."""
    sampled_near_the_listing(*given_, name)


@pytest.mark.parametrize("cell", [(0, 0), (2, 2)])
def test_a_record_moves_where_one_variable_at_a_time_may_not(cell: tuple[int, int]) -> None:
    """Of nothing but the total: with zeros between (2, 2) and where A and B are below 2."""
    schema, counts = schema_of([3, 3]), np.zeros((3, 3), np.int64)
    counts[cell] = 1
    zeros = StructuralZeros((((0, (0, 1)), (1, (2,))), ((0, (2,)), (1, (0, 1)))))
    table = dense(schema, counts.reshape(-1).tolist())
    assert sampled_near_the_listing(table, knows(table, NOTHING, zeros), "uniform") is not None


def test_chains_on_the_czech_table(czech: Table) -> None:
    """Of all 64 cells; 3 of a thousand would miss by three standard errors."""
    known, law = knows(czech, release_of(czech, CZECH_PREFIX)), law_of("saturated", czech.schema, 0.5)
    exact = enumerated(czech, known, law).laws(every_cell(czech.schema))
    draws = min(1_000, scaled(1_000, fewest=350))
    found = sampled(czech, known, law, exact.cells, Sampling(draws, 4, 2), IN_PROCESS)
    missed = errors_of(found, exact)
    assert np.mean(missed > 3) < 0.01
    assert missed.max() < 4
    assert found.diagnostics.r_hat < 1.05
    assert found.diagnostics.effective_sample_size > draws / 5


def test_errors_of_shares_that_are_all_but_none() -> None:
    """One of 800 draws is no certainty, and none of them neither; far from 0 and 1 they are those of a mean."""
    shares, sizes = np.array([0.0, 1 / 800, 0.3, 1.0]), np.full(4, 800.0)
    errors = chains.standard_errors(shares, sizes)
    assert errors == pytest.approx([0.0026, 0.0029, 0.0162, 0.0026], abs=1e-4)
    # of few draws no less than that of a mean
    assert chains.standard_errors(np.array([0.5]), np.array([20.0])) == pytest.approx(math.sqrt(0.25 / 20))
    # as probable as three errors of a normal law are: none of 800 where the probability is 0.0082
    assert 0.0082 / errors[0] == pytest.approx(3.1, abs=0.1)
    assert math.exp(-800 * 0.0082) == pytest.approx(0.00135, abs=1e-4)


def of_small(sampling: Sampling) -> Posterior:
    table = dense(schema_of([2, 3, 3]), [3, 1, 0, 2, 2, 1, 0, 1, 2, 1, 1, 4, 0, 2, 1, 1, 0, 2])
    law, cells = law_of("[A,B][A,C]", table.schema, 0.5), every_cell(table.schema)
    return by_chains(table, knows(table, frontier("AC", "BC")), law, cells, sampling, IN_PROCESS)


def test_chains_get_longer_until_no_standard_error_is_larger_than_asked_for() -> None:
    """And those so long to begin with find the same."""
    found = of_small(Sampling(20, 2, 5, error=0.02))
    told = found.diagnostics
    assert told is not None
    assert found.standard_errors is not None
    assert told.error == found.standard_errors.max() <= told.wanted == 0.02
    assert told.draws > 20
    assert written_error(told.error, told.wanted) == f"up to {told.error:.4f}, at most 0.02 as required"
    again = of_small(Sampling(told.draws, 2, 5, error=0.02))
    assert again.diagnostics == told
    assert (again.cells.probabilities == found.cells.probabilities).all()


def test_an_error_that_is_not_reached_is_said() -> None:
    told = of_small(Sampling(20, 2, 5, error=1e-4, most=100)).diagnostics
    assert told is not None
    assert told.draws == 100
    said = written_error(told.error, told.wanted)
    assert said == f"up to {told.error:.4f}, more than the 0.0001 required: no more may be drawn"
    as_told = of_small(Sampling(20, 2, 5, error=None)).diagnostics
    assert as_told is not None
    assert as_told.draws == 20
    assert written_error(as_told.error, as_told.wanted) == f"up to {as_told.error:.4f}"


def test_no_more_is_drawn_than_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_STORED", 18 * 50)
    told = of_small(Sampling(20, 2, 5, error=1e-4)).diagnostics
    assert told is not None
    assert told.draws == 50


def test_chains_that_stay_where_they_are_do_not_agree() -> None:
    """No R-hat can be given, and none is: JSON has no infinity."""
    apart = np.repeat([[[0]], [[1]]], 20, axis=1)
    assert chains.agreement(apart)[0] is None
    assert chains.agreement(np.zeros((2, 20, 1), np.int64)) == (1.0, 40.0)


def test_what_cannot_be_sampled(czech: Table) -> None:
    known, law = knows(czech, frontier("AB", "BC", "AC")), law_of("saturated", czech.schema)
    with pytest.raises(InputError, match="draws = 3355444 of 20 cells; give at most 3355443"):
        sampled(czech, known, law, czech.codes[:20], Sampling(3_355_444), IN_PROCESS)
    faults = {
        (0,): "draws = 0; give at least 20",
        (100, 0): "chains = 0; give at least 1",
        (100, 4, 0, 0.0): "error = 0; give a standard error above 0",
    }
    for settings, message in faults.items():
        with pytest.raises(InputError, match=message):
            Sampling(*settings)
    wide = schema_of([2] * 21)
    table = Table.of(wide, np.zeros((1, 21), np.uint16), np.ones(1, np.int64))
    # neither a cycle, nor under a tree a model that is one, which draws the probabilities of all cells
    for release, name in ((Release.of([3, 6, 5]), "saturated"), (Release.of([1]), "[v00,v01][v01,v02][v00,v02]")):
        with pytest.raises(ReleaseError, match="the table has 2097152 cells, and chains are of at most 1048576 unless"):
            sampled(table, knows(table, release), law_of(name, wide), table.codes, Sampling(), IN_PROCESS)
    many = schema_of([30, 30, 30])
    table = Table.of(many, np.zeros((1, 3), np.uint16), np.ones(1, np.int64))
    with pytest.raises(ReleaseError, match="basic moves that preserve the release have 658503000 entries"):
        sampled(
            table,
            knows(table, frontier("AB", "BC", "AC")),
            law_of("uniform", many),
            table.codes,
            Sampling(),
            IN_PROCESS,
        )


# Bayesian iterative proportional fitting


def fitted(times: int, alpha: float = 0.5) -> npt.NDArray[np.float64]:
    """(times,) of [A,B][B,C] the probability of the marginal cell (1, 1) of A and B, every third cycle."""
    counts = np.array([3, 0, 5, 2, 1, 4, 0, 2]).reshape(2, 2, 2)
    generators, rng = (st.of([0, 1]), st.of([1, 2])), np.random.default_rng(7)
    logs, kept = np.full((2, 2, 2), -math.log(8)), []
    for _ in range(times):
        for _ in range(3):
            logs = ipf.cycle(logs, counts, alpha, generators, rng)
        kept.append(np.exp(logs[1, 1]).sum())
    return np.array(kept)


def test_bayesian_ipf_has_the_hyper_dirichlet_law() -> None:
    """Of A and B the marginal is a Dirichlet: its cell (1, 1) has 2 of 17 records, and alpha for two cells of eight."""
    law = beta(2 + 2 * 0.5, 15 + 6 * 0.5)
    assert kstest(fitted(3_000), law.cdf).pvalue > 0.01
    # enough draws to tell another exponent
    assert kstest(fitted(3_000, 1.0), law.cdf).pvalue < 1e-4


def test_a_prior_that_is_all_but_none_leaves_no_zero() -> None:
    """Gammas of so small a shape are 0 in doubles; a probability that became 0 would stay so, and have no logarithm.

    Their logarithms have the law of log U / a.
    """
    generators, rng = (st.of([0, 1]), st.of([1, 2]), st.of([0, 2])), np.random.default_rng(1)
    logs = np.full((2, 2, 2), -math.log(8))
    for _ in range(200):
        logs = ipf.cycle(logs, np.zeros((2, 2, 2), np.int64), 1e-5, generators, rng)
        assert np.isfinite(logs).all()
        assert np.exp(logs).sum() == pytest.approx(1)
    drawn = ipf._log_gamma(np.full(1_000, 1e-3), rng)
    assert kstest(drawn * -1e-3, "expon").pvalue > 0.01


# The model without second-order interaction, [DFT] table 3


@pytest.fixture(scope="module")
def integrated() -> tuple[list[list[float]], float]:
    """The laws of the small cells, and log Pr(R | A)."""
    return without_second_order()


def test_what_the_papers_are_held_to(integrated: tuple[list[list[float]], float]) -> None:
    """What `sdc papers` takes for the exact laws beside the printed ones, which are of 500 draws."""
    checked = ITEMS["dft-table-3"].checked
    assert isinstance(checked, dict)
    assert [*checked.values()] == [pytest.approx(row, abs=6e-4) for row in integrated[0]]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed = -1; give at least 0"):
        Sampling(seed=-1)
