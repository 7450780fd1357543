"""Bounds of cells of large tables by linear programming: every outer bound proven and every table checked in integers.

The program has a variable a cell and few rows, and its normal equations need no matrix of the cells: one fast
transform over the cube (Yates) gives them, another the prices of all cells. So an interior-point step costs a few
milliseconds for 2^16 cells, and its centre is what an integer table is rounded from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from math import frexp
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.bounds import linear_program_kernel as kernel
from sdc.bounds import nested
from sdc.bounds.covered import on_covered_variables
from sdc.bounds.linear_program_kernel import Codings, Reals
from sdc.feasible.equations import possible_cells
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table
from sdc.solve.ends import Reached, settled

MAX_CELLS = 1 << 18
MAX_ROWS = 2048
MAX_ITERATIONS = 60  # an end that is not settled by then keeps what was proven so far
MAX_MULTIPLIERS = 2.0**50
CENTRING = 20  # steps from the even table towards the analytic centre
TINY = 1e-9  # of an even share; an interior point has no 0
GAP = 0.02  # records between the two ends of the program where its iteration stops
SHORT = (0, 1, 2, 4, 8, 16, 32, 64)  # how far from the proven bound a table is looked for, one after the other
BASELINES, TRIED = 64, 3  # heavy cells that are scored, and that a table is rounded around
PROJECTIONS, TOLERANCE = 6, 0.05  # steps of Newton's method, and records that a total may be off before rounding
THRESHOLDS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
MAX_ROUNDED = 8192  # cells beside the rows': a matrix of both is dense
ROUNDING_STEPS = 400


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Outer and inner bounds of (n, variables) cells, both ends of each by a linear program over the whole table.

    outer  weak duality in integers: multipliers Y of the released marginals that price every possible cell at no
           less than its weight bound the cell by Y * marginals; floating point only proposes Y
    inner  tables rounded from a centre of the program's optimal face, checked in integers; one table serves all cells

    The outer bound is that of the linear program rounded inwards, so it can lie outside the sharp one ([DKS] section
    4 has such a table). About 0.12 s a cell for 2^16 cells and 137 rows; time grows with cells and with rows^3.
    An end that the nested bounds or an earlier cell's table settle costs nothing, so the inner bounds may depend on
    which cells are asked together. ReleaseError beyond 2^18 cells or 2,048 rows.
    """
    program = program_of(table, knowledge)
    known, place = nested.bounds(table, knowledge, cells), program.place(cells)
    return settled(known, place, partial(farthest, program), "linear-program").bounds


@lru_cache(maxsize=2)
def program_of(table: Table, knowledge: Knowledge) -> LinearProgram:
    """The program, kept for whoever asks for other cells next; ReleaseError beyond the limits."""
    return LinearProgram.of(table, knowledge)


