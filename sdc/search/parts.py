"""Sub-tables that do not fit whole, in part beside those that do: all at once, or one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError, ReleaseError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.parts import Part, Parts, rounded
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Evaluation
from sdc.risk.effort import Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.search.constraints import ProtectionRequest
from sdc.search.deadline import NEVER, Deadline, DeadlineError
from sdc.search.rounding import controlled_rounding
from sdc.search.withholding import InParts, withhold


@dataclass(frozen=True, eq=False)
class FoundParts:
    """What goes out in part.

    evaluator    knows it
    evaluation  of all that goes out whole with it
    refused    sub-tables that do not go out in part either, and why
    coarsened  those that go out with merged categories; coarser  and what goes out of them, which is whole itself
    left       those of the refused that the deadline came before
    ended_after  where the deadline ended it, how many were proven in part: together, and one after another
    together     whether they were proven all at once
    """

    parts: Parts
    evaluator: RiskEvaluator
    evaluation: Evaluation
    refused: Mapping[SubTable, str] = field(default_factory=dict)
    coarsened: tuple[SubTable, ...] = ()
    coarser: tuple[SubTable, ...] = ()
    left: tuple[SubTable, ...] = ()
    ended_after: Mapping[str, int] = field(default_factory=dict)
    together: bool = False


def in_part(
    evaluator: RiskEvaluator, whole: Evaluation, constraints: Sequence[ProtectionRequest], deadline: Deadline = NEVER
) -> FoundParts:
    """Sub-tables that were refused go out coarser, rounded, or but for some cells, so that all is proven to be safe.

    whole  the evaluation that let out what fits

    They are looked at together first, in half of the time: what each withholds protects the others. Where that is not
    proven by then, or withholds more than is wished for, one after another, each in the first of the ways wished for
    that does. Those of which none does are refused, and so are those that the deadline comes before.
    """
    # all that is known is before what is looked for now
    beside = replace(
        evaluator, known=evaluator.known.plus(whole.release), pool=whole.pool, refutations=None, before=None
    )
    found, ended = _together(beside, constraints, deadline.halved)
    is_together = found is not None
    if found is None:
        found = _one_by_one(beside, constraints, deadline)
        if found.left or found.is_ended:
            ended = {**ended, "in_part": len(found.tables)}
    # of some nothing had to be withheld: these are whole
    release = whole.release.join(Release.of(part.view for part in found.tables if part.fact.between is None))
    parts = Parts(whole.release, tuple(part for part in found.tables if part.fact.between is not None))
    known = evaluator.known.plus_facts(parts.facts)
    # of earlier ones nothing is told but what was before; a later one is beside all that goes out whole
    told = evaluator.knowing(known, parts.before(evaluator.known) if parts.tables else None)
    told.pool = told.pool.with_evidence(_evidence(found.evaluator), known.plus(release), {})
    evaluation = told.evaluate(release, Depth.REFUTE)
    if not told.accepts(evaluation):
        raise RuntimeError(
            "sub-tables in part are not proven by what was found for them; this is a fault of the search"
        )
    elsewhere, asked = {*parts.views, *found.refused}, [wish.view for wish in constraints]
    coarsened = tuple(t for t in asked if t not in release and t not in elsewhere)
    coarser = tuple(t for t in (part.view for part in found.tables) if t in release and t not in asked)
    return FoundParts(parts, told, evaluation, found.refused, coarsened, coarser, found.left, ended, is_together)


def _together(
    evaluator: RiskEvaluator, constraints: Sequence[ProtectionRequest], deadline: Deadline
) -> tuple[_Told | None, Mapping[str, int]]:
    """All at once; None where that is not proven, and where the deadline ended it how many were.

    One alone is not sought twice.
    """
    if len(constraints) == 1:
        return None, {}
    try:
        found = _told(evaluator, constraints, deadline)
    except NotReleasableError:
        return None, {}
    except DeadlineError:
        return None, {"in_part_together": 0}
    return found, {"in_part_together": len(constraints)} if found.is_ended else {}


def _one_by_one(evaluator: RiskEvaluator, constraints: Sequence[ProtectionRequest], deadline: Deadline) -> _Told:
    """Each beside those before it."""
    found, refused, left = _Told(evaluator), dict[SubTable, str](), list[SubTable]()
    for wish in constraints:
        try:
            found = _by_its_ways(found, wish, deadline, wish is constraints[-1])
        except NotReleasableError as error:
            refused[wish.view] = str(error)
        except DeadlineError:
            left.append(wish.view)
            name = st.label(wish.view, evaluator.table.schema)
            refused[wish.view] = (
                f"the search was told to end before {name} was proven in part; give it more time, or require less"
            )
    return replace(found, refused=refused, left=tuple(left))


def _by_its_ways(found: _Told, wish: ProtectionRequest, deadline: Deadline, is_last: bool) -> _Told:
    """With a sub-table in the first of its ways that does; NotReleasableError where none does.

    As little as can be is withheld of the last: those before it leave room for it.
    """
    why = list[str]()
    for how in wish.how:
        try:
            own = _told(found.evaluator, [replace(wish, how=(how,))], deadline, is_last)
        except NotReleasableError as fault:
            why.append(str(fault))
        else:
            return _Told(own.evaluator, (*found.tables, *own.tables), is_ended=found.is_ended or own.is_ended)
    raise NotReleasableError("; ".join(why))


def rounded_beside(evaluator: RiskEvaluator, view: SubTable, base: int) -> Part:
    """A sub-table rounded to multiples of a base beside what an evaluator knows.

    NotReleasableError where that is not proven.
    """
    (part,) = _told(evaluator, [ProtectionRequest(view, ("round",), base=base)], NEVER).tables
    return part


def _evidence(evaluator: RiskEvaluator) -> Iterator[tuple[SubTable, Differences]]:
    for evidence in evaluator.pool.evidence.values():
        yield evidence.variables, evidence.differences


@dataclass(frozen=True, eq=False)
class _Told:
    """Sub-tables in part, and what is known with them; else as `FoundParts` and `InParts`."""

    evaluator: RiskEvaluator
    tables: tuple[Part, ...] = ()
    refused: Mapping[SubTable, str] = field(default_factory=dict)
    left: tuple[SubTable, ...] = ()
    is_ended: bool = False


def _told(
    evaluator: RiskEvaluator, constraints: Sequence[ProtectionRequest], deadline: Deadline, mends: bool = True
) -> _Told:
    """Each in the first of its ways; NotReleasableError where that is not proven, or tells too little of them.

    DeadlineError where it is not done in time.
    """
    told, coarser = evaluator, list[Part]()
    for wish in (wish for wish in constraints if wish.how[0] == "coarsen"):
        told, whole = _coarsened(told, wish, deadline)
        coarser.append(whole)
    multiples = [_rounded(evaluator, wish, deadline) for wish in constraints if wish.how[0] == "round"]
    withheld = [wish for wish in constraints if wish.how[0] == "withhold"]
    if multiples:
        # what is withheld is sought beside what is rounded, which is safe by itself or not
        facts = (fact for part in multiples for fact in part.facts)
        told, evaluation = _with(told, told.known.plus_facts(facts), deadline)
        _require_safe(told, evaluation, [part.view for part in multiples], "rounded")
    if not withheld:
        return _Told(told, (*coarser, *multiples))
    found = _withheld(told, withheld, deadline, mends)
    return _Told(found.evaluator, (*coarser, *multiples, *found.parts), is_ended=found.is_ended)


def _with(
    evaluator: RiskEvaluator, known: Knowledge, deadline: Deadline, depth: Depth = Depth.FULL
) -> tuple[RiskEvaluator, Evaluation]:
    """What knows more, and its evaluation of that; DeadlineError where that has no answer in time."""
    deadline.check()
    told = evaluator.knowing(known)
    told.pool = told.pool.with_evidence(_evidence(evaluator), known, {})
    evaluation = told.evaluate(NOTHING, depth, deadline.limits(told.executor))
    return replace(told, pool=evaluation.pool), evaluation


def _coarsened(evaluator: RiskEvaluator, wish: ProtectionRequest, deadline: Deadline) -> tuple[RiskEvaluator, Part]:
    """What is known with the sub-table at the first of its coarser levels that is proven; NotReleasableError without.

    All of it is told, so that it is no part but whole.
    """
    schema = evaluator.table.schema
    for view in wish.coarser:
        told, evaluation = _with(evaluator, evaluator.known.plus(Release.of([view])), deadline, Depth.BRIEF)
        if evaluation.verdict is Verdict.SAFE:
            return told, Part(Fact(view, source=st.label(view, schema)))
    name, number = st.label(wish.view, schema), len(wish.coarser)
    if not wish.all_tried:
        raise NotReleasableError(
            f"{name} with merged categories: the search was told to end before it was found which of them to merge"
            f"{f', and of {number} levels that it has none is proven' if number else ''}; give it more time"
        )
    raise NotReleasableError(
        f"{name} with merged categories: of {number} ways to merge them, from few to many, none is proven; publish "
        "coarser categories"
        if number
        else f"{name} with merged categories: nothing merges away its small counts in as few cells as in_part allows "
        f"({wish.most:g} of them); allow more, or publish coarser categories"
    )


def _rounded(evaluator: RiskEvaluator, wish: ProtectionRequest, deadline: Deadline) -> Part:
    """The sub-table by controlled rounding; NotReleasableError where there is none."""
    table, schema = evaluator.table, evaluator.table.schema
    name, axes = st.label(wish.view, schema), _by_axis(wish.view, schema)
    deadline.check()
    try:
        found = controlled_rounding(table.marginal(wish.view).dense, wish.base)
    except (InputError, ReleaseError) as error:
        raise NotReleasableError(f"{name} rounded: {error}") from error
    margins = (st.union(axes[axis] for axis in kept) for kept in found.margins if kept)
    return rounded(wish.view, found.counts.reshape(-1), wish.base, margins, schema, f"{name} rounded")


def _by_axis(view: SubTable, schema: Schema) -> list[SubTable]:
    """What a sub-table has of each axis, in the order of its cells' codes."""
    return [own for axis in schema.axes if (own := view & schema.levels.of_axis[axis])]


