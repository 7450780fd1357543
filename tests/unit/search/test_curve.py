"""The risk-utility curve: each point is what the method finds, and nothing is found out twice."""

from itertools import groupby

import pytest

from sdc.api import find_release, risk_utility_curve
from sdc.model.errors import ConfigError, InputError
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.search.curve import CurvePoint

WIDTHS = (1, 6, 10, 11, 31, 60, 300, 2000)
BOTH = ("ordered", "decomposable")


@pytest.fixture(scope="module")
def points(czech: Table) -> tuple[CurvePoint, ...]:
    return risk_utility_curve(
        czech, NOTHING, min_widths=WIDTHS, small_counts=(1, 2), methods=(*BOTH, "best"), chains=2, steps=2000
    )


def of(points: tuple[CurvePoint, ...], method: str, small_count: int = 2) -> list[CurvePoint]:
    return [point for point in points if (point.method, point.small_count) == (method, small_count)]


def test_the_points_are_sorted_and_all_there(points: tuple[CurvePoint, ...]) -> None:
    expected = [(method, c, width) for method in (*BOTH, "best") for c in (1, 2) for width in WIDTHS]
    assert [(point.method, point.small_count, point.min_width_required) for point in points] == expected


def test_the_published_czech_releases(points: tuple[CurvePoint, ...]) -> None:
    """REFERENCE section 2: 48 with the total for 1 to 10, 32 to 30, 28 to 52, 24 to 64; 60 ordered at 6."""
    assert [point.sub_tables for point in of(points, "decomposable")] == [47, 47, 47, 31, 27, 23, 0, 0]
    assert of(points, "ordered")[1] == CurvePoint("ordered", 2, 6, 59, 59.0, 568, 59, 9)
    assert of(points, "decomposable")[1] == CurvePoint("decomposable", 2, 6, 47, 47.0, 404, 47, 10)


@pytest.mark.parametrize("small_count", [1, 2])
def test_ordered_points_are_the_ordered_releases(
    small_count: int, czech: Table, points: tuple[CurvePoint, ...]
) -> None:
    for point in of(points, "ordered", small_count)[:-1]:
        found = find_release(czech, "ordered", min_width=point.min_width_required, small_count=small_count)
        assert point.sub_tables == found.sub_tables
        assert point.min_width == found.assessment.min_width[0]


def test_where_nothing_can_be_released(points: tuple[CurvePoint, ...]) -> None:
    assert of(points, "ordered")[-1] == CurvePoint("ordered", 2, 2000, 0, 0.0, 0, 0, None)
    assert of(points, "best")[-1].min_width is None
    assert [point.min_width for point in of(points, "decomposable")[-2:]] == [None, None]


def test_more_protection_never_releases_more(points: tuple[CurvePoint, ...]) -> None:
    for _, line in groupby(points, key=lambda point: (point.method, point.small_count)):
        values = [point.value for point in line]
        assert values == sorted(values, reverse=True)
    for best, *others in zip(*(of(points, method) for method in ("best", *BOTH)), strict=True):
        assert best.value >= max(point.value for point in others)
        assert best.min_width is None or best.min_width >= best.min_width_required


def test_weights_are_what_is_drawn(czech: Table) -> None:
    point, *_ = risk_utility_curve(czech, NOTHING, min_widths=[11], methods=["ordered"], weights={"F": 3, "A*B": 10})
    assert point.value > point.sub_tables


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"min_widths": []}, InputError, r"min_widths = \[\]; give at least one, each at least 1"),
        ({"min_widths": [0, 3]}, InputError, r"min_widths = \[0, 3\]; give at least one"),
        ({"min_widths": [3], "small_counts": [0]}, InputError, r"small_counts = \[0\]; give"),
        ({"min_widths": [3], "methods": ["greedy"]}, ConfigError, "'greedy' is unknown; choose one of ordered"),
    ],
)
def test_faulty_settings(settings: dict[str, list[int]], error: type[Exception], message: str, czech: Table) -> None:
    with pytest.raises(error, match=message):
        risk_utility_curve(czech, NOTHING, **settings)  # type: ignore[arg-type]
