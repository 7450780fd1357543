"""Published tables of counts, read from a release folder or from CSV, Parquet, JSON-stat or PX files."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sdc.events import WARNING, emit
from sdc.model.alike import may_be_thousands
from sdc.model.errors import AbsentError, InputError, many
from sdc.model.keys import KeySpace
from sdc.model.schema import Schema, Variable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table
from sdc.model.totals import is_plain, is_reserved, named_sums, sum_categories
from sdc.public.px import Count, Listed, Texts, read_px, whole_of
from sdc.run_format import (
    CATALOGUES,
    CODE_LISTS,
    CONFIDENTIAL,
    COUNT,
    DICTIONARY,
    GUIDE,
    IN_PART,
    INDEX,
    LEVELS,
    MARGINS,
    METADATA,
    OF_ALL_TABLES,
    OF_SUMS,
    RELEASE_FORMAT,
    ROUNDED_COUNT,
    ROUNDED_TO,
    SDMX_CSV,
    SDMX_JSON,
    SDMX_STRUCTURE,
    SHA256,
    STATUS,
    SUB_TABLE,
    TOTAL,
    WEIGHTED_TOTAL,
    WITHHELD_STATUS,
    categories_of,
    out_of_csv,
)
from sdc.storage.parquet import read_columns

Flags: TypeAlias = npt.NDArray[np.bool_]
NO_NAMES: Texts = MappingProxyType({})
MOST_BYTES = 1 << 30  # of a file
MOST_QUOTED = 100
MOST_UNLISTED = 1 << 20  # unlisted cells beside totals that exceed the listed cells
NO_TABLES = (METADATA, DICTIONARY, *CATALOGUES, GUIDE, INDEX, *OF_SUMS)
SAME_AGAIN = (SDMX_CSV, "-metadata.json", SDMX_STRUCTURE, SDMX_JSON)  # files about a table, or with the same table


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of cells with bounds: over all cells with the same categories of some variables.

    names      these variables; none for the total
    cells      (n, these variables) codes of the sums, each once
    low, high  (n,) int64; equal for an exact sum
    """

    names: tuple[str, ...]
    cells: Codes
    low: Counts
    high: Counts

    def matching(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n,) the index of the sum of each of (n, these variables) cells, -1 if none; codes may be unknown ones."""
        own = self.cells.astype(np.int64)
        sizes = np.concatenate([own, codes]).max(axis=0, initial=0) + 1
        return KeySpace(tuple(sizes.tolist())).matching(own, codes)

    def added(self, names: Sequence[str], codes: npt.NDArray[np.integer], counts: Counts) -> tuple[Counts, Flags]:
        """(n,) what (cells, of these names) cells with counts come to in each sum; (cells,) which of them are in none.

        Codes may be unknown ones.
        """
        at = self.matching(codes[:, [names.index(name) for name in self.names]].astype(np.int64))
        own = np.zeros(len(self.cells), np.int64)
        np.add.at(own, at[at >= 0], counts[at >= 0])
        return own, at < 0

    def with_others(self, codes: npt.NDArray[np.int64], most: int) -> Sums:
        """The sums, and those of other (n, these variables) cells, each from 0 to `most`."""
        others = np.unique(codes[self.matching(codes) < 0], axis=0)
        low, high = (np.append(own, np.full(len(others), n)) for own, n in ((self.low, 0), (self.high, most)))
        return Sums(self.names, np.concatenate([self.cells, others.astype(np.uint16)]), low, high)

    @property
    def of(self) -> str:
        """Its variables, for messages."""
        return "*".join(self.names) or "all records"

    @property
    def digest(self) -> str:
        own = hashlib.sha256(repr(self.names).encode())
        for array in (self.cells.astype("<u2"), self.low.astype("<i8"), self.high.astype("<i8")):
            own.update(np.ascontiguousarray(array).tobytes())
        return own.hexdigest()


@dataclass(frozen=True, eq=False)
class Published:
    """A published table of counts.

    source    the file or other source, for messages
    table     the cells with records; unlisted cells have none
    is_whole  whether all categories are listed; a list of cells has only those with records
    suppressed (n, variables) codes of the cells without an exact count; they are not in `table`
    sums      bounds of cells, and totals beside suppressed cells
    contradiction  within the table: a listed total that differs from its cells; empty if there is none
    met       variables of which each listed category has records; no code lists, and none of foreign files
    records   the number of records that its folder states; None if unknown
    levels    by variable that its folder calls a level: its variable, and the level of each category
    base      counts are rounded to multiples of it and off by less; 0 if exact
    margins   of a rounded table the variables whose sums are off by less than the base too; the total always is
    is_total  whether it has nothing but the number of records; then `table` has one cell, of a variable of its own
    """

    source: str
    table: Table
    is_whole: bool
    suppressed: Codes = field(default_factory=lambda: np.zeros((0, 0), np.uint16))
    base: int = 0
    margins: tuple[tuple[str, ...], ...] = ()
    sums: tuple[Sums, ...] = ()
    contradiction: str = ""
    met: frozenset[str] = frozenset()
    records: int | None = None
    levels: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    is_total: bool = False

    @staticmethod
    def of_total(source: str, records: int, base: int = 0) -> Published:
        """The number of records alone, exact or rounded."""
        own = Schema((Variable(TOTAL, (TOTAL,)),))
        table = Table.of(own, np.zeros((1, 1), np.uint16), np.array([records]))
        return Published(source, table, True, base=base, is_total=True)

    @property
    def digest(self) -> str:
        if self.base:
            return hashlib.sha256(f"{self.table.digest} {self.base} {self.margins}".encode()).hexdigest()
        if not len(self.suppressed):
            return self.table.digest
        cells = self.suppressed[np.lexsort(self.suppressed.T)].astype("<u2")
        sums_digest = "".join(sums.digest for sums in self.sums).encode()
        return hashlib.sha256(self.table.digest.encode() + cells.tobytes() + sums_digest).hexdigest()

    @property
    def is_exact(self) -> bool:
        """Whether all counts are exact."""
        return not self.base and not len(self.suppressed) and not self.contradiction

    def suppresses(self, codes: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether it lacks the exact count of (n, variables) cells, whose codes may be unknown ones."""
        found = np.zeros(len(codes), np.bool_)
        inside = (codes < np.array(self.table.schema.sizes)).all(axis=1) & (len(self.suppressed) > 0)
        if inside.any():
            found[inside] = self.table.schema.keys.matching(self.suppressed, codes[inside].astype(np.uint16)) >= 0
        return found

    def bounded(self, codes: npt.NDArray[np.int64]) -> Iterator[Sums]:
        """The bounds of the sums that it lists, if rounded of all sums of (n, variables) cells as well."""
        names, base = self.table.schema.names, self.base
        yield from self.sums
        for margin in (names, *self.margins, ()) if base else ():
            columns = [names.index(name) for name in margin]
            first, place = KeySpace(tuple(self.table.schema.sizes[v] for v in columns)).distinct(
                self.table.codes[:, columns]
            )
            counts = np.zeros(len(first), np.int64)
            np.add.at(counts, place, self.table.counts)
            ends = np.maximum(counts - base + 1, 0), counts + base - 1
            yield Sums(margin, self.table.codes[first][:, columns], *ends).with_others(codes[:, columns], base - 1)

    def in_part(self, total: int) -> Iterator[Sums]:
        """The bounds of its suppressed cells, and of the sums that it lists for each margin.

        Cells without listed bounds get 0 and the number of records. Margins without suppressed cells are left out.
        """
        schema = self.table.schema
        ones = np.ones(len(self.suppressed), np.int64)
        listed = (sums for sums in self.sums if sums.names)
        of = {one.names: one for one in listed if one.added(schema.names, self.suppressed, ones)[0].any()}
        for names in dict.fromkeys((schema.names, *of)):
            space = schema.space(map(schema.index, names))
            cells = self.suppressed if names == schema.names else space.unpack(np.arange(space.cells))
            low, high = np.zeros(len(cells), np.int64), np.full(len(cells), total)
            if names in of:
                place = of[names].matching(cells.astype(np.int64))
                hit = place >= 0
                low[hit], high[hit] = of[names].low[place[hit]], of[names].high[place[hit]]
            loose = low < high
            yield Sums(names, cells[loose], low[loose], high[loose])

    @property
    def label(self) -> str:
        """Its variables, for messages."""
        return "*".join(self.table.schema.names)

    def suppressed_in(self, schema: Schema) -> Codes:
        """(n, variables) its suppressed cells in the codes of another schema of its variables, without unknown
        categories.
        """
        own, columns = self.table.schema, []
        for name in schema.names:
            place = {category: code for code, category in enumerate(schema.variables[schema.index(name)].categories)}
            codes = [place.get(category, -1) for category in own.variables[own.index(name)].categories]
            columns.append(np.array(codes, np.int64)[self.suppressed[:, own.index(name)]])
        cells = np.stack(columns, axis=1)
        return cells[(cells >= 0).all(axis=1)].astype(np.uint16)


