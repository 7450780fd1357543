"""Sub-tables that are answered in part, as a history has them: by the places of the cells that are withheld."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.parts import Part, withholding
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable

NO_PARTS_HERE = (
    "This server answers no table in part: what is withheld would depend on the records, and its rule simulatable lets "
    "nothing depend on them but what is released whole; ask for the table as it is."
)


def places_of(part: Part, schema: Schema) -> list[int]:
    """Of the cells that are withheld, in C order of the sub-table's variables and categories, ascending."""
    return [int(place) for place in part.places(schema)]


def part_at(view: SubTable, places: Any, schema: Schema, total: int) -> Part:
    """The sub-table of N records without the cells at these places.

    TypeError or ValueError as `require_places`, ValueError too where it has no such cells.
    """
    require_places(places)
    if places[-1] >= st.cells(view, schema):
        raise ValueError(f"it has no cell at the place {places[-1]}")
    return withholding(view, np.array(places, np.int64), schema, total)


def require_places(places: Any) -> None:
    """TypeError where they are no list of whole numbers, ValueError where there are none, or not ascending ones."""
    if not isinstance(places, list) or not all(type(place) is int for place in places):
        raise TypeError("the places of withheld cells are no list of whole numbers")
    if not places or places[0] < 0 or any(one >= other for one, other in pairwise(places)):
        raise ValueError("the places of withheld cells are not in ascending order")
