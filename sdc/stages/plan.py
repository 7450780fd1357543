"""The plan of a build: stages, memory, disk and time, from sizes and short test runs."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sdc.bounds.collapse import MAX_DICHOTOMOUS
from sdc.bounds.method import is_small
from sdc.config.analysis import PosteriorConfig
from sdc.config.build import BuildConfig, ExecutionConfig
from sdc.config.methods import METHOD_OF
from sdc.config.release import ReleaseConfig
from sdc.data.child import limit_of
from sdc.data.reader import room_of
from sdc.execution.cluster import worker_memory, workers_of
from sdc.executor import Executor
from sdc.feasible.depth_first import MAX_CELLS
from sdc.intruder import chains
from sdc.intruder.exchanges import Records
from sdc.intruder.laws import RELEASED, SATURATED, law_of
from sdc.intruder.summary import laws_of
from sdc.memory import MIB
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError, SdcError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.protect.recoding import MOST_ASKED
from sdc.risk.case import CELLS_PER_UNIT
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths, widths_of_sub_lattice
from sdc.risk.effort import Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.reaching import Above, widths_above
from sdc.risk.sweep_plan import SweepPlan, sweep_plan
from sdc.search.annealing import AnnealingChain
from sdc.search.constraints import Constraints, limits_of
from sdc.search.neighbourhood import MOST_QUESTIONS, TRIES
from sdc.search.ordered import OrderedSearch
from sdc.search.remedies import MOST_SECONDS
from sdc.search.simulatable import DRAWS_PER_UNIT
from sdc.stages.build import Build
from sdc.stages.needs import WORKER_BYTES, listed
from sdc.stages.report import MOST_MERGED, MOST_REDESIGNED
from sdc.stages.stages import stages_of
from sdc.stages.table import check_names
from sdc.storage.parquet import write_table

SECONDS = ("seconds", "seconds_at_most")
WIDTH_DISK = 10  # measured: bytes of one critical width when written
START_SECONDS, WRITE_SECONDS = 5.0, 1.0  # measured: of Prefect and workers; of a stage that only writes
# the most that the enumeration of a block takes; measured: of a cell of cps13 beside a chain of three-way sub-tables
LAW_SECONDS, CELL_SECONDS = 5.0, 1e-3
PROGRAM_SECONDS = 0.08  # measured: of an at-risk cell of ten variables beside 66 tables of totals
ASSESSMENTS = 3  # evaluations as long as an assessment: check the proof and bound every cell
SAMPLE, PROPOSALS = 6, 2_000  # units of the widths; proposals
QUESTIONS, LATER = 12, 8  # evaluations of a test run; the last ones are timed


def plan_build(build: Build, executor: Executor, *, quick: bool = False) -> dict[str, Any]:
    """Return sizes, memory, disk, and the units, memory and time of each stage, from test runs on a worker.

    With `quick` there are no test runs and no times. Reads the table and writes only temporary files. SdcError with
    needed and allowed amounts if a worker, this process or the disk is too small.
    """
    begun = time.perf_counter()
    counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    build = replace(build, given=origin)
    # this stage is run in full, since all others need its table
    seconds = time.perf_counter() - begun
    at_risk = len(build.settings().criteria.pool(table).at_risk)
    check_names(build, known, table)
    own = build.needs
    own.require(table)
    sweep = sweep_plan(table, floor=build.listing.floor, memory=own.sweep(table)[0])
    projection = _Projection(build, table, seconds, sweep, {} if quick else _tried(build, table, sweep, executor))
    stages = projection.stages()
    needed = sum(projection.disk_mib(stage["name"]) for stage in stages if stage["status"] == "to do")
    # the build creates the folder, not the plan
    folder = Path(build.config.output.folder).absolute()
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free // MIB
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
        "stages": stages,
        "memory_needed_mib": max(stage["memory_mib"] for stage in stages),
        "memory_allowed_mib": own.worker_may // MIB,
        "reader_limit_mib": limit_of(room_of(build.counting_memory)) // MIB,
        "here_needed_mib": own.here(table) // MIB,
        "here_allowed_mib": own.here_may // MIB,
        "disk_needed_mib": round(needed, 1),
        "disk_free_mib": free,
        **{of: None if quick else round(sum(stage[of] or 0.0 for stage in stages), 1) for of in SECONDS},
    }


def one_worker(execution: ExecutionConfig) -> ExecutionConfig:
    """Return the executor of test runs: one local worker with the build's memory."""
    if execution.cluster == "in-process":
        return execution
    # one worker, to time single units
    return ExecutionConfig(workers=1, memory_per_worker=f"{worker_memory(execution) // MIB}MiB")


def _may_draw(config: BuildConfig) -> bool:
    """Return whether a law may need sampling; only `released` under a decomposable release is always exact."""
    return config.posterior is not None and (
        config.release.method != "decomposable" or set(config.posterior.laws) != {RELEASED}
    )