def read_published(path: Path, total: str = TOTAL, not_totals: Texts | None = NO_NAMES) -> list[Published]:
    """The tables of a release folder, of all files of another folder, or of one file.

    The grand total is one where a file or a release has nothing else.

    total       the category of totals
    not_totals  categories that look like totals but are not, by variable; None to take all for categories

    Raises InputError if there is no table, if a file is no table of counts or contradicts its folder, and if the folder
    has anything else.
    """
    try:
        return _tables_of(path, total, not_totals)
    except PermissionError as error:
        raise AbsentError(f"{path} cannot be read ({error.strerror}); ask its owner for access") from error


def _tables_of(path: Path, total: str, not_totals: Texts | None) -> list[Published]:
    if path.is_file():
        return [_of_file(path, total, not_totals)]
    if not path.is_dir():
        raise AbsentError(f"{path} does not exist; give a published file or folder")
    if (path / METADATA).is_file():
        found = _of_release(path, total)
    else:
        every = sorted(path.iterdir())
        files = [one for one in every if not _is_about(one.name)]
        same = {f"{one.stem}{SDMX_CSV}" for one in files}
        if lacking := [one.name for one in every if one.name.endswith(SDMX_CSV) and one.name not in same]:
            raise InputError(
                f"{path / lacking[0]} is a table in a format that sdc does not read, and no other file has it; add it "
                f"as {', '.join(READ_FIRST)}, or take it out"
            )
        found = [_of_file(one, total, not_totals) for one in files]
    if not found:
        raise InputError(f"{path} has no table of counts as CSV, Parquet, JSON-stat or PX; name a folder that has some")
    return found


