"""Share of the at-risk cells of cps13 that walks certify for min width 3 over time, on one core.

    python tests/benchmarks/walk.py [638 1000 ...] [15 30 60 ...]

For each prefix of the ordered list, numbers above 120, the share of the 29,501 cells after so many seconds of
processor time, numbers up to 120. Cells are taken in one random order: once each, then again those that are open.
Every table found is checked in integers within that time, and serves all the cells that it moves. Beside the commit
before: run this file with PYTHONPATH set to a worktree of it, whose chains of moves are then measured; both at once,
with `taskset -c 0` before the one and `taskset -c 1` before the other, each on its own core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from side_by_side import ROOT, data_file, machine, one_core, say, show

from sdc.feasible.differences import Differences, extremes
from sdc.ingest.reading import read_table
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths

sys.path.append(str(ROOT))
from tests.strategies import knows

Ints: TypeAlias = npt.NDArray[np.int64]
SMALL_COUNT, MIN_WIDTH, SECONDS_UP_TO, CELLS_AT_ONCE = 2, 3, 120, 64
WALKS = find_spec("sdc.feasible.walk") is not None
SEARCH: Any = import_module("sdc.feasible.walk" if WALKS else "sdc.feasible.moves")
NODES = 10_000 if WALKS else 3_000
# from cheap to dear, as a judgement has them
EFFORTS: list[dict[str, Any]] = (
    [{"tries": SEARCH.FIRST}, {"tries": SEARCH.OTHERS}] if WALKS else [{"effort": 1}, {"effort": SEARCH.EFFORTS}]
)


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    prefixes = [number for number in given if number > SECONDS_UP_TO] or [483, 638, 800, 1000, 1264]
    seconds = sorted(number for number in given if number <= SECONDS_UP_TO) or [15, 30, 60, 120]
    table = read_table(data_file("cps13.parquet"))
    ordered = critical_widths(table, small_count=SMALL_COUNT).reaching(MIN_WIDTH)
    with one_core() as pinned:
        say(f"{machine()}; {'walks' if WALKS else 'chains'}, {pinned}")
        list(rounds(table, knows(table, Release.of(ordered[:300])), 0.0))  # loads the kernels
        rows = [[prefix, *shares(table, Release.of(ordered[:prefix]), seconds)] for prefix in prefixes]
    show(f"cps13, min width {MIN_WIDTH}: % of at-risk cells certified", ["prefix", *(f"{s} s" for s in seconds)], rows)


def shares(table: Table, release: Release, seconds: Sequence[int]) -> list[float]:
    """Per cent of the at-risk cells certified after so many seconds of processor time."""
    known, begun = knows(table, release), time.process_time()
    told, share = [], 0.0
    for _, share in rounds(table, known, begun + seconds[-1]):
        while len(told) < len(seconds) and time.process_time() - begun >= seconds[len(told)]:
            told.append(100 * share)
    return told + [100 * share] * (len(seconds) - len(told))


def rounds(table: Table, known: Knowledge, until: float) -> Iterator[tuple[Ints, float]]:
    """How far each at-risk cell can go down and up, and the share certified, after one batch of them and the next."""
    rows = table.at_risk(SMALL_COUNT)
    cells, counts = table.codes[rows], table.counts[rows]
    ends = np.zeros((len(rows), 2), np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    for effort in EFFORTS:
        waiting = open_of(ends, order)
        for begin in range(0, len(waiting), CELLS_AT_ONCE):
            for down in (True, False):
                batch = open_of(ends, waiting[begin : begin + CELLS_AT_ONCE])
                wanted = -counts[batch] if down else MIN_WIDTH + ends[batch, 0]
                moved = SEARCH.shift(table, known, cells[batch], wanted, nodes=NODES, **effort)
                ends = credited(ends, table, cells, moved.differences)
            yield ends, 1 - len(open_of(ends, order)) / len(order)
            if time.process_time() >= until:
                return


def open_of(ends: Ints, rows: Ints) -> Ints:
    return rows[ends[rows, 1] - ends[rows, 0] < MIN_WIDTH]


def credited(ends: Ints, table: Table, cells: npt.NDArray[np.uint16], found: Differences) -> Ints:
    """How far each cell can go down and up, with what was found."""
    place = table.schema.keys.matching(cells, found.cells)
    more = extremes(place[place >= 0], found.changes[place >= 0], len(cells))
    return np.stack([np.minimum(ends[:, 0], more[:, 0]), np.maximum(ends[:, 1], more[:, 1])], axis=1)


if __name__ == "__main__":
    main()
