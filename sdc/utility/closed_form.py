"""Expected counts of a decomposable release in closed form, on its junction tree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.graph import Decomposition
from sdc.model.subtable import SubTable
from sdc.model.table import Codes
from sdc.utility.marginal import Marginal

Marginals = Mapping[SubTable, Marginal]
Values = npt.NDArray[np.float64]


def expected(marginals: Marginals, decomposition: Decomposition, cells: Codes, variables: SubTable) -> Values:
    """(n,) prod_j n_Cj(i_Cj) / prod_j n_Sj(i_Sj) at (n, variables) cells in which every clique is positive.

    The maximum likelihood estimate under the release's log-linear model, to which IPF converges
    (Lauritzen 1996, section 4.4). One pass over the cells a clique and a separator.
    """
    root = marginals[decomposition.cliques[0]]
    values = root.counts[root.rows(cells, variables)].astype(np.float64)
    for clique, separator in zip(decomposition.cliques[1:], decomposition.separators, strict=True):
        above = marginals[clique]
        below = above.summed(separator)
        values *= above.counts[above.rows(cells, variables)]
        # clique and separator in turn: a quotient stays near the counts, where products of all cliques first could
        # leave a double
        values /= below.counts[below.rows(cells, variables)]
    return values


def sum_of_squares(marginals: Marginals, decomposition: Decomposition) -> float:
    """Sum of the squared expected counts, in records squared, over all cells of the covered variables, none listed.

    The squares are a product over cliques and separators too, so that they are summed by messages
    along the junction tree, last clique first: the cost is that of the marginals.
    """
    cliques, separators = decomposition.cliques, decomposition.separators
    # in perfect order clique j shares its separator with those before: from the last one on, each has heard from all
    # below it when it speaks
    weights = {clique: np.square(marginals[clique].counts, dtype=np.float64) for clique in cliques}
    for j in reversed(range(1, len(cliques))):
        own, separator = marginals[cliques[j]], separators[j - 1]
        shared = own.summed(separator)
        summed = np.bincount(shared.rows(own.codes, own.subtable), weights[cliques[j]], minlength=len(shared))
        # no separator's cell is 0: it is the sum of positive cells of the clique
        message = summed / np.square(shared.counts, dtype=np.float64)
        host = next(marginals[clique] for clique in cliques[:j] if st.is_within(separator, clique))
        weights[host.subtable] *= message[shared.rows(host.codes, host.subtable)]
    return float(weights[cliques[0]].sum())