def farthest(program: LinearProgram, cell: int, end: int, outer: int, inner: int) -> Reached:
    """One end of a dense cell: what is proven of it, and a table nearer to that than `inner`."""
    sign = 1 if end else -1
    path, proven = _optimum(program, cell, sign)
    best = sign * min(sign * outer, proven)
    return Reached(best, _nearest_table(path, program, cell, best, inner), len(path) * program.steps)


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Cells as columns, and a row for each released sub-table S and levels that differ from the baseline on all of S.

    sizes, strides  (variables,) of the dense table, C order
    levels          (rows, variables) the row's levels, 0 (the baseline) outside S; the first row is the total
    anchors         (rows,) the dense cell with these levels; a cell lies in the rows whose levels it has on S
    unions          (rows, rows) the anchor of what lies in both rows, `cells` where nothing does
    totals          (rows,) released counts
    allowed         (cells,) neither impossible nor in a released marginal cell of count 0
    moebius         (rows, rows) integers, from the rows' totals to the anchors' counts where all else is 0
    truth           (cells,) counts
    """

    sizes: Codings
    strides: Codings
    levels: Codings
    anchors: Codings
    unions: Codings
    totals: Counts
    allowed: npt.NDArray[np.bool_]
    moebius: Reals
    truth: Counts

    @staticmethod
    def of(table: Table, knowledge: Knowledge) -> LinearProgram:
        """ReleaseError beyond the limits."""
        _check_size(knowledge)
        sizes = np.array(table.schema.sizes, np.int64)
        strides = table.schema.keys.strides
        levels = np.array(list(_row_levels(knowledge.release, table.schema.sizes)), np.int64)
        anchors = levels @ strides
        truth = np.zeros(table.schema.sizes, np.int64)
        truth[tuple(table.codes.T)] = table.counts
        allowed = possible_cells(knowledge) & (_frontier_minimum(truth, knowledge.release).reshape(-1) > 0)
        truth = truth.reshape(-1)
        below = kernel.incidence(levels, levels)
        odd = (levels > 0).sum(axis=1) % 2
        moebius = (below * np.where(odd[:, None] == odd[None, :], 1.0, -1.0)).T
        totals = kernel.transformed(truth, sizes, True)[anchors]
        unions = _unions(levels, strides, len(truth))
        return LinearProgram(sizes, strides, levels, anchors, unions, totals, allowed, moebius, truth)

    @property
    def steps(self) -> int:
        """What one step towards an optimum takes, in 0.1 ms of a reference core, and a share of the rounding."""
        rows, cells = len(self.totals), len(self.truth)
        return 10 + (rows**3 + 40 * cells * len(self.sizes)) // 300_000

    @cached_property
    def centre(self) -> Reals:
        """(cells,) a solution to start from: the analytic centre makes it positive, the truth lumpy."""
        even = self.totals[0] / max(1, np.count_nonzero(self.allowed))
        point = _Point(np.where(self.allowed, even, 0.0), np.ones(len(self.truth)), np.eye(1, len(self.totals))[0])
        target = np.full(len(self.truth), even)
        for _ in range(CENTRING):
            further = point.towards(self, target)
            point = further if further.is_finite else point
        return np.where(self.allowed, np.maximum((point.x + self.truth) / 2, TINY * even), 0.0)

    def place(self, cells: npt.NDArray[np.integer]) -> Codings:
        """(n,) dense cells of (n, variables) codes."""
        return cells.astype(np.int64) @ self.strides

    def codes(self, cells: Codings) -> Codings:
        """(n, variables) codes of dense cells."""
        return cells[:, None] // self.strides % self.sizes

    def rows(self, dense: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
        normal: Reals = sums[self.unions]
        normal[np.diag_indices_from(normal)] *= 1 + 1e-12  # more than rounding takes off a pivot
        kernel.factorise(normal)
        return normal, sums[self.anchors]

    def _transformed(self, dense: npt.NDArray[Any], *, summing: bool) -> npt.NDArray[Any]:
        transformed: npt.NDArray[Any] = kernel.transformed(dense, self.sizes, summing)
        return transformed

    def following(self, cells: Codings, baseline: Codings) -> Reals:
        """(rows, n) integers: what one record in each dense cell weighs at the cells around the baseline."""
        effect: Reals = self.moebius @ kernel.incidence(_swapped(self.codes(cells), baseline), self.levels).T
        return effect

    def holds(self, dense: Counts) -> bool:
        """Whether a (cells,) table is feasible, in integers."""
        agrees = (self.rows(dense) == self.totals).all()
        return bool(agrees and (dense >= 0).all() and not dense[~self.allowed].any())


def is_affordable(knowledge: Knowledge, rows: int) -> bool:
    """Whether there are no levels or other facts, few cells, and at most `rows` independent released marginal cells."""
    schema = knowledge.schema
    return (
        schema.levels.is_flat
        and not knowledge.facts
        and schema.cells <= MAX_CELLS
        and _number_of_rows(knowledge.structure.essential, schema.sizes) <= min(rows, MAX_ROWS)
    )


def _check_size(knowledge: Knowledge) -> None:
    if (level := next((v.name for v in knowledge.schema.variables if v.of is not None), None)) is not None:
        raise ReleaseError(
            f"{level!r} is a level of another variable, and the linear program takes none; choose the method auto or "
            "collapse"
        )
    if knowledge.facts:
        raise ReleaseError(
            f"{knowledge.facts[0].source} tells more than whole marginals, and the linear program takes these alone; "
            "choose the method auto or collapse"
        )
    if knowledge.schema.cells > MAX_CELLS:
        raise ReleaseError(
            f"the table has {knowledge.schema.cells} cells, and the linear program takes at most {MAX_CELLS}; "
            "choose the method nested or collapse, or a sub-table"
        )
    rows = _number_of_rows(knowledge.release, knowledge.schema.sizes)
    if rows > MAX_ROWS:
        raise ReleaseError(
            f"the release has {rows} independent marginal cells, and the linear program takes at most {MAX_ROWS}; "
            "choose the method nested or collapse, or release less"
        )


def _number_of_rows(release: Release, sizes: tuple[int, ...]) -> int:
    """Counted up to the first sub-table beyond the limit: a release may have many of them."""
    rows = 0
    for subtable in st.within_any_of(release.frontier):
        rows += int(np.prod([sizes[v] - 1 for v in st.members(subtable)], dtype=np.int64))
        if rows > MAX_ROWS:
            break
    return rows


def _row_levels(release: Release, sizes: tuple[int, ...]) -> Iterator[Codings]:
    for subtable in sorted(st.within_any_of(release.frontier), key=lambda s: (st.dimension(s), s)):
        kept = list(st.members(subtable))
        for chosen in product(*(range(1, sizes[v]) for v in kept)):
            levels = np.zeros(len(sizes), np.int64)
            levels[kept] = chosen
            yield levels


def _frontier_minimum(truth: Counts, release: Release) -> Counts:
    """The least released count over each dense cell."""
    least = np.full(truth.shape, truth.sum())
    for element in release.frontier:
        summed = tuple(v for v in range(truth.ndim) if not st.has(element, v))
        least = np.minimum(least, truth.sum(axis=summed, keepdims=True))
    return least


def _unions(levels: Codings, strides: Codings, cells: int) -> Codings:
    union = np.zeros((len(levels), len(levels)), np.int64)
    apart = np.zeros(union.shape, np.bool_)
    for one, stride in zip(levels.T, strides, strict=True):
        both = np.maximum(one[:, None], one[None, :])
        apart |= (one[:, None] != both) & (one[:, None] > 0) | (one[None, :] != both) & (one[None, :] > 0)
        union += both * stride
    return np.where(apart, cells, union)


@dataclass(frozen=True, eq=False)
class _Point:
    """An iterate: x the table, slack = prices of the multipliers less the cell's weight, positive where allowed."""

    x: Reals
    slack: Reals
    multipliers: Reals

    def direction(self, program: LinearProgram, factor: Reals, target: Reals | None = None) -> _Point:
        """Newton's step to x * slack = target, 0 where none is given, and the released totals."""
        aim, sums = np.zeros(len(self.x)), np.zeros(len(program.totals))
        if target is not None:
            aim = np.where(program.allowed, target / self.slack, 0.0)
            sums = program.rows(aim)
        multipliers = kernel.solved(factor, sums - program.totals)
        slack = np.where(program.allowed, program.prices(multipliers), 0.0)
        return _Point(aim - self.x - self.x / self.slack * slack, slack, multipliers)

    def moved(self, program: LinearProgram, by: _Point, share: float) -> _Point:
        """As far as x and slack stay positive, a share of it."""
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


