"""The same table whatever the partition and the memory: counting, spilling, merging by key ranges."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from sdc.data import counting, reading
from sdc.data.counting import Packing
from sdc.data.reading import read_table
from sdc.model.errors import SdcError
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
Codes = npt.NDArray[np.integer]


def schema_of(sizes: list[int]) -> Schema:
    names = (f"v{v:02}" for v in range(len(sizes)))
    return Schema(tuple(Variable(n, tuple(str(c) for c in range(s))) for n, s in zip(names, sizes, strict=True)))


def write_parts(folder: Path, schema: Schema, codes: Codes, cuts: list[int], *, rows: int, suffix: str) -> Path:
    """Records as parts with row groups of so many rows; each part has the names in order of appearance."""
    folder.mkdir()
    for part, (start, stop) in enumerate(pairwise([0, *sorted(cuts), len(codes)])):
        columns = {n: pa.array(c).cast(pa.string()) for n, c in zip(schema.names, codes[start:stop].T, strict=True)}
        path = folder / f"{part:03}.{suffix}"
        if suffix == "parquet":
            pq.write_table(pa.table(columns), path, row_group_size=rows)
        else:
            pyarrow.csv.write_csv(pa.table(columns), path)
    return folder


@given(sizes=some.lists(some.integers(1, 1 << 16), min_size=1, max_size=12), seed=some.integers(0, 99))
def test_packed_cells_are_ordered_as_their_codes(sizes: list[int], seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, sizes, (30, len(sizes)))
    packing = Packing(sizes)
    keys = packing.pack([(np.arange(size), column) for size, column in zip(sizes, codes.T, strict=True)], len(codes))
    assert np.array_equal(np.column_stack(list(packing.unpack(keys))), codes)
    order = sorted(range(len(codes)), key=lambda row: tuple(keys[:, row]))
    assert order == sorted(range(len(codes)), key=lambda row: tuple(codes[row]))


@quick
@given(
    sizes=some.lists(some.sampled_from([1, 2, 3, 7, 4000]), min_size=1, max_size=8),
    cuts=some.lists(some.integers(0, 60), max_size=4),
    memory=some.sampled_from([1, 3000, 10_000, 1 << 30]),
    rows=some.integers(1, 20),
    suffix=some.sampled_from(["parquet", "csv"]),
    seed=some.integers(0, 99),
)
def test_same_table_whatever_the_parts_and_the_memory(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    cuts: list[int],
    memory: int,
    rows: int,
    suffix: str,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("t")
    schema, generator = schema_of(sizes), np.random.default_rng(seed)
    codes = generator.integers(0, np.minimum(sizes, generator.integers(1, 9)), (60, len(sizes)))
    listed = {variable.name: variable.categories for variable in schema.variables}
    write_parts(folder / "parts", schema, codes, cuts, rows=rows, suffix=suffix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_PILE_ROWS", 5)
        patch.setattr(reading, "_UNIT_ROWS", 10)
        patch.setattr(reading, "_PARTS", 1)
        table = read_table(folder / "parts", categories=listed, max_categories=4000, memory=memory)
    assert table == Table.of(schema, codes)


class Watching:
    """In this process; notes the units of every call."""

    workers, scratch = 1, None

    def __init__(self) -> None:
        self.units: dict[str, list[Any]] = {}

    def run(self, function: Callable[..., Any], table: Any, units: Sequence[Any], is_over: Any = None) -> Iterator[Any]:
        self.units[function.__name__] = list(units)
        return (function(table, unit) for unit in units)


def test_counted_cells_are_merged_by_ranges_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of([3] * 5)
    codes = np.random.default_rng(3).integers(0, 3, (400, 5))
    counts = np.arange(400)
    for part, rows in enumerate(np.array_split(np.arange(400), 3)):
        columns = dict(zip(schema.names, codes[rows].T, strict=True))
        pq.write_table(pa.table({**columns, "count": counts[rows]}), tmp_path / f"{part}.parquet")
    expected, executor = Table.of(schema, codes, counts), Watching()
    monkeypatch.setattr(reading, "_PARTS", 1)
    assert read_table(tmp_path, executor=executor) == expected
    assert set(executor.units) == {"count_part"}
    assert read_table(tmp_path, executor=executor, memory=10_000) == expected
    assert len(executor.units["sort_run"]) == 3
    assert len(executor.units["merge_range"]) == 5


def test_a_large_part_is_several_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_UNIT_ROWS", 25)
    schema, codes = schema_of([2, 3]), np.random.default_rng(1).integers(0, 2, (95, 2))
    write_parts(tmp_path / "parts", schema, codes, [20], rows=10, suffix="parquet")
    executor = Watching()
    assert read_table(tmp_path / "parts", executor=executor).total == 95
    groups = [[span for _, span in unit.pieces] for unit in executor.units["count_part"]]
    assert [span for some in groups for span in some] == [None, range(0, 3), range(3, 6), range(6, 8)]


def test_a_scratch_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, codes = schema_of([9, 9]), np.random.default_rng(1).integers(0, 9, (95, 2))
    write_parts(tmp_path / "parts", schema, codes, [], rows=10, suffix="parquet")
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(SdcError, match=r"scratch .* cannot be written: .*; free the disk, or give more memory"):
        read_table(tmp_path / "parts", memory=1)


def test_a_scratch_that_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, codes = schema_of([9, 9]), np.random.default_rng(1).integers(0, 9, (95, 2))
    write_parts(tmp_path / "parts", schema, codes, [], rows=10, suffix="parquet")
    monkeypatch.setattr(counting, "save", lambda cells, folder: tmp_path / "elsewhere.npy")
    with pytest.raises(SdcError, match=r"elsewhere\.npy cannot be read: .*; name a scratch that every worker shares"):
        read_table(tmp_path / "parts", memory=1)
