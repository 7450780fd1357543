"""The criteria that a release must satisfy: each is judged by itself, and has three answers; and what came of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sdc.feasible.bank import Bank
from sdc.feasible.own_cells import NO_OWN_CELLS, OwnCells, own_cells
from sdc.feasible.proof import Proof
from sdc.intruder.limit import Likely, PosteriorLimit
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.assessment import Assessment
from sdc.risk.case import Case
from sdc.risk.effort import Effort
from sdc.risk.min_width import MinWidth, Others
from sdc.risk.program_units import Priced
from sdc.risk.refutation import Refutation
from sdc.risk.support import Support, support_of
from sdc.risk.verdict import Verdict


@dataclass(frozen=True)
class Criteria:
    """Who is at risk, and what a release must satisfy: it is safe if it does all, refuted where it breaks one.

    What is neither is undecided. InputError for a small count below 1.

    small_count  cells of 1 up to this count are at risk
    width        what bounds must leave open; they have the last word: nothing else makes safe what they do not show to
                 be wide
    limit        on what the release makes likely, None for none. Like whatever else follows from what an intruder
                 knows alone it needs no proof, and is judged where the bounds do not refute the release
    """

    small_count: int
    width: MinWidth
    limit: PosteriorLimit | None = None

    def __post_init__(self) -> None:
        if self.small_count < 1:
            raise InputError(f"small_count is {self.small_count}; give at least 1, or nothing is protected")

    @staticmethod
    def of(small_count: int, min_width: int, limit: PosteriorLimit | None = None) -> Criteria:
        """By the width, in records; InputError for one below 1 too."""
        return Criteria(small_count, MinWidth(min_width), limit)

    @property
    def facts(self) -> dict[str, Any]:
        """What is asked, by the names that documents and messages have for it; of what is not asked none."""
        limit = {} if self.limit is None else {"limit on the posterior": self.limit}
        return {"small_count": self.small_count, "min_width": self.width.min_width, **limit}

    @property
    def monotone(self) -> bool:
        """Whether what is safe stays so when less is known: searches may then cut by a refusal.

        A bisection, an extension in parts and a frontier need it.
        """
        return self.width.monotone and (self.limit is None or self.limit.monotone)

    @property
    def floor(self) -> int:
        """What critical widths must reach for a sub-table to be worth a question."""
        return self.width.min_width

    def bank(self, table: Table, own: OwnCells = NO_OWN_CELLS) -> Bank:
        """An empty bank for questions about the table, and about small cells of sub-tables in part."""
        return Bank.of(table, self.small_count, own)

    def own_cells(self, table: Table, known: Knowledge, before: Knowledge) -> OwnCells:
        """Small cells of sub-tables in part that are to be protected: not those that what was known before tells."""
        return own_cells(table, known, before, self.small_count, self.width.min_width)

    def judge(self, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort) -> Judgement:
        """The answer about a release beside what is known. It stops at the first cell that proves it unsafe.

        Pure: the same question with the same bank gets the same answer, whatever was asked before.

        Cheap bounds of all at-risk cells come first. What they leave open goes to dearer methods, the most exposed
        cells first. Small tables get exact ones. In larger tables each cell is certified by feasible tables, searched
        component by component; outer bounds of the `refute_cells` most exposed ones that stay open may refute. Inner
        bounds rest on covers of the components and on tables in the bank, and so does "safe": a certificate has both.

        ReleaseError where the bank is of another table or of other at-risk cells, or where what is likely cannot be
        told.
        """
        return self._judged(table, known, asked, bank, effort)[0]

    def examine(
        self, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort
    ) -> tuple[Judgement, CellBounds]:
        """The answer with the bounds of every at-risk cell that it rests on, for an effort that bounds every one."""
        judgement, case = self._judged(table, known, asked, bank, effort)
        return judgement, case.bounds

    def _judged(
        self, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort
    ) -> tuple[Judgement, Case]:
        bank.require(table, self.small_count)
        knowledge = known.plus(asked)
        case = Case(self.width, table, knowledge, bank, effort)
        by_width = case.assessed()
        likely = None if by_width.verdict is Verdict.UNSAFE else self.likely(table, knowledge)
        answer, found, stopped = _together(by_width, likely), case.bank(by_width.verdict), case.blockers(by_width)
        priced = tuple(case.programs.priced) if by_width.verdict is Verdict.UNSAFE else ()
        return Judgement(self, known, asked, answer, found, case.spent, stopped, priced=priced), case

    def rejudged(self, judgement: Judgement, bounds: CellBounds, bank: Bank) -> Judgement:
        """The answer that narrower bounds of all at-risk cells give, whose inner ends the bank shows.

        What the release makes likely does not change.
        """
        total = judgement.knowledge.total  # no cell is wider; so it is said where there is none
        by_width = self.width.assess(bounds, Others(0, (total, total)))
        by_width = self.width.with_own(by_width, Support(judgement.knowledge, bank))
        likely = None if by_width.verdict is Verdict.UNSAFE else judgement.assessment.likely
        return replace(judgement, assessment=_together(by_width, likely), bank=bank)

    def likely(self, table: Table, knowledge: Knowledge) -> Likely | None:
        """What it makes likely, where that is limited; ReleaseError where no exact engine tells."""
        return None if self.limit is None else self.limit.judge(table, knowledge, table.at_risk(self.small_count))

    def unproven(self, table: Table, knowledge: Knowledge, proof: Proof, own: OwnCells = NO_OWN_CELLS) -> int:
        """For how many at-risk cells, and small ones of parts, a proof does not show that they are wide.

        All of it is checked in integers.
        """
        support = support_of(proof, table, self.small_count, knowledge, own)
        return len(self.width.short(support, self.width.doubtful(support))) + len(self.width.short_own(support))


def _together(by_width: Assessment, likely: Likely | None) -> Assessment:
    """The worst of all answers, with what is said of each."""
    by_limit = Verdict.SAFE if likely is None or likely.is_kept else Verdict.UNSAFE
    return replace(by_width, verdict=Verdict.worst([by_width.verdict, by_limit]), likely=likely)


@dataclass(frozen=True, eq=False, repr=False)
class Judgement:
    """The answer to one question, with all it rests on: it stays proven whatever is asked later.

    known     what was public already
    asked     what would be beside it
    bank      what was known before and what was found; of a safe release what its proof needs, and no more
    spent     steps that it took
    blockers  codes of at-risk cells that stopped the release: refuted ones, or those that the search gave up
    refutation  what shows to anybody that a cell is too narrow, where such is kept and was found
    priced    of a refuted release what a linear program found on the way, for a refutation to be made of
    """

    criteria: Criteria
    known: Knowledge
    asked: Release
    assessment: Assessment
    bank: Bank
    spent: int = 0
    blockers: tuple[tuple[int, ...], ...] = ()
    refutation: Refutation | None = None
    priced: tuple[Priced, ...] = ()

    def __repr__(self) -> str:
        """Without a cell: what is printed may be logged."""
        return f"Judgement({self.assessment!r})"

    @cached_property
    def knowledge(self) -> Knowledge:
        """What an intruder knows once that is out."""
        return self.known.plus(self.asked)

    @property
    def release(self) -> Release:
        """All whole marginals that are public then."""
        return self.knowledge.release

    @property
    def verdict(self) -> Verdict:
        """The answer."""
        return self.assessment.verdict

    @property
    def margin(self) -> tuple[int, int]:
        """(lo, hi) around the smallest width; bounds show a release to be safe where lo reaches what is required."""
        return self.assessment.min_width

    @cached_property
    def proof(self) -> Proof:
        """What shows that cells can move under the release: what a certificate writes down."""
        return Support(self.knowledge, self.bank).proof()
