"""Suppression beside all that is public: primary cells, and secondary cells that come with their proof.

What is public is safe already. Primary suppression takes every cell of a sub-table with a count of 1 to the small count
and every cell that a minimum-frequency rule excludes. Once the rest of the sub-table is shown, an at-risk cell of the
full table or a primary cell may be too narrow. It then needs feasible tables that move it. Where these change other
cells of the sub-table, those are suppressed too (secondary suppression), and so the tables stay feasible: the
suppressed cells and the proof that they suffice are one thing. `SuppressionSearch` looks for a cheap union.

The hypercube method (Repsilber 1994; Giessing and Repsilber 2002) takes the same cubes, of one table, without a proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.feasible.differences import Differences, Flags
from sdc.feasible.suppressed_cells import MOST_CELLS
from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError
from sdc.model.fact import Fact
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Codes, Counts
from sdc.protect.suppression_search import Cost, SuppressionSearch
from sdc.risk.certifying import Certifying
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Support

Ints = npt.NDArray[np.int64]
SHORT_WALK = 0.02  # seconds of a reference core


class ProtectionIntervals(NamedTuple):
    """The primary cells of a suppressed table, and how far tables that were found move each beside what is public.

    cells    (n, axes of the view) codes; counts  (n,)
    inner    (n, 2) protection intervals; of those refuted no table was looked for
    refuted  (n,) which are too narrow by what is public without the table: no suppression helps these
    """

    cells: Codes
    counts: Counts
    inner: npt.NDArray[np.int64]
    refuted: Flags


@dataclass(frozen=True, eq=False)
class Protection:
    """Tables that may be published beside what was known.

    evaluator  knows them and what at-risk cells rest on
    tables     suppressed or rounded ones, and recoded ones, which are whole; an earlier publication may have had some
    refused    sub-tables that no way protects, and why; left  those of them that the deadline came before
    is_ended   whether the deadline ended the search for less
    """

    evaluator: RiskEvaluator
    tables: tuple[SuppressedTable, ...] = ()
    refused: Mapping[SubTable, str] = field(default_factory=dict)
    left: tuple[SubTable, ...] = ()
    is_ended: bool = False

    @property
    def flags(self) -> tuple[Flags, ...]:
        """Of each table (cells,) which are suppressed, in C order."""
        return tuple(one.flags(self.evaluator.table.schema) for one in self.tables)

    @property
    def primary(self) -> tuple[ProtectionIntervals, ...]:
        """Of each table its primary cells, as the evaluator's witness pool shows them to move."""
        return tuple(protection_intervals(self.evaluator, one.view) for one in self.tables)


def suppress_jointly(
    evaluator: RiskEvaluator,
    views: Sequence[SubTable],
    start: Mapping[SubTable, Flags] | None = None,
    costs: Mapping[SubTable, Cost] | None = None,
    again: Mapping[SubTable, Ints] | None = None,
    deadline: Deadline = NEVER,
    mends: bool = True,
) -> Protection:
    """Suppress cells of each view beside what an evaluator knows, which must be safe; that is not judged here.

    start  of some views (cells,) flags in C order of cells that cost nothing to suppress
    costs  of some views what must be little of what is suppressed; of the others records
    again  of some views places of cells that are suppressed whatever else is, but those that are publicly known to be 0
    deadline  checked before each step: walks of what is in doubt where all is shown, and then each batch
    mends  whether less is looked for once all is proven, which leaves less room to others

    Other facts that are known stay as they are. What is suppressed does not depend on the workers. The search for less
    ends when it has cost what suppression did, or at the deadline once all is proven. NotReleasableError where a view
    has too many cells, or a primary cell stays without a proof that what is known without the views does not refute;
    ReleaseError where a component is too large for walks; DeadlineError where the deadline is over before.
    """
    table, is_ended = evaluator.table, False
    limited = replace(evaluator, effort=replace(evaluator.effort, executor=deadline.limits(evaluator.executor)))
    closed = tuple(map(table.schema.levels.closed, views))
    for view in closed:
        if (cells := st.cells(view, table.schema)) > MOST_CELLS:
            raise NotReleasableError(
                f"{st.label(view, table.schema)} has {cells} cells; a table with suppressed cells has at most "
                f"{MOST_CELLS}; take fewer variables, or coarser categories"
            )
    deadline.check()
    support, narrow = shown(limited, closed)
    searches, hidden = list[SuppressionSearch](), dict[SubTable, Flags]()
    for component in support.open:
        if inside := [view for view in closed if st.is_within(view, component.frame.variables)]:
            searches.append(
                SuppressionSearch(limited, component, inside, narrow, start or {}, costs or {}, again or {})
            )
    for search in searches:
        search.run(deadline)
    try:
        for search in searches if mends else ():
            search.improve(deadline)
    except DeadlineError:
        is_ended = True  # what was found is proven, whether or not less is
    for search in searches:
        hidden |= search.hidden_by_view()
    tables = tuple(SuppressedTable.at(view, np.flatnonzero(hidden[view]), table.schema, table.total) for view in closed)
    known = evaluator.known.plus_facts(one.fact for one in tables)
    chosen = {search.variables: search.chosen for search in searches}
    claimed = [
        (part.variables, Differences.concatenated([part.differences, *filter(None, [chosen.get(part.variables)])]))
        for part in support.proof().parts
    ]
    public = evaluator.knowing(known)
    public.pool = public.pool.with_evidence(claimed, known, {})
    for view in closed:
        _require_wide(public, view)
    return Protection(public, tables, is_ended=is_ended)


