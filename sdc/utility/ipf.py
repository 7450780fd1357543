"""Iterative proportional fitting on the cells that can be positive ([DKS] section 3.2), or on the whole array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.graph import Decomposition, decompose
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import as_cells
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table, freeze
from sdc.utility.closed_form import Marginals, Values, expected
from sdc.utility.ipf_kernel import LANES, rescale
from sdc.utility.marginal import Marginal

Support: TypeAlias = Literal["possible", "non-zero"]
Form: TypeAlias = Literal["sparse", "dense"]
Groups: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

MAX_BYTES = 1 << 30
WORKING_BYTES = 64
"""Bytes for each cell, besides three copies of its codes, and its groups."""
DENSE_BYTES = 32
"""Bytes for each cell of an array, besides the codes of the positive ones."""


class Stop(NamedTuple):
    """When IPF ends: largest deviation of any marginal, in records, or number of sweeps."""

    tolerance: float = 1e-3
    max_sweeps: int = 1000

    def check(self) -> None:
        """InputError for a tolerance that is not positive, or less than one sweep."""
        if not (isfinite(self.tolerance) and self.tolerance > 0):
            raise InputError(f"tolerance = {self.tolerance}: give the deviation allowed in records, more than 0")
        if self.max_sweeps < 1:
            raise InputError(f"max_sweeps = {self.max_sweeps}: give at least 1")


STOP = Stop()


@dataclass(frozen=True, eq=False)
class Fit:
    """Expected counts of the table of `variables`; uniform over the categories of all others.

    cells      (n, variables) uint16, read-only, sorted: every other cell has 0
    values     (n,) float64, read-only
    method     "closed form" if the release is decomposable and every possible cell is fitted, else "ipf"
    form       "sparse" for a list of possible cells, "dense" for an array of all cells
    sweeps     passes over all marginals, 0 in closed form
    deviation  largest difference between a cell of a released marginal and the sum of its values, in records
    converged  whether the deviation is within the tolerance
    """

    schema: Schema
    variables: SubTable
    cells: Codes
    values: Values
    method: Literal["closed form", "ipf"]
    form: Form
    sweeps: int
    deviation: float
    converged: bool

    def __post_init__(self) -> None:
        freeze(self, "cells", "values")

    @property
    def spread(self) -> int:
        """The number of cells of the full table that share each value equally."""
        return prod(self.schema.sizes) // prod(self.schema.sizes[v] for v in st.members(self.variables))

    @property
    def fitted_cells(self) -> int:
        """The number of fitted cells of the full table."""
        return len(self.cells) * self.spread

    def at(self, cells: npt.NDArray[np.integer]) -> Values:
        """(n,) expected counts at cells of the full table, (n, all variables) codes; InputError for invalid ones."""
        members = st.members(self.variables)
        rows = self.schema.keys.restricted(members).matching(self.cells, as_cells(cells, self.schema)[:, members])
        # -1, for a cell that was not fitted, selects the 0 at the end
        return np.append(self.values, 0.0)[rows] / float(self.spread)


def fit(
    table: Table,
    known: Knowledge,
    *,
    support: Support = "possible",
    form: Form | None = None,
    within: Marginals = MappingProxyType({}),
    stop: Stop = STOP,
    max_bytes: int = MAX_BYTES,
) -> Fit:
    """Expected counts under the hierarchical log-linear model of the released marginals.

    They are fitted on every cell in which all released marginals are positive and which is no structural zero, or with
    "non-zero" on the table's non-zero cells only ([DKS] section 3.2). A sweep is one pass over these cells for each
    frontier element.

    form    whether IPF lists these cells or uses an array of all; by default the closed form if it exists, else a list
    within  marginals of covered variables: the fit is known to be 0 wherever one of them is

    Raises ReleaseError for knowledge of another table, InputError beyond `max_bytes`, for an unknown support or form,
    and as `Stop.check`.
    """
    known.check_is_of(table)
    stop.check()
    if support not in ("possible", "non-zero"):
        raise InputError(f"support = {support!r}: choose possible or non-zero")
    if form not in (None, "sparse", "dense"):
        raise InputError(f"form = {form!r}: choose sparse or dense")
    marginals = marginals_of(table, known)
    if support == "possible":
        return _fit_possible(table.schema, marginals, known.zeros, stop, max_bytes, form, within)
    every = st.full(len(table.schema))
    return _iterated(table.schema, marginals, table.codes, every, stop, max_bytes)


def marginals_of(table: Table, known: Knowledge) -> Marginals:
    """The marginals of the released frontier, without variables with one category."""
    return {element: Marginal.of(table, element) for element in known.structure.essential.frontier}


def tree_of(schema: Schema, subtables: Iterable[SubTable], zeros: StructuralZeros) -> Decomposition | None:
    """Cliques and separators if there is a closed form.

    That is so if the marginals are those of a decomposable release that contains all structural zeros.
    """
    release = Release.of(subtables)
    # a structural zero within a released sub-table is a 0 there already; the closed form would fill another one
    if not all(named & st.varying(schema) in release for named in zeros.subtables):
        return None
    return decompose(release, len(schema))


def _fit_possible(
    schema: Schema,
    marginals: Marginals,
    zeros: StructuralZeros,
    stop: Stop,
    max_bytes: int,
    form: Form | None = None,
    within: Marginals = MappingProxyType({}),
) -> Fit:
    variables = st.union([*marginals, *zeros.subtables])
    if form == "dense":
        return _in_array(schema, marginals, variables, zeros, within, stop, max_bytes)
    cells = possible_cells(schema, {**marginals, **within}, variables, zeros, max_bytes)
    # the closed form gives the same numbers at once, without a remaining error
    tree = tree_of(schema, marginals, zeros) if form is None else None
    if tree is None:
        return _iterated(schema, marginals, cells, variables, stop, max_bytes)
    values = expected(marginals, tree, cells, variables)
    deviation = max(
        _deviation(values, groups_of(m, cells, variables), m.counts.astype(np.float64)) for m in marginals.values()
    )
    return Fit(schema, variables, cells, values, "closed form", "sparse", 0, deviation, deviation <= stop.tolerance)


def possible_cells(
    schema: Schema, marginals: Marginals, variables: SubTable, zeros: StructuralZeros, max_bytes: int
) -> Codes:
    """(n, variables) sorted cells in which all marginals are positive and that are not structural zeros.

    Variables are added one by one, and cells that a marginal of the variables so far excludes are dropped: the product
    space is never built. InputError if the candidate cells need more than `max_bytes`.
    """
    cells, known = np.zeros((1, 0), np.uint16), st.GRAND_TOTAL
    for v in st.members(variables):
        size, known = schema.sizes[v], known | 1 << v
        # before they are built: the candidates may be far more than the remaining cells
        _check_bytes(len(cells) * size, 6 * st.dimension(known) + WORKING_BYTES, max_bytes)
        added = np.tile(np.arange(size, dtype=np.uint16), len(cells))
        # the new variable is fastest, so that cells stay sorted
        cells = np.column_stack([np.repeat(cells, size, axis=0), added])
        for marginal in _seen(marginals, known, v):
            cells = cells[marginal.rows(cells, known) >= 0]
        if zeros:
            cells = cells[~zeros.within(known).contains(cells, schema.restrict(st.members(known)))]
    return cells if any(len(marginal) for marginal in marginals.values()) else cells[:0]


def _seen(marginals: Marginals, known: SubTable, variable: int) -> list[Marginal]:
    """What the marginals with the variable contain on the known variables, each once."""
    # two marginals with the same known variables agree on these, so one of them is enough
    parts = {element & known: marginal for element, marginal in marginals.items() if st.has(element, variable)}
    return [parts[part].summed(part) for part in st.maximal(parts)]


def _iterated(
    schema: Schema, marginals: Marginals, cells: Codes, variables: SubTable, stop: Stop, max_bytes: int
) -> Fit:
    """IPF from 1 in each of the cells."""
    group_bytes = sum(map(_group_bytes, marginals.values()))
    _check_bytes(len(cells), 6 * cells.shape[1] + WORKING_BYTES + group_bytes, max_bytes)
    groups = [groups_of(marginal, cells, variables) for marginal in marginals.values()]
    targets = [marginal.counts.astype(np.float64) for marginal in marginals.values()]
    # from 1: all starts that are products of factors of the marginals' cells have the same limit, the maximum
    # likelihood estimate
    values, sweeps, deviation = iterate(np.ones(len(cells)), groups, targets, stop)
    return Fit(schema, variables, cells, values, "ipf", "sparse", sweeps, deviation, deviation <= stop.tolerance)


def _in_array(
    schema: Schema,
    marginals: Marginals,
    variables: SubTable,
    zeros: StructuralZeros,
    within: Marginals,
    stop: Stop,
    max_bytes: int,
) -> Fit:
    """IPF from 1 in the possible cells of an array of all cells of the variables, and 0 in the others."""
    members = st.members(variables)
    sizes = [schema.sizes[v] for v in members]
    _check_bytes(prod(sizes), DENSE_BYTES + 10 * len(members), max_bytes)
    start = np.ones(sizes)
    for pattern in zeros.patterns:
        named = dict(pattern)
        start[np.ix_(*(named.get(v, range(schema.sizes[v])) for v in members))] = 0
    for marginal in (*within.values(), *marginals.values()):
        start *= marginal.as_array(members) > 0
    targets = [marginal.as_array(members).astype(np.float64) for marginal in marginals.values()]
    values, sweeps, deviation = iterate_dense(start, targets, stop)
    cells = np.argwhere(values > 0).astype(np.uint16)
    found = values[values > 0].reshape(-1)
    return Fit(schema, variables, cells, found, "ipf", "dense", sweeps, deviation, deviation <= stop.tolerance)


def iterate_dense(start: Values, targets: Sequence[Values], stop: Stop) -> tuple[Values, int, float]:
    """`iterate` on an array: each target has the array's axes, of size 1 for summed-out variables."""
    values = start.copy()
    for sweep in range(1, stop.max_sweeps + 1):
        worst = 0.0
        for target in targets:
            sums = _summed_as(values, target)
            worst = max(worst, float(np.abs(sums - target).max()))
            values *= np.divide(target, sums, out=np.zeros(sums.shape), where=sums > 0)
        if worst <= stop.tolerance or sweep == stop.max_sweeps:
            deviation = max(float(np.abs(_summed_as(values, target) - target).max()) for target in targets)
            if deviation <= stop.tolerance:
                break
    return values, sweep, deviation


