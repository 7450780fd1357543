"""Every listening socket of a real build with two workers, Prefect's server and `--watch`.

Those of workers by themselves are tried by tests/system/faults/test_strangers.py, wherever tests run, and what a key
opens by tests/system/flows/test_watch.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.builds import write_czech
from tests.helpers.listening import listened_to
from tests.helpers.prefect_home import made_home


@pytest.mark.slow
def test_a_build_listens_on_the_loopback_alone(tmp_path: Path) -> None:
    """Nothing of it answers by HTTP without the key, and the log of the run does not tell where to ask."""
    write_czech(tmp_path, execution={"cluster": "local"}, output={"folder": "runs"})
    said = tmp_path / "said"
    home = {"PREFECT_HOME": str(made_home(tmp_path / "prefect")), "PREFECT_API_URL": ""}
    command = [sys.executable, "-m", "sdc.commands.cli", "run", "build.yaml", "--watch"]
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | home, text=True, stdout=subprocess.DEVNULL, stderr=stderr
        ) as run,
    ):
        sockets, answers = listened_to(run)
    assert run.returncode == 0, said.read_text()
    assert len({socket.process for socket in sockets}) >= 3
    assert {socket.address for socket in sockets} == {"127.0.0.1"}
    assert answers == []
    (port,) = set(re.findall(r"127\.0\.0\.1:(\d+)/", said.read_text()))
    assert {socket.process for socket in sockets if socket.port == int(port)} == {run.pid}
    (log,) = tmp_path.glob("runs/*/*/log.jsonl")
    assert "as printed by --watch" in log.read_text()
    assert f":{port}" not in log.read_text()
