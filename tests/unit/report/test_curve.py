"""Plots, the risk-utility curve and the measures of utility."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sdc.report import curve, publication
from sdc.report.audit import AuditEvidence
from sdc.report.plot import Plot, ticks
from tests.helpers.audits import drawing


@given(some.floats(0, 1e12), some.floats(1e-3, 1e12), some.integers(1, 14))
def test_ticks_are_few_and_inside(low: float, span: float, most: int) -> None:
    found = ticks(low, low + span, most)
    assert len(found) <= most + 1
    assert found == sorted(set(found))
    assert all(low - span / 1e3 - 1e-6 <= tick <= low + span * 1.001 + 1e-6 for tick in found)


def test_ticks_of_whole_numbers() -> None:
    assert ticks(46, 48, 10, least=1) == [46, 47, 48]
    assert ticks(0, 1, 4) == [0, 0.5, 1]


def test_places_of_a_logarithmic_axis() -> None:
    plot = Plot(100, 10, 200, 50, (1, 100), (0, 10), logarithmic=True)
    assert [plot.x(v) for v in (1, 10, 100)] == pytest.approx([100, 200, 300])
    assert [plot.y(v) for v in (0, 5, 10)] == [60, 35, 10]


@pytest.mark.parametrize("name", ["decomposable", "wide"])
def test_every_point_is_a_mark_inside(name: str, request: pytest.FixtureRequest) -> None:
    audit: AuditEvidence = request.getfixturevalue(name)
    drawn = curve.risk_utility(curve.by_series(audit.curve), audit.min_width)
    root = drawing(drawn)
    assert len([title for title in root.iter("title") if "required width" in (title.text or "")]) == len(audit.curve)
    assert f"this build: {audit.min_width}" in drawn


def test_a_reconstruction_says_how_far_off_it_is_and_whether_it_converged() -> None:
    closed = {"reconstruction_method": "closed form", "mean_squared_error": 4.0, "converged": True}
    assert "off by 2 records" in publication.reconstruction(closed)
    assert "converge" not in publication.reconstruction(closed)
    for converged in (True, False):
        found = {"reconstruction_method": "ipf", "sweeps": 1000, "deviation": 31.25, "converged": converged}
        words = publication.reconstruction(found)
        assert ("The iteration converged." in words) is converged
        assert ("did not converge" in words) is not converged
        assert "in 1,000 sweeps. The largest deviation from a released count is 31.2" in words
    assert publication.reconstruction({}) == ""
