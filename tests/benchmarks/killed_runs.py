"""Builds killed at random moments, drivers and workers in turn, and resumed until they are done: the same bytes.

    python tests/benchmarks/killed_runs.py [runs] [seed]

`sdc run` with two Dask workers on the Adult table of 8 variables: chains, a curve, and a posterior by Markov
chains. While a build runs its folder is watched: release/ is not there before it is whole. Some 50 s a run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml
from side_by_side import ROOT, check, data_file, machine, say, seconds, show

sys.path.append(str(ROOT))
from tests.faults.killing import Made, Outcome, killed, left_behind, made

VICTIMS = ("driver", "worker")


def main() -> None:
    runs = int(sys.argv[1]) if sys.argv[1:] else 20
    seed = int(sys.argv[2]) if sys.argv[2:] else 0
    with tempfile.TemporaryDirectory(prefix="sdc-killed-") as folder:
        command = [sys.executable, "-m", "sdc.commands.cli", "run", str(write_config(Path(folder)))]
        expected, wall = undisturbed(command, new(folder, "undisturbed"))
        say(f"{machine()}; undisturbed {wall:.1f} s, {expected.events} events; {runs} runs, seed {seed}")
        found = []
        for number in range(runs):
            victims = victims_of(number)
            found.append(killed(command, new(folder, f"run-{number}"), victims, expected, seed * 1000 + number))
            say(line(number, found[-1], expected))
        check(not (left := left_behind(Path(folder))), f"processes left behind: {left}")
    report(found, expected)


def victims_of(number: int) -> list[str]:
    """One to three victims, drivers and workers in turn."""
    return [VICTIMS[(number + i) % 2] for i in range(1 + number // 2 % 3)]


def undisturbed(command: list[str], runs: Path) -> tuple[Made, float]:
    """What the build should leave, and its wall time."""
    wall = seconds(lambda: subprocess.run(command, cwd=runs.parent, capture_output=True, check=True))
    return made(runs), wall


def write_config(folder: Path) -> Path:
    content = {
        "name": "killed",
        "table": {"path": str(data_file("cps8.parquet")), "partitions": 3},
        "risk": {"min_width": 5},
        "release": {"method": "decomposable", "annealing": {"steps": 100_000, "rounds": 20, "patience": 0}},
        "curve": {"min_width": [20], "methods": ["decomposable"]},
        "posterior": {"laws": ["released", "saturated"], "draws": 20, "chains": 2, "error": None},
    }
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    return folder / "build.yaml"


def new(folder: str, name: str) -> Path:
    """Where the runs of a build go that is started in a folder of its own."""
    (Path(folder) / name).mkdir()
    return Path(folder) / name / "runs"


def line(number: int, outcome: Outcome, expected: Made) -> str:
    kills = ", ".join(f"{kill.victim} after {kill.seconds:.1f} s in {kill.stage}" for kill in outcome.kills)
    same = "same bytes" if outcome.digests == expected.digests else "OTHER BYTES"
    return f"run {number + 1}: {kills or 'nobody'}; resumed {outcome.restarts} times; {same}"


def report(found: list[Outcome], expected: Made) -> None:
    kills = Counter((kill.stage, kill.victim) for outcome in found for kill in outcome.kills)
    stages = list(dict.fromkeys(stage for stage, _ in kills))
    show("killed", ["stage", *VICTIMS], [[stage, *(kills[stage, victim] for victim in VICTIMS)] for stage in stages])
    check(all(outcome.kills for outcome in found), "a run ended before anybody was killed")
    check(all(outcome.digests == expected.digests for outcome in found), "folders of a build that was killed")
    say(
        f"equal, byte for byte, in {len(found)} builds killed {sum(kills.values())} times and one that was not: "
        f"{', '.join(f'{name}/' for name in expected.digests)}"
    )


if __name__ == "__main__":
    main()
