"""Reading microdata or counted cells, Parquet or CSV, one file or a folder of parts, into a table.

What a table is does not depend on the format of the source, the order of its records or its partition into parts.
Category names are strings; an integer is its decimal numeral, a boolean `false` or `true`, a date its ISO form. The
order of the categories of a variable is

1. that of `categories`, where it lists the variable;
2. that of the dictionary, where Parquet stores the column as a dictionary of strings and every part carries the same
   one; its categories without records belong to the schema too;
3. otherwise sorted: by number where every name is an integer, by code point where not. Dictionaries that differ from
   part to part, such as those in order of appearance, give the sorted union of their categories.

A column in which every value is a numeral, some with a decimal point or exponent, has whole numbers as categories
(2.0 is 2, as pandas writes integers beside missing values); it is refused where one is not whole and `categories`
does not list it. A missing value is a null, a NaN or an empty string.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sdc.model.errors import InputError
from sdc.model.schema import MAX_CATEGORIES, Schema, Variable
from sdc.model.table import MAX_TOTAL, Codes, Counts, Table, group_ids
from sdc.storage.structural_zeros import read_structural_zeros, zeros_digest

COUNT = "count"
SUFFIXES = (".parquet", ".csv", ".csv.gz")

_BATCH_ROWS = 1 << 17
_PILE_ROWS = 1 << 19
_CSV_BLOCK = 1 << 24
_HEADER_BLOCK = 1 << 20
_NAMES = pa.dictionary(pa.int32(), pa.string())
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,99})")
# 1e+16 as floats are written to CSV; 1E5 may be a code
_NUMERAL = re.compile(_INTEGER.pattern + r"(\.[0-9]+)?(e[+-][0-9]{1,2})?|-?inf")

Batch: TypeAlias = tuple[pa.RecordBatch, Collection[str]]
"""Records, and the columns whose dictionary carries the order of their categories."""


def read_table(
    path: str | Path,
    *,
    variables: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    missing: Mapping[str, str] | None = None,
    max_categories: int = 256,
    structural_zeros: str | Path | None = None,
) -> Table:
    """The table of microdata, one row a record, or of counted cells where there is a column `count`.

    path              a .parquet, .csv or .csv.gz file, or a folder of such parts, all of one suffix
    variables         columns to use, in this order; default all
    categories        category names in order, by variable; any other value is refused
    missing           category name for missing values, by variable; last where `categories` does not list it.
                      Without it missing values are refused
    max_categories    a variable with more is refused: it is an identifier or wants binning
    structural_zeros  a YAML file of impossible patterns, see `sdc.storage.structural_zeros`; refused where
                      a record is in one

    Read in batches: memory holds the counts of the cells and some 2^19 records, not all of them.
    InputError for whatever cannot be read as a table of counts, see the module.
    """
    parts = source_files(path)
    columns = _common_columns(parts)
    _check_columns(columns, parts[0])
    chosen = _chosen(columns, variables, path)
    categories, missing = categories or {}, missing or {}
    for setting, given in (("categories", categories), ("missing", missing)):
        _check_known(setting, given, columns, path)
    found = [_Vocabulary(name, missing.get(name), min(max_categories, MAX_CATEGORIES)) for name in chosen]
    cells = _count_cells(parts, found, counted=COUNT in columns)
    _check_missing(found, path)
    if not cells.total:
        reason = "all counts are zero" if len(cells.counts) else "no rows"
        raise InputError(f"{path} has no records: {reason}; give a table with at least one")
    table = _table(found, cells, categories)
    if structural_zeros is None:
        return table
    return table.with_zeros(read_structural_zeros(structural_zeros, table.schema))


def source_files(path: str | Path) -> tuple[Path, ...]:
    """The file itself, or the parts of the folder sorted by name; hidden names and names with `_` are left out.

    InputError where there is nothing there, no part, a sub-folder, or parts of several suffixes.
    """
    source = Path(path)
    if not source.exists():
        raise InputError(f"{source} does not exist; give a Parquet or CSV file, or a folder of parts")
    if not source.is_dir():
        if _suffix(source) is None:
            raise InputError(f"{source} is neither Parquet nor CSV; its name should end in {', '.join(SUFFIXES)}")
        return (source,)
    with _readable(source):
        listed = sorted(p for p in source.iterdir() if not p.name.startswith((".", "_")))
    folders = [p.name for p in listed if p.is_dir()]
    if folders:
        raise InputError(f"folder {source} has the sub-folder {folders[0]!r}; put all parts into one folder")
    parts = tuple(p for p in listed if _suffix(p))
    suffixes = sorted({str(_suffix(p)) for p in parts})
    if len(suffixes) != 1:
        found = f"parts of several kinds ({', '.join(suffixes)})" if parts else "no parts"
        raise InputError(f"folder {source} has {found}; give parts of one kind, {', '.join(SUFFIXES)}")
    return parts


def source_digest(path: str | Path, structural_zeros: str | Path | None = None) -> str:
    """SHA-256 over the names and the bytes of the files that `read_table` would read, and the structural zeros."""
    sha = hashlib.sha256()
    for part in source_files(path):
        with _readable(part), part.open("rb") as file:
            sha.update(f"{part.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    if structural_zeros is not None:
        sha.update(f"structural zeros\0{zeros_digest(structural_zeros)}\n".encode())
    return sha.hexdigest()


def _suffix(path: Path) -> str | None:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), None)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns what the file system and Arrow raise into one InputError."""
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read: {reason}; check that it is whole, and UTF-8 if it is CSV") from error


