"""Line plots: from values to places in a figure, with a grid and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log

from markupsafe import Markup

from sdc.report import svg

PAGE = 1100.0
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
        return svg.path([(self.x(x), self.y(y)) for x, y in points], class_)

    def grid(self, x_ticks: Sequence[float], y_ticks: Sequence[float], named: bool = True) -> Iterator[Markup]:
        """Lines at the ticks, with figures below and, where `named`, on the left."""
        right, bottom = self.left + self.width, self.top + self.height
        for tick in x_ticks:
            yield svg.line(self.x(tick), self.top, self.x(tick), bottom, "grid")
            yield svg.text(self.x(tick), bottom + 16, short(tick), anchor="middle")
        for tick in y_ticks:
            yield svg.line(self.left, self.y(tick), right, self.y(tick), "grid")
            if named:
                yield svg.text(self.left - 8, self.y(tick) + 4, short(tick), anchor="end")


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
