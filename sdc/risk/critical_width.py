"""Critical widths w*(T): how exposed an at-risk cell becomes when T is released ([KDSF] eq. 10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.witness_pool import at_risk_rows
from sdc.model import subtable as st
from sdc.model.cell_bounds import is_wide
from sdc.model.errors import InputError, many
from sdc.model.named import Drawn
from sdc.model.schema import MAX_VARIABLES, Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Cells, Counts, Table
from sdc.risk.partitions import BitSets, Widths, renumbered, whole_rows
from sdc.risk.reaching import Reaching, Widest, apart, neighbours, widest
from sdc.risk.rows import AtRiskRows, rows_of
from sdc.risk.sweep_plan import SubLattice, SweepPlan, sweep_order, sweep_plan


@dataclass(frozen=True, eq=False)
class PrefixTrie:
    """Distinct prefixes of the rows, for each number j of leading variables.

    rows     the rows, which are level K
    start    (K + 2,) where level j begins in the node arrays
    up       parent of each node, within level j - 1
    code     category of the last variable of the prefix
    cost     one-way count of that category
    gap      N less that; of an axis with a variable before it that count instead of N
    """

    rows: AtRiskRows
    start: npt.NDArray[np.int64]
    up: npt.NDArray[np.int32]
    code: npt.NDArray[np.uint16]
    cost: Counts
    gap: Counts


def prefix_trie(rows: AtRiskRows) -> PrefixTrie:
    """The trie of rows that are ascending by their codes, each once."""
    up, code, cost = [np.zeros(1, np.int32)], [np.zeros(1, np.uint16)], [np.zeros(1, np.int64)]
    gap = [np.zeros(1, np.int64)]
    # rows are ascending, so that those of one prefix are neighbours: a prefix begins where a code of it differs
    differs, node = np.zeros(len(rows), bool), np.zeros(len(rows), np.int32)
    differs[0] = True
    for codes, counts, before in zip(rows.columns, rows.one_way, rows.before, strict=True):
        differs[1:] |= codes[1:] != codes[:-1]
        first = np.flatnonzero(differs)
        up.append(node[first])
        code.append(codes[first])
        cost.append(counts[codes[first]])
        # of the same axis, and in the prefix
        whole = rows.total if before < 0 else rows.one_way[before][rows.columns[before][first]]
        gap.append(whole - cost[-1])
        # once different, two neighbours stay so in all longer prefixes: `differs` only gains
        node = np.cumsum(differs, dtype=np.int32) - 1
    start = np.cumsum([0, *map(len, up)])
    return PrefixTrie(rows, start, np.concatenate(up), np.concatenate(code), np.concatenate(cost), np.concatenate(gap))


MAX_LISTED_VARIABLES = 26  # 2^26 bit sets and widths are 1 GB


@dataclass(frozen=True, eq=False, repr=False)
class CriticalWidths(Drawn):
    """Critical widths in the ordered list's order: widest first, ties by decreasing dimension, then by number.

    sub_tables  (n,) uint64 bit sets
    widths      (n,) int64, in records
    floor       only sub-tables whose width reaches it are listed; 0 lists all
    visited     how many sub-tables' widths were looked at
    most        where the floor was chosen, that no more than so many were to be listed; 0 where it was given
    ways        only sub-tables of at most so many variables are listed

    Examples
    --------
    >>> sdc.critical_widths("czech_auto_workers.csv").to_arrow().column_names
    ['sub_table', 'critical_width']
    """

    sub_tables: npt.NDArray[np.uint64]
    widths: Counts
    floor: int
    visited: int
    most: int = 0
    ways: int = MAX_VARIABLES

    def __len__(self) -> int:
        return len(self.widths)

    def cut(self, min_width: int) -> str:
        """What to say where not all that reach the width asked for are listed, for they are many; else empty."""
        if not self.most or self.has_all(min_width):
            return ""
        small = "" if self.ways == MAX_VARIABLES else f" and of at most {many(self.ways, 'variable')}"
        return (
            f"Only sub-tables of critical width at least {self.floor}{small} were listed, {len(self):,} of them, "
            f"because more than {self.most:,} reach the {min_width} that is asked for"
        )

    def has_all(self, width: int) -> bool:
        """Whether all that reach the width are listed."""
        return self.floor <= width and self.ways == MAX_VARIABLES

    @property
    def headline(self) -> str:
        reaching = f" that reach {self.floor}" if self.floor else ""
        return f"Critical widths of {many(len(self), 'sub-table')}{reaching}, in records"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Labels of the sub-tables, and their critical widths."""
        labels = [st.label(t, schema) for t in self.sub_tables.tolist()]
        return {"sub_table": labels, "critical_width": self.widths.tolist()}

    def of(self, subtable: SubTable | str | Sequence[str]) -> int:
        """w* of one sub-table, given as to `Table.marginal`; KeyError where the floor left it out."""
        asked = st.subtable_of(subtable, self.names) if isinstance(subtable, str | Sequence) else subtable
        return self.by_sub_table()[asked]

    def by_sub_table(self) -> Mapping[SubTable, int]:
        """w* of every listed sub-table, in order; looked up, because a dictionary of 2^23 takes more than 1 GB."""
        return self._by_sub_table

    @cached_property
    def _by_sub_table(self) -> _BySubTable:
        return _BySubTable(self.sub_tables, self.widths)

    def number_reaching(self, width: int) -> int:
        """How many sub-tables are `reaching` the width."""
        return int(np.count_nonzero(is_wide(self.widths, width)))

    def reaching(self, width: int) -> tuple[SubTable, ...]:
        """The sub-tables whose critical width is at least `width`, in order; some are missing below the floor."""
        return tuple(int(t) for t in self.sub_tables[is_wide(self.widths, width)])


