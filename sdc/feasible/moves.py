"""Feasible tables by basic moves, one after another: integer tables by construction, found from the true one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.feasible import move_kernel
from sdc.feasible.differences import Differences, extremes
from sdc.feasible.move_kernel import MAX_FLIPS, Work
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Codes, Counts, Table

MAX_SPACE = 1 << 59  # a key times the kernel's depths fits int64, with a sign
MAX_VARIABLES = 20

# depth, nodes, candidate moves tried a node, donors that may be missing at depth 0 to 3. Measured on 13 variables and
# 445 released sub-tables, width 3: the first row reaches it for 81 of 100 cells, two, three, four and five rows for
# 83, 91, 93 and 95, at 1.8, 2.9, 6.9, 9.2 and 29 ms a cell, checks included
SCHEDULE = np.array(
    [
        [1, 1_000, 300, 0, 2, 0, 0],
        [1, 1_000, 1000, 0, 3, 0, 0],
        [2, 20_000, 300, 0, 2, 3, 0],
        [3, 50_000, 300, 0, 1, 2, 3],
        [3, 200_000, 300, 0, 2, 3, 4],
    ]
)
EFFORTS = len(SCHEDULE)

Trail: TypeAlias = tuple[Counts, Counts]
"""The corners of the moves that were made for one cell, by key, and what each adds."""


def can_search(table: Table) -> bool:
    """Whether a cell fits 59 bits and the variables are at most 20, which their sets are listed for."""
    return table.schema.cells <= MAX_SPACE and len(table.schema) <= MAX_VARIABLES


@dataclass(frozen=True, eq=False)
class Moved:
    """Differences that move some cells, and the nodes that the search looked at."""

    differences: Differences
    nodes: int


def find(
    table: Table, knowledge: Knowledge, cells: Codes, widths: npt.NDArray[np.int64], *, effort: int, nodes: int
) -> Moved:
    """Feasible tables between which each of (n, variables) cells moves by its width, or as far as was found.

    effort  how many rows of SCHEDULE are tried, from cheap to dear
    nodes   most nodes a cell

    The count goes down as far as it can (and need), then up by the rest. Deterministic, and a cell's answer
    does not depend on the others. ReleaseError where `can_search` says no.
    """
    # one cell after the other: each starts from the true table, so that units may be cut anywhere
    search, used = _search(table, knowledge), 0
    trails: list[Trail] = []
    for key, count, width in zip(table.schema.keys.pack(cells), table.count_at(cells), widths, strict=True):
        # down first: how far that goes says how far up is left to go, and no further than to 0 whatever is wanted
        down, spent = search.shift(int(key), -min(int(count), int(width)), effort, nodes, trails)
        _, more = search.shift(int(key), int(width) + down, effort, nodes - spent, trails)
        used += spent + more
    return Moved(_differences(table, knowledge, trails), used)


def shift(table: Table, knowledge: Knowledge, cells: Codes, changes: Counts, *, effort: int, nodes: int) -> Moved:
    """Feasible tables that move each of (n, variables) cells by its (n,) change, in records, or as far as was found.

    Else as `find`; ReleaseError as there.
    """
    search, used = _search(table, knowledge), 0
    trails: list[Trail] = []
    for key, count, change in zip(table.schema.keys.pack(cells), table.count_at(cells), changes, strict=True):
        used += search.shift(int(key), max(int(change), -int(count)), effort, nodes, trails)[1]
    return Moved(_differences(table, knowledge, trails), used)


def _differences(table: Table, knowledge: Knowledge, trails: list[Trail]) -> Differences:
    """What the moves sum to, checked in integers."""
    if not trails:
        return Differences.none(len(table.schema))
    keys, changes = (np.concatenate(column) for column in zip(*trails, strict=True))
    of = np.repeat(np.arange(len(trails)), [len(corners) for corners, _ in trails])
    differences = Differences.summed(len(trails), of, table.schema.keys.unpack(keys), changes, table.schema)
    # by construction they are; what is published rests on it, so that it is checked nevertheless
    if not differences.feasible(table, knowledge).all():
        raise RuntimeError("basic moves left the feasible tables; this is a fault of the search")
    return differences


def reached(differences: Differences, cells: Codes, counts: Counts, table: Table) -> Intervals:
    """(n, 2) int64 smallest and largest value of each of (n, variables) cells, each once, that some table has.

    Over the true table, with (n,) counts, and what the differences make of it; they are taken for feasible.
    """
    place = table.schema.keys.matching(cells, differences.cells)
    hit = place >= 0
    return counts[:, None] + extremes(place[hit], differences.changes[hit], len(cells))


@lru_cache(maxsize=8)
def _search(table: Table, knowledge: Knowledge) -> _Search:
    # units of one round come to a process one by one, each with a copy of what is known
    return _Search(table, knowledge)


def forget() -> None:
    """Drops what the searches of this process share."""
    _search.cache_clear()


class _Search:
    """What the searches of one process share: the moves that keep what is known, and the true table as a hash table."""

    def __init__(self, table: Table, knowledge: Knowledge) -> None:
        if not can_search(table):
            raise ReleaseError(
                f"{len(table.schema)} variables with {table.schema.cells} cells are too many for basic moves (at most "
                f"{MAX_VARIABLES} variables and 2^59 cells); choose the method nested or fewer variables"
            )
        sizes, strides = np.array(table.schema.sizes), table.schema.keys.strides
        keys = table.schema.keys.pack(table.codes)
        self._kernel = _new_work(sizes, strides, _flips(knowledge), keys, table.counts)

    def shift(self, key: int, wanted: int, effort: int, nodes: int, trails: list[Trail]) -> tuple[int, int]:
        """Moves one cell; appends the moves' corners where it moved. How far it went, and the nodes used."""
        if not wanted or nodes <= 0:
            return 0, 0
        got, done, used = move_kernel.shift(self._kernel, key, wanted, SCHEDULE[:effort], nodes)
        if got:
            trails.append(_corners(self._kernel.trail[:done]))
        move_kernel.restore(self._kernel, done)
        return got, used