def _summed_as(values: Values, target: Values) -> Values:
    away = tuple(axis for axis, size in enumerate(target.shape) if size < values.shape[axis])
    sums: Values = values.sum(axis=away, keepdims=True)
    return sums


def iterate(
    start: Values, groups: Sequence[Groups], targets: Sequence[Values], stop: Stop
) -> tuple[Values, int, float]:
    """Values, sweeps and largest deviation: each marginal in turn is adjusted, until all agree.

    start    (n,) positive
    groups   for each marginal (n,) the index of its cell for each cell
    targets  for each marginal (its cells,) positive counts, each with at least one cell

    A marginal's factors are applied while the next one is summed, so that a step is one pass ([DKS] section 3.2).
    """
    # the first step scales by 1: all marginals are treated alike, and the last factors wait for the end of the sweeps
    values, before, factor = start.copy(), groups[0], np.ones(len(targets[0]))
    for sweep in range(1, stop.max_sweeps + 1):
        worst = 0.0
        for after, target in zip(groups, targets, strict=True):
            sums = _rescaled(values, before, factor, after, len(target))
            worst = max(worst, np.abs(sums - target).max(initial=0.0))
            before, factor = after, np.divide(target, sums, out=np.zeros(len(sums)), where=sums > 0)
        if worst <= stop.tolerance or sweep == stop.max_sweeps:
            # `worst` was computed before the last factors were applied; the result needs the deviation after them
            _rescaled(values, before, factor, before, len(factor))
            factor = np.ones(len(factor))
            deviation = max(_deviation(values, *marginal) for marginal in zip(groups, targets, strict=True))
            if deviation <= stop.tolerance:
                break
    return values, sweep, deviation


