"""What is written is read back, byte for byte the same each time; what is missing or damaged is named."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.data.reading import read_table
from sdc.model.errors import InputError, RunFolderError
from sdc.model.schema import Schema, Variable
from sdc.model.table import MissingCounts, Table
from sdc.risk.critical_width import critical_widths
from sdc.storage.parquet import (
    open_memory_form,
    open_parts,
    place_of,
    read_columns,
    read_written_table,
    write_columns,
    write_memory_form,
    write_table,
)
from sdc.storage.whole_file import replacing
from tests.helpers.folders import contents


def random_table(variables: int, categories: int, records: int) -> Table:
    """Categories in no sorted order, and names that CSV must quote."""
    names = tuple(f"c, {(7 * c) % categories}" for c in range(categories))
    schema = Schema(tuple(Variable(f"v{v}", names) for v in range(variables)))
    codes = np.random.default_rng(1).integers(0, categories, (records, variables))
    return Table.of(schema, codes)


def categories_of(table: Table) -> dict[str, tuple[str, ...]]:
    """Those of each variable in order, which records alone do not tell."""
    return {variable.name: variable.categories for variable in table.schema.variables}


@pytest.fixture
def table() -> Table:
    return random_table(3, 4, 100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "table"


@settings(max_examples=25, deadline=None)
@given(variables=some.integers(1, 5), categories=some.integers(1, 5), records=some.integers(0, 60), data=some.data())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, variables: int, categories: int, records: int, data: some.DataObject
) -> None:
    folder, table = tmp_path_factory.mktemp("t"), random_table(variables, categories, records)
    for parts in data.draw(some.lists(some.integers(1, 9), min_size=1, max_size=2)):
        write_table(table, folder, parts=parts)
        assert len(list(folder.glob("*.parquet"))) == parts
        assert read_written_table(folder) == table
    if records:
        assert read_table(folder, categories=categories_of(table)) == table
    write_memory_form(table, folder / "mapped")
    assert open_memory_form(folder / "mapped", table.digest) == table


def test_a_table_with_missing_counts(table: Table, folder: Path) -> None:
    """Where this one has no record another may have some; both forms keep what is unknown."""
    counts = table.counts.copy()
    counts[0] = 0
    missing = Table(table.schema, table.codes, counts, MissingCounts(np.ones_like(counts), (0b110, 0b001)))
    for parts in (1, 3):
        write_table(missing, folder, parts=parts)
        found = read_written_table(folder)
        assert found == missing != Table(table.schema, table.codes, counts)
        assert found.missing is not None
        assert found.missing.unknown == (0b110, 0b001)
    write_memory_form(missing, folder / "mapped")
    assert open_memory_form(folder / "mapped", missing.digest) == missing
    with pytest.raises(InputError, match="has missing counts and is not read by parts; allow more memory"):
        critical_widths(missing, floor=1, parts=open_parts(place_of(folder)))
    least = Table(Schema((Variable("least", ("a", "b")),)), np.array([[0]], np.uint16), np.array([3]), missing.missing)
    with pytest.raises(InputError, match="a variable is called 'least'"):
        write_table(least, folder)


def test_the_largest_number_of_categories(folder: Path) -> None:
    schema = Schema((Variable("a", tuple(f"a category with a rather long name {c}" for c in range(65_536))),))
    table = Table.of(schema, np.arange(65_536)[::-1])
    write_table(table, folder, parts=2)
    again = read_table(folder, max_categories=65_536, categories=categories_of(table))
    assert read_written_table(folder) == table == again


def test_parts_are_equal_ranges_with_every_category(table: Table, folder: Path) -> None:
    write_table(table, folder, parts=4)
    parts = [pq.read_table(folder / f"part-{part:05}.parquet") for part in range(4)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for part in parts:
        assert part.schema.field("count").type == pa.int64()
        assert tuple(part["v0"].chunk(0).dictionary.to_pylist()) == table.schema.variables[0].categories


def test_same_table_same_bytes(table: Table, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_table(table, tmp_path / name, parts=2)
        write_memory_form(table, tmp_path / f"{name} mapped")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert contents(tmp_path / "one mapped") == contents(tmp_path / "two mapped")


def test_writing_again_leaves_nothing_of_the_older_table(table: Table, folder: Path) -> None:
    write_table(table, folder, parts=5)
    write_table(table, folder, parts=2)
    assert sorted(contents(folder)) == ["part-00000.parquet", "part-00001.parquet", "schema.json"]


def test_what_cannot_be_written(table: Table, folder: Path) -> None:
    with pytest.raises(ValueError, match="0 parts; write at least one"):
        write_table(table, folder, parts=0)
    counts = Table.of(Schema((Variable("count", ("x",)),)), np.zeros((1, 1), np.uint16))
    with pytest.raises(InputError, match="a variable is called 'count'"):
        write_table(counts, folder)


def test_a_writer_that_stops_leaves_no_whole_table(table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(table, folder, parts=2)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="no space left"):
        write_table(table, folder, parts=2)
    assert contents(folder) == {}
    with pytest.raises(
        RunFolderError, match=r"schema.json is missing: the table is missing or incomplete; run the bui"
    ):
        read_written_table(folder)


def test_replacing_keeps_the_older_file_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(TypeError, match="str"), replacing(path) as temporary:
        temporary.write_bytes(b"half") and temporary.write_text(7)  # type: ignore[arg-type]
    assert contents(tmp_path) == {"f": b"old"}


Damage = Callable[[Path], object]


def _other_table(folder: Path) -> None:
    table = read_written_table(folder)
    swapped = Table(table.schema, table.codes[::-1].copy(), table.counts)
    recorded = (folder / "schema.json").read_bytes()
    write_table(swapped, folder, parts=1)
    (folder / "schema.json").write_bytes(recorded)


def _columns(folder: Path) -> None:
    write_columns(folder / "part-00000.parquet", {"v0": ["x"], "count": [1]})


def _categories(folder: Path) -> None:
    content = pq.read_table(folder / "part-00000.parquet")
    unknown = pa.array(["x"] * len(content)).dictionary_encode()
    pq.write_table(content.set_column(0, "v0", unknown), folder / "part-00000.parquet")


def _cells(folder: Path) -> None:
    content = pq.read_table(folder / "part-00000.parquet")
    pq.write_table(content.slice(1), folder / "part-00000.parquet")


def _total(folder: Path) -> None:
    content = pq.read_table(folder / "part-00000.parquet")
    pq.write_table(content.set_column(3, "count", pa.nulls(len(content), pa.int64())), folder / "part-00000.parquet")


def _schema(**changes: object) -> Damage:
    def change(folder: Path) -> None:
        content = json.loads((folder / "schema.json").read_text()) | changes
        kept = {key: value for key, value in content.items() if value is not None}
        (folder / "schema.json").write_text(json.dumps(kept))

    return change


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda folder: (folder / "part-00000.parquet").unlink(), "part-00000.parquet is missing; write it again"),
        (lambda folder: (folder / "part-00000.parquet").write_bytes(b"PAR1"), "part-00000.parquet is corrupt: .*write"),
        (lambda folder: (folder / "part-00001.parquet").write_bytes(b""), "has part-00001.parquet, which its schema"),
        (_columns, "part-00000.parquet is corrupt: its columns are not those of schema.json"),
        (_categories, "part-00000.parquet is corrupt: column 'v0' has unknown categories"),
        (_cells, r"part-00000.parquet is corrupt: cells \d+, recorded \d+"),
        (_total, "part-00000.parquet is corrupt: total 0, recorded 100"),
        (_other_table, "is corrupt: its table has the digest .*, schema.json records"),
        (lambda folder: (folder / "schema.json").unlink(), "schema.json is missing: the table is missing or inc"),
        (lambda folder: (folder / "schema.json").write_text("{"), "schema.json cannot be read"),
        (lambda folder: (folder / "schema.json").write_text("[]"), "schema.json has format None, this version reads 2"),
        (_schema(format=1), "schema.json has format 1, this version reads 2; remove the run folder and run"),
        (_schema(parts=None), "schema.json lacks parts; write the table again"),
        (
            _schema(parts=[{"name": "part-00000.parquet", "cells": 1 << 60, "total": 1}]),
            "cells .*, recorded 1152921504",
        ),
        (_schema(parts=[{"name": "part-00000.parquet", "cells": -1, "total": 1}]), "cells .*, recorded -1;"),
    ],
)
def test_damage_is_named(table: Table, folder: Path, damage: Damage, match: str) -> None:
    write_table(table, folder)
    damage(folder)
    with pytest.raises((InputError, RunFolderError), match=match):
        read_written_table(folder)


@settings(max_examples=25, deadline=None)
@given(variables=some.integers(1, 5), records=some.integers(1, 60), parts=some.integers(1, 7), data=some.data())
def test_parts_have_the_cells_of_the_table(
    tmp_path_factory: pytest.TempPathFactory, variables: int, records: int, parts: int, data: some.DataObject
) -> None:
    folder, table = tmp_path_factory.mktemp("t"), random_table(variables, 4, records)
    write_table(table, folder, parts=parts)
    parted = open_parts(place_of(folder))
    codes, counts = (np.concatenate(arrays) for arrays in zip(*parted.chunks(), strict=True))
    assert np.array_equal(codes, table.codes)
    assert np.array_equal(counts, table.counts)
    assert np.array_equal(np.concatenate([*parted.counts()]), counts)
    some_of_them = data.draw(some.permutations(range(variables)))[: data.draw(some.integers(0, variables))]
    assert np.array_equal(np.concatenate([*parted.codes_of(some_of_them)]), table.codes[:, some_of_them])
    assert all(map(np.array_equal, parted.one_way(), table.one_way()))
    first, last = sorted(data.draw(some.tuples(some.integers(0, 3), some.integers(0, 3))))
    near = [*parted.chunks_between(first, last)]
    assert (
        sum(((c[:, 0] >= first) & (c[:, 0] <= last)).sum() for c, _ in near)
        == ((codes[:, 0] >= first) & (codes[:, 0] <= last)).sum()
    )
    assert all((c[:, 0].min() <= last) and (c[:, 0].max() >= first) for c, _ in near)
    assert (parted.schema, len(parted), parted.total) == (table.schema, len(table), table.total)


@pytest.mark.parametrize("name", ["schema.json", "part-00001.parquet"])
@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (Path.unlink, r"cannot be read: No such file or directory; if a worker reports this, set output\.folder"),
        (lambda path: path.write_bytes(path.read_bytes() + b" "), "was changed during the run; run again"),
    ],
)
def test_a_part_that_is_not_as_it_was(table: Table, folder: Path, name: str, damage: Damage, match: str) -> None:
    """Whole files that differ in a byte, and would be read: it is named, by whoever reads it next."""
    write_table(table, folder, parts=2)
    place = place_of(folder)
    damage(folder / name)
    with pytest.raises(InputError, match=f"{name} {match}"):
        [*open_parts(place).chunks()]


def origin(array: np.ndarray) -> np.ndarray:
    """What the array is a view of, as far down as NumPy's arrays go."""
    return origin(array.base) if isinstance(array.base, np.ndarray) else array


