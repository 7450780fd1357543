"""Tables on disk: sparse Parquet parts, their memory-mapped form, and columns of results.

A written table is `part-00000.parquet`, ... and `schema.json`. The schema is removed first and written last, so a
folder with a schema is complete. It has the cells and total of every part and the table's digest. Equal tables give
equal bytes.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sdc.memory import give_back
from sdc.model import subtable as st
from sdc.model.documents import sparse, typed
from sdc.model.errors import InputError
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.table import Cells, Codes, Counts, MissingCounts, Table, partition_edges
from sdc.paths import require_own
from sdc.run_format import COUNT, LEAST, PART, PARTS, SCHEMA, TABLE_FORMAT, UNKNOWN, variable_columns
from sdc.storage.run_folder import read_format
from sdc.storage.whole_file import replacing

CODES, COUNTS, LEASTS = "codes.npy", "counts.npy", "least.npy"
# no limit on dictionaries: beyond it Arrow stores plain values, without the order of categories
FORM: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}

CELLS_AT_ONCE = 1 << 18  # of a part

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


# The stored form


def write_table(table: Table, folder: str | Path, *, parts: int = 1) -> None:
    """Write the cells in order, cut into `parts` equal ranges; an older table is replaced.

    Each axis is a dictionary column with all categories in order; `count` is int64, in records. Of a table with missing
    counts `least` is too, and the schema has its unknown sub-tables. InputError for a variable called `count`, or
    `least` beside it, ValueError without parts.
    """
    if parts < 1:
        raise ValueError(f"{parts} parts; write at least one")
    for name in (COUNT,) if table.missing is None else (COUNT, LEAST):
        if name in table.schema.names:
            raise InputError(f"a variable is called {name!r}, like the column of counts; rename it")
    folder = _cleared(folder, PARTS)
    edges = partition_edges(len(table), parts)
    written = []
    for part, (start, stop) in enumerate(pairwise(edges)):
        name, counts = PART.format(part), table.counts[start:stop]
        content = pa.table(
            {**named_columns(_axes(table.schema), table.codes[start:stop]), COUNT: pa.array(counts, pa.int64())}
        )
        if table.missing is not None:
            content = content.append_column(LEAST, pa.array(table.missing.least[start:stop], pa.int64()))
        with replacing(folder / name) as temporary:
            pq.write_table(content, temporary, **FORM)
        written.append({"name": name, "cells": len(counts), "total": int(counts.sum())})
    _write_schema(folder, table, parts=written)


def read_written_table(folder: str | Path) -> Table:
    """Read the table of `write_table`; InputError names a missing or corrupt part."""
    folder = Path(folder)
    # recorded names, not a listing: a missing part must be noticed
    recorded = _read_schema(folder, "parts")
    schema = _schema_of(recorded, folder)
    expected = [part["name"] for part in recorded["parts"]]
    unknown = sorted({path.name for path in folder.glob(PARTS)} - set(expected))
    if unknown:
        raise InputError(f"{folder} has {unknown[0]}, which its {SCHEMA} does not name; write the table again")
    # check all parts before allocating memory
    more = [LEAST] if UNKNOWN in recorded else []
    files = [_part(folder / part["name"], schema, part, more) for part in recorded["parts"]]
    ends = np.cumsum([0, *(part["cells"] for part in recorded["parts"])])
    codes, counts = np.empty((ends[-1], len(schema.axes)), np.uint16), np.empty(ends[-1], np.int64)
    least = list[Counts]()
    for file, part, begin, end in zip(files, recorded["parts"], ends[:-1], ends[1:], strict=True):
        _read_part(file, folder / part["name"], schema, part, codes[begin:end], counts[begin:end])
        least += [_column(file, name, folder / part["name"]).fill_null(0).to_numpy() for name in more]
    give_back()
    table = Table(schema, codes, counts, _missing(recorded, schema, np.concatenate(least) if least else None))
    if table.digest != recorded["digest"]:  # parts were exchanged, or codes changed
        raise InputError(
            f"{folder} is corrupt: its table has the digest {table.digest[:12]}, {SCHEMA} records "
            f"{recorded['digest'][:12]}; write the table again"
        )
    return table


def _axes(schema: Schema) -> list[Variable]:
    return [schema.variables[axis] for axis in schema.axes]


def named_columns(variables: Sequence[Variable], codes: Codes) -> dict[str, pa.DictionaryArray]:
    """Return the category names of cells with (n, variables) codes, one column per variable."""
    return {
        variable.name: pa.DictionaryArray.from_arrays(pa.array(column.astype(np.int32)), pa.array(variable.categories))
        for variable, column in zip(variables, codes.T, strict=True)
    }


def _missing(recorded: Mapping[str, Any], schema: Schema, least: Counts | None) -> MissingCounts | None:
    """What the schema of a table with missing counts records as unknown."""
    if least is None:
        return None
    return MissingCounts(least, tuple(st.named(names, schema) for names in recorded[UNKNOWN]))


def _part(path: Path, schema: Schema, recorded: Mapping[str, Any], more: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a part with the recorded number of cells; InputError for another file."""
    file = _open_parquet(path)
    names = [axis.name for axis in _axes(schema)]
    if file.schema_arrow.names != [*names, COUNT, *more] or file.schema_arrow.field(COUNT).type != pa.int64():
        raise InputError(f"{path} is corrupt: its columns are not those of {SCHEMA}; write the table again")
    _check_recorded(path, "cells", file.metadata.num_rows, recorded)
    return file


