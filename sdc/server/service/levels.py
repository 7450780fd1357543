"""Levels, and suppressed tables, as a history has them: an audit without the table knows them by that."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable

LEVELS = "levels"


def levels_of(schema: Schema) -> dict[str, Any]:
    """What a history says of levels: of each its axis and the groups of that; nothing where there are none."""
    levels = {v.name: {"of": v.of.axis, "groups": list(v.of.groups)} for v in schema.variables if v.of is not None}
    return {LEVELS: levels} if levels else {}


def schema_in(about: Mapping[str, Any]) -> Schema | None:
    """Variables and levels as a history has them, categories by number; None for a history without levels.

    KeyError, TypeError, ValueError, AttributeError or InputError for what no server wrote.
    """
    if LEVELS not in about:
        return None
    of = {name: Coarser(level["of"], tuple(level["groups"])) for name, level in about[LEVELS].items()}
    sizes = {level.axis: len(level.groups) for level in of.values()}
    sizes |= {name: len(set(level.groups)) for name, level in of.items()}
    return Schema(
        tuple(Variable(name, tuple(map(str, range(sizes.get(name, 1)))), of.get(name)) for name in about["variables"])
    )


def implied_levels(schema: Schema) -> dict[str, list[str]]:
    """The coarser levels of each variable that has some: a table of the variable implies them."""
    told = zip(schema.names, schema.levels.coarser, strict=True)
    return {name: [schema.names[v] for v in st.members(coarser)] for name, coarser in told if coarser}


NO_PARTS_HERE = (
    "This server suppresses no cells: which ones would depend on the records, and its rule simulatable lets "
    "nothing depend on them but what is released whole; ask for the table as it is."
)


def part_at(view: SubTable, places: Any, schema: Schema, total: int) -> SuppressedTable:
    """The sub-table of N records without the cells at these places.

    TypeError or ValueError as `require_places`, ValueError too where it has no such cells.
    """
    require_places(places)
    if places[-1] >= st.cells(view, schema):
        raise ValueError(f"it has no cell at the place {places[-1]}")
    return SuppressedTable.at(view, np.array(places, np.int64), schema, total)


def require_places(places: Any) -> None:
    """TypeError where they are no list of whole numbers, ValueError where there are none, or not ascending ones."""
    if not isinstance(places, list) or not all(type(place) is int for place in places):
        raise TypeError("the places of suppressed cells are no list of whole numbers")
    if not places or places[0] < 0 or any(one >= other for one, other in pairwise(places)):
        raise ValueError("the places of suppressed cells are not in ascending order")
