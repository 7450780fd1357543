"""Table re-design ([DKS] section 5): a refused sub-table at coarser levels of hierarchies, with the least loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from sdc.model import subtable as st
from sdc.model.hierarchy import Hierarchy
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.inquiry import Inquiry

MOST_ASKED = 200


@dataclass(frozen=True)
class Redesign:
    """A sub-table that may go out instead of the one that was refused.

    sub_table  at other levels; cells  of it, zeros too
    lost       cells of the refused one less its own
    """

    sub_table: SubTable
    cells: int
    lost: int

    def facts(self, schema: Schema) -> dict[str, Any]:
        """As a document has it, with what to paste into the config so that it is required."""
        config = f"release: {{require: ['{st.label(self.sub_table, schema)}']}}"
        return {
            "sub_table": st.names(self.sub_table, schema),
            "cells": self.cells,
            "lost": self.lost,
            "config": config,
        }


def redesign(
    inquiry: Inquiry, release: Release, sub_table: SubTable, hierarchies: Sequence[Hierarchy], most: int = MOST_ASKED
) -> Redesign | None:
    """The sub-table at coarser levels, or without a variable, that is safe with a release and keeps the most cells.

    Each variable of a hierarchy may give way to a coarser level of it, and any variable may be left out. Asked from the
    most cells on, of equal ones those with more variables first; none where none of the first `most` may go out.
    """
    whole = _cells(sub_table, inquiry.table.schema)
    for asked, candidate in enumerate(candidates(sub_table, hierarchies, inquiry.table.schema)):
        if asked == most:
            return None
        if inquiry.accepts(inquiry.anew().ask(release.add(candidate))):
            own = _cells(candidate, inquiry.table.schema)
            return Redesign(candidate, own, whole - own)
    return None


def candidates(sub_table: SubTable, hierarchies: Sequence[Hierarchy], schema: Schema) -> Iterator[SubTable]:
    """All re-designs of a sub-table but itself, those with the most cells first."""
    coarser = {level: levels[:place] for levels in hierarchies for place, level in enumerate(levels)}
    choices = [(1 << v, *(1 << level for level in reversed(coarser.get(v, ()))), 0) for v in st.members(sub_table)]
    found = {st.union(chosen) for chosen in product(*choices)} - {0, sub_table}
    # two levels of one variable are the finer one
    yield from sorted(found, key=lambda t: (-_cells(t, schema), -st.dimension(t), t))


def _cells(sub_table: SubTable, schema: Schema) -> int:
    return prod(schema.sizes[v] for v in st.members(sub_table))
