"""A first config from a data file: its columns, possible variables and recodes, and likely structural zeros."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from sdc.config.table import STATISTICAL, CsvConfig, RecodeConfig, TableConfig
from sdc.data.columns import FEW_NUMBERS, MOST_CATEGORIES, MOST_VALUES, Column, columns_of
from sdc.data.hierarchies import nested
from sdc.data.reader import READER
from sdc.data.reading import COUNT, INDEX, count_records, looks_like_counts
from sdc.data.reading import settings_of as table_settings
from sdc.data.records import reader_of
from sdc.data.source import Source
from sdc.data.statistical import labels as value_labels
from sdc.data.structural_zeros import empty_cells
from sdc.data.text import guessed
from sdc.model.alike import alikes
from sdc.model.errors import InputError
from sdc.model.schema import is_plain
from sdc.model.table import Table
from sdc.model.totals import is_usual, named_sums, sum_categories

MOST_VARIABLES = 12  # switched on: the full table stays manageable
MOST_GROUPS = 9
BINS = 5
MOST_EMPTY = 100
LITTLE_MISSING = (0.05, 0.2)  # shares of records; a lower one hardly matters
MOST_MISSING = 0.5


@dataclass(frozen=True)
class Proposal:
    """A variable proposed for a column.

    why     the reason to leave it off; None if it is switched on
    recode  from values to categories, None if it is used as stored
    unsure  whether its numbers may be codes (the default) or amounts
    """

    column: Column
    why: str | None = None
    recode: dict[str, Any] | None = None
    unsure: bool = False

    @property
    def use(self) -> tuple[int, int]:
        """A sort key, lower for more useful variables: few missing values, and labels before binned numbers."""
        missing = self.column.missing / (self.column.rows + self.column.missing)
        is_text, is_stored = self.column.numbers is None, self.recode is None
        return sum(missing > share for share in LITTLE_MISSING), 3 - 2 * is_stored - is_text


def csv_of(source: Source, given: Mapping[str, Any]) -> CsvConfig:
    """The format of text files: as given, else guessed from the first part; InputError for invalid settings."""
    first = source.parts[0]
    written_as = READER.run(guessed, first, dict(given)) if first.is_text else given
    csv = table_settings(source.path, {"csv": written_as}).csv
    if not first.is_text or "decimal" in given or csv.delimiter == ",":
        return csv
    commas = csv.model_copy(update={"decimal": ","})
    with_commas = [one for one in columns_of(source, commas) if any("," in value for value in one.values)]
    return commas if any(column.numbers is not None for column in with_commas) else csv


IsAmount: TypeAlias = Callable[[Column], bool]
"""Asks whether the numbers of a column are amounts, if nothing else shows it."""


def never_amounts(column: Column) -> bool:
    """The default answer: binned codes would combine unrelated categories."""
    return False


def proposals(columns: Sequence[Column], is_amount: IsAmount = never_amounts) -> list[Proposal]:
    """The proposals in the order of the file; the 12 most useful ones are switched on."""
    twins = alikes(column.name for column in columns)
    found = [
        Proposal(c, f"alike the column {twins[c.name]!a}; rename one") if c.name in twins else _proposal(c)
        for c in columns
    ]
    possible = [proposal for proposal in found if proposal.why is None]
    if not possible:
        raise InputError("no column makes a variable: each has one value, or as good as a value for each record")
    chosen = {proposal.column.name for proposal in sorted(possible, key=lambda one: one.use)[:MOST_VARIABLES]}
    return [_settled(proposal, proposal.column.name in chosen, is_amount) for proposal in found]


def _settled(proposal: Proposal, is_chosen: bool, is_amount: IsAmount) -> Proposal:
    column = proposal.column
    if proposal.why is None and not is_chosen:
        return Proposal(
            column,
            f"beyond the first {MOST_VARIABLES} by use, few missing values and labels before numbers; a table of fewer "
            "variables releases more",
        )
    if proposal.unsure and is_amount(column):
        return Proposal(column, recode=_bins(column))
    return proposal


def _proposal(column: Column) -> Proposal:
    distinct, numbers = len(column.values), column.numbers
    if not column.name or INDEX.fullmatch(column.name):
        return Proposal(column, "the index of a data frame, or without a name")
    if is_weight(column):
        return Proposal(column, "by its name a survey weight")
    if looks_like_counts(column.name):
        return Proposal(column, "by its name the count of a cell's records")
    if column.is_cut:
        return Proposal(column, f"more than {MOST_VALUES:,} values: an identifier, or a number to be binned by hand")
    if distinct < 2 and not (distinct and column.missing and column.is_stored):
        return Proposal(column, "one value for all records")
    if column.missing > MOST_MISSING * (column.rows + column.missing):
        return Proposal(column, "more than half of its values are missing")
    is_whole = numbers is not None and all(map(float.is_integer, numbers))
    is_amount: bool | None = False
    if numbers is not None and (distinct > FEW_NUMBERS or not is_whole):
        if distinct == column.rows and is_whole:
            return Proposal(column, f"{distinct:,} whole numbers, each once: an identifier")
        is_amount = are_amounts(column, is_whole)
    if is_amount:
        return Proposal(column, recode=_bins(column))
    if distinct > column.rows / 2 and distinct > FEW_NUMBERS:
        why, unsure = f"{distinct:,} values in {column.rows:,} records: an identifier", is_amount is None
        return Proposal(column, f"{why}, or amounts to be binned by hand" if unsure else why, unsure=unsure)
    recode = _groups(column) if distinct > MOST_CATEGORIES else None
    return Proposal(column, recode=recode, unsure=is_amount is None)


def are_amounts(column: Column, is_whole: bool) -> bool | None:
    """Whether numbers are amounts (True) or codes, which are never binned (False); None if unclear.

    Codes: by their name or a leading zero. Amounts: by their name, or if some are not whole and not all look like
    classes of NACE, such as 10.11.
    """
    name = column.name.lower()
    if any(_ZERO.match(value) for value in column.values) or _CODES.search(name):
        return False
    if _AMOUNTS.search(name) or not (is_whole or all(map(_CLASS.fullmatch, column.values))):
        return True
    return None


def is_weight(column: Column) -> bool:
    """Whether a numeric column has the name of a survey weight."""
    return column.kind == "number" and _WEIGHT.search(column.name.lower()) is not None


def _groups(column: Column) -> dict[str, Any]:
    frequent = sorted(sorted(column.values), key=lambda value: -column.values[value])[:MOST_GROUPS]
    return {"groups": {**{value: [value] for value in frequent}, _unused("other", column): "*"}}


def _unused(name: str, column: Column) -> str:
    while name in column.values:
        name += "_"
    return name


def _bins(column: Column) -> dict[str, Any]:
    """About five bins with similar numbers of records, with round edges and open ends; at least two."""
    by_value = sorted((column.number(value), rows) for value, rows in column.values.items())
    places = np.cumsum([rows for _, rows in by_value]) / column.rows
    cuts = [by_value[int(np.searchsorted(places, q / BINS))][0] for q in range(1, BINS)]
    low, high = by_value[0][0], by_value[-1][0]
    edges = sorted({edge for cut in cuts if low < (edge := _round(cut, high - low)) <= high})
    if not edges:
        # nearly all records have one value: two bins, up to it and above
        edges = [next(value for value, _ in by_value if value > cuts[-1])] if cuts[-1] < high else [high]
    is_whole = all(value == int(value) for value, _ in by_value)
    pairs = pairwise([None, *edges, None])
    return {"bins": {_label(start, below, is_whole): [start, below] for start, below in pairs}}


def _round(value: float, span: float) -> float:
    """Round to a step of 1, 2 or 5 times a power of ten, about a fortieth of the span."""
    power = 10.0 ** floor(log10(span / 40))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / 40)
    return float(f"{round(value / step) * step:.12g}")


def _label(start: float | None, below: float | None, is_whole: bool) -> str:
    if start is None:
        return f"under {below:g}"
    if below is None:
        return f"{start:g} and over"
    return f"{start:g} to {below - 1:g}" if is_whole and below - 1 > start else f"{start:g} to below {below:g}"


def settings_of(path: str, found: Sequence[Proposal], csv: CsvConfig) -> TableConfig:
    """The table settings of the proposals."""
    on = [p for p in found if p.why is None]
    return TableConfig(
        path=path,
        columns={COUNT: None} if _counts(found) else {},
        csv=csv.model_copy(update={"missing": {p.column.name: p.column.marks for p in on if p.column.marks}}),
        variables=tuple(p.column.name for p in on),
        recodes={p.column.name: RecodeConfig.model_validate(p.recode) for p in on if p.recode},
        missing={p.column.name: _unused("missing", p.column) for p in on if p.column.missing},
    )


def _nested(source: Source, found: Sequence[Proposal], csv: CsvConfig) -> list[tuple[str, str]]:
    """Nested pairs of switched-on variables that are used as stored: bins would hide nesting."""
    few = [p.column for p in found if p.why is None and p.column.is_stored]
    if not few:
        return []
    missing = {column.name: _unused("missing", column) for column in few if column.missing}
    called = _called_totals(few)
    own: dict[str, Any] = {"variables": tuple(called), "missing": missing, "not_totals": called, "alike": "keep"}
    settings = settings_of(source.path, found, csv).model_copy(update={**own, "recodes": {}})
    return list(nested(count_records(source, settings).table))


def _counts(found: Sequence[Proposal]) -> list[str]:
    """Columns with the usual names of counts, except that of a table of counted cells."""
    return [p.column.name for p in found if looks_like_counts(p.column.name)]


def _called_totals(columns: Iterable[Column]) -> dict[str, tuple[str, ...]]:
    return {column.name: tuple(filter(is_usual, column.values)) for column in columns}


def _labels(source: Source, found: Sequence[Proposal], csv: CsvConfig) -> dict[str, dict[str, Any]]:
    """Labels of variables and of used codes in an SPSS or Stata file.

    Equal labels of codes are made different by the code.
    """
    first, labels = source.parts[0], dict[str, dict[str, Any]]()
    if first.suffix not in STATISTICAL:
        return labels
    *_, encoding = reader_of(first, csv)
    read = READER.run(value_labels, first, encoding)
    for column, recode in ((p.column, p.recode) for p in found if p.why is None):
        label, of_codes = read[column.name]
        own: dict[str, Any] = {"label": label} if label is not None and is_plain(label) else {}
        if recode is None:
            texts = {c: text for c in sorted(column.values) if (text := of_codes.get(c)) and is_plain(text)}
            times = Counter(texts.get(code, code) for code in column.values)
            own["categories"] = {c: text if times[text] == 1 else f"{text} ({c})" for c, text in texts.items()}
        labels[column.name] = {key: value for key, value in own.items() if value}
    times = Counter(own.get("label", name) for name, own in labels.items())
    for own in labels.values():
        if times[own.get("label", "")] > 1:
            del own["label"]
    return {name: own for name, own in labels.items() if own}


def written(
    source: Source, name: str, is_amount: IsAmount = never_amounts, given: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, dict[str, Any]]:
    """The config as commented YAML, and as a document.

    given  settings of `csv`; others are guessed
    """
    csv = csv_of(source, given)
    found = proposals(columns_of(source, csv), is_amount)
    called = _called_totals([p.column for p in found if p.why is None])
    settings = settings_of(source.path, found, csv).model_copy(update={"not_totals": called})
    table = count_records(source, settings.model_copy(update={"alike": "keep"})).table
    sums = dict.fromkeys([*named_sums(table, {}), *sum_categories(table, {})])
    empty = sorted(empty_cells(table), key=lambda one: (-one[1], sorted(one[0].items())))
    facts = {
        "records": table.total,
        "cells": table.schema.cells,
        "non_zero_cells": len(table),
        "variables": [_facts(p) for p in found],
        "empty_two_way_cells": [{"cell": cell, "expected": round(n, 1)} for cell, n in empty[:MOST_EMPTY]],
        "nested": [list(pair) for pair in _nested(source, found, csv)],
        "sums": [list(pair) for pair in sums],
        "alike": {p.column.name: pairs for p in found if p.why is None and (pairs := alikes(p.column.values))},
        "labels": _labels(source, found, csv),
    }
    return "\n".join(_lines(settings, name, found, table, facts, empty)) + "\n", facts


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
        "unsure": proposal.unsure,
    }


def _lines(
    settings: TableConfig,
    name: str,
    found: Sequence[Proposal],
    table: Table,
    facts: Mapping[str, Any],
    empty: Sequence[tuple[dict[str, str], float]],
) -> Iterator[str]:
    yield f"# A first config, made from {table.total:,} records. Confidential: it lists categories of the data."
    yield "# `sdc config --explain` explains every key, `sdc plan` what a build would need, `sdc run` builds."
    yield f"name: {name}"
    yield "table:"
    yield f"  path: {_text(settings.path)}"
    yield "  variables:"
    for p in found:
        about = f"{p.column.kind}, {len(p.column.values):,} values, {p.column.missing:,} missing"
        mark, reason = ("- ", "") if p.why is None else ("# - ", f"; left out: {p.why}")
        if p.why is None and p.unsure:
            reason = "; taken for codes: give bins if they are amounts"
        yield f"    {mark}{_text(p.column.name)}  # {about}{reason}"
    recoded = [p for p in found if p.why is None and p.recode]
    if recoded:
        yield "  recodes:  # suggested; choose those that readers know"
        yield from (f"    {_text(p.column.name)}: {json.dumps(p.recode, ensure_ascii=False)}" for p in recoded)
    none = set() if settings.csv.missing else {"missing"}
    if written_as := settings.csv.model_dump(exclude_defaults=True, exclude=none):
        yield f"  csv: {json.dumps(written_as, ensure_ascii=False)}  # as the file seems to be written"
    if isinstance(settings.missing, dict) and settings.missing:
        names = ", ".join(map(_text, settings.missing))
        yield "  missing:  # a category for records without a value; without it they are refused"
        yield from (f"    {_text(name)}: {_text(category)}" for name, category in settings.missing.items())
        yield f"  # exclude_missing: [{names}]  # instead: these records are left out"
    if doubtful := {p.column.name: p.column.doubtful for p in found if p.why is None and p.column.doubtful}:
        yield "  # do these stand for missing values? then name them in csv, and a category in missing:"
        yield f"  # csv: {json.dumps({'missing': doubtful}, ensure_ascii=False)}"
    for coarse, fine in facts["nested"]:
        named = _text(f"{fine}_levels")
        yield f"  # hierarchies: {{{named}: [{_text(coarse)}, {_text(fine)}]}}  # are they levels of one variable?"
    if facts["sums"]:
        yield "  # these look like totals, by name or as sums of others; leave their rows out, or declare them as"
        yield "  # categories:"
        own = {name: [category for v, category in facts["sums"] if v == name] for name, _ in facts["sums"]}
        yield f"  # not_totals: {json.dumps(own, ensure_ascii=False)}"
    if counts := _counts(found):
        yield f"  # columns: {{count: {_text(counts[0])}}}  # does it count the records of a cell? else {{count: null}}"
    if facts["alike"]:
        yield "  # these are alike; correct them, or declare them one category or several:"
        for v, pairs in facts["alike"].items():
            yield from (f"  #   {_text(v)}: {one!a} and {other!a}" for one, other in pairs.items())
        yield "  # alike: merge   # or keep"
    weights = [p.column.name for p in found if is_weight(p.column)]
    if weights:
        yield f"  # weight: {_text(weights[0])}  # is it one? rounded totals of it then go out beside the counts"
    at_risk = f"{len(table.at_risk(2)):,} of {len(table):,} cells"
    yield f"risk: {{small_count: 2, min_width: 3}}  # counts of 1 and 2 are at risk, {at_risk}"
    yield "release:"
    yield "  method: ordered"
    yield "  # require: [{all: 2}]      # sub-tables that users need; without it the search chooses"
    yield "  # on_conflict: drop   # where they do not fit together"
    if empty:
        yield "# Combinations without a record, though more than five would be expected: those that nobody can have"
        yield "# (and everybody knows it) belong into a file of structural zeros, table.structural_zeros:"
        for cell, expected in empty[:MOST_EMPTY]:
            pattern = ", ".join(f"{_text(variable)}: {_text(category)}" for variable, category in cell.items())
            yield f"# - {{{pattern}}}  # about {expected:,.0f} expected"
        if len(empty) > MOST_EMPTY:
            yield f"# and {len(empty) - MOST_EMPTY:,} more"
    if facts["labels"]:
        yield "labels:  # as the file has them"
        yield "  variables:"
        yield from (f"    {_text(v)}: {json.dumps(own, ensure_ascii=False)}" for v, own in facts["labels"].items())


def _text(value: str) -> str:
    is_plain = value.replace("_", "").isalpha() and value.isascii() and value.lower() not in _WORDS
    return value if is_plain else json.dumps(value, ensure_ascii=False)


_WEIGHT = re.compile(r"(^|[^a-z])([a-z]?weights?|[a-z]*wgt[a-z]?|wt)([^a-z]|$)")
_ZERO, _CLASS = re.compile("0[0-9]"), re.compile(r"[0-9]{2}(\.[0-9]{1,2})?")
_CODES = re.compile(
    r"(^|[^a-z])(codes?|id|zip|postcode|plz|fips|naics|nace|isco|isic|soc|occ(upation)?|ind(ustry)?|county|district|"
    r"municipality|country|region|area|state|sector|class|recode|group|grp|bracket|band|category|type|status)([^a-z]|$)|code$"
)
_AMOUNTS = re.compile(
    r"(^|[^a-z])(age|year|income|wage|salar(y|ie)|earning|hour|week|day|month|amount|size|count|price|rent|cost|"
    r"value|height|tax(es)?|gain|loss(es)?|dividend|population|duration|distance)s?([^a-z]|$)"
)
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def config_name(path: str) -> str:
    """A name for the build, from that of the file; it is not published."""
    stem = Path(path.rstrip("/")).name.partition(".")[0]
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in stem).lstrip("._-")[:64]
    return name or "build"
