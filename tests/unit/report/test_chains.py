"""Traces of annealing chains: rates, agreement, thinned lines that keep the end."""

from __future__ import annotations

import pytest

from sdc.report import chains
from sdc.report.audit import AuditEvidence
from sdc.search.decomposable import TraceRow
from tests.helpers.audits import drawing


def row(round_: int, chain: int, best: float, accepted: int = 0) -> TraceRow:
    return TraceRow(round_, chain, 100 * (round_ + 1), 5.0, best - 1, best, accepted)


def test_accepted_is_counted_from_the_start() -> None:
    (found,) = chains.by_chain([row(0, 0, 7, 80), row(1, 0, 9, 100), row(2, 0, 9, 100)])
    assert found.rates == [80.0, 20.0, 0.0]
    assert found.rate == pytest.approx(100 / 3)
    assert found.found.step == 200


def test_agreement_is_one_sentence() -> None:
    assert chains.agreement([]) == ""
    alone = chains.by_chain([row(0, 0, 7)])
    assert chains.agreement(alone).endswith("its best utility of 7.")
    both = chains.by_chain([row(0, 0, 9), row(0, 1, 7), row(1, 0, 9), row(1, 1, 9)])
    assert "each found the best utility 9, the last of them in round 2 of 2" in chains.agreement(both)
    apart = chains.by_chain([row(0, 0, 9), row(0, 1, 7), row(0, 2, 7)])
    assert "do not agree: the best utility is 9 by 1, 7 by 2 of 3 chains after 1 round;" in chains.agreement(apart)


def test_rounds_say_how_many_chains_lead() -> None:
    found = chains.rounds(chains.by_chain([row(0, 0, 9, 50), row(0, 1, 7, 30), row(1, 0, 9, 50), row(1, 1, 9, 40)]))
    assert [(r.number, r.step, r.lowest, r.highest, r.best, r.leading, r.rate) for r in found] == [
        (1, 100, 6, 8, 9, 1, 40.0),
        (2, 200, 8, 8, 9, 2, 5.0),
    ]


def test_long_traces_are_thinned_and_keep_the_end(wide: AuditEvidence) -> None:
    found = chains.by_chain(wide.found.trace)
    assert len(found) == 20
    assert len(found[0].thinned.rows) == chains.MOST_POINTS
    assert found[0].thinned.last == found[0].last
    assert len(chains.rounds(found)) == chains.MOST_ROUNDS


@pytest.mark.parametrize("name", ["one step", "decomposable", "wide"])
def test_figures_stay_inside(name: str, request: pytest.FixtureRequest) -> None:
    trace = [row(0, 0, 7)] if name == "one step" else request.getfixturevalue(name).found.trace
    found = chains.by_chain(trace)
    assert drawing(chains.utility_by_step(found)).tag == drawing(chains.cooling(found)).tag == "svg"


@pytest.mark.parametrize(
    ("value", "said"),
    [(1234.0, "1,234"), (47.5, "47.5"), (1 / 3, "0.333333"), (1e300, "1.00e+300"), (12e6 + 0.5, "12.0M")],
)
def test_amounts(value: float, said: str) -> None:
    assert chains.amount(value) == said
