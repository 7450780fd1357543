"""The preparation of a table server as a Prefect flow: table, critical widths, and a first safe release."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.embedded import run_as_command
from flows.tasks import run_as_task, run_as_tasks
from sdc.execution.cluster import open_executor
from sdc.server.service.prepare import folder_of, prepare, server_of
from sdc.stages.build import Build, open_build
from sdc.stages.stages import SWEEP


@flow(name="table-server")
def table_server(
    config: str, data: str | None = None, workers: int | None = None, settings: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Prepare the server of a config; results with unchanged inputs are reused."""
    build = open_build(Path(config), data, workers, settings=settings)
    server_of(build)
    stages = run_as_tasks(build, SWEEP)
    run_as_task("first-release", partial(_first_release, build))
    return {"folder": str(folder_of(build).path), "stages": stages}


def _first_release(build: Build) -> None:
    lines: list[str] = []
    with open_executor(build.config.execution) as executor:
        prepare(build, executor, lines.append)
    create_markdown_artifact(key="first-release", markdown="\n".join(lines))


if __name__ == "__main__":
    run_as_command(table_server)
