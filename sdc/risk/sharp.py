"""Sharp bounds of cells, as far as a budget goes ([DKS] 4.5): outer ends come in, inner ends go out, until they meet.

Cells of a component are cut into units for the workers: each names at-risk cells of one partition of the table by their
rows, which a worker takes from the table that it opened. Rounds go from cheap methods to dear ones. Whatever one
round finds is used by the next. What is done follows from table, release and cells alone: the budget says how far it
goes, and workers how long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.bounds.collapse import sharing
from sdc.checkpoint import Arrays
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.differences import Differences, Flags
from sdc.feasible.proof import Proof
from sdc.feasible.witness_pool import AtRisk, CellRows, WitnessPool
from sdc.model.cell_bounds import CellBounds, Intervals, end_columns
from sdc.model.errors import InputError, many
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import as_cells
from sdc.model.named import Named
from sdc.model.schema import Schema
from sdc.model.sharpness import EndMethods
from sdc.model.table import Codes, Table, partition_edges, partitions_of
from sdc.risk.program_units import room_of
from sdc.risk.sharp_units import SEEKING, FoundEnds, SharpUnit, most_steps, seek
from sdc.risk.slices import CELLS_PER_SLICE, WHOLE, Slice
from sdc.risk.support import Component, Support
from sdc.risk.units import batches, component_table, cut, narrowed
from sdc.solve.ends import STEPS_PER_SECOND

METHODS = (
    "true-table",
    "explicit",
    "nested",
    "given",
    "collapse",
    "walk",
    "shuttle",
    "linear-program",
    "branch-and-bound",
    "integer-program",
)
"""What gives an end, from cheap to dear: `given` are bounds and a proof that were there before."""

TRUE_TABLE, EXPLICIT, NESTED, GIVEN = range(4)
Labels = npt.NDArray[np.uint8]
NO_ROWS = np.zeros(0, np.int64)
ALL = 1 << 30
FROM_FOUND = 2  # the effort from which on walks start from tables found


@dataclass(frozen=True, eq=False, repr=False)
class SharpBounds(Named):
    """Bounds of cells, the methods that gave their ends, and what shows the inner ones.

    bounds              of the cells asked for, in their order: sharp where outer and inner are the same
    outer_by, inner_by  (n, 2) uint8 index into METHODS, for each end
    proof               differences of the components by which inner ends are reached, as certificates have them
    is_ended            whether the budget ended the search before all methods were tried
    """

    bounds: CellBounds
    outer_by: Labels
    inner_by: Labels
    proof: Proof
    is_ended: bool = False

    @property
    def headline(self) -> str:
        return f"Bounds of {many(len(self.bounds), 'cell')}, {int(self.bounds.exact.sum()):,} of them sharp"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells with their bounds, and the method that gave each end."""
        methods = self.by()
        ends = end_columns(methods.outer, methods.inner)
        return {**self.bounds.columns(schema), **{f"{name}_by": own.tolist() for name, own in ends.items()}}

    def by(self, seconds: float | None = None) -> EndMethods:
        """The names of the methods; `seconds` is the budget, where that has ended the search."""
        names = np.array(METHODS)
        return EndMethods(names[self.outer_by], names[self.inner_by], seconds)


class SharpStep(NamedTuple):
    """A method, how far it goes, and whether for lower ends (0), upper ends (1) or both."""

    method: str
    effort: int = 0
    ends: tuple[int, ...] = (0, 1)

    @property
    def from_found(self) -> bool:
        """Whether it is a walk that starts from a feasible table found before, not from the true one."""
        return self.method == "walk" and self.effort >= FROM_FOUND


class SharpRound(NamedTuple):
    """Steps, one after another on each batch of groups of cells; how many the first batch has, and the largest."""

    steps: tuple[SharpStep, ...]
    first: int
    most: int


