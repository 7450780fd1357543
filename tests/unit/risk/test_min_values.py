"""How many values each at-risk cell can still take, judged by listing all feasible tables."""

import numpy as np
import pytest

import sdc
from sdc.feasible.proof import Proof
from sdc.model.errors import InputError
from sdc.model.release import NOTHING, Release
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.min_values import MinValues, taken_values
from sdc.risk.verdict import Verdict
from tests import reference
from tests.strategies import dense, knows, schema_of

PARITY = np.array([2, 4, 4, 0, 4, 0, 0, 5, 4, 0, 0, 5, 0, 5, 5, 7]).reshape(2, 2, 2, 2)
PAIRS = [(a, b) for b in range(4) for a in range(b)]


def check(counts: np.ndarray, release: list[tuple[int, ...]], small: int, least: int, *, zero: bool) -> Verdict:
    """That the verdict is that of the reference; a proof shows it again."""
    table = dense(schema_of(counts.shape), counts.reshape(-1).tolist())
    criteria = Criteria.of(small, 1, MinValues(least, zero))
    asked = Release.of(sum(1 << axis for axis in t) for t in release)
    found = RiskEvaluator(table, knows(table, NOTHING), criteria).evaluate(asked)
    facts = reference.released(counts, release)
    wide = reference.min_width(counts, facts, small) >= 1
    kept = reference.keeps_values(counts, facts, small, least, zero=zero)
    assert found.verdict is (Verdict.SAFE if wide and kept else Verdict.UNSAFE), (counts.tolist(), release, least, zero)
    proof: Proof = found.proof
    assert (criteria.unproven(table, found.knowledge, proof) == 0) == (wide and kept)
    return found.verdict


def random_case(rng: np.random.Generator) -> None:
    sizes = [(2, 2), (2, 3), (3, 3), (2, 2, 2), (2, 2, 3)][rng.integers(5)]
    counts = rng.choice([0, 0, 0, 1, 1, 2, 3], sizes)
    counts.flat[0] += not counts.any()
    axes = range(len(sizes))
    release = [tuple(axis for axis in axes if rng.random() < 0.6) for _ in range(rng.integers(0, 4))]
    release = [*((axis,) for axis in axes), *(t for t in release if 1 < len(t) < len(sizes))]
    check(counts, release, int(rng.integers(1, 4)), int(rng.integers(2, 6)), zero=bool(rng.integers(2)))


def test_random_tables() -> None:
    rng = np.random.default_rng()
    for _ in range(100):
        random_case(rng)


@pytest.mark.parametrize("release", [PAIRS, [(0, 1, 2), (1, 2, 3)], [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]])
@pytest.mark.parametrize("zero", [False, True])
def test_parity(release: list[tuple[int, ...]], zero: bool) -> None:
    """The table of FINDINGS K6, typed in."""
    for least in range(2, 10):
        check(PARITY, release, 4, least, zero=zero)


def test_values_with_gaps() -> None:
    """By hand: of pairs of marginal cells each gives the values from their sum less 3 to the least of them."""
    assert taken_values([np.array([0, 2, 4])], 0).tolist() == [0, 2, 4]
    assert taken_values([np.array([0, 3]), np.array([2, 3])], 3).tolist() == [0, 2, 3]
    assert taken_values([np.array([3]), np.array([2, 3])], 3).tolist() == [2, 3]


@pytest.mark.parametrize("given", [1, 0, {"least": 1}])
def test_what_protects_nothing(given: object) -> None:
    with pytest.raises(InputError, match=r"min_values is [01]; give at least 2"):
        Criteria.of(2, 3, min_values=given)


def test_a_search_keeps_it() -> None:
    table = dense(schema_of(PARITY.shape), PARITY.reshape(-1).tolist())
    found = sdc.ordered_release(table, NOTHING, min_width=1, small_count=4, min_values=MinValues(4, include_zero=True))
    frontier = [tuple(axis for axis in range(4) if t >> axis & 1) for t in found.evaluation.release.frontier]
    assert reference.keeps_values(PARITY, reference.released(PARITY, frontier), 4, 4, zero=True)
