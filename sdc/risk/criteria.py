"""The criteria that a release must satisfy: each is judged by itself, and has three answers; and what came of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

from sdc.feasible.proof import Proof
from sdc.feasible.suppressed_cells import NO_PRIMARY_CELLS, PrimaryCells, primary_cells
from sdc.feasible.witness_pool import WitnessPool
from sdc.feasible.witnesses import Witnesses
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
from sdc.risk import min_frequency  # noqa: F401  # registers itself
from sdc.risk.assessment import Assessment, Broken
from sdc.risk.attribute_disclosure import AttributeDisclosure
from sdc.risk.case import Case
from sdc.risk.criterion import C, Criterion, of_settings
from sdc.risk.effort import Depth, Effort
from sdc.risk.kept_suppressed import KeptSuppressed
from sdc.risk.min_values import MinValues
from sdc.risk.min_width import MinWidth, Others
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.program_units import Priced
from sdc.risk.refutation import Refutation
from sdc.risk.support import Support, support_of
from sdc.risk.verdict import Verdict


class CriteriaKeywords(TypedDict, total=False):
    """What `sdc.criteria` takes, as the verbs that judge take it too."""

    min_width: int
    small_count: int
    posterior_limit: PosteriorLimit | None
    min_frequency: int | None
    attribute_disclosure: AttributeDisclosure | None
    min_values: MinValues | int | None


@dataclass(frozen=True)
class Criteria:
    """Who is at risk, and what a release must satisfy: it is safe if it does all, refuted where it breaks one.

    What is neither is undecided. InputError for a small count below 1.

    small_count  cells of 1 up to this count are at risk
    width        what bounds must leave open; they have the last word: nothing else makes safe what they do not show to
                 be wide
    others       beside the width: registered ones, and `KeptSuppressed`
    """

    small_count: int
    width: MinWidth
    others: tuple[Criterion, ...] = ()

    def __post_init__(self) -> None:
        if self.small_count < 1:
            raise InputError(f"small_count is {self.small_count}; give at least 1, or nothing is protected")

    @staticmethod
    def of(small_count: int, min_width: int, *others: Criterion | None, **settings: Any) -> Criteria:
        """By the width in records, and others as they are or as arguments of Python; errors as each has them."""
        beside = (*filter(None, others), *of_settings(settings))
        return Criteria(small_count, MinWidth(min_width), beside)

    def get(self, kind: type[C]) -> C | None:
        """The criterion of this kind; None where it is not asked for."""
        return next((one for one in self.others if isinstance(one, kind)), None)

    def without(self, kind: type[Criterion]) -> Criteria:
        """All but those of this kind."""
        return replace(self, others=tuple(one for one in self.others if not isinstance(one, kind)))

    @property
    def facts(self) -> dict[str, Any]:
        """What is asked, by the names that documents and messages have for it; of what is not asked none."""
        own = {one.document or one.key: one.facts for one in self._asked}
        return {"small_count": self.small_count, "min_width": self.width.min_width, **own}

    @property
    def _asked(self) -> list[Criterion]:
        return [one for one in self.others if not isinstance(one, KeptSuppressed)]

    @property
    def settings(self) -> tuple[str, ...]:
        """Those beside the width, as capabilities."""
        return tuple(one.setting for one in self._asked)

    @property
    def sentences(self) -> list[str]:
        """What page one says of those beside the width."""
        return [one.sentence for one in self._asked]

    @property
    def monotone(self) -> bool:
        """Whether what is safe stays so when less is known: searches may then cut by a refusal.

        A bisection, an extension in parts and a frontier need it.
        """
        return self.width.monotone and all(one.monotone for one in self.others)

    @property
    def floor(self) -> int:
        """What critical widths must reach for a sub-table to be worth a question."""
        return self.width.min_width

    @property
    def rules(self) -> tuple[Criterion, ...]:
        """Those on what is published itself, which need no bounds."""
        return tuple(one for one in self.others if one.is_of_counts)

    def beside(self, table: Table, known: Knowledge) -> Criteria:
        """The same of releases that do not reveal what is suppressed by what is known.

        That is every suppressed table with a primary cell: a count of 1 to `primary_count` not too narrow already.
        """
        hidden = {f.view: f.source for f in known.published if f.intervals is not None and not base_of(f, known)}
        own = self.primary_cells(table, known, known).of_views(table.schema) if hidden else ()
        views = [(view, hidden[view]) for view, rows, _ in own if len(rows) and view in hidden]
        kept = self.get(KeptSuppressed)
        every = dict([*(kept.views if kept else ()), *views])
        if not every:
            return self
        return replace(self.without(KeptSuppressed), others=(*self._asked, KeptSuppressed(tuple(every.items()))))

    def check(self, schema: Schema) -> None:
        """InputError where a criterion names what the table does not have."""
        for one in self.others:
            one.check(schema)

    @property
    def primary_count(self) -> int:
        """In a suppressed table each count from 1 up to this is primary: suppressed, with a width of its own."""
        return max([self.small_count, *(one.hides for one in self.others)])

    def keeps(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
        """Whether a sub-table may be published by the rules on what is published itself, and all within it."""
        return not table.hides(subtable) and all(rule.keeps(table, zeros, subtable) for rule in self.rules)

    def keeping(self, table: Table, zeros: StructuralZeros, subtables: Sequence[SubTable]) -> Sequence[SubTable]:
        """Those that may, in their order; what contains one that may not is not looked at."""
        if not self.rules and table.missing is None:
            return subtables
        broken = list[SubTable]()
        for subtable in sorted(subtables, key=st.dimension):
            if not st.containing_any(broken)(subtable) and not self.keeps(table, zeros, subtable):
                broken.append(subtable)
        breaks = st.containing_any(broken)
        return [subtable for subtable in subtables if not breaks(subtable)]

    def require_total(self, table: Table) -> None:
        """NothingReleasableError where not even the grand total may be public."""
        for one in self.others:
            one.require_total(table)

    def pool(
        self, table: Table, own: PrimaryCells = NO_PRIMARY_CELLS, witnesses: Witnesses | None = None
    ) -> WitnessPool:
        """A witness pool for questions about the table, and about primary cells of suppressed tables."""
        return WitnessPool.of(table, self.small_count, own, witnesses, values=self.of_values)

    @property
    def of_values(self) -> bool:
        """Whether some criterion needs a feasible table for each value of a cell."""
        return any(one.is_of_values for one in self.others)

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
        broken = self.broken(table, knowledge) if effort.depth is Depth.EVERY else None
        answer = self.with_likely(by_width, table, knowledge)
        answer = self._with_shown(_with_broken(answer, broken), case.support, effort)
        found, stopped = case.pool(by_width.verdict), case.blockers(by_width)
        priced = tuple(case.programs.priced) if by_width.verdict is Verdict.UNSAFE else ()
        return Evaluation(self, known, asked, answer, found, case.spent, stopped, priced=priced), case

    def rejudged(self, evaluation: Evaluation, bounds: CellBounds, pool: WitnessPool) -> Evaluation:
        """The answer that narrower bounds of all at-risk cells give, whose inner ends the witness pool shows.

        What the release makes likely, and whether it keeps the rules on what is published, does not change.
        """
        total = evaluation.knowledge.total  # no cell is wider; so it is said where there is none
        by_width = self.width.assess(bounds, Others(0, (total, total)))
        support, before = Support(evaluation.knowledge, pool), evaluation.assessment
        answer = self.width.with_own(by_width, support)
        if answer.verdict is not Verdict.UNSAFE and before.likely is not None:
            answer = replace(
                answer, verdict=Verdict.worst([answer.verdict, before.likely.verdict]), likely=before.likely
            )
        answer = self._with_shown(_with_broken(answer, before.broken), support)
        return replace(evaluation, assessment=answer, pool=pool)

    def broken(self, table: Table, knowledge: Knowledge) -> Broken | None:
        """What breaks a rule on what is published itself; None where all are kept."""
        hidden = next(filter(table.hides, knowledge.release.frontier), None)
        if hidden is not None:
            return Broken(
                f"{st.label(hidden, table.schema)} has a count that is not known, because counts of the table are "
                "missing; leave it out, or list its counts as totals",
                "",
            )
        return next(filter(None, (rule.broken(table, knowledge) for rule in self.rules)), None)

    def with_likely(self, answer: Assessment, table: Table, knowledge: Knowledge) -> Assessment:
        """With what is likely, where the bounds leave it open; ReleaseError where no exact engine answers."""
        for one in self.others if answer.verdict is not Verdict.UNSAFE else ():
            answer = one.with_likely(answer, table, knowledge, table.at_risk(self.small_count))
        return answer

    def _with_shown(self, answer: Assessment, support: Support, effort: Effort | None = None) -> Assessment:
        """With what feasible tables show of those beside the width, as far as to one that refutes."""
        for one in self.others:
            if answer.verdict is not Verdict.UNSAFE:
                answer = one.with_shown(answer, support, effort)
        return answer

    def unproven(self, table: Table, knowledge: Knowledge, proof: Proof, own: PrimaryCells = NO_PRIMARY_CELLS) -> int:
        """Of how many at-risk cells, and small ones of parts, a proof does not show what each criterion asks.

        All of it is checked in integers.
        """
        support = support_of(proof, table, self.small_count, knowledge, own)
        by_width = len(self.width.short(support, self.width.doubtful(support))) + len(self.width.short_own(support))
        return by_width + sum(one.unproven(support) for one in self.others)


def _with_broken(answer: Assessment, broken: Broken | None) -> Assessment:
    if broken is None:
        return answer
    return replace(answer, verdict=Verdict.UNSAFE, broken=broken)


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
