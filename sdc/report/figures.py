"""Figures of the audit report, as inline SVG of bounded size: critical widths on the lattice, and exposed cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, takewhile

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.report import svg
from sdc.report.blocks import named_cell
from sdc.report.svg import PAGE, short, ticks
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.partitions import BitSets


@dataclass(frozen=True)
class Level:
    """The listed sub-tables of one dimension, narrowest critical width first, ties by number."""

    dimension: int
    possible: int
    sub_tables: BitSets
    widths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def median(self) -> int:
        """The lower median."""
        return int(self.widths[(len(self) - 1) // 2])

    @property
    def least(self) -> BitSets:
        """All that have the smallest critical width: the most dangerous of the dimension."""
        return self.sub_tables[: np.searchsorted(self.widths, self.widths[0], "right")]

    @property
    def is_complete(self) -> bool:
        return len(self) == self.possible

    def rank(self, subtable: SubTable) -> int:
        return int(np.flatnonzero(self.sub_tables == np.uint64(subtable))[0])


def levels(widths: CriticalWidths, schema: Schema) -> tuple[Level, ...]:
    """The levels with a listed sub-table, from the full table down."""
    dimensions = st.many_ways(widths.sub_tables, schema)
    possible = Release.of([st.full(len(schema))]).by_dimension(schema)
    order = np.lexsort((widths.sub_tables, widths.widths))
    found = []
    for d in reversed(range(len(possible))):
        rows = order[dimensions[order] == d]
        if len(rows):
            found.append(Level(d, possible[d], widths.sub_tables[rows], widths.widths[rows]))
    return tuple(found)


def most_dangerous(widths: CriticalWidths, schema: Schema, limit: int) -> list[tuple[SubTable, int]]:
    """Proper sub-tables by increasing critical width, then decreasing dimension, then number."""
    kept = widths.sub_tables != np.uint64(st.full(len(schema)))
    sub_tables, narrow = widths.sub_tables[kept], widths.widths[kept]
    order = np.lexsort((sub_tables, -st.many_ways(sub_tables, schema), narrow))[:limit]
    return list(zip(sub_tables[order].tolist(), narrow[order].tolist(), strict=True))


def released(sub_tables: npt.NDArray[np.uint64], release: Release) -> npt.NDArray[np.bool_]:
    """(n,) which of the sub-tables the release has."""
    found = np.zeros(len(sub_tables), bool)
    # one element at a time: 2^23 sub-tables beside hundreds of them are gigabytes
    for element in release.frontier:
        found |= sub_tables & ~np.uint64(element) == 0
    return found


@dataclass(frozen=True)
class ByDimension:
    """The most dangerous sub-tables of each dimension, and chains of them ([KDSF] 5.2, figure 6).

    levels    of dimension 2 and more, below the full table's, while all widths are listed; the largest dimension first
    chains    one sub-table of least width a level, each contains the next one; a new chain starts where none goes on
    is_whole  whether the levels reach up to just below the full table
    """

    levels: tuple[Level, ...]
    chains: tuple[tuple[SubTable, ...], ...]
    is_whole: bool

    @staticmethod
    def of(levels: Sequence[Level], schema: Schema) -> ByDimension:
        """All ties are kept: there is one chain exactly where some choice of one sub-table a level is a chain.

        One-way sub-tables and the full table are left out: a chain has them whatever the data. Time is O(K n log n)
        for n ties and K variables, memory O(n); levels of one least width from the top down cost nothing.
        """
        known = [level for level in levels if 2 <= level.dimension < len(schema.axes)]
        # a child is no narrower than its parent: a level is listed in full where the one above is
        known = [level for level in known if level.is_complete]
        runs: list[list[BitSets]] = []
        for k, level in enumerate(known):
            reached = _reached(runs[-1][-1], known[k - 1], level, schema) if runs else level.least[:0]
            if len(reached):
                runs[-1].append(reached)
            else:
                runs.append([level.least])
        return ByDimension(tuple(known), tuple(map(_one_of_each, runs)), len(known) == max(len(schema.axes) - 2, 0))


def _reached(above: BitSets, level_above: Level, level: Level, schema: Schema) -> BitSets:
    """Those of least width of the level that are within one of those above."""
    if len(above) == len(level_above.least) and level.widths[0] == level_above.widths[0]:
        # a parent is no wider than its child: with the same least width, all parents of these are above
        return level.least
    found = np.zeros(len(level.least), bool)
    for axis in schema.axes:
        own = np.uint64(schema.levels.of_axis[axis])
        # an axis fewer and no other one coarser: a coarser one is no narrower, so this one is of least width too
        found |= np.isin(level.least, above[above & own != 0] & ~own)
    return level.least[found]


def _one_of_each(run: Sequence[BitSets]) -> tuple[SubTable, ...]:
    """From the last level up, each time the first that contains the one below."""
    chain = [int(run[-1][0])]
    for sets in reversed(run[:-1]):
        below = np.uint64(chain[-1])
        chain.append(int(sets[np.argmax(sets & below == below)]))
    return tuple(reversed(chain))


def letters(subtable: SubTable, schema: Schema) -> str:
    """The label, as `ABC` where all names are of one letter."""
    label = st.label(subtable, schema)
    return label.replace("*", "") if all(len(name) == 1 for name in schema.names) else label


BELOW = ("#67000d", "#b2182b")
ABOVE = ("#2b6ca3", "#4a89bd", "#70a6d0", "#97c0df", "#b9d5ea", "#d4e5f3", "#e9f2fa")
DARK_INK, LIGHT_INK = "#16202b", "#ffffff"


@dataclass(frozen=True)
class Scale:
    """Classes [edges[k], edges[k + 1]) of widths, the last without end; one edge is min_width."""

    min_width: int
    edges: tuple[int, ...]

    @staticmethod
    def of(min_width: int, largest: int) -> Scale:
        """At most two classes below min_width and seven from it up to the largest width."""
        # the finest series whose classes are no more than the colours
        series = (_steps(min_width, largest, digits) for digits in ((1, 2, 5), (1, 3), (1,)))
        fitting = next((steps for steps in series if len(steps) <= len(ABOVE)), None)
        return Scale._with(min_width, fitting or _steps(min_width, largest, (1,)))

    @staticmethod
    def near(min_width: int, largest: int) -> Scale:
        """The same with fine classes from min_width, the last taking all that are much wider."""
        return Scale._with(min_width, _steps(min_width, largest, (1, 2, 5)))

    @staticmethod
    def _with(min_width: int, steps: Sequence[int]) -> Scale:
        # two classes below the required width at most: of what may not go out, how far off it is
        below = sorted({0, -(-min_width // 2)} - {min_width}) if min_width else []
        return Scale(min_width, (*below, *steps[: len(ABOVE)]))

    @property
    def colours(self) -> tuple[str, ...]:
        below = sum(edge < self.min_width for edge in self.edges)
        return (*BELOW[:below], *_spread(ABOVE, len(self.edges) - below))

    @property
    def labels(self) -> tuple[str, ...]:
        """`3 to 5`, `6`, `60 or more`."""
        ends = [edge - 1 for edge in self.edges[1:]]
        closed = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in zip(self.edges, ends, strict=False)]
        return (*closed, f"{self.edges[-1]:,} or more")

    def classes(self, widths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The class of each width."""
        return np.searchsorted(self.edges, widths, side="right").astype(np.int64) - 1

    def colour(self, width: int) -> str:
        return self.colours[int(self.classes(np.array([width]))[0])]


