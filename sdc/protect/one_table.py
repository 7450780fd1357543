"""Suppression: which cells of one table to suppress so that what stays, added and subtracted, pins no small count.

The choice of cells discloses more: an intruder who makes it for each table that agrees can rule some tables out.
Nothing here judges that; in 2 x 3 tables of 10 records it discloses two in five of the suppressed counts of 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from sdc.feasible.witnesses import Witnesses
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError, many
from sdc.model.knowledge import Knowledge
from sdc.model.named import Tabular, named_cells
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.protect.rounding import Dense, checked
from sdc.protect.suppression import protection_intervals, suppress_jointly
from sdc.protect.suppression_search import Cost, weights_of
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Verdict
from sdc.run_format import COUNT, TOTAL
from sdc.solve.equations import Equations
from sdc.solve.integer import IntegerSystem
from sdc.solve.linear import LinearSums, cheapest, largest

Flags = npt.NDArray[np.bool_]
MOST_CELLS = 4096
SOLVES = 4000  # of the solver, before a choice that is not the cheapest is taken
KEPT = 512  # tables that agree, the newest
MOST_LIKELY, FEW_SOLVES = 2048, 1500  # cells and solves of a set that a search begins with
PARTS = 60  # of a record, in which the worth of cells is counted


@dataclass(frozen=True, eq=False, repr=False)
class Suppressed(Tabular):
    """Which cells are suppressed.

    counts    of the table, those of suppressed cells too, which are confidential
    suppressed  flags of its shape
    bounds    (sensitive, 2) between which each sensitive cell, in C order, can move, given the rest, all margins
              and the structural zeros
    weight    the records in suppressed cells
    optimal   whether no other choice has less of records and cells added up; else it is one that protects, and was not
              proven the best. Confidential, as it helps to rule out tables
    margins   whether all its margins are public with it; else those are that were
    refuted   (n, axes) codes of sensitive cells that are too narrow by what is public without it: no cell suppressed
              helps these. Confidential
    judged_whole  whether every at-risk cell of the whole table was judged too, and not the small ones of this alone

    Examples
    --------
    >>> sdc.suppress("czech_auto_workers.csv", by="A*C", min_width=3)
    0 of 4 cells suppressed; small_count=2
    """

    counts: Dense
    suppressed: Flags
    bounds: npt.NDArray[np.int64]
    weight: int
    optimal: bool
    margins: bool
    refuted: npt.NDArray[np.uint16]
    judged_whole: bool = False

    @property
    def withheld(self) -> Flags:
        """The old name of `suppressed`, for one release."""
        return self.suppressed

    @property
    def headline(self) -> str:
        return f"{int(self.suppressed.sum()):,} of {self.suppressed.size:,} cells suppressed"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Every cell of the table, its count None where it is suppressed."""
        cells = named_cells(schema.keys.unpack(np.arange(schema.cells)), schema)
        cells_of = zip(self.counts.reshape(-1).tolist(), self.suppressed.reshape(-1).tolist(), strict=True)
        return {**cells, COUNT: [None if hidden else count for count, hidden in cells_of]}

    def listed(self, schema: Schema) -> list[dict[str, Any]]:
        """The same row by row, and where its margins are public the totals of all of them."""
        columns = self.columns(schema)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        names = [name for name in columns if name != COUNT]
        summed = [axes for n in range(1, len(names) + 1) for axes in combinations(range(len(names)), n)]
        for axes in summed if self.margins else ():
            totals = self.counts.sum(axis=axes, keepdims=True)
            for place, count in zip(np.ndindex(totals.shape), totals.reshape(-1).tolist(), strict=True):
                own = rows[int(np.ravel_multi_index(place, self.counts.shape))]
                rows.append({**own, **{names[axis]: TOTAL for axis in axes}, COUNT: count})
        return rows


