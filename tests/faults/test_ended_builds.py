"""Builds that are asked to end, or lose Prefect's server: one message, a status, and nothing left behind, at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from sdc.storage.runs import read_runs
from tests.faults.killing import left_behind
from tests.prefect_home import made_home

CONFIGS = Path(__file__).parents[2] / "configs"
LONG = {"method": "decomposable", "annealing": {"steps": 10**12, "rounds": 10**6, "patience": 0, "chains": 2}}
LIMIT_SECONDS = 300.0


def end_group(build: subprocess.Popen[str]) -> None:
    os.killpg(build.pid, signal.SIGTERM)


def end_driver(build: subprocess.Popen[str]) -> None:
    build.send_signal(signal.SIGINT)


def kill_server(build: subprocess.Popen[str]) -> None:
    for child in psutil.Process(build.pid).children(recursive=True):
        if "prefect" in child.cmdline() and "start" in child.cmdline():
            child.kill()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        (end_group, 130, "sdc: interrupted; nothing was published"),
        (end_driver, 130, "sdc: interrupted; nothing was published"),
        (kill_server, 1, "sdc: Prefect's server at http://127.0.0.1:"),
    ],
)
def test_a_build_that_is_to_end_does(
    end: Callable[[subprocess.Popen[str]], None], status: int, message: str, tmp_path: Path
) -> None:
    content = yaml.safe_load((CONFIGS / "czech_auto_workers.yaml").read_text())
    content["table"] |= {"path": str(CONFIGS / "czech_auto_workers.csv")}
    content |= {"release": LONG, "output": {"folder": "runs"}}
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "sdc.commands.cli", "run", "build.yaml"]
    own = {"PREFECT_HOME": str(made_home(tmp_path / "prefect")), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as build:
        _await_search(build, tmp_path / "runs")
        end(build)
        assert build.stderr is not None
        said = build.stderr.read()
    assert build.returncode == status, said
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("sdc: ")] == said.splitlines()[-1:]
    assert said.splitlines()[-1].startswith(message)
    assert left_behind(tmp_path) == []
    (run,) = read_runs(tmp_path / "runs")
    assert not [path.name for path in run.folder.path.iterdir() if path.name.endswith((".unfinished", ".tmp"))]
    assert not list(tmp_path.glob("sdc-*"))


def _await_search(build: subprocess.Popen[str], runs: Path) -> None:
    """Waits until workers are at the search."""
    begun = time.monotonic()
    while not any('"stage": "search"' in log.read_text() for log in runs.glob("*/*/log.jsonl")):
        assert build.poll() is None
        assert time.monotonic() - begun < LIMIT_SECONDS
        time.sleep(0.1)
    time.sleep(2)
