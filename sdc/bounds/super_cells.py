"""Bounds of super-cells under a release: the counts of products of sets of categories ([DKS] section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.bounds import enumeration, fractional, integer_program, shuttle
from sdc.bounds.method import cell_bounds
from sdc.executor import Executor
from sdc.feasible.equations import MarginalEquations
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.super_cell import SuperCell, SuperCellBounds
from sdc.model.table import Table

Ends = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""(n, 2) outer and inner bounds."""
SuperCells = Sequence[SuperCell]
IMPLIED, PROGRAM, COLLAPSE, FRACTIONAL = "released", "integer-program", "collapse", "fractional"


def bounds(table: Table, knowledge: Knowledge, super_cells: SuperCells, method: str = "auto") -> SuperCellBounds:
    """Bounds of super-cells of the table under the knowledge, sharp if the method is exact.

    `auto` takes the counts of super-cells that the release implies, and for others the integer program on the covered
    variables, of at most 4,096 cells; in larger tables, and if it loses nothing, collapse: every variable has two
    categories, those of the super-cell and the rest. `fractional` is for tables of fractions, see `fractional.sums`.
    Raises ReleaseError for a method for single cells, beyond its limits, and for knowledge of another table.
    """
    knowledge.check_is_of(table)
    if method not in TAKEN:
        raise ReleaseError(f"the method {method} is none of super-cells; choose one of {', '.join(TAKEN)}")
    found = [_bounded(table, knowledge, one, method) for one in super_cells]
    names = dict.fromkeys(name for name, _ in found)
    counts = np.array([one.count(table) for one in super_cells], np.int64)
    outer, inner = (np.concatenate([ends[at] for _, ends in found]) for at in (0, 1))
    return SuperCellBounds(tuple(super_cells), counts, outer, inner, " + ".join(names))


def _bounded(table: Table, knowledge: Knowledge, one: SuperCell, method: str) -> tuple[str, Ends]:
    """The method, and the (1, 2) bounds."""
    used = knowledge.structure.looked_at
    wholly, partly = one.within(used, table.schema)
    if used != st.full(len(table.schema)):
        table = table.marginal(used)
    known = knowledge.reduced
    name = _chosen(table, known, wholly, partly) if method == "auto" else method
    # the records of a partly covered marginal cell may all be in the super-cell, or none
    super_cells = [*dict.fromkeys(one for one in (wholly, partly) if one is not None)]
    outer, inner = METHODS[name](table, known, super_cells)
    for ends in (outer, inner):
        ends[-1, 0] = ends[0, 0] if wholly is not None else 0
    return name, (outer[-1:], inner[-1:])


def _chosen(table: Table, knowledge: Knowledge, *ends: SuperCell | None) -> str:
    """The method for a super-cell by the super-cells of its ends, None for an empty one."""
    super_cells = [one for one in ends if one is not None]
    if all(_is_implied(table.schema, knowledge, one) for one in super_cells):
        return IMPLIED
    if all(_loses_nothing(table.schema, knowledge, one) for one in super_cells):
        return COLLAPSE
    return PROGRAM if table.schema.cells <= integer_program.MAX_CELLS else COLLAPSE


def _is_implied(schema: Schema, knowledge: Knowledge, one: SuperCell) -> bool:
    both = (one.within(element, schema) for element in knowledge.release.frontier)
    return any(wholly == partly for wholly, partly in both)


def _counts(table: Table, knowledge: Knowledge, super_cells: SuperCells) -> Ends:
    counts = np.array([[one.count(table)] * 2 for one in super_cells], np.int64)
    return counts, counts.copy()


def _by_integer_program(table: Table, knowledge: Knowledge, super_cells: SuperCells) -> Ends:
    integer_program.check_size(table)
    equations, groups = MarginalEquations.of(table, knowledge), [one.places(table.schema) for one in super_cells]
    return integer_program.sums(equations, groups, table.total)


def _by_enumeration(table: Table, knowledge: Knowledge, super_cells: SuperCells) -> Ends:
    return enumeration.sums(table, knowledge, [one.places(table.schema) for one in super_cells])


