"""Trials: what one unit of each kind takes on this machine, in seconds and in memory of the worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from sdc.bounds.collapse import MAX_DICHOTOMOUS
from sdc.config.values import Objective
from sdc.executor import Executor, Result
from sdc.feasible.walk import can_search
from sdc.intruder import chains
from sdc.intruder.exchanges import Records
from sdc.intruder.laws import SATURATED, law_of
from sdc.memory import peak_bytes
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths, widths_of_sub_lattice
from sdc.risk.effort import STEPS_PER_SECOND, Effort
from sdc.risk.inquiry import Inquiry
from sdc.risk.reaching import Above, widths_above
from sdc.risk.slices import slices
from sdc.risk.support import Shift
from sdc.risk.sweep_plan import SweepPlan
from sdc.risk.units import EndsUnit, MoveUnit, find_ends, move_cells, sparsest_moves
from sdc.search.annealing import AnnealingChain
from sdc.search.ordered import OrderedSearch
from sdc.search.wishes import Wishes

SAMPLE, NODES, PROPOSALS = 6, 2_000, 2_000  # units of the widths, nodes of a walk, proposals
QUESTIONS, LATER = 12, 8  # asked of a growing release, and the last of them, whose time counts


@dataclass(frozen=True)
class UnitKind:
    """What is tried: the name of a kind of unit, and the settings it depends on."""

    name: str
    criteria: Criteria
    floor: int
    sweep: SweepPlan
    cells_per_slice: int
    breadth: int | None
    objective: Objective


@dataclass(frozen=True)
class UnitTrial:
    """What a worker took.

    seconds  for one of what is counted: a unit of the widths, a node of a walk, a cell's bounds, a proposal, a draw, a
             question about a growing release
    bytes    the most memory it has held so far
    """

    seconds: float
    bytes: int


def trials(table: Table, kinds: Sequence[UnitKind], executor: Executor) -> dict[str, UnitTrial]:
    """A trial of each kind, one after the other, so that on one worker the memory adds up as in a build."""
    return {kind.name: next(executor.run(trial, table, [kind])) for kind in kinds}


def trial(table: Table, kind: UnitKind) -> UnitTrial:
    """The unit: what this process takes for the kind."""
    # levels as variables of their own: that takes no less
    return UnitTrial(_KINDS[kind.name](table.flat, kind), peak_bytes())


def _start(table: Table, kind: UnitKind) -> float:
    return 0.0


def _widths(table: Table, kind: UnitKind) -> float:
    """Units from all over their list, after the last, which loads the kernels."""
    if kind.floor:
        places = range(len(table.schema))
        above = [Above(kind.criteria.small_count, kind.floor, kind.sweep.max_rows, 1 << v, st.full(v)) for v in places]
        return _mean_seconds(widths_above, table, above)
    return _mean_seconds(widths_of_sub_lattice, table, [(kind.criteria.small_count, cut) for cut in kind.sweep.cuts])


def _mean_seconds(function: Callable[[Table, Any], Any], table: Table, units: Sequence[Any]) -> float:
    # the first that runs compiles or loads the kernels, so its time does not count
    chosen = [units[-1], *units[:: -(-len(units) // SAMPLE)]]
    times = [_timed(function, table, unit)[0] for unit in chosen]
    return sum(times[1:]) / len(times[1:])


def _moves(table: Table, kind: UnitKind) -> float:
    """An at-risk cell is emptied beside all pairs, which leave it little room, and filled by a sparsest difference.

    Where that is no search to speak of, a node takes what it takes on a reference core.
    """
    if not can_search(table) or not len(table.at_risk(kind.criteria.small_count)):
        return 1 / STEPS_PER_SECOND
    cells, everything = table.codes[table.at_risk(kind.criteria.small_count)[:1]], st.full(len(table.schema))
    held = next(part for part in slices(table, kind.cells_per_slice) if part.holds(cells, table.schema).all())
    known, counts = _known(table, _pairs(table)), table.count_at(cells)
    unit = MoveUnit(everything, known, held, cells, -counts, Shift.DOWN, NODES)
    # once for the kernels and what a process shares, then for the time
    move_cells(table, unit)
    seconds, found = _timed(move_cells, table, unit)
    sparsest_moves(table, replace(unit, changes=np.ones(1, np.int64), shift=Shift.SPARSEST_UP))
    return seconds / found.nodes if found.nodes >= NODES // 10 else 1 / STEPS_PER_SECOND


def _questions(table: Table, kind: UnitKind) -> float:
    """Of a release that grows by small sub-tables, the later ones: the first find much that all others use.

    The order of a list by critical widths is not known before there are widths; any does for a trial.
    """
    if not len(table.at_risk(kind.criteria.small_count)):
        return 0.0
    variables, ends = range(len(table.schema)), list[float]()
    small = [st.of(kept) for size in (1, 2, 3) for kept in combinations(variables, size)]
    listed = CriticalWidths(np.array(small, np.uint64), np.full(len(small), kind.criteria.floor), 0, 0)
    inquiry = Inquiry(table, _known(table, NOTHING), kind.criteria, effort=Effort(cells_per_slice=kind.cells_per_slice))
    wishes = Wishes(breadth=kind.breadth, questions=QUESTIONS)
    OrderedSearch(inquiry, listed, lambda step: ends.append(time.perf_counter()), wishes).run()
    return float(np.mean(np.diff(ends)[-LATER:])) if len(ends) > 1 else 0.0


def _bounds(table: Table, kind: UnitKind) -> float:
    """Of one at-risk cell beside all pairs, which no separator splits."""
    cells = table.codes[table.at_risk(kind.criteria.small_count)[:1]]
    if not len(cells):
        return 0.0
    unit = EndsUnit(st.full(len(table.schema)), _known(table, _pairs(table)), cells)
    return _timed(find_ends, table, unit)[0]


def _annealing(table: Table, kind: UnitKind) -> float:
    if not len(table.at_risk(kind.criteria.small_count)):
        return 0.0
    chain = AnnealingChain(_known(table, NOTHING), kind.criteria, objective=kind.objective)
    try:
        # a step before the clock: it loads the kernels and counts the first marginals
        state = chain.step(table, chain.init(table, 0), 1)
    except ReleaseError:  # not even the one-way sub-tables are safe, which the build will say
        return 0.0
    return _timed(chain.step, table, state, PROPOSALS)[0] / PROPOSALS


def _draws(table: Table, kind: UnitKind) -> float:
    """From draw to draw beside all pairs, which leave chains more moves than most releases.

    Where they refuse so large a table, of records that exchange beside the pairs of neighbours; 0 where these do too.
    """
    known = _known(table, _pairs(table))
    try:
        chains.check(table, known)
    except ReleaseError:
        return _records_draw(table)
    space, state = chains.Space(table, known, law_of(SATURATED, table.schema)), np.ones(1, np.uint64)
    space.proceed(state, 1)  # loads the kernel
    return _timed(space.proceed, state, PROPOSALS)[0] / PROPOSALS * space.proposals


def _records_draw(table: Table) -> float:
    known = _known(table, Release.of(3 << v for v in range(len(table.schema) - 1)))
    rng, state = np.random.default_rng(0), np.ones(1, np.uint64)
    try:
        walk = Records(table, known, law_of(SATURATED, table.schema), rng)
    except ReleaseError:
        return 0.0
    walk.advance(state, rng)  # loads the kernel
    return _timed(walk.advance, state, rng)[0]


def _known(table: Table, release: Release) -> Knowledge:
    """Structural zeros change little of how long something takes, so that a trial has none."""
    return Knowledge(table.schema, table.total, release, NO_ZEROS, NO_FACTS)


def _pairs(table: Table) -> Release:
    """All pairs, of as many two-category variables as the dearest outer bound takes where there are enough."""
    sizes = table.schema.sizes
    dichotomous = [v for v, size in enumerate(sizes) if size == 2][:MAX_DICHOTOMOUS]
    members = dichotomous if len(dichotomous) == MAX_DICHOTOMOUS else range(len(sizes))
    return Release.of(1 << u | 1 << v for u, v in combinations(members, 2))


def _timed(work: Callable[..., Result], *given: Any) -> tuple[float, Result]:
    begun = time.perf_counter()
    result = work(*given)
    return time.perf_counter() - begun, result


_KINDS = {
    "start": _start,
    "widths": _widths,
    "moves": _moves,
    "questions": _questions,
    "bounds": _bounds,
    "annealing": _annealing,
    "draws": _draws,
}