def _read_part(
    file: pq.ParquetFile, path: Path, schema: Schema, recorded: Mapping[str, Any], codes: Codes, counts: Counts
) -> None:
    """Fill (cells, axes) codes and (cells,) counts."""
    # column by column: Arrow's form of all columns is several times the table
    for v, variable in enumerate(_axes(schema)):
        codes[:, v] = _codes(_column(file, variable.name, path), variable, path)
    # a missing count becomes 0, and the wrong total is noticed below
    counts[:] = _column(file, COUNT, path).fill_null(0).to_numpy()
    _check_recorded(path, "total", int(counts.sum()), recorded)


def _check_recorded(path: Path, what: str, found: int, recorded: Mapping[str, Any]) -> None:
    if found != recorded[what]:
        raise InputError(f"{path} is corrupt: {what} {found}, recorded {recorded[what]}; write the table again")


def _column(file: pq.ParquetFile, name: str, path: Path) -> pa.ChunkedArray:
    with _corrupt_if(path):
        return file.read([name]).column(name)


def _codes(column: pa.ChunkedArray, variable: Variable, path: Path) -> Codes:
    encoded = column.combine_chunks() if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    encoded = encoded if isinstance(encoded, pa.Array) else encoded.combine_chunks()
    place = {name: code for code, name in enumerate(variable.categories)}
    codes = [place.get(name) for name in encoded.dictionary.to_pylist()]
    if encoded.null_count or None in codes:
        raise InputError(f"{path} is corrupt: column {variable.name!r} has unknown categories; write the table again")
    # by name: a rewritten file may have another order of categories
    final: Codes = np.array(codes, np.uint16)[encoded.indices.to_numpy()]
    return final


# Part by part


@dataclass(frozen=True)
class PartFile:
    """A file of cells: name, SHA-256, and the range of codes of its first axis."""

    name: str
    digest: str
    first: int
    last: int


@dataclass(frozen=True)
class Place:
    """A folder with a written table, for other processes; `digest` is the SHA-256 of its schema."""

    folder: str
    digest: str
    parts: tuple[PartFile, ...]


@dataclass(frozen=True)
class PartedTable(Cells):
    """A written table that is read by parts, which must be as `place_of` found them."""

    place: Place
    schema: Schema = field(compare=False, repr=False)
    cells: int = field(compare=False)
    records: int = field(compare=False)
    has_unknown: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return self.cells

    @property
    def total(self) -> int:
        return self.records

    def hides(self, subtable: SubTable) -> bool:
        """See `Cells.hides`; InputError for a table with missing counts, which is read whole."""
        if self.has_unknown:
            raise InputError(f"{self.place.folder} has missing counts and is not read by parts; allow more memory")
        return False

    def chunks(self, cells: int = 0) -> Iterator[tuple[Codes, Counts]]:
        """Yield some 2^18 cells at a time; InputError for a missing or changed part."""
        return self.chunks_between(0, self.schema.keys.sizes[0] - 1)

    def chunks_between(self, first: int, last: int) -> Iterator[tuple[Codes, Counts]]:
        """Read only parts with such cells; InputError as `chunks`."""
        names = [axis.name for axis in _axes(self.schema)]
        for path, batch in self._batches([*names, COUNT], first, last):
            yield self._codes(path, batch, self.schema.axes), batch.column(COUNT).to_numpy()

    def codes_of(self, variables: Sequence[int]) -> Iterator[Codes]:
        """Read only these columns; InputError as `chunks`."""
        axes = [self.schema.names[axis] for axis in dict.fromkeys(self.schema.levels.axis_of[v] for v in variables)]
        for path, batch in self._batches(axes):
            yield self._codes(path, batch, variables)

    def counts(self) -> Iterator[Counts]:
        """Read only the counts; InputError as `chunks`."""
        return (batch.column(COUNT).to_numpy() for _, batch in self._batches([COUNT]))

    def _batches(
        self, columns: list[str], first: int = 0, last: int = 1 << 16
    ) -> Iterator[tuple[Path, pa.RecordBatch]]:
        for part in self.place.parts:
            if part.last < first or last < part.first:
                continue
            path = Path(self.place.folder) / part.name
            # digested and read from the same bytes, so a concurrent change is harmless
            content = pa.BufferReader(_unchanged(path, part.digest))
            with _corrupt_if(path):
                batches = pq.ParquetFile(content).iter_batches(CELLS_AT_ONCE, columns=columns, use_threads=False)
                yield from ((path, batch) for batch in batches)

    def _codes(self, path: Path, batch: pa.RecordBatch, variables: Sequence[int]) -> Codes:
        codes = np.empty((len(batch), len(variables)), np.uint16)
        for place, v in enumerate(variables):
            axis = self.schema.variables[self.schema.levels.axis_of[v]]
            found = _codes(pa.chunked_array([batch.column(axis.name)]), axis, path)
            codes[:, place] = self.schema.levels.groups[v][found]
        return codes


