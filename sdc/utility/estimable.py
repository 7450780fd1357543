"""Estimable parameters of a log-linear model for a table with zeros, and the cells with a positive fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat
from math import prod

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.solve.linear import LinearSums, cheapest
from sdc.utility.closed_form import Marginals
from sdc.utility.ipf import MAX_BYTES, Fit, marginals_of, possible_cells, tree_of
from sdc.utility.marginal import Marginal, columns
from sdc.utility.measures import degrees_of_freedom, free_categories
from sdc.utility.rank_kernel import PRIME, is_independent

MOST_CELLS = 1 << 14
"""Of a part whose zeros a program examines; for 7,560 cells it takes 2 to 6 seconds."""
MOST_PARAMETERS, MOST_ENTRIES = 1 << 11, 1 << 24
"""Of a matrix whose rank is computed, in some seconds."""
MOST_TERMS = 1 << 12

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Term:
    """A log-linear term of a model: a released sub-table, or the grand total.

    parameters  free ones, prod (I_v - 1)
    estimable   number of them that the cells with a positive fit identify, given the terms before it (fewer variables,
                or listed before); None if unknown
    """

    sub_table: SubTable
    parameters: int
    estimable: int | None


@dataclass(frozen=True, eq=False)
class ModelComponent:
    """A component of the knowledge, see `Structure.components`: the model splits there, and its fit is a product.

    variables   with all levels
    cells       (n, variables) sorted codes of its cells with a positive fit
    is_public   whether its marginal is released: then it is the fit
    is_proven   whether the fit is known to be positive in all these cells, and not to go to 0 in some
    parameters  number of estimable ones, with the constant; None if unknown
    """

    variables: SubTable
    cells: Codes
    is_public: bool
    is_proven: bool
    parameters: int | None


@dataclass(frozen=True, eq=False)
class Estimable:
    """Estimability in the hierarchical model of the released sub-tables, without other facts.

    Zeros count as in Bishop, Fienberg and Holland (1975, section 3.8): cells with a fit of 0 are removed, and the
    parameters that cannot be estimated without them. The fit is positive in a cell if some non-negative real table has
    the released marginals and is positive there. A marginal of 0 excludes its cells, a structural zero its own; if
    others are excluded, the fit is reached in the limit only (Haberman 1974). The remaining cells identify as many
    parameters as the rank of the model's matrix (Fienberg and Rinaldo 2012).
    """

    table: Table
    known: Knowledge

    @cached_property
    def parts(self) -> tuple[ModelComponent, ...]:
        """In perfect order."""
        return tuple(map(self._part, self.known.structure.components.cliques))

    def _part(self, variables: SubTable) -> ModelComponent:
        if self.known.structure.shows(variables):
            cells = Marginal.of(self.table.flat, variables).codes
            return ModelComponent(variables, cells, True, True, len(cells))
        cells, is_proven = _positive(self.table.flat.marginal(variables), self.known.flat.within(variables))
        return ModelComponent(variables, cells, False, is_proven, self._rank(variables, cells) if is_proven else None)

    def _rank(self, variables: SubTable, cells: Codes) -> int | None:
        inside = self.known.within(variables)
        if len(cells) == inside.schema.cells:
            return degrees_of_freedom(inside.release, inside.schema) + 1
        found = ranks(cells, st.full(len(inside.schema)), inside)
        return None if found is None else sum(found)

    @property
    def is_proven(self) -> bool:
        """Whether the positive cells of all parts are proven."""
        return all(part.is_proven for part in self.parts)

    @property
    def supports(self) -> Marginals:
        """Indicator marginals of a part's positive cells, for parts where the released ones do not imply them."""
        schema, covered = self.table.flat.schema, self.known.flat.structure.covered
        found = {}
        for part in self.parts:
            shared = part.variables & covered
            if shared and not part.is_public:
                cells = part.cells[:, columns(shared, part.variables)]
                found[shared] = Marginal(schema, shared, cells, np.ones(len(cells), np.int64))
        return found

    @property
    def parameters(self) -> int | None:
        """Number of estimable parameters, with the constant; None if unknown.

        Two parts share the functions of their separator's positive cells, which count in both.
        """
        shared = sum(len(Marginal.of(self.table.flat, s)) for s in self.known.structure.components.separators)
        found = [part.parameters for part in self.parts if part.parameters is not None]
        return sum(found) - shared if len(found) == len(self.parts) else None

    @cached_property
    def listed(self) -> list[SubTable]:
        """The terms, those with fewest variables first; none if there are more than 4,096."""
        few = self.known.release.sub_tables_with_total(self.table.schema) <= MOST_TERMS
        return terms_of(self.known) if few else []

    def terms(self, fitted_cells: int, listed: Fit | None) -> tuple[Term, ...]:
        """Each listed term.

        fitted_cells  number of cells of the full table with a positive fit
        listed        these, if the table has no levels; None if there are too many
        """
        schema = self.table.schema
        sizes = [parameters_of(term, schema) for term in self.listed]
        found: list[int] | None = sizes if fitted_cells == schema.cells else None
        if found is None and listed is not None:
            found = ranks(listed.cells, listed.variables, self.known)
        return tuple(map(Term, self.listed, sizes, repeat(None) if found is None else found))


