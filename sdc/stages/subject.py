"""What a command is about: a table, or that of a config or of a run, with its settings, and what is public of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from pydantic import ValidationError

from sdc.config.build import BuildConfig, ExecutionConfig
from sdc.config.capabilities import BEFORE, FORBID, OF_WHOLE, REQUIRE
from sdc.config.file import NOTHING_SET, Settings, faults_of, is_set, read_config, validated, with_settings
from sdc.config.old_keys import current_settings
from sdc.config.release import PatternLike, ReleaseConfig
from sdc.data.reading import TableLike, count_records, read_schema, table_of, zeros_of
from sdc.data.source import open_source
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.proof import Proof
from sdc.feasible.witnesses import Witnesses, lifted
from sdc.intruder.losses import Losses
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, ReleaseError, RunFolderError
from sdc.model.fact import NO_FACTS, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.labels import Labels
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.sharpness import EndMethods
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.protect.release import rounded_beside
from sdc.protect.summary import Suppression
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import support_of
from sdc.risk.verdict import Policy
from sdc.run_format import ASSESSMENT, SEARCH, TABLE
from sdc.search.constraints import named as sub_tables
from sdc.stages.build import Build, Outputs
from sdc.storage.certificate import Certificate
from sdc.storage.proofs import witnesses_of
from sdc.storage.results import read_end_methods
from sdc.storage.run_folder import RunFolder, folder_digest
from sdc.storage.runs import is_run, run_at


class Known(Protocol):
    """A release that was found, with all that it was found beside and what goes out in part; or a build."""

    @property
    def knowledge(self) -> Knowledge:
        """What everybody knows once it is out."""


Public: TypeAlias = Knowledge | Known | Release | Sequence[str | Sequence[str]]
"""What is public of a table: what is known of it; a release that was found, or a build; or sub-tables, beside which
nothing is known. An empty list: nothing is public."""


def release_of(table: Table, sub_tables: Release | Sequence[str | Sequence[str]]) -> Release:
    """The downward closure of sub-tables, each `age*sex` or a list of names; ReleaseError for an unknown variable."""
    if isinstance(sub_tables, Release):
        return sub_tables
    is_list = isinstance(sub_tables, Sequence | Set) and not isinstance(sub_tables, str | bytes)
    if not (is_list and all(isinstance(one, str | list | tuple) for one in sub_tables)):
        given = repr(sub_tables) if isinstance(sub_tables, str) else f"of the type {type(sub_tables).__name__}"
        raise ReleaseError(
            f"release {given} is not a list of sub-tables; give one such as ['age*sex', 'race'], [] if nothing is "
            "public, a release that was found, or what sdc.knowledge gives"
        )
    return Release.of(st.subtable_of(one, table.schema) for one in sub_tables)


def knowledge(
    table: TableLike,
    release: Public = (),
    *,
    structural_zeros: str | Path | StructuralZeros | None = None,
    facts: Iterable[Fact] = NO_FACTS,
) -> Knowledge:
    """State what everybody knows of a table: public sub-tables, impossible cells and other facts.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table.
    release : list, Release, Knowledge or found release, default ()
        What is public already: sub-tables `age*sex` or lists of names, or a release with all it was found beside.
    structural_zeros : path or StructuralZeros, optional
        Impossible cells, or a YAML file of patterns of them.
    facts : iterable of Fact
        Counts of some cells, or numbers between which they lie.

    Returns
    -------
    Knowledge
        It can be given wherever a function takes `public`.

    Raises
    ------
    ReleaseError
        For an unknown variable, and where the release is of another table.
    InputError
        Where a record is in an impossible cell, or a fact is not true.

    Notes
    -----
    The hierarchy of a variable is part of the table, see `read_table`, and counts as known.

    Examples
    --------
    >>> sdc.knowledge("czech_auto_workers.csv", ["A*B", ["A", "C"]]).release.frontier
    (3, 5)
    """
    table, given = table_of(table), structural_zeros
    zeros = given if isinstance(given, StructuralZeros) else zeros_of(table, given)
    return known_of(table, release) | Knowledge.of(table, NOTHING, zeros, facts)


def known_of(table: Table, public: Public) -> Knowledge:
    """What is known, of a release that was found once it is out.

    ReleaseError for what is no release, for an unknown variable, and where what is known is of another table;
    InputError as of `knowledge`.
    """
    known: Any = getattr(public, "knowledge", public)
    if not isinstance(known, Knowledge):
        return Knowledge.of(table, release_of(table, known), NO_ZEROS, NO_FACTS)
    known.check_is_of(table)
    known.zeros.check(table.schema, table.codes, table.counts)
    for fact in known.facts:
        fact.check_true(table)
    return known


CONFIGS = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class Subject:
    """A table, and where a config or a run says them, the settings and the release that go with it.

    known     what is known of the table before anything is released whole: with what goes out in part
    config    of a table alone what is set, and the defaults; settings  what is set beside the file or the run
    build     None where the subject is a table alone
    released  what a run has found; parts  and what of it goes out in part; suppressed  how much that hides
    weights   of the records, where the config names them
    """

    name: str
    table: Table
    known: Knowledge
    config: BuildConfig
    settings: Settings
    build: Build | None = None
    released: Release | None = None
    suppressed_tables: SuppressedTables = NO_SUPPRESSED_TABLES
    weights: RecordWeights | None = None
    suppressed: tuple[Suppression, ...] = ()

    @staticmethod
    def open(
        path: str,
        settings: Settings = NOTHING_SET,
        executor: Executor = IN_PROCESS,
        asked: Sequence[str] = (),
        named: Mapping[str, Sequence[PatternLike] | None] = MappingProxyType({}),
    ) -> Subject:
        """Reads it; ConfigError for settings that a run's table cannot follow, RunFolderError for a damaged run.

        settings  on top of those of the config or the run; or those of a table, which has the defaults else
        asked     capabilities that must work with what is asked there: else a ConfigError, before anything is read
        named     by who names them the sub-tables that the table must have: else an InputError, before a record is read
        """
        settings = current_settings(settings)
        if path.endswith(CONFIGS):
            return _of_config(path, settings, executor, asked, named)
        if "\0" not in path and len(path) < 3000 and is_run(found := run_at(Path(path))):
            return _of_run(found, settings, asked)
        return _of_table(path, settings, executor, asked, named)

    def criteria(self) -> Criteria:
        """What is set, else what the config has; ConfigError where neither has a width."""
        if self.build is None and not is_set(self.settings, "risk.min_width"):
            raise ConfigError(f"{self.name} says nothing of the criterion; give --min-width, or a config or run folder")
        asked = Build(self.config).criteria
        reveals = self.build is not None and self.config.release.reveal_suppressed
        return asked if reveals else asked.beside(self.table, self.known)

    @property
    def small_count(self) -> int:
        """That of the criterion."""
        return self.config.risk.small_count

    @property
    def losses(self) -> Losses | None:
        """Those of the config."""
        return Build(self.config).losses

    @property
    def execution(self) -> ExecutionConfig:
        """Who works on it: so many workers here as are asked for, else those of a config; one for others."""
        own = self.config.execution
        is_asked = is_set(self.settings, "execution.workers")
        if is_set(self.settings, "execution.cluster") or (self.name.endswith(CONFIGS) and not is_asked):
            return own
        workers = own.workers if is_asked else 1
        return ExecutionConfig(cluster="in-process" if workers == 1 else "local", workers=workers)

    @property
    def method(self) -> str:
        """That of a search; ConfigError where a table has none."""
        if self.build is None and not is_set(self.settings, "release.method"):
            raise ConfigError(f"{self.name} names no method; give --method, or a config or run folder")
        return self.config.release.method

    def public(self, given: Sequence[str] | None) -> Knowledge:
        """What is known with the release given, or the run's; ConfigError where there is neither."""
        return self.known.plus(self._asked(given))

    def _asked(self, given: Sequence[str] | None) -> Release:
        if given:
            return Release.of(st.parse(text, self.table.schema) for text in given)
        if self.released is None:
            raise ConfigError(f"{self.name} is no run with a release; give --release, such as --release 'age*sex'")
        return self.released

    def assess(self, given: Sequence[str] | None, criteria: Criteria, executor: Executor) -> Assessment:
        """Of the same release, judged as a build does: with what was proven before. Errors as `public`, `certified`."""
        asked, effort = self._asked(given), Effort(self.budget, executor=executor)
        before, witnesses = self.suppressed_tables.before(self._whole), self.witnesses(self.known)
        evaluator = RiskEvaluator(self.table, self.known, criteria, effort=effort, before=before, witnesses=witnesses)
        return evaluator.evaluate(asked).assessment.named_by(self.table.schema)

    def certified(self, bounds: CellBounds, small_count: int) -> CellBounds:
        """Bounds under a run's release, with the tables by which its certificate shows how far at-risk cells move.

        RunFolderError where that is of another release, or was changed.
        """
        if self.released is None:
            return bounds
        _, certificate = self._certificate()
        places = self.table.schema.keys.matching(bounds.cells, self.table.codes[self.table.at_risk(small_count)])
        known, old = certificate.knowledge, bounds.rows(places)
        inner = support_of(certificate.proof, self.table, small_count, known).inner
        return bounds.narrowed(places, CellBounds(old.cells, old.counts, old.outer, inner, "certificate"))

    @property
    def besides(self) -> tuple[Knowledge, Knowledge]:
        """What is public beside a single table, and what of it is whole: with a run's release, else before any.

        By the second it is told which small cells of sub-tables in part nothing can help.
        """
        released = NOTHING if self.released is None else self.released
        return self.known.plus(released), self._whole.plus(released)

    @property
    def _whole(self) -> Knowledge:
        own = {*self.suppressed_tables.facts}
        return replace(self.known, facts=tuple(fact for fact in self.known.published if fact not in own))

    def witnesses(self, known: Knowledge) -> Witnesses | None:
        """Feasible tables for anyone who knows that, by a run's certificate, or beside a config's ledger, if any.

        Errors as `certified`.
        """
        if self.released is None:
            own = self.build
            return None if own is None else witnesses_of(self.table, known, own.proofs(own.origin))
        return Witnesses.of(self.table, known, lifted(self.start[1], self.table))

    def judge_rounded(self, sub_table: str, base: int) -> None:
        """A sub-table rounded to multiples of a base is judged by the criteria of the config, or the run's.

        All that readers are told of it is taken as known. InputError for what is public whole, NotReleasableError where
        it is not proven that all keeps the width beside what is public.
        """
        assert self.build is not None
        (public, whole), view = self.besides, st.parse(sub_table, self.table.schema)
        if view in public.release:
            raise InputError(f"{sub_table} is in the release as it is; there is nothing to round")
        criteria, effort = self.criteria(), Effort(self.budget)
        asked = RiskEvaluator(
            self.table, public, criteria, effort=effort, before=whole, witnesses=self.witnesses(public)
        )
        rounded_beside(asked, view, base)

    @property
    def start(self) -> tuple[CellBounds | None, Proof]:
        """What a run shows under its release, for sharper bounds to start from; errors as `certified`.

        Bounds of the at-risk cells where it has assessed them, and the tables of its certificate.
        """
        stage, certificate = self._certificate()
        bounds = None if stage == SEARCH else self._made.assessed(certificate.small_count)[1]
        return bounds, certificate.proof

    def assessed(self, small_count: int) -> tuple[CellBounds, EndMethods] | None:
        """Bounds of at-risk cells as the sharp assessment of a run has them, else None; errors as `certified`."""
        if self.released is None:
            return None
        stage, certificate = self._certificate()
        if stage == SEARCH or small_count != certificate.small_count:
            return None
        by = read_end_methods(self._made.folder.stage(stage))
        return None if by is None else (self._made.assessed(small_count)[1], by)

    @property
    def folder(self) -> RunFolder | None:
        """Of the run, or the one that a build of the config has; None of a table alone."""
        return None if self.build is None else self.build.folder

    @property
    def _made(self) -> Outputs:
        assert self.build is not None
        return self.build.made

    def _certificate(self) -> tuple[str, Certificate]:
        """The last that a run has made, with its stage; RunFolderError as `certified`."""
        folder = self._made.folder
        stage = ASSESSMENT if ASSESSMENT in folder.records() else SEARCH
        require_recorded(folder, stage)
        certificate = self._made.certificate(stage)
        if certificate.release != self.released:
            raise RunFolderError(f"{self.name}: the certificate is of another release; make it again with sdc run")
        return stage, certificate

    @property
    def accepts_undecided(self) -> bool:
        """Whether what nothing could decide is accepted."""
        return Build(self.config).policy is Policy.OUTER

    @property
    def section(self) -> ReleaseConfig:
        """How a release is searched."""
        return self.config.release if self.build is None else self.build.settings().release

    @property
    def may_coarsen(self) -> bool:
        """Whether a config like this one may have `by: recoding`."""
        return self.build is None or self.config.may_coarsen

    @property
    def of_whole(self) -> tuple[str, ...]:
        """What its config asks of whole sub-tables alone, which such a one may not have."""
        return () if self.build is None else tuple(name for name in OF_WHOLE if name in self.config.asked)

    @property
    def budget(self) -> Budget:
        """Of proofs."""
        return Budget(self.config.release.seconds_per_cell, self.config.release.seconds)

    @property
    def publication(self) -> dict[str, Any]:
        """How the config publishes, as `sdc.publish` takes it."""
        about = self.config.publication.model_dump(exclude_none=True)
        return {**about, "labels": self.config.labels.model_dump(exclude_none=True)["variables"]}

    @property
    def labels(self) -> Labels:
        """How the config calls variables and categories."""
        return self.config.labels.labels

    @property
    def forbid(self) -> Sequence[PatternLike]:
        """What the config forbids."""
        return self.config.release.forbid

    @property
    def one_way(self) -> Knowledge:
        """What is known with the one-way sub-tables."""
        return self.known.plus(Release.of(1 << variable for variable in range(len(self.table.schema))))


