"""The input of a command, resolved from a path: table, config or run, with settings and public facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pydantic import ValidationError

from sdc.config.build import BuildConfig, ExecutionConfig
from sdc.config.features import BEFORE, FORBID, REQUIRE
from sdc.config.file import NOTHING_SET, Settings, faults_of, is_set, read_config, validated, with_settings
from sdc.config.old_keys import current_settings
from sdc.config.release import PatternLike
from sdc.data.reading import TableLike, table_of, zeros_of
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
from sdc.model.release import NOTHING, Release
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
from sdc.run_format import ASSESSMENT, SEARCH, TABLE
from sdc.search.constraints import named as sub_tables
from sdc.stages.build import Build, StageOutputs
from sdc.storage.certificate import Certificate
from sdc.storage.proofs import witnesses_of
from sdc.storage.results import read_end_methods
from sdc.storage.run_folder import RunFolder, folder_digest
from sdc.storage.runs import is_run, run_at


class KnownRelease(Protocol):
    """A found release with its public facts, or a build."""

    @property
    def knowledge(self) -> Knowledge:
        """What is public once it is published."""


Public: TypeAlias = Knowledge | KnownRelease | Release | Sequence[str | Sequence[str]]
"""What is public of a table: what is known of it; a release that was found, or a build; or sub-tables, beside which
nothing is known. An empty list: nothing is public."""


Patterns: TypeAlias = Mapping[str, Sequence[PatternLike] | None]
"""Sub-tables by the option or setting that names them."""


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
    """Return what is public, including a found release.

    ReleaseError for invalid releases, unknown variables or knowledge of another table; InputError as `knowledge`.
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
class ResolvedInput:
    """A table, with the settings and release of its config or run.

    known     public before the release, with suppressed tables
    config    for a plain table: its settings with defaults; settings  those given beside the file or run
    build     None for a plain table
    released  the release of a run; parts  its suppressed tables; suppressed  how much they suppress
    weights   of the records, if the config has them
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
        features: Sequence[str] = (),
        named: Patterns = NOTHING_SET,
    ) -> ResolvedInput:
        """Read a table, config or run; ConfigError for settings that a run's table cannot follow.

        RunFolderError for a corrupt run.

        settings  on top of the config's or run's; for a plain table, of the defaults
        features  capabilities that must work with the settings; ConfigError before anything is read
        named     sub-tables by option that the table must have; InputError before records are read
        """
        settings = current_settings(settings)
        if path.endswith(CONFIGS):
            return _of_config(path, settings, executor, named, *features)
        if "\0" not in path and len(path) < 3000 and is_run(found := run_at(Path(path))):
            return _of_run(found, settings, *features)
        return _of_table(path, settings, executor, named, *features)

    def criteria(self) -> Criteria:
        """Return the criterion of settings or config; ConfigError if neither has a width."""
        if self.build is None and not is_set(self.settings, "risk.min_width"):
            raise ConfigError(f"{self.name} has no criterion; give --min-width, or a config or run folder")
        criteria = Build(self.config).criteria
        reveals = self.build is not None and self.config.release.reveal_suppressed
        return criteria if reveals else criteria.beside(self.table, self.known)

    @property
    def small_count(self) -> int:
        return self.config.risk.small_count

    @property
    def losses(self) -> Losses | None:
        return Build(self.config).losses

    @property
    def execution(self) -> ExecutionConfig:
        """Return the execution: the given number of local workers, or the config's; one otherwise."""
        own = self.config.execution
        is_given = is_set(self.settings, "execution.workers")
        if is_set(self.settings, "execution.cluster") or (self.name.endswith(CONFIGS) and not is_given):
            return own
        workers = own.workers if is_given else 1
        return ExecutionConfig(cluster="in-process" if workers == 1 else "local", workers=workers)

    @property
    def method(self) -> str:
        """Return the search method; ConfigError if a plain table has none."""
        if self.build is None and not is_set(self.settings, "release.method"):
            raise ConfigError(f"{self.name} names no method; give --method, or a config or run folder")
        return self.config.release.method

    def public(self, given: Sequence[str] | None) -> Knowledge:
        """Return knowledge with the given release, or the run's; ConfigError if there is neither."""
        return self.known.plus(self._release_or_own(given))

    def _release_or_own(self, given: Sequence[str] | None) -> Release:
        if given:
            return Release.of(st.parse(text, self.table.schema) for text in given)
        if self.released is None:
            raise ConfigError(f"{self.name} is not a run with a release; give --release, such as --release 'age*sex'")
        return self.released

    def assess(self, given: Sequence[str] | None, criteria: Criteria, executor: Executor) -> Assessment:
        """Assess the release as a build does, with earlier proofs. Errors as `public`, `certified`."""
        release, effort = self._release_or_own(given), Effort(self.budget, executor=executor)
        before, witnesses = self.suppressed_tables.before(self._whole), self.witnesses(self.known)
        evaluator = RiskEvaluator(self.table, self.known, criteria, effort=effort, before=before, witnesses=witnesses)
        return evaluator.evaluate(release).assessment.named_by(self.table.schema)

    @property
    def besides(self) -> tuple[Knowledge, Knowledge]:
        """What is public with a single table: all of it, and the part without suppressed tables.

        The second shows which small cells no suppression can protect.
        """
        released = NOTHING if self.released is None else self.released
        return self.known.plus(released), self._whole.plus(released)

    @property
    def _whole(self) -> Knowledge:
        own = {*self.suppressed_tables.facts}
        return replace(self.known, facts=tuple(fact for fact in self.known.published if fact not in own))

    def witnesses(self, known: Knowledge) -> Witnesses | None:
        """Return feasible tables under this knowledge, from a run's certificate or the ledger's proofs, if any.

        Errors as `certified`.
        """
        if self.released is None:
            own = self.build
            return None if own is None else witnesses_of(self.table, known, own.proofs(own.origin))
        return Witnesses.of(self.table, known, lifted(self.start[1], self.table))

    def judge_rounded(self, sub_table: str, base: int) -> None:
        """Judge a rounded sub-table by the criteria of the config or run.

        Everything that readers learn from it counts as known. InputError if it is public already, NotReleasableError if
        the width is not proven together with public facts.
        """
        assert self.build is not None
        (public, whole), view = self.besides, st.parse(sub_table, self.table.schema)
        if view in public.release:
            raise InputError(
                f"{sub_table} is in the release unchanged, so nothing needs rounding; name a sub-table "
                "that is not released"
            )
        criteria, effort = self.criteria(), Effort(self.budget)
        evaluator = RiskEvaluator(
            self.table, public, criteria, effort=effort, before=whole, witnesses=self.witnesses(public)
        )
        rounded_beside(evaluator, view, base)

    @property
    def start(self) -> tuple[CellBounds | None, Proof]:
        """The run's results under its release, as a start for sharper bounds.

        RunFolderError if the certificate is of another release, or was changed.

        Bounds of the assessed at-risk cells, and the tables of the certificate.
        """
        stage, certificate = self._certificate()
        bounds = None if stage == SEARCH else self._made.assessed(certificate.small_count)[1]
        return bounds, certificate.proof

    def assessed(self, small_count: int) -> tuple[CellBounds, EndMethods] | None:
        """Return bounds of a run's sharp assessment, or None; errors as `start`."""
        if self.released is None:
            return None
        stage, certificate = self._certificate()
        if stage == SEARCH or small_count != certificate.small_count:
            return None
        by = read_end_methods(self._made.folder.stage(stage))
        return None if by is None else (self._made.assessed(small_count)[1], by)

    @property
    def _made(self) -> StageOutputs:
        assert self.build is not None
        return self.build.made

    def _certificate(self) -> tuple[str, Certificate]:
        """Return the run's latest certificate and its stage; RunFolderError as `start`."""
        folder = self._made.folder
        stage = ASSESSMENT if ASSESSMENT in folder.records() else SEARCH
        require_recorded(folder, stage)
        certificate = self._made.certificate(stage)
        if certificate.release != self.released:
            raise RunFolderError(f"{self.name}: the certificate is of another release; make it again with sdc run")
        return stage, certificate

    @property
    def budget(self) -> Budget:
        """Budget of proofs."""
        return Budget(self.config.release.seconds_per_cell, self.config.release.seconds)