def _optimum(program: LinearProgram, cell: int, sign: int) -> tuple[list[_Point], int]:
    """The path to the largest value of sign * cell, and the least integer bound proven on the way."""
    weight = np.zeros(len(program.truth))
    weight[cell] = sign
    multipliers = 2.0 * np.eye(1, len(program.totals))[0]
    path = [_Point(program.centre, 2.0 - weight, multipliers)]
    while len(path) <= MAX_ITERATIONS and _gap(program, path[-1], cell, sign) > GAP:
        further = path[-1].improved(program)
        if not further.is_finite:
            break
        path.append(further)
    return path, min(proven_bound(program, point.multipliers, cell, sign) for point in path[-3:])


def dual_path(program: LinearProgram, cell: int, sign: int) -> list[Reals]:
    """(rows,) multipliers of the last steps towards the largest value of sign * cell, a dense one."""
    return [point.multipliers for point in _optimum(program, cell, sign)[0][-3:]]


def _gap(program: LinearProgram, point: _Point, cell: int, sign: int) -> float:
    return _product(point.multipliers, program.totals) - sign * float(point.x[cell])


def _product(one: Reals, other: npt.NDArray[Any]) -> float:
    # not by `@`, which shares long sums among threads: what is proven must not depend on how many there are
    return float((one * other).sum())


def proven_bound(program: LinearProgram, multipliers: Reals, cell: int, sign: int) -> int:
    """An upper bound of sign * cell over all feasible tables, in integers, from any (rows,) multipliers.

    They are rounded to a common denominator, and the total's is raised by the largest lack of any
    allowed cell's price; then price >= weight holds everywhere, and the bound is weak duality. Sums
    stay below 2^62; multipliers that are not finite or beyond 2^50 give the grand total.
    """
    most = float(np.abs(multipliers).sum()) + 1.0
    if not most < MAX_MULTIPLIERS:
        return int(program.totals[0])
    scale = 1 << min(40, 60 - frexp(most)[1])
    whole = np.rint(multipliers * scale).astype(np.int64)
    slack = program.prices(whole)
    slack[cell] -= sign * scale
    lack = max(0, -int(slack[program.allowed].min(initial=0)))
    value = sum(int(y) * int(total) for y, total in zip(whole, program.totals, strict=True))
    return (value + lack * int(program.totals[0])) // scale


