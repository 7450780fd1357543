"""Choose weighted totals beside which every at-risk cell keeps its width, proven by feasible pairs.

Counts and totals can be combined: if weights are similar, a total is the count times their mean. So all released counts
count as known, and each at-risk cell must keep its width over pairs of a table and totals of its cells that agree with
everything. Totals without such a proof are suppressed. Lifting finds totals of weights with which a feasible table has
the same published totals as the true one. A difference of counts is given. If its own cells cannot carry it, nearby
cells may take and give weight within the limits of their records; each cell's total is a variable, and each published
total a row. Floating point only proposes: results are rounded to millionths and checked in integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sdc.executor import Executor
from sdc.feasible.differences import Differences, Flags
from sdc.feasible.proof import Proof
from sdc.feasible.walk import can_search
from sdc.feasible.witness_pool import CellRows
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table
from sdc.model.weights import UNIT, RecordWeights, RoundedTotals, WeightRanges
from sdc.risk.certifying import WALK_STEPS
from sdc.risk.criteria import Criteria
from sdc.risk.slices import CELLS_PER_SLICE, slices
from sdc.risk.support import Shift
from sdc.risk.units import MoveUnit, cut, move_cells
from sdc.solve.linear import LinearSums, cheapest
from sdc.weighted.pairs import Pairs, WeightedCertificate

SUPPORTS = (0, 100, 400, 1600)  # additional cells of the programs, in order of cost
MARGIN = 1e-3  # of a weight of 1: the possible sum of rounding errors of millionths
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LiftUnit:
    """Differences of counts to be lifted. The weights travel with them, in the table's order."""

    weights: RecordWeights
    known: Knowledge
    differences: Differences


@dataclass(frozen=True, eq=False)
class Lifted:
    """The checked pairs; (differences,) flags of the lifted ones, in order."""

    pairs: Pairs
    lifted: npt.NDArray[np.bool_]


def lift(table: Table, unit: LiftUnit) -> Lifted:
    """A feasible pair for each difference, if one is found."""
    lifter = _Lifter(table, unit.weights, unit.known.totals)
    found = [lifter.pair(cells, changes) for cells, changes in unit.differences]
    # those for which the solver is certain: the rest is decided in integers
    held = np.array([pair is not None for pair in found], np.bool_)
    pairs = Pairs.concatenated([Pairs.none(len(table.schema.axes)), *(pair for pair in found if pair is not None)])
    good = pairs.feasible(table, unit.weights, unit.known)
    held[held] = good
    return Lifted(pairs.rows(good), held)


class _Lifter:
    """Solves programs on the same table."""

    def __init__(self, table: Table, weights: RecordWeights, public: RoundedTotals) -> None:
        self._table, self._weights, self._public = table, weights, public
        self._ranges = WeightRanges.of(table, weights)
        truth = Table(table.schema, table.codes, weights.totals)
        self._totals = [_Totals(truth, subtable) for subtable in public.of]

    def pair(self, cells: Codes, changes: Counts) -> Pairs | None:
        """The pair of a difference that is feasible for the counts; None if no support carries it."""
        low, high = self._ranges.at(cells[changes > 0])
        if (low > high).any():
            return None  # no record can have all these categories
        near = np.zeros(0, np.int64)
        for support in SUPPORTS:
            if support:
                near = self._nearest(cells, support)
            some = np.concatenate([cells, self._table.codes[near]])
            by = np.concatenate([changes, np.zeros(len(near), np.int64)])
            shifts = self._shifts(some, by)
            if shifts is not None:
                moved = (by != 0) | (shifts != 0)
                return Pairs(Differences(np.array([0, moved.sum()]), some[moved], by[moved]), shifts[moved])
        return None

    def _nearest(self, cells: Codes, number: int) -> npt.NDArray[np.int64]:
        """Other rows with records that share most categories with some cell; ties go to most records."""
        codes = self._table.codes
        distance = np.full(len(codes), len(self._table.schema) + 1)
        for cell in cells:
            distance = np.minimum(distance, (codes != cell).sum(axis=1))
        rows = np.flatnonzero(distance > 0)
        order = np.lexsort([rows, -self._table.counts[rows], distance[rows]])
        return np.sort(rows[order[:number]])

    def _shifts(self, cells: Codes, changes: Counts) -> Counts | None:
        """(cells,) int64 shifts of their totals; None if the program has no solution."""
        row = self._table.schema.keys.matching(self._table.codes, cells)
        counts = np.where(row >= 0, self._table.counts[row], 0) + changes
        totals = np.where(row >= 0, self._weights.totals[row], 0)
        low, high = self._ranges.at(cells)
        # in floating point, where products cannot wrap; results are checked in integers
        least = np.where(counts > 0, counts * low.astype(np.float64), 0.0) - totals
        most = np.minimum(np.where(counts > 0, counts * high.astype(np.float64), 0.0), MAX_TOTAL) - totals
        rows, least_row, most_row = self._rows(cells)
        if (least > most).any() or (least_row > most_row).any():
            return None
        sums = [LinearSums(rows, least_row, most_row)] if len(least_row) else []
        found = cheapest(np.zeros(len(cells)), least / UNIT, most / UNIT, sums)
        if found is None:
            return None
        shifts: Counts = np.clip(np.rint(found * UNIT), np.ceil(least), np.floor(most)).astype(np.int64)
        return shifts

    def _rows(self, cells: Codes) -> tuple[npt.ArrayLike, Reals, Reals]:
        """A row for each published total with some of the cells, and the allowed sum of their shifts."""
        from scipy.sparse import csr_array

        of, start, low, high = list[Counts](), 0, list[Counts](), list[Counts]()
        for totals in self._totals:
            marginal_cells = self._table.schema.marginal_cells(cells, totals.subtable)
            first, group = totals.space.distinct(marginal_cells)
            own = totals.at(marginal_cells[first])
            least = self._public.shown(own) - self._public.base // 2
            # half-open: the end rounds up to the next multiple
            low.append(least - own)
            high.append(least + self._public.base - 1 - own)
            of.append(group + start)
            start += len(first)
        if not of:
            return np.zeros((0, len(cells))), np.zeros(0), np.zeros(0)
        column = np.tile(np.arange(len(cells)), len(of))
        matrix = csr_array((np.ones(len(column)), (np.concatenate(of), column)), shape=(start, len(cells)))
        return matrix, np.concatenate(low) / UNIT + MARGIN, np.concatenate(high) / UNIT - MARGIN


