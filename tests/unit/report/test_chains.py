"""Whether annealing chains agree, and amounts as they are written."""

from __future__ import annotations

import pytest

from sdc.report import search
from sdc.report.blocks import amount
from sdc.search.decomposable import TraceRow


def row(round_: int, chain: int, best: float) -> TraceRow:
    return TraceRow(round_, chain, 100 * (round_ + 1), 5.0, best - 1, best, 0)


def test_agreement_is_one_sentence() -> None:
    assert search.agreement([[row(0, 0, 7)]]).endswith("its best utility of 7.")
    both = [[row(0, 0, 9), row(1, 0, 9)], [row(0, 1, 7), row(1, 1, 9)]]
    assert "each found the best utility 9, the last of them in round 2 of 2" in search.agreement(both)
    apart = [[row(0, 0, 9)], [row(0, 1, 7)], [row(0, 2, 7)]]
    assert "do not agree: the best utility is 9 by 1, 7 by 2 of 3 chains after 1 round;" in search.agreement(apart)


@pytest.mark.parametrize(
    ("value", "said"),
    [(1234.0, "1,234"), (47.5, "47.5"), (1 / 3, "0.333333"), (1e300, "1.00e+300"), (12e6 + 0.5, "12.0M")],
)
def test_amounts(value: float, said: str) -> None:
    assert amount(value) == said
