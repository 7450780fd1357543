"""Min width: every at-risk cell's bounds must stay at least so wide ([KDSF] eq. 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.bounds.method import is_small
from sdc.feasible.bank import Bank, CellRows
from sdc.feasible.proof import Proof
from sdc.feasible.walk import can_search
from sdc.intruder.limit import Likely, PosteriorLimit
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table
from sdc.risk.criterion import Assessment, Depth, Effort, Judgement, Witness
from sdc.risk.support import Component, Shift, Support
from sdc.risk.units import EndsUnit, MoveUnit, batches, cut, find_ends, move_cells, narrowed, sparsest_moves
from sdc.risk.verdict import Verdict

CELLS_PER_UNIT = 8
CELLS_PER_PART = 1 << 18  # at-risk cells whose bounds are held at once
FIRST_ROUND, LAST_ROUND = 4, 2048  # the first cells are the likeliest to fail, and a failure ends a brief search
MOST_PER_UNIT = {Shift.DOWN: 256, Shift.UP: 256, Shift.MORE_DOWN: 8, Shift.MORE_UP: 8, Shift.SPARSEST_UP: 1}
FIRST_BATCH, LAST_BATCH = 2, 32
WALK_STEPS = 10_000  # most nodes of one cell's walks: 1 s
# brief: a walk that succeeds mostly has after 700, and a search asks dozens of questions that end with one that fails
BRIEF_STEPS = 4_000
MAX_WITNESSES = 20
FAR = 1 << 62  # wider than any cell


class Others(NamedTuple):
    """At-risk cells that are not held one by one: how many, and of all the smallest inner and outer width."""

    cells: int
    widths: tuple[int, int]


@dataclass(frozen=True)
class MinWidth:
    """Of the cells with 0 < count <= `small_count` each keeps a width of at least `min_width`.

    With a `limit` on the posterior the release must also keep that. Bounds have the last word: what they do not show to
    be wide a posterior never makes safe.
    """

    small_count: int
    min_width: int
    limit: PosteriorLimit | None = None

    def __post_init__(self) -> None:
        for name in ("small_count", "min_width"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 1, or nothing is protected")

    @property
    def monotone(self) -> bool:
        """With more released no cell's bounds get wider, but true counts may become less likely."""
        return self.limit is None

    def is_wide(self, widths: Counts) -> npt.NDArray[np.bool_]:
        """(n,) whether each width, in records, is wide enough."""
        return widths >= self.min_width

    def bank(self, table: Table) -> Bank:
        """An empty bank; InputError where no cell is at risk."""
        return Bank.of(table, self.small_count)

    def verdicts(self, bounds: CellBounds) -> npt.NDArray[np.int64]:
        """(n,) the verdict on each cell: its outer width refutes it, its inner width certifies it, or neither."""
        refuted, certified = ~self.is_wide(bounds.outer_width), self.is_wide(bounds.inner_width)
        return np.select([refuted, certified], [int(Verdict.UNSAFE), int(Verdict.SAFE)], int(Verdict.UNDECIDED))

    def assess(self, bounds: CellBounds, others: Others | None = None) -> Assessment:
        """The answer that the bounds of all at-risk cells, of which there is one at least, give: that of the worst."""
        verdicts, others = self.verdicts(bounds), others or Others(0, (FAR, FAR))
        # the smallest is the worst: one refuted cell refutes a release, whatever the others are
        worst = Verdict(int(verdicts.min(initial=Verdict.SAFE)))
        telling = np.flatnonzero(verdicts == worst) if worst < Verdict.SAFE else np.zeros(0, np.int64)
        low, high = others.widths
        return Assessment(
            worst,
            self.min_width,
            (int(bounds.inner_width.min(initial=low)), int(bounds.outer_width.min(initial=high))),
            len(bounds) + others.cells,
            int((verdicts == Verdict.UNDECIDED).sum()),
            tuple(_witness(bounds, row) for row in most_exposed(bounds, telling)[:MAX_WITNESSES]),
        )

    def judge(self, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort) -> Judgement:
        """The answer about a release beside what is known. See `Criterion.judge`.

        It stops at the first cell that proves the release unsafe.
        Cheap bounds of all at-risk cells come first. What they leave open goes to dearer methods, the most exposed
        cells first. Small tables get exact ones. In larger tables each cell is certified by feasible tables, searched
        component by component; outer bounds of the `refute_cells` most exposed ones that stay open may refute. Inner
        bounds rest on covers of the components and on tables in the bank, and so does "safe": a certificate has both.
        """
        return self._limited(_Case(self, table, known, asked, bank, effort).judged(), table)

    def examine(
        self, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort
    ) -> tuple[Judgement, CellBounds]:
        """The answer with the bounds of every at-risk cell that it rests on."""
        case = _Case(self, table, known, asked, bank, effort)
        return self._limited(case.judged(), table), case.bounds

    def likely(self, table: Table, knowledge: Knowledge) -> Likely | None:
        """What the release makes likely, beside the limit; ReleaseError where no exact engine gives its law."""
        return None if self.limit is None else self.limit.judge(table, knowledge, table.at_risk(self.small_count))

    def _limited(self, judgement: Judgement, table: Table) -> Judgement:
        """Unsafe where the limit does not hold, whatever the bounds show."""
        found = None if judgement.verdict is Verdict.UNSAFE else self.likely(table, judgement.knowledge)
        return replace(judgement, assessment=_with_limit(judgement.assessment, found))

    def rejudged(self, judgement: Judgement, bounds: CellBounds, bank: Bank) -> Judgement:
        """The answer that narrower bounds of all at-risk cells give, whose inner ends the bank shows.

        What the release makes likely does not change.
        """
        total = judgement.knowledge.total  # no cell is wider; so it is said where there is none
        answer = self.assess(bounds, Others(0, (total, total)))
        likely = None if answer.verdict is Verdict.UNSAFE else judgement.assessment.likely
        return replace(judgement, assessment=_with_limit(answer, likely), bank=bank)

    def proven(self, table: Table, knowledge: Knowledge, proof: Proof) -> Intervals:
        """(n, 2) of each at-risk cell the interval whose ends a proof shows, each difference checked in integers."""
        return Support(knowledge, self.bank(table).learnt(proof, knowledge)).inner

    def unproven(self, table: Table, knowledge: Knowledge, proof: Proof) -> int:
        """How many at-risk cells a proof does not show to be wide enough."""
        support = Support(knowledge, self.bank(table).learnt(proof, knowledge))
        return len(self.short(support, self.doubtful(support)))

    def doubtful(self, support: Support) -> CellRows:
        """At-risk cells without those that their marginal cells alone show to be wide enough."""
        # the lower end is at most the count, and that at most the small count
        return support.below(self.min_width + self.small_count)

    def short(self, support: Support, rows: CellRows) -> CellRows:
        """Those of the at-risk cells that are not shown to be wide enough."""
        inner = support.inner_at(rows)
        return rows[~self.is_wide(inner[:, 1] - inner[:, 0])]


