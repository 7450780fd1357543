"""Withholding by differences: a sub-table goes out but for the cells in which tables differ that show all is safe.

What is public is safe already. Of a sub-table every cell with a count of 1 to the small count is withheld, and every
one that the n-rule excludes. Who is too narrow once the rest of it is shown, an at-risk cell of the table or one of
these, needs feasible tables that move it; where they change cells of the sub-table these are withheld too, and so they
stay feasible: the cells withheld and the proof that they suffice are one thing. What is looked for is a
cheap union, see `Hiding`.

The hypercube method (Repsilber 1994; Giessing and Repsilber 2002) takes the same cubes, of one table, without a proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences, Flags
from sdc.feasible.in_part import MOST_CELLS
from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError
from sdc.model.fact import Fact
from sdc.model.parts import Part, withholding
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts
from sdc.risk.certifying import Certifying
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Support
from sdc.search.deadline import NEVER, Deadline, DeadlineError
from sdc.search.hiding import Cost, Hiding

Ints = npt.NDArray[np.int64]
SHORT_WALK = 0.02  # seconds of a reference core


@dataclass(frozen=True, eq=False)
class OwnCells:
    """The small cells of a sub-table in part, for whoever knows what is public with it.

    cells    (n, axes of the view) codes; counts  (n,)
    inner    (n, 2) between which tables that were found move each; of those refuted no table was looked for
    refuted  (n,) those that are too narrow by what is public without it
    """

    cells: Codes
    counts: Counts
    inner: npt.NDArray[np.int64]
    refuted: Flags


@dataclass(frozen=True, eq=False)
class InParts:
    """Sub-tables in part beside what was known.

    evaluator  what at-risk cells rest on; it knows each view as a fact
    parts    what is published of each view, though an earlier publication may have told the same
    hidden   of each view (cells,) flags in C order; own  its small cells
    is_ended  whether the deadline ended the search for less
    """

    evaluator: RiskEvaluator
    parts: tuple[Part, ...]
    hidden: tuple[Flags, ...]
    own: tuple[OwnCells, ...]
    is_ended: bool = False


def withhold(
    evaluator: RiskEvaluator,
    views: Sequence[SubTable],
    start: Mapping[SubTable, Flags] | None = None,
    costs: Mapping[SubTable, Cost] | None = None,
    again: Mapping[SubTable, Ints] | None = None,
    deadline: Deadline = NEVER,
    mends: bool = True,
) -> InParts:
    """Cells of each view to withhold beside what an evaluator knows, which is to be safe; it is not judged here.

    start  of some views (cells,) flags in C order of cells that cost nothing to withhold
    costs  of some views what is to be little; of the others records
    again  of some views places of cells that are withheld whatever else is, but those that everybody knows to be 0
    deadline  asked before each step: walks of what is in doubt where all is shown, and then each batch
    mends  whether less is looked for once all is proven, which leaves less room to others

    Every small cell is withheld, and what differences change that prove at-risk cells and small ones to keep the width.
    Other facts that are known stay as they are, whole where they tell numbers between which counts lie. What is
    withheld does not depend on the workers. The search for less ends when it has cost what withholding did, or at the
    deadline once all is proven; what was found then is withheld. NotReleasableError where a view has too many
    cells, or a small cell stays without a proof, but one that is refuted by what is known without the views: that
    cannot be helped by withholding; ReleaseError where a component is too large for walks; DeadlineError where the
    deadline is over before.
    """
    table, is_ended = evaluator.table, False
    limited = replace(evaluator, effort=replace(evaluator.effort, executor=deadline.limits(evaluator.executor)))
    closed = tuple(map(table.schema.levels.closed, views))
    for view in closed:
        if (cells := st.cells(view, table.schema)) > MOST_CELLS:
            raise NotReleasableError(
                f"{st.label(view, table.schema)} has {cells} cells, and some can be withheld of at most {MOST_CELLS}; "
                "take fewer variables, or coarser categories"
            )
    deadline.check()
    support, narrow = shown(limited, closed)
    searches, hidden = list[Hiding](), dict[SubTable, Flags]()
    for component in support.open:
        if inside := [view for view in closed if st.is_within(view, component.frame.variables)]:
            searches.append(Hiding(limited, component, inside, narrow, start or {}, costs or {}, again or {}))
    for search in searches:
        search.run(deadline)
    try:
        for search in searches if mends else ():
            search.mend(deadline)
    except DeadlineError:
        is_ended = True  # what was found is proven, whether or not less is
    for search in searches:
        hidden |= search.hidden_by_view()
    parts = tuple(withholding(view, np.flatnonzero(hidden[view]), table.schema, table.total) for view in closed)
    known = evaluator.known.telling(part.fact for part in parts)
    chosen = {search.variables: search.chosen for search in searches}
    claimed = [
        (part.variables, Differences.concatenated([part.differences, *filter(None, [chosen.get(part.variables)])]))
        for part in support.proof().parts
    ]
    public = evaluator.knowing(known)
    public.pool = public.pool.with_evidence(claimed, known, {})
    own = _own(public, closed)
    for view in closed:
        _require_wide(view, own[view], evaluator)
    of_views = tuple(hidden[view] for view in closed), tuple(own[view] for view in closed)
    return InParts(public, parts, *of_views, is_ended)


def _own(evaluator: RiskEvaluator, views: Sequence[SubTable]) -> dict[SubTable, OwnCells]:
    """Of each sub-table in part its small cells, as the evaluator's witness pool shows them to move."""
    table, kept, found = evaluator.table, evaluator.pool.at_risk.own, dict[SubTable, OwnCells]()
    ends, none = Support(evaluator.known, evaluator.pool).own_inner, np.zeros(0, np.int64)
    own = {view: (rows, places) for view, rows, places in kept.of_views(table.schema)}
    for view in views:
        rows, places = own.get(view, (none, none))
        counts = table.marginal(view).dense.reshape(-1)
        small = np.flatnonzero((counts > 0) & (counts <= evaluator.criteria.withheld))
        inner, is_kept = np.stack([counts[small], counts[small]], axis=1), np.isin(small, places)
        inner[is_kept] = ends[rows]
        cells = table.schema.restrict(st.members(view)).keys.unpack(small)
        found[view] = OwnCells(cells, counts[small], inner, ~is_kept)
    return found


