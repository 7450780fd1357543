"""Minimum number of values: how many different counts each at-risk cell can still have, and whether 0 is among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any, ClassVar, Self

import numpy as np

from sdc.feasible import walk
from sdc.feasible.depth_first import DepthFirst, FeasibleTables
from sdc.feasible.differences import Differences
from sdc.feasible.witness_pool import CellRows
from sdc.model.errors import InputError
from sdc.model.table import Counts
from sdc.risk.assessment import Assessment, Broken, Shown
from sdc.risk.certifying import BRIEF_STEPS, WALK_STEPS
from sdc.risk.criterion import Criterion, register
from sdc.risk.effort import Depth, Effort
from sdc.risk.support import MOST_VALUES, Component, Support
from sdc.risk.verdict import Verdict

MOST_LISTED = 2_048  # cells of a component whose tables are listed
STEPS = 1 << 23  # equations looked at for one value of a cell: 0.2 s
MOST_PAIRS = 64  # of tables found whose differences are added up


@register
@dataclass(frozen=True)
class MinValues(Criterion):
    """Over all feasible tables each at-risk cell has at least `least` different values.

    include_zero  whether 0 must be one of them

    Monotone: with more released no new table is feasible. Values are shown by feasible tables, by sums of their
    differences, and by covers, which have all values between their bounds. In a component of at most `MOST_LISTED`
    cells each value left is searched for to the end, within `STEPS`: there the answer is exact. InputError for a
    `least` below 2.
    """

    least: int
    include_zero: bool = False
    key: ClassVar[str] = "min_values"
    setting: ClassVar[str] = "risk.min_values"
    is_of_values: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.least < 2:
            raise InputError(f"min_values is {self.least}; give at least 2, or no cell is protected")

    @classmethod
    def read(cls, given: Any) -> Self:
        if isinstance(given, cls):
            return given
        return cls(given) if isinstance(given, int) else cls(**given)

    @property
    def facts(self) -> dict[str, Any]:
        return {"least": self.least, "include_zero": self.include_zero}

    @property
    def sentence(self) -> str:
        zero = ", 0 among them" if self.include_zero else ""
        return f"Each of these cells can still have at least {self.least:,} different counts{zero}."

    def with_shown(self, answer: Assessment, support: Support, effort: Effort | None = None) -> Assessment:
        short, broken = self._short(support), None
        depth = Depth.REFUTE if effort is None else effort.depth
        for row in short if depth > Depth.REFUTE else ():
            verdict, taken = self._searched(support, int(row), depth is Depth.BRIEF)
            if verdict is Verdict.UNSAFE:
                broken = self._broken(support, int(row), taken)
            if verdict is Verdict.UNSAFE or (verdict is Verdict.UNDECIDED and depth is Depth.BRIEF):
                break
        unproven = len(self._short(support, short))
        by_values = Verdict.UNSAFE if broken else Verdict.UNDECIDED if unproven else Verdict.SAFE
        shown = (*answer.shown, Shown(self.key, len(support.pool.at_risk), unproven))
        verdict = Verdict.worst([answer.verdict, by_values])
        return replace(answer, verdict=verdict, broken=answer.broken or broken, shown=shown)

    def unproven(self, support: Support) -> int:
        return len(self._short(support))

    def _short(self, support: Support, rows: CellRows | None = None) -> CellRows:
        """Those of the at-risk cells of which it is not shown; most are seen by the covers alone."""
        rows = np.arange(len(support.pool.at_risk)) if rows is None else rows
        low, high = support.covered_at(rows).T
        rows = rows[(high - low + 1 < self.least) | (self.include_zero & (low > 0))]
        return np.array([row for row in rows.tolist() if not self._is_kept(_shown(support, row))], np.int64)

    def _is_kept(self, taken: Counts) -> bool:
        return len(taken) >= self.least and not (self.include_zero and taken[0])

    def _broken(self, support: Support, row: int, taken: Counts) -> Broken:
        """By a cell that can have these values at most."""
        cell = support.knowledge.schema.written(support.pool.at_risk.cells[row])
        zero = ", or never 0" if self.include_zero else ""
        text = f"an at-risk cell can have fewer than {self.least} different values{zero}, which min_values excludes"
        return Broken(text, f"the cell {cell} can have at most the values {', '.join(map(str, taken.tolist()))}")

    def _searched(self, support: Support, row: int, is_brief: bool) -> tuple[Verdict, Counts]:
        """The verdict on one at-risk cell, and the values that it may have; tables found go to the support."""
        parts, between = support.of_cell(row)
        possible = [_possible(component, cell) for component, cell in parts]
        is_whole = all(len(values) <= MOST_VALUES for values in possible)
        for place, (component, cell) in enumerate(parts):
            left = [] if component.is_explicit else self._wanted(component, cell, possible[place], support, row)
            tables = _Listed(component, cell) if left and component.frame.table.schema.cells <= MOST_LISTED else None
            if left and tables is None:
                _add_sums(component, cell)
            for value in left if tables is not None else left[: 2 * self.least]:
                if self._is_kept(_shown(support, row)):
                    break
                if tables is None:
                    _walk(component, cell, value, BRIEF_STEPS if is_brief else WALK_STEPS)
                elif tables.excludes(value):
                    possible[place] = possible[place][possible[place] != value]
                if is_whole and not self._is_kept(taken := taken_values(possible, between)):
                    return Verdict.UNSAFE, taken
        taken = taken_values(possible, between)
        if self._is_kept(_shown(support, row)):
            return Verdict.SAFE, taken
        return (Verdict.UNSAFE if is_whole and not self._is_kept(taken) else Verdict.UNDECIDED), taken

    def _wanted(self, component: Component, cell: int, possible: Counts, support: Support, row: int) -> list[int]:
        """Values not shown yet, the likeliest first: small ones where 0 is wanted, else those next to the count."""
        low = self.include_zero and bool(_shown(support, row)[0])
        count = 0 if low else int(component.frame.counts[cell])
        left = np.setdiff1d(possible, component.values(cell)).tolist()
        return sorted(left, key=lambda value: abs(value - count))


def _shown(support: Support, row: int) -> Counts:
    parts, between = support.of_cell(row)
    return taken_values([component.values(cell) for component, cell in parts], between)


def taken_values(parts: Sequence[Counts], between: int) -> Counts:
    """(n,) the values of a cell where its marginal cells have these, ascending, by components that fit in every way.

    With given marginal cells v_j it has all values from the sum of them less the separators' `between` to the least of
    them ([DKS] theorem 1). So it has v where the sum of the least v_j that are not below v allows it.
    """
    low = max(0, sum(int(values[0]) for values in parts) - between)
    tried = np.arange(low, min(int(values[-1]) for values in parts) + 1)
    total = sum((values[np.searchsorted(values, tried)] for values in parts), 0 * tried)
    return tried[total - between <= tried]


def _possible(component: Component, cell: int) -> Counts:
    """Values that its bounds leave a marginal cell, of long ranges one more than are listed."""
    if component.is_explicit:
        return component.values(cell)
    low, high = component.cheap.outer[cell].tolist()
    return np.arange(low, min(high, low + MOST_VALUES) + 1)


class _Listed:
    """The tables of a component, searched for values of one of its cells."""

    def __init__(self, component: Component, cell: int) -> None:
        frame = component.frame
        self._component, self._place = component, int(frame.table.schema.keys.pack(frame.cells[cell : cell + 1])[0])
        self._tables = FeasibleTables(frame.table, component.knowledge)

    def excludes(self, value: int) -> bool:
        """Whether no table has the value; one that has it goes to the component."""
        if (home := self._tables.block_of(self._place)) is None:
            return True
        block, place = home
        search = DepthFirst(block, fixed=(place, value))
        found = search.more(1, STEPS)
        if not len(found):
            return search.exhausted
        table, truth = self._component.frame.table, self._tables.equations.truth.copy()
        truth[block.cells] = found[0]
        if not self._tables.equations.holds(truth):
            raise RuntimeError(
                "the search returned a table that does not agree with what is known; this is a bug in sdc: report it"
            )
        self._component.add(Differences.between(table, [truth]))
        return False


def _walk(component: Component, cell: int, value: int, nodes: int) -> None:
    frame = component.frame
    if walk.can_search(frame.table):
        change = np.array([value - frame.counts[cell]])
        moved = walk.shift(frame.table, component.knowledge, frame.cells[cell : cell + 1], change, nodes=nodes)
        component.add(moved.differences)


def _add_sums(component: Component, cell: int) -> None:
    """Adds the sums of two differences that move the cell, where they are feasible too."""
    found, frame = component.evidence.differences, component.frame
    moving = np.unique(found.of[component.evidence.row == cell]).tolist()
    pairs: Iterator[tuple[int, int]] = islice(combinations(moving, 2), MOST_PAIRS)
    both = [found.at(np.array(pair)) for pair in pairs]
    if both:
        of = np.repeat(np.arange(len(both)), [len(one.changes) for one in both])
        cells, changes = (np.concatenate([getattr(one, name) for one in both]) for name in ("cells", "changes"))
        sums = Differences.summed(len(both), of, cells, changes, frame.table.schema)
        component.add(sums.rows(sums.feasible(frame.table, component.knowledge)))