def suppress(
    counts: Dense,
    small_count: int,
    min_width: int,
    *,
    zeros: Flags | None = None,
    solves: int = SOLVES,
) -> Suppressed:
    """The cells to suppress, least records and cells in all, so that each count of 1 to `small_count` keeps its width.

    counts  integers of any shape; its margins with one variable summed out stay public, and so all others
            of one variable its labels are known, which say that a category with records has some
    zeros   flags of its shape: cells that everybody knows to be 0; none of them is suppressed, for it protects nothing

    By cuts: the cheapest set that meets all that is known to be needed is tried; where a sensitive cell has too narrow
    bounds, by the multipliers of a linear program cells must be suppressed that are worth the width together (Fischetti
    and Salazar 2001), or, where integers alone are too narrow, one of the cells that are public then ([DKS] section 5).
    After so many solves all cells are suppressed but those that protection does without. InputError for counts
    below 0, or above 0 in a known zero, more than 4,096 cells, or a width below 1; NotReleasableError where even
    suppressing all leaves a cell too narrow.
    """
    counts = checked(counts, MOST_CELLS)
    if min_width < 1 or small_count < 1:
        raise InputError(f"small_count = {small_count} and min_width = {min_width}; each must be at least 1")
    known = np.zeros(counts.shape, np.bool_) if zeros is None else zeros
    if counts[known].any():
        raise InputError(
            f"{many(int((counts[known] > 0).sum()), 'cell')} known to be 0, with a count above 0; correct the zeros"
        )
    intruder = _Intruder(counts, (counts > 0) & (counts <= small_count), known, MinWidth(min_width))
    narrow = intruder.narrow(np.ones(len(intruder.flat), np.bool_))
    if narrow:
        raise NotReleasableError(
            f"the bounds of {many(len(narrow), 'cell')} are narrower than {min_width} though all cells are "
            "suppressed: its "
            f"margins{'' if intruder.unknown.all() else ' and the structural zeros'} tell them; merge categories"
        )
    least = _least(intruder, intruder.flat + 1, solves)
    return intruder.suppressed(
        _greedy(intruder) if least is None else least, optimal=least is not None and intruder.proven
    )


def likely(evaluator: RiskEvaluator, view: SubTable, cost: Cost) -> Flags | None:
    """(cells of a view,) those of least weight that protect its small cells beside its margins, in C order.

    None where margins are not public, cells are many, or none was found soon. What else is known is not looked at.
    """
    table, known, criteria = evaluator.table, evaluator.known, evaluator.criteria
    if any(margin not in known.release for margin in st.margins(view, table.schema)):
        return None
    if st.cells(view, table.schema) > MOST_LIKELY:
        return None
    counts = table.marginal(view).dense
    small = (counts > 0) & (counts <= criteria.primary_count)
    intruder = _Intruder(counts, small, known.zeros.excluded(view, table.schema), criteria.width)
    narrow = intruder.narrow(intruder.unknown)
    intruder.sensitive[narrow] = False
    intruder.cells = np.setdiff1d(intruder.cells, narrow)
    return _least(intruder, 1 + weights_of(cost, intruder.flat), FEW_SOLVES, mip_rel_gap=0.01, node_limit=1000)


def _least(intruder: _Intruder, weights: Dense, solves: int, **options: float) -> Flags | None:
    """The cells of least weight with which no sensitive cell is narrow; None where that took more solves."""
    needs, cuts = _never_alone(intruder), list[Dense]()
    while intruder.solves < solves:
        if (suppressed := _cheapest(weights, intruder, needs, cuts, options or {"mip_rel_gap": 0})) is None:
            break
        if not (narrow := intruder.narrow(suppressed)):
            return suppressed
        for cell in narrow:
            if (cut := intruder.cuts.pop(cell, None)) is None and intruder.solves < solves:
                cut = _cut(intruder, suppressed, cell)
            cuts += [] if cut is None else [cut]
    return None


def suppress_beside(
    table: Table,
    known: Knowledge,
    subtable: SubTable,
    criteria: Criteria,
    effort: Effort,
    before: Knowledge | None = None,
    witnesses: Witnesses | None = None,
) -> Suppressed:
    """The cells of a sub-table to suppress, so that the others may be public beside what is known of the table.

    Of as many cells as there are; see `sdc.protect.suppression`. Its margins are public with it where they may be:
    then the search begins with the cells that `suppress` finds, and suppresses others where these do not do beside
    all else. Where no choice does, all cells are suppressed, and where that does not do, the margins too. Every at-risk
    cell of the whole table is judged, and every small cell of the sub-table keeps the width of its own range, but
    those that what is known without it shows to be too narrow; so does every small cell of public
    suppressed tables, but those that what is known `before` these shows so.

    witnesses  feasible tables with which the search begins

    InputError where the release has the sub-table already; NotReleasableError where suppression does not do, or where
    what is known is not safe without it; ReleaseError where the table is too large for walks.
    """
    name = st.label(subtable, table.schema)
    if subtable in known.release:
        raise InputError(
            f"{name} is in the release unchanged, so nothing needs suppression; name a sub-table that is not released"
        )
    criteria, margins = criteria.beside(table, known), Release.of(st.margins(subtable, table.schema))
    for public in (known.plus(margins), known):
        evaluator = RiskEvaluator(table, public, criteria, effort=effort, before=before, witnesses=witnesses)
        if (answer := evaluator.evaluate(NOTHING).verdict) is not Verdict.SAFE:
            why = (
                f"{name} cannot be published beside what is public, whatever is suppressed: without it the verdict is "
                f"{answer.name.lower()}; release less"
            )
            continue
        for everything in (False, True):
            try:
                return _suppressed(evaluator, subtable, margins=public is not known, everything=everything)
            except NotReleasableError as error:
                why = str(error)
    raise NotReleasableError(why)