def terms_of(known: Knowledge) -> list[SubTable]:
    """The released sub-tables with a parameter, each after all within it."""
    return sorted(known.structure.essential.views(known.schema), key=lambda s: (st.dimension(s), s))


def parameters_of(term: SubTable, schema: Schema) -> int:
    """Free parameters of a term."""
    free = free_categories(schema)
    return prod(free[v] for v in st.members(schema.levels.finest(term)))


def _positive(table: Table, known: Knowledge) -> tuple[Codes, bool]:
    """The cells with a positive fit of a table without levels, and whether all are proven."""
    marginals, every = marginals_of(table, known), st.full(len(table.schema))
    cells = possible_cells(table.schema, marginals, every, known.zeros, MAX_BYTES)
    empty = table.count_at(cells) == 0
    if not empty.any() or tree_of(table.schema, marginals, known.zeros) is not None:
        return cells, True
    positive = _reached(cells, empty, [*marginals], table.schema) if len(cells) <= MOST_CELLS else None
    return (cells, False) if positive is None else (cells[positive], True)


def _reached(
    cells: Codes, empty: npt.NDArray[np.bool_], sub_tables: Sequence[SubTable], schema: Schema
) -> npt.NDArray[np.bool_] | None:
    """(n,) cells in which a table with the true marginals can be positive; None if the solver does not decide.

    Changes that preserve the marginals are scaled so that no positive count gets below 0; only empty cells need the
    constraint. As many empty cells as possible increase by at least 1, possibly all in one change.
    """
    from scipy.sparse import csc_array, hstack, vstack

    groups = [schema.keys.restricted(st.members(s)).distinct(cells[:, list(st.members(s))]) for s in sub_tables]
    one, own = np.ones(len(cells)), np.arange(len(cells))
    sums = vstack([csc_array((one, (group, own)), (len(first), len(cells))) for first, group in groups], format="csc")
    up = sums[:, np.flatnonzero(empty)]
    matrix = hstack([up, up, sums[:, np.flatnonzero(~empty)]], format="csc")
    counted, more, free = np.split(np.arange(matrix.shape[1]), np.cumsum([up.shape[1], up.shape[1]]))
    costs, lower, upper = np.zeros((3, matrix.shape[1]))
    costs[counted], upper[counted], upper[more] = -1, 1, np.inf
    lower[free], upper[free] = -np.inf, np.inf
    found = cheapest(costs, lower, upper, [LinearSums(matrix, 0, 0)])
    if found is None:
        return None
    positive = ~empty
    positive[empty] = found[counted] > 0.5
    return positive


def ranks(cells: Codes, variables: SubTable, known: Knowledge) -> list[int] | None:
    """The increase of the matrix rank on these cells by each term of a model; None if the matrix is too large.

    cells  (n, variables) codes, of all levels

    Computed modulo a 31-bit prime with random weights of the cells: the result is right, except for a chance below
    10^-5 that it is too low. O(parameters^3).
    """
    from scipy.sparse import csc_array, hstack

    schema = known.schema
    # before they are listed: each has at least one parameter
    if degrees_of_freedom(known.release, schema) >= MOST_PARAMETERS:
        return None
    terms = terms_of(known)
    if len(cells) * len(terms) > MOST_ENTRIES:
        return None
    blocks = [_indicators(cells[:, columns(schema.levels.finest(term), variables)]) for term in terms]
    matrix = hstack([csc_array((np.ones(len(row), np.int64), (row, own)), (len(cells), n)) for row, own, n in blocks])
    weights = np.random.default_rng(0).integers(1, PRIME, len(cells))
    products = (matrix.T @ (matrix * weights[:, None])).toarray() % PRIME
    independent = is_independent(products)
    ends = np.cumsum([0, *(n for _, _, n in blocks)])
    return [int(independent[start:end].sum()) for start, end in pairwise(ends.tolist())]


def _indicators(codes: Codes) -> tuple[Places, Places, int]:
    """For each occurring combination of categories (without the first of a variable) the cells that have it.

    (m,) cells and the column of each, and the number of columns.
    """
    rows = np.flatnonzero((codes > 0).all(axis=1))
    found, column = np.unique(codes[rows], axis=0, return_inverse=True)
    return rows, column.reshape(-1), len(found)