def place_of(folder: str | Path) -> Place:
    """Return a written table's folder with its current files; InputError if it is not complete."""
    folder = Path(folder).absolute()
    recorded = _read_schema(folder, "parts")
    axis = _axes(_schema_of(recorded, folder))[0]
    parts = [_part_of(folder / part["name"], axis) for part in recorded["parts"]]
    return Place(str(folder), hashlib.sha256((folder / SCHEMA).read_bytes()).hexdigest(), tuple(parts))


def _part_of(path: Path, variable: Variable) -> PartFile:
    with _corrupt_if(path):
        content = path.read_bytes()
        column = pq.ParquetFile(pa.BufferReader(content)).read([variable.name]).column(variable.name)
    codes = _codes(column, variable, path)
    ends = (int(codes[0]), int(codes[-1])) if len(codes) else (1, 0)
    return PartFile(path.name, hashlib.sha256(content).hexdigest(), *ends)


@lru_cache(maxsize=8)
def open_parts(place: Place) -> PartedTable:
    """Open the table once per process; InputError for a missing or changed schema."""
    recorded = json.loads(_unchanged(Path(place.folder) / SCHEMA, place.digest))
    return PartedTable(
        place, _schema_of(recorded, Path(place.folder)), recorded["cells"], recorded["total"], UNKNOWN in recorded
    )


