"""A first config from a data file: it loads, it reads the table, and says what it left out and why."""

import csv
import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from sdc.commands.cli import main
from sdc.config.file import read_config
from sdc.data.profile import config_name, csv_of, written
from sdc.data.reading import count_records, read_table
from sdc.data.source import open_source
from sdc.model.errors import InputError

REGIONS = {"north": ["Aa", "Bb"], "south": ["Cc", "Dd", "Ee"]}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """400 records: an identifier, ages, missing values, places within regions, and nobody young who is widowed."""
    rng, file = random.Random(5), tmp_path / "people of 2024.csv"
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "age", "wage", "sex", "place", "region", "marital", "state", "town"])
        for k in range(400):
            region = rng.choice(list(REGIONS))
            age, wage = rng.randrange(0, 90), rng.choice([0, 0, 0, 0, 0, 0, 0, 0, 0, rng.randrange(1, 5000)])
            marital = rng.choice(["single", "married", "widowed"]) if age >= 50 else "single"
            town = f"t{rng.randrange(90)}"
            sex = rng.choice(["no", "yes", ""])
            rows.writerow([1000 + k, age, wage, sex, rng.choice(REGIONS[region]), region, marital, "open", town])
    return file


def first(path: Path, tmp_path: Path) -> tuple[str, dict[str, Any], Any]:
    source = open_source(path)
    text, facts = written(source, config_name(str(path)))
    config = tmp_path / "first.yaml"
    config.write_text(text)
    settings = read_config(config)
    return text, facts, count_records(source, settings.table).table


def test_it_loads_and_reads_the_table(people: Path, tmp_path: Path) -> None:
    text, facts, table = first(people, tmp_path)
    assert text.startswith("# A first config, made from 400 records. Confidential: it lists categories of the data.\n")
    assert config_name(str(people)) == "people_of_2024"
    assert table.schema.names == ("age", "wage", "sex", "place", "region", "marital", "town")
    assert (table.total, len(table), table.schema.cells) == (400, facts["non_zero_cells"], facts["cells"])
    age, wage, sex, *_ = table.schema.variables
    assert len(age.categories) == 5
    assert age.categories[0].startswith("under ")
    assert age.categories[-1].endswith(" and over")
    assert len(wage.categories) >= 2
    assert sex.categories == ("no", "yes", "missing")


def test_it_says_what_was_left_out_and_why(people: Path, tmp_path: Path) -> None:
    text, facts, _ = first(people, tmp_path)
    why = {one["name"]: one["why_not"] for one in facts["variables"]}
    assert why["id"] == "400 whole numbers, each once: an identifier"
    assert why["state"] == "one value for all records"
    assert "    # - id  # text, 400 values, 0 missing; left out: 400 whole numbers, each once: an identifier" in text
    groups = next(one["recode"]["groups"] for one in facts["variables"] if one["name"] == "town")
    assert (len(groups), groups["other"]) == (10, "*")


def test_it_names_nested_variables_and_empty_cells(people: Path, tmp_path: Path) -> None:
    text, facts, _ = first(people, tmp_path)
    assert ["region", "place"] in facts["nested"]
    assert "  # hierarchies: {place_levels: [region, place]}  # are they levels of one variable?" in text
    empty = [one["cell"] for one in facts["empty_two_way_cells"]]
    assert {"place": "Aa", "region": "south"} in empty
    assert any(cell.get("marital") == "widowed" and str(cell.get("age", "")).startswith("under") for cell in empty)
    assert all(one["expected"] >= 5 for one in facts["empty_two_way_cells"])


def test_the_same_of_parquet_and_of_counted_cells(people: Path, tmp_path: Path) -> None:
    _, facts, table = first(people, tmp_path)
    pq.write_table(pyarrow.csv.read_csv(people), tmp_path / "people.parquet")
    _, typed, same = first(tmp_path / "people.parquet", tmp_path)
    assert (typed["nested"], same.schema.names) == (facts["nested"], table.schema.names)
    (tmp_path / "counted.csv").write_text("a,b,count\nx,1,3\ny,2,0\n")
    assert [one["name"] for one in first(tmp_path / "counted.csv", tmp_path)[1]["variables"]] == ["a", "b"]


