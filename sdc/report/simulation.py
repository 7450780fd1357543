"""Pages on the rules of a server: rule sets beside each other on random streams, and a history under other rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sdc.page_templates import page_templates
from sdc.report import svg
from sdc.report.plot import PAGE, Plot, short, ticks
from sdc.report.sections import number

COLOURS = ("#1f5f96", "#c2570c", "#6b4c9a", "#2f7d4f", "#a3182a", "#a86d00", "#70a6d0", "#51606f")
DASHES = (None, "8 4", "2 4", "10 3 2 3")
MOST_DRAWN = 24  # rule sets
LEFT, TOP, HEIGHT, KEYS, KEY, ROW = 70.0, 44.0, 330.0, 4, 260.0, 24.0
BARS = (
    ("released", "sub-tables released", 1),
    ("answered_share", "requests answered, in %", 100),
    ("gini_caused", "Gini of what users caused", 1),
    ("saturation", "last request that released", 1),
)

Facts = Mapping[str, Any]

_TEMPLATES = page_templates("sdc.report")
_TEMPLATES.filters["number"] = number


def render(facts: Facts) -> str:
    """The page of a simulation: no script, no network, the same bytes for the same facts."""
    every = {one["name"]: one for one in facts["rule_sets"]}
    sets = dict(list(every.items())[:MOST_DRAWN])
    curves = curve({name: one["curve"] for name, one in sets.items()}, facts["ordered_release"])
    return _TEMPLATES.get_template("simulation.html.j2").render(
        facts=facts, curve=curves, bars=bars(sets), rules=_rules(every)
    )


def render_replay(facts: Facts) -> str:
    """The page of a replay: what was released and could no longer be, as it was and as it would have been."""
    sets = {"as it was": facts["as_it_was"], **facts["as_it_would_have_been"]}
    drawn = dict(list(sets.items())[:MOST_DRAWN])
    figures = [trajectories(drawn, name, words) for name, words in (("released", "R(t)"), ("unreleasable", "U(t)"))]
    return _TEMPLATES.get_template("replay.html.j2").render(
        facts=facts, sets=sets, figures=figures, rules=_rules(facts["as_it_would_have_been"])
    )


def _rules(sets: Facts) -> dict[str, str]:
    """Each rule set in words."""
    return {name: "; ".join(map(_words, one["rules"])) or "the criterion alone" for name, one in sets.items()}


def _words(rule: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{key} {value:g}" for key, value in rule.items() if key != "rule" and value is not None)
    return f"{rule['rule']} ({settings})" if settings else str(rule["rule"])


# Released over requests


def curve(sets: Mapping[str, Facts], ordered: int) -> Markup:
    """Mean of the released sub-tables after each request, with the band that holds eight streams in ten."""
    requests = max(len(one["mean"]) for one in sets.values()) - 1
    values = [v for one in sets.values() for key in ("q10", "q90") for v in one[key][1:]]
    low, high = min([*values, ordered]), max([*values, ordered])
    plot = _plot(len(sets), requests, (0 if low < high / 2 else low - 0.06 * (high - low) - 0.5, high * 1.04 + 0.1))
    parts = [*_axes(plot, requests, "sub-tables released"), *_level(plot, ordered)]
    for k, one in enumerate(sets.values()):
        parts.append(_band(plot, one["q10"], one["q90"], COLOURS[k % len(COLOURS)]))
    for k, (name, one) in enumerate(sets.items()):
        parts += _stroke(plot, one["mean"], k, f"{name}: {one['mean'][-1]:,.4g} sub-tables in the end")
    return svg.figure(
        "released-over-requests",
        PAGE,
        plot.top + HEIGHT + 44,
        "Sub-tables released over requests",
        "To the right the number of requests, in ratios, upwards the sub-tables that are public then: a line for the "
        "mean of each rule set, and a band from the tenth to the ninetieth per cent of the streams. The level line is "
        "the release that the ordered search makes at once.",
        [*parts, *_keys(list(sets))],
    )


def trajectories(sets: Mapping[str, Facts], key: str, words: str) -> Markup:
    """The sizes of R(t) or U(t) over the requests of a history."""
    requests, most = len(next(iter(sets.values()))[key]) - 1, max(max(one[key]) for one in sets.values())
    plot = _plot(len(sets), requests, (0, max(1, most) * 1.04))
    parts = _axes(plot, requests, f"sub-tables in {words}")
    for k, (name, one) in enumerate(sets.items()):
        parts += _stroke(plot, one[key], k, f"{name}: {one[key][-1]:,} in the end")
    return svg.figure(
        f"{key}-over-requests",
        PAGE,
        plot.top + HEIGHT + 44,
        f"Sub-tables in {words} over requests",
        "To the right the number of requests, in ratios, upwards the number of sub-tables: a line as it was, and one "
        "for each rule set as it would have been.",
        [*parts, *_keys(list(sets))],
    )


def _plot(sets: int, requests: int, y_range: tuple[float, float]) -> Plot:
    # most is decided by the first requests: in ratios they have room
    top = TOP + -(-sets // KEYS) * 22.0
    return Plot(LEFT, top, PAGE - LEFT - 30, HEIGHT, (1, max(2, requests)), y_range, logarithmic=True)


def _axes(plot: Plot, requests: int, words: str) -> list[Markup]:
    powers = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    parts = [svg.text(plot.left - 60, plot.top - 16, words, "t strong")]
    parts += plot.grid([p for p in powers if p <= max(2, requests)], ticks(*plot.y_range, 8, 1))
    bottom = plot.top + plot.height
    return [*parts, svg.text(plot.left + plot.width, bottom + 36, "requests →", "t strong", anchor="end")]


def _level(plot: Plot, ordered: int) -> Iterator[Markup]:
    y = plot.y(ordered)
    yield svg.line(plot.left, y, plot.left + plot.width, y, "required")
    yield svg.text(plot.left + 6, y - 6, f"all at once, ordered: {ordered:,}", "t strong halo")


def _band(plot: Plot, low: Sequence[float], high: Sequence[float], colour: str) -> Markup:
    forth = [(plot.x(k), plot.y(high[k])) for k in range(1, len(high))]
    back = [(plot.x(k), plot.y(low[k])) for k in range(len(low) - 1, 0, -1)]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in forth + back)
    return svg.element("polygon", points=joined, fill=colour, fill_opacity="0.08")


def _stroke(plot: Plot, values: Sequence[float], k: int, title: str) -> Iterator[Markup]:
    places = [(plot.x(n), plot.y(values[n])) for n in range(1, len(values))]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield svg.element("polyline", svg.element("title", title), points=joined, **_style(k))


def _style(k: int) -> dict[str, Any]:
    """The stroke of a rule set: colours first, then dashes, so that sets differ without either."""
    dash = DASHES[(k + k // len(COLOURS)) % len(DASHES)]
    return {"stroke": COLOURS[k % len(COLOURS)], "stroke_width": 2.4, "stroke_dasharray": dash, "class_": "curve"}


def _keys(names: Sequence[str]) -> Iterator[Markup]:
    """A sample of each line with its name."""
    for k, name in enumerate(names):
        x, y = LEFT + k % KEYS * KEY, 12 + k // KEYS * 22.0
        yield svg.element("polyline", points=f"{x:.1f},{y:.1f} {x + 40:.1f},{y:.1f}", **_style(k))
        yield svg.text(x + 48, y + 4, name if len(name) <= 28 else f"{name[:27]}…")


# Bars


def bars(sets: Mapping[str, Facts]) -> Markup:
    """Four panels, in each a bar with the mean of each rule set, and a line from the least to the most of a stream."""
    wide, high = PAGE / 2, 34 + ROW * len(sets) + 30
    parts = list[Markup]()
    for k, (key, words, factor) in enumerate(BARS):
        left, top = k % 2 * wide, k // 2 * high
        spreads = {name: {part: factor * value for part, value in one[key].items()} for name, one in sets.items()}
        parts += _panel(left, top, wide, words, spreads)
    return svg.figure(
        "bars",
        PAGE,
        2 * high,
        "Rule sets beside each other",
        "For each rule set the mean over the streams as a bar, and a line from the least to the most of one stream.",
        parts,
    )


def _panel(left: float, top: float, wide: float, words: str, spreads: Mapping[str, Facts]) -> Iterator[Markup]:
    most = max(1e-9, *(spread["max"] for spread in spreads.values()))
    name_wide, figure_wide = 150.0, 64.0
    plot = Plot(left + name_wide, top + 30, wide - name_wide - figure_wide - 20, ROW * len(spreads), (0, most), (0, 1))
    yield svg.text(left, top + 16, words, "t strong")
    yield from plot.grid(ticks(0, most, 5), ())
    for k, (name, spread) in enumerate(spreads.items()):
        y, colour = plot.top + k * ROW + 4, COLOURS[k % len(COLOURS)]
        yield svg.text(left + name_wide - 8, y + 12, name if len(name) <= 20 else f"{name[:19]}…", anchor="end")
        title = f"{name}: mean {spread['mean']:.4g}, from {spread['min']:.4g} to {spread['max']:.4g}"
        yield svg.box(plot.left, y, plot.x(spread["mean"]) - plot.left, ROW - 8, colour, title)
        middle = y + (ROW - 8) / 2
        yield svg.line(plot.x(spread["min"]), middle, plot.x(spread["max"]), middle, "range")
        yield svg.text(plot.left + plot.width + 8, y + 12, short(float(f"{spread['mean']:.3g}")))