def test_the_mapped_arrays_are_not_copied(table: Table, folder: Path) -> None:
    write_memory_form(table, folder)
    mapped = open_memory_form(folder, table.digest)
    assert mapped == table
    for array in (mapped.codes, mapped.counts):
        assert isinstance(origin(array), np.memmap)
        assert type(array) is np.ndarray
        assert not array.flags.writeable
    assert open_memory_form(folder, table.digest) is mapped


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda folder: (folder / "schema.json").unlink(), "schema.json is missing"),
        (lambda folder: (folder / "codes.npy").unlink(), "codes.npy cannot be mapped .*; write the memory form again"),
        (lambda folder: (folder / "codes.npy").write_bytes(b""), "codes.npy cannot be mapped"),
        (lambda folder: (folder / "counts.npy").write_bytes(b"\x93NUMPY"), "counts.npy cannot be mapped"),
        (lambda folder: np.save(folder / "counts.npy", np.ones(3)), "is not the table"),
    ],
)
def test_damage_of_the_memory_form_is_named(table: Table, folder: Path, damage: Damage, match: str) -> None:
    write_memory_form(table, folder)
    damage(folder)
    with pytest.raises((InputError, RunFolderError), match=match):
        open_memory_form(folder, table.digest)


def test_columns_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "widths.parquet"
    columns = {"sub_table": np.array([1 << 62, 5]), "label": ["a*b", "c"], "exact": np.array([True, False])}
    write_columns(path, columns, {"small_count": "2"})
    read, metadata = read_columns(path)
    assert {name: column.tolist() for name, column in read.items()} == {
        "sub_table": [1 << 62, 5],
        "label": ["a*b", "c"],
        "exact": [True, False],
    }
    assert metadata == {"small_count": "2"}
    write_columns(path, {})
    assert read_columns(path) == ({}, {})
    with pytest.raises(InputError, match=r"none.parquet is missing; write it again"):
        read_columns(tmp_path / "none.parquet")
