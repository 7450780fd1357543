"""Read microdata or counted cells, in one file or many parts, into a table.

The table does not depend on the format of the source, the order of records, the partition into parts, the number of
workers or the memory. A category is a text, as written. Stored numbers, truth values and dates are named as Python and
pandas write them: 1, 1.0, True, 2024-01-31; whole numbers of SPSS, Stata, SAS and Excel, which store floats only, as 1.
Texts become numbers only for bins and top and bottom codes. The order of the categories of a variable is

1. that of `categories`, or of the bins or groups of its recode;
2. otherwise canonical, see `canonical_order`: by number, by interval or by text, top and bottom codes at the ends.
   It is never that of the file, which could reveal the first record.

A variable has the categories of the settings and those of valid records, not those that occur only in excluded records,
rows of count 0 or unused entries of a dictionary. Similar categories, see `sdc.model.alike`, are refused, kept apart or
merged. A missing value is a null, a NaN or an empty string; it gets its category before any recode.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import ValidationError

from sdc.config.build import BuildConfig
from sdc.config.file import faults_of
from sdc.config.given import require_names
from sdc.config.old_keys import current, warn
from sdc.config.table import CsvConfig, TableConfig
from sdc.data.counting import Array, CellTally, FinalCodes, Folder, Packing, merge, scratch_of, weights_of
from sdc.data.hierarchies import hierarchies_of, with_levels
from sdc.data.reader import room_of
from sdc.data.records import (
    FRAME,
    Layout,
    Piece,
    batches,
    check_kinds,
    layouts_of,
    require_all_values,
    require_once,
    source_of,
)
from sdc.data.source import Source, SourcePart, require_records
from sdc.data.structural_zeros import read_structural_zeros
from sdc.data.vocabulary import PROBLEMS, BadRecord, BadRecords, Coding, without_values
from sdc.executor import IN_PROCESS, Executor
from sdc.model.alike import alike_key, alikes, decimal_of, differences, may_be_thousands
from sdc.model.errors import IncompleteTableError, InputError, nearest
from sdc.model.schema import MAX_CATEGORIES, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import MAX_TOTAL, Counts, Table
from sdc.model.totals import SumCategory, is_plain, is_reserved, require_no_totals, sum_categories, without_totals
from sdc.model.weights import RecordWeights
from sdc.run_format import ROUNDED_COUNT

COUNT = "count"
OTHER_COMMANDS = (
    "table.missing_counts: true, sdc bounds, sdc widths, sdc enumerate or sdc check, which accept tables with missing "
    "counts"
)
TableLike: TypeAlias = Table | Any
"""A table, or what `read_table` makes one of: a data frame, or the path of a file."""
_BETWEEN = re.compile(r"\s*\d+\s*-\s*\d+\s*")
MEMORY = 1 << 30
"""Default bytes for counted cells."""

INDEX = re.compile(r"__index_level_\d+__")  # pandas's name of an index in Parquet
OF_BUILDS = ("path", "missing_counts", "weight", "expect", "structural_zeros", "partitions")
SETTINGS = tuple(key for key in TableConfig.model_fields if key not in OF_BUILDS)
_BLOCK = 1 << 16
_UNIT_ROWS, _UNIT_BYTES = 1 << 22, 1 << 28  # of a unit at most
_CUTS, _PARTS, _SMALL = 4, 256, 4  # so many units with workers; parts combined in one unit, and their size


def read_table(source: Any, *, executor: Executor = IN_PROCESS, memory: int = MEMORY, **settings: Any) -> Table:
    """Read a table from microdata, one row a record, or from counted cells with a column `count`.

    Parameters
    ----------
    source : path, URL or data frame
        Parquet, text (.csv, .tsv, .txt, also as .gz, .bz2, .xz or .zst), SPSS (.sav, .zsav), Stata (.dta), SAS
        (.sas7bdat, .xpt) or Excel (.xlsx); a folder or a glob of such parts, all of one kind; a data frame of pandas,
        Polars or Arrow; or a LazyFrame of Polars or a relation of DuckDB, which are run whole.
    executor : Executor
        What counts the parts.
    memory : int, default 1 GiB
        Bytes of each process for cells beside the table itself. The rest goes to disk.
    **settings
        The keys of `table` in a config:

        variables : columns to use, in this order; default all
        ignore : patterns of names in the folder or glob that are not parts
        columns : the column of each variable that has another name, and that of `count`
        csv : how text files are written, such as {"delimiter": ";"}: delimiter, encoding, decimal
        categories : category names in order, by variable; any other value is bad
        missing : category name for missing values, by variable, or one for all; without it they are bad
        exclude_missing : variables of which records with a missing value are left out, or True for all
        recodes : bins, groups, or top and bottom codes, such as {"age": {"bins": {"under 15": [None, 15]}}}
        hierarchies : variables that are levels of one, coarsest first, such as {"industry": ["major", "detail"]}
        not_totals : categories that are not totals, though they look like them, by variable
        alike : "refuse", "keep" or "merge" categories that are alike
        invalid_records : "refuse", or "exclude": leave them out
        max_categories : a variable with more is refused; default 256

    Returns
    -------
    Table
        The counts of the cells that have records.

    Raises
    ------
    InputError
        For whatever cannot be read as a table of counts, with the reason.

    Notes
    -----
    One pass over the source. The table does not depend on its format, order or partition, or on the workers.

    Examples
    --------
    >>> sdc.read_table("czech_auto_workers.csv", variables=["A", "C"])
    Table(2 variables, 4 non-zero cells, 1841 records)
    """
    return _count_source(source, settings, executor, memory).table


def table_of(source: Any, variables: Sequence[str] | None = None) -> Table:
    """A table as it is, and whatever else `read_table` reads; InputError as there.

    variables  those that are kept; default all
    """
    if not isinstance(source, Table):
        return read_table(source, variables=variables)
    return source if variables is None else source.marginal(list(variables))


def read_weights(
    source: Any, weight: str, *, executor: Executor = IN_PROCESS, memory: int = MEMORY, **settings: Any
) -> RecordWeights:
    """Read the weights of records: how many each stands for.

    Parameters
    ----------
    source : path, URL or data frame
        The records, as for `read_table`.
    weight : str
        The column of weights, which is not a variable.
    executor, memory, **settings
        As for `read_table`.

    Returns
    -------
    RecordWeights
        For each cell with records their sum, the least and the largest, in millionths.

    Raises
    ------
    InputError
        Where there is no such column, where a weight is missing, no number or not above 0, and as `read_table`.

    Notes
    -----
    It costs one pass over the records.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["f", "m"], "weight": [10.5, 20.0]})
    >>> sdc.read_weights(people, "weight").totals.tolist()
    [10500000, 20000000]
    """
    weights = _count_source(source, settings, executor, memory, weight).weights
    assert weights is not None  # there is a column of weights
    return weights


def _count_source(
    source: Any, given: Mapping[str, Any], executor: Executor, memory: int, weight: str | None = None
) -> CountedRecords:
    named = current({name: value for name, value in given.items() if value is not None}, "table", warn)
    require_names(named, SETTINGS, "a table")
    path = str(source) if isinstance(source, str | Path) else FRAME
    settings = settings_of(path, {**named, "weight": weight})
    return count_records(source_of(source, settings.ignore, _used(settings)), settings, executor, memory)


def _used(settings: TableConfig) -> frozenset[str] | None:
    """Keys of the used columns; None for all."""
    if settings.variables is None:
        return None
    recodes = [recode.column for recode in settings.recodes.values()]
    named = {*settings.variables, *settings.columns.values(), *recodes, settings.weight, COUNT}
    return frozenset(alike_key(name) for name in named if name is not None)


def settings_of(path: str, given: Mapping[str, Any]) -> TableConfig:
    """The section of a config; InputError for invalid settings."""
    try:
        return TableConfig.model_validate({"path": path, **given})
    except ValidationError as error:
        raise InputError(faults_of(error, BuildConfig, "table")) from error


@dataclass(frozen=True)
class CountedRecords:
    """The table of valid records, and the number of bad ones by variable and first problem.

    `zeros` are the impossible cells in the file of the settings. A record with several problems counts under that of
    the first variable. `unmet` has, by variable, the named categories and values in groups without records. `sums` are
    categories that look like totals.
    """

    table: Table
    zeros: StructuralZeros
    set_aside: Mapping[tuple[str, BadRecord], int]
    unmet: Mapping[str, tuple[str, ...]]
    weights: RecordWeights | None = None
    sums: tuple[SumCategory, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Records read and excluded with reasons, named values without records, and likely totals."""
        aside = sum(self.set_aside.values())
        reasons = [{"variable": v, "reason": f.value, "records": n} for (v, f), n in self.set_aside.items()]
        read = {"records": self.table.total + aside, "set_aside": aside, "reasons": reasons}
        return {**read, "unmet": dict(self.unmet), "sums": self.sums}


