"""What a server needs before it listens: the table, what is public first, and what shows that this is safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sdc.bounds.method import is_small
from sdc.canonical import digest_of
from sdc.config.build import BuildConfig, section_digest
from sdc.config.capabilities import refusals
from sdc.config.features import BEFORE, WEIGHT
from sdc.config.server import ONE_WAY, TOTAL, ServerConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import State, Status
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Effort
from sdc.run_format import MANIFEST, SEARCH_FILE, STRUCTURAL_ZEROS
from sdc.server.service.history import levels_of
from sdc.server.service.judge import Judge, one_way, surveyed
from sdc.server.service.rules import rules_of
from sdc.server.service.workers import Bench
from sdc.stages.build import Build
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.known import read_known, write_known
from sdc.storage.parquet import read_written_table, write_table
from sdc.storage.results import read_search
from sdc.storage.run_folder import RunFolder, read_json, write_json

FOLDER, TABLE, FIRST, EVIDENCE = "server", "table", "first", "evidence"
STATE = "state.json"
FORMAT = 2


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a server begins with.

    first  R(0), and what is known to be unreleasable with it; about  what makes a history that of this table
    """

    folder: RunFolder
    table: Table
    first: State
    bench: Bench
    about: dict[str, Any]


def server_of(build: Build) -> ServerConfig:
    """The settings of the server, by default without a section; ConfigError where the build's make no server."""
    build.config.require("server")
    server = build.config.server or ServerConfig()
    path = Path(server.start, MANIFEST)
    if server.start not in (ONE_WAY, TOTAL) and path.is_file():
        # more may be public of a run than its release, which a server would not know
        asked = BuildConfig.model_validate(read_json(path)["config"]).asked
        if said := "; ".join(refusals(["server", *(name for name in (*BEFORE, WEIGHT) if name in asked)])):
            raise ConfigError(f"server.start = {server.start!r}: {said}")
    return server


def folder_of(build: Build) -> RunFolder:
    """Where the server of a config keeps what it has; it stays where code and settings change."""
    return RunFolder(server_folder(build.config))


def server_folder(config: BuildConfig) -> Path:
    return Path(config.output.folder) / config.name / FOLDER


def key_of(build: Build) -> str:
    """What it is prepared from: data, table, criterion and first release."""
    start = server_of(build).start
    sections = section_digest(build.config, "table", "risk")
    return digest_of({"format": FORMAT, "data": build.digests["data"], "sections": sections, "start": start})


def is_prepared(build: Build) -> bool:
    """Whether nothing is left to be done before a server can listen."""
    path = folder_of(build).stage(FIRST) / STATE
    if not path.exists() or (facts := read_json(path)).get("key") != key_of(build):
        return False
    # the folder is named by its place, where another run may be by now
    start = server_of(build).start
    begun = RunFolder(Path(start)).stage("search") / SEARCH_FILE
    if start in (ONE_WAY, TOTAL) or not begun.is_file():
        return True
    return _listed(read_json(begun)["frontier"]) == _listed(facts["released"])


def _listed(named: list[list[str]]) -> set[frozenset[str]]:
    return {frozenset(names) for names in named} - {frozenset()}


def prepare(build: Build, executor: Executor = IN_PROCESS, say: Callable[[str], None] = lambda text: None) -> None:
    """Prepares what is not yet, from the build's table and critical widths.

    The evidence of what is public by now is left as it is. NothingReleasableError where the first release is not
    proven safe.
    """
    server, made, folder = server_of(build), build.made, folder_of(build)
    table, known = made.table, made.known
    released, proof = first_release(server.start, table, known)
    judge = Judge(table, known, build.criteria, build.settings(executor).effort)
    if proof is not None:
        judge.learn(proof, State.first(table.schema, released))
    judge.require_safe(released, build.config.release.seconds)
    state = State.first(table.schema, released)
    state = surveyed(judge, state) if judge.is_exact else state.knowing(judge.first_unreleasable(released, made.widths))
    public = released.sub_tables(table.schema)
    say(f"public first: {public} sub-tables; unreleasable: what contains one of {len(state.unreleasable)}")
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder.alone():
        with folder.writing(TABLE) as into:
            write_table(table, into)
            write_known(known, into)
        if not is_small(table.schema):
            keep_evidence(folder, table, known, build.criteria, state, judge.support(state))
        still_open = (t for t in made.widths.sub_tables[::-1].tolist() if state.status(t) is Status.OPEN)
        lists = {"released": state.released.frontier, "unreleasable": state.unreleasable, "open": still_open}
        named = {name: [st.names(t, table.schema) for t in found] for name, found in lists.items()}
        with folder.writing(FIRST) as into:
            write_json(into / STATE, {"key": key_of(build), "table": table.digest, **named})


