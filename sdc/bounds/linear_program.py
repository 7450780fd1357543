"""Bounds of cells of large tables by linear programming: every outer bound is proven, every table checked in integers.

The program has a variable for each cell and few rows, and its normal equations need no matrix of the cells: one fast
transform over the cube (Yates) gives them, another one the prices of all cells. So an interior-point step costs a few
milliseconds for 2^16 cells, and integer tables are rounded from its centre.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from math import frexp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.bounds import factor_kernel, nested, rounding_kernel
from sdc.bounds import linear_program_kernel as kernel
from sdc.bounds.covered import on_covered_variables
from sdc.bounds.duality import MAX_CELLS, Multipliers, named_rows
from sdc.bounds.linear_program_kernel import Codings, Reals
from sdc.bounds.rounding_kernel import Effects
from sdc.feasible.equations import possible_cells
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table
from sdc.solve.ends import Reached, settled

MAX_ITERATIONS = 60  # later, an undecided end has its proven bound so far
MAX_MULTIPLIERS = 2.0**50
DEPENDENT = 1e-9  # relative to the diagonal entry: a smaller pivot means a dependent row
CENTRING = 20  # steps at most from the even table towards the analytic centre
CENTRED = 0.01  # relative to an even share; a smaller movement ends the steps
TINY = 1e-9  # relative to an even share; an interior point has no 0
GAP = 0.02  # records between the two ends of the program at which the iteration stops
SHORT = (0, 1, 2, 4, 8, 16, 32, 64)  # distances from the proven bound at which a table is tried, in order
BASELINES, TRIED = 64, 3  # heavy cells that are scored, and that a table is rounded around
PROJECTIONS, TOLERANCE = 6, 0.05  # steps of Newton's method, and allowed error of totals in records before rounding
THRESHOLDS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
ROUNDING_STEPS = 400
CHEAP_ROWS = 512  # their factors take less time than the rounding of many cells
LAST = 3  # steps of the path whose multipliers are tried
BEYOND = 2  # values beyond the wanted one that a table may have
ROUNDING, GATHERING, ABOUT = 4, 24, 16  # factors with equal cost: of a point, with gathering, and of a typical end


class Room(NamedTuple):
    """Limits of a program: independent rows, dense cells, and effects.

    effects  of the rounded cells, the largest first, on the rows: a matrix of both is dense
    """

    rows: int = 6144
    cells: int = MAX_CELLS
    effects: int = 1 << 26

    @property
    def bytes(self) -> int:
        """Its approximate memory: a factor, two programs' unions, dense and sparse effects, the tables of the path."""
        return 16 * self.rows**2 + 6 * self.effects + 8 * (MAX_ITERATIONS + 20) * self.cells

    def within(self, share: float) -> Room:
        """The limits scaled to that share, at most all."""
        share = min(1.0, share)
        return Room(int(self.rows * share**0.5), int(self.cells * share), int(self.effects * share))

    def of_table(self, cells: int) -> Room:
        """The limits that a table with so many cells needs."""
        cells = min(cells, self.cells)
        rows = min(cells, self.rows)
        return Room(rows, cells, min(self.effects, rows * cells))


