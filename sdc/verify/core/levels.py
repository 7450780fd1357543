"""The variables of a table, axes and levels: what a sub-table implies, and which cells share categories."""

from collections import namedtuple
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[Any]
SubTable = frozenset[str]
Pattern = dict[str, frozenset[int]]  # cells with one of the codes of each variable; an absent variable allows all
Cells = dict[str, Array]  # codes of the variables and of the levels they imply, by cell
Coarser = namedtuple("Coarser", "axis groups")  # the level's category of each category of the axis
CORRUPT = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    OSError,
    RecursionError,
    pa.ArrowException,
)
"""The errors of readers for corrupt files."""


class Variable(namedtuple("Variable", "name categories of")):
    """An axis (`of` is None) or a level."""

    def __repr__(self) -> str:
        level = "" if self.of is None else f", of={self.of!r}"
        return f"Variable(name={self.name!r}, categories={self.categories!r}{level})"


class Variables:
    """The variables of a table by name, with their categories, and the levels that each implies, itself among them.

    The levels of an axis are different partitions, and the join of two is a level or the axis; otherwise ValueError.
    """

    def __init__(self, variables: tuple[Variable, ...]) -> None:
        self.categories, self.axes = {v: c for v, c, _ in variables}, {v: c for v, c, of in variables if of is None}
        self.groups, self.implied = dict[str, Array](), dict[str, SubTable]()
        families = {axis: [axis] for axis in self.axes}
        for v, categories, of in variables:
            axis, groups = of or (v, range(len(categories)))
            is_whole = axis in self.axes and len(groups) == len(self.axes[axis])
            check(is_whole and {*groups} == {*range(len(categories))}, f"the level {v!r} is not a partition of an axis")
            self.groups[v] = np.array(groups, "<u2")
            families[axis] += [v] * (v != axis)
        for axis, family in families.items():
            both = {(v, u): blocks_of([self.groups[v], self.groups[u]]) for v in family for u in family}
            own = [both[v, v] for v in family]
            is_known = all(own.count(blocks) == 1 for blocks in both.values())
            check(is_known, f"two levels of {axis!r} are the same, or their join is not a level")
            self.implied |= {v: frozenset(u for u in family if both[v, u] == both[v, v]) for v in family}

    def closed(self, subtable: SubTable) -> SubTable:
        """With all implied levels: of each axis those of the coarsest variable that implies the given ones."""
        found = subtable
        for family in (self.implied[axis] for axis in self.axes):
            if own := subtable & family:
                found |= min((self.implied[v] for v in family if own <= self.implied[v]), key=len)
        return found

    def finest(self, subtable: SubTable) -> list[str]:
        """Its variables without those that others of it imply, in order."""
        implied = frozenset[str]().union(*(self.implied[v] - {v} for v in subtable))
        return [v for v in self.categories if v in subtable - implied]

    def columns(self, cells: Cells, subtable: SubTable) -> list[Array]:
        """The columns that identify the marginal cells of the sub-table."""
        return [cells[v] for v in self.finest(subtable)]

    def group(self, fine: str, level: str) -> Array:
        """(categories of the first,) codes of an implied level."""
        found = np.empty(len(self.categories[fine]), "<u2")
        found[self.groups[fine]] = self.groups[level]
        return found

    def with_levels(self, cells: Cells) -> Cells:
        """Cells, with at most one variable for each axis, and the levels that these imply."""
        pairs = ((v, fine) for v in self.categories for fine in cells if v in self.implied[fine])
        return {v: cells[v] if v == fine else self.group(fine, v)[cells[fine]] for v, fine in pairs}

    def pattern(self, listed: Any) -> Pattern:
        known = all(type(v) is int and 0 <= v < len(self.categories) for v, _ in listed)
        check(known, "a pattern names an unknown variable")
        found = {[*self.categories][v]: frozenset(codes) for v, codes in listed}
        known = all(codes and codes <= {*range(len(self.categories[v]))} for v, codes in found.items())
        check(known and len(found) == len(listed), "a pattern names an unknown category, or a variable twice")
        return found

    def subtables(self, listed: Any, among: Iterable[str] | None = None) -> list[SubTable]:
        """Closed sub-tables from lists of variables; ValueError for an unknown variable (`among` restricts them)."""
        among = self.categories if among is None else among
        check(all(isinstance(some, list) for some in [listed, *listed]), "a list of lists of variables is expected")
        unknown = {str(v) for subtable in listed for v in subtable} - {*among}
        check(not unknown, f"unknown variable {min(unknown, default='')!r}, the table has {', '.join(among)}")
        return [self.closed(frozenset(subtable)) for subtable in listed]

    def label(self, subtable: SubTable) -> str:
        return "*".join(self.finest(subtable)) or "(total)"


def variable_of(recorded: Any) -> Variable:
    of = recorded.get("of")
    level = None if of is None else Coarser(of["axis"], tuple(of["groups"]))
    return Variable(recorded["name"], tuple(recorded["categories"]), level)


def keys_of(columns: Iterable[Array], key: Array) -> Array:
    """(n,) dense numbers, equal for equal rows and in the order of the rows; `key` is the first column."""
    for column in columns:
        values = int(column.max(initial=0)) + 1
        if size_of(key) * values >= 1 << 62:  # ranks instead, before a number could overflow
            key = np.unique(key, return_inverse=True)[1]
        key = key * values + column
    return key if size_of(key) <= 4 * len(key) else np.unique(key, return_inverse=True)[1]


def size_of(group: Array) -> int:
    return int(group.max(initial=-1)) + 1


def blocks_of(levels: list[Array]) -> bytes:
    """A partition of an axis: for each category the first one with the same groups."""
    _, first, block = np.unique(keys_of(levels, 0 * levels[0].astype(np.int64)), return_index=True, return_inverse=True)
    return first[block].tobytes()


def check(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)
