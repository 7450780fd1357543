"""Schema: the variables of a table and their categories, in order; levels are coarser views of variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sdc.model.documents import InDocuments
from sdc.model.errors import InputError, many, nearest
from sdc.model.keys import KeySpace
from sdc.model.levels import Groups, Levels, numbered

MAX_VARIABLES = 63  # a sub-table is a bit set, and kernels hold bit sets in int64
MAX_CATEGORIES = 65_536  # a code is a uint16

_NOT_PLAIN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # changes of the direction of text
    "\u2028\u2029\ufeff\ud800-\udfff]"  # other line ends, byte order marks, surrogates
)


def is_plain(text: str) -> bool:
    """Whether a text has no control characters and none that changes the direction of text."""
    return _NOT_PLAIN.search(text) is None


@dataclass(frozen=True)
class Coarser:
    """The groups of a level.

    axis    the name of its axis, which is not a level
    groups  (categories of the axis,) the level's category of each
    """

    axis: str
    groups: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Variable:
    """A categorical variable: an axis, or a level of one.

    Cells store the codes of axes only; those of levels follow.

    of  None for an axis; the groups of a level
    """

    name: str
    categories: tuple[str, ...]
    of: Coarser | None = None

    def __repr__(self) -> str:
        level = f", of={self.of!r}" if self.of else ""
        return f"Variable(name={self.name!r}, categories={self.categories!r}{level})"

    @property
    def is_merged(self) -> bool:
        """Whether a label looks like a merged category."""
        return any(" or " in category or " to " in category for category in self.categories)

    def __post_init__(self) -> None:
        # sub-tables are written `a*b`, lists of variables `a,b`: names must not look like these
        if not self.name or set(self.name) & set("*,") or self.name[0] in "=+-@":
            raise InputError(
                f"variable {self.name!r}: a name is not empty, has no '*' or ',' and does not begin with = + - or @; "
                "rename it"
            )
        if not is_plain(self.name):
            raise InputError(f"variable {self.name!r} has a control character in its name; rename it")
        if hidden := [category for category in self.categories if not is_plain(category)]:
            raise InputError(
                f"variable {self.name!r} has {many(len(hidden), 'category')} with a control character or one that "
                "turns the "
                "direction of text, so that what is read is not what is there; recode them",
                f"categories {hidden[:100]}",
            )
        if not self.categories:
            raise InputError(f"variable {self.name!r} has no categories; give it at least one")
        if len(set(self.categories)) != len(self.categories):
            raise InputError(
                f"variable {self.name!r} names a category twice; name each once", f"categories {list(self.categories)}"
            )
        if len(self.categories) > MAX_CATEGORIES:
            raise InputError(
                f"variable {self.name!r} has {len(self.categories)} categories; at most {MAX_CATEGORIES} can be coded"
            )


@dataclass(frozen=True)
class Schema:
    """The variables of a table, axes and levels; variable v is bit v of every sub-table.

    A variable implies its coarser levels, and two levels of an axis imply their common refinement. So sub-tables are
    closed and named by their finest variables, see `Levels`. Levels of an axis are different partitions, and the common
    refinement of two overlapping ones is a level or the axis: a closed sub-table has one finest variable of each axis.
    Otherwise InputError, see `with_refinements`.
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        names = [variable.name for variable in self.variables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"variable {twice[0]!r} occurs {names.count(twice[0])} times; rename or drop one")
        # a table needs a variable: without one it would be its total, and a cell would have no codes
        if not 1 <= len(names) <= MAX_VARIABLES:
            raise InputError(f"{len(names)} variables; a table has 1 to {MAX_VARIABLES}, choose fewer in `variables`")
        for variable in self.variables:
            if variable.of is not None:
                self._check_level(variable, variable.of)
        if not self.levels.is_flat:
            _check_refinements(self)

    def _check_level(self, level: Variable, of: Coarser) -> None:
        axis = next((v for v in self.variables if v.name == of.axis and v.of is None), None)
        if axis is None:
            raise InputError(
                f"{level.name!r} is a level of {of.axis!r}, which is not a variable of the table; correct the level"
            )
        if len(of.groups) != len(axis.categories) or set(of.groups) != set(range(len(level.categories))):
            raise InputError(
                f"{level.name!r} is not a partition of the {len(axis.categories)} categories of {axis.name!r}: each "
                "is in "
                f"one of its {len(level.categories)} groups, and each group has one; correct the level"
            )
        if len(level.categories) < 2:
            raise InputError(f"the level {level.name!r} of {axis.name!r} has one group, so it has no effect; drop it")

    def __len__(self) -> int:
        return len(self.variables)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each variable."""
        return tuple(len(variable.categories) for variable in self.variables)

    @cached_property
    def cells(self) -> int:
        """Number of cells with zeros; a Python int that may exceed 2^64."""
        return self.keys.cells

    @cached_property
    def keys(self) -> KeySpace:
        """Keys of the cells, from the codes of the axes."""
        return self.space(self.axes)

    def space(self, variables: Iterable[int]) -> KeySpace:
        """The cells of these variables, in the given order; none is a level of another."""
        return KeySpace(tuple(self.sizes[v] for v in variables))

    # Axes and levels

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The variables that are not levels, in order: cells have their codes."""
        return tuple(v for v, variable in enumerate(self.variables) if variable.of is None)

    @cached_property
    def levels(self) -> Levels:
        """The relations of levels."""
        axis_of, groups = [], []
        for v, of in enumerate(variable.of for variable in self.variables):
            axis_of.append(v if of is None else self.index(of.axis))
            groups.append(np.arange(self.sizes[v], dtype=np.uint16) if of is None else np.array(of.groups, np.uint16))
            groups[v].setflags(write=False)
        return Levels(tuple(axis_of), tuple(groups))

    @cached_property
    def spelled(self) -> int:
        """The levels with a label that names its categories, `a or b` or `a to c`, as a sub-table."""
        return sum(1 << v for v, level in enumerate(self.variables) if level.of is not None and self._spells(level))

    def _spells(self, level: Variable) -> bool:
        assert level.of is not None
        members: list[list[str]] = [[] for _ in level.categories]
        for name, group in zip(self.variables[self.index(level.of.axis)].categories, level.of.groups, strict=True):
            members[group].append(name)
        pairs = zip(members, level.categories, strict=True)
        return any(len(own) > 1 and label in (merged_label(own), f"{own[0]} to {own[-1]}") for own, label in pairs)

    def columns(self, codes: npt.NDArray[np.integer], variables: Sequence[int] | None = None) -> Groups:
        """(n, variables) codes of cells with (n, axes) codes: of the given variables, in that order, or of all."""
        if self.levels.is_flat:
            given: Any = codes if variables is None else codes[:, list(variables)]  # any integer type
            return cast(Groups, given)
        wanted = range(len(self)) if variables is None else variables
        found = np.empty((len(codes), len(wanted)), np.uint16)
        for place, v in enumerate(wanted):
            column = codes[:, self.levels.column_of[v]]
            found[:, place] = column if self.variables[v].of is None else self.levels.groups[v][column]
        return found

    def marginal_cells(self, codes: npt.NDArray[np.integer], subtable: int) -> Groups:
        """(n, axes of a closed sub-table) codes of the marginal cells of cells with (n, axes) codes."""
        finest = self.levels.finest(subtable)
        return self.columns(codes, [v for v in range(len(self)) if finest >> v & 1])

    def shared(self, subtable: int, codes: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether a cell with (n, axes) codes shares its marginal cell of a closed sub-table with other cells.

        That is so if, on some axis, its group at the finest level of the sub-table has several categories; for an axis
        without a variable in it, all categories are one group.
        """
        found = np.zeros(len(codes), np.bool_)
        for column, axis in enumerate(self.axes):
            chosen = subtable & self.levels.of_axis[axis]
            if chosen >> axis & 1:
                continue
            if not chosen:
                found |= self.sizes[axis] > 1
                continue
            groups = self.levels.groups[self.levels.finest(chosen).bit_length() - 1]
            found |= (np.bincount(groups) > 1)[groups][codes[:, column]]
        return found

    @cached_property
    def flat(self) -> Schema:
        """The same variables, none of them a level."""
        return self if self.levels.is_flat else Schema(tuple(Variable(v.name, v.categories) for v in self.variables))

    # Names

    def index(self, name: str) -> int:
        """Position of the variable called `name`; InputError if there is none."""
        if name not in self.names:
            raise InputError(f"unknown variable {name!r}; {nearest(name, self.names, 'the table has')}")
        return self.names.index(name)

    def named(self, cell: Iterable[int]) -> dict[str, str]:
        """The category of each axis in a cell, by name."""
        axes = (self.variables[axis] for axis in self.axes)
        return {v.name: v.categories[code] for v, code in zip(axes, cell, strict=True)}

    def cell(self, named: Mapping[str, str]) -> tuple[int, ...]:
        """The inverse of `named`; ValueError for unknown names."""
        axes = [self.variables[axis] for axis in self.axes]
        if named.keys() != {axis.name for axis in axes}:
            raise ValueError(f"a category of each of {', '.join(axis.name for axis in axes)} is expected")
        return tuple(axis.categories.index(named[axis.name]) for axis in axes)

    def written(self, cell: Iterable[int]) -> str:
        """A cell in messages: `age = old, sex = f`."""
        return ", ".join(f"{name} = {category}" for name, category in self.named(cell).items())

    def restrict(self, variables: Iterable[int]) -> Schema:
        """The schema of the given variables, in the given order; the finest of each axis becomes an axis.

        ValueError if no variable of an axis implies the others: close the sub-table first.
        """
        chosen = tuple(variables)
        if self.levels.is_flat:
            return Schema(tuple(self.variables[v] for v in chosen))
        return Schema(tuple(self._within(v, chosen) for v in chosen))

    def _within(self, variable: int, chosen: Sequence[int]) -> Variable:
        own = self.variables[variable]
        others = [v for v in chosen if self.levels.axis_of[v] == self.levels.axis_of[variable]]
        finest = next((v for v in others if all(v == u or self.levels.coarser[v] >> u & 1 for u in others)), None)
        if finest is None:
            names = ", ".join(self.names[v] for v in others)
            raise ValueError(f"none of {names} implies the others, close the sub-table")
        if finest == variable:
            return replace(own, of=None)
        group = np.zeros(self.sizes[finest], np.int64)
        group[self.levels.groups[finest]] = self.levels.groups[variable]
        return replace(own, of=Coarser(self.names[finest], tuple(group.tolist())))


def merged_label(names: Sequence[str], adjacent: bool = False) -> str:
    """The label of merged categories: `a or b`; for several neighbours `a to c`."""
    return f"{names[0]} to {names[-1]}" if adjacent and len(names) > 2 else " or ".join(names)


def _check_refinements(schema: Schema) -> None:
    """InputError if two variables of an axis are equal, or their common refinement is missing."""
    for axis in schema.axes:
        of_axis = [v for v, other in enumerate(schema.levels.axis_of) if other == axis]
        block = {v: tuple(numbered(schema.levels.groups[v]).tolist()) for v in of_axis}
        for v, u in combinations(of_axis, 2):
            if block[v] == block[u]:
                raise InputError(
                    f"{schema.names[v]!r} and {schema.names[u]!r} are the same partition of the categories of "
                    f"{schema.names[axis]!r}; drop one of them"
                )
            if tuple(numbered(schema.levels.groups[v], schema.levels.groups[u]).tolist()) not in block.values():
                raise InputError(
                    f"the levels {schema.names[v]!r} and {schema.names[u]!r} of {schema.names[axis]!r} overlap, and "
                    "their common refinement is not a level; add it, see with_refinements"
                )


def with_refinements(variables: Sequence[Variable]) -> Schema:
    """The schema of these variables, with the common refinements of overlapping levels, called `a & b`, at the end.

    Raises InputError as a schema does, and for more than 63 variables.
    """
    found = list(variables)
    groups = {v.name: v.of.groups for v in variables if v.of is not None}
    of = {v.name: v.of.axis for v in variables if v.of is not None}
    axes = {v.name: len(v.categories) for v in variables if v.of is None}
    waiting = list(combinations(groups, 2))
    while waiting:
        one, other = waiting.pop(0)
        if of[one] != of[other]:
            continue
        block = numbered(groups[one], groups[other])
        known = [numbered(own) for name, own in groups.items() if of[name] == of[one]]
        if block.max() + 1 == axes[of[one]] or any(np.array_equal(block, other_block) for other_block in known):
            continue
        name = f"{one} & {other}"
        names = {v.name: v.categories for v in found}
        places = {int(b): (groups[one][c], groups[other][c]) for c, b in enumerate(block.tolist())}
        categories = tuple(f"{names[one][a]} & {names[other][b]}" for _, (a, b) in sorted(places.items()))
        waiting += [(name, each) for each in groups]
        groups[name], of[name] = tuple(block.tolist()), of[one]
        found.append(Variable(name, categories, Coarser(of[one], groups[name])))
    return Schema(tuple(found))


NamedCell: TypeAlias = Annotated[
    tuple[int, ...], InDocuments(dict[str, str], lambda cell, s: s.named(cell), lambda found, s: s.cell(found))
]
"""The codes of a cell; documents have its names."""
