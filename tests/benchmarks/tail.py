"""What closes the cells that walks leave open: of a prefix of the ordered list, and where a grown release stopped.

    python tests/benchmarks/tail.py [prefix] [cells]

Of cps13 at min width 3: of 100 random cells that are open at prefix 1,000 after 240 s of walks, how many are then
closed by longer walks, by sparsest differences, and by outer bounds, each asked about what the one before has left, and
in what time. What stays open is told with its bracket and its isolation. Then the same of each sub-table that stopped
the growth: it is asked about beside all that is released, until every cell has been tried by everything. Some 20
minutes.
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable

import numpy as np
import walk as walks
from side_by_side import data_file, machine, say, show

from sdc.bounds import collapse, linear_program
from sdc.bounds.method import LINEAR_ROWS
from sdc.feasible import sparsest, walk
from sdc.feasible.differences import Differences
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table
from sdc.risk.criterion import Budget, Effort
from sdc.risk.critical_width import critical_widths
from sdc.risk.inquiry import Inquiry
from sdc.risk.min_width import MinWidth
from sdc.search.blockers import blockers, near
from sdc.search.ordered import OrderedSearch

SMALL_COUNT, MIN_WIDTH, SECONDS_OF_WALKS = 2, 3, 240.0
LONGER = 100_000  # nodes a cell and way, ten times what a judgement gives

Way = Callable[[Table, Knowledge, Codes, Counts], Differences]


def main() -> None:
    prefix, number = (int(word) for word in (*sys.argv[1:], *("1000", "100")[len(sys.argv) - 1 :]))
    table = read_table(data_file("cps13.parquet"))
    ordered = critical_widths(table, small_count=SMALL_COUNT).reaching(MIN_WIDTH)
    say(machine())
    of_prefix(table, Knowledge.of(table, Release.of(ordered[:prefix])), prefix, number)
    of_growth(table)


def of_prefix(table: Table, known: Knowledge, prefix: int, number: int) -> None:
    rows = table.at_risk(SMALL_COUNT)
    until = time.process_time() + SECONDS_OF_WALKS
    ((ends, _),) = collections.deque(walks.rounds(table, known, until), maxlen=1)
    order = np.random.default_rng(0).permutation(len(rows))
    open_ = np.sort(walks.open_of(ends, order)[:number])
    say(f"prefix {prefix}: {len(walks.open_of(ends, order))} cells open after {SECONDS_OF_WALKS:g} s of walks")
    ends, cells, told = ends[open_], table.codes[rows[open_]], []
    ways: dict[str, Way] = {"walks, 100,000 nodes": longer_walks, "sparsest differences": sparsest_differences}
    left = np.arange(len(cells))
    for name, way in ways.items():
        begun = time.perf_counter()
        found = way(table, known, cells[left], MIN_WIDTH + ends[left, 0])
        ends = walks.credited(ends, table, cells, found)
        before, left = len(left), walks.open_of(ends, np.arange(len(cells)))
        told.append([name, before, before - len(left), 0, time.perf_counter() - begun])
    begun = time.perf_counter()
    outer = collapse.bounds(table, known, cells[left]).outer
    told.append(["collapse", len(left), 0, int((np.diff(outer) < MIN_WIDTH).sum()), time.perf_counter() - begun])
    reason = "" if linear_program.is_affordable(known, LINEAR_ROWS) else ", too large"
    told.append([f"linear program{reason}", len(left), 0, 0, 0.0])
    show(f"{len(cells)} of the open cells", ["by", "asked", "certified", "refuted", "seconds"], told)
    brackets(table, cells[left], ends[left], outer)


def longer_walks(table: Table, known: Knowledge, cells: Codes, changes: Counts) -> Differences:
    counts = table.count_at(cells)
    down, up = (walk.shift(table, known, cells, by, nodes=LONGER).differences for by in (-counts, changes))
    return Differences.concatenated([down, up])


def sparsest_differences(table: Table, known: Knowledge, cells: Codes, changes: Counts) -> Differences:
    return sparsest.find(table, known, cells, changes).differences


def brackets(table: Table, cells: Codes, ends: Counts, outer: Counts) -> None:
    """How many of the open cells have which inner and outer width, and how many occupied cells are near them."""
    widths = collections.Counter(zip(np.diff(ends)[:, 0].tolist(), np.diff(outer)[:, 0].tolist(), strict=True))
    for (inner, outside), times in sorted(widths.items()):
        say(f"  {times:3} cells of a width from {inner} to {outside}")
    around = [near(table, tuple(cell)).alone for cell in cells.tolist()]
    one, two = (np.median([int((alone == is_one).sum()) for alone in around]) for is_one in (True, False))
    say(f"  median of occupied cells in distance 1: {one:g}, in distance 2: {two:g}")


def of_growth(table: Table) -> None:
    asked = Inquiry(table, MinWidth(SMALL_COUNT, MIN_WIDTH), effort=Effort(Budget(20.0, 1e6)))
    found = OrderedSearch(asked, critical_widths(table, small_count=SMALL_COUNT)).run()
    stopped = sorted({t for _, sub_tables in blockers(found.steps) for t in sub_tables})
    say(f"growth: {found.release.sub_tables} sub-tables; {len(stopped)} were stopped alone")
    rows: list[list[object]] = []
    for sub_table in stopped:
        asked.resume(found.judgement)
        begun = time.perf_counter()
        judgement = asked.ask(found.release.add(sub_table))
        rows.append(
            [
                st.label(sub_table, table.schema),
                judgement.verdict.name.lower(),
                judgement.assessment.undecided_cells,
                "{} to {}".format(*judgement.margin),
                time.perf_counter() - begun,
            ]
        )
    show("asked again, by everything", ["sub-table", "answer", "undecided cells", "min width", "seconds"], rows)


if __name__ == "__main__":
    main()
