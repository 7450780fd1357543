"""The stages of a build, without an engine: table, widths, search, assessment, report, publication.

A stage reads the folders of earlier stages and writes its own. Its key is the digest of all that
its outputs depend on, so that a rerun takes over whatever was made with the same key.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from sdc.config import FILES, BuildConfig, read_config, section_digest
from sdc.executor import Executor
from sdc.model.errors import ConfigError, ReleaseError
from sdc.model.proof import Proof
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.criterion import Assessment, Budget, Criterion, judge
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.search.ordered import OrderedSearch, SearchStep
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.parquet import read_written_table, write_table
from sdc.storage.publication import check_publication, write_publication
from sdc.storage.reading import read_table, source_digest
from sdc.storage.run_folder import RunFolder, StageRecord, digest_of, folder_digest

Say = Callable[[str], None]


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 over this package's source files: other code, other results."""
    root = Path(__file__).parent
    sha = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in {".py", ".j2"}):
        sha.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


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
            "data": source_digest(self.config.table.path, self.config.table.structural_zeros),
            "code": code_digest(),
        }

    @cached_property
    def folder(self) -> RunFolder:
        root = Path(self.config.output.folder)
        return RunFolder(root / self.config.name / digest_of(self.digests)[:16])

    def read_source(self) -> Table:
        """The table counted from the data that the config names."""
        settings = self.config.table
        return read_table(
            settings.path,
            variables=settings.variables,
            categories=settings.categories,
            missing=settings.missing,
            max_categories=settings.max_categories,
            structural_zeros=settings.structural_zeros,
        )

    @cached_property
    def table(self) -> Table:
        return read_written_table(self.folder.stage("table"))

    @cached_property
    def widths(self) -> CriticalWidths:
        return results.read_widths(self.folder.stage("widths"))

    @cached_property
    def found(self) -> tuple[Release, tuple[SearchStep, ...]]:
        return results.read_search(self.folder.stage("search"), self.table.schema)

    def criterion(self, executor: Executor) -> Criterion:
        risk, release = self.config.risk, self.config.release
        budget = Budget(release.seconds_per_cell, release.seconds)
        return Criterion(self.table, risk.small_count, risk.min_width, release.refute_cells, executor, budget)

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
        """Holds the run folder and makes its manifest."""
        with self.folder.locked():
            content = {"config": self.config.model_dump(mode="json"), "digests": self.digests}
            self.folder.begin({"name": self.config.name, **content}, [stage.name for stage in STAGES])
            yield


def open_build(config: Path, data: Path | None = None, workers: int | None = None) -> Build:
    """The build of a config file, with the table and the number of workers replaced where given."""
    settings = read_config(config, data=data)
    require_built(settings.release.method)
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
    begun = time.perf_counter()
    folder = build.folder
    key = stage.key(build, {name: record.output for name, record in folder.records().items()})
    output, status = folder.adopt(stage.name, key), "reused"
    if output is None:
        status = "done"
        say(f"{stage.name}: {stage.does}")
        with folder.writing(stage.name) as into:
            stage.make(build, into, executor, say)
        output = folder_digest(folder.stage(stage.name))
    record = StageRecord(stage.name, key, output, status, round(time.perf_counter() - begun, 3))
    folder.record(record)
    say(f"{stage.name}: {status} in {record.seconds:.1f} s")
    return record


def run_all(build: Build, executor: Executor, say: Say = lambda text: None) -> list[StageRecord]:
    """The whole build in this process, without Prefect."""
    with build.started():
        return [run_stage(stage, build, executor, say) for stage in STAGES]


def _make_table(build: Build, into: Path, executor: Executor, say: Say) -> None:
    table = build.read_source()
    non_zero = f"{len(table)} non-zero of {table.schema.cells} cells"
    say(f"table: {table.total} records, {len(table.schema)} variables, {non_zero}")
    write_table(table, into, parts=build.config.table.partitions)


def _make_widths(build: Build, into: Path, executor: Executor, say: Say) -> None:
    small_count, floor = build.config.risk.small_count, build.config.widths.floor or 0
    widths = critical_widths(build.table, small_count=small_count, floor=floor, executor=executor)
    say(f"widths: {len(widths)} sub-tables listed, {widths.visited} visited")
    results.write_widths(widths, build.table.schema, into)


def _make_search(build: Build, into: Path, executor: Executor, say: Say) -> None:
    settings, criterion = build.config.release, build.criterion(executor)
    require_built(settings.method)
    found = OrderedSearch(
        criterion,
        build.widths,
        extend=settings.extend,
        accept_undecided=build.config.risk.undecided == "outer",
        on_step=lambda step: say_step(step, say),
    ).run()
    say(f"search: {found.release.sub_tables} sub-tables without the grand total")
    results.write_search(found, settings.method, build.table.schema, into)
    write_certificate(build.certificate(found.release, found.proof), build.table.schema, into)


def require_built(method: str) -> None:
    """ConfigError for a method that this version does not have."""
    if method != "ordered":
        raise ConfigError(f"release method {method!r} is not built yet; use 'ordered'")


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


def _make_report(build: Build, into: Path, executor: Executor, say: Say) -> None:
    from sdc.report.audit import Audit, StageTiming, render

    config = build.config
    (release, steps), records = build.found, build.folder.records().values()
    assessment, bounds = _assessed(build)
    audit = Audit(
        name=config.name,
        digests=build.digests,
        settings=config.model_dump(mode="json", exclude={"name", "execution", "output"}),
        table=build.table,
        small_count=config.risk.small_count,
        min_width=config.risk.min_width,
        undecided_policy=config.risk.undecided,
        method=config.release.method,
        widths=build.widths,
        release=release,
        search_steps=steps,
        assessment=assessment,
        bounds=bounds,
        stages=[StageTiming(r.name, r.status, r.seconds) for r in records if r.name in _BEFORE_REPORT],
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


_BEFORE_REPORT = ("table", "widths", "search", "assessment")

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
        lambda c: [c.risk.model_dump(mode="json"), c.release.model_dump(mode="json")],
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

SWEEP = STAGES[:2]
