"""Annealing chains: where each was after every round, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from sdc.report import svg
from sdc.report.plot import PAGE, Plot, around, short, ticks
from sdc.search.decomposable import TraceRow

MOST_POINTS = 200  # of these and the others: the page stays of bounded size, however long a search was
MOST_PANELS = 16
MOST_ROUNDS = 200
MOST_CHAINS = 200
COLUMNS, PANEL, PITCH, LEFT, SPACE = 4, 110.0, 168.0, 58.0, 34.0


@dataclass(frozen=True)
class Trace:
    """One chain, its rows by round; utilities as they were when each round ended."""

    number: int
    rows: tuple[TraceRow, ...]

    @property
    def last(self) -> TraceRow:
        return self.rows[-1]

    @property
    def found(self) -> TraceRow:
        """The first row with the best utility."""
        return next(row for row in self.rows if row.best_value == self.last.best_value)

    @property
    def rate(self) -> float:
        """Percentage of all proposals that were accepted."""
        return 100 * self.last.accepted / max(1, self.last.step)

    @property
    def rates(self) -> list[float]:
        """Percentage accepted of the proposals since the row before."""
        counts = [(0, 0), *((row.step, row.accepted) for row in self.rows)]
        return [100 * (b[1] - a[1]) / max(1, b[0] - a[0]) for a, b in pairwise(counts)]

    @property
    def thinned(self) -> Trace:
        """At most MOST_POINTS rows, evenly spread, the last one kept."""
        apart = -(-len(self.rows) // MOST_POINTS)
        # counted from the end, because the last row is the result
        return replace(self, rows=tuple(reversed(self.rows[::-1][::apart])))


@dataclass(frozen=True)
class RoundRow:
    """All chains at the end of a round; `leading` of them had the best utility found so far by any."""

    number: int
    step: int
    temperature: str
    lowest: float
    highest: float
    best: float
    leading: int
    rate: float


def by_chain(trace: Sequence[TraceRow]) -> list[Trace]:
    """The chains by number, from 1 on."""
    rows: dict[int, list[TraceRow]] = {}
    for row in trace:
        rows.setdefault(row.chain, []).append(row)
    return [Trace(chain + 1, tuple(rows[chain])) for chain in sorted(rows)]


def agreement(traces: Sequence[Trace]) -> str:
    """Whether all chains ended with the same best utility, in one sentence."""
    if not traces:
        return ""
    # equal values are equal floats: a graph's value is rounded to 12 digits for that
    best = Counter(trace.last.best_value for trace in traces)
    made = traces[0].last.round + 1
    if len(traces) == 1:
        return f"One chain ran alone, so no other confirms its best utility of {amount(max(best))}."
    if len(best) == 1:
        since = max(trace.found.round for trace in traces) + 1
        return (
            f"All {len(traces)} chains agree: each found the best utility {amount(max(best))}, the last of them in "
            f"round {since:,} of {made:,}."
        )
    reached = ", ".join(f"{amount(value)} by {count}" for value, count in sorted(best.items(), reverse=True)[:10])
    return (
        f"The chains do not agree: the best utility is {reached}{' and others' if len(best) > 10 else ''} of "
        f"{len(traces)} chains after {made:,} round{'s' * (made != 1)}; more steps may find a better release."
    )


def rounds(traces: Sequence[Trace]) -> list[RoundRow]:
    """The rounds, thinned to MOST_ROUNDS of them."""
    thinned = [trace.thinned for trace in traces]
    rates = zip(*(trace.rates for trace in thinned), strict=True)
    together = zip(*(trace.rows for trace in thinned), strict=True)
    return [_round(rows, rate) for rows, rate in zip(together, rates, strict=True)][-MOST_ROUNDS:]


def _round(rows: Sequence[TraceRow], rates: Sequence[float]) -> RoundRow:
    # they differ where chains keep temperatures of their own
    coldest, hottest = (f"{pick(row.temperature for row in rows):.3g}" for pick in (min, max))
    best = max(row.best_value for row in rows)
    return RoundRow(
        rows[0].round + 1,
        rows[0].step,
        coldest if coldest == hottest else f"{coldest} to {hottest}",
        min(row.value for row in rows),
        max(row.value for row in rows),
        best,
        sum(row.best_value == best for row in rows),
        sum(rates) / len(rates),
    )


def utility_by_step(traces: Sequence[Trace]) -> Markup:
    """A panel a chain, all with the same axes: the utility at the end of each round, and the best so far."""
    shown = [trace.thinned for trace in traces[:MOST_PANELS]]
    values = [value for trace in shown for row in trace.rows for value in (row.value, row.best_value)]
    # without weights the utility is a number of sub-tables, and a tick between two of them means nothing
    whole = all(float(value).is_integer() for value in values)
    columns = min(COLUMNS, len(shown))
    width = (PAGE - LEFT) / columns - SPACE
    parts: list[Markup] = []
    for k, trace in enumerate(shown):
        row, column = divmod(k, columns)
        plot = Plot(
            LEFT + column * (width + SPACE), 22 + row * PITCH, width, PANEL, (0, trace.last.step), around(values)
        )
        parts += _panel(trace, plot, column == 0, 1.0 if whole else 0.0)
    return svg.figure(
        "traces",
        PAGE,
        PITCH * (-(-len(shown) // columns)) - 10,
        "Utility by step",
        "A panel a chain, with the same axes: steps to the right, utility upwards. The thin line is the utility at the "
        "end of each round, the thick line the best so far; the dot marks where the best was first seen.",
        parts,
    )


def _panel(trace: Trace, plot: Plot, named: bool, least: float) -> Iterator[Markup]:
    yield svg.text(plot.left, plot.top - 8, f"chain {trace.number}: best {amount(trace.last.best_value)}", "t strong")
    yield from plot.grid(ticks(*plot.x_range, 3 if plot.width < 300 else 8, 1), ticks(*plot.y_range, 5, least), named)
    yield plot.line([(row.step, row.value) for row in trace.rows], "faint")
    yield plot.line([(row.step, row.best_value) for row in trace.rows], "trend")
    yield svg.element("circle", cx=plot.x(trace.found.step), cy=plot.y(trace.found.best_value), r=3.6, class_="dot")


def cooling(traces: Sequence[Trace]) -> Markup:
    """Temperature by step and, beside it, the acceptance rate by round: a thin line a chain, thick their mean."""
    shown = [trace.thinned for trace in traces]
    steps = (0, max(trace.last.step for trace in shown))
    wide = PAGE / 2 - LEFT - 24
    hottest = max(row.temperature for trace in shown for row in trace.rows)
    highest = max(1.0, *(rate for trace in shown for rate in trace.rates))
    left = Plot(LEFT, 22, wide, PANEL, steps, (0, hottest))
    right = Plot(PAGE / 2 + LEFT, 22, wide, PANEL, steps, (0, highest))
    parts = [svg.text(left.left, 14, "temperature", "t strong")]
    parts += left.grid(ticks(*steps, 6, 1), ticks(0, hottest, 5))
    # chains mostly share one schedule: each different line once; with tempering every chain has its own
    different = dict.fromkeys(tuple((row.step, row.temperature) for row in trace.rows) for trace in shown[:MOST_PANELS])
    parts += [left.line(points, "trend") for points in different]
    parts.append(svg.text(right.left, 14, "accepted, % of the proposals of a round", "t strong"))
    parts += right.grid(ticks(*steps, 6, 1), ticks(0, highest, 5))
    parts += [right.line(_against_steps(trace, trace.rates), "faint") for trace in shown[:MOST_PANELS]]
    means = [sum(rates) / len(rates) for rates in zip(*(trace.rates for trace in shown), strict=True)]
    parts.append(right.line(_against_steps(shown[0], means), "trend"))
    return svg.figure(
        "cooling",
        PAGE,
        PITCH - 10,
        "Temperature and acceptance rate",
        "Left the temperature by step, a line for each that differs; right the share of the proposals of each round "
        "that were accepted, a thin line a chain and thick their mean.",
        parts,
    )


def _against_steps(trace: Trace, values: Sequence[float]) -> list[tuple[float, float]]:
    return [(row.step, value) for row, value in zip(trace.rows, values, strict=True)]


def amount(value: float) -> str:
    """A utility: whole numbers in full, others to six digits."""
    if float(value).is_integer() and abs(value) < 10**15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if abs(value) < 10**6 else short(value)
