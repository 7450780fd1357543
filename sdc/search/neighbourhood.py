"""Large neighbourhood search: a release gives up what refusals rest on, and takes what then fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

from sdc.config.release import NeighbourhoodConfig
from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Evaluation
from sdc.risk.effort import Depth
from sdc.risk.refutation import Refutation, Refutations
from sdc.search.grown import Grown
from sdc.search.growth import SECONDS_TO_END, Growth, evaluated, fits_a_worker, grow
from sdc.search.ordered import OrderedSearch
from sdc.search.step import SearchStep

TRIES = 4  # of a round, whatever the number of workers, so that this decides nothing
MOST_QUESTIONS = 60  # of each try
PART = "neighbourhood"  # of a checkpoint
PAUSE = 10  # rounds in which nothing is given up that was given up before


@dataclass(frozen=True)
class Exchange:
    """A sub-table that a release gives up, with all that contain it.

    left      what is left of the release
    hindered  candidates that may fit without it
    """

    given_up: SubTable
    left: Release
    hindered: tuple[SubTable, ...]


@dataclass(frozen=True, eq=False)
class Improved:
    """The best release that the rounds came to, with the steps and refutations on the way from the first.

    is_ended  whether the deadline came before all rounds
    resumed   whether the checkpoint held and the rounds went on from it; None where none was there
    """

    evaluation: Evaluation
    steps: tuple[SearchStep, ...] = ()
    refutations: tuple[Refutation, ...] = ()
    rounds: int = 0
    is_ended: bool = False
    resumed: bool | None = None


@dataclass(eq=False)
class NeighbourhoodSearch:
    """Rounds of exchanges: each tries TRIES of them side by side, and goes on with the best unless that is worse.

    What is given up is drawn by `settings.seed`: rather what hinders much, and with which little goes. A release that
    gives something up is safe by the same proof; it grows as `search` does, first by what was hindered. The method is
    that of Shaw (1998), "Using constraint programming and local search methods". The best release is kept in the
    checkpoint of `search`; a killed build begins its rounds with it, once it is checked, and may end elsewhere.

    value  the utility of a release
    """

    search: OrderedSearch
    settings: NeighbourhoodConfig
    value: Callable[[Release], float]
    deadline: Deadline = NEVER
    _last: dict[SubTable, int] = field(default_factory=dict, init=False)
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.settings.seed)

    def run(self, start: Evaluation, refutations: Sequence[Refutation] = ()) -> Improved:
        """From a release that was accepted, and the refutations that are known.

        It ends after all rounds, at the deadline, or where there is nothing left to give up.
        """
        evaluator, rounds = self.search.evaluator, 0
        kept = Refutations(evaluator.known.zeros).plus(*refutations)
        is_unit = fits_a_worker(evaluator.table)
        executor = self.deadline.limits(evaluator.executor if is_unit else IN_PROCESS, SECONDS_TO_END)
        now = best = self._resumed(Improved(start))
        while rounds < self.settings.rounds and not self.deadline.is_over:
            chosen = self.drawn(self.exchanges(now.evaluation.release, kept), now.evaluation.release, rounds)
            if not chosen:
                break
            units = [self._growth(one, now.evaluation, kept, is_unit) for one in chosen]
            try:
                tried = list(executor.run(grow, evaluator.table, units))
            except DeadlineError:  # workers that do not end
                break
            rounds += 1
            kept = kept.plus(*(one for grown in tried for one in grown.refutations))
            grown = max(tried, key=lambda one: self.value(one.release))
            before, value = now.evaluation.release, self.value(grown.release)
            if value >= self.value(before) and grown.release != before:
                steps, proofs = (*now.steps, *grown.steps), (*now.refutations, *grown.refutations)
                now = replace(now, evaluation=evaluated(self.search, grown), steps=steps, refutations=proofs)
                if value > self.value(best.evaluation.release):
                    best = now
                    self._keep(best)
        is_ended = self.deadline.is_over and rounds < self.settings.rounds
        return replace(best, rounds=rounds, is_ended=is_ended)

    def _keep(self, best: Improved) -> None:
        grown = Grown(best.evaluation.release, best.evaluation.proof, best.steps, refutations=best.refutations)
        if self.search.checkpoint.above is not None:
            self.search.checkpoint.write(PART, grown.kept(self.search.evaluator.table.schema))

    def _resumed(self, start: Improved) -> Improved:
        """The release of the checkpoint, where that holds and is worth more than the start."""
        if (kept := self.search.checkpoint.found.get(PART)) is None:
            return start
        with suppress(LookupError, TypeError, ValueError):
            grown = Grown.read(kept, self.search.evaluator.table.schema)
            required = all(t in grown.release for t in self.search.constraints.require)
            is_better = self.value(grown.release) > self.value(start.evaluation.release)
            evaluation = grown.evaluation(self.search.evaluator.anew()) if required and is_better else None
            if evaluation is not None:
                return Improved(evaluation, grown.steps, grown.refutations, resumed=True)
        return replace(start, resumed=False)

    def exchanges(self, release: Release, kept: Refutations) -> list[Exchange]:
        """All that a release can give up for candidates that do not fit beside it, in the order of their numbers.

        Of the candidates those count whose smaller sub-tables are all released. What is required is never given up.
        Where no proof names what hinders a candidate, it is each largest released sub-table with a variable of it.
        """
        own, schema = self.search, self.search.evaluator.table.schema
        hindered = dict[SubTable, list[SubTable]]()
        for candidate in own.candidates():
            if candidate in release or any(child not in release for child in st.children(candidate, schema) if child):
                continue
            knowledge = own.evaluator.knows(release.add(candidate))
            known = kept.of(knowledge, own.evaluator.criteria.floor)
            near = (t for t in release.frontier if t & candidate and st.ways(t, schema) > 1)
            for support in near if known is None else known.support:
                is_needed = any(st.is_within(support, required) for required in own.constraints.require)
                if support and support in release and not st.is_within(support, candidate) and not is_needed:
                    hindered.setdefault(support, []).append(candidate)
        return [
            Exchange(t, Release.of(own.constraints.without(t, release.frontier, schema)), tuple(stopped))
            for t, stopped in sorted(hindered.items())
        ]

    def drawn(self, listed: Iterable[Exchange], release: Release, number: int) -> list[Exchange]:
        """At most TRIES different ones for a round of this number; none where all were given up lately."""
        schema, chosen = self.search.evaluator.table.schema, list[Exchange]()
        left = [one for one in listed if self._last.get(one.given_up, -PAUSE) <= number - PAUSE]
        whole = release.sub_tables(schema)
        while left and len(chosen) < TRIES:
            lost = [whole - one.left.sub_tables(schema) for one in left]
            likely = [(len(one.hindered) / gone) ** 2 for one, gone in zip(left, lost, strict=True)]
            (one,) = self._random.choices(left, likely)
            chosen.append(one)
            left.remove(one)
        self._last |= {one.given_up: number for one in chosen}
        return chosen

    def _growth(self, exchange: Exchange, evaluation: Evaluation, kept: Refutations, is_unit: bool) -> Growth:
        own, evaluator = self.search, self.search.evaluator.anew()
        evaluator.resume(evaluation)
        smaller = evaluator.evaluate(exchange.left, Depth.REFUTE)
        effort = replace(evaluator.effort, executor=IN_PROCESS) if is_unit else evaluator.effort
        return Growth(
            *(evaluator.known, evaluator.criteria, evaluator.policy, effort, own.widths),
            constraints=replace(own.constraints, questions=MOST_QUESTIONS),
            weights=own.weights,
            start=Grown(smaller.release, smaller.proof),
            first=Release.of(exchange.hindered),
            deadline=self.deadline,
            objective=own.objective,
            witnesses=evaluator.witnesses,
            refutations=tuple(kept.found.values()),
        )
