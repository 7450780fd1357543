"""Between two decomposable releases: inner bounds from one around the release, outer from those within it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sdc.bounds.decomposable import covering_bounds, explicit_lower
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.coverage import essential, is_floating, varying
from sdc.model.graph import Decomposition
from sdc.model.marginal import CellMarginals, check_release
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

STARTS = 4
MAX_STEPS = 4096


def bounds(table: Table, release: Release, cells: Codes) -> CellBounds:
    """Outer and inner bounds of (n, variables) cells under any release."""
    return bounds_at(CellMarginals(table, cells), release)


def bounds_at(marginals: CellMarginals, release: Release) -> CellBounds:
    """Outer and inner bounds at the cells of `marginals`.

    inner  the sharp bounds under a chordal cover of the release and of the variables of each structural
           zero: its feasible tables are feasible for the release too ([DKS] theorem 1 gives both ends);
           [count, count] at worst
    outer  UB = min over the frontier of n_S(i_S); LB the largest explicit lower bound of the
           decomposable releases within the release that `spanning_sequences` finds; of structural
           zeros it knows the cell itself alone, which has [0, 0]
    """
    schema = marginals.table.schema
    check_release(release, schema)
    inner = covering_bounds(marginals, release)
    release = essential(release, schema)
    outer = frontier_bounds(marginals, release)
    floating = is_floating(release, schema)
    for within in () if floating else spanning_sequences(release, varying(schema)):
        np.maximum(outer[:, 0], explicit_lower(marginals, within), out=outer[:, 0])
    outer[marginals.impossible] = 0
    return CellBounds(marginals.cells, marginals.counts, outer, inner, "nested")


def frontier_bounds(marginals: CellMarginals, release: Release) -> Intervals:
    """(n, 2) [0, min over the frontier of n_S(i_S)], the outer bounds that need no thought."""
    upper = marginals.at(release.frontier[0])
    for element in release.frontier[1:]:
        upper = np.minimum(upper, marginals.at(element))
    return np.stack([np.zeros_like(upper), upper], axis=1)


@lru_cache(maxsize=1024)
def spanning_sequences(release: Release, variables: SubTable) -> tuple[Decomposition, ...]:
    """Decomposable releases within the release that cover the variables, one from each of its largest elements.

    From a frontier element on, the next clique is the part of another frontier element that is new
    or within one earlier clique, most new variables first; so the running intersection holds. At
    most 4 starts, fewer where the frontier has more than 1,024 elements: a search pays for each.
    The release must cover the variables.
    """
    starts = release.frontier[: min(STARTS, max(1, MAX_STEPS // len(release.frontier)))]
    return tuple(dict.fromkeys(_spanning_sequence(release, variables, start) for start in starts))


def _spanning_sequence(release: Release, variables: SubTable, start: SubTable) -> Decomposition:
    cliques, separators, covered = [start], [], start
    while covered != variables:
        element, host = _next_clique(release.frontier, cliques, covered)
        cliques.append(element & (~covered | host))
        separators.append(element & host)
        covered |= element
    return Decomposition(tuple(cliques), tuple(separators))


def _next_clique(
    frontier: tuple[SubTable, ...], cliques: list[SubTable], covered: SubTable
) -> tuple[SubTable, SubTable]:
    """The element with most new variables and its earlier clique, of those the pair that shares most."""
    most = max(st.dimension(element & ~covered) for element in frontier)
    elements = [element for element in frontier if st.dimension(element & ~covered) == most]
    return max(
        ((element, host) for element in elements for host in cliques),
        key=lambda pair: (st.dimension(pair[0] & pair[1]), pair),
    )
