"""Expected counts of a decomposable release in closed form, on its junction tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.graph import Decomposition
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts
from sdc.utility.marginal import Marginal

Marginals = Mapping[SubTable, Marginal]
Values = npt.NDArray[np.float64]


def expected(marginals: Marginals, decomposition: Decomposition, cells: Codes, variables: SubTable) -> Values:
    """(n,) prod_j n_Cj(i_Cj) / prod_j n_Sj(i_Sj) at (n, variables) cells in which every clique is positive.

    The maximum likelihood estimate under the release's log-linear model, to which IPF converges (Lauritzen 1996,
    section 4.4). One pass over the cells for each clique and separator.
    """

    def counts(subtable: SubTable) -> Counts:
        marginal = next(own for clique, own in marginals.items() if st.is_within(subtable, clique)).summed(subtable)
        return marginal.counts[marginal.rows(cells, variables)]

    return _quotient(decomposition, counts)


def _quotient(decomposition: Decomposition, counts: Callable[[SubTable], Counts]) -> Values:
    values = counts(decomposition.cliques[0]).astype(np.float64)
    for clique, separator in zip(decomposition.cliques[1:], decomposition.separators, strict=True):
        values *= counts(clique)
        # clique and separator in turn: the quotient stays near the counts, while products of all cliques could overflow
        values /= counts(separator)
    return values


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Expected counts of a decomposable release, without a list of cells.

    schema         of the table, without levels
    marginals      of the cliques
    decomposition  these and their separators, in perfect order
    """

    schema: Schema
    marginals: Marginals
    decomposition: Decomposition

    @cached_property
    def spread(self) -> int:
        """The number of cells of the full table that share each value equally."""
        sizes = self.schema.sizes
        return self.schema.cells // prod(sizes[v] for v in st.members(self.decomposition.variables))

    def at(self, cells: Codes) -> Values:
        """(n,) expected counts at cells of the full table, (n, all variables) codes."""
        every = st.full(len(self.schema))
        rows = [marginal.rows(cells, every) for marginal in self.marginals.values()]
        found, positive = np.zeros(len(cells)), np.all([own >= 0 for own in rows], axis=0)
        found[positive] = expected(self.marginals, self.decomposition, cells[positive], every) / float(self.spread)
        return found

    def among(self, counts: Callable[[SubTable], Counts]) -> Values:
        """(n,) expected counts from positive counts of cliques and separators at the cells."""
        return _quotient(self.decomposition, counts) / float(self.spread)

    @property
    def sum_of_squares(self) -> float:
        """The sum of squares of all expected counts, in records squared: also a product of cliques and separators.

        Each value v is v / spread in `spread` cells, which give v^2 / spread.
        """

        def message(shared: Marginal, rows: Counts, weights: Values) -> Values:
            # no separator's cell is 0: it is the sum of positive cells of the clique
            found: Values = np.bincount(rows, weights, minlength=len(shared)) / np.square(shared.counts, dtype=float)
            return found

        return float(self._gathered(lambda counts: np.square(counts, dtype=float), message)) / self.spread

    @property
    def fitted_cells(self) -> int:
        """The number of cells with a positive fit; exact, a Python integer."""

        def message(shared: Marginal, rows: Counts, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = np.zeros(len(shared), object)
            np.add.at(found, rows, weights)
            return found

        return int(self._gathered(lambda counts: np.ones(len(counts), object), message)) * self.spread

    def _gathered(self, weighed: Callable[[Counts], Any], message: Callable[[Marginal, Counts, Any], Any]) -> Any:
        """A sum over all cells by messages along the junction tree, last clique first; the cost is the marginals'."""
        cliques, separators = self.decomposition.cliques, self.decomposition.separators
        # in perfect order clique j shares its separator with earlier ones: from the last one on, each has all messages
        # from below when it sends its own
        weights = {clique: weighed(self.marginals[clique].counts) for clique in cliques}
        for j in reversed(range(1, len(cliques))):
            own, separator = self.marginals[cliques[j]], separators[j - 1]
            messages = message(*own.onto(separator), weights[cliques[j]])
            host = next(self.marginals[clique] for clique in cliques[:j] if st.is_within(separator, clique))
            # both have the same cells of the separator, in one order
            weights[host.subtable] *= messages[host.onto(separator)[1]]
        return weights[cliques[0]].sum()
