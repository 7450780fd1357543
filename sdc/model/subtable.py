"""Sub-tables as bit sets: bit v is set if it has variable v. The only module with bit tricks.

Sub-tables of a schema with levels are closed sets, see `Levels.closed`; functions with a schema return such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, groupby, product
from math import prod
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model.documents import InDocuments
from sdc.model.errors import ReleaseError, nearest
from sdc.model.schema import Schema

SubTable: TypeAlias = Annotated[int, InDocuments(list[str], lambda t, s: names(t, s), lambda found, s: named(found, s))]

GRAND_TOTAL: SubTable = 0
MANY = 32  # from here on an array operation is faster than a loop


def of(variables: Iterable[int]) -> SubTable:
    """The sub-table of the given variables."""
    subtable = 0
    for variable in variables:
        subtable |= 1 << variable
    return subtable


def union(subtables: Iterable[SubTable]) -> SubTable:
    """The variables of any of them."""
    chosen = 0
    for subtable in subtables:
        chosen |= subtable
    return chosen


def varying(schema: Schema) -> SubTable:
    """The variables with two categories or more; the others change no marginal."""
    return of(v for v, size in enumerate(schema.sizes) if size > 1)


def full(variables: int) -> SubTable:
    """The full table of that many variables."""
    return (1 << variables) - 1


def members(subtable: SubTable) -> tuple[int, ...]:
    """The variables as ascending numbers from 0."""
    return tuple(_bits(subtable))


def _bits(subtable: SubTable) -> Iterator[int]:
    while subtable:
        # the lowest bit: one step for each variable that is in it
        low = subtable & -subtable
        yield low.bit_length() - 1
        subtable ^= low


def dimension(subtable: SubTable) -> int:
    """The number of variables."""
    return subtable.bit_count()


def has(subtable: SubTable, variable: int) -> bool:
    """Whether it has the variable."""
    return bool(subtable >> variable & 1)


def is_within(child: SubTable, parent: SubTable) -> bool:
    """Whether `parent` has every variable of `child`."""
    return child & ~parent == 0


def within(child: SubTable, parent: SubTable) -> SubTable:
    """The shared variables, numbered as in the parent's table."""
    return of(new for new, variable in enumerate(members(parent)) if has(child, variable))


def children(subtable: SubTable, schema: Schema) -> Iterator[SubTable]:
    """The sub-tables just below a closed one: a next coarser level of one axis, or the axis removed if there is none.

    Without levels, those with one variable fewer.
    """
    for v in _bits(schema.levels.finest(subtable)):
        rest = subtable & ~schema.levels.of_axis[v]
        coarser = schema.levels.just_coarser(v)
        yield from (rest | schema.levels.closed(1 << u) for u in _bits(coarser)) if coarser else (rest,)


def margins(subtable: SubTable, schema: Schema) -> Iterator[SubTable]:
    """The sub-tables with one axis fewer, including its levels; without levels the children."""
    return (subtable & ~schema.levels.of_axis[v] for v in _bits(schema.levels.finest(subtable)))


def over_fewer(subtable: SubTable, schema: Schema) -> Iterator[SubTable]:
    """The sub-tables over some of its axes (not none, not all), each at its levels."""
    axes = [own for axis in schema.axes if (own := subtable & schema.levels.of_axis[axis])]
    return (union(chosen) for size in range(1, len(axes)) for chosen in combinations(axes, size))


def parents(subtable: SubTable, schema: Schema) -> Iterator[SubTable]:
    """The sub-tables just above a closed one: a next finer variable of one axis, or one of the coarsest of a new axis.

    Without levels, those with one variable more.
    """
    if schema.levels.is_flat:
        yield from (subtable | 1 << v for v in _bits(full(len(schema)) & ~subtable))
        return
    levels = schema.levels
    for axis in schema.axes:
        held = levels.finest(subtable & levels.of_axis[axis])
        finer = levels.coarsest(levels.finer(held.bit_length() - 1) if held else levels.of_axis[axis])
        yield from (subtable | levels.closed(1 << v) for v in _bits(finer))


def subsets(subtable: SubTable, schema: Schema) -> Iterator[SubTable]:
    """Every sub-table within a closed one, with itself and the grand total; 2^dimension without levels."""
    if schema.levels.is_flat:
        return submasks(subtable)
    chosen = (members(subtable & schema.levels.of_axis[axis]) for axis in schema.axes)
    choices = [[GRAND_TOTAL, *(schema.levels.closed(1 << v) for v in own)] for own in chosen]
    return (union(chosen) for chosen in product(*choices))


def with_level(subtable: SubTable, level: int, schema: Schema) -> SubTable:
    """A sub-table with a level in place of its axis."""
    return schema.levels.closed(subtable & ~schema.levels.of_axis[level] | 1 << level)


def ways(subtable: SubTable, schema: Schema) -> int:
    """The number of variables, an axis and its levels counting as one."""
    return dimension(schema.levels.finest(subtable))


def many_ways(subtables: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.int64]:
    """(n,) `ways` of closed sub-tables."""
    held = [(subtables & np.array(schema.levels.of_axis[axis], subtables.dtype)) != 0 for axis in schema.axes]
    ways: npt.NDArray[np.int64] = np.sum(held, axis=0, dtype=np.int64)
    return ways


