"""Coarsening: levels on which a sub-table may go out that does not fit whole, some of its categories merged.

Such a level is a variable of the table like those of a hierarchy, and what is released on it is judged, proven and
published so. Which categories are merged is found before a release is searched, beside what is required to go out
whole: first those with small counts, and then, as long as cells are not shown to keep the width with the sub-table on
that level, those that they lie in. Of each axis the levels form a chain, each coarser than the one before: no two
overlap, whatever sub-tables they are for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.feasible.differences import Differences, Flags
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.levels import numbered
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable, merged_label, with_refinements
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.protect.request import ProtectionRequest
from sdc.protect.suppression import shown
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Support
from sdc.run_format import OF_RECORDS

Ints = npt.NDArray[np.int64]
MOST_CELLS = 1 << 24  # of a sub-table
_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, eq=False)
class Merged:
    """A table with levels that were made for sub-tables which may be coarsened.

    tried  of each sub-table, written `a*b`, the levels that may take the place of an axis, by how many cells are left
    left   those for which no level was made by the deadline
    """

    table: Table
    known: Knowledge
    tried: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()


def merged(
    evaluator: RiskEvaluator,
    constraints: Sequence[ProtectionRequest],
    hidden: SubTable,
    beside: Release,
    deadline: Deadline = NEVER,
) -> Merged:
    """The table with levels of which one may take the place of an axis in each sub-table that may be coarsened.

    hidden  levels of the table that are nobody's
    beside  what is to go out whole; it counts for nothing where it is not shown to be safe
    deadline  asked before each walk; the evaluator's units are limited by it too

    Of a sub-table categories of the axis that loses least are merged, or of the one asked for, and only within a
    category of the levels that the axis has; what is lost are cells in merged categories, or records and cells. Of an
    axis whose categories are numbers in order neighbours alone are merged. Beside the level that is made those may take
    the place of an axis that it has: first what leaves most cells, of equal ones what was there.
    InputError for a sub-table that has no axis but levels alone, or more than 2^24 cells, and where there would be more
    than 63 variables.
    """
    schema, small = evaluator.table.schema, evaluator.criteria.primary_count
    mergings = [_best(evaluator.table, request, hidden, small) for request in constraints if "recoding" in request.by]
    waiting = sorted(mergings, key=lambda one: one.loss(one.groups(one.alone, small)))
    asked, groups, found = evaluator, dict[int, Ints](), dict[SubTable, str]()
    with suppress(DeadlineError):
        asked = _beside(evaluator, beside, deadline)
        while waiting:
            merging = waiting[0]
            before = groups.get(merging.variable, merging.alone)
            planned = _planned(asked, merging, before, deadline)
            waiting.pop(0)
            if planned is not None:
                asked, level, groups[merging.variable] = planned
                if level is not None:
                    found[merging.request.view] = level
    after, tried = asked.table.schema, list[tuple[str, str]]()
    for request in (merging.request for merging in mergings):
        coarser = (v for axis in request.axes(schema) for v in st.members(schema.levels.coarser[axis] & ~hidden))
        may = (v for v in coarser if _share(schema.levels.groups[v]) <= request.max_share)
        levels = dict.fromkeys([*(schema.names[v] for v in may), *filter(None, [found.get(request.view)])])
        # what leaves most cells in the place of its axis comes first
        own = after.levels.closed(request.view)
        levelled = sorted(levels, key=lambda name: -st.cells(st.with_level(own, after.index(name), after), after))
        tried += ((st.label(request.view, schema), level) for level in levelled)
    left = tuple(st.label(merging.request.view, schema) for merging in waiting)
    return Merged(asked.table, known_at(evaluator.known, after), tuple(tried), left)


def _beside(evaluator: RiskEvaluator, beside: Release, deadline: Deadline) -> RiskEvaluator:
    """What knows a release where that is shown to be safe."""
    deadline.check()
    evaluation = evaluator.evaluate(beside)
    asked = evaluator.knowing(evaluator.knows(beside) if evaluator.accepts(evaluation) else evaluator.known)
    asked.pool = evaluation.pool
    return asked


def known_at(known: Knowledge, schema: Schema) -> Knowledge:
    """The same with more levels, which come last: what is known of an axis is known of them."""
    return _known_as(known, schema, schema.levels.closed)


def without_levels(table: Table, known: Knowledge, levels: SubTable) -> tuple[Table, Knowledge]:
    """The same without levels that come last."""
    if not levels:
        return table, known
    kept = st.full(len(table.schema)) & ~levels
    own = table.marginal(kept)
    return own, _known_as(known, own.schema, lambda view: view & kept)


def _known_as(known: Knowledge, schema: Schema, named: Callable[[SubTable], SubTable]) -> Knowledge:
    """The same by the sub-tables of another schema."""
    facts = tuple(replace(fact, view=named(fact.view)) for fact in known.published)
    release = Release.of(map(named, known.release.frontier))
    return Knowledge(schema, known.total, release, known.zeros, facts, listed=known.listed)


def _planned(
    evaluator: RiskEvaluator, merging: _Merging, before: Ints, deadline: Deadline
) -> tuple[RiskEvaluator, str | None, Ints] | None:
    """What is known with the sub-table at the first level that is shown to be safe; no level where it is whole.

    before  groups of the axis' categories that it begins with; last come those that it ends with. None where no level
            is.
    """
    schema, criteria = evaluator.table.schema, evaluator.criteria
    small, view, axis = criteria.primary_count, schema.levels.closed(merging.request.view), merging.variable
    # a small count bounds the counts of its cells: where that is too narrow the table cannot be released whole
    least = min(criteria.small_count, criteria.width.min_width - 1)
    if not merging.small(merging.alone, least) and criteria.keeps(evaluator.table, evaluator.known.zeros, view):
        deadline.check()
        support, narrow = shown(evaluator, [view])
        if not len(narrow):
            return _knowing(evaluator, evaluator.known.plus(Release.of([view])), support), None, before
    groups, column = merging.groups(before, small), schema.axes.index(axis)
    found = list[tuple[SubTable, Differences]]()
    while 1 < (number := groups.max() + 1) < len(groups) and _share(groups) <= merging.request.max_share:
        open_ = np.ones(len(groups), np.bool_)
        if (made := _with_level(evaluator, groups, axis, merging.adjacent)) is not None:
            at, level = made
            closed = at.table.schema.levels.closed
            view = st.with_level(merging.request.view, at.table.schema.index(level), at.table.schema)
            deadline.check()
            support, narrow = shown(at, [view], [(closed(variables), differences) for variables, differences in found])
            if not len(narrow) and criteria.keeps(at.table, at.known.zeros, view):
                return _knowing(at, at.known.plus(Release.of([view])), support), level, groups
            # what was found is feasible where less is public
            found = [(part.variables & st.full(len(schema)), part.differences) for part in support.proof().parts]
            open_[:] = False
            open_[at.pool.at_risk.cells[narrow, column]] = True
        groups = merging.groups(groups, small, open_)
        if groups.max() + 1 == number:
            return None
    return None


def _with_level(evaluator: RiskEvaluator, groups: Ints, axis: int, adjacent: bool) -> tuple[RiskEvaluator, str] | None:
    """An evaluator about the table with a level more, unless it has it, by its name; what was found stays.

    None for the level that says of which records an earlier publication is: it has no names for readers.
    """
    table, schema = evaluator.table, evaluator.table.schema
    for v in st.members(schema.levels.coarser[axis]):
        if np.array_equal(numbered(schema.levels.groups[v]), groups):
            return None if schema.variables[v].categories == OF_RECORDS else (evaluator, schema.names[v])
    level = _level(groups, schema, axis, adjacent)
    own = Table(with_refinements([*schema.variables, level]), table.codes, table.counts)
    at = RiskEvaluator(
        own, known_at(evaluator.known, own.schema), evaluator.criteria, evaluator.policy, evaluator.effort
    )
    return _knowing(at, at.known, Support(evaluator.known, evaluator.pool)), level.name


def _knowing(evaluator: RiskEvaluator, known: Knowledge, support: Support) -> RiskEvaluator:
    """Where that is known, with what supports less of it."""
    informed = evaluator.knowing(known)
    closed = known.schema.levels.closed
    claimed = ((closed(part.variables), part.differences) for part in support.proof().parts)
    informed.pool = informed.pool.with_evidence(claimed, known, {})
    return informed


def _best(table: Table, request: ProtectionRequest, hidden: SubTable, small_count: int) -> _Merging:
    """Of the axes of a sub-table the one whose merged categories cost least."""
    schema = table.schema
    axes = request.axes(schema)
    if st.cells(request.view, schema) > MOST_CELLS:
        raise InputError(
            f"protect would recode {st.label(request.view, schema)}, which has {st.cells(request.view, schema):,} "
            f"cells; at most {MOST_CELLS:,} are merged, name another way"
        )
    mergings = [_merging(table, request, axis, hidden) for axis in axes]

    def rank(merging: _Merging) -> tuple[int, int]:
        groups = merging.groups(merging.alone, small_count)
        return merging.small(groups, small_count), merging.loss(groups)

    return min(mergings, key=rank)


def _merging(table: Table, request: ProtectionRequest, axis: int, hidden: SubTable) -> _Merging:
    schema = table.schema
    axes = st.members(schema.levels.finest(request.view))
    dense, place = table.marginal(request.view).dense, axes.index(axis)
    sizes = dense.shape
    counts = np.moveaxis(dense, place, 0).reshape(sizes[place], -1).astype(np.int64)
    levels = [schema.levels.groups[v] for v in st.members(schema.levels.coarser[axis] & ~hidden)]
    parents = numbered(np.zeros(len(counts)), *levels, *_determined(table, axis))
    costs = np.full(len(counts), counts.shape[1])
    if isinstance(request.cost, tuple):
        costs += np.moveaxis(np.array(request.cost).reshape(sizes), place, 0).reshape(len(counts), -1).sum(axis=1)
    elif request.cost == "records":
        costs += counts.sum(axis=1)
    return _Merging(request, axis, counts, parents, _is_in_order(schema.variables[axis]), costs)


def _determined(table: Table, axis: int) -> Iterator[Ints]:
    """Of each variable with fewer categories that the axis determines in these records, (categories,) which it has.

    Where both are public, categories with others of it are of no use to each other.
    """
    axes, sizes = table.schema.axes, table.schema.sizes
    own = table.codes[:, axes.index(axis)]
    for column, other in enumerate(axes):
        if other != axis and sizes[other] < sizes[axis]:
            least, most = np.full(sizes[axis], sizes[other]), np.full(sizes[axis], -1)
            np.minimum.at(least, own, table.codes[:, column])
            np.maximum.at(most, own, table.codes[:, column])
            if (most <= least).all():  # of a category without records neither is found
                yield most


def _is_in_order(variable: Variable) -> bool:
    """Whether most categories begin with numbers that grow; codes of as many digits, 007, are none."""
    numbers = [number[0] for text in variable.categories if (number := _NUMBER.match(text))]
    are_codes = any(len(number) > 1 and number[0] == "0" for number in numbers)
    found = [int(number) for number in numbers]
    return not are_codes and 3 * len(found) >= max(9, 2 * len(variable.categories)) and sorted(set(found)) == found


def _level(groups: Ints, schema: Schema, axis: int, adjacent: bool) -> Variable:
    """The variable of a partition of an axis."""
    own = schema.variables[axis]
    names = (f"{own.name}_merged{f'_{number}' * (number > 1)}" for number in range(1, len(schema) + 2))
    name = next(name for name in names if name not in schema.names)
    members = (np.flatnonzero(groups == group) for group in range(groups.max() + 1))
    categories = tuple(merged_label([own.categories[code] for code in codes], adjacent) for codes in members)
    return Variable(name, categories, Coarser(own.name, tuple(groups.tolist())))


@dataclass(frozen=True, eq=False)
class _Merging:
    """Of a sub-table the counts by the categories of one of its variables: (categories, all others).

    parents  (categories,) only those of one parent are merged; adjacent  and only neighbours in their order
    costs    (categories,) of each that is merged with another
    """

    request: ProtectionRequest
    variable: int
    counts: Ints
    parents: Ints
    adjacent: bool
    costs: Ints

    @property
    def alone(self) -> Ints:
        """(categories,) each a group."""
        return np.arange(len(self.parents))

    def groups(self, groups: Ints, small_count: int, open_: Flags | None = None) -> Ints:
        """(categories,) groups that begin as these, merged until no cell has a small count, as far as that can be.

        open_  (categories,) those that are merged with another in any case

        The smallest group that is to be is merged with another that is, so that few categories are: with the one with
        which it has fewest small counts left. Where there is none, with the cheapest that leaves it fewest.
        """
        groups = numbered(groups)
        sums = np.zeros((groups.max() + 1, self.counts.shape[1]), np.int64)
        np.add.at(sums, groups, self.counts)
        parents, costs = np.zeros(len(sums), np.int64), np.zeros(len(sums), np.int64)
        parents[groups] = self.parents
        np.add.at(costs, groups, self.costs)
        costs[np.bincount(groups) > 1] = 0  # they are merged already
        alive, stuck, of = np.ones(len(sums), np.bool_), np.zeros(len(sums), np.bool_), np.arange(len(sums))
        left = _small(sums, small_count)
        if open_ is not None:
            left[groups[open_]] += 1
        while (waiting := np.flatnonzero(alive & ~stuck & (left > 0))).size:
            one = int(waiting[np.argmin(sums[waiting].sum(axis=1))])
            others = np.flatnonzero(alive & (parents == parents[one]))
            others = others[others != one]
            if self.adjacent:
                # groups are runs, numbered in their order
                place = np.searchsorted(others, one)
                others = others[max(0, place - 1) : place + 1]
            if not len(others):
                stuck[one] = True
                continue
            after = _small(sums[others] + sums[one], small_count)
            dearer = np.where(left[others] > 0, 0, costs[others])
            other = int(others[np.lexsort([sums[others].sum(axis=1), after, dearer])[0]])
            kept, gone = min(one, other), max(one, other)
            sums[kept] += sums[gone]
            left[kept], costs[kept], alive[gone] = _small(sums[kept : kept + 1], small_count)[0], 0, False
            stuck[kept] = False
            of[of == gone] = kept
        return numbered(of[groups])

    def loss(self, groups: Ints) -> int:
        """What the categories cost that are merged."""
        return int(self.costs[np.bincount(groups)[groups] > 1].sum())

    def small(self, groups: Ints, small_count: int) -> int:
        """How many cells have a small count."""
        sums = np.zeros((groups.max() + 1, self.counts.shape[1]), np.int64)
        np.add.at(sums, groups, self.counts)
        return int(_small(sums, small_count).sum())


def _share(groups: npt.NDArray[np.integer]) -> float:
    """Which share of the cells is in categories that are merged."""
    return float((np.bincount(groups)[groups] > 1).mean())


def _small(sums: Ints, small_count: int) -> Ints:
    """(n,) how many of the (n, m) counts are small."""
    found: Ints = np.count_nonzero((sums > 0) & (sums <= small_count), axis=1)
    return found
