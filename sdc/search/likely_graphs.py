"""What annealing asks of decomposable graphs beside their widths: a limit on the posterior, and a reconstruction."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from sdc.config.values import Objective
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.hypergeometric import cell_laws
from sdc.intruder.measures import EQUAL
from sdc.intruder.moments import SumRows, TrueCounts
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from sdc.risk.posterior_limit import PosteriorLimit, true_and_highest
from sdc.search.marginal_rows import MarginalRows
from sdc.utility.halvings import Halvings

MOST_KNOWN = 1 << 20  # graphs, some 100 MB


class LikelyGraphs:
    """Which graphs keep a limit on the posterior, judged from the rows that annealing has at hand.

    Answers are kept: a cold chain comes to the same few graphs again and again.
    """

    def __init__(self, known: Knowledge, limit: PosteriorLimit, rows: MarginalRows) -> None:
        self._public, self._limit, self._rows, self._known = known, limit, rows, dict[int, bool]()
        # a copy may be written to, as what others pass is, and the kernel is compiled for one of these types alone
        self._truth = TrueCounts(rows.marginals.counts.copy(), rows.marginals.table.total, limit.least, limit.most)

    def keeps(self, graph: DecomposableGraph, fingerprint: int) -> bool:
        """Whether what the graph's release makes likely is within the limit; no two graphs have one fingerprint."""
        if fingerprint not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[fingerprint] = self._judged(graph)
        return self._known[fingerprint]

    def _judged(self, graph: DecomposableGraph) -> bool:
        signs = Counter(graph.cliques)
        signs.subtract(graph.separators)
        # those of the graph that chains are on, and at most four more that were just used: none makes another go
        places = np.array([self._rows.of(subtable) for subtable in signs])
        tree = SumRows(self._rows.held, places, np.array(list(signs.values())))
        cells, found = self._truth.likely(tree, lambda asked: self._laws(graph, asked).at_truth)
        # half of what is called equal: the evaluation in the end is never stricter
        marginals = self._rows.marginals
        if not self._limit.allows(found, len(marginals), EQUAL / 2):
            return False
        at_truth = np.zeros(len(marginals))
        at_truth[cells] = found
        modes = self._limit.modes(
            marginals.table, marginals.counts, lambda asked: true_and_highest(self._laws(graph, asked))
        )
        claims = self._limit.claims(at_truth, lambda asked: modes.of(tree, asked), EQUAL / 2)
        return self._limit.keeps_losses(claims)

    def _laws(self, graph: DecomposableGraph, cells: npt.NDArray[np.int64]) -> CellLaws:
        marginals = self._rows.marginals
        return cell_laws(marginals.table, self._public.plus(graph.release), marginals.cells[cells])


class ValuedGraphs:
    """By how many halvings a graph's release brings a reconstruction nearer; answers are kept."""

    def __init__(self, table: Table, known: Knowledge, objective: Objective) -> None:
        self._halvings, self._known = Halvings(table, known, objective), dict[int, float]()

    def of(self, graph: DecomposableGraph, fingerprint: int) -> float:
        """Of a graph; no two have one fingerprint."""
        if fingerprint not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[fingerprint] = self._halvings.of(graph.release)
        return self._known[fingerprint]
