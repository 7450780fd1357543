"""Synthetic tables: draws from the posterior of the full table, from published marginals alone ([DFT] 2 and 6)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sdc.config.earlier import EarlierConfig
from sdc.intruder.chains import MAX_CELLS, walked
from sdc.intruder.draws import Draws
from sdc.intruder.laws import RELEASED, law_of
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.graph import decompose
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, beside, named_cells
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.public.check import all_related as related_tables
from sdc.public.check import joined_table, levelled_tables, read_all
from sdc.public.published import Published
from sdc.public.relation import Related
from sdc.public.system import InconsistentError, System, require_agreement
from sdc.storage.parquet import write_csv

INDEPENDENT = "independent draw from the exact posterior"
BY_CHAIN = "draw of a Markov chain, which is not proven to reach every table that agrees"


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic(Named):
    """One synthetic table. It agrees with every published count exactly, and was never near the confidential table.

    table      its cells with records; `seed` gives the same again
    published  how many published tables it agrees with
    method     how it was drawn
    """

    table: Table
    seed: int
    published: int
    method: str

    @property
    def headline(self) -> str:
        return f"Synthetic table of {self.table.total:,} records in {len(self.table):,} cells: {self.method}"

    @property
    def facts(self) -> dict[str, Any]:
        """For documents."""
        return {
            "synthetic": True,
            "seed": self.seed,
            "records": self.table.total,
            "cells": len(self.table),
            "published": self.published,
            "method": self.method,
        }

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells by names, with their counts."""
        return beside(named_cells(self.table.codes, schema), {"count": self.table.counts.tolist()})

    def records(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """A row a record, by names, in the order of the cells."""
        return named_cells(np.repeat(self.table.codes, self.table.counts, axis=0), schema)


def synthesize(
    sources: Sequence[str | Path], *, draws: int = 1, seed: int = 0, relations: Sequence[EarlierConfig] = ()
) -> tuple[Synthetic, ...]:
    """Draw synthetic tables from published marginals and nothing else, by the law `released` of the full table.

    Parameters
    ----------
    sources : list of str or path
        Published folders or files of tables, all of the same records.
    draws : int, default 1
        The number of tables; table k has the seed `seed` + k.
    seed : int, default 0
        Of the first table.
    relations : list
        How the tables relate, as for `check`.

    Returns
    -------
    tuple of Synthetic
        The tables. Each agrees with every published count.

    Raises
    ------
    InputError
        For fewer than 1 draw or a negative seed; where a table is suppressed or rounded, of other records, or
        contradicts another; where the tables have too many cells; or where no table that agrees is found.

    Notes
    -----
    Where the marginals are decomposable the draws are independent and exact. Elsewhere a first table that agrees is
    found by integer programming, and a Markov chain walks from it. Each is compared with every published count.

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> len(sdc.synthesize([sdc.publish(found, "open").folder], draws=2))
    2
    """
    if draws < 1:
        raise InputError(f"draws = {draws}; give at least 1")
    if seed < 0:
        raise InputError(f"seed = {seed}; give a whole number of at least 0")
    tables = read_all(sources, relations)
    for published, _ in tables:
        _require_exact(published)
    schema, known = related_tables(tables)
    if foreign := next((one for one in known if one.where), None):
        raise InputError(f"{foreign.published.label} has only some of the records; leave it out")
    levelled, elements = levelled_tables(schema, known)
    release = Release.of(elements)
    start = _first(schema, levelled, known, elements, release)
    if not start.total:
        raise InputError("the tables have no records, so nothing can be drawn; give tables with counts above 0")
    knowledge = Knowledge.of(start, release, NO_ZEROS, NO_FACTS)
    is_exact = decompose(release, len(levelled)) is not None
    if not is_exact and levelled.cells > MAX_CELLS:
        raise InputError(
            f"the tables have {levelled.cells:,} cells together, and a chain takes at most {MAX_CELLS:,}; give "
            "fewer variables, or a decomposable release"
        )
    try:
        exact = Draws(start, knowledge) if is_exact else None
    except ReleaseError as error:
        raise InputError(str(error)) from error
    found = list[Synthetic]()
    for number in range(seed, seed + draws):
        drawn = walked(start, knowledge, law_of(RELEASED, levelled), number) if exact is None else exact.table(number)
        own = Table.of(schema, drawn.codes, drawn.counts)  # levels have no codes of their own
        _require_agreement(own, known)
        method = BY_CHAIN if exact is None else INDEPENDENT
        found.append(Synthetic(own, number, len(known), method).named_by(schema))
    return tuple(found)


def _require_exact(published: Published) -> None:
    if published.contradiction:
        raise InputError(f"{published.contradiction}; correct it")
    if not published.is_exact:
        kind = "rounded" if published.base else "suppressed"
        raise InputError(
            f"{published.label} of {published.source} is {kind}; synthetic tables are drawn from exact marginals "
            "alone; leave it out"
        )


def _first(
    schema: Schema, levelled: Schema, known: Sequence[Related], elements: Sequence[int], release: Release
) -> Table:
    """A table that agrees with all; InputError where there is none, or none was found."""
    try:
        require_agreement(schema, list(known))
        if (joined := joined_table(levelled, known, elements, release)) is not None:
            return joined
        system = System.of(schema, list(known))
        system.require_bounded()
        return Table.of(levelled, system.cells, system.solution())
    except InconsistentError as error:
        raise InputError(f"the tables contradict each other: {error}") from error


def _require_agreement(drawn: Table, known: Sequence[Related]) -> None:
    """RuntimeError where a count differs from a published one; a fault of the draw that nothing lets out."""
    for one in known:
        published = one.published.table
        own = Table.of(published.schema, one.codes(drawn.codes), drawn.counts)
        if own != published:
            raise RuntimeError(f"a synthetic table differs from {one.published.label}; this is a bug in sdc: report it")


def write_synthetic(
    drawn: Iterable[Synthetic], folder: Path, *, records: bool = False, parquet: bool = False
) -> dict[str, Synthetic]:
    """Writes each table into a new folder, with a README that says what they are; returns them by their files' names.

    Every file name begins with `synthetic`; Parquet files say it in their metadata too. ConfigError where the folder
    has files already, or cannot be written.
    """
    if os.path.isdir(folder) and os.listdir(folder):
        raise ConfigError(f"--out {folder} has files already; name a new folder")
    found = dict[str, Synthetic]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in drawn:
            name = f"synthetic_{'records' if records else 'counts'}_{one.seed}{'.parquet' if parquet else '.csv'}"
            columns = one.records(one.names) if records else one.columns(one.names)
            if parquet:
                label = {"synthetic": "true", "seed": str(one.seed), "method": one.method}
                pq.write_table(pa.table(dict(columns)).replace_schema_metadata(label), folder / name)
            else:
                write_csv(folder / name, columns)
            found[name] = one
        (folder / "README.md").write_text(_about(found), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {folder} cannot be written: {error.strerror}; name another folder") from error
    return found


def _about(files: Mapping[str, Synthetic]) -> str:
    lines = [
        "# Synthetic data",
        "",
        "These tables are synthetic. They were drawn at random from all tables that agree with the published counts.",
        "No confidential record was read. They agree with every published count exactly. Every other count is a guess:",
        "do not use it as an estimate of a single cell.",
        "",
        "| file | seed | records | cells | published tables | method |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in files.items():
        lines.append(f"| {name} | {one.seed} | {one.table.total} | {len(one.table)} | {one.published} | {one.method} |")
    return "\n".join(lines) + "\n"
