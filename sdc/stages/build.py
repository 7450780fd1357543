"""One build: its config, its data and its run folder, and what they come to."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sdc.canonical import digest_of
from sdc.config.build import BuildConfig, section_digest
from sdc.config.file import read_config, read_demand
from sdc.events import tell
from sdc.execution.settings import unit_memory, workers_of
from sdc.executor import IN_PROCESS, Executor
from sdc.ingest.reading import CountedRecords, count_records, read_schema
from sdc.ingest.source import Source, open_source
from sdc.intruder.limit import PosteriorLimit
from sdc.intruder.losses import Losses
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.public.earlier import (
    Origin,
    Publications,
    read_origin,
    read_publications,
    require_keys_apart,
    with_earlier,
)
from sdc.public.published import Published
from sdc.publish.gate import GateSubject
from sdc.refusal import TRY_AGAIN, status_of
from sdc.risk.attributes import Attributes
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.run_format import TABLE
from sdc.stages.assemble import Listing, SearchSettings, edition_before
from sdc.stages.needs import Needs
from sdc.stages.outputs import Outputs
from sdc.storage.run_folder import Manifest, RunFolder, code_digest


@dataclass(frozen=True, eq=False)
class Build:
    """One config, one data, one version of the code, and the run folder that is theirs."""

    config: BuildConfig
    given: Origin | None = None

    @cached_property
    def digests(self) -> dict[str, str]:
        """Of config, data and code. How it is executed, and what a server does, is not part of what is built.

        The data are the records, and what was published before.
        """
        return {
            "config": _digest_of(self.config),
            "data": digest_of([self._records_digest, self.publications.digest, *(one.digest for one in self.like)]),
            "code": code_digest(),
        }

    @cached_property
    def _records_digest(self) -> str:
        return self.source.digest(self.config.table.structural_zeros)

    @cached_property
    def base(self) -> str:
        """Digest of the build whatever was published before it: by this a ledger knows it again."""
        return digest_of([_digest_of(self.config), self._records_digest, code_digest()])

    @cached_property
    def publications(self) -> Publications:
        """What was published before, as the config and its ledger name it."""
        return read_publications(self.config, self.base)

    @property
    def origin(self) -> Origin:
        """Where what is known of the table is from: as its stage has noted it, or as it was given.

        Of nothing before there is a table. RunFolderError where the stage has noted nothing.
        """
        folder = self.folder.stage(TABLE)
        if self.given is not None or not folder.is_dir():
            return self.given or Origin()
        return read_origin(folder)

    @property
    def hidden(self) -> SubTable:
        """Levels of the table that are judged, and not published with what was found."""
        return self.origin.hides(self.made.table.schema, self.made.found.release)

    @property
    def coarsened(self) -> dict[SubTable, SubTable]:
        """Of each sub-table that went out with merged categories what went out of it."""
        found = self.made.found
        asked = () if found.required is None else found.required.in_part
        return self.origin.coarsened(asked, found.release, self.made.table.schema)

    @cached_property
    def folder(self) -> RunFolder:
        root = Path(self.config.output.folder)
        # 64 bits of digest: a name that one can read, and two builds of one name hardly share
        return RunFolder(root / self.config.name / digest_of(self.digests)[:16])

    @cached_property
    def made(self) -> Outputs:
        """What its stages have made."""
        return Outputs(self.folder)

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
        return open_source(self.config.table.path, self.config.table.expect)

    def counted(self, executor: Executor) -> CountedRecords:
        """The records of the data that the config names, counted; half the memory is left to what is being read."""
        return count_records(self.source, self.config.table, executor, unit_memory(self.config.execution) // 2)

    def with_earlier(self, counted: CountedRecords) -> tuple[Table, Knowledge, Origin]:
        """The table with the levels that earlier publications need, what is known of it, and from where.

        InputError as `require_keys_apart` and `with_earlier`.
        """
        require_keys_apart(self.publications, self.source, self.config.table.csv)
        return with_earlier(counted.table, counted.zeros, self.publications, self.config.table.code_lists)

    @cached_property
    def like(self) -> tuple[Published, ...]:
        """Sub-tables of an earlier edition that are in part; errors as `edition_before`."""
        return edition_before(self.config.release.like)

    @property
    def head(self) -> str | None:
        """Of the ledger's chain, with all of which it is judged; None where the config names no ledger."""
        ledger = self.publications.ledger
        return None if ledger is None else ledger.head

    @property
    def criteria(self) -> Criteria:
        risk = self.config.risk
        limit = PosteriorLimit.from_facts(risk.posterior.model_dump()) if risk.posterior else None
        attributes = Attributes(**risk.attributes.model_dump()) if risk.attributes else None
        return Criteria.of(risk.small_count, risk.min_width, limit, risk.n_rule, attributes)

    @property
    def losses(self) -> Losses | None:
        """Those of the report, or of the limit; None where neither has any."""
        of_report, of_limit = self.config.posterior, self.config.risk.posterior
        asked = (of_report and of_report.losses) or (of_limit and of_limit.losses)
        return Losses.of(asked.model_dump()) if asked else None

    @property
    def policy(self) -> Policy:
        return Policy(self.config.risk.undecided)

    @property
    def subject(self) -> GateSubject:
        """What is decided about, and published in the end."""
        return GateSubject(self.made.table.digest, self.criteria, self.policy)

    def settings(self, executor: Executor = IN_PROCESS, origin: Origin | None = None) -> SearchSettings:
        """The config as the searches take it; ConfigError as `read_demand`.

        origin  of what is known of the table, instead of what its stage has noted
        """
        release = self.config.release
        if isinstance(release.demand, str):
            release = release.model_copy(update={"demand": read_demand(Path(release.demand))})
        origin = self.origin if origin is None else origin
        return SearchSettings(self.criteria, self.policy, self.listing, release, executor, origin, self.like)

    @contextmanager
    def started(self, stages: Sequence[str]) -> Iterator[None]:
        """Holds the run folder, makes its manifest for these stages, and tells how the run begins and ends."""
        with self.folder.locked():
            workers = workers_of(self.config.execution)
            tell("run started", pid=os.getpid(), host=socket.gethostname(), name=self.config.name, workers=workers)
            try:
                # the manifest first, with the digests: a run that dies from here on says what it was of
                config = self.config.model_dump(mode="json")
                self.folder.begin(Manifest(self.config.name, config, self.digests, self.head, tuple(stages)))
                yield
            except BaseException as error:
                tell("run ended", str(error), outcome=_outcome(error), error=type(error).__name__)
                raise
            tell("run ended", outcome="finished")


def open_build(config: Path, data: str | Path | None = None, workers: int | None = None) -> Build:
    """The build of a config file, with the table and the number of workers replaced where given; as `read_config`."""
    settings = read_config(config, data=data)
    if workers is not None:
        execution = settings.execution.model_copy(update={"workers": workers})
        settings = settings.model_copy(update={"execution": execution})
    return Build(settings)


def _digest_of(config: BuildConfig) -> str:
    # by what is left out, not by what counts: a section that comes new changes the digest, and no old build passes
    # for it
    return section_digest(config, *sorted(set(BuildConfig.model_fields) - {"execution", "output", "server"}))


def _outcome(error: BaseException) -> str:
    """A refusal answers about data and config, and a rerun will give it again; a failure is a fault; else a signal."""
    if isinstance(error, ReleaseError | InputError | ConfigError) and status_of(error) != TRY_AGAIN:
        return "refused"
    return "failed" if isinstance(error, Exception) else "killed"