def _of_release(folder: Path, total: str) -> list[Published]:
    """Each sub-table once, from its first readable file; all files must match the metadata."""
    content = _json(folder / METADATA)
    try:
        version, resources = content.get("format", RELEASE_FORMAT), content["resources"]
        if version != RELEASE_FORMAT:
            raise InputError(
                f"{folder / METADATA} has the format {version!r}, this version reads {RELEASE_FORMAT}; read it with "
                "the version that wrote it"
            )
        _require_counts_alone(folder, content)
        lists, records = frozenset(content.get(CODE_LISTS, ())), content.get("records")
        levels = {one["variable"]: (one["of"], dict(one["categories"])) for one in content.get(LEVELS, ())}
        tables = [one for one in _first_of_each(resources) if one[SUB_TABLE]]
        if not tables and isinstance(records, int):
            return [Published.of_total(str(folder), records)]
        return [
            replace(found, met=frozenset(found.table.schema.names) - lists, records=records, levels=levels)
            for resource in tables
            for found in [_of_resource(folder, resource, resources, total)]
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder / METADATA} is not the metadata of a release ({error!r}); publish it again"
        ) from error


def _is_about(name: str) -> bool:
    """Whether a file is not a table, or another format of one; hidden files are neither."""
    return name in NO_TABLES or name.startswith(".") or name.endswith(SAME_AGAIN)


