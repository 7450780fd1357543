"""What everybody knows of a hierarchy: each category of a level is within one category of the coarser one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from sdc.model.errors import InputError
from sdc.model.hierarchy import Hierarchy
from sdc.model.schema import Schema
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.table import Table


def hierarchies_of(named: Mapping[str, Sequence[str]], schema: Schema) -> tuple[Hierarchy, ...]:
    """The variables of each hierarchy, coarsest first.

    InputError for one with a single level, for a level that is no variable, and for a variable in two of them.
    """
    seen: dict[str, str] = {}
    for name, levels in named.items():
        if len(levels) < 2:
            raise InputError(f"hierarchy {name!r} has {len(levels)} levels; give two at least, the coarsest first")
        for level in levels:
            if level not in schema.names:
                raise InputError(
                    f"hierarchy {name!r} names {level!r}, no variable of the table; it has {', '.join(schema.names)}"
                )
            if level in seen:
                raise InputError(f"{level!r} is in the hierarchy {seen[level]!r} and again in {name!r}; name it once")
            seen[level] = name
    return tuple(tuple(schema.index(level) for level in levels) for levels in named.values())


def implied_zeros(table: Table, named: Mapping[str, Sequence[str]]) -> StructuralZeros:
    """Patterns that exclude each category of a level with all coarser ones but its own.

    In which coarser category a category is comes from the records and is taken to be public; one without a record is
    in none. InputError where a category has records in several coarser ones.
    """
    levels = zip(named, hierarchies_of(named, table.schema), strict=True)
    patterns = [pattern for name, one in levels for pair in pairwise(one) for pattern in _between(table, name, *pair)]
    return StructuralZeros(tuple(patterns))


def _between(table: Table, name: str, coarse: int, fine: int) -> list[Pattern]:
    """One pattern for each coarse category: it, and the fine ones that are in another."""
    met = np.unique(table.codes[:, [coarse, fine]], axis=0).astype(np.int64)
    many = np.flatnonzero(np.bincount(met[:, 1]) > 1)
    if len(many):
        schema, variable = table.schema, table.schema.variables[fine]
        raise InputError(
            f"hierarchy {name!r}: {len(many)} categories of {schema.names[fine]!r} have records in several categories "
            f"of {schema.names[coarse]!r}, so they are not nested; recode one of the two, or drop the hierarchy",
            "\n".join(f"{variable.name} = {variable.categories[code]}" for code in many.tolist()),
        )
    within = dict(zip(met[:, 1].tolist(), met[:, 0].tolist(), strict=True))
    found: list[Pattern] = []
    for category in range(table.schema.sizes[coarse]):
        others = tuple(code for code, own in within.items() if own != category)
        if others:
            found.append(((coarse, (category,)), (fine, others)))
    return found