def _nearest_table(path: list[_Point], program: LinearProgram, cell: int, best: int, known: int) -> Counts | None:
    """A feasible table whose cell has the value `best`, or one nearer to it than `known`; None where none is found."""
    towards = 1 if best > known else -1
    for short in SHORT:
        value = best - towards * short
        if (value - known) * towards <= 0:
            return None
        found = _rounded_at(_slice(path, cell, value), program, cell, value)
        if found is not None:
            return found
    return None


def _slice(path: list[_Point], cell: int, value: int) -> Reals:
    """The place of the path where the cell has the value; its end where it stops short of it."""
    for late, early in zip(path[:0:-1], path[-2::-1], strict=True):
        begun, ended = early.x[cell], late.x[cell]
        if (begun - value) * (ended - value) <= 0 and begun != ended:
            mixed: Reals = early.x + (value - begun) / (ended - begun) * (late.x - early.x)
            return mixed
    return path[-1].x


def _rounded_at(x: Reals, program: LinearProgram, cell: int, value: int) -> Counts | None:
    """A feasible table near x with the value in the cell.

    Once all other cells are chosen, those that differ from a baseline on a released sub-table only
    follow, in integers. Where they are small in x they change places with others of which one
    record weighs 1 or -1 there. The others are rounded, and mended while one that follows is negative.
    """
    alone = np.zeros(len(x), np.int64)
    alone[cell] = value  # by itself: the rest has what it leaves
    gathered = _gathered(x, program, cell, program.totals - program.rows(alone))
    moved = program.truth - alone
    changed = np.flatnonzero(moved)
    for baseline in _baselines(gathered, program, cell):
        ball = program.place(_swapped(program.levels, baseline))
        free = np.setdiff1d(np.flatnonzero(gathered), ball)
        if len(free) > MAX_ROUNDED:
            return None
        free = free[np.argsort(-gathered[free], kind="stable")]
        effect = program.following(free, baseline)
        owed = program.following(changed, baseline) @ moved[changed]
        kernel.exchange(effect, owed, free, ball, gathered)
        counts, following = kernel.rounded(gathered[free], effect, gathered[ball], owed, ROUNDING_STEPS)
        dense = alone.copy()
        dense[free], dense[ball] = counts, following
        if program.holds(dense):
            return dense
    return None


def _swapped(codes: Codings, baseline: Codings) -> Codings:
    """Codes with each variable's baseline and level 0 exchanged."""
    swapped: Codings = np.where(codes == baseline, 0, np.where(codes == 0, baseline, codes))
    return swapped


def _baselines(x: Reals, program: LinearProgram, cell: int) -> Codings:
    """Large cells around which the cells that shall follow are large and do not include the given one."""
    heavy = program.codes(np.argsort(-x, kind="stable")[:BASELINES])
    scores = np.full(len(heavy), -np.inf)
    for k, baseline in enumerate(heavy):
        ball = program.place(_swapped(program.levels, baseline))
        if cell not in ball:
            scores[k] = np.log(np.clip(x[ball], 1e-3, 30)).sum()
    order = np.argsort(-scores, kind="stable")[:TRIED]
    best: Codings = heavy[order[np.isfinite(scores[order])]]
    return best


def _gathered(x: Reals, program: LinearProgram, cell: int, rest: Counts) -> Reals:
    """The rest of the table on fewer and fewer cells, as far as that goes."""
    x = x.copy()
    x[cell] = 0
    for threshold in THRESHOLDS:
        x = _projected(np.where(x > threshold, x, 0.0), program, rest, x)
    return x


def _projected(x: Reals, program: LinearProgram, rest: Counts, otherwise: Reals) -> Reals:
    """The solution of the released totals next to x in relative entropy and on its cells, by Newton's method."""
    for _ in range(PROJECTIONS):
        factor, sums = program.normal(x)
        lack = rest - sums
        if np.abs(lack).max() < TOLERANCE:
            return x
        x = x * np.exp(np.clip(program.prices(kernel.solved(factor, lack)), -1.0, 1.0))
    return x if np.abs(rest - program.rows(x)).max() < TOLERANCE else otherwise
