"""The risk criterion: is every at-risk cell's width at least beta? Three answers, with witnesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from sdc.bounds import reducible
from sdc.bounds.method import cell_bounds, cheap_bounds, is_small
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible import moves, sparsest
from sdc.feasible.moves import Found, can_search
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.risk.critical_width import require_at_risk
from sdc.risk.evidence import Component, Rows, Shift, Support
from sdc.risk.slices import CELLS_PER_SLICE, Slice

CELLS_PER_UNIT = 8
FIRST_ROUND, LAST_ROUND = 4, 2048
UNITS_LEFT = 8
MOST_PER_UNIT = {Shift.QUICK_DOWN: 32, Shift.QUICK_UP: 32, Shift.DOWN: 8, Shift.UP: 8, Shift.SPARSEST_UP: 1}
FIRST_BATCH, LAST_BATCH = 2, 32
CHAIN_STEPS = 3_000
STEPS_PER_SECOND = 10_000  # measured: 0.1 ms a node
MAX_WITNESSES = 20


@dataclass(frozen=True)
class Witness:
    """A cell that shows why a release is unsafe, or that nothing could decide."""

    cell: tuple[int, ...]
    count: int
    outer: tuple[int, int]
    inner: tuple[int, int]
    method: str


@dataclass(frozen=True)
class Assessment:
    """Whether a release satisfies min width >= min_width_required ([KDSF] eq. 6).

    releasable       True: every inner width reaches it; False: some outer width does not; None: undecided
    min_width        (lo, hi) that contains the sharp minimum width over the at-risk cells
    undecided_cells  cells whose outer width reaches it and whose inner width does not
    witnesses        cells that prove it unsafe, else the undecided ones, narrowest first, at most 20
    """

    releasable: bool | None
    min_width_required: int
    min_width: tuple[int, int]
    at_risk_cells: int
    undecided_cells: int
    witnesses: tuple[Witness, ...]


def judge(bounds: CellBounds, min_width: int) -> Assessment:
    """The answer that the bounds of all at-risk cells give."""
    outer, inner = bounds.outer_width, bounds.inner_width
    unsafe, undecided = outer < min_width, (outer >= min_width) & (inner < min_width)
    releasable = False if unsafe.any() else None if undecided.any() else True
    telling = np.flatnonzero(unsafe if unsafe.any() else undecided)
    return Assessment(
        releasable,
        min_width,
        (int(inner.min()), int(outer.min())),
        len(bounds),
        int(undecided.sum()),
        tuple(_witness(bounds, row) for row in _most_exposed(bounds, telling)[:MAX_WITNESSES]),
    )


def _most_exposed(bounds: CellBounds, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Narrowest outer first, then narrowest inner, then in the table's order."""
    order = np.lexsort([rows, bounds.inner_width[rows], bounds.outer_width[rows]])
    return rows[order]


def _witness(bounds: CellBounds, row: np.int64) -> Witness:
    low, high = bounds.outer[row].tolist()
    inner_low, inner_high = bounds.inner[row].tolist()
    cell = tuple(bounds.cells[row].tolist())
    return Witness(cell, int(bounds.counts[row]), (low, high), (inner_low, inner_high), bounds.method)


@dataclass(frozen=True)
class Budget:
    """How much search a proof of safety may cost, in seconds of a reference core.

    They are counted in steps of the search, not by the clock, so that a build gives the same on every machine and
    with any number of workers. InputError where one is not positive: nothing could be proven.

    seconds_per_cell  for one at-risk cell under one release
    seconds           for all cells under all releases of a search, and again for the assessment of what it found
    """

    seconds_per_cell: float = 5.0
    seconds: float = 1200.0

    def __post_init__(self) -> None:
        for name in ("seconds_per_cell", "seconds"):
            if not getattr(self, name) > 0:
                raise InputError(
                    f"budget {name} is {getattr(self, name)}; give more than 0 seconds, or nothing is proven"
                )

    @property
    def steps_per_cell(self) -> int:
        return max(1, int(self.seconds_per_cell * STEPS_PER_SECOND))

    @property
    def steps(self) -> int:
        return max(1, int(self.seconds * STEPS_PER_SECOND))


