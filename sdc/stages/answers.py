"""Answers about a table: bounds of its cells, and correct guesses of an attack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sdc.bounds.method import quick_bounds
from sdc.bounds.super_cells import super_cells_in_units
from sdc.canonical import digest_of
from sdc.checkpoint import NO_CHECKPOINT, Arrays, Checkpoint
from sdc.config.analysis import MOST_SEEDS
from sdc.data.reading import TableLike, table_of
from sdc.events import STEP, emit
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.equations import every_cell
from sdc.feasible.witness_pool import require_at_risk
from sdc.intruder.guesses import Right
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.sharpness import AUTO_SECONDS, EndMethods, require_budget
from sdc.model.super_cell import SuperCell, SuperCellBounds, SuperCells, each, is_written
from sdc.model.table import Codes, Table
from sdc.paths import checked_path
from sdc.public import mixture
from sdc.public.attack import Attack, ReconstructionMethod, attack_on, guesses, public_tables
from sdc.public.check import read_all
from sdc.public.relation import relations_given
from sdc.risk.bounds_in_units import bounds_in_units
from sdc.risk.sharp import OnPart, SharpProgress, sharp_bounds
from sdc.run_format import MANIFEST, POSTERIOR, RELEASE
from sdc.stages.build import Say
from sdc.stages.resolved import Public, ResolvedInput, known_of
from sdc.storage.results import read_posteriors
from sdc.storage.run_folder import RunFolder, folder_digest
from sdc.version import deciding

BOUNDS = "bounds"
VERSION = 2  # of saved parts; raised like a stage's version
MAX_CELLS_BOUNDED = 1_000_000


def chosen_cells(table: Table, cells: str, small_count: int) -> Codes:
    """Return the at-risk cells or all cells, (n, variables); InputError as for `cell_bounds`."""
    if cells == "at-risk":
        return np.asarray(table.codes[require_at_risk(table, small_count)])
    if cells != "all":
        raise InputError(f"cells = {cells!r}; choose at-risk or all")
    if table.schema.cells > MAX_CELLS_BOUNDED:
        raise InputError(
            f"the full table has {table.schema.cells} cells, at most {MAX_CELLS_BOUNDED} are bounded at once; choose "
            "fewer variables, or the at-risk cells"
        )
    return every_cell(table.schema)


def super_cells(
    table: Table, known: Knowledge, cells: SuperCells, small_count: int, method: str | None, executor: Executor
) -> SuperCellBounds:
    """Return bounds of super-cells; InputError for others and as `chosen_cells`, ReleaseError as the method."""
    named = list[SuperCell]()
    for one in each(cells):
        if isinstance(one, str) and not is_written(one):
            named += SuperCell.of_cells(chosen_cells(table, one, small_count))
        else:
            named.append(SuperCell.of(one, table.schema))
    return super_cells_in_units(table, known, named, method or "auto", executor)


def bounded(
    source: ResolvedInput,
    known: Knowledge,
    cells: str,
    small_count: int,
    *,
    method: str,
    seconds: float | None,
    executor: Executor,
    say: Say,
) -> tuple[CellBounds, EndMethods | None]:
    """Return bounds of cells, and the method of each end if known.

    "auto" sharpens bounds for these seconds. Without seconds, a run's at-risk cells under its own release have the
    bounds of its sharp assessment, if any; others have quick bounds, or are sharpened within `AUTO_SECONDS`. Errors as
    `cell_bounds` and `sharp_bounds`; RunFolderError if the run was changed.
    """
    chosen = chosen_cells(source.table, cells, small_count)
    if method != "auto":
        return bounds_in_units(source.table, known, chosen, method, executor), None
    if seconds is not None:
        require_budget(seconds)
    else:
        is_own = cells == "at-risk" and known.release == source.released
        if is_own and (assessed := source.assessed(small_count)) is not None:
            return assessed
        if (quick := quick_bounds(source.table, known, chosen)) is not None:
            return quick, None
    return _sharpened(source, known, chosen, seconds, executor, say)


def _sharpened(
    source: ResolvedInput, known: Knowledge, cells: Codes, given: float | None, executor: Executor, say: Say
) -> tuple[CellBounds, EndMethods]:
    """Sharpen bounds, starting from a run's results under its own release.

    With a given budget, finished parts are saved until the end; the default is too short for that.
    """
    start, proof = source.start if known.release == source.released else (None, None)
    seconds = given or AUTO_SECONDS
    checkpoint = NO_CHECKPOINT if given is None else checkpoint_of(source, known, cells, seconds, say)
    if checkpoint.found:
        say(f"bounds: continues after {len(checkpoint.found)} saved parts")
    try:
        found = sharp_bounds(
            source.table,
            known,
            cells,
            seconds=seconds,
            start=start,
            proof=proof,
            executor=executor,
            kept=checkpoint.found,
            on_part=keeping(checkpoint),
        )
    except KeyboardInterrupt:
        if checkpoint.above is None:
            say(f"bounds: nothing is kept of {source.name}, interrupted")
        raise
    checkpoint.remove()
    ended = seconds if found.is_ended else None
    return found.bounds, found.by(ended)


def keeping(checkpoint: Checkpoint) -> OnPart:
    """Save each finished part and report progress."""

    def on_part(key: str, found: Arrays, by: SharpProgress) -> None:
        checkpoint.write(key, found)
        done = f"{by.parts_done:,} of {by.parts:,} units, {by.sharp:,} of {by.cells:,} cells sharp"
        emit(STEP, f"sharp bounds: round {by.round} of at most {by.rounds}, {by.step}: {done}")

    return on_part


def checkpoint_of(source: ResolvedInput, known: Knowledge, cells: Codes, seconds: float, say: Say) -> Checkpoint:
    """Open the checkpoint, named by all inputs; a table without a config or run has none."""
    if source.build is None:
        return NO_CHECKPOINT
    folder = source.build.folder
    # with the results of a run
    shown = {name: one.output for name, one in folder.records().items()} if source.released is not None else {}
    cells_digest = hashlib.sha256(np.ascontiguousarray(cells).tobytes()).hexdigest()
    public = [known.release.frontier, known.zeros.patterns, [fact.identity for fact in known.facts]]
    of = [source.table.digest, public, VERSION, deciding(), cells_digest, seconds, shown]
    return Checkpoint.open(folder.parts(BOUNDS), digest_of(of), say)


def attack(
    release: str | PathLike[str] | Public,
    *,
    truth: str | Path | TableLike | None = None,
    seeds: int = 3,
    relations: str | Path | Sequence[Mapping[str, Any]] | None = None,
    small_count: int | None = None,
    executor: Executor = IN_PROCESS,
) -> Attack:
    """Guess each cell from published tables, by a method not ours.

    Parameters
    ----------
    release : path, published folder, list, Release, Knowledge or found release
        A published folder or file of tables; or what is public of the table `truth`.
    truth : path, Table or data frame, optional
        Of a folder the run that published it, if `right` is to say what is guessed right. Else the table, which is
        needed.
    seeds : int, default 3
        Number of starts of the reconstruction, 0 to 100; it needs sdc-tables[attack]. 0: the independence model alone.
    relations : path or list of dict, optional
        How tables of a folder relate: sections as `earlier` of a config has them, or a YAML file of them.
    small_count : int, optional
        Cells of 1 up to this count are at risk; default 2. A run has its own.
    executor : Executor
        Where the units of work run.

    Returns
    -------
    Attack
        One row a cell with its guesses; `right` says which are right.

    Raises
    ------
    ConfigError
        Where the reconstruction is not installed, and where the run is not the folder's.
    InputError
        Where a table cannot be read, or nothing can be guessed of it.

    Notes
    -----
    The cost is that of the fits, one for each start.

    References
    ----------
    Dinur and Nissim (2003); Garfinkel, Abowd, Martindale (2018).

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> guessed = sdc.attack(found, truth="czech_auto_workers.csv", seeds=0)
    >>> guessed
    Guesses of 64 cells by independence of all variables, from one-way tables alone
    """
    if not isinstance(release, str | PathLike) and truth is not None:
        truth = table_of(truth)
    release = Path(release) if isinstance(release, PathLike) else release
    method = _reconstruction(seeds)
    if isinstance(release, str | Path):
        published = checked_path(release)
        if isinstance(truth, Table) or small_count is not None:
            raise InputError(
                f"{release} is a published folder or file, whose truth is the run that published it, with its "
                "small_count; name that run's folder as truth, or attack public facts of a table"
            )
        right = None if truth is None else judged_by(checked_path(truth), published)
        found = attack_on(read_all([release], relations_given(relations)), range(seeds), method)
        return found if right is None else replace(found, right=right(found)).named_by(found.schema)
    if not isinstance(truth, Table) or relations is not None:
        raise InputError("public facts do not contain the table; give the table as truth, and no relations")
    known = known_of(truth, release)
    found = attack_on_public(truth, known, seeds)
    small = 2 if small_count is None else small_count
    own = guesses(found, truth, small)
    bounds = bounds_in_units(truth, known, chosen_cells(truth, "at-risk", small), "auto", executor)
    return replace(found, right=Right(own, bounds, small).named_by(truth.schema)).named_by(found.schema)


def attack_on_public(table: Table, known: Knowledge, seeds: int) -> Attack:
    """Attack all public facts of a table; InputError if only the total is public."""
    method, tables = _reconstruction(seeds), [*public_tables(table, known)]
    if not tables:
        raise InputError("only the total is public, so nothing can be guessed; name a release with sub-tables")
    return attack_on(tables, range(seeds), method)


def _reconstruction(seeds: int) -> ReconstructionMethod:
    if not 0 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds = {seeds}; give the number of starts of the reconstruction, from 0 to {MOST_SEEDS}")
    method = mixture.Mixture()
    if seeds:
        method.require()
    return method


def judged_by(run: Path, published: Path) -> Callable[[Attack], Right]:
    """Open the run that published a folder; return the function that finds the correct guesses.

    ConfigError if it is not a run, published another folder, or its config excludes attacks; RunFolderError if it is
    incomplete or changed.
    """
    if not (run / MANIFEST).is_file():
        raise ConfigError(f"{run} is not a run folder; name the run that published {published}")
    record = RunFolder(run).records().get(RELEASE)
    if record is None or folder_digest(published) != record.output:
        raise ConfigError(f"{published} is not what {run} has published; name that run's release, or a copy of it")
    source = ResolvedInput.open(str(run), features=("attack",))
    table, risk, (bounds, _) = source.table, source.config.risk, source.start
    if bounds is None:
        raise RunFolderError(f"{run} has no bounds of its release; run the build again")
    laws = read_posteriors(run / POSTERIOR) if source.config.posterior else ()

    def right(found: Attack) -> Right:
        own = guesses(found, table, risk.small_count)
        return Right(own, bounds, risk.small_count, risk.min_width, laws).named_by(table.schema)

    return right
