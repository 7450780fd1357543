"""Bounds for a command: those that a run has, or sharper ones part by part, so that who is killed goes on."""

from __future__ import annotations

import hashlib

import numpy as np

from sdc.bounds.in_units import bounds_in_units
from sdc.bounds.super_cells import super_cells_in_units
from sdc.canonical import digest_of
from sdc.checkpoint import NOT_KEPT, Arrays, Checkpoint
from sdc.events import STEP, tell
from sdc.executor import Executor
from sdc.feasible.bank import require_at_risk
from sdc.feasible.equations import every_cell
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.sharpness import EndMethods
from sdc.model.super_cell import Asked, SuperCell, SuperCellBounds, each, is_written
from sdc.model.table import Codes, Table
from sdc.risk.sharp import METHODS, OnPart, SharpProgress, sharp_bounds
from sdc.stages.build import Say
from sdc.stages.subject import Subject
from sdc.version import deciding

BOUNDS = "bounds"
VERSION = 1  # of what is kept part by part: raised as that of a stage
MAX_CELLS_BOUNDED = 1_000_000


def chosen_cells(table: Table, cells: str, small_count: int) -> Codes:
    """(n, variables) the at-risk cells, or "all"; InputError as for `cell_bounds`."""
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


def chosen_super_cells(table: Table, cells: Asked, small_count: int) -> list[SuperCell]:
    """Those that are named; InputError for what is no super-cell of the table, and as `chosen_cells`."""
    found = list[SuperCell]()
    for one in each(cells):
        if isinstance(one, str) and not is_written(one):
            found += SuperCell.of_cells(chosen_cells(table, one, small_count))
        else:
            found.append(SuperCell.of(one, table.schema))
    return found


def super_cells(
    table: Table,
    known: Knowledge,
    cells: Asked,
    small_count: int,
    method: str | None,
    executor: Executor,
) -> SuperCellBounds:
    """Bounds of super-cells, as `chosen_super_cells` has them; errors as there, ReleaseError as the method."""
    asked = chosen_super_cells(table, cells, small_count)
    return super_cells_in_units(table, known, asked, method or "auto", executor)


def bounded(
    subject: Subject,
    known: Knowledge,
    cells: str,
    small_count: int,
    *,
    method: str,
    seconds: float | None,
    executor: Executor,
    say: Say,
) -> tuple[CellBounds, EndMethods | None]:
    """Bounds of cells as a command shows them, and by which methods the ends are where that is known.

    With seconds they are as sharp as these make them. Else those of a run's at-risk cells are what its sharp assessment
    has, where it has one; and where the release is the run's, bounds by "auto" have what its certificate shows.
    Errors as of `cell_bounds` and `sharp_bounds`; RunFolderError where the run was changed.
    """
    chosen = chosen_cells(subject.table, cells, small_count)
    if seconds is not None:
        return _sharpened(subject, known, chosen, seconds, executor, say)
    is_own = method == "auto" and known.release == subject.released
    if is_own and cells == "at-risk" and (assessed := subject.assessed(small_count)) is not None:
        return assessed
    found = bounds_in_units(subject.table, known, chosen, method, executor)
    return subject.certified(found, small_count) if is_own else found, None


def _sharpened(
    subject: Subject, known: Knowledge, cells: Codes, seconds: float, executor: Executor, say: Say
) -> tuple[CellBounds, EndMethods]:
    """Of a run from what it shows, where the release is the run's; parts are kept until all are done."""
    start, proof = subject.start if known.release == subject.released else (None, None)
    checkpoint = checkpoint_of(subject, known, cells, seconds, say)
    if checkpoint.above is None:
        say(f"bounds: nothing is kept of {subject.name}, a table alone: interrupted, all is to be done again")
    elif checkpoint.found:
        say(f"bounds: goes on after {len(checkpoint.found)} parts that were kept")
    found = sharp_bounds(
        subject.table,
        known,
        cells,
        seconds=seconds,
        start=start,
        proof=proof,
        executor=executor,
        kept=checkpoint.found,
        on_part=keeping(checkpoint),
    )
    checkpoint.remove()
    return found.bounds, EndMethods.named(METHODS, found.outer_by, found.inner_by)


def keeping(checkpoint: Checkpoint) -> OnPart:
    """Keeps each part that is done, and tells how far it is."""

    def on_part(key: str, found: Arrays, progress: SharpProgress) -> None:
        checkpoint.write(key, found)
        tell(STEP, describe_sharp(progress))

    return on_part


def describe_sharp(progress: SharpProgress) -> str:
    """One line for the progress of sharp bounds."""
    where = f"round {progress.round} of at most {progress.rounds}, {progress.step}"
    done = f"{progress.parts_done:,} of {progress.parts:,} units, {progress.sharp:,} of {progress.cells:,} cells sharp"
    return f"sharp bounds: {where}: {done}"


def checkpoint_of(subject: Subject, known: Knowledge, cells: Codes, seconds: float, say: Say) -> Checkpoint:
    """By all that the parts depend on; of a table alone none is kept."""
    folder = subject.folder
    if folder is None:
        return NOT_KEPT
    # of a run what it shows too
    shown = {name: one.output for name, one in folder.records().items()} if subject.released is not None else {}
    asked = hashlib.sha256(np.ascontiguousarray(cells).tobytes()).hexdigest()
    public = [known.release.frontier, known.zeros.patterns, [fact.identity for fact in known.facts]]
    of = [subject.table.digest, public, VERSION, deciding(), asked, seconds, shown]
    return Checkpoint.open(folder.parts(BOUNDS), digest_of(of), say)