class _BySubTable(Mapping[SubTable, int]):
    """Widths by sub-table, found by bisection."""

    def __init__(self, sub_tables: npt.NDArray[np.uint64], widths: Counts) -> None:
        self._sub_tables, self._widths = sub_tables, widths
        self._order = np.argsort(sub_tables)

    def __getitem__(self, subtable: SubTable) -> int:
        wanted = np.uint64(subtable)
        place = int(np.searchsorted(self._sub_tables, wanted, sorter=self._order))
        if place == len(self) or self._sub_tables[row := self._order[place]] != wanted:
            raise KeyError(subtable)
        return int(self._widths[row])

    def __iter__(self) -> Iterator[SubTable]:
        return iter(self._sub_tables.tolist())

    def __len__(self) -> int:
        return len(self._widths)


def critical_widths(
    table: Table,
    *,
    small_count: int = 2,
    floor: int = 0,
    most: int = 0,
    memory: int | None = None,
    executor: Executor = IN_PROCESS,
    parts: Cells | None = None,
) -> CriticalWidths:
    """Critical widths of all sub-tables, or of those whose width reaches the floor, or of the widest of these.

    The critical width never increases when a variable is added, so with a floor only the sub-tables
    that reach it and their border are visited. MPR(T) is T and the one-way sub-table of every axis. Widths are computed
    without structural zeros; zeros can only narrow, so a sub-table whose width is too small stays so. If counts are
    missing, sub-tables with an unknown count are neither listed nor in any MPR(T).

    small_count  cells of 1 up to this count are at risk
    floor        in records; 0 lists all
    most         where more sub-tables reach the floor, which is then at least 1, a higher one is chosen, see `widest`;
                 0 for no such limit
    memory       bytes that a unit may use; where the whole table needs more, units are partitions of its cells
    parts        the same cells where they are on disk, which units read instead of being given the table

    Without an at-risk cell every width is the number of records. InputError for a table without records, where all
    sub-tables of more than 26 variables would have to be listed, or where the smallest partition needs more memory.
    """
    if not len(table):
        raise InputError("the table has no records; give a table with at least one")
    variables, asked, ways = len(table.schema), max(floor, 1 if most else 0), MAX_VARIABLES
    floor = asked if len(at_risk_rows(table, small_count)) else 0
    if floor == 0 and variables > MAX_LISTED_VARIABLES:
        why = "give a floor, and only sub-tables that reach it are visited"
        raise InputError(
            f"{variables} variables have 2^{variables} sub-tables, at most 2^{MAX_LISTED_VARIABLES} are listed; "
            + ("no cell is at risk, so that all reach the floor: raise the small count" if asked else why)
        )
    # results are listed in one order, so that they are the same however the plan cuts the work
    plan, cells = sweep_plan(table, floor=floor, memory=memory), table if parts is None else parts
    if floor == 0:
        found, widths = _all(cells, small_count, plan, executor)
        visited = len(found)
    else:
        reaching = Reaching(cells, small_count, floor, plan.max_rows, executor)
        listed = widest(reaching, most) if most else Widest(asked, MAX_VARIABLES, reaching.all())
        asked, ways, (found, widths) = listed.floor, listed.ways, listed.found
        border = neighbours(found, apart(table.schema))
        visited = 1 + int((np.bitwise_count(border) <= ways).sum())
    # of each axis one variable, as the sweep has them
    swept = renumbered(found, sweep_order(table.schema))
    found = _closed(swept, table.schema)
    # signed before it is negated: minus a uint8 wraps
    widths = np.minimum(widths, table.total)  # where no cell is at risk none is wider than all records
    order = np.lexsort([found, -np.bitwise_count(swept).astype(np.int64), -widths])
    order = order[widths[order] >= asked]
    if table.missing is not None:
        order = order[np.array([not table.hides(int(found[row])) for row in order], np.bool_)]
    return CriticalWidths(found[order], widths[order], asked, visited, most, ways).named_by(table.schema)


