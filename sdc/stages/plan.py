"""What a build would run, what it needs, and whether it fits, before it starts."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sdc.bounds.method import is_small
from sdc.config.analysis import PosteriorConfig
from sdc.config.build import BuildConfig, ExecutionConfig
from sdc.data.child import limit_of
from sdc.data.reader import room_of
from sdc.execution.settings import worker_memory, workers_of
from sdc.executor import Executor
from sdc.feasible.depth_first import MAX_CELLS
from sdc.intruder.laws import RELEASED
from sdc.intruder.summary import laws_of
from sdc.memory import MIB
from sdc.model import subtable as st
from sdc.model.errors import SdcError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.case import CELLS_PER_UNIT
from sdc.risk.effort import STEPS_PER_SECOND
from sdc.risk.sweep_plan import SweepPlan, sweep_plan
from sdc.search.redesign import MOST_ASKED
from sdc.search.remedies import MOST_SECONDS
from sdc.search.simulatable import DRAWS_PER_UNIT
from sdc.search.wishes import Wishes, limits_of
from sdc.stages import needs
from sdc.stages.build import Build
from sdc.stages.checks import check_names
from sdc.stages.remedies import MOST_MERGED, MOST_REDESIGNED
from sdc.stages.stages import stages_of
from sdc.stages.trial import UnitKind, UnitTrial, trials
from sdc.storage.parquet import write_table

SEARCH_BYTES = 48 * MIB  # measured: what a worker of a search keeps beyond a trial
WIDTH_DISK = 10  # measured: bytes of one critical width when written
START_SECONDS, WRITE_SECONDS = 5.0, 1.0  # measured: of Prefect and workers; of a stage that only writes
# the most that the enumeration of a block takes; measured: of a cell of cps13 beside a chain of three-way sub-tables
LAW_SECONDS, CELL_SECONDS = 5.0, 1e-3
PROGRAM_SECONDS = 0.08  # measured: of an at-risk cell of ten variables beside 66 tables of totals
QUESTIONS = "questions"  # the trial of a growing release
ASSESSMENTS = 3  # questions that take as long as an assessment: what a search proved is checked, and every cell bounded


@dataclass(frozen=True)
class StagePlan:
    """What one stage would take.

    status      "to do", or "to reuse": that takes nothing
    units       how many the workers get, 0 where this process does it alone
    way         of the widths: "whole", or "partitions" of the cells where the whole table does not fit a worker; of
                searches for feasible tables "whole", or "slices" where it has more than `release.cells_per_slice` cells
    memory_mib  of the worker that needs most; a worker keeps what stages before have needed
    here_mib    of this process, likewise
    disk_mib    in the run folder
    seconds     of wall time, at the speed of the trials; None without them
    seconds_at_most  of the whole budget: a search may need it, for its questions get dearer as a release grows
    """

    name: str
    status: str
    units: int
    way: str
    memory_mib: int
    here_mib: int
    disk_mib: float
    seconds: float | None
    seconds_at_most: float | None


def plan_build(build: Build, executor: Executor, *, quick: bool = False) -> dict[str, Any]:
    """Sizes, then stages with their units, memory, disk and time, projected from trials on a worker of the executor.

    Where it is `quick` nothing is tried: memory follows from the sizes alone, and there are no times.

    Reads the table, and touches nothing but temporary files. SdcError, with what is needed and what is allowed, where
    a worker would need more memory than `execution.memory_per_worker`, this process more than workers of this machine
    leave it, or the run folder more room than the disk has.
    """
    begun = time.perf_counter()
    counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    build = replace(build, given=origin)
    # the one stage that is run and not tried: all others need its table
    seconds = time.perf_counter() - begun
    at_risk = len(build.settings().criteria.bank(table).at_risk)
    check_names(build, known, table)
    build.needs.require(table)
    sweep = sweep_plan(table, floor=build.listing.floor, memory=build.needs.sweep(table)[0])
    tried = {} if quick else trials(table, _kinds(build, sweep), executor)
    stages = _Projection(build, table, seconds, sweep, tried).stages()
    needs.require_worker(max(s.memory_mib for s in stages) * MIB, build.needs.worker_may)
    needed = sum(s.disk_mib for s in stages if s.status == "to do")
    free = _free_bytes(Path(build.config.output.folder)) // MIB
    if needed > free:
        raise SdcError(
            f"the build does not fit: it needs {needed:.1f} MiB of disk, {free} MiB are free in "
            f"{build.config.output.folder}; make room, or set output.folder"
        )
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
        "stages": [asdict(stage) for stage in stages],
        "memory_needed_mib": max(stage.memory_mib for stage in stages),
        "memory_allowed_mib": build.needs.worker_may // MIB,
        "reader_limit_mib": limit_of(room_of(build.counting_memory)) // MIB,
        "here_needed_mib": build.needs.here(table) // MIB,
        "here_allowed_mib": build.needs.here_may // MIB,
        "disk_needed_mib": round(needed, 1),
        "disk_free_mib": free,
        "seconds": None if quick else round(sum(stage.seconds or 0.0 for stage in stages), 1),
        "seconds_at_most": None if quick else round(sum(stage.seconds_at_most or 0.0 for stage in stages), 1),
    }


def one_worker(execution: ExecutionConfig) -> ExecutionConfig:
    """What trials run on: one worker of this machine with the memory that the build's have, whatever their cluster."""
    if execution.cluster == "in-process":
        return execution
    # one, because memory and time of a unit are what is tried; how many run at once is multiplied afterwards
    return ExecutionConfig(workers=1, memory_per_worker=f"{worker_memory(execution) // MIB}MiB")


