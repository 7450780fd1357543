"""Hierarchies: several variables that are one at several levels, such as region and place."""

from __future__ import annotations

from collections.abc import Sequence

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.subtable import SubTable

Hierarchy = tuple[int, ...]
"""Its variables, the coarsest first."""


def independent(release: Release, hierarchies: Sequence[Hierarchy]) -> Release:
    """The released sub-tables that have one level of a hierarchy at most.

    With a fine level its coarser ones are known, so that a sub-table with two of them is one that counts already. What
    is left is the downward closure of each frontier element with all levels but one left out, whichever that is.
    """
    elements: list[SubTable] = list(release.frontier)
    for levels in map(st.of, hierarchies):
        elements = [one for element in elements for one in _with_one_level(element, levels)]
    return Release.of(elements)


def _with_one_level(element: SubTable, levels: SubTable) -> list[SubTable]:
    held = element & levels
    return [element & ~levels | 1 << level for level in st.members(held)] if held else [element]
