"""The table: records counted, and what is known of them before anything is released."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sdc.config.table import FILES
from sdc.events import WARNING, tell
from sdc.executor import Executor
from sdc.model.totals import warnings_of
from sdc.model.weights import WeightRanges
from sdc.run_format import BAD_RECORDS
from sdc.search.deadline import Deadline
from sdc.stages.build import Build
from sdc.stages.checks import check_names, fault_of
from sdc.stages.stage import Say, Stage, plain
from sdc.storage.known import write_known
from sdc.storage.parquet import write_table
from sdc.storage.run_folder import read_json, write_json
from sdc.storage.runs import last_finished
from sdc.storage.weighted import write_weights
from sdc.utility.uniques import require_persons


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    for source in origin.sources:
        say(f"table: published before, and judged together with all else: {source}")
    # as soon as there is a schema, though only the search will use them: hours earlier
    build = replace(build, given=origin)
    check_names(build, known, table)
    if build.config.release.coarsens:
        table, known, origin = build.settings(executor).coarser(table, known, Deadline.of(build.config.release).halved)
        for sub_table, level in origin.tried:
            left = table.schema.sizes[table.schema.index(level)]
            say(f"table: {sub_table} may go out by {level}, of {left} categories")
        for sub_table in origin.left:
            say(f"table: told to end before it was found which categories of {sub_table} to merge")
    non_zero = f"{len(table)} non-zero of {table.schema.cells} cells"
    say(f"table: {table.total} records, {len(table.schema)} variables, {non_zero}")
    for (variable, fault), records in counted.set_aside.items():
        say(f"table: {records} records set aside: {variable}: {fault.value}")
    for variable, named in counted.unmet.items():
        say(f"table: of what the config names of {variable!r} no record has {len(named)}; the audit report lists them")
    for warning in warnings_of(counted.sums):
        say(warning)
        tell(WARNING, warning)
    write_table(table, into, parts=build.config.table.partitions_of(len(table)))
    write_known(known, into, **origin.facts)
    if counted.weights is not None:
        WeightRanges.of(table, counted.weights).require_several(build.config.table.weight or "")
        if build.config.uniques is not None and build.config.uniques.fraction is None:
            with fault_of("uniques"):
                require_persons(table, counted.weights)
        write_weights(counted.weights, into)
    write_json(into / BAD_RECORDS, counted.facts)


def _warn_of_loss(build: Build, folder: Path, say: Say) -> None:
    """Says where there are a fifth fewer records than in the last finished run of that name: a part may be missing."""
    last = last_finished(build.folder)
    if last is None or not (last.stage(TABLE.name) / BAD_RECORDS).is_file():
        return
    records, before = (read_json(of / BAD_RECORDS)["records"] for of in (folder, last.stage(TABLE.name)))
    if 5 * records <= 4 * before:
        warning = (
            f"warning: {records} records, {100 * (1 - records / before):.0f} % less than the {before} of the last "
            f"finished run, {last.path}; if a part is missing, stop, and say in table.expect what must be there"
        )
        say(warning)
        tell(WARNING, warning)


def _settings(build: Build) -> list[Any]:
    """What the table depends on, with what says which levels it gets for what may be coarsened."""
    release, risk = build.config.release, build.config.risk
    coarsened = [release.model_dump(mode="json"), plain(risk)] if release.coarsens else ()
    return [build.config.table.model_dump(mode="json", exclude=FILES), *coarsened]


TABLE = Stage(
    "table",
    "counts the records",
    needs=(),
    sections=_settings,
    make=_make,
    enter=_warn_of_loss,
    version=2,
)
