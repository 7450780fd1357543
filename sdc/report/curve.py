"""The risk-utility curve of each method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from sdc.report import svg
from sdc.report.svg import Plot, ticks
from sdc.search.curve import CurvePoint

MOST_POINTS = 200
MOST_SERIES = 12
APART = 33.0  # points between two figures on an axis, so that they do not touch
COLOURS = {"ordered": "#1f5f96", "bisection": "#2c7a51", "decomposable": "#c2570c", "best": "#b4bfca"}
OTHER = "#51606f"


@dataclass(frozen=True)
class Series:
    """The points of one method and small count, by required width."""

    method: str
    small_count: int
    points: tuple[CurvePoint, ...]

    @property
    def label(self) -> str:
        return f"{self.method}, counts 1 to {self.small_count}"


def by_series(curve: Sequence[CurvePoint]) -> list[Series]:
    """By small count, then method; `best` before those that it is the best of, so that they are drawn over it."""

    def key(point: CurvePoint) -> tuple[int, bool, str]:
        return point.small_count, point.method != "best", point.method

    ordered = sorted(curve, key=lambda point: (*key(point), point.min_width_required))
    groups = [tuple(points) for _, points in groupby(ordered, key=key)]
    return [Series(points[0].method, points[0].small_count, points) for points in groups]


def rows(curve: Sequence[CurvePoint]) -> list[CurvePoint]:
    """By small count, required width and method."""
    return sorted(curve, key=lambda p: (p.small_count, p.min_width_required, p.method))[:MOST_POINTS]


def risk_utility(series: Sequence[Series], min_width: int | None, whose: str = "this build") -> Markup:
    """Sub-tables released against the width, a line for each method and small count; one required is marked."""
    shown = series[:MOST_SERIES]
    points = [point for one in shown for point in one.points]
    widths, most = [point.min_width_required for point in points], max(point.sub_tables for point in points)
    plot = svg.chart_plot((min(widths), max(widths)), (0, max(1, most) * 1.04), len(shown))
    counts = sorted({one.small_count for one in shown})
    dashes = {count: svg.DASHES[place % len(svg.DASHES)] for place, count in enumerate(counts)}
    parts = [] if min_width is None else [*_required(plot, min_width, whose)]
    for one in shown:
        parts += _line(one, dashes[one.small_count], plot)
    # keys in the order of reading, lines in that of drawing: the broad line of `best` first, under the others
    for k, one in enumerate(sorted(shown, key=lambda one: (one.small_count, one.method == "best"))):
        parts += _key(one, dashes[one.small_count], *svg.place_of_key(k))
    mark = "" if min_width is None else f" The upright line is the required width of {whose}."
    description = (
        "To the right the width that every at-risk cell must keep, upwards the number of released sub-tables; a line "
        f"for each method and small count.{mark}"
    )
    marks, axes = (_widths(plot, widths), ticks(*plot.y_range, 8, 1)), ("required min width", "sub-tables released")
    return svg.chart("risk-utility", plot, ("Risk and utility", description), axes, marks, parts)


def _widths(plot: Plot, widths: Sequence[int]) -> list[float]:
    """The widths that were asked, but for those too close to the one before."""
    found: list[float] = []
    for width in sorted({*widths}):
        if not found or plot.x(width) - plot.x(found[-1]) >= APART:
            found.append(width)
    return found


def _required(plot: Plot, min_width: int, whose: str) -> Iterator[Markup]:
    low, high = plot.x_range
    if low <= min_width <= high:
        x = plot.x(min_width)
        yield svg.line(x, plot.top - 8, x, plot.top + plot.height, "required")
        right = x > plot.left + plot.width - 140
        words = f"{whose}: {min_width:,}"
        yield svg.text(x - 6 if right else x + 6, plot.top - 2, words, "t strong halo", "end" if right else "start")


def _key(series: Series, dash: str | None, x: float, y: float) -> Iterator[Markup]:
    """A sample of the line with its name."""
    yield _stroke([(x, y), (x + 40, y)], series.method, dash)
    yield _mark(series.method, x + 20, y, "")
    yield svg.text(x + 48, y + 4, series.label)


def _line(series: Series, dash: str | None, plot: Plot) -> Iterator[Markup]:
    places = [(plot.x(p.min_width_required), plot.y(p.sub_tables)) for p in series.points]
    yield _stroke(places, series.method, dash)
    for point, (x, y) in zip(series.points[:MOST_POINTS], places, strict=False):
        title = f"{series.label}, required width {point.min_width_required:,}: {point.sub_tables:,} sub-tables"
        yield _mark(series.method, x, y, title)


def _stroke(places: Sequence[tuple[float, float]], method: str, dash: str | None) -> Markup:
    style = {"stroke": COLOURS.get(method, OTHER), "stroke_width": 9 if method == "best" else 2}
    return svg.stroke(places, {**style, "stroke_dasharray": dash})


def _mark(method: str, x: float, y: float, title: str) -> Markup:
    """Circle: ordered. Triangle: bisection. Square: decomposable. Nothing more than the broad line: best."""
    colour = COLOURS.get(method, OTHER)
    tooltip = [svg.element("title", title)] if title else []
    if method == "decomposable":
        return svg.element("rect", *tooltip, x=x - 4, y=y - 4, width=8, height=8, stroke=colour, class_="point")
    if method == "bisection":
        return svg.element("path", *tooltip, d=f"M{x:.1f} {y - 5:.1f}l5 9l-10 0z", stroke=colour, class_="point")
    radius = 4.5 if method == "best" else 4
    return svg.element("circle", *tooltip, cx=x, cy=y, r=radius, stroke=colour, class_="point")