def test_those_of_most_use_are_switched_on(tmp_path: Path) -> None:
    """Few missing values and labels before numbers, in the order of the file; nothing of which most is missing."""
    rng = random.Random(2)
    numbers, rare = (
        [rng.uniform(0, 9) for _ in range(400)],
        [rng.choice("ab") if k % 5 == 0 else None for k in range(400)],
    )
    some = [rng.choice("ab") if k % 8 else None for k in range(400)]
    columns: dict[str, Any] = {"score": numbers, "rare": rare, "some": some}
    columns |= {f"v{k}": [rng.choice("ab") for _ in range(400)] for k in range(11)}
    pq.write_table(pa.table({**columns, "rating": [rng.randrange(5) for _ in range(400)]}), tmp_path / "t.parquet")
    _, facts, table = first(tmp_path / "t.parquet", tmp_path)
    assert table.schema.names == (*(f"v{k}" for k in range(11)), "rating")
    why = {one["name"]: one["why_not"] for one in facts["variables"]}
    assert why["rare"] == "more than half of its values are missing"
    assert why["score"] == why["some"]
    assert why["some"].startswith("beyond the first 12 by use, few missing values and labels before numbers; ")


def coded(folder: Path, name: str, values: list[str]) -> Path:
    """Records with a column of numbers, and a label."""
    rng, file = random.Random(3), folder / "coded.csv"
    file.write_text(f"{name},sex\n" + "".join(f"{value},{rng.choice('mf')}\n" for value in values))
    return file


@pytest.mark.parametrize(
    ("name", "numbers", "is_binned"),
    [
        ("occupation", list(range(40)), False),
        ("q7", [f"{k:03}" for k in range(40)], False),
        ("q7", [3, *range(40, 440, 10)], None),
        ("q7", [k + 0.5 for k in range(40)], True),
        ("q7", [1.5, 2.0, 4.0], True),
        ("q7", [f"10.{k}" for k in range(10, 60)], None),
        ("nace", [9.5, *(k / 10 for k in range(101, 121))], False),
        ("age_group", list(range(40)), False),
        ("age", list(range(40)), True),
        ("capital_gains", [0, *range(40, 4000, 97)], True),
    ],
)
def test_codes_are_never_binned(name: str, numbers: list[Any], is_binned: bool | None, tmp_path: Path) -> None:
    """By their name, a zero in front, or as some are not whole it is known what they are; else they are codes."""
    rng = random.Random(5)
    file = coded(tmp_path, name, [str(rng.choice(numbers)) for _ in range(900)])
    text, facts, table = first(file, tmp_path)
    (told,) = [one for one in facts["variables"] if one["name"] == name]
    assert (told["used"], told["unsure"]) == (True, is_binned is None)
    assert ("bins" in (told["recode"] or {})) is bool(is_binned)
    assert (len(table.schema.variables[0].categories) < 9) is bool(is_binned)
    assert ("taken for codes: give bins if they are amounts" in text) is (is_binned is None)


def test_numbers_of_which_nothing_tells_are_asked_about(tmp_path: Path) -> None:
    """However they are distributed: codes of races are as smooth, and as many, as ages may be."""
    rng = random.Random(6)
    races = [str(min(int(rng.expovariate(0.3)) + 1, 26)) for _ in range(1400)]
    _, facts, _ = first(coded(tmp_path, "race", races), tmp_path)
    assert (facts["variables"][0]["unsure"], facts["variables"][0]["recode"]) == (True, None)
    numbers = [str(k * k) for k in (*range(60), 0)]
    path = coded(tmp_path, "q7", numbers)
    _, facts, table = first(path, tmp_path)
    assert facts["variables"][0]["why_not"].endswith(" records: an identifier, or amounts to be binned by hand")
    assert table.schema.names == ("sex",)
    _, facts = written(open_source(path), "t", lambda column: column.name == "q7")
    assert "bins" in facts["variables"][0]["recode"]


