"""The table: checks of settings, and the stages that count it and find its critical widths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from sdc.config.build import BuildConfig
from sdc.config.release import ReleaseConfig
from sdc.config.table import FILES
from sdc.deadline import Deadline
from sdc.events import WARNING, emit
from sdc.intruder.decision import ReleaseRating, named_releases
from sdc.intruder.summary import laws_of
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, many
from sdc.model.extras import require_packages
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Table, missing_words
from sdc.model.totals import warnings_of
from sdc.model.weights import WeightRanges
from sdc.public.earlier import Provenance, check_publications
from sdc.public.mixture import Mixture
from sdc.publish.publication import Texts, require_formats, signing_key
from sdc.run_format import BAD_RECORDS, TABLE
from sdc.search.constraints import Constraints
from sdc.stages.assemble import SearchSettings
from sdc.stages.build import Build, Say, Work, plain
from sdc.storage.certificate import write_weights
from sdc.storage.known import write_known
from sdc.storage.parquet import open_parts, place_of, read_written_table, write_table
from sdc.storage.results import write_widths
from sdc.storage.run_folder import folder_digest, read_json, write_json
from sdc.storage.runs import last_finished
from sdc.utility.uniques import check_model, require_persons

CONSTRAINTS = "release.require, forbid and protect"


def check_labels(config: BuildConfig, schema: Schema) -> None:
    """Raise ConfigError for labels of missing variables or categories."""
    with naming("labels"):
        config.labels.labels.require(schema)


def check_before(build: Build) -> None:
    """Check what columns and config show before records are read.

    InputError if parts or earlier publications do not match their settings; ConfigError if settings name missing
    variables or need missing packages. Levels of earlier publications are checked later, with the table.
    """
    config = build.config
    if config.attack and config.attack.seeds:
        Mixture().require()
    if "xlsx" in config.publication.formats:
        require_packages("publication.formats: xlsx", "xlsxwriter")
    schema = build.schema
    check_publications(config)
    listed = {variable.name for variable in schema.variables if variable.categories != ("",)}
    with naming("labels"):
        config.labels.labels.of_categories(listed).require(schema)
    with naming(CONSTRAINTS):
        Constraints.of(schema, _unweighed(config.release))
    if not config.earlier and config.ledger is None:
        _check_variables(config, build.settings(origin=Provenance()), schema)


def _unweighed(release: ReleaseConfig) -> ReleaseConfig:
    """Drop cell weights: their categories are not known yet."""
    if isinstance(release.protect, str):
        return release
    protect = tuple(one.model_copy(update={"cost": None}) for one in release.protect)
    return release.model_copy(update={"protect": protect})


def check_names(build: Build, known: Knowledge, table: Table) -> None:
    """Raise ConfigError if settings do not fit the table, ReleaseError if a format does not."""
    settings, about = build.settings(), build.config.publication
    check_labels(build.config, known.schema)
    with naming(CONSTRAINTS):
        constraints = settings.constraints(known)
    _check_variables(build.config, settings, known.schema)
    if build.config.curve is not None and (decision := build.config.curve.decision) is not None:
        with naming("curve.decision"):
            ReleaseRating(table, decision, build.config.risk.small_count)
            named_releases(decision, table.schema)
    children = (st.parse(child, known.schema) for child in about.children)
    wanted = dict.fromkeys([*constraints.require, *(part.view for part in constraints.protect), *children])
    schema = known.schema
    shown = st.union(wanted) if constraints.only_required else st.full(len(schema)) & ~settings.origin.hides(schema)
    shown = st.of(v for v in st.members(shown) if constraints.allows(schema.levels.closed(1 << v)))
    require_formats(table, build.config.name, Texts(about, build.config.labels.labels), wanted, shown)


def _check_variables(config: BuildConfig, settings: SearchSettings, schema: Schema) -> None:
    """Raise ConfigError if settings name missing variables."""
    # results are dropped; only the errors matter
    with naming("release.demand"):
        settings.requests(schema)
    with naming("release.weights"):
        settings.weights(schema)
    with naming(f"release.annealing.start = {config.release.annealing.start!r}"):
        settings.start_graph(schema)
    with naming("risk.attribute_disclosure.sensitive"):
        settings.criteria.check(schema)
    signing_key(config.publication)
    with naming("publication.children"):
        for name in chain(*(child.split("*") for child in config.publication.children)):
            schema.index(name.strip())
    if (posterior := config.posterior) is not None:
        with naming(f"posterior.laws = {list(posterior.laws)!r}"):
            laws_of(posterior.laws, posterior.alpha, schema)
    if config.uniques is not None and (model := config.uniques.model) is not None:
        with naming(f"uniques.model = {model!r}"):
            check_model(model, schema)


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Prefix an input error with its setting, as a ConfigError."""
    try:
        yield
    except InputError as error:
        raise ConfigError(f"{setting}: {error}", error.detail) from error


