"""Ordered marginals: bisection for the longest releasable prefix, then extension until maximal."""

from __future__ import annotations

from dataclasses import dataclass

from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criterion import Assessment


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "bisection" or "extension"
    length     bisection: length of the prefix asked about; extension: sub-tables so far
    added      extension: the sub-table tried; None for a prefix
    answer     True releasable, False refuted, None undecided (treated as unsafe)
    """

    phase: str
    length: int
    added: SubTable | None
    answer: bool | None
    min_width: tuple[int, int]
    undecided_cells: int


@dataclass(frozen=True)
class OrderedRelease:
    """The release found, its assessment, and every step that led to it."""

    release: Release
    assessment: Assessment
    steps: tuple[SearchStep, ...]