def _suppressed(evaluator: RiskEvaluator, subtable: SubTable, *, margins: bool, everything: bool) -> Suppressed:
    """Beside what is known, its margins among it or not; everything that is not known to be 0, or as little as does."""
    table, criteria = evaluator.table, evaluator.criteria
    counts, least = table.marginal(subtable).dense, None
    if margins and counts.size <= MOST_CELLS:
        zeros = evaluator.known.zeros.excluded(subtable, table.schema)
        least = suppress(counts, criteria.small_count, criteria.width.min_width, zeros=zeros)
    closed = table.schema.levels.closed(subtable)
    start = {} if least is None else {closed: least.suppressed.reshape(-1)}
    again = np.flatnonzero(~evaluator.known.zeros.excluded(subtable, table.schema).reshape(-1)) if everything else ()
    found = suppress_jointly(
        evaluator, [closed], start, again={closed: np.array(again, np.int64)}, mends=not everything
    )
    if (answer := found.evaluator.evaluate(NOTHING)).verdict is not Verdict.SAFE:
        raise NotReleasableError(
            f"{st.label(subtable, table.schema)} cannot be published with suppressed cells: with those found the "
            f"verdict is {answer.verdict.name.lower()}; give a larger budget, or publish coarser categories"
        )
    hidden, own = found.flags[0].reshape(counts.shape), protection_intervals(found.evaluator, closed)
    weight = int(counts[hidden].sum())
    optimal = least is not None and least.optimal and weight + hidden.sum() == least.weight + least.suppressed.sum()
    return Suppressed(counts, hidden, own.inner, weight, bool(optimal), margins, own.cells[own.refuted], True)


def least_suppressed(small: Flags, summed: Sequence[bool]) -> int:
    """How many cells of a table must be suppressed at least, whatever else is public.

    small   flags of the table's shape: cells that must keep a width and are public nowhere else
    summed  of each axis whether the sums over it are public

    All small cells must be, and in each line of cells along such an axis another beside one that is alone there, or the
    sum would give it. Of axes the one counts whose lines need most.
    """
    alone = (int((small.sum(axis=axis) == 1).sum()) for axis, is_public in enumerate(summed) if is_public)
    return int(small.sum()) + max(alone, default=0)


