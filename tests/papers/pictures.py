"""The pictures of the page: those of the report, of the papers' tables, and printed probabilities beside exact ones."""

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from sdc import api
from sdc.model import subtable as st
from sdc.model.release import NOTHING, Release
from sdc.report import curve, figures, svg
from sdc.report.figures import Scale
from sdc.report.svg import PAGE, Plot
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from tests.papers.sources import CZECH, SMALL_COUNT, WIDTH

CRITERIA = Criteria.of(SMALL_COUNT, WIDTH)
DRAWS = 500
LEFT, TOP, ROW = 110.0, 40.0, 22.0


def query_space(widths: CriticalWidths, release: Release) -> Markup:
    """Every sub-table with its critical width, the most dangerous of each dimension, and what is not released."""
    schema = CZECH.schema
    rows = figures.levels(widths, schema)
    scale = Scale.of(WIDTH, int(widths.widths.max()))
    squares = figures.Lattice(rows, figures.ByDimension.of(rows, schema), release, schema, scale).squares()
    return figures.legend(scale) + squares


def bounds(release: Release) -> Markup:
    """Sharp bounds of the cells at risk."""
    return figures.exposed_cells(api.cell_bounds(CZECH, release, small_count=SMALL_COUNT), CRITERIA, CZECH.schema)


def matrix(release: Release) -> Markup:
    """The released frontier as the papers show it: a row a sub-table, with an X for each variable that it has."""
    variables = len(CZECH.schema)
    header = Markup("").join(map(Markup("<th>{}</th>").format, CZECH.schema.names))
    rows = (map(Markup("<td>{}</td>").format, st.marks(t, variables)) for t in release.frontier)
    body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(row)) for row in rows)
    inside = Markup("<caption>The released frontier</caption><thead><tr>{}</tr></thead><tbody>{}</tbody>")
    return Markup('<table class="frontier">{}</table>').format(inside.format(header, body))


def risk_utility() -> Markup:
    """What both methods release of the Czech table by the width required."""
    asked = (1, 3, 6, 10, 15, 20, 30, 40, 50, 60)
    points = api.risk_utility_curve(CZECH, NOTHING, min_widths=asked, small_counts=[SMALL_COUNT], chains=2, steps=2_000)
    return curve.risk_utility(curve.by_series(points), WIDTH, "this example")


Laws = Mapping[str, Sequence[float]]


def laws(name: str, printed: Laws, computed: Laws) -> Markup:
    """Of each cell and count the computed probability, with the standard error of 500 draws, and the printed one."""
    rows = [(cell, count, p, computed[cell][count]) for cell, found in printed.items() for count, p in enumerate(found)]
    plot = Plot(LEFT, TOP, PAGE - LEFT - 30, ROW * len(rows), (0.0, 0.8), (0.0, float(len(rows))))
    parts = [_dot(LEFT + 6, 10, computed=True), svg.text(LEFT + 18, 14, "computed, one standard error of 500 draws")]
    parts += [_dot(LEFT + 320, 10, computed=False), svg.text(LEFT + 332, 14, "printed")]
    parts += plot.grid([k / 10 for k in range(9)], [])
    for k, row in enumerate(rows):
        parts += _law(plot, TOP + ROW * (k + 0.5), *row)
    words = "A line a cell and count: the filled dot is the computed probability, the ring the printed one."
    return svg.figure(f"{name}-laws", PAGE, TOP + ROW * len(rows) + 24, "Probabilities of the counts", words, parts)


def _law(plot: Plot, y: float, cell: str, count: int, printed: float, computed: float) -> Iterator[Markup]:
    error = (computed * (1 - computed) / DRAWS) ** 0.5
    title = svg.element("title", f"{cell}, count {count}: computed {computed:.3f}, printed {printed:.2f}")
    yield svg.text(LEFT - 12, y + 4, f"{cell}  {count}", anchor="end")
    yield svg.line(plot.x(computed - error), y, plot.x(computed + error), y, "range")
    yield _dot(plot.x(computed), y, computed=True, title=title)
    yield _dot(plot.x(printed), y, computed=False)


def _dot(x: float, y: float, *, computed: bool, title: Markup | str = "") -> Markup:
    style = {"r": 4.0, "fill": "#1f5f96"} if computed else {"r": 5.5, "fill": "none", "stroke": "#c2570c"}
    return svg.element("circle", title, cx=x, cy=y, stroke_width=2, **style)
