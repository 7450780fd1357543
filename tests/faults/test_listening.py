"""Every listening socket of a real build, on each kind of cluster that needs nothing but this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import CZECH_CSV, CZECH_YAML, ROOT
from tests.listening import listened_to

BUILD = """
from pathlib import Path
from sdc.build.build import open_build
from sdc.build.stages import run_all
from sdc.execution.cluster import open_executor
if __name__ == "__main__":
    build = open_build(Path("build.yaml"))
    with open_executor(build.config.execution) as executor:
        run_all(build, executor)
"""


@pytest.mark.parametrize(("cluster", "processes"), [("local", 3), ("in-process", 0)])
def test_a_build_listens_on_the_loopback_alone(tmp_path: Path, cluster: str, processes: int) -> None:
    """The scheduler in its process and two workers; what they say by HTTP is that they are well."""
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"] = str(CZECH_CSV)
    content |= {"execution": {"cluster": cluster}, "output": {"folder": "runs"}}
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(content))
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}){BUILD}"
    (tmp_path / "build.py").write_text(code)
    with subprocess.Popen([sys.executable, "build.py"], cwd=tmp_path, text=True, stderr=subprocess.DEVNULL) as build:
        sockets, answers = listened_to(build)
    assert build.returncode == 0
    assert len({socket.process for socket in sockets}) == processes
    assert {socket.address for socket in sockets} <= {"127.0.0.1"}
    assert answers == []
