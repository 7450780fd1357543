"""Table re-design ([DKS] section 5): a refused sub-table at coarser levels of hierarchies, with the least loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sdc.model import subtable as st
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
        config = pasted({"release": {"require": [st.label(self.sub_table, schema)]}})
        return {
            "sub_table": st.names(self.sub_table, schema),
            "cells": self.cells,
            "lost": self.lost,
            "config": config,
        }


def pasted(section: Mapping[str, Any]) -> str:
    """A section of a config in one line of YAML."""
    text: str = yaml.safe_dump(section, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.strip().removeprefix("{").removesuffix("}")


def redesign(inquiry: Inquiry, release: Release, sub_table: SubTable, most: int = MOST_ASKED) -> Redesign | None:
    """The sub-table at coarser levels, or without a variable, that is safe with a release and keeps the most cells.

    Each variable may give way to a coarser level of it, and any variable may be left out. Asked from the
    most cells on, of equal ones those with more variables first; none where none of the first `most` may go out.
    """
    whole = st.cells(sub_table, inquiry.table.schema)
    for asked, candidate in enumerate(candidates(sub_table, inquiry.table.schema)):
        if asked == most:
            return None
        if inquiry.accepts(inquiry.anew().ask(release.add(candidate))):
            own = st.cells(candidate, inquiry.table.schema)
            return Redesign(candidate, own, whole - own)
    return None


def candidates(sub_table: SubTable, schema: Schema) -> Iterator[SubTable]:
    """All re-designs of a sub-table but itself, those with the most cells first."""
    found = set(st.subsets(sub_table, schema)) - {st.GRAND_TOTAL, sub_table}
    yield from sorted(found, key=lambda t: (-st.cells(t, schema), -st.ways(t, schema), t))
