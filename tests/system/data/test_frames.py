"""Data frames of pandas, Polars and DuckDB: the same table as from a file, and refusals that quote no value."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import sdc
from sdc.api import magnitude_table
from sdc.model.errors import InputError
from sdc.model.totals import is_usual
from tests.unit.protect.test_magnitude import only

duckdb, pd, pl = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
SECRET = "Vanda Nováková"
names = some.text(some.characters(categories=["L", "N", "S"], exclude_characters="\u2028"), min_size=1, max_size=3)
names = names.filter(lambda text: not is_usual(text))  # such as T, which is refused where it is a sum
columns = some.integers(1, 12).flatmap(
    lambda rows: some.tuples(
        some.lists(names, min_size=rows, max_size=rows),
        some.lists(some.integers(-3, 3), min_size=rows, max_size=rows),
        some.lists(some.booleans(), min_size=rows, max_size=rows),
    )
)


@given(columns)
@settings(max_examples=25)
def test_a_frame_is_the_same_table_as_a_file(
    tmp_path_factory: pytest.TempPathFactory, found: tuple[list[str], list[int], list[bool]]
) -> None:
    tmp_path = tmp_path_factory.mktemp("frames")
    plain = dict(zip("abc", found, strict=True))
    arrow = pa.table(plain)
    pq.write_table(arrow, tmp_path / "t.parquet")
    expected = sdc.read_table(tmp_path / "t.parquet", alike="keep")
    frames = [pd.DataFrame(plain), pl.DataFrame(plain), arrow, arrow.to_batches()[0], arrow.to_reader()]
    frames += [pl.LazyFrame(plain), pl.scan_parquet(tmp_path / "t.parquet"), duckdb.sql("SELECT * FROM arrow")]
    for frame in frames:
        assert sdc.read_table(frame, alike="keep") == expected


def refused(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as info:
        sdc.read_table(frame)
    assert SECRET not in str(info.value)


def test_an_index_that_would_be_lost() -> None:
    frame = pd.DataFrame({"a": ["x", "y"]}, index=pd.Index([SECRET, "b"], name="person"))
    refused(frame, r"the index of the data frame \('person'\) would be lost; call reset_index\(\)")
    refused(pd.DataFrame({"a": ["x", "y"]}, index=[4, 2]), r"\(None\) would be lost")
    assert sdc.read_table(pd.DataFrame({"a": ["x", "y", "z"]})).total == 3


def test_columns_of_one_name_and_of_none() -> None:
    frame = pd.DataFrame([[SECRET, "b"]], columns=["a", "a"])
    refused(frame, "the data frame has 2 columns called 'a'; rename or drop one")
    refused(pd.DataFrame([[SECRET]]), "1 column with a name that is not text, such as one of the type int")


def test_columns_of_mixed_types() -> None:
    refused(
        pd.DataFrame({"a": np.array([1, SECRET], object)}),
        "column 'a' of the data frame has values of the types int, str",
    )
    refused(pd.DataFrame({"a": np.array([{SECRET: 1}, None], object)}), "column 'a' has the type struct, which")
    refused(pd.DataFrame({"a": [1 << 70, 1]}), "column 'a' of the data frame has the type int, which Arrow cannot hold")
    assert sdc.read_table(pd.DataFrame({"a": np.array(["x", None, "y"], object)}), missing={"a": "?"}).total == 3


def test_a_query_counts_before_it_is_read(tmp_path: Path) -> None:
    """Sums of DuckDB are wider than 64 bits, and counts of Polars narrower."""
    records = pa.table({"a": ["x", "x", "y"], "weight": [2, 3, 4]})
    expected = pa.table({"a": ["x", "y"], "count": [5, 4]})
    sums = duckdb.sql("SELECT a, sum(weight) AS count FROM records GROUP BY a")
    assert str(sums.types[1]) == "HUGEINT"
    assert sdc.read_table(sums) == sdc.read_table(expected)
    counted = pl.LazyFrame(pl.from_arrow(records)).group_by("a").agg(pl.len().alias("count"))
    assert sdc.read_table(counted).to_arrow().to_pydict() == {"a": ["x", "y"], "count": [2, 1]}


def test_a_query_that_fails() -> None:
    """What it says of a record is not a part of the message."""
    refused(
        duckdb.sql(f"SELECT error('{SECRET}') AS a"), "the DuckDBPyRelation cannot be read: reading it fails with Inv"
    )
    failing = pl.LazyFrame({"a": [SECRET]}).select(pl.col("a").cast(pl.Int64))
    refused(
        failing,
        "the LazyFrame cannot be read: reading it fails with InvalidOperationError; run the query",
    )
    refused(pl.scan_parquet("nowhere.parquet"), "the LazyFrame cannot be read: reading it fails with FileNotFoundError")
    refused(duckdb.connect(), "this is a DuckDBPyConnection")
    refused(pl.Series("a", [SECRET]), "this is a Series")
    refused(pd.Series([SECRET]), "this is a Series")


def test_every_source_gives_the_same_sums(tmp_path: Path) -> None:
    """Files as offices write them, folders of parts and data frames; codes keep their commas."""
    rows = {"code": ["1,5", "1,5", "Ärzte"], "v": [1.5, 2, 3]}
    text = 'code;other;v\n"1,5";"";1,5\n1,5;x;2\nÄrzte;y;3\n'
    expected = [{"code": "1,5", "total": "3.5"}, {"code": "Ärzte", "total": "3"}]
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode("latin-1")))
    parts = tmp_path / "parts"
    parts.mkdir()
    pq.write_table(pa.table(rows).slice(0, 2), parts / "0.parquet")
    pq.write_table(pa.table({**rows, "code": pa.array(rows["code"]).dictionary_encode()}).slice(2), parts / "1.parquet")
    office = {"csv": {"delimiter": ";", "decimal": ",", "encoding": "latin-1"}}
    frames = [pd.DataFrame(rows), pl.DataFrame(rows), pl.LazyFrame(rows), pa.table(rows), duckdb.arrow(pa.table(rows))]
    for source, given_ in [
        (tmp_path / "t.csv", office),
        (tmp_path / "t.csv.gz", office),
        *((f, {}) for f in [parts, *frames]),
    ]:
        found = only(magnitude_table(source, value="v", by=["code"], contributors=1, **given_))
        assert found.rows == expected, source
    for source, message in (
        (pd.DataFrame([[1, 2, 3]], columns=["code", "code", "v"]), "has 2 columns called 'code'"),
        (tmp_path / "none.csv", "does not exist"),
        (tmp_path / "t.csv", "t.csv"),
        (pd.DataFrame({"code": [], "v": []}), "the data frame has no records"),
    ):
        with pytest.raises(InputError, match=message):
            magnitude_table(source, value="v", by=["code"], contributors=1)


def test_types_that_arrow_does_not_have() -> None:
    ages = pd.Series([1, 5, 20, 70])
    cut, wide = pd.cut(ages, [0, 10, 50]), pl.Series([1, 2**100, 2, None], dtype=pl.Int128)
    for column, own in (
        (cut, ("(0, 10]", "(10, 50]", "-")),
        (pd.cut(ages, [0, 2.5, 99], right=False), ("[0.0, 2.5)", "[2.5, 99.0)")),
    ):
        assert sdc.read_table(pd.DataFrame({"a": column}), missing={"a": "-"}).schema.variables[0].categories == own
    for frame in (pl.DataFrame({"a": wide}), pl.LazyFrame({"a": wide.cast(pl.UInt128)})):
        categories = sdc.read_table(frame, missing={"a": "-"}).schema.variables[0].categories
        assert categories == ("1", "2", str(2**100), "-")
    refused(pd.DataFrame({"a": cut.astype(object)}), "column 'a' of the data frame has the type Interval, which")
    refused(pd.DataFrame({"b": [1, 2], "a": [1j, 2j]}), "column 'a' of the data frame has the type complex128, which")
    refused(pd.DataFrame({"a": pd.period_range("2024-01", periods=2, freq="M")}), r"the type pandas\.period, which has")