def ink_on(colour: str) -> str:
    """The ink with the better contrast on a colour (relative luminance of WCAG 2)."""
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return DARK_INK if luminance > 0.19 else LIGHT_INK


def _steps(start: int, largest: int, digits: Sequence[int]) -> list[int]:
    """start x digits x (1, 10, 100, ...), from start on while within the largest."""
    series = (max(start, 1) * digit * 10**power for power in count() for digit in digits)
    return [start, *(step for step in takewhile(lambda s: s <= largest, series) if step > start)]


def _spread(colours: Sequence[str], wanted: int) -> list[str]:
    """That many of the colours, from the first to the last."""
    return [colours[round(k * (len(colours) - 1) / max(wanted - 1, 1))] for k in range(wanted)]


MOST_SQUARES = 400
LEFT, WIDE, PITCH = 112.0, 544.0, 26.0  # of bars


def legend(scale: Scale) -> Markup:
    """The classes of widths in colour, with the required width between two of them."""
    step = 92.0
    left = (PAGE - step * len(scale.edges)) / 2
    parts = [svg.text(left - 12, 35, "critical width", class_="t strong", anchor="end")]
    for k, (colour, edge) in enumerate(zip(scale.colours, scale.edges, strict=True)):
        parts.append(svg.box(left + k * step, 22, step, 16, colour, scale.labels[k], class_="edge"))
        style = "t strong" if edge == scale.min_width else "t"
        parts.append(svg.text(left + k * step, 53, short(edge), style, anchor="middle"))
    parts.append(svg.text(left + len(scale.edges) * step, 53, "and more", anchor="middle"))
    at = left + step * scale.edges.index(scale.min_width)
    parts.append(svg.line(at, 12, at, 42, "required"))
    parts.append(svg.text(at + 6, 16, f"{scale.min_width:,} or more: reaches the required width →", class_="t strong"))
    if at > left:
        parts.append(svg.text(at - 6, 16, "← below it", class_="t strong", anchor="end"))
    return svg.figure(
        "legend",
        PAGE,
        62,
        "Colours of the widths",
        f"Dark is narrow and dangerous, light is wide. Red classes are below the required width {scale.min_width}.",
        parts,
    )


