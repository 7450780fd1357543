"""Searches that are told to end at random moments, by hand or by the clock: each ends with a release that is verified.

    python tests/benchmarks/endings.py [10] [3] [seed]

So many builds of cps13 are interrupted once, as Ctrl-C does, some seconds after their search has begun; so many more
end by `minutes`. Each is to end with a release that `sdc verify` accepts, or with status 3, and a build that goes as
far by `ended_after` is to have the same bytes. How long a search went on after it was told to end is printed. Exit
status 1 where one did otherwise.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from side_by_side import data_file, machine, say

from sdc.events import read_events
from sdc.stages.verified import verify_run
from sdc.storage.run_folder import LOG, folder_digest

MOST_SECONDS = 25  # into a search that takes 30 by itself, on two quiet cores
SETTINGS = {"method": "best", "breadth": 1}
CLI = [sys.executable, "-m", "sdc.commands.cli", "run"]


def main() -> None:
    by_hand, by_clock, seed = (int(word) for word in (*sys.argv[1:], *("10", "3", "0")[len(sys.argv) - 1 :]))
    random = np.random.default_rng(seed)
    say(f"{machine()}; cps13, width 3, best with breadth 1, seed {seed}")
    say(f"{'told by':8}{'after s':>9}{'went on s':>11}{'status':>8}{'sub-tables':>12}  ended_after; the same again")
    faults = 0
    for number, after in enumerate(random.uniform(0, MOST_SECONDS, by_hand + by_clock)):
        with tempfile.TemporaryDirectory() as folder:
            faults += sum(tried(Path(folder), number < by_hand, round(float(after), 1)))
    sys.exit(faults > 0)


def tried(folder: Path, is_by_hand: bool, after: float) -> Iterator[bool]:
    """Prints a line of one build and its rerun; of each claim whether it does not hold."""
    release = SETTINGS if is_by_hand else {**SETTINGS, "minutes": after / 60}
    command = [*CLI, written(folder, "once", release), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as build:
        begun = await_search(build, folder / "once")
        time.sleep(max(0.0, begun + after - time.time()))
        told = time.time()
        if is_by_hand:
            os.killpg(build.pid, signal.SIGINT)
        assert build.stdout is not None
        said = build.stdout.read()
    run = next((folder / "once").glob("*/*/manifest.json")).parent
    went_on = next((seconds(e) - told for e in read_events(run / LOG) if is_end(e)), float("nan"))
    line = f"{'hand' if is_by_hand else 'clock':8}{after:9.1f}{went_on:11.1f}{build.returncode:8}"
    if build.returncode != 0:
        say(line)
        yield build.returncode != 3
        return
    found = json.loads((run / "search" / "search.json").read_text())
    far = {part: number for part, number in (found.get("ended_after") or {}).items() if number is not None}
    again = written(folder, "again", {**SETTINGS, **({"ended_after": far} if far else {})})
    subprocess.run([*CLI, again], check=True, capture_output=True)
    other = next((folder / "again").glob("*/*/manifest.json")).parent
    is_same = folder_digest(run / "release") == folder_digest(other / "release")
    many = json.loads(said)["release"]["sub_tables"]
    say(f"{line}{many:12}  {far or 'was done'}; {is_same}")
    yield not is_same
    yield not verify_run(run).verified


def written(folder: Path, name: str, release: dict[str, Any]) -> str:
    """A config, whose runs go to a folder of its name."""
    content = {
        "name": "ended",
        "table": {"path": str(data_file("cps13.parquet"))},
        "risk": {"min_width": 3},
        "release": release,
        "execution": {"cluster": "local", "workers": 2},
        "output": {"folder": str(folder / name)},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return str(folder / f"{name}.yaml")


def await_search(build: subprocess.Popen[bytes], runs: Path) -> float:
    """When the search began."""
    while build.poll() is None:
        for log in runs.glob(f"*/*/{LOG}"):
            for event in read_events(log):
                if event["event"] == "stage started" and event.get("stage") == "search":
                    return seconds(event)
        time.sleep(0.1)
    return time.time()


def is_end(event: dict[str, Any]) -> bool:
    return event["event"] == "stage finished" and event["stage"] == "search"


def seconds(event: dict[str, Any]) -> float:
    """Since 1970."""
    return datetime.fromisoformat(event["time"]).timestamp()


if __name__ == "__main__":
    main()
