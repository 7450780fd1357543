"""The examples in configs/: each can be read, says how it is run, and is run as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from sdc.config.file import read_config
from tests.prefect_home import made_home

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
SECONDS = 300
WITHOUT_DATA = "cps_13"
"""Its file is not part of the project."""
NO_PRIVILEGE = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
"""Before a command of root, who could write everywhere otherwise."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A checkout that cannot be written."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "configs", folder / "configs")
    writable(folder, False)
    yield folder
    writable(folder, True)


def writable(folder: Path, may: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755 if may else 0o555)


def run(place: Path, *words: object) -> subprocess.Popen[str]:
    """`sdc` with these words, as a user without privileges."""
    home = place.parent / "prefect"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(home if home.exists() else made_home(home)),
    }
    command = [*(NO_PRIVILEGE if os.geteuid() == 0 else []), sys.executable, "-m", "sdc.commands.cli", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=place, env=environment, text=True, **pipes)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_each_says_what_it_shows_and_how_it_is_run(path: Path) -> None:
    head = [*takewhile(lambda line: line.startswith("# "), path.read_text().splitlines())]
    assert 2 <= len(head) <= 4
    assert re.match("# [A-Z]", head[0])
    commands = re.findall(
        r"^# (?:sdc (\w+)|python -m (flows\.deployments)) configs/(\w+)\.yaml", "\n".join(head), re.MULTILINE
    )
    assert {name for *_, name in commands} == {path.stem}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_each_can_be_read(path: Path) -> None:
    config = read_config(path)
    assert config.name == path.stem
    assert Path(config.table.path).exists() != (path.stem == WITHOUT_DATA)


def test_a_checkout_that_cannot_be_written(project: Path) -> None:
    build = run(project, "run", "configs/czech_auto_workers.yaml")
    said = build.communicate(timeout=SECONDS)[1]
    assert build.returncode == 1
    assert re.match(r"sdc: run folder runs/\S+ cannot be written: .*set output\.folder", said.splitlines()[-1])
    assert "Traceback" not in said
