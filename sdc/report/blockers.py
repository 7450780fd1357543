"""The report's cells that stopped most, how isolated they are, and the recodes that were tried for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.report import exposure
from sdc.report.evidence import AuditEvidence
from sdc.report.sections import few
from sdc.search.blockers import MOST_BLOCKERS, Cell, near
from sdc.search.blockers import blockers as stopped_by
from sdc.search.remedies import Remedy


@dataclass(frozen=True)
class BlockerRow:
    """An at-risk cell that stopped sub-tables: how many, which first, and the cells with records near it.

    near  how many differ from it in one variable, and how many in two
    """

    categories: list[str]
    count: int
    near: tuple[int, int]
    stopped: int
    labels: str


def blockers(audit: AuditEvidence) -> list[BlockerRow]:
    """The cells that stopped most, most first."""
    return [_row(audit, cell, stopped) for cell, stopped in stopped_by(audit.found.steps)[:MOST_BLOCKERS]]


def _row(audit: AuditEvidence, cell: Cell, stopped: tuple[SubTable, ...]) -> BlockerRow:
    schema, alone = audit.table.schema, near(audit.table, cell).alone
    count = int(audit.table.count_at(np.array([cell], np.uint16))[0])
    isolation = int(alone.sum()), int((~alone).sum())
    return BlockerRow(exposure.categories(cell, schema), count, isolation, len(stopped), few(stopped, schema))


@dataclass(frozen=True)
class RemedyRow:
    """A recode that was tried: on how many sub-tables, how many it frees and which first, and how many it loses."""

    variable: str
    recode: str
    asked: int
    freed: int
    lost: int
    labels: str
    config: str


@dataclass(frozen=True)
class RedesignRow:
    """A sub-table that was refused, and one at coarser levels or with merged categories that may go out instead."""

    refused: str
    instead: str
    lost: int
    config: str


def redesigns(audit: AuditEvidence) -> list[RedesignRow]:
    """Of each sub-table that was looked at, in the order in which they were refused, what keeps most cells first."""
    return [
        RedesignRow("*".join(row["sub_table"]), "*".join(one["sub_table"]), one["lost"], one["config"])
        for row in audit.redesigns
        for one in row["instead"]
    ]


def remedies(audit: AuditEvidence) -> list[RemedyRow]:
    """All that were tried, best first."""
    return [_remedy(remedy, audit.table.schema) for remedy in audit.remedies or ()]


def _remedy(remedy: Remedy, schema: Schema) -> RemedyRow:
    recode = remedy.recode
    merge = " and ".join(f"“{exposure.shorten(name)}”" for name in recode.names)
    done = "leave it out" if recode.leaves_out else f"merge {merge}"
    freed, asked = len(remedy.freed), len(remedy.asked)
    labels = few(remedy.freed, schema)
    return RemedyRow(schema.names[recode.variable], done, asked, freed, remedy.lost, labels, remedy.config)
