"""The criteria that a release must satisfy: each is judged by itself, and has three answers; and what came of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sdc.feasible.proof import Proof
from sdc.feasible.suppressed_cells import NO_PRIMARY_CELLS, PrimaryCells, primary_cells
from sdc.feasible.witness_pool import WitnessPool
from sdc.feasible.witnesses import Witnesses
from sdc.intruder.limit import Likely, PosteriorLimit
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import base_of
from sdc.model.table import Table
from sdc.risk.assessment import Assessment, Broken
from sdc.risk.attributes import Attributes
from sdc.risk.case import Case
from sdc.risk.effort import Depth, Effort
from sdc.risk.kept_suppressed import KeptSuppressed
from sdc.risk.min_width import MinWidth, Others
from sdc.risk.n_rule import NRule
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
    n_rule, attributes  on what is published itself, None for none; judged first, for they take no bounds
    kept     what earlier tables suppressed, which is judged as these are; see `beside`
    """

    small_count: int
    width: MinWidth
    limit: PosteriorLimit | None = None
    n_rule: NRule | None = None
    attributes: Attributes | None = None
    kept: KeptSuppressed | None = None

    def __post_init__(self) -> None:
        if self.small_count < 1:
            raise InputError(f"small_count is {self.small_count}; give at least 1, or nothing is protected")

    @staticmethod
    def of(
        small_count: int,
        min_width: int,
        limit: PosteriorLimit | None = None,
        n_rule: int | None = None,
        attributes: Attributes | None = None,
    ) -> Criteria:
        """By the width and the n of the n-rule, in records; InputError for one below 1 and below 2 too."""
        return Criteria(small_count, MinWidth(min_width), limit, None if n_rule is None else NRule(n_rule), attributes)

    @property
    def facts(self) -> dict[str, Any]:
        """What is asked, by the names that documents and messages have for it; of what is not asked none."""
        limit = {} if self.limit is None else {"limit on the posterior": self.limit}
        rule: dict[str, Any] = {} if self.n_rule is None else {"n_rule": self.n_rule.n}
        if self.attributes is not None:
            rule["attributes"] = self.attributes.facts
        return {"small_count": self.small_count, "min_width": self.width.min_width, **rule, **limit}

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

    @property
    def rules(self) -> tuple[NRule | Attributes | KeptSuppressed, ...]:
        """Those on what is published itself, which need no bounds."""
        return tuple(rule for rule in (self.n_rule, self.attributes, self.kept) if rule is not None)

    def beside(self, table: Table, known: Knowledge) -> Criteria:
        """The same of releases that do not reveal what is suppressed by what is known.

        That is every suppressed table with a primary cell: a count of 1 to `withheld` that is not too narrow already.
        """
        hidden = {f.view: f.source for f in known.published if f.intervals is not None and not base_of(f, known)}
        own = self.primary_cells(table, known, known).of_views(table.schema) if hidden else ()
        views = [(view, hidden[view]) for view, rows, _ in own if len(rows) and view in hidden]
        kept = dict([*(self.kept.views if self.kept else ()), *views])
        return replace(self, kept=KeptSuppressed(tuple(kept.items()))) if kept else self

    def check(self, schema: Schema) -> None:
        """InputError where a criterion names what the table does not have."""
        if self.attributes is not None:
            self.attributes.check(schema)

    @property
    def primary_count(self) -> int:
        """In a suppressed table each count from 1 up to this is primary: suppressed, with a width of its own."""
        return max(self.small_count, 0 if self.n_rule is None else self.n_rule.n - 1)

    def keeps(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
        """Whether a sub-table may be published by the rules on what is published itself, and all within it."""
        return all(rule.keeps(table, zeros, subtable) for rule in self.rules)

    def keeping(self, table: Table, zeros: StructuralZeros, subtables: Sequence[SubTable]) -> Sequence[SubTable]:
        """Those that may, in their order; what contains one that may not is not looked at."""
        if not self.rules:
            return subtables
        broken = list[SubTable]()
        for subtable in sorted(subtables, key=st.dimension):
            if not st.containing_any(broken)(subtable) and not self.keeps(table, zeros, subtable):
                broken.append(subtable)
        breaks = st.containing_any(broken)
        return [subtable for subtable in subtables if not breaks(subtable)]

    def require_total(self, table: Table) -> None:
        """NothingReleasableError where, by the n-rule, not even the grand total may be public."""
        if self.n_rule is not None:
            self.n_rule.require_total(table)

    def pool(
        self, table: Table, own: PrimaryCells = NO_PRIMARY_CELLS, witnesses: Witnesses | None = None
    ) -> WitnessPool:
        """A witness pool for questions about the table, and about primary cells of suppressed tables."""
        return WitnessPool.of(table, self.small_count, own, witnesses)

    def primary_cells(self, table: Table, known: Knowledge, before: Knowledge) -> PrimaryCells:
        """Primary cells of suppressed tables that must keep the width: not those that were too narrow before."""
        return primary_cells(table, known, before, self.primary_count, self.width.min_width)

    def judge(self, table: Table, known: Knowledge, asked: Release, pool: WitnessPool, effort: Effort) -> Evaluation:
        """The answer about a release beside what is known. It stops at the first cell that proves it unsafe.

        Pure: the same question with the same witness pool gets the same answer, whatever was asked before.

        What breaks a rule on what is published refutes at once. Then come cheap bounds of all at-risk cells. What they
        leave open goes to dearer methods, the most exposed cells first. Small tables get exact ones. In larger tables
        each cell is certified by feasible tables, searched component by component; outer bounds of the `refute_cells`
        most exposed ones that stay open may refute. Inner bounds rest on covers of the components and on tables in the
        witness pool, and so does "safe": a certificate has both.

        ReleaseError where the witness pool is of another table or of other at-risk cells, or where no exact engine
        gives what is likely.
        """
        pool.require(table, self.small_count)
        if effort.depth is not Depth.EVERY and (broken := self.broken(table, known.plus(asked))) is not None:
            nothing = 0, table.total  # which is known of the smallest width
            answer = Assessment(Verdict.UNSAFE, self.floor, nothing, len(pool.at_risk), 0, (), broken=broken)
            return Evaluation(self, known, asked, answer, pool)
        return self._judged(table, known, asked, pool, effort)[0]

    def examine(
        self, table: Table, known: Knowledge, asked: Release, pool: WitnessPool, effort: Effort
    ) -> tuple[Evaluation, CellBounds]:
        """The answer with the bounds of every at-risk cell that it rests on, for an effort that bounds every one."""
        evaluation, case = self._judged(table, known, asked, pool, effort)
        return evaluation, case.bounds

    def _judged(
        self, table: Table, known: Knowledge, asked: Release, pool: WitnessPool, effort: Effort
    ) -> tuple[Evaluation, Case]:
        pool.require(table, self.small_count)
        knowledge = known.plus(asked)
        case = Case(self.width, table, knowledge, pool, effort)
        by_width = case.assessed()
        likely = None if by_width.verdict is Verdict.UNSAFE else self.likely(table, knowledge)
        broken = self.broken(table, knowledge) if effort.depth is Depth.EVERY else None
        answer, found, stopped = (
            _together(by_width, likely, broken),
            case.pool(by_width.verdict),
            case.blockers(by_width),
        )
        priced = tuple(case.programs.priced) if by_width.verdict is Verdict.UNSAFE else ()
        return Evaluation(self, known, asked, answer, found, case.spent, stopped, priced=priced), case

    def rejudged(self, evaluation: Evaluation, bounds: CellBounds, pool: WitnessPool) -> Evaluation:
        """The answer that narrower bounds of all at-risk cells give, whose inner ends the witness pool shows.

        What the release makes likely, and whether it keeps the rules on what is published, does not change.
        """
        total = evaluation.knowledge.total  # no cell is wider; so it is said where there is none
        by_width = self.width.assess(bounds, Others(0, (total, total)))
        by_width = self.width.with_own(by_width, Support(evaluation.knowledge, pool))
        likely = None if by_width.verdict is Verdict.UNSAFE else evaluation.assessment.likely
        return replace(evaluation, assessment=_together(by_width, likely, evaluation.assessment.broken), pool=pool)

    def broken(self, table: Table, knowledge: Knowledge) -> Broken | None:
        """What breaks a rule on what is published itself; None where all are kept."""
        return next(filter(None, (rule.broken(table, knowledge) for rule in self.rules)), None)

    def likely(self, table: Table, knowledge: Knowledge) -> Likely | None:
        """What it makes likely, where that is limited; ReleaseError where no exact engine tells."""
        return None if self.limit is None else self.limit.judge(table, knowledge, table.at_risk(self.small_count))

    def unproven(self, table: Table, knowledge: Knowledge, proof: Proof, own: PrimaryCells = NO_PRIMARY_CELLS) -> int:
        """For how many at-risk cells, and small ones of parts, a proof does not show that they are wide.

        All of it is checked in integers.
        """
        support = support_of(proof, table, self.small_count, knowledge, own)
        return len(self.width.short(support, self.width.doubtful(support))) + len(self.width.short_own(support))


def _together(by_width: Assessment, likely: Likely | None, broken: Broken | None) -> Assessment:
    """The worst of all answers, with what is said of each."""
    by_limit = Verdict.SAFE if likely is None or likely.is_kept else Verdict.UNSAFE
    by_rule = Verdict.SAFE if broken is None else Verdict.UNSAFE
    return replace(by_width, verdict=Verdict.worst([by_width.verdict, by_limit, by_rule]), likely=likely, broken=broken)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The answer to one question, with all it rests on: it stays proven whatever is asked later.

    known     what was public already
    asked     what would be beside it
    witness pool      what was known before and what was found; of a safe release what its proof needs, and no more
    spent     steps that it took
    blockers  codes of at-risk cells that stopped the release: refuted ones, or those that the search gave up
    refutation  what shows to anybody that a cell is too narrow, where such is kept and was found
    priced    of a refuted release what a linear program found on the way, for a refutation to be made of
    """

    criteria: Criteria
    known: Knowledge
    asked: Release
    assessment: Assessment
    pool: WitnessPool
    spent: int = 0
    blockers: tuple[tuple[int, ...], ...] = ()
    refutation: Refutation | None = None
    priced: tuple[Priced, ...] = ()

    def __repr__(self) -> str:
        """Without a cell: what is printed may be logged."""
        return f"Evaluation({self.assessment!r})"

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
        return Support(self.knowledge, self.pool).proof()
