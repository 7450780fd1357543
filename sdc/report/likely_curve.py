"""What a release may make likely against what it has: decomposable releases under limits on the posterior."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from sdc.report import svg
from sdc.report.curve import COLOURS
from sdc.report.plot import PAGE, Plot, around, ticks
from sdc.search.curve import LikelyPoint

LEFT, TOP, HEIGHT = 70.0, 44.0, 260.0
COLOUR = COLOURS["decomposable"]


def figure(points: Sequence[LikelyPoint]) -> Markup:
    """Sub-tables of each release that was found against the share of at-risk cells that it identifies, in per cent."""
    told = [(100 * p.above, p.sub_tables, p) for p in points if p.above is not None]
    found = sorted(told, key=lambda point: point[:2])
    if not found:
        return Markup("")
    most = max(sub_tables for _, sub_tables, _ in found)
    plot = Plot(LEFT, TOP, PAGE - LEFT - 30, HEIGHT, around(x for x, _, _ in found), (0, max(1, most) * 1.1))
    bottom = plot.top + HEIGHT
    parts = [svg.text(plot.left - 60, plot.top - 22, "sub-tables released", "t strong")]
    parts += plot.grid(ticks(*plot.x_range, 10), ticks(*plot.y_range, 6, 1))
    words = "at-risk cells above the threshold, in % →"
    parts.append(svg.text(plot.left + plot.width, bottom + 36, words, "t strong", anchor="end"))
    parts.append(plot.line([(x, y) for x, y, _ in found], "curve faint-line"))
    for x, y, point in found:
        title = svg.element("title", f"{limit_of(point)}: {y:,} sub-tables, {x:.2f} % above the threshold")
        parts.append(svg.element("circle", title, cx=plot.x(x), cy=plot.y(y), r=4, stroke=COLOUR, class_="point"))
    return svg.figure(
        "likely-curve",
        PAGE,
        bottom + 44,
        "Sub-tables and cells above the threshold",
        "To the right the share of at-risk cells whose true count is more probable than the threshold, upwards the "
        "number of released sub-tables; a point for each limit, the one farthest up without.",
        parts,
    )


def limit_of(point: LikelyPoint) -> str:
    """`at most 5 %`, or `no limit`."""
    return "no limit" if point.max_above is None else f"at most {100 * point.max_above:g} %"
