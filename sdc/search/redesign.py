"""Table re-design ([DKS] section 5): a refused sub-table at coarser levels of hierarchies, with the least loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import yaml

from sdc.model import subtable as st
from sdc.model.named import Rows
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.evaluator import RiskEvaluator
from sdc.search.constraints import Constraints

MOST_ASKED = 200


@dataclass(frozen=True)
class Redesign:
    """A sub-table that may go out instead of the one that was refused.

    names   of its variables; cells  of it, zeros too
    lost    cells of the refused one less its own
    config  what to paste into the config so that it goes out
    """

    names: tuple[str, ...]
    cells: int
    lost: int
    config: str

    @staticmethod
    def of(refused: SubTable, instead: SubTable, schema: Schema, release: Mapping[str, Any]) -> Redesign:
        """With the section `release` of which it was tried that it goes out."""
        cells = st.cells(instead, schema)
        lost = st.cells(refused, schema) - cells
        return Redesign(tuple(st.names(instead, schema)), cells, lost, pasted({"release": release}))

    @property
    def facts(self) -> dict[str, Any]:
        """As a document has it."""
        return {"sub_table": list(self.names), "cells": self.cells, "lost": self.lost, "config": self.config}


class Redesigns(Rows[Redesign]):
    """What may go out instead, what keeps most cells first."""


def pasted(section: Mapping[str, Any]) -> str:
    """A section of a config in one line of YAML."""
    text: str = yaml.safe_dump(section, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.strip().removeprefix("{").removesuffix("}")


def redesign(
    evaluator: RiskEvaluator, release: Release, sub_table: SubTable, constraints: Constraints
) -> Redesign | None:
    """The sub-table at coarser levels, or without a variable, that is safe with a release and keeps the most cells.

    Each variable may give way to a coarser level of it, and any variable may be left out. Asked from the
    most cells on, of equal ones those with more variables first; none where none of the first `MOST_ASKED` may go out
    that the constraints allow.
    """
    schema = evaluator.table.schema
    for candidate in islice(filter(constraints.allows, candidates(sub_table, schema)), MOST_ASKED):
        if evaluator.accepts(evaluator.anew().evaluate(release.add(candidate))):
            return Redesign.of(sub_table, candidate, schema, {"require": [st.label(candidate, schema)]})
    return None


def candidates(sub_table: SubTable, schema: Schema) -> Iterator[SubTable]:
    """All re-designs of a sub-table but itself, those with the most cells first."""
    found = set(st.subsets(sub_table, schema)) - {st.GRAND_TOTAL, sub_table}
    yield from sorted(found, key=lambda t: (-st.cells(t, schema), -st.ways(t, schema), t))
