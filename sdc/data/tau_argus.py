"""A first config from a batch of tau-ARGUS (`.arb`): its data, metadata (`.rda`, `.hrc`), tables and rules.

The grammar is that of the tau-ARGUS manual, version 4.2. Each line without a counterpart is named as a difference.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, zip_longest
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from sdc.model.errors import InputError

SUFFIX = ".arb"
FREQUENCIES = ("<freq>", "<frequency>")
COSTS = {"": "records", "-1": "records", "-2": "cells"}
BY = {"OPT": "suppression", "MOD": "suppression", "GH": "suppression", "NET": "suppression", "RND": "rounding"}
CATEGORICAL, NUMERIC, FREQUENCY = ("RECODEABLE", "RECODABLE"), "NUMERIC", "FREQUENCY"
OF_HIERARCHY = ("HIERARCHICAL", "HIERLEVELS", "HIERCODELIST", "HIERLEADSTRING")
READ = (*CATEGORICAL, NUMERIC, FREQUENCY, *OF_HIERARCHY, "TOTCODE")
NO_COUNTERPART = {
    "APRIORI": "cells have no status or interval of their own; a table is judged by the criteria alone",
    "COVER": "there are no cover tables",
    "CLEAR": "a config is of one set of tables",
    "SOLVER": "the solvers come with sdc",
    "LOGBOOK": "sdc run keeps its own log",
    "VERSIONINFO": "sdc --version prints it",
    "GOINTERACTIVE": "there are no windows",
    "SILENT": "there are no windows",
}
OF_RULES = {
    "ZERO": "a count of 0 is not protected; risk.min_values can ask that 0 stays possible",
    "MIS": "missing codes are categories like others",
    "WGT": "counts are of records; table.weight publishes rounded totals beside them",
    "MAN": "nothing is set by hand",
    "REQ": "there is no request rule",
}


@dataclass
class ArgusVariable:
    """A variable of the metadata, with its statements by name."""

    name: str
    begin: int = 0
    width: int = 0
    missing: tuple[str, ...] = ()
    says: dict[str, str] = field(default_factory=dict)

    @property
    def widths(self) -> list[int]:
        """How many digits of a code each level has."""
        return list(map(int, self.says.get("HIERLEVELS", "").split()))

    @cached_property
    def chains(self) -> dict[str, list[str]]:
        """By code the coarser ones, the coarsest first, from a file with a lead string for each level before a code."""
        if "HIERCODELIST" not in self.says:
            return {}
        path, lead = Path(self.says["HIERCODELIST"]), self.says.get("HIERLEADSTRING") or "@"
        found, above = dict[str, list[str]](), list[str]()
        for line, text in _lines(path):
            code = text
            while code.startswith(lead):
                code = code[len(lead) :]
            depth, code = (len(text) - len(code)) // len(lead), code.strip()
            if depth > len(above):
                raise InputError(f"{path} line {line}: {text!r} is more than one level below the line before; check it")
            found[code] = above = above[:depth]
            above = [*above, code]
        return found

    def is_total(self, code: str) -> bool:
        """Whether a code of a table is the total, or a code of a level above the finest."""
        is_coarser = len(code) < sum(self.widths) or any(code in chain for chain in self.chains.values())
        return code in ("", self.says.get("TOTCODE") or "Total") or is_coarser


@dataclass
class ArgusTable:
    """A table of the batch: variables, response, cost, its rules, and what protects it."""

    line: int
    by: list[str]
    response: str
    cost: str
    rules: list[tuple[str, list[str]]] = field(default_factory=list)
    protected: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        return "*".join(self.by)

    @property
    def is_counted(self) -> bool:
        return self.response.lower() in FREQUENCIES


@dataclass
class ArgusBatch:
    """What a batch says, and the differences: what has no counterpart, line by line."""

    path: Path
    data: Path | None = None
    files: list[Path] = field(default_factory=list)
    is_table: bool = False
    separator: str | None = None
    variables: dict[str, ArgusVariable] = field(default_factory=dict)
    tables: list[ArgusTable] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def differs(self, path: Path, line: int, what: str) -> None:
        self.differences.append(f"{path.name} line {line}: {what}")


def converted(path: Path, records: str) -> tuple[str, str, dict[str, Any]]:
    """The config as commented YAML, the records as CSV, and both as a document.

    records  the name of the file that will have the records, beside the config
    """
    batch = read_batch(path)
    columns, rows = _rows(batch)
    config: dict[str, Any] = {"name": path.stem, "table": {"path": records}}
    levels = {}
    used = [*dict.fromkeys(v for table in batch.tables for v in table.by)]
    for name in used:
        if found := _levels(batch, batch.variables[name], [row[columns.index(name)] for row in rows]):
            levels[name] = [*found, name]
            rows = [[*row, *own] for row, own in zip(rows, zip(*found.values(), strict=True), strict=True)]
            columns = [*columns, *found]
    counted = [table for table in batch.tables if table.is_counted]
    if levels:
        config["table"]["hierarchies"] = levels
    config["table"]["variables"] = [*used, *(level for own in levels.values() for level in own[:-1])]
    config["risk"] = _risk(batch, counted)
    if counted:
        config["release"] = {"require": [table.label for table in counted], "required_only": True}
        if protected := [{"of": table.label, **table.protected} for table in counted if table.protected]:
            config["release"]["protect"] = protected
    for table in batch.tables:
        if not table.is_counted:
            batch.differs(path, table.line, _magnitude(table, records))
    if not counted:
        batch.differences.append("no table of the batch is of counts: this config would publish counts")
    for file in dict.fromkeys([path, *batch.files]):
        if not _is_utf8(file.read_bytes()):
            batch.differences.append(f"{file.name} is not UTF-8, and was read as Latin-1")
    known = [variable.name for variable in batch.variables.values() if variable.name not in columns]
    if known:
        batch.differences.append(f"the records have no column for {', '.join(known)}, which no table is by")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    head = [f"# From {path.name}, a batch of tau-ARGUS. Read the differences before you run it:"]
    lines = [*head, *(f"# - {one}" for one in batch.differences), yaml.safe_dump(config, sort_keys=False)]
    facts = {"records": len(rows), "tables": [table.label for table in batch.tables], "differences": batch.differences}
    return "\n".join(lines), text.getvalue(), facts


def read_batch(path: Path) -> ArgusBatch:
    """The batch with its metadata; InputError for what is not a statement, or a file that is missing."""
    batch = ArgusBatch(path)
    for line, text in _lines(path):
        found = re.fullmatch(r"<([A-Za-z]+)>\s*(.*)", text)
        if found is None:
            raise InputError(
                f"{path} line {line}: {text!r} is not a statement such as <OPENMICRODATA>; check the batch"
            )
        try:
            _read_statement(batch, line, found[1].upper(), found[2].strip())
        except (ValueError, IndexError):
            raise InputError(f"{path} line {line}: {text!r} has other numbers than it needs; check the batch") from None
    if batch.data is None or not batch.variables or not batch.tables:
        raise InputError(f"{path} names no data, no metadata or no table; give a whole batch")
    return batch


def _read_statement(batch: ArgusBatch, line: int, keyword: str, rest: str) -> None:
    path = batch.path
    if keyword in ("OPENMICRODATA", "OPENTABLEDATA"):
        batch.data, batch.is_table = _file(batch, path, line, rest), keyword == "OPENTABLEDATA"
    elif keyword == "OPENMETADATA":
        _read_metadata(batch, _file(batch, path, line, rest))
    elif keyword == "SPECIFYTABLE":
        batch.tables.append(_table(batch, line, rest))
    elif keyword in ("SAFETYRULE", "SUPPRESS"):
        _of_table(batch, line, keyword, rest)
    elif keyword == "WRITETABLE":
        batch.differs(path, line, f"all tables go into one folder, as publication.formats says, not as {rest}")
    elif keyword not in ("READMICRODATA", "READTABLE"):
        batch.differs(path, line, f"<{keyword}> {NO_COUNTERPART.get(keyword, 'is not known here')}")


def _text(path: Path) -> str:
    content = path.read_bytes()
    return content.decode("utf-8-sig" if _is_utf8(content) else "latin-1")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if (stripped := line.replace("\t", " ").strip()) and not stripped.startswith("//"):
            yield number, stripped


def _file(batch: ArgusBatch, beside: Path, line: int, text: str) -> Path:
    """A file that a statement names: as it is, or else of this name beside the batch."""
    named = text.strip().strip('"')
    # batches are often from Windows
    for place in (beside.parent / named, beside.parent / re.split(r"[\\/]", named)[-1]):
        if place.is_file():
            batch.files.append(place)
            return place
    raise InputError(f"{beside} line {line}: {named} does not exist; put it beside the batch")


def _read_metadata(batch: ArgusBatch, path: Path) -> None:
    own: ArgusVariable | None = None
    for line, text in _lines(path):
        found = re.fullmatch(r"<([A-Za-z_]+)>\s*(.*)", text)
        if found is None:
            name, *numbers = re.findall(r'"[^"]*"|\S+', text)
            # a fixed file has the first place and the width of each variable, others the width or nothing
            places = 0 if batch.is_table else 1 if batch.separator else 2
            try:
                begin, width = ([0, 0, *map(int, numbers[:places])])[-2:] if places else (0, 0)
                if places == 2 and not (begin > 0 < width and len(numbers) >= 2):
                    raise ValueError
            except ValueError:
                raise InputError(f"{path} line {line}: {text!r} has no place and width; check it") from None
            own = ArgusVariable(name.strip('"'), begin, width, tuple(numbers[places:]))
            if own.name in batch.variables:
                raise InputError(f"{path} line {line}: {own.name} is there twice; check it")
            batch.variables[own.name] = own
            if own.missing:
                batch.differs(path, line, f"the missing codes {' '.join(own.missing)} of {own.name} are categories")
            continue
        keyword, value = found[1].upper(), found[2].strip('"')
        if own is None:
            batch.separator = value
            if keyword != "SEPARATOR":
                raise InputError(f"{path} line {line}: <{found[1]}> comes before any variable; check it")
            if len(value) != 1:
                raise InputError(f"{path} line {line}: {found[2]} is not a separator of one sign; check it")
            continue
        own.says[keyword] = str(_file(batch, path, line, value)) if keyword == "HIERCODELIST" else value
        if keyword == "HIERLEVELS" and not re.fullmatch(r"[0-9 ]+", value):
            raise InputError(f"{path} line {line}: {found[2]} are not widths of levels such as 1 1 1; check it")
        if keyword == "HIERLEADSTRING" and not value.strip():
            raise InputError(f"{path} line {line}: levels are read by a sign such as @, not by blanks; use one")
        if keyword not in READ:
            batch.differs(path, line, f"<{keyword}> of {own.name} is not used")


def _table(batch: ArgusBatch, line: int, text: str) -> ArgusTable:
    by, response, shadow, cost = ([*text.split("|"), "", "", ""])[:4]
    names = re.findall(r'"([^"]*)"', by)
    cost, *power = cost.split(",")
    found = ArgusTable(line, names, response.strip(' "'), cost.strip(' "'))
    if unknown := [name for name in names if name not in batch.variables]:
        raise InputError(f"{batch.path} line {line}: the metadata have no variable {unknown[0]!r}; check the batch")
    if shadow.strip(' "') not in ("", found.response):
        batch.differs(batch.path, line, f"the shadow variable {shadow.strip()} has no counterpart")
    if found.is_counted and (found.cost not in COSTS or power):
        batch.differs(
            batch.path, line, f"the cost {cost.strip()} of a cell is its records here, or 1 with `cost: cells`"
        )
    return found


def _of_table(batch: ArgusBatch, line: int, keyword: str, text: str) -> None:
    """A rule of the last table, or the suppression of a table by its number."""
    calls = [(name.upper(), re.findall(r"[^,\s]+", given)) for name, given in re.findall(r"(\w+)\s*\(([^)]*)\)", text)]
    if not batch.tables or (text and not calls):
        raise InputError(f"{batch.path} line {line}: {text!r} is of no table or no rule; check the batch")
    if keyword == "SAFETYRULE":
        for name, given in calls:
            numbers = [float(one) for one in given]
            if name == "FREQ":
                int(given[0])
                given += ["0"] * (len(given) == 1)
            if any(numbers):
                batch.tables[-1].rules.append((name, given))
        for name, given in batch.tables[-1].rules:
            if name in OF_RULES:
                batch.differs(batch.path, line, f"{name}({','.join(given)}): {OF_RULES[name]}")
        return
    for name, (number, *given) in calls:
        if not 1 <= int(number) <= len(batch.tables):
            raise InputError(f"{batch.path} line {line}: there is no table {number}; check the batch")
        table = batch.tables[int(number) - 1]
        if (by := BY.get(name)) is None:
            batch.differs(batch.path, line, f"{name} has no counterpart; {table.label} is released whole or not at all")
        elif table.is_counted:
            rounded = {"by": by, "base": int(given[0])} if by == "rounding" and given else {"by": by}
            table.protected = rounded if by == "rounding" else {**rounded, "cost": COSTS.get(table.cost, "records")}
            rest = ",".join(given[by == "rounding" :])
            how = f"sdc chooses cells by its own {by}, for all tables together"
            batch.differs(batch.path, line, f"{name}({rest}): {how}")
        else:
            batch.differs(batch.path, line, f"{name} of the sums {table.label}: sdc magnitude suppresses no cell")


def _risk(batch: ArgusBatch, tables: Sequence[ArgusTable]) -> dict[str, int]:
    """The criterion of the strictest frequency rule."""
    rules = [(int(given[0]), float(given[1]), t) for t in tables for name, given in t.rules if name == "FREQ"]
    if not rules:
        batch.differences.append("no table of counts has a FREQ rule: small_count and min_width are a proposal")
        return {"small_count": 2, "min_width": 3}
    least, share, _ = max(rules, key=lambda rule: rule[:2])
    # the levels of tau-ARGUS are this share of the count, on both sides, and 1 at least
    width = 2 * max(1, ceil((least - 1) * share / 100)) if share else 1
    for n, percent, table in rules:
        wide = "its interval may lie on one side of the count, where tau-ARGUS asks for both"
        how = f"counts from 1 to {least - 1} are at risk in all tables, with a width of {width}; {wide}"
        batch.differs(batch.path, table.line, f"FREQ({n},{percent:g}) of {table.label}: {how}")
        for name in (name for name, _ in table.rules if name in ("P", "NK")):
            batch.differs(batch.path, table.line, f"{name} is a rule of sums, and {table.label} has counts")
    return {"small_count": max(least - 1, 1), "min_width": width}


def _magnitude(table: ArgusTable, records: str) -> str:
    """The command for a table of sums; and the parts of its rules that the command does not have."""
    options, beside = list[str](), list[str]()
    for name, given in table.rules:
        if name == "NK" and "--dominance" not in options:
            options += ["--dominance", ":".join(given)]
        elif name == "P" and "--percent" not in options and given[1:] in ([], ["1"], ["100", "1"]):
            options += ["--percent", given[0]]
        elif name == "FREQ" and "--contributors" not in options:
            options += ["--contributors", given[0]]
        elif name not in OF_RULES:
            beside.append(f"{name}({','.join(given)})")
    command = " ".join(["sdc magnitude", records, "--value", table.response, "--by", table.label, *options])
    lacking = f"; it has no {' and '.join(beside)}" if beside else ""
    return f"{table.label} is a table of sums: `{command}` checks every cell{lacking}"


def _rows(batch: ArgusBatch) -> tuple[list[str], list[list[str]]]:
    """The columns of the variables that tables are by, of their responses and of the count; and the rows."""
    assert batch.data is not None
    used = dict.fromkeys(name for table in batch.tables for name in table.by)
    responses = dict.fromkeys(t.response for t in batch.tables if not t.is_counted and t.response in batch.variables)
    order, found = list(batch.variables), list[list[str]]()
    counts = [name for name, one in batch.variables.items() if FREQUENCY in one.says]
    counts = counts[:1] if batch.is_table else []
    if batch.is_table and not counts:
        raise InputError(f"{batch.path}: the metadata name no <FREQUENCY>, so that its table has no counts; add it")
    names = [*used, *responses, *counts]
    for line, text in _records(batch):
        values = {name: value.strip().strip('"') for name, value in zip_longest(order, text, fillvalue="")}
        if batch.is_table and any(batch.variables[name].is_total(values[name]) for name in used):
            continue  # a total
        if len(text) < len(order) and not batch.is_table:
            raise InputError(f"{batch.data} line {line} has {len(text)} of {len(order)} variables; check it")
        found.append([values[name] for name in names])
    if batch.is_table:
        batch.differences.append(f"rows of {batch.data.name} with a total are left out, since cells add up to them")
    return [*used, *responses, *(["count"] * len(counts))], found


def _records(batch: ArgusBatch) -> Iterator[tuple[int, list[str]]]:
    assert batch.data is not None
    separator = batch.separator or (";" if batch.is_table else None)
    text = _text(batch.data)
    if separator:
        rows = csv.reader(io.StringIO(text), delimiter=separator)
        try:
            yield from ((rows.line_num, row) for row in rows if row)
        except csv.Error as error:
            raise InputError(f"{batch.data} line {rows.line_num} cannot be read: {error}; check it") from error
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, [line[v.begin - 1 :][: v.width] for v in batch.variables.values() if v.begin <= len(line)]


def _levels(batch: ArgusBatch, variable: ArgusVariable, codes: Sequence[str]) -> dict[str, list[str]]:
    """Columns of the coarser levels of a variable, the coarsest first; none that equals the next finer one."""
    chains = variable.chains
    if variable.widths:
        ends = [*accumulate(variable.widths)][:-1]
        chains = {code: [code[:end] for end in ends if end] for code in codes}
    elif file := variable.says.get("HIERCODELIST"):
        if unknown := next((code for code in codes if code not in chains), None):
            raise InputError(f"{file} has no code {unknown!r} of {variable.name}; add it")
    else:
        return {}
    depth = max((len(chains[code]) for code in codes), default=0)
    found, finer = dict[str, list[str]](), list(codes)
    for level in range(depth, 0, -1):
        column = [(chains[code] + [code] * depth)[level - 1] for code in codes]
        if len({*column}) < len({*finer}):
            found[f"{variable.name}_level{level}"] = finer = column
    return {name: found[name] for name in reversed(found)}