ROUNDS = (
    # a lower end is 0 as a rule, which a walk reaches at once: that needs no better outer bound
    SharpRound((SharpStep("walk", 0, (0,)),), 2048, 2048),
    SharpRound((SharpStep("collapse"), SharpStep("walk")), 64, 2048),
    SharpRound((SharpStep("branch-and-bound"),), ALL, ALL),
    SharpRound((SharpStep("shuttle"), SharpStep("walk")), ALL, ALL),
    SharpRound((SharpStep("linear-program"), SharpStep("walk")), 16, 64),
    *3 * (SharpRound((SharpStep("walk", FROM_FOUND),), 64, 2048),),
    SharpRound((SharpStep("walk", 1),), 64, 2048),
    SharpRound((SharpStep("walk", FROM_FOUND + 1),), 64, 2048),
    SharpRound((SharpStep("linear-program", 1), SharpStep("walk")), 16, 64),
    *2 * (SharpRound((SharpStep("walk", FROM_FOUND + 1),), 64, 2048),),
    *(
        SharpRound((SharpStep("branch-and-bound", n), SharpStep("integer-program", n - 1)), 64, 2048)
        for n in range(1, 6)
    ),
)


class SharpProgress(NamedTuple):
    """How far the search is: of the cells asked for those that are sharp, and of the units of this step those done.

    step   the method, and its effort where that is more than the least
    round  of at most so many `rounds`
    """

    cells: int
    sharp: int
    step: str
    parts_done: int
    parts: int
    round: int
    rounds: int = len(ROUNDS)


OnPart: TypeAlias = Callable[[str, Arrays, SharpProgress], None]


def sharp_bounds(
    table: Table,
    knowledge: Knowledge,
    cells: Codes,
    *,
    seconds: float,
    start: CellBounds | None = None,
    proof: Proof | None = None,
    executor: Executor = IN_PROCESS,
    kept: Mapping[str, Arrays] | None = None,
    on_part: OnPart = lambda key, found, progress: None,
    cells_per_slice: int = CELLS_PER_SLICE,
) -> SharpBounds:
    """Sharp bounds of (n, variables) cells of the table, zero cells too, or a bracket of each end that stays open.

    seconds   of a reference core, counted in steps, so that the bounds do not depend on a clock
    start     outer bounds of some of the cells that are known already; they are taken for true
    proof     feasible tables that are known already, checked in integers
    executor  changes how long it takes, never the bounds
    kept      parts of an earlier call by their keys, which are not done again
    on_part   hears of each part that was done: its key, the same in every run, and what it found, in integers
    cells_per_slice  a walk in a larger component holds one slice of it, and linear programs take less room

    The narrowest cells come first: they decide the minimum width, and the walks to their ends are short. Outer ends
    are proven in integers, and each table behind an inner end is checked in integers. The same bounds whatever the
    workers, and whatever parts are kept. InputError where the budget is not positive, or a cell is given twice or does
    not fit the table; ReleaseError for knowledge of another table.
    """
    if not seconds > 0:
        raise InputError(f"the budget of sharp bounds is {seconds} seconds; give more than 0")
    knowledge.check_is_of(table)
    search = _SharpSearch(table, knowledge, _different(table, cells), start, proof, cells_per_slice)
    search.run(_Work(table, executor, kept or {}, on_part, max(1, int(seconds * STEPS_PER_SECOND))))
    return search.result


def _different(table: Table, cells: Codes) -> Codes:
    given = as_cells(cells, table.schema)
    first, group = table.schema.keys.distinct(given)
    if len(first) < len(given):
        row = int(np.flatnonzero(np.bincount(group)[group] > 1)[0])
        raise InputError(
            f"cells are named twice, {len(given) - len(first)} of {len(given)}; name each cell once",
            f"cell {given[row].tolist()} is named twice",
        )
    return given


