"""SVG elements as escaped markup."""

from __future__ import annotations

from collections.abc import Iterable
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


def box(x: float, y: float, width: float, height: float, fill: str, title: str = "", **more: object) -> Markup:
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
