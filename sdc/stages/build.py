"""One build: its config, data and run folder, and the results of its stages."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from sdc.canonical import digest_of
from sdc.checkpoint import Checkpoint
from sdc.config.build import BuildConfig, section_digest
from sdc.config.file import Settings, joined, read_config
from sdc.config.values import Section, in_folder
from sdc.data.reading import CountedRecords, count_records, read_schema
from sdc.data.source import Source, open_source
from sdc.events import emit
from sdc.execution.cluster import unit_memory, workers_of
from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.losses import Losses
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, ReleaseError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.progress import MeasuringExecutor
from sdc.public.earlier import (
    Provenance,
    Publications,
    Relations,
    listed_codes,
    read_folders,
    read_provenance,
    read_publications,
    relation_digest,
    require_keys_apart,
    with_earlier,
)
from sdc.public.incomplete import count_missing
from sdc.public.published import Published
from sdc.publish.gate import GateSubject
from sdc.refusal import TRY_AGAIN, status_of
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria
from sdc.risk.criterion import of_config
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.refutation import Refutation
from sdc.risk.verdict import Policy
from sdc.run_format import ASSESSMENT, MANIFEST, RELEASE, SEARCH, TABLE, WIDTHS
from sdc.stages.assemble import Listing, SearchSettings, edition_before
from sdc.stages.needs import Needs, counting_memory
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate, read_weights
from sdc.storage.known import read_known
from sdc.storage.parquet import read_written_table
from sdc.storage.proofs import SavedProofs, proofs_folder, read_proofs, read_refutations
from sdc.storage.run_folder import Manifest, RunFolder, code_digest
from sdc.storage.runs import last_finished

Made = TypeVar("Made")
Given = TypeVar("Given", bound=Section)


Say = Callable[[str], None]
Step = Callable[..., Any]
"""Runs a part of a build from its name, the part and its inputs; returns the part's result."""


def directly(name: str, part: Callable[[], Made], before: Sequence[Any] = ()) -> Made:
    """Run the part without a task."""
    return part()


@dataclass(frozen=True, eq=False)
class StageOutputs:
    """The results of a build's stages, each read on first use and cached."""

    folder: RunFolder
    config: BuildConfig

    @cached_property
    def table(self) -> Table:
        return read_written_table(self.folder.stage(TABLE))

    @cached_property
    def known(self) -> Knowledge:
        """Public facts before the release: earlier publications and structural zeros."""
        listed = listed_codes(self.config.table.code_lists, self.table.schema)
        return read_known(self.folder.stage(TABLE), self.table, listed)

    @cached_property
    def beside(self) -> Knowledge:
        """`known` with the suppressed and rounded tables of this release."""
        return self.known.plus_facts(self.found.suppressed_tables.facts)

    @property
    def public(self) -> Knowledge:
        """`beside` with the release."""
        return self.beside.plus(self.found.release)

    @cached_property
    def weights(self) -> RecordWeights:
        return read_weights(self.folder.stage(TABLE), self.table)

    @cached_property
    def widths(self) -> CriticalWidths:
        return results.read_widths(self.folder.stage(WIDTHS))

    @cached_property
    def found(self) -> results.SearchRecord:
        return results.read_search(self.folder.stage(SEARCH), self.table.schema)

    @cached_property
    def refutations(self) -> Mapping[str, Refutation]:
        """The proofs of the search's refusals, by name."""
        return read_refutations(self.folder.stage(SEARCH), self.table)

    def certificate(self, stage: str) -> Certificate:
        """Read the evidence of the search or the assessment; not cached, because it may be large."""
        return read_certificate(self.folder.stage(stage), self.table.schema)

    def assessed(self, small_count: int) -> tuple[Assessment, CellBounds]:
        """Read the assessment and the bounds of the at-risk cells; not cached."""
        return results.read_assessment(self.folder.stage(ASSESSMENT), self.table, small_count)


