"""The critical widths of the sub-tables."""

from __future__ import annotations

from pathlib import Path

from sdc.executor import Executor
from sdc.model.errors import InputError
from sdc.stages.build import Build
from sdc.stages.stage import Say, Stage
from sdc.stages.table import TABLE
from sdc.storage.parquet import PartedTable, open_parts, place_of
from sdc.storage.results import write_widths
from sdc.storage.run_folder import folder_digest


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    table = build.made.table
    memory, apart = build.needs.sweep(table)
    parts = _parts_of(build) if apart else None
    if parts is not None:
        say(f"widths: the table does not fit a worker, which reads it in parts, {len(parts.place.parts)} of them")
    widths = build.settings(executor).widths(table, memory, parts)
    say(f"widths: {len(widths)} sub-tables listed, {widths.visited} visited")
    if cut := widths.cut(build.listing.floor):
        say(f"widths: {cut}")
    write_widths(widths, table.schema, into)


def _parts_of(build: Build) -> PartedTable:
    """The table's parts as its stage has written them, and as workers must find them."""
    folder = build.folder.stage(TABLE.name)
    place = place_of(folder)
    if folder_digest(folder) != build.folder.records()[TABLE.name].output:
        raise InputError(f"{folder} was changed since it was written; run again, and the table is counted anew")
    return open_parts(place)


WIDTHS = Stage(
    "widths",
    "critical widths of the sub-tables",
    needs=(TABLE.name,),
    sections=lambda build: [build.config.risk.small_count, build.listing.floor, build.listing.most],
    make=_make,
)
