"""What the method that is installed apart guesses from published tables."""

import re

import numpy as np
import pytest

from sdc.public.attack import Attack, attack_on
from sdc.public.mixture import Mixture
from tests.integration.public.test_attack import Scaling, on, sums
from tests.integration.public.test_check import Told, in_part_of, marginal
from tests.strategies import czech, dense, schema_of

APART = "mbi is not installed; run pip install 'sdc-tables[attack]'"


@pytest.fixture(scope="module")
def reconstructed() -> Attack:
    """The release of the Czech table for a width of 6 to 9, [KDSF] 5.2."""
    pytest.importorskip("mbi", reason=APART)
    Mixture().require()
    return attack_on(of_czech(), (0, 1), Mixture())


def of_czech() -> list[Told]:
    frontier, table = ("ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF"), czech()
    return [marginal(table, sum(1 << "ABCDEF".index(v) for v in name), name) for name in frontier]


@pytest.mark.slow
def test_a_mixture_is_fitted_to_all_that_is_published(reconstructed: Attack) -> None:
    """Each count within a record, the cells summing up to all; better than independence, and the same every time."""
    scaling, found = Scaling(), reconstructed
    attack_on(of_czech(), (0,), scaling)
    for guess in found.guessed:
        assert guess.sum() == pytest.approx(found.total)
        for one in scaling.target.measurements:
            assert np.abs(sums(one, scaling.target, guess) - one.counts).max() < 1
    truth = on(found.schema, czech())
    *own, alone = (int((np.rint(guess) == truth).sum()) for guess in found.by_intruder.values())
    print(f"right of 64: {own} by seeds 0 and 1, {alone} by independence")
    assert min(own) > 2 * alone
    assert re.fullmatch(r"mixture of 50 products, 2000 steps, by mbi 2[\d.]+", found.methods[0])
    assert attack_on(of_czech(), (0, 1), Mixture()).guessed.tobytes() == found.guessed.tobytes()


@pytest.mark.slow
def test_a_mixture_is_fitted_to_sums_too() -> None:
    """Of a table with a cell withheld, and of one whose categories are merged."""
    pytest.importorskip("mbi", reason=APART)
    table = dense(schema_of([2, 3, 2]), [*range(10, 130, 10)])
    scaling = Scaling()
    told = [in_part_of(marginal(table, 0b011, "whole"), [[1, 2]]), marginal(table, 0b110, "exact")]
    attack_on(told, (0,), scaling)
    (guess,) = attack_on(told, (0,), Mixture(steps=4000)).guessed
    assert [len(one.counts) for one in scaling.target.measurements if not one.is_marginal] == [5]
    for one in scaling.target.measurements:
        assert sums(one, scaling.target, guess) == pytest.approx(one.counts, abs=1)