def _by_fractions(table: Table, knowledge: Knowledge, super_cells: SuperCells) -> Ends:
    if table.schema.cells > integer_program.MAX_CELLS:
        raise ReleaseError(
            f"the table has {table.schema.cells} cells, and bounds over fractions take at most "
            f"{integer_program.MAX_CELLS}; leave fractional out, or choose fewer variables"
        )
    return fractional.sums(MarginalEquations.of(table, knowledge), [one.places(table.schema) for one in super_cells])


def _by_shuttle(table: Table, knowledge: Knowledge, super_cells: SuperCells) -> Ends:
    lower, upper = shuttle.super_cell_bounds(table, knowledge)
    places = [tuple(sum(1 << code for code in own) - 1 for own in one.codes) for one in super_cells]
    return np.array([[lower[place], upper[place]] for place in places], np.int64), _counts(
        table, knowledge, super_cells
    )[1]


def _by_collapse(table: Table, knowledge: Knowledge, super_cells: SuperCells) -> Ends:
    """Bounds from tables in which each super-cell is a cell; inner is the count, unless collapsing loses nothing.

    Levels are variables of their own there. Structural zeros and other facts are not used.
    """
    outer, inner = list[Intervals](), list[Intervals]()
    for one in super_cells:
        collapsed = _collapsed(table, one)
        known = Knowledge.of(collapsed, knowledge.flat.release, NO_ZEROS, NO_FACTS)
        found = cell_bounds(collapsed, known, np.zeros((1, len(collapsed.schema)), np.uint16))
        outer.append(found.outer)
        inner.append(
            found.inner if _loses_nothing(table.schema, knowledge, one) else _counts(table, knowledge, [one])[1]
        )
    return np.concatenate(outer), np.concatenate(inner)


def _loses_nothing(schema: Schema, knowledge: Knowledge, one: SuperCell) -> bool:
    """Whether every table that agrees after collapsing variables comes from one that agrees now.

    That holds for a variable in one frontier sub-table only, whose categories can be separated in each of its cells;
    and for a variable whose categories are only renamed.
    """
    if not schema.levels.is_flat or knowledge.zeros or knowledge.facts:
        return False
    named = [size == len(own) == 1 or size == 2 > len(own) for size, own in zip(schema.sizes, one.codes, strict=True)]
    within = [sum(st.has(s, v) for s in knowledge.release.frontier) for v in range(len(schema))]
    return all(anew or number < 2 for anew, number in zip(named, within, strict=True))


def _collapsed(table: Table, one: SuperCell) -> Table:
    """The table with at most two categories for each variable, first those of the super-cell."""
    schema, flat = table.schema, table.flat
    variables, codes = list[Variable](), np.empty_like(flat.codes)
    for v, own in enumerate(flat.schema.variables):
        touched = schema.levels.groups[v][list(one.codes[schema.levels.column_of[v]])]
        codes[:, v] = ~np.isin(flat.codes[:, v], touched)
        rest = len({*touched.tolist()}) < len(own.categories)
        variables.append(Variable(own.name, ("own", "rest") if rest else ("own",)))
    return Table.of(Schema(tuple(variables)), codes, table.counts)


METHODS: dict[str, Callable[[Table, Knowledge, SuperCells], Ends]] = {
    IMPLIED: _counts,
    PROGRAM: _by_integer_program,
    "enumeration": _by_enumeration,
    "shuttle": _by_shuttle,
    COLLAPSE: _by_collapse,
    FRACTIONAL: _by_fractions,
}
TAKEN = ("auto", PROGRAM, "enumeration", "shuttle", COLLAPSE, FRACTIONAL)


def bounds_of_super_cells(table: Table, unit: tuple[Knowledge, SuperCells, str]) -> SuperCellBounds:
    return bounds(table, *unit)


def super_cells_in_units(
    table: Table, knowledge: Knowledge, super_cells: SuperCells, method: str, executor: Executor
) -> SuperCellBounds:
    """`bounds`, each super-cell a unit; InputError as `bounds`."""
    units = [(knowledge, (one,), method) for one in super_cells]
    return SuperCellBounds.concatenated(list(executor.run(bounds_of_super_cells, table, units)))
