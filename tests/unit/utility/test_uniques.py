"""Sample uniques beside simulated populations, of which it is known who is alone."""

from itertools import pairwise
from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import sdc
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.model.weights import UNIT, RecordWeights
from sdc.utility.uniques import Uniques, uniques_by_model, uniques_by_weights
from tests.levels import random_schema, random_table
from tests.profiles import scaled
from tests.strategies import dense, knows, schema_of
from tests.wide import wide_table

SIZES, FRACTION = (6, 5, 6, 5, 6), 0.1
RIGHT, WRONG = "[A,B] [B,C] [C,D] [D,E]", "[A] [B] [C] [D] [E]"
TOLD = ("population uniques", "right matches", "persons in their cells")


def weights_of(table: Table, each: np.ndarray) -> RecordWeights:
    """As if all records of a cell had the same weight."""
    of_one = np.rint(each * UNIT).astype(np.int64)
    return RecordWeights(of_one * table.counts, of_one, of_one)


def means() -> np.ndarray:
    """(6, 5, 6, 5, 6) how many persons are expected, where each variable depends on the one before it alone."""
    rng = np.random.default_rng(45)
    found = rng.dirichlet(np.full(SIZES[0], 3.0)) * 60_000
    for before, size in pairwise(SIZES):
        found = found[..., None] * rng.dirichlet(np.full(size, 3.0), before)
    return np.asarray(found)


def drawn(rng: np.random.Generator, mean: np.ndarray) -> tuple[Table, np.ndarray]:
    """A sample of a population, and how many persons are in each of the cells of which one record was drawn."""
    population = rng.poisson(mean).reshape(-1)
    sample = rng.binomial(population, FRACTION)
    return dense(schema_of(SIZES), sample.tolist()), population[sample == 1]


def said(name: str, differences: np.ndarray, true: float) -> tuple[float, float]:
    """The bias and its Monte Carlo error, as shares of the truth; printed, with the error of one sample."""
    bias, error = differences.mean() / true, differences.std(ddof=1) / len(differences) ** 0.5 / true
    of_one = np.sqrt(np.square(differences).mean()) / true
    print(f"{name}: {true:.4g} true, bias {bias:+.2%}, known to {error:.2%}, error of one sample {of_one:.2%}")
    return float(bias), float(error)


def of(found: Uniques) -> tuple[float, float, float]:
    return found.alone.sum(), found.matched.sum(), found.expected.sum()


def test_estimates_of_a_right_model_are_those_of_simulated_populations() -> None:
    """Bias and error over samples of populations of which all is known; what is left of bias is the fit's own.

    The model is the right one, or the best by BIC, or has no interactions, which is wrong and seen to be.
    """
    rng, mean = np.random.default_rng(7), means()
    models: dict[str, list[tuple[float, ...]]] = {RIGHT: [], "best": [], WRONG: []}
    truth, intrusion = [], []
    for _ in range(scaled(1600, fewest=40)):
        table, population = drawn(rng, mean)
        truth.append(((population == 1).sum(), (1 / population).sum(), population.sum()))
        for model, found in models.items():
            one = uniques_by_model(table, knows(table, NOTHING), FRACTION, model)
            assert len(one) == len(population)
            found.append(of(one))
        intrusion.append((one.intrusion, len(one) / population.sum()))
    true = np.array(truth)
    for model in (RIGHT, "best"):
        for name, own, expected in zip(TOLD, np.array(models[model]).T, true.T, strict=True):
            bias, error = said(f"{name}, {model}", own - expected, expected.mean())
            assert abs(bias) < 0.05 + 4 * error
    assert said(f"{TOLD[0]}, {WRONG}", np.array(models[WRONG])[:, 0] - true[:, 0], true[:, 0].mean())[0] < -0.5
    simulated, right = np.array(intrusion).T
    bias, error = said("data intrusion simulation", simulated - right, right.mean())
    assert abs(bias) < 0.01 + 4 * error


class Known:
    """Means that are known."""

    def __init__(self, mean: np.ndarray) -> None:
        self.mean = mean

    def at(self, cells: np.ndarray) -> np.ndarray:
        return np.asarray(self.mean[tuple(cells.T)])


