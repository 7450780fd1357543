"""Slices of a table: the search for feasible tables holds one of them at a time where the whole is too large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.model.schema import Schema
from sdc.model.table import Codes, Table
from sdc.risk.rows import keys_of
from sdc.risk.sweep_plan import cells_by, ranges_of, sweep_order

CELLS_PER_SLICE = 2_000_000


@dataclass(frozen=True)
class Slice:
    """The cells whose key of some variables is from `low` to below `high`, see `keys_of`; without variables, all.

    A difference that is feasible for the cells of a slice alone is feasible for the whole table: it takes from no
    cell more than that has, and what sums to zero over the slice sums to zero.
    """

    variables: tuple[int, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.variables

    def holds(self, codes: Codes, schema: Schema) -> npt.NDArray[np.bool_]:
        """(n,) whether it has the cells of (n, variables) codes."""
        if self.is_whole:
            return np.ones(len(codes), np.bool_)
        keys = keys_of(schema, self.variables, codes)
        return (keys >= self.low) & (keys < self.high)

    def of(self, table: Table) -> Table:
        """The table of these cells alone, the others as if they had no record."""
        if self.is_whole:
            return table
        rows = np.concatenate([self.holds(codes, table.schema) for codes, _ in table.chunks()])
        return Table(table.schema, table.codes[rows], table.counts[rows])


WHOLE = Slice()


def slices(table: Table, most: int) -> list[Slice]:
    """Slices of at most so many cells that together are the table, by the fewest variables with most categories."""
    if len(table) <= most:
        return [WHOLE]
    order = [v for v in sweep_order(table.schema) if v in table.schema.axes]
    # with all variables a key has one cell, so some number of them is enough
    taken = (tuple(sorted(order[-number:])) for number in range(1, len(order) + 1))
    variables, ranges = next((v, ranges) for v in taken if (ranges := ranges_of(*cells_by(table, v), most)))
    return [Slice(variables, low, high) for low, high in ranges]
