"""The report's cells that stopped most, and how isolated they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdc.model.table import Table
from sdc.report import exposure
from sdc.report.evidence import Audit
from sdc.report.sections import few
from sdc.search.blockers import Cell
from sdc.search.blockers import blockers as stopped_by

MOST_BLOCKERS = 10


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


def blockers(audit: Audit) -> list[BlockerRow]:
    """The cells that stopped most, most first."""
    schema = audit.table.schema
    found = stopped_by(audit.search_steps)[:MOST_BLOCKERS]
    near = occupied_near(audit.table, [cell for cell, _ in found])
    counts = audit.table.count_at(np.array([cell for cell, _ in found], np.uint16).reshape(-1, len(schema)))
    return [
        BlockerRow(exposure.categories(cell, schema), int(count), (one, two), len(stopped), few(stopped, schema))
        for (cell, stopped), count, (one, two) in zip(found, counts.tolist(), near, strict=True)
    ]


def occupied_near(table: Table, cells: Sequence[Cell]) -> list[tuple[int, int]]:
    """Of each cell how many cells with records differ from it in one variable, and in two."""
    # at least three columns: a table of one variable has no cell that differs in two
    near = np.zeros((len(cells), max(3, len(table.schema) + 1)), np.int64)
    for codes, _ in table.chunks():
        for k, cell in enumerate(cells):
            near[k] += np.bincount((codes != np.array(cell)).sum(axis=1), minlength=near.shape[1])
    return [(one, two) for one, two in near[:, 1:3].tolist()]
