"""The method optimum in a whole build."""

from __future__ import annotations

import json
from pathlib import Path

from tests.helpers.commands import Sdc
from tests.strategies import CZECH_CSV


def test_a_build_is_verified_and_states_its_bound(tmp_path: Path, sdc: Sdc) -> None:
    config = tmp_path / "build.yaml"
    config.write_text(
        f"name: best\ntable: {{path: {CZECH_CSV}}}\nrisk: {{min_width: 20}}\nrelease: {{method: optimum}}\n"
        f"output: {{folder: {tmp_path / 'runs'}}}\nexecution: {{cluster: in-process}}\n"
    )
    answer = sdc("run", str(config), "--json")
    assert answer.status == 0, answer.err
    made = json.loads(answer.out)
    folder = Path(made["run_folder"])
    assert made["release"]["sub_tables"] == 52
    assert json.loads((folder / "search" / "search.json").read_text())["bound"] == 52
    assert "No release is better" in (folder / "confidential" / "report.html").read_text()
    assert sdc("verify", str(folder)).status == 0
