"""Builds with real Dask workers, killed at random moments and resumed: tests/killed_runs.py in short."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.helpers.killing import killed, left_behind, made

CONFIGS = Path(__file__).parents[3] / "configs"
RELEASE = {"method": "decomposable", "annealing": {"steps": 20_000, "rounds": 10, "patience": 0, "chains": 2}}

BUILD = """
import sys
from pathlib import Path
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
if __name__ == "__main__":
    with open_executor(ExecutionConfig(workers=2)) as executor:
        run_all(open_build(Path("build.yaml")), executor)
"""


VICTIMS, SEED = ["worker", "driver"], 2


@pytest.mark.slow
def test_a_build_that_is_killed_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    content = yaml.safe_load((CONFIGS / "czech_auto_workers.yaml").read_text())
    content["table"] |= {"path": str(CONFIGS / "czech_auto_workers.csv"), "partitions": 2}
    content |= {"release": RELEASE, "output": {"folder": str(tmp_path / "undisturbed")}}
    run_all(open_build(written(tmp_path, content)), IN_PROCESS)
    expected = made(tmp_path / "undisturbed")
    written(tmp_path, {**content, "output": {"folder": "runs"}})
    found = killed([sys.executable, "-c", BUILD], tmp_path / "runs", VICTIMS, expected, SEED)
    assert found.kills[0].victim == VICTIMS[0]
    assert found.restarts == len([kill for kill in found.kills if kill.victim == "driver"])
    assert found.digests == expected.digests
    assert left_behind(tmp_path) == []


def written(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    return folder / "build.yaml"
