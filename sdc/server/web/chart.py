"""A small bar chart of a released sub-table, for the page that shows it; its colours are the style sheet's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from sdc.model.table import Table
from sdc.publish.formats.table import Dimension
from sdc.report import svg
from sdc.report.svg import Plot
from sdc.server.web.answers import Answer

MAX_BARS = 60
COLOURS = 6  # classes bar-0 to bar-5; each bar is named too, so that nobody has to tell colours apart
WIDTH, LABELS, FIGURES, ROW, MARGIN = 640.0, 210.0, 110.0, 22.0, 8.0
LONGEST = 30  # signs of a label; the tooltip has all of it


def chart(answer: Answer) -> Markup | None:
    """A bar a cell, cells without records too, totals never; None but for one or two variables and at most 60 cells.

    And of a suppressed table, whose suppressed cells have no length.

    Of two variables the bars are in groups, by the first. Nothing has a style of its own, which a page may forbid.
    """
    if not isinstance(answer.public, Table) or len(answer.table.dimensions) > 2 or answer.table.cells > MAX_BARS:
        return None
    variables = answer.table.dimensions
    codes, counts = next(replace(answer.table, zeros=True, totals=False).slices(MAX_BARS))
    names = " by ".join(variable.label for variable in variables)
    groups = len(variables[0].categories) if len(variables) == 2 else 0
    height = (len(counts) + groups) * ROW + 2 * MARGIN
    bars = Plot(LABELS, MARGIN, WIDTH - LABELS - FIGURES, height - 2 * MARGIN, (0, int(counts.max())), (0, 1))
    description = (
        f"{len(counts)} bars, one for each cell of {names}. The longest is {int(counts.max()):,} of "
        f"{answer.table.records:,} records: {_said(variables, codes[counts.argmax()].tolist())}."
    )
    rows = _rows(variables, zip(codes.tolist(), counts.tolist(), strict=True), bars)
    return svg.figure("chart", WIDTH, height, f"{answer.title}: {names}", description, rows)


def _said(variables: Sequence[Dimension], cell: list[int]) -> str:
    return ", ".join(f"{one.label} = {one.labels[code]}" for one, code in zip(variables, cell, strict=True))


def _rows(variables: Sequence[Dimension], cells: Iterable[tuple[list[int], int]], bars: Plot) -> Iterator[Markup]:
    top = bars.top
    for codes, count in cells:
        if len(codes) == 2 and codes[1] == 0:
            yield _label(f"{variables[0].label}: {variables[0].labels[codes[0]]}", 0.0, top, "t strong")
            top += ROW
        yield svg.element(
            "rect",
            svg.element("title", f"{_said(variables, codes)}: {count:,}"),
            x=bars.left,
            y=top + 3,
            width=bars.x(count) - bars.left,
            height=ROW - 6,
            class_=f"bar bar-{codes[-1] % COLOURS if len(codes) == 2 else 0}",
        )
        yield _label(variables[-1].labels[codes[-1]], bars.left - 8, top, "t", "end")
        yield svg.text(bars.x(count) + 6, top + ROW - 7, f"{count:,}")
        top += ROW


def _label(category: str, x: float, top: float, class_: str, anchor: str | None = None) -> Markup:
    words = category if len(category) <= LONGEST else category[: LONGEST - 1] + "…"
    return svg.text(x, top + ROW - 7, words, class_, anchor)
