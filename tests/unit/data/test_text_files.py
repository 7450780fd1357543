"""The same table from text files of any delimiter, encoding and decimal sign, and under other names of its columns."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from sdc.data.reading import read_table
from sdc.model.errors import InputError

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

NAMES = some.text("abcäßé ,;|.'\"1\t", min_size=1, max_size=4).filter(lambda name: "\t" not in name)
NUMBERS = some.integers(-3, 3).map(str) | some.sampled_from(["1.0", "2.00", "3e+00"])
RECORDS = some.lists(some.tuples(NAMES, NUMBERS), min_size=1, max_size=12)
WAYS = some.tuples(
    some.sampled_from([",", ";", "|", "\t"]),
    some.sampled_from(["utf-8", "latin-1", "cp1252", "utf-16", "utf-8-sig"]),
    some.sampled_from([".", ","]),
).filter(lambda way: way[0] != way[2])


def written(path: Path, rows: list[tuple[str, ...]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    content = text.getvalue().encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@quick
@given(rows=RECORDS, way=WAYS, name=some.sampled_from(["w.csv", "w.csv.gz"]))
def test_the_same_table_from_any_of_them(
    rows: list[tuple[str, str]], way: tuple[str, str, str], name: str, tmp_path: Path
) -> None:
    delimiter, encoding, decimal = way
    # numbers of a recode have the decimal sign of the file; categories stay as they are written
    common: dict[str, Any] = {"recodes": {"k": {"top": 9}}, "alike": "keep"}
    expected = read_table(written(tmp_path / "plain.csv", [("größe", "k"), *rows]), **common)
    signed = [("größe", "k"), *((text, number.replace(".", decimal)) for text, number in rows)]
    path = written(tmp_path / name, signed, delimiter, encoding)
    found = read_table(path, csv={"delimiter": delimiter, "encoding": encoding, "decimal": decimal}, **common)
    assert (found.schema, found.digest) == (expected.schema, expected.digest)


def test_a_column_renamed_is_the_same_variable(tmp_path: Path) -> None:
    rows = [("1", "f", "x"), ("2", "m", "y"), ("1", "m", "x")]
    expected = read_table(written(tmp_path / "e.csv", [("age", "sex", "c"), *rows]))
    path = written(tmp_path / "t.csv", [("AGE_GRP*", "G", "c"), *rows])
    found = read_table(path, columns={"age": "AGE_GRP*", "sex": "G"})
    assert (found.schema, found.digest) == (expected.schema, expected.digest)
    chosen = read_table(path, columns={"age": "AGE_GRP*"}, variables=["c", "age"], categories={"age": [2, 1]})
    assert chosen.schema.names == ("c", "age")
    assert chosen.schema.variables[1].categories == ("2", "1")


def test_two_columns_change_names_and_a_recode_is_of_the_new_one(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [("a", "b"), ("1", "x"), ("7", "y")])
    table = read_table(path, columns={"a": "b", "b": "a"}, recodes={"b": {"top": 3}})
    assert [(v.name, v.categories) for v in table.schema.variables] == [("b", ("1", "3 or more")), ("a", ("x", "y"))]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"x": "z"}, "columns makes 'x' of 'z', which is not a column of .*t.csv; it has a, b, count"),
        ({"x": "count"}, "columns makes 'x' of 'count', which is not a column"),
        ({"b": "a"}, "columns makes 'b' of 'a', and .* has a column 'b'; rename both"),
        ({"count": "a"}, "columns makes 'count' of 'a', and .* has a column 'count'"),
        ({"x*y": "a"}, r"variable 'x\*y': a name is not empty"),
        ({"x": "a", "y": "a"}, "the column 'a' is there twice"),
    ],
)
def test_columns_that_cannot_be_called_so(columns: dict[str, str], match: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [("a", "b", "count"), ("1", "x", "3")])
    with pytest.raises(InputError, match=match):
        read_table(path, columns=columns)
