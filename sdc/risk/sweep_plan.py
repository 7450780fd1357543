"""How a sweep of critical widths is cut into units, and the memory that one of them needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sdc.memory import physical_bytes
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Cells, Table
from sdc.risk.rows import CELLS_PER_CHUNK, key_space

KEY_BYTES = 100  # of a key while cells are counted by it, less than a row takes
MAX_SPLIT = 12  # 2^12 units and a pass over the table for the keys of each


@dataclass(frozen=True)
class SubLattice:
    """What one unit of a sweep of all sub-tables visits, with bit sets in the sweep's order.

    depth, taken  the last `depth` variables of the order are decided: exactly those of `taken` are kept
    low, high     where `high` is not 0, only cells whose key of the variables taken is from `low` to below `high`
    """

    depth: int
    taken: SubTable
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class SweepPlan:
    """The units of a sweep.

    bytes_per_unit  memory that one needs at most
    cuts            without a floor what each unit visits
    units           how many there are, with a floor at most
    max_rows        rows that a unit may hold; 0 where each has the whole table
    """

    bytes_per_unit: int
    units: int
    cuts: tuple[SubLattice, ...] = ()
    max_rows: int = 0

    @property
    def way(self) -> str:
        """`whole`, or `partitions` where no unit has all cells."""
        return "partitions" if self.max_rows else "whole"


def sweep_plan(table: Table, *, floor: int = 0, memory: int | None = None) -> SweepPlan:
    """The whole table in each unit where that fits, else partitions of its cells.

    InputError where the smallest partition needs more than `memory` bytes.
    """
    variables, cells = len(table.schema), len(table)
    needed = sweep_bytes(cells, table.schema, floor=floor)
    if memory is None or needed <= memory:
        cuts = () if floor > 0 else tuple(sub_lattices(table.schema))
        return SweepPlan(needed, len(cuts) or 1 + variables * (variables + 1) // 2, cuts)
    max_rows = max(0, memory - _chunk_bytes(cells, variables)) // _row_bytes(variables, floor)
    if floor > 0:
        if max_rows < max(table.schema.sizes):
            raise _too_little(max(table.schema.sizes), table, floor, memory)
        return SweepPlan(memory, 1 + variables * (variables + 1) // 2, max_rows=max_rows)
    cuts = tuple(_partitions(table, max_rows, memory))
    return SweepPlan(memory, len(cuts), cuts, max_rows)


def _partitions(table: Table, max_rows: int, memory: int) -> Iterator[SubLattice]:
    """Cuts by the fewest last variables of the order without which the rows fit."""
    order, rows = sweep_order(table.schema), len(table)
    for depth in range(1, min(len(order) - 1, MAX_SPLIT) + 1):
        # with none of them taken there is no key to cut by: the rows of the others must fit at once
        rows = len(table.marginal(table.schema.levels.closed(st.of(order[:-depth]))))
        if rows <= max_rows:
            break
    else:
        raise _too_little(rows, table, 0, memory)
    for choice in range(1 << depth):
        taken = choice << (len(order) - depth)
        if not _is_of_axes(taken, table.schema):
            continue
        for low, high in key_ranges(table, tuple(sorted(order[place] for place in st.members(taken))), rows, max_rows):
            yield SubLattice(depth, taken, low, high)


def key_ranges(table: Cells, taken: tuple[int, ...], most: int, max_rows: int) -> list[tuple[int, int]]:
    """Ranges (low, high) of the keys of these variables, the cells of each at most `max_rows` rows.

    A key has no more than `most` rows, nor than cells. None where that is too many. InputError as `keys_of`, and where
    the keys alone are more than the rows may be.
    """
    keys, cells = _kept_cells_by(table, taken, max(max_rows, CELLS_PER_CHUNK))
    return ranges_of(keys, np.minimum(cells, min(most, len(table))), max_rows)


def ranges_of(keys: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], max_rows: int) -> list[tuple[int, int]]:
    """Ranges (low, high) of ascending keys, in each at most `max_rows` of their rows; none where one has too many."""
    if rows.max() > max_rows:
        return []
    ranges, size, low = [], 0, 0
    for key, more in zip(keys.tolist(), rows.tolist(), strict=True):
        if size + more > max_rows:
            ranges.append((low, key))
            size, low = 0, key
        size += more
    # keys in no range have no cells: a range ends where the next one begins
    return [*ranges, (low, int(keys[-1]) + 1)]


def cells_by(
    table: Cells, variables: tuple[int, ...], most: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(keys,) int64 keys of these variables that some cell has, ascending, and (keys,) how many cells have each.

    InputError as `keys_of`, and where there are more than `most` keys.
    """
    found, cells, space = np.zeros(0, np.int64), np.zeros(0, np.int64), key_space(table.schema, variables)
    for codes in table.codes_of(variables):
        for begin in range(0, len(codes), CELLS_PER_CHUNK):
            # chunk by chunk, so that memory is that of the keys found and not of the cells
            own = space.pack(codes[begin : begin + CELLS_PER_CHUNK])
            found, group = np.unique(np.concatenate([found, own]), return_inverse=True)
            cells = np.bincount(group, np.concatenate([cells, np.ones(len(own), np.int64)])).astype(np.int64)
            if most is not None and len(found) > most:
                raise InputError(
                    f"partitions by {len(variables)} variables have more than {most} keys, which need more than the "
                    f"{most * KEY_BYTES >> 20} MiB that are allowed; {_remedy(0)}"
                )
    return found, cells