# Columns


def _common_columns(parts: Sequence[Path]) -> list[str]:
    """The columns of every part; InputError where one has others, or another order."""
    columns = _columns(parts[0])
    for part in parts[1:]:
        if (other := _columns(part)) != columns:
            raise InputError(
                f"{part} has the columns {', '.join(other)} but {parts[0].name} has {', '.join(columns)}; "
                "give every part the same columns in the same order"
            )
    return columns


def _columns(part: Path) -> list[str]:
    with _readable(part):
        if not part.stat().st_size:
            raise InputError(f"{part} is empty; give a file with a header and records")
        schema = pq.read_schema(part) if _suffix(part) == ".parquet" else _open_csv(part).schema
        return list(schema.names)


def _check_columns(columns: list[str], part: Path) -> None:
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputError(f"{part} has {columns.count(twice[0])} columns called {twice[0]!r}; rename or drop one")
    if "" in columns:
        raise InputError(f"{part}: column {columns.index('') + 1} has no name; name it or drop it")
    if len(columns) == 1 and re.search(r"[;\t|]", columns[0]):
        raise InputError(f"{part} has the one column {columns[0]!r}; separate the columns by commas")


def _chosen(columns: list[str], variables: Sequence[str] | None, path: str | Path) -> list[str]:
    """The columns that are variables, in the order of the table."""
    chosen = [name for name in columns if name != COUNT] if variables is None else list(variables)
    for name in chosen:
        if name == COUNT:
            raise InputError(f"{COUNT!r} cannot be a variable: it is the column of counts; rename the column")
        if name not in columns:
            raise InputError(f"{path} has no column {name!r}; it has {', '.join(columns)}")
        if variables is None and name.strip().lower() == COUNT:
            raise InputError(f"{path} has the column {name!r}; rename it to {COUNT!r} if it counts records, or drop it")
    # the schema's own refusals (a name twice, too many variables) before a long read rather than after it
    return list(Schema(tuple(Variable(name, ("",)) for name in chosen)).names)


def _check_known(setting: str, given: Mapping[str, Any], columns: list[str], path: str | Path) -> None:
    known = [name for name in columns if name != COUNT]
    for name in given:
        if name not in known:
            raise InputError(f"{setting} names {name!r}, no variable of {path}; it has {', '.join(known)}")


def _check_missing(vocabularies: Iterable[_Vocabulary], path: str | Path) -> None:
    lacking = [f"{v.nulls} in column {v.name!r}" for v in vocabularies if v.nulls and v.missing is None]
    if lacking:
        raise InputError(
            f"{path} has missing values: {', '.join(lacking)}; name a category for them under `missing`, "
            "or leave the column out with --variables"
        )


# Batches of records


def _batches(part: Path, columns: list[str]) -> Iterator[Batch]:
    return _parquet_batches(part, columns) if _suffix(part) == ".parquet" else _csv_batches(part, columns)


def _parquet_batches(part: Path, columns: list[str]) -> Iterator[Batch]:
    with _readable(part):
        schema = pq.read_schema(part)
        strings = [name for name in columns if pa.types.is_string(schema.field(name).type)]
        file = pq.ParquetFile(part, read_dictionary=strings)
        ordered = {name for name in columns if pa.types.is_dictionary(schema.field(name).type)}
        ordered -= _without_dictionary_page(file.metadata)
        batches = file.iter_batches(_BATCH_ROWS, columns=columns)
    yield from ((batch, ordered) for batch in _each(batches, part))


def _without_dictionary_page(metadata: Any) -> set[str]:
    """Columns stored plainly somewhere: there Arrow makes up a dictionary by order of appearance."""
    groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
    chunks = (group.column(c) for group in groups for c in range(group.num_columns))
    return {chunk.path_in_schema for chunk in chunks if not chunk.has_dictionary_page}


def _csv_batches(part: Path, columns: list[str]) -> Iterator[Batch]:
    with _readable(part):
        options = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, _NAMES),
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
        )
        # in a file of one column an empty line is a missing value, and must not vanish
        batches = _open_csv(part, options, skip_empty=len(_columns(part)) > 1)
    yield from ((batch, ()) for batch in _each(batches, part))


