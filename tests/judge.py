"""A judge that shares no code with the engine: every table of counts that agrees with what is public, one by one.

What is public is a list of facts, each that the sum over some cells lies in an interval. Small tables only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

Cell = tuple[int, ...]
MOST_TABLES = 4_000_000


@dataclass(frozen=True)
class Fact:
    """The counts of these cells sum to at least `low` and at most `high`."""

    cells: frozenset[Cell]
    low: int
    high: int


class TooManyTablesError(Exception):
    """More than anybody lists: draw a smaller case."""


def every_cell(sizes: Sequence[int]) -> list[Cell]:
    """All cells in C order."""
    return list(product(*map(range, sizes)))


def exact(counts: np.ndarray, axes: Iterable[int]) -> Iterator[Fact]:
    """The marginal over these axes of a dense table, cell by cell; of no axes the total."""
    kept = tuple(axes)
    groups: dict[Cell, list[Cell]] = {}
    for cell in every_cell(counts.shape):
        groups.setdefault(tuple(cell[axis] for axis in kept), []).append(cell)
    for members in groups.values():
        total = int(sum(counts[cell] for cell in members))
        yield Fact(frozenset(members), total, total)


def impossible(cells: Iterable[Cell]) -> Iterator[Fact]:
    """Structural zeros: everybody knows that nobody is there."""
    return (Fact(frozenset([cell]), 0, 0) for cell in cells)


def agreeing(sizes: Sequence[int], facts: Iterable[Fact], most: int = MOST_TABLES) -> np.ndarray:
    """(tables, cells in C order) counts of all tables of non-negative integers that agree with every fact.

    Each cell must be in some fact. TooManyTablesError where more than `most` are to be listed on the way.
    """
    cells, told = every_cell(sizes), list(facts)
    inside = np.array([[cell in fact.cells for cell in cells] for fact in told])
    assert inside.any(axis=0).all(), "a cell without a fact has no largest count"
    # what each fact still needs and still allows, of each table as far as it is filled in
    low, high = (np.array([[getattr(fact, end) for fact in told]], np.int64) for end in ("low", "high"))
    tables = np.zeros((1, len(cells)), np.int32)
    for place in range(len(cells)):
        touched = np.flatnonzero(inside[:, place])
        repeats = high[:, touched].min(axis=1) + 1
        if (total := int(repeats.sum())) > most:
            raise TooManyTablesError(f"{total} tables after {place + 1} of {len(cells)} cells")
        values = np.arange(total) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        tables, low, high = (np.repeat(array, repeats, axis=0) for array in (tables, low, high))
        tables[:, place] = values
        for fact in touched:
            low[:, fact] -= values
            high[:, fact] -= values
        closed = touched[~inside[touched, place + 1 :].any(axis=1)]
        kept = (low[:, closed] <= 0).all(axis=1)
        tables, low, high = tables[kept], low[kept], high[kept]
    return tables


def ranges(sizes: Sequence[int], facts: Iterable[Fact], most: int = MOST_TABLES) -> dict[Cell, tuple[int, int]]:
    """Smallest and largest count of each cell over all tables that agree; ValueError where none does."""
    tables = agreeing(sizes, facts, most)
    least, largest = tables.min(axis=0).tolist(), tables.max(axis=0).tolist()
    return dict(zip(every_cell(sizes), zip(least, largest, strict=True), strict=True))
