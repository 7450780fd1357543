"""What else may be asked of a release: time and memory of each command, and of a build with each criterion.

    python tests/benchmarks/asked.py [cps8 census_10 cps13]

Verbs are asked of the decomposable release that a build finds first, builds of the same search, each in a process of
its own, one after the other: seconds and the largest memory of the process, then the first line that it prints. The
first, which asks for a width of 1, has little to do but read. A command that takes more than ten minutes is ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Any

import yaml
from side_by_side import data_file, machine, say

HERE, MOST_SECONDS, STEPS = Path(__file__).parents[2], 600.0, 2_000
WIDTHS = {"cps8": 3, "census_10": 5, "cps13": 3}
Config = dict[str, Any]


def main() -> None:
    say(machine())
    for name in sys.argv[1:] or WIDTHS:
        with tempfile.TemporaryDirectory() as folder:
            subject(name, Path(folder))


def subject(name: str, folder: Path) -> None:
    """Every command and every build of one table."""
    config = config_of(name)
    first = told(write(folder, "first", config), folder)
    frontier = ["*".join(names) for names in first["release"]["frontier"]]
    say(f"{name:10} released within {', '.join(frontier)}")
    for title, words in verbs(frontier, variables_of(folder, first), WIDTHS[name]):
        say(f"{name:10} {title:24} {asked(folder, words[0], 'first.yaml', *words[1:])}")
    for title, more in criteria(variables_of(folder, first)).items():
        written = write(folder, title.replace(" ", "_"), merged(config, more))
        say(f"{name:10} {'build, ' + title:24} {asked(folder, 'run', written)}")


def config_of(name: str) -> Config:
    if name == "census_10":
        config: Config = yaml.safe_load(data_file("census_10.yaml").read_text())
        config["table"]["path"] = str(data_file("census_income_kdd.parquet"))
    else:
        risk = {"small_count": 2, "min_width": WIDTHS[name]}
        config = {"name": name, "table": {"path": str(data_file(f"{name}.parquet"))}, "risk": risk}
    search = {"method": "decomposable", "annealing": {"steps": STEPS}}
    return {**config, "release": search, "execution": {"cluster": "in-process"}}


def verbs(frontier: list[str], variables: Mapping[str, list[str]], width: int) -> Iterator[tuple[str, list[str]]]:
    """The title and the words of each command, but the subject, which comes after the verb."""
    release = [word for one in frontier for word in ("--release", one)]
    (one, firsts), (other, seconds) = list(variables.items())[:2]
    cells = ["--cells", f"{one} in ({quoted(firsts[0])}, {quoted(firsts[-1])}), {other}={quoted(seconds[0])}"]
    yield "width of 1", ["assess", *release, "--min-width", "1"]
    yield "n-rule", ["assess", *release, "--min-width", str(width), "--n-rule", "3"]
    yield "super-cell", ["bounds", *release, *cells]
    yield "super-cell, fractional", ["bounds", *release, *cells, "--fractional"]
    yield "fit", ["fit", *release]
    yield "fit, search", ["fit", "--search"]
    yield "uniques, 5 %", ["uniques", "--fraction", "0.05"]
    yield "posterior, losses", ["posterior", *release, "--loss", "none=0.1", "--loss", "wrong=1"]
    yield "error 0.005, saturated", ["posterior", *release, "--law", "saturated", "--draws", "500"]


def criteria(variables: Mapping[str, list[str]]) -> dict[str, Config]:
    losses = {"intruder": {"none": 0.1, "wrong": 1}, "agency": {"right": 1, "wrong": 0}}
    return {
        "nothing more": {},
        "n-rule": {"risk": {"n_rule": 3}},
        "attributes": {"risk": {"attributes": {"sensitive": [list(variables)[-1]], "most": 5}}},
        "reconstruction": {"release": {"objective": "reconstruction"}},
        "losses": {"risk": {"posterior": {"losses": losses, "max_loss": 0.5}}},
        "at least": {"release": {"at_least": {"sub_tables": 1}}},
        "uniques": {"uniques": {"fraction": 0.05}},
    }


def merged(config: Config, more: Config) -> Config:
    return {**config, **{key: {**config.get(key, {}), **part} for key, part in more.items()}}


def quoted(category: str) -> str:
    return f'"{category}"'


def write(folder: Path, name: str, config: Config) -> str:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**config, "name": name}, sort_keys=False))
    return f"{name}.yaml"


def variables_of(folder: Path, first: Mapping[str, Any]) -> dict[str, list[str]]:
    schema = json.loads((folder / first["run_folder"] / "table" / "schema.json").read_text())
    return {one["name"]: one["categories"] for one in schema["variables"]}


def told(config: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(words("run", config, "--json"), cwd=folder, env=environment(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout))


def asked(folder: Path, *given: str) -> str:
    """Seconds and memory of a command, and the first line that it prints, or the last where it failed."""
    begun = time.perf_counter()
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(words(*given), cwd=folder, env=environment(), stdout=out, stderr=err)
        timer = Timer(MOST_SECONDS, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
    lines = [line for line in (folder / ("err" if status else "out")).read_text().splitlines() if line.strip()]
    said = (lines[-1] if status else lines[0])[:100] if lines else "nothing said"
    failed = f"status {os.waitstatus_to_exitcode(status)}: " if status else ""
    return f"{time.perf_counter() - begun:7.1f} s {used.ru_maxrss / 1024:6.0f} MiB  {failed}{said}"


def words(*given: str) -> list[str]:
    return [sys.executable, "-m", "sdc.commands.cli", *given]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE)}


if __name__ == "__main__":
    main()
