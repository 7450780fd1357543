"""Explicit sharp bounds for decomposable releases ([DKS] theorem 1)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.coverage import essential, informed, is_floating
from sdc.model.errors import ReleaseError
from sdc.model.graph import Decomposition
from sdc.model.marginal import CellMarginals, check_release
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Bounds of (n, variables) cells, see `bounds_at`; ReleaseError where the release is not decomposable."""
    return bounds_at(CellMarginals(table, cells), release)


def bounds_at(marginals: CellMarginals, release: Release) -> CellBounds:
    """Exact bounds at the cells of `marginals`, one array operation a clique and a separator.

    A structural zero within a clique is seen in its marginal and changes nothing. With others the
    explicit bounds are outer only, because the tables behind them may fill impossible cells, and inner
    is that of `covering_bounds`; an impossible cell has [0, 0].
    """
    schema = marginals.table.schema
    check_release(release, schema)
    decomposition = decomposition_of(essential(release, schema), len(schema))
    if decomposition is None:
        frontier = ", ".join(st.label(element, schema) for element in release.frontier[:8])
        raise ReleaseError(
            f"the release with frontier {frontier}{', ...' if len(release.frontier) > 8 else ''} is not decomposable; "
            "choose the method nested, collapse or auto"
        )
    outer = explicit_bounds(marginals, decomposition, is_floating(release, schema))
    inner = outer
    if informed(release, marginals.table.zeros) != release:
        inner = covering_bounds(marginals, release)
        outer[marginals.impossible] = 0
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "decomposable")


def covering_bounds(marginals: CellMarginals, release: Release) -> Intervals:
    """(n, 2) inner bounds: the explicit ones under a chordal cover of the release and of its structural zeros.

    Tables that agree with the cover agree with the release, and have the structural zeros, whose
    variables are within its cliques.
    """
    schema = marginals.table.schema
    release = essential(informed(release, marginals.table.zeros), schema)
    return explicit_bounds(marginals, _covering_decomposition(release, len(schema)), is_floating(release, schema))


def cover(table: Table, release: Release) -> Decomposition:
    """A decomposable release that contains the release and every structural zero's variables, as a perfect sequence."""
    return _covering_decomposition(informed(release, table.zeros), len(table.schema))


@lru_cache(maxsize=1024)
def _covering_decomposition(release: Release, variables: int) -> Decomposition:
    return graph.perfect_sequence(graph.chordal_cover(release, variables).frontier)


@lru_cache(maxsize=4096)
def decomposition_of(release: Release, variables: int) -> Decomposition | None:
    """`graph.decompose`, remembered: a criterion and a search ask for the same release."""
    return graph.decompose(release, variables)


def explicit_bounds(marginals: CellMarginals, decomposition: Decomposition, floating: bool) -> Intervals:
    """(n, 2) sharp bounds: UB = min_j n_Cj(i_Cj), LB = max(0, sum_j n_Cj(i_Cj) - sum_j n_Sj(i_Sj)).

    [DKS] theorem 1, for the marginal table of the covered variables; with an uncovered variable of
    two categories or more (`floating`) LB is 0. Not int64-safe beyond 2^10 cliques of 2^53 records.
    """
    upper = marginals.at(decomposition.cliques[0])
    for clique in decomposition.cliques[1:]:
        upper = np.minimum(upper, marginals.at(clique))
    lower = np.zeros(len(marginals), np.int64) if floating else explicit_lower(marginals, decomposition)
    return np.stack([lower, upper], axis=1)


def explicit_lower(marginals: CellMarginals, decomposition: Decomposition) -> Counts:
    """(n,) max(0, sum of clique counts - sum of separator counts); the cliques cover every variable."""
    total = marginals.at(decomposition.cliques[0]).copy()
    for clique, separator in zip(decomposition.cliques[1:], decomposition.separators, strict=True):
        total += marginals.at(clique)
        total -= marginals.at(separator)
    return np.maximum(total, 0, out=total)