def _require_named(named: Mapping[str, Sequence[PatternLike] | None], schema: Schema) -> None:
    for setting, patterns in named.items():
        sub_tables(setting, patterns or (), schema)


def _of_table(
    path: str,
    settings: Settings,
    executor: Executor,
    asked: Sequence[str],
    named: Mapping[str, Sequence[PatternLike] | None],
) -> Subject:
    config = table_config(path, settings)
    config.require(*asked)
    config.require_used(settings)
    source = open_source(path, config.table.expect, config.table.ignore)
    named = {**named, **_wished(config, settings)}
    if any(named.values()):
        _require_named(named, read_schema(source, config.table))
    counted = count_records(source, config.table, executor)
    known = Build(config).known_of(counted)
    return Subject(path, counted.table, known, config, settings, weights=counted.weights)


def table_config(path: str, settings: Settings) -> BuildConfig:
    """What is set of a table alone, with the defaults; ConfigError as `configured`."""
    # where nobody has named a method: one that works with what is asked
    content: dict[str, Any] = {"name": "table", "table": {"path": path}, "risk": {"min_width": 1}}
    method = "decomposable" if is_set(settings, "risk.posterior") else "ordered"
    content |= {"release": {"method": method}}
    return validated(BuildConfig, with_settings(content, settings), Path("table"), settings=[""])