def _read_layouts(source: Source, settings: TableConfig) -> tuple[list[Layout], str | None, tuple[Coding, ...]]:
    """The layouts of the parts, the column of counts, and the coding of each variable.

    InputError if they disagree or lack a named column.

    The expected number of records is checked here if the parts have it.
    """
    settings.csv.require_used(source.parts[0].suffix, source.path)
    layouts = layouts_of(source.parts, settings.csv)
    names, whole = layouts[0].names, bool(source.parts[0].whole)
    count = _count_of(names, settings, source.path)
    require_once(names, names if settings.variables is None else [], source.path)
    columns = (column for layout in layouts for column in layout.columns)
    # floats in some part: pandas turns 1 into 1.0 beside a null
    reals = {name: whole for name, kind in columns if pa.types.is_floating(kind)}
    codings = _codings(names, count, settings, source.path, reals)
    require_once(names, [count, settings.weight, *(coding.column for coding in codings)], source.path)
    if count is None and all(layout.groups for layout in layouts):
        require_records(sum(sum(layout.groups) for layout in layouts), source.path, settings.expect)
    check_kinds(source.parts, layouts, dict.fromkeys(coding.column for coding in codings))
    return layouts, count, codings


def read_schema(source: Source, settings: TableConfig) -> Schema:
    """The variables as far as columns and settings determine them, without levels; errors as `count_records`.

    Categories are those of the settings, or one without a name. InputError for a hierarchy with an unknown variable.
    """
    with source.named():
        *_, codings = _read_layouts(source, settings)
    missing = {coding.name: () if coding.missing is None else (coding.missing,) for coding in codings}
    named = {c.name: ("",) if c.order is None else dict.fromkeys((*c.order, *missing[c.name])) for c in codings}
    schema = Schema(tuple(Variable(name, tuple(categories)) for name, categories in named.items()))
    hierarchies_of(settings.hierarchies, schema)
    return schema


