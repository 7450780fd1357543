"""The plan of a build: stages, memory, disk and time, from sizes and short test runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sdc.bounds.method import is_small
from sdc.config.build import BuildConfig
from sdc.config.methods import METHOD_OF
from sdc.data.child import limit_of
from sdc.data.reader import room_of
from sdc.execution.cluster import open_executor, workers_of
from sdc.executor import IN_PROCESS
from sdc.intruder.laws import RELEASED
from sdc.memory import MIB
from sdc.model import subtable as st
from sdc.model.errors import SdcError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.case import CELLS_PER_UNIT
from sdc.risk.sweep_plan import SweepPlan, sweep_plan
from sdc.run_format import CURVE, RELEASE, REPORT, SEARCH
from sdc.search.simulatable import DRAWS_PER_UNIT
from sdc.stages.build import Build, Say
from sdc.stages.needs import WORKER_BYTES, listed
from sdc.stages.stages import stages_of
from sdc.stages.table import check_names
from sdc.stages.trial import STAGE_SECONDS, Trial, Tried, run_trial, tried_execution
from sdc.storage.parquet import write_table
from sdc.storage.scratch import own_scratch

SECONDS = ("seconds", "seconds_at_most")
WIDTH_DISK = 10  # measured: bytes of one critical width when written
START_SECONDS = 12.0  # measured: Prefect and workers, before the first stage and after the last
WRITE_SECONDS = 1.0  # measured: of a stage that only writes
SPREAD = 1.5  # measured: two runs of the same work on a shared machine differ by at most this factor
LEAST_LEFT = 0.25  # measured: of the estimate of a search, whose later evaluations are faster


def plan_build(build: Build, say: Say, *, quick: bool = False, seconds: float = STAGE_SECONDS) -> dict[str, Any]:
    """Return sizes, memory, disk, and the units, memory and time of each stage, from a trial of the build.

    quick    no trial and no times
    seconds  the most that the trial gives a stage

    Reads the table and writes only temporary files. SdcError with needed and allowed amounts if a worker, this process
    or the disk is too small.
    """
    with nullcontext(IN_PROCESS) if quick else open_executor(tried_execution(build.config.execution)) as executor:
        counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    build = replace(build, given=origin)
    at_risk = len(build.settings().criteria.pool(table).at_risk)
    check_names(build, known, table)
    own = build.needs
    own.require(table)
    sweep = sweep_plan(table, floor=build.listing.floor, memory=own.sweep(table)[0])
    projection = _Projection(build, table, sweep)
    stages = projection.stages()
    to_do = [stage["name"] for stage in stages if stage["status"] == "to do"]
    needed = sum(map(projection.disk_mib, to_do))
    # the build creates the folder, not the plan
    folder = Path(build.config.output.folder).absolute()
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free // MIB
    if needed > free:
        raise SdcError(
            f"the build does not fit: it needs {needed:.1f} MiB of disk, {free} MiB are free in "
            f"{build.config.output.folder}; make room, or set output.folder"
        )
    trial = None if quick else run_trial(replace(build, given=None), seconds, say) if to_do else Trial({})
    times = _Times(build, trial, to_do)
    return {
        "run_folder": str(build.folder.path),
        "records": table.total,
        "full_table_cells": table.schema.cells,
        "cells": len(table),
        "sums": counted.sums,
        "at_risk_cells": at_risk,
        "sub_tables": Release.of([st.full(len(table.schema))]).sub_tables_with_total(table.schema),
        "floor": build.listing.floor,
        "most_listed": build.listing.most,
        "stages": [{**stage, **times.of(stage["name"])} for stage in stages],
        "memory_needed_mib": max(stage["memory_mib"] for stage in stages),
        "memory_allowed_mib": own.worker_may // MIB,
        "reader_limit_mib": limit_of(room_of(build.counting_memory)) // MIB,
        "here_needed_mib": own.here(table) // MIB,
        "here_allowed_mib": own.here_may // MIB,
        "disk_needed_mib": round(needed, 1),
        "disk_free_mib": free,
        "refused": trial and (trial.refused or None),
        **times.in_all,
    }


def _may_draw(config: BuildConfig) -> bool:
    """Return whether a law may need sampling; only `released` under a decomposable release is always exact."""
    return config.posterior is not None and (
        config.release.method != "decomposable" or set(config.posterior.laws) != {RELEASED}
    )


@dataclass(frozen=True, eq=False)
class _Projection:
    """Sizes of the stages."""

    build: Build
    table: Table
    sweep: SweepPlan

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages; a stage is reused if its needs are reused and its outputs are complete.

        status      "to do" or "to reuse"; reuse takes nothing
        units       number of units for workers; 0 if this process does it alone
        way         widths: "whole", or "partitions" if the table does not fit a worker; searches for feasible tables:
                    "whole", or "slices" above `release.cells_per_slice` cells
        memory_mib  of the largest worker
        """
        outputs, plans = dict[str, str](), []
        for stage in stages_of(self.build.config):
            # a key contains the outputs of earlier stages, so a stage after a remade one
            # is remade too
            found = None
            if self.build.is_released:
                record = self.build.folder.whole(stage.name)
                found = None if record is None else record.output
            elif set(stage.needs) <= set(outputs):
                found = self.build.folder.finds(stage.name, stage.key(self.build, outputs))
            if found is not None:
                outputs[stage.name] = found
            plans.append(self._plan(stage.name, found is not None))
        return plans

    def _plan(self, name: str, reused: bool) -> dict[str, Any]:
        sizes = {"table": WORKER_BYTES, "widths": WORKER_BYTES + self.sweep.bytes_per_unit}
        return {
            "name": name,
            "status": "to reuse" if reused else "to do",
            "units": self._units(name),
            "way": self._way(name),
            "memory_mib": 0 if reused else (sizes.get(name) or self.build.needs.worker(self.table)) // MIB,
        }

    def _units(self, name: str) -> int:
        config, at_risk = self.build.config, len(self._at_risk)
        every = is_small(self.table.schema) or config.seconds_to_sharpen is not None
        refined = at_risk if every else config.release.refute_cells
        draws = -(-config.release.simulatable.draws // DRAWS_PER_UNIT)
        runs = {"annealing": config.release.annealing.chains, "simulatable": draws}
        used = METHOD_OF[config.release.method].settings
        recodes = 2 * config.remedies.variables if config.remedies else 0
        draws = config.posterior.chains if config.posterior and _may_draw(config) else 0
        units = {"widths": self.sweep.units, "remedies": recodes, "posterior": draws}
        units |= dict.fromkeys(("search", "curve"), next((runs[name] for name in used if name in runs), 1))
        return units.get(name, -(-refined // CELLS_PER_UNIT) if name == "assessment" else 0)

    def _way(self, name: str) -> str:
        if name == "widths":
            return self.sweep.way
        if name in ("search", "assessment", "curve", "remedies"):
            fits = is_small(self.table.schema) or len(self.table) <= self.build.config.release.cells_per_slice
            return "whole" if fits else "slices"
        return ""

    def disk_mib(self, name: str) -> float:
        variables, at_risk = len(self.table.schema), len(self._at_risk)
        # other stages write a few small files
        sizes = {
            "table": self._table_bytes,
            "widths": WIDTH_DISK * listed(self.table, self.build.listing.floor),
            "assessment": 8 * at_risk,
            "confidential": MIB,
            "release": 8 * variables * len(self.table),  # published tables are smaller than the full table
        }
        return sizes.get(name, MIB // 4) / MIB

    @cached_property
    def _table_bytes(self) -> int:
        with own_scratch() as folder:
            # written to measure its compression
            write_table(self.table, folder)
            return sum(file.stat().st_size for file in folder.iterdir())

    @cached_property
    def _at_risk(self) -> Any:
        return self.table.at_risk(self.build.config.risk.small_count)


@dataclass(frozen=True, eq=False)
class _Times:
    """Estimates the wall time of the stages; without a trial nothing is estimated.

    to_do  names of the stages that are not reused
    """

    build: Build
    trial: Trial | None
    to_do: Sequence[str]

    def of(self, name: str) -> dict[str, float | None]:
        """Return the seconds of a stage, and at most; None if not known."""
        return dict(zip(SECONDS, map(_rounded, self._range(name)), strict=True))

    @property
    def in_all(self) -> dict[str, float | None]:
        """Return the seconds of all, and at most; None if not known."""
        every = [(START_SECONDS / SPREAD, START_SECONDS * SPREAD), *map(self._range, self.to_do)]
        sums = (None if None in ends else sum(ends) for ends in zip(*every, strict=True))
        return dict(zip(SECONDS, map(_rounded, sums), strict=True))

    def _range(self, name: str) -> tuple[float | None, float | None]:
        if self.trial is None:
            return None, None
        if name not in self.to_do:
            return 0.0, 0.0
        tried = self.trial.stages.get(name)
        if tried is None or tried.left != 0.0:
            seconds = self.build.seconds_before.get(name)
            tried = tried if seconds is None else Tried(seconds)
        if tried is None:
            least, most = 0.0, WRITE_SECONDS * SPREAD if name in (REPORT, RELEASE) else None
        elif tried.left == 0.0:
            least, most = tried.seconds / SPREAD, tried.seconds * SPREAD
        else:
            least = tried.seconds + LEAST_LEFT * (tried.left or 0.0)
            most = None if tried.left is None else tried.seconds + tried.left
        if name in (SEARCH, CURVE) and (minutes := self.build.config.release.minutes) is not None:
            most = 60 * minutes if most is None else min(60 * minutes, most)
        return least / self._more_workers, most

    @property
    def _more_workers(self) -> float:
        """How many times as many workers the build has as the trial; 1 for a scheduler address, not contacted."""
        execution = self.build.config.execution
        return (workers_of(execution) or 1) / (workers_of(tried_execution(execution)) or 1)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