class _Intruder:
    """What follows for the sensitive cells from all cells but the suppressed ones, all margins and the zeros.

    Tables that agree with what is public are kept: they serve as long as all cells in which they differ are suppressed.

    sensitive, unknown  (cells,) flags: which must keep the width, and which are not known to be 0
    proven  whether all that was said to be narrow was proven to be
    solves  how often a solver was asked
    cuts    of cells found to be narrow (cells,) what suppressing each is worth, in parts of a record of the width
    """

    def __init__(self, counts: Dense, sensitive: Flags, zeros: Flags, width: MinWidth) -> None:
        self.shape, self.flat, self.width = counts.shape, counts.reshape(-1), width
        self.sensitive, self.unknown = sensitive.reshape(-1), ~zeros.reshape(-1)
        self.cells = np.flatnonzero(self.sensitive)
        grid = np.arange(counts.size).reshape(counts.shape)
        self.grids = [np.moveaxis(grid, axis, -1).reshape(-1, counts.shape[axis]) for axis in range(counts.ndim)]
        self.lines = [line for lines in self.grids for line in lines]
        # of one variable no margin says that a category has records, and its label does
        self._least = np.minimum(self.flat, counts.ndim == 1)
        self._line = np.empty((len(self.grids), counts.size), np.int64)
        for line, lines in zip(self._line, self.grids, strict=True):
            line[lines] = np.arange(len(lines))[:, None]
        totals = [np.bincount(line, self.flat)[line] for line in self._line]
        self._rise = np.min(totals, axis=0).astype(np.int64) - self.flat
        self.proven, self.solves, self.cuts = True, 0, dict[int, Dense]()
        self._tables, self._differ = self.flat[None].copy(), np.zeros((1, counts.size), np.bool_)
        self._of: tuple[bytes, IntegerSystem, Dense] | None = None

    def narrow(self, suppressed: Flags) -> list[int]:
        """The sensitive cells that are not seen to keep the width."""
        moves = self.moving(suppressed)
        self.cuts.clear()
        return [cell for cell in self.cells.tolist() if not self.is_wide(cell, moves)]

    def is_wide(self, cell: int, moves: Flags) -> bool:
        """Whether tables are known that differ in these cells alone, between which the cell moves as far as it must."""
        values = self._tables[~self._differ[:, ~moves].any(axis=1), cell]
        low, high = int(values.min()), int(values.max())
        if not self.width.is_wide(high - low) and moves[cell]:
            if (ends := self._relaxed(cell, moves)) is None:
                return False
            low, high = min(low, ends[0]), max(high, ends[1])
        for end in (1, 0):
            if self.width.is_wide(high - low) or not moves[cell]:
                break
            found, proven = self._farthest(cell, end, moves)
            reached = int(self.flat[cell] if found is None else found[cell])
            self.proven &= reached == proven
            low, high = min(low, reached), max(high, reached)
        return self.width.is_wide(high - low)

    def moving(self, suppressed: Flags) -> Flags:
        """Without those known to be 0, and those alone in a line of suppressed cells, which follow from margins."""
        moves = suppressed & self.unknown
        while True:
            alone = np.zeros_like(moves)
            for lines in self.grids:
                inside = moves[lines]
                alone[lines[inside & (inside.sum(axis=1) == 1)[:, None]]] = True
            if not alone.any():
                return moves
            moves &= ~alone

    def _farthest(self, cell: int, end: int, suppressed: Flags) -> tuple[Dense | None, int]:
        self.solves += 1
        system, hidden = self._system(suppressed)
        reached = system.farthest(int(np.searchsorted(hidden, cell)), end)
        if reached.table is None:
            return None, reached.proven
        return self._keep(reached.table, hidden), reached.proven

    def _keep(self, values: Dense, hidden: Dense) -> Dense:
        """A table with these counts of the hidden cells, which agrees."""
        found = self.flat.copy()
        found[hidden] = values
        self._tables = np.concatenate([self.flat[None], found[None], self._tables[1:KEPT]])
        self._differ = self._tables != self.flat
        return found

    def _relaxed(self, cell: int, suppressed: Flags) -> tuple[int, int] | None:
        """Between which counts tables are found that move a cell, by linear programs; None where these are too narrow.

        Then the multipliers say what suppressing others is worth, whatever is suppressed: the cell changes by no more
        than the suppressed cells can, each as much as its lines leave of it. In integers, any multipliers will do.
        """
        hidden, fall = np.flatnonzero(suppressed), self.flat - self._least
        each = [Equations.of_groups(line[hidden], fall[hidden]) for line in self._line]
        one, target = Equations.joined(each), np.where(hidden == cell, 1, 0)
        # down and up at once: solvers take longer to begin than to end
        twice = Equations.joined([one, one.at(len(hidden) + np.arange(len(hidden)))])
        best = largest(np.concatenate([-target, target]), np.tile((fall + self._rise)[hidden], 2), twice)
        self.solves += 2
        multipliers = iter(
            np.split(np.rint(PARTS * best.multipliers).astype(np.int64), np.cumsum([len(own.low) for own in each] * 2))
        )
        ends, worth = [int(self.flat[cell])] * 2, np.zeros_like(self.flat)
        for end, numbers in enumerate(np.rint(best.numbers).astype(np.int64).reshape(2, -1)):
            if one.holds(numbers):
                ends[end] = int(self._keep(self._least[hidden] + numbers, hidden)[cell])
            rest = np.where(np.arange(len(self.flat)) == cell, (-PARTS, PARTS)[end], 0)
            for line in self._line:
                of_line = np.zeros(len(self.lines), np.int64)
                of_line[np.unique(line[hidden])] = next(multipliers)
                rest -= of_line[line]
            worth += np.where(rest > 0, self._rise, fall) * np.abs(rest)
        needed = PARTS * self.width.min_width
        if worth[suppressed].sum() >= needed:
            return ends[0], ends[1]
        self.cuts[cell] = np.minimum(worth, needed)
        return None

    def _system(self, suppressed: Flags) -> tuple[IntegerSystem, Dense]:
        """Of the counts suppressed, and which cells they are."""
        key = suppressed.tobytes()
        if self._of is None or self._of[0] != key:
            hidden = np.flatnonzero(suppressed)
            truth = self.flat[hidden]
            equations = Equations.joined([Equations.of_groups(line[hidden], truth) for line in self._line])
            system = IntegerSystem(self._least[hidden], equations.least(len(hidden)), equations, truth)
            self._of = key, system, hidden
        return self._of[1:]

    def suppressed(self, suppressed: Flags, *, optimal: bool) -> Suppressed:
        """With the bounds that tables which agree reach: what is not proven does not count as wide."""
        bounds = np.stack([self.flat[self.cells], self.flat[self.cells]], axis=1)
        if len(self.cells):
            system, hidden = self._system(suppressed)
            codes = np.stack(np.unravel_index(self.cells, self.shape), axis=1).astype(np.uint16)
            bounds = system.bounds(codes, np.searchsorted(hidden, self.cells)).inner
        weight = int(self.flat[suppressed].sum())
        none = np.zeros((0, len(self.shape)), np.uint16)
        return Suppressed(
            self.flat.reshape(self.shape), suppressed.reshape(self.shape), bounds, weight, optimal, True, none
        )


