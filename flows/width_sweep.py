"""The width sweep alone as a Prefect flow: table and critical widths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from flows.embedded import run_as_command
from flows.tasks import run_as_tasks
from sdc.stages.build import open_build
from sdc.stages.stages import ALONE
from sdc.stages.table import sweep_facts


@flow(name="width-sweep")
def width_sweep(
    config: str, data: str | None = None, workers: int | None = None, settings: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Find the critical widths of a config's table; a later release build reuses them."""
    build = open_build(Path(config), data, workers, settings=settings)
    stages = run_as_tasks(build, ALONE)
    return {**sweep_facts(build), "stages": stages}


if __name__ == "__main__":
    run_as_command(width_sweep)
