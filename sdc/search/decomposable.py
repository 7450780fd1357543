"""The best decomposable release: annealing chains in parallel, round by round ([KDSF] section 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sdc.config.release import AnnealingConfig
from sdc.config.values import Objective
from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import InputError, many
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.criteria import Evaluation
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.search.annealing import AnnealingChain, ChainState, cooling_of, smallest_graph
from sdc.search.chain_kernel import Cooling, temperature
from sdc.search.constraints import Constraints
from sdc.search.found import Found
from sdc.search.required import Required, RequiredSearch
from sdc.utility.halvings import Halvings
from sdc.utility.measures import Weights, weighted_sub_tables


@dataclass(frozen=True)
class TraceRow:
    """Where a chain was at the end of a round; each step was one proposal, the last at this temperature."""

    round: int
    chain: int
    step: int
    temperature: float
    value: float
    best_value: float
    accepted: int


@dataclass(frozen=True)
class SearchState:
    """All chains between two rounds: a run that is resumed from here ends as if it had never stopped.

    settings  what the run was started with; another run does not take it over
    agreed    rounds in a row in which all chains had the same best value
    """

    settings: str
    round: int
    agreed: int
    chains: tuple[ChainState, ...]
    trace: tuple[TraceRow, ...]


@dataclass(frozen=True, eq=False, repr=False)
class DecomposableRelease(Found):
    """The release found, its graph with the value that was maximised, and every round that led to it.

    agreed    rounds in a row, at the end, in which all chains had the same best value
    rounds    so many were run
    is_ended  whether the deadline ended the chains before their last round
    """

    graph: DecomposableGraph
    value: float
    agreed: int
    trace: tuple[TraceRow, ...]
    rounds: int
    is_ended: bool = False


@dataclass(frozen=True)
class DecomposableSearch:
    """Anneals several chains with seeds of their own; the same result for any number of workers.

    weights     of variables and sub-tables; none: the utility is the number of sub-tables
    objective   sub_tables, or reconstruction: the utility is then by how many halvings a release brings that nearer
    start       the graph that chains start from, be it named in `annealing` or not; no edges by default
    checkpoint  receives the state after each round; `run(resume=state)` goes on from there
    deadline    ends them; of a round that was begun nothing counts

    Of releases with the largest value the one with the largest width wins, then that with the first frontier.
    InputError for weights of other variables.
    """

    evaluator: RiskEvaluator
    annealing: AnnealingConfig = field(default_factory=AnnealingConfig)
    weights: Weights | None = None
    start: DecomposableGraph | None = None
    checkpoint: Callable[[SearchState], None] = lambda state: None
    constraints: Constraints = field(default_factory=Constraints)
    deadline: Deadline = NEVER
    objective: Objective = "sub_tables"

    def __post_init__(self) -> None:
        variables = len(self.evaluator.table.schema)
        if self.weights is not None and len(self.weights.variables) != variables:
            raise InputError(
                f"{many(len(self.weights.variables), 'weight')} for {many(variables, 'variable')}; give one for each"
            )

    def run(self, resume: SearchState | None = None) -> DecomposableRelease:
        """The best release of all chains, assessed by the criterion.

        ReleaseError where not even the one-way sub-tables reach the width, or with them one that a structural zero
        names, or where the start does not. InputError where `resume` is of another search, or the start of another
        table.
        """
        state = self._init() if resume is None else self._own(resume)
        while not self._is_over(state) and not self.deadline.is_over:
            try:
                state = self._next(state)
            except DeadlineError:
                break
            self.checkpoint(state)
        best = max((chain.best for chain in state.chains), key=lambda found: found.rank)
        evaluation = self.evaluator.evaluate(best.graph.release)
        if evaluation.verdict is not Verdict.SAFE:
            raise RuntimeError("a chain left the releases that satisfy the criterion; this is a bug in sdc: report it")
        schema, value = self.evaluator.table.schema, best.value
        if not schema.levels.is_flat:  # to the chains a level is a variable of its own
            value = self.value(evaluation.release)
        is_ended = not self._is_over(state)
        return DecomposableRelease(evaluation, best.graph, value, state.agreed, state.trace, state.round, is_ended)

    def value(self, release: Release) -> float:
        """The utility of any release; InputError where it is by a reconstruction that needs too many cells."""
        if self.objective != "sub_tables":
            return Halvings(self.evaluator.table, self.evaluator.known, self.objective).of(release)
        return weighted_sub_tables(release, self._weights, self.evaluator.table.schema)

    @property
    def _weights(self) -> Weights:
        return self.weights or Weights.equal(len(self.evaluator.table.schema))

    def required(self) -> Required | None:
        """Which required sub-tables fit into one decomposable release, by the smallest around them; None for none."""
        if not self.constraints.require:
            return None
        evaluator = self.evaluator.anew()

        def evaluate(release: Release) -> Evaluation:
            return evaluator.evaluate(smallest_graph(evaluator.known, Constraints(release.frontier)).release)

        def accepts(evaluation: Evaluation) -> bool:
            # a limit on the posterior is not monotone: what breaks it now may keep it with more
            return evaluator.criteria.width.is_wide(evaluation.assessment.min_width[0])

        schema = evaluator.table.schema
        worth = {t: self._weights.of_sub_table(t, schema) for t in self.constraints.require}
        nothing = evaluate(Release.of([]))
        if not accepts(nothing):
            return None  # nothing decomposable may go out, whatever is required: the search says so
        return RequiredSearch(evaluate, accepts, worth).run(self.constraints.require, nothing)

    def _init(self) -> SearchState:
        seeds = np.random.SeedSequence(self.annealing.seed).generate_state(self.annealing.chains, np.uint64).tolist()
        chains = tuple(self._chain(k).init(self.evaluator.table, seed, self.start) for k, seed in enumerate(seeds))
        return SearchState(self._settings, 0, 0, chains, ())

    def _own(self, state: SearchState) -> SearchState:
        if state.settings != self._settings:
            raise InputError(
                f"the search to resume was started with {state.settings}, this one with {self._settings}; give the "
                "same settings and table, or begin anew"
            )
        return state

    @property
    def _settings(self) -> str:
        """What the result depends on, as text."""
        table, criteria = self.evaluator.table, self.evaluator.criteria
        start = None if self.start is None else self.start.text(table.schema)
        own = f"{self.objective}, {self.annealing}, {self.weights}, {start}, {self.constraints}"
        zeros = f"{self.evaluator.known.zeros}, " if self.evaluator.known.zeros else ""
        return f"table {table.digest[:12]}, {zeros}{criteria}, {own}"

    def _is_over(self, state: SearchState) -> bool:
        patience = self.annealing.patience
        agree = patience and len(state.chains) > 1 and state.agreed >= patience
        return bool(agree) or state.round >= self.annealing.rounds

    def _next(self, state: SearchState) -> SearchState:
        """One round: every chain a unit of its own, then the exchanges."""
        until = -(-self.annealing.steps * (state.round + 1) // self.annealing.rounds)
        units = [(self._chain(k), chain, until - chain.step) for k, chain in enumerate(state.chains)]
        executor = self.deadline.limits(self.evaluator.executor)
        chains = tuple(executor.run(annealing_chains, self.evaluator.table, units))
        rows = tuple(self._row(state.round, k, chain) for k, chain in enumerate(chains))
        before, after = ({chain.best.value for chain in all_chains} for all_chains in (state.chains, chains))
        agreed = state.agreed + 1 if len(after) == 1 and before == after else int(len(after) == 1)
        if self.annealing.tempering:
            chains = self._exchanged(chains, state.round)
        return SearchState(state.settings, state.round + 1, agreed, chains, state.trace + rows)

    def _chain(self, position: int) -> AnnealingChain:
        """The chain at that place of the ladder, or any of those that cool alike."""
        known, criteria, cooling = self.evaluator.known, self.evaluator.criteria, self._cooling(position)
        return AnnealingChain(
            known, criteria, cooling, self.weights, constraints=self.constraints, objective=self.objective
        )

    def _cooling(self, position: int) -> Cooling:
        return cooling_of(self.annealing, position, self.objective)

    def _row(self, round_: int, position: int, chain: ChainState) -> TraceRow:
        last = float(temperature(self._cooling(position), max(0, chain.step - 1)))
        return TraceRow(round_, position, chain.step, last, chain.value, chain.best.value, chain.accepted)

    def _exchanged(self, chains: Sequence[ChainState], round_: int) -> tuple[ChainState, ...]:
        """Neighbours on the ladder, in even and odd rounds other ones, exchange their graphs.

        With probability min(1, exp((1/T_i - 1/T_j) (u_j - u_i))), which keeps the distribution of every temperature.
        """
        result, generator = list(chains), np.random.default_rng([self.annealing.seed, round_])
        for i in range(round_ % 2, len(result) - 1, 2):
            colder = 1 / self._cooling(i).start - 1 / self._cooling(i + 1).start
            one, other = result[i], result[i + 1]
            if generator.random() < np.exp(min(0.0, colder * (other.value - one.value))):
                result[i] = replace(one, graph=other.graph, value=other.value)
                result[i + 1] = replace(other, graph=one.graph, value=one.value)
        return tuple(result)


def annealing_chains(table: Table, unit: tuple[AnnealingChain, ChainState, int]) -> ChainState:
    """The unit (chain, its state, steps) that many steps later."""
    chain, state, steps = unit
    return chain.step(table, state, steps)
