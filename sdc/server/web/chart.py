"""A small bar chart of a released sub-table, for the page that shows it; its colours are the style sheet's."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from sdc.model.labels import Labels
from sdc.model.table import Table
from sdc.report import svg
from sdc.report.plot import Plot
from sdc.server.web.cells import Answer, Shape

MAX_BARS = 60
COLOURS = 6  # classes bar-0 to bar-5; each bar is named too, so that nobody has to tell colours apart
WIDTH, LABELS, FIGURES, ROW, MARGIN = 640.0, 210.0, 110.0, 22.0, 8.0
LONGEST = 30  # signs of a label; the tooltip has all of it


def chart(answer: Answer) -> Markup | None:
    """A bar a cell, cells without records too, totals never; None but for one or two variables and at most 60 cells.

    And of a suppressed table, whose suppressed cells have no length.

    Of two variables the bars are in groups, by the first. Nothing has a style of its own, which a page may forbid.
    """
    marginal, variables = answer.marginal, answer.given
    if marginal is None or answer.is_in_part or len(variables) > 2 or marginal.schema.cells > MAX_BARS:
        return None
    codes, counts = next(Answer("", marginal, Shape(zeros=True)).chunks(MAX_BARS))
    cells = list(zip(codes.tolist(), counts.tolist(), strict=True))
    names = " by ".join(map(answer.labels.variable, answer.names))
    groups = len(variables[0].categories) if len(variables) == 2 else 0
    height = (len(cells) + groups) * ROW + 2 * MARGIN
    bars = Plot(LABELS, MARGIN, WIDTH - LABELS - FIGURES, height - 2 * MARGIN, (0, int(counts.max())), (0, 1))
    description = (
        f"{len(cells)} bars, one for each cell of {names}. The longest is {int(counts.max()):,} of "
        f"{marginal.total:,} records: {_said(marginal, codes[counts.argmax()].tolist(), answer.labels)}."
    )
    rows = _rows(answer, marginal, cells, bars)
    return svg.figure("chart", WIDTH, height, f"{answer.title}: {names}", description, rows)


def _said(marginal: Table, cell: list[int], labels: Labels) -> str:
    named = marginal.schema.named(cell).items()
    return ", ".join(f"{labels.variable(name)} = {labels.category(name, category)}" for name, category in named)


def _rows(answer: Answer, marginal: Table, cells: list[tuple[list[int], int]], bars: Plot) -> Iterator[Markup]:
    variables, labels, top = answer.given, answer.labels, bars.top
    called = [labels.categories(variable) for variable in variables]
    for codes, count in cells:
        if len(codes) == 2 and codes[1] == 0:
            yield _label(f"{labels.variable(variables[0].name)}: {called[0][codes[0]]}", 0.0, top, "t strong")
            top += ROW
        said = f"{_said(marginal, codes, labels)}: {count:,}"
        yield svg.element(
            "rect",
            svg.element("title", said),
            x=bars.left,
            y=top + 3,
            width=bars.x(count) - bars.left,
            height=ROW - 6,
            class_=f"bar bar-{codes[-1] % COLOURS if len(codes) == 2 else 0}",
        )
        yield _label(called[-1][codes[-1]], bars.left - 8, top, "t", "end")
        yield svg.text(bars.x(count) + 6, top + ROW - 7, f"{count:,}")
        top += ROW


def _label(category: str, x: float, top: float, class_: str, anchor: str | None = None) -> Markup:
    words = category if len(category) <= LONGEST else category[: LONGEST - 1] + "…"
    return svg.text(x, top + ROW - 7, words, class_, anchor)
