"""A search that is killed in the middle: its rerun is proven, has what was kept, and says that it was resumed."""

import json
import signal
from pathlib import Path

import pytest

from sdc.checkpoint import Checkpoint
from sdc.executor import IN_PROCESS
from sdc.search.grown import Grown
from sdc.stages.build import open_build
from sdc.stages.stages import SEARCH, run_all
from sdc.stages.verified import verify_run
from tests.helpers.builds import report_of
from tests.integration.stages.test_search import opened
from tests.system.stages.test_sharp import killed


@pytest.mark.parametrize(("method", "parts"), [("ordered", 2), ("best", 4)])
def test_a_search_that_is_killed_is_resumed(method: str, parts: int, tmp_path: Path) -> None:
    opened(tmp_path, method)
    assert killed(parts, "after", "build", tmp_path / "build.yaml") == -signal.SIGKILL
    build, said = open_build(tmp_path / "build.yaml"), list[str]()
    kept = Checkpoint.open(build.folder.parts("search"), SEARCH.key(build)).found
    last = Grown.read(kept["growth"], build.made.table.schema)
    assert len(last.steps) >= 3
    run_all(build, IN_PROCESS, said.append)
    found = build.made.found
    assert verify_run(build.folder.path).verified
    assert "search: resumed from a checkpoint (growth); the release is proven, but may differ" in said
    assert "growth" in json.loads((build.folder.stage("search") / "search.json").read_text())["resumed"]
    assert "The search was interrupted and resumed from a checkpoint. The release is proven" in report_of(build)
    assert found.release.sub_tables(build.made.table.schema) >= last.release.sub_tables(build.made.table.schema)
    if method == "ordered":  # nothing but the question in work is asked again
        assert found.release.contains(last.release)
        assert found.steps[: len(last.steps)] == last.steps
    assert not build.folder.parts("search").exists()
