"""Which variables a release says anything about: the others are taken out, and bounds put back."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps

import numpy as np

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.marginal import as_cells, check_release
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

Bounds = Callable[[Table, Release, Codes], CellBounds]


@lru_cache(maxsize=256)
def varying(schema: Schema) -> SubTable:
    """The variables with two categories or more; the others change no marginal."""
    return st.of(v for v, size in enumerate(schema.sizes) if size > 1)


def essential(release: Release, schema: Schema) -> Release:
    """The same public knowledge without the variables of one category."""
    if release.variables & ~varying(schema) == 0:
        return release
    return Release.of(element & varying(schema) for element in release.frontier)


def is_floating(release: Release, schema: Schema) -> bool:
    """Whether a variable of two categories or more is in no released sub-table.

    Then any cell's records may all move to another category of it: every lower bound is 0, and the
    upper bound is that of the marginal cell over the other variables. With structural zeros that name
    such a variable both are outer only.
    """
    return bool(varying(schema) & ~release.variables)


def informed(release: Release, zeros: StructuralZeros) -> Release:
    """The release with the sub-table of every structural zero's variables.

    A table that agrees with it has the structural zeros, because the true table has them: whatever is
    feasible for it is feasible for the release with its structural zeros.
    """
    return Release.of([*release.frontier, *zeros.subtables]) if zeros else release


def on_covered_variables(bounds: Bounds) -> Bounds:
    """The method applied to the marginal table of the covered variables, its bounds put back.

    Sharp bounds stay sharp. Variables that structural zeros name are kept too, because a record cannot
    move freely among their categories. Where nothing is covered one variable is kept. ReleaseError
    where the release names a variable the table does not have.
    """

    @wraps(bounds)
    def reduced(table: Table, release: Release, cells: Codes) -> CellBounds:
        check_release(release, table.schema)
        release = essential(release, table.schema)
        kept = informed(release, table.zeros).variables or 1
        if kept == st.full(len(table.schema)):
            return bounds(table, release, as_cells(cells, table.schema))
        cells = as_cells(cells, table.schema)
        members = st.members(kept)
        inside = bounds(table.marginal(kept), release.within(kept), cells[:, members])
        floating = bool(varying(table.schema) & ~kept)
        outer, inner = _put_back(inside.outer, floating), _put_back(inside.inner, floating)
        return CellBounds(cells, table.count_at(cells), outer, inner, inside.method)

    return reduced


def _put_back(intervals: Intervals, floating: bool) -> Intervals:
    return intervals * np.array([0, 1]) if floating else intervals
