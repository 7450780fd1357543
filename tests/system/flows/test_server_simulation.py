"""The trial of a server's rules as a flow: its page and figures in the run folder, and in the command's answer."""

import json
from pathlib import Path

import pytest

from sdc.executor import IN_PROCESS
from sdc.server.simulation.run import FACTS, PAGE, STAGE, ServerSimulation, ordered_sub_tables, start_of, tried
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.system.flows.test_release_build import write_config


@pytest.mark.slow
def test_a_simulation_is_beside_the_build(prefect_server: None, tmp_path: Path) -> None:
    from flows.server_simulation import server_simulation

    config = write_config(tmp_path, server={"rules": [{"rule": "share", "most": 0.3}]})
    result = server_simulation(config, "config,myopic", streams=3, requests=40)
    folder = Path(result["run_folder"]) / STAGE
    facts = result["simulation"]
    assert json.loads((folder / FACTS).read_text()) == facts
    assert "CONFIDENTIAL" in (folder / PAGE).read_text()
    assert folder.stat().st_mode & 0o077 == 0
    assert [one["name"] for one in facts["rule_sets"]] == ["config", "myopic"]
    assert (facts["first_release"], facts["ordered_release"], facts["requests"]) == (6, 59, 40)
    assert all(one["released"]["max"] <= 59 for one in facts["rule_sets"])
    assert [stage["name"] for stage in result["stages"]] == ["table", "widths", STAGE]

    # the build that follows takes table and widths over, and what it finds is what a later trial is held against
    build = open_build(Path(config))
    records = run_all(build, IN_PROCESS)
    assert [record.status for record in records[:2]] == ["reused", "reused"]
    assert ordered_sub_tables(build, IN_PROCESS) == 59
    trial = ServerSimulation.of(build.config.server, "config,myopic", "uniform", streams=3, requests=40)
    assert tried(build, trial, IN_PROCESS) == facts
    assert start_of(build, IN_PROCESS).state.unreleasable