@dataclass(eq=False)
class Criterion:
    """min width >= `min_width` over the cells with 0 < count <= `small_count`, for one release after another.

    Cheap bounds of all at-risk cells come first. What they leave open goes to dearer methods, the most exposed cells
    first. Small tables get exact ones. In larger tables each cell is certified by feasible tables that are searched
    for and kept as `support`, component by component; outer bounds of the `refute_cells` most exposed ones that stay
    open may refute. A table of more than `cells_per_slice` cells is searched slice by slice: less is found, and nothing
    that is not so. InputError where the table has no at-risk cell.
    """

    table: Table
    small_count: int
    min_width: int
    refute_cells: int = 16
    executor: Executor = IN_PROCESS
    budget: Budget = field(default_factory=Budget)
    cells_per_slice: int = CELLS_PER_SLICE
    _hard: dict[int, int] = field(default_factory=dict, init=False)
    _spent: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require_at_risk(self.table, self.small_count)

    @cached_property
    def _marginals(self) -> CellMarginals:
        return CellMarginals(self.table, self.table.codes[self.table.at_risk(self.small_count)])

    def anew(self, min_width: int) -> Criterion:
        """The same with this width and a budget of its own, nothing found yet; the marginals known are shared."""
        other = replace(self, min_width=min_width)
        other._marginals = self._marginals
        return other

    @cached_property
    def support(self) -> Support:
        """The feasible tables found so far."""
        return Support(self._marginals, self.cells_per_slice)

    @property
    def is_exact(self) -> bool:
        """Whether every cell left open gets an exact method; one that reaches its limit leaves the cell undecided."""
        return is_small(self.table.schema)

    @property
    def is_out_of_budget(self) -> bool:
        """Whether the search for feasible tables has used up its budget; what is open then stays undecided."""
        return self._spent >= self.budget.steps

    def cheap(self, release: Release) -> CellBounds:
        """Bounds of every at-risk cell that cost next to nothing."""
        return cheap_bounds(self._marginals, _known(self.table, release))

    def learn(self, proof: Proof, release: Release) -> None:
        """Takes over feasible tables found elsewhere; what is not feasible under the release is left out."""
        self.support.ask(release)
        self.support.learn(proof)

    def assess(self, release: Release, *, certify: bool = True, brief: bool = False) -> Assessment:
        """The answer for a release; stops at the first cell that proves it unsafe.

        certify  search feasible tables that prove cells safe; without, a release can be refuted or undecided
        brief    stop at the first cell found hard to certify too: the answer is then undecided at best
        """
        bounds = self.cheap(release)
        answer = judge(bounds, self.min_width)
        if answer.releasable is not None:
            return answer
        for finer in self._finer(bounds, release, certify, brief):
            answer = judge(finer, self.min_width)
            if answer.releasable is False:
                break
        return answer

    def proven(self, release: Release) -> tuple[CellBounds, Proof]:
        """The best bounds of every at-risk cell whose inner ends all rest on something that can be shown.

        For each component of the release that is a decomposable cover, under which bounds are explicit, and feasible
        tables as differences.
        """
        bounds = self.bounds(release)
        inner = self.supported(release)
        rows = np.flatnonzero((inner != bounds.inner).any(axis=1))
        if self.is_exact and len(rows):
            self._show(rows)
            inner = self.supported(release)
        return CellBounds(bounds.cells, bounds.counts, bounds.outer, inner, bounds.method), self.support.proof()

    def _show(self, rows: Rows) -> None:
        """Feasible tables at the ends of these at-risk cells' marginal cells in each component."""
        from sdc.bounds.integer_program import tables_at_ends

        for component in self.support.open:
            cells = component.cells[np.unique(component.row[rows])]
            component.add(tables_at_ends(component.table, component.knowledge, cells))

    def proof(self, release: Release) -> Proof:
        """What is known to show that cells can move under the release."""
        self.support.ask(release)
        return self.support.proof()

    def supported(self, release: Release) -> Intervals:
        """(n, 2) inner bounds of every at-risk cell from the components' decomposable covers and feasible tables."""
        self.support.ask(release)
        return self.support.inner

    def bounds(self, release: Release) -> CellBounds:
        """The best bounds of every at-risk cell: exact where the table is small, else as in `assess`."""
        bounds = self.cheap(release)
        if self.is_exact:
            *_, bounds = bounds, *self._refined(bounds, release, _most_exposed(bounds, np.flatnonzero(~bounds.exact)))
        else:
            *_, bounds = bounds, *self._finer(bounds, release, True, False)
        return bounds

    def _finer(self, bounds: CellBounds, release: Release, certify: bool, brief: bool) -> Iterator[CellBounds]:
        """The bounds again and again, as more is known of the cells that are open."""
        if self.is_exact:
            yield from self._refined(bounds, release, self._open(bounds))
            return
        if certify:
            bounds = self._certified(bounds, release, brief)
            yield bounds
        most = min(self.refute_cells, FIRST_BATCH) if brief else self.refute_cells
        yield from self._refined(bounds, release, self._open(bounds)[:most])

    def _open(self, bounds: CellBounds) -> npt.NDArray[np.int64]:
        """Undecided cells, those that were hard before first, then the most exposed."""
        undecided = (bounds.outer_width >= self.min_width) & (bounds.inner_width < self.min_width)
        rows = _most_exposed(bounds, np.flatnonzero(undecided))
        times = np.array([self._hard.get(int(row), 0) for row in rows], np.int64)
        return rows[np.argsort(-times, kind="stable")]

    def _certified(self, bounds: CellBounds, release: Release, brief: bool) -> CellBounds:
        """Rounds of more and more cells, whatever the workers; what one round finds is used by the next.

        Chains of moves come first, then sparsest differences for the cells that they leave open: after each round
        where the first cell that stays open is the answer. Else from cheap to dear: all cells have the cheapest chains
        before one has others, and all have those before one has more.
        """
        self.support.ask(release)
        bounds = self._with_support(bounds)
        waiting = self._open(bounds)
        if not brief:
            bounds = self._chains(bounds, waiting, Shift.QUICK_DOWN, Shift.QUICK_UP)
            bounds = self._chains(bounds, waiting, Shift.DOWN, Shift.UP)
            return self._sparsest(bounds, waiting, brief)
        for rows in _batches(waiting, FIRST_ROUND, LAST_ROUND):
            if self.is_out_of_budget:
                break
            bounds = self._sparsest(self._search(bounds, rows, Shift.DOWN, Shift.UP), rows, brief)
            if len(self._short(bounds, rows)):
                break
        return bounds

    def _chains(self, bounds: CellBounds, rows: Rows, down: Shift, up: Shift) -> CellBounds:
        """Rounds of cells; the last is about as large as what is left of the budget allows for, one way of a cell."""
        waiting, size = self._short(bounds, rows), LAST_BATCH
        while len(waiting) and not self.is_out_of_budget:
            size = min(2 * size, LAST_ROUND, 1 + (self.budget.steps - self._spent) // CHAIN_STEPS)
            bounds = self._search(bounds, waiting[:size], down, up)
            waiting = self._short(bounds, waiting[size:])
        return bounds

    def _sparsest(self, bounds: CellBounds, rows: Rows, brief: bool) -> CellBounds:
        for batch in _batches(self._short(bounds, rows), FIRST_BATCH, LAST_BATCH):
            if self.is_out_of_budget:
                break
            bounds = self._search(bounds, batch, Shift.SPARSEST_UP)
            failed = self._short(bounds, batch)
            for row in failed.tolist():
                self._hard[row] = self._hard.get(row, 0) + 1
            if brief and len(failed):
                break
        return bounds

    def _short(self, bounds: CellBounds, rows: Rows) -> Rows:
        """Those of the cells whose inner width does not reach what is required."""
        return rows[bounds.inner_width[rows] < self.min_width]

    def _search(self, bounds: CellBounds, rows: Rows, *shifts: Shift) -> CellBounds:
        """The bounds with what the workers find to move the cells, one way after the other."""
        for shift in shifts:
            units, components = self._units(self._short(bounds, rows), shift)
            for component, found in zip(components, self.executor.run(_finder(shift), self.table, units), strict=True):
                component.add(found.differences)
                self._spent += found.nodes
            bounds = self._with_support(bounds) if units else bounds
        return bounds

    def _units(self, rows: Rows, shift: Shift) -> tuple[list[Unit], list[Component]]:
        units, components = [], []
        steps = self.budget.steps_per_cell
        if shift is Shift.SPARSEST_UP and steps <= CHAIN_STEPS:
            return [], []
        for component, cells, changes in self.support.wanted(rows, self.min_width, shift):
            if not can_search(component.table):
                continue
            released = component.release.frontier
            for part in component.slices:
                held = np.flatnonzero(part.holds(component.cells[cells], component.table.schema))
                for piece in _cut(held, MOST_PER_UNIT[shift]):
                    moved = component.cells[cells[piece]], changes[piece]
                    units.append((component.variables, part, released, *moved, shift, min(CHAIN_STEPS, steps)))
                    components.append(component)
        return units, components

    def _with_support(self, bounds: CellBounds) -> CellBounds:
        found = CellBounds(bounds.cells, bounds.counts, bounds.outer, self.support.inner, "moves")
        return bounds.meet(found)

    def _refined(self, bounds: CellBounds, release: Release, rows: npt.NDArray[np.int64]) -> Iterator[CellBounds]:
        """The bounds again and again, after each unit of cells that a dearer method has treated."""
        chunks = [rows[i : i + CELLS_PER_UNIT] for i in range(0, len(rows), CELLS_PER_UNIT)]
        method = "auto" if self.is_exact else "outer"
        units = [(release.frontier, bounds.cells[chunk], method) for chunk in chunks]
        for chunk, finer in zip(chunks, self.executor.run(bounds_of_cells, self.table, units), strict=True):
            bounds = bounds.narrowed(chunk, finer)
            yield bounds


def _batches(rows: Rows, first: int, most: int) -> Iterator[Rows]:
    """The cells in batches that grow fourfold: by less, and many short rounds wait for their last unit."""
    while len(rows):
        yield rows[:first]
        rows, first = rows[first:], min(4 * first, most)


def _cut(rows: Rows, most: int) -> Iterator[Rows]:
    """Units that get smaller, so that workers end a round together however many they are.

    Guided self-scheduling (Polychronopoulos and Kuck 1987), as if for `UNITS_LEFT` workers.
    """
    while len(rows):
        size = min(most, -(-len(rows) // UNITS_LEFT))
        yield rows[:size]
        rows = rows[size:]


def bounds_bytes(cells: int, variables: int) -> int:
    """Memory that a unit of an assessment needs at most, measured: the columns of a component and its marginals."""
    return cells * (16 * variables + 250)


Unit = tuple[SubTable, Slice, tuple[SubTable, ...], Codes, Counts, Shift, int]


def move_cells(table: Table, unit: Unit) -> Found:
    """Feasible tables of a component that move its marginal cells by the changes asked for, or as far as was found.

    The unit is (component, slice of it that has the cells, what is released of it, (n, variables of the component)
    cells, (n,) changes, how, steps).
    """
    variables, held, frontier, cells, changes, shift, steps = unit
    effort = 1 if shift.is_quick else moves.EFFORTS
    part = _slice(_marginal(table, variables), held)
    return moves.shift(part, Knowledge.of(part, Release(frontier)), cells, changes, effort=effort, nodes=steps)


def sparsest_moves(table: Table, unit: Unit) -> Found:
    """The same by sparsest differences, whose search has limits of its own."""
    variables, held, frontier, cells, changes, _, _ = unit
    part = _slice(_marginal(table, variables), held)
    return sparsest.find(part, Knowledge.of(part, Release(frontier)), cells, changes)


def _finder(shift: Shift) -> Callable[[Table, Unit], Found]:
    return sparsest_moves if shift is Shift.SPARSEST_UP else move_cells


@lru_cache(maxsize=64)
def _known(table: Table, release: Release) -> Knowledge:
    """Of the whole table; a unit brings the frontier alone, and what follows from it is asked again by the next."""
    return Knowledge.of(table, release)


@lru_cache(maxsize=8)
def _marginal(table: Table, variables: SubTable) -> Table:
    return table if variables == st.full(len(table.schema)) else table.marginal(variables)


_kept: dict[tuple[Table, Slice], Table] = {}


def _slice(table: Table, held: Slice) -> Table:
    """The slice, kept for the units that follow; the one before goes first, with all that was made of it."""
    if _kept and (table, held) not in _kept:
        _kept.clear()
        moves.forget()
    if held.is_whole:
        return table
    if not _kept:
        _kept[table, held] = held.of(table)
    return _kept[table, held]


def bounds_of_cells(table: Table, unit: tuple[tuple[int, ...], Codes, str]) -> CellBounds:
    """Bounds of the unit (released frontier, cells, name of the method)."""
    frontier, cells, method = unit
    knowledge = _known(table, Release(frontier))
    if method == "outer":
        return reducible.bounds_by(_outer_bounds, table, knowledge, cells)
    return cell_bounds(table, knowledge, cells, method)


def _outer_bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Of a component's cells: exact where it is small."""
    return cell_bounds(table, knowledge, cells, "exact" if is_small(table.schema) else "collapse")


def bounds_in_units(table: Table, release: Release, cells: Codes, method: str, executor: Executor) -> CellBounds:
    """Bounds of many cells, cut into as many units as keep the workers busy; the cut does not change them."""
    pieces = np.array_split(cells, min(len(cells), 4 * executor.workers if executor.workers > 1 else 1))
    units = [(release.frontier, piece, method) for piece in pieces]
    return CellBounds.concatenated(list(executor.run(bounds_of_cells, table, units)))
