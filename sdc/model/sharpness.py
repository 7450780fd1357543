"""Progress of bounds: which are sharp, which are bracketed, and by which methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.model.cell_bounds import CellBounds
from sdc.model.documents import picked, plain, rows
from sdc.model.errors import InputError, many
from sdc.model.release import Release, release_facts
from sdc.model.schema import Schema

ByMethod = Mapping[str, int]
# of a reference core: the default for sharp bounds, of the method auto, of `--sharp`, and within a build
AUTO_SECONDS, SHARP_SECONDS, BUILD_SECONDS = 10.0, 600.0, 30.0
LEAST_SECONDS = 0.01  # less ends within the first round


def require_budget(seconds: float) -> None:
    """InputError for a budget that ends before anything is found; a build may have it, whose proof comes first."""
    if not seconds >= LEAST_SECONDS:
        raise InputError(
            f"the budget of sharp bounds is {seconds} seconds, which ends within the first round; give at least "
            f"{LEAST_SECONDS}"
        )


@dataclass(frozen=True, eq=False)
class EndMethods:
    """(n, 2) names of the methods of the lower and upper ends of cells, for outer and inner intervals.

    seconds  the budget, if it ended the search
    """

    outer: npt.NDArray[np.str_]
    inner: npt.NDArray[np.str_]
    seconds: float | None = None


@dataclass(frozen=True)
class Sharpness:
    """The number of cells with sharp bounds, and of ends by method, outer and inner ones.

    met   ends where the intervals meet: sharp bounds; a cell is sharp if both of its ends are
    open  ends where they do not: the sharp bound lies between
    """

    cells: int
    sharp: int
    met: Mapping[str, ByMethod]
    open: Mapping[str, ByMethod]

    @staticmethod
    def of(bounds: CellBounds, by: EndMethods) -> Sharpness:
        """Counted over all cells."""
        meets, named = bounds.outer == bounds.inner, {"outer": by.outer, "inner": by.inner}
        met, open_ = (
            {kind: dict(Counter(names[ends].tolist())) for kind, names in named.items()} for ends in (meets, ~meets)
        )
        return Sharpness(len(bounds), int(bounds.exact.sum()), met, open_)

    @property
    def text(self) -> str:
        """A sentence or two."""
        return self.described()

    def described(self, what: str = "cell", seconds: float | None = None) -> str:
        """The text with a name for the cells, and the budget in seconds if given."""
        text = f"{self.sharp:,} of {many(self.cells, what)} sharp"
        if self.sharp < self.cells:
            text += f", {self.cells - self.sharp:,} bracketed"
        if seconds is not None:
            text += f", within a budget of {seconds:g} s"
        if self.met["outer"]:
            text += f"; ends that meet: {_by_method(self.met)}"
        if self.sharp < self.cells:
            text += f"; ends that do not meet: {_by_method(self.open)}"
        return text


def _by_method(ends: Mapping[str, ByMethod]) -> str:
    """`outer by collapse 12; inner by walk 10, true table 2`."""
    return ", ".join(f"{kind} by {_listed(by)}" for kind, by in ends.items())


def _listed(by: ByMethod) -> str:
    most_first = sorted(by.items(), key=lambda pair: (-pair[1], pair[0]))
    return " and ".join(f"{name} ({number:,})" for name, number in most_first)


def bounds_facts(release: Release, bounds: CellBounds, by: EndMethods | None, schema: Schema) -> dict[str, Any]:
    """Bounds under a release, one row for each cell; with methods also the method of each end and the number of sharp
    cells.
    """
    named = {"cell": map(schema.named, bounds.cells.tolist()), "count": bounds.counts}
    facts = {"release": release_facts(release, schema)["frontier"], "method": bounds.method}
    ends = picked(bounds, "outer", "inner", "exact")
    if by is None:
        return {**facts, "cells": rows({**named, **ends})}
    sharpness = Sharpness.of(bounds, by)
    cells = rows({**named, **ends, "outer_by": by.outer, "inner_by": by.inner})
    text = sharpness.text + (f"; the budget of {by.seconds:g} s has ended" if by.seconds is not None else "")
    return {**facts, "cells": cells, "sharpness": {**plain(Sharpness, sharpness), "text": text}}