def _rescaled(values: Values, before: Groups, factor: Values, after: Groups, groups: int) -> Values:
    lanes = np.empty((LANES, groups))
    rescale(values, before, factor, after, lanes)
    sums: Values = lanes.sum(axis=0)
    return sums


def _deviation(values: Values, groups: Groups, target: Values) -> float:
    sums = _rescaled(values, groups, np.ones(len(target)), groups, len(target))
    return float(np.abs(sums - target).max(initial=0.0))


def groups_of(marginal: Marginal, cells: Codes, variables: SubTable) -> Groups:
    """(n,) the index of the marginal's cell for each of (n, variables) cells.

    InputError if a cell of the marginal, all of which are positive, has none of the cells.
    """
    # 16 bits if possible: the groups of all marginals are read at each sweep
    rows = marginal.rows(cells, variables)
    empty = np.flatnonzero(np.bincount(rows, minlength=len(marginal)) == 0)
    if len(empty):
        row = int(empty[0])
        raise InputError(
            f"the marginal {st.label(marginal.subtable, marginal.schema)} has the count {marginal.counts[row]} at "
            f"{marginal.cell_label(row)}, where every cell is a structural zero or has 0 in another marginal; "
            "correct the marginals or the structural zeros"
        )
    return rows.astype(np.uint16) if _group_bytes(marginal) == 2 else rows.astype(np.uint32)


def _group_bytes(marginal: Marginal) -> int:
    return 2 if len(marginal) <= 1 << 16 else 4


def _check_bytes(cells: int, bytes_a_cell: int, max_bytes: int) -> None:
    if cells * bytes_a_cell > max_bytes:
        raise InputError(
            f"fitting {cells:,} cells needs {cells * bytes_a_cell / (1 << 20):,.0f} MiB; {max_bytes / (1 << 20):,.0f} "
            "MiB are allowed: release sub-tables with fewer variables, or fit the non-zero cells only"
        )
