"""One build: its config, its data and its run folder, and what they come to."""

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
from sdc.events import tell
from sdc.execution.settings import unit_memory, workers_of
from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.limit import PosteriorLimit
from sdc.intruder.losses import Losses
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, ReleaseError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.progress import Measured
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
from sdc.public.published import Published
from sdc.publish.gate import GateSubject
from sdc.refusal import TRY_AGAIN, status_of
from sdc.risk.assessment import Assessment
from sdc.risk.attributes import Attributes
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.refutation import Refutation
from sdc.risk.verdict import Policy
from sdc.run_format import ASSESSMENT, MANIFEST, RELEASE, SEARCH, TABLE, WIDTHS
from sdc.stages.assemble import Listing, SearchSettings, edition_before
from sdc.stages.needs import Needs, counting_memory
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate
from sdc.storage.known import read_known
from sdc.storage.parquet import read_written_table
from sdc.storage.proofs import KeptProofs, proofs_folder, read_proofs, read_refutations
from sdc.storage.run_folder import Manifest, RunFolder, code_digest
from sdc.storage.weighted import read_weights

Made = TypeVar("Made")
Given = TypeVar("Given", bound=Section)


Say = Callable[[str], None]
Step = Callable[..., Any]
"""Runs a part of a build given its name, the part itself and what it takes; gives what that gives."""


def directly(name: str, part: Callable[[], Made], before: Sequence[Any] = ()) -> Made:
    """The step that is nothing but its part."""
    return part()


@dataclass(frozen=True, eq=False)
class Outputs:
    """What the stages of a build have made: each is read when it is first asked for, and kept."""

    folder: RunFolder
    config: BuildConfig

    @cached_property
    def table(self) -> Table:
        return read_written_table(self.folder.stage(TABLE))

    @cached_property
    def known(self) -> Knowledge:
        """What is known of the table before anything is released: what was published, and which cells cannot be."""
        listed = listed_codes(self.config.table.code_lists, self.table.schema)
        return read_known(self.folder.stage(TABLE), self.table, listed)

    @cached_property
    def beside(self) -> Knowledge:
        """That, and what goes out in part: beside it the release was found."""
        return self.known.plus_facts(self.found.suppressed_tables.facts)

    @property
    def public(self) -> Knowledge:
        """That with the release."""
        return self.beside.plus(self.found.release)

    @cached_property
    def weights(self) -> RecordWeights:
        """Of the table's cells."""
        return read_weights(self.folder.stage(TABLE), self.table)

    @cached_property
    def widths(self) -> CriticalWidths:
        return results.read_widths(self.folder.stage(WIDTHS))

    @cached_property
    def found(self) -> results.SearchRecord:
        return results.read_search(self.folder.stage(SEARCH), self.table.schema)

    @cached_property
    def refutations(self) -> Mapping[str, Refutation]:
        """What proves refusals of the search, by name."""
        return read_refutations(self.folder.stage(SEARCH), self.table)

    def certificate(self, stage: str) -> Certificate:
        """What the search or the assessment shows about the release; not kept, for it may be large."""
        return read_certificate(self.folder.stage(stage), self.table.schema)

    def assessed(self, small_count: int) -> tuple[Assessment, CellBounds]:
        """The assessment, and bounds of the at-risk cells; not kept."""
        return results.read_assessment(self.folder.stage(ASSESSMENT), self.table, small_count)


