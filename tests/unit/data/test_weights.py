"""Weights of records: summed cell by cell, whatever the parts and the memory."""

from collections import defaultdict
from pathlib import Path

import hypothesis.strategies as hs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from sdc.config.table import TableConfig
from sdc.data.counting import weights_of
from sdc.data.reading import CountedRecords, count_records
from sdc.data.source import open_source
from sdc.model.errors import InputError
from sdc.model.weights import UNIT

CATEGORIES = ["x", "y", "z"]


def counted(folder: Path, parts: list[pa.Table], memory: int, **more: object) -> CountedRecords:
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet")
    settings = TableConfig.model_validate({"path": str(folder), "weight": "w", **more})
    return count_records(open_source(str(folder)), settings, memory=memory)


@settings(max_examples=20)
@given(
    hs.lists(hs.tuples(hs.sampled_from(CATEGORIES), hs.integers(0, 4), hs.integers(1, 10**9)), min_size=3, max_size=60),
    hs.integers(1, 4),
)
def test_cells_have_the_sums_of_their_records(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, int, int]], parts: int
) -> None:
    """Beside Python's integers, with all in memory and with runs on disk; "y" comes after "z" in some parts only."""
    of = defaultdict[tuple[str, str], list[int]](list)
    for a, b, weight in records:
        of[a, str(b)].append(weight)
    pieces = [records[part::parts] for part in range(parts) if records[part::parts]]
    tables = [
        pa.table(dict(zip("abw", map(list, zip(*((a, b, w / UNIT) for a, b, w in piece), strict=True)), strict=True)))
        for piece in pieces
    ]
    for memory in (1, 1 << 30):
        found = counted(tmp_path_factory.mktemp("parts"), tables, memory)
        assert found.weights is not None
        found.weights.check(found.table)
        names = [v.categories for v in found.table.schema.variables]
        cells = [tuple(names[v][code] for v, code in enumerate(cell)) for cell in found.table.codes]
        columns = found.weights.totals, found.weights.least, found.weights.largest, found.table.counts
        own = {cell: (sum(of[cell]), min(of[cell]), max(of[cell]), len(of[cell])) for cell in of}
        assert {cell: tuple(int(c[row]) for c in columns) for row, cell in enumerate(cells)} == own


def test_records_set_aside_have_no_weight(tmp_path: Path) -> None:
    """Their weights neither count nor widen the range of a category."""
    part = pa.table({"a": ["x", "x", None, "y"], "b": [0, 1, 0, 0], "w": [2.0, 3.0, 999.0, 4.0]})
    found = counted(tmp_path, [part], 1 << 30, invalid_records="exclude")
    assert found.weights is not None
    assert found.weights.total == 9 * UNIT
    assert found.weights.largest.max() == 4 * UNIT


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 3], pa.int32()),
        pa.array([1.0, 2.0, 3.0], pa.float32()),
        pa.array(["1", "2.0", "3"]),
        pa.array(["1", "2.0", "3"]).dictionary_encode(),
        pa.array([1, 2, 3], pa.decimal128(10, 4)),
    ],
)
def test_types(column: pa.Array) -> None:
    assert weights_of(column, "w", "part").tolist() == [UNIT, 2 * UNIT, 3 * UNIT]


def test_six_decimals_are_kept() -> None:
    assert weights_of(pa.array([0.1234564, 0.1234566]), "w", "part").tolist() == [123456, 123457]
    assert weights_of(pa.array([1234.567891]), "w", "part").tolist() == [1234567891]


def test_weights_of_another_table_are_refused(tmp_path: Path) -> None:
    part = pa.table({"a": ["x", "x", "y"], "w": [2.0, 3.0, 4.0]})
    found = counted(tmp_path, [part], 1 << 30)
    assert found.weights is not None
    with pytest.raises(InputError, match="the weights do not fit the table"):
        found.weights.rows(np.array([1, 0])).check(found.table)
