"""Names and order of categories, counts, sources and their parts; every refusal."""

import csv
import os
import re
import traceback
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.data.reading import read_table
from sdc.data.source import open_source
from sdc.model.errors import InputError
from sdc.model.table import Table

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("SDC_DATA_DIR", ROOT / "../shared/data"))


def write(path: Path, columns: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(dict(columns))
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with path.open("w", newline="") as file:  # as Python and pandas write values
            csv.writer(file).writerows([table.column_names, *zip(*table.to_pydict().values(), strict=True)])
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def categories_of(table: Table, name: str = "a") -> tuple[str, ...]:
    return table.schema.variables[table.schema.index(name)].categories


def dictionary(values: Sequence[str | None], names: Sequence[str]) -> pa.DictionaryArray:
    codes = [None if value is None else list(names).index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))


def test_counted_cells_are_summed_and_a_category_of_empty_cells_stays(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "a,count,b\nx,2,p\nx,1,p\ny,0,p\ny,4.0,q\n")
    table = read_table(path)
    assert categories_of(table) == ("x", "y")
    assert (table.total, table.counts.tolist()) == (7, [3, 4])


@pytest.mark.parametrize("kind", [pa.float64(), pa.uint8(), pa.decimal128(30, 2), pa.string()])
def test_whole_counts_of_any_type(tmp_path: Path, kind: pa.DataType) -> None:
    path = write(tmp_path / "t.parquet", {"a": ["x", "y"], "count": pa.array([2, 3]).cast(kind)})
    assert read_table(path).counts.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10, 9, -1], ("-1", "9", "10")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["10", "9", "01"], ("01", "10", "9")),
        ([True, False], ("False", "True")),
        ([2.0, 10.0], ("2.0", "10.0")),
        ([0.5, 0.0, 1e16, 1e-7, -1.0, float("inf")], ("-1.0", "0.0", "1e-07", "0.5", "1e+16", "inf")),
        ([Decimal("20.0"), Decimal("3.0")], ("3.0", "20.0")),
        (pa.array([3, 1], pa.date32()), ("1970-01-02", "1970-01-04")),
        (["01.10", "10.2", "A", "5"], ("01.10", "10.2", "5", "A")),
        (["1,2", "1,3", "1"], ("1", "1,2", "1,3")),
        (pa.array(["c", "b"], pa.large_string()), ("b", "c")),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_category_names_and_order(tmp_path: Path, suffix: str, values: Any, expected: tuple[str, ...]) -> None:
    assert categories_of(read_table(write(tmp_path / f"t{suffix}", {"a": values}))) == expected