@dataclass(frozen=True)
class Lattice:
    """Critical widths of sub-tables by dimension; what is not in the release, if there is one, is marked."""

    levels: Sequence[Level]
    dangerous: ByDimension
    release: Release | None
    schema: Schema
    scale: Scale

    @property
    def drawn(self) -> Markup:
        """Squares while every one can be seen, bars beyond."""
        return self.squares() if sum(map(len, self.levels)) <= MOST_SQUARES else self._bars()

    def squares(self) -> Markup:
        """One square a sub-table, one row a dimension; crossed where there is a release that does not have it."""
        # the widest row decides: all squares have one size, so that rows can be compared
        pitch = min(52.0, (PAGE - 130) / max(map(len, self.levels)))
        size = pitch - (10 if pitch >= 30 else 2)
        row = size + (46 if pitch >= 30 else 24)
        middle = 60 + (PAGE - 60) / 2

        def place(k: int, rank: int) -> tuple[float, float]:
            return middle + (rank - len(self.levels[k]) / 2) * pitch, 8 + k * row

        framed = {subtable for level in self.dangerous.levels for subtable in level.least.tolist()}
        parts = [self._chain_of_squares(chain, place, size) for chain in self.dangerous.chains]
        for k, level in enumerate(self.levels):
            parts.append(svg.text(0, 8 + k * row + size / 2 + 4, _dimension(level.dimension), class_="t strong"))
            pairs = zip(level.sub_tables.tolist(), level.widths.tolist(), strict=True)
            for rank, (subtable, width) in enumerate(pairs):
                parts += self._square(subtable, width, place(k, rank), size, subtable in framed)
        crosses = "" if self.release is None else "a cross marks a sub-table that is not released, "
        return svg.figure(
            "lattice",
            PAGE,
            len(self.levels) * row + 4,
            "Critical widths on the lattice of sub-tables",
            "One square a sub-table, one row a dimension, narrowest critical width first. The number is the critical "
            f"width, {crosses}a thick frame marks the most dangerous sub-tables of a dimension, and a line joins those "
            "that contain the next one.",
            parts,
        )

    def _chain_of_squares(
        self, chain: Sequence[SubTable], place: Callable[[int, int], tuple[float, float]], size: float
    ) -> Markup:
        rows, points = {level.dimension: k for k, level in enumerate(self.levels)}, []
        for subtable in chain:
            k = rows[st.ways(subtable, self.schema)]
            x, y = place(k, self.levels[k].rank(subtable))
            points += [(x + size / 2, y), (x + size / 2, y + size + (19 if self._below(subtable, size) else 0))]
        # down to the top of the last square, and not through it
        return svg.path(points[:-1], "chain")

    def _square(
        self, subtable: SubTable, width: int, corner: tuple[float, float], size: float, framed: bool
    ) -> Iterator[Markup]:
        x, y = corner
        colour = self.scale.colour(width)
        ink, released = ink_on(colour), None if self.release is None else subtable in self.release
        state = "" if released is None else ", released" if released else ", not released"
        title = f"{st.label(subtable, self.schema)}: critical width {width:,}{state}"
        yield svg.box(x, y, size, size, colour, title, class_="framed" if framed else "edge")
        if released is False:
            # in the corner, beside the number; over the whole square where that is too small to have one
            a, b = (x + size - 11, y + 3) if size >= 20 else (x + 1, y + 1)
            reach = 8.0 if size >= 20 else size - 2
            cross = f"M{a:.1f} {b:.1f}l{reach:.1f} {reach:.1f}m0 {-reach:.1f}l{-reach:.1f} {reach:.1f}"
            yield svg.element("path", d=cross, stroke=ink, class_="cross")
        if size < 20:
            return
        digits = short(width)
        class_ = f"t number {'small' if len(digits) > 4 else ''} {'light' if ink == LIGHT_INK else ''}"
        yield svg.text(x + size / 2, y + size / 2 + 6, digits, class_, anchor="middle")
        class_ = "t halo strong" if framed else "t halo"
        yield svg.text(x + size / 2, y + size + 13, self._below(subtable, size), class_, anchor="middle")

    def _below(self, subtable: SubTable, size: float) -> str:
        """The label under a square: `ABC` for names of one letter, nothing where it would not fit."""
        name = letters(subtable, self.schema)
        return name if size >= 20 and len(name) * 6.4 <= size + 10 else ""

    def _bars(self) -> Markup:
        """One bar a dimension: its listed sub-tables sorted by critical width, as shares of the colour classes."""
        release = self.release
        names = ("sub-tables", "" if release is None else "released", "narrowest", "median", "widest")
        columns = [(LEFT + WIDE + at, name) for at, name in zip((118, 206, 288, 364, 440), names, strict=True)]
        parts = [svg.text(LEFT, 12, "narrowest critical width first →")]
        parts += [svg.text(x, 12, name, class_="t strong", anchor="end") for x, name in columns]
        released = None if release is None else release.by_dimension(self.schema)
        for k, level in enumerate(self.levels):
            y, d, listed = 22 + k * PITCH, level.dimension, f"{len(level):,}"
            parts.append(svg.text(0, y + 14, _dimension(d), class_="t strong"))
            parts += self._shares(level, y)
            figures = [listed if level.is_complete else f"{listed} of {short(level.possible)}"]
            figures += ["" if released is None else short(sum(released[d : d + 1]))]
            figures += [short(int(w)) for w in (level.widths[0], level.median, level.widths[-1])]
            parts += [svg.text(x, y + 14, f, anchor="end") for (x, _), f in zip(columns, figures, strict=True)]
        # last, so that the frames lie over the bars
        parts += self._frames()
        return svg.figure(
            "lattice",
            PAGE,
            26 + len(self.levels) * PITCH,
            "Critical widths of the sub-tables by dimension",
            "One bar a dimension; each colour takes the share of the sub-tables whose critical width is in its class. "
            "A thick frame is around the most dangerous ones of a dimension, and a line joins frames where one "
            "contains the next.",
            parts,
        )

    def _shares(self, level: Level, y: float) -> Iterator[Markup]:
        starts, scale = np.searchsorted(level.widths, self.scale.edges), self.scale
        ends = [*starts[1:].tolist(), len(level)]
        for start, end, colour, label in zip(starts.tolist(), ends, scale.colours, scale.labels, strict=True):
            if end > start:
                title = f"{_dimension(level.dimension)}: {end - start:,} with critical width {label}"
                x, w = LEFT + WIDE * start / len(level), WIDE * (end - start) / len(level)
                yield svg.box(x, y, max(w, 1.0), 20, colour, title, class_="edge")

    def _frames(self) -> Iterator[Markup]:
        """Around the most dangerous sub-tables of each dimension, with a line along each chain."""
        tops = {level.dimension: 22 + k * PITCH for k, level in enumerate(self.levels)}
        rest = iter(self.dangerous.levels)
        for chain in self.dangerous.chains:
            frames = []
            for level in islice(rest, len(chain)):
                words = f"{_dimension(level.dimension)}: {len(level.least):,} with critical width {level.widths[0]:,}"
                frames.append((words, WIDE * len(level.least) / len(level), tops[level.dimension]))
                yield svg.box(LEFT, frames[-1][2], max(frames[-1][1], 2.0), 20, "none", class_="framed")
            yield svg.path([(LEFT + share / 2, y + 10) for _, share, y in frames], "chain")
            for words, share, y in frames:
                title = svg.element("title", words)
                yield svg.element("circle", title, cx=LEFT + share / 2, cy=y + 10, r=4.5, class_="dot")