def protection_intervals(evaluator: RiskEvaluator, view: SubTable) -> ProtectionIntervals:
    """Of the primary cells of a suppressed table that an evaluator knows."""
    table, judged, none = evaluator.table, evaluator.pool.at_risk.own, np.zeros(0, np.int64)
    own = {one: (rows, places) for one, rows, places in judged.of_views(table.schema)}
    rows, places = own.get(view, (none, none))
    counts = table.marginal(view).dense.reshape(-1)
    small = np.flatnonzero((counts > 0) & (counts <= evaluator.criteria.primary_count))
    inner, is_judged = np.stack([counts[small], counts[small]], axis=1), np.isin(small, places)
    inner[is_judged] = Support(evaluator.known, evaluator.pool).own_inner[rows]
    cells = table.schema.restrict(st.members(view)).keys.unpack(small)
    return ProtectionIntervals(cells, counts[small], inner, ~is_judged)


def _require_wide(evaluator: RiskEvaluator, view: SubTable) -> None:
    """NotReleasableError where a primary cell is not shown to keep the width, and not refuted without the view."""
    own, width = protection_intervals(evaluator, view), evaluator.criteria.width
    if short := int((~own.refuted & ~width.is_wide(own.inner[:, 1] - own.inner[:, 0])).sum()):
        raise NotReleasableError(
            f"{short} of {len(own.counts)} small cells of {st.label(view, evaluator.table.schema)} were not proven to "
            f"keep a width of {width.min_width}, whatever else of it is suppressed; give a larger budget, or publish "
            "coarser categories"
        )


def shown(
    evaluator: RiskEvaluator, views: Sequence[SubTable], found: Iterable[tuple[SubTable, Differences]] = ()
) -> tuple[Support, Ints]:
    """What supports at-risk cells where all of the views is shown, after one short walk of each that is in doubt.

    And (n,) the rows of those that are not shown to keep the width then. Differences that were `found` before, by the
    components that they are of, support them too.
    """
    public = evaluator.known.plus_facts(Fact(view, source=st.label(view, evaluator.table.schema)) for view in views)
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
    certifying.walk(waiting[width.is_wide(_most(support, views, waiting))])
    return support, width.short(support, width.doubtful(support))


def _most(support: Support, views: Sequence[SubTable], rows: Ints) -> Ints:
    """(rows,) the count that no at-risk cell exceeds in its cells of the views."""
    most = np.full(len(rows), support.knowledge.total)
    for frame in (component.frame for component in support.open):
        for view in (view for view in views if st.is_within(view, frame.variables)):
            np.minimum(most, frame.marginals.at(st.within(view, frame.variables))[frame.row[rows]], out=most)
    return most
