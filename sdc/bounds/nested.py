"""Between two decomposable releases: inner bounds from one around the release, outer from those within it."""

from __future__ import annotations

import numpy as np

from sdc.bounds.decomposable import covering_bounds, explicit_lower
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.table import Codes, Table


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Outer and inner bounds of (n, variables) cells under any release."""
    return bounds_at(CellMarginals(table, cells), knowledge)


def bounds_at(marginals: CellMarginals, knowledge: Knowledge) -> CellBounds:
    """Outer and inner bounds at the cells of `marginals`.

    inner  the sharp bounds under a chordal cover of the release and of the hull of every other fact:
           its feasible tables are feasible for the release too ([DKS] theorem 1 gives both ends);
           [count, count] at worst
    outer  UB = min over the frontier of n_S(i_S); LB the largest explicit lower bound of the
           decomposable releases within the release that `Structure.spanning_sequences` finds; of structural
           zeros it knows the cell itself alone, which has [0, 0]
    """
    inner = covering_bounds(marginals, knowledge)
    outer = frontier_bounds(marginals, knowledge.structure.essential)
    # of a floating cell the explicit bound is that of its marginal cell, and says nothing of one cell in it
    floating = knowledge.is_floating(marginals.cells)
    for within in () if floating.all() else knowledge.structure.spanning_sequences:
        np.maximum(outer[:, 0], np.where(floating, 0, explicit_lower(marginals, within)), out=outer[:, 0])
    outer[marginals.impossible(knowledge.zeros)] = 0
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "nested")


def frontier_bounds(marginals: CellMarginals, release: Release) -> Intervals:
    """(n, 2) [0, min over the frontier of n_S(i_S)], the outer bounds that need no thought."""
    # the frontier is enough: a marginal of fewer variables has no smaller count
    upper = marginals.at(release.frontier[0])
    for element in release.frontier[1:]:
        upper = np.minimum(upper, marginals.at(element))
    return np.stack([np.zeros_like(upper), upper], axis=1)
