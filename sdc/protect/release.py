"""Protection of sub-tables that may not be released whole: all at once, or one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError, ReleaseError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable, SuppressedTables
from sdc.protect import one_table
from sdc.protect.request import ProtectionRequest
from sdc.protect.rounding import controlled_rounding
from sdc.protect.suppression import Protection, suppress_jointly
from sdc.risk.criteria import Evaluation
from sdc.risk.effort import Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict


@dataclass(frozen=True, eq=False)
class ProtectedRelease:
    """A release with its suppressed tables.

    suppressed_tables  those with suppressed cells or rounded counts
    evaluator   knows them
    evaluation  of all that is released whole beside them
    refused     sub-tables that no way protects, and why; left  those of them that the deadline came before
    recoded     sub-tables of which categories are recoded; coarser  what is published of them, which is whole itself
    ended_after  where the deadline ended it, how many were proven: together, and one after another
    together     whether they were proven all at once
    """

    suppressed_tables: SuppressedTables
    evaluator: RiskEvaluator
    evaluation: Evaluation
    refused: Mapping[SubTable, str] = field(default_factory=dict)
    recoded: tuple[SubTable, ...] = ()
    coarser: tuple[SubTable, ...] = ()
    left: tuple[SubTable, ...] = ()
    ended_after: Mapping[str, int] = field(default_factory=dict)
    together: bool = False


def protect(
    evaluator: RiskEvaluator, whole: Evaluation, requests: Sequence[ProtectionRequest], deadline: Deadline = NEVER
) -> ProtectedRelease:
    """Recode, round or suppress sub-tables that were refused, so that all is proven to be safe.

    whole  the evaluation that let out what fits

    They are looked at together first, in half of the time: what each suppresses protects the others. Where that is not
    proven by then, or suppresses more than is allowed, they are looked at one after another, each in the first of its
    ways that is proven. Those of which none is proven are refused, and so are those that the deadline comes before.
    """
    # all that is known is before what is looked for now
    beside = replace(
        evaluator, known=evaluator.known.plus(whole.release), pool=whole.pool, refutations=None, before=None
    )
    found, ended = _together(beside, requests, deadline.halved)
    is_together = found is not None
    if found is None:
        found = _one_by_one(beside, requests, deadline)
        if found.left or found.is_ended:
            ended = {**ended, "in_part": len(found.tables)}
    # of some nothing had to be suppressed: these are whole
    release = whole.release.join(Release.of(one.view for one in found.tables if one.fact.intervals is None))
    suppressed = SuppressedTables(whole.release, tuple(one for one in found.tables if one.fact.intervals is not None))
    known = evaluator.known.plus_facts(suppressed.facts)
    # cells of earlier ones are judged by what was known before; a later one is beside all that is released whole
    own = evaluator.knowing(known, suppressed.before(evaluator.known) if suppressed.tables else None)
    own.pool = own.pool.with_evidence(_evidence(found.evaluator), known.plus(release), {})
    evaluation = own.evaluate(release, Depth.REFUTE)
    if not own.accepts(evaluation):
        raise RuntimeError(
            "suppressed tables are not proven by what was found for them; this is a bug in sdc: report it"
        )
    elsewhere, asked = {*suppressed.views, *found.refused}, [one.view for one in requests]
    recoded = tuple(t for t in asked if t not in release and t not in elsewhere)
    coarser = tuple(t for t in (one.view for one in found.tables) if t in release and t not in asked)
    return ProtectedRelease(
        suppressed, own, evaluation, found.refused, recoded, coarser, found.left, ended, is_together
    )


def _together(
    evaluator: RiskEvaluator, requests: Sequence[ProtectionRequest], deadline: Deadline
) -> tuple[Protection | None, Mapping[str, int]]:
    """All at once; None where that is not proven, and where the deadline ended it how many were.

    One alone is not sought twice.
    """
    if len(requests) == 1:
        return None, {}
    try:
        found = _protected(evaluator, requests, deadline)
    except NotReleasableError:
        return None, {}
    except DeadlineError:
        return None, {"in_part_together": 0}
    return found, {"in_part_together": len(requests)} if found.is_ended else {}


def _one_by_one(evaluator: RiskEvaluator, requests: Sequence[ProtectionRequest], deadline: Deadline) -> Protection:
    """Each beside those before it."""
    found, refused, left = Protection(evaluator), dict[SubTable, str](), list[SubTable]()
    for request in requests:
        try:
            found = _by_its_ways(found, request, deadline, request is requests[-1])
        except NotReleasableError as error:
            refused[request.view] = str(error)
        except DeadlineError:
            left.append(request.view)
            name = st.label(request.view, evaluator.table.schema)
            refused[request.view] = (
                f"the search was ended early before {name} was protected and proven; give it more time, or require less"
            )
    return replace(found, refused=refused, left=tuple(left))


def _by_its_ways(found: Protection, request: ProtectionRequest, deadline: Deadline, is_last: bool) -> Protection:
    """With a sub-table in the first of its ways that is proven; NotReleasableError where none is.

    As little as can be is suppressed of the last: those before it leave room for it.
    """
    why = list[str]()
    for way in request.by:
        try:
            own = _protected(found.evaluator, [replace(request, by=(way,))], deadline, is_last)
        except NotReleasableError as error:
            why.append(str(error))
        else:
            return replace(own, tables=(*found.tables, *own.tables), is_ended=found.is_ended or own.is_ended)
    raise NotReleasableError("; ".join(why))


def rounded_beside(evaluator: RiskEvaluator, view: SubTable, base: int) -> SuppressedTable:
    """A sub-table rounded to multiples of a base beside what an evaluator knows.

    NotReleasableError where that is not proven.
    """
    (found,) = _protected(evaluator, [ProtectionRequest(view, ("rounding",), base=base)], NEVER).tables
    return found


def _evidence(evaluator: RiskEvaluator) -> Iterator[tuple[SubTable, Differences]]:
    for evidence in evaluator.pool.evidence.values():
        yield evidence.variables, evidence.differences


def _protected(
    evaluator: RiskEvaluator, requests: Sequence[ProtectionRequest], deadline: Deadline, mends: bool = True
) -> Protection:
    """Each in the first of its ways; NotReleasableError where that is not proven, or shows too little of them.

    DeadlineError where it is not done in time.
    """
    asked, coarser = evaluator, list[SuppressedTable]()
    for request in (one for one in requests if one.by[0] == "recoding"):
        asked, whole = _recoded(asked, request, deadline)
        coarser.append(whole)
    rounded = [_rounded(evaluator, one, deadline) for one in requests if one.by[0] == "rounding"]
    suppressed = [one for one in requests if one.by[0] == "suppression"]
    if rounded:
        # suppression is sought beside what is rounded, which is safe by itself or not
        facts = (fact for one in rounded for fact in one.facts)
        asked, evaluation = _with(asked, asked.known.plus_facts(facts), deadline)
        _require_safe(asked, evaluation, [one.view for one in rounded], "rounded")
    if not suppressed:
        return Protection(asked, (*coarser, *rounded))
    found = _suppressed(asked, suppressed, deadline, mends)
    return replace(found, tables=(*coarser, *rounded, *found.tables))


def _with(
    evaluator: RiskEvaluator, known: Knowledge, deadline: Deadline, depth: Depth = Depth.FULL
) -> tuple[RiskEvaluator, Evaluation]:
    """What knows more, and its evaluation of that; DeadlineError where that has no answer in time."""
    deadline.check()
    own = evaluator.knowing(known)
    own.pool = own.pool.with_evidence(_evidence(evaluator), known, {})
    evaluation = own.evaluate(NOTHING, depth, deadline.limits(own.executor))
    return replace(own, pool=evaluation.pool), evaluation


def _recoded(
    evaluator: RiskEvaluator, request: ProtectionRequest, deadline: Deadline
) -> tuple[RiskEvaluator, SuppressedTable]:
    """What is known with the sub-table at the first of its coarser levels that is proven; NotReleasableError without.

    All of it is published, exact.
    """
    schema = evaluator.table.schema
    for view in request.coarser:
        own, evaluation = _with(evaluator, evaluator.known.plus(Release.of([view])), deadline, Depth.BRIEF)
        if evaluation.verdict is Verdict.SAFE:
            return own, SuppressedTable(Fact(view, source=st.label(view, schema)))
    name, number = st.label(request.view, schema), len(request.coarser)
    if not request.all_tried:
        raise NotReleasableError(
            f"{name} with merged categories: the search was ended early before it was found which of them to merge"
            f"{f', and of {number} levels that it has none is proven' if number else ''}; give it more time"
        )
    raise NotReleasableError(
        f"{name} with merged categories: of {number} ways to merge them, from few to many, none is proven; publish "
        "coarser categories"
        if number
        else f"{name} with merged categories: nothing merges away its small counts in as few cells as protect allows "
        f"({request.max_share:g} of them); allow more, or publish coarser categories"
    )


def _rounded(evaluator: RiskEvaluator, request: ProtectionRequest, deadline: Deadline) -> SuppressedTable:
    """The sub-table by controlled rounding; NotReleasableError where there is none."""
    table, schema = evaluator.table, evaluator.table.schema
    name = st.label(request.view, schema)
    # of each axis what the sub-table has of it, in the order of its cells' codes
    axes = [own for axis in schema.axes if (own := request.view & schema.levels.of_axis[axis])]
    deadline.check()
    try:
        found = controlled_rounding(table.marginal(request.view).dense, request.base)
    except (InputError, ReleaseError) as error:
        raise NotReleasableError(f"{name} rounded: {error}") from error
    margins = (st.union(axes[axis] for axis in kept) for kept in found.margins if kept)
    counts = found.counts.reshape(-1)
    return SuppressedTable.rounded_to(request.view, counts, request.base, margins, schema, f"{name} rounded")


def _suppressed(
    evaluator: RiskEvaluator, requests: Sequence[ProtectionRequest], deadline: Deadline, mends: bool
) -> Protection:
    """Suppressed tables and an evaluator that knows them; NotReleasableError where that is not proven.

    DeadlineError where that has no answer in time, or too much is suppressed by then.
    """
    schema = evaluator.table.schema
    views = [one.view for one in requests]
    again = {one.view: np.array(one.again, np.int64) for one in requests}
    costs = {one.view: np.array(one.cost) if isinstance(one.cost, tuple) else one.cost for one in requests}
    likely = {view: one_table.likely(evaluator, view, costs[view]) for view in views}
    start = {view: flags for view, flags in likely.items() if flags is not None}
    found = suppress_jointly(evaluator, views, start, costs, again, deadline, mends)
    for request, flags in zip(requests, found.flags, strict=True):
        if flags.mean() > request.max_share:
            if found.is_ended:
                raise DeadlineError
            raise NotReleasableError(
                f"of {st.label(request.view, schema)} {int(flags.sum())} of {len(flags)} cells would have to be "
                f"suppressed, and protect allows {request.max_share:g} of them; allow more, or publish coarser "
                "categories"
            )
    if deadline.is_over:
        # nothing more is looked for: what was found for it is mostly all that the proof needs
        evaluation = found.evaluator.evaluate(NOTHING, Depth.REFUTE)
        if evaluation.verdict is not Verdict.SAFE:
            raise DeadlineError
    else:
        evaluation = found.evaluator.evaluate(NOTHING, Depth.FULL, deadline.limits(evaluator.executor))
    _require_safe(found.evaluator, evaluation, views, "suppressed")
    return found


def _require_safe(evaluator: RiskEvaluator, evaluation: Evaluation, views: Sequence[SubTable], how: str) -> None:
    if evaluation.verdict is not Verdict.SAFE:
        together = ", ".join(st.label(view, evaluator.table.schema) for view in views)
        if (broken := evaluation.assessment.broken) is not None:
            raise NotReleasableError(f"{together} {how}: {broken.text}", broken.detail)
        what = "whatever is suppressed" if how == "suppressed" else "nor every small cell of what is rounded"
        advice = "give a larger budget, or publish coarser categories"
        raise NotReleasableError(
            f"{together} {how}: no proof was found that every at-risk cell keeps the width, {what}; {advice}"
        )