NARROWEST = 10


def count(work: Work, into: Path) -> None:
    """Count the records, and write what is known before the release."""
    build, say = work.build, work.say
    counted = build.counted(work.executor)
    table, known, origin = build.with_earlier(counted)
    for source in origin.sources:
        say(f"table: published before, and judged together: {source}")
    # checked as soon as there is a schema, hours before the search
    build = replace(build, given=origin)
    check_names(build, known, table)
    if build.config.release.coarsens:
        table, known, origin = build.settings(work.executor).coarser(
            table, known, Deadline.of(build.config.release).halved
        )
        for sub_table, level in origin.tried:
            left = table.schema.sizes[table.schema.index(level)]
            say(f"table: {sub_table} may be recoded to {level}, with {left} categories")
        for sub_table in origin.left:
            say(f"table: interrupted before a recoding of {sub_table} was found")
    non_zero = f"{len(table)} non-zero of {table.schema.cells} cells"
    say(f"table: {table.total} records, {len(table.schema)} variables, {non_zero}")
    for words in missing_words(table):
        say(f"table: {words}")
    for (variable, kind), records in counted.set_aside.items():
        say(f"table: {records} records excluded: {variable}: {kind.value}")
    for variable, named in counted.unmet.items():
        say(
            f"table: no record has {len(named)} of the categories that the config names of {variable!r}; see "
            "the audit report"
        )
    for warning in warnings_of(counted.sums):
        emit(WARNING, warning)
    write_table(table, into, parts=build.config.table.partitions_of(len(table)))
    write_known(known, into, **origin.facts)
    if counted.weights is not None:
        WeightRanges.of(table, counted.weights).require_several(build.config.table.weight or "")
        if build.config.uniques is not None and build.config.uniques.fraction is None:
            with naming("uniques"):
                require_persons(table, counted.weights)
        write_weights(counted.weights, into)
    write_json(into / BAD_RECORDS, counted.facts)


def warn_of_loss(build: Build, folder: Path, say: Say) -> None:
    """Warn if there are a fifth fewer records than in the last finished run of the name: a part may be missing."""
    last = last_finished(build.folder.path.parent, build.folder.path.name)
    if last is None or not (last.stage(TABLE) / BAD_RECORDS).is_file():
        return
    records, before = (read_json(of / BAD_RECORDS)["records"] for of in (folder, last.stage(TABLE)))
    if 5 * records <= 4 * before:
        emit(
            WARNING,
            f"warning: {records} records, {100 * (1 - records / before):.0f} % less than the {before} of the last "
            f"finished run, {last.path}; if a part is missing, stop and set table.expect",
        )


def table_settings(build: Build) -> list[Any]:
    """Return the settings of the table, with those of recoding if the config has it."""
    release, risk = build.config.release, build.config.risk
    coarsened = [plain(release), plain(risk)] if release.coarsens else ()
    readers = build.source.readers  # only these kinds, so that other keys do not change
    return [build.config.table.recorded(exclude=FILES), *coarsened, *([readers] if readers else [])]


