"""The released marginals as equations on the cells of a small dense table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table

MAX_SUM = 1 << 61  # two bits to spare: sums of interval ends are added to totals and subtracted from them


@dataclass(frozen=True, eq=False)
class MarginalEquations:
    """One equation a cell of each frontier marginal: the sum of its member cells is its total.

    truth                       (cells,) counts of the dense full table, C order of the axes
    totals                      (equations,) int64
    start, members              equation e has the cells members[start[e]:start[e + 1]]
    cell_start, cell_equations  cell i occurs in cell_equations[cell_start[i]:cell_start[i + 1]]
    possible                    (cells,) bool, False where a structural zero keeps every feasible table at 0

    What another frontier element implies is not in the frontier; equations with the same cells
    (of variables of one category) do not occur in `Knowledge.reduced`.
    """

    truth: Counts
    totals: Counts
    start: Counts
    members: Counts
    cell_start: Counts
    cell_equations: Counts
    possible: npt.NDArray[np.bool_]

    @staticmethod
    def of(table: Table, knowledge: Knowledge) -> MarginalEquations:
        """The dense table has `table.schema.cells` cells; ReleaseError where sums of counts could leave 64 bits."""
        if table.total * table.schema.cells > MAX_SUM:
            raise ReleaseError(
                f"{table.total} records in {table.schema.cells} cells could overflow a sum; "
                "divide the counts or choose the method collapse"
            )
        truth = table.dense
        # a marginal has every cell in one equation each, so that all arrays come out of one (frontier, cells) matrix
        equation_of_cell = np.stack(_number_equations(knowledge.release, table.schema))
        equations = int(equation_of_cell.max()) + 1
        flat = equation_of_cell.reshape(-1)
        totals = np.zeros(equations, np.int64)
        np.add.at(totals, flat, np.tile(truth.reshape(-1), len(equation_of_cell)))
        # stable: the members of an equation are ascending; the flat places run over the cells once a frontier element
        members = np.argsort(flat, kind="stable") % truth.size
        start = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=equations))])
        cell_start = np.arange(truth.size + 1) * len(equation_of_cell)
        cell_equations = np.ascontiguousarray(equation_of_cell.T).reshape(-1)
        possible = possible_cells(knowledge)
        return MarginalEquations(truth.reshape(-1), totals, start, members, cell_start, cell_equations, possible)

    @property
    def arrays(self) -> tuple[Counts, Counts, Counts, Counts, Counts, npt.NDArray[np.bool_]]:
        """All but the truth, in the order of the fields."""
        return self.totals, self.start, self.members, self.cell_start, self.cell_equations, self.possible

    def holds(self, dense: npt.NDArray[np.integer]) -> bool:
        """Whether a (cells,) table is feasible, in integers: non-negative, no impossible cell, every released total."""
        # its own sums, whoever made the table: searches and solvers propose, and this decides
        sums = np.add.reduceat(dense[self.members], self.start[:-1])
        return bool((dense >= 0).all() and (dense[~self.possible] == 0).all() and (sums == self.totals).all())


def possible_cells(knowledge: Knowledge) -> npt.NDArray[np.bool_]:
    """(cells,) False where a structural zero forbids the dense cell, C order."""
    return ~knowledge.impossible(every_cell(knowledge.schema))


def every_cell(schema: Schema) -> Codes:
    """(cells, axes) codes of all cells, C order."""
    return schema.keys.unpack(np.arange(schema.cells))


def _number_equations(release: Release, schema: Schema) -> list[Counts]:
    """For each frontier element the number of the equation that each dense cell occurs in."""
    numbered, first, cells = [], 0, every_cell(schema)
    for element in release.frontier:
        kept = st.members(schema.telling(element))
        space = schema.space(kept)
        numbered.append(space.pack(schema.columns(cells, kept)) + first)
        first += space.cells
    return numbered