def _require_wide(view: SubTable, own: OwnCells, evaluator: RiskEvaluator) -> None:
    """NotReleasableError where a small cell is not shown to keep the width, and not refuted without the view."""
    if short := int((~own.refuted & ~evaluator.criteria.width.is_wide(own.inner[:, 1] - own.inner[:, 0])).sum()):
        raise NotReleasableError(
            f"{short} of {len(own.counts)} small cells of {st.label(view, evaluator.table.schema)} were not proven to "
            f"keep a width of {evaluator.criteria.width.min_width}, whatever else of it is withheld; give a larger "
            "budget, or publish coarser categories"
        )


def shown(
    evaluator: RiskEvaluator, views: Sequence[SubTable], found: Iterable[tuple[SubTable, Differences]] = ()
) -> tuple[Support, Ints]:
    """What supports at-risk cells where all of the views is shown, after one short walk of each that is in doubt.

    And (n,) the rows of those that are not shown to keep the width then. Differences that were `found` before, by the
    components that they are of, support them too.
    """
    public = evaluator.known.telling(Fact(view, source=st.label(view, evaluator.table.schema)) for view in views)
    known_proof = Support(evaluator.known, evaluator.pool).proof()
    pool = evaluator.pool.learnt(known_proof, public)
    support = Support(public, pool.with_evidence(found, public, pool.missed))
    width = evaluator.criteria.width
    # who is not found to move soon is walked again, by moves that are paid for
    budget = evaluator.effort.budget
    short = replace(budget, seconds_per_cell=min(budget.seconds_per_cell, SHORT_WALK))
    certifying = Certifying(width, evaluator.table, support, replace(evaluator.effort, budget=short), {})
    waiting = width.short(support, width.doubtful(support))
    # walks of who is too narrow then fail, and those that fail take longest
    certifying.walk_once(waiting[width.is_wide(_most(support, views, waiting))])
    return support, width.short(support, width.doubtful(support))


def _most(support: Support, views: Sequence[SubTable], rows: Ints) -> Ints:
    """(rows,) the count that no at-risk cell exceeds in its cells of the views."""
    most = np.full(len(rows), support.knowledge.total)
    for frame in (component.frame for component in support.open):
        for view in (view for view in views if st.is_within(view, frame.variables)):
            np.minimum(most, frame.marginals.at(st.within(view, frame.variables))[frame.row[rows]], out=most)
    return most