def _require_named(build: Build, settings: Settings, named: Patterns) -> None:
    """Raise InputError if the table lacks a variable of the named, required or forbidden sub-tables."""
    constraints = {REQUIRE: build.config.release.require, FORBID: build.config.release.forbid}
    named = {**named, **{key: patterns for key, patterns in constraints.items() if is_set(settings, key)}}
    for setting, patterns in named.items():
        if patterns:
            sub_tables(setting, patterns, build.schema)


def _of_table(path: str, settings: Settings, executor: Executor, named: Patterns, *features: str) -> ResolvedInput:
    build = Build(table_config(path, settings))
    config = build.config
    config.require(*features)
    config.require_used(settings)
    _require_named(build, settings, named)
    # messages name the path as it was given
    vars(build)["source"] = open_source(path, config.table.expect, config.table.ignore)
    counted = build.counted(executor)
    return ResolvedInput(path, counted.table, build.known_of(counted), config, settings, weights=counted.weights)


def table_config(path: str, settings: Settings) -> BuildConfig:
    """Return the settings of a plain table with defaults; ConfigError as `configured`."""
    # without a given method: one that works with the settings
    content: dict[str, Any] = {"name": "table", "table": {"path": path}, "risk": {"min_width": 1}}
    method = "decomposable" if is_set(settings, "risk.posterior") else "ordered"
    content |= {"release": {"method": method}}
    return validated(BuildConfig, with_settings(content, settings), Path("table"), settings=[""])


def _of_config(path: str, settings: Settings, executor: Executor, named: Patterns, *features: str) -> ResolvedInput:
    build = Build(read_config(path, settings))
    config = build.config
    config.require(*features)
    if not config.earlier and config.ledger is None:  # of whose levels only the table knows
        _require_named(build, settings, named)
    counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    return ResolvedInput(path, table, known, config, settings, replace(build, given=origin), weights=counted.weights)


def _of_run(path: Path, settings: Settings, *features: str) -> ResolvedInput:
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
    build.config.require(*features)
    made, stages = build.made, {TABLE, SEARCH} & build.folder.records().keys()
    require_recorded(build.folder, *stages)
    weights = None if build.config.table.weight is None else made.weights
    own = ResolvedInput(str(path), made.table, made.known, build.config, settings, build, weights=weights)
    if SEARCH not in stages:
        return own
    found = made.found
    own = replace(own, known=made.beside, released=found.release, suppressed=found.suppressed)
    return replace(own, suppressed_tables=found.suppressed_tables)


def require_recorded(folder: RunFolder, *stages: str) -> None:
    """Raise RunFolderError if a stage of a run was changed."""
    records = folder.records()
    for stage in stages:
        if folder_digest(folder.stage(stage)) != records[stage].output:
            raise RunFolderError(f"{folder.stage(stage)} differs from the manifest; run the build again")