def _unchanged(path: Path, digest: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; if a worker reports this, set output.folder to one that all of "
            "them see, or give workers more memory"
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(f"{path} was changed during the run; run again to count the table")
    return content


# schema.json


def _cleared(folder: str | Path, pattern: str) -> Path:
    """Remove schema and parts from the folder; the schema goes first, since it marks a complete table."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCHEMA).unlink(missing_ok=True)
    # all parts: the new table may have fewer
    for old in folder.glob(pattern):
        old.unlink()
    return folder


def _write_schema(folder: Path, table: Table, **more: Any) -> None:
    content = {
        "format": TABLE_FORMAT,
        "variables": [sparse(Variable, variable) for variable in table.schema.variables],
        "cells": len(table),
        "total": table.total,
        "digest": table.digest,
        **({} if table.missing is None else {UNKNOWN: [st.names(t, table.schema) for t in table.missing.unknown]}),
        **more,
    }
    with replacing(folder / SCHEMA) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_schema(folder: Path, *more: str) -> dict[str, Any]:
    """Read the schema; InputError if it lacks a key, RunFolderError as `read_format`."""
    content = read_format(folder / SCHEMA, TABLE_FORMAT, "the table is missing or incomplete")
    if lacking := [key for key in ("variables", "cells", "total", "digest", *more) if key not in content]:
        raise InputError(f"{folder / SCHEMA} lacks {', '.join(lacking)}; write the table again")
    return content


def _schema_of(recorded: Mapping[str, Any], folder: Path) -> Schema:
    return Schema(typed(tuple[Variable, ...], recorded["variables"], folder / SCHEMA))


# The memory-mapped form


def write_memory_form(table: Table, folder: str | Path) -> None:
    """Write codes and counts as arrays that workers map into memory, and the schema last."""
    folder = _cleared(folder, "*.npy")
    least = () if table.missing is None else ((LEASTS, table.missing.least),)
    for name, array in ((CODES, table.codes), (COUNTS, table.counts), *least):
        with replacing(folder / name) as temporary, temporary.open("wb") as file:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    _write_schema(folder, table)


@lru_cache(maxsize=8)
def open_memory_form(folder: Path, digest: str) -> Table:
    """Open the table of this digest with read-only mapped arrays, once per process.

    InputError if the folder is incomplete, has another table, or another user may change it.
    """
    for path in (folder, folder / CODES, folder / COUNTS, folder / SCHEMA):
        require_own(path, "name another scratch")
    recorded = _read_schema(folder)
    schema, least = _schema_of(recorded, folder), _map(folder / LEASTS) if UNKNOWN in recorded else None
    table = Table(schema, _map(folder / CODES), _map(folder / COUNTS), _missing(recorded, schema, least))
    if table.digest != digest:
        raise InputError(f"{folder} is not the table {digest[:12]}; write the memory form again")
    return table


def _map(path: Path) -> npt.NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be mapped ({error}); write the memory form again") from error
    # a plain view: kernels would compile again for the memmap subclass
    view: npt.NDArray[Any] = np.asarray(array)
    return view


# Columns of results


def write_columns(
    path: str | Path, columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write one-dimensional columns of equal length to a Parquet file, with text metadata."""
    write_row_groups(path, [columns], metadata)


def write_row_groups(
    path: str | Path,
    parts: Iterable[Mapping[str, Sequence[Any] | npt.NDArray[Any]]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write columns in one or more parts, one in memory at a time."""
    with replacing(Path(path)) as temporary:
        _write_parts(temporary, parts, metadata)


def columns_in_memory(columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes that `write_columns` writes."""
    _write_parts(into := BytesIO(), [columns], metadata)
    return into.getvalue()


def _write_parts(
    into: Path | BytesIO,
    parts: Iterable[Mapping[str, Sequence[Any] | npt.NDArray[Any]]],
    metadata: Mapping[str, str] | None,
) -> None:
    texts = dict(metadata or {})
    tables = (pa.table({k: pa.array(v) for k, v in part.items()}).replace_schema_metadata(texts) for part in parts)
    first = next(tables)
    with pq.ParquetWriter(into, first.schema, **FORM) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def read_columns(path: str | Path, only: Sequence[str] | None = None) -> tuple[Columns, dict[str, str]]:
    """Read all or some columns and metadata; strings and columns with nulls become objects.

    InputError if they cannot be read, KeyError for a missing column.
    """
    with _corrupt_if(Path(path)):
        content = _open_parquet(Path(path)).read(only)
    if only and (lacking := [name for name in only if name not in content.column_names]):
        raise KeyError(lacking[0])
    named = ((name, content.column(name)) for name in content.column_names)
    columns = {name: np.array(c.to_pylist(), object) if c.null_count else c.to_numpy() for name, c in named}
    metadata = content.schema.metadata or {}
    return columns, {key.decode(): value.decode() for key, value in metadata.items()}


def write_cells(
    path: Path, schema: Schema, cells: npt.NDArray[np.integer], numbers: Mapping[str, npt.NDArray[np.int64]]
) -> None:
    """Write (n, axes) codes of cells, one named column per axis, and (n,) numbers of them."""
    codes = {name: np.ascontiguousarray(cells[:, v], np.uint16) for v, name in enumerate(_own(schema, numbers))}
    write_columns(path, {**codes, **numbers})


def read_cells(path: Path, schema: Schema, numbers: Sequence[str]) -> tuple[Codes, Columns]:
    """Read cells and numbers; InputError if they are corrupt or of another schema."""
    columns, _ = read_columns(path)
    own = _own(schema, numbers)
    expected = {**dict.fromkeys(own, np.uint16), **dict.fromkeys(numbers, np.int64)}
    # exact types: floats might be rounded silently
    found = {name: column.dtype for name, column in columns.items()}
    if found != {name: np.dtype(kind) for name, kind in expected.items()}:
        raise InputError(f"{path} is corrupt: its columns are not {', '.join(expected)}; run the build again")
    for name, size in zip(own, schema.keys.sizes, strict=True):
        if (columns[name] >= size).any():
            raise InputError(
                f"{path} is corrupt: column {name!r} has the code {columns[name].max()}, the variable has {size} "
                "categories; run the build again"
            )
    return np.stack([columns[name] for name in own], axis=1), {name: columns[name] for name in numbers}


def _own(schema: Schema, numbers: Iterable[str]) -> list[str]:
    """Return the axes' columns, all with a prefix if one has the name of another column."""
    return [*variable_columns([axis.name for axis in _axes(schema)], numbers).values()]


def write_csv(path: str | Path, columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]]) -> None:
    """Write columns as CSV with a header: UTF-8, quoted where needed, line feeds."""
    path = Path(path)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True))


def _open_parquet(path: Path) -> pq.ParquetFile:
    if not path.exists():
        raise InputError(f"{path} is missing; write it again")
    with _corrupt_if(path):
        return pq.ParquetFile(path)


@contextmanager
def _corrupt_if(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} is corrupt: {str(error).splitlines()[0]}; write it again") from error