def first_release(start: str, table: Table, known: Knowledge) -> tuple[Release, Proof | None]:
    """R(0) by `server.start`, with what shows it to be safe where a run did; ConfigError where there is none."""
    if start == TOTAL:
        return Release.of([]), None
    if start == ONE_WAY:
        return one_way(table.schema), None
    folder = RunFolder(Path(start))
    if not (folder.path / "release").is_dir():
        raise ConfigError(f"server.start = {start!r}: write {ONE_WAY!r}, {TOTAL!r} or the folder of a finished run")
    certificate = read_certificate(folder.stage("assessment"), table.schema)
    if (certificate.table_digest, certificate.known) != (table.digest, known):
        raise ConfigError(
            f"server.start = {start!r} is the release of another table, or of one with other structural zeros or other "
            "facts; name a run of this one"
        )
    if suppressed := certificate.suppressed_tables.labels(table.schema):
        raise ConfigError(
            f"server.start = {start!r}: its {suppressed[0]} has suppressed or rounded cells, and a server begins with "
            "whole sub-tables; name a run without release.protect, or start with less"
        )
    return read_search(folder.stage("search"), table.schema).release, certificate.proof


def keep_evidence(
    folder: RunFolder, table: Table, known: Knowledge, criteria: Criteria, state: State, proof: Proof
) -> None:
    """Writes what shows all that is public to be safe, in place of what was there; a next start begins with it."""
    small_count, min_width = criteria.small_count, criteria.width.min_width
    certificate = Certificate(
        table.digest, known, state.released, small_count, min_width, proof, state.suppressed_tables
    )
    with folder.writing(EVIDENCE) as into:
        write_certificate(certificate, table.schema, into)


def prepared(build: Build) -> Prepared:
    """What `prepare` made; RunFolderError where it is not there, or of other settings."""
    server, folder = server_of(build), folder_of(build)
    if not is_prepared(build):
        raise RunFolderError(f"{folder.path} is not prepared for this config and these data; run sdc serve --prepare")
    table, facts = read_written_table(folder.stage(TABLE)), read_json(folder.stage(FIRST) / STATE)
    schema, settings = table.schema, build.settings()
    known = read_known(folder.stage(TABLE), table)
    first = State.first(schema, Release.of(_of(facts["released"], schema)))
    bench = Bench(
        folder.stage(TABLE),
        known,
        build.criteria,
        Effort(refute_cells=settings.effort.refute_cells, cells_per_slice=settings.effort.cells_per_slice),
        rules_of(server.rules),
        settings.weights(schema),
        server.seconds,
        server.job_seconds,
        tuple(_of(facts["open"], schema)),
        _evidence(folder, table, known),
        build.config.execution,
    )
    zeros = {STRUCTURAL_ZEROS: known.zeros.labels(schema)} if known.zeros else {}
    about = {
        "table": table.digest,
        "criterion": build.criteria.facts,
        "variables": list(schema.names),
        **levels_of(schema),
        **zeros,
    }
    return Prepared(folder, table, first.knowing(_of(facts["unreleasable"], schema)), bench, about)


def _evidence(folder: RunFolder, table: Table, known: Knowledge) -> tuple[Proof, State] | None:
    """What was kept last, where it can be read: without it more has to be found again, and nothing is less safe."""
    try:
        certificate = read_certificate(folder.stage(EVIDENCE), table.schema)
    except RunFolderError:
        return None
    is_own = (certificate.table_digest, certificate.known) == (table.digest, known)
    public = replace(State.first(table.schema, certificate.asked), suppressed_tables=certificate.suppressed_tables)
    return (certificate.proof, public) if is_own else None


def _of(named: list[list[str]], schema: Schema) -> list[int]:
    return [st.named(names, schema) for names in named]
