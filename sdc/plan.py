"""What a build would run, and whether it fits, before it starts."""

from __future__ import annotations

from typing import Any

from sdc.bounds.method import is_small
from sdc.model.errors import SdcError
from sdc.model.table import Table
from sdc.risk.criterion import CELLS_PER_UNIT
from sdc.risk.critical_width import require_at_risk, sub_lattices, sweep_bytes
from sdc.search.annealing import MAX_BYTES
from sdc.stages import Build, stages_of

MIB = 1 << 20
PROCESS_BYTES = 250 * MIB  # an idle worker with its libraries


def plan_build(build: Build) -> dict[str, Any]:
    """Stages with their units and memory; reads the table and touches nothing.

    SdcError where a worker would need more memory than it is allowed.
    """
    table = build.read_source()
    require_at_risk(table, build.config.risk.small_count)
    build.check_names(table.schema)
    stages = [_stage(build, table, stage.name) for stage in stages_of(build.config)]
    _mark_reused(build, stages)
    needed, allowed = max(stage["memory_mib"] for stage in stages), build.memory // MIB
    if needed > allowed:
        raise SdcError(
            f"a worker needs {needed} MiB, {allowed} MiB are allowed; raise execution.memory_per_worker, use fewer "
            "workers, or fewer variables"
        )
    return {
        "run_folder": str(build.folder.path),
        "records": table.total,
        "cells": len(table),
        "at_risk_cells": len(table.at_risk(build.config.risk.small_count)),
        "stages": stages,
        "memory_needed_mib": needed,
        "memory_allowed_mib": allowed,
    }


def _stage(build: Build, table: Table, name: str) -> dict[str, Any]:
    at_risk = len(table.at_risk(build.config.risk.small_count))
    refined = at_risk if is_small(table.schema) else build.config.release.refute_cells
    anneals = name == "curve" or (name == "search" and build.config.release.method != "ordered")
    chains = build.config.release.annealing.chains if anneals else 1
    units = {
        "widths": len(sub_lattices(len(table.schema))),
        "search": chains,
        "curve": chains,
        "assessment": -(-refined // CELLS_PER_UNIT),
    }
    memory = PROCESS_BYTES + (len(table) * (len(table.schema) * 2 + 8)) * 4
    if name == "widths":
        memory += sweep_bytes(len(table), len(table.schema))
    if anneals:
        memory += min(MAX_BYTES, 8 * at_risk << len(table.schema))
    return {"name": name, "status": "to do", "units": units.get(name, 1), "memory_mib": memory // MIB}


def _mark_reused(build: Build, stages: list[dict[str, Any]]) -> None:
    """A stage is reused while all that it needs is, and its outputs are found whole."""
    outputs: dict[str, str] = {}
    for stage, facts in zip(stages_of(build.config), stages, strict=True):
        if set(stage.needs) <= set(outputs):
            found = build.folder.finds(stage.name, stage.key(build, outputs))
            if found is not None:
                outputs[stage.name], facts["status"] = found, "to reuse"
