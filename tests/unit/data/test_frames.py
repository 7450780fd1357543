"""Data frames of Arrow: the same table as from a file, and refusals that quote nothing of what they hold.

Those of pandas, Polars and DuckDB are tested in `tests/system/data`.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sdc
from sdc.model.errors import InputError

SECRET = "Vanda Nováková"


def test_a_frame_is_the_same_table_as_a_file(tmp_path: Path) -> None:
    frame = pa.table({"a": ["x", "é", "x"], "b": [3, -1, 3], "c": [True, False, True]})
    pq.write_table(frame, tmp_path / "t.parquet")
    expected = sdc.read_table(tmp_path / "t.parquet")
    assert expected.counts.tolist() == [2, 1]
    for same in (frame, frame.to_batches()[0], frame.to_reader()):
        assert sdc.read_table(same) == expected


def test_a_frame_of_counted_cells_and_settings() -> None:
    frame = pa.table({"age": [3, 20, 70, 71], "sex": ["f", None, "m", "m"], "count": [2, 1, 4, 0]})
    bins = {"age": {"bins": {"young": (None, 18), "old": (18, None)}}}
    table = sdc.read_table(frame, recodes=bins, missing={"sex": "unknown"})
    assert table.total == 7
    assert [v.categories for v in table.schema.variables] == [("young", "old"), ("f", "m", "unknown")]
    with pytest.raises(InputError, match="the data frame has invalid records"):
        sdc.read_table(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pa.table([[SECRET], ["b"]], names=["a", "a"]), "the data frame has 2 columns called 'a'"),
        (pa.table({"a": pa.array([], pa.string())}), "no records: no rows"),
        *(
            (other, f"from a data frame of pandas, Polars or Arrow, .* of DuckDB; this is a {type(other).__name__}")
            for other in ([SECRET], {"a": [SECRET]}, 7, np.array([[1]]))
        ),
    ],
)
def test_what_is_no_frame_is_refused(frame: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as info:
        sdc.read_table(frame)
    assert SECRET not in str(info.value)
