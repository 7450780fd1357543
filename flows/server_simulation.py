"""The simulation of a server's rules as a Prefect flow: table, critical widths, and streams of requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from flows.embedded import run_as_command
from flows.tasks import run_as_tasks
from sdc.server.simulation.run import FACTS, STAGE, ServerSimulation, stage_of
from sdc.stages.build import open_build
from sdc.stages.stages import SWEEP
from sdc.storage.run_folder import read_json


@flow(name="server-simulation")
def server_simulation(
    config: str,
    rules: str = "myopic,one_step",
    queries: str = "uniform",
    streams: int = 20,
    users: int = 8,
    requests: int | None = None,
    seed: int = 0,
    data: str | None = None,
    workers: int | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Simulate many random streams of requests for each rule set, in the run folder of a build."""
    build = open_build(Path(config), data, workers, settings=settings)
    build.config.require("simulate")
    options = {"streams": streams, "users": users, "requests": requests, "seed": seed}
    simulation = ServerSimulation.of(build.config.server, rules, queries, **options)
    stages = run_as_tasks(build, (*SWEEP, stage_of(simulation)))
    facts = read_json(build.folder.stage(STAGE) / FACTS)
    return {"run_folder": str(build.folder.path), "simulation": facts, "stages": stages}


if __name__ == "__main__":
    run_as_command(server_simulation)
