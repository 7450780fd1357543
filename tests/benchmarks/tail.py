"""What closes the cells that walks leave open: of a prefix of the ordered list, and where a grown release stopped.

    python tests/benchmarks/tail.py [prefix] [cells]

Of cps13 at min width 3: of 100 random cells that are open at prefix 1,000 after 240 s of walks, how many are then
closed by longer walks, by sparsest differences, and by outer bounds, each asked about what the one before has left, and
in what time. What stays open is told with its bracket and its isolation. Then the same of the cells that stopped the
growth, under the release and each sub-table that they stopped, in the component that has it. Some 15 minutes.
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable

import numpy as np
import walk as walks
from side_by_side import ROOT, data_file, machine, say, show

from sdc.bounds import collapse, linear_program, nested
from sdc.feasible import sparsest, walk
from sdc.feasible.differences import Differences
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.table import Codes, Counts, Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Effort
from sdc.risk.inquiry import Inquiry
from sdc.search.blockers import blockers, near
from sdc.search.ordered import OrderedSearch

sys.path.append(str(ROOT))
from tests.strategies import knows

SMALL_COUNT, MIN_WIDTH, SECONDS_OF_WALKS = 2, 3, 240.0
LONGER = 100_000  # nodes a cell and way, ten times what a judgement gives


def main() -> None:
    prefix, number = (int(word) for word in (*sys.argv[1:], *("1000", "100")[len(sys.argv) - 1 :]))
    table = read_table(data_file("cps13.parquet"))
    ordered = critical_widths(table, small_count=SMALL_COUNT).reaching(MIN_WIDTH)
    say(machine())
    of_prefix(table, knows(table, Release.of(ordered[:prefix])), prefix, number)
    of_growth(table)


def of_prefix(table: Table, known: Knowledge, prefix: int, number: int) -> None:
    rows = table.at_risk(SMALL_COUNT)
    until = time.process_time() + SECONDS_OF_WALKS
    ((ends, _),) = collections.deque(walks.rounds(table, known, until), maxlen=1)
    every = walks.open_of(ends, np.random.default_rng(0).permutation(len(rows)))
    say(f"prefix {prefix}: {len(every)} cells open after {SECONDS_OF_WALKS:g} s of walks")
    tail = Tail(table, known, table.codes[rows[every[:number]]])
    tail.close()
    show(f"{number} of them", HEADER, [[way, *figures] for way, figures in tail.told.items()])
    tail.say_what_stays()


def of_growth(table: Table) -> None:
    """The cells that stopped each sub-table alone, as marginal cells of the component that it would be in."""
    asked = Inquiry(table, knows(table, NOTHING), Criteria.of(SMALL_COUNT, MIN_WIDTH), effort=Effort())
    found = OrderedSearch(asked, critical_widths(table, small_count=SMALL_COUNT)).run()
    stopped = [(cell, t) for cell, sub_tables in blockers(found.steps) for t in sub_tables]
    told: dict[str, list[float]] = {}
    for sub_table in sorted({t for _, t in stopped}):
        known = knows(table, found.release.add(sub_table))
        part = next(part for part in known.structure.components.cliques if st.is_within(sub_table, part))
        cells = np.array([cell for cell, t in stopped if t == sub_table], np.uint16)[:, st.members(part)]
        tail = Tail(table.marginal(part), known.within(part), np.unique(cells, axis=0))
        tail.close()
        say(f"  {st.label(sub_table, table.schema)}, component of {st.dimension(part)}: {tail.bracket()}")
        for way, figures in tail.told.items():
            told[way] = [a + b for a, b in zip(told.get(way, [0] * len(figures)), figures, strict=True)]
    title = f"growth to {found.sub_tables} sub-tables: what stopped {len({t for _, t in stopped})} of them"
    show(title, HEADER, [[way, *figures] for way, figures in told.items()])


HEADER = ["by", "asked", "certified", "refuted", "seconds"]


class Tail:
    """Cells that are open, of a table under what is known, and what closes them one after the other."""

    def __init__(self, table: Table, known: Knowledge, cells: Codes) -> None:
        self.table, self.known, self.cells = table, known, cells
        self.outer = nested.bounds(table, known, cells).outer.copy()
        self.ends = np.zeros((len(cells), 2), np.int64)
        self.told: dict[str, list[float]] = {}

    @property
    def open(self) -> Counts:
        """Rows of the cells that are neither certified nor refuted."""
        wide = self.ends[:, 1] - self.ends[:, 0] >= MIN_WIDTH
        return np.flatnonzero(~wide & (np.diff(self.outer)[:, 0] >= MIN_WIDTH))

    def close(self) -> None:
        self._try("walks, 100,000 nodes", self._walk)
        self._try("sparsest differences", self._sparsest)
        self._try("collapse", self._collapse)
        affordable = linear_program.is_affordable(self.known)
        self._try(
            "linear program" if affordable else "linear program: too large", self._program if affordable else None
        )

    def _try(self, name: str, way: Callable[[Counts], None] | None) -> None:
        rows, begun = self.open, time.perf_counter()
        if way is not None and len(rows):
            way(rows)
        closed = np.setdiff1d(rows, self.open)
        certified = int((np.diff(self.ends[closed])[:, 0] >= MIN_WIDTH).sum())
        self.told[name] = [len(rows), certified, len(closed) - certified, time.perf_counter() - begun]

    def _walk(self, rows: Counts) -> None:
        widths = np.full(len(rows), MIN_WIDTH)
        self._credit(walk.find(self.table, self.known, self.cells[rows], widths, nodes=LONGER).differences)

    def _sparsest(self, rows: Counts) -> None:
        more = MIN_WIDTH + self.ends[rows, 0]
        self._credit(sparsest.find(self.table, self.known, self.cells[rows], more).differences)

    def _credit(self, found: Differences) -> None:
        self.ends = walks.credited(self.ends, self.table, self.cells, found)

    def _collapse(self, rows: Counts) -> None:
        self._narrow(rows, collapse.bounds(self.table, self.known, self.cells[rows]))

    def _program(self, rows: Counts) -> None:
        found = linear_program.bounds(self.table, self.known, self.cells[rows])
        self._narrow(rows, found)
        reached = found.inner - found.counts[:, None]
        self.ends[rows, 0] = np.minimum(self.ends[rows, 0], reached[:, 0])
        self.ends[rows, 1] = np.maximum(self.ends[rows, 1], reached[:, 1])

    def _narrow(self, rows: Counts, found: CellBounds) -> None:
        self.outer[rows, 0] = np.maximum(self.outer[rows, 0], found.outer[:, 0])
        self.outer[rows, 1] = np.minimum(self.outer[rows, 1], found.outer[:, 1])

    def bracket(self) -> str:
        """Of each cell the widths between which the true one is."""
        brackets = zip(np.diff(self.ends)[:, 0].tolist(), np.diff(self.outer)[:, 0].tolist(), strict=True)
        return ", ".join(f"{inner} to {outer}" for inner, outer in brackets)

    def say_what_stays(self) -> None:
        """How many of the open cells have which inner width, how wide they can be, and what is near them."""
        rows = self.open
        inner, outer = (np.diff(ends[rows])[:, 0] for ends in (self.ends, self.outer))
        for width in range(MIN_WIDTH):
            others = outer[inner == width]
            if len(others):
                say(f"  {len(others):3} cells of width {width} at least, {others.min()} to {others.max()} at most")
        around = [near(self.table, tuple(cell)).alone for cell in self.cells[rows].tolist()]
        one, two = (np.median([int((alone == is_one).sum()) for alone in around]) for is_one in (True, False))
        say(f"  median of occupied cells in distance 1: {one:g}, in distance 2: {two:g}")


if __name__ == "__main__":
    main()
