"""Release: a set of sub-tables closed downwards, given by its released frontier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable

Number = TypeVar("Number", int, Fraction)

_BASE = 1 << 64  # more than the sub-tables of a dimension: binomials of 63 stay below 2^60


@dataclass(frozen=True)
class Release:
    """A release: every sub-table within a frontier element is public, and so is the grand total.

    `frontier` holds the maximal sub-tables, by decreasing dimension and then by number. Create it with `Release.of`,
    which sorts and drops implied elements.

    Examples
    --------
    >>> sdc.Release.of([0b11, 0b1]).frontier  # bit sets of variables
    (3,)
    """

    frontier: tuple[SubTable, ...]

    @staticmethod
    def of(subtables: Iterable[SubTable]) -> Release:
        """The downward closure of the given sub-tables."""
        return Release(st.maximal([st.GRAND_TOTAL, *subtables]))

    def __contains__(self, subtable: SubTable) -> bool:
        # loops over the frontier, not over all sub-tables: an element of 40 variables has 2^40
        return any(st.is_within(subtable, element) for element in self.frontier)

    def contains(self, other: Release) -> bool:
        """Whether every sub-table of `other` is released."""
        return all(map(st.within_any(self.frontier), other.frontier))

    def parts_of(self, subtable: SubTable) -> tuple[SubTable, ...]:
        """The largest released parts of a sub-table: its projection onto the frontier."""
        return st.maximal(element & subtable for element in self.frontier)

    def add(self, subtable: SubTable) -> Release:
        """The release with one more sub-table and all within it."""
        if subtable in self:
            return self
        left = [element for element in self.frontier if not st.is_within(element, subtable)]
        return Release(tuple(sorted([*left, subtable], key=lambda s: (-st.dimension(s), s))))

    def join(self, other: Release) -> Release:
        """The smallest release that contains both."""
        return Release.of([*self.frontier, *other.frontier])

    @cached_property
    def variables(self) -> SubTable:
        """The variables of the released sub-tables."""
        return st.union(self.frontier)

    def within(self, subtable: SubTable) -> Release:
        """The release of a marginal table: each element's variables in the sub-table, with its numbering."""
        # renumbering changes neither containment nor order
        left = Release.of({element & subtable for element in self.frontier}).frontier
        return Release(tuple(st.within(element, subtable) for element in left))

    def closed(self, schema: Schema) -> Release:
        """The release with coarser levels, see `Levels.closed`."""
        return self if schema.levels.is_flat else Release.of(map(schema.levels.closed, self.frontier))

    def by_dimension(self, schema: Schema) -> tuple[int, ...]:
        """Number of sub-tables with 0, 1, ... variables (levels of an axis count as one); the grand total is included.

        This and the following methods need a closed release.
        """
        # with the base for every variable, a sub-table of dimension k counts base^k: the digits of the sum are the
        # numbers
        digits = sum_of_products(self, (_BASE,) * len(schema), schema)
        most = max(st.ways(element, schema) for element in self.frontier)
        return tuple(digits // _BASE**k % _BASE for k in range(most + 1))

    def sub_tables(self, schema: Schema) -> int:
        """DU(R), [KDSF] eq. 5, without the grand total."""
        return self.sub_tables_with_total(schema) - 1

    def sub_tables_with_total(self, schema: Schema) -> int:
        """The number of sub-tables with the grand total."""
        return sum_of_products(self, (1,) * len(schema), schema)

    def views(self, schema: Schema) -> list[SubTable]:
        """Every sub-table, by decreasing dimension, then by number; at least 2^dimension of them."""
        seen = {subset for element in self.frontier for subset in st.subsets(element, schema)}
        return sorted(seen, key=lambda s: (-st.ways(s, schema), s))

    def listed(self, variables: int) -> npt.NDArray[np.bool_]:
        """(2^variables,) whether each sub-table, by number, is released; for at most some 20 variables."""
        released = np.zeros(1 << variables, np.bool_)
        released[list(self.frontier)] = True
        for v in range(variables):
            without, with_it = np.moveaxis(released.reshape(-1, 2, 1 << v), 1, 0)
            # views of the array: one pass for each variable removes it from released sub-tables; all passes reach every
            # subset
            without |= with_it
        return released

    def minimal_uncovered(self, variables: int) -> tuple[SubTable, ...]:
        """The minimal unreleased sub-tables, by dimension and then by number; 2^variables bytes."""
        released = self.listed(variables)
        minimal = ~released
        for v in range(variables):
            without = np.moveaxis(released.reshape(-1, 2, 1 << v), 1, 0)[0]
            # only a sub-table with v has a child without it, which must be released
            np.moveaxis(minimal.reshape(-1, 2, 1 << v), 1, 0)[1] &= without
        return tuple(sorted(np.flatnonzero(minimal).tolist(), key=lambda s: (st.dimension(s), s)))


def sum_of_products(release: Release, values: Sequence[Number], schema: Schema) -> Number:
    """Sum over the released sub-tables, with the grand total, of the product of their (variables,) values.

    The finest variable of each axis counts; the grand total counts 1. Exact for integers and fractions. It splits on
    axes instead of listing up to 2^63 sub-tables. The release is closed. IndexError for a variable without a value.
    """
    return _sum_below(release.frontier, values, schema, {})


def _sum_below(
    frontier: tuple[SubTable, ...],
    values: Sequence[Number],
    schema: Schema,
    known: dict[tuple[SubTable, ...], Number],
) -> Number:
    # inclusion-exclusion over the frontier has 2^elements terms; parts of a split on an axis are often equal
    if frontier in known:
        return known[frontier]
    if len(frontier) == 1:
        total = _sum_of_subsets(frontier[0], values, schema)
    else:
        # one of the first two lacks it, so the part with it has fewer elements; all parts have fewer axes
        own = schema.levels.of_axis[(frontier[0] ^ frontier[1]).bit_length() - 1]
        total = _sum_below(st.maximal(element & ~own for element in frontier), values, schema, known)
        for v in st.members(own):
            if having := [element & ~own for element in frontier if st.has(element, v)]:
                total += values[v] * _sum_below(st.maximal(having), values, schema, known)
    known[frontier] = total
    return total


def _sum_of_subsets(element: SubTable, values: Sequence[Number], schema: Schema) -> Number:
    """The sum below one element: of each axis nothing, or one of its variables."""
    by_axis: dict[int, Number] = {}
    one = type(values[0])(1)
    for v in st.members(element):
        axis = schema.levels.axis_of[v]
        by_axis[axis] = by_axis.get(axis, one) + values[v]
    return prod(by_axis.values(), start=one)


NOTHING = Release.of([])
"""The grand total only, which is always public."""


def release_facts(release: Release, schema: Schema) -> dict[str, Any]:
    """For documents: the frontier by names, and the number of sub-tables."""
    return {
        "frontier": [st.names(element, schema) for element in release.frontier],
        "sub_tables": release.sub_tables(schema),
        "sub_tables_with_total": release.sub_tables_with_total(schema),
    }
