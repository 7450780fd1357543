"""Required sub-tables judged together: which of them conflict, and which subset of them is worth most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.model import subtable as st
from sdc.model.documents import plain
from sdc.model.errors import NothingReleasableError, many
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.assessment import Broken, Witness
from sdc.risk.criteria import Evaluation
from sdc.risk.refutation import Refutation
from sdc.search.constraints import Constraints

Conflicting = tuple[SubTable, ...]
MOST_NAMED = 5
UNSHOWN = "not shown to fit beside the required ones that are released"


@dataclass(frozen=True)
class Conflict:
    """Required sub-tables that may not be public together, though all but any one of them may.

    witness  the at-risk cell that says so, where one is proven or was given up
    proven   whether the criterion refutes them; else nothing could decide
    refutation  what proves that to anybody, where such was found
    spent    steps of the budget that the question took
    broken      what breaks a rule on what is published, where that refutes them
    """

    sub_tables: Conflicting
    witness: Witness | None
    proven: bool
    refutation: Refutation | None = None
    spent: int = 0
    broken: Broken | None = None

    def text(self, schema: Schema) -> str:
        """Names of the sub-tables, and whether that they conflict is proven; no cell."""
        together = ", ".join(st.label(t, schema) for t in self.sub_tables)
        is_one = len(self.sub_tables) == 1
        text = "is not releasable" if is_one else "are not releasable together"
        if self.broken is not None:
            return f"{together} {text}: {self.broken.text}"
        if self.proven:
            return f"{together} {text}{' (refused, proven)' * (self.refutation is not None)}"
        return f"{together} {text.replace('not releasable', 'undecided')} (no proof found in {self.spent:,} steps)"


@dataclass(frozen=True, eq=False)
class Required:
    """What became of the required sub-tables.

    sub_tables  all of them
    evaluation   that lets those out that fit
    refused     those that do not, or are not shown to, none where all fit
    conflicts   minimal conflicting sets: each has one of the refused, and without these no other is left
    is_best     whether no subset that fits is worth more; else questions ran out, and it is the best that was found
    is_ended    whether they ran out because the search was ended early
    asked       so many questions were asked
    in_part     those that are suppressed, recoded or rounded
    """

    sub_tables: Conflicting
    evaluation: Evaluation
    refused: Conflicting = ()
    conflicts: tuple[Conflict, ...] = ()
    is_best: bool = True
    is_ended: bool = False
    asked: int = 0
    in_part: Conflicting = ()

    def beside(self, release: Release) -> Required:
        """The same once all else was asked about: what was not shown to fit then may have been proven since."""
        refused, in_part = (tuple(t for t in some if t not in release) for some in (self.refused, self.in_part))
        conflicts = tuple(c for c in self.conflicts if any(t in (*refused, *in_part) for t in c.sub_tables))
        is_best = self.is_best or not (refused or in_part)
        return replace(self, refused=refused, conflicts=conflicts, is_best=is_best, in_part=in_part)


@dataclass(frozen=True)
class ConflictRecord:
    """What is kept of a conflict, its cell too, which is confidential; the text has none.

    refutation  the name of what proves it, None where nothing was found that does
    """

    sub_tables: Conflicting
    proven: bool
    text: str
    witness: Witness | None
    refutation: str | None = None

    @staticmethod
    def of(conflict: Conflict, schema: Schema) -> ConflictRecord:
        """With what is said of it by the names of this schema."""
        by = None if conflict.refutation is None else conflict.refutation.name
        return ConflictRecord(conflict.sub_tables, conflict.proven, conflict.text(schema), conflict.witness, by)


@dataclass(frozen=True)
class RequiredRecord:
    """What is kept of what became of the required sub-tables: all of them, those refused, and the conflicts."""

    required: Conflicting
    refused: Conflicting
    is_best: bool
    conflicts: tuple[ConflictRecord, ...]
    in_part: Conflicting = ()

    @staticmethod
    def of(found: Required, schema: Schema) -> RequiredRecord:
        """With what is said of each conflict by the names of this schema."""
        conflicts = (ConflictRecord.of(conflict, schema) for conflict in found.conflicts)
        return RequiredRecord(found.sub_tables, found.refused, found.is_best, tuple(conflicts), found.in_part)

    def why(self, subtable: SubTable) -> str:
        """Why a required sub-table was refused: the conflicts that it is in, where any were found."""
        text = "; ".join(conflict.text for conflict in self.conflicts if subtable in conflict.sub_tables)
        return text or UNSHOWN * (subtable in self.refused)


@dataclass(eq=False)
class RequiredSearch:
    """Asks about required sub-tables together, and where they do not fit, for the best subset that does.

    First what is worth most is taken as long as it fits. Then by implicit hitting sets: of the conflicts known so far
    the cheapest set that hits all is left out; what is left is worth no more than what was taken, or fits, and then no
    subset is worth more, or it has another minimal conflict.

    evaluate   the evaluation of a release; accepts  whether it may go out; what is not proven may not
    worth      of each required sub-table, above 0
    questions  after so many no other conflict is looked for: the best that was accepted until then is taken
    deadline   may end it before any question, or while one is asked, by `DeadlineError`; where not all fit it has half
               of the time that is left then: the other half is for what else may go out
    """

    evaluate: Callable[[Release], Evaluation]
    accepts: Callable[[Evaluation], bool]
    worth: Mapping[SubTable, Fraction]
    questions: int = 2_000
    deadline: Deadline = NEVER
    _asked: int = 0
    _best: tuple[Fraction, Evaluation | None] = (Fraction(0), None)

    def run(self, required: Sequence[SubTable], nothing: Evaluation) -> Required:
        """What fits, from the evaluation of the grand total alone; ended early, the best of what fitted by then."""
        # what is worth little is left out rather, so it comes last, where a conflict takes its members from
        ordered = sorted(required, key=lambda t: (-self.worth[t], required.index(t)))
        conflicts, is_ended = list[Conflict](), False
        try:
            evaluation = self._ask(required)
            if self.accepts(evaluation):
                return self._best_of(required, nothing, is_best=True)
            self.deadline = self.deadline.halved
            self._taken([], ordered, is_refused=True)
            left = ordered
            while self._asked < self.questions:
                conflicts.append(self._conflict(left, evaluation))
                out = cheapest_hitting_set([set(conflict.sub_tables) for conflict in conflicts], self.worth)
                left = [t for t in ordered if t not in out]
                if self._worth_of(left) <= self._best[0] or self.accepts(evaluation := self._ask(left)):
                    return self._best_of(required, nothing, conflicts, is_best=True)
        except DeadlineError:
            is_ended = True
        return self._best_of(required, nothing, conflicts, is_ended=is_ended)

    def _best_of(
        self,
        required: Sequence[SubTable],
        nothing: Evaluation,
        conflicts: Sequence[Conflict] = (),
        is_best: bool = False,
        is_ended: bool = False,
    ) -> Required:
        """With the best that was accepted."""
        evaluation = self._best[1] or nothing
        refused = tuple(t for t in required if t not in evaluation.release)
        return Required(tuple(required), evaluation, refused, tuple(conflicts), is_best, is_ended, self._asked)

    def _worth_of(self, subtables: Sequence[SubTable]) -> Fraction:
        return sum((self.worth[t] for t in subtables), Fraction(0))

    def _ask(self, subtables: Sequence[SubTable]) -> Evaluation:
        self.deadline.check()
        evaluation = self.evaluate(Release.of(subtables))
        self._asked += 1
        worth = self._worth_of(subtables)
        if worth > self._best[0] and self.accepts(evaluation):
            self._best = worth, evaluation
        return evaluation

    def _taken(self, kept: list[SubTable], candidates: list[SubTable], is_refused: bool = False) -> list[SubTable]:
        """What is kept with those of the candidates that fit beside it: all at once, or by halves one after another."""
        if not is_refused and self.accepts(self._ask([*kept, *candidates])):
            return [*kept, *candidates]
        if len(candidates) == 1:
            return kept
        half = len(candidates) // 2
        larger = self._taken(kept, candidates[:half])
        # where all of the first half fit, the question about the other one is that about the whole
        return self._taken(larger, candidates[half:], is_refused=len(larger) == len(kept) + half)

    def _conflict(self, candidates: list[SubTable], evaluation: Evaluation) -> Conflict:
        """A minimal conflicting set within one that conflicts, found by halves (Junker 2004, QuickXplain)."""
        found = self._within([], [], candidates)
        last = self._ask(found)
        # undecided cells may be others when it is asked about less: what is said is of the set that is named
        said = evaluation if self.accepts(last) else last
        witnesses = said.assessment.witnesses
        is_refuted = said.assessment.releasable is False
        first = witnesses[0] if witnesses else None
        return Conflict(tuple(found), first, is_refuted, said.refutation, said.spent, said.assessment.broken)

    def _within(self, base: list[SubTable], added: list[SubTable], candidates: list[SubTable]) -> list[SubTable]:
        """Those of the candidates that conflict beside the base, none where what was added to it does by itself."""
        if added and not self.accepts(self._ask(base)):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        one, other = candidates[:half], candidates[half:]
        later = self._within([*base, *one], one, other)
        return [*self._within([*base, *later], later, one), *later]


def fitting(found: Required | None, constraints: Constraints, schema: Schema) -> Required | None:
    """What was found; NothingReleasableError where not all fit and no subset is allowed, or none was found yet."""
    if found is None or not found.refused:
        return found
    if {*found.refused} <= {one.view for one in constraints.protect}:
        return found  # these are suppressed, recoded or rounded
    if found.is_ended and not (constraints.best_subset and len(found.refused) < len(found.sub_tables)):
        what, more = ("any", "or require less")
        if not constraints.best_subset:
            what, more = "all", "require less, or ask for the best subset of them"
        raise NothingReleasableError(
            f"the search was ended early after {many(found.asked, 'question')}, before {what} of the "
            f"required sub-tables were proven together; give it more time, {more}"
        )
    if not constraints.best_subset:
        raise _refusal(found, schema)
    return found


def _refusal(found: Required, schema: Schema) -> NothingReleasableError:
    """What is said of required sub-tables that do not fit; the cells that say so are the detail."""
    text = "; ".join(conflict.text(schema) for conflict in found.conflicts[:MOST_NAMED])
    more = len(found.conflicts) - MOST_NAMED
    of_widths = (
        f"{c.text(schema)}: the cell {schema.written(c.witness.cell)} (count {c.witness.count}) has bounds within "
        f"{list(c.witness.outer)}"
        for c in found.conflicts
        if c.witness
    )
    return NothingReleasableError(
        f"the required sub-tables do not fit together: {text}"
        f"{f'; and {more} more conflicts' if more > 0 else ''}; drop "
        f"{', '.join(st.label(t, schema) for t in found.refused[:MOST_NAMED])}"
        f"{' and others' if len(found.refused) > MOST_NAMED else ''}, suppress "
        "cells of them (release.protect: suppression), or ask for the best subset of them (release.on_conflict: "
        "drop)",
        "\n".join([*of_widths, *(c.broken.detail for c in found.conflicts if c.broken)]),
    )


def cheapest_hitting_set(conflicts: Sequence[set[SubTable]], worth: Mapping[SubTable, Fraction]) -> set[SubTable]:
    """Sub-tables that have one of every conflict, worth as little as can be; the first such in the order of numbers."""
    best: tuple[Fraction, list[SubTable]] = (sum(worth.values(), Fraction(1)), [])

    def least(left: Sequence[set[SubTable]]) -> Fraction:
        """What hitting conflicts without a common member costs at least."""
        apart, cost = set[SubTable](), Fraction(0)
        for conflict in left:
            if not conflict & apart:
                apart |= conflict
                cost += min(worth[t] for t in conflict)
        return cost

    def branch(chosen: list[SubTable], cost: Fraction, left: list[set[SubTable]], kept: frozenset[SubTable]) -> None:
        nonlocal best
        if cost + least(left) >= best[0]:
            return
        if not left:
            best = cost, chosen
            return
        smallest = min(left, key=lambda conflict: len(conflict - kept))
        for subtable in sorted(smallest - kept, key=lambda t: (worth[t], t)):
            rest = [conflict for conflict in left if subtable not in conflict]
            branch([*chosen, subtable], cost + worth[subtable], rest, kept)
            # the other branches leave it in
            kept |= {subtable}

    branch([], Fraction(0), list(conflicts), frozenset())
    return set(best[1])


def required_facts(found: Required, schema: Schema) -> dict[str, Any]:
    """What became of the required sub-tables, by names; of each conflict its cell too, which is confidential."""
    facts: dict[str, Any] = plain(RequiredRecord, RequiredRecord.of(found, schema), schema)
    return facts
