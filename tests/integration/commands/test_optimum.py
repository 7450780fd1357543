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


def test_other_methods_state_a_bound_by_the_critical_widths(tmp_path: Path, sdc: Sdc) -> None:
    """Of the Czech table 53 sub-tables have a critical width of 20; `ordered` releases 51, and 52 is the best."""
    config = tmp_path / "build.yaml"
    config.write_text(
        f"name: ordered\ntable: {{path: {CZECH_CSV}}}\nrisk: {{min_width: 20}}\nrelease: {{method: ordered}}\n"
        f"output: {{folder: {tmp_path / 'runs'}}}\nexecution: {{cluster: in-process}}\n"
    )
    answer = sdc("run", str(config), "--json")
    assert answer.status == 0, answer.err
    folder = Path(json.loads(answer.out)["run_folder"])
    widths = json.loads(sdc("widths", str(CZECH_CSV), "--json").out)["widths"]
    bound = sum(one["critical_width"] >= 20 for one in widths if one["sub_table"])
    assert json.loads((folder / "search" / "search.json").read_text())["bound"] == bound
    share = int(1000 * 51 / bound) / 10
    assert f"is at least {share} % of that of the best release" in (folder / "confidential" / "report.html").read_text()
    assert sdc("verify", str(folder)).status == 0
