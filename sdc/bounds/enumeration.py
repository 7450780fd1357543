"""All tables of non-negative integers that agree with a release: their number, a list, and the range of each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdc.bounds import branch_and_bound
from sdc.bounds.covered import on_covered_variables
from sdc.bounds.nested import frontier_bounds
from sdc.feasible import counting
from sdc.feasible.depth_first import Block, DepthFirst, FeasibleTables
from sdc.feasible.depth_first_kernel import UNLIMITED
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import ReleaseError, many
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.named import Named, named_cells
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table

MAX_TABLES = 100_000
MAX_STEPS = 1 << 28  # some 5 s for a block
STEPS_AT_ONCE = 1 << 23  # some 0.2 s


@dataclass(frozen=True)
class EnumerationProgress:
    """The progress of an enumeration: tables of all blocks so far, and the nodes visited.

    steps    equations examined
    at_most  an upper bound of the number of tables, from the intervals of the cells
    """

    tables: int
    steps: int
    at_most: int


Watch = Callable[[EnumerationProgress], bool]
"""Is called with the progress several times a second, and returns whether to continue."""


@dataclass(frozen=True, eq=False, repr=False)
class Enumeration(Named):
    """The number of tables that agree with a release, and the range of every cell over those seen.

    lower, upper   (cells of the full table,) int64 in C order; sharp bounds if `complete`, else inner bounds, which
                   feasible tables reach
    log10_estimate  decimal logarithm of an estimate of the number; None if it is complete, or ended at a limit
    """

    feasible_tables: int
    complete: bool
    lower: Counts
    upper: Counts
    log10_estimate: float | None = None

    def __post_init__(self) -> None:
        self.lower.setflags(write=False)
        self.upper.setflags(write=False)

    @property
    def headline(self) -> str:
        return f"{many(self.feasible_tables, 'feasible table')}{'' if self.complete else ' or more'}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Every cell of the full table, and its range over the tables seen."""
        cells = named_cells(schema.keys.unpack(np.arange(schema.cells)), schema)
        return {**cells, "lower": self.lower.tolist(), "upper": self.upper.tolist()}


def enumerate_tables(
    table: Table,
    knowledge: Knowledge,
    limit: int | None = None,
    max_steps: int | None = None,
    watch: Watch = lambda progress: True,
) -> Enumeration:
    """The number of feasible tables and each cell's range over them; stops beyond `limit`.

    Independent blocks of the table are searched one by one: counts multiply, so a number beyond 2^64 may come at once.
    A block with many tables is counted without listing them where `sdc.feasible.counting` can; its ranges come from
    branch and bound. The true table always counts for the ranges. Otherwise time is proportional to the tables of the
    blocks and the dead ends between them, limited by `max_steps`, in equal shares for the blocks; `watch` may end it
    earlier, with a partial result and an estimate. Raises ReleaseError beyond 2,048 dense cells or for a limit or
    number of steps below 1.
    """
    return enumerate_found(FeasibleTables(table, knowledge), limit, max_steps, watch)


