"""From one worker process to two: the width sweep, the border of 40 variables, an assessment, and a whole search.

    python tests/benchmarks/speed_up.py [widths variables assessment search]

Some 15 minutes for all. The runs take turns, and so do units that only count: what those fall short of 2 is the
machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from border import forty
from side_by_side import ROOT, check, data_file, in_turn, machine, say, show
from width_sweep import SMALL_COUNT, count_all

from sdc.api import best_release
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.executor import Executor
from sdc.ingest.reading import read_table
from sdc.model.release import NOTHING, Release
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget, Effort
from sdc.risk.inquiry import Inquiry

sys.path.append(str(ROOT))
from tests.strategies import knows

ROUNDS, GOAL = 3, "1.80"
FLOOR = 1000
RELEASED_WIDTH, MIN_WIDTH, BUDGET = 1000, 3, Budget(seconds_per_cell=0.3)


def main() -> None:
    say(machine())
    cps13, cps14 = (read_table(data_file(f"{name}.parquet")) for name in ("cps13", "cps14"))
    release = Release.of(critical_widths(cps13, floor=RELEASED_WIDTH).sub_tables.tolist())
    works: dict[str, Callable[[Executor], Any]] = {
        "widths of cps14": partial(widths, cps14, 0),
        f"40 variables, floor {FLOOR}": partial(widths, forty(), FLOOR),
        f"assessment, cps13, {len(release.frontier)} in the frontier": partial(assessed, cps13, release),
        f"search, cps13, best of both at min width {MIN_WIDTH}": partial(searched, cps13),
    }
    if sys.argv[1:]:
        works = {name: work for name, work in works.items() if any(word in name for word in sys.argv[1:])}
    with open_executor(ExecutionConfig(workers=1)) as one, open_executor(ExecutionConfig(workers=2)) as two:
        rows = [[name, *speed_up(work, one, two, GOAL)] for name, work in works.items()]
        rows.append(["arithmetic only", *speed_up(partial(count_all, cps13), one, two, "")])
    header = ["", "1 worker", "2 workers", "1 / 2, medians", "1 / 2, best runs", "goal"]
    show(f"warm, median seconds of {ROUNDS} in turn ({machine()})", header, rows)


def speed_up(work: Callable[[Executor], Any], one: Executor, two: Executor, goal: str) -> list[object]:
    """Medians with one worker and with two, and the ratio by medians and by the best runs; the results are the same."""
    check(equal(work(one), work(two)), "results of one and two workers")
    alone, both = in_turn(ROUNDS, lambda: work(one), lambda: work(two))
    return [median(alone), median(both), *(f"{take(alone) / take(both):.2f}" for take in (median, min)), goal]


def equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def widths(table: Table, floor: int, executor: Executor) -> tuple[Any, ...]:
    found = critical_widths(table, small_count=SMALL_COUNT, floor=floor, executor=executor)
    return found.sub_tables, found.widths


def assessed(table: Table, release: Release, executor: Executor) -> tuple[Any, ...]:
    """All at-risk cells bounded and certified by walks of moves, as in the assessment stage, nothing known before."""
    asked = Inquiry(
        table, knows(table, NOTHING), Criteria.of(SMALL_COUNT, MIN_WIDTH), effort=Effort(BUDGET, executor=executor)
    )
    _, bounds = asked.examine(release)
    return bounds.outer, bounds.inner


def searched(table: Table, executor: Executor) -> tuple[Any, ...]:
    """A whole search, as in the search stage."""
    found = best_release(table, NOTHING, min_width=MIN_WIDTH, small_count=SMALL_COUNT, executor=executor)
    return np.array(found.release.frontier), np.array([step.length for step in found.steps])


if __name__ == "__main__":
    main()