def _cut(intruder: _Intruder, suppressed: Flags, cell: int) -> Dense:
    """What suppressing each cell is worth, one at least being needed: one that is public in a largest set that leaves
    the cell too narrow.
    """
    wide = suppressed.copy()
    for other in np.argsort(-intruder.flat, kind="stable").tolist():
        if not wide[other]:
            wide[other] = True
            moves = intruder.moving(wide)
            # where it follows from the margins, suppressing it hides nothing
            wide[other] = not moves[other] or not intruder.is_wide(cell, moves)
    return PARTS * intruder.width.min_width * ~wide


def _never_alone(intruder: _Intruder) -> LinearSums:
    """Of the cells and then the number suppressed in each line: that number, and twice each of its cells at most.

    A cell that is suppressed alone in a line follows from the margins: no cheapest choice has one.
    """
    cells, many = np.concatenate(intruder.lines), len(intruder.lines)
    each, lines = np.arange(many), np.repeat(np.arange(many), [len(line) for line in intruder.lines])
    twice, number = many + np.arange(len(cells)), len(intruder.flat)
    rows = np.concatenate([lines, each, twice, twice])
    columns = np.concatenate([cells, number + each, number + lines, cells])
    values = np.repeat([1.0, -1.0, 1.0, -2.0], [len(cells), many, len(cells), len(cells)])
    upper = np.repeat([0.0, np.inf], [many, len(cells)])
    return LinearSums(csr_array((values, (rows, columns)), (many + len(cells), number + many)), 0, upper)


def _cheapest(
    weights: Dense, intruder: _Intruder, needs: LinearSums, cuts: list[Dense], options: Mapping[str, float]
) -> Flags | None:
    """The sensitive cells and others, none of them alone in a line, of least weight and worth enough for every cut."""
    if not intruder.sensitive.any():
        return intruder.sensitive.copy()
    sums, numbers = [needs], needs.matrix.shape[1]
    if cuts:
        worth = np.pad(cuts, [(0, 0), (0, numbers - len(weights))])
        sums.append(LinearSums(csr_array(worth), PARTS * intruder.width.min_width, np.inf))
    lines = numbers - len(weights)
    found = cheapest(
        np.concatenate([weights, np.zeros(lines)]),
        np.concatenate([intruder.sensitive, np.zeros(lines)]),
        np.concatenate([intruder.unknown, np.full(lines, np.inf)]),
        sums,
        whole=np.arange(numbers) < len(weights),
        **options,
    )
    return None if found is None else np.asarray(np.rint(found[: len(weights)]), np.bool_)


def _greedy(intruder: _Intruder) -> Flags:
    """From all cells those public again, largest first, that are not needed."""
    kept = intruder.unknown.copy()
    for cell in np.argsort(-intruder.flat, kind="stable").tolist():
        if not intruder.sensitive[cell]:
            kept[cell] = False
            kept[cell] = bool(intruder.narrow(kept))
    return kept
