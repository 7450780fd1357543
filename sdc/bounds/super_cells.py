"""How far can a super-cell move, given a release: the count of a product of sets of categories ([DKS] section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
Asked = Sequence[SuperCell]
TOLD, PROGRAM, COLLAPSE, FRACTIONAL = "released", "integer-program", "collapse", "fractional"


def bounds(table: Table, knowledge: Knowledge, super_cells: Asked, method: str = "auto") -> SuperCellBounds:
    """Bounds of super-cells of the table for whoever knows that of it, sharp where the method is exact.

    `auto` has the counts of those that the release tells, and of the others the integer program on the covered
    variables, of at most 4,096 cells; in larger tables, and where that loses nothing, collapse: every variable with
    two categories, those of the super-cell and the rest. `fractional` is of tables of fractions, see
    `fractional.sums`.
    ReleaseError for a method that bounds single cells alone, beyond its limits, and for knowledge of another table.
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
    """By which method, and the (1, 2) bounds."""
    kept = knowledge.structure.looked_at
    wholly, partly = one.within(kept, table.schema)
    if kept != st.full(len(table.schema)):
        table = table.marginal(kept)
    known = knowledge.reduced
    name = _chosen(table, known, wholly, partly) if method == "auto" else method
    # records of a marginal cell that has a part in it may all be in it, or none of them
    asked = [*dict.fromkeys(one for one in (wholly, partly) if one is not None)]
    outer, inner = METHODS[name](table, known, asked)
    for ends in (outer, inner):
        ends[-1, 0] = ends[0, 0] if wholly is not None else 0
    return name, (outer[-1:], inner[-1:])


def _chosen(table: Table, knowledge: Knowledge, *ends: SuperCell | None) -> str:
    """The method for a super-cell by what its ends are those of, None for nothing."""
    asked = [one for one in ends if one is not None]
    if all(_is_told(table.schema, knowledge, one) for one in asked):
        return TOLD
    if all(_loses_nothing(table.schema, knowledge, one) for one in asked):
        return COLLAPSE
    return PROGRAM if table.schema.cells <= integer_program.MAX_CELLS else COLLAPSE


def _is_told(schema: Schema, knowledge: Knowledge, one: SuperCell) -> bool:
    """Whether it is a sum of counts of a sub-table that is released."""
    both = (one.within(element, schema) for element in knowledge.release.frontier)
    return any(wholly == partly for wholly, partly in both)


def _counts(table: Table, knowledge: Knowledge, asked: Asked) -> Ends:
    """The counts that each has, as both ends: those of what is told."""
    counts = np.array([[one.count(table)] * 2 for one in asked], np.int64)
    return counts, counts.copy()


def _by_integer_program(table: Table, knowledge: Knowledge, asked: Asked) -> Ends:
    integer_program.check_size(table)
    equations, groups = MarginalEquations.of(table, knowledge), [one.places(table.schema) for one in asked]
    return integer_program.sums(equations, groups, table.total)


def _by_enumeration(table: Table, knowledge: Knowledge, asked: Asked) -> Ends:
    return enumeration.sums(table, knowledge, [one.places(table.schema) for one in asked])


def _by_fractions(table: Table, knowledge: Knowledge, asked: Asked) -> Ends:
    if table.schema.cells > integer_program.MAX_CELLS:
        raise ReleaseError(
            f"the table has {table.schema.cells} cells, and bounds over fractions take at most "
            f"{integer_program.MAX_CELLS}; leave fractional out, or ask of a table of fewer variables"
        )
    return fractional.sums(MarginalEquations.of(table, knowledge), [one.places(table.schema) for one in asked])


def _by_shuttle(table: Table, knowledge: Knowledge, asked: Asked) -> Ends:
    """Of every super-cell at once; inner is the count."""
    lower, upper = shuttle.super_cell_bounds(table, knowledge)
    places = [tuple(sum(1 << code for code in own) - 1 for own in one.codes) for one in asked]
    return np.array([[lower[place], upper[place]] for place in places], np.int64), _counts(table, knowledge, asked)[1]


def _by_collapse(table: Table, knowledge: Knowledge, asked: Asked) -> Ends:
    """Of tables in which each is a cell; inner is the count, but where collapsing them loses nothing.

    Levels are variables of their own there. Structural zeros and other facts are not made use of.
    """
    outer, inner = list[Intervals](), list[Intervals]()
    for one in asked:
        collapsed = _collapsed(table, one)
        known = Knowledge.of(collapsed, knowledge.flat.release, NO_ZEROS, NO_FACTS)
        found = cell_bounds(collapsed, known, np.zeros((1, len(collapsed.schema)), np.uint16))
        outer.append(found.outer)
        inner.append(
            found.inner if _loses_nothing(table.schema, knowledge, one) else _counts(table, knowledge, [one])[1]
        )
    return np.concatenate(outer), np.concatenate(inner)


def _loses_nothing(schema: Schema, knowledge: Knowledge, one: SuperCell) -> bool:
    """Whether every table that agrees once variables are collapsed is that of some that agrees now.

    So it is of a variable in one frontier sub-table alone, whose categories can be told apart again in each of its
    cells; and of one whose categories are but named anew.
    """
    if not schema.levels.is_flat or knowledge.zeros or knowledge.facts:
        return False
    named = [size == len(own) == 1 or size == 2 > len(own) for size, own in zip(schema.sizes, one.codes, strict=True)]
    within = [sum(st.has(s, v) for s in knowledge.release.frontier) for v in range(len(schema))]
    return all(anew or number < 2 for anew, number in zip(named, within, strict=True))


def _collapsed(table: Table, one: SuperCell) -> Table:
    """The table with one or two categories a variable, the first of them those that the super-cell has."""
    schema, flat = table.schema, table.flat
    variables, codes = list[Variable](), np.empty_like(flat.codes)
    for v, own in enumerate(flat.schema.variables):
        touched = schema.levels.groups[v][list(one.codes[schema.levels.column_of[v]])]
        codes[:, v] = ~np.isin(flat.codes[:, v], touched)
        rest = len({*touched.tolist()}) < len(own.categories)
        variables.append(Variable(own.name, ("own", "rest") if rest else ("own",)))
    return Table.of(Schema(tuple(variables)), codes, table.counts)


METHODS: dict[str, Callable[[Table, Knowledge, Asked], Ends]] = {
    TOLD: _counts,
    PROGRAM: _by_integer_program,
    "enumeration": _by_enumeration,
    "shuttle": _by_shuttle,
    COLLAPSE: _by_collapse,
    FRACTIONAL: _by_fractions,
}
TAKEN = ("auto", PROGRAM, "enumeration", "shuttle", COLLAPSE, FRACTIONAL)


@dataclass(frozen=True, eq=False)
class SuperCellUnit:
    """Super-cells whose bounds a method gives under what is known."""

    knowledge: Knowledge
    super_cells: tuple[SuperCell, ...]
    method: str


def bounds_of_super_cells(table: Table, unit: SuperCellUnit) -> SuperCellBounds:
    """What a worker does of it."""
    return bounds(table, unit.knowledge, unit.super_cells, unit.method)


def super_cells_in_units(
    table: Table, knowledge: Knowledge, asked: Asked, method: str, executor: Executor
) -> SuperCellBounds:
    """`bounds`, each super-cell a unit; InputError as `bounds`."""
    units = [SuperCellUnit(knowledge, (one,), method) for one in asked]
    return SuperCellBounds.concatenated(list(executor.run(bounds_of_super_cells, table, units)))
