"""What can be estimated of a log-linear model from a table with zeros: where its fit is positive, which parameters."""

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
from sdc.solve.linear import Sums, cheapest
from sdc.utility.closed_form import Marginals
from sdc.utility.ipf import MAX_BYTES, Fit, marginals_of, possible_cells, tree_of
from sdc.utility.marginal import Marginal, columns
from sdc.utility.measures import degrees_of_freedom, free_categories
from sdc.utility.rank_kernel import PRIME, is_independent

MOST_CELLS = 1 << 14
"""Of a part whose zeros a program looks at; of 7,560 cells it takes 2 to 6 seconds."""
MOST_PARAMETERS, MOST_ENTRIES = 1 << 11, 1 << 24
"""Of a matrix whose rank is found, in some seconds."""
MOST_TERMS = 1 << 12

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Term:
    """A log-linear term of a model: a released sub-table, the grand total among them.

    parameters  free ones, prod (I_v - 1)
    estimable   how many of them the cells with a positive fit tell apart, where the terms before it, of fewer
                variables or listed before, are there already; None where that is not known
    """

    sub_table: SubTable
    parameters: int
    estimable: int | None


@dataclass(frozen=True, eq=False)
class Part:
    """A component of what is known, see `Structure.components`: the model splits there, and its fit is a product.

    variables   with all levels
    cells       (n, variables) sorted codes of its cells where the fit is positive
    is_public   whether its marginal is released: then the fit is that
    is_proven   whether the fit is known to be positive in all these cells, and not to go to 0 in some
    parameters  how many can be estimated, with the constant; None where that is not known
    """

    variables: SubTable
    cells: Codes
    is_public: bool
    is_proven: bool
    parameters: int | None


@dataclass(frozen=True, eq=False)
class Estimable:
    """What can be estimated of the hierarchical model of the released sub-tables, for whoever knows no other facts.

    Zeros count as in Bishop, Fienberg and Holland (1975, section 3.8): off go the cells whose fit is 0, and the
    parameters that cannot be estimated for that. The fit is positive in a cell where some table of real numbers, none
    below 0, has the released marginals and is positive there. A marginal of 0 excludes its cells, a structural zero
    its own; of others that are excluded the fit is reached in the limit only (Haberman 1974). On the cells that are
    left as many parameters can be estimated as the model's matrix has rank (Fienberg and Rinaldo 2012).
    """

    table: Table
    known: Knowledge

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """In perfect order."""
        return tuple(map(self._part, self.known.structure.components.cliques))

    def _part(self, variables: SubTable) -> Part:
        if self.known.structure.shows(variables):
            cells = Marginal.of(self.table.flat, variables).codes
            return Part(variables, cells, True, True, len(cells))
        cells, is_proven = _positive(self.table.flat.marginal(variables), self.known.flat.within(variables))
        return Part(variables, cells, False, is_proven, self._rank(variables, cells) if is_proven else None)

    def _rank(self, variables: SubTable, cells: Codes) -> int | None:
        inside = self.known.within(variables)
        if len(cells) == inside.schema.cells:
            return degrees_of_freedom(inside.release, inside.schema) + 1
        found = ranks(cells, st.full(len(inside.schema)), inside)
        return None if found is None else sum(found)

    @property
    def is_proven(self) -> bool:
        """Whether the fit is known to be positive in the cells of all parts."""
        return all(part.is_proven for part in self.parts)

    @property
    def supports(self) -> Marginals:
        """Marginals of 1, where a part's fit is positive; of parts of which the released ones do not say it."""
        schema, covered = self.table.flat.schema, self.known.flat.structure.covered
        found = {}
        for part in self.parts:
            kept = part.variables & covered
            if kept and not part.is_public:
                cells = part.cells[:, columns(kept, part.variables)]
                found[kept] = Marginal(schema, kept, cells, np.ones(len(cells), np.int64))
        return found

    @property
    def parameters(self) -> int | None:
        """How many can be estimated, with the constant; None where that is not known.

        What two parts can both fit are functions of their separator's positive cells, which count in both.
        """
        shared = sum(len(Marginal.of(self.table.flat, s)) for s in self.known.structure.components.separators)
        found = [part.parameters for part in self.parts if part.parameters is not None]
        return sum(found) - shared if len(found) == len(self.parts) else None

    @cached_property
    def listed(self) -> list[SubTable]:
        """The terms, those of fewest variables first; none where there are more than 4,096."""
        few = self.known.release.sub_tables_with_total(self.table.schema) <= MOST_TERMS
        return terms_of(self.known) if few else []

    def terms(self, fitted_cells: int, listed: Fit | None) -> tuple[Term, ...]:
        """Each term listed.

        fitted_cells  how many cells of the full table have a positive fit
        listed        these, where the table is without levels; None where they are too many
        """
        schema = self.table.schema
        sizes = [parameters_of(term, schema) for term in self.listed]
        found: list[int] | None = sizes if fitted_cells == schema.cells else None
        if found is None and listed is not None:
            found = ranks(listed.cells, listed.variables, self.known)
        return tuple(map(Term, self.listed, sizes, repeat(None) if found is None else found))


