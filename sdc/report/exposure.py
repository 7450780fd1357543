"""At-risk cells by exposure: what is proved of each against the required width."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sdc.model.cell_bounds import CellBounds
from sdc.model.schema import Schema
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Verdict

LONGEST_NAME = 40
KINDS = ("exact", "outer and inner", "undecided")


def by_exposure(bounds: CellBounds, criteria: Criteria, most: int | None = None) -> CellBounds:
    """The first of unsafe cells, then undecided, then safe; within each by inner width, outer width, count, codes."""
    # `lexsort` takes its last key first; with the codes for a last resort the order depends on the cells alone
    keys = (bounds.counts, bounds.outer_width, bounds.inner_width, criteria.width.verdicts(bounds))
    return bounds.rows(np.lexsort((*bounds.cells.T[::-1], *keys))[:most])


def kinds(bounds: CellBounds, criteria: Criteria) -> npt.NDArray[np.int8]:
    """(n,) the kind of each cell's bounds, a place in `KINDS`."""
    undecided = criteria.width.verdicts(bounds) == Verdict.UNDECIDED
    return np.select([bounds.exact, undecided], [0, 2], 1).astype(np.int8)


def written(cell: Iterable[int], schema: Schema) -> str:
    """`A=no, B=yes`."""
    named = schema.named(cell).items()
    return ", ".join(f"{shorten(name)}={shorten(category)}" for name, category in named)


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