def _withheld(
    evaluator: RiskEvaluator, constraints: Sequence[ProtectionRequest], deadline: Deadline, mends: bool
) -> InParts:
    """The sub-tables in part, and an evaluator that knows them; NotReleasableError where that is not proven.

    DeadlineError where that has no answer in time, or too much is withheld by then.
    """
    schema = evaluator.table.schema
    views = [wish.view for wish in constraints]
    again = {wish.view: np.array(wish.again, np.int64) for wish in constraints}
    costs = {wish.view: np.array(wish.cost) if isinstance(wish.cost, tuple) else wish.cost for wish in constraints}
    found = withhold(evaluator, views, costs=costs, again=again, deadline=deadline, mends=mends)
    for wish, hidden in zip(constraints, found.hidden, strict=True):
        if hidden.mean() > wish.most:
            if found.is_ended:
                raise DeadlineError
            raise NotReleasableError(
                f"of {st.label(wish.view, schema)} {int(hidden.sum())} of {len(hidden)} cells would have to be "
                f"withheld, and in_part allows {wish.most:g} of them; allow more, or publish coarser categories"
            )
    if deadline.is_over:
        # nothing more is looked for: what was found for it is mostly all that the proof needs
        evaluation = found.evaluator.evaluate(NOTHING, Depth.REFUTE)
        if evaluation.verdict is not Verdict.SAFE:
            raise DeadlineError
    else:
        evaluation = found.evaluator.evaluate(NOTHING, Depth.FULL, deadline.limits(evaluator.executor))
    _require_safe(found.evaluator, evaluation, views, "in part")
    return found


def _require_safe(evaluator: RiskEvaluator, evaluation: Evaluation, views: Sequence[SubTable], how: str) -> None:
    if evaluation.verdict is not Verdict.SAFE:
        together = ", ".join(st.label(view, evaluator.table.schema) for view in views)
        if (broken := evaluation.assessment.broken) is not None:
            raise NotReleasableError(f"{together} {how}: {broken.text}", broken.detail)
        what = "whatever is withheld" if how == "in part" else "nor every small cell of what is rounded"
        advice = "give a larger budget, or publish coarser categories"
        raise NotReleasableError(
            f"{together} {how}: no proof was found that every at-risk cell keeps the width, {what}; {advice}"
        )
