"""A growing release as it is kept after each question that enlarged it: who is killed goes on from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sdc.feasible.differences import Differences
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Judgement
from sdc.risk.effort import Depth
from sdc.risk.inquiry import Inquiry
from sdc.risk.refutation import Refutation, Refutations
from sdc.risk.verdict import Verdict
from sdc.search.step import SearchStep

Question = tuple[str, int, tuple[SubTable, ...]]
"""Phase, length and what was added, see `SearchStep`."""


@dataclass(frozen=True, eq=False)
class SoFar:
    """What a growth depends on from here on.

    start     the release that it began with
    steps     since then; the last was accepted
    evidence  of each open component of the release the differences that its judgement rests on
    missed    how often each at-risk cell stayed open, by row
    spent     steps of the budget that were taken
    refutations  all that were found by then
    """

    start: Release
    steps: tuple[SearchStep, ...]
    evidence: tuple[tuple[SubTable, Differences], ...]
    missed: Mapping[int, int]
    spent: int
    refutations: tuple[Refutation, ...] = ()

    @staticmethod
    def of(start: Release, steps: Iterable[SearchStep], judgement: Judgement, inquiry: Inquiry) -> SoFar:
        """With the judgement of the last step, which accepted it, and what the inquiry has spent and refuted."""
        evidence = ((one.variables, one.differences) for one in judgement.bank.evidence.values())
        refuted = () if inquiry.refutations is None else tuple(inquiry.refutations.found.values())
        return SoFar(start, tuple(steps), tuple(evidence), judgement.bank.missed, inquiry.spent, refuted)

    @property
    def release(self) -> Release:
        """What has grown from the start."""
        added = (subtable for step in self.steps if step.answer for subtable in step.added)
        return Release.of([*self.start.frontier, *added])

    def judgement(self, inquiry: Inquiry) -> Judgement | None:
        """That of the last step, by what was kept, which is checked and not believed; None where it does not hold."""
        zeros, table = inquiry.known.zeros, inquiry.table
        if not all(one.holds(table, zeros) for one in self.refutations):
            return None
        known = inquiry.knows(self.release)
        inquiry.bank = inquiry.bank.emptied().with_evidence(self.evidence, known, self.missed)
        judgement = inquiry.ask(self.release, Depth.REFUTE)
        return judgement if inquiry.accepts(judgement) else None


@dataclass(eq=False)
class Retold:
    """Steps that were kept, told once more without their work; of the last one the judgement, from which all goes on.

    spent  steps of the budget that were taken by then
    refutations  what was refuted by then
    """

    steps: deque[SearchStep]
    last: Judgement
    spent: int
    refutations: Refutations | None = None

    @staticmethod
    def of(so_far: SoFar, inquiry: Inquiry, start: Release) -> Retold | None:
        """Of what was kept; None where it does not hold, or is of another start. The inquiry stays as it is.

        Chains that were told to end, were killed then, and are told to end once more, may come to another start.
        """
        if so_far.start != start:
            return None
        before = inquiry.bank, inquiry.spent, inquiry.refutations
        last = so_far.judgement(inquiry)
        inquiry.bank, inquiry.spent, inquiry.refutations = before
        if last is None:
            return None
        kept = None if inquiry.refutations is None else inquiry.refutations.emptied().plus(*so_far.refutations)
        return Retold(deque(so_far.steps), last, so_far.spent, kept)

    def next(self, asked: Question, release: Release, inquiry: Inquiry) -> tuple[SearchStep, Judgement]:
        """The next step, and its answer about a release; RuntimeError where something else is asked."""
        step = self.steps.popleft()
        if (step.phase, step.length, step.added) != asked:
            raise RuntimeError("the search that was kept asked otherwise; this is a fault of it: remove the run folder")
        if not self.steps:
            inquiry.bank, inquiry.spent, inquiry.refutations = self.last.bank, self.spent, self.refutations
            return step, self.last
        verdict, at_risk = Verdict.read(step.answer), len(inquiry.bank.at_risk)
        answer = Assessment(verdict, inquiry.criteria.floor, step.min_width, at_risk, step.undecided_cells, ())
        return step, Judgement(inquiry.criteria, inquiry.known, release, answer, inquiry.bank)


class Keeper(Protocol):
    """Where one growth is kept; it goes to workers."""

    def read(self) -> SoFar | None:
        """What was kept last; None where there is nothing, or nothing that can be read."""

    def write(self, so_far: SoFar) -> None:
        """In place of what was kept before, whole or not at all."""


class Nowhere:
    """Keeps nothing."""

    def read(self) -> SoFar | None:
        return None

    def write(self, so_far: SoFar) -> None:
        pass


NOWHERE = Nowhere()


def nowhere(name: str) -> Keeper:
    """Where growths are kept, by their names, that nobody keeps."""
    return NOWHERE
