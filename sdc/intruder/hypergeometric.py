"""Exact laws under a decomposable release: chains of hypergeometric laws along the junction tree."""

from __future__ import annotations

from math import log, prod

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from sdc.intruder.cell_laws import LEAST, CellLaws
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.table import Codes, Table

MOST_CELLS = 1 << 14  # above it the entropy is not computed
ROOM = 1 << 20  # probabilities at once, 8 MB four times


def is_treatable(knowledge: Knowledge) -> bool:
    """Whether the release is decomposable and implies all structural zeros and other facts."""
    return knowledge.structure.decomposition is not None and knowledge.structure.is_release_alone


def cell_laws(table: Table, knowledge: Knowledge, cells: Codes) -> CellLaws:
    """Pr(f_i = k | R) of (n, variables) cells under the law `released`, from the Markov property of its junction tree.

    Given its marginals at two cliques, a table's records of one are matched at random with those of the other within
    the cells of their separator. So from a clique with the constant m = n_C(i_C), the smallest one first, each further
    clique changes it to m' of Hypergeometric(population n_S(i_S), successes m, draws n_C'(i_C')). Categories of unknown
    variables are equally likely for each record. Exact up to the rounding of doubles; ends below 10^-30 are left out.
    O(cliques) steps for each cell, each the square of the smallest clique's standard deviation. Raises ReleaseError if
    the release is not decomposable, or does not imply the structural zeros and other facts.
    """
    tree = junction_tree(knowledge)
    marginals = CellMarginals(table, cells)
    of_cliques = np.stack([marginals.at(clique) for clique in tree.cliques])
    of_separators = np.array([marginals.at(s) for s in tree.separators], np.int64).reshape(-1, len(cells))
    uncovered = st.members(knowledge.structure.varying & ~tree.variables)
    share = 1 / prod(table.schema.sizes[v] for v in uncovered)
    return _laws(marginals, of_cliques, of_separators, *_edges(tree), share)


def log_probability(table: Table, knowledge: Knowledge) -> float:
    """log Pr(F | R) of the table under the law `released`: prod_C n_C! / (prod_S n_S! prod f!).

    If variables are in no sub-table, times the probability of each record's categories of them. Raises ReleaseError as
    above.
    """
    return float(_log_arrangements(table, knowledge) - gammaln(table.counts + 1).sum())


def entropy(table: Table, knowledge: Knowledge) -> float | None:
    """- E log Pr(F | R) over all tables, from the laws of all cells: only sum E log f! is unknown.

    None for tables with more than 16,384 cells. Raises ReleaseError as above.
    """
    if table.schema.cells > MOST_CELLS:
        return None
    laws = cell_laws(table, knowledge, table.schema.keys.unpack(np.arange(table.schema.cells)))
    return float((laws.probabilities * gammaln(laws.each_count + 1)).sum() - _log_arrangements(table, knowledge))


def _log_arrangements(table: Table, knowledge: Knowledge) -> float:
    """log prod_C n_C! / prod_S n_S!, less the arrangements of records over unknown variables."""
    tree = junction_tree(knowledge)
    arrangements = _log_factorials_of(table, tree.cliques) - _log_factorials_of(table, tree.separators)
    uncovered = prod(table.schema.sizes[v] for v in st.members(knowledge.structure.varying & ~tree.variables))
    return arrangements - table.total * log(uncovered)  # for integers beyond doubles, too


def _log_factorials_of(table: Table, sub_tables: tuple[st.SubTable, ...]) -> float:
    return sum(float(gammaln((table.marginal(s).counts if s else table.total) + 1).sum()) for s in sub_tables)


def junction_tree(knowledge: Knowledge) -> Decomposition:
    if knowledge.structure.decomposition is None:
        raise ReleaseError(
            "the release is not decomposable, so the chain of hypergeometric laws does not give its cells; release the "
            "cliques of a decomposable graph"
        )
    if not knowledge.structure.is_release_alone:
        raise ReleaseError(
            "the released marginals do not show the structural zeros and other facts, so that hypergeometric laws are "
            "not exact; release the sub-tables of their variables"
        )
    return knowledge.structure.decomposition


def _edges(tree: Decomposition) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The junction tree: for each separator the later clique, and an earlier one that contains it."""
    hosts = [
        next(k for k in range(later) if st.is_within(separator, tree.cliques[k]))
        for later, separator in enumerate(tree.separators, start=1)
    ]
    return np.array(hosts, np.int64), np.arange(1, len(tree.cliques), dtype=np.int64)


def _laws(
    marginals: CellMarginals,
    of_cliques: npt.NDArray[np.int64],
    of_separators: npt.NDArray[np.int64],
    one: npt.NDArray[np.int64],
    other: npt.NDArray[np.int64],
    share: float,
) -> CellLaws:
    from sdc.intruder.hypergeometric_kernel import chains

    cells = len(marginals)
    first, lengths, parts, done = np.empty(cells, np.int64), [], [], 0
    # a law has at most as many counts as the smallest clique has records
    room = max(ROOM, int(of_cliques.min(axis=0).max(initial=0)) + 1)
    start, buffer = np.empty(cells + 1, np.int64), np.empty(room)
    while done < cells:
        rows = slice(done, cells)
        given = np.ascontiguousarray(of_cliques[:, rows]), np.ascontiguousarray(of_separators[:, rows])
        count = chains(*given, one, other, share, LEAST, first[rows], start, buffer)
        lengths.append(np.diff(start[: count + 1]))
        parts.append(buffer[: start[count]].copy())
        done += count
    ends = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *lengths]))]).astype(np.int64)
    flat = np.concatenate([np.empty(0), *parts])
    return CellLaws(marginals.cells, marginals.counts, first, ends, flat)