def count_records(
    source: Source, settings: TableConfig, executor: Executor = IN_PROCESS, memory: int = MEMORY
) -> CountedRecords:
    """Count every part, or row groups of a large one, as a unit, and merge the results."""
    if settings.missing_counts:
        raise InputError(
            f"{source.path} is to be read with missing counts, which this command does not do; leave out "
            "missing_counts, or use a build or sdc widths"
        )
    with source.named():
        layouts, count, codings = _read_layouts(source, settings)
    pieces = list(_pieces(source.parts, layouts, 1 if executor.workers == 1 else _CUTS))
    runner = executor if len(pieces) > 1 else IN_PROCESS  # for one unit, sending it gains nothing
    # results of several units may be in memory beside the cells they are merged into
    share = memory // (8 * len(pieces))
    unused = {} if count is None else _unused(layouts[0], {count, settings.weight}, codings, settings)
    how = settings.csv, unused
    with scratch_of(runner) as folder:
        units = [PartUnit(some, codings, count, settings.weight, memory, folder, share, *how) for some in pieces]
        tally = CellTally(codings, memory, folder, settings.weight is not None)
        with source.named():
            for found in runner.run(count_part, None, units):
                # the first error in the order of the parts, for any number of workers
                if isinstance(found, InputError):
                    raise found
                tally.unite(found)
            _check(tally, settings, source.path)
            return _settled(tally.close(memory), settings, runner, source.path, count is not None)


# Settings and columns


_COUNTS = re.compile(
    r"counts?|cell.?counts?|freqs?|frequenc(y|ies)|n|n.?obs|cases|anzahl|häufigkeit|effectifs?|frecuencia|aantal|antall?"
)