@dataclass(eq=False)
class _Work:
    """Who does the units, what is kept of them, and how many steps are left."""

    table: Table
    executor: Executor
    kept: Mapping[str, Arrays]
    on_part: OnPart
    left: int
    waves: int = 0

    def found(self, units: Sequence[SharpUnit], progress_of: Callable[[int], SharpProgress]) -> Iterator[FoundEnds]:
        """What units find, in their order, as far as the steps go: where these end does not depend on who works."""
        self.waves += 1
        keys = [_key(self.waves, unit, number) for number, unit in enumerate(units)]
        kept = [_read(self.kept.get(key), unit) for key, unit in zip(keys, units, strict=True)]
        missing = [unit for unit, known in zip(units, kept, strict=True) if known is None]
        fresh = iter(self.executor.run(seek, self.table, missing) if missing else ())
        for number, (key, unit, known) in enumerate(zip(keys, units, kept, strict=True), 1):
            if self.left <= 0:
                return
            found = next(fresh) if known is None else _checked(known, self.table, unit)
            self.left -= found.steps
            if known is None:
                self.on_part(key, _written(unit, found), progress_of(number))
            yield found


def _key(wave: int, unit: SharpUnit, number: int) -> str:
    return f"{wave:05}-{unit.method}-{unit.effort}-{unit.variables:x}-{number:05}"


def _written(unit: SharpUnit, found: FoundEnds) -> Arrays:
    differences, steps = found.differences, np.array([found.steps])
    found_by: Arrays = {"start": differences.start, "entries": differences.cells, "changes": differences.changes}
    return {"cells": unit.named, "outer": found.outer, "steps": steps, **found_by}


def _read(of: Arrays | None, unit: SharpUnit) -> FoundEnds | None:
    """What a part has found; None where it is of no such unit, which is then done."""
    if of is None or not np.array_equal(of["cells"], unit.named):
        return None
    return FoundEnds(of["outer"], Differences(of["start"], of["entries"], of["changes"]), int(of["steps"][0]))


def _checked(kept: FoundEnds, table: Table, unit: SharpUnit) -> FoundEnds:
    """The same with the feasible tables of it alone: what a worker finds is checked there, what was kept is not."""
    differences = kept.differences
    is_feasible = differences.feasible(component_table(table, unit.variables), unit.knowledge)
    return kept._replace(differences=differences.rows(is_feasible))


class _Piece(NamedTuple):
    """Marginal cells of a unit, (n, 2) which of their ends are wanted, and the slice and the table of a walk."""

    rows: CellRows
    wanted: Flags
    held: Slice = WHOLE
    base: Differences | None = None


