"""A search whose refusals disclose nothing: it evaluates drawn tables, and the true one only in the end.

Simulatable auditing (Kenthapadi, Mishra and Nissim 2005): an intruder with all that is released could repeat each
decision, because it is made from that alone. So a refusal discloses nothing of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from sdc.config.capabilities import require_together
from sdc.config.features import HIERARCHIES, ZEROS
from sdc.config.release import SimulatableConfig
from sdc.intruder.draws import Draws
from sdc.model import subtable as st
from sdc.model.errors import InputError, NothingReleasableError
from sdc.model.fact import NO_FACTS
from sdc.model.graph import decompose
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Depth, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.search.constraints import Constraints
from sdc.search.found import Found
from sdc.utility.measures import Weights, weighted_sub_tables

MAX_VARIABLES = 16  # all their sub-tables are candidates
DRAWS_PER_UNIT = 8


@dataclass(frozen=True)
class SimulatedStep:
    """One decision.

    length    sub-tables released before it
    added     the candidate
    accepted  whether it was
    breaking  how many draws would break the criterion with it; of a refused one those that were looked at
    """

    length: int
    added: SubTable
    accepted: bool
    breaking: int


@dataclass(frozen=True, eq=False, repr=False)
class SimulatableRelease(Found):
    """The release that grew, and every decision that led to it."""

    steps: tuple[SimulatedStep, ...]


@dataclass(frozen=True, eq=False)
class _DrawnQuestion:
    """Whether tables drawn given `release`, with these seeds, would break the criterion under `larger`."""

    criteria: Criteria
    release: Release
    larger: Release
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class SimulatableSearch:
    """Grows a decomposable release by an order that is public, each step by what is released already.

    Candidates come first where they are required or within what is; then by the number of their variables, then what is
    worth most by the weights, then by the order of the variables. One is looked at where the release with it is
    decomposable: then tables can be drawn exactly and independently, and their bounds are explicit. What was refused,
    and what contains it, is not asked again. The true table is asked in the end, about the whole release.
    """

    evaluator: RiskEvaluator
    simulation: SimulatableConfig = field(default_factory=SimulatableConfig)
    weights: Weights | None = None
    on_step: Callable[[SimulatedStep], None] = lambda step: None
    constraints: Constraints = field(default_factory=Constraints)

    def run(self) -> SimulatableRelease:
        """The release, judged by the criterion.

        NothingReleasableError where the true table breaks the criterion under it: then nothing may be published, and
        no earlier decision has disclosed that. ConfigError for structural zeros, InputError for too many
        variables.
        """
        table = self.evaluator.table
        self._check(table)
        released, steps, refused = Release.of([st.GRAND_TOTAL]), list[SimulatedStep](), list[SubTable]()
        while (candidate := self._next(released, refused)) is not None:
            larger = Release.of([*released.frontier, candidate])
            breaking = self.breaking(released, larger)
            step = SimulatedStep(
                released.sub_tables(table.schema), candidate, breaking <= self.simulation.most, breaking
            )
            self.on_step(step)
            steps.append(step)
            if step.accepted:
                released = larger
            else:
                refused.append(candidate)
        self._require(released)
        evaluation = self.evaluator.evaluate(released)
        if not self.evaluator.accepts(evaluation):
            (low, high), likely, broken = evaluation.margin, evaluation.assessment.likely, evaluation.assessment.broken
            by_width = f"min width {low} to {high}, required {self.evaluator.criteria.floor}"
            raise NothingReleasableError(
                f"the release found, of {released.sub_tables(table.schema)} sub-tables, breaks the criterion in "
                f"the true table ({broken.text if broken else by_width}"
                f"{'; ' + likely.text if likely else ''}); nothing is published, "
                f"choose a smaller share than {self.simulation.share:g} of draws that may break it"
            )
        return SimulatableRelease(evaluation, tuple(steps))

    def _check(self, table: Table) -> None:
        self.evaluator.criteria.require_total(table)
        if len(table.schema) > MAX_VARIABLES:
            raise InputError(
                f"the table has {len(table.schema)} variables, and the method simulatable evaluates all sub-tables "
                f"of at most {MAX_VARIABLES}; choose fewer variables, or the method ordered"
            )
        if self.evaluator.known.zeros:
            require_together("simulatable", ZEROS)
        if self.evaluator.known.facts:
            require_together("simulatable", "earlier")
        if not table.schema.levels.is_flat:
            require_together("simulatable", HIERARCHIES)

    def _require(self, released: Release) -> None:
        """NothingReleasableError where a required sub-table was refused, which is as public as every decision."""
        lacking = [t for t in self.constraints.require if t not in released]
        if lacking and not self.constraints.best_subset:
            names = ", ".join(st.label(t, self.evaluator.table.schema) for t in lacking)
            raise NothingReleasableError(
                f"the required {names} cannot be added by decisions that reveal nothing: too many draws break the "
                "criterion with it, or the release would not stay decomposable; require less, allow a larger share, "
                "set release.on_conflict to drop, or choose the method ordered"
            )

    def _next(self, released: Release, refused: Sequence[SubTable]) -> SubTable | None:
        """The first candidate that is left and keeps the release decomposable."""
        schema = self.evaluator.table.schema
        variables = len(schema)
        listed = _in_order(schema, self.weights or Weights.equal(variables))
        # what is required is as public as the rest of the order
        within = Release.of(self.constraints.require)
        first = [t for t in listed if t in within] if self.constraints.require else []
        for candidate in self.constraints.allowed([*first, *listed]):
            if candidate in released or any(candidate & smaller == smaller for smaller in refused):
                continue
            if decompose(Release.of([*released.frontier, candidate]), variables) is not None:
                return candidate
        return None

    def breaking(self, released: Release, larger: Release) -> int:
        """How many draws given a decomposable release break the criterion with a larger one.

        They are looked at no further than to one too many.
        """
        simulation, breaking = self.simulation, 0
        for units in self._units(released, larger):
            table, executor = self.evaluator.table, self.evaluator.executor
            for broken in executor.run(broken_draws, table, units):
                breaking += broken
                if breaking > simulation.most:
                    return breaking
        return breaking

    def _units(self, released: Release, larger: Release) -> Iterator[list[_DrawnQuestion]]:
        """Questions, as many at once as would be needed to refuse, and as many again."""
        seeds = _seeds(self.simulation, released, self.evaluator.table.schema)
        cut = [seeds[begin : begin + DRAWS_PER_UNIT] for begin in range(0, len(seeds), DRAWS_PER_UNIT)]
        units = [_DrawnQuestion(self.evaluator.criteria, released, larger, some) for some in cut]
        for begin in range(0, len(units), 4):
            yield units[begin : begin + 4]


@lru_cache(maxsize=4)
def _in_order(schema: Schema, weights: Weights) -> tuple[SubTable, ...]:
    """All sub-tables of a variable or more, in the order in which they are candidates."""

    def key(sub_table: SubTable) -> tuple[int, float, int]:
        within = weighted_sub_tables(Release.of([sub_table]), weights, schema)
        return st.dimension(sub_table), -within, sub_table

    return tuple(sorted(range(1, 1 << len(schema)), key=key))


def _seeds(simulation: SimulatableConfig, released: Release, schema: Schema) -> tuple[int, ...]:
    """Seeds of the draws given a release: the same whatever the table."""
    sequence = np.random.SeedSequence([simulation.seed, len(released.frontier), released.sub_tables(schema)])
    return tuple(sequence.generate_state(simulation.draws, np.uint64).tolist())


def broken_draws(table: Table, unit: _DrawnQuestion) -> int:
    """The unit: how many of the tables drawn break the criterion.

    Of the table nothing enters but its marginals in the release, see `Draws`.
    """
    return sum(not _keeps(_drawn(table, unit.release, seed), unit.criteria, unit.larger) for seed in unit.seeds)


def _keeps(drawn: Table, criteria: Criteria, release: Release) -> bool:
    # what is known beside the release of its table was refused before
    known = Knowledge(drawn.schema, drawn.total, NOTHING, NO_ZEROS, NO_FACTS)
    if not len(drawn.at_risk(criteria.small_count)):
        return criteria.broken(drawn, known.plus(release)) is None
    # of a decomposable release the bounds are explicit: nothing is searched
    effort = Effort(depth=Depth.REFUTE)
    return criteria.judge(drawn, known, release, criteria.pool(drawn), effort).verdict is Verdict.SAFE


@lru_cache(maxsize=DRAWS_PER_UNIT * 4)
def _drawn(table: Table, release: Release, seed: int) -> Table:
    return _draws(table, release).table(seed)


@lru_cache(maxsize=2)
def _draws(table: Table, release: Release) -> Draws:
    return Draws(table, Knowledge(table.schema, table.total, release, NO_ZEROS, NO_FACTS))