@dataclass(frozen=True, eq=False)
class _Projection:
    """Estimates stages from measured seconds of units."""

    build: Build
    table: Table
    read_seconds: float
    sweep: SweepPlan
    tried: Mapping[str, float]

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages; a stage is reused if its needs are reused and its outputs are complete.

        status      "to do" or "to reuse"; reuse takes nothing
        units       number of units for workers; 0 if this process does it alone
        way         widths: "whole", or "partitions" if the table does not fit a worker; searches for feasible tables:
                    "whole", or "slices" above `release.cells_per_slice` cells
        memory_mib  of the largest worker
        seconds     wall time at the measured speed; None if not measured
        seconds_at_most  if a search needs its whole budget, since evaluations get slower
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
        seconds = (0.0, 0.0) if reused else self._seconds(name)
        return {
            "name": name,
            "status": "to reuse" if reused else "to do",
            "units": self._units(name),
            "way": self._way(name),
            "memory_mib": 0 if reused else (sizes.get(name) or self.build.needs.worker(self.table)) // MIB,
            **{of: round(s, 1) if self.tried or reused else None for of, s in zip(SECONDS, seconds, strict=True)},
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

    def _seconds(self, name: str) -> tuple[float, float]:
        # 1 for a scheduler address, which is not contacted
        workers = workers_of(self.build.config.execution) or 1
        if name in ("search", "curve"):
            chains, evaluations = self._chains_seconds(workers), self._evaluation_seconds(workers, self._questions)
            most = 60 * (self.build.config.release.minutes or math.inf)
            return min(most, chains + evaluations[0]), min(most, chains + evaluations[1])
        if name == "posterior":
            return self._posterior_seconds(workers)
        if name == "remedies":
            least, most = self._evaluation_seconds(workers, 1, MOST_SECONDS)
            redesigned = self._redesigned * self._evaluation_seconds(workers, MOST_ASKED)[0]
            return self._units(name) * least, self._units(name) * most + redesigned
        if name == "assessment":
            least, most = self._evaluation_seconds(workers, ASSESSMENTS)
            return least, most + (self.build.config.seconds_to_sharpen or 0.0) / workers
        known = {
            "table": self.read_seconds,
            "widths": START_SECONDS + self.tried.get("widths", 0.0) * self.sweep.units / workers,
            "weighted": PROGRAM_SECONDS * len(self._at_risk) / workers,
        }
        return known.get(name, WRITE_SECONDS), known.get(name, WRITE_SECONDS)

    @property
    def _redesigned(self) -> int:
        """Maximum number of sub-tables for which alternatives are searched."""
        merged = MOST_MERGED * self.build.config.may_coarsen
        return merged if self.table.schema.levels.is_flat else MOST_REDESIGNED

    def _chains_seconds(self, workers: int) -> float:
        annealing = self.build.config.release.annealing
        # chains run in parallel on the workers
        return -(-annealing.chains // workers) * annealing.steps * self.tried.get("annealing", 0.0)

    def _posterior_seconds(self, workers: int) -> tuple[float, float]:
        """Seconds of exact laws, and at most with sampling and repeated searches."""
        section = self.build.config.posterior or PosteriorConfig()
        laws = len(laws_of(section.laws, section.alpha, self.table.schema))
        # a chain discards half as much as it uses; shorter chains add up to at most the last
        longest = section.draws if section.error is None else 2 * max(section.draws, section.most_draws)
        draws = -(-section.chains // workers) * (1.5 * longest) * self.tried.get("draws", 0.0)
        again = section.refusals if self.table.schema.cells <= MAX_CELLS else 0
        each = self._chains_seconds(1) + self._evaluation_seconds(1, self._questions)[1]
        exact = LAW_SECONDS if self.table.schema.cells <= MAX_CELLS else CELL_SECONDS * len(self._at_risk)
        return laws * exact, laws * (exact + draws) + again * each / workers

    @property
    def _questions(self) -> int:
        """Maximum evaluations of a search; of curves, of each point."""
        release = self.build.config.release
        if release.method == "bisection":
            return len(self.table.schema)  # of at most 2^K sub-tables
        breadth, questions = limits_of(release, len(self.table.schema))
        rounds = release.neighbourhood.rounds if "neighbourhood" in METHOD_OF[release.method].settings else 0
        most = Constraints(breadth=breadth, questions=questions).questions_for(len(self._at_risk))
        return most + rounds * TRIES * MOST_QUESTIONS

    def _evaluation_seconds(self, workers: int, questions: int, most: float = math.inf) -> tuple[float, float]:
        """Seconds of evaluations at the measured speed, and of the whole budget on a reference core."""
        # an evaluation is mostly sequential
        measured, budget = questions * self.tried.get("questions", 0.0), min(most, self.build.config.release.seconds)
        if is_small(self.table.schema):  # every evaluation is exact, without a budget
            return measured, measured
        return min(measured or math.inf, budget / workers), budget / workers

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
        with tempfile.TemporaryDirectory(prefix="sdc-") as folder:
            # written to measure its compression
            write_table(self.table, folder)
            return sum(file.stat().st_size for file in Path(folder).iterdir())

    @cached_property
    def _at_risk(self) -> Any:
        return self.table.at_risk(self.build.config.risk.small_count)


# Test runs


@dataclass(frozen=True)
class Timed:
    """The settings of the units that test runs measure."""

    criteria: Criteria
    threshold: int
    sweep: SweepPlan
    release: ReleaseConfig


def _tried(build: Build, table: Table, sweep: SweepPlan, executor: Executor) -> dict[str, float]:
    """Run one unit of each kind that the method has; return its seconds, each of one proposal, evaluation or draw."""
    release, curve = build.config.release, build.config.curve is not None
    kinds = {
        "widths": (_widths, True),
        "annealing": (_annealing, curve or "annealing" in METHOD_OF[release.method].settings),
        "questions": (_questions, curve or release.method != "decomposable"),
        "draws": (_draws, _may_draw(build.config)),
    }
    unit = Timed(build.criteria, build.listing.floor, sweep, release)
    # levels count as separate variables, which is not faster
    return {name: next(executor.run(timed, table.flat, [unit])) for name, (timed, is_used) in kinds.items() if is_used}


def _widths(table: Table, of: Timed) -> float:
    """Time units from all over the list, after the last one, which loads the kernels."""
    small = of.criteria.small_count
    if of.threshold:
        places = range(len(table.schema))
        above = [Above(small, of.threshold, of.sweep.max_rows, 1 << v, st.full(v)) for v in places]
        return _mean_seconds(widths_above, table, above)
    return _mean_seconds(widths_of_sub_lattice, table, [(small, cut) for cut in of.sweep.cuts])


def _mean_seconds(function: Callable[[Table, Any], Any], table: Table, units: Sequence[Any]) -> float:
    # the first one loads the kernels, so its time does not count
    chosen = [units[-1], *units[:: -(-len(units) // SAMPLE)]]
    times = [_timed(function, table, unit) for unit in chosen]
    return sum(times[1:]) / len(times[1:])


def _questions(table: Table, of: Timed) -> float:
    """Time the later evaluations of an extension by small sub-tables, in any order; the first ones fill caches."""
    if not len(table.at_risk(of.criteria.small_count)):
        return 0.0
    variables, ends = range(len(table.schema)), list[float]()
    small = [st.of(chosen) for size in (1, 2, 3) for chosen in combinations(variables, size)]
    listed = CriticalWidths(np.array(small, np.uint64), np.full(len(small), of.criteria.floor), 0, 0)
    effort = Effort(cells_per_slice=of.release.cells_per_slice)
    evaluator = RiskEvaluator(table, _known(table, NOTHING), of.criteria, effort=effort)
    constraints = Constraints(breadth=of.release.first_dimension, questions=QUESTIONS)
    OrderedSearch(evaluator, listed, lambda step: ends.append(time.process_time()), constraints).run()
    return float(np.mean(np.diff(ends)[-LATER:])) if len(ends) > 1 else 0.0


def _annealing(table: Table, of: Timed) -> float:
    if not len(table.at_risk(of.criteria.small_count)):
        return 0.0
    chain = AnnealingChain(_known(table, NOTHING), of.criteria, objective=of.release.objective)
    try:
        # an untimed step loads the kernels and counts the first marginals
        state = chain.step(table, chain.init(table, 0), 1)
    except ReleaseError:  # not even the one-way sub-tables are safe
        return 0.0
    return _timed(chain.step, table, state, PROPOSALS) / PROPOSALS


def _draws(table: Table, of: Timed) -> float:
    """Time a draw given all pairs, where chains have more moves than under most releases.

    For large tables, time exchanges of records given pairs of neighbours; 0 if that is refused too.
    """
    rng, state, law = np.random.default_rng(0), np.ones(1, np.uint64), law_of(SATURATED, table.schema)
    with suppress(ReleaseError):
        chains.check(table, known := _known(table, _pairs(table)))
        space = chains.Space(table, known, law)
        space.proceed(state, 1)  # loads the kernel
        return _timed(space.proceed, state, PROPOSALS) / PROPOSALS * space.proposals
    with suppress(ReleaseError):
        neighbours = Release.of(3 << v for v in range(len(table.schema) - 1))
        walk = Records(table, _known(table, neighbours), law, rng)
        walk.advance(state, rng)  # loads the kernel
        return _timed(walk.advance, state, rng)
    return 0.0


def _known(table: Table, release: Release) -> Knowledge:
    """Return knowledge without structural zeros, which hardly change times."""
    return Knowledge(table.schema, table.total, release, NO_ZEROS, NO_FACTS)


def _pairs(table: Table) -> Release:
    """All pairs of variables, of two-category variables where there are enough: the slowest outer bound."""
    sizes = table.schema.sizes
    dichotomous = [v for v, size in enumerate(sizes) if size == 2][:MAX_DICHOTOMOUS]
    members = dichotomous if len(dichotomous) == MAX_DICHOTOMOUS else range(len(sizes))
    return Release.of(1 << u | 1 << v for u, v in combinations(members, 2))


def _timed(work: Callable[..., Any], *given: Any) -> float:
    """Seconds of processor, which other programs on the machine do not make longer."""
    begun = time.process_time()
    work(*given)
    return time.process_time() - begun