@dataclass(frozen=True, eq=False)
class Build:
    """One config, one data, and the run folder that is theirs.

    again  0, or which of the builds it is that were made of them again
    """

    config: BuildConfig
    given: Provenance | None = None
    again: int = 0

    @staticmethod
    def of_run(path: Path) -> Build:
        """By a run folder, whose config is in its manifest; RunFolderError where that is of another version."""
        folder = RunFolder(path)
        try:
            build = Build(BuildConfig.model_validate(folder.manifest().config))
        except ValidationError as error:
            what = f"{path}/{MANIFEST} has no config of this version"
            raise RunFolderError(f"{what}; make it again with sdc run") from error
        vars(build)["folder"] = folder  # which else is named by digests of the data
        return build

    @cached_property
    def digests(self) -> dict[str, str]:
        """Of config and data, by which it is known; and of the code, for documents.

        How it is executed, and what a server does, is not part of what is built. The data are all contents that the
        config names: records, structural zeros, what was published before, the pattern of `like`.
        """
        return {
            "config": self._config_digest,
            "data": digest_of([self._records_digest, self.publications.digest, *(one.digest for one in self.like)]),
            "code": code_digest(),
        }

    @cached_property
    def _config_digest(self) -> str:
        own = _digest_of(self.config)
        return digest_of([own, self.again]) if self.again else own

    @cached_property
    def _records_digest(self) -> str:
        return self.source.digest(self.config.table.structural_zeros)

    @cached_property
    def base(self) -> str:
        """Digest of config and data without what is in the ledger: by this a ledger knows the build again."""
        named = [relation_digest(*one) for one in self._folders]
        return digest_of([self._config_digest, self._records_digest, named, [one.digest for one in self.like]])

    @cached_property
    def _folders(self) -> Relations:
        """The publications that the config names by folder, each read once."""
        return read_folders(self.config)

    @cached_property
    def publications(self) -> Publications:
        """What was published before, as the config and its ledger name it."""
        return read_publications(self.config, self._folders, self.base)

    @property
    def origin(self) -> Provenance:
        """Where what is known of the table is from: as its stage has noted it, or as it was given.

        Of nothing before there is a table. RunFolderError where the stage has noted nothing.
        """
        folder = self.folder.stage(TABLE)
        if self.given is not None or not folder.is_dir():
            return self.given or Provenance()
        return read_provenance(folder)

    @property
    def hidden(self) -> SubTable:
        """Levels of the table that are judged, and not published with what was found."""
        found = self.made.found
        return self.origin.hides(self.made.table.schema, found.release, found.asked_in_part)

    @property
    def coarsened(self) -> dict[SubTable, SubTable]:
        """Of each sub-table that went out with merged categories what went out of it."""
        found = self.made.found
        return self.origin.coarsened(found.asked_in_part, found.release, self.made.table.schema)

    @cached_property
    def folder(self) -> RunFolder:
        root = Path(self.config.output.folder)
        # 64 bits of digest: a name that one can read, and two builds of one name hardly share
        known_by = {name: self.digests[name] for name in ("config", "data")}
        return RunFolder(root / self.config.name / digest_of(known_by)[:16])

    @cached_property
    def made(self) -> Outputs:
        """What its stages have made."""
        return Outputs(self.folder, self.config)

    @cached_property
    def needs(self) -> Needs:
        """What it may use, and what a table takes."""
        return Needs(self.config, self.listing.floor)

    @cached_property
    def schema(self) -> Schema:
        """The variables as they are known before records are read, see `read_schema`."""
        return read_schema(self.source, self.config.table)

    @cached_property
    def listing(self) -> Listing:
        """The critical widths that are listed; columns are counted for it, no records are read."""
        return Listing.of(self.config.widths, len(self.schema), self.config.least_width)

    @cached_property
    def source(self) -> Source:
        """The parts as they were when first asked for: those that are counted are those that were digested."""
        return open_source(self.config.table.path, self.config.table.expect, self.config.table.ignore)

    @property
    def counting_memory(self) -> int:
        return counting_memory(unit_memory(self.config.execution))

    def counted(self, executor: Executor) -> CountedRecords:
        """The records of the data that the config names, counted."""
        return count_records(self.source, self.config.table, executor, self.counting_memory)

    def known_of(self, counted: CountedRecords) -> Knowledge:
        """What is known of the records where nothing was published before."""
        listed = listed_codes(self.config.table.code_lists, counted.table.schema)
        return Knowledge.of(counted.table, NOTHING, counted.zeros, (), listed)

    def with_earlier(self, counted: CountedRecords) -> tuple[Table, Knowledge, Provenance]:
        """The table with the levels that earlier publications need, what is known of it, and from where.

        InputError as `require_keys_apart` and `with_earlier`.
        """
        require_keys_apart(self.publications, self.source, self.config.table.csv)
        return with_earlier(counted.table, counted.zeros, self.publications, self.config.table.code_lists)

    @cached_property
    def like(self) -> tuple[Published, ...]:
        """Sub-tables of an earlier edition that are in part; errors as `edition_before`."""
        return edition_before(self.config.release.previous_pattern)

    @property
    def is_released(self) -> bool:
        """Whether there is a release/ of it, or a ledger has an entry of it: it is never searched for again."""
        return self.publications.own is not None or self.folder.stage(RELEASE).exists()

    def require_result(self) -> None:
        """RunFolderError where it is released, and what its search found is not there any more."""
        self.folder.manifest()  # what is wrong with it is said first
        if not self.is_released or self.folder.whole(SEARCH) is not None:
            return
        entry, path = self.publications.own, self.folder.stage(SEARCH)
        where = f"{self.folder.stage(RELEASE)} is there" if entry is None else entry.called
        raise RunFolderError(
            f"this build was published: {where}. What its search found is missing or changed in {path}, and another "
            "search could end elsewhere. Put that folder back and run again, or make a new build with sdc run --again, "
            "which is judged beside all that the ledger has"
        )

    def anew(self) -> Build:
        """The first build of the same config and data, made again, that is still to be published."""
        for number in count(1):
            build = replace(self, again=number)
            # what they read is the same
            read = ("source", "_records_digest", "_folders", "like")
            vars(build).update({name: getattr(self, name) for name in read})
            is_there = build.folder.stage(RELEASE).exists()
            if not build.is_released or (not is_there and build.folder.whole(SEARCH) is not None):
                return build
        raise AssertionError

    @property
    def head(self) -> str | None:
        """Of the ledger's chain, with all of which it is judged; None where the config names no ledger."""
        ledger = self.publications.ledger
        return None if ledger is None else ledger.head

    @property
    def criteria(self) -> Criteria:
        risk = self.config.risk
        limit = PosteriorLimit.from_facts(risk.posterior.model_dump()) if risk.posterior else None
        attributes = Attributes(**risk.attribute_disclosure.model_dump()) if risk.attribute_disclosure else None
        return Criteria.of(risk.small_count, risk.min_width, limit, risk.min_frequency, attributes)

    @property
    def losses(self) -> Losses | None:
        """Those of the report, or of the limit; None where neither has any."""
        of_report, of_limit = self.config.posterior, self.config.risk.posterior
        asked = (of_report and of_report.losses) or (of_limit and of_limit.losses)
        return Losses.of(asked.model_dump()) if asked else None

    @property
    def policy(self) -> Policy:
        return Policy.OUTER if self.config.risk.accept_undecided else Policy.REFUSE

    @property
    def subject(self) -> GateSubject:
        """What is decided about, and published in the end."""
        return GateSubject(self.made.table.digest, self.criteria, self.policy)

    def settings(self, executor: Executor = IN_PROCESS, origin: Provenance | None = None) -> SearchSettings:
        """The config as the searches take it.

        origin  of what is known of the table, instead of what its stage has noted
        """
        origin = self.origin if origin is None else origin
        asked = self.criteria, self.policy, self.listing, self.config.release, executor, origin, self.like
        return SearchSettings(*asked, partial(self.proofs, origin))

    def proofs(self, origin: Provenance) -> KeptProofs | None:
        """The proofs of all entries of the ledger that are of this table; None where there are none."""
        ledger = self.publications.ledger
        own = [] if ledger is None else [e for e in reversed(ledger.entries) if e.table == ledger.keyed(origin.table)]
        if ledger is None or not own:
            return None
        risk, entries = self.config.risk, [(entry.number, entry.proof) for entry in own]
        return read_proofs(proofs_folder(ledger.path), entries, risk.small_count, risk.min_width)

    @contextmanager
    def started(self, stages: Sequence[str]) -> Iterator[None]:
        """Holds the run folder, makes its manifest for these stages, and tells how the run begins and ends."""
        with self.folder.locked():
            workers = workers_of(self.config.execution)
            tell("run started", pid=os.getpid(), host=socket.gethostname(), name=self.config.name, workers=workers)
            try:
                # the manifest first, with the digests: a run that dies from here on says what it was of
                config = self.config.recorded()
                self.folder.begin(Manifest(self.config.name, config, self.digests, self.head, tuple(stages)))
                yield
            except BaseException as error:
                tell("run ended", str(error), outcome=_outcome(error), error=type(error).__name__)
                raise
            tell("run ended", outcome="finished")


