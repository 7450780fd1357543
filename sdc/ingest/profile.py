"""A first config from a data file: what its columns are, which make variables and how, and what may be structural."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np

from sdc.config.table import CsvConfig, RecodeConfig, TableConfig
from sdc.ingest.reading import COUNT, count_records
from sdc.ingest.records import apart, batches, layouts_of
from sdc.ingest.source import Source, SourcePart
from sdc.ingest.vocabulary import kind_of, namer
from sdc.model.errors import InputError
from sdc.model.table import Table

MOST_VARIABLES = 12  # switched on: the full table stays workable
MOST_CATEGORIES = 60  # of a variable that is used as it is stored
MOST_VALUES = 100_000  # distinct ones that are counted
FEW_NUMBERS = 20  # distinct ones that need no bins
KEPT_GROUPS = 9
BINS = 5
LEAST_EXPECTED = 5.0
MOST_EMPTY = 100


@dataclass
class Column:
    """What was met in a column: its kind, values with their numbers of rows, and rows without a value."""

    name: str
    kind: str
    values: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    is_cut: bool = False

    @property
    def rows(self) -> int:
        return self.values.total()

    @property
    def numbers(self) -> list[float] | None:
        """The values as numbers, ascending, where all of them are."""
        try:
            return sorted(float(value) for value in self.values)
        except ValueError:
            return None


@dataclass(frozen=True)
class Proposal:
    """A variable that a column may make.

    why     it should not be switched on; None where it should
    recode  from its values to categories, None where it is used as it is stored
    """

    column: Column
    why: str | None = None
    recode: dict[str, Any] | None = None


def columns_of(source: Source) -> list[Column]:
    """Every column but that of counts, each value with its number of rows; one pass over the parts."""
    layouts = layouts_of(source.parts, CsvConfig())
    kinds = dict(layouts[0].columns)
    found = {}
    for name, kind in kinds.items():
        if name != COUNT:
            try:
                found[name] = Column(name, kind_of(kind, name))
            except InputError:
                continue  # a nested type, which makes no categories
    if not found:
        raise InputError(f"{source.path} has no column that makes a variable; give a table of microdata")
    for part in source.parts:
        for name, (values, missing, is_cut) in apart(_met, part, list(found)).items():
            column = found[name]
            column.values.update(values)
            column.missing += missing
            column.is_cut |= is_cut or len(column.values) > MOST_VALUES
    if not any(column.rows for column in found.values()):
        raise InputError(f"{source.path} has no records; give a table with at least one")
    return list(found.values())


def _met(part: SourcePart, names: Sequence[str]) -> dict[str, tuple[Counter[str], int, bool]]:
    met = {name: (Counter[str](), 0, False) for name in names}
    for batch in batches(part, list(names)):
        for name in names:
            counts, missing, is_cut = met[name]
            column = batch.column(name)
            missing += column.null_count
            if not is_cut:
                name_of = namer(column.type, name)
                for pair in column.value_counts().to_pylist():
                    if pair["values"] is not None:
                        counts[name_of(pair["values"])] += pair["counts"]
                is_cut = len(counts) > MOST_VALUES
            missing += counts.pop("", 0)
            met[name] = counts, missing, is_cut
    return met


def proposals(columns: Sequence[Column]) -> list[Proposal]:
    """What each column may make; at most 12 are switched on, in the order of the file."""
    found, on = [], 0
    for column in columns:
        proposal = _proposal(column)
        if proposal.why is None and on == MOST_VARIABLES:
            proposal = Proposal(column, f"beyond the first {MOST_VARIABLES}; a table of fewer variables releases more")
        on += proposal.why is None
        found.append(proposal)
    if not on:
        raise InputError("no column makes a variable: each has one value, or as good as a value for each record")
    return found


def _proposal(column: Column) -> Proposal:
    distinct, numbers = len(column.values), column.numbers
    if is_weight(column):
        return Proposal(column, "by its name a survey weight")
    if column.is_cut:
        return Proposal(column, f"more than {MOST_VALUES:,} values: an identifier, or a number to be binned by hand")
    if distinct < 2 and not (distinct and column.missing):
        return Proposal(column, "one value for all records")
    if numbers is None or distinct <= FEW_NUMBERS:
        if distinct > column.rows / 2 and distinct > FEW_NUMBERS:
            return Proposal(column, f"{distinct:,} values in {column.rows:,} records: an identifier")
        return Proposal(column, recode=_groups(column) if distinct > MOST_CATEGORIES else None)
    if distinct == column.rows and all(number == int(number) for number in numbers):
        return Proposal(column, f"{distinct:,} whole numbers, each once: an identifier")
    return Proposal(column, recode=_bins(column))


def is_weight(column: Column) -> bool:
    """Whether numbers are called as survey weights are."""
    return column.kind == "number" and _WEIGHT.search(column.name.lower()) is not None


def _groups(column: Column) -> dict[str, Any]:
    """The most frequent values by themselves, and all others as one."""
    kept = sorted(sorted(column.values), key=lambda value: -column.values[value])[:KEPT_GROUPS]
    return {"groups": {**{value: [value] for value in kept}, _unused("other", column): "*"}}


def _unused(name: str, column: Column) -> str:
    while name in column.values:
        name += "_"
    return name


def _bins(column: Column) -> dict[str, Any]:
    """Some five bins of about as many records, at round edges and open at the ends; two at least."""
    by_value = sorted((float(value), rows) for value, rows in column.values.items())
    places = np.cumsum([rows for _, rows in by_value]) / column.rows
    cuts = [by_value[int(np.searchsorted(places, q / BINS))][0] for q in range(1, BINS)]
    low, high = by_value[0][0], by_value[-1][0]
    edges = sorted({edge for cut in cuts if low < (edge := _round(cut, high - low)) <= high})
    if not edges:
        # as good as one value for most: those that have it, and those that have more
        edges = [next(value for value, _ in by_value if value > cuts[-1])] if cuts[-1] < high else [high]
    is_whole = all(value == int(value) for value, _ in by_value)
    pairs = pairwise([None, *edges, None])
    return {"bins": {_label(start, below, is_whole): [start, below] for start, below in pairs}}


def _round(value: float, span: float) -> float:
    """To a step of 1, 2 or 5 times a power of ten, about a fortieth of the span."""
    power = 10.0 ** floor(log10(span / 40))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / 40)
    return float(f"{round(value / step) * step:.12g}")


def _label(start: float | None, below: float | None, is_whole: bool) -> str:
    if start is None:
        return f"under {below:g}"
    if below is None:
        return f"{start:g} and over"
    return f"{start:g} to {below - 1:g}" if is_whole and below - 1 > start else f"{start:g} to below {below:g}"


def settings_of(path: str, found: Sequence[Proposal]) -> TableConfig:
    """The table that the proposals make."""
    on = [p for p in found if p.why is None]
    return TableConfig(
        path=path,
        variables=tuple(p.column.name for p in on),
        recodes={p.column.name: RecodeConfig.model_validate(p.recode) for p in on if p.recode},
        missing={p.column.name: _unused("missing", p.column) for p in on if p.column.missing},
    )


def _as_stored(path: str, found: Sequence[Proposal]) -> TableConfig:
    """The variables that are switched on and have few values, without a recode: bins would hide what is nested."""
    on = [p.column for p in found if p.why is None]
    few = [column for column in on if len(column.values) <= MOST_CATEGORIES] or on[:1]
    missing = {column.name: _unused("missing", column) for column in few if column.missing}
    return TableConfig(path=path, variables=tuple(c.name for c in few), missing=missing)


def empty_cells(table: Table) -> Iterator[tuple[dict[str, str], float]]:
    """Two-way cells without a record, of which about so many would be expected were the variables independent."""
    one_way = table.one_way()
    for u, v in combinations(range(len(table.schema)), 2):
        two_way = table.marginal(1 << u | 1 << v)
        dense = np.zeros(two_way.schema.sizes, np.int64)
        dense[tuple(two_way.codes.T)] = two_way.counts
        expected = np.outer(one_way[u], one_way[v]) / table.total
        for i, j in np.argwhere((dense == 0) & (expected >= LEAST_EXPECTED)).tolist():
            yield two_way.schema.named((i, j)), float(expected[i, j])


def nested(table: Table) -> Iterator[tuple[str, str]]:
    """(coarse, fine) variables: every category of the fine one has records in one of the coarse one alone."""
    names, sizes = table.schema.names, table.schema.sizes
    for u, v in combinations(range(len(table.schema)), 2):
        codes = table.marginal(1 << u | 1 << v).codes
        for coarse, fine in ((0, 1), (1, 0)):
            c, f = (u, v)[coarse], (u, v)[fine]
            if 1 < sizes[c] < sizes[f] and len(codes) == len(np.unique(codes[:, fine])):
                yield names[c], names[f]


def written(source: Source, name: str) -> tuple[str, dict[str, Any]]:
    """The config as commented YAML, and the same in a document."""
    found = proposals(columns_of(source))
    table = count_records(source, settings_of(source.path, found)).table
    empty = sorted(empty_cells(table), key=lambda one: (-one[1], sorted(one[0].items())))
    levels = list(nested(count_records(source, _as_stored(source.path, found)).table))
    facts = {
        "records": table.total,
        "cells": table.schema.cells,
        "non_zero_cells": len(table),
        "variables": [_facts(p) for p in found],
        "empty_two_way_cells": [{"cell": cell, "expected": round(n, 1)} for cell, n in empty[:MOST_EMPTY]],
        "nested": [list(pair) for pair in levels],
    }
    return "\n".join(_lines(source.path, name, found, table, empty, levels)) + "\n", facts


def _facts(proposal: Proposal) -> dict[str, Any]:
    column = proposal.column
    return {
        "name": column.name,
        "type": column.kind,
        "values": len(column.values),
        "missing": column.missing,
        "used": proposal.why is None,
        "why_not": proposal.why,
        "recode": proposal.recode,
    }


def _lines(
    path: str,
    name: str,
    found: Sequence[Proposal],
    table: Table,
    empty: Sequence[tuple[dict[str, str], float]],
    levels: Sequence[tuple[str, str]],
) -> Iterator[str]:
    settings = settings_of(path, found)
    yield f"# A first config, made from {table.total:,} records. Confidential: it lists categories of the data."
    yield "# `sdc config --explain` says what every key is, `sdc plan` what a build would need, `sdc run` builds."
    yield f"name: {name}"
    yield "table:"
    yield f"  path: {_text(path)}"
    yield "  variables:"
    for p in found:
        about = f"{p.column.kind}, {len(p.column.values):,} values, {p.column.missing:,} missing"
        mark, reason = ("- ", "") if p.why is None else ("# - ", f"; left out: {p.why}")
        yield f"    {mark}{_text(p.column.name)}  # {about}{reason}"
    recoded = [p for p in found if p.why is None and p.recode]
    if recoded:
        yield "  recodes:  # suggested; choose those that readers know"
        yield from (f"    {_text(p.column.name)}: {json.dumps(p.recode, ensure_ascii=False)}" for p in recoded)
    if settings.missing:
        yield "  missing:  # a category for records without a value; without it they are refused"
        yield from (f"    {_text(name)}: {_text(category)}" for name, category in settings.missing.items())
    for coarse, fine in levels:
        named = _text(f"{fine}_levels")
        yield f"  # hierarchies: {{{named}: [{_text(coarse)}, {_text(fine)}]}}  # are they levels of one variable?"
    weights = [p.column.name for p in found if is_weight(p.column)]
    if weights:
        yield f"  # weight: {_text(weights[0])}  # is it one? rounded totals of it then go out beside the counts"
    at_risk = f"{len(table.at_risk(2)):,} of {len(table):,} cells"
    yield f"risk: {{small_count: 2, min_width: 3}}  # counts of 1 and 2 are at risk, {at_risk}"
    yield "release:"
    yield "  method: ordered"
    yield "  # require: [{all: 2}]      # sub-tables that users need; without it the search chooses"
    yield "  # conflicts: best_subset   # where they do not fit together"
    if empty:
        yield "# Combinations without a record, though more than five would be expected: those that nobody can have"
        yield "# (and everybody knows it) belong into a file of structural zeros, table.structural_zeros:"
        for cell, expected in empty[:MOST_EMPTY]:
            pattern = ", ".join(f"{_text(variable)}: {_text(category)}" for variable, category in cell.items())
            yield f"# - {{{pattern}}}  # about {expected:,.0f} expected"
        if len(empty) > MOST_EMPTY:
            yield f"# and {len(empty) - MOST_EMPTY:,} more"


def _text(value: str) -> str:
    """A text as JSON has it, which is YAML too; plain where nobody could take it for anything else."""
    is_plain = value.replace("_", "").isalpha() and value.isascii() and value.lower() not in _WORDS
    return value if is_plain else json.dumps(value, ensure_ascii=False)


_WEIGHT = re.compile(r"(^|[^a-z])([a-z]?weights?|[a-z]*wgt[a-z]?|wt)([^a-z]|$)")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def config_name(path: str) -> str:
    """A name for the builds, from that of the file; it stays in the agency."""
    stem = Path(path.rstrip("/")).name.partition(".")[0]
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in stem).lstrip("._-")[:64]
    return name or "build"
