"""What is known of a small dense table as equations on its cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.solve.equations import Equations

MAX_SUM = 1 << 61  # two bits to spare: sums of interval ends are added to totals and subtracted from them


@dataclass(frozen=True, eq=False)
class MarginalEquations:
    """What is known of a dense table as sums of its cells.

    truth     (cells,) counts of the dense full table, C order of the axes
    sums      of the cells of each frontier marginal, then of the other facts
    possible  (cells,) bool, False where a structural zero keeps every feasible table at 0

    What another frontier element implies is not in the frontier; equations with the same cells (of variables of one
    category) do not occur in `Knowledge.reduced`.
    """

    truth: Counts
    sums: Equations
    possible: npt.NDArray[np.bool_]

    @staticmethod
    def of(table: Table, knowledge: Knowledge) -> MarginalEquations:
        """The dense table has `table.schema.cells` cells; ReleaseError where sums of counts could leave 64 bits."""
        if table.total * table.schema.cells > MAX_SUM:
            raise ReleaseError(
                f"{table.total} records in {table.schema.cells} cells could overflow a sum; "
                "divide the counts or choose the method collapse"
            )
        truth, cells, found = table.dense.reshape(-1), every_cell(table.schema), list[Equations]()
        for element in knowledge.release.frontier:
            found.append(_sums(element, np.ones(len(truth), np.bool_), cells, truth, table.schema))
        # labels last: what the counts tell already would only tie together parts of the table that are independent
        for fact in sorted(knowledge.facts, key=lambda fact: fact.of_labels):
            sums = _sums(fact.view, fact.holds(cells, table.schema), cells, truth, table.schema)
            low, high = fact.room(cells[sums.members[sums.start[:-1]]], table)
            own = replace(sums, low=sums.low + low, high=sums.high + high)
            found.append(_not_implied(own, found, len(truth)) if fact.of_labels else own)
        return MarginalEquations(truth, Equations.joined(found), possible_cells(knowledge))

    @property
    def upper(self) -> Counts:
        """(cells,) the largest count of each by the sums that it is in, 0 where it is impossible."""
        return np.where(self.possible, self.sums.least(len(self.truth)), 0)

    def holds(self, dense: npt.NDArray[np.integer]) -> bool:
        """Whether a (cells,) table is feasible, in integers: not negative, no impossible cell, every sum as known."""
        return self.sums.holds(dense) and bool((dense[~self.possible] == 0).all())


def possible_cells(knowledge: Knowledge) -> npt.NDArray[np.bool_]:
    """(cells,) False where a structural zero forbids the dense cell, C order."""
    return ~knowledge.impossible(every_cell(knowledge.schema))


def every_cell(schema: Schema) -> Codes:
    """(cells, axes) codes of all cells, C order."""
    return schema.keys.unpack(np.arange(schema.cells))


def _not_implied(labels: Equations, others: list[Equations], cells: int) -> Equations:
    """Of the sums by category, each cell in one at most, those that no other sum shows to have a record."""
    of_cell = np.full(cells, -1)
    of_cell[labels.members] = np.repeat(np.arange(len(labels.low)), np.diff(labels.start))
    shown = np.zeros(len(labels.low) + 1, np.bool_)  # the last is of cells in none
    for one in others:
        if len(one.low):
            within = of_cell[one.members]
            first, last = (end.reduceat(within, one.start[:-1]) for end in (np.minimum, np.maximum))
            shown[first[(first == last) & (one.low > 0)]] = True
    kept = ~shown[:-1]
    sizes, start = np.diff(labels.start), np.zeros(int(kept.sum()) + 1, np.int64)
    np.cumsum(sizes[kept], out=start[1:])
    return Equations(labels.low[kept], labels.high[kept], start, labels.members[np.repeat(kept, sizes)])


def _sums(view: SubTable, held: npt.NDArray[np.bool_], cells: Codes, truth: Counts, schema: Schema) -> Equations:
    """Of some dense cells an equation for each cell of the view that has any, with the true sums."""
    kept = st.members(schema.levels.finest(view))
    found = Equations.of_groups(schema.space(kept).pack(schema.columns(cells[held], kept)), truth[held])
    return replace(found, members=np.flatnonzero(held)[found.members])
