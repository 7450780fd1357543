"""The stages of a build, without an engine: table, widths, search, assessment, report, publication.

A stage reads the folders of earlier stages and writes its own. Its key is the digest of all that
its outputs depend on, so that a rerun takes over whatever was made with the same key.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sdc.build.needs import WORKER_BYTES, here_bytes, require_here, require_worker, sweep_bytes_allowed, worker_bytes
from sdc.config import FILES, BuildConfig, section_digest
from sdc.config_file import read_config
from sdc.events import tell
from sdc.execution.settings import cluster_of, own_memory, unit_memory, workers_of
from sdc.executor import Executor
from sdc.feasible.proof import Proof
from sdc.ingest.reading import CountedRecords, count_records, read_layouts
from sdc.ingest.source import Source, open_source
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Table
from sdc.progress import Measured
from sdc.publish.publication import check_publication, write_publication
from sdc.risk.criterion import Assessment, Budget, Criterion, judge
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.search.annealing import Schedule
from sdc.search.best import ReleaseSearch
from sdc.search.curve import CurvePoint, CurveSearch
from sdc.search.decomposable import DecomposableSearch, SearchState
from sdc.search.ordered import OrderedSearch, SearchStep
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.parquet import read_written_table, write_table
from sdc.storage.run_folder import (
    RunFolder,
    StageRecord,
    code_digest,
    digest_of,
    folder_digest,
    read_json,
    write_json,
)
from sdc.utility.ipf import Stop
from sdc.utility.measures import Utility, Weights, utility_of

Say = Callable[[str], None]

BAD_RECORDS = "bad_records.json"
MEASURED = ("status", "seconds", "driver_mib", "worker_mib")
RECONSTRUCTION_SWEEPS, RECONSTRUCTION_BYTES = 200, 256 << 20


@dataclass(frozen=True, eq=False)
class Build:
    """One config, one data, one version of the code, and the run folder that is theirs."""

    config: BuildConfig

    @cached_property
    def digests(self) -> dict[str, str]:
        """Of config, data and code. How it is executed is not part of what is built."""
        sections = set(BuildConfig.model_fields) - {"execution", "output"}
        return {
            "config": section_digest(self.config, *sorted(sections)),
            "data": self.source.digest(self.config.table.structural_zeros),
            "code": code_digest(),
        }

    @cached_property
    def folder(self) -> RunFolder:
        root = Path(self.config.output.folder)
        return RunFolder(root / self.config.name / digest_of(self.digests)[:16])

    @cached_property
    def memory(self) -> int:
        """Bytes that a worker's process may reach."""
        return unit_memory(self.config.execution)

    @cached_property
    def own_memory(self) -> int:
        """Bytes that this process may use."""
        return own_memory(self.config.execution)

    @cached_property
    def floor(self) -> int:
        return self.config.widths.floor or 0

    def here_bytes(self, table: Table) -> int:
        """What this process needs for the table; in-process it is a worker besides."""
        needed = here_bytes(table, self.config.risk.small_count, self.floor)
        return needed + (self.worker_bytes(table) - WORKER_BYTES if cluster_of(self.config.execution) is None else 0)

    def worker_bytes(self, table: Table) -> int:
        """What a worker needs that searches for feasible tables."""
        return worker_bytes(table, self.config.release.cells_per_slice)

    def require_memory(self, table: Table) -> None:
        """SdcError where the table is too much for this process, or a slice of it for a worker."""
        require_here(self.here_bytes(table), self.own_memory)
        require_worker(self.worker_bytes(table), self.memory)

    @cached_property
    def source(self) -> Source:
        """The parts as they were when first asked for: those that are counted are those that were digested."""
        return open_source(self.config.table.path)

    def check_source(self) -> None:
        """InputError where parts do not agree, or do not have what the settings name; reads no records."""
        read_layouts(self.source, self.config.table)

    def counted(self, executor: Executor) -> CountedRecords:
        """The records of the data that the config names, counted; half the memory is left to what is being read."""
        return count_records(self.source, self.config.table, executor, self.memory // 2)

    @cached_property
    def table(self) -> Table:
        return read_written_table(self.folder.stage("table"))

    @cached_property
    def widths(self) -> CriticalWidths:
        return results.read_widths(self.folder.stage("widths"))

    @cached_property
    def found(self) -> results.SearchRecord:
        return results.read_search(self.folder.stage("search"), self.table.schema)

    def weights(self, schema: Schema) -> Weights:
        """What each sub-table counts; ConfigError for a name the table does not have."""
        weights = self.config.release.weights
        try:
            return Weights.of(schema, weights.variables, weights.sub_tables)
        except InputError as error:
            raise ConfigError(f"release.weights: {error}") from error

    def start(self, schema: Schema) -> DecomposableGraph | None:
        """The graph that chains start from; ConfigError where it is not a decomposable one on the table's variables."""
        start = self.config.release.annealing.start
        try:
            return None if start is None else DecomposableGraph.parse(start, schema)
        except InputError as error:
            raise ConfigError(f"release.annealing.start = {start!r}: {error}") from error

    def check_names(self, schema: Schema) -> None:
        """ConfigError where the settings of the search do not fit the table; better before the work than after."""
        self.weights(schema)
        self.start(schema)

    def search(self, executor: Executor, say: Say, checkpoint: Callable[[SearchState], None]) -> ReleaseSearch:
        """Both searches with this build's settings."""
        settings, risk, criterion = self.config.release, self.config.risk, self.criterion(executor)
        annealing, schema = settings.annealing, self.table.schema
        ordered = OrderedSearch(
            criterion,
            self.widths,
            extend=settings.extend,
            accept_undecided=risk.undecided == "outer",
            on_step=lambda step: say_step(step, say),
        )
        schedule = Schedule(
            annealing.steps,
            annealing.start_temperature,
            annealing.end_temperature,
            annealing.schedule,
            annealing.cycles,
        )
        decomposable = DecomposableSearch(
            criterion,
            schedule,
            chains=annealing.chains,
            seed=annealing.seed,
            rounds=annealing.rounds,
            patience=annealing.patience,
            tempering=annealing.tempering,
            weights=self.weights(schema),
            start=self.start(schema),
            checkpoint=checkpoint,
        )
        return ReleaseSearch(ordered, decomposable)

    def criterion(self, executor: Executor) -> Criterion:
        risk, release = self.config.risk, self.config.release
        budget = Budget(release.seconds_per_cell, release.seconds)
        settings = release.refute_cells, executor, budget, release.cells_per_slice
        return Criterion(self.table, risk.small_count, risk.min_width, *settings)

    def certificate(self, release: Release, proof: Proof) -> Certificate:
        """The evidence about a release under this build's table and risk criterion."""
        risk = self.config.risk
        return Certificate(self.table.digest, release, risk.small_count, risk.min_width, proof)

    def may_publish(self, assessment: Assessment) -> bool:
        """Proven safe, or undecided where the config says in so many words to release that."""
        undecided_too = self.config.risk.undecided == "outer"
        return assessment.releasable is True or (undecided_too and assessment.releasable is None)

    @contextmanager
    def started(self) -> Iterator[None]:
        """Holds the run folder, makes its manifest, and tells how the run begins and ends."""
        with self.folder.locked():
            workers = workers_of(self.config.execution)
            tell("run started", pid=os.getpid(), host=socket.gethostname(), name=self.config.name, workers=workers)
            try:
                content = {"config": self.config.model_dump(mode="json"), "digests": self.digests}
                self.folder.begin(
                    {"name": self.config.name, **content}, [stage.name for stage in stages_of(self.config)]
                )
                yield
            except BaseException as error:
                ended = "refused" if isinstance(error, ReleaseError) else "failed"
                tell("run ended", str(error), outcome=ended, error=type(error).__name__)
                raise
            tell("run ended", outcome="finished")


def open_build(config: Path, data: str | Path | None = None, workers: int | None = None) -> Build:
    """The build of a config file, with the table and the number of workers replaced where given."""
    settings = read_config(config, data=data)
    if workers is not None:
        execution = settings.execution.model_copy(update={"workers": workers})
        settings = settings.model_copy(update={"execution": execution})
    return Build(settings)


@dataclass(frozen=True)
class Stage:
    """`needs` names the earlier stages and `sections` the parts of the config that its outputs depend on."""

    name: str
    does: str
    needs: tuple[str, ...]
    sections: Callable[[BuildConfig], Any]
    make: Callable[[Build, Path, Executor, Say], None]

    def key(self, build: Build, outputs: Mapping[str, str]) -> str:
        """Digest of all that its outputs depend on, given the digests of earlier stages' outputs."""
        inputs = {name: outputs[name] for name in self.needs} or build.digests["data"]
        return digest_of([self.name, code_digest(), self.sections(build.config), inputs])


def run_stage(stage: Stage, build: Build, executor: Executor, say: Say) -> StageRecord:
    """Takes the stage over from a build that made it with the same key, or makes it; notes it in the manifest."""
    folder, measured = build.folder, Measured(executor)
    key = stage.key(build, {name: record.output for name, record in folder.records().items()})

    def note(text: str) -> None:
        say(text)
        tell("note", text)

    def record(output: str, status: str) -> StageRecord:
        seconds, memory = measured.seconds, (measured.driver_mib, measured.worker_mib)
        found = StageRecord(stage.name, key, output, status, seconds, *memory)
        folder.record(found)
        return found

    with _told(stage):
        output = folder.adopt(stage.name, key)
        if output is not None:
            found = record(output, "reused")
        else:
            say(f"{stage.name}: {stage.does}")
            if "table" in stage.needs:
                build.require_memory(build.table)
            with folder.writing(stage.name) as into:
                stage.make(build, into, measured, note)
                found = record(folder_digest(into), "done")  # known before it is there: what is there is always known
    folder.checkpoint(stage.name).unlink(missing_ok=True)
    say(f"{stage.name}: {found.status} in {found.seconds:.1f} s")
    _tell_finished(found, measured.units)
    return found


def _tell_finished(record: StageRecord, units: int) -> None:
    facts = asdict(record)
    tell("stage finished", stage=record.name, units=units, **{fact: facts[fact] for fact in MEASURED})


@contextmanager
def _told(stage: Stage) -> Iterator[None]:
    """Tells of a stage that begins, and of one that fails."""
    tell("stage started", stage.does, stage=stage.name)
    try:
        yield
    except BaseException as error:
        tell("stage failed", str(error), stage=stage.name, error=type(error).__name__)
        raise


def run_all(build: Build, executor: Executor, say: Say = lambda text: None) -> list[StageRecord]:
    """The whole build in this process, without Prefect."""
    with build.started():
        return [run_stage(stage, build, executor, say) for stage in stages_of(build.config)]


def _make_table(build: Build, into: Path, executor: Executor, say: Say) -> None:
    counted = build.counted(executor)
    table = counted.table
    build.check_names(table.schema)
    non_zero = f"{len(table)} non-zero of {table.schema.cells} cells"
    say(f"table: {table.total} records, {len(table.schema)} variables, {non_zero}")
    for (variable, fault), records in counted.set_aside.items():
        say(f"table: {records} records set aside: {variable}: {fault.value}")
    write_table(table, into, parts=build.config.table.partitions)
    write_json(into / BAD_RECORDS, counted.facts)


def _make_widths(build: Build, into: Path, executor: Executor, say: Say) -> None:
    small_count, floor = build.config.risk.small_count, build.floor
    memory = sweep_bytes_allowed(build.table, build.memory)
    widths = critical_widths(build.table, small_count=small_count, floor=floor, memory=memory, executor=executor)
    say(f"widths: {len(widths)} sub-tables listed, {widths.visited} visited")
    results.write_widths(widths, build.table.schema, into)


def _make_search(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Annealing is kept round by round: a build that is killed goes on from its last whole round."""
    path, key, table = build.folder.checkpoint("search"), _key_of("search", build), build.table

    def keep(state: SearchState) -> None:
        results.write_checkpoint(state, key, path)
        say(describe_round(state))

    search = build.search(executor, say, keep)
    found = search.run(build.config.release.method, results.read_checkpoint(path, key))
    say(f"search: {found.release.sub_tables} sub-tables without the grand total")
    results.write_search(found, table.schema, into)
    results.write_utility(utility_of_release(table, found.release, build.weights(table.schema)), into)
    write_certificate(build.certificate(found.release, found.proof), table.schema, into)


def utility_of_release(table: Table, release: Release, weights: Weights) -> Utility:
    """Every measure; IPF goes no further than is cheap, for nothing rests on its accuracy."""
    stop = Stop(max_sweeps=RECONSTRUCTION_SWEEPS)
    return utility_of(table, release, weights, stop=stop, max_bytes=RECONSTRUCTION_BYTES)


def _key_of(name: str, build: Build) -> str:
    """The key of a stage whose needs are done."""
    stage = next(stage for stage in STAGES if stage.name == name)
    return stage.key(build, {name: record.output for name, record in build.folder.records().items()})


def describe_round(state: SearchState) -> str:
    """One line for the progress of the chains."""
    values = sorted((chain.best.value for chain in state.chains), reverse=True)
    agreed = f", agreed {state.agreed} rounds" if state.agreed else ""
    return f"search: annealing round {state.round}: best values {', '.join(f'{v:.12g}' for v in values[:8])}{agreed}"


def say_step(step: SearchStep, say: Say) -> None:
    """Tells a progress of a step worth a line."""
    if (line := describe_step(step)) is not None:
        say(line)


def describe_step(step: SearchStep) -> str | None:
    """One line for the progress; None for sub-tables that cannot be added, there are too many."""
    answer = {True: "releasable", False: "refuted", None: "undecided"}[step.answer]
    if step.phase == "bisection":
        return f"search: the first {step.length} of the list: {answer}"
    if not step.answer:
        return None
    return f"search: {len(step.added)} more beside {step.length} sub-tables: {answer}"


def _make_assessment(build: Build, into: Path, executor: Executor, say: Say) -> None:
    criterion, release, schema = build.criterion(executor), build.found[0], build.table.schema
    criterion.learn(read_certificate(build.folder.stage("search"), schema).proof, release)
    bounds, proof = criterion.proven(release)
    assessment = judge(bounds, build.config.risk.min_width)
    low, high = assessment.min_width
    say(f"assessment: min width {low} to {high}, {assessment.undecided_cells} cells undecided")
    results.write_assessment(assessment, bounds, schema, into)
    write_certificate(build.certificate(release, proof), schema, into)


def _make_curve(build: Build, into: Path, executor: Executor, say: Say) -> None:
    settings = build.config.curve
    if settings is None:
        raise ConfigError("curve is missing; give the section with a min_width at least")
    curve = CurveSearch(
        build.search(executor, lambda text: None, lambda state: None),
        settings.min_width,
        settings.small_count or (build.config.risk.small_count,),
        settings.methods,
        on_point=lambda point: say(describe_point(point)),
    )
    results.write_curve(curve.run(), into)


def describe_point(point: CurvePoint) -> str:
    """One line for the progress of the curve."""
    criterion = f"small count {point.small_count}, min width {point.min_width_required}"
    return f"curve: {point.method}, {criterion}: {point.sub_tables} sub-tables"


def _make_report(build: Build, into: Path, executor: Executor, say: Say) -> None:
    from sdc.report.audit import Audit, StageTiming, render

    config, found, records = build.config, build.found, build.folder.records().values()
    assessment, bounds = _assessed(build)
    settings = config.model_dump(mode="json", exclude={"name", "execution", "output"})
    audit = Audit(
        name=config.name,
        digests=build.digests,
        settings={name: section for name, section in settings.items() if section is not None},
        table=build.table,
        small_count=config.risk.small_count,
        min_width=config.risk.min_width,
        undecided_policy=config.risk.undecided,
        method=config.release.method,
        widths=build.widths,
        release=found.release,
        search_steps=found.steps,
        assessment=assessment,
        bounds=bounds,
        stages=[StageTiming(r.name, r.status, r.seconds) for r in records if r.name in _BEFORE_REPORT],
        graph=found.graph,
        trace=found.trace,
        best_reason=found.reason,
        utility=results.read_utility(build.folder.stage("search")),
        curve=results.read_curve(build.folder.stage("curve")) if config.curve else (),
        bad_records=read_json(build.folder.stage("table") / BAD_RECORDS),
    )
    (into / "report.html").write_text(render(audit), encoding="utf-8")


def _assessed(build: Build) -> tuple[Assessment, Any]:
    folder = build.folder.stage("assessment")
    return results.read_assessment(folder, build.table, build.config.risk.small_count)


def _make_release(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Writes the files, reads them back, and assesses the release they make public once more."""
    release, assessment = build.found[0], _assessed(build)[0]
    if not build.may_publish(assessment):
        raise ReleaseError(_refusal(assessment, build.folder.stage("confidential") / "report.html"))
    write_publication(build.table, release, build.config.name, into)
    published = check_publication(build.table, into)
    criterion = build.criterion(executor)
    criterion.learn(read_certificate(build.folder.stage("assessment"), build.table.schema).proof, published)
    inner = criterion.supported(published)
    narrowest = int((inner[:, 1] - inner[:, 0]).min())
    if published != release or narrowest != assessment.min_width[0]:
        raise ReleaseError(
            f"the files that would be published prove a min width of {narrowest}, the assessment says "
            f"{assessment.min_width[0]}; nothing is released"
        )


def _refusal(assessment: Assessment, report: Path) -> str:
    why = "refuted" if assessment.releasable is False else f"{assessment.undecided_cells} cells are undecided"
    return (
        f"the release found is not proven safe ({why}, min width between {assessment.min_width[0]} and "
        f"{assessment.min_width[1]}, required {assessment.min_width_required}); nothing is published, see {report}"
    )


_BEFORE_REPORT = ("table", "widths", "search", "assessment", "curve")


def _search_settings(config: BuildConfig) -> dict[str, Any]:
    """What the search depends on: the ordered one not on annealing."""
    unused = {"annealing"} if config.release.method == "ordered" else set()
    return config.release.model_dump(mode="json", exclude=unused)


STAGES = (
    Stage("table", "counts the records", (), lambda c: c.table.model_dump(mode="json", exclude=FILES), _make_table),
    Stage(
        "widths",
        "critical widths of the sub-tables",
        ("table",),
        lambda c: [c.risk.small_count, c.widths.floor],
        _make_widths,
    ),
    Stage(
        "search",
        "finds a release",
        ("table", "widths"),
        lambda c: [c.risk.model_dump(mode="json"), _search_settings(c)],
        _make_search,
    ),
    Stage(
        "assessment",
        "bounds every at-risk cell under the release",
        ("table", "search"),
        lambda c: [
            c.risk.model_dump(mode="json"),
            c.release.refute_cells,
            c.release.seconds_per_cell,
            c.release.seconds,
            c.release.cells_per_slice,
        ],
        _make_assessment,
    ),
    Stage(
        "confidential",
        "writes the audit report",
        ("table", "widths", "search", "assessment"),
        lambda c: c.model_dump(mode="json", exclude={"table": FILES, "execution": True, "output": True}),
        _make_report,
    ),
    Stage(
        "release",
        "publishes, checking the files once more",
        ("table", "search", "assessment"),
        lambda c: [c.name, c.risk.model_dump(mode="json"), c.release.refute_cells],
        _make_release,
    ),
)

CURVE = Stage(
    "curve",
    "finds the releases of other risk criteria",
    ("table", "widths"),
    lambda c: [c.curve and c.curve.model_dump(mode="json"), c.risk.model_dump(mode="json"), c.release.model_dump()],
    _make_curve,
)


def stages_of(config: BuildConfig) -> tuple[Stage, ...]:
    """The stages of a build in order; a curve, where the config has one, comes before the report, which shows it."""
    if config.curve is None:
        return STAGES
    report = next(i for i, stage in enumerate(STAGES) if stage.name == "confidential")
    shows = replace(STAGES[report], needs=(*STAGES[report].needs, CURVE.name))
    return (*STAGES[:report], CURVE, shows, *STAGES[report + 1 :])


SWEEP = STAGES[:2]