def enumerate_found(
    found: FeasibleTables, limit: int | None, max_steps: int | None, watch: Watch = lambda progress: True
) -> Enumeration:
    """As `enumerate_tables`, for any description of the feasible tables."""
    if limit is not None and limit < 1:
        raise ReleaseError(f"the limit is {limit} tables; give at least 1, or none to see all")
    if max_steps is not None and max_steps < 1:
        raise ReleaseError(f"max_steps = {max_steps}; give at least 1, or none to see all")
    steps = UNLIMITED if max_steps is None else max(1, max_steps // max(1, len(found.blocks)))
    # a block alone may reach the limit; the others are still searched for their ranges
    seen = _enumerate(found, limit or UNLIMITED, steps, watch, counts=True)
    if limit is None or seen.feasible_tables <= limit:
        return seen if seen.complete else replace(seen, log10_estimate=counting.estimated_log10(found))
    return Enumeration(limit, False, seen.lower, seen.upper)


def feasible_tables(table: Table, knowledge: Knowledge) -> Iterator[Counts]:
    """The feasible tables one by one, int64 with the axes' sizes as shape; ReleaseError as above."""
    found = FeasibleTables(table, knowledge)
    yield from (dense.reshape(table.schema.keys.sizes) for dense in _combined(found.blocks, found.equations.truth))


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Exact bounds if all feasible tables were seen, within 10^5 tables and 2^28 steps for each block; else inner ones.

    The outer interval is then [0, min over the frontier of n_S(i_S)]. Raises ReleaseError beyond 2,048 cells.
    """
    seen = _enumerate(FeasibleTables(table, knowledge), MAX_TABLES, MAX_STEPS)
    place = table.schema.keys.pack(cells)
    inner = np.stack([seen.lower[place], seen.upper[place]], axis=1)
    marginals = CellMarginals(table, cells)
    outer = inner if seen.complete else frontier_bounds(marginals, knowledge.release)
    return CellBounds(cells, marginals.counts, outer, inner, "enumeration")


def sums(table: Table, knowledge: Knowledge, groups: Sequence[Counts]) -> tuple[Intervals, Intervals]:
    """(groups, 2) outer and inner bounds of sums over groups of cells, exact if all tables were seen.

    groups  for each the positions of its cells, in C order

    Otherwise the outer interval is [0, N]. Raises ReleaseError beyond 2,048 cells.
    """
    found = FeasibleTables(table, knowledge)
    truth, inside = found.equations.truth, np.zeros((len(found.equations.truth), len(groups)), np.int64)
    for at, own in enumerate(groups):
        inside[own, at] = 1
    both, complete = np.stack([truth @ inside] * 2, axis=1), True
    for block in found.blocks:
        own = inside[block.cells]

        def of(tables: Counts, own: Counts = own) -> Counts:
            return np.asarray(tables @ own)

        seen = _enumerate_block(block, MAX_TABLES, MAX_STEPS, lambda progress: True, of)
        # blocks combine freely: the sum over each block reaches its ends independently
        both += np.stack([seen.lower, seen.upper], axis=1) - (block.truth @ own)[:, None]
        complete &= seen.complete
    return (both if complete else np.full_like(both, [0, table.total])), both


def _enumerate(
    found: FeasibleTables,
    max_tables: int,
    max_steps: int,
    watch: Watch = lambda progress: True,
    *,
    counts: bool = False,
) -> Enumeration:
    """Limits of tables and steps apply to each block; the number is the product over the blocks.

    counts  whether a block that is not listed soon is counted instead where that is possible
    """
    lower, upper = found.equations.truth.copy(), found.equations.truth.copy()
    tables, complete, at_most = 1, True, found.at_most
    watch(EnumerationProgress(tables, 0, at_most))
    for block in found.blocks:

        def goes_on(progress: EnumerationProgress, before: int = tables) -> bool:
            return watch(replace(progress, tables=before * max(1, progress.tables), at_most=at_most))

        few = min(max_steps, STEPS_AT_ONCE) if counts else max_steps
        seen = _enumerate_block(block, max_tables, few, goes_on)
        if few < max_steps and not seen.complete and seen.feasible_tables < max_tables:
            seen = _counted(found, block) or _enumerate_block(block, max_tables, max_steps, goes_on)
        tables *= seen.feasible_tables
        complete &= seen.complete
        lower[block.cells], upper[block.cells] = seen.lower, seen.upper
    return Enumeration(tables, complete, lower, upper)


def _counted(found: FeasibleTables, block: Block) -> Enumeration | None:
    """The number of a block's tables without listing them; None where that is too much, or a range is not proven."""
    if (number := counting.count_block(found, block)) is None:
        return None
    lower, upper = block.truth.copy(), block.truth.copy()
    for place, cell in enumerate(block.cells.tolist()):
        for end, reached in enumerate((lower, upper)):
            outer, inner = int((found.lower, found.upper)[end][cell]), int(reached[place])
            seen = branch_and_bound.farthest(found, branch_and_bound.MAX_STEPS, cell, end, outer, inner)
            if seen.table is not None:
                np.minimum(lower, seen.table[block.cells], out=lower)
                np.maximum(upper, seen.table[block.cells], out=upper)
            if reached[place] != seen.proven:
                return None
    return Enumeration(number, True, lower, upper)


def _enumerate_block(
    block: Block, max_tables: int, max_steps: int, watch: Watch, of: Callable[[Counts], Counts] = np.asarray
) -> Enumeration:
    """`of` selects sums of (tables, cells) whose range is computed, a row for each table; by default the cells
    themselves.
    """
    search, start = DepthFirst(block), of(block.truth[None])[0]
    lower, upper, tables = start.copy(), start.copy(), 0
    # in slices, between which the caller is informed and may end it
    while tables < max_tables and search.steps < max_steps and not search.exhausted:
        found = search.more(max_tables - tables, min(max_steps, search.steps + STEPS_AT_ONCE))
        if len(found):
            tables += len(found)
            wanted = of(found)
            np.minimum(lower, wanted.min(axis=0), out=lower)
            np.maximum(upper, wanted.max(axis=0), out=upper)
        if not watch(EnumerationProgress(tables, search.steps, 0)):
            return Enumeration(max(1, tables), search.exhausted, lower, upper)
    # one table beyond the limit shows that there are more
    complete = not len(search.more(1, max_steps)) and search.exhausted
    # the true table is one, even if the search has not reached it
    return Enumeration(max(1, tables), complete, lower, upper)


def _combined(blocks: list[Block], dense: Counts) -> Iterator[Counts]:
    """Every combination of the blocks' tables, the last block changing fastest."""
    if not blocks:
        yield dense.copy()
    dense, running = dense.copy(), [_tables_of(block) for block in blocks[:1]]
    while running:
        values = next(running[-1], None)
        if values is None:
            running.pop()
            continue
        # the search of a later block restarts for each table of an earlier one: only the stacks are stored
        dense[blocks[len(running) - 1].cells] = values
        if len(running) == len(blocks):
            yield dense.copy()
        else:
            running.append(_tables_of(blocks[len(running)]))


def _tables_of(block: Block) -> Iterator[Counts]:
    search = DepthFirst(block)
    while len(found := search.more(UNLIMITED, UNLIMITED)):
        yield from found