def sweep(work: Work, into: Path) -> None:
    """Find the critical widths."""
    build, say = work.build, work.say
    table = build.made.table
    memory, apart = build.needs.sweep(table)
    folder = build.folder.stage(TABLE)
    parts = open_parts(place_of(folder)) if apart else None
    if parts is not None:
        if folder_digest(folder) != build.folder.records()[TABLE].output:  # workers must find it as it is now
            raise InputError(f"{folder} was changed since it was written; run again to count the table")
        say(f"widths: the table does not fit a worker, so it is read in {many(len(parts.place.parts), 'part')}")
    widths = build.settings(work.executor).widths(table, memory, parts)
    say(f"widths: {many(len(widths), 'sub-table')} listed, {widths.visited} visited")
    if cut := widths.cut(build.listing.floor):
        say(f"widths: {cut}")
    write_widths(widths, table.schema, into)


def require_at_risk(build: Build, folder: Path, say: Say) -> None:
    """Raise InputError if no cell is at risk, since widths then have no meaning."""
    warn_of_loss(build, folder, say)
    small_count = build.criteria.small_count
    if not _at_risk_cells(folder, small_count):
        raise InputError(
            f"no cell of the table has from 1 to {small_count} records, so none is at risk and there is nothing "
            "to sweep; raise risk.small_count, or build the release: sdc run"
        )


def _at_risk_cells(folder: Path, small_count: int) -> int:
    if (parts := open_parts(place_of(folder))).has_unknown:
        return len(read_written_table(folder).at_risk(small_count))
    return sum(int((counts <= small_count).sum()) for counts in parts.counts())


def sweep_facts(build: Build) -> dict[str, Any]:
    """Return the result of a finished sweep: sizes, and the smallest critical widths."""
    folder, widths, small_count = build.folder.stage(TABLE), build.made.widths, build.criteria.small_count
    table, least = open_parts(place_of(folder)), build.criteria.floor
    last = slice(None, -NARROWEST - 1, -1)
    narrowest = zip(widths.sub_tables[last].tolist(), widths.widths[last].tolist(), strict=True)
    return {
        "run_folder": str(build.folder.path),
        "records": table.total,
        "variables": len(table.schema),
        "all_sub_tables": Release.of([st.full(len(table.schema))]).sub_tables_with_total(table.schema),
        "cells": len(table),
        "small_count": small_count,
        "at_risk_cells": _at_risk_cells(folder, small_count),
        "floor": widths.floor,
        "cut": widths.cut(build.listing.floor) or None,
        "sub_tables": len(widths),
        "visited": widths.visited,
        "min_width": least,
        "reaching": widths.number_reaching(least) if widths.has_all(least) else None,  # otherwise some are not listed
        "narrowest": [{"sub_table": st.names(t, table.schema), "critical_width": width} for t, width in narrowest],
    }


def sweep_lines(facts: dict[str, Any]) -> Sequence[str]:
    named = [("*".join(one["sub_table"]) or "(total)", one["critical_width"]) for one in facts["narrowest"]]
    reaching = f"min width     {facts['reaching']} of them reach min_width = {facts['min_width']}"
    listed = f", those of critical width {facts['floor']} or more" if facts["floor"] else ""
    cut = [] if facts["cut"] is None else [f"              {facts['cut']}"]
    return [
        f"table         {facts['records']:,} records of {facts['variables']} variables in {facts['cells']:,} cells, "
        f"{facts['at_risk_cells']:,} of them at risk: at most {many(facts['small_count'], 'record')}",
        f"sub-tables    {facts['sub_tables']:,} of {facts['all_sub_tables']:,} listed{listed}; "
        f"{facts['visited']:,} visited",
        *cut,
        *([] if facts["reaching"] is None else [reaching]),
        f"narrowest     {'critical_width  sub_table' if named else 'none is listed'}",
        *(f"              {width:14,}  {name}" for name, width in named),
        f"run folder    {facts['run_folder']}",
    ]
