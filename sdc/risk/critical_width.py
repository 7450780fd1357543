"""Critical widths w*(T): how exposed an at-risk cell becomes when T is released ([KDSF] eq. 10)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import InputError
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table
from sdc.risk.prefix_trie import prefix_trie

MAX_LISTED_VARIABLES = 26


@dataclass(frozen=True, eq=False)
class CriticalWidths:
    """Critical widths in the ordered list's order: widest first, ties by decreasing dimension, then by number.

    sub_tables  (n,) uint64 bit sets
    widths      (n,) int64
    floor       only sub-tables whose width reaches it are listed; 0 lists all
    visited     how many sub-tables' widths were looked at
    """

    sub_tables: npt.NDArray[np.uint64]
    widths: Counts
    floor: int
    visited: int

    def __len__(self) -> int:
        return len(self.widths)

    def of(self, subtable: SubTable) -> int:
        """w* of one sub-table; KeyError where the floor left it out."""
        row = np.flatnonzero(self.sub_tables == np.uint64(subtable))
        if not len(row):
            raise KeyError(subtable)
        return int(self.widths[row[0]])

    def reaching(self, width: int) -> tuple[SubTable, ...]:
        """The sub-tables whose critical width is at least `width`, in order."""
        return tuple(int(t) for t in self.sub_tables[self.widths >= width])


def critical_widths(
    table: Table, *, small_count: int = 2, floor: int = 0, executor: Executor = IN_PROCESS
) -> CriticalWidths:
    """Critical widths of all sub-tables, or of those whose width reaches the floor.

    The critical width never increases when a variable is added, so with a floor only the sub-tables
    that reach it and their border are visited. Widths are computed without structural zeros; zeros can
    only narrow, so a sub-table whose width is below beta stays unreleasable. InputError without an
    at-risk cell, or where all sub-tables of more than 26 variables would have to be listed.
    """
    variables = len(table.schema)
    require_at_risk(table, small_count)
    if floor <= 0 and variables > MAX_LISTED_VARIABLES:
        raise InputError(
            f"{variables} variables have 2^{variables} sub-tables, at most 2^{MAX_LISTED_VARIABLES} are listed; "
            "give a floor, and only sub-tables that reach it are visited"
        )
    units = [(small_count, floor, *unit) for unit in sub_lattices(variables)]
    parts = list(executor.run(widths_of_sub_lattice, table, units))
    found, widths = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    order = np.lexsort([found, -np.bitwise_count(found).astype(np.int64), -widths])
    return CriticalWidths(found[order], widths[order], max(floor, 0), sum(p[2] for p in parts))


def require_at_risk(table: Table, small_count: int) -> None:
    """InputError where no cell is at risk: then no width is defined, and nothing needs protecting."""
    if not len(table.at_risk(small_count)):
        raise InputError(
            f"no at-risk cell: no count is between 1 and the small count {small_count} (smallest count "
            f"{int(table.counts.min())}); raise the small count, or publish the table without this tool"
        )


def sub_lattices(variables: int) -> list[tuple[int, int]]:
    """(depth, taken) of the units: the last `depth` variables of the trie's order decided beforehand.

    Always the same cut, so that results do not depend on the workers; the dearest, which keep most, first.
    """
    depth = min(variables - 1, max(4, variables // 5))
    choices = sorted(range(1 << depth), key=lambda bits: (-bits.bit_count(), bits))
    return [(depth, bits << (variables - depth)) for bits in choices]


def sweep_bytes(cells: int, variables: int) -> int:
    """Memory that one unit of the sweep needs at most: its rows at every level, and the trie."""
    return cells * ((variables + 1) * 40 + variables * 30)


def widths_of_sub_lattice(table: Table, unit: tuple[int, int, int, int]) -> tuple[npt.NDArray[np.uint64], Counts, int]:
    """Sub-tables, widths and number visited of the unit (small count, floor, depth, taken)."""
    from sdc.risk.width_kernel import sweep

    small_count, floor, depth, taken = unit
    trie = prefix_trie(table)
    found, widths, visited = sweep(
        len(trie.order), depth, np.uint64(taken), floor, trie.start, trie.up, trie.code, trie.cost, trie.least,
        trie.spare, trie.counts, small_count, trie.total, max(table.schema.sizes),
    )  # fmt: skip
    return _in_schema_order(found, trie.order), widths, int(visited)


def _in_schema_order(found: npt.NDArray[np.uint64], order: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """Bit sets over the trie's order as bit sets over the schema's."""
    result = np.zeros_like(found)
    for position, v in enumerate(order):
        result |= (found >> np.uint64(position) & np.uint64(1)) << np.uint64(v)
    return result