def looks_like_counts(column: str) -> bool:
    """Whether a column has a usual name of counts."""
    return _COUNTS.fullmatch(column.strip().casefold()) is not None


def _count_of(columns: Sequence[str], settings: TableConfig, path: str) -> str | None:
    """The column of counts: named in the settings, or `count`; None if each row is a record.

    InputError for an unused column that looks like one and is not declared.
    """
    if COUNT in settings.columns:
        return settings.columns[COUNT]
    recodes = [recode.column for recode in settings.recodes.values()]
    declared = {COUNT, settings.weight, *(settings.variables or ()), *settings.columns.values(), *recodes}
    doubtful = next((column for column in columns if looks_like_counts(column) and column not in declared), None)
    if COUNT in columns:
        if doubtful is not None and settings.variables is None:
            raise InputError(
                f"{path} has the columns {COUNT!r} and {doubtful!r}, which both look like counts; set table.columns: "
                f"{{count: {COUNT!r}}} if {doubtful!r} is a variable, or name the variables"
            )
        return COUNT
    if doubtful is not None:
        raise InputError(
            f"{path} has the column {doubtful!r}, and no setting declares whether it counts the records of a cell; "
            f"set table.columns: {{count: {doubtful!r}}} if it does, or {{count: null}} if each row is a record"
        )
    return None


def _codings(
    columns: list[str], count: str | None, settings: TableConfig, path: str, reals: Mapping[str, bool]
) -> tuple[Coding, ...]:
    recodes = settings.recodes
    made = [name for name, recode in recodes.items() if recode.column is not None and name not in columns]
    _check_columns(columns, count, settings, path)
    if settings.variables is None and (odd := [name for name in columns if not name or INDEX.fullmatch(name)]):
        what = f"is called {odd[0]!r}, the index of a data frame" if odd[0] else "has no name"
        raise InputError(f"{path}: column {columns.index(odd[0]) + 1} {what}; name it, or name the variables to use")
    names = {column: name for name, column in settings.columns.items()}
    known = [names.get(name, name) for name in columns if name not in (count, settings.weight)] + made
    known = [name for name in known if name != COUNT]  # a column that counts nobody
    chosen = known if settings.variables is None else list(settings.variables)
    for name in chosen:
        if is_reserved(name):
            raise InputError(f"{name!r} cannot be a variable: it stands for totals; rename the column")
        if name == COUNT:
            raise InputError(f"{COUNT!r} cannot be a variable: it is the column of counts; rename the column")
        if name == settings.weight:
            raise InputError(f"{name!r} cannot be a variable: it is the weight of a record; remove it from variables")
        if name not in known and not _alike(name, columns, settings, path):
            raise InputError(f"{path} has no column {name!r}; {nearest(name, columns)}")
    if (pairs := alikes(chosen)) and settings.alike != "keep":
        (one, other), *_ = pairs.items()
        raise InputError(
            f"{path} has the columns {one!a} and {other!a}, that differ only in {differences({one: other})}; rename "
            "one, "
            "leave it out of the variables, or set table.alike: keep"
        )
    for setting in ("categories", "missing", "exclude_missing", "recodes", "not_totals"):
        if isinstance(named := getattr(settings, setting), dict | tuple):
            _check_known(setting, named, [*known, *chosen], path)
    if isinstance(settings.csv.missing, dict):
        _check_known("csv.missing", settings.csv.missing, columns, path)
    # the schema's own checks (repeated names, too many variables) before a long read
    schema = Schema(tuple(Variable(name, settings.categories.get(name, ("",))) for name in chosen))
    return tuple(_coding(name, columns, count, settings, path, reals) for name in schema.names)


def _coding(
    name: str, columns: list[str], count: str | None, settings: TableConfig, path: str, reals: Mapping[str, bool]
) -> Coding:
    recode = settings.recodes.get(name)
    column = recode.column if recode is not None and recode.column is not None else settings.columns.get(name) or name
    column = column if column in columns else _alike(column, columns, settings, path) or column
    if column not in columns or column == count:
        raise InputError(
            f"recodes makes {name!r} of {column!r}, which is not a column of {path}; {nearest(column, columns)}"
        )
    limit = min(settings.max_categories, MAX_CATEGORIES)
    missing, listed, decimal = settings.missing_of(name), settings.categories.get(name), settings.csv.decimal
    marks = settings.csv.missing_of(column)
    coding = Coding(name, column, missing, listed, recode, limit, decimal, marks, settings.alike, reals.get(column))
    if reserved := sorted(filter(is_reserved, coding.named)):
        raise InputError(f"{name!r} is to have the category {reserved[0]!r}, which stands for totals; rename it")
    return coding


