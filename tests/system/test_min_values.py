"""The number of values of an at-risk cell, on many random tables."""

import numpy as np
import pytest

from tests.unit.risk.test_min_values import random_case


@pytest.mark.slow
def test_many_random_tables() -> None:
    rng = np.random.default_rng()
    for _ in range(2_000):
        random_case(rng)
