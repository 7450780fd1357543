"""Hierarchies: variables of which the finest is an axis, and the others are its levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError, many, nearest
from sdc.model.schema import Coarser, Schema
from sdc.model.table import Table


def hierarchies_of(named: Mapping[str, Sequence[str]], schema: Schema) -> tuple[tuple[int, ...], ...]:
    """The variables of each hierarchy, coarsest first.

    Raises InputError for a hierarchy with one level, an unknown variable, or a variable in two hierarchies.
    """
    seen: dict[str, str] = {}
    for name, levels in named.items():
        if len(levels) < 2:
            raise InputError(
                f"hierarchy {name!r} has {many(len(levels), 'level')}; give at least two, the coarsest first"
            )
        for level in levels:
            if level not in schema.names:
                raise InputError(
                    f"hierarchy {name!r} names {level!r}, which is not a variable of the table; "
                    f"{nearest(level, schema.names)}"
                )
            if level in seen:
                raise InputError(
                    f"{level!r} is in the hierarchy {seen[level]!r} and again in {name!r}. Of two classifications of a "
                    "variable state one as its hierarchy, leave the other a variable of its own, and list the "
                    f"combinations of it with {level!r} that cannot be in a file, table.structural_zeros"
                )
            seen[level] = name
    return tuple(tuple(schema.index(level) for level in levels) for levels in named.values())


def with_levels(table: Table, named: Mapping[str, Sequence[str]]) -> tuple[Table, npt.NDArray[np.int64]]:
    """The table without columns that follow from finer ones, and the old row of each cell.

    The records determine the coarser category of each category; that mapping counts as public. A variable with one
    category stays. InputError if a category has records in several coarser ones, or two variables of a hierarchy are
    equal.
    """
    variables = list(table.schema.variables)
    for name, levels in zip(named, hierarchies_of(named, table.schema), strict=True):
        for coarse, fine in pairwise(levels):
            _require_nested(table, name, coarse, fine)
        axis = levels[-1]
        for level in levels[:-1]:
            if table.schema.sizes[level] > 1:
                met = np.unique(table.codes[:, [axis, level]], axis=0)
                variables[level] = replace(
                    variables[level], of=Coarser(variables[axis].name, tuple(met[:, 1].tolist()))
                )
    schema = Schema(tuple(variables))
    if schema.levels.is_flat:
        return table, np.arange(len(table))
    codes = table.codes[:, list(schema.axes)]
    found = Table.of(schema, codes, table.counts)
    return found, schema.keys.matching(codes, found.codes)


def _require_nested(table: Table, name: str, coarse: int, fine: int) -> None:
    met = np.unique(table.codes[:, [coarse, fine]], axis=0).astype(np.int64)
    several = np.flatnonzero(np.bincount(met[:, 1]) > 1)
    if len(several):
        schema, variable = table.schema, table.schema.variables[fine]
        raise InputError(
            f"hierarchy {name!r}: {len(several)} of the categories of {schema.names[fine]!r} have records in "
            "several categories "
            f"of {schema.names[coarse]!r}, so they are not nested; recode one of the two, or drop the hierarchy",
            "\n".join(f"{variable.name} = {variable.categories[code]}" for code in several.tolist()),
        )


def nested(table: Table) -> Iterator[tuple[str, str]]:
    """(coarse, fine) variables: each category of the fine one has records in one category of the coarse one only."""
    names, sizes = table.schema.names, table.schema.sizes
    for u, v in combinations(range(len(table.schema)), 2):
        codes = table.marginal(1 << u | 1 << v).codes
        for coarse, fine in ((0, 1), (1, 0)):
            c, f = (u, v)[coarse], (u, v)[fine]
            if 1 < sizes[c] < sizes[f] and len(codes) == len(np.unique(codes[:, fine])):
                yield names[c], names[f]
