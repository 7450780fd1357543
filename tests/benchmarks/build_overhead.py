"""The build of configs/cps_13.yaml with a curve, of ten minutes, through Prefect and Dask and in one process.

    python tests/benchmarks/build_overhead.py [rounds] [rival ...]

Every run is a fresh process in a folder of its own, so nothing is reused; kernels and Prefect's home
are warmed with the Czech config first. Some half an hour a round; `0 1` are the first two rivals, without the two
workers.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from side_by_side import ROOT, check, data_file, machine, say, show

CPS = ROOT / "configs" / "cps_13.yaml"
CURVE = {"curve": {"min_width": [10, 20], "methods": ["best"]}}
CZECH = ROOT / "configs" / "czech_auto_workers.yaml"
COMPARED = ("table", "widths", "search", "assessment", "curve", "release")
LIMIT_SECONDS = 3600.0

IN_PROCESS = """
import sys
from pathlib import Path
from sdc.executor import IN_PROCESS
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
run_all(open_build(Path(sys.argv[1]), Path(sys.argv[2])), IN_PROCESS)
"""
RIVALS = {
    "in process": ["-c", IN_PROCESS],
    "Prefect + Dask, 1 worker": ["-m", "sdc.commands.cli", "run", "--workers", "1"],
    "Prefect + Dask, 2 workers": ["-m", "sdc.commands.cli", "run", "--workers", "2"],
}


@dataclass(frozen=True)
class Run:
    """One build: wall time of its process, seconds by stage, digests of what it wrote by stage."""

    wall: float
    stages: dict[str, float]
    digests: dict[str, str]


def main() -> None:
    data = data_file("cps13.parquet")
    rounds = int(sys.argv[1]) if sys.argv[1:] else 1
    rivals = [list(RIVALS)[int(number)] for number in sys.argv[2:]] or list(RIVALS)
    say(f"{machine()}; warming kernels and Prefect's home with {CZECH.name}")
    for name in rivals:
        build(name, {**yaml.safe_load(CZECH.read_text()), "curve": {"min_width": [6]}}, CZECH.with_suffix(".csv"))
    runs: dict[str, list[Run]] = {name: [] for name in rivals}
    for number in range(rounds):
        for name in rivals:  # in turn, so that a busy machine slows them alike
            runs[name].append(build(name, yaml.safe_load(CPS.read_text()) | CURVE, data))
            say(f"round {number + 1} of {rounds}: {name} {runs[name][-1].wall:.1f} s ({machine()})")
    compare(runs)
    show_walls(runs)
    show_stages(runs)


def build(name: str, settings: dict[str, Any], data: Path) -> Run:
    """One build in a new folder, by a new interpreter."""
    given = [str(data)] if name == "in process" else ["--data", str(data)]
    with tempfile.TemporaryDirectory(prefix="sdc-bench-") as folder:
        config = Path(folder) / "build.yaml"
        config.write_text(yaml.safe_dump(settings))
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *RIVALS[name], str(config), *given],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        wall = time.perf_counter() - begun
        if done.returncode:
            sys.exit(f"{name}: exit status {done.returncode}\n{done.stderr[-2000:]}")
        return read_run(Path(folder), wall)


def read_run(folder: Path, wall: float) -> Run:
    """What the run folder below `folder` says, its files digested anew."""
    from sdc.storage.run_folder import folder_digest

    (manifest,) = folder.glob("runs/*/*/manifest.json")
    stages = json.loads(manifest.read_text())["stages"]
    check({stage["status"] for stage in stages} == {"done"}, "a stage was reused, in a folder that was empty")
    digests = {name: folder_digest(manifest.parent / name) for name in COMPARED}
    return Run(wall, {stage["name"]: stage["seconds"] for stage in stages}, digests)


def compare(runs: dict[str, list[Run]]) -> None:
    """All runs wrote the same bytes."""
    every = [run for done in runs.values() for run in done]
    for name in COMPARED:
        check(len({run.digests[name] for run in every}) == 1, f"{name}/ of the builds")
    say(f"equal, byte for byte, in {len(every)} builds: {', '.join(f'{name}/' for name in COMPARED)}")


def show_walls(runs: dict[str, list[Run]]) -> None:
    base = median(run.wall for run in runs["in process"])
    rows = []
    for name, done in runs.items():
        wall, inside = median(r.wall for r in done), median(sum(r.stages.values()) for r in done)
        share = "" if name == "in process" else f"{(wall - base) / wall:.1%}"
        rows.append([name, wall, inside, wall - inside, share, "5 %" if share else ""])
    header = ["", "wall", "in stages", "around them", "overhead", "goal below"]
    show("the whole build, seconds; overhead = (wall - in process) / wall", header, rows)
    say("  A negative overhead is what the second worker saves beyond what the engines cost.")


def show_stages(runs: dict[str, list[Run]]) -> None:
    names = list(runs["in process"][0].stages)
    rows = [[stage, *(median(run.stages[stage] for run in done) for done in runs.values())] for stage in names]
    show("seconds by stage", ["", *runs], rows)


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


if __name__ == "__main__":
    main()
