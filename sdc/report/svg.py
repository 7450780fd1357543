"""SVG elements as escaped markup, and charts of lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log
from typing import Any
from unicodedata import east_asian_width

from markupsafe import Markup, escape


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """One element; text is escaped, `class_` and `stroke_width` become `class` and `stroke-width`."""
    # `Markup.format` escapes what it puts in, attributes too: a category may hold a quotation mark
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _number(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), written, Markup("").join(escape(c) for c in content))


def _number(value: object) -> object:
    # a tenth of a point is enough, and the same digits everywhere make the page the same bytes everywhere
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def text(x: float, y: float, content: object, class_: str = "t", anchor: str | None = None, **more: object) -> Markup:
    """Text on a baseline; anchor is start, middle or end."""
    return element("text", content, x=float(x), y=float(y), class_=class_, text_anchor=anchor, **more)


def box(x: float, y: float, width: float, height: float, fill: str | None, title: str = "", **more: object) -> Markup:
    """A rectangle, with a tooltip where a title is given."""
    tooltip = [element("title", title)] if title else []
    sides = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return element("rect", *tooltip, **sides, fill=fill, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def path(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """An open polyline."""
    joined = " ".join(f"{_number(float(x))},{_number(float(y))}" for x, y in points)
    return element("polyline", points=joined, class_=class_)


def figure(name: str, width: float, height: float, title: str, description: str, parts: Iterable[Markup]) -> Markup:
    """A whole figure that scales with the page; `name` is unique on it."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *parts,
        viewBox=f"0 0 {_number(float(width))} {_number(float(height))}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_="figure",
        id=name,
    )


def extent(words: str) -> float:
    """About how wide the words are, rather more than less."""
    return sum(_wide(letter) for letter in words)


def _wide(letter: str) -> float:
    if east_asian_width(letter) in "WF":
        return 13.5
    # there is no font to ask: a box that is too wide does no harm, one too narrow cuts a name
    if letter in " ,.:;'|ijlIt()[]f-":
        return 4.8
    return 10.5 if letter.isupper() or letter in "mw@%&" else 7.5


PAGE = 1100.0
LEFT, TOP, HEIGHT, KEYS, KEY = 70.0, 44.0, 330.0, 4, 260.0  # of a chart, and of the keys above it
WIDEST_RATIO = 30  # of values on a line: beyond it small ones would lie on each other
DASHES = (None, "8 4", "2 4", "10 3 2 3")
ROUNDING = Fraction(1, 10**9)  # of a step


@dataclass(frozen=True)
class Plot:
    """A rectangle of a figure with the values at its edges; `logarithmic` is the horizontal axis."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    logarithmic: bool = False

    def x(self, value: float) -> float:
        low, high, at = (log(v) if self.logarithmic else v for v in (*self.x_range, value))
        # a range of one value: whatever is in it lies at the left
        return self.left + self.width * (at - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.top + self.height * (high - value) / ((high - low) or 1)

    def line(self, points: Iterable[tuple[float, float]], class_: str) -> Markup:
        """The values joined by straight lines."""
        return path([(self.x(x), self.y(y)) for x, y in points], class_)

    def grid(self, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> Iterator[Markup]:
        """Lines at the ticks, with figures below and on the left."""
        right, bottom = self.left + self.width, self.top + self.height
        for tick in x_ticks:
            yield line(self.x(tick), self.top, self.x(tick), bottom, "grid")
            yield text(self.x(tick), bottom + 16, short(tick), anchor="middle")
        for tick in y_ticks:
            yield line(self.left, self.y(tick), right, self.y(tick), "grid")
            yield text(self.left - 8, self.y(tick) + 4, short(tick), anchor="end")


def chart_plot(x_range: tuple[float, float], y_range: tuple[float, float], keys: int = 0, ratios: bool = False) -> Plot:
    """The plot of a chart across the page, below so many keys; in ratios where its values are far apart."""
    low, high = x_range
    ratios = ratios or 0 < WIDEST_RATIO * low < high
    ends = (low, high) if low < high else (low - 1, high + 1)
    return Plot(LEFT, TOP + -(-keys // KEYS) * 22.0, PAGE - LEFT - 30, HEIGHT, ends, y_range, ratios)


def chart(
    name: str,
    plot: Plot,
    titles: tuple[str, str],
    axes: tuple[str, str],
    marks: tuple[Sequence[float], Sequence[float]],
    parts: Iterable[Markup],
) -> Markup:
    """A figure of a plot: its title and description, the names of both axes, and the values marked on them."""
    right, bottom = plot.left + plot.width, plot.top + plot.height
    named = [
        text(plot.left - 60, plot.top - 22, axes[1], "t strong"),
        *plot.grid(*marks),
        text(right, bottom + 36, f"{axes[0]} →", "t strong", anchor="end"),
    ]
    return figure(name, PAGE, bottom + 44, *titles, [*named, *parts])


def stroke(points: Iterable[tuple[float, float]], style: Mapping[str, Any], title: str = "") -> Markup:
    """A line of a chart through points of the page."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    tooltip = [element("title", title)] if title else []
    return element("polyline", *tooltip, points=joined, **style, class_="curve")


def place_of_key(number: int) -> tuple[float, float]:
    """Where the sample of a key's line begins."""
    return LEFT + number % KEYS * KEY, 12 + number // KEYS * 22.0


def ticks(low: float, high: float, most: int, least: float = 0.0) -> list[float]:
    """Multiples of a step from low to high; the step is 1, 2 or 5 times a power of ten, and not below `least`.

    At most `most` steps fit into the range.
    """
    # up to 10^300, because utilities with weights may be that large (`measures.MAX_UTILITY`)
    series = (digit * Fraction(10) ** power for power in range(-9, 301) for digit in (1, 2, 5))
    step = next(s for s in series if s >= least and s * most >= high - low)
    # a tick at an end of the range must not be lost to the rounding of that end
    first, last = (ceil(Fraction(low) / step - ROUNDING), floor(Fraction(high) / step + ROUNDING))
    # exact, and the nearest double; of a range that doubles hardly resolve some are one
    return list(dict.fromkeys(float(k * step) for k in range(first, last + 1)))


def short(number: float) -> str:
    """Whole below a hundred thousand, then 123k, 12.3M, and powers of ten; fractions with three digits."""
    if not float(number).is_integer() and abs(number) < 1000:
        return f"{number:.3g}"
    if abs(number) < 100_000:
        return f"{number:,.0f}"
    for unit, letter in ((10**3, "k"), (10**6, "M"), (10**9, "G")):
        if number < 1000 * unit:
            return f"{number / unit:.{0 if number >= 100 * unit else 1}f}{letter}"
    return f"{number:.2e}"


def share(part: float, whole: float = 1.0) -> str:
    """`12.5 %`."""
    return f"{100 * part / whole:.1f} %"