_kept_cells_by = lru_cache(maxsize=4)(cells_by)  # a partition is asked about more than once


def _too_little(rows: int, table: Table, floor: int, memory: int) -> InputError:
    needed = rows * _row_bytes(len(table.schema), floor) + _chunk_bytes(len(table), len(table.schema))
    return InputError(
        f"the smallest partition of {len(table)} cells needs {-(-needed >> 20)} MiB for its critical widths, "
        f"{memory >> 20} MiB are allowed; {_remedy(needed)}"
    )


def _remedy(needed: int) -> str:
    """Fewer workers leave each of them more memory, which does not help where all that there is would not do."""
    less, machine = "fewer variables, or a higher floor or min_width", physical_bytes()
    if needed > machine:
        return f"this machine has {machine >> 20} MiB in all: use {less}"
    return f"raise memory_per_worker, use fewer workers, {less}"


def sweep_order(schema: Schema) -> tuple[int, ...]:
    """The variables, fewest categories first, so that the deepest levels of the trie, visited most, are small.

    Of one axis a coarser one comes before those that tell it, which have more.
    """
    return tuple(sorted(range(len(schema)), key=lambda v: (schema.sizes[v], v)))


def sub_lattices(schema: Schema) -> list[SubLattice]:
    """The units on the whole table.

    Always the same cut, so that results do not depend on the workers; the dearest, which keep most, first.
    """
    # 16 units or more, so that a few workers end together
    variables = len(schema)
    depth = min(variables - 1, max(4, variables // 5))
    choices = sorted(range(1 << depth), key=lambda bits: (-bits.bit_count(), bits))
    taken = (bits << (variables - depth) for bits in choices)
    return [SubLattice(depth, some) for some in taken if _is_of_axes(some, schema)]


def _is_of_axes(taken: SubTable, schema: Schema) -> bool:
    """Whether a set in the sweep's order has one variable of an axis at most."""
    order = sweep_order(schema)
    axes = [schema.levels.axis_of[order[place]] for place in st.members(taken)]
    return len(set(axes)) == len(axes)


def sweep_bytes(cells: int, schema: Schema, *, floor: int = 0) -> int:
    """Memory in bytes that a unit on the whole table needs at most."""
    return cells * _row_bytes(len(schema), floor)


def _row_bytes(variables: int, floor: int) -> int:
    """Measured: a row at each level of the sweep, and of its trie where prefixes are shared by few; with a floor its
    codes while they are sorted, and what the walk moves.
    """
    return 8 * variables + 130 if floor > 0 else 56 * (variables + 1) + 80


def _chunk_bytes(cells: int, variables: int) -> int:
    return min(cells, CELLS_PER_CHUNK) * (2 * variables + 80)
