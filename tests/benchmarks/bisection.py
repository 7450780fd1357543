"""The longest prefix of the list by critical width ([KDSF] 5.2): questions, and seconds on one and on two workers.

    python tests/benchmarks/bisection.py [czech] [cps13] [cps14] [one two] [3 10]

First the published table at widths 6 to 9, with each question; then the survey of 13 and of 14 variables at the widths
named, by default 10. Seconds are of the wall clock and of all processors, those of the workers too.
"""

from __future__ import annotations

import os
import sys
import time

from side_by_side import ROOT, check, data_file, machine, say, show

import sdc
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.search.best import FoundRelease
from sdc.search.step import SearchStep
from sdc.stages.assemble import Watch

sys.path.append(str(ROOT))
from tests.strategies import czech

WORKERS = {"one": 1, "two": 2}
HEADER = ["table", "width", "workers", "list", "prefix", "sub-tables", "questions", "s", "processor s"]


def main() -> None:
    words = sys.argv[1:]
    say(machine())
    named = [name for name in ("czech", "cps13", "cps14") if name in words] or ["czech", "cps13", "cps14"]
    if "czech" in named:
        published()
    workers = [count for word, count in WORKERS.items() if word in words] or [1, 2]
    widths = [int(word) for word in words if word.isdigit()] or [10]
    rows = []
    for name in named:
        for width in widths if name != "czech" else ():
            rows += compared(name, width, workers)
    if rows:
        show("prefixes of surveys", HEADER, rows)


def published() -> None:
    """The Czech table: 60 sub-tables with the total at 6 to 9."""
    for width in range(6, 10):
        steps: list[SearchStep] = []
        found = sdc.bisection_release(czech(), NOTHING, min_width=width, watch=Watch(steps.append))
        asked = ", ".join(f"{step.length} {'yes' if step.answer else 'no'} {step.min_width[0]}" for step in steps)
        say(f"czech, width {width}: {found.sub_tables_with_total} sub-tables with the total; {asked}")
        check(found.sub_tables_with_total == 60, "60 sub-tables with the total")


def compared(name: str, width: int, workers: list[int]) -> list[list[object]]:
    """A row for each number of workers; the steps are the same."""
    table = sdc.read_table(data_file(f"{name}.parquet"))
    rows, steps = [], set()
    for count in workers:
        found, seconds, busy = measured(table, width, count)
        size = max((step.length for step in found.steps if step.answer), default=0)
        listed = sdc.critical_widths(table).number_reaching(width)
        asked = [size, found.sub_tables, len(found.steps), f"{seconds:.1f}", f"{busy:.1f}"]
        rows.append([name, width, count, listed, *asked])
        steps.add(found.steps)
    check(len(steps) == 1, "the same questions and answers whatever the workers")
    return rows


def measured(table: Table, width: int, workers: int) -> tuple[FoundRelease, float, float]:
    """What is found, seconds of the search, and seconds of all processors."""
    ends = [time.perf_counter()]

    def told(step: SearchStep) -> None:
        ends.append(time.perf_counter())
        answer = {True: "yes", False: "no", None: "undecided"}[step.answer]
        say(f"  {workers} workers: the first {step.length}: {answer}, {ends[-1] - ends[-2]:.1f} s")

    before = os.times()
    with open_executor(ExecutionConfig(workers=workers, memory_per_worker="2GiB")) as executor:
        ends[0] = time.perf_counter()
        found = sdc.bisection_release(table, NOTHING, min_width=width, executor=executor, watch=Watch(told))
        seconds = time.perf_counter() - ends[0]
    # once the workers are gone, which then count among the children
    return found, seconds, sum(os.times()[:4]) - sum(before[:4])


if __name__ == "__main__":
    main()
