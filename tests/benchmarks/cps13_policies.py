"""Builds of cps13 at min width 3, 5 and 10 under both policies for undecided cells, beside the decomposable best.

    python tests/benchmarks/cps13_policies.py [ordered | best] [3 5 10] [refuse outer]

Each line is one `sdc run` with two worker processes and what `sdc verify` says of its run folder. Under `refuse`, which
is the default, all that is released is certified; under `outer` the final assessment may certify for 60 s of a
reference core, and the rest stays undecided. Some 2 to 10 minutes a build.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from real_tables import HERE, command
from side_by_side import ROOT, data_file, machine, say

from sdc.ingest.reading import read_table
from sdc.model.release import NOTHING
from sdc.risk.criteria import Criteria
from sdc.risk.inquiry import Inquiry
from sdc.search.decomposable import DecomposableSearch

sys.path.append(str(ROOT))
from tests.strategies import knows

SMALL_COUNT, SECONDS_UNDER_OUTER = 2, 60


def main() -> None:
    given = sys.argv[1:]
    method = next((word for word in given if word in ("ordered", "best")), "ordered")
    widths = [int(word) for word in given if word.isdigit()] or [3, 5, 10]
    policies = [word for word in given if word in ("refuse", "outer")] or ["refuse", "outer"]
    say(f"{machine()}; method {method}, small count {SMALL_COUNT}")
    for min_width in widths:
        most = decomposable_best(min_width)
        for policy in policies:
            with tempfile.TemporaryDirectory() as folder:
                show(build(method, min_width, policy, Path(folder)), most, min_width, policy)


def decomposable_best(min_width: int) -> int:
    """Sub-tables of the best decomposable release of four annealing chains."""
    table = read_table(data_file("cps13.parquet"))
    asked = Inquiry(table, knows(table, NOTHING), Criteria.of(SMALL_COUNT, min_width))
    return DecomposableSearch(asked).run().sub_tables


def build(method: str, min_width: int, policy: str, folder: Path) -> dict[str, Any]:
    """One `sdc run`, and what is in its run folder."""
    release: dict[str, Any] = {"method": method, "refute_cells": 32}
    if policy == "outer":
        release["seconds"] = SECONDS_UNDER_OUTER
    config = {
        "name": "cps_13",
        "table": {"path": str(data_file("cps13.parquet")), "partitions": 2},
        "risk": {"small_count": SMALL_COUNT, "min_width": min_width, "undecided": policy},
        "release": release,
    }
    (folder / "build.yaml").write_text(yaml.safe_dump(config))
    begun = time.perf_counter()
    told = done(*command(HERE, folder, "run", "build.yaml", "--workers", "2"))
    seconds = time.perf_counter() - begun
    run = folder / told["run_folder"]
    assessment = json.loads((run / "assessment" / "assessment.json").read_text())
    verified = done(*command(HERE, folder, "verify", str(run)))
    return {"seconds": seconds, "release": told["release"], "assessment": assessment, "verified": verified}


def done(told: dict[str, Any], fault: str) -> dict[str, Any]:
    if fault:
        raise SystemExit(fault)
    return told


def show(found: dict[str, Any], most: int, min_width: int, policy: str) -> None:
    size, assessment = found["release"]["sub_tables"], found["assessment"]
    say(
        f"min width {min_width:2}, {policy:6}: {size:5} sub-tables in {found['seconds']:4.0f} s, "
        f"{assessment['undecided_cells']} of {assessment['at_risk_cells']} at-risk cells undecided, min width "
        f"{assessment['min_width']}, {found['verified']['certified_cells']} verified; decomposable best {most}, "
        f"ratio {size / most:.2f}"
    )


if __name__ == "__main__":
    main()
