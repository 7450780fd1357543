"""What `sdc plan` projects beside what the build then takes: memory of workers and of this process, disk and time.

    python tests/benchmarks/plan.py

Five builds of different kinds, each planned and then run on two workers. Some ten minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from side_by_side import check, data_file, machine, say, show
from width_sweep import latent_classes

from sdc.model.table import Table
from sdc.storage.parquet import write_table

GOAL = 0.30
LIMIT_SECONDS = 1200.0


def main() -> None:
    say(machine())
    with tempfile.TemporaryDirectory(prefix="sdc-bench-") as name:
        folder = Path(name)
        rows = [row for build, config in builds(folder).items() for row in compared(build, config, folder)]
    header = ["", "projected", "measured", "projected / measured", f"within {GOAL:.0%}"]
    show("sdc plan against the build that follows", header, rows)


def builds(folder: Path) -> dict[str, dict[str, Any]]:
    """Configs by name: ordered marginals of 13 and of 16 variables, the best of both, annealing of 14 and of 30."""
    chains = {"method": "decomposable", "annealing": {"steps": 20_000}}
    ordered = {"method": "ordered", "seconds": 60.0}
    return {
        "cps13, ordered": {
            "table": {"path": str(data_file("cps13.parquet"))},
            "risk": {"min_width": 10},
            "release": ordered,
        },
        "cps13, best": {
            "table": {"path": str(data_file("cps13.parquet"))},
            "risk": {"min_width": 3},
            "release": {"method": "best", "seconds": 60.0},
        },
        "nltcs, ordered": {
            "table": {"path": str(data_file("nltcs_cells.parquet"))},
            "risk": {"min_width": 6},
            "release": ordered,
        },
        "cps14, decomposable": {
            "table": {"path": str(data_file("cps14.parquet"))},
            "risk": {"min_width": 20},
            "release": chains,
        },
        "30 variables, decomposable": {
            "table": {"path": str(thirty_variables(folder / "thirty"))},
            "risk": {"min_width": 500},
            "widths": {"floor": 500},
            "release": chains,
        },
    }


def thirty_variables(folder: Path) -> Path:
    """A table of 300,000 records with nearly as many cells, written as counted cells."""
    generator = np.random.default_rng(30)
    table: Table = latent_classes(records=300_000, variables=30, categories=4, classes=12, generator=generator)
    write_table(table, folder)
    (folder / "schema.json").unlink()
    return folder


def compared(name: str, config: dict[str, Any], folder: Path) -> list[list[object]]:
    """The plan of a build, and the same build: rows of what was projected and what was measured."""
    file = folder / "build.yaml"
    content = {"name": "plan", "output": {"folder": str(folder / name)}, **config}
    file.write_text(yaml.safe_dump(content))
    plan = command("plan", file)
    done = command("run", file)
    run = Path(done["run_folder"])
    stages = json.loads((run / "manifest.json").read_text())["stages"]
    workers = max(stage["worker_mib"] or 0 for stage in stages)
    here = max(stage["driver_mib"] or 0 for stage in stages)
    disk = sum(path.stat().st_size for path in run.rglob("*") if path.is_file()) / (1 << 20)
    seconds = sum(stage["seconds"] for stage in stages)
    check({stage["status"] for stage in stages} == {"done"}, f"{name}: a stage was reused")
    say(f"{name}: {done['release']['sub_tables']} sub-tables in {seconds:.0f} s ({machine()})")
    return [
        _row(f"{name}: MiB of a worker", plan["memory_needed_mib"], workers, GOAL),
        _row("  MiB of this process", max(stage["here_mib"] for stage in plan["stages"]), here, GOAL),
        _row("  MiB of disk, at most", plan["disk_needed_mib"], round(disk, 1), None),
        _row("  seconds", plan["seconds"], round(seconds, 1), None),
    ]


def _row(name: str, projected: float, measured: float, goal: float | None) -> list[object]:
    ratio = projected / measured
    within = "" if goal is None else "yes" if 1 / (1 + goal) <= ratio <= 1 + goal else "NO"
    return [name, projected, measured, f"{ratio:.2f}", within]


def command(verb: str, config: Path) -> Any:
    """What a command prints; ends the benchmark where it refuses."""
    words = [sys.executable, "-m", "sdc.commands.cli", verb, str(config), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    if done.returncode:
        sys.exit(f"{verb}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