def exposed_cells(bounds: CellBounds, criteria: Criteria, schema: Schema) -> Markup:
    """Each cell a row: outer bar, inner bar, true count, and where the inner bar has to reach."""
    left, right, pitch = 54.0, 850.0, 17.0
    min_width = criteria.width.min_width
    # bars are cut there, and an arrow says so
    limit = _axis_end(bounds, min_width)
    state = criteria.width.verdicts(bounds)

    def x(value: float) -> float:
        return left + (right - left) * min(value, limit) / limit

    bottom = 26 + len(bounds) * pitch
    parts = [svg.text(900, 14, "outer", class_="t strong"), svg.text(1000, 14, "inner", class_="t strong")]
    parts.append(svg.text(left - 12, 14, "cell", class_="t strong", anchor="end"))
    for tick in ticks(0, limit, 12, least=1):
        parts.append(svg.line(x(tick), 22, x(tick), bottom, "grid"))
        parts.append(svg.text(x(tick), 14, f"{tick:,.0f}", anchor="middle"))
    for k in range(len(bounds)):
        y = 26 + k * pitch
        name = named_cell(bounds.cells[k].tolist(), schema)
        parts += _cell_row(k, y, bounds, x, limit, ("unsafe", "undecided", "safe")[state[k]], name, min_width)
    return svg.figure(
        "exposed",
        PAGE,
        bottom + 6,
        "Bounds of the most exposed at-risk cells",
        "The pale bar is the outer interval, the dark bar the inner interval, the dot the true count; the upright mark "
        f"is the lower end of the inner interval plus the required width {min_width}.",
        parts,
    )