def _wished(config: BuildConfig, settings: Settings) -> dict[str, Sequence[PatternLike]]:
    constraints = {REQUIRE: config.release.require, FORBID: config.release.forbid}
    return {key: named for key, named in constraints.items() if is_set(settings, key)}


def _of_config(
    path: str,
    settings: Settings,
    executor: Executor,
    asked: Sequence[str],
    named: Mapping[str, Sequence[PatternLike] | None],
) -> Subject:
    build = Build(read_config(path, settings))
    config = build.config
    config.require(*asked)
    if not config.earlier and config.ledger is None:  # of whose levels only the table knows
        _require_named({**named, **_wished(config, settings)}, build.schema)
    counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    return Subject(path, table, known, config, settings, replace(build, given=origin), weights=counted.weights)


def _of_run(path: Path, settings: Settings, asked: Sequence[str]) -> Subject:
    if of_table := [key for key in settings if key.partition(".")[0] in ("table", *BEFORE)]:
        raise ConfigError(f"{path} is a run, whose table is made; leave out {', '.join(of_table)}")
    build = Build.of_run(path)
    if settings:
        try:
            content = with_settings(build.config.model_dump(mode="json"), settings)
            config = BuildConfig.model_validate(content)
        except ValidationError as error:
            raise ConfigError(faults_of(error, BuildConfig)) from error
        config.require_used(settings)
        folder, build = build.folder, replace(build, config=config)
        vars(build)["folder"] = folder
    build.config.require(*asked)
    made, stages = build.made, {TABLE, SEARCH} & build.folder.records().keys()
    require_recorded(build.folder, *stages)
    own = Subject(str(path), made.table, made.known, build.config, settings, build)
    if build.config.table.weight is not None:
        own = replace(own, weights=made.weights)
    if SEARCH not in stages:
        return own
    found, tables = made.found, made.found.suppressed_tables
    own = replace(own, known=made.beside, released=found.release, suppressed_tables=tables)
    return replace(own, suppressed=found.suppressed)


def require_recorded(folder: RunFolder, *stages: str) -> None:
    """RunFolderError where a stage of a run is not as it was made."""
    records = folder.records()
    for stage in stages:
        if folder_digest(folder.stage(stage)) != records[stage].output:
            raise RunFolderError(f"{folder.stage(stage)} is not what the manifest recorded; make it again with sdc run")