@dataclass(eq=False)
class _Sharpened:
    """A component: what is proven of its marginal cells, by which methods, and what was tried.

    outer, outer_by, inner_by  (marginal cells, 2)
    tried                      of each method and effort the ends as they were, (marginal cells, 2, 2)
    """

    component: Component
    outer: Intervals
    outer_by: Labels
    inner_by: Labels
    tried: dict[tuple[str, int], npt.NDArray[np.int64]] = field(default_factory=dict)

    @staticmethod
    def of(component: Component) -> _Sharpened:
        cheap, inner = component.cheap, component.inner
        label = EXPLICIT if component.is_explicit else NESTED
        by = np.where(inner != cheap.inner, GIVEN, np.where(inner == cheap.counts[:, None], TRUE_TABLE, label))
        return _Sharpened(component, cheap.outer.copy(), np.full(inner.shape, label, np.uint8), by.astype(np.uint8))

    @property
    def inner(self) -> Intervals:
        return self.component.inner

    def untried(self, step: SharpStep) -> Flags:
        """(marginal cells, 2) which ends are open and not as they were when the step was tried."""
        changed = self._tried(step) != np.stack([self.outer, self.inner], axis=2)
        if step.method == "walk" and not step.from_found:
            # from the true table to the same outer end a walk comes to the same table, whatever inner ends are known
            changed = changed[:, :, :1]
        flags: Flags = changed.any(axis=2) & (self.outer != self.inner)
        return flags

    def try_(self, step: SharpStep, rows: CellRows, wanted: Flags) -> None:
        """Notes the ends, (rows, 2), as they are when the step is tried."""
        now = np.stack([self.outer[rows], self.inner[rows]], axis=2)
        self._tried(step)[rows] = np.where(wanted[:, :, None], now, self._tried(step)[rows])

    def _tried(self, step: SharpStep) -> npt.NDArray[np.int64]:
        return self.tried.setdefault(step[:2], np.full((*self.outer.shape, 2), -1))

    def groups(self, rows: CellRows, method: str) -> list[CellRows]:
        """The rows in groups that one propagation serves, or one by one; in the order of each group's first row."""
        if method == "shuttle":
            return [rows] if len(rows) else []
        if method != "collapse":
            return np.split(rows, np.arange(1, len(rows))) if len(rows) else []
        frame, knowledge = self.component.frame, self.component.knowledge
        covered = knowledge.structure.covered & knowledge.structure.varying
        groups = sharing(frame.table.schema, frame.cells[rows], covered)
        return [rows[group] for group in sorted(groups, key=lambda group: int(group[0]))]

    def narrowest_first(self, rows: CellRows) -> CellRows:
        """The rows by the width of their outer intervals."""
        return rows[np.argsort(np.diff(self.outer[rows])[:, 0], kind="stable")]

    def pieces(self, rows: CellRows, wanted: Flags, step: SharpStep) -> Iterator[_Piece]:
        """The rows cut into those of units."""
        if step.from_found:
            # a table found may change cells of several slices
            if len(self.component.slices) == 1:
                yield from self._from_found(rows, wanted)
            return
        for held, inside in self._apart(rows, self.component.slices if step.method == "walk" else [WHOLE]):
            groups = self.groups(inside, step.method)
            for some in cut(np.arange(len(groups)), SEEKING[step.method].most_at(step.effort)):
                piece = np.concatenate([groups[number] for number in some])
                yield _Piece(piece, wanted[piece], held)

    def _apart(self, rows: CellRows, held: Sequence[Slice]) -> Iterator[tuple[Slice, CellRows]]:
        """The rows of each slice and of each partition of the component's table, those without a record apart."""
        frame = self.component.frame
        for one in held:
            inside = rows[one.holds(frame.cells[rows], frame.table.schema)]
            of = self.partition[inside]
            yield from ((one, inside[of == number]) for number in np.unique(of))

    @cached_property
    def place(self) -> CellRows:
        """(marginal cells,) their rows of the component's table, -1 of those without a record."""
        frame = self.component.frame
        return frame.table.schema.keys.matching(frame.table.codes, frame.cells)

    @cached_property
    def partition(self) -> CellRows:
        """(marginal cells,) in which partition of the component's table they are: of the table, not of its files.

        So units, and with them all bounds, are the same in however many parts the table is stored.
        """
        cells = len(self.component.frame.table)
        edges = partition_edges(cells, partitions_of(cells))
        return np.where(self.place < 0, -1, np.searchsorted(edges, self.place, side="right") - 1)

    def _from_found(self, rows: CellRows, wanted: Flags) -> Iterator[_Piece]:
        reaching = np.where(wanted[rows], self._reaching()[rows], -1)
        for number in np.unique(reaching[reaching >= 0]):
            with_it = reaching == number
            base = self.component.evidence.differences.at(np.array([number]))
            of = np.where(with_it.any(axis=1), self.partition[rows], -2)
            for inside in (of == partition for partition in np.unique(of[of > -2])):
                yield _Piece(rows[inside], with_it[inside], base=base)

    def _reaching(self) -> npt.NDArray[np.int64]:
        """(marginal cells, 2) the sparsest difference that reaches each inner end, -1 where none does."""
        evidence, counts = self.component.evidence, self.component.frame.counts
        of, row = evidence.differences.of, evidence.row
        # the sparsest last, so that it is what stays written
        order = np.argsort(-np.diff(evidence.differences.start)[of], kind="stable")
        order = order[row[order] >= 0]
        found, change = np.full(self.outer.shape, -1), evidence.differences.changes[order]
        for end in (0, 1):
            hit = order[change == (self.inner[:, end] - counts)[row[order]]]
            found[row[hit], end] = of[hit]
        return found

    def meet(self, rows: CellRows, outer: Intervals, label: int) -> None:
        """Takes over narrower outer bounds of some marginal cells."""
        met = narrowed(self.outer, rows, outer)
        self.outer_by[met != self.outer] = label
        self.outer = met

    def add(self, found: Sequence[Differences], label: int) -> None:
        """Takes over feasible tables."""
        before = self.inner.copy()
        self.component.add(Differences.concatenated(found))
        self.inner_by[self.inner != before] = label
        self.component.prune()