class _Totals:
    """The totals of a marginal, looked up by keys."""

    def __init__(self, truth: Table, subtable: SubTable) -> None:
        self.subtable = subtable
        self.space = truth.schema.space(st.members(truth.schema.levels.finest(subtable)))
        codes, self._totals = np.zeros((1, 0), np.uint16), np.array([truth.total])
        if subtable:
            marginal = truth.marginal(subtable)
            codes, self._totals = marginal.codes, marginal.counts
        # keys in the order of the cells; beyond 62 bits there are none, and no such sub-table is published
        self._keys = self.space.pack(codes)

    def at(self, cells: Codes) -> Counts:
        """(n,) totals of (n, axes of the sub-table) cells; 0 without records."""
        keys = self.space.pack(cells)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._totals[place], 0)


FIRST_ROUND, LAST_ROUND, MOST_PER_UNIT = 32, 2048, 64  # differences


def choose(
    table: Table,
    weights: RecordWeights,
    knowledge: Knowledge,
    criteria: Criteria,
    proof: Proof,
    base: int,
    executor: Executor,
    programs: int,
) -> WeightedCertificate:
    """Totals of the released frontier, the smallest sub-tables first; if one does not fit, its marginals.

    proof     of the counts: its differences are tried first
    base      of rounding, in millionths
    programs  limit of solved programs: later candidates are suppressed

    The total of all comes first. Whole levels are tried at once, then halves of those that do not fit.
    """
    search = _TotalsSearch(table, weights, knowledge, criteria, proof, base, executor, programs)
    search.add([0])
    waiting = [subtable for subtable in knowledge.release.frontier if subtable]
    while waiting:
        refused = search.add(_in_order(waiting, table))
        below = {child for subtable in refused for child in st.children(subtable, table.schema) if child}
        waiting = [child for child in st.maximal(below) if not search.has(child)]
    totals = search.known.totals.of
    withheld = tuple(subtable for subtable in knowledge.release.frontier if subtable not in totals)
    return WeightedCertificate(table.digest, base, totals, withheld, search.pairs)


def is_wide_enough(table: Table, criteria: Criteria, pairs: Pairs) -> bool:
    """Whether every at-risk cell has its width over the true table and these feasible pairs."""
    return not len(_narrow(table, criteria, pairs))


def _narrow(table: Table, criteria: Criteria, pairs: Pairs) -> CellRows:
    return np.flatnonzero(~_wide(pairs.reached(table, _cells(table, criteria)), criteria))


def _wide(ends: Intervals, criteria: Criteria) -> Flags:
    return criteria.width.is_wide(ends[:, 1] - ends[:, 0])


def _cells(table: Table, criteria: Criteria) -> np.ndarray:
    return table.codes[table.at_risk(criteria.small_count)]


def _in_order(subtables: Sequence[SubTable], table: Table) -> list[SubTable]:
    return sorted(subtables, key=lambda t: (st.ways(t, table.schema), st.cells(t, table.schema), t))


