"""Suppressed tables of a release: which share of the records they hide, their largest cells, and what these protect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.documents import plain
from sdc.model.errors import many
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable, SuppressedTables
from sdc.model.table import Table
from sdc.protect.request import ProtectionRequest
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.support import Support, support_of
from sdc.run_format import METADATA, SUB_TABLE

MUCH = 0.1  # of the records in suppressed cells of a table: more is warned of
LARGEST, NAMED = 3, 1  # suppressed cells of a table; cells that one of them protects


@dataclass(frozen=True)
class SuppressedCell:
    """A suppressed cell, by the categories of its variables.

    protects  cells that are not shown to keep the width if this one is published: small cells of suppressed tables,
              itself where it is one, and at-risk cells of the full table; others  how many more there are
    """

    cell: Mapping[str, str]
    count: int
    protects: tuple[Mapping[str, str], ...]
    others: int

    @property
    def text(self) -> str:
        """In one sentence."""
        named = [_written(one) if one != self.cell else "itself" for one in self.protects]
        more = [many(self.others, "more cell")] * bool(self.others)
        what = "; and ".join([*named, *more]) or "no cell alone"
        return f"{_written(self.cell)}: {many(self.count, 'record')}, protects {what}"


@dataclass(frozen=True)
class Suppression:
    """What is suppressed of a table: how many of its cells, which share of the records they hold, and the largest.

    cost  what was to be little of it: records, cells or weights
    """

    sub_table: str
    cells: int
    suppressed: int
    share: float
    cost: str
    largest: tuple[SuppressedCell, ...] = ()

    @property
    def text(self) -> str:
        """In one line, without a category."""
        return f"{self.suppressed:,} of {self.cells:,} cells suppressed, with {self.share:.1%} of the records"

    @property
    def warning(self) -> str:
        """What would hide less, where much is hidden; else empty."""
        if self.share <= MUCH:
            return ""
        cheaper = (
            "merge some of its categories (by: recoding), or round it (by: rounding)"
            if self.cost == "records"
            else f"give its section of protect cost: records in place of cost: {self.cost}"
        )
        return (
            f"{self.share:.1%} of the records are in suppressed cells of {self.sub_table}, more than {MUCH:.0%}. To "
            f"publish more of it, {cheaper}."
        )


def suppressions(
    evaluation: Evaluation, parts: SuppressedTables, constraints: Sequence[ProtectionRequest]
) -> tuple[Suppression, ...]:
    """Of each suppressed table, by the proof of a release with it."""
    pool = evaluation.pool
    proven = support_of(evaluation.proof, pool.table, pool.small_count, evaluation.knowledge, pool.at_risk.own)
    costs = {
        request.view: "weights" if isinstance(request.cost, tuple) else request.cost or "records"
        for request in constraints
    }
    hidden = (part for part in parts.tables if len(part.suppressed))
    return tuple(_suppression(part, proven, evaluation.criteria, costs.get(part.view, "records")) for part in hidden)


def _suppression(part: SuppressedTable, proven: Support, criteria: Criteria, cost: str) -> Suppression:
    table, schema, largest = proven.pool.table, proven.knowledge.schema, list[SuppressedCell]()
    counts, places = table.marginal(part.view).dense.reshape(-1), part.places(schema)
    inside, share = schema.restrict(st.members(part.view)), int(counts[places].sum()) / table.total
    for place in places[np.argsort(-counts[places], kind="stable")][:LARGEST].tolist():
        cell, count = _named(inside, place), int(counts[place])
        protected = [cell] if 0 < count <= criteria.primary_count else []
        protected += [one for one in _protected(part, place, proven, criteria) if one != cell]
        named = tuple(protected[:NAMED])
        largest.append(SuppressedCell(cell, count, named, len(protected) - len(named)))
    return Suppression(st.label(part.view, schema), len(counts), len(places), share, cost, tuple(largest))


def _protected(part: SuppressedTable, place: int, proven: Support, criteria: Criteria) -> list[dict[str, str]]:
    """Small cells of suppressed tables, and then at-risk cells, that nothing else shows to keep the width."""
    schema, width, left = proven.knowledge.schema, criteria.width, proven.without(part.view, place)
    short = np.setdiff1d(width.short_own(left), width.short_own(proven))
    found = list[dict[str, str]]()
    for view, rows, places in proven.pool.at_risk.own.of_views(schema):
        inside = schema.restrict(st.members(view))
        found += [_named(inside, at) for at in places[np.isin(rows, short)].tolist()]
    rows = np.setdiff1d(width.short(left, width.doubtful(left)), width.short(proven, width.doubtful(proven)))
    at_risk = map(schema.named, proven.pool.at_risk.cells[rows].tolist())
    return found + [cell for cell in at_risk if cell not in found]


def _named(schema: Schema, place: int) -> dict[str, str]:
    """A cell by its place in C order."""
    return schema.named(schema.keys.unpack(np.array([place]))[0].tolist())


def _written(cell: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {category}" for name, category in cell.items())


def largest_facts(suppressed: Sequence[Suppression], view: SubTable, schema: Schema) -> list[dict[str, Any]]:
    """The largest suppressed cells of a sub-table, and what each protects; of older runs none."""
    cells = [cell for one in suppressed if one.sub_table == st.label(view, schema) for cell in one.largest]
    return [{**plain(SuppressedCell, cell), "text": cell.text} for cell in cells]


def suppressed_table_facts(
    tables: SuppressedTables,
    recoded: Mapping[SubTable, SubTable],
    table: Table,
    release: Path,
    suppressed: Sequence[Suppression] = (),
) -> list[dict[str, Any]]:
    """Of each suppressed, recoded or rounded table how it is protected, and its first file.

    recoded     of those with merged categories what is published of them
    suppressed  of those with suppressed cells the largest of these, which are confidential
    """
    listed: list[dict[str, Any]] = json.loads((release / METADATA).read_text(encoding="utf-8"))["resources"]
    schema, found = table.schema, list[dict[str, Any]]()
    files = {frozenset(one[SUB_TABLE]): one["path"] for one in reversed(listed) if SUB_TABLE in one}
    for view, coarser in recoded.items():
        as_, cells, left = st.names(coarser, schema), st.cells(view, schema), st.cells(coarser, schema)
        own = {"by": "recoding", "cells": cells, "left": left, "recoded": as_, "file": files[frozenset(as_)]}
        found.append({"sub_table": st.names(view, schema), **own})
    for one in tables.tables:
        names, cells = st.names(one.view, schema), st.cells(one.view, schema)
        own = {"sub_table": names, "by": "rounding" if one.base else "suppression", "cells": cells}
        if one.base:
            own |= {"base": one.base, "margins": [st.names(margin.view, schema) for margin in one.margins]}
        else:
            hidden = table.marginal(one.view).count_at(one.suppressed)
            share = round(int(hidden.sum()) / table.total, 6)
            own |= {"suppressed": len(hidden), "records_suppressed": share}
            own["largest"] = largest_facts(suppressed, one.view, schema)
        found.append(own | {"file": files[frozenset(names)]})
    return found


_HOW = {"suppression": "withhold", "recoding": "coarsen", "rounding": "round"}
_OLD = {"suppressed": "withheld", "records_suppressed": "records_withheld", "recoded": "by"}


def old_facts(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same by the keys of version 0.1, which JSON has beside the new ones for one release."""
    return [
        {"how": _HOW[one["by"]], **{_OLD.get(name, name): value for name, value in one.items() if name != "by"}}
        for one in facts
    ]
