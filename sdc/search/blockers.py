"""Blockers: the at-risk cells that stopped a release from growing, and what each of them stopped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.search.step import SearchStep

MOST_BLOCKERS = 20  # that are named

Cell = tuple[int, ...]
Stopped = tuple[Cell, tuple[SubTable, ...]]


def tried(steps: Iterable[SearchStep]) -> list[SearchStep]:
    """The steps that added sub-tables, or tried to, on the way to the release, of the kind that came last."""
    adding = [step for step in steps if step.added]
    # of the two ways to grow only one led to the release, and its steps are the last
    return [step for step in adding if step.phase == adding[-1].phase]


def blockers(steps: Iterable[SearchStep]) -> list[Stopped]:
    """Codes of each cell with the sub-tables that it stopped; those that stopped most come first.

    A sub-table counts by the last question that tried it alone on the way to the release.
    """
    last = {step.added[0]: step for step in tried(steps) if len(step.added) == 1}
    stopped: dict[Cell, list[SubTable]] = {}
    for sub_table, step in last.items():
        for cell in step.blockers:
            stopped.setdefault(cell, []).append(sub_table)
    ordered = sorted(stopped.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(cell, tuple(sub_tables)) for cell, sub_tables in ordered]


class Near(NamedTuple):
    """The occupied cells around a cell that differ from it in one axis or two.

    differing  (n, axes) in which; codes (n, axes), counts (n,)
    """

    differing: npt.NDArray[np.bool_]
    codes: Codes
    counts: Counts

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """(n,) whether in one variable."""
        alone: npt.NDArray[np.bool_] = self.differing.sum(axis=1) == 1
        return alone


def near(table: Table, cell: Cell) -> Near:
    """One pass over the table."""
    found = []
    for codes, counts in table.chunks():
        distance = np.zeros(len(codes), np.uint8)
        for code, column in zip(cell, codes.T, strict=True):
            distance += column != code
        rows = np.flatnonzero((distance == 1) | (distance == 2))
        found.append((codes[rows], counts[rows]))
    codes, counts = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return Near(codes != np.array(cell), codes, counts)
