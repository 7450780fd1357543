"""Growths as units: a worker grows a whole release by itself, side by side with others that grow another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from sdc.bounds.method import is_small
from sdc.checkpoint import NO_CHECKPOINT, Checkpoint
from sdc.config.values import Objective
from sdc.deadline import NEVER, Deadline
from sdc.events import STEP, emit
from sdc.feasible.witnesses import Witnesses
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.table import Table
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.effort import Depth, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutation, Refutations
from sdc.risk.verdict import Policy
from sdc.search.constraints import Constraints
from sdc.search.grown import Grown
from sdc.search.ordered import OrderedSearch
from sdc.search.step import SearchStep, outlook
from sdc.utility.measures import Weights

SECONDS_TO_END = 60.0  # that workers have which end their search by themselves
MOST_CELLS = 100_000  # non-zero cells: the worker has for itself what the build's process has of a larger table


@dataclass(frozen=True, eq=False)
class Growth:
    """An ordered search from nothing, or from a release that was accepted, the `start`, where there is one.

    known   what is public already
    first   a release whose sub-tables are tried before all others
    proven  what is required, as it was accepted, where anything is
    refutations  those found before
    """

    known: Knowledge
    criteria: Criteria
    policy: Policy
    effort: Effort
    widths: CriticalWidths
    constraints: Constraints = field(default_factory=Constraints)
    weights: Weights | None = None
    start: Grown | None = None
    first: Release = NOTHING
    deadline: Deadline = NEVER
    checkpoint: Checkpoint = NO_CHECKPOINT
    proven: Grown | None = None
    objective: Objective = "sub_tables"
    witnesses: Witnesses | None = None
    refutations: tuple[Refutation, ...] = ()


def fits_a_worker(table: Table) -> bool:
    """Whether growths are units; of small tables every question is answered at once, so they are none."""
    return len(table) <= MOST_CELLS and not is_small(table.schema)


def grow(table: Table, growth: Growth) -> Grown:
    """What the search finds, nothing where its start is not accepted; a caller evaluates again what it relies on."""
    what, steps = "growth" if growth.start is None else "extension", list[SearchStep]()

    def on_step(step: SearchStep) -> None:
        steps.append(step)
        emit(STEP, f"search: {what}, {len(steps):,} asked, {step.length:,} sub-tables before; {outlook(steps)}")

    kept = Refutations(growth.known.zeros).plus(*growth.refutations)
    of = growth.criteria, growth.policy, growth.effort
    evaluator = RiskEvaluator(table, growth.known, *of, refutations=kept, witnesses=growth.witnesses)
    asked = evaluator, growth.widths, on_step, growth.constraints, growth.weights, growth.deadline, growth.checkpoint
    search = OrderedSearch(*asked, objective=growth.objective)
    if growth.start is not None:
        evaluator.learn(growth.start.proof, growth.start.release)
        start = evaluator.evaluate(growth.start.release)
        if not evaluator.accepts(start):
            return Grown(Release.of([]), growth.start.proof)
        found = search.extended(start, growth.first)
    else:
        if growth.proven is not None:
            evaluator.learn(growth.proven.proof, growth.proven.release)
            search.proven = evaluator.evaluate(growth.proven.release, Depth.REFUTE)
        found = search.run()
    course = found.steps, found.unasked, found.is_ended, found.refutations, found.resumed
    return Grown(found.release, found.proof, *course)


def evaluated(search: OrderedSearch, grown: Grown) -> Evaluation:
    """The evaluation of what a worker found, by its proof and no further search; `on_step` hears its steps."""
    for step in grown.steps:
        search.on_step(step)
    evaluation = grown.evaluation(search.evaluator.anew())
    if evaluation is None:
        raise RuntimeError("a worker's release is not proven by what it sent; this is a bug in sdc: report it")
    return evaluation
