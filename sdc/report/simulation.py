"""Pages on the rules of a server: rule sets on random streams, and a history under other rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sdc.model.errors import many
from sdc.report import svg
from sdc.report.blocks import TEMPLATES, Block, Cell, FigureBlock, ListBlock, TextBlock, amount, shorten
from sdc.report.svg import Plot, ticks

COLOURS = ("#1f5f96", "#c2570c", "#6b4c9a", "#2f7d4f", "#a3182a", "#a86d00", "#70a6d0", "#51606f")
MOST_DRAWN = 24  # rule sets
Facts = Mapping[str, Any]


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
            f"({facts['queries']}) of {facts['requests']:,} requests by {many(facts['users'], 'user')}, seed "
            f"{facts['seed']}, the same for each rule set. {facts['first_release']:,} sub-tables are public before the "
            "first request."
        ),
        TextBlock(
            "The criterion decides last, by all earlier answers to all users; the rules refuse more. The ordered "
            f"search releases {facts['ordered_release']:,} sub-tables at once under the same criterion: the "
            "difference is the cost of answering first come, first served."
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
    rows = list[tuple[Cell, ...]]()
    for name, one in sets.items():
        outcomes = ", ".join(f"{outcome} {n:,}" for outcome, n in one["outcomes"].items())
        rows.append((name, one["released"][-1], one["unreleasable"][-1], outcomes, rules[name]))
    columns = "Rule set | #Released | #Unreleasable | Requests | Rules"
    return _page(
        "The same requests under other rules",
        TextBlock(
            f"{facts['requests']:,} requests by {many(facts['users'], 'user')}. Required min width: "
            f"{facts['min_width']:,}, "
            f"counts from 1 to {facts['small_count']} are at risk. {facts['as_it_was']['released'][0]:,} sub-tables "
            "were public before the first request. Other answers might have led to other requests."
        ),
        FigureBlock(trajectories(drawn, "released", "R(t)"), "Released sub-tables after each request."),
        FigureBlock(
            trajectories(drawn, "unreleasable", "U(t)"), "Sub-tables known to be unreleasable after each request."
        ),
        ListBlock("figures", "State at the end; requests by outcome", columns, rows, is_open=True),
    )


def _page(title: str, *blocks: Block) -> str:
    return TEMPLATES.get_template("simulation.html.j2").render(title=title, blocks=blocks)


def _rules(sets: Facts) -> dict[str, str]:
    """Each rule set in words."""
    return {name: "; ".join(map(_words, one["rules"])) or "the criterion alone" for name, one in sets.items()}


def _words(rule: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{key} {value:g}" for key, value in rule.items() if key != "rule" and value is not None)
    return f"{rule['rule']} ({settings})" if settings else str(rule["rule"])


# Released over requests


def curve(sets: Mapping[str, Facts], ordered: int) -> Markup:
    """Mean of the released sub-tables after each request, with the band that holds eight streams in ten."""
    values = [v for one in sets.values() for key in ("q10", "q90") for v in one[key][1:]]
    low, high = min([*values, ordered]), max([*values, ordered])
    y_range = (0 if low < high / 2 else low - 0.06 * (high - low) - 0.5, high * 1.04 + 0.1)
    words = (
        "a line for the mean of each rule set, and a band from the tenth to the ninetieth per cent of the streams. The "
        "level line is the release that the ordered search makes at once."
    )

    def level(plot: Plot) -> Iterator[Markup]:
        y = plot.y(ordered)
        yield svg.line(plot.left, y, plot.left + plot.width, y, "required")
        yield svg.text(plot.left + 6, y - 6, f"all at once, ordered: {ordered:,}", "t strong halo")
        for k, one in enumerate(sets.values()):
            yield _band(plot, one["q10"], one["q90"], COLOURS[k % len(COLOURS)])

    means = {name: one["mean"] for name, one in sets.items()}
    return _lines("released", "released", means, y_range, words, level)


def trajectories(sets: Mapping[str, Facts], key: str, words: str) -> Markup:
    """The sizes of R(t) or U(t) over the requests of a history."""
    sizes = {name: one[key] for name, one in sets.items()}
    text = "a line as it was, and one for each rule set as it would have been."
    return _lines(key, f"in {words}", sizes, (0, max(1, *map(max, sizes.values())) * 1.04), text)


def _lines(
    key: str,
    what: str,
    values: Mapping[str, Sequence[float]],
    y_range: tuple[float, float],
    words: str,
    under: Callable[[Plot], Iterable[Markup]] = lambda plot: (),
) -> Markup:
    """A line for each rule set, over the requests in ratios: most is decided by the first of them."""
    most = max(2, max(map(len, values.values())) - 1)
    plot = svg.chart_plot((1, most), y_range, len(values), ratios=True)
    parts = [*under(plot)]
    for k, (name, own) in enumerate(values.items()):
        places = [(plot.x(n), plot.y(own[n])) for n in range(1, len(own))]
        parts.append(svg.stroke(places, _style(k), f"{name}: {amount(own[-1])} sub-tables in the end"))
        x, y = svg.place_of_key(k)
        parts.append(svg.stroke([(x, y), (x + 40, y)], _style(k)))
        parts.append(svg.text(x + 48, y + 4, shorten(name, 28)))
    powers = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    marks = [p for p in powers if p <= most], ticks(*plot.y_range, 8, 1)
    description = f"To the right the number of requests, in ratios, upwards the sub-tables {what}: {words}"
    titles = f"Sub-tables {what} over requests", description
    return svg.chart(f"{key}-over-requests", plot, titles, ("requests", f"sub-tables {what}"), marks, parts)


def _band(plot: Plot, low: Sequence[float], high: Sequence[float], colour: str) -> Markup:
    forth = [(plot.x(k), plot.y(high[k])) for k in range(1, len(high))]
    back = [(plot.x(k), plot.y(low[k])) for k in range(len(low) - 1, 0, -1)]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in forth + back)
    return svg.element("polygon", points=joined, fill=colour, fill_opacity="0.08")


def _style(k: int) -> dict[str, Any]:
    """The stroke of a rule set: colours first, then dashes, so that sets differ without either."""
    dash = svg.DASHES[(k + k // len(COLOURS)) % len(svg.DASHES)]
    return {"stroke": COLOURS[k % len(COLOURS)], "stroke_width": 2.4, "stroke_dasharray": dash}