class _TotalsSearch:
    """The accepted totals, with the pairs that prove them safe."""

    def __init__(
        self,
        table: Table,
        weights: RecordWeights,
        knowledge: Knowledge,
        criteria: Criteria,
        proof: Proof,
        base: int,
        executor: Executor,
        programs: int,
    ) -> None:
        self._table, self._weights, self._criteria = table, weights, criteria
        self._executor, self._left = executor, programs
        self.known = replace(knowledge, totals=RoundedTotals((), base))
        self._tried = set[SubTable]()
        pool = _pool(table, knowledge, criteria, proof, executor)
        self._pool, self._hard = pool, np.zeros(len(pool), np.int64)
        self._row = table.schema.keys.matching(_cells(table, criteria), pool.cells)  # at-risk cell of each entry
        self._of = np.zeros(0, np.int64)  # the difference that each pair was lifted from
        self.pairs = Pairs.none(len(table.schema.axes))

    def has(self, subtable: SubTable) -> bool:
        """Whether it was evaluated, or follows from published totals."""
        return subtable in self._tried or any(st.is_within(subtable, other) for other in self.known.totals.of)

    def add(self, block: list[SubTable]) -> list[SubTable]:
        """Accept what fits beside the accepted totals, the whole block or halves of it; return the rest."""
        self._tried.update(block)
        if not block or self._fits(block):
            return []
        if len(block) == 1:
            return block
        half = len(block) // 2
        return self.add(block[:half]) + self.add(block[half:])

    def _fits(self, block: list[SubTable]) -> bool:
        """Whether every at-risk cell keeps its width with these totals too; then they are accepted."""
        known = replace(self.known, totals=replace(self.known.totals, of=(*self.known.totals.of, *block)))
        good = self.pairs.feasible(self._table, self._weights, known)
        pairs, of = self.pairs.rows(good), self._of[good]
        untried, size = np.ones(len(self._pool), np.bool_), FIRST_ROUND
        untried[of] = False
        while len(narrow := _narrow(self._table, self._criteria, pairs)):
            batch = self._hardest(untried, narrow)[:size]
            if not len(batch) or self._left <= 0 or not self._may_be_wide_enough(pairs, untried):
                return False
            lifted, found = self._lifted(np.sort(batch), known)
            pairs, of = Pairs.concatenated([pairs, found]), np.concatenate([of, lifted])
            self._hard[np.setdiff1d(batch, lifted)] += 1
            untried[batch], size = False, min(4 * size, LAST_ROUND)
        self.known, self.pairs, self._of = known, pairs, of
        return True

    def _hardest(self, untried: Flags, narrow: CellRows) -> CellRows:
        """Differences that move a cell below its width: those that failed before first, then those with fewest cells.

        One failure may be enough for a refusal, and few cells are easily carried.
        """
        moves = np.isin(self._row, narrow)
        rows = np.flatnonzero((np.bincount(self._pool.of[moves], minlength=len(self._pool)) > 0) & untried)
        return rows[np.lexsort([rows, np.diff(self._pool.start)[rows], -self._hard[rows]])]

    def _lifted(self, rows: CellRows, known: Knowledge) -> tuple[CellRows, Pairs]:
        """The lifted ones of the pool's differences with these ascending numbers, and their pairs."""
        parts = list(cut(rows, MOST_PER_UNIT))
        units = [LiftUnit(self._weights, known, self._pool.at(part)) for part in parts]
        self._left -= len(rows)
        found = list(self._executor.run(lift, self._table, units))
        lifted = [part[result.lifted] for part, result in zip(parts, found, strict=True)]
        return np.concatenate(lifted), Pairs.concatenated([result.pairs for result in found])

    def _may_be_wide_enough(self, pairs: Pairs, untried: Flags) -> bool:
        """Whether every at-risk cell would have its width if all untried differences were lifted."""
        joined = Pairs.concatenated([pairs, Pairs.unweighted(self._pool.rows(untried))])
        return is_wide_enough(self._table, self._criteria, joined)


def _pool(table: Table, knowledge: Knowledge, criteria: Criteria, proof: Proof, executor: Executor) -> Differences:
    """Differences over the whole table: from the proof if it covers the whole table, and from walks for other cells."""
    full = st.full(len(table.schema))
    parts = [part.differences for part in proof.parts if part.variables == full]
    pool = Differences.concatenated([Differences.none(len(table.schema.axes)), *parts])
    pool = pool.rows(pool.feasible(table, knowledge))
    for shift in (Shift.DOWN, Shift.UP, Shift.MORE_DOWN, Shift.MORE_UP):
        units = list(_walks(table, knowledge, criteria, pool, shift))
        found = executor.run(move_cells, table, units)
        pool = Differences.concatenated([pool, *(moved.differences for moved in found)])
    return pool


def _walks(
    table: Table, knowledge: Knowledge, criteria: Criteria, pool: Differences, shift: Shift
) -> Iterator[MoveUnit]:
    """Cells below their width: to be emptied, or filled by the missing width."""
    if not can_search(table):
        return
    cells, ends = _cells(table, criteria), _reached(pool, table, criteria)
    rows = np.flatnonzero(~_wide(ends, criteria))
    counts = table.count_at(cells[rows])
    changes = -counts if shift.is_down else criteria.width.min_width + ends[rows, 0] - counts
    for held in slices(table, CELLS_PER_SLICE):
        inside = np.flatnonzero(held.holds(cells[rows], table.schema))
        for piece in cut(inside, MOST_PER_UNIT):
            moved = cells[rows[piece]], changes[piece]
            yield MoveUnit(st.full(len(table.schema)), knowledge, held, *moved, shift, WALK_STEPS)


def _reached(differences: Differences, table: Table, criteria: Criteria) -> Intervals:
    """(at-risk cells, 2) smallest and largest count over the true table and these differences."""
    return Pairs.unweighted(differences).reached(table, _cells(table, criteria))
