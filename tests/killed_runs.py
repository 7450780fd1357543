"""Kill builds at random moments, drivers and workers in turn; resume each until it is done; compare the bytes.

    python -m tests.killed_runs [runs] [seed]

Each run is `sdc run` with two Dask workers on the Adult table of 8 variables: annealing chains, a curve, and a
posterior by Markov chains. The run folder is watched: `release/` must not appear before it is whole. A run takes about
50 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml

from tests.helpers.killing import Made, Outcome, killed, left_behind, made

VICTIMS = ("driver", "worker")
DATA = Path(os.environ.get("SDC_DATA_DIR", Path(__file__).parents[2] / "shared" / "data")).resolve()
TABLE = DATA / "cps8.parquet"


def main() -> None:
    runs = int(sys.argv[1]) if sys.argv[1:] else 20
    seed = int(sys.argv[2]) if sys.argv[2:] else 0
    if not TABLE.is_file():
        sys.exit(f"{TABLE} does not exist; set SDC_DATA_DIR to the folder that has it")
    with tempfile.TemporaryDirectory(prefix="sdc-killed-") as folder:
        command = [sys.executable, "-m", "sdc.commands.cli", "run", str(write_config(Path(folder)))]
        expected, wall = undisturbed(command, new(folder, "undisturbed"))
        say(f"undisturbed {wall:.1f} s, {expected.events} events; {runs} runs, seed {seed}")
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
    begun = time.perf_counter()
    subprocess.run(command, cwd=runs.parent, capture_output=True, check=True)
    return made(runs), time.perf_counter() - begun


def write_config(folder: Path) -> Path:
    content = {
        "name": "killed",
        "table": {"path": str(TABLE), "partitions": 3},
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
    for stage in dict.fromkeys(stage for stage, _ in kills):
        say(f"killed in {stage}: {kills[stage, 'driver']} drivers, {kills[stage, 'worker']} workers")
    check(all(outcome.kills for outcome in found), "a run ended before a process was killed")
    check(all(outcome.digests == expected.digests for outcome in found), "a killed build left other bytes")
    say(
        f"equal, byte for byte, in {len(found)} builds killed {sum(kills.values())} times and one that was not: "
        f"{', '.join(f'{name}/' for name in expected.digests)}"
    )


def check(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {what}")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