def _require_counts_alone(folder: Path, content: Mapping[str, Any]) -> None:
    """InputError, by name, for other content of a release, and for unlisted files."""
    resources = content["resources"]
    fields = {field["name"] for one in resources for field in one.get("schema", {}).get("fields", ())}
    if content.get("weighted") is not None or WEIGHTED_TOTAL in fields:
        raise InputError(f"{folder} {OF_WEIGHTS}")
    tables = [one for one in resources if SUB_TABLE in one]
    readable = {tuple(one[SUB_TABLE]) for one in tables if one["format"] in READ_FIRST}
    if lacking := [one["path"] for one in tables if tuple(one[SUB_TABLE]) not in readable]:
        raise InputError(
            f"{folder} has {lacking[0]} only in formats that sdc does not read; publish it as {', '.join(READ_FIRST)}"
        )
    listed = {*(one["path"] for one in resources), *OF_ALL_TABLES}
    filled = {p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink() and any(p.iterdir())}
    below = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p not in filled)
    unlisted = (path for path in below if path not in listed)
    if others := sorted(path for path in unlisted if path.endswith(SDMX_CSV) or not _is_about(path)):
        raise InputError(f"{folder} has {others[0]}, which {METADATA} does not list; take out what is not a part of it")


READ_FIRST = ("parquet", "csv", "json-stat", "px")
OF_WEIGHTS = (
    "publishes totals of weights, which cannot be judged together with counts; publish what is still to go out in one "
    "build with them, by table.weight, and leave out earlier"
)


def _first_of_each(resources: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    tables = [one for one in resources if SUB_TABLE in one and one["format"] in READ_FIRST]
    chosen: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for resource in sorted(tables, key=lambda one: READ_FIRST.index(one["format"])):
        chosen.setdefault(tuple(resource[SUB_TABLE]), resource)
    return sorted(chosen.values(), key=lambda one: str(one["path"]))


def _of_resource(folder: Path, resource: Mapping[str, Any], all_: Sequence[Mapping[str, Any]], total: str) -> Published:
    path = folder / Path(resource["path"]).name
    try:
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} is listed in {METADATA} and cannot be read: {error}; publish it again") from error
    if SHA256 + sha != resource["hash"]:
        raise InputError(f"{path} was changed after it was published; take what was published")
    same = [one for one in all_ if one.get(SUB_TABLE) == resource[SUB_TABLE] and "schema" in one]
    fields = [(field, one) for one in same for field in one["schema"]["fields"] if "constraints" in field]
    known = {field["name"]: categories_of(field, one["format"]) for field, one in fields}
    found = _of_file(path, total, NO_NAMES, known)
    in_part = resource.get(IN_PART, {})
    if found.base != in_part.get(ROUNDED_TO, 0):
        base = in_part.get(ROUNDED_TO, 0)
        raise InputError(
            f"{path} is rounded to multiples of {found.base}, but {METADATA} states {base}; publish it again"
        )
    found = replace(found, margins=tuple(map(tuple, in_part.get(MARGINS, ()))))
    if set(found.table.schema.names) != set(resource[SUB_TABLE]):
        raise InputError(
            f"{path} is of {found.label}, {METADATA} has {'*'.join(resource[SUB_TABLE])}; publish it again"
        )
    return found


def _is_exact(count: Count) -> TypeGuard[int]:
    return isinstance(count, int)


def _is_count(count: Any) -> bool:
    return all(isinstance(end, int) and not isinstance(end, bool) and end >= 0 for end in _ends(count))


def _ends(count: Any) -> tuple[Any, ...]:
    return count if isinstance(count, tuple) else () if count is None else (count,)


def _whole(number: Any) -> Any:
    return int(number) if number is not None and number == int(number) else number


def _each_count(counts: Iterable[Any], path: Path) -> list[Count]:
    """Each count parsed; InputError with the row of an invalid one."""
    found = list[Count]()
    for row, count in enumerate(counts, start=1):
        try:
            found.append(_count_of(count) if isinstance(count, str) else _whole(count))
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{path} is not a table of counts, which its name promises: the one of row {row} is not a whole "
                "number; "
                "write 2-4 for one that is between 2 and 4, and nothing for a missing one",
                f"row {row} has the count {count}",
            ) from error
    return found