def _closed(swept: BitSets, schema: Schema) -> BitSets:
    """(n,) bit sets with the levels that their variables tell."""
    found = swept.copy()
    for v, coarser in enumerate(schema.levels.coarser):
        if coarser:
            found[swept >> np.uint64(v) & np.uint64(1) > 0] |= np.uint64(coarser)
    return found


# Bit sets below number the variables in the sweep's order, until the widths are listed, and have of each axis one at
# most: the others follow. All sub-tables:


def _all(table: Cells, small_count: int, plan: SweepPlan, executor: Executor) -> Widths:
    """Every sub-table, and of one whose cells are in several partitions the smallest width."""
    # cuts of one sub-lattice follow each other, so that `groupby` finds its partitions together
    units = [(small_count, cut) for cut in plan.cuts]
    results = zip(units, executor.run(widths_of_sub_lattice, table, units), strict=True)
    found, widths = [], []
    for _, same in groupby(results, key=lambda result: result[0][1].taken):
        parts = [part for _, part in same]
        found.append(parts[0][0])
        widths.append(np.minimum.reduce([part[1] for part in parts]))
    return np.concatenate(found), np.concatenate(widths)


def widths_of_sub_lattice(table: Cells, unit: tuple[int, SubLattice]) -> Widths:
    """Sub-tables and widths of the unit (small count, what it visits)."""
    small_count, cut = unit
    order = sweep_order(table.schema)
    if not cut.high:
        return _swept(_whole_trie(table, small_count), cut.depth, cut.taken)
    free, fixed = len(order) - cut.depth, tuple(order[place] for place in st.members(cut.taken))
    rows = rows_of(table, small_count, (*order[:free], *fixed), tuple(sorted(fixed)), cut.low, cut.high)
    # within these rows what is not taken is summed out already, so that only the variables taken are decided
    found, widths = _swept(prefix_trie(rows), len(fixed), st.full(len(fixed)) << free)
    return found & np.uint64(st.full(free)) | np.uint64(cut.taken), widths


def _swept(trie: PrefixTrie, depth: int, taken: int) -> Widths:
    from sdc.risk.width_kernel import sweep

    rows = trie.rows
    found, widths = sweep(
        len(rows.variables), depth, np.uint64(taken), trie.start, trie.up, trie.cost, trie.gap, trie.code,
        rows.numbers, rows.finer, rows.ways.shape[1], rows.closed_sets,
    )  # fmt: skip
    return found, widths


@lru_cache(maxsize=2)
def _whole_trie(table: Cells, small_count: int) -> PrefixTrie:
    return prefix_trie(whole_rows(table, small_count))
