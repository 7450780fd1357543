"""What was refused together is asked about in parts: first what leaves the evidence of the cells that stopped it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sdc.model import subtable as st
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget
from sdc.risk.verdict import Verdict
from sdc.search.ordered import OrderedSearch, ordered_list
from sdc.search.wishes import Wishes
from sdc.utility.measures import Weights
from tests.strategies import inquiry_of, scattered
from tests.unit.search.test_ordered import FEW_NODES


@pytest.mark.parametrize("weights", [None, Weights((Fraction(1), Fraction(1), Fraction(1), Fraction(1), Fraction(2)))])
def test_whatever_the_parts_what_is_left_out_does_not_fit(weights: Weights | None) -> None:
    """Each of the candidates was asked about beside what is released, or contains one that was, or is released."""
    table = scattered(2)
    inquiry = inquiry_of(table, 3, budget=FEW_NODES)
    widths = critical_widths(table)
    found = OrderedSearch(inquiry, widths, weights=weights).run()
    assert found.judgement.verdict is Verdict.SAFE
    assert found.unasked == 0
    alone = {step.added[0] for step in found.steps if len(step.added) == 1 and not step.answer}
    for t in ordered_list(widths, 3, Wishes()):
        assert t in found.release or any(st.is_within(refused, t) for refused in alone)


def test_what_had_no_proof_is_asked_again_with_all_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as all questions before took together; a walk of one node proves next to nothing at first."""
    monkeypatch.setattr("sdc.risk.certifying.BRIEF_STEPS", 1)
    monkeypatch.setattr("sdc.search.ordered.LEAST_AGAIN", 1)
    table = scattered()
    inquiry = inquiry_of(table, 3, budget=Budget(seconds_per_cell=0.5, seconds=60))
    found = OrderedSearch(inquiry, critical_widths(table)).run()
    alone = [step for step in found.steps if len(step.added) == 1]
    again = [step for k, step in enumerate(alone) if any(step.added == other.added for other in alone[:k])]
    assert any(step.answer for step in again)
    before = sum(step.spent for step in found.steps[: found.steps.index(again[0])])
    assert sum(step.spent for step in again[:-1]) < before
    assert found.judgement.verdict is Verdict.SAFE
    assert all(step.added[0] in found.release for step in again if step.answer)