def test_listed_categories_come_first(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": dictionary(["low"], ["high", "low"]), "b": [2.0]})
    table = read_table(path, categories={"a": ["low", "mid", "high"], "b": ["3", "2"]})
    assert categories_of(table) == ("low", "mid", "high")
    assert categories_of(table, "b") == ("3", "2")


def test_an_unused_category_of_a_dictionary_may_be_unlisted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": dictionary(["x", "y"], ["z", "y", "x"])})
    assert categories_of(read_table(path, categories={"a": ["x", "y"]})) == ("x", "y")


@pytest.mark.parametrize("names", [["<25", "none", "25-54", ">=55"], [">=55", "<25", "25-54", "none"]])
def test_the_order_is_canonical_whatever_that_of_the_file(tmp_path: Path, names: list[str]) -> None:
    """A dictionary in order of first appearance would name what record 1 has."""
    write(tmp_path / "d" / "1.parquet", {"a": dictionary(["25-54", "none"], names)})
    write(tmp_path / "d" / "2.parquet", {"a": dictionary([">=55", "<25"], names)})
    assert categories_of(read_table(tmp_path / "d")) == ("<25", "25-54", ">=55", "none")


def test_what_no_record_has_is_no_category(tmp_path: Path) -> None:
    """Neither an entry of a dictionary, nor a value of a cell that counts nobody; both may be of persons left out."""
    content = {"a": dictionary(["z", "a", "m"], ["m", "secret", "a", "z"]), "count": [2, 1, 0]}
    assert categories_of(read_table(write(tmp_path / "t.parquet", content))) == ("a", "z")
    listed = read_table(tmp_path / "t.parquet", categories={"a": ["m", "z", "a", "never"]})
    assert categories_of(listed) == ("m", "z", "a", "never")


def test_what_nobody_has_does_not_decide_the_order(tmp_path: Path) -> None:
    content = {"a": ["10", "9", "n/a"], "count": [2, 4, 0]}
    table = read_table(write(tmp_path / "t.csv", content))
    assert (categories_of(table), table.counts.tolist()) == (("9", "10"), [4, 2])


@pytest.mark.parametrize("values", [["x", None, ""], [1.0, None, float("nan")], None])
def test_missing_values_are_refused_or_named(tmp_path: Path, values: Any) -> None:
    """In Parquet, and as empty lines of CSV."""
    path = tmp_path / ("t.csv" if values is None else "t.parquet")
    text(path, "a,b\nx,1\n,1\n,1\n") if values is None else write(path, {"a": values, "b": [1] * 3})
    with pytest.raises(InputError, match="missing values: 2 in column 'a'; name a category"):
        read_table(path)
    table = read_table(path, missing={"a": "an unknown"})
    assert categories_of(table)[1:] == ("an unknown",)
    assert table.counts.tolist() == [1, 2]


def test_a_null_beside_as_many_categories_as_the_indices_can_count(tmp_path: Path) -> None:
    codes = pa.array([*range(128), None], pa.int8())
    names = pa.array([f"c{n:03}" for n in range(128)])
    path = write(tmp_path / "t.parquet", {"a": pa.DictionaryArray.from_arrays(codes, names)})
    table = read_table(path, missing={"a": "none"})
    assert (len(categories_of(table)), categories_of(table)[-1], table.total) == (129, "none", 129)


def test_a_category_for_missing_values_is_last_unless_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": [10, None, 9]})
    assert categories_of(read_table(path, missing={"a": "-"})) == ("9", "10", "-")
    assert categories_of(read_table(path, missing={"a": "9"})) == ("10", "9")
    listed = read_table(path, missing={"a": "-"}, categories={"a": ["-", "9", "10"]})
    assert categories_of(listed) == ("-", "9", "10")
    unlisted = read_table(path, missing={"a": "-"}, categories={"a": ["10", "9"]})
    assert categories_of(unlisted) == ("10", "9", "-")


def refused(path: Path, match: str, detail: str = "", **options: Any) -> None:
    """What is quoted of the data is in the detail and not in the message, nor in any error behind it."""
    with pytest.raises(InputError, match=match) as caught:
        read_table(path, **options)
    assert "\n" not in str(caught.value)
    assert re.search(detail, caught.value.detail)
    assert not detail or not re.search(detail, "".join(traceback.format_exception(caught.value)).split("Error: ")[-1])


def test_sources_that_are_not_there_or_not_tables(tmp_path: Path) -> None:
    refused(tmp_path / "none.csv", "none.csv does not exist; give a Parquet or CSV file")
    refused(text(tmp_path / "t.doc", "a\n1\n"), "t.doc is not a file of data; its name should end in .parquet")
    refused(text(tmp_path / "t.parquet", "a\n1\n"), "t.parquet cannot be read: .*; check that it is whole")
    refused(text(tmp_path / "e.parquet", ""), "e.parquet is empty")
    (tmp_path / "l.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    refused(tmp_path / "l.csv", "l.csv, line 2: column 'b' has bytes that are not utf-8", "1,")


def test_indices_of_nothing(tmp_path: Path) -> None:
    """Arrow itself does not look whether a dictionary has what the rows of a damaged file name."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["x", "y", "z"] * 40}), path, compression="none")
    content, said = path.read_bytes(), set()
    for place in range(40, 160, 2):
        path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        try:
            read_table(path)
        except InputError as error:
            said.add(error.detail)
    assert any("out of bounds" in detail for detail in said), said


@pytest.mark.parametrize("days", [2**31 - 1, -(2**31), 2932897])
def test_dates_that_no_calendar_has(days: int, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"d": pa.array([0, days], pa.int32()).cast(pa.date32())})
    refused(path, r"column 'd' of the type date32\[day\] has a value out of range; dates go from the year 1 to 9999")


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    strings = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"x\xff")]
    )
    path = write(tmp_path / "t.parquet", {"a": strings})
    refused(path, "t.parquet cannot be read: .*; check that it is whole, and UTF-8", "Invalid UTF8")


def test_folders(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    refused(folder, "d has no parts; give parts of one kind")
    text(folder / "_SUCCESS", "")
    text(folder / ".hidden.parquet", "")
    refused(folder, "d has no parts")
    text(folder / "notes.json", "")
    refused(folder, "d has 'notes.json', which is not a part")
    (folder / "notes.json").unlink()
    write(folder / "2.csv", {"a": [1], "b": [2]})
    write(folder / "1.csv", {"a": [1], "b": [2]})
    assert [part.name for part in open_source(folder).parts] == ["1.csv", "2.csv"]
    write(folder / "3.parquet", {"a": [1], "b": [2]})
    refused(folder, r"d has parts of several kinds \(3.parquet, 1.csv\)")
    (folder / "3.parquet").unlink()
    (folder / "year=2011").mkdir()
    refused(folder, "d has the sub-folder 'year=2011'; put all parts into one folder")


@pytest.mark.parametrize("other", [{"a": [1]}, {"b": [1], "a": [1]}, {"a": [1], "b": [1], "count": [3]}])
def test_parts_with_different_columns(tmp_path: Path, other: dict[str, Any]) -> None:
    write(tmp_path / "1.parquet", {"a": [1], "b": [2]})
    write(tmp_path / "2.parquet", other)
    refused(tmp_path, "2.parquet has the columns .* but 1.parquet has a, b; give every part the same columns")


def test_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", {"a": [1], "b": [2]})
    refused(path, "t.csv has no column 'z'; it has a, b", variables=["a", "z"])
    refused(path, r"t.csv has no column 'A', but 'a', which differs only in capitals", variables=["A", "b"])
    refused(
        path,
        r"columns makes 'c' of 'B', which is not a column of .*t.csv; did you mean b. it has a, b",
        columns={"c": "B"},
    )
    refused(path, "variable 'a' occurs 2 times", variables=["a", "b", "a"])
    refused(path, "0 variables; a table has 1 to 63", variables=[])
    refused(path, "'count' cannot be a variable: it is the column of counts", variables=["count"])
    refused(path, "categories names 'z', which is not a variable of .*t.csv; it has a, b", categories={"z": ["1"]})
    refused(path, "missing names 'count', which is not a variable of", missing={"count": "none"})
    refused(text(path, "a,Count\n1,2\n"), "has the column 'Count', and no setting declares whether it counts")
    refused(text(path, "a,count\n1,2\n"), "'count' cannot be a variable", variables=["a", "count"])
    refused(text(path, "a,(Total)\n1,2\n"), r"'\(Total\)' cannot be a variable: it stands for totals; rename")
    many = write(tmp_path / "m.parquet", {f"v{v}": [1] for v in range(64)})
    refused(many, "64 variables; a table has 1 to 63")


def test_no_records(tmp_path: Path) -> None:
    refused(text(tmp_path / "t.csv", "a,count\nx,0\n"), "t.csv has no records: all counts are zero")
    refused(write(tmp_path / "t.parquet", {"a": pa.array([], pa.int8())}), "t.parquet has no records: no rows")


@pytest.mark.parametrize(
    ("counts", "match"),
    [
        ([-1], "has the value -1"),
        ([0.5], "has the value 0.5"),
        ([1 << 53, 1], "the counts sum to more than 9007199254740992"),
        ([(1 << 53) + 1], "has the value 9007199254740993"),
        (["1e400"], "has the value 1e400"),
        (["many"], "has the value many"),
        (["1_200"], "has the value 1_200"),
        (["1.000", "12"], "three zeros after a point or comma, which may be thousands"),
        (["1,000"], "three zeros after a point or comma, which may be thousands"),
        ([float("inf")], "has the value inf"),
        ([1, None], "column 'count' has 1 missing values; give each cell its count"),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_counts_that_are_none(tmp_path: Path, suffix: str, counts: list[Any], match: str) -> None:
    path = write(tmp_path / f"t{suffix}", {"a": list(range(len(counts))), "count": counts})
    if match.startswith("has the value"):
        refused(
            path, "column 'count' has a value that is not a count: a whole number from 0 to 9007199254740992", match
        )
    else:
        refused(path, match)


def test_types_that_are_none(tmp_path: Path) -> None:
    """Neither of categories nor of counts."""
    for values in ([[1]], [b"x"], pa.array([1], pa.timestamp("s"))):
        refused(write(tmp_path / "t.parquet", {"a": values}), "column 'a' has the type .*, which has no categories")
    refused(write(tmp_path / "t.parquet", {"a": [1], "count": [True]}), "is not a count", "has the value True")
    refused(write(tmp_path / "t.parquet", {"a": [1], "count": [[1]]}), "column 'count' has the type list; a count is")


def test_values_of_one_name_are_one_category(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": [0.0, -0.0, float("nan"), None, 5.0, 0.0, 7.0]})
    table = read_table(path, missing={"a": "-"}, max_categories=4)
    assert (categories_of(table), table.counts.tolist()) == (("0.0", "5.0", "7.0", "-"), [3, 1, 1, 2])


def test_too_many_categories(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": np.arange(300)})
    refused(path, "column 'a' has more than 256 categories; group or bin its values")
    assert len(read_table(path, max_categories=300)) == 300
    listed = {"a": [str(n) for n in range(301)]}
    refused(path, "column 'a' has more than 300 categories", max_categories=300, categories=listed)


def test_values_of_several_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": ["x\ny"]})
    refused(path, r"column 'a' has a value of several lines; recode it", r"it begins 'x\\ny'")


def test_values_outside_the_listed_categories(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": ["x", "z", "y"]})
    listed = {"a": ["x"]}
    refused(path, r"column 'a' has values outside its categories \['x'\].*2 such", "'y'", categories=listed)
    zero = text(tmp_path / "t.csv", "a,count\nx,1\nz,0\n")
    refused(zero, "column 'a' has values outside", "'z'", categories=listed)
    refused(path, "names a category twice", categories={"a": ["x", "y", "z", "x"]})


def test_source_digest_follows_names_and_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    one, two = write(folder / "1.csv", {"a": [1]}), write(folder / "2.csv", {"a": [2]})
    before = open_source(folder).digest()
    assert len(before) == 64
    text(folder / "_log", "not a part")
    assert open_source(folder).digest() == before != open_source(one).digest()
    two.rename(folder / "3.csv")
    assert open_source(folder).digest() != before
    (folder / "3.csv").rename(two)
    assert open_source(folder).digest() == before
    text(two, "a\n3\n")
    assert open_source(folder).digest() != before
    with pytest.raises(InputError, match="does not exist"):
        open_source(tmp_path / "none").digest()


@pytest.mark.parametrize(
    ("name", "records", "cells", "ones", "twos"),
    [
        ("cps13", 299_285, 41_674, 23_133, 6_368),
        ("cps14", 299_285, 75_914, 52_534, 9_756),
        ("nltcs_cells", 21_574, 3_152, 1_729, 499),
        ("acs23", 47_461, 8_435, None, None),
    ],
)
def test_public_data(name: str, records: int, cells: int, ones: int | None, twos: int | None) -> None:
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is absent; set SDC_DATA_DIR")
    table = read_table(path)
    assert (table.total, len(table)) == (records, cells)
    if ones is not None:
        assert [int((table.counts == count).sum()) for count in (1, 2)] == [ones, twos]