def cells(subtable: SubTable, schema: Schema) -> int:
    """The number of cells, zeros included."""
    return prod(schema.sizes[v] for v in _bits(schema.levels.finest(subtable)))


def submasks(subtable: SubTable) -> Iterator[SubTable]:
    """Every set of its bits, itself first and the empty one last: 2^dimension of them."""
    subset = subtable
    while True:
        yield subset
        if not subset:
            return
        # counts down within the bits of the sub-table: borrows pass over the missing ones
        subset = (subset - 1) & subtable


def within_any_of(subtables: Iterable[SubTable]) -> Iterator[SubTable]:
    """Every set of bits within one of these, each once."""
    seen: set[SubTable] = set()
    for subtable in subtables:
        for subset in submasks(subtable):
            if subset not in seen:
                seen.add(subset)
                yield subset


def maximal(subtables: Iterable[SubTable]) -> tuple[SubTable, ...]:
    """The sub-tables within no other, by decreasing dimension, then by number.

    Only a larger one can contain another, so each is compared with the larger ones at once.
    """
    chosen: list[SubTable] = []
    for _, level in groupby(sorted(set(subtables), key=lambda s: (-dimension(s), s)), key=dimension):
        is_within_larger = within_any(tuple(chosen))
        chosen += [s for s in level if not is_within_larger(s)]
    return tuple(chosen)


def minimal(subtables: Iterable[SubTable]) -> tuple[SubTable, ...]:
    """The sub-tables that contain no other, by dimension, then by number."""
    chosen: list[SubTable] = []
    for _, level in groupby(sorted(set(subtables), key=lambda s: (dimension(s), s)), key=dimension):
        # only a smaller one can be contained
        contains_smaller = containing_any(tuple(chosen))
        chosen += [s for s in level if not contains_smaller(s)]
    return tuple(chosen)


def containing_any(children: Sequence[SubTable]) -> Callable[[SubTable], bool]:
    """A test whether a sub-table contains one of the children; one array operation for many."""
    if len(children) < MANY:
        return lambda parent: any(child & ~parent == 0 for child in children)
    sets = np.array(children, np.int64)
    return lambda parent: bool((sets & parent == sets).any())


def within_any(parents: Sequence[SubTable]) -> Callable[[SubTable], bool]:
    """A test whether a sub-table is within one of the parents; one array operation for many."""
    if len(parents) < MANY:
        return lambda child: any(child & ~parent == 0 for parent in parents)
    # at most 63 variables: no set has the sign bit
    sets = np.array(parents, np.int64)
    return lambda child: bool((sets & child == child).any())


def within_one_of(children: npt.NDArray[np.int64], parents: Iterable[SubTable]) -> npt.NDArray[np.bool_]:
    """(n,) whether each of many sub-tables is within one of the parents."""
    found = np.zeros(len(children), np.bool_)
    for parent in parents:
        found |= children & ~parent == 0
    return found


def names(subtable: SubTable, schema: Schema) -> list[str]:
    """The names of its finest variables, in the schema's order; IndexError for an unknown one."""
    return [schema.names[v] for v in _bits(schema.levels.finest(subtable))]


def named(names: Iterable[str], schema: Schema) -> SubTable:
    """The sub-table with these names; InputError for an unknown one."""
    return schema.levels.closed(of(schema.index(name) for name in names))


def marks(subtable: SubTable, variables: int) -> str:
    """A row of the papers' matrices of frontiers: X for each variable in it, a dot for each other."""
    return "".join("X" if has(subtable, v) else "." for v in range(variables))


def label(subtable: SubTable, schema: Schema) -> str:
    """`age*sex`, or `(total)` for the grand total."""
    return "*".join(names(subtable, schema)) or "(total)"


def parse(text: str, schema: Schema) -> SubTable:
    """The sub-table written `age*sex`; ReleaseError for unknown or repeated names."""
    wanted = [name.strip() for name in text.split("*")]
    for name in wanted:
        if name not in schema.names:
            raise ReleaseError(
                f"sub-table {text!r} names the unknown variable {name!r}; "
                f"{_joined(name, schema.names) or nearest(name, schema.names, 'the table has')}"
            )
        if wanted.count(name) > 1:
            raise ReleaseError(f"sub-table {text!r} names {name!r} twice; name each variable once")
    return named(wanted, schema)


def _joined(text: str, names: Sequence[str]) -> str:
    parts = [part for part in re.split(r"[\s,;:+/&]+", text) if part]
    if len(parts) < 2 or not {*parts} <= {*names}:
        return ""
    return f"the variables of a sub-table are joined by *, so write {'*'.join(parts)}"


def subtable_of(given: Any, schema: Schema) -> SubTable:
    """The sub-table written `age*sex`, as a list of names, or as it is; ReleaseError as `parse`, and for all else."""
    if isinstance(given, int | np.integer):
        return int(given)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ReleaseError(
            f"a sub-table is written as 'age*sex' or as the list of its variables; this is a {type(given).__name__}"
        )
    return parse("*".join(names), schema)
