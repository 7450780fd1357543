"""Explicit sharp bounds for decomposable releases ([DKS] theorem 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import ReleaseError
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.table import Codes, Counts, Table


def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells, see `bounds_at`; ReleaseError if the release is not decomposable."""
    return bounds_at(CellMarginals(table, cells), knowledge)


def bounds_at(marginals: CellMarginals, knowledge: Knowledge) -> CellBounds:
    """Exact bounds at the cells of `marginals`, one array operation for each clique and separator.

    Structural zeros and facts within a clique change nothing, because its marginal shows them. With others the explicit
    bounds are outer only, because their tables need not agree with these, and inner is that of `covering_bounds`; an
    impossible cell has [0, 0].
    """
    if knowledge.structure.decomposition is None:
        frontier, schema = knowledge.release.frontier, knowledge.schema
        named = ", ".join(st.label(element, schema) for element in frontier[:8])
        raise ReleaseError(
            f"the release with frontier {named}{', ...' if len(frontier) > 8 else ''} is not decomposable; "
            "choose the method nested, collapse or auto"
        )
    outer = explicit_bounds(marginals, knowledge.structure.decomposition, knowledge.is_floating(marginals.cells))
    inner = outer
    if not knowledge.structure.is_release_alone:
        # a copy: only the outer one is set to 0 next
        inner = covering_bounds(marginals, knowledge)
        outer[marginals.impossible(knowledge.zeros)] = 0
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "decomposable")


def covering_bounds(marginals: CellMarginals, knowledge: Knowledge) -> Intervals:
    """(n, 2) inner bounds: the explicit ones under `Structure.cover`, as in certificates.

    Tables that agree with the cover agree with the release and with all facts, whose hulls are within its cliques.
    """
    cover = knowledge.structure.cover
    return explicit_bounds(marginals, cover, knowledge.schema.shared(cover.variables, marginals.cells))


def explicit_bounds(
    marginals: CellMarginals, decomposition: Decomposition, floating: npt.NDArray[np.bool_]
) -> Intervals:
    """(n, 2) sharp bounds: UB = min_j n_Cj(i_Cj), LB = max(0, sum_j n_Cj(i_Cj) - sum_j n_Sj(i_Sj)).

    [DKS] theorem 1, for the marginal table of the covered variables; LB is 0 for a cell that shares its marginal cell
    (`floating`, see `Schema.shared`). At most 63 cliques of at most 2^53 records: sums stay below 2^59.
    """
    upper = marginals.at(decomposition.cliques[0])
    for clique in decomposition.cliques[1:]:
        upper = np.minimum(upper, marginals.at(clique))
    lower = np.zeros(len(marginals), np.int64)
    if not floating.all():
        lower = np.where(floating, 0, explicit_lower(marginals, decomposition))
    return np.stack([lower, upper], axis=1)


def explicit_lower(marginals: CellMarginals, decomposition: Decomposition) -> Counts:
    """(n,) max(0, sum of clique counts - sum of separator counts); the cliques cover every variable."""
    total = marginals.at(decomposition.cliques[0]).copy()
    for clique, separator in zip(decomposition.cliques[1:], decomposition.separators, strict=True):
        total += marginals.at(clique)
        total -= marginals.at(separator)
    return np.maximum(total, 0, out=total)