def _alike(name: str, columns: Sequence[str], settings: TableConfig, path: str) -> str | None:
    """The one column with a similar name; InputError if similar columns are not declared or ambiguous."""
    found = [column for column in columns if alike_key(column) == alike_key(name)]
    if found and (len(found) > 1 or settings.alike != "merge"):
        raise InputError(
            f"{path} has no column {name!a}, but {found[0]!a}, which differs only in "
            f"{differences({name: found[0]})}; rename "
            "it, or set table.alike: merge to use it"
        )
    return found[0] if found else None


_ROUNDED = re.compile(rf"{ROUNDED_COUNT}\d+")


def _check_columns(columns: list[str], count: str | None, settings: TableConfig, path: str) -> None:
    """InputError for a variable or a weight without its column, weights of cells, or rounded counts."""
    if rounded := [column for column in columns if _ROUNDED.fullmatch(column)]:
        raise IncompleteTableError(
            f"{path} has rounded counts, {rounded[0]!r}; give each cell its count, or use {OTHER_COMMANDS}"
        )
    for name, column in settings.columns.items():
        if column is None:
            continue
        if column not in columns or (column == count) != (name == COUNT):
            raise InputError(
                f"columns makes {name!r} of {column!r}, which is not a column of {path}; {nearest(column, columns)}"
            )
        if name in columns and name not in settings.columns.values():
            raise InputError(f"columns makes {name!r} of {column!r}, and {path} has a column {name!r}; rename both")
    if settings.weight is not None and (settings.weight not in columns or settings.weight == count):
        raise InputError(
            f"weight names {settings.weight!r}, which is not a column of {path}; {nearest(settings.weight, columns)}"
        )
    if settings.weight is not None and count is not None:
        raise InputError(
            f"{path} has the column {count!r}, so that its rows are cells, and weight = {settings.weight!r} is that of "
            "a record; give the records"
        )


def _check_known(setting: str, given: Iterable[str], known: Sequence[str], path: str) -> None:
    for name in given:
        if name not in known:
            raise InputError(f"{setting} names {name!r}, which is not a variable of {path}; {nearest(name, known)}")


# Parts as units


@dataclass(frozen=True)
class PartUnit:
    """A piece of a large part, or several small parts, and how to count them.

    count       the column of counts
    weight      the column of weights
    memory      bytes for cells in the counting process
    folder      for runs
    most_bytes  of cells that may be sent back; more become a run
    csv         the format of text files
    unused      columns of counted cells without a variable, and their categories that are not totals
    """

    pieces: tuple[Piece, ...]
    codings: tuple[Coding, ...]
    count: str | None
    weight: str | None
    memory: int
    folder: Folder
    most_bytes: int
    csv: CsvConfig
    unused: Mapping[str, Sequence[str]]

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        used = [*(coding.column for coding in self.codings), self.count, *self.unused, self.weight]
        return list(dict.fromkeys(column for column in used if column is not None))