def _free_bytes(folder: Path) -> int:
    """Room on the disk that the folder is on, or would be."""
    # the folder is made by the build, not by its plan
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _kinds(build: Build, sweep: SweepPlan) -> list[UnitKind]:
    """What is tried: what the build's method has units of."""
    method = build.config.release.method
    chains = ["annealing"] * (method in ("decomposable", "best") or build.config.curve is not None)
    searched = method != "decomposable" or build.config.curve is not None
    moves, draws = ["moves", "bounds"] * searched, ["draws"] * _may_draw(build.config)
    # a release grows in this process: what its questions take in memory is not the worker's, and so they come last
    names = ["start", "widths", *chains, *moves, *draws, *[QUESTIONS] * searched]
    release = build.config.release
    shared = build.criteria, build.listing.floor, sweep, release.cells_per_slice, release.breadth, release.objective
    return [UnitKind(name, *shared) for name in names]


def _may_draw(config: BuildConfig) -> bool:
    """Whether a law may have to be sampled: always exact is only `released` under a decomposable release."""
    return config.posterior is not None and (
        config.release.method != "decomposable" or set(config.posterior.laws) != {RELEASED}
    )


@dataclass(frozen=True, eq=False)
class _Projection:
    """From what was tried, in the order of a build, to its stages; seconds and bytes. Without trials no seconds."""

    build: Build
    table: Table
    read_seconds: float
    sweep: SweepPlan
    tried: Mapping[str, UnitTrial]

    def stages(self) -> list[StagePlan]:
        """A stage is reused while all that it needs is, and its outputs are found whole."""
        outputs: dict[str, str] = {}
        plans: list[StagePlan] = []
        for stage in stages_of(self.build.config):
            # the key of a stage has the outputs of those before: where one must be made anew, what follows is not
            # looked for
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

    def _plan(self, name: str, reused: bool) -> StagePlan:
        seconds, most = (0.0, 0.0) if reused else self._seconds(name)
        return StagePlan(
            name,
            "to reuse" if reused else "to do",
            self._units(name),
            self._way(name),
            0 if reused else self._worker_bytes(name) // MIB,
            0 if reused else self.build.needs.here(self.table) // MIB,
            0.0 if reused else round(self._disk_bytes(name) / MIB, 1),
            round(seconds, 1) if self.tried or reused else None,
            round(most, 1) if self.tried or reused else None,
        )

    def _units(self, name: str) -> int:
        config, at_risk = self.build.config, len(self._at_risk)
        every = is_small(self.table.schema) or config.seconds_to_sharpen is not None
        refined = at_risk if every else config.release.refute_cells
        draws = -(-config.release.simulatable.draws // DRAWS_PER_UNIT)
        runs = dict.fromkeys(("decomposable", "best"), config.release.annealing.chains) | {"simulatable": draws}
        recodes = 2 * config.remedies.variables if config.remedies else 0
        draws = config.posterior.chains if config.posterior and _may_draw(config) else 0
        units = {"widths": self.sweep.units, "remedies": recodes, "posterior": draws}
        units |= dict.fromkeys(("search", "curve"), runs.get(config.release.method, 1))
        return units.get(name, -(-refined // CELLS_PER_UNIT) if name == "assessment" else 0)

    def _way(self, name: str) -> str:
        if name == "widths":
            return self.sweep.way
        if name in ("search", "assessment", "curve", "remedies"):
            fits = is_small(self.table.schema) or len(self.table) <= self.build.config.release.cells_per_slice
            return "whole" if fits else "slices"
        return ""

    def _worker_bytes(self, name: str) -> int:
        """The trials are in the order of a build, and the stages after the widths use all of them."""
        if name == "table":
            return self._tried_bytes("start", needs.WORKER_BYTES)  # the worker has counted the records before
        widths = self._tried_bytes("widths", needs.WORKER_BYTES + self.sweep.bytes_per_unit)
        if name == "widths":
            return widths
        tried = max([widths, *(trial.bytes for kind, trial in self.tried.items() if kind != QUESTIONS)]) + SEARCH_BYTES
        return max(tried, self.build.needs.worker(self.table))  # a growth is tried by no trial

    def _tried_bytes(self, kind: str, untried: int) -> int:
        return self.tried[kind].bytes if kind in self.tried else untried

    def _seconds(self, name: str) -> tuple[float, float]:
        # at an address one, for its scheduler is not asked: a time that more of them shorten
        workers = workers_of(self.build.config.execution) or 1
        if name in ("search", "curve"):
            chains, asked = self._chains_seconds(workers), self._asked_seconds(workers, self._questions)
            most = 60 * (self.build.config.release.minutes or math.inf)
            return min(most, chains + asked[0]), min(most, chains + asked[1])
        if name == "posterior":
            return self._posterior_seconds(workers)
        if name == "remedies":
            least, most = self._asked_seconds(workers, 1, MOST_SECONDS)
            redesigned = self._redesigned * self._asked_seconds(workers, MOST_ASKED)[0]
            return self._units(name) * least, self._units(name) * most + redesigned
        if name == "assessment":
            least, most = self._asked_seconds(workers, ASSESSMENTS)
            return least, most + self._search_seconds(workers, self.build.config.seconds_to_sharpen or 0.0)
        known = {
            "table": self.read_seconds,
            "widths": START_SECONDS + self._seconds_of("widths") * self.sweep.units / workers,
            "weighted": PROGRAM_SECONDS * len(self._at_risk) / workers,
        }
        return known.get(name, WRITE_SECONDS), known.get(name, WRITE_SECONDS)

    @property
    def _redesigned(self) -> int:
        """Of how many sub-tables at most it is asked what may go out instead, at coarser levels or merged."""
        merged = MOST_MERGED * self.build.config.may_coarsen
        return merged if self.table.schema.levels.is_flat else MOST_REDESIGNED

    def _chains_seconds(self, workers: int) -> float:
        annealing = self.build.config.release.annealing
        # chains run side by side as far as there are workers, and each as a whole
        rounds = -(-annealing.chains // workers) * annealing.steps
        return rounds * self._seconds_of("annealing")

    def _posterior_seconds(self, workers: int) -> tuple[float, float]:
        """Each law exactly; at most where it has to be sampled, and tables to be built again."""
        asked = self.build.config.posterior or PosteriorConfig()
        laws = len(laws_of(asked.laws, asked.alpha, self.table.schema))
        # what a chain throws away is half as much as what it keeps; shorter ones come to as much as the last at most
        longest = asked.draws if asked.error is None else 2 * max(asked.draws, asked.most_draws)
        draws = -(-asked.chains // workers) * (1.5 * longest) * self._seconds_of("draws")
        again = asked.refusals if self.table.schema.cells <= MAX_CELLS else 0
        each = self._chains_seconds(1) + self._asked_seconds(1, self._questions)[1]
        exact = LAW_SECONDS if self.table.schema.cells <= MAX_CELLS else CELL_SECONDS * len(self._at_risk)
        return laws * exact, laws * (exact + draws) + again * each / workers

    def _seconds_of(self, kind: str) -> float:
        return self.tried[kind].seconds if kind in self.tried else 0.0

    @property
    def _questions(self) -> int:
        """The most that a search for a release asks; of curves, of each of their points."""
        release = self.build.config.release
        if release.method == "bisection":
            return len(self.table.schema)  # of a list of 2^K at most
        breadth, questions = limits_of(release, len(self.table.schema))
        return Wishes(breadth=breadth, questions=questions).questions_for(len(self._at_risk))

    def _asked_seconds(self, workers: int, questions: int, most: float = math.inf) -> tuple[float, float]:
        """Of so many questions at the speed found, and of the whole budget."""
        # a question is mostly one search after the other, which more workers hardly shorten
        asked, budget = questions * self._seconds_of(QUESTIONS), self._proof_seconds(workers, most)
        return (asked if 0 < asked < budget else budget), budget

    def _proof_seconds(self, workers: int, most: float = math.inf) -> float:
        """Small tables: every at-risk cell exactly; else the whole budget for feasible tables, at the speed found."""
        if is_small(self.table.schema):
            return len(self._at_risk) * self._seconds_of("bounds") / workers
        return self._search_seconds(workers, min(most, self.build.config.release.seconds))

    def _search_seconds(self, workers: int, budget: float) -> float:
        """Of a budget in seconds of a reference core, at the speed found."""
        return budget * STEPS_PER_SECOND * self._seconds_of("moves") / workers

    def _disk_bytes(self, name: str) -> int:
        variables, at_risk = len(self.table.schema), len(self._at_risk)
        # what is not listed here is a few small files
        sizes = {
            "table": self._table_bytes,
            "widths": WIDTH_DISK * needs.listed(self.table, self.build.listing.floor),
            "assessment": 8 * at_risk,
            "confidential": MIB,
            "release": 8 * variables * len(self.table),  # published tables are smaller than the whole
        }
        return sizes.get(name, MIB // 4)

    @cached_property
    def _table_bytes(self) -> int:
        with tempfile.TemporaryDirectory(prefix="sdc-") as folder:
            # written and weighed, because how well codes compress depends on the table
            write_table(self.table, folder)
            return sum(file.stat().st_size for file in Path(folder).iterdir())

    @cached_property
    def _at_risk(self) -> Any:
        return self.table.at_risk(self.build.config.risk.small_count)
