"""The visible part of the published tables: small counts, zeros, and groups that are all of one category."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table

MOST_COMBINATIONS = 1 << 20  # of the variables that patterns name, looked at one by one


@dataclass(frozen=True)
class PublishedTable:
    """A table of the released frontier.

    cells       of the table, zeros included
    small       cells of 1 to small_count records
    zeros       cells without records that no structural zero excludes
    disclosing  by variable, the combinations of the table's other variables all of whose records have one of its
                categories, though it has others that are possible there; of an axis and its levels by the finest
    """

    subtable: SubTable
    label: str
    cells: int
    small: int
    zeros: int
    disclosing: tuple[tuple[str, int], ...]

    @cached_property
    def groups(self) -> int:
        return sum(number for _, number in self.disclosing)

    @property
    def variables(self) -> str:
        """Whose categories are disclosed, and of how many groups: `sex 12, age 3`."""
        return ", ".join(f"{name} {number:,}" for name, number in self.disclosing if number)


def published(table: Table, known: Knowledge, frontier: tuple[SubTable, ...], small_count: int) -> list[PublishedTable]:
    """Each table of the frontier but the grand total, most disclosing first; a pass over the table each."""
    found = [_published(table, known, element, small_count) for element in frontier if element]
    return sorted(found, key=lambda one: (-one.groups, -one.small, -one.zeros, one.subtable))


def _published(table: Table, known: Knowledge, subtable: SubTable, small_count: int) -> PublishedTable:
    marginal, zeros = table.marginal(subtable), known.zeros.within(subtable)
    cells = marginal.schema.cells
    return PublishedTable(
        subtable,
        st.label(subtable, table.schema),
        cells,
        int((marginal.counts <= small_count).sum()),
        cells - len(marginal) - impossible(zeros, marginal.schema),
        tuple(_disclosing(marginal, zeros)),
    )


def impossible(zeros: StructuralZeros, schema: Schema) -> int:
    """How many cells the patterns exclude; 0 where they name too many combinations to be looked at."""
    named = sorted({schema.levels.column_of[v] for v in st.members(st.union(zeros.subtables))}) if zeros else []
    sizes = [schema.keys.sizes[column] for column in named]
    if not named or prod(sizes) > MOST_COMBINATIONS:
        return 0
    cells = np.zeros((prod(sizes), len(schema.axes)), np.uint16)
    # a category of the axes that no pattern names stands for all of them
    cells[:, named] = np.indices(sizes, np.uint16).reshape(len(sizes), -1).T
    return int(zeros.contains(cells, schema).sum()) * (schema.cells // prod(sizes))


def _disclosing(marginal: Table, zeros: StructuralZeros) -> Iterator[tuple[str, int]]:
    schema = marginal.schema
    for v, variable in enumerate(schema.variables):
        if len(schema.axes) > 1 and len(variable.categories) > 1:
            yield variable.name, len(_uncertain(marginal, zeros, _alone(marginal, v), v))


def _alone(marginal: Table, v: int) -> npt.NDArray[np.uint16]:
    """A cell of each combination of the other axes all of whose records have one category, and none of a finer one."""
    schema = marginal.schema
    others = [u for u in schema.axes if u != schema.levels.axis_of[v]]
    first, group = schema.space(others).distinct(schema.columns(marginal.codes, others))

    def agree(u: int) -> npt.NDArray[np.bool_]:
        codes = schema.columns(marginal.codes, [u])[:, 0]
        # a row of the table has records, so two of a group that differ share them
        found: npt.NDArray[np.bool_] = np.bincount(group, codes != codes[first][group], len(first)) == 0
        return found

    is_alone = agree(v)
    for finer in st.members(schema.levels.finer(v)):
        is_alone &= ~agree(finer)
    return marginal.codes[first[is_alone]]


def _uncertain(
    marginal: Table, zeros: StructuralZeros, cells: npt.NDArray[np.uint16], v: int
) -> npt.NDArray[np.uint16]:
    """Those cells beside which another category of the variable is possible: else everybody knows the category."""
    if not zeros:
        return cells
    schema, possible = marginal.schema, np.zeros(len(cells), np.bool_)
    column, own = schema.levels.column_of[v], schema.columns(cells, [v])[:, 0]
    for code, category in enumerate(schema.levels.groups[v].tolist()):
        other = cells.copy()
        other[:, column] = code
        possible |= (own != category) & ~zeros.contains(other, schema)
    return cells[possible]
