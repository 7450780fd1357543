"""Every listening socket of a real build, on each kind of cluster that needs nothing but this machine.

Those of workers by themselves are tried by tests/system/faults/test_strangers.py, wherever tests run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.helpers.builds import write_czech
from tests.helpers.listening import PATHS, listened_to, status_of
from tests.helpers.prefect_home import made_home

pytestmark = pytest.mark.slow

BUILD = """
from pathlib import Path
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.execution.cluster import open_executor
if __name__ == "__main__":
    build = open_build(Path("build.yaml"))
    with open_executor(build.config.execution) as executor:
        run_all(build, executor)
"""


def write_config(folder: Path, cluster: str) -> None:
    write_czech(folder, execution={"cluster": cluster}, output={"folder": "runs"})


@pytest.mark.parametrize(("cluster", "processes"), [("local", 3), ("in-process", 0)])
def test_a_build_listens_on_the_loopback_alone(tmp_path: Path, cluster: str, processes: int) -> None:
    """The scheduler in its process and two workers; what they say by HTTP is that they are well."""
    write_config(tmp_path, cluster)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}){BUILD}"
    (tmp_path / "build.py").write_text(code)
    with subprocess.Popen([sys.executable, "build.py"], cwd=tmp_path, text=True, stderr=subprocess.DEVNULL) as build:
        sockets, answers = listened_to(build)
    assert build.returncode == 0
    assert len({socket.process for socket in sockets}) == processes
    assert {socket.address for socket in sockets} <= {"127.0.0.1"}
    assert answers == []


def test_a_run_that_is_watched_is_seen_by_whoever_has_the_key_alone(tmp_path: Path) -> None:
    """One port more, on the loopback: what it answers with the key it has said, and without it nothing."""
    write_config(tmp_path, "local")
    said, seen = tmp_path / "said", set[tuple[str, int]]()

    def look() -> list[psutil.Process]:
        for name, address in re.findall(r"^  (\w+) +(http://127\.0\.0\.1\S+)$", said.read_text(), re.MULTILINE):
            if (name, 200) in seen:
                continue
            *site, key = address.split("/")[:4]
            seen.add((name, status_of(address)))
            seen.update(("stranger", status_of("/".join([*site, path]))) for path in (f"{key[:-1]}/status", *PATHS))
        return []

    home = {"PREFECT_HOME": str(made_home(tmp_path / "prefect")), "PREFECT_API_URL": ""}
    command = [sys.executable, "-m", "sdc.commands.cli", "run", "build.yaml", "--watch"]
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | home, text=True, stdout=subprocess.DEVNULL, stderr=stderr
        ) as run,
    ):
        sockets, answers = listened_to(run, look)
    assert run.returncode == 0, said.read_text()
    assert {socket.address for socket in sockets} == {"127.0.0.1"}
    assert answers == []
    assert {("Prefect", 200), ("Dask", 404), ("Dask", 200), ("stranger", 403)} <= seen
    assert {status for name, status in seen if name == "stranger"} <= {403, 0}
    (port,) = set(re.findall(r"127\.0\.0\.1:(\d+)/", said.read_text()))
    assert {socket.process for socket in sockets if socket.port == int(port)} == {run.pid}
    (log,) = tmp_path.glob("runs/*/*/log.jsonl")
    assert "as --watch has said" in log.read_text()
    assert f":{port}" not in log.read_text()
