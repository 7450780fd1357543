"""Recodes against plain Python, and bad records: refused with all that is wrong, or set aside and counted."""

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from sdc.config.table import TableConfig
from sdc.data.reading import CountedRecords, count_records, read_table
from sdc.data.source import open_source
from sdc.data.vocabulary import BadRecord
from sdc.model.errors import InputError
from sdc.model.table import Table
from tests.unit.data.test_reading import write

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

RECODES: dict[str, dict[str, Any]] = {
    "age": {"bins": {"under 15": [None, 15], "15 to 64": [15, 65], "65 and over": [65, None]}},
    "school": {"groups": {"low": ["none", "primary"], "high": ["secondary"], "else": "*"}},
    "children": {"bottom": 1, "top": 4},
    "decade": {"column": "age", "bins": {f"{n}0s": [10 * n, 10 * n + 10] for n in range(13)}},
}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(5, 1), pa.decimal128(6, 3)], ids=str)
def test_numbers_have_the_same_names_in_every_type(tmp_path: Path, kind: pa.DataType) -> None:
    """As a text file has them: 0.7 of four bytes is not 0.699999988079071, and 1.500 is 1.5."""
    read = Decimal if pa.types.is_decimal(kind) else float
    column = pa.array([read(number) for number in ("0.7", "0.1", "1.5", "2")]).cast(kind)
    path = write(tmp_path / "t.parquet", {"x": column, "y": ["a", "b", "a", "b"]})
    bins = {"low": [None, 0.7], "high": [0.7, None]}
    assert list(counted(path, recodes={"x": {"bins": bins}}).table.one_way()[0]) == [1, 3]
    listed = counted(path, categories={"x": ["0.1", "0.7", "1.5", "2"]}).table
    assert list(listed.one_way()[0]) == [1, 1, 1, 1]


def counted(path: Path, **settings: Any) -> CountedRecords:
    return count_records(open_source(path), TableConfig.model_validate({"path": str(path), **settings}))


def named_cells(table: Table) -> dict[tuple[str, ...], int]:
    names = [variable.categories for variable in table.schema.variables]
    rows = (tuple(names[v][code] for v, code in enumerate(row)) for row in table.codes.tolist())
    return dict(zip(rows, table.counts.tolist(), strict=True))


def age_group(age: int) -> str:
    return "under 15" if age < 15 else "15 to 64" if age < 65 else "65 and over"


def school_group(school: str) -> str:
    return "low" if school in ("none", "primary") else "high" if school == "secondary" else "else"


def children_code(children: int) -> str:
    return "1 or less" if children <= 1 else "4 or more" if children >= 4 else str(children)


schools = some.sampled_from(["none", "primary", "secondary", "college", "other"])
people = some.lists(some.tuples(some.integers(0, 129), schools, some.integers(0, 12)), min_size=1, max_size=25)


@quick
@given(people=people, suffix=some.sampled_from(["parquet", "csv"]), cut=some.integers(0, 25))
def test_recodes(tmp_path_factory: pytest.TempPathFactory, people: list[Any], suffix: str, cut: int) -> None:
    folder = tmp_path_factory.mktemp("t")
    people = [*people, *((40, school, 2) for school in ("none", "primary", "secondary"))]
    for part, rows in enumerate((people[:cut], people[cut:])):
        ages, school, children = ([row[v] for row in rows] for v in range(3))
        columns = {"age": pa.array(ages, pa.int16()), "school": pa.array(school, pa.string()), "children": children}
        columns["children"] = pa.array(children, pa.float64())
        write(folder / f"{part}.{suffix}", columns)
    table = read_table(folder, recodes=RECODES)
    assert table.schema.names == ("age", "school", "children", "decade")
    assert table.schema.variables[0].categories == tuple(RECODES["age"]["bins"])
    assert table.schema.variables[1].categories == ("low", "high", "else")
    order = ("1 or less", "2", "3", "4 or more")
    assert table.schema.variables[2].categories == tuple(c for c in order if c in {children_code(p[2]) for p in people})
    expected = Counter((age_group(a), school_group(s), children_code(c), f"{a // 10}0s") for a, s, c in people)
    assert named_cells(table) == expected


RACES = ["White", "White", "Black", "2"]


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_misspelt_value_is_not_taken_for_all_others(tmp_path: Path, suffix: str, parts: int) -> None:
    for part in range(parts):
        write(tmp_path / f"{part}.{suffix}", {"race": RACES[part::parts]})
    groups: dict[str, Any] = {"White": ["Whtie"], "Other": "*"}
    with pytest.raises(InputError, match=r"groups of 'race' name \['Whtie'\], which no record of .*; correct what is"):
        read_table(tmp_path, recodes={"race": {"groups": groups}})
    fine = read_table(tmp_path, recodes={"race": {"groups": {"White": ["White"], "2": ["2"], "Other": "*"}}})
    assert named_cells(fine) == {("White",): 2, ("2",): 1, ("Other",): 1}


def test_a_list_of_all_values_may_name_more_than_there_are(tmp_path: Path) -> None:
    """Without a group of all others what is misspelt makes bad records; what is there of nobody is told of."""
    path = write(tmp_path / "t.csv", {"race": RACES})
    groups = {"White": ["White", "white"], "Other": ["Black", "2", "Blue"], "None": ["nobody"]}
    found = counted(path, recodes={"race": {"groups": groups}})
    assert found.facts["unmet"] == {"race": ("None", "Blue", "nobody", "white")}
    with pytest.raises(InputError, match="has values that no bin or group of 'race' covers"):
        read_table(path, recodes={"race": {"groups": {"White": ["Whtie"], "Other": ["Black", "2"]}}})


