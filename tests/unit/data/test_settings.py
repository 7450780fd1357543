"""Every setting of the table is used or refused; which column counts is said, or asked about."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pydantic import BaseModel

from sdc.config.reference import reference
from sdc.config.table import CsvConfig, ExpectConfig, RecodeConfig, TableConfig
from sdc.data.profile import written
from sdc.data.reading import count_records, read_table, settings_of
from sdc.data.source import open_source
from sdc.model.errors import InputError

PARTS = {
    "1.csv": "sex,age,area,w\nf,1,n,1\nm,2,n,2\nf,2,s,1\n",
    "2.csv": "sex,age,area,w\nm,1,s,3\n",
    "x.csv": "sex\nf\n",
}
BASE: dict[str, Any] = {"variables": ["sex", "age"], "ignore": ["x.csv"]}
SECTIONS = {"risk", "release", "publication", "labels", "report", "widths", "execution", "output"}
SECTIONS |= {"server", "server.limits"}  # they hold others, and are nothing by themselves
CHANGED: dict[str, Any] = {
    "path": "1.csv",
    "variables": ["sex", "area"],
    "columns": {"sex": "area"},
    "csv": {"delimiter": ";"},
    "csv.delimiter": ";",
    "csv.encoding": "utf-16",
    "csv.decimal": ",",
    "csv.quote": "none",
    "csv.missing": ["f"],
    "csv.sheet": "2024",
    "categories": {"sex": ["m", "f"]},
    "missing": {"sex": "f"},
    "exclude_missing": ["sex"],
    "recodes": {"age": {"top": 2}},
    "recodes.column": {"column": "area", "groups": {"all": ["n", "s"]}},
    "recodes.bins": {"bins": {"all": [0, 9]}},
    "recodes.groups": {"groups": {"all": ["1", "2"]}},
    "recodes.top": {"top": 2},
    "recodes.bottom": {"bottom": 1},
    "not_totals": {"nobody": ["Total"]},
    "missing_counts": True,
    "weight": "w",
    "ignore": ["x.csv", "2*"],
    "alike": "merge",
    "invalid_records": "exclude",
    "expect": {"parts": 3},
    "expect.parts": 3,
    "expect.records": [9, 10],
    "expect.marker": "DONE",
    "structural_zeros": "zeros.yaml",
    "hierarchies": {"x": ["sex", "age"]},
    "max_categories": 2,
    "partitions": 2,
}
BESIDE: dict[str, Any] = {  # what must be there for a setting to change anything
    "csv.decimal": {"2.csv": "sex,age,area,w\nm,1.5,s,3\n"},
    "csv.quote": {"2.csv": 'sex,age,area,w\n"m",1,s,3\n'},
    "missing": {"2.csv": "sex,age,area,w\n,1,s,3\n"},
    "exclude_missing": {"2.csv": "sex,age,area,w\n,1,s,3\n"},
    "alike": {"2.csv": "sex,age,area,w\nM,1,s,3\n"},
    "invalid_records": {"2.csv": "sex,age,area,w\n,1,s,3\n"},
    "max_categories": {"2.csv": "sex,age,area,w\nx,1,s,3\n"},
}


def settings(model: type[BaseModel] = TableConfig, before: str = "") -> Iterator[str]:
    sections: dict[str, type[BaseModel]] = {"csv": CsvConfig, "recodes": RecodeConfig, "expect": ExpectConfig}
    for name in model.model_fields:
        yield before + name
        if not before and name in sections:
            yield from settings(sections[name], f"{name}.")


def test_all_settings_are_walked() -> None:
    """One that is new fails here until somebody states how it shows: in CHANGED, or in a file for tests/system."""
    assert list(settings()) == list(CHANGED)
    others = yaml.safe_load((Path(__file__).parents[2] / "every_setting.yaml").read_text())["cases"]
    own = [key.key for key in reference() if key.key not in SECTIONS and not key.key.startswith("table")]
    assert [*sorted(own)] == [*sorted(others)]


@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_that_is_changed_changes_something_or_is_refused(name: str, tmp_path: Path) -> None:
    for part, content in (PARTS | BESIDE.get(name, {})).items():
        (tmp_path / part).write_text(content)
    (tmp_path.parent / f"{tmp_path.name}.yaml").write_text("- {sex: f, age: '3'}\n")
    section, _, key = name.partition(".")
    value = CHANGED[name]
    given = {section: {"age": value} if section == "recodes" else {key: value}} if key else {section: value}
    if name == "csv.decimal":  # of numbers alone
        common: dict[str, Any] = {**BASE, "recodes": {"age": {"top": 2}}}
    else:
        common = {**BASE, **({"categories": {"age": ["1", "2", "3"]}} if name == "structural_zeros" else {})}
    if name == "structural_zeros":
        given = {name: f"{tmp_path}.yaml"}
    if name == "path":
        given = {name: str(tmp_path / value)}
    before, after = (outcome({"path": str(tmp_path), **common, **more}) for more in ({}, given))
    assert before != after


def outcome(given: dict[str, Any]) -> str:
    try:
        config = settings_of(given["path"], {key: value for key, value in given.items() if key != "path"})
        found = count_records(open_source(config.path, config.expect, config.ignore), config)
    except InputError as error:
        return str(error)
    return repr((found.table.schema, found.table.digest, found.zeros, found.weights, config.partitions_of(9)))


CELLS = "sex,area,{0}\nf,n,7\nm,s,5\n"


@pytest.mark.parametrize("name", ["COUNT", "Count", " count", "Freq", "n", "N", "frequency", "Anzahl", "n_obs"])
@pytest.mark.parametrize("variables", [None, ["sex", "area"]])
def test_a_column_that_looks_like_counts_is_asked_about(name: str, variables: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(CELLS.format(name))
    frame = pa.table({"sex": ["f", "m"], "area": ["n", "s"], name: [7, 5]})
    for source in (path, frame):
        with pytest.raises(
            InputError, match=f"the column '{name}', and no setting declares whether it counts .* {{count: null}}"
        ):
            read_table(source, variables=variables)
        assert read_table(source, variables=variables, columns={"count": name}).total == 12
        assert read_table(source, variables=["sex", "area"], columns={"count": None}).total == 2
        assert read_table(source, variables=["sex", name]).total == 2  # it is said that it is a variable


@pytest.mark.parametrize("other", ["Count", "freq", "n"])
def test_two_columns_that_look_like_counts(other: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"sex,count,{other}\nf,1,2\nm,3,4\n")
    with pytest.raises(InputError, match=rf"has the columns 'count' and '{other}', which both look like counts; set"):
        read_table(path)
    assert read_table(path, columns={"count": "count"}).schema.names == ("sex", other)
    assert read_table(path, variables=["sex"]).total == 4


def test_the_column_of_counts_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(CELLS.format("persons"))
    assert read_table(path, variables=["sex", "area"]).total == 2
    table = read_table(path, columns={"count": "persons"})
    assert (table.total, table.schema.names) == (12, ("sex", "area"))
    for columns, match in (
        ({"count": "people"}, "columns makes 'count' of 'people', which is not a column of"),
        ({"sex": None}, "only count may be null"),
    ):
        with pytest.raises(InputError, match=match):
            read_table(path, columns=columns)
    path.write_text("sex,count,persons\nf,1,2\n")
    with pytest.raises(InputError, match=r"columns makes 'count' of 'persons', and .* has a column 'count'"):
        read_table(path, columns={"count": "persons"})
    assert read_table(path, columns={"count": None}, variables=["sex"]).total == 1
    path.write_text("sex,persons\nf,many\n")
    with pytest.raises(InputError, match="column 'persons' has a value that is not a count"):
        read_table(path, columns={"count": "persons"})


def test_init_asks_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sex,area,Freq\n" + "f,n,7\nm,s,5\nf,s,1\nm,n,2\n" * 3)
    text, _ = written(open_source(path), "t")
    assert "# columns: {count: Freq}  # does it count the records of a cell? else {count: null}" in text
    assert "# - Freq" in text
