"""Structural zeros: cells that are known to be impossible, such as employed persons under 15."""

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
    """A cell is impossible if, for every (variable, codes) of some pattern, its code is one of these.

    Patterns, their variables and their codes are sorted and unique, so that equal sets of patterns are equal.
    """

    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(sorted({canonical(pattern) for pattern in self.patterns})))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    @property
    def subtables(self) -> tuple[SubTable, ...]:
        """By pattern the variables that it names, as bits: the pattern's cells of that marginal are 0."""
        return tuple(st.of(v for v, _ in pattern) for pattern in self.patterns)

    def contains(self, cells: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.bool_]:
        """(n,) whether each of the (n, axes) cells is impossible; one pass over the cells for each pattern."""
        impossible = np.zeros(len(cells), np.bool_)
        for pattern in self.patterns:
            # pattern by pattern: memory is a few flags for each cell
            impossible |= matches(pattern, cells, schema)
        return impossible

    def of_levels(self, schema: Schema) -> StructuralZeros:
        """These zeros, and for levels as variables of their own: each follows from the finer ones.

        For each category of a coarser level, the categories of the finer one that are outside it.
        """
        patterns = [*self.patterns]
        for fine in range(len(schema)):
            for coarse in st.members(schema.levels.just_coarser(fine)):
                within = np.zeros(schema.sizes[fine], np.int64)
                within[schema.levels.groups[fine]] = schema.levels.groups[coarse]
                for category in range(schema.sizes[coarse]):
                    others = np.flatnonzero(within != category)
                    patterns.append(((coarse, (category,)), (fine, tuple(others.tolist()))))
        return StructuralZeros(tuple(patterns))

    def within(self, subtable: SubTable) -> StructuralZeros:
        """The impossible cells of a marginal, with the numbering of the sub-table.

        Patterns with other variables are dropped. Several of them may together exclude a marginal cell: that is lost,
        so the marginal of a feasible table is feasible, but not always vice versa.
        """
        # a pattern cut to the remaining variables would forbid marginal cells with records of other categories
        place = {v: new for new, v in enumerate(st.members(subtable))}
        whole = (p for p, named in zip(self.patterns, self.subtables, strict=True) if st.is_within(named, subtable))
        return StructuralZeros(tuple(tuple((place[v], codes) for v, codes in p) for p in whole))

    def excluded(self, subtable: SubTable, schema: Schema) -> npt.NDArray[np.bool_]:
        """(categories of its axes) which cells of the sub-table contain impossible cells only, so that they are 0.

        Patterns without a common variable outside the sub-table exclude a cell together only if one of them does alone;
        the others are examined on one grid. InputError if a grid has more than 2^26 cells.
        """
        if self and not schema.levels.is_flat:
            return self._excluded_by_cells(subtable, schema)
        flags = np.zeros([schema.sizes[v] for v in st.members(schema.levels.finest(subtable))], np.bool_)
        for patterns in self._sharing(subtable):
            variables = st.members(subtable) + st.members(
                st.union(st.of(v for v, _ in p) for p in patterns) & ~subtable
            )
            sizes = [schema.sizes[v] for v in variables]
            if prod(sizes) > MOST_DENSE:
                raise InputError(
                    f"{prod(sizes)} cells of {'*'.join(schema.names[v] for v in variables)} decide which cells of "
                    f"{st.label(subtable, schema)} are impossible, at most {MOST_DENSE} are checked; keep fewer "
                    "variables, or fewer patterns"
                )
            grid = np.zeros(sizes, np.bool_)
            for named in map(dict, patterns):
                grid[np.ix_(*(named.get(v, range(schema.sizes[v])) for v in variables))] = True
            flags |= grid.all(axis=tuple(range(flags.ndim, grid.ndim)))
        return flags

    def _excluded_by_cells(self, subtable: SubTable, schema: Schema) -> npt.NDArray[np.bool_]:
        """As `excluded`, by examining every cell of the sub-table and the patterns' variables."""
        named = schema.levels.closed(subtable | st.union(self.subtables))
        inside, own = schema.restrict(st.members(named)), st.within(subtable, named)
        if inside.cells > MOST_DENSE:
            raise InputError(
                f"{inside.cells} cells of {st.label(named, schema)} decide which cells of {st.label(subtable, schema)} "
                f"are impossible, at most {MOST_DENSE} are checked; keep fewer variables, or fewer patterns"
            )
        cells = inside.keys.unpack(np.arange(inside.cells))
        space = inside.space(st.members(inside.levels.finest(own)))
        place = space.pack(inside.marginal_cells(cells, own))
        possible = np.bincount(place, ~self.within(named).contains(cells, inside), minlength=space.cells)
        flags: npt.NDArray[np.bool_] = (possible == 0).reshape(space.sizes)
        return flags

    def _sharing(self, subtable: SubTable) -> list[list[Pattern]]:
        groups: list[tuple[SubTable, list[Pattern]]] = []
        for pattern, named in zip(self.patterns, self.subtables, strict=True):
            shared = [group for group in groups if group[0] & named & ~subtable]
            joined = st.union([named & ~subtable, *(outside for outside, _ in shared)])
            patterns = [pattern, *(one for _, others in shared for one in others)]
            groups = [*(group for group in groups if group not in shared), (joined, patterns)]
        return [patterns for _, patterns in groups]

    def include(self, other: StructuralZeros) -> bool:
        return other.patterns == self.patterns or set(other.patterns) <= set(self.patterns)

    def join(self, other: StructuralZeros) -> StructuralZeros:
        return StructuralZeros((*self.patterns, *other.patterns))

    def labels(self, schema: Schema) -> list[str]:
        """Each pattern by names: `age = under 15 and employed = yes or partly`."""
        return [_label(pattern, schema) for pattern in self.patterns]

    def check_names(self, schema: Schema) -> None:
        """InputError if a pattern names something unknown, or excludes everything."""
        for pattern in self.patterns:
            _check_pattern(pattern, schema)

    def check(self, schema: Schema, cells: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> None:
        """InputError if a pattern does not fit the schema, or one of the (n, axes) non-zero cells is in it."""
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
MOST_DENSE = 1 << 26  # cells of a table or of flags in memory at once


def canonical(pattern: Pattern) -> Pattern:
    """The pattern with variables and codes sorted and unique."""
    return tuple(sorted((int(v), tuple(sorted({int(code) for code in codes}))) for v, codes in pattern))


def matches(pattern: Pattern, cells: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.bool_]:
    """(n,) whether each of (n, axes) cells has one of the codes of every variable of the pattern; () matches all."""
    matching = np.ones(len(cells), np.bool_)
    for v, codes in pattern:
        # of the axis: a level is looked up once for each category, not for each cell
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
    # codes are unique, so as many as categories are all; a pattern without variables matches every cell
    if all(len(codes) == schema.sizes[v] for v, codes in pattern):
        what = _label(pattern, schema) or "it names no variable"
        raise InputError(f"a structural zero makes every cell impossible: {what}; name the categories it is about")
