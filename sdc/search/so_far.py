"""A growing release as it is kept after each question that enlarged it: who is killed goes on from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sdc.feasible.differences import Differences
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Judgement
from sdc.risk.effort import Depth
from sdc.risk.inquiry import Inquiry
from sdc.search.step import SearchStep


@dataclass(frozen=True, eq=False)
class SoFar:
    """What a growth depends on from here on.

    steps     since it began; the last was accepted
    evidence  of each open component of the release the differences that its judgement rests on
    missed    how often each at-risk cell stayed open, by row
    spent     steps of the budget that were taken
    """

    steps: tuple[SearchStep, ...]
    evidence: tuple[tuple[SubTable, Differences], ...]
    missed: Mapping[int, int]
    spent: int

    @staticmethod
    def of(steps: Iterable[SearchStep], judgement: Judgement, spent: int) -> SoFar:
        """With the judgement of the last step, which accepted it."""
        evidence = ((one.variables, one.differences) for one in judgement.bank.evidence.values())
        return SoFar(tuple(steps), tuple(evidence), judgement.bank.missed, spent)

    def release(self, start: Release) -> Release:
        """What has grown from the start."""
        added = (subtable for step in self.steps if step.answer for subtable in step.added)
        return Release.of([*start.frontier, *added])

    def judgement(self, inquiry: Inquiry, start: Release) -> Judgement | None:
        """That of the last step, by what was kept, which is checked and not believed; None where it does not hold."""
        release = self.release(start)
        inquiry.bank = inquiry.bank.emptied().with_evidence(self.evidence, inquiry.knows(release), self.missed)
        judgement = inquiry.ask(release, Depth.REFUTE)
        return judgement if inquiry.accepts(judgement) else None


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
