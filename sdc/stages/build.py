"""One build: its config, its data and its run folder, and what they come to."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from sdc.config.build import BuildConfig, section_digest
from sdc.config.file import read_config, read_demand
from sdc.config.release import PatternLike
from sdc.events import tell
from sdc.execution.settings import cluster_of, own_memory, unit_memory, workers_of
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.proof import Proof
from sdc.ingest.keys import require_disjoint
from sdc.ingest.reading import CountedRecords, count_records, read_layouts
from sdc.ingest.source import Source, open_source
from sdc.intruder.limit import PosteriorLimit
from sdc.intruder.summary import laws_of
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.model.weights import Weights
from sdc.public.earlier import (
    Origin,
    Publications,
    check_publications,
    known_anew,
    read_origin,
    read_publications,
    with_earlier,
)
from sdc.publish.gate import Subject
from sdc.publish.publication import signing_key
from sdc.risk.criterion import Budget, Effort
from sdc.risk.critical_width import MAX_LISTED_VARIABLES, CriticalWidths
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Policy
from sdc.run_format import LEDGER_HEAD
from sdc.search.annealing import CoolingSchedule
from sdc.search.decomposable import Annealing
from sdc.search.simulatable import Simulation
from sdc.search.wishes import Pattern, Wishes
from sdc.stages.assemble import SearchSettings, floor_of
from sdc.stages.needs import (
    WORKER_BYTES,
    here_bytes,
    require_here,
    require_worker,
    sweep_here_bytes,
    sweep_memory,
    worker_bytes,
)
from sdc.storage import results
from sdc.storage.certificate import Certificate
from sdc.storage.known import read_known
from sdc.storage.parquet import read_written_table
from sdc.storage.run_folder import RunFolder, code_digest, digest_of
from sdc.storage.weighted import read_weights


@dataclass(frozen=True, eq=False)
class Build:
    """One config, one data, one version of the code, and the run folder that is theirs."""

    config: BuildConfig
    given: Origin | None = None

    @cached_property
    def digests(self) -> dict[str, str]:
        """Of config, data and code. How it is executed, and what a server does, is not part of what is built."""
        # by what is left out, not by what counts: a section that comes new changes the digest, and no old build passes
        # for it
        sections = set(BuildConfig.model_fields) - {"execution", "output", "server"}
        return {
            "config": section_digest(self.config, *sorted(sections)),
            "data": self._data_digest,
            "code": code_digest(),
        }

    @cached_property
    def _records_digest(self) -> str:
        return self.source.digest(self.config.table.structural_zeros)

    @cached_property
    def _data_digest(self) -> str:
        """Of the records, and of what was published before."""
        return digest_of([self._records_digest, self.publications.digest])

    @cached_property
    def base(self) -> str:
        """Digest of the build whatever was published before it: by this a ledger knows it again."""
        sections = set(BuildConfig.model_fields) - {"execution", "output", "server"}
        return digest_of([section_digest(self.config, *sorted(sections)), self._records_digest, code_digest()])

    @cached_property
    def publications(self) -> Publications:
        """What was published before, as the config and its ledger name it."""
        return read_publications(self.config, self.base)

    @property
    def origin(self) -> Origin:
        """Where what is known of the table is from: as its stage has noted it, or as it was given.

        Of nothing before there is a table. RunFolderError where the stage has noted nothing.
        """
        folder = self.folder.stage("table")
        if self.given is not None or not folder.is_dir():
            return self.given or Origin()
        return read_origin(folder)

    @property
    def hidden(self) -> SubTable:
        """Levels of the table that are judged, and never published."""
        return self.origin.hides(self.table.schema)

    @cached_property
    def folder(self) -> RunFolder:
        root = Path(self.config.output.folder)
        # 64 bits of digest: a name that one can read, and two builds of one name hardly share
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
        """Only critical widths that reach it are listed; columns are counted for it, no records are read."""
        _, variables = read_layouts(self.source, self.config.table)
        return floor_of(self.config.widths.floor, len(variables), self._least_width)

    @property
    def _least_width(self) -> int:
        """The curve asks for other widths too: the list of widths must reach down to the least of all."""
        return min([self.config.risk.min_width, *(self.config.curve.min_width if self.config.curve else ())])

    def require_listed(self, variables: int) -> None:
        """ConfigError where so many sub-tables would have to be listed that no memory would do."""
        if self.floor == 0 and variables > MAX_LISTED_VARIABLES:
            raise ConfigError(
                f"widths.floor = 0: {variables} variables have 2^{variables} sub-tables, at most "
                f"2^{MAX_LISTED_VARIABLES} are listed; set widths.floor to {self._least_width}, the least min_width"
            )

    def here_bytes(self, table: Table) -> int:
        """What this process needs for the table; in-process it is a worker besides."""
        needed = here_bytes(table, self.config.risk.small_count, self.floor)
        return needed + (self.worker_bytes(table) - WORKER_BYTES if cluster_of(self.config.execution) is None else 0)

    def worker_bytes(self, table: Table) -> int:
        """What a worker needs that searches for feasible tables."""
        release = self.config.release
        return worker_bytes(table, release.cells_per_slice, grows=release.method == "best")

    def require_memory(self, table: Table) -> None:
        """ConfigError where the table is too much for this process, or a slice of it for a worker."""
        self.require_listed(len(table.schema))
        require_here(self.here_bytes(table), self.own_memory)
        require_worker(self.worker_bytes(table), self.memory)

    def sweep_memory(self, table: Table) -> tuple[int, bool]:
        """What a unit of the critical widths may use, and whether it reads parts of the table; as `needs` has it."""
        return sweep_memory(table, self.floor, self.memory, self.config.table.partitions)

    def require_sweep(self, table: Table) -> None:
        """ConfigError where the table is too much for this process, or for a worker part by part, to find widths."""
        self.require_listed(len(table.schema))
        require_here(sweep_here_bytes(table, self.floor), self.own_memory)
        self.sweep_memory(table)

    @cached_property
    def source(self) -> Source:
        """The parts as they were when first asked for: those that are counted are those that were digested."""
        return open_source(self.config.table.path, self.config.table.expect)

    def check_source(self) -> None:
        """InputError where parts or earlier publications are not what the settings say of them; reads no records."""
        read_layouts(self.source, self.config.table)
        check_publications(self.config)

    def counted(self, executor: Executor) -> CountedRecords:
        """The records of the data that the config names, counted; half the memory is left to what is being read."""
        return count_records(self.source, self.config.table, executor, self.memory // 2)

    def with_earlier(self, counted: CountedRecords) -> tuple[Table, Knowledge, Origin]:
        """The table with the levels that earlier publications need, what is known of it, and from where.

        InputError as `with_earlier`.
        """
        for relation, tables in self.publications.relations:
            if relation.key is not None:
                others, most = open_source(relation.key.records), max((one.table.total for one in tables), default=0)
                require_disjoint(self.source, others, relation.key.column, most, self.config.table.csv)
        return with_earlier(counted.table, counted.zeros, self.publications)

    def require_known(self) -> None:
        """Reads what is known of the table from the publications as they are now; InputError as `known_anew`."""
        known_anew(self.known, self.table, self.origin, self.config, self.head)

    @property
    def head(self) -> str | None:
        """Of the ledger's chain, with all of which it is judged; None where the config names no ledger."""
        ledger = self.publications.ledger
        return None if ledger is None else ledger.head

    @cached_property
    def table(self) -> Table:
        return read_written_table(self.folder.stage("table"))

    @cached_property
    def known(self) -> Knowledge:
        """What is known of the table before anything is released: what was published, and which cells cannot be."""
        return read_known(self.folder.stage("table"), self.table)

    @cached_property
    def weights(self) -> Weights:
        """Of the table's cells."""
        return read_weights(self.folder.stage("table"), self.table)

    @cached_property
    def widths(self) -> CriticalWidths:
        return results.read_widths(self.folder.stage("widths"))

    @cached_property
    def found(self) -> results.SearchRecord:
        return results.read_search(self.folder.stage("search"), self.table.schema)

    @cached_property
    def labels(self) -> Labels:
        """What variables and categories are called; ConfigError where the table does not have what is labelled."""
        self.check_labels(self.table.schema)
        return self.config.labels.labels

    @property
    def criterion(self) -> MinWidth:
        risk = self.config.risk
        limit = PosteriorLimit(**risk.posterior.model_dump()) if risk.posterior else None
        return MinWidth(risk.small_count, risk.min_width, limit)

    @property
    def policy(self) -> Policy:
        return Policy(self.config.risk.undecided)

    @property
    def subject(self) -> Subject:
        """What is decided about, and published in the end."""
        return Subject(self.table.digest, self.criterion, self.policy)

    def settings(self, executor: Executor = IN_PROCESS) -> SearchSettings:
        """The config as the searches take it."""
        release, annealing = self.config.release, self.config.release.annealing
        schedule = CoolingSchedule(
            annealing.steps,
            annealing.start_temperature,
            annealing.end_temperature,
            annealing.schedule,
            annealing.cycles,
        )
        budget = Budget(release.seconds_per_cell, release.seconds)
        return SearchSettings(
            self.criterion,
            self.policy,
            Effort(budget, release.refute_cells, release.cells_per_slice, executor),
            self.floor,
            Annealing(
                schedule,
                annealing.chains,
                annealing.seed,
                annealing.rounds,
                annealing.patience,
                annealing.tempering,
            ),
            annealing.start,
            release.weights.variables,
            release.weights.sub_tables,
            Simulation(**release.simulatable.model_dump()),
            _patterns(release.require),
            _patterns(release.forbid),
            Wishes(
                best_subset=release.conflicts == "best_subset", breadth=release.breadth, questions=release.questions
            ),
            release.demand if isinstance(release.demand, Mapping) else read_demand(Path(release.demand)),
            self.origin.hidden,
        )

    def check_labels(self, schema: Schema) -> None:
        """ConfigError where the table does not have what is labelled."""
        with _fault_of("labels"):
            self.config.labels.labels.require(schema)

    def check_names(self, known: Knowledge) -> None:
        """ConfigError where settings do not fit the table and what is known; better before the work than after."""
        settings, schema = self.settings(), known.schema
        self.check_labels(schema)
        # made, and not kept: what is wanted is the refusal
        with _fault_of("release.demand"):
            settings.requests(schema)
        with _fault_of("release.weights"):
            settings.weights(schema)
        with _fault_of("release.require and release.forbid"):
            settings.wished(known)
        with _fault_of(f"release.annealing.start = {self.config.release.annealing.start!r}"):
            settings.start_graph(schema)
        signing_key(self.config.publication)
        with _fault_of("publication.children"):
            for name in chain(*(child.split("*") for child in self.config.publication.children)):
                schema.index(name.strip())
        if (asked := self.config.posterior) is not None:
            with _fault_of(f"posterior.laws = {list(asked.laws)!r}"):
                laws_of(asked.laws, asked.alpha, schema)

    def certificate(self, release: Release, proof: Proof) -> Certificate:
        """The evidence about a release under this build's table and risk criterion."""
        risk = self.config.risk
        return Certificate(self.table.digest, self.known, release, risk.small_count, risk.min_width, proof)

    @contextmanager
    def started(self, stages: Sequence[str]) -> Iterator[None]:
        """Holds the run folder, makes its manifest for these stages, and tells how the run begins and ends."""
        with self.folder.locked():
            workers = workers_of(self.config.execution)
            tell("run started", pid=os.getpid(), host=socket.gethostname(), name=self.config.name, workers=workers)
            try:
                # the manifest first, with the digests: a run that dies from here on says what it was of
                content = {"config": self.config.model_dump(mode="json"), "digests": self.digests}
                self.folder.begin({"name": self.config.name, **content, LEDGER_HEAD: self.head}, list(stages))
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


def _patterns(given: Sequence[PatternLike]) -> tuple[Pattern, ...]:
    return tuple(p if isinstance(p, str) else p.model_dump(exclude_none=True) for p in given)


def _outcome(error: BaseException) -> str:
    """A refusal answers about data and config, and a rerun will give it again; a failure is a fault; else a signal."""
    if isinstance(error, ReleaseError | InputError | ConfigError):
        return "refused"
    return "failed" if isinstance(error, Exception) else "killed"


@contextmanager
def _fault_of(setting: str) -> Iterator[None]:
    """Says which setting an input error is about."""
    try:
        yield
    except InputError as error:
        raise ConfigError(f"{setting}: {error}", error.detail) from error