def _count_of(text: str) -> Count:
    """A count in CSV: a number, two numbers with -, or nothing; ValueError otherwise."""
    if may_be_thousands(text):
        raise ValueError(f"{text} may be thousands")
    low, between, high = text.partition("-")
    if not (between and text.isascii() and low.strip().isdecimal() and high.strip().isdecimal()):
        return whole_of(text) if text else None
    return (int(low), int(high)) if int(low) != int(high) else int(low)


def _of_file(path: Path, total: str, not_totals: Texts | None, known: Texts | None = None) -> Published:
    read = _reader(path.name)
    if read is None:
        raise InputError(
            f"{path} is not a CSV, Parquet, JSON-stat or PX file; name tables by .csv, .parquet, .json or .px, and "
            "keep "
            "nothing else in their folder"
        )
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} has more than {MOST_BYTES} bytes; name a smaller table")
        listed = read(path)
    except PermissionError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({type(error).__name__}); name a published table of counts") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} is not a table of counts, which its name promises ({error}); publish it again"
        ) from error
    return _published(path, listed.marked(total), known, total, not_totals)


def _published(path: Path, listed: Listed, known: Texts | None, total: str, not_totals: Texts | None) -> Published:
    rows = list(zip(*listed.columns.values(), strict=True)) if listed.columns else [()] * len(listed.counts)
    if len(rows) == 1 and {*rows[0]} <= {total} and _is_count(count := listed.counts[0]) and _is_exact(count):
        return Published.of_total(str(path), count, listed.base)
    if not listed.columns:
        raise InputError(
            f"{path} has no variable, only {COUNT}, and not one number of records; give a table with a variable"
        )
    categories = {**{name: list(own) for name, own in listed.categories.items()}, **(known or {})}
    names = list(listed.columns)
    axes = [row for row, cell in enumerate(rows) if total not in cell]
    given = [listed.counts[row] for row in axes]
    is_suppressed = np.array([not _is_exact(count) for count in given], np.bool_)
    counts = [count if _is_exact(count) else 0 for count in given]
    if bad := [count for count in listed.counts if not _is_count(count)]:
        raise InputError(
            f"{path} has {many(len(bad), 'cell')} without a whole count of records; name a table of whole counts"
        )
    if empty := [count for count in listed.counts if isinstance(count, tuple) and count[0] > count[1]]:
        raise InputError(
            f"{path} has {many(len(empty), 'range')} of counts with the higher number first; write the lower one "
            "first, such as 2-4",
            ", ".join(f"{low}-{high}" for low, high in empty[:MOST_QUOTED]),
        )
    if sum(counts) > MAX_TOTAL or any(end > MAX_TOTAL for count in listed.counts for end in _ends(count)):
        raise InputError(f"{path}: the counts sum to more than {MAX_TOTAL}; name a table of counts")
    variables, columns = [], list[Counts]()
    # a total of 0 alone may name a category: rounded or of some records, it may have others
    zeros = [row for row, count in enumerate(listed.counts) if total in rows[row] and _ends(count) == (0,)]
    for name in names:
        texts = [listed.columns[name][row] for row in axes]
        named = {*texts, *(listed.columns[name][row] for row in zeros)} - {total}
        own = tuple(c for c in categories.get(name, sorted(named)) if c != total)
        if not own:
            why = (
                f"is rounded to multiples of {listed.base} and lists no cell, as each is 0"
                if listed.base
                else "is empty"
            )
            raise InputError(
                f"{path} {why}, and names no category of {name!r}; name the published folder that it is in"
            )
        place = {category: code for code, category in enumerate(own)}
        if unknown := named - set(place):
            raise InputError(
                f"{path} has {many(len(unknown), 'category')} of {name!r} that its list of categories lacks; "
                "publish it again"
            )
        variables.append(Variable(name, own))
        columns.append(np.array([place[text] for text in texts], np.int64))
    schema = Schema(tuple(variables))
    codes = np.stack(columns, axis=1)
    if len(schema.keys.distinct(codes.astype(np.uint16))[0]) < len(codes):
        raise InputError(f"{path} lists a cell twice; correct the file")
    if listed.base and (is_suppressed.any() or any(count % listed.base for count in counts)):
        raise InputError(f"{path} has counts that are not multiples of {listed.base}; publish it again")
    table, suppressed = Table.of(schema, codes, np.array(counts, np.int64)), codes[is_suppressed].astype(np.uint16)
    found = Published(str(path), table, set(names) <= set(categories), suppressed, listed.base)
    sums = tuple(_sums(path, names, schema, rows, listed.counts, total))
    if listed.base:
        margins = [one for one in sums if one.names != tuple(names)]
        rounded = [one.names for one in margins if one.names]
        if not len(table) and all(total in listed.categories.get(n, ()) or listed.totals.get(n) for n in names):
            # all totals are 0, and not listed
            rounded = [own for size in range(1, len(names)) for own in combinations(names, size)]
        elif not margins and known is None:
            raise InputError(
                f"{path} is rounded to multiples of {found.base}, and alone does not state which of its sums are "
                "too; name the published folder that it is in, or list its totals"
            )
        _require_own_totals(path, found, margins)
        return replace(found, margins=tuple(rounded))
    found = _with_left_out(replace(found, sums=sums), codes.astype(np.uint16))
    if not_totals is not None:
        _require_no_totals(found, not_totals, total, is_alone=known is None)
    return found