def terms_of(known: Knowledge) -> list[SubTable]:
    """The released sub-tables with a parameter: each after all that are within it."""
    return sorted(known.structure.essential.views(known.schema), key=lambda s: (st.dimension(s), s))


def parameters_of(term: SubTable, schema: Schema) -> int:
    """Free ones of a term."""
    free = free_categories(schema)
    return prod(free[v] for v in st.members(schema.levels.telling(term)))


def _positive(table: Table, known: Knowledge) -> tuple[Codes, bool]:
    """The cells of a table without levels where the fit is positive, and whether that is proven of all of them."""
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
    """(n,) in which cells a table with the true marginals is positive; None where the solver does not say.

    Changes that keep the marginals are scaled so small that no other count goes below 0, so that only where the count
    is 0 they must not be. Of the empty cells as many as can be go up by 1 or more, which may be all in one change.
    """
    from scipy.sparse import csc_array, hstack, vstack

    groups = [schema.keys.keep(st.members(s)).distinct(cells[:, list(st.members(s))]) for s in sub_tables]
    one, own = np.ones(len(cells)), np.arange(len(cells))
    sums = vstack([csc_array((one, (group, own)), (len(first), len(cells))) for first, group in groups], format="csc")
    up = sums[:, np.flatnonzero(empty)]
    matrix = hstack([up, up, sums[:, np.flatnonzero(~empty)]], format="csc")
    counted, more, free = np.split(np.arange(matrix.shape[1]), np.cumsum([up.shape[1], up.shape[1]]))
    costs, lower, upper = np.zeros((3, matrix.shape[1]))
    costs[counted], upper[counted], upper[more] = -1, 1, np.inf
    lower[free], upper[free] = -np.inf, np.inf
    found = cheapest(costs, lower, upper, [Sums(matrix, 0, 0)])
    if found is None:
        return None
    positive = ~empty
    positive[empty] = found[counted] > 0.5
    return positive


def ranks(cells: Codes, variables: SubTable, known: Knowledge) -> list[int] | None:
    """Of each term of a model by how much it raises the rank of the matrix on these cells; None where that is large.

    cells  (n, variables) codes, of all levels

    In whole numbers modulo a prime of 31 bits, the cells having random weights: what is found is right, but for a
    chance of less than one in 10^5 that it is too low. O(parameters^3).
    """
    from scipy.sparse import csc_array, hstack

    schema = known.schema
    # before they are listed: each has a parameter at least
    if degrees_of_freedom(known.release, schema) >= MOST_PARAMETERS:
        return None
    terms = terms_of(known)
    if len(cells) * len(terms) > MOST_ENTRIES:
        return None
    blocks = [_indicators(cells[:, columns(schema.levels.telling(term), variables)]) for term in terms]
    matrix = hstack([csc_array((np.ones(len(row), np.int64), (row, own)), (len(cells), n)) for row, own, n in blocks])
    weights = np.random.default_rng(0).integers(1, PRIME, len(cells))
    products = (matrix.T @ (matrix * weights[:, None])).toarray() % PRIME
    independent = is_independent(products)
    ends = np.cumsum([0, *(n for _, _, n in blocks)])
    return [int(independent[start:end].sum()) for start, end in pairwise(ends.tolist())]


def _indicators(codes: Codes) -> tuple[Places, Places, int]:
    """Of each combination of categories that occurs, none of them a variable's first, which cells have it.

    (m,) cells and the column of each, and how many columns there are.
    """
    rows = np.flatnonzero((codes > 0).all(axis=1))
    found, column = np.unique(codes[rows], axis=0, return_inverse=True)
    return rows, column.reshape(-1), len(found)
