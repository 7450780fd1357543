"""Simulated annealing over decomposable graphs: one chain, as init and step ([KDSF] section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.config.capabilities import require_together
from sdc.config.release import AnnealingConfig
from sdc.config.values import Objective
from sdc.executor import cached_per_thread
from sdc.feasible.witness_pool import require_at_risk
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import InputError, NothingReleasableError, ReleaseError
from sdc.model.graph import chordal_cover, independence_graph
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.search import chain_kernel as kernel
from sdc.search.constraints import Constraints
from sdc.search.likely_graphs import LikelyGraphs, ValuedGraphs
from sdc.search.marginal_rows import MAX_KEYS, MarginalRows
from sdc.utility.measures import Weights

MAX_BYTES = 512 << 20
MOST_SOUGHT = 5_000  # steps in which a graph must turn up that keeps a limit on the posterior
NO_CONSTRAINTS = Constraints()


HALVING = 30.0  # degrees: measured on the Czech table, where most edges bring from a hundredth to half of a halving


def cooling_of(annealing: AnnealingConfig, position: int = 0, objective: Objective = "sub_tables") -> kernel.Cooling:
    """How the chain at that place cools, in units of utility: sub-tables by their weights, or halvings.

    All chains cool alike, from the start temperature to the end temperature in each cycle. With tempering they keep
    temperatures of their own, from that of the start at the first place to that of the end at the last.
    """
    unit = 1.0 if objective == "sub_tables" else HALVING
    start, end = annealing.start_temperature / unit, annealing.end_temperature / unit
    if annealing.tempering:
        kept = start * (end / start) ** (position / (annealing.chains - 1))
        return kernel.Cooling(kept, kept, annealing.steps, False)
    # rounded up, so that the last cycle is the short one and no step begins another
    length = -(-annealing.steps // annealing.cycles)
    return kernel.Cooling(start, end, length, annealing.schedule == "linear")


COOLING = cooling_of(AnnealingConfig())


@dataclass(frozen=True)
class Best:
    """The best graph of a chain: largest value, then largest width, then the first frontier."""

    graph: DecomposableGraph
    value: float
    min_width: int

    @property
    def rank(self) -> tuple[float, int, tuple[int, ...]]:
        """Larger is better; a frontier comes first where its first different clique has the smaller number."""
        return self.value, self.min_width, tuple(-clique for clique in self.graph.release.frontier)


@dataclass(frozen=True)
class ChainState:
    """Where a chain is, its generator included: going on from here is never having stopped.

    value     of the graph; kept from move to move, so with weights that are not integers it is rounded
    random    state of the generator (splitmix64)
    step      proposals made, each of which is a step
    accepted  how many of them changed the graph
    """

    graph: DecomposableGraph
    value: float
    random: int
    step: int
    accepted: int
    best: Best


@dataclass(frozen=True)
class AnnealingChain:
    """A chain over the decomposable graphs whose release satisfies the criterion at every at-risk cell.

    Each step proposes one of the legal one-edge neighbours, all with the same probability, and accepts it with
    min(1, exp((u' - u) / T)) where the widths allow. The utility u is the sum of the released sub-tables' `weights`,
    without any their number. Weights are above 0, so an addition, with the common neighbours S, always raises it: by
    w_u w_v prod_S (1 + w_s), and what sub-tables with a weight of their own count beside. With the objective
    "reconstruction" it is by how many halvings the release brings a reconstruction nearer, see `Halvings`, which an
    addition may lower too.

    Levels are variables of their own, see `Knowledge.flat`: graphs have edges between them.

    With structural zeros the variables of each pattern stay joined: then the explicit bounds are sharp nevertheless.
    Nothing is lost by it that they could prove: what they show of a graph that parts a pattern they show of a larger
    one around it that joins the pattern, and that is then releasable itself. The variables of a required sub-table stay
    joined too, and a clique that contains a forbidden one is refused like one whose critical width is too small.
    """

    known: Knowledge
    criteria: Criteria
    cooling: kernel.Cooling = COOLING
    weights: Weights | None = None
    max_bytes: int = MAX_BYTES
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = "sub_tables"

    def init(self, table: Table, seed: int, start: DecomposableGraph | None = None) -> ChainState:
        """The chain before its first step, from no edges by default.

        Where that does not keep a limit on the posterior, from the first graph that does on the way of a chain without.

        ReleaseError where not even the one-way sub-tables may be public, or one that a structural zero names, where the
        start may not, or where no graph is found that keeps the limit. InputError where the start is a graph on other
        variables, or without an at-risk cell.
        """
        self.criteria.require_total(table)
        require_at_risk(table, self.criteria.small_count)
        graph = _checked(start, self.known.flat, self.constraints.flat(table.schema))
        workspace = self._workspace(table)
        # before the start is looked at: where the one-way sub-tables are too much, no start would help
        workspace.require_one_way()
        workspace.require_zeros()
        workspace.require_counts(graph)
        workspace.place(graph, self._weights(table))
        workspace.require_wide(is_given=start is not None)
        state = workspace.state(graph, seed)
        if workspace.keeps_limit():
            return state
        return workspace.state(workspace.within_limit(state, self.cooling, is_given=start is not None), seed)

    def step(self, table: Table, state: ChainState, steps: int) -> ChainState:
        """The chain `steps` proposals later; the same in one call as in many.

        The state must be one of this chain on this table, which is not checked.
        """
        workspace = self._workspace(table)
        workspace.place(state.graph, self._weights(table))
        return workspace.run(state, self.cooling, state.step + steps)

    def _weights(self, table: Table) -> Weights:
        return (self.weights or Weights.equal(len(table.schema))).flat(table.schema)

    def _workspace(self, table: Table) -> Workspace:
        constraints = self.constraints.flat(table.schema)
        return _workspace(table, self.known, self.criteria, self.max_bytes, constraints, self.objective)


def smallest_graph(known: Knowledge, constraints: Constraints = NO_CONSTRAINTS) -> DecomposableGraph:
    """Where a chain starts: no edges but for what a structural zero or a required sub-table joins, made chordal."""
    needed = _needed(known.flat, constraints)
    return DecomposableGraph.from_cliques(chordal_cover(needed, len(known.schema)).frontier, known.schema.flat)


def _needed(known: Knowledge, constraints: Constraints) -> Release:
    if known.facts:
        require_together("decomposable", "earlier")
    return Release.of([*known.zeros.subtables, *constraints.require, *(1 << v for v in range(len(known.schema)))])


def _checked(start: DecomposableGraph | None, known: Knowledge, constraints: Constraints) -> DecomposableGraph:
    """The start graph, or the smallest one; it joins the variables of all that is needed, and of nothing forbidden."""
    schema, needed = known.schema, _needed(known, constraints)
    graph = smallest_graph(known, constraints) if start is None else _given(start, schema, needed)
    if forbidden := [clique for clique in graph.cliques if not constraints.allows(clique)]:
        which = "smallest graph with what is required" if start is None else "start graph"
        raise ReleaseError(
            f"the {which} has the clique {st.label(forbidden[0], schema)}, which contains a forbidden sub-table: no "
            "decomposable release does without; forbid less, or choose the method ordered"
        )
    return graph


def _given(start: DecomposableGraph, schema: Schema, needed: Release) -> DecomposableGraph:
    if len(start) != len(schema):
        raise InputError(
            f"the start graph has {len(start)} variables, the table {len(schema)}; give a graph on the variables of "
            "the table"
        )
    if not start.release.contains(needed):
        apart = next(t for t in needed.frontier if t not in start.release)
        raise InputError(
            f"the start graph does not join {st.label(apart, schema)}, which a structural zero names or is required; "
            "give a graph with a clique that contains it"
        )
    return start


@cached_per_thread(maxsize=1)
def _workspace(
    table: Table, known: Knowledge, criteria: Criteria, max_bytes: int, constraints: Constraints, objective: Objective
) -> Workspace:
    return Workspace(table, known, criteria, max_bytes, constraints, objective)


class Workspace:
    """What the chains of one process share for a table: marginals at the at-risk cells, and the arrays of the kernel.

    What is remembered here changes how long a chain takes, never its course. At most `max_bytes` of marginals are
    kept, the least recently used go. For one thread.
    """

    def __init__(
        self,
        table: Table,
        known: Knowledge,
        criteria: Criteria,
        max_bytes: int,
        constraints: Constraints = NO_CONSTRAINTS,
        objective: Objective = "sub_tables",
    ) -> None:
        keeps = partial(_keeps, criteria, table, known.zeros)
        self.table, self.known, self.criteria = table.flat, known.flat, criteria
        self._leveled = table, known
        table, known = self.table, self.known
        self.at_risk = table.at_risk(criteria.small_count)
        self.counts = table.counts[self.at_risk]
        # half the memory holds twice the rows; every count is at most the total
        dtype = np.int32 if table.total < 1 << 31 else np.int64
        self.work = _new_work(len(table.schema), len(self.at_risk), np.dtype(dtype), max_bytes)
        joined = [*known.zeros.subtables, *constraints.require]
        self.work.fixed[:] = independence_graph(joined, len(table.schema))
        self.rows = MarginalRows(table, self.at_risk, criteria.width, self.work, constraints.forbid, keeps)
        self.limit = criteria.get(PosteriorLimit)
        self.likely = LikelyGraphs(known, self.limit, self.rows) if self.limit else None
        self.valued = None if objective == "sub_tables" else ValuedGraphs(table, known, objective)
        self.work.numbers[kernel.ASKS] = self._asks

    @property
    def _asks(self) -> int:
        if self.valued is not None:
            return kernel.VALUED
        return 0 if self.likely is None else kernel.ALLOWED

    def place(self, graph: DecomposableGraph, weights: Weights) -> None:
        """Puts a chain on the graph."""
        corrections = weights.corrections(self.table.schema)
        self.work = work = self.work._replace(
            weights=np.array(weights.variables, np.float64),
            listed=np.array([subtable for subtable, _ in corrections], np.int64),
            corrections=np.array([correction for _, correction in corrections], np.float64),
        )
        work.neighbours[:] = graph.neighbours
        work.numbers[kernel.CLOCK] += 1
        # all that is remembered of another chain's graph goes; rows stay, which are of the table alone
        work.numbers[kernel.TERMS] = 0
        for sign, sets in ((1, graph.cliques), (-1, graph.separators)):
            for subtable in sets:
                kernel.add_term(work, subtable, self.rows.of(subtable), sign)
        work.numbers[kernel.FINGERPRINT] = np.bitwise_xor.reduce(self._edge_prints(graph), initial=0)
        work.status[:] = kernel.UNKNOWN
        work.seen[:] = kernel.EMPTY
        work.numbers[kernel.SEEN] = 0

    def widths(self) -> npt.NDArray[np.int64]:
        """(n,) width of every at-risk cell under the current graph: explicit bounds ([DKS] theorem 1)."""
        work, terms = self.work, range(self.work.numbers[kernel.TERMS])
        lower = np.zeros(len(self.at_risk), np.int64)
        for j in terms:
            lower += work.signs[j] * work.rows[work.term_rows[j]].astype(np.int64)
        # positive terms are the cliques: a set that is clique and separator at once does not occur, because a separator
        # lies within larger cliques
        upper = np.minimum.reduce([work.rows[work.term_rows[j]] for j in terms if work.signs[j] > 0])
        widths: npt.NDArray[np.int64] = upper - np.maximum(0, lower)
        return widths

    def value(self, graph: DecomposableGraph) -> float:
        """Utility of a graph, to 12 digits, by the weights of the chain that was placed."""
        work = self.work
        if self.valued is not None:
            return self.valued.of(graph, int(np.bitwise_xor.reduce(self._edge_prints(graph), initial=0)))
        corrections = zip(work.listed.tolist(), work.corrections.tolist(), strict=True)
        return graph.value(tuple(work.weights.tolist()), corrections)

    def keeps_limit(self, pair: int | None = None) -> bool:
        """Whether the current graph keeps the limit on the posterior, or that with this edge toggled; without, True."""
        return self.likely is None or self.likely.keeps(*self._proposed(pair))

    def _proposed(self, pair: int | None) -> tuple[DecomposableGraph, int]:
        """The current graph, or with this edge toggled, and its fingerprint."""
        graph, fingerprint = self._graph(), int(self.work.numbers[kernel.FINGERPRINT])
        if pair is None:
            return graph, fingerprint
        graph = graph.toggled(int(self.work.first[pair]), int(self.work.second[pair]))
        return graph, fingerprint ^ int(self.work.prints[pair])

    def _answer(self, pair: int) -> None:
        """Answers the kernel about a move: whether it is allowed, and what the graph is worth."""
        allowed = self.keeps_limit(pair)
        self.work.numbers[kernel.ANSWER] = kernel.LEGAL if allowed else kernel.REFUSED
        if allowed and self.valued is not None:
            self.work.value[2] = self.valued.of(*self._proposed(pair))

    def _edge_prints(self, graph: DecomposableGraph) -> npt.NDArray[np.int64]:
        edges = [graph.has_edge(u, v) for u, v in zip(self.work.first.tolist(), self.work.second.tolist(), strict=True)]
        return self.work.prints[np.array(edges, np.bool_)]

    def run(self, state: ChainState, cooling: kernel.Cooling, until: int) -> ChainState:
        """Advances the chain that was placed; brings the rows it needs and keeps its best graph."""
        work, best, step = self.work, state.best, state.step
        work.value[:2] = state.value, best.value
        work.random[0] = state.random
        work.numbers[kernel.ACCEPTED] = 0
        outcome = kernel.MISSING if self._can_move() else kernel.DONE
        while outcome != kernel.DONE:
            step, outcome = kernel.advance(work, cooling, self.criteria.floor, step, until)
            if outcome == kernel.MISSING:
                self.rows.bring(int(work.numbers[kernel.NEEDED]))
            elif outcome == kernel.ASKED:
                self._answer(int(work.numbers[kernel.NEEDED]))
            elif outcome == kernel.ON_TOP:
                best = self._better(best)
                work.value[1] = best.value
                kernel.mark_seen(work)
        accepted = state.accepted + int(work.numbers[kernel.ACCEPTED])
        return ChainState(self._graph(), float(work.value[0]), int(work.random[0]), until, accepted, best)

    def _better(self, best: Best) -> Best:
        """The current graph, where it ranks before the best one so far."""
        graph = self._graph()
        # anew: the kernel's value is a running sum, whose last bits depend on the way that led here
        value = self.value(graph)
        if value < best.value:
            return best
        return max(best, Best(graph, value, int(self.widths().min())), key=lambda found: found.rank)

    def state(self, graph: DecomposableGraph, seed: int) -> ChainState:
        """A chain at its first step; the graph was placed."""
        value = self.value(graph)
        return ChainState(graph, value, seed & (1 << 64) - 1, 0, 0, Best(graph, value, int(self.widths().min())))

    def within_limit(self, state: ChainState, cooling: kernel.Cooling, *, is_given: bool) -> DecomposableGraph:
        """The first graph that keeps the limit, placed, on the way of a chain that does not; it is not monotone.

        ReleaseError where the start was given, or where none is among the first `MOST_SOUGHT`.
        """
        start, asks = state.graph, self.work.numbers[kernel.ASKS : kernel.ASKS + 1]
        asks[0] = False
        try:
            for step in range(0 if is_given else MOST_SOUGHT):
                state = self.run(state, cooling, step + 1)
                if self.keeps_limit():
                    return state.graph
        finally:
            asks[0] = self._asks  # other chains share the workspace, however this one ends
        found = self.limit and self.limit.judge(self.table, self.known.plus(start.release), self.at_risk)
        why = f"the graph {start.text(self.table.schema)}, from which the search starts, makes too much likely: "
        why += found.text if found else ""
        if is_given:
            raise ReleaseError(f"{why}; give another start, or allow more")
        raise NothingReleasableError(
            f"{why}; in {MOST_SOUGHT} steps of a chain without the limit no graph kept it; give a start that does, or "
            "allow more"
        )

    def _can_move(self) -> bool:
        """A graph that is not complete has a legal addition, a complete one only deletions, of edges not fixed."""
        return bool((np.bitwise_count(self.work.fixed) < len(self.work.fixed) - 1).any())

    def _graph(self) -> DecomposableGraph:
        return DecomposableGraph.from_neighbours(tuple(self.work.neighbours.tolist()))

    # Refusals

    def require_one_way(self) -> None:
        """NothingReleasableError where no release with all one-way sub-tables reaches the width."""
        widths = self._widths_with(st.GRAND_TOTAL)
        if not self.criteria.width.is_wide(widths).all():
            raise NothingReleasableError(
                f"the minimum width {self.criteria.floor} is not reached even when only the one-way sub-tables "
                f"are public: {_width_of_one(widths)}; {_smaller(widths)}drop a variable",
                self._narrowest(widths),
            )

    def require_counts(self, graph: DecomposableGraph) -> None:
        """NothingReleasableError where the one-way sub-tables, or a start graph, break a rule on what is published."""
        one_way = Release.of(1 << v for v in range(len(self.table.schema)))
        for release, what in (
            (one_way, "every decomposable release has all one-way sub-tables"),
            (graph.release, f"the search starts from {graph.text(self.table.schema)}"),
        ):
            table, known = self._leveled
            if broken := self.criteria.broken(table, known.plus(release)):
                raise NothingReleasableError(
                    f"{broken.text}, and {what}; merge categories, ask for less, or choose the method ordered, which "
                    "can do without that sub-table",
                    broken.detail,
                )

    def require_zeros(self) -> None:
        """NothingReleasableError where none with all one-way sub-tables and one that a structural zero names does."""
        zeros, schema = self.known.zeros, self.table.schema
        for named, zero in sorted(zip(zeros.subtables, zeros.labels(schema), strict=True)):
            widths = self._widths_with(named)
            if not self.criteria.width.is_wide(widths).all():
                raise NothingReleasableError(
                    f"the minimum width {self.criteria.floor} is not reached by any decomposable release whose "
                    f"bounds are exact: the structural zero {zero} needs the sub-table {st.label(named, schema)} in "
                    f"it, and then {_width_of_one(widths)}; {_smaller(widths)}choose the method ordered, which "
                    "can do without that sub-table, or drop one of these variables",
                    self._narrowest(widths),
                )

    def _widths_with(self, clique: SubTable) -> npt.NDArray[np.int64]:
        """(n,) width of every at-risk cell under the one-way sub-tables and this clique: the smallest is critical."""
        schema = self.table.schema
        self.place(DecomposableGraph.from_cliques([clique], schema), Weights.equal(len(schema)))
        return self.widths()

    def require_wide(self, *, is_given: bool) -> None:
        """NothingReleasableError where the graph that was placed is not releasable; the detail names the cell."""
        work, widths = self.work, self.widths()
        if self.criteria.width.is_wide(widths).all():
            return
        cliques = [j for j in range(work.numbers[kernel.TERMS]) if work.signs[j] > 0]
        clique = min(cliques, key=lambda j: int(work.rows[work.term_rows[j], widths.argmin()]))
        graph, remedy = "the start graph", "drop edges of that clique"
        if not is_given:
            needed = "every structural zero and required sub-table"
            graph, remedy = f"the smallest graph that has {needed} in a clique", "choose the method ordered"
        raise NothingReleasableError(
            f"{graph} is not releasable at the minimum width {self.criteria.floor}: {_width_of_one(widths)}, "
            f"and the clique {st.label(int(work.terms[clique]), self.table.schema)} shows it best; "
            f"{_smaller(widths)}{remedy}",
            self._narrowest(widths),
        )

    def _narrowest(self, widths: npt.NDArray[np.int64]) -> str:
        cell = int(widths.argmin())
        named = self.table.schema.written(self.table.codes[self.at_risk[cell]])
        return f"the cell {named} (count {self.counts[cell]}) has the width {widths[cell]}"


def _keeps(criteria: Criteria, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
    """Of a sub-table of the chains, to which a level is a variable of its own."""
    return criteria.keeps(table, zeros, table.schema.levels.closed(subtable))


def _new_work(variables: int, cells: int, dtype: np.dtype[Any], max_bytes: int) -> kernel.ChainWork:
    ends = np.array(list(combinations(range(variables), 2)), np.int64).reshape(-1, 2)
    # rows of a graph's terms and of one proposal must fit together, whatever memory is allowed
    least = 2 * variables + 16
    # no more than there are sub-tables, nor than memory allows
    slots = min(max(least, max_bytes // (cells * dtype.itemsize)), max(least, 1 << min(variables, 24)))
    return kernel.ChainWork(
        neighbours=np.zeros(variables, np.int64),
        fixed=np.zeros(variables, np.int64),
        weights=np.ones(variables),
        listed=np.zeros(0, np.int64),
        corrections=np.zeros(0),
        first=np.ascontiguousarray(ends[:, 0]),
        second=np.ascontiguousarray(ends[:, 1]),
        # fixed: two graphs of one print are confused, which must not happen in one run and not in another
        prints=np.random.default_rng(0).integers(1, 1 << 62, len(ends)),
        status=np.zeros(len(ends), np.int64),
        terms=np.zeros(2 * variables + 4, np.int64),
        signs=np.zeros(2 * variables + 4, np.int64),
        term_rows=np.zeros(2 * variables + 4, np.int64),
        rows=np.zeros((slots, cells), dtype),
        stamps=np.zeros(slots, np.int64),
        exposed=np.zeros(least * cells, np.int64),
        span=np.zeros((slots, 2), np.int64),
        keys=np.full(2 * MAX_KEYS, kernel.EMPTY),  # half full at most, so that a probe soon ends
        places=np.zeros(2 * MAX_KEYS, np.int64),
        seen=np.full(kernel.SEEN_SLOTS, kernel.EMPTY),
        value=np.zeros(3),
        random=np.zeros(1, np.uint64),
        numbers=np.zeros(8, np.int64),
    )


def _width_of_one(widths: npt.NDArray[np.int64]) -> str:
    return f"an at-risk cell has the width {widths.min()}"


def _smaller(widths: npt.NDArray[np.int64]) -> str:
    """What there is to choose before another remedy: a minimum width is 1 at least."""
    return f"choose a minimum width of at most {widths.min()}, or " if widths.min() else ""