def test_a_recode_of_more_values_than_a_variable_may_have(tmp_path: Path) -> None:
    values = [n / 7 for n in range(20_000)]
    path = write(tmp_path / "t.parquet", {"income": values})
    table = read_table(path, recodes={"income": {"bins": {"low": [None, 1000], "high": [1000, None]}}})
    assert named_cells(table) == {("low",): 7000, ("high",): 13_000}


def test_bins_hold_their_lower_edge_and_fractions(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", {"a": ["0.1", "0.3", "0.2", "-inf"]})
    table = read_table(path, recodes={"a": {"bins": {"low": [None, 0.2], "high": [0.2, 0.4]}}})
    assert named_cells(table) == {("low",): 2, ("high",): 2}


def test_missing_values_are_named_before_recodes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": [3, None, 20]})
    table = read_table(path, missing={"a": "unknown"}, recodes={"a": {"top": 9}})
    assert table.schema.variables[0].categories == ("3", "9 or more", "unknown")
    same = read_table(path, missing={"a": "few"}, recodes={"a": {"bins": {"few": [0, 9], "many": [9, 99]}}})
    assert named_cells(same) == {("few",): 2, ("many",): 1}


# Bad records

FAULTY = {"a": ["x", "z", None, "x", "y", None], "b": [1, 2, 99, 2, 99, 99], "c": ["p", "p", "p", None, "q", "p"]}
SETTINGS: dict[str, Any] = {
    "categories": {"a": ["x", "y"]},
    "recodes": {"b": {"bins": {"low": [0, 5], "high": [5, 50]}}},
    "missing": {"c": "none"},
}


def faulty(folder: Path) -> Path:
    for part in range(3):
        write(folder / f"{part}.parquet", {name: values[2 * part : 2 * part + 2] for name, values in FAULTY.items()})
    return folder


def test_a_refusal_lists_all_that_is_bad(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the first in .*0\.parquet: .*invalid_records: exclude") as caught:
        read_table(faulty(tmp_path), **SETTINGS)
    words = ("2 in column 'a'", r"outside its categories \['x', 'y'\].*1 such", "group of 'b' covers.*3 such")
    assert all(re.search(one, str(caught.value)) for one in words)
    assert caught.value.detail == "column 'a' has the value 'z'\ncolumn 'b' has the value '99'"


@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_bad_records_are_set_aside_and_counted(tmp_path: Path, memory: int) -> None:
    settings = TableConfig.model_validate({"path": str(tmp_path), "invalid_records": "exclude", **SETTINGS})
    found = count_records(open_source(faulty(tmp_path)), settings, memory=memory)
    assert named_cells(found.table) == {("x", "low", "p"): 1, ("x", "low", "none"): 1}
    assert found.set_aside == {("a", BadRecord.MISSING): 2, ("a", BadRecord.OUTSIDE): 1, ("b", BadRecord.UNCOVERED): 1}
    assert found.facts["records"] == 6
    assert found.facts["set_aside"] == 4
    assert found.facts["reasons"][0] == {"variable": "a", "reason": BadRecord.MISSING.value, "records": 2}


@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_categories_are_those_of_good_records_and_of_the_settings(tmp_path: Path, memory: int) -> None:
    """That somebody who is left out has a value of its own is nobody's business."""
    path = write(tmp_path / "t.csv", {"a": ["1", "2", "3", "3"], "b": ["x", "y", "z", None]})
    settings = {"path": str(path), "invalid_records": "exclude", "categories": {"b": ["x", "y", "w"]}}
    found = count_records(open_source(path), TableConfig.model_validate(settings), memory=memory)
    assert [v.categories for v in found.table.schema.variables] == [("1", "2"), ("x", "y", "w")]
    assert (found.table.total, found.facts["set_aside"]) == (2, 2)
    assert found.facts["unmet"] == {"b": ("w",)}


def test_counted_cells_are_set_aside_with_their_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", {"a": ["x", None], "count": [5, 7]})
    assert counted(path, invalid_records="exclude").facts["set_aside"] == 7


def test_nothing_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"a": ["x", "y"]})
    with pytest.raises(InputError, match="has no valid record: all 2 are invalid; correct the data or the settings"):
        read_table(path, categories={"a": ["z"]}, invalid_records="exclude")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"recodes": {"b": {"top": 1}}}, "recodes names 'b', which is not a variable of .*; it has a"),
        (
            {"recodes": {"b": {"column": "z", "top": 1}}},
            "recodes makes 'b' of 'z', which is not a column of .*t.csv; it has a",
        ),
        ({"recodes": {"a": {"tops": 1}}}, r"table\.recodes\.a\.tops is an unknown key; did you mean top"),
        ({"recodes": {"a": {"groups": {"p": ["x", "x"]}}}}, "the value 'x' is in 'p' and again in 'p'"),
        ({"invalid_records": "keep"}, "table.invalid_records = 'keep'"),
        ({"recodes": {"a": {"groups": {"p": ["x"]}}}}, r"has values that no bin or group of 'a' covers; extend them"),
        ({"recodes": {"a": {"top": 4}}}, r"has values that no bin or group of 'a' covers; extend them \(2 such"),
    ],
)
def test_recodes_that_do_not_fit(tmp_path: Path, settings: dict[str, Any], match: str) -> None:
    path = write(tmp_path / "t.csv", {"a": ["x", "y"]})
    with pytest.raises(InputError, match=match):
        read_table(path, **settings)
