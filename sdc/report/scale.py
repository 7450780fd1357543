"""Classes of widths and their colours: lightness grows with the width, the hue changes at the required one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np
import numpy.typing as npt

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
