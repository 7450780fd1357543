"""Results as figures by themselves: those of the report, with the style that its page gives them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from typing import Any

from markupsafe import Markup

from sdc.model import subtable as st
from sdc.model.errors import InputError, many
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.report import curve, figures, svg
from sdc.report.blocks import TEMPLATES
from sdc.report.figures import Scale
from sdc.report.svg import PAGE
from sdc.risk.critical_width import CriticalWidths
from sdc.search.curve import Curve
from sdc.search.found import Found

_SIZE = re.compile(r'<svg viewBox="0 0 (\S+) (\S+)"')
MOST_ROWS, ROW, WIDEST = 60, 22.0, 30.0


@dataclass(frozen=True, repr=False)
class Figure:
    """A picture that a notebook shows; `svg` is all of it, which other programs read too.

    It is as confidential as what it was drawn of.
    """

    title: str
    svg: str

    def __repr__(self) -> str:
        return f"Figure: {self.title}"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        # as an image: a style within the page would hold for all of it
        source = b64encode(self.svg.encode()).decode()
        return f'<img alt="{escape(self.title)}" style="max-width: 100%" src="data:image/svg+xml;base64,{source}">'


@singledispatch
def drawn(result: Any, **settings: Any) -> Figure:
    """The figure of a result; InputError for settings that it cannot be drawn by."""
    raise InputError(f"a {type(result).__name__} has no figure; critical widths, a curve and a found release have one")


@drawn.register(CriticalWidths)
def of_widths(widths: CriticalWidths, *, min_width: int, release: Any = None) -> Figure:
    """The query space, coloured by the required width; with a release what is not in it is crossed."""
    if min_width < 1 or not len(widths):
        raise InputError(
            f"min_width = {min_width}, with {many(len(widths), 'critical width')}; both must be at least 1"
        )
    schema, rows = widths.names, figures.levels(widths, widths.names)
    dangerous = figures.ByDimension.of(rows, schema)
    scale = Scale.of(min_width, int(widths.widths.max()))
    released = getattr(release, "release", release)
    if isinstance(released, list | tuple):
        released = Release.of(st.subtable_of(one, schema) for one in released)
    if not isinstance(released, Release | None):
        raise InputError(
            f"release is of the type {type(release).__name__}; give a release that was found, or sub-tables"
        )
    squares = figures.Lattice(rows, dangerous, released, schema, scale).drawn
    return _stacked("Critical widths of the sub-tables", [figures.legend(scale), squares])


@drawn.register(Curve)
def of_curve(points: Curve, *, min_width: int | None = None) -> Figure:
    """Sub-tables by required width, with a mark at one."""
    drawing = curve.risk_utility(curve.by_series(points), min_width, "this release")
    return _stacked("Risk and utility", [drawing])


@drawn.register(Found)
def of_frontier(found: Found) -> Figure:
    """A row for each sub-table of the released frontier, with the variables that it has."""
    return _stacked("The released frontier", [_frontier(found.release, found.names)])


def _frontier(release: Release, schema: Schema) -> Markup:
    pitch = min(WIDEST, (PAGE - 300) / len(schema))
    top = 14 + 0.72 * max(map(svg.extent, schema.names))
    parts = []
    for v, name in enumerate(schema.names):
        x, y = 10 + (v + 0.5) * pitch, top - 6
        parts.append(svg.text(x, y, name, anchor="start", transform=f"rotate(-45 {x:.1f} {y:.1f})"))
    for k, element in enumerate(release.frontier[:MOST_ROWS]):
        parts += _row(element, top + k * ROW, pitch, schema)
    rows = min(len(release.frontier), MOST_ROWS)
    if more := len(release.frontier) - rows:
        parts.append(svg.text(10, top + rows * ROW + 16, f"and {more:,} more"))
    words = (
        f"A row for each of the {len(release.frontier):,} largest released sub-tables, dark at the variables it has."
    )
    return svg.figure("frontier", PAGE, top + rows * ROW + 24, "The released frontier", words, parts)


def _row(element: st.SubTable, y: float, pitch: float, schema: Schema) -> Iterator[Markup]:
    told, title = schema.levels.finest(element), st.label(element, schema)
    for v in range(len(schema)):
        fill = "#2b6ca3" if st.has(told, v) else "#e9f2fa"
        yield svg.box(10 + v * pitch + 1, y + 1, pitch - 2, ROW - 2, fill, title)
    right = 10 + len(schema) * pitch + 8
    yield svg.text(
        right, y + 15, f"{many(st.ways(element, schema), 'variable')}, {many(st.cells(element, schema), 'cell')}"
    )


def _stacked(title: str, parts: Sequence[Markup]) -> Figure:
    """One below the other, in a picture that needs no page around it."""
    placed, height = [], 0.0
    for part in parts:
        size = _SIZE.match(part)
        assert size is not None
        place = f'<svg y="{height:g}" width="{size[1]}" height="{size[2]}" viewBox="0 0 {size[1]} {size[2]}"'
        # the page's rule for figures is for those that are not within another
        placed.append(Markup(place + str(part)[size.end() :].replace(' class="figure"', "", 1)))
        height += float(size[2])
    page = {"title": title, "parts": placed, "width": f"{PAGE:g}", "height": f"{height:g}"}
    return Figure(title, TEMPLATES.get_template("figure.svg.j2").render(page))
