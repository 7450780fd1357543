"""Which cells of the tables of one component are suppressed, so that all stays proven: few of them.

Walks pay for each cell that they change and that is shown so far, and targets are looked after one batch after another,
each with what those before it hid. Then all that is hidden for others is looked at once more, the dearest first: it is
shown where what it protects can be protected for less by other walks, or, in a small component, where the integer
program finds that it can do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.deadline import Deadline
from sdc.feasible import walk
from sdc.feasible.differences import Differences, Flags
from sdc.feasible.suppressed_cells import PricedCells, begins, cells_at, changed_places, narrow
from sdc.model import subtable as st
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.protect.selection import Chosen, Selection
from sdc.risk.certifying import WALK_STEPS
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Component
from sdc.risk.units import PricedUnit, ProvenUnit, cut, move_groups, move_priced

Ints = npt.NDArray[np.int64]
Cost: TypeAlias = Literal["cells", "records"] | Ints | None
"""What is to be little of what is suppressed: cells, or records or (cells,) weights, and cells added up; None: records.

Few cells are often the largest ones, which have room to protect many: of the suppressed tables of a yearbook of `acs23`
by cells 18.9 % of the records were suppressed, by records 8.1 %.
"""
PRICE, REWARD = 15, 12  # of a cell that is shown, in weights of a walk; of one that is to move yet
DEAREST = 4  # times the price of a cell of median cost, at most
FIRST_BATCH, LAST_BATCH, BATCHES_LEFT = 16, 128, 64  # of many targets larger batches, this many at least
LEAST_PER_UNIT, MOST_PER_UNIT = 12, 128  # a unit costs as much as some targets
PLACES_EACH = 1 << 13  # prices of which are handed to a worker in the time that a target takes
IMPROVING_TRIES = tuple(
    range(begin, begin + 4) for begin in (0, 4, 8)
)  # tries of walks that look for something cheaper
REVISED_PART = 10  # the part of what is suppressed, not always so, that is looked at again at a time
WORTH = 25  # the part by which looking once at all of it has to lessen what is suppressed, or it was the last time
LOOKS = 20_000  # nodes that all looks may take, or as many as suppression took: some seconds of one core
MOST_PROVEN = 1_024  # cells of a component in which the integer program shows what need not be suppressed
MOST_PAIRED = 8  # of the differences that move a cell one way


@dataclass(frozen=True)
class WalkRound:
    """Walks of all that is open: what a shown cell costs, and tries, each where those before found nothing free."""

    price: int
    tries: tuple[range, ...]
    nodes: int


ROUNDS = (
    WalkRound(PRICE, tuple(range(n, n + 1) for n in range(4)), 1_000),
    WalkRound(1, (range(4),), 1_000),
    WalkRound(0, (walk.ALL,), WALK_STEPS),
)


def weights_of(cost: Cost, counts: Ints) -> Ints:
    """(cells,) what each cell costs beside itself."""
    if isinstance(cost, np.ndarray):
        return cost
    return np.zeros_like(counts) if cost == "cells" else counts


def _flags(evaluator: RiskEvaluator, view: SubTable, places: Ints | None) -> Flags:
    """(cells of the view,) those at these places, in C order, but those that are known to be 0."""
    schema = evaluator.table.schema
    found = np.zeros(st.cells(view, schema), np.bool_)
    if places is not None:
        found[places] = True
        found &= ~evaluator.known.zeros.excluded(view, schema).reshape(-1)
    return found


class SuppressionSearch:
    """Of some tables of one component: which of their cells are suppressed so far, and differences chosen.

    Targets are marginal cells that at-risk cells lie in, then small cells of the sub-tables, but those that no
    suppression helps, and then those of others that were suppressed before, whose places come after all of these and
    cost nothing.
    """

    def __init__(
        self,
        evaluator: RiskEvaluator,
        component: Component,
        views: Sequence[SubTable],
        short: Ints,
        start: Mapping[SubTable, Flags],
        costs: Mapping[SubTable, Cost],
        again: Mapping[SubTable, Ints],
    ) -> None:
        frame, small = component.frame, evaluator.criteria.primary_count
        self._evaluator, self._part, self._schema = evaluator, frame.table, frame.table.schema
        self.variables, self._views = frame.variables, tuple(views)
        hiding = tuple(st.within(view, frame.variables) for view in views)
        before = [one for one in frame.own.of_views(self._schema) if one[0] not in hiding]
        self._within = (*hiding, *(view for view, _, _ in before))
        facts = tuple(
            fact for fact in component.knowledge.facts if fact.view not in hiding or fact.intervals is not None
        )
        self._known = replace(component.knowledge, facts=facts)
        self._ends = begins(self._within, self._schema)[1:-1]
        counts = [self._part.marginal(view).dense.reshape(-1) for view in hiding]
        inside = np.concatenate(counts)
        is_small = (inside > 0) & (inside <= small)
        whole = evaluator.table.schema
        begun = [start.get(view, np.zeros(st.cells(view, whole), np.bool_)) for view in views]
        suppressed = [_flags(evaluator, view, again.get(view)) for view in views]
        always = is_small | np.concatenate(suppressed)
        pairs = [(costs.get(view), own) for view, own in zip(views, counts, strict=True)]
        is_weighed = np.concatenate(
            [np.full(len(own), isinstance(cost, np.ndarray) or cost != "cells") for cost, own in pairs]
        )
        weights = 1 + np.concatenate([weights_of(cost, own) for cost, own in pairs])
        typical = max(1, int(np.median(weights)))
        prices = np.minimum(PRICE * weights // typical + 1, DEAREST * PRICE) - ~is_weighed
        others = [self._part.marginal(view).dense.reshape(-1) for view, _, _ in before]
        self._counts, more = np.concatenate([inside, *others]), sum(map(len, others))
        self._prices = np.pad(prices, (0, more))
        begin = begins(self._within, self._schema)[len(hiding) :]
        places = [places + first for (_, _, places), first in zip(before, begin.tolist(), strict=False)]
        moves = is_small & ~np.concatenate([self._refuted(view) for view in views])
        self._places = np.concatenate([np.flatnonzero(moves), *places])
        self.spent, self._lacking, self._found = 0, np.zeros(0, np.int64), Pool(self)
        always, started = (np.pad(always, (0, more), constant_values=True), np.pad(np.concatenate(begun), (0, more)))
        ends = np.concatenate([np.stack([inside[moves]] * 2, axis=1), *(component.own_inner[n] for _, n, _ in before)])
        self._selection = Selection(always, started, np.pad(weights, (0, more)), *self._targets(component, short, ends))

    def _refuted(self, view: SubTable) -> Flags:
        """(cells of the view,) which are too narrow by what is known without it: no suppression helps these."""
        before = self._evaluator.before or self._evaluator.known
        return narrow(self._evaluator.table, view, before, self._evaluator.criteria.width.min_width)

    def _targets(self, component: Component, short: Ints, ends: Ints) -> tuple[tuple[Ints, Ints], Ints, Ints]:
        """How far each goes down and up already, how far it has to, and as far as going down counts."""
        frame, width = component.frame, self._evaluator.criteria.width.min_width
        rows, place = component.places(short)
        useful = np.zeros(len(rows), np.int64)
        np.maximum.at(useful, place, self._evaluator.pool.at_risk.counts[short])
        self._cells, inner, counts = frame.cells[rows], component.inner[rows], frame.counts[rows]
        own = self._counts[self._places]
        useful = np.concatenate([useful, own])
        inner, counts = np.concatenate([inner, ends]), np.concatenate([counts, own])
        needed = width + useful - counts
        low, high = counts - inner[:, 0], inner[:, 1] - counts
        self._own_of = np.full(len(self._counts), -1)
        self._own_of[self._places] = len(rows) + np.arange(len(own))
        return (low, high), needed, useful

    def run(self, deadline: Deadline) -> None:
        """Rounds of all that is open, in batches of a random order that is the same each time.

        Where what was to be suppressed to begin with may do by itself, that is looked for first. What is known to move
        cells without the sub-tables is taken where it costs nothing, and last of all whatever it costs.
        """
        known = self._found
        evidence = self._evaluator.pool.of_component(self.variables)
        known.add(evidence.differences.rows(evidence.feasible(self._known)))
        self._take(known, free=True)
        if self._selection.is_begun and self._takes_programs:
            deadline.check()
            self._begin()
        shuffled = np.random.default_rng(0).permutation(len(self._selection.needed))
        for a_round in ROUNDS:
            waiting, size = self._selection.open(shuffled), FIRST_BATCH
            while len(waiting) and not self._is_over:
                deadline.check()
                self._batch(waiting[:size], a_round)
                waiting = self._selection.open(waiting[size:])
                size = min(2 * size, max(LAST_BATCH, len(waiting) // BATCHES_LEFT))
        self._take(known, free=False)
        self._selection.shrink()
        self._lacking = self._selection.open(shuffled)

    def _take(self, pool: Pool, free: bool) -> None:
        for target in self._selection.open(np.arange(len(self._selection.needed))).tolist():
            self._choose(target, pool, free)

    @property
    def _takes_programs(self) -> bool:
        return bool(self._part.schema.cells <= MOST_PROVEN)

    def _begin(self) -> None:
        targets, pool = self._selection.open(np.arange(len(self._selection.needed))), Pool(self)
        if self._proving(targets, self._selection.hidden, pool):
            self._take(pool, free=True)

    @property
    def _is_over(self) -> bool:
        return self.spent >= self._evaluator.effort.budget.steps

    def _batch(self, targets: Ints, a_round: WalkRound) -> None:
        pool = self._found
        for tried, tries in enumerate(a_round.tries, start=1):
            open_ = self._selection.open(targets)
            if not len(open_):
                break
            self._walk(open_, a_round, tries, pool)
            for target in open_.tolist():
                self._choose(target, pool, free=tried < len(a_round.tries))

    def _walk(self, targets: Ints, a_round: WalkRound, tries: range, pool: Pool) -> None:
        """Walks of each down and then up by what is lacking; what they find goes to the pool."""
        useful, needed = self._selection.useful[targets], self._selection.needed[targets]
        down = self._selection.low[targets].copy()
        further = np.flatnonzero((down < useful) & (needed > 0))
        gone = self._moved(targets[further], -np.minimum(useful, needed)[further], a_round, tries, pool)
        down[further] = np.maximum(down[further], gone)
        up = needed - np.minimum(down, useful)
        further = np.flatnonzero(up > self._selection.high[targets])
        self._moved(targets[further], up[further], a_round, tries, pool)

    def _moved(self, targets: Ints, changes: Ints, a_round: WalkRound, tries: range, pool: Pool) -> Ints:
        """How far each was moved."""
        prices = np.where(self._selection.hidden, 0, -(-a_round.price * self._prices // PRICE))
        own = np.arange(len(self._cells), len(self._selection.needed))
        prices[self._places[self._selection.open(own) - len(self._cells)]] = -REWARD
        suppressed, gone = PricedCells(self._within, prices.astype(np.int16)), np.zeros(len(targets), np.int64)
        is_own = targets >= len(self._cells)
        kinds = np.flatnonzero(~is_own), np.flatnonzero(is_own)
        least = max(LEAST_PER_UNIT, len(prices) // PLACES_EACH)
        pieces = [piece for kind in kinds for piece in cut(kind, MOST_PER_UNIT, least)]
        units = [self._unit(suppressed, targets[piece], changes[piece], tries, a_round.nodes) for piece in pieces]
        for piece, found in zip(
            pieces, self._evaluator.executor.run(move_priced, self._evaluator.table, units), strict=True
        ):
            pool.add(found.differences)
            gone[piece] = np.abs(found.gone)
            self.spent += int(found.nodes.sum())
        return gone

    def _unit(self, suppressed: PricedCells, targets: Ints, changes: Ints, tries: range, nodes: int) -> PricedUnit:
        asked = self.variables, self._known, suppressed
        if len(targets) and targets[0] >= len(self._cells):
            return PricedUnit(*asked, None, self._places[targets - len(self._cells)], changes, tries, nodes)
        return PricedUnit(*asked, self._cells[targets], targets[:0], changes, tries, nodes)

    def _choose(self, target: int, pool: Pool, free: bool) -> list[int]:
        """Takes the pair of differences, down and up, that proves it and suppresses least more; or only a free one.

        The numbers of those taken.
        """
        selection = self._selection
        if not selection.is_open(np.array([target]))[0]:
            return []
        best: tuple[int, int, int, tuple[int, ...]] | None = None
        needed, useful = int(selection.needed[target]), int(selection.useful[target])
        downs, ups = self._ways(target, pool, -1), self._ways(target, pool, 1)
        for (first, down, one), (second, up, other) in product(downs, ups):
            # both together cost no less than either
            if min(down, useful) + up < needed or (best is not None and max(first, second) >= best[0]):
                continue
            both = tuple(at for at in (one, other) if at >= 0)
            cost = selection.cost(*(pool.found[at].places for at in both))
            if best is None or cost < best[0]:
                best = cost, one, other, both
        if best is None or (best[0] and free):
            return []
        return [selection.take(pool.found[at]) for at in best[3]]

    def _ways(self, target: int, pool: Pool, sign: int) -> list[tuple[int, int, int]]:
        """What it costs and how far it goes one way, by what was chosen and by the cheapest differences of the pool.

        Of those that cost more one that goes farther than all before it too.
        """
        selection = self._selection
        reached, most = int((selection.low if sign < 0 else selection.high)[target]), int(selection.needed[target])
        moving = sorted(
            (selection.cost(pool.found[at].places), -min(sign * by, most), at)
            for by, at in pool.of(target)
            if by * sign > reached
        )
        found = [(0, reached, -1)]
        for number, (cost, by, at) in enumerate(moving):
            if number < MOST_PAIRED or -by > reached:
                found.append((cost, -by, at))
            reached = max(reached, -by)
        return found

    def improve(self, deadline: Deadline) -> None:
        """What suppression cells protects is protected by less, where that is found, as long as it is worth it.

        Looks end when they have cost what suppression did, the dearest cells having been looked at first.
        """
        until = self.spent + max(self.spent, LOOKS)
        for place in self._selection.extra.tolist():
            if self._selection.hidden[place]:
                self._show(place, self._found)
        for tries in IMPROVING_TRIES:
            before = self._selection.spent
            self._improve_once(deadline, tries, until)
            if before - self._selection.spent <= before // WORTH:
                break
        if self._takes_programs:
            for place in self._selection.extra.tolist():
                if self._selection.hidden[place] and not self._is_over:
                    deadline.check()
                    self._prove(place)

    def _improve_once(self, deadline: Deadline, tries: range, until: int) -> None:
        seen, until = np.zeros(len(self._counts), np.bool_), min(until, self._evaluator.effort.budget.steps)
        while len(waiting := self._selection.extra[~seen[self._selection.extra]]) and self.spent < until:
            places = waiting[: -(-len(waiting) // REVISED_PART)]
            deadline.check()
            self._improve_batch(places, tries)
            seen[places] = True

    def _improve_batch(self, places: Ints, tries: range) -> None:
        """Of what is suppressed for others it is looked at some places again, all of them shown, and then at each."""
        with self._without(places) as dropped:
            self._walk(self._selection.open(self._moved_by(dropped)), ROUNDS[0], tries, self._found)
        for place in places.tolist():
            self._show(place, self._found)

    def _prove(self, place: int) -> None:
        """Shows a place where the integer program finds that all it protects moves without it."""
        selection, pool = self._selection, Pool(self)
        hidden = selection.hidden.copy()
        hidden[place] = False
        with self._without(np.array([place])) as dropped:
            targets = selection.open(self._moved_by(dropped))
        if self._proving(targets, hidden, pool):
            self._show(place, pool)

    def _proving(self, targets: Ints, hidden: Flags, pool: Pool) -> bool:
        """Whether targets move as far as they must while nothing changes but what is hidden; how goes to the pool."""
        public = (
            SuppressedTable.at(view, np.flatnonzero(own), self._schema, self._part.total).fact
            for view, own in zip(self._within, np.split(hidden, self._ends)[: len(self._views)], strict=False)
        )
        asked = self._selection.useful[targets], self._selection.needed[targets]
        unit = ProvenUnit(
            self.variables, self._known.plus_facts(public), tuple(map(self._group, targets.tolist())), *asked
        )
        (found,) = self._evaluator.executor.run(move_groups, self._evaluator.table, [unit])
        pool.add(found.differences)
        self.spent += found.steps
        return found.are_moved

    def _group(self, target: int) -> Ints:
        """The places of its cells in the component, in C order."""
        if target < len(self._cells):
            return self._schema.keys.pack(self._cells[target : target + 1]).astype(np.int64)
        return self._cells_of_places[target - len(self._cells)]

    @cached_property
    def _cells_of_places(self) -> tuple[Ints, ...]:
        return cells_at(self._places, self._within, self._schema)

    @contextmanager
    def _without(self, places: Ints) -> Iterator[list[Chosen]]:
        """While what was taken that changes these places is not."""
        dropped = {at: self._selection.drop(at) for at in self._selection.users(places.tolist())}
        try:
            yield list(dropped.values())
        finally:
            for at, chosen in dropped.items():
                self._selection.take(chosen, at)

    def _moved_by(self, some: Iterable[Chosen]) -> Ints:
        """The targets that these move, but those that nothing was found for."""
        found = np.unique(np.concatenate([self._lacking[:0], *(chosen.targets for chosen in some)]))
        return np.setdiff1d(found, self._lacking)

    def _show(self, place: int, pool: Pool) -> None:
        """Takes other differences than those that change a place, where they suppress no more."""
        selection = self._selection
        before, users = selection.spent, selection.users([place])
        if not users:
            return
        gone = {at: selection.drop(at) for at in users}
        targets = self._moved_by(gone.values())
        taken = [at for target in selection.open(targets).tolist() for at in self._choose(target, pool, free=False)]
        taken = [at for at in taken if not selection.drop_spare(at)]
        if selection.spent > before or len(selection.open(targets)):
            for at in taken:
                selection.drop(at)
            for at, chosen in gone.items():
                selection.take(chosen, at)

    def effects(self, differences: Differences) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Of which difference each is, the target and its change; and of which each place is that it changes."""
        cells = self._schema.keys.matching(self._cells, differences.cells)
        hit = cells >= 0
        of, places, changes = changed_places(differences, self._within, self._schema)
        own = self._own_of[places]
        of_both = np.concatenate([differences.of[hit], of[own >= 0]])
        targets, by = (
            np.concatenate([cells[hit], own[own >= 0]]),
            np.concatenate([differences.changes[hit], changes[own >= 0]]),
        )
        return of_both, targets, by, of, places

    @property
    def chosen(self) -> Differences:
        """All that were."""
        none = Differences.none(len(self._schema.axes))
        return Differences.concatenated([none, *self._selection.differences])

    def hidden_by_view(self) -> dict[SubTable, Flags]:
        """Of each table (cells,) flags."""
        return dict(zip(self._views, np.split(self._selection.hidden, self._ends), strict=False))


class Pool:
    """Differences that were found for a batch."""

    def __init__(self, search: SuppressionSearch) -> None:
        self._search, self.found = search, list[Chosen]()
        self._of: dict[int, list[tuple[int, int]]] = {}

    def add(self, differences: Differences) -> None:
        """With these."""
        of, targets, changes, of_places, places = self._search.effects(differences)
        order = np.argsort(of, kind="stable")
        ends = np.searchsorted(of[order], np.arange(1, len(differences)))
        of_targets, by = np.split(targets[order], ends), np.split(changes[order], ends)
        changed = np.split(places, np.searchsorted(of_places, np.arange(1, len(differences))))
        self.put(
            Chosen(differences.at(np.array([d])), changed[d], of_targets[d], by[d]) for d in range(len(differences))
        )

    def put(self, found: Iterable[Chosen]) -> None:
        """With these."""
        for chosen in found:
            for target, change in zip(chosen.targets.tolist(), chosen.changes.tolist(), strict=True):
                self._of.setdefault(target, []).append((change, len(self.found)))
            self.found.append(chosen)

    def of(self, target: int) -> list[tuple[int, int]]:
        """By how much each of some differences changes it."""
        return self._of.get(target, [])
