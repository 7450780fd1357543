"""Counting by two workers: the same table, and what they cannot read."""

from pathlib import Path

import numpy as np
import pytest

from sdc.data.reading import read_table
from sdc.executor import Executor
from sdc.model.errors import InputError
from sdc.model.table import Table
from tests.unit.data.test_counting import schema_of, write_parts


def test_two_workers_and_memory_that_ends(tmp_path: Path, two_workers: Executor) -> None:
    """40 variables of 4 categories, 2^80 cells: two words, many runs, many ranges, and nothing is left behind."""
    schema = schema_of([4] * 40)
    codes = np.random.default_rng(7).integers(0, [2] * 38 + [4] * 2, (6000, 40))
    codes[4000:] = codes[:2000]
    codes[0], codes[1] = 2, 3
    write_parts(tmp_path / "parts", schema, codes, [2500, 2600, 5000], rows=1000, suffix="parquet")
    expected = Table.of(schema, codes)
    for memory in (300 << 10, 1 << 30):
        assert read_table(tmp_path / "parts", executor=two_workers, memory=memory) == expected
    assert two_workers.scratch is not None
    assert not list(two_workers.scratch.glob("cells-*"))


def test_a_part_that_workers_cannot_read(
    tmp_path: Path, two_workers: Executor, capfd: pytest.CaptureFixture[str]
) -> None:
    schema, codes = schema_of([9, 9]), np.random.default_rng(1).integers(0, 9, (3000, 2))
    write_parts(tmp_path / "parts", schema, codes, [1000, 2000], rows=1000, suffix="csv")
    with (tmp_path / "parts" / "001.csv").open("a") as part:
        part.write("1\n")
    with pytest.raises(InputError, match=r"001\.csv, line 1002: it has 1 fields") as caught:
        read_table(tmp_path / "parts", executor=two_workers)
    assert "it begins '1'" in caught.value.detail
    assert "Traceback" not in capfd.readouterr().err
