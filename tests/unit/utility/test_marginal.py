"""Marginals given as dense arrays: what they may sum to."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.model.errors import InputError
from sdc.model.schema import Schema, Variable
from sdc.model.table import MAX_TOTAL
from sdc.utility.marginal import Marginal

ANSWERS = Schema((Variable("A", ("no", "yes")),))


def test_a_marginal_sums_to_2_to_the_53_at_most_and_to_the_record() -> None:
    """A sum in doubles alone takes 2^53 + 1 for 2^53, and one in integers alone takes 2^64 for 0."""
    assert Marginal.dense(ANSWERS, 1, np.array([MAX_TOTAL - 1, 1])).counts.tolist() == [MAX_TOTAL - 1, 1]
    for counts in ([MAX_TOTAL, 1], [1 << 62, 1 << 62]):
        with pytest.raises(InputError, match=r"nor sum to more than 9007199254740992 \(2\^53\)"):
            Marginal.dense(ANSWERS, 1, np.array(counts))
    with pytest.raises(InputError, match=r"nor sum to more than 9007199254740992 \(2\^53\)"):
        Marginal.dense(ANSWERS, 1, np.array([1 << 63, 1 << 63], np.uint64))
