"""Builds that are asked to end, or lose Prefect's server: one message, a status, and nothing left behind, at once."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from sdc.events import read_events
from sdc.stages.verified import verify_run
from sdc.storage.runs import read_runs
from tests.helpers.builds import write_czech
from tests.helpers.killing import WORKER, children_with, left_behind
from tests.helpers.prefect_home import made_home
from tests.helpers.waiting import wait_until

LONG = {"method": "decomposable", "annealing": {"steps": 10**12, "rounds": 10**6, "patience": 0, "chains": 2}}
LIMIT_SECONDS = 900.0
ONCE = "sdc: the search ends with the release proven so far; interrupt again to stop at once"


def end_group(build: subprocess.Popen[str]) -> None:
    os.killpg(build.pid, signal.SIGTERM)


def interrupt(build: subprocess.Popen[str]) -> None:
    """As a terminal does: of all processes of the build."""
    os.killpg(build.pid, signal.SIGINT)


def interrupt_twice(build: subprocess.Popen[str]) -> None:
    interrupt(build)
    time.sleep(0.5)
    interrupt(build)


def kill_server(build: subprocess.Popen[str]) -> None:
    (server,) = children_with("prefect_process.py", psutil.Process(build.pid), recursive=True)
    server.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        (end_group, 130, "sdc: interrupted; nothing was published"),
        (interrupt_twice, 130, "sdc: interrupted; nothing was published"),
        (kill_server, 75, "sdc: Prefect's server at http://127.0.0.1:"),
    ],
)
def test_a_build_that_is_to_end_does(
    end: Callable[[subprocess.Popen[str]], None], status: int, message: str, tmp_path: Path
) -> None:
    build, said = ended(tmp_path, end)
    assert build.returncode == status, said
    assert "Traceback" not in said
    of_end = [line for line in said.splitlines() if line.startswith("sdc: ") and line != ONCE]
    assert of_end == said.splitlines()[-1:]
    assert said.splitlines()[-1].startswith(message)
    assert left_behind(tmp_path) == []
    (run,) = read_runs(tmp_path / "runs")
    assert not [path.name for path in run.folder.path.iterdir() if path.name.endswith((".unfinished", ".tmp"))]
    assert not list(tmp_path.glob("sdc-*"))


def kill_a_worker(build: subprocess.Popen[str]) -> None:
    """And end the search once another one has taken its place."""
    children_with(WORKER, psutil.Process(build.pid), recursive=True)[0].kill()
    time.sleep(5)
    interrupt(build)


@pytest.mark.slow
def test_a_lost_worker_is_one_line_and_what_dask_says_is_in_the_log(tmp_path: Path) -> None:
    build, said = ended(tmp_path, kill_a_worker)
    assert build.returncode == 0, said
    assert len([line for line in said.splitlines() if line.startswith("worker tls://")]) == 1
    foreign = re.compile("distributed|nanny|asyncio|tornado|ssl|warning|[|] (INFO|ERROR)", re.IGNORECASE)
    assert [line for line in said.splitlines() if foreign.search(line)] == []
    (log,) = tmp_path.glob("runs/*/*/log.jsonl")
    events = read_events(log)
    assert "distributed.nanny" in [event["event"] for event in events]
    assert events[-1]["event"] == "run ended"


@pytest.mark.slow
def test_an_interrupted_search_is_published_as_far_as_it_went(tmp_path: Path) -> None:
    """The build goes on, its release holds, and it says so."""
    build, said = ended(tmp_path, interrupt)
    assert build.returncode == 0, said
    assert said.splitlines().count(ONCE) == 1
    (run,) = read_runs(tmp_path / "runs")
    first = run.folder.path
    assert verify_run(first).verified
    assert not first.joinpath("search.ending").exists()
    far = json.loads((first / "search" / "search.json").read_text())["ended_after"]
    assert f"search: ended early (rounds {far['rounds']}); the release is proven" in said


def ended(
    folder: Path, end: Callable[[subprocess.Popen[str]], None], release: dict[str, Any] = LONG
) -> tuple[subprocess.Popen[str], str]:
    """A build that ended upon what was done to it while it searched, and what it said."""
    write_czech(folder, whole={"release": release}, execution={"cluster": "local"}, output={"folder": "runs"})
    command = [sys.executable, "-m", "sdc.commands.cli", "run", "build.yaml"]
    own = {"PREFECT_HOME": str(made_home(folder / "prefect")), "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as build:
        try:
            _await_search(build, folder / "runs")
            end(build)
            return build, build.communicate(timeout=LIMIT_SECONDS)[1]
        except BaseException:
            os.killpg(build.pid, signal.SIGKILL)  # else it is waited for until its end, which is far
            raise


def _await_search(build: subprocess.Popen[str], runs: Path) -> None:
    """Waits until workers are at the search."""

    def searches() -> bool:
        assert build.poll() is None
        return any('"stage": "search"' in log.read_text() for log in runs.glob("*/*/log.jsonl"))

    wait_until(searches, LIMIT_SECONDS)
    time.sleep(2)
