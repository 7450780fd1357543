"""Why a sub-table is released or not: what it is alone, with the one-way sub-tables, and with what is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sdc.model import subtable as st
from sdc.model.documents import picked
from sdc.model.labels import NO_LABELS, Labels
from sdc.model.named import Named
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.assessment import Assessment, Witness, assessment_facts
from sdc.risk.criteria import Evaluation
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.kept_suppressed import KeptSuppressed
from sdc.risk.refutation import Refutation, refutation_facts
from sdc.risk.verdict import Verdict


@dataclass(frozen=True, repr=False)
class Reason(Named):
    """What the criterion says of one sub-table beside a release; assessments are None where nothing asks for them.

    within          the sub-table of the released frontier that contains it, None where it is not released
    critical_width  None beyond what is listed
    alone           of the sub-table and its own sub-tables
    one_way         of it and all one-way sub-tables
    together        of it and all that is released
    conflicts       the least released sub-tables with which together it breaks the criterion: without any of them,
                    or with only part of one, it is no longer refuted. Empty where it is not refuted, or refuted alone
    forbidden       whether the config forbids it, whatever the criterion says
    refutation      what proves to anybody that it breaks the criterion together, where such was found
    spent           steps that the question about all together took
    suppressed      of a suppressed table how many of its cells are suppressed, 0 where it is rounded
    hidden          which share of the records these have
    parts           the largest parts of it that are public
    """

    sub_table: SubTable
    released: bool
    within: SubTable | None
    critical_width: int | None
    alone: Assessment
    one_way: Assessment
    together: Assessment
    conflicts: tuple[SubTable, ...]
    forbidden: bool = False
    refutation: Refutation | None = None
    spent: int = 0
    suppressed: int | None = None
    hidden: float = 0.0
    parts: tuple[SubTable, ...] = ()

    @property
    def withheld(self) -> int | None:
        """The old name of `suppressed`, for one release."""
        return self.suppressed

    @property
    def headline(self) -> str:
        return super().headline if self._schema is None else self.text(self._schema)

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """What the criterion says of it alone, beside the one-way sub-tables, and beside all that is public."""
        asked = {"alone": self.alone, "one-way": self.one_way, "together": self.together}
        low, high = zip(*(answer.min_width for answer in asked.values()), strict=True)
        verdicts = [answer.verdict.name.lower() for answer in asked.values()]
        return {"beside": [*asked], "verdict": verdicts, "min_width_lower": low, "min_width_upper": high}

    @property
    def witness(self) -> Witness | None:
        """The narrowest cell that refutes it, or leaves it undecided, together with what is released."""
        return next(iter(self.together.witnesses), None)

    def text(self, schema: Schema) -> str:
        """The answer in one sentence."""
        name = st.label(self.sub_table, schema)
        if self.within is not None:
            return f"{name} is released, within {st.label(self.within, schema) or '(total)'}"
        if self.suppressed == 0:
            return f"{name} is released rounded"
        if self.suppressed is not None:
            of = f"{self.suppressed} of {st.cells(self.sub_table, schema)} cells suppressed"
            return f"{name} is released with {of}, with {self.hidden:.1%} of the records"
        if self.forbidden:
            return f"{name} is not released: release.forbid names it, or a sub-table within it"
        if self.together.verdict is Verdict.SAFE:
            return f"{name} is not released, and could be: it satisfies the criterion with all that is released"
        if self.together.verdict is Verdict.UNDECIDED:
            return f"{name} is not released: with what is released it is undecided, which counts as not releasable"
        if self.conflicts:
            others = ", ".join(st.label(other, schema) for other in self.conflicts)
            return f"{name} breaks the criterion together with {others}"
        return f"{name} breaks the criterion alone"

    def customer(self, schema: Schema, labels: Labels = NO_LABELS) -> str:
        """The answer for the user who asked for the sub-table, in two plain sentences.

        It follows from what is public alone: of what is not public it is the same whatever the reason.
        """

        def called(subtable: SubTable) -> str:
            return " by ".join(map(labels.variable, st.names(subtable, schema))) or "all records"

        asked = f"The table of {called(self.sub_table)} is"
        if self.within == self.sub_table:
            return f"{asked} public. It is published as it is."
        if self.within is not None:
            return f"{asked} public. Its counts are sums of those of the table of {called(self.within)}."
        if self.suppressed is not None:
            return f"{asked} public with counts that are suppressed, which all look alike, or rounded."
        can_be_had = "; ".join(map(called, self.parts))
        return (
            f"{asked} not public: before publication it is checked what all public tables together reveal about "
            f"small groups. {f'Its public parts: {can_be_had}' if self.parts else 'Only its total is public'}."
        )

    def proof(self, schema: Schema) -> str:
        """What is proven of a refusal, in words without a cell; empty where nothing is refused."""
        if self.together.verdict is Verdict.UNDECIDED:
            return f"no proof found in {self.spent:,} steps, neither that it may go out nor that it may not"
        if self.together.verdict is Verdict.SAFE:
            return ""
        if self.together.broken is not None:
            return f"refused, proven: {self.together.broken.text}"
        if self.refutation is None:
            return "refused by bounds or a limit alone, no proof of which is kept"
        under = ", ".join(self.refutation.labels(schema)) or "the grand total"
        return f"refused, proven: a cell has a width of {self.refutation.width} at most given {under}"


def why(evaluator: RiskEvaluator, sub_table: SubTable, critical_width: int | None = None) -> Reason:
    """Judges a sub-table alone, with the one-way sub-tables, and with all that is public; and finds the least it meets.

    What is public, by this release or an earlier one, is all that may conflict: each part of it is asked about apart.
    """
    release, schema = evaluator.known.release, evaluator.table.schema
    singles = [schema.levels.closed(1 << axis) for axis in schema.axes]
    within = next((held for held in release.frontier if st.is_within(sub_table, held)), None)
    facts = [
        fact for fact in evaluator.known.published if fact.view == sub_table and fact.intervals and not fact.universe
    ]
    intervals = facts[0].intervals if facts and within is None else None
    # that its cells are suppressed is no reason why
    criteria = evaluator.criteria if intervals is None else evaluator.criteria.without(KeptSuppressed)
    evaluator = replace(evaluator, known=replace(evaluator.known, release=NOTHING), criteria=criteria)
    alone, one_way, judged = (
        _asked(evaluator, [*others, sub_table]) for others in ([], singles, list(release.frontier))
    )
    together = judged.assessment
    said = alone.assessment, one_way.assessment, together
    conflicts: tuple[SubTable, ...] = ()
    if together.verdict is Verdict.UNSAFE:
        refutation = judged.refutation
        conflicts = conflict(evaluator, release.frontier if refutation is None else refutation.support, sub_table)
    parts = tuple(part for part in release.parts_of(sub_table) if part)
    reason = Reason(sub_table, within is not None, within, critical_width, *said, conflicts, parts=parts)
    reason = replace(reason, refutation=judged.refutation, spent=judged.spent)
    if intervals is None:
        return reason
    cells = intervals.cells[intervals.suppressed(evaluator.known.total)]
    records = evaluator.table.marginal(sub_table).count_at(cells).sum()
    return replace(reason, suppressed=len(cells), hidden=float(records / evaluator.table.total))


def conflict(evaluator: RiskEvaluator, refuting: Sequence[SubTable], sub_table: SubTable) -> tuple[SubTable, ...]:
    """Sub-tables that refute another one with it, minimal under inclusion of what they release.

    refuting  sub-tables that do: a released frontier, or the support of a refutation, which are fewer

    One is left out, or gives way to its own sub-tables, as long as the rest still refutes; by deletion, so that the
    set is minimal, not the smallest that there is. It depends on the order of those given alone.
    """
    evaluator = replace(evaluator, refutations=None)  # each is asked about for its answer
    kept = [held for held in refuting if not st.is_within(held, sub_table)]
    open_ = list(kept)
    while open_:
        tried = open_.pop(0)
        rest = [held for held in kept if held != tried]
        least = st.maximal([*rest, *(child for child in st.children(tried, evaluator.table.schema) if child)])
        if _asked(evaluator, [*least, sub_table]).verdict is Verdict.UNSAFE:
            # what is within the sub-table itself, it brings along
            added = [held for held in least if held not in rest and not st.is_within(held, sub_table)]
            kept, open_ = [*rest, *added], [*open_, *added]
    return tuple(sorted(kept))


def _asked(evaluator: RiskEvaluator, sub_tables: list[SubTable]) -> Evaluation:
    """Each question with a budget of its own, so that no answer depends on those before."""
    return evaluator.anew().evaluate(Release.of(sub_tables))


def reason_facts(reason: Reason, schema: Schema, labels: Labels = NO_LABELS) -> dict[str, Any]:
    """As a document; `customer` alone is for others than the agency."""
    return {
        "sub_table": st.names(reason.sub_table, schema),
        **picked(reason, "released", "forbidden"),
        "within": None if reason.within is None else st.names(reason.within, schema),
        "critical_width": reason.critical_width,
        "text": reason.text(schema),
        "customer": reason.customer(schema, labels),
        "proof": reason.proof(schema) or None,
        "refutation": None if reason.refutation is None else refutation_facts(reason.refutation, schema),
        "conflicts": [st.names(other, schema) for other in reason.conflicts],
        **{name: assessment_facts(own, schema) for name, own in picked(reason, "alone", "one_way", "together").items()},
    }