@dataclass(frozen=True, eq=False)
class Build:
    """One config, its data and their run folder.

    again  0, or the number of a repeated build of the same config and data
    """

    config: BuildConfig
    given: Provenance | None = None
    again: int = 0

    @staticmethod
    def of_run(path: Path) -> Build:
        """Return the build of a run folder; RunFolderError if its config is of another version."""
        folder = RunFolder(path)
        try:
            build = Build(BuildConfig.model_validate(folder.manifest().config))
        except ValidationError as error:
            what = f"{path}/{MANIFEST} has no config of this version"
            raise RunFolderError(f"{what}; make it again with sdc run") from error
        vars(build)["folder"] = folder  # otherwise named by digests of the data
        return build

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests of config and data, which identify the build; and of the code, for documents.

        `execution`, `output` and `server` do not count. The data are all contents that the config names: records,
        structural zeros, earlier publications, and the pattern of `like`.
        """
        return {
            "config": self._config_digest,
            "data": digest_of([self._records_digest, self.publications.digest, *(one.digest for one in self.like)]),
            "code": code_digest(),
        }

    @cached_property
    def seconds_before(self) -> dict[str, float]:
        """The seconds of each stage that the last finished run of the name computed."""
        last = last_finished(self.folder.path.parent)
        records = () if last is None else last.records().values()
        return {record.name: record.seconds for record in records if record.status == "done"}

    @cached_property
    def _config_digest(self) -> str:
        # exclude sections instead of listing them: a new section changes the digest
        counted = sorted(set(BuildConfig.model_fields) - {"execution", "output", "server"})
        own = section_digest(self.config, *counted, defaults=False)
        return digest_of([own, self.again]) if self.again else own

    @cached_property
    def _records_digest(self) -> str:
        return self.source.digest(self.config.table.structural_zeros)

    @cached_property
    def base(self) -> str:
        """Digest of config and data without the ledger; the ledger recognises the build by it."""
        named = [relation_digest(*one) for one in self._folders]
        return digest_of([self._config_digest, self._records_digest, named, [one.digest for one in self.like]])

    @cached_property
    def _folders(self) -> Relations:
        return read_folders(self.config)

    @cached_property
    def publications(self) -> Publications:
        """The earlier publications of the config and its ledger."""
        return read_publications(self.config, self._folders, self.base)

    @property
    def origin(self) -> Provenance:
        """The provenance of the table's knowledge, given or noted by its stage; empty before there is a table.

        RunFolderError if the stage has noted nothing.
        """
        folder = self.folder.stage(TABLE)
        if self.given is not None or not folder.is_dir():
            return self.given or Provenance()
        return read_provenance(folder)

    @property
    def hidden(self) -> SubTable:
        """Levels of the table that are judged but not published."""
        found = self.made.found
        return self.origin.hides(self.made.table.schema, found.release, found.suppressed_required)

    @property
    def coarsened(self) -> dict[SubTable, SubTable]:
        """The recoded form of each sub-table that was recoded."""
        found = self.made.found
        return self.origin.coarsened(found.suppressed_required, found.release, self.made.table.schema)

    @cached_property
    def folder(self) -> RunFolder:
        root = Path(self.config.output.folder)
        # 64 bits of the digest: readable, and collisions are unlikely
        known_by = {name: self.digests[name] for name in ("config", "data")}
        return RunFolder(root / self.config.name / digest_of(known_by)[:16])

    @cached_property
    def made(self) -> StageOutputs:
        return StageOutputs(self.folder, self.config)

    @cached_property
    def needs(self) -> Needs:
        """Memory that the build may use, and needs for a table."""
        return Needs(self.config, self.listing.floor)

    @cached_property
    def schema(self) -> Schema:
        """The variables as known before records are read, see `read_schema`."""
        return read_schema(self.source, self.config.table)

    @cached_property
    def listing(self) -> Listing:
        """Which critical widths to list; needs the columns but no records."""
        return Listing.of(self.config.widths, len(self.schema), self.config.least_width)

    @cached_property
    def source(self) -> Source:
        """The parts of the data, fixed at first use: the digested parts are the counted ones."""
        return open_source(self.config.table.path, self.config.table.expect, self.config.table.ignore)

    @property
    def counting_memory(self) -> int:
        return counting_memory(unit_memory(self.config.execution))

    def counted(self, executor: Executor) -> CountedRecords:
        """Count the records of the config's data."""
        if self.config.table.missing_counts:
            return count_missing(self.source, self.config.table)
        return count_records(self.source, self.config.table, executor, self.counting_memory)

    def known_of(self, counted: CountedRecords) -> Knowledge:
        """Return the knowledge about the records without earlier publications."""
        listed = listed_codes(self.config.table.code_lists, counted.table.schema)
        return Knowledge.of(counted.table, NOTHING, counted.zeros, (), listed)

    def with_earlier(self, counted: CountedRecords) -> tuple[Table, Knowledge, Provenance]:
        """Return the table with the levels of earlier publications, its knowledge and their provenance.

        InputError as `require_keys_apart` and `with_earlier`.
        """
        require_keys_apart(self.publications, self.source, self.config.table.csv)
        lists, risk = self.config.table.code_lists, self.config.risk.model_dump(mode="json")
        return with_earlier(counted.table, counted.zeros, self.publications, lists, risk)

    @cached_property
    def like(self) -> tuple[Published, ...]:
        """Suppressed sub-tables of an earlier edition; errors as `edition_before`."""
        return edition_before(self.config.release.previous_pattern)

    @property
    def is_released(self) -> bool:
        """Whether a release/ or a ledger entry exists; such a build is never searched again."""
        return self.publications.own is not None or self.folder.stage(RELEASE).exists()

    def require_result(self) -> None:
        """Raise RunFolderError if the build is published but its search result is gone."""
        self.folder.manifest()  # an error in the manifest comes first
        if not self.is_released or self.folder.whole(SEARCH) is not None:
            return
        entry, path = self.publications.own, self.folder.stage(SEARCH)
        where = f"{self.folder.stage(RELEASE)} is there" if entry is None else entry.called
        raise RunFolderError(
            f"this build was published: {where}. The result of its search is missing or changed in {path}, and another "
            "search could end elsewhere. Restore that folder and run again, or make a new build with sdc run --again, "
            "which is judged together with the whole ledger"
        )

    def anew(self) -> Build:
        """Return the next repeated build of the same config and data that is not published yet."""
        for number in count(1):
            build = replace(self, again=number)
            # they read the same data
            read = ("source", "_records_digest", "_folders", "like")
            vars(build).update({name: getattr(self, name) for name in read})
            is_there = build.folder.stage(RELEASE).exists()
            if not build.is_released or (not is_there and build.folder.whole(SEARCH) is not None):
                return build
        raise AssertionError

    @property
    def head(self) -> str | None:
        """Head of the ledger's chain at the time of judging; None without a ledger."""
        ledger = self.publications.ledger
        return None if ledger is None else ledger.head

    @property
    def criteria(self) -> Criteria:
        risk = self.config.risk
        return Criteria.of(risk.small_count, risk.min_width, *of_config(risk))

    @property
    def losses(self) -> Losses | None:
        """The losses of the report, or of the limit; None without any."""
        of_report, of_limit = self.config.posterior, self.config.risk.posterior
        section = (of_report and of_report.losses) or (of_limit and of_limit.losses)
        return Losses.of(section.model_dump()) if section else None

    @property
    def policy(self) -> Policy:
        return Policy.OUTER if self.config.risk.accept_undecided else Policy.REFUSE

    @property
    def gate_input(self) -> GateSubject:
        """What the gate decides about."""
        return GateSubject(self.made.table.digest, self.criteria, self.policy)

    def settings(self, executor: Executor = IN_PROCESS, origin: Provenance | None = None) -> SearchSettings:
        """Return the settings of the searches.

        origin  provenance of the knowledge, instead of the noted one
        """
        origin = self.origin if origin is None else origin
        shared = self.criteria, self.policy, self.listing, self.config.release, executor, origin, self.like
        return SearchSettings(*shared, partial(self.proofs, origin))

    def proofs(self, origin: Provenance) -> SavedProofs | None:
        """Return the proofs of the ledger's entries about this table; None if there are none."""
        ledger = self.publications.ledger
        own = [] if ledger is None else [e for e in reversed(ledger.entries) if e.table == ledger.keyed(origin.table)]
        if ledger is None or not own:
            return None
        risk, entries = self.config.risk, [(entry.number, entry.proof) for entry in own]
        return read_proofs(proofs_folder(ledger.path), entries, risk.small_count, risk.min_width)

    @contextmanager
    def started(self, stages: Sequence[str]) -> Iterator[None]:
        """Lock the run folder, write its manifest and log the start and end of the run."""
        with self.folder.locked():
            workers = workers_of(self.config.execution)
            emit("run started", pid=os.getpid(), host=socket.gethostname(), name=self.config.name, workers=workers)
            try:
                # the manifest comes first, so that a killed run can be identified
                config = self.config.recorded()
                self.folder.begin(Manifest(self.config.name, config, self.digests, self.head, tuple(stages)))
                yield
            except BaseException as error:
                emit("run ended", str(error), outcome=_outcome(error), error=type(error).__name__)
                raise
            emit("run ended", outcome="finished")


