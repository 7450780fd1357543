"""Bounds between two decomposable releases: inner ones from a larger release, outer ones from smaller releases."""

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

    inner  the sharp bounds under a chordal cover of the release and of the hulls of all facts: its feasible tables are
           feasible for the release too ([DKS] theorem 1 gives both ends); at worst [count, count]
    outer  UB = min over the frontier of n_S(i_S); LB the largest explicit lower bound of the decomposable releases
           within the release from `Structure.spanning_sequences`; structural zeros count for the cell itself
           only: [0, 0]
    """
    inner = covering_bounds(marginals, knowledge)
    outer = frontier_bounds(marginals, knowledge.structure.essential)
    # for a floating cell the explicit bound is that of its marginal cell, and no bound of a single cell
    floating = knowledge.is_floating(marginals.cells)
    for within in () if floating.all() else knowledge.structure.spanning_sequences:
        np.maximum(outer[:, 0], np.where(floating, 0, explicit_lower(marginals, within)), out=outer[:, 0])
    outer[marginals.impossible(knowledge.zeros)] = 0
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "nested")


def frontier_bounds(marginals: CellMarginals, release: Release) -> Intervals:
    """(n, 2) [0, min over the frontier of n_S(i_S)], the simplest outer bounds."""
    # the frontier is enough: smaller marginals have no smaller counts
    upper = marginals.at(release.frontier[0])
    for element in release.frontier[1:]:
        upper = np.minimum(upper, marginals.at(element))
    return np.stack([np.zeros_like(upper), upper], axis=1)