@dataclass(frozen=True, eq=False)
class Work:
    """A stage of a build that is to be made.

    key       digest of all that its outputs depend on
    executor  measures what it takes
    step      runs its parts
    """

    build: Build
    stage: str
    key: str
    executor: Measured
    show: Say
    step: Step = directly

    def say(self, text: str) -> None:
        """Show a line, and write it to the log."""
        self.show(text)
        tell("note", text)

    def checkpoint(self) -> Checkpoint:
        """What it keeps while it is made."""
        return Checkpoint.open(self.build.folder.parts(self.stage), self.key, self.say)


def open_build(
    config: Path,
    data: str | Path | None = None,
    workers: int | None = None,
    again: bool = False,
    settings: Settings | None = None,
) -> Build:
    """The build of a config file, with the table, the number of workers and settings replaced; as `read_config`.

    again  a new build of a config that was published already, see `Build.anew`
    """
    named: dict[str, Any] = {} if data is None else {"table.path": in_folder(str(data), Path.cwd())}
    named |= {} if workers is None else {"execution.workers": workers}
    build = Build(read_config(config, joined(settings or {}, named)))
    return build.anew() if again else build


def _digest_of(config: BuildConfig) -> str:
    # by what is left out, not by what counts: a section that comes new and is given changes the digest
    counted = sorted(set(BuildConfig.model_fields) - {"execution", "output", "server"})
    return section_digest(config, *counted, defaults=False)


def _outcome(error: BaseException) -> str:
    """A refusal answers about data and config, and a rerun will give it again; a failure is a fault; else a signal."""
    if isinstance(error, ReleaseError | InputError | ConfigError) and status_of(error) != TRY_AGAIN:
        return "refused"
    return "failed" if isinstance(error, Exception) else "killed"


# What stages say of the config


def given(section: Given | None, name: str) -> Given:
    """The section that a stage is about; ConfigError where the config does not have it."""
    if section is None:
        raise ConfigError(f"{name} is missing; give it, or leave out its stage")
    return section


def plain(section: Section | None) -> dict[str, Any] | None:
    """A section as a key has it."""
    return None if section is None else section.recorded()


def effort_settings(config: BuildConfig) -> dict[str, Any]:
    """What an evaluation may cost."""
    names = {"refute_cells", "seconds_per_cell", "seconds", "cells_per_slice"}
    return config.release.recorded(include=names)