def test_what_a_reader_would_ask(tmp_path: Path) -> None:
    """Columns that are alike, texts and numbers that may stand for missing values, and what to do with these."""
    rng, path = random.Random(7), tmp_path / "t.csv"
    rows = [
        (rng.choice("fm"), rng.choice("fm"), rng.choice(["hi", "lo", "NA", "."]), rng.choice([*range(100), 999]))
        for _ in range(900)
    ]
    path.write_text(
        "sex,Sex,edu,age,unit\n" + "".join(f"{','.join(map(str, row))},x\n" for row in rows) + "f,m,hi,NA,x\n"
    )
    text, facts, _ = first(path, tmp_path)
    why = {one["name"]: one["why_not"] for one in facts["variables"]}
    assert why == {
        "sex": "alike the column 'Sex'; rename one",
        "Sex": None,
        "edu": None,
        "age": None,
        "unit": "one value for all records",
    }
    assert '  # csv: {"missing": {"edu": [".", "NA"]}}' in text
    path.write_text(path.read_text().replace(",NA,x", ",3,x"))
    assert '  # csv: {"missing": {"edu": [".", "NA"], "age": ["999"]}}' in first(path, tmp_path)[0]
    path.write_text(path.read_text().replace(",NA,", ",,"))
    assert "  # exclude_missing: [edu]  # instead: these records are left out" in first(path, tmp_path)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "has no records; give a table with at least one"),
        ("a,b\nx,y\nx,y\n", "no column makes a variable: each has one value"),
        ("count\n3\n", "has no column that makes a variable"),
    ],
)
def test_tables_that_make_no_config(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        written(open_source(tmp_path / "t.csv"), "t")


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"no","a: b # c","x{y}"\n"yes","1","q"\n"no","2","r"\n"no","1","r"\n')
    text, _, table = first(tmp_path / "t.csv", tmp_path)
    assert table.schema.names == ("no", "a: b # c", "x{y}")
    assert json.dumps("a: b # c") in text


def test_the_command_writes_a_file_once_and_for_its_user_alone(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sdc(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["sdc", "init", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    out = tmp_path / "made.yaml"
    status, printed, _ = sdc(people, "--out", out)
    assert (status, f"sdc plan {out}" in printed) == (0, True)
    assert out.stat().st_mode & 0o777 == 0o600
    assert sdc(people)[1] == json.loads(sdc(people, "--json")[1])["config"] == out.read_text()
    assert f"--out {out} exists already; name a file that does not" in sdc(people, "--out", out)[2]
    status, _, said = sdc(tmp_path / "nothing.csv")
    assert (status, said.count("\n")) == (1, 1)


@pytest.mark.parametrize("name", ["weight", "person_weight", "PWGTP", "fnlwgt", "hh_wt", "pweight"])
def test_a_survey_weight_is_no_variable(name: str, tmp_path: Path) -> None:
    """Suggested as the weight, in a comment that makes a config when it is switched on."""
    rng = random.Random(1)
    sexes, weights = [rng.choice("mf") for _ in range(60)], [rng.randrange(10, 99) + 0.5 for _ in range(60)]
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.table({"sex": sexes, "age": [rng.choice("ab") for _ in range(60)], name: weights}), path)
    text, _, table = first(path, tmp_path)
    assert table.schema.names == ("sex", "age")
    (line,) = [line for line in text.splitlines() if "rounded totals of it" in line]
    switched = tmp_path / "weighted.yaml"
    switched.write_text(text.replace(line, line.replace("# weight", "weight")))
    assert read_config(switched).table.weight == name


def test_what_is_only_called_so_is_a_variable(tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "sample.parquet"
    columns = {name: [rng.choice("ab") for _ in range(60)] for name in ("weight", "weightless", "growth")}
    pq.write_table(pa.table(columns), path)
    _, _, table = first(path, tmp_path)
    assert table.schema.names == ("weight", "weightless", "growth")


EUROPEAN = "größe;lohn;nace\n" + "".join(f"{n % 3};{n},5;0{n % 2}.10\nx;NA;01.10\n" for n in range(9))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_how_a_text_file_is_written(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(EUROPEAN.encode(encoding))
    source = open_source(path)
    found = csv_of(source, {})
    assert (found.delimiter, found.encoding, found.decimal) == (";", encoding, ",")
    text, facts = written(source, "t")
    assert [one["name"] for one in facts["variables"]] == ["größe", "lohn", "nace"]
    config = yaml.safe_load(text)["table"]
    assert config["csv"]["missing"] == {"lohn": ["NA"]}
    assert list(config["recodes"]) == ["lohn"]
    assert read_table(path, **{key: value for key, value in config.items() if key != "path"}).total == 18
    with pytest.raises(InputError, match="the one column"):
        written(source, "t", given={"delimiter": "|", "encoding": encoding})
    with pytest.raises(InputError, match=r"csv\.delimiter = 'x'"):
        written(source, "t", given={"delimiter": "x"})
