"""Structural zeros: cells that everybody knows to be impossible, such as employed persons under 15."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable

Pattern: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class StructuralZeros:
    """A cell is impossible where for every (variable, codes) of some pattern its code is one of these.

    Patterns, their variables and their codes are sorted and each occurs once, in whatever order they are given, so
    that equal sets of patterns are equal.
    """

    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(sorted({canonical(pattern) for pattern in self.patterns})))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    @property
    def subtables(self) -> tuple[SubTable, ...]:
        """The variables that each pattern names, as a set of bits: in its marginal the pattern's cells are 0."""
        return tuple(st.of(v for v, _ in pattern) for pattern in self.patterns)

    def contains(self, cells: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.bool_]:
        """(n,) whether each of the (n, axes) cells is impossible; one pass over the cells a pattern."""
        impossible = np.zeros(len(cells), np.bool_)
        for pattern in self.patterns:
            # a pattern at a time: memory is a few flags a cell, however many patterns there are
            impossible |= matches(pattern, cells, schema)
        return impossible

    def of_levels(self, schema: Schema) -> StructuralZeros:
        """These, and of a schema's levels taken as variables of their own that each follows from the finer ones.

        Of a level and one that it tells, for each category of the second the categories of the first elsewhere.
        """
        told = [*self.patterns]
        for fine in range(len(schema)):
            for coarse in st.members(schema.levels.just_coarser(fine)):
                within = np.zeros(schema.sizes[fine], np.int64)
                within[schema.levels.groups[fine]] = schema.levels.groups[coarse]
                for category in range(schema.sizes[coarse]):
                    others = np.flatnonzero(within != category)
                    told.append(((coarse, (category,)), (fine, tuple(others.tolist()))))
        return StructuralZeros(tuple(told))

    def within(self, subtable: SubTable) -> StructuralZeros:
        """What is known to be impossible in the marginal of the sub-table, variables numbered as there.

        A pattern says something of a marginal cell only where the sub-table keeps all its variables; the others are
        left out. Several of them may together exclude a marginal cell: that is lost, so the marginal of a feasible
        table is feasible, and not always the other way round.
        """
        # a pattern cut to the variables kept would forbid marginal cells that records of other categories are in
        place = {v: new for new, v in enumerate(st.members(subtable))}
        kept = (p for p, named in zip(self.patterns, self.subtables, strict=True) if st.is_within(named, subtable))
        return StructuralZeros(tuple(tuple((place[v], codes) for v, codes in p) for p in kept))

    def excluded(self, subtable: SubTable, schema: Schema) -> npt.NDArray[np.bool_]:
        """(categories of its axes) which cells of the sub-table hold impossible cells alone: known to be 0.

        Patterns that share no variable outside the sub-table exclude a cell together only where one of them does so
        alone, so that those that do are looked at in one grid. InputError where a grid has more than 2^26 cells.
        """
        if self and not schema.levels.is_flat:
            return self._excluded_by_cells(subtable, schema)
        flags = np.zeros([schema.sizes[v] for v in st.members(schema.levels.telling(subtable))], np.bool_)
        for patterns in self._sharing(subtable):
            kept = st.members(subtable) + st.members(st.union(st.of(v for v, _ in p) for p in patterns) & ~subtable)
            sizes = [schema.sizes[v] for v in kept]
            if prod(sizes) > MOST_DENSE:
                raise InputError(
                    f"{prod(sizes)} cells of {'*'.join(schema.names[v] for v in kept)} tell which cells of "
                    f"{st.label(subtable, schema)} are impossible, at most {MOST_DENSE} are looked at; keep fewer "
                    "variables, or fewer patterns"
                )
            grid = np.zeros(sizes, np.bool_)
            for named in map(dict, patterns):
                grid[np.ix_(*(named.get(v, range(schema.sizes[v])) for v in kept))] = True
            flags |= grid.all(axis=tuple(range(flags.ndim, grid.ndim)))
        return flags

    def _excluded_by_cells(self, subtable: SubTable, schema: Schema) -> npt.NDArray[np.bool_]:
        """The same by a look at every cell of the sub-table and what the patterns name."""
        named = schema.levels.closed(subtable | st.union(self.subtables))
        inside, own = schema.restrict(st.members(named)), st.within(subtable, named)
        if inside.cells > MOST_DENSE:
            raise InputError(
                f"{inside.cells} cells of {st.label(named, schema)} tell which cells of {st.label(subtable, schema)} "
                f"are impossible, at most {MOST_DENSE} are looked at; keep fewer variables, or fewer patterns"
            )
        cells = inside.keys.unpack(np.arange(inside.cells))
        space = inside.space(st.members(inside.levels.telling(own)))
        place = space.pack(inside.marginal_cells(cells, own))
        possible = np.bincount(place, ~self.within(named).contains(cells, inside), minlength=space.cells)
        flags: npt.NDArray[np.bool_] = (possible == 0).reshape(space.sizes)
        return flags

    def _sharing(self, subtable: SubTable) -> list[list[Pattern]]:
        """The patterns in groups without a common variable outside the sub-table."""
        groups: list[tuple[SubTable, list[Pattern]]] = []
        for pattern, named in zip(self.patterns, self.subtables, strict=True):
            shared = [group for group in groups if group[0] & named & ~subtable]
            joined = st.union([named & ~subtable, *(outside for outside, _ in shared)])
            patterns = [pattern, *(one for _, others in shared for one in others)]
            groups = [*(group for group in groups if group not in shared), (joined, patterns)]
        return [patterns for _, patterns in groups]

    def include(self, other: StructuralZeros) -> bool:
        """Whether every pattern of the other is one of these."""
        return other.patterns == self.patterns or set(other.patterns) <= set(self.patterns)

    def join(self, other: StructuralZeros) -> StructuralZeros:
        """The patterns of both."""
        return StructuralZeros((*self.patterns, *other.patterns))

    def labels(self, schema: Schema) -> list[str]:
        """Each pattern by names: `age = under 15 and employed = yes or partly`."""
        return [_label(pattern, schema) for pattern in self.patterns]

    def check_names(self, schema: Schema) -> None:
        """InputError where a pattern names what the schema does not have, or all of it."""
        for pattern in self.patterns:
            _check_pattern(pattern, schema)

    def check(self, schema: Schema, cells: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> None:
        """InputError where a pattern does not fit the schema, or one of the (n, axes) non-zero cells is in it."""
        self.check_names(schema)
        for pattern in self.patterns:
            rows = np.flatnonzero(matches(pattern, cells, schema))
            if len(rows):
                raise InputError(
                    f"structural zeros contradict the data: {_label(pattern, schema)} is given as impossible, but "
                    f"{len(rows)} such cells have records; correct the pattern or the data",
                    "\n".join(
                        f"the cell {schema.written(cells[row])} has the count {counts[row]}"
                        for row in rows[:MOST_QUOTED]
                    ),
                )


NO_ZEROS = StructuralZeros(())
MOST_QUOTED = 100
MOST_DENSE = 1 << 26  # cells of a table or of flags that are held at once


def canonical(pattern: Pattern) -> Pattern:
    """The same with its variables and codes in order, each once."""
    return tuple(sorted((int(v), tuple(sorted({int(code) for code in codes}))) for v, codes in pattern))


def matches(pattern: Pattern, cells: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.bool_]:
    """(n,) whether each of (n, axes) cells has one of the codes of every variable of the pattern; () is in all."""
    matching = np.ones(len(cells), np.bool_)
    for v, codes in pattern:
        # of the axis: a level is looked up once a category, not once a cell
        matching &= np.isin(schema.levels.groups[v], codes)[cells[:, schema.levels.column_of[v]]]
    return matching


def _label(pattern: Pattern, schema: Schema) -> str:
    chosen = ((schema.variables[v], codes) for v, codes in pattern)
    return " and ".join(f"{v.name} = {' or '.join(v.categories[code] for code in codes)}" for v, codes in chosen)


def _check_pattern(pattern: Pattern, schema: Schema) -> None:
    variables = [v for v, _ in pattern]
    for v, codes in pattern:
        if not 0 <= v < len(schema):
            raise InputError(
                f"a structural zero names variable number {v}; the table has {len(schema)}, numbered from 0: "
                f"{', '.join(schema.names)}"
            )
        beyond = [code for code in codes if not 0 <= code < schema.sizes[v]]
        if beyond or not codes or variables.count(v) > 1:
            raise InputError(
                f"a structural zero names {schema.names[v]!r} {variables.count(v)} times, with the codes "
                f"{list(codes)}; name it once, with codes from 0 to {schema.sizes[v] - 1}"
            )
    # codes are each once, so as many as there are categories are all of them; a pattern that names no variable is in
    # every cell too
    if all(len(codes) == schema.sizes[v] for v, codes in pattern):
        what = _label(pattern, schema) or "it names no variable"
        raise InputError(f"a structural zero makes every cell impossible: {what}; name the categories it is about")