def _require_no_totals(found: Published, allowed: Texts, total: str, *, is_alone: bool) -> None:
    """InputError if a category is one of totals, by its name or, in a single file, by its counts; a warning by its
    counts alone.
    """
    variables = found.table.schema.variables
    totals = [(v.name, c) for v in variables for c in v.categories if is_reserved(c)]
    if is_alone and not totals:
        plain = ((v.name, c) for v in variables for c in v.categories if is_plain(c))
        unsaid = [(name, c) for name, c in plain if c not in allowed.get(name, ())]
        totals = named_sums(found.table, allowed) if found.is_exact else unsaid
    if totals:
        name, category = totals[0]
        raise InputError(
            f"{found.source} has rows of totals, by the category {category!r} of {name!r}, not by {total!r}. Name in "
            f"a relation, as under earlier in a config: total: {category!r}; or, if it is none, "
            f"not_totals: {{{name}: [{category!r}]}}"
        )
    for name, category in dict.fromkeys(sum_categories(found.table, allowed) if is_alone and found.is_exact else ()):
        said = f"{category!r} of {name!r} has the sums of others. If it is their total, and no category, its records"
        remedy = f"name it in a relation by total: {category!r}, otherwise by not_totals: {{{name}: [{category!r}]}}"
        emit(WARNING, f"warning: {found.source}: {said} count twice: {remedy}")


def _with_left_out(found: Published, listed: Codes) -> Published:
    """The table with the unlisted cells of totals that exceed the listed cells; their counts are missing.

    Totals of known cells only are left out.

    listed  (n, variables) codes of all listed cells
    """
    table, suppressed = found.table, found.suppressed
    schema = table.schema
    for one in found.sums:
        columns, numbers = [schema.index(name) for name in one.names], np.arange(len(one.cells))
        own, _ = one.added(schema.names, table.codes, table.counts)
        is_more = (one.low > own) & ~np.isin(numbers, one.matching(found.suppressed.astype(np.int64)[:, columns]))
        left_out = _unlisted(schema, listed, one, np.flatnonzero(is_more))
        is_more &= ~np.isin(numbers, one.matching(left_out.astype(np.int64)[:, columns]))
        for wrong in np.flatnonzero((one.high < own) | is_more)[:1]:
            cell = schema.restrict(columns).written(one.cells[wrong]) if columns else "all records"
            low, high = int(one.low[wrong]), int(one.high[wrong])
            value = f"{low}" if low == high else f"{low}-{high}"
            return replace(
                found, contradiction=f"{found.source} lists {value} for {cell}, and its cells have {own[wrong]}"
            )
        suppressed = np.unique(np.concatenate([suppressed, left_out]), axis=0)
    return replace(found, suppressed=suppressed, sums=found.sums if len(suppressed) else ())