def _open_csv(part: Path, options: Any = None, *, skip_empty: bool = True) -> Any:
    return pyarrow.csv.open_csv(
        part,
        pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK if options else _HEADER_BLOCK),
        pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=skip_empty),
        options,
    )


def _each(batches: Iterable[pa.RecordBatch], part: Path) -> Iterator[pa.RecordBatch]:
    """The batches, with what Arrow raises between them made an InputError."""
    iterator = iter(batches)
    while True:
        with _readable(part):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


# From batches to cells


class _Vocabulary:
    """The category names of one variable, each with the running code it got when it was first met."""

    def __init__(self, name: str, missing: str | None, limit: int) -> None:
        self.name, self.missing, self.limit = name, missing, limit
        self.codes: dict[str, int] = {}
        self.dictionaries: set[tuple[str, ...] | None] = set()
        self.nulls = 0

    def encode(self, column: pa.Array, *, ordered: bool) -> Codes:
        """Running codes of a column; `ordered` where its dictionary carries the order of the categories."""
        name_of = _namer(column.type, self.name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        names = [None if value is None else name_of(value) or None for value in column.dictionary.to_pylist()]
        codes = np.array([-1 if name is None else self._code(name) for name in names] + [-1])
        self._note(names, column, ordered)
        rows = codes[column.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]
        return self._with_missing(rows).astype(np.uint16)

    def _note(self, names: list[str | None], column: pa.Array, ordered: bool) -> None:
        if names or column.null_count < len(column):
            self.dictionaries.add(tuple(name for name in names if name is not None) if ordered else None)

    def _with_missing(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        absent = rows < 0
        if nulls := int(np.count_nonzero(absent)):
            self.nulls += nulls
            rows[absent] = 0 if self.missing is None else self._code(self.missing)
        return rows

    def _code(self, name: str) -> int:
        if name not in self.codes:
            self._check(name)
        return self.codes.setdefault(name, len(self.codes))

    def _check(self, name: str) -> None:
        """Whether there is room for one more category, and this is the name of one."""
        if len(self.codes) == self.limit:
            raise _too_many(self.name, self.limit)
        if re.search(r"[\r\n]", name):
            # Arrow reads on from a quote that nobody closes, and the records after it would be lost
            raise InputError(
                f"column {self.name!r} has a value of several lines, it begins {name[:20]!r}; "
                "close the quote there, or recode the value"
            )

    def settle(self, listed: Sequence[str] | None, used: npt.NDArray[np.bool_]) -> tuple[Variable, Codes]:
        """The variable, its categories in order, and the final code for each running code.

        used  (running codes,) which have records
        """
        names = list(self.codes)
        last = [self.missing] if self.missing is not None and self.nulls else []
        if listed is None:
            order, known = self._order([name for name in names if name not in last])
        else:
            order, known = list(listed), {name: _plain(name) for name in names if name not in listed}
        categories = tuple(order + [name for name in last if name not in order])
        if len(categories) > self.limit:
            raise _too_many(self.name, self.limit)
        place = {name: code for code, name in enumerate(categories)}
        codes = [place.get(known.get(name, name)) for name in names]
        outside = sorted(name for name, code, met in zip(names, codes, used, strict=True) if met and code is None)
        if outside:
            raise InputError(
                f"column {self.name!r} has the value {outside[0]!r}, outside its categories {list(categories)}; "
                f"add it there or correct the data ({len(outside)} such values)"
            )
        return Variable(self.name, categories), np.array([code or 0 for code in codes], np.uint16)

    def _order(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """The categories in order, and the category of each name that is not itself one."""
        if len(self.dictionaries) == 1 and (dictionary := next(iter(self.dictionaries))) is not None:
            return list(dict.fromkeys(dictionary)), {}
        if not all(_NUMERAL.fullmatch(name) for name in names):
            return sorted(names), {}
        known = {name: _plain(name) for name in names}
        fractions = sorted(name for name, plain in known.items() if not _INTEGER.fullmatch(plain))
        if fractions:
            raise InputError(
                f"column {self.name!r} has the value {fractions[0]}, not a whole number; bin the column, "
                "list its values under `categories`, or leave it out with --variables"
            )
        return sorted(set(known.values()), key=int), known


def _too_many(name: str, limit: int) -> InputError:
    return InputError(
        f"column {name!r} has more than {limit} categories; group or bin its values, leave it out with --variables, "
        f"or raise max_categories (at most {MAX_CATEGORIES})"
    )


def _plain(name: str) -> str:
    """A numeral that is a whole number as an integer; any other name as it is."""
    number = Decimal(name) if _NUMERAL.fullmatch(name) else Decimal("inf")
    return str(int(number)) if number.is_finite() and number == number.to_integral_value() else name


def _namer(kind: pa.DataType, column: str) -> Callable[[Any], str]:
    """How values of an Arrow type are named; an empty name is a missing value."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_floating(kind) or types.is_decimal(kind):
        return _number_name
    strings = (types.is_string, types.is_large_string, types.is_string_view)
    if any(is_kind(kind) for is_kind in (types.is_integer, types.is_null, *strings)):
        return str
    if types.is_date(kind):
        return lambda value: str(value.isoformat())
    raise InputError(
        f"column {column!r} has the type {kind}, which has no categories; recode it as strings or integers, "
        "or leave it out with --variables"
    )


def _number_name(value: float | Decimal) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return str(value)
    return _plain(f"{Decimal(str(value)):f}")


class _Cells:
    """Counts of the cells met so far, by running codes; holds the cells and one pile of records, not all."""

    def __init__(self, variables: int) -> None:
        self.codes: Codes = np.empty((0, variables), np.uint16)
        self.counts: Counts = np.empty(0, np.int64)
        self.total = 0
        self._pile: list[tuple[Codes, Counts]] = []

    def add(self, codes: Codes, counts: Counts, total: int) -> None:
        """One more batch, with the sum of its counts; InputError where the sum of all passes 2^53."""
        self.total += total
        if self.total > MAX_TOTAL:
            raise InputError(f"the counts sum to more than {MAX_TOTAL} (2^53); divide the table or check its counts")
        self._pile.append((codes, counts))
        if sum(len(pile) for _, pile in self._pile) > max(_PILE_ROWS, len(self.counts)):
            self.merge()

    def merge(self) -> None:
        """Sum the pile into the cells; sums in doubles are exact, because the total is at most 2^53."""
        codes = np.concatenate([self.codes, *(codes for codes, _ in self._pile)])
        counts = np.concatenate([self.counts, *(counts for _, counts in self._pile)])
        sizes = [int(column.max(initial=0)) + 1 for column in codes.T]
        _, first, group = np.unique(group_ids(codes, sizes), return_index=True, return_inverse=True)
        self.codes = np.ascontiguousarray(codes[first])
        self.counts = np.bincount(group, counts, minlength=len(first)).astype(np.int64)
        self._pile.clear()


def _count_cells(parts: Sequence[Path], vocabularies: Sequence[_Vocabulary], *, counted: bool) -> _Cells:
    cells = _Cells(len(vocabularies))
    columns = [vocabulary.name for vocabulary in vocabularies] + [COUNT] * counted
    for part in parts:
        for batch, ordered in _batches(part, columns):
            codes = np.empty((len(batch), len(vocabularies)), np.uint16)
            for v, found in enumerate(vocabularies):
                codes[:, v] = found.encode(batch.column(found.name), ordered=found.name in ordered)
            counts, total = _counts(batch.column(COUNT), part) if counted else _ones(len(batch))
            cells.add(codes, counts, total)
    cells.merge()
    return cells


def _ones(records: int) -> tuple[Counts, int]:
    return np.ones(records, np.int64), records


def _counts(column: pa.Array, part: Path) -> tuple[Counts, int]:
    """The counts of a batch, and their exact sum, which may pass what an int64 holds."""
    if pa.types.is_nested(column.type):
        raise InputError(f"{part}: column {COUNT!r} has the type {column.type}; a count is a whole number")
    if column.null_count:
        raise InputError(f"{part}: column {COUNT!r} has {column.null_count} missing values; give each cell its count")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    distinct = [_count(value, part) for value in column.dictionary.to_pylist()]
    indices = column.indices.to_numpy()
    times = np.bincount(indices, minlength=len(distinct))
    return np.array(distinct, np.int64)[indices], sum(c * int(n) for c, n in zip(distinct, times, strict=True))


def _count(value: object, part: Path) -> int:
    """A stored count as an integer; InputError where it is not one, negative, or more than 2^53."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not (number.is_finite() and 0 <= number <= MAX_TOTAL and number == int(number)):
        raise InputError(
            f"{part}: column {COUNT!r} has the value {value}; a count is a whole number from 0 to {MAX_TOTAL} (2^53)"
        )
    return int(number)


def _table(vocabularies: Sequence[_Vocabulary], cells: _Cells, categories: Mapping[str, Sequence[str]]) -> Table:
    """The table in final codes, which depend on the names met and not on when they were met."""
    variables, codes = [], np.empty_like(cells.codes)
    for v, vocabulary in enumerate(vocabularies):
        used = np.bincount(cells.codes[:, v], minlength=len(vocabulary.codes)) > 0
        variable, final = vocabulary.settle(categories.get(vocabulary.name), used)
        variables.append(variable)
        codes[:, v] = final[cells.codes[:, v]]
    return Table.of(Schema(tuple(variables)), codes, cells.counts)
