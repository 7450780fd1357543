"""Categories are texts, the same from every format; what looks the same is refused, kept apart or merged."""

import csv
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.api import magnitude_table
from sdc.data.profile import written
from sdc.data.reading import read_table
from sdc.data.source import open_source
from sdc.model.alike import alikes, differences
from sdc.model.errors import InputError

COMMA = {"delimiter": ";", "decimal": ","}


def rows(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def names(table: Any, v: int = 0) -> tuple[str, ...]:
    found: tuple[str, ...] = table.schema.variables[v].categories
    return found


@pytest.mark.parametrize(
    ("names", "difference"),
    [
        (("m", "m "), "blanks"),
        (("m", "m\u200b"), "marks without width"),
        (("São Tomé", "Sa\u0303o Tome\u0301"), "composed accents"),
        (("North", "NORTH"), "capitals"),
        (("Ém", "e\u0301m "), "composed accents, blanks, capitals"),
        (("1", "1.0"), "how numbers are written"),
    ],
)
def test_names_that_are_alike(names: tuple[str, str], difference: str, tmp_path: Path) -> None:
    pairs = alikes(names)
    assert pairs == {max(names, key=lambda name: (len(name), name)): min(names, key=lambda name: (len(name), name))}
    assert differences(pairs) == difference
    path = rows(tmp_path / "t.csv", "a,b", f"{names[0]},x", f"{names[1]},x")
    frame = pa.table({"a": list(names), "b": ["x", "x"]})
    pq.write_table(frame, tmp_path / "t.parquet")
    for source in (path, tmp_path / "t.parquet", frame):
        with pytest.raises(InputError, match=f"'a': 1 value differs from others only in {difference};") as caught:
            read_table(source)
        assert all(ascii(name) in caught.value.detail for name in names)
        assert len(read_table(source, alike="keep")) == 2
        merged = read_table(source, alike="merge")
        assert (merged.schema.variables[0].categories, merged.counts.tolist()) == ((*pairs.values(),), [2])


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_alike_in_different_parts(parts: int, tmp_path: Path) -> None:
    values = ["m", "m ", "M", "f"]
    for part in range(parts):
        rows(tmp_path / f"{part}.csv", "a,b", *(f"{value},x" for value in values[part::parts]))
    with pytest.raises(InputError, match="column 'a': 2 values differ from others only in blanks, capitals"):
        read_table(tmp_path)
    assert names(read_table(tmp_path, alike="merge")) == ("M", "f")


def test_what_the_settings_name_alike(tmp_path: Path) -> None:
    path = rows(tmp_path / "t.csv", "a,b", "Yes,x", "yes ,x", "no,x", ",x")
    listed: dict[str, Any] = {"categories": {"a": ["yes", "no"]}, "missing": {"a": "?"}}
    groups: dict[str, Any] = {"recodes": {"a": {"groups": {"yes": ["yes"], "other": "*"}}}, "missing": {"a": "?"}}
    for given_ in (listed, groups):
        with pytest.raises(InputError, match="column 'a': 2 values differ from others"):
            read_table(path, **given_)
        merged = read_table(path, alike="merge", **given_)
        assert dict(zip(names(merged), merged.one_way()[0].tolist(), strict=True))["yes"] == 2
    with pytest.raises(InputError, match="column 'a' has values outside its categories"):
        read_table(path, alike="keep", **listed)
    with pytest.raises(InputError, match="from others only in capitals"):
        read_table(rows(tmp_path / "u.csv", "a,b", "Unknown,x", ",x"), missing={"a": "unknown"})


VALUES: dict[str, list[Any]] = {
    "whole": [1, 10, 9, None],
    "floats": [1.0, 10.0, 2.5, None],
    "whole beside missing": [1.0, 2.0, None],
    "large": [1e16, 123456789.0, 1e-7],
    "decimals": [Decimal("1.50"), Decimal("10.25"), None],
    "truth": [True, False, None],
    "dates": [datetime.date(2024, 1, 31), datetime.date(1999, 12, 1), None],
    "times at midnight": [datetime.datetime(2024, 1, 31), None],
    "texts": ["01", "1", "1.10", "NA", "-", "true", None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_the_same_categories_from_every_format(kind: str, tmp_path: Path) -> None:
    values = VALUES[kind]
    frame = pa.table({"a": values, "b": ["x"] * len(values)})
    pq.write_table(frame, tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open("w", newline="") as file:
        texts = [v.date() if isinstance(v, datetime.datetime) else v for v in values]  # as pandas writes days
        csv.writer(file).writerows([("a", "b"), *((value, "x") for value in texts)])
    expected = read_table(tmp_path / "t.csv", missing={"a": "none"})
    assert set(names(expected)) == {str(value) for value in texts if value is not None} | (
        {"none"} if None in values else set()
    )
    for source in (tmp_path / "t.parquet", frame):
        assert read_table(source, missing={"a": "none"}) == expected


def test_whole_numbers_that_are_floats_in_another_part(tmp_path: Path) -> None:
    """As pandas writes parts of which some lack values."""
    for part, values in enumerate([pa.array([1, 2]), pa.array([1.0, None])]):
        pq.write_table(pa.table({"a": values, "b": ["x", "x"]}), tmp_path / f"{part}.parquet")
    table = read_table(tmp_path, missing={"a": "-"})
    assert (names(table), table.counts.tolist()) == (("1.0", "2.0", "-"), [2, 1, 1])


def test_the_spelling_of_the_settings_goes_before_that_of_a_number() -> None:
    """So that what was published under the names of version 0.1 goes on under them."""
    frame = pa.table({"a": [1.0, 2.0, None], "b": [True, False, True]})
    listed = {"a": ["1", "2"], "b": ["false", "true"]}
    table = read_table(frame, categories=listed, missing={"a": "-"})
    assert (names(table), names(table, 1)) == (("1", "2", "-"), ("false", "true"))


@pytest.mark.parametrize(
    ("odd", "marks"),
    [(" ", []), ("\xa0", []), ("\u200b", []), ("na", ["NA"]), ("9.0", ["9"]), ("n/a ", ["N/A"])],
)
def test_values_that_are_alike_missing_ones(odd: str, marks: list[str], tmp_path: Path) -> None:
    path, csv = rows(tmp_path / "t.csv", "a,b", "x,u", f"{odd},u", ",u"), {"missing": marks}
    given = {"csv": csv, "missing": {"a": "none"}}
    with pytest.raises(InputError, match=r"t\.csv: column 'a': 1 value differs from others only in") as refused:
        read_table(path, **given)
    assert ascii(odd) in refused.value.detail
    assert set(names(read_table(path, **given, alike="keep"))) == {"x", odd, "none"}
    merged = read_table(path, **given, alike="merge")
    assert dict(zip(names(merged), merged.one_way()[0].tolist(), strict=True)) == {"x": 1, "none": 2}
    assert read_table(path, csv={"missing": [*marks, odd]}, missing={"a": "none"}) == merged
    unused = pa.table({"a": pa.DictionaryArray.from_arrays([0, 0], ["x", odd]), "b": ["u", "u"]})
    assert names(read_table(unused, csv=csv)) == ("x",)
    if not marks:
        text, _ = written(open_source(rows(path, "a,b", "x,u", "y,v", f"{odd},u", "x,v")), "t")
        assert '"missing": {"a": [" "]}' in text


@pytest.mark.parametrize(
    ("kind", "code"), [(pa.float64(), 2.0**53), (pa.float32(), 2.0**24), (pa.float64(), 12345678901234567.0)]
)
def test_floats_that_do_not_tell_codes_apart(kind: pa.DataType, code: float) -> None:
    """Stata's float holds 16777217 as 16777216: two codes are one."""
    frame = pa.table({"a": pa.array([1.0, code, code + 1]).cast(kind), "b": ["u", "u", "u"], "v": [1, 2, 3]})
    with pytest.raises(InputError, match=r"column 'a' has floats above .* may stand for several whole numbers; store"):
        read_table(frame, variables=["a", "b"])
    bins = {"a": {"bins": {"low": [None, 5], "high": [5, None]}}}
    assert read_table(frame, variables=["a"], recodes=bins).one_way()[0].tolist() == [1, 2]  # amounts may be as large
    with pytest.raises(InputError, match="column 'a' has floats above"):
        magnitude_table(frame, value="v", by="b", contributor="a", contributors=1)


def test_codes_beside_a_decimal_comma(tmp_path: Path) -> None:
    path = rows(tmp_path / "t.csv", "nace;lang;score", "01.10;1,2;1,5", "A;1,3;0,5", "10.20;none;2")
    table = read_table(path, csv=COMMA, recodes={"score": {"bins": {"low": [0, 1], "high": [1, None]}}})
    assert [variable.categories for variable in table.schema.variables] == [
        ("01.10", "10.20", "A"),
        ("1,2", "1,3", "none"),
        ("low", "high"),
    ]
    told = r"column 'nace' has numbers with a point, and table\.csv\.decimal is a comma"
    with pytest.raises(InputError, match=told) as caught:
        read_table(path, csv=COMMA, recodes={"nace": {"top": 5}})
    assert "01.10" not in str(caught.value)


def test_numbers_begin_where_a_recode_asks_for_them(tmp_path: Path) -> None:
    path = rows(tmp_path / "t.csv", "a,b", "1,x", "1.0,x", "1.50,x", "1.5,x", "7,x")
    assert names(read_table(path, recodes={"a": {"top": 3}})) == ("1", "1.5", "3 or more")
    assert names(read_table(path, recodes={"a": {"bins": {"lo": [0, 1.5], "hi": [1.5, 9]}}})) == ("lo", "hi")


def test_columns_that_are_alike(tmp_path: Path) -> None:
    path = rows(tmp_path / "t.csv", "gro\u0308ße,sex,Sex ", "1,f,f", "2,m,m")
    with pytest.raises(
        InputError, match=r"has the columns 'Sex ' and 'sex', that differ only in blanks, capitals; rename one"
    ):
        read_table(path)
    assert read_table(path, alike="keep").total == 2
    assert read_table(path, variables=["sex"]).total == 2
    with pytest.raises(
        InputError, match=r"has no column 'gr\\xf6\\xdfe', but 'gro\\u0308\\xdfe', which differs only in composed"
    ):
        read_table(path, variables=["größe", "sex"])
    assert read_table(path, variables=["größe", "sex"], alike="merge").schema.names == ("größe", "sex")


@pytest.mark.parametrize("key", ["delimiter", "encoding", "quote"])
def test_settings_of_text_files_for_what_is_none(key: str, tmp_path: Path) -> None:
    frame = pa.table({"a": ["x"], "b": ["y"]})
    pq.write_table(frame, tmp_path / "t.parquet")
    value = {"delimiter": ";", "encoding": "latin-1", "quote": "none"}[key]
    for source in (frame, tmp_path / "t.parquet"):
        with pytest.raises(InputError, match=f"table.csv.{key} = .* is of text files, and .* is none; take it out"):
            read_table(source, csv={key: value})


def test_init_names_what_is_alike(tmp_path: Path) -> None:
    path = rows(tmp_path / "t.csv", "sex,b", *(f"{value},{n % 2}" for n, value in enumerate(["m", "f", "m ", "f"] * 9)))
    text, facts = written(open_source(path), "t")
    assert facts["alike"] == {"sex": {"m ": "m"}}
    assert "#   sex: 'm ' and 'm'" in text
    assert "# alike: merge" in text
