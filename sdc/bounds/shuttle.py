"""The generalised shuttle on all super-cells ([DKS] section 4)."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from sdc.bounds.covered import on_covered_variables
from sdc.feasible.equations import possible_cells
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_SUPER_CELLS = 1 << 22
MAX_CATEGORIES = 12  # with (3^12 - 2^13 + 1) / 2 = 261,625 splits in two
# measured: at most 11 sweeps on tables with counts up to 10^6, for any release
SWEEPS_A_BIT = 16


@on_covered_variables
def bounds(table: Table, knowledge: Knowledge, cells: Codes) -> CellBounds:
    """Outer bounds of (n, variables) cells, in records, by `propagate`; inner is the count.

    Sharp for decomposable releases and for dichotomous tables with all (k-1)-way marginals ([DKS] section 4). One
    propagation serves all cells: about 3^I / 2^I operations for each super-cell, variable and sweep, with a limited
    number of sweeps. Impossible cells start at 0, so super-cells of impossible cells become 0 too. Raises ReleaseError
    beyond 2^22 super-cells or 12 categories of a variable, and as `propagate`.
    """
    lower, upper = super_cell_bounds(table, knowledge)
    place = tuple((1 << column.astype(np.int64)) - 1 for column in cells.T)
    counts = table.count_at(cells)
    outer = np.stack([lower[place], upper[place]], axis=1)
    return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "shuttle")


def super_cells(schema: Schema) -> int:
    """prod(2^I_v - 1): one non-empty subset of categories for each variable."""
    return prod((1 << size) - 1 for size in schema.keys.sizes)


def is_affordable(schema: Schema, limit: int = MAX_SUPER_CELLS) -> bool:
    """Whether the super-cells are at most `limit`, and no variable has too many splits."""
    return max(schema.keys.sizes) <= MAX_CATEGORIES and super_cells(schema) <= limit


def _check_size(schema: Schema) -> None:
    if not is_affordable(schema):
        raise ReleaseError(
            f"the shuttle needs {super_cells(schema)} super-cells, {max(schema.keys.sizes)} categories in one "
            f"variable; at most {MAX_SUPER_CELLS} and {MAX_CATEGORIES}: choose the method collapse, or merge categories"
        )


def super_cell_bounds(table: Table, knowledge: Knowledge) -> tuple[Counts, Counts]:
    """Bounds of every super-cell, at the subset's bit mask minus 1 on each variable's axis."""
    _check_size(table.schema)
    values = _super_cell_counts(table)
    lower, upper = np.zeros_like(values), np.full_like(values, table.total)
    for element in knowledge.release.frontier:
        known = np.ix_(
            *(_known_subsets(element & table.schema.levels.of_axis[axis], table.schema) for axis in table.schema.axes)
        )
        lower[known] = upper[known] = values[known]
    if knowledge.zeros:
        sizes = table.schema.keys.sizes
        single = np.ix_(*((1 << np.arange(size)) - 1 for size in sizes))
        # a single category's mask is a power of two
        upper[single] *= possible_cells(knowledge).reshape(sizes)
    propagate(lower, upper)
    return lower, upper


def _known_subsets(own_variables: SubTable, schema: Schema) -> Counts:
    """Positions of an axis' subsets of categories that its variables in the sub-table identify: unions of groups.

    Without such variables, the set of all categories, which is the last.
    """
    if not own_variables:
        return np.array([-1])
    (finest,) = st.members(schema.levels.finest(own_variables))
    masks = np.zeros(schema.sizes[finest], np.int64)
    np.add.at(masks, schema.levels.groups[finest], 1 << np.arange(len(schema.levels.groups[finest])))
    unions = np.zeros(1, np.int64)
    for mask in masks:
        unions = np.concatenate([unions, unions | mask])
    return unions[1:] - 1


def _super_cell_counts(table: Table) -> Counts:
    counts = table.dense
    for v, size in enumerate(table.schema.keys.sizes):
        masks = np.arange(1, 1 << size)
        members = (masks[:, None] >> np.arange(size) & 1).astype(np.int64)
        counts = np.moveaxis(np.tensordot(members, counts, axes=(1, v)), 0, v)
    return np.ascontiguousarray(counts)


@lru_cache(maxsize=16)
def _splits(subsets: int) -> Counts:
    """(n, 3) t1, t3 and t2 for each split of a subset of categories into two non-empty ones."""
    masks = range(1, subsets + 1)
    # each split once, by its part with the smaller number
    ways = [(a - 1, w - a - 1, w - 1) for w in masks for a in st.submasks(w) if 0 < a < w - a]
    return np.array(ways, np.int64).reshape(-1, 3)


def propagate(lower: Counts, upper: Counts) -> int:
    """Narrow the bounds in place by t1 + t3 = t2 along every axis until nothing changes; return the number of sweeps.

    Stops after `SWEEPS_A_BIT` sweeps for each bit of the counts: bounds that approach each other record by record would
    take as many sweeps as records; the bounds so far are valid outer ones. Raises ReleaseError if a lower bound exceeds
    an upper one: no table agrees with the marginals.
    """
    from sdc.bounds.shuttle_kernel import narrow

    most = SWEEPS_A_BIT * (int(upper.max()) + 1).bit_length()
    low, up = lower.reshape(-1), upper.reshape(-1)
    for sweep in range(1, most + 1):
        moved, step = False, lower.size
        for subsets in lower.shape:
            step //= subsets
            moved |= narrow(low, up, _splits(subsets), subsets, step)
        if (lower > upper).any():
            raise ReleaseError("the released marginals contradict each other; make them from one table")
        if not moved:
            return sweep
    return most