def _flips(knowledge: Knowledge) -> tuple[Counts, Counts]:
    """The smallest sets of varying variables that no released sub-table contains, small ones first."""
    # a larger set contains a smallest one, whose move leaves the marginals as well and needs fewer donors
    sets = [s for s in knowledge.minimal_uncovered if st.dimension(s) <= MAX_FLIPS]
    members = np.zeros((len(sets), MAX_FLIPS), np.int64)
    for row, subtable in enumerate(sets):
        members[row, : st.dimension(subtable)] = st.members(subtable)
    return members, np.array([st.dimension(s) for s in sets], np.int64)


def _new_work(sizes: Counts, strides: Counts, flips: tuple[Counts, Counts], keys: Counts, counts: Counts) -> Work:
    """Room for the search of a table with these cells and counts, for moves that flip such sets of variables."""
    # a quarter full at most, half with all that is inserted, so that a probe mostly ends at its first slot
    slots = 1 << int(4 * len(keys) + 2 * move_kernel.MAX_INSERTED).bit_length()
    depths, candidates = move_kernel.MAX_DEPTHS, move_kernel.MAX_CANDIDATES
    work = Work(
        sizes,
        strides,
        *flips,
        keys=np.full(slots, move_kernel.EMPTY),
        counts=np.zeros(slots, np.int64),
        inserted=np.zeros(move_kernel.MAX_INSERTED, np.int64),
        filled=np.zeros(1, np.int64),
        candidates=np.zeros((depths, candidates, 2 + move_kernel.MAX_MISSING), np.int64),
        steps=np.zeros((depths, candidates, MAX_FLIPS), np.int64),
        trail=np.zeros((move_kernel.MAX_TRAIL, 3 + MAX_FLIPS), np.int64),
        memo=np.full(move_kernel.MEMO_SLOTS, move_kernel.EMPTY),
        stamps=np.zeros(move_kernel.MEMO_SLOTS, np.int64),
        stamp=np.zeros(1, np.int64),
        frames=np.zeros((depths, 7), np.int64),
        near=np.zeros((len(sizes), int(sizes.max())), np.int64),
        nodes=np.zeros(1, np.int64),
    )
    move_kernel.fill(work, keys, counts)
    # the true cells are not noted as inserted, so that `restore` never takes them out
    work.filled[0] = 0
    return work


def _corners(trail: Counts) -> Trail:
    """Keys and changes (+1, -1) of all corners of (moves, 3 + MAX_FLIPS) moves made, not yet added up by cell."""
    bits = np.arange(1 << MAX_FLIPS)
    # corner i adds the steps of the bits of i to the key, as in the kernel
    cells, flipped, up, steps = trail[:, 0], trail[:, 1], trail[:, 2], trail[:, 3:]
    keys = cells[:, None] + steps @ (bits >> np.arange(MAX_FLIPS)[:, None] & 1)
    changes = np.where((up[:, None] == 1) == move_kernel.ODD, -1, 1)
    used = bits < 1 << flipped[:, None]
    return keys[used], changes[used]
