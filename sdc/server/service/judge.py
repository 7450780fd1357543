"""The judge of a server: what the criterion says of what is public with one sub-table more, and what shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from sdc.bounds.method import is_small
from sdc.config.capabilities import require_together
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import NothingReleasableError, NotReleasableError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTable
from sdc.model.table import Table
from sdc.protect.release import protect
from sdc.protect.request import ProtectionRequest
from sdc.risk.assessment import Witness
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.effort import Budget, Depth, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict

DownSet = int
"""Bit T is set where the sub-table of number T is released."""


@dataclass(eq=False)
class Verdicts:
    """What is known of the releases of a table of few variables; `judge` is asked where it does not follow."""

    schema: Schema
    judge: Callable[[Release], bool]
    _safe: list[DownSet] = field(default_factory=list)
    _unsafe: list[DownSet] = field(default_factory=list)
    _cached: dict[DownSet, bool] = field(default_factory=dict)

    @cached_property
    def below(self) -> Mapping[SubTable, DownSet]:
        """Of each sub-table all that are public with it."""
        every = st.subsets(st.full(len(self.schema)), self.schema)
        return {subtable: sum(1 << t for t in st.subsets(subtable, self.schema)) for subtable in every}

    def down_set(self, release: Release) -> DownSet:
        found = 0
        for element in release.frontier:
            found |= self.below[element]
        return found

    def is_safe(self, released: DownSet, subtable: SubTable) -> bool:
        """Whether the release with one sub-table more is safe."""
        larger = released | self.below[subtable]
        if larger not in self._cached:
            self._cached[larger] = self._found(larger)
        return self._cached[larger]

    def _found(self, larger: DownSet) -> bool:
        if any(larger & ~known == 0 for known in self._safe):
            return True
        if any(known & ~larger == 0 for known in self._unsafe):
            return False
        answer = self.judge(Release.of(t for t in self.below if larger >> t & 1))
        if answer:
            self._safe = [known for known in self._safe if known & ~larger] + [larger]
        else:
            self._unsafe = [known for known in self._unsafe if larger & ~known] + [larger]
        return answer


MOST_LISTED = 20  # variables, of whose sub-tables each one's status is listed
MOST_EXACT = 8  # variables of a small table, with a bit for each of their sub-tables
SECONDS_PER_CELL = 1.0  # of a reference core; a walk that succeeds mostly has after a fifth of it


@dataclass(frozen=True)
class Finding:
    """What was found of one question: the verdict, (lo, hi) of the min width, and the cell that shows it."""

    verdict: Verdict
    min_width: tuple[int, int]
    witness: Witness | None = None


@dataclass(frozen=True)
class Survey:
    """Sub-tables found to be unreleasable, the minimal ones; of how many it was looked, and how many were open."""

    unreleasable: tuple[SubTable, ...]
    looked_at: int
    of: int


FoundSuppression: TypeAlias = tuple[SuppressedTable | None, Proof]
"""A suppressed table, None where it may go out whole, and what shows that all is safe with it."""


class Judge:
    """Holds the table and the feasible tables found so far, which speak for larger releases too.

    What is public, suppressed tables too, is part of each question: it remembers no state. `reveals` says whether a
    sub-table may be released that contains one which is a suppressed table. ConfigError where the criteria are not
    monotone: then there are no frontiers.
    """

    def __init__(
        self,
        table: Table,
        known: Knowledge,
        criteria: Criteria,
        effort: Effort | None = None,
        *,
        reveals: bool = False,
    ) -> None:
        require_together(*criteria.settings, "server")
        known.check_is_of(table)
        criteria.check(table.schema)
        self.table, self.known, self.criteria, self.reveals = table, known, criteria, reveals
        self._asked = criteria  # with what is suppressed by now
        self._effort, self._pool = effort or Effort(), criteria.pool(table)
        self.executor = self._effort.executor
        self._parts, self._known_now = NO_SUPPRESSED_TABLES, known  # what the witness pool is of
        self._last: Evaluation | None = None
        self.verdicts = Verdicts(table.schema, self._is_safe)

    def anew(self) -> Judge:
        """A judge of another server of the same table, which shares what is known of releases of a small one."""
        judge = Judge(self.table, self.known, self.criteria, self._effort, reveals=self.reveals)
        judge.verdicts = self.verdicts
        return judge

    @property
    def is_exact(self) -> bool:
        """Whether every question is decided, by exact bounds; but beside what was answered with suppressed cells."""
        return is_small(self.table.schema) and len(self.table.schema) <= MOST_EXACT

    def decides(self, state: State) -> bool:
        """Whether it is exact of what is public then: small cells of a suppressed table are shown to move, or not."""
        return self.is_exact and not state.suppressed_tables.tables

    @property
    def found(self) -> Proof | None:
        """What shows the answer to the question that was asked last."""
        return None if self._last is None else self._last.proof

    def support(self, state: State) -> Proof:
        """What is known that shows cells to be able to move under what is public."""
        self._turn_to(state)
        return Support(self._known_now.plus(state.released), self._pool).proof()

    def require_safe(self, first: Release, seconds: float) -> None:
        """NothingReleasableError where what is to be public first is not proven to be safe."""
        self.criteria.require_total(self.table)
        found = self._judged(State.first(self.table.schema, first), st.GRAND_TOTAL, Depth.FULL, seconds)
        if found.verdict is not Verdict.SAFE:
            (low, high), number, broken = found.margin, first.sub_tables(self.table.schema), found.assessment.broken
            by_width = f"min width {low} to {high}, required {self.criteria.width.min_width}"
            raise NothingReleasableError(
                f"the first release of {number} sub-tables is not proven safe ({broken.text if broken else by_width}); "
                "start with less, such as server.start: total",
                broken.detail if broken else "",
            )
        self._pool = found.pool

    def ask(self, state: State, subtable: SubTable, seconds: float, depth: Depth = Depth.BRIEF) -> Finding:
        """What the criterion says of what is public with a sub-table more, within seconds of a reference core."""
        found = self._judged(state, subtable, depth, seconds)
        return Finding(found.verdict, found.margin, next(iter(found.assessment.witnesses), None))

    def settle(self, state: State) -> None:
        """So much is public from now on: of what was found last what shows it is kept, where that was asked."""
        if self._last is not None and (self._last.asked, self._parts) == (state.released, state.suppressed_tables):
            self._pool = self._last.pool

    def learn(self, proof: Proof, state: State) -> None:
        """Feasible tables found elsewhere under what is public then; those that are not feasible then are left out."""
        self._turn_to(state)
        self._pool = self._pool.learnt(proof, self._known_now.plus(state.released))

    def glance(self, state: State, subtable: SubTable) -> Verdict:
        """What is known at once, without a search; exact of a small table."""
        if self.decides(state):
            return self.ask(state, subtable, SECONDS_PER_CELL).verdict
        return self._judged(state, subtable, Depth.REFUTE, SECONDS_PER_CELL, refute_cells=0).verdict

    def in_part(self, state: State, subtable: SubTable, seconds: float) -> FoundSuppression:
        """The sub-table but for suppressed cells, beside what is public, within seconds of a reference core.

        NotReleasableError where nothing was found that is proven.
        """
        self._turn_to(state)
        effort = self._within(seconds, Depth.FULL)
        before = state.suppressed_tables.before(self.known)
        evaluator = RiskEvaluator(
            self.table, self._known_now, self._asked, effort=effort, pool=self._pool, before=before
        )
        found = protect(evaluator, evaluator.evaluate(state.released), [ProtectionRequest(subtable)])
        if found.refused:
            raise NotReleasableError(next(iter(found.refused.values())))
        return next(iter(found.suppressed_tables.tables), None), found.evaluation.proof

    def _turn_to(self, state: State) -> None:
        """Suppressed tables are known, and their small cells asked about; of what was found is kept what holds."""
        if state.suppressed_tables == self._parts:
            return
        self._parts = state.suppressed_tables
        self._known_now = self.known.plus_facts(self._parts.facts)
        found = ((one.variables, one.differences) for one in self._pool.evidence.values())
        if not self.reveals:
            self._asked = self.criteria.beside(self.table, self._parts.before(self._known_now))
        own = self.criteria.primary_cells(self.table, self._known_now, self._parts.before(self.known))
        pool = self.criteria.pool(self.table, own)
        self._pool = pool.with_evidence(found, self._known_now.plus(state.released), {})

    def _within(self, seconds: float, depth: Depth) -> Effort:
        budget = Budget(min(seconds, SECONDS_PER_CELL), seconds)
        return replace(self._effort, budget=budget, depth=depth, executor=self.executor)

    def _judged(
        self, state: State, subtable: SubTable, depth: Depth, seconds: float, refute_cells: int | None = None
    ) -> Evaluation:
        self._turn_to(state)
        effort = self._within(seconds, depth)
        if refute_cells is not None:
            effort = replace(effort, refute_cells=refute_cells)
        larger = state.released.add(subtable)
        self._last = self._asked.judge(self.table, self._known_now, larger, self._pool, effort)
        return self._last

    def first_unreleasable(self, public: Release, widths: CriticalWidths | None = None) -> tuple[SubTable, ...]:
        """UF as critical widths show it: beside all one-way sub-tables none can be public whose width is too small.

        Nothing where these are not all public. ReleaseError where the widths given do not go down to the least allowed.
        """
        least, schema = self.criteria.floor, self.table.schema
        if not public.contains(one_way(schema)):
            return ()
        found = widths or critical_widths(
            self.table, small_count=self.criteria.small_count, floor=least, executor=self.executor
        )
        if found.floor > least:
            raise ReleaseError(
                f"critical widths are known from {found.floor} on, {least} is asked; set a smaller floor"
            )
        wide = {st.GRAND_TOTAL, *found.reaching(least)}
        above = {parent for subtable in wide for parent in st.parents(subtable, schema)} - wide
        return st.minimal(t for t in above if all(child in wide for child in st.children(t, schema)))

    def survey(self, state: State, candidates: Iterable[SubTable] | None = None, most: int | None = None) -> Survey:
        """Which sub-tables are unreleasable under a state, beyond what it knows, by the smallest of them.

        Exact on a small table, where all are asked about that are open; else outer bounds of `most` of the candidates.
        """
        is_exact = self.decides(state)
        asked = list(self._open(state) if is_exact or candidates is None else candidates)
        looked_at, proven = asked if is_exact or most is None else asked[:most], list[SubTable]()
        released = self.verdicts.down_set(state.released) if is_exact else 0
        for subtable in looked_at:
            if not st.containing_any(proven)(subtable) and (
                not self.verdicts.is_safe(released, subtable) if is_exact else self._is_refuted(state, subtable)
            ):
                proven.append(subtable)
        return Survey(tuple(proven), len(looked_at), len(asked))

    def _is_safe(self, release: Release) -> bool:
        public = State.first(self.table.schema, release)
        return self._judged(public, st.GRAND_TOTAL, Depth.FULL, SECONDS_PER_CELL).verdict is Verdict.SAFE

    def _is_refuted(self, state: State, subtable: SubTable) -> bool:
        # feasible tables refute nothing: without them there is less to look at
        self._turn_to(state)
        effort, larger = replace(self._effort, depth=Depth.REFUTE, refute_cells=0), state.released.add(subtable)
        found = self._asked.judge(self.table, self._known_now, larger, self._pool.emptied(), effort)
        return found.verdict is Verdict.UNSAFE

    def _open(self, state: State) -> Iterator[SubTable]:
        """By dimension, then by number: what contains an unreleasable one comes after it."""
        numbers = np.flatnonzero(state.statuses >= Status.UNDECIDED)
        order = np.lexsort([numbers, np.bitwise_count(numbers)])
        yield from numbers[order].tolist()


def one_way(schema: Schema) -> Release:
    """The sub-tables of one variable, of an axis at all levels."""
    return Release.of(schema.levels.closed(1 << axis) for axis in schema.axes)


def surveyed(judge: Judge, state: State) -> State:
    """The state with all that is unreleasable, of a small table; of a large one as it is."""
    if not judge.decides(state):
        return state
    found = judge.survey(state)
    return state.knowing(found.unreleasable)


@dataclass(frozen=True)
class Effect:
    """What releasing a sub-table would do; for operators alone.

    is_safe       whether it could be released itself; None where that is not decided
    released      the sub-tables that would newly be public, the largest first; `unreleasable` the minimal ones
    newly         how many sub-tables would become released, and how many unreleasable
    looked_at     of how many open sub-tables it was looked whether they would become unreleasable, `of` how many
    """

    sub_table: SubTable
    status: Status
    is_safe: bool | None
    released: tuple[SubTable, ...]
    unreleasable: tuple[SubTable, ...]
    newly: tuple[int, int]
    after: State
    looked_at: int
    of: int

    @property
    def is_complete(self) -> bool:
        """Whether all were looked at that could be touched."""
        return self.looked_at == self.of


def effect_of(
    judge: Judge,
    state: State,
    subtable: SubTable,
    candidates: Iterable[SubTable] | None = None,
    most: int | None = None,
    *,
    larger: State | None = None,
) -> Effect:
    """The effect under a state of up to 20 variables, exact of a small table.

    candidates  open sub-tables of a large table, in the order in which they are looked at, `most` of them at most: of
                the others nothing is said
    larger      what is public then, of a sub-table that is safe with suppressed cells; by default it goes out whole
    """
    status, is_safe = state.status(subtable), True if larger else None
    if larger is None:
        if status is not Status.OPEN:
            # public already, or it never will be
            is_safe = None if status is Status.UNDECIDED else status.is_released
            return Effect(subtable, status, is_safe, (), (), (0, 0), state, 0, 0)
        if (verdict := judge.glance(state, subtable)) is not Verdict.UNDECIDED:
            is_safe = verdict is Verdict.SAFE
        larger = state.releasing(subtable)
    left = None if candidates is None else [t for t in candidates if larger.status(t) is Status.OPEN]
    found = judge.survey(larger, left, most)
    new = larger.knowing(found.unreleasable)
    count = new.count(Status.UNRELEASABLE) - state.count(Status.UNRELEASABLE)
    parts = st.subsets(subtable, state.schema)
    released = tuple(t for t in parts if t in new.released and t not in state.released)
    return Effect(
        subtable,
        status,
        is_safe,
        tuple(sorted(released, key=lambda t: (-st.dimension(t), t))),
        tuple(t for t in new.unreleasable if t not in state.unreleasable),
        (len(released), count),
        new,
        found.looked_at,
        found.of,
    )
