"""What was refused together is asked about in parts: first what leaves the evidence of the cells that stopped it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget, Depth
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict
from sdc.search.conflict import parted
from sdc.search.ordered import OrderedSearch, ordered_list
from sdc.search.wishes import Wishes
from sdc.utility.measures import Weights
from tests.strategies import inquiry_of, scattered
from tests.unit.search.test_ordered import FEW_NODES

PAIRS = tuple(t for t in range(1 << 5) if st.dimension(t) == 2)
TRIPLES = tuple(t for t in range(1 << 5) if st.dimension(t) == 3)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("released", [2, 4])
def test_the_first_part_leaves_the_cells_that_stopped_all_as_wide_as_they_are(seed: int, released: int) -> None:
    inquiry = inquiry_of(scattered(seed), 3, budget=FEW_NODES)
    start = Release.of([*(1 << v for v in range(5)), *PAIRS[:released]])
    judgement = inquiry.ask(start)
    assert judgement.verdict is Verdict.SAFE
    left = [t for t in (*PAIRS, *TRIPLES) if t not in start]
    stopped = inquiry.ask(Release.of([*start.frontier, *left]), Depth.BRIEF)
    assert stopped.blockers
    first, last = parted(judgement, stopped, left)
    assert sorted([*first, *last]) == sorted(left)
    assert first
    assert last
    if tuple(first) == tuple(left[: len(left) // 2]):
        return
    # with the evidence of the smaller release alone
    knowledge = inquiry.knows(Release.of([*start.frontier, *first]))
    cells = judgement.bank.at_risk.cells
    row = np.flatnonzero((cells == np.array(stopped.blockers[0])).all(axis=1))
    before, after = (Support(known, judgement.bank).inner_at(row) for known in (judgement.knowledge, knowledge))
    parts = judgement.knowledge.structure.components.cliques, knowledge.structure.components.cliques
    assert (before == after).all() or parts[0] != parts[1]


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
