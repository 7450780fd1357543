"""Explicit sharp bounds for dichotomous tables with all (k-1)-way marginals ([DKS] proposition 1)."""

from __future__ import annotations

import numpy as np

from sdc.bounds.covered import on_covered_variables
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Codes, Table


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Exact bounds of (n, variables) cells by one pass over the table, for any number k of variables.

    The feasible tables are n + t s for integers t, where s is +1 at cells of even parity (sum of codes) and -1 at the
    others: one degree of freedom ([DKS] proposition 1). So -min n(even) <= t <= min n(odd), and all widths are equal; a
    structural zero leaves t = 0. Raises ReleaseError for another release, for a covered variable with three categories
    or more, and for other facts.
    """
    if knowledge.facts:
        raise ReleaseError(
            f"{knowledge.facts[0].source} is known too, and the method dichotomous takes a release "
            "alone; choose the method auto"
        )
    if not is_treatable(knowledge.release, table.schema):
        raise ReleaseError(
            f"the release covers {len(table.schema)} variables of {sorted(set(table.schema.sizes))} categories by "
            f"{len(knowledge.release.frontier)} frontier sub-tables; dichotomous takes 2 categories each and all "
            "sub-tables with one variable fewer: choose the method auto"
        )
    even, odd = (0, 0) if knowledge.zeros else (_least(table, 0), _least(table, 1))
    counts = table.count_at(cells)
    # an even cell increases by t, an odd one decreases by as much
    is_even = (cells.sum(axis=1) % 2 == 0)[:, None]
    sharp = counts[:, None] + np.where(is_even, [-even, odd], [-odd, even])
    return CellBounds(cells, counts, sharp, sharp, "dichotomous")


def is_treatable(release: Release, schema: Schema) -> bool:
    """Whether all variables have two categories and all sub-tables with one variable fewer are the frontier."""
    every_child = Release.of(st.children(st.full(len(schema)), schema))
    return schema.levels.is_flat and set(schema.sizes) == {2} and len(schema) > 1 and release == every_child


def _least(table: Table, parity: int) -> int:
    counts = table.counts[table.codes.sum(axis=1) % 2 == parity]
    # half of the cells have each parity: if the table, which has no zeros, lists fewer, one of them is 0
    return 0 if len(counts) < table.schema.cells // 2 else int(counts.min())