def _cell_row(
    k: int, y: float, bounds: CellBounds, x: Callable[[float], float], limit: int, state: str, name: str, min_width: int
) -> Iterator[Markup]:
    (low, high), (inner_low, inner_high) = bounds.outer[k].tolist(), bounds.inner[k].tolist()
    yield svg.text(42, y + 11, k + 1, anchor="end")
    title = f"{name}: count {bounds.counts[k]}, outer [{low}, {high}], inner [{inner_low}, {inner_high}], {state}"
    yield svg.box(x(low), y + 1, max(x(high) - x(low), 1.5), 12, "", title, class_=f"outer {state}")
    inner = max(x(inner_high) - x(inner_low), 1.5)
    yield svg.box(x(inner_low), y + 4, inner, 6, "", title, class_=f"inner {state}")
    if high > limit:
        yield svg.text(x(limit) + 4, y + 11, "▸")
    if inner_low + min_width <= limit:
        # from the lower end that is proven, the width has to be reached by an upper end that is
        goal = x(inner_low + min_width)
        yield svg.line(goal, y - 1, goal, y + 15, "required")
    yield svg.element("circle", cx=x(int(bounds.counts[k])), cy=y + 7, r=3.2, class_="dot")
    yield svg.text(900, y + 11, f"[{low:,}, {high:,}]")
    yield svg.text(1000, y + 11, f"[{inner_low:,}, {inner_high:,}]")


def _axis_end(bounds: CellBounds, min_width: int) -> int:
    """Up to three times the required width past the inner ends, so that one wide cell does not flatten all."""
    wanted = int((bounds.inner[:, 0] + 3 * min_width).max())
    return max(1, int(bounds.counts.max()), min(int(bounds.outer[:, 1].max()), max(wanted, 10)))


def _dimension(d: int) -> str:
    return f"dimension {d}"