def _unlisted(schema: Schema, listed: Codes, sums: Sums, chosen: npt.NDArray[np.int64]) -> Codes:
    others = [v for v, name in enumerate(schema.names) if name not in sums.names]
    space = schema.space(others)
    if not len(chosen) or space.cells * len(chosen) > MOST_UNLISTED:
        return np.zeros((0, len(schema)), np.uint16)
    codes = np.zeros((len(chosen) * space.cells, len(schema)), np.uint16)
    codes[:, [schema.index(name) for name in sums.names]] = np.repeat(sums.cells[chosen], space.cells, axis=0)
    codes[:, others] = np.tile(space.unpack(np.arange(space.cells)), (len(chosen), 1))
    return codes[schema.keys.matching(listed, codes) < 0]


def _sums(
    path: Path,
    names: Sequence[str],
    schema: Schema,
    rows: Sequence[tuple[str, ...]],
    counts: Sequence[Count],
    total: str,
) -> Iterator[Sums]:
    places = [{category: code for code, category in enumerate(variable.categories)} for variable in schema.variables]
    by_names: dict[tuple[int, ...], dict[tuple[int, ...], tuple[int, int]]] = {}
    for cell, count in zip(rows, counts, strict=True):
        axes = tuple(v for v, category in enumerate(cell) if category != total)
        if len(axes) == len(names) and not isinstance(count, tuple):
            continue
        if lacking := [names[v] for v in axes if cell[v] not in places[v]]:
            raise InputError(f"{path} has totals of a category of {lacking[0]!r} that no cell has; publish it again")
        if count is None:
            continue
        of, place = by_names.setdefault(axes, {}), tuple(places[v][cell[v]] for v in axes)
        if place in of:
            raise InputError(f"{path} lists a total twice; correct the file")
        of[place] = count if isinstance(count, tuple) else (count, count)
    for axes, of in sorted(by_names.items()):
        # independent of the order of the lines
        codes, ends = zip(*sorted(of.items()), strict=True)
        cells = np.array(codes, np.int64).reshape(len(of), len(axes)).astype(np.uint16)
        low, high = np.array(ends, np.int64).T
        yield Sums(tuple(names[v] for v in axes), cells, low, high)


def _require_own_totals(path: Path, found: Published, margins: Sequence[Sums]) -> None:
    """InputError if the listed totals of a rounded table differ from its cells.

    For a single file they state which sums are off by less than the base.
    """
    for one in margins:
        own, is_unlisted = one.added(found.table.schema.names, found.table.codes, found.table.counts)
        if is_unlisted.any() or (own != one.low).any():
            raise InputError(
                f"{path} is rounded, and its totals of {one.of} are not what its cells add up to; publish it again"
            )


def _reader(name: str) -> Callable[[Path], Listed] | None:
    """The reader by suffix; None if the file is not a table."""
    if _is_about(name):
        return None
    readers = {".csv": _csv, ".parquet": _parquet, ".json": _json_stat, ".jsonstat": _json_stat, ".px": read_px}
    return readers.get(Path(name).suffix.lower())


def _csv(path: Path) -> Listed:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    if len(set(header)) < len(header) or any(len(row) != len(header) for row in rows):
        raise ValueError("its rows have not one value a column")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(header, ())
    counts, base = _counts(columns, path)
    own = {name: [out_of_csv(text) for text in column] for name, column in columns.items()}
    return Listed(own, counts, {}, base)


def _counts(columns: dict[str, Any], path: Path) -> tuple[list[Count], int]:
    """Take the counts and their status out of the columns, and give the counts and the base of rounding.

    Every other column is a variable. Raises an error for a table without counts, or with other numbers.
    """
    if WEIGHTED_TOTAL in columns:
        raise InputError(f"{path} {OF_WEIGHTS}")
    found = [name for name in columns if name == COUNT or name.startswith(ROUNDED_COUNT)]
    if not found:
        raise ValueError(f"it has no column {COUNT}")
    if len(found) > 1:
        raise ValueError(f"its numbers are {' and '.join(found)}, and not one count a cell")
    base, counts = _base_of(found[0]), _each_count(columns.pop(found[0]), path)
    status = columns.pop(STATUS, None)
    if status is not None and [*status] != [WITHHELD_STATUS if count is None else "" for count in counts]:
        raise ValueError(f"its {STATUS} has other values than {WITHHELD_STATUS}, or is of other cells")
    return counts, base