def _with_limit(answer: Assessment, likely: Likely | None) -> Assessment:
    verdict = answer.verdict if likely is None or likely.is_kept else Verdict.UNSAFE
    return replace(answer, verdict=verdict, likely=likely)


def most_exposed(bounds: CellBounds, rows: CellRows) -> CellRows:
    """Narrowest outer first, then narrowest inner, then in the table's order."""
    order = np.lexsort([rows, bounds.inner_width[rows], bounds.outer_width[rows]])
    return rows[order]


def _witness(bounds: CellBounds, row: np.int64) -> Witness:
    low, high = bounds.outer[row].tolist()
    inner_low, inner_high = bounds.inner[row].tolist()
    cell = tuple(bounds.cells[row].tolist())
    return Witness(cell, int(bounds.counts[row]), (low, high), (inner_low, inner_high), bounds.method)


class _Case:
    """One question while it is answered: the bounds so far, what supports them, and what the search has taken.

    Bounds are held of the at-risk cells in doubt when it was asked; of all of them at the depth that bounds every one.
    Where one that is not certified is enough they are held part by part, as far as to the first with such a cell.
    """

    def __init__(
        self, criterion: MinWidth, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort
    ) -> None:
        bank.require(table, criterion.small_count)
        self._criterion, self._table, self._known, self._asked, self._effort = criterion, table, known, asked, effort
        knowledge = known.plus(asked)
        self._bank, self._support = bank, Support(knowledge, bank, effort.cells_per_slice)
        self._is_exact = is_small(table.schema)
        self._missed = dict(bank.missed)
        self._spent, self._given_up = 0, list[int]()
        self._methods = dict.fromkeys(["nested" if knowledge.decomposition is None else "decomposable"])
        self._hold(np.zeros(0, np.int64))

    def _hold(self, rows: CellRows) -> None:
        """Holds the bounds of these at-risk cells, ascending, and no others."""
        cells, self._rows, self._outer = self._bank.at_risk.cells, rows, self._support.outer_at(rows)
        # of all of them no copy: they may be millions
        self._cells = cells if len(rows) == len(cells) else cells[rows]

    def _parts(self) -> Iterator[CellRows]:
        """At-risk cells in doubt, those that were missed before and the most exposed in the first part."""
        rows = self._criterion.doubtful(self._support)
        if self._effort.depth is not Depth.BRIEF or len(rows) <= CELLS_PER_PART:
            yield rows
            return
        begins = range(0, len(rows), CELLS_PER_PART)
        exposed = np.concatenate([self._exposure(rows[begin : begin + CELLS_PER_PART]) for begin in begins])
        exposed[np.isin(rows, list(self._missed))] = 0
        ordered = rows[np.argsort(exposed, kind="stable")]
        for begin in begins:
            yield np.sort(ordered[begin : begin + CELLS_PER_PART])

    def _exposure(self, rows: CellRows) -> npt.NDArray[np.uint16]:
        """(rows,) numbers that order them by outer and then by inner width, as far as to a width of 255."""
        outer, inner = (np.diff(ends)[:, 0] for ends in (self._support.outer_at(rows), self._support.inner_at(rows)))
        return (np.minimum(outer, 255) << 8 | np.minimum(inner, 255)).astype(np.uint16)

    @property
    def bounds(self) -> CellBounds:
        """Of the cells held: inner ends are those that the components' covers and feasible tables show."""
        counts, inner = self._bank.at_risk.counts[self._rows], self._support.inner_at(self._rows)
        return CellBounds(self._cells, counts, self._outer, inner, " + ".join(self._methods))

    def judged(self) -> Judgement:
        """The answer, and the bank with what was found."""
        if self._effort.depth is Depth.EVERY:
            self._bound_every()
        else:
            for rows in self._parts():
                self._hold(rows)
                if self._verdict is Verdict.UNDECIDED:
                    self._decide()
                if self._verdict is not Verdict.SAFE:
                    break
        answer = self._criterion.assess(self.bounds, self._others)
        bank, stopped = self._bank_of(answer.verdict), self._blockers(answer)
        return Judgement(self._criterion, self._known, self._asked, answer, bank, self._spent, stopped)

    def _bound_every(self) -> None:
        self._hold(np.arange(len(self._bank.at_risk)))
        if self._is_exact:
            bounds = self.bounds
            self._bound_ends(self._rows[most_exposed(bounds, np.flatnonzero(~bounds.exact))])
        else:
            self._decide()

    @property
    def _others(self) -> Others:
        """The cells not held: wide enough, or in parts that nobody needed to look at."""
        return Others(len(self._bank.at_risk) - len(self._rows), self._support.narrowest())

    def _blockers(self, answer: Assessment) -> tuple[tuple[int, ...], ...]:
        """Of an unsafe release the cells that refute it, of an undecided one those that were given up."""
        if answer.verdict is Verdict.UNSAFE:
            return tuple(witness.cell for witness in answer.witnesses)
        open_ = self._short(np.array(self._given_up, np.int64))
        cells = self._bank.at_risk.cells[open_[:MAX_WITNESSES]]
        return tuple(tuple(cell) for cell in cells.tolist())

    def _bank_of(self, verdict: Verdict) -> Bank:
        """Of a safe release what its proof needs, for larger ones are asked about next; else all that was found."""
        if verdict is Verdict.SAFE:
            return self._bank.settled((part.settled() for part in self._support.open), self._missed)
        return self._bank.plus((part.evidence for part in self._support.open), self._missed)

    @property
    def _verdict(self) -> Verdict:
        return Verdict(int(self._criterion.verdicts(self.bounds).min(initial=Verdict.SAFE)))

    def _decide(self) -> None:
        """Searches for tables that prove cells safe, then for outer bounds that prove one unsafe."""
        depth = self._effort.depth
        if not self._is_exact and depth > Depth.REFUTE:
            self._certify()
        most = None if self._is_exact else self._effort.refute_cells
        if depth is Depth.BRIEF and most is not None:
            most = min(most, FIRST_BATCH)
        self._bound_ends(self._open()[:most])

    def _open(self) -> CellRows:
        """Undecided cells, those that were missed before first, then the most exposed."""
        bounds = self.bounds
        undecided = self._criterion.verdicts(bounds) == Verdict.UNDECIDED
        rows = self._rows[most_exposed(bounds, np.flatnonzero(undecided))]
        # a release is undecided as soon as one cell is, so those that failed before may spare all others a search
        times = np.array([self._missed.get(int(row), 0) for row in rows], np.int64)
        return rows[np.argsort(-times, kind="stable")]

    def _short(self, rows: CellRows) -> CellRows:
        """Those of the cells that are not certified yet."""
        return self._criterion.short(self._support, rows)

    @property
    def _left(self) -> int:
        """Steps of the budget: asked before a search begins, never of what is known."""
        return self._effort.budget.steps - self._effort.spent - self._spent

    # Certifying

    def _certify(self) -> None:
        """Rounds of more and more cells, whatever the workers; what one round finds is used by the next.

        Brief: cells are walked once, and those that stay open again and again, until one does not get its width. Else
        from cheap to dear: all cells are walked once before one is walked again, and what is open then has its
        sparsest difference looked for, which takes seconds a cell and found none in 48 where a search had stopped.
        """
        self._methods["moves"] = None
        waiting = self._open()
        if self._effort.depth is Depth.BRIEF:
            self._certify_briefly(waiting)
            return
        self._walks(waiting, Shift.DOWN, Shift.UP)
        self._walks(waiting, Shift.MORE_DOWN, Shift.MORE_UP)
        for batch in batches(self._short(waiting), FIRST_BATCH, LAST_BATCH):
            if self._left > 0:
                self._search(batch, Shift.SPARSEST_UP)
                self._note_missed(batch)

    def _certify_briefly(self, waiting: CellRows) -> None:
        for rows in batches(waiting, FIRST_ROUND, LAST_ROUND):
            if self._left <= 0:
                return  # who is not tried is not missed
            self._search(rows, Shift.DOWN, Shift.UP)
            # few at a time, because one that stays open is enough
            for batch in batches(self._short(rows), FIRST_BATCH, LAST_BATCH):
                if self._left > 0:
                    self._search(batch, Shift.MORE_DOWN, Shift.MORE_UP)
                if self._note_missed(batch):
                    return

    def _walks(self, rows: CellRows, down: Shift, up: Shift) -> None:
        """Rounds of cells; the last is about as large as what is left of the budget allows for, one way of a cell."""
        waiting, size = self._short(rows), LAST_BATCH
        while len(waiting) and self._left > 0:
            # larger rounds keep workers busy, but what one finds serves the next, and the budget must not run out
            # inside one
            size = min(2 * size, LAST_ROUND, 1 + self._left // WALK_STEPS)
            self._search(waiting[:size], down, up)
            waiting = self._short(waiting[size:])

    def _note_missed(self, rows: CellRows) -> int:
        """Counts those of the cells that are open still; how many."""
        failed = self._short(rows)
        self._given_up += failed.tolist()
        for row in failed.tolist():
            self._missed[row] = self._missed.get(row, 0) + 1
        return len(failed)

    def _search(self, rows: CellRows, *shifts: Shift) -> None:
        """What the workers find to move the cells, one way after the other."""
        for shift in shifts:
            units = list(self._move_units(self._short(rows), shift))
            work = sparsest_moves if shift is Shift.SPARSEST_UP else move_cells
            results = self._effort.executor.run(work, self._table, [unit for _, unit in units])
            for (component, _), found in zip(units, results, strict=True):
                component.add(found.differences)
                self._spent += found.nodes

    def _move_units(self, rows: CellRows, shift: Shift) -> Iterator[tuple[Component, MoveUnit]]:
        steps = self._effort.budget.steps_per_cell
        most = BRIEF_STEPS if self._effort.depth is Depth.BRIEF else WALK_STEPS
        # a linear program costs more than a walk, whatever is allowed for a cell
        if shift is Shift.SPARSEST_UP and steps <= WALK_STEPS:
            return
        for component, cells, changes in self._support.wanted(rows, self._criterion.min_width, shift):
            frame, known = component.frame, component.knowledge
            for held in component.slices if can_search(frame.table) else ():
                inside = np.flatnonzero(held.holds(frame.cells[cells], frame.table.schema))
                for piece in cut(inside, MOST_PER_UNIT[shift]):
                    moved = frame.cells[cells[piece]], changes[piece]
                    yield component, MoveUnit(frame.variables, known, held, *moved, shift, min(most, steps))

    # Bounding

    def _bound_ends(self, rows: CellRows) -> None:
        """Dearer bounds of some cells, in their order; no further than to one that is refuted where that decides."""
        chunks = [rows[i : i + CELLS_PER_UNIT] for i in range(0, len(rows), CELLS_PER_UNIT)]
        # an explicit component has its sharp bounds already
        searched = [component for component in self._support.open if not component.is_explicit]
        units = [self._ends_unit(component, chunk) for chunk in chunks for component in searched]
        results = iter(self._effort.executor.run(find_ends, self._table, units))
        for chunk in chunks if searched else ():
            outer: dict[SubTable, Intervals] = {}
            # not strict: the results go on with the next chunk
            for component, found in zip(searched, results, strict=False):
                component.add(found.differences)
                self._methods[found.method] = None
                outer[component.frame.variables] = found.outer[component.places(chunk)[1]]
            places = np.searchsorted(self._rows, chunk)
            self._outer = narrowed(self._outer, places, self._support.outer_by(outer, chunk))
            if self._effort.depth < Depth.EVERY and self._verdict is Verdict.UNSAFE:
                break

    @staticmethod
    def _ends_unit(component: Component, rows: CellRows) -> EndsUnit:
        frame = component.frame
        return EndsUnit(frame.variables, component.knowledge, frame.cells[component.places(rows)[0]])
