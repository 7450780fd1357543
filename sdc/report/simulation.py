"""Pages on the rules of a server: rule sets on random streams, and a history under other rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sdc.model.errors import many
from sdc.page_templates import page_templates
from sdc.report import svg
from sdc.report.blocks import Block, Cell, FigureBlock, ListBlock, TextBlock, number
from sdc.report.plot import PAGE, Plot, ticks

COLOURS = ("#1f5f96", "#c2570c", "#6b4c9a", "#2f7d4f", "#a3182a", "#a86d00", "#70a6d0", "#51606f")
DASHES = (None, "8 4", "2 4", "10 3 2 3")
MOST_DRAWN = 24  # rule sets
LEFT, TOP, HEIGHT, KEYS, KEY = 70.0, 44.0, 330.0, 4, 260.0
Facts = Mapping[str, Any]

_TEMPLATES = page_templates("sdc.report")
_TEMPLATES.filters["number"] = number


def render(facts: Facts) -> str:
    """The page of a simulation: no script, no network, the same bytes for the same facts."""
    every = {one["name"]: one for one in facts["rule_sets"]}
    sets = dict(list(every.items())[:MOST_DRAWN])
    drawn = curve({name: one["curve"] for name, one in sets.items()}, facts["ordered_release"])
    columns = (
        "Rule set | #Released | #Least | #10 % | #Median | #90 % | #Most | #Of ordered, % | #Answered, % | #Gini, "
        "caused | #Gini, answered | #Last request that released"
    )
    rules = _rules(every)
    refused = {
        name: ", ".join(f"{rule} {n:.1f}" for rule, n in one["not_answered_by"].items()) for name, one in every.items()
    }
    return _page(
        f"Simulation of server rules: {facts['name']}",
        TextBlock(
            f"{facts['records']:,} records on {len(facts['variables'])} variables. At risk: counts from 1 to "
            f"{facts['small_count']}. Required min width: {facts['min_width']:,}. {many(facts['streams'], 'stream')} "
            f"({facts['queries']}) of {facts['requests']:,} requests by {facts['users']:,} users, seed "
            f"{facts['seed']}, the same for each rule set. {facts['first_release']:,} sub-tables are public before the "
            "first request."
        ),
        TextBlock(
            "The criterion decides last whether a request may be answered, by all answers so far to anybody; the rules "
            f"refuse more. The ordered search releases {facts['ordered_release']:,} sub-tables at once under the same "
            "criterion: the difference is the cost of answering first come, first served."
        ),
        FigureBlock(
            drawn, "Sub-tables released over requests: mean of the streams; the band holds eight in ten of them."
        ),
        ListBlock("figures", "Means over the streams", columns, list(map(_means, every.values())), is_open=True),
        TextBlock("Gini 0: every user caused as many releases as every other. Gini near 1: one user caused all."),
        ListBlock(
            "rules",
            "Rules of each set, and unanswered requests of a stream by rule (myopic is the criterion itself)",
            "Rule set | Rules | Not answered by",
            [(name, rules[name], refused[name] or "all were answered") for name in every],
            is_open=True,
        ),
    )


def _means(one: Facts) -> list[Cell]:
    quantiles = (f"{one['released'][key]:g}" for key in ("min", "q10", "median", "q90", "max"))
    of_ordered = f"{100 * one['of_batch']['mean']:.1f}" if one["of_batch"] else ""
    ginis = (f"{one[key]['mean']:.2f}" for key in ("gini_caused", "gini_answered"))
    answered, last = f"{100 * one['answered_share']['mean']:.1f}", f"{one['saturation']['mean']:.0f}"
    return [one["name"], f"{one['released']['mean']:.2f}", *quantiles, of_ordered, answered, *ginis, last]


def render_replay(facts: Facts) -> str:
    """The page of a replay: what was released and could no longer be, as it was and as it would have been."""
    sets = {"as it was": facts["as_it_was"], **facts["as_it_would_have_been"]}
    drawn = dict(list(sets.items())[:MOST_DRAWN])
    rules = {"as it was": "those of the server", **_rules(facts["as_it_would_have_been"])}
    rows = [
        (
            name,
            one["released"][-1],
            one["unreleasable"][-1],
            ", ".join(f"{outcome} {n:,}" for outcome, n in one["outcomes"].items()),
            rules[name],
        )
        for name, one in sets.items()
    ]
    columns = "Rule set | #Released | #Unreleasable | Requests | Rules"
    return _page(
        "The same requests under other rules",
        TextBlock(
            f"{facts['requests']:,} requests by {facts['users']:,} users. Required min width: {facts['min_width']:,}, "
            f"counts from 1 to {facts['small_count']} are at risk. {facts['as_it_was']['released'][0]:,} sub-tables "
            "were public before the first request. Users might have asked otherwise, had they been answered otherwise."
        ),
        FigureBlock(trajectories(drawn, "released", "R(t)"), "Released sub-tables after each request."),
        FigureBlock(
            trajectories(drawn, "unreleasable", "U(t)"), "Sub-tables known to be unreleasable after each request."
        ),
        ListBlock("figures", "State at the end; requests by outcome", columns, rows, is_open=True),
    )


def _page(title: str, *blocks: Block) -> str:
    return _TEMPLATES.get_template("simulation.html.j2").render(title=title, blocks=blocks)


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
