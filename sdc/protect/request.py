"""Which sub-tables the config wants protected where they do not fit whole, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdc.config.release import CostConfig, ProtectConfig, Way
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable

WEIGHT = "weight"  # a column


@dataclass(frozen=True)
class ProtectionRequest:
    """A sub-table that is protected where it may not be released whole.

    by     ways, in the order in which they are tried
    cost   what must be little of what is suppressed or merged: cells, records, or (cells,) weights in C order; None for
           records of what is suppressed, and cells of what is merged
    max_share  the largest share of its cells that may be
    base   what counts are rounded to multiples of
    merge  the axis of which categories are merged; None for the one that loses least
    coarser  with merged categories, or at a level that an axis has: what leaves most cells first; all_tried  unless
            a search that was ended early made no level for it
    again  places of its cells, in C order, that are suppressed whatever else is: in an earlier edition they were
    """

    view: SubTable
    by: tuple[Way, ...] = ("suppression",)
    cost: Literal["cells", "records"] | tuple[int, ...] | None = None
    max_share: float = 1.0
    again: tuple[int, ...] = ()
    base: int = 0
    merge: str | None = None
    coarser: tuple[SubTable, ...] = ()
    all_tried: bool = True

    @staticmethod
    def of(view: SubTable, section: ProtectConfig, schema: Schema) -> ProtectionRequest:
        """As a section of the config has it; InputError where it does not fit the sub-table."""
        named_by = section.ways, _cost(section.cost, view, schema), section.max_share
        found = ProtectionRequest(view, *named_by, base=section.base or 0, merge=section.merge)
        if section.merge is not None:
            found.axes(schema)
        return found

    def axes(self, schema: Schema) -> list[int]:
        """The axes of the sub-table of which categories may be merged; InputError where there is none."""
        own = [v for v in st.members(schema.levels.finest(self.view)) if schema.variables[v].of is None]
        if found := [v for v in own if self.merge in (None, schema.names[v])]:
            return found
        what = "it has none but levels" if self.merge is None else f"{self.merge!r} is none of its axes"
        raise InputError(
            f"protect would recode {st.label(self.view, schema)} by merging categories of an axis, and {what}; name "
            "an axis, or another way"
        )


def _cost(
    cost: Literal["cells", "records"] | CostConfig | None, view: SubTable, schema: Schema
) -> Literal["cells", "records"] | tuple[int, ...] | None:
    """With the weight of each cell in C order, where such are given; InputError where they are not of these cells."""
    if not isinstance(cost, CostConfig):
        return cost
    own, wrong = schema.restrict(st.members(view)), f"the weights of cells of {st.label(view, schema)}"
    names = [own.names[axis] for axis in own.axes]
    if isinstance(cost.weights, str):
        raise InputError(
            f"protect names the file {cost.weights} of weights, which is read with a config; give its lines"
        )
    header, *lines = cost.weights or ((),)
    if sorted(header) != sorted([*names, WEIGHT]):
        raise InputError(
            f"{wrong} have the columns {', '.join(header)}; give {', '.join([*names, WEIGHT])}, and a section for "
            "each sub-table"
        )
    codes = [{category: code for code, category in enumerate(own.variables[axis].categories)} for axis in own.axes]
    found = np.zeros(own.keys.sizes, np.int64)
    for number, line in enumerate(lines, start=2):
        fields = dict(zip(header, line, strict=False))
        cell = tuple(place.get(fields.get(name, ""), -1) for place, name in zip(codes, names, strict=True))
        if len(line) != len(header) or min(cell) < 0 or not re.fullmatch("[0-9]{1,9}", fields[WEIGHT]):
            raise InputError(
                f"{wrong}, line {number}: it is of no cell that the sub-table has, or no whole number from 0 to "
                "999999999; correct the line"
            )
        found[cell] += int(fields[WEIGHT])
    return tuple(found.reshape(-1).tolist())
