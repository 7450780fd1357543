"""Blockers: the at-risk cells that stopped a release from growing, and what each of them stopped."""

from __future__ import annotations

from collections.abc import Iterable

from sdc.model.subtable import SubTable
from sdc.search.ordered import SearchStep

Cell = tuple[int, ...]


def tried(steps: Iterable[SearchStep]) -> list[SearchStep]:
    """The steps that added sub-tables, or tried to, on the way to the release: the prefix extended, or growth."""
    adding = [step for step in steps if step.added]
    # of the two ways to grow only one led to the release, and its steps are the last
    return [step for step in adding if step.phase == adding[-1].phase]


def blockers(steps: Iterable[SearchStep]) -> list[tuple[Cell, tuple[SubTable, ...]]]:
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
