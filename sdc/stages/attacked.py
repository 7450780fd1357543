"""An attack on what is public, and what of it is right: by the run that published it, or by its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sdc.bounds.in_units import bounds_in_units
from sdc.config.analysis import MOST_SEEDS
from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.guesses import Right
from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from sdc.paths import checked_path
from sdc.public import mixture
from sdc.public.attack import Attack, Reconstruction, attack_on, guesses
from sdc.public.check import read_all
from sdc.public.relation import relations_given
from sdc.public.told import told_tables
from sdc.run_format import MANIFEST, POSTERIOR, RELEASE
from sdc.stages.bounded import chosen_cells
from sdc.stages.known import Public, known_of
from sdc.stages.subject import Subject
from sdc.storage.results import read_posteriors
from sdc.storage.run_folder import RunFolder, folder_digest


def attack(
    release: str | Path | Public,
    *,
    truth: str | Path | Table | None = None,
    seeds: int = 3,
    relations: str | Path | Sequence[Mapping[str, Any]] | None = None,
    small_count: int | None = None,
    executor: Executor = IN_PROCESS,
) -> Attack:
    """What published tables let an intruder guess of each cell, by a method not ours, as `sdc attack` says it.

    release      a published folder or file of tables; or a release that was found, or what else is public of a table
    truth        says in `right` what is guessed right: the run that published the folder; or the table that has what is
                 public, which must be given
    seeds        number of starts of the reconstruction, 0 to 100; it needs sdc-tables[attack]. 0 means the
                 independence model alone
    relations    how tables of a folder relate: sections as `earlier` of a config has them, or a YAML file of them
    small_count  cells of 1 up to this count are at risk, default 2; a run has its own

    ConfigError where the reconstruction is not installed, for relations that are none, and where the run is not the
    folder's; InputError where a table cannot be read, or nothing can be guessed of it, and as of `cell_bounds`.
    """
    method = _reconstruction(seeds)
    if isinstance(release, str | Path):
        published = checked_path(release)
        if isinstance(truth, Table) or small_count is not None:
            raise InputError(
                f"{release} is a published folder or file, and what is right the run says that published it, with its "
                "small_count; name that run's folder as truth, or attack what is public of the table"
            )
        run = None if truth is None else Truth.open(checked_path(truth), published)
        found = attack_on(read_all([release], relations_given(relations)), range(seeds), method)
        return found if run is None else replace(found, right=run.right(found)).named_by(found.schema)
    if not isinstance(truth, Table) or relations is not None:
        raise InputError(
            "what is public of a table has no counts by itself, and is related to it; give the table as truth, and no "
            "relations"
        )
    known = known_of(truth, release)
    found = attack_on_public(truth, known, seeds)
    right = _right(found, truth, known, 2 if small_count is None else small_count, executor)
    return replace(found, right=right).named_by(found.schema)


def attack_on_public(table: Table, known: Knowledge, seeds: int) -> Attack:
    """The same on all that is known of a table; InputError where that is the total alone."""
    method, told = _reconstruction(seeds), [*told_tables(table, known)]
    if not told:
        raise InputError("nothing but the total is public; there is nothing to guess from")
    return attack_on(told, range(seeds), method)


def _reconstruction(seeds: int) -> Reconstruction:
    if not 0 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds = {seeds}; give how many starts the reconstruction has, from 0 to {MOST_SEEDS}")
    method = mixture.Mixture()
    if seeds:
        method.require()
    return method


def _right(found: Attack, table: Table, known: Knowledge, small_count: int, executor: Executor) -> Right:
    """By the bounds of the at-risk cells under what is known; nothing was promised of them."""
    own = guesses(found, table, small_count)
    bounds = bounds_in_units(table, known, chosen_cells(table, "at-risk", small_count), "auto", executor)
    return Right(own, bounds, small_count).named_by(table.schema)


@dataclass(frozen=True, eq=False)
class Truth:
    """A run that has published something.

    bounds      of its at-risk cells under that; posteriors  of the same cells, as far as its build has them
    """

    about: Subject
    bounds: CellBounds
    posteriors: tuple[Summary, ...]

    @staticmethod
    def open(run: Path, published: Path) -> Truth:
        """The run that has published this folder.

        ConfigError where it is no run, has published another folder, or asks for what an attack does not take;
        RunFolderError where it is not whole, or was changed.
        """
        if not (run / MANIFEST).is_file():
            raise ConfigError(f"{run} is no run folder; name the one whose build has published {published}")
        record = RunFolder(run).records().get(RELEASE)
        if record is None or folder_digest(published) != record.output:
            raise ConfigError(f"{published} is not what {run} has published; name that run's release, or a copy of it")
        about = Subject.open(str(run), asked=("attack",))
        bounds, _ = about.start
        if bounds is None:
            raise RunFolderError(f"{run} has no bounds of its release; make it again with sdc run")
        laws = read_posteriors(run / POSTERIOR) if about.config.posterior else ()
        return Truth(about, bounds, laws)

    def right(self, found: Attack) -> Right:
        """What is right of guesses of its table."""
        table, risk = self.about.table, self.about.config.risk
        own = guesses(found, table, risk.small_count)
        return Right(own, self.bounds, risk.small_count, risk.min_width, self.posteriors).named_by(table.schema)