def _pieces(parts: Sequence[SourcePart], layouts: Sequence[Layout], cuts: int) -> Iterator[tuple[Piece, ...]]:
    small, held, most_bytes, most_rows = list[Piece](), 0.0, -(-_UNIT_BYTES // cuts), -(-_UNIT_ROWS // cuts)
    for part, layout in zip(parts, layouts, strict=True):
        size, rows = layout.size or 0, sum(layout.groups)
        share = max(_SMALL * max(rows / most_rows, (part.size or most_bytes) / most_bytes), 1 / _PARTS)
        if small and held + share > 1:
            yield tuple(small)
            small, held = [], 0.0
        if rows <= most_rows and size <= most_bytes:
            small.append((part, None))
            held += share
            continue
        yield from (((part, range(at, min(at + most_bytes, size))),) for at in range(0, size, most_bytes))
        start, rows = 0, 0
        for stop, group in enumerate(layout.groups, start=1):
            rows += group
            if rows >= most_rows or stop == len(layout.groups):
                yield ((part, range(start, stop)),)
                start, rows = stop, 0
    if small:
        yield tuple(small)


def count_part(table: None, unit: PartUnit) -> CellTally | InputError:
    """The cells of its pieces. An InputError is returned, not raised: a worker would log its traceback."""
    tally = CellTally(unit.codings, unit.memory, unit.folder, unit.weight is not None)
    room, doubtful = room_of(unit.memory), set[SourcePart]()
    try:
        for part, batch in batches(unit.pieces, unit.columns, unit.csv, room):
            if _count_batch(batch, tally, unit, part):
                doubtful.add(part)
        for part, span in unit.pieces:
            if part in doubtful:
                require_all_values(part, span, unit.csv, room)
    except InputError as error:
        return error
    return tally.close(unit.most_bytes)


def _unused(
    layout: Layout, named: Collection[str | None], codings: Sequence[Coding], settings: TableConfig
) -> dict[str, Sequence[str]]:
    """Text columns of counted cells without a variable: their rows of totals would be counted too."""
    used = {*named, *(coding.column for coding in codings)}
    may_be = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary
    texts = {name for name, kind in layout.columns if name not in used and any(is_text(kind) for is_text in may_be)}
    return {name: settings.not_totals.get(name, ()) for name in layout.names if name in texts}


def _count_batch(batch: pa.RecordBatch, tally: CellTally, unit: PartUnit, part: SourcePart) -> bool:
    """Whether a row may have no value at all: none of the columns read has one."""
    for name, allowed in unit.unused.items():
        values = [value for value in batch.column(name).unique().to_pylist() if isinstance(value, str)]
        if found := next((v for v in values if is_reserved(v) or (is_plain(v) and v not in allowed)), None):
            raise InputError(
                f"{part} has {found!r} in column {name!r}, which makes no variable: its rows of totals would be "
                f"counted too. Leave them out, name the column among the variables, or set table.not_totals.{name}"
            )
    for name in filter(None, (unit.count, unit.weight)):
        absent = set(map(alike_key, unit.csv.missing_of(name)))
        if absent and not absent.isdisjoint(alike_key(str(value)) for value in batch.column(name).unique().to_pylist()):
            raise InputError(
                f"{part}: column {name!r} has values that csv.missing names; give each row its number, or list under "
                "csv.missing the columns that have missing values"
            )
    nulls = [vocabulary.nulls for vocabulary in tally.vocabularies]
    columns = [
        vocabulary.encode(batch.column(coding.column), str(part))
        for coding, vocabulary in zip(tally.codings, tally.vocabularies, strict=True)
    ]
    if unit.weight is not None:
        weights = weights_of(batch.column(unit.weight), unit.weight, str(part), unit.csv.decimal)
        # in two halves, whose sums cannot overflow
        total = (int((weights >> 32).sum()) << 32) + int((weights & 0xFFFFFFFF).sum())
        ones = np.ones(len(batch), np.int64)
        tally.add(columns, len(batch), np.stack([ones, weights, weights, weights]), len(batch), total)
        return False  # a record has a value
    if unit.count is not None:
        counts, sum_ = _counts(batch, unit, part)
        tally.add(columns, len(batch), counts[None], sum_)
        return False
    tally.add(columns, len(batch), None, len(batch))
    # usually some column has a value everywhere, and rows are not examined
    is_everywhere = all(own.nulls > n for own, n in zip(tally.vocabularies, nulls, strict=True))
    return is_everywhere and bool(without_values(batch).any())


def _counts(batch: pa.RecordBatch, unit: PartUnit, part: SourcePart) -> tuple[Counts, int]:
    """The counts of a batch, and their exact sum, which may exceed int64."""
    assert unit.count is not None  # its rows are cells
    column, where = batch.column(unit.count), f"{part}: column {unit.count!r}"
    if pa.types.is_nested(column.type):
        raise InputError(f"{where} has the type {str(column.type).partition('<')[0]}; a count is a whole number")
    if column.null_count:
        raise IncompleteTableError(
            f"{where} has {column.null_count} missing values; give each cell its count, or use {OTHER_COMMANDS}"
        )
    if not pa.types.is_dictionary(column.type):
        # each distinct value is multiplied once as a Python integer: the sum of a batch may exceed int64
        column = column.dictionary_encode()
    distinct = [_count(value, where, unit.csv.decimal) for value in column.dictionary.to_pylist()]
    indices = column.indices.to_numpy()
    times = np.bincount(indices, minlength=len(distinct))
    return np.array(distinct, np.int64)[indices], sum(c * int(n) for c, n in zip(distinct, times, strict=True))


def _count(value: object, where: str, decimal: str) -> int:
    """A stored count as an integer; InputError if it is negative, above 2^53 or no integer."""
    if isinstance(value, str) and _BETWEEN.fullmatch(value):
        raise IncompleteTableError(
            f"{where} has counts between two numbers; give each cell its count, or use {OTHER_COMMANDS}"
        )
    if isinstance(value, str) and may_be_thousands(value):
        raise InputError(
            f"{where} has a value with three zeros after a point or comma, which may be thousands; write counts "
            "without any",
            f"{where} has the value {value}",
        )
    digits, power = decimal_of(str(value), decimal if isinstance(value, str) else ".") or (-1, 0)
    if power < 0 or not 0 <= (number := digits * 10**power) <= MAX_TOTAL:
        raise InputError(
            f"{where} has a value that is not a count: a whole number from 0 to {MAX_TOTAL} (2^53); "
            f"write 2-4 where it is between two, nothing where it is missing, and use {OTHER_COMMANDS}",
            f"{where} has the value {value}",
        )
    return int(number)


# From the counted cells to the table


def _check(tally: CellTally, settings: TableConfig, path: str) -> None:
    """InputError for an unexpected number of records, none, or bad records; the message has all reasons."""
    require_records(tally.total, path, settings.expect)
    problems = [
        (v.coding, problem, v.bad[problem]) for v in tally.vocabularies for problem in PROBLEMS if problem in v.bad
    ]
    found = [one for one in problems if one[1] is not BadRecord.MISSING or not settings.excludes_missing(one[0].name)]
    if found and settings.invalid_records == "refuse":
        first = min(bad.part for *_, bad in found)
        raise InputError(
            f"{path} has invalid records, the first in {first}: {'; '.join(_bad(*one) for one in found)}; "
            "or leave them out with invalid_records: exclude",
            "\n".join(f"column {c.column!r} has the value {bad.value!r}" for c, _, bad in found if bad.value),
        )
    if not tally.total:
        reason = "all counts are zero" if tally.rows else "no rows"
        raise InputError(f"{path} has no records: {reason}; give a table with at least one")
    for coding, unmet in ((v.coding, sorted(v.unmet)) for v in tally.vocabularies):
        if unmet and coding.others is not None:  # a misspelt value would go to the group of all others
            raise InputError(
                f"recodes: groups of {coding.name!r} name {unmet}, which no record of {path} has in column "
                f"{coding.column!r}, and one group has all others; correct what is misspelt, take out what is not there"
            )


def _bad(coding: Coding, problem: BadRecord, bad: BadRecords) -> str:
    column, such = f"column {coding.column!r}", f"({bad.rows} such)"
    if problem is BadRecord.MISSING:
        return (
            f"missing values: {bad.rows} in {column}; name a category for them under `missing`, or leave their records "
            f"out by exclude_missing: [{coding.name}]"
        )
    if problem is BadRecord.OUTSIDE:
        categories = list(coding.listed or ())
        return f"{column} has values outside its categories {categories}; add them there {such}"
    return f"{column} has values that no bin or group of {coding.name!r} covers; extend them {such}"


def _settled(
    tally: CellTally, settings: TableConfig, executor: Executor, path: str, is_counted: bool
) -> CountedRecords:
    """The table in final codes, which depend on the categories, not on their order of appearance."""
    variables, codes = zip(*(vocabulary.settle() for vocabulary in tally.vocabularies), strict=True)
    schema = Schema(variables)
    packing = Packing(schema.sizes)
    pieces, problems = merge(tally, FinalCodes(packing, codes), executor)
    cells = list(pieces)
    table = _table(schema, packing, cells)
    if not table.total:
        raise InputError(f"{path} has no valid record: all {tally.total} are invalid; correct the data or the settings")
    table = without_totals(table, path, is_counted)
    weights = None
    if tally.is_weighted:
        weights = RecordWeights(*(np.concatenate([piece[packing.words + row] for piece in cells]) for row in (1, 2, 3)))
    of_levels = {level for levels in settings.hierarchies.values() for level in levels}
    table, rows = _without_nobodys(table, tally.codings, of_levels)
    weights = weights and weights.rows(rows)
    for measured in (table, *([Table(table.schema, table.codes, weights.totals)] if weights is not None else [])):
        require_no_totals(measured, settings.not_totals, path)
    unmet, sums = dict(_unmet(table, tally)), tuple(sum_categories(table, settings.not_totals))
    table, own = with_levels(table, settings.hierarchies)
    # last: the patterns need all categories
    zeros = zeros_of(table, settings.structural_zeros)
    aside = {(schema.names[v], PROBLEMS[problem]): records for (v, problem), records in sorted(problems.items())}
    return CountedRecords(table, zeros, aside, unmet, weights and weights.rows(own), sums)


def zeros_of(table: Table, structural_zeros: str | Path | None) -> StructuralZeros:
    """The impossible cells of a file of patterns; InputError if a record is in one."""
    zeros = NO_ZEROS if structural_zeros is None else read_structural_zeros(structural_zeros, table.schema)
    zeros.check(table.schema, table.codes, table.counts)
    return zeros


def _unmet(table: Table, tally: CellTally) -> Iterator[tuple[str, tuple[str, ...]]]:
    for variable, counts, vocabulary in zip(table.schema.variables, table.one_way(), tally.vocabularies, strict=True):
        categories = (category for category, n in zip(variable.categories, counts, strict=True) if not n)
        if found := (*categories, *sorted(vocabulary.unmet)):
            yield variable.name, found


def _without_nobodys(
    table: Table, codings: Sequence[Coding], of_levels: Collection[str]
) -> tuple[Table, npt.NDArray[np.int64]]:
    """The table with categories that have records or are named in the settings, in that order.

    Also returns the old row of each cell. Levels of a hierarchy have categories with records only: the parents of
    others are unknown.
    """
    places, variables = [], []
    for variable, coding, counts in zip(table.schema.variables, codings, table.one_way(), strict=True):
        named = () if variable.name in of_levels else coding.named
        used = [c for c, count in zip(variable.categories, counts, strict=True) if count or c in named]
        order = used
        if coding.order is None:
            order = coding.in_order([c for c in used if c != coding.missing])
            order += [c for c in used if c == coding.missing]
        variables.append(Variable(variable.name, tuple(order)))
        place = {category: number for number, category in enumerate(order)}
        # unused categories get any index: no cell has one
        places.append(np.array([place.get(c, 0) for c in variable.categories]))
    if tuple(variables) == table.schema.variables:
        return table, np.arange(len(table))
    codes = np.stack([place[column] for place, column in zip(places, table.codes.T, strict=True)], axis=1)
    renamed = Table.of(Schema(tuple(variables)), codes, table.counts)
    return renamed, renamed.schema.keys.matching(codes.astype(np.uint16), renamed.codes)


def _table(schema: Schema, packing: Packing, pieces: Sequence[Array]) -> Table:
    """The table of cells in final order, without cells of count 0."""
    # rows with the count 0 made categories known, and are no cells
    words = packing.words
    positive = [piece[words] > 0 for piece in pieces]
    size = sum(int(good.sum()) for good in positive)
    codes, counts = np.empty((size, len(schema)), np.uint16), np.empty(size, np.int64)
    start = 0
    for piece, good in zip(pieces, positive, strict=True):
        for at in range(0, len(good), _BLOCK):
            cells = piece[: words + 1, at : at + _BLOCK][:, good[at : at + _BLOCK]]
            stop = start + cells.shape[1]
            counts[start:stop] = cells[words]
            for v, column in enumerate(packing.unpack(cells[:words])):
                codes[start:stop, v] = column
            start = stop
    return Table(schema, codes, counts)
