"""Missing values: kept as a category or their records left out, for all variables or by column, beside bins too."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.data.reading import count_records, read_table, read_weights, settings_of
from sdc.data.source import open_source
from sdc.model.errors import InputError
from sdc.model.table import Table
from sdc.model.weights import RecordWeights

RECORDS = "age,sex\n" + "34,f\nNA,m\n71,f\n.,NA\n8,m\n71,\n"
BINS = {"age": {"bins": {"young": [None, 30], "old": [30, None]}}}
MARKS: dict[str, Any] = {"csv": {"missing": ["NA", "."]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(RECORDS)
    return path


@pytest.mark.parametrize("recodes", [{}, BINS])
@pytest.mark.parametrize(
    ("settings", "records", "kept"),
    [
        ({"missing": "none"}, 6, [True, True]),
        ({"missing": {"age": "none", "sex": "none"}}, 6, [True, True]),
        ({"exclude_missing": True}, 3, [False, False]),
        ({"exclude_missing": ["age", "sex"]}, 3, [False, False]),
        ({"exclude_missing": True, "missing": {"age": "none"}}, 4, [True, False]),
        ({"exclude_missing": ["age"], "missing": {"sex": "none"}}, 4, [False, True]),
        ({"exclude_missing": ["age"], "missing": "none"}, 4, [False, True]),
    ],
)
def test_kept_or_left_out(settings: dict[str, Any], records: int, kept: list[bool], recodes: Any, path: Path) -> None:
    table = read_table(path, recodes=recodes, **MARKS, **settings)
    assert table.total == records
    assert ["none" in variable.categories for variable in table.schema.variables] == kept


def test_what_is_left_out_is_counted_and_nothing_else_is(path: Path) -> None:
    given = {**MARKS, "exclude_missing": ["age"], "missing": {"sex": "none"}}
    found = count_records(open_source(path), settings_of(str(path), given))
    reason = {"variable": "age", "reason": "missing value without a category", "records": 2}
    assert found.facts | {"unmet": {}, "sums": ()} == {
        "records": 6,
        "set_aside": 2,
        "reasons": [reason],
        "unmet": {},
        "sums": (),
    }
    with pytest.raises(InputError, match=r"missing values: 2 in column 'sex'; .* by exclude_missing: \[sex\]"):
        read_table(path, **MARKS, exclude_missing=["age"])
    with pytest.raises(InputError, match="values outside its categories"):
        read_table(path, **MARKS, exclude_missing=True, categories={"age": ["34", "71"]})


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"exclude_missing": ["agee"]}, "exclude_missing names 'agee', which is not a variable"),
        ({"exclude_missing": ["age"], "missing": {"age": "none"}}, "'age' are to have the category 'none' too; drop"),
        ({"exclude_missing": True, "missing": "none"}, "all variables have the category 'none' too; drop one"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], match: str, path: Path) -> None:
    with pytest.raises(InputError, match=match):
        read_table(path, **MARKS, **settings)


NOTHING: dict[str, list[Any]] = {
    "age": ["34", None, "71", None, ""],
    "sex": ["f", None, None, None, " "],
    "note": [1.5, None, None, 2.0, float("nan")],
}


@pytest.mark.parametrize("settings", [{"missing": "none"}, {"exclude_missing": True}, {}])
@pytest.mark.parametrize("of", ["parquet", "row groups", "pandas", "arrow"])
@pytest.mark.parametrize(("rows", "number"), [([0, 1, 2, 3], 2), ([0, 2, 3, 4], 4), ([0, 2, 3], 0)])
def test_a_row_without_any_value_is_refused(
    settings: dict[str, Any], of: str, rows: list[int], number: int, tmp_path: Path
) -> None:
    """Whatever is used of it, as of a text file; a value in a column that is not used makes it a record."""
    table = pa.table({name: [values[row] for row in rows] for name, values in NOTHING.items()})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1 if of == "row groups" else None)
    source = {"pandas": pd.DataFrame(table.to_pydict()), "arrow": table}.get(of, tmp_path / "t.parquet")
    if number:
        with pytest.raises(InputError, match=rf", row {number}: the row is empty; delete it$"):
            read_table(source, variables=["age", "sex"], **settings)
    elif settings:
        assert read_table(source, variables=["age", "sex"], **settings).total == (3 if "missing" in settings else 1)
    with pytest.raises(InputError, match="missing values") if not number else pytest.raises(InputError):
        read_table(source, variables=["age", "sex"])


def test_a_value_may_be_missing_where_there_is_but_one_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": ["34", None]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", missing="none").total == 2


@pytest.mark.parametrize("missing", [["9"], {"n": ["9", "NA"]}])
@pytest.mark.parametrize("values", [["9", "2"], [9, 2], [9.0, 2.0]])
@pytest.mark.parametrize("role", ["count", "weight"])
def test_a_missing_count_or_weight_is_no_number(role: str, values: list[Any], missing: Any) -> None:
    frame = pd.DataFrame({"age": ["a", "b"], "n": values})
    given: dict[str, Any] = (
        {"columns": {"count": "n"}} if role == "count" else {"weight": "n", "columns": {"count": None}}
    )
    read = read_table if role == "count" else read_weights
    with pytest.raises(InputError, match=r"column 'n' has values that csv\.missing names"):
        read(frame, **given, csv={"missing": missing})
    assert isinstance(read(frame, **given, csv={"missing": {"age": ["9"]}}), Table | RecordWeights)
