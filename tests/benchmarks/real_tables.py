"""Builds of real tables, each by this tree and by the tree of another commit, one after the other.

    python tests/benchmarks/real_tables.py [--beside TREE] [nltcs cps13 cps13-5 cps13-10 cps14 census acs16 acs23 forty]

A line a table and tree: sub-tables released, how many of its at-risk cells `sdc verify` finds proven, seconds of the
build with two workers, and the largest memory of a worker and of the build's process. A build that takes more than
20 minutes is ended. The last table is not real: 300,000 records of 40 variables in as many cells, all of them at risk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from border import forty
from side_by_side import data_file, machine, say

from sdc.storage.parquet import write_table

HERE, MOST_SECONDS = Path(__file__).parents[2], 1200.0


def main() -> None:
    given = sys.argv[1:]
    beside = [Path(given[given.index("--beside") + 1])] if "--beside" in given else []
    configs = configs_of_all()
    names = [word for word in given if word in configs] or list(configs)
    say(machine())
    for name in names:
        for tree in (*beside, HERE):
            with tempfile.TemporaryDirectory() as folder:
                if name == "forty":
                    write_table(forty(), Path(folder) / "forty")
                    (Path(folder) / "forty" / "schema.json").unlink()  # counted cells like any others
                say(f"{name:8} {tree.name:12} {built(configs[name], tree, Path(folder))}")


def configs_of_all() -> dict[str, dict[str, Any]]:
    acs = str(data_file("acs23.parquet"))
    sixteen = [f"a{v:02}" for v in range(7, 23)]
    recoded = yaml.safe_load(data_file("census_10.yaml").read_text())
    recoded["table"]["path"] = str(data_file("census_income_kdd.parquet"))
    return {
        "nltcs": _config({"path": str(data_file("nltcs_cells.parquet"))}, 3),
        "cps13": _config({"path": str(data_file("cps13.parquet"))}, 3, "best"),
        "cps13-5": _config({"path": str(data_file("cps13.parquet"))}, 5, "best"),
        "cps13-10": _config({"path": str(data_file("cps13.parquet"))}, 10, "best"),
        "cps14": _config({"path": str(data_file("cps14.parquet"))}, 3, "best"),
        "census": recoded,
        "acs16": _config({"path": acs, "variables": sixteen}, 5),
        "acs23": _config({"path": acs}, 5),
        "forty": {
            **_config({"path": "forty"}, 3),
            "release": {"method": "decomposable", "annealing": {"steps": 20_000}},
            "widths": {"floor": 500},
        },
    }


def _config(table: dict[str, Any], min_width: int, method: str = "ordered") -> dict[str, Any]:
    risk = {"small_count": 2, "min_width": min_width}
    return {"name": "build", "table": table, "risk": risk, "release": {"method": method}}


def built(config: dict[str, Any], tree: Path, folder: Path) -> str:
    (folder / "build.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    begun = time.perf_counter()
    told, fault = command(tree, folder, "run", "build.yaml", "--workers", "2")
    seconds = time.perf_counter() - begun
    if fault:
        return f"{fault} after {seconds:.0f} s"
    run = folder / told["run_folder"]
    size = told["release"]["sub_tables"]
    stages = json.loads((run / "manifest.json").read_text())["stages"]
    here, worker = (max(s.get(key) or 0 for s in stages) for key in ("driver_mib", "worker_mib"))
    verified, fault = command(tree, folder, "verify", str(run))
    proven = fault or f"{verified['certified_cells']} of {verified['at_risk_cells']} cells proven"
    return f"{size:5} sub-tables, {proven}, {seconds:4.0f} s, worker {worker} MiB, process {here} MiB"


def command(tree: Path, folder: Path, *words: str, seconds: float = MOST_SECONDS) -> tuple[dict[str, Any], str]:
    """The document that the command of a tree prints, or how it failed."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    asked = [sys.executable, "-m", "sdc.commands.cli", *words, "--json"]
    try:
        done = subprocess.run(
            asked, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {}, f"sdc {words[0]}: not done"
    if done.returncode:
        return {}, f"sdc {words[0]}: status {done.returncode}, {done.stderr.strip().splitlines()[-1][:200]}"
    return dict(json.loads(done.stdout)), ""


if __name__ == "__main__":
    main()