class _SharpSearch:
    """The cells asked for while their bounds are sought."""

    def __init__(
        self,
        table: Table,
        knowledge: Knowledge,
        cells: Codes,
        start: CellBounds | None,
        proof: Proof | None,
        cells_per_slice: int,
    ) -> None:
        self.cells, self.counts, self.room = cells, table.count_at(cells), room_of(cells_per_slice)
        pool = WitnessPool(AtRisk(table, cells, self.counts), max(1, int(self.counts.max(initial=1))))
        self.support = Support(knowledge, pool if proof is None else pool.learnt(proof, knowledge), cells_per_slice)
        self.parts = [_Sharpened.of(component) for component in self.support.open]
        self.known, self.is_ended = _known_outer(table, cells, start), False
        self._settle()

    def run(self, work: _Work) -> None:
        """Round after round, until all is sharp, the steps are spent or no method is left."""
        for self.round, turn in enumerate(ROUNDS, start=1):
            waiting = [self._batches(part, turn) for part in self.parts]
            for rows in zip_longest(*waiting, fillvalue=NO_ROWS):
                for step in turn.steps:
                    if work.left > 0 and most_steps(step.method, step.effort) <= work.left:
                        self._seek(work, step, rows)
                    else:
                        self.is_ended = bool(self.open.any())

    def _batches(self, part: _Sharpened, turn: SharpRound) -> Iterator[CellRows]:
        rows = part.narrowest_first(np.flatnonzero(self._wanted(part).any(axis=1)))
        groups = part.groups(rows, turn.steps[0].method)
        for some in batches(np.arange(len(groups)), turn.first, turn.most):
            yield np.concatenate([groups[number] for number in some])

    def _wanted(self, part: _Sharpened) -> Flags:
        """(marginal cells, 2) ends that an open end of a cell needs."""
        row, wanted = part.component.frame.row, np.zeros(part.outer.shape, np.bool_)
        for end in (0, 1):
            wanted[row[self.open[:, end]], end] = True
        # an upper end is the least of the components': one that reaches it need not go further
        most = np.zeros(len(wanted), np.int64)
        np.maximum.at(most, row[self.open[:, 1]], self.outer[self.open[:, 1], 1])
        wanted[:, 1] &= part.inner[:, 1] < most
        wanted &= part.outer != part.inner
        return wanted

    def _seek(self, work: _Work, step: SharpStep, rows: Sequence[CellRows]) -> None:
        """One step on a batch of each component."""
        asked = [
            (part, piece, unit)
            for part, some in zip(self.parts, rows, strict=True)
            for piece, unit in self._units(part, step, some)
        ]
        if not asked:
            return
        label, sharp = METHODS.index(step.method), len(self.cells) - int(self.open.any(axis=1).sum())
        name = f"{step.method}, effort {step.effort + 1}" if step.effort else step.method
        tell = partial(SharpProgress, len(self.cells), sharp, name, parts=len(asked), round=self.round)
        tables: dict[int, list[Differences]] = {}
        for (part, piece, _), found in zip(asked, work.found([unit for *_, unit in asked], tell), strict=False):
            part.meet(piece, found.outer, label)
            tables.setdefault(id(part), []).append(found.differences)
        for part in self.parts:
            if id(part) in tables:
                part.add(tables[id(part)], label)
        self._settle()

    def _units(self, part: _Sharpened, step: SharpStep, rows: CellRows) -> Iterator[tuple[CellRows, SharpUnit]]:
        frame, knowledge, seeking = part.component.frame, part.component.knowledge, SEEKING[step.method]
        if not len(rows) or not seeking.takes(frame.table, knowledge, step.effort, self.room):
            return
        wanted = self._wanted(part) & part.untried(step) & np.isin([0, 1], step.ends)
        for piece in part.pieces(rows[wanted[rows].any(axis=1)], wanted, step):
            ends, place = (part.outer[piece.rows], part.inner[piece.rows]), part.place[piece.rows]
            part.try_(step, piece.rows, piece.wanted)
            yield (
                piece.rows,
                SharpUnit(
                    step.method,
                    step.effort,
                    frame.variables,
                    knowledge,
                    place,
                    frame.cells[piece.rows] if (place < 0).any() else None,
                    *ends,
                    piece.wanted,
                    piece.held,
                    piece.base,
                    self.room.effects,
                ),
            )

    def _settle(self) -> None:
        """What the components' ends say of the cells."""
        rows = np.arange(len(self.cells))
        ends = {part.component.frame.variables: part.outer[part.component.frame.row] for part in self.parts}
        outer = self.support.outer_by(ends, rows)
        self.outer = narrowed(outer, rows, self.known)
        self.inner = self.support.inner
        self.is_given = self.outer != outer
        self.open: Flags = self.outer != self.inner

    @property
    def result(self) -> SharpBounds:
        outer_by, inner_by = self._labels
        used = np.unique(np.concatenate([outer_by, inner_by]))
        method = " + ".join(METHODS[label] for label in used.tolist() if label != TRUE_TABLE) or METHODS[EXPLICIT]
        bounds = CellBounds(self.cells, self.counts, self.outer, self.inner, method)
        return SharpBounds(bounds, outer_by, inner_by, self.support.proof(), self.is_ended)

    @property
    def _labels(self) -> tuple[Labels, Labels]:
        """(n, 2) the methods that gave the outer and the inner ends."""
        outer_by = self._by(self.outer, lambda part: part.outer, lambda part: part.outer_by)
        inner_by = self._by(self.inner, lambda part: part.inner, lambda part: part.inner_by)
        outer_by[self.outer[:, 0] == 0, 0] = NESTED  # no method is needed to know that
        outer_by[self.is_given] = GIVEN
        inner_by[self.inner == self.counts[:, None]] = TRUE_TABLE
        return outer_by, inner_by

    def _by(self, ends: Intervals, of: Callable[[_Sharpened], Intervals], by: Callable[[_Sharpened], Labels]) -> Labels:
        """(n, 2) of an upper end the method of a component that has it, of a lower end the dearest of all methods."""
        labels = np.full(ends.shape, EXPLICIT, np.uint8)
        for part in self.parts:
            row = part.component.frame.row
            labels[:, 0] = np.maximum(labels[:, 0], by(part)[row, 0])
            labels[:, 1] = np.where(of(part)[row, 1] == ends[:, 1], by(part)[row, 1], labels[:, 1])
        return labels


def _known_outer(table: Table, cells: Codes, start: CellBounds | None) -> Intervals:
    """(n, 2) outer bounds that are given, nothing where none are."""
    known = np.tile(np.array([0, table.total]), (len(cells), 1))
    if start is not None:
        place = table.schema.keys.matching(start.cells, cells)
        known[place >= 0] = start.outer[place[place >= 0]]
    return known