@dataclass(frozen=True, eq=False)
class Work:
    """A stage in progress.

    key       digest of all that its outputs depend on
    executor  measures its cost
    step      runs its parts
    """

    build: Build
    stage: str
    key: str
    executor: MeasuringExecutor
    show: Say
    step: Step = directly

    def say(self, text: str) -> None:
        """Print a line and log it."""
        self.show(text)
        emit("note", text)

    def checkpoint(self) -> Checkpoint:
        """Open the stage's checkpoint."""
        return Checkpoint.open(self.build.folder.parts(self.stage), self.key, self.say)


def open_build(
    config: Path,
    data: str | Path | None = None,
    workers: int | None = None,
    again: bool = False,
    settings: Settings | None = None,
) -> Build:
    """Open the build of a config file, with another table, number of workers or settings; errors as `read_config`.

    again  make a new build of a published config, see `Build.anew`
    """
    named: dict[str, Any] = {} if data is None else {"table.path": in_folder(str(data), Path.cwd())}
    named |= {} if workers is None else {"execution.workers": workers}
    build = Build(read_config(config, joined(settings or {}, named)))
    return build.anew() if again else build


def _outcome(error: BaseException) -> str:
    """A refusal would repeat on a rerun; a failure is an error of the program or machine; otherwise a signal."""
    if isinstance(error, ReleaseError | InputError | ConfigError) and status_of(error) != TRY_AGAIN:
        return "refused"
    return "failed" if isinstance(error, Exception) else "killed"


# Sections of the config


def given(section: Given | None, name: str) -> Given:
    """Return the section of a stage; ConfigError if the config does not have it."""
    if section is None:
        raise ConfigError(f"{name} is missing; add the section, or omit its stage")
    return section


def plain(section: Section | None) -> dict[str, Any] | None:
    """Return a section as JSON values for a key."""
    return None if section is None else section.recorded()


def effort_settings(config: BuildConfig) -> dict[str, Any]:
    """Return the settings of an evaluation's cost."""
    names = {"refute_cells", "seconds_per_cell", "seconds", "cells_per_slice"}
    return config.release.recorded(include=names)
