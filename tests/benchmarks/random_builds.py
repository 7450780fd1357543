"""Whole builds of random tables beyond exact methods, with budgets from tiny to ample, each verified.

    python tests/benchmarks/random_builds.py [300] [seed]

A build that ends without a release, or with a smaller one, though a step of its own search certified one, is a fault;
so is a published one that `verify` does not accept, or in which a cell is not certified. Exit status 1 where there was
any. Some 2 s a build on one core.
"""

from __future__ import annotations

import collections
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from side_by_side import machine, say

from sdc.executor import IN_PROCESS
from sdc.model.errors import SdcError
from sdc.model.release import Release
from sdc.run_format import SEARCH_FILE
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.verify.run_folder import verify

LEAST_CELLS, MOST_CELLS = 257, 1500
METHODS = ("ordered", "bisection", "best", "decomposable")


def main() -> None:
    number, seed = (int(word) for word in (*sys.argv[1:], *("300", "0")[len(sys.argv) - 1 :]))
    say(f"{machine()}; {number} builds, seed {seed}")
    outcomes = collections.Counter(one(np.random.default_rng([seed, k]), k) for k in range(number))
    for outcome, times in sorted(outcomes.items()):
        say(f"{times:4} {outcome}")
    sys.exit(any(outcome.startswith("FAULT") for outcome in outcomes))


def one(random: np.random.Generator, number: int) -> str:
    """What became of a build, in a few words."""
    with tempfile.TemporaryDirectory() as folder:
        content = write_build(random, Path(folder))
        build = open_build(Path(folder) / "build.yaml")
        try:
            run_all(build, IN_PROCESS)
        except SdcError as error:
            return refused(build, content, error, number)
        found, released, certified = (
            verify(build.folder.path),
            build.made.found.release.sub_tables(build.made.table.schema),
            most_certified(build),
        )
    if not found.verified or found.certified_cells != found.at_risk_cells:
        say(f"build {number}: {content}: {found.failures}, {found.uncertified}")
        return "FAULT: published and not verified"
    if released < certified:
        say(f"build {number}: {content}: {released} sub-tables released, a step of the search certified {certified}")
        return "FAULT: published less than a step of the search certified"
    return f"published and verified, {'no less than its steps certified' if certified else 'without a certified step'}"


def refused(build: Build, content: dict[str, Any], error: SdcError, number: int) -> str:
    """Whether a refusal is one that a step of the search contradicts."""
    has_searched = (build.folder.stage("search") / SEARCH_FILE).exists()
    if has_searched and (certified := most_certified(build)):
        say(f"build {number}: {content}: a step of the search certified {certified} sub-tables, yet: {error}")
        return "FAULT: no release, though a step of the search certified one"
    return f"refused: {' '.join(str(error).split()[:7])} ..."


def most_certified(build: Build) -> int:
    """Sub-tables of the largest release that a step of the search certified; 0 where none did.

    Of a step that adds sub-tables to a release those that it counts, though what is within them may be more.
    """
    widths, certified = build.made.widths, [step for step in build.made.found.steps if step.answer is True]
    listed = widths.reaching(build.criteria.width.min_width) or widths.sub_tables.tolist()
    prefixes = [
        Release.of(listed[: step.length]).sub_tables(build.made.table.schema)
        for step in certified
        if step.phase == "bisection"
    ]
    return max([0, *prefixes, *(step.length + len(step.added) for step in certified if step.phase != "bisection")])


def write_build(random: np.random.Generator, folder: Path) -> dict[str, Any]:
    """A table of sparse counts as CSV, and a config whose budgets range over four orders of magnitude."""
    sizes = table_sizes(random)
    records = int(random.integers(len(sizes) * 20, 4 * int(np.prod(sizes))))
    skew = random.uniform(0, 2)
    columns = []
    for size in sizes:
        weights = (1.0 + np.arange(size)) ** -skew
        columns.append(random.choice(size, records, p=weights / weights.sum()))
    names = [f"v{v}" for v in range(len(sizes))]
    rows = [",".join(names), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    content = {
        "name": "random",
        "table": {"path": "table.csv"},
        "risk": {"min_width": int(random.integers(1, 7)), "small_count": int(random.integers(1, 4))},
        "release": {
            "method": str(random.choice(METHODS)),
            "refute_cells": int(random.choice([0, 2, 16])),
            "seconds_per_cell": float(10 ** random.uniform(-4, 0.3)),
            "seconds": float(10 ** random.uniform(-3, 1.3)),
        },
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder / "runs")},
    }
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    return content


def table_sizes(random: np.random.Generator) -> list[int]:
    while True:
        sizes = random.integers(2, 6, int(random.integers(4, 8))).tolist()
        if LEAST_CELLS <= np.prod(sizes) <= MOST_CELLS:
            return list(sizes)


if __name__ == "__main__":
    main()