ROOM = Room()


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Outer and inner bounds of (n, variables) cells, both ends by a linear program over the whole table.

    outer  weak duality in integers: multipliers Y of the released marginals that price every possible cell at no
           less than its weight bound the cell by Y * marginals; floating point only proposes Y
    inner  tables rounded from a centre of the program's optimal face, checked in integers; one table serves all cells

    The outer bound is that of the linear program rounded inwards, so it can lie outside the sharp one ([DKS] section 4
    has such a table). About 0.12 s for each cell with 2^16 cells and 137 rows, 20 s with 59,756 and 3,420; it grows
    with rows^3. Ends from the nested bounds or an earlier cell's table cost nothing, so inner bounds may depend on the
    set of cells. Raises ReleaseError beyond 2^19 cells or 6,144 rows.
    """
    program = program_of(table, knowledge)
    known, place = nested.bounds(table, knowledge, cells), program.place(cells)
    return settled(known, place, partial(farthest, program), "linear-program").bounds


@lru_cache(maxsize=2)
def program_of(table: Table, knowledge: Knowledge, effects: int = ROOM.effects) -> LinearProgram:
    """The program, cached for other cells; ReleaseError beyond the limits."""
    return LinearProgram.of(table, knowledge, effects)


def farthest(program: LinearProgram, cell: int, end: int, outer: int, inner: int) -> Reached:
    """One end of a dense cell: its proven bound, and a table nearer to that than `inner`."""
    sign = 1 if end else -1
    path, multipliers = _optimum(program, cell, sign)
    proven = sign * _lowest(program, multipliers, cell, sign).bound(program)
    best = min(outer, proven) if end else max(outer, proven)
    towards = 1 if best > inner else -1
    values = [best - towards * short for short in SHORT if (best - towards * short - inner) * towards > 0]
    table, factors = _table_at(path, program, cell, values)
    return Reached(best, table, program.steps_of(len(path) + factors))


def reaching(program: LinearProgram, cell: int, end: int, outer: int, value: int) -> tuple[Reached, Multipliers]:
    """The proven bound of one end of a dense cell, and a table whose cell has the value, or slightly beyond.

    Also the multipliers that bound the end (for a lower end its negative). They price cells that no released count of 0
    excludes, so a proof by them needs the release's frontier as caps.
    """
    sign = 1 if end else -1
    path, multipliers = _optimum(program, cell, sign)
    by = _lowest(program, multipliers, cell, sign)
    best = min(outer, by.bound(program)) if end else max(outer, -by.bound(program))
    values = list(range(value, best + sign, sign))[:BEYOND]
    table, factors = _table_at(path, program, cell, values)
    return Reached(best, table, program.steps_of(len(path) + factors)), named(program, by)


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Cells as columns, and a row for each released sub-table S and levels that differ from the baseline on all of S.

    Dependent rows have no multiplier; checks and roundings of tables use all rows.

    sizes, strides  (variables,) of the dense table, C order
    rows            (all rows, variables) levels, 0 (the baseline) outside S; the first row is the total
    levels          (rows, variables) of the independent rows; a cell lies in the rows whose levels it has
    anchors         (rows,) the dense cell with these levels
    unions          (rows, rows) for an ordered pair, the anchor of the cells in both rows, `cells` if there are none
    totals          (rows,) released counts
    allowed         (cells,) neither impossible nor in a released marginal cell of count 0
    truth           (cells,) counts
    effects         limit of a rounding, see `Room`
    """

    sizes: Codings
    strides: Codings
    rows: Codings
    levels: Codings
    anchors: Codings
    unions: npt.NDArray[np.int32]
    totals: Counts
    allowed: npt.NDArray[np.bool_]
    truth: Counts
    effects: int = ROOM.effects

    @staticmethod
    def of(table: Table, knowledge: Knowledge, effects: int = ROOM.effects) -> LinearProgram:
        _check_size(knowledge)
        sizes = np.array(table.schema.sizes, np.int64)
        strides = table.schema.keys.strides
        rows = np.array(list(_row_levels(knowledge.release, table.schema.sizes)), np.int64)
        truth = np.zeros(table.schema.sizes, np.int64)
        truth[tuple(table.codes.T)] = table.counts
        allowed = possible_cells(knowledge) & (_frontier_minimum(truth, knowledge.release).reshape(-1) > 0)
        truth = truth.reshape(-1)
        # a row without a possible cell has no information; the total stays even then
        many = kernel.transformed(allowed.astype(np.float64), sizes, True)
        levels = rows[(many[rows @ strides] > 0) | ~rows.any(axis=1)]
        unions = kernel.unions(levels, strides, len(truth))
        chosen = _independent(np.append(many, 0.0), unions)
        levels, unions = levels[chosen], np.ascontiguousarray(unions[np.ix_(chosen, chosen)])
        anchors = levels @ strides
        totals = kernel.transformed(truth, sizes, True)[anchors]
        return LinearProgram(sizes, strides, rows, levels, anchors, unions, totals, allowed, truth, effects)

    def steps_of(self, factors: int = CENTRING) -> int:
        """The steps of so many factors of its normal equations, by default those of its centre."""
        return steps_of(len(self.totals), len(self.truth), factors)

    @cached_property
    def centre(self) -> Reals:
        """(cells,) an initial solution: the analytic centre makes it positive, the truth lumpy."""
        even = self.totals[0] / max(1, np.count_nonzero(self.allowed))
        point = _Point(np.where(self.allowed, even, 0.0), np.ones(len(self.truth)), np.eye(1, len(self.totals))[0])
        target = np.full(len(self.truth), even)
        for _ in range(CENTRING):
            further = point.towards(self, target)
            if not further.is_finite:
                break
            moved, point = np.abs(further.x - point.x).max(), further
            if moved < CENTRED * even:
                break
        return np.where(self.allowed, np.maximum((point.x + self.truth) / 2, TINY * even), 0.0)

    def place(self, cells: npt.NDArray[np.integer]) -> Codings:
        """(n,) dense cells of (n, variables) codes."""
        return cells.astype(np.int64) @ self.strides

    def codes(self, cells: Codings) -> Codings:
        """(n, variables) codes of dense cells."""
        return cells[:, None] // self.strides % self.sizes

    def sums(self, dense: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(rows,) sums of a (cells,) table over each row's cells."""
        return self._transformed(dense, summing=True)[self.anchors]

    def prices(self, multipliers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(cells,) sums of (rows,) multipliers over each cell's rows."""
        prices = np.zeros(len(self.allowed), multipliers.dtype)
        prices[self.anchors] = multipliers
        return self._transformed(prices, summing=False)

    def normal(self, weights: Reals) -> tuple[Reals, Reals]:
        """Cholesky factor of the (rows, rows) sums of (cells,) weights over each pair of rows; sums over each row."""
        sums = np.append(self._transformed(weights, summing=True), 0.0)
        normal: Reals = kernel.normal(sums, self.unions)
        normal[np.diag_indices_from(normal)] *= 1 + 1e-12  # more than the rounding of a pivot
        factor_kernel.factorise(normal, 1e-13)
        return normal, sums[self.anchors]

    def _transformed(self, dense: npt.NDArray[Any], *, summing: bool) -> npt.NDArray[Any]:
        transformed: npt.NDArray[Any] = kernel.transformed(dense, self.sizes, summing)
        return transformed

    def following(self, cells: Codings, baseline: Codings) -> Effects:
        """(all rows, n) integers: the effect of one record in each dense cell on the cells around the baseline."""
        effect: Effects = rounding_kernel.effects(
            _swapped(self.codes(cells), baseline), self._released, self.strides, self._row_at
        )
        return effect

    def owed(self, dense: Counts, baseline: Codings) -> Reals:
        """(all rows,) the counts of the cells around the baseline if all others are 0 and the sums are a table's."""
        swaps = [_swapped(np.arange(n), b) for n, b in zip(self.sizes, baseline, strict=True)]
        sums = self._transformed(dense.reshape(self.sizes)[np.ix_(*swaps)].reshape(-1), summing=True)
        anchors, signed = self.rows @ self.strides, np.zeros(len(dense), np.int64)
        signs = 1 - 2 * ((self.rows > 0).sum(axis=1) % 2)
        signed[anchors] = signs * sums[anchors]
        owed: Counts = signs * self._transformed(signed, summing=True)[anchors]
        return owed.astype(np.float64)

    @cached_property
    def _released(self) -> Codings:
        """(sets,) the released sets of variables as bits."""
        return np.unique((self.rows > 0) @ (1 << np.arange(len(self.sizes))))

    @cached_property
    def _row_at(self) -> npt.NDArray[np.int32]:
        """(cells,) the row whose levels a dense cell has, -1 if none."""
        found = np.full(len(self.truth), -1, np.int32)
        found[self.rows @ self.strides] = np.arange(len(self.rows))
        return found

    def holds(self, dense: Counts) -> bool:
        """Whether a (cells,) table is feasible, in integers."""
        every = self.rows @ self.strides
        moved = self._transformed(dense - self.truth, summing=True)[every]
        return bool(not moved.any() and (dense >= 0).all() and not dense[~self.allowed].any())


def _independent(sums: Reals, unions: npt.NDArray[np.int32]) -> Codings:
    """Rows that are independent of earlier ones in floating point, by (cells + 1,) weights of the cells.

    A missing row would admit wrong tables, which the check finds; a dependent one does no harm.
    """
    factor: Reals = kernel.normal(sums, unions)
    factor_kernel.factorise(factor, DEPENDENT)
    independent = np.isfinite(factor.diagonal())
    independent[0] = True  # the total, even without a possible cell
    return np.flatnonzero(independent)


def steps_of(rows: int, cells: int, factors: int) -> int:
    """Steps of so many factors of normal equations with their surroundings, in 0.1 ms of a reference core."""
    return factors * (10 + rows**3 // 5_000_000 + 40 * cells // 30_000)


def is_affordable(knowledge: Knowledge, room: Room = ROOM) -> bool:
    """Whether there are no levels or other facts, and cells and rows are within the limits."""
    schema = knowledge.schema
    return (
        schema.levels.is_flat
        and not knowledge.facts
        and schema.cells <= room.cells
        and _number_of_rows(knowledge.structure.essential, schema.sizes) <= room.rows
    )


def about(knowledge: Knowledge, room: Room = ROOM) -> tuple[int, int] | None:
    """Approximate steps of the centre and of one end of a cell; None beyond the limits."""
    if not is_affordable(knowledge, room):
        return None
    rows, cells = _number_of_rows(knowledge.structure.essential, knowledge.schema.sizes), knowledge.schema.cells
    return steps_of(rows, cells, CENTRING), steps_of(rows, cells, ABOUT)


def _check_size(knowledge: Knowledge) -> None:
    if (level := next((v.name for v in knowledge.schema.variables if v.of is not None), None)) is not None:
        raise ReleaseError(
            f"{level!r} is a level of another variable, and the linear program takes none; choose the method auto or "
            "collapse"
        )
    if knowledge.facts:
        raise ReleaseError(
            f"{knowledge.facts[0].source} is not a whole marginal, and the linear program needs whole marginals; "
            "choose the method auto or collapse"
        )
    if knowledge.schema.cells > ROOM.cells:
        raise ReleaseError(
            f"the table has {knowledge.schema.cells} cells, and the linear program takes at most {ROOM.cells}; "
            "choose the method nested or collapse, or a sub-table"
        )
    rows = _number_of_rows(knowledge.release, knowledge.schema.sizes)
    if rows > ROOM.rows:
        raise ReleaseError(
            f"the release has {rows} independent marginal cells, and the linear program takes at most {ROOM.rows}; "
            "choose the method nested or collapse, or release less"
        )


def _number_of_rows(release: Release, sizes: tuple[int, ...]) -> int:
    """Counted until the limit is exceeded: a release may have many sub-tables."""
    rows = 0
    for subtable in st.within_any_of(release.frontier):
        rows += int(np.prod([sizes[v] - 1 for v in st.members(subtable)], dtype=np.int64))
        if rows > ROOM.rows:
            break
    return rows


def _row_levels(release: Release, sizes: tuple[int, ...]) -> Iterator[Codings]:
    for subtable in sorted(st.within_any_of(release.frontier), key=lambda s: (st.dimension(s), s)):
        members = list(st.members(subtable))
        for chosen in product(*(range(1, sizes[v]) for v in members)):
            levels = np.zeros(len(sizes), np.int64)
            levels[members] = chosen
            yield levels


def _frontier_minimum(truth: Counts, release: Release) -> Counts:
    least = np.full(truth.shape, truth.sum())
    for element in release.frontier:
        summed = tuple(v for v in range(truth.ndim) if not st.has(element, v))
        least = np.minimum(least, truth.sum(axis=summed, keepdims=True))
    return least


@dataclass(frozen=True, eq=False)
class _Point:
    """An iterate: x the table, slack = prices of the multipliers less the cell's weight, positive where allowed."""

    x: Reals
    slack: Reals
    multipliers: Reals

    def direction(self, program: LinearProgram, factor: Reals, target: Reals | None = None) -> _Point:
        """Newton's step to x * slack = target (default 0) and the released totals."""
        aim, sums = np.zeros(len(self.x)), np.zeros(len(program.totals))
        if target is not None:
            aim = np.where(program.allowed, target / self.slack, 0.0)
            sums = program.sums(aim)
        multipliers = factor_kernel.solved(factor, sums - program.totals)
        slack = np.where(program.allowed, program.prices(multipliers), 0.0)
        return _Point(aim - self.x - self.x / self.slack * slack, slack, multipliers)

    def moved(self, program: LinearProgram, by: _Point, share: float) -> _Point:
        """The iterate moved by a share of the step that keeps x and slack positive."""
        primal = min(1.0, share * kernel.room(self.x, by.x, program.allowed))
        dual = min(1.0, share * kernel.room(self.slack, by.slack, program.allowed))
        return _Point(self.x + primal * by.x, self.slack + dual * by.slack, self.multipliers + dual * by.multipliers)

    def factor(self, program: LinearProgram) -> Reals:
        return program.normal(self.x / self.slack)[0]

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.x).all() and np.isfinite(self.slack).all())

    def towards(self, program: LinearProgram, target: Reals) -> _Point:
        return self.moved(program, self.direction(program, self.factor(program), target), 0.9)

    def improved(self, program: LinearProgram) -> _Point:
        """One step of Mehrotra's predictor and corrector, centred at the start's own proportions."""
        factor, weights = self.factor(program), program.centre
        predicted = self.direction(program, factor)
        now = _product(self.x, self.slack)
        tried = self.moved(program, predicted, 1.0)
        left = _product(tried.x, tried.slack) / now
        target = left**3 * now / weights.sum() * weights - predicted.x * predicted.slack  # sigma = (gap left)^3
        return self.moved(program, self.direction(program, factor, target), 0.97)


def _optimum(program: LinearProgram, cell: int, sign: int) -> tuple[list[Reals], list[Reals]]:
    """(cells,) tables on the path to the largest value of sign * cell, and (rows,) multipliers of its last steps."""
    weight = np.zeros(len(program.truth))
    weight[cell] = sign
    multipliers = 2.0 * np.eye(1, len(program.totals))[0]
    point = _Point(program.centre, 2.0 - weight, multipliers)
    path, last = [point.x], deque([multipliers], LAST)
    while len(path) <= MAX_ITERATIONS and _gap(program, point, cell, sign) > GAP:
        further = point.improved(program)
        if not further.is_finite:
            break
        point = further
        path.append(point.x)
        last.append(point.multipliers)
    return path, list(last)


def dual_path(program: LinearProgram, cell: int, sign: int) -> list[Reals]:
    """(rows,) multipliers of the last steps towards the largest value of sign * cell, a dense one."""
    return _optimum(program, cell, sign)[1]


def _gap(program: LinearProgram, point: _Point, cell: int, sign: int) -> float:
    return _product(point.multipliers, program.totals) - sign * float(point.x[cell])


def _product(one: Reals, other: npt.NDArray[Any]) -> float:
    # not by `@`, which divides long sums among threads: proofs must not depend on their number
    return float((one * other).sum())


class Raised(NamedTuple):
    """(rows,) integer multipliers and their common divisor: every allowed cell costs at least its weight."""

    whole: Counts
    scale: int

    def bound(self, program: LinearProgram) -> int:
        """The bound over all feasible tables by weak duality, in integers."""
        ys, totals = self.whole.tolist(), program.totals.tolist()
        # Python integers: products do not overflow
        return int(sum(y * total for y, total in zip(ys, totals, strict=True))) // self.scale


def raised(program: LinearProgram, multipliers: Reals, cell: int, sign: int) -> Raised:
    """Any (rows,) multipliers changed so that they bound sign * cell.

    They are rounded to a common denominator, and the total's is raised by the largest missing price of any allowed
    cell. Multipliers that are not finite or beyond 2^50 give the grand total.
    """
    whole, scale = _whole(multipliers)
    slack = program.prices(whole)
    slack[cell] -= sign * scale
    whole[0] += max(0, -int(slack[program.allowed].min(initial=0)))
    return Raised(whole, scale)


def _lowest(program: LinearProgram, multipliers: list[Reals], cell: int, sign: int) -> Raised:
    return min((raised(program, one, cell, sign) for one in multipliers), key=lambda one: one.bound(program))


def _whole(multipliers: Reals) -> tuple[Counts, int]:
    """(rows,) integer multipliers and their divisor; only the total's if they are unusable.

    Sums of them stay below 2^62.
    """
    most = float(np.abs(multipliers).sum()) + 1.0
    if not most < MAX_MULTIPLIERS:
        return np.eye(1, len(multipliers), dtype=np.int64)[0], 1
    scale = 1 << min(40, 60 - frexp(most)[1])
    return np.rint(multipliers * scale).astype(np.int64), scale


def named(program: LinearProgram, multipliers: Raised) -> Multipliers:
    """By marginal cells, without caps."""
    used = np.flatnonzero(multipliers.whole)
    of = named_rows(program.levels[used], multipliers.whole[used])
    return Multipliers(multipliers.scale, tuple((*marginal_cell, y) for marginal_cell, y in of), ())


def _table_at(path: list[Reals], program: LinearProgram, cell: int, values: list[int]) -> tuple[Counts | None, int]:
    """A feasible table whose cell has one of the values, the first possible one, and the cost in factors."""
    factors = 0
    for value in values:
        found, taken = _rounded_at(_slice(path, cell, value), program, cell, value)
        factors += taken
        if found is not None:
            return found, factors
    return None, factors


def _slice(path: list[Reals], cell: int, value: int) -> Reals:
    """The point of the path where the cell has the value; its end if it does not reach it."""
    for late, early in zip(path[:0:-1], path[-2::-1], strict=True):
        begun, ended = early[cell], late[cell]
        if (begun - value) * (ended - value) <= 0 and begun != ended:
            mixed: Reals = early + (value - begun) / (ended - begun) * (late - early)
            return mixed
    return path[-1]


def _rounded_at(x: Reals, program: LinearProgram, cell: int, value: int) -> tuple[Counts | None, int]:
    """A feasible table near x with the value in the cell, None if none is found; the cost in factors."""
    alone, rest = np.zeros(len(x), np.int64), x.copy()
    alone[cell], rest[cell] = value, 0.0  # separately: the rest has the remainder
    factors = 0
    if len(program.totals) > CHEAP_ROWS:
        # if a factor is expensive, there is usually one next to the interior point, which has many cells
        found, factors = _rounded(rest, program, cell, alone)
        if found is not None:
            return found, factors
    gathered = _gathered(rest, program, program.totals - program.sums(alone))
    found, more = _rounded(gathered, program, cell, alone)
    return found, factors + GATHERING + more


def _rounded(x: Reals, program: LinearProgram, cell: int, alone: Counts) -> tuple[Counts | None, int]:
    """A feasible table near x, with the given cell fixed to `alone`; the cost in factors.

    Once all other cells are chosen, those that differ from a baseline on a released sub-table only follow, in integers.
    If these are small in x, they are exchanged with others of which one record has the effect 1 or -1 there. The others
    are rounded, and corrected while a dependent one is negative.
    """
    baselines = _baselines(x, program, cell)
    for tried, baseline in enumerate(baselines, 1):
        ball = program.place(_swapped(program.rows, baseline))
        free = np.setdiff1d(np.flatnonzero(x), ball)
        free = free[np.argsort(-x[free], kind="stable")][: program.effects // len(ball)]
        effect, owed = program.following(free, baseline), program.owed(program.truth - alone, baseline)
        rounding_kernel.exchange(effect, owed, free, ball, x)
        counts, following = rounding_kernel.rounded(x[free], effect, x[ball], owed, ROUNDING_STEPS)
        dense = alone.copy()
        dense[free], dense[ball] = counts, following
        if program.holds(dense):
            return dense, tried * ROUNDING
    return None, len(baselines) * ROUNDING


def _swapped(codes: Codings, baseline: Codings) -> Codings:
    """Codes with each variable's baseline and level 0 exchanged."""
    swapped: Codings = np.where(codes == baseline, 0, np.where(codes == 0, baseline, codes))
    return swapped


def _baselines(x: Reals, program: LinearProgram, cell: int) -> Codings:
    """Large cells whose dependent cells are large and do not include the given one."""
    heavy = program.codes(np.argsort(-x, kind="stable")[:BASELINES])
    scores = np.full(len(heavy), -np.inf)
    for k, baseline in enumerate(heavy):
        ball = program.place(_swapped(program.rows, baseline))
        if cell not in ball:
            scores[k] = np.log(np.clip(x[ball], 1e-3, 30)).sum()
    order = np.argsort(-scores, kind="stable")[:TRIED]
    best: Codings = heavy[order[np.isfinite(scores[order])]]
    return best


def _gathered(x: Reals, program: LinearProgram, rest: Counts) -> Reals:
    """The rest of the table concentrated on fewer and fewer cells, as far as possible."""
    for threshold in THRESHOLDS:
        x = _projected(np.where(x > threshold, x, 0.0), program, rest, x)
    return x


def _projected(x: Reals, program: LinearProgram, rest: Counts, otherwise: Reals) -> Reals:
    """The solution of the released totals nearest to x in relative entropy and on its cells, by Newton's method."""
    for _ in range(PROJECTIONS):
        factor, sums = program.normal(x)
        lack = rest - sums
        if np.abs(lack).max() < TOLERANCE:
            return x
        x = x * np.exp(np.clip(program.prices(factor_kernel.solved(factor, lack)), -1.0, 1.0))
    return x if np.abs(rest - program.sums(x)).max() < TOLERANCE else otherwise
