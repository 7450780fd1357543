"""How many cells have sharp bounds after how long, by which methods, and what a second worker gives.

    python tests/benchmarks/sharp.py [cps8 eight nltcs random workers cps13 ...] [seconds ...]

cps8     its 547 at-risk cells under its release for width 3, which is searched for first
eight    2^8 cells of nltcs, and of cps13 with each variable cut in two, under all sub-tables of three variables
nltcs    its 2,228 at-risk cells under all pairs
random   2,000 small tables against the enumeration of all feasible tables
workers  the same bounds by one and by two workers of a local cluster
cps13    its 29,501 at-risk cells under the release that `breadth=1` finds for width 3, one budget after another

Without words all but cps13, which takes its budgets: 120, 600 and 1,800 seconds unless others are given. Times are of
this process, in seconds of its processor; a budget is counted in steps, which take what they take here.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations, groupby

import numpy as np
from side_by_side import ROOT, check, data_file, machine, say, show

from sdc.api import best_release
from sdc.bounds.enumeration import enumerate_tables
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.executor import IN_PROCESS, Executor
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk.sharp import METHODS, SharpBounds, SharpPart, SharpProgress, sharp_bounds

sys.path.append(str(ROOT))
from tests.strategies import knows

SMALL_COUNT, MIN_WIDTH = 2, 3
EIGHT_OF_NLTCS, EIGHT_OF_CPS13 = (0, 1, 2, 4, 5, 7, 8, 13), (0, 1, 4, 5, 8, 9, 11, 12)
TABLES, MOST_TABLES = 2000, 20_000
BUDGETS = (120, 600, 1800)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.isdigit()] or [name for name in CHOICES if name != "cps13"]
    if unknown := [word for word in words if word not in CHOICES]:
        sys.exit(f"{', '.join(unknown)}: choose from {', '.join(CHOICES)}")
    say(machine())
    for word in words:
        CHOICES[word]()


def cps8() -> None:
    table = read_table(data_file("cps8.parquet"))
    release = best_release(table, NOTHING, min_width=MIN_WIDTH).release
    report("cps8", table, release, 30)


def eight() -> None:
    nltcs = read_table(data_file("nltcs_cells.parquet")).marginal(st.of(EIGHT_OF_NLTCS))
    for name, table in {"nltcs, 2^8": nltcs, "cps13 cut in two, 2^8": cut_in_two()}.items():
        for seconds in (10, 60):
            report(f"{name}, all three-way", table, all_ways(table, 3), seconds)


def nltcs() -> None:
    table = read_table(data_file("nltcs_cells.parquet"))
    report("nltcs, all pairs", table, all_ways(table, 2), 150)


def cps13() -> None:
    table = read_table(data_file("cps13.parquet"))
    release = best_release(table, NOTHING, min_width=MIN_WIDTH, breadth=1).release
    kept: dict[str, SharpPart] = {}
    for seconds in [int(word) for word in sys.argv[1:] if word.isdigit()] or BUDGETS:
        report("cps13", table, release, seconds, kept)


def cut_in_two() -> Table:
    """Eight variables of cps13, each with its first category and all others as the two that it has."""
    table = read_table(data_file("cps13.parquet")).marginal(st.of(EIGHT_OF_CPS13))
    schema = Schema(tuple(Variable(v.name, (v.categories[0], "other")) for v in table.schema.variables))
    return Table.of(schema, (table.codes > 0).astype(np.int64), table.counts)


def all_ways(table: Table, dimension: int) -> Release:
    return Release.of(st.of(some) for some in combinations(range(len(table.schema)), dimension))


class Notes:
    """The parts of a search, and what each round took: milliseconds here, and steps of the budget."""

    def __init__(self, parts: dict[str, SharpPart]) -> None:
        self.parts, self.before = parts, dict(parts)
        self.took, self.steps, self.last = Counter[str](), Counter[str](), time.process_time()

    def __call__(self, part: SharpPart, progress: SharpProgress) -> None:
        now = time.process_time()
        self.took[progress.round] += round(1000 * (now - self.last))
        self.steps[progress.round] += int(part.arrays["steps"][0])
        self.parts[part.key], self.last = part, now


def report(name: str, table: Table, release: Release, seconds: int, kept: dict[str, SharpPart] | None = None) -> None:
    """One search: how many cells are sharp, what gave their ends, and what that took."""
    cells, begun, notes = (
        table.codes[table.at_risk(SMALL_COUNT)],
        time.process_time(),
        Notes({} if kept is None else kept),
    )
    known = knows(table, release)
    found = sharp_bounds(table, known, cells, seconds=seconds, on_part=notes, kept=notes.before)
    took = time.process_time() - begun
    bounds = found.bounds
    open_, ends = bounds.rows(~bounds.exact), (bounds.outer == bounds.inner).sum(axis=0)
    say(f"\n{name}: {release.sub_tables(table.schema)} sub-tables, budget {seconds} s, {took:.1f} s of the processor")
    say(f"  {bounds.exact.sum():,} of {len(bounds):,} cells sharp; lower ends {ends[0]:,}, upper ends {ends[1]:,}")
    if len(open_):
        inner, outer = np.median(open_.inner_width), np.median(open_.outer_width)
        say(f"  the others: median inner width {inner:.0f}, outer {outer:.0f}")
    show("  ends by method", ["", "outer", "inner"], by_method(found))
    show(
        "  time",
        ["", "s", "s of budget"],
        [[name, ms / 1000, notes.steps[name] / 1e4] for name, ms in notes.took.items()],
    )


def by_method(found: SharpBounds) -> list[list[object]]:
    counts = [np.bincount(by.reshape(-1), minlength=len(METHODS)) for by in (found.outer_by, found.inner_by)]
    return [[name, int(o), int(i)] for name, o, i in zip(METHODS, *counts, strict=True) if o or i]


def random_tables() -> None:
    from tests.profiles import register_profiles

    register_profiles()
    from tests.risk.test_sharp import random_cases, sought

    judged = sharp = 0
    for table, known in random_cases(np.random.default_rng(40), TABLES * 5 // 4):
        seen = enumerate_tables(table, known, MOST_TABLES)
        if not seen.complete or judged == TABLES:
            continue
        bounds, truth = sought(table, known).bounds, np.stack([seen.lower, seen.upper], axis=1)
        around, within = (bounds.outer - truth) * [-1, 1], (truth - bounds.inner) * [-1, 1]
        check(bool((around >= 0).all() and (within >= 0).all()), f"bounds of table {judged} and the enumeration")
        judged, sharp = judged + 1, sharp + bool(bounds.exact.all())
    say(f"\n{judged:,} random tables against the enumeration: 0 wrong, {sharp:,} sharp in every cell")


def workers() -> None:
    table = read_table(data_file("nltcs_cells.parquet"))
    cells, known = table.codes[table.at_risk(SMALL_COUNT)][::8], knows(table, all_ways(table, 2))

    units: dict[str, SharpPart] = {}

    def work(executor: Executor) -> SharpBounds:
        note = lambda part, progress: units.update({part.key: part})  # noqa: E731
        return sharp_bounds(table, known, cells, seconds=60, executor=executor, on_part=note)

    with open_executor(ExecutionConfig(workers=1)) as one, open_executor(ExecutionConfig(workers=2)) as two:
        found, times = [], []
        for executor in (IN_PROCESS, one, two, two, one):
            begun = time.perf_counter()
            found.append(work(executor))
            times.append(time.perf_counter() - begun)
    first = found[0]
    for other in found[1:]:
        check(np.array_equal(first.bounds.inner, other.bounds.inner), "inner bounds, in process and on workers")
        check(np.array_equal(first.bounds.outer, other.bounds.outer), "outer bounds, in process and on workers")
    say(
        f"\n{len(cells)} cells of nltcs: {times[0]:.1f} s in process, {times[4]:.1f} s one worker, {times[3]:.1f} s two"
    )
    say(f"  {times[4] / times[3]:.2f} times as fast, warm ({machine()})")
    say(f"  by the steps of the units alone: {balance(units):.2f} times, whatever else the machine does")


def balance(units: Mapping[str, SharpPart]) -> float:
    """Steps of all units to those of the busier of two workers, who take the units of each wave in turn."""
    whole = longest = 0
    for _, wave in groupby(sorted(units), lambda key: key.split("-")[0]):
        busy = [0, 0]
        for steps in (int(units[key].arrays["steps"][0]) for key in wave):
            busy[busy[1] < busy[0]] += steps
        whole, longest = whole + sum(busy), longest + max(busy)
    return whole / longest


CHOICES: dict[str, Callable[[], None]] = {
    "cps8": cps8,
    "eight": eight,
    "nltcs": nltcs,
    "random": random_tables,
    "workers": workers,
    "cps13": cps13,
}


if __name__ == "__main__":
    main()