@given(some.floats(0.01, 1), some.floats(0.01, 30))
def test_a_model_is_its_formula_summed_over_populations(fraction: float, mean: float) -> None:
    """Of Poisson populations with a mean all those of which one person is drawn, as likely as they are."""
    table = dense(schema_of([2, 2]), [1, 0, 0, 0])
    population = np.arange(1, 400)
    log_poisson = population * log(mean) - np.cumsum(np.log(population))
    likely = np.exp(log_poisson - mean) * population * fraction * (1 - fraction) ** (population - 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdc.utility.uniques.expected_counts", lambda estimable: Known(np.full((2, 2), mean * fraction)))
        found = uniques_by_model(table, knows(table, NOTHING), fraction, "[A]")
    assert found.alone == pytest.approx([likely[0] / likely.sum()])
    assert found.matched == pytest.approx([(likely / population).sum() / likely.sum()])
    assert found.expected == pytest.approx([(likely * population).sum() / likely.sum()])


@given(some.floats(1.001, 20))
def test_weights_are_their_formula_summed_over_populations(weight: float) -> None:
    table = dense(schema_of([2, 2]), [1, 0, 5, 0])
    found = uniques_by_weights(table, weights_of(table, np.array([weight, 3.0])))
    p, population = 1 / (round(weight * UNIT) / UNIT), np.arange(1, 20_000)
    likely = p * (1 - p) ** (population - 1.0)
    assert found.alone == pytest.approx([likely[0]])
    assert found.matched == pytest.approx([(likely / population).sum()])
    assert found.expected == pytest.approx([(likely * population).sum()])
    assert found.fraction == pytest.approx(6 / (weight + 15), rel=1e-5)
    assert found.model is None


def test_by_hand() -> None:
    """Independence: 1 of 8 expected where 2 of 4 and 2 of 4 are, times 3 for the share of a quarter."""
    table = dense(schema_of([2, 2]), [1, 1, 2, 4])
    found = uniques_by_model(table, knows(table, NOTHING), 0.25, "[A] [B]")
    others = [2 * 3 / 8 * 3, 2 * 5 / 8 * 3]
    assert found.alone == pytest.approx([exp(-one) for one in others])
    assert found.matched == pytest.approx([(1 - exp(-one)) / one for one in others])
    assert found.right_matches == pytest.approx(2 / (2 + sum(others)))
    assert found.intrusion == pytest.approx(0.25 * 2 / (0.25 * 2 + 2 * 0.75 * 1))


def test_of_the_whole_population_everything_is_certain() -> None:
    table = dense(schema_of([2, 3]), [1, 1, 2, 4, 0, 7])
    for found in (
        uniques_by_model(table, knows(table, NOTHING), 1.0),
        uniques_by_weights(table, weights_of(table, np.ones(5))),
    ):
        assert found.alone.tolist() == found.matched.tolist() == found.expected.tolist() == [1.0, 1.0]
        assert (found.fraction, found.right_matches, found.intrusion) == (1.0, 1.0, 1.0)


def test_intrusion_is_right_of_any_population() -> None:
    """n1 + 2 (1 - pi) / pi n2 has the mean of all persons in the cells with one record, exactly: it needs no model."""
    for size in range(1, 30):
        of_one = size * FRACTION * (1 - FRACTION) ** (size - 1)
        of_two = comb(size, 2) * FRACTION**2 * (1 - FRACTION) ** (size - 2) if size > 1 else 0.0
        assert of_one + 2 * (1 - FRACTION) / FRACTION * of_two == pytest.approx(size * of_one)


def test_models(czech: Table) -> None:
    """The best is that of a search, written so that it can be named; the released one is that of a fit."""
    known = knows(czech, Release.of([0b000111, 0b111100]))
    best = uniques_by_model(czech, known, 0.01)
    named = uniques_by_model(czech, knows(czech, NOTHING), 0.01, best.model or "")
    assert best.alone.tolist() == named.alone.tolist()
    assert best.model == sdc.decomposable_models(czech).columns(czech.schema)["model"][0]
    released = uniques_by_model(czech, known, 0.01, "released")
    others = sdc.fit(czech, known).at(released.cells) * 99
    assert released.alone == pytest.approx(np.exp(-others))
    assert sdc.uniques(czech, known, fraction=0.01, model="released").to_arrow()["population_unique"].to_pylist() == (
        released.alone.tolist()
    )
    cycle = uniques_by_model(czech, known, 0.01, "[A,B] [B,C] [C,D] [D,A]")
    free = knows(czech, Release.of([0b000011, 0b000110, 0b001100, 0b001001, 0b010000, 0b100000]))
    assert cycle.expected - 1 == pytest.approx(sdc.fit(czech, free).at(cycle.cells) * 99)


def test_beside_structural_zeros_a_model_is_fitted_within_what_is_possible() -> None:
    table = dense(schema_of([2, 2]), [1, 4, 3, 0])
    zeros = StructuralZeros((((0, (1,)), (1, (1,))),))
    known = Knowledge.of(table, NOTHING, zeros, ())
    found = uniques_by_model(table, known, 0.5, "[A] [B]")
    assert found.expected == pytest.approx([2.0])  # all margins are kept by the table itself
    assert len(uniques_by_model(table, known, 0.5)) == 1


def test_levels_are_in_a_model_with_their_axes() -> None:
    rng = np.random.default_rng(3)
    for _ in range(8):
        schema = random_schema(rng)
        table = random_table(rng, schema)
        if (table.counts == 1).any():
            names = schema.names
            best = uniques_by_model(table, knows(table, NOTHING), 0.2)
            named = uniques_by_model(table, knows(table, NOTHING), 0.2, f"[{names[0]},{names[-1]}]")
            assert len(best) == len(named) == (table.counts == 1).sum()


def test_a_table_of_2_to_the_60_cells_is_no_trouble_in_closed_form() -> None:
    table = wide_table(60, 400, 1)
    found = uniques_by_model(table, knows(table, NOTHING), 0.1, "[v0,v1] [v1,v2]")
    assert ((found.alone > 0) & (found.alone <= 1)).all()
    with pytest.raises(InputError, match=r"MiB are allowed"):
        uniques_by_model(table, knows(table, NOTHING), 0.1, " ".join(f"[v{v},v{(v + 1) % 60}]" for v in range(60)))


def test_a_variable_may_have_the_name_of_a_number() -> None:
    schema = Schema((Variable("match", ("a", "b")), Variable("c", ("d", "e"))))
    table = Table.of(schema, np.array([[0, 1], [1, 0], [1, 0]]))
    columns = uniques_by_model(table, knows(table, NOTHING), 1.0).to_arrow().to_pydict()
    assert columns == {
        "variable:match": ["a"],
        "variable:c": ["e"],
        "population_unique": [1.0],
        "match": [1.0],
        "population": [1.0],
    }


@pytest.mark.parametrize("fraction", [0.0, 1e-300, -0.1, 1.0001, float("nan"), float("inf")])
def test_what_is_no_fraction(fraction: float) -> None:
    table = dense(schema_of([2, 2]), [1, 4, 3, 0])
    with pytest.raises(InputError, match=r"fraction = .*: give the share of the population .* above 0 and at most 1"):
        uniques_by_model(table, knows(table, NOTHING), fraction)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nothing", "model 'nothing' is unknown; choose best, released, or a model such as"),
        ("[A,B", "model '.A,B' is unknown"),
        ("[A,w]", "unknown variable 'w'"),
        ("released", "nothing is released, so the model released does not exist; choose best"),
    ],
)
def test_what_is_no_model(model: str, message: str) -> None:
    table = dense(schema_of([2, 2]), [1, 4, 3, 0])
    with pytest.raises(InputError, match=message):
        uniques_by_model(table, knows(table, NOTHING), 0.5, model)


def test_nobody_is_alone() -> None:
    table = dense(schema_of([2, 2]), [2, 4, 3, 0])
    for find in (
        lambda: uniques_by_model(table, knows(table, NOTHING), 0.5),
        lambda: uniques_by_weights(table, weights_of(table, np.ones(3))),
    ):
        with pytest.raises(InputError, match="no cell has exactly one record, so there is no sample unique"):
            find()


def test_weights_below_1_are_refused_where_a_record_is_alone() -> None:
    table = dense(schema_of([2, 2]), [1, 4, 3, 0])
    assert len(uniques_by_weights(table, weights_of(table, np.array([1.0, 0.5, 0.5])))) == 1
    with pytest.raises(InputError, match="1 record alone in a cell with a weight below 1"):
        uniques_by_weights(table, weights_of(table, np.array([0.99, 1.0, 1.0])))