def _base_of(measure: str) -> int:
    """The base in the name of a column of counts, 0 if exact; an error for other names."""
    if measure == COUNT:
        return 0
    base = measure.removeprefix(ROUNDED_COUNT)
    if not (base.isdecimal() and int(base) > 1 and measure.startswith(ROUNDED_COUNT)):
        raise ValueError(f"its numbers are {measure}, and not exact")
    return int(base)


def _parquet(path: Path) -> Listed:
    columns = {name: list(column) for name, column in read_columns(path)[0].items()}
    counts, base = _counts(columns, path)
    if bad := [name for name, column in columns.items() if any(not isinstance(text, str) for text in column)]:
        raise ValueError(f"a category of {bad[0]!r} is missing or no text")
    return Listed(columns, counts, {}, base)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({type(error).__name__}); publish it again") from error


def _json_stat(path: Path) -> Listed:
    """JSON-stat 2.0. In a list each cell has a value; in an object a missing cell has no records.

    A missing cell with the status of confidential ones is suppressed. One measure and one period are not variables.
    """
    content = _json(path)
    if content.get("class") != "dataset" or str(content.get("version")) != "2.0":
        raise ValueError("it is not a dataset of JSON-stat 2.0")
    names, sizes = content["id"], [int(size) for size in content["size"]]
    categories = {name: _categories(content["dimension"][name]["category"]) for name in names}
    if [len(categories[name]) for name in names] != sizes:
        raise ValueError("its categories do not match its sizes")
    roles = content.get("role", {})
    measures = [code for name in roles.get("metric", ()) for code in categories[name]]
    if len(measures) > 1:
        raise ValueError(f"it has several measures, by {', '.join(roles['metric'])}; name a table of counts")
    base = _base_of(measures[0] if measures else content.get("extension", {}).get("measure", COUNT))
    for name in (*roles.get("metric", ()), *roles.get("time", ())):  # the contents and the period of PxWebApi
        if len(categories[name]) == 1:
            del categories[name]
    names, sizes = list(categories), list(map(len, categories.values()))
    values, space = content["value"], KeySpace(tuple(sizes))
    if isinstance(values, list):
        if len(values) != space.cells:
            raise ValueError(f"it has {len(values)} values of {space.cells} cells")
        listed = dict(enumerate(values))
    else:
        listed = {int(key): value for key, value in values.items()}
    suppressed = _confidential(content.get("status") or {})
    if any((value is None) != (key in suppressed) for key, value in listed.items()):
        raise ValueError(f"its cells without a value are not those whose status is {CONFIDENTIAL!r}")
    listed |= dict.fromkeys(suppressed)
    keys = np.array(list(listed), np.int64)
    if len(keys) and not (keys.min() >= 0 and keys.max() < space.cells):
        raise ValueError("it numbers a cell that it does not have")
    statuses = {name: content["dimension"][name].get("extension", {}).get("eliminationValueCode") for name in names}
    totals = {name: (code,) for name, code in statuses.items() if code is not None}
    return replace(_numbered(categories, space.unpack(keys), list(listed.values()), base), totals=totals)


def _confidential(status: Any) -> set[int]:
    """The suppressed cells; an error for another status, which may mark an inexact number."""
    each = enumerate(status) if isinstance(status, list) else ((int(key), statuses) for key, statuses in status.items())
    statuses = {key: one for key, one in each if one not in (None, "")}
    if others := sorted({str(one) for one in statuses.values()} - {CONFIDENTIAL}):
        raise ValueError(f"it marks cells by the status {others[0]!r}, which may mark inexact counts")
    return set(statuses)


def _categories(category: Mapping[str, Any]) -> list[str]:
    index = category.get("index") or list(category["label"])
    return list(index) if isinstance(index, list) else sorted(index, key=index.__getitem__)


def _numbered(categories: Texts, codes: Codes, counts: Sequence[Any], base: int) -> Listed:
    """From the codes of cells; a whole number is a count, however it is written."""
    columns = {name: [own[code] for code in codes[:, v].tolist()] for v, (name, own) in enumerate(categories.items())}
    whole = [int(n) if isinstance(n, float) and n.is_integer() else n for n in counts]
    return Listed(columns, whole, categories, base)
