"""Files of SPSS, Stata and SAS: counted as the standard library counts the same records, or refused."""

import ctypes
import datetime
import random
import re
from collections import Counter
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyreadstat
import pytest
import yaml

from sdc.api import magnitude_table
from sdc.config.build import BuildConfig
from sdc.data import statistical
from sdc.data.profile import written
from sdc.data.reading import read_table
from sdc.data.source import open_source
from sdc.model.errors import InputError
from sdc.model.table import Table
from sdc.stages.build import Build
from sdc.stages.stages import TABLE
from tests.helpers.commands import Sdc
from tests.unit.data.test_awkward import READ, USED, counted, independent

DAY = datetime.date(2024, 1, 31)
SUFFIXES = (".sav", ".zsav", ".dta", ".xpt", ".sas7bdat")


SAS_BEGINS = datetime.date(1960, 1, 1)


def written_by_readstat(path: Path, columns: dict[str, list[Any]]) -> None:
    """A file of SAS: pyreadstat writes none, but has ReadStat's own writer in it."""
    library = ctypes.CDLL(pyreadstat._readstat_writer.__file__)
    library.readstat_writer_init.restype = library.readstat_add_variable.restype = ctypes.c_void_p
    receiver = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def variable(name: str, values: list[Any]) -> ctypes.c_void_p:
        is_text = all(isinstance(value, str) for value in values)
        width = max(1, *(len(value.encode()) for value in values)) if is_text else 8
        made = ctypes.c_void_p(library.readstat_add_variable(writer, name.encode(), 0 if is_text else 5, width))
        if any(isinstance(value, datetime.date) for value in values):
            library.readstat_variable_set_format(made, b"DATE9")
        return made

    def insert(field: ctypes.c_void_p, value: Any) -> int:
        if value is None:
            return int(library.readstat_insert_missing_value(writer, field))
        if isinstance(value, str):
            return int(library.readstat_insert_string_value(writer, field, value.encode()))
        number = (value - SAS_BEGINS).days if isinstance(value, datetime.date) else value
        return int(library.readstat_insert_double_value(writer, field, ctypes.c_double(number)))

    with path.open("wb") as file:
        write = receiver(lambda data, length, _: file.write(ctypes.string_at(data, length)))
        writer, rows = ctypes.c_void_p(library.readstat_writer_init()), list(zip(*columns.values(), strict=True))
        statuses = [library.readstat_set_data_writer(writer, write)]
        fields = [variable(name, values) for name, values in columns.items()]
        statuses.append(library.readstat_begin_writing_sas7bdat(writer, None, ctypes.c_long(len(rows))))
        for row in rows:
            statuses.append(library.readstat_begin_row(writer))
            statuses += [insert(field, value) for field, value in zip(fields, row, strict=True)]
            statuses.append(library.readstat_end_row(writer))
        statuses.append(library.readstat_end_writing(writer))
        library.readstat_writer_free(writer)
    assert not any(statuses)


def written_to(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    if path.suffix == ".sas7bdat":
        written_by_readstat(path, columns)
        return path
    writers = {".sav": pyreadstat.write_sav, ".zsav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta}
    if path.suffix == ".zsav":
        how["compress"] = True
    writers.get(path.suffix, pyreadstat.write_xport)(pd.DataFrame(columns), path, **how)
    return path


def categories(table: Table) -> dict[str, tuple[str, ...]]:
    return {variable.name: variable.categories for variable in table.schema.variables}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", READ)
def test_awkward_records(name: str, suffix: str, tmp_path: Path) -> None:
    header, *rows = independent(*READ[name])
    places = [header.index(column) for column in USED]
    rows = [[row[place] for place in places] for row in rows]
    if suffix == ".xpt" and any(len(value.encode()) > 200 or not value.isascii() for row in rows for value in row):
        return  # what a transport file cannot hold
    expected = Counter(tuple(value.rstrip(" ") for value in row) for row in rows)  # there blanks fill texts up
    path = written_to(tmp_path / f"t{suffix}", dict(zip(USED, map(list, zip(*rows, strict=True)), strict=True)))
    assert counted(read_table(path)) == expected


NUMBERS = {"code": [1.0, 2.0, None, 9.0], "x": [1.5, 2.0, -0.0, 0.1], "when": [DAY, None, DAY, DAY]}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_whole_numbers_are_codes_and_dates_are_dates(suffix: str, tmp_path: Path) -> None:
    path = written_to(tmp_path / f"t{suffix}", NUMBERS)
    settings: dict[str, Any] = {"missing": {"code": "none", "when": "none"}}
    found = categories(read_table(path, **settings))
    assert found == {"code": ("1", "2", "9", "none"), "x": ("0", "0.1", "1.5", "2"), "when": ("2024-01-31", "none")}
    bins = read_table(path, variables=["x"], recodes={"x": {"bins": {"low": [None, 1.5], "high": [1.5, None]}}})
    assert bins.one_way()[0].tolist() == [2, 2]
    marked = read_table(path, csv={"missing": ["9"]}, **settings)
    assert marked.one_way()[0].tolist() == [1, 1, 2]
    with pytest.raises(InputError, match="missing values: 1 in column 'code'"):
        read_table(path)
    whole = written_to(path, {"code": [1.0, 2.0, 2.0], "x": [1.5, 2.0, 3.0]})
    (sums,) = magnitude_table(whole, value="x", by=["code"], contributors=1)
    assert [row["code"] for row in sums.rows if row["code"] != "(total)"] == ["1", "2"]


def test_user_missing_values(tmp_path: Path) -> None:
    ranges = {"q": [9, {"lo": 90, "hi": 99}], "s": ["XX"]}
    columns = {"q": [1.0, 9.0, 95.0, 2.0], "s": ["a", "XX", "b", ""]}
    path = written_to(tmp_path / "t.sav", columns, missing_ranges=ranges)
    assert read_table(path, missing={"q": "-", "s": "-"}).one_way()[0].tolist() == [1, 1, 2]
    assert read_table(path, missing={"q": "-", "s": "-"}).one_way()[1].tolist() == [1, 1, 2]
    tagged = written_to(tmp_path / "t.dta", {"q": [1, "a", 2, "b"]}, missing_user_values={"q": ["a", "b"]})
    assert read_table(tagged, missing={"q": "-"}).one_way()[0].tolist() == [1, 1, 2]


FORMATS = [
    (".sav", "TIME8", None),
    (".sav", "MOYR8", None),
    (".sav", "DATETIME20", ("1582-10-15",)),
    (".sav", "EDATE10", ("1582-10-15",)),
    (".dta", "%tcDDmonCCYY", ("1960-01-02",)),
    (".dta", "%tdNN/DD/CCYY", ("2196-07-21",)),
    (".dta", "%tq", None),
    (".dta", "%tC", None),
    (".dta", "%9.0g", ("86400",)),
    (".xpt", "DATETIME", ("1960-01-02",)),
    (".xpt", "MMDDYY", ("2196-07-21",)),
    (".xpt", "MONYY", None),
    (".xpt", "MONEY", ("86400",)),
]


@pytest.mark.parametrize(("suffix", "written_as", "names"), FORMATS)
def test_formats_of_dates(suffix: str, written_as: str, names: Any, tmp_path: Path) -> None:
    value = 86_400_000.0 if written_as.startswith("%tc") else 86_400.0
    path = written_to(tmp_path / f"t{suffix}", {"a": [value] * 2, "b": ["x", "y"]}, variable_format={"a": written_as})
    assert read_table(path, variables=["b"]).total == 2
    if names is None:
        with pytest.raises(InputError, match=r"column 'a' has the type duration.*, which has no categories"):
            read_table(path)
    else:
        assert categories(read_table(path))["a"] == names


def test_labels_are_proposed_and_merge_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    columns = {"q": [float(rng.choice([1, 2, 3])) for _ in range(60)], "r": [rng.choice("ns") for _ in range(60)]}
    labels = {"q": {1: "yes", 2: "other", 3: "other", 4: "nobody"}, "r": {"n": "North", "s": "bad\nlabel"}}
    path = written_to(
        tmp_path / "t.sav", columns, variable_value_labels=labels, column_labels={"q": "Question", "r": "Region"}
    )
    assert categories(read_table(path)) == {"q": ("1", "2", "3"), "r": ("n", "s")}
    text, facts = written(open_source(path), "t")
    config = BuildConfig.model_validate(yaml.safe_load(text))
    config.labels.labels.require(read_table(path).schema)
    own = {"label": "Question", "categories": {"1": "yes", "2": "other (2)", "3": "other (3)"}}
    assert facts["labels"] == {"q": own, "r": {"label": "Region", "categories": {"n": "North"}}}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_from_any_blocks_and_parts(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"a": [float(n % 5) for n in range(1000)], "b": [f"t{n % 3}" for n in range(1000)], "u": ["x"] * 1000}
    whole = read_table(written_to(tmp_path / f"t{suffix}", rows), variables=["a", "b"])
    parts = tmp_path / "parts"
    parts.mkdir()
    for n in range(3):
        written_to(parts / f"{n}{suffix}", {name: own[n * 334 : (n + 1) * 334] for name, own in rows.items()})
    assert read_table(parts, variables=["a", "b"]) == whole
    with fsspec.open(f"memory://t{suffix}", "wb") as file:
        file.write((tmp_path / f"t{suffix}").read_bytes())
    assert read_table(f"memory://t{suffix}", variables=["a", "b"]) == whole
    (part,) = open_source(tmp_path / f"t{suffix}").parts
    monkeypatch.setattr(statistical, "_GROUP", 7)
    monkeypatch.setattr(statistical, "_BYTES", 2000)
    names, groups, _ = statistical.layout(part, None)
    assert (len(names), sum(groups)) == (3, 1000 if suffix != ".xpt" else 0)
    spans = [None] if suffix == ".xpt" else [range(0, 1), range(1, 100), range(100, len(groups))]
    batches = [batch for span in spans for batch in statistical.batches(part, ["b", "a"], None, span)]
    assert [value for batch in batches for value in batch.column("a").to_pylist()] == rows["a"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files(suffix: str, tmp_path: Path) -> None:
    path, rng = written_to(tmp_path / f"t{suffix}", {"a": [1.0] * 9, "b": ["x"] * 9}), random.Random(suffix)
    content = path.read_bytes()
    for end in (0, 10, len(content) // 2, len(content) - 10) if suffix != ".dta" else (0, 10, len(content) // 2):
        path.write_bytes(content[:end])
        with pytest.raises(InputError, match=r"(t\.\w+ cannot be read: .*check|is empty|cut short|has no rec)"):
            read_table(path)
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(content))] = rng.choice([0, 1, 0x7F, 0xFF])
        path.write_bytes(damaged)
        with suppress(InputError):
            read_table(path, alike="keep")


RECORDS: dict[str, list[Any]] = {
    "sex": [n % 2 + 1 for n in range(90)],
    "area": ["north" if n % 7 < 4 else "south" for n in range(90)],
    "age": [n * n % 5 for n in range(90)],
    "pay": [100 + n * n % 11 for n in range(90)],
}
VERBS = (
    "widths {} --json --variables sex,area,age",
    "assess {} --variables sex,area,age --release sex*area --min-width 2 --json",
    "suppress {} sex*age --min-width 2 --variables sex,area,age --json",
    "round {} sex*age --json --variables sex,area,age",
    "magnitude {} --value pay --by sex*area --contributors 2 --missing NA --json",
    "init {} --json",
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_reads_the_same(verb: str, tmp_path: Path, sdc: Sdc) -> None:
    frame = pd.DataFrame(RECORDS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    paths = [written_to(tmp_path / f"t{suffix}", RECORDS) for suffix in SUFFIXES]

    def said(of: Path) -> tuple[int, str]:
        answer = sdc(*verb.format(of).split())
        # of text files all columns are texts
        return answer.status, re.sub(r'(# |"type": ")(text|number)', r"\1", answer.out).replace(str(of), "FILE")

    expected = said(tmp_path / "t.csv")
    assert [said(path) for path in (*paths, tmp_path / "t.xlsx", tmp_path / "t.parquet")] == [expected] * 7


def test_settings_of_text_files_are_refused_and_an_encoding_is_used(tmp_path: Path) -> None:
    path = written_to(tmp_path / "t.sav", {"a": ["süd", "n"]})
    with pytest.raises(InputError, match=r"table\.csv\.delimiter = ';' is of text files, and .*t\.sav is none"):
        read_table(path, csv={"delimiter": ";"})
    path.write_bytes(path.read_bytes().replace("süd".encode(), "süd ".encode("latin-1")).replace(b"UTF-8", b"     "))
    assert categories(read_table(path, csv={"encoding": "latin-1"}))["a"] == ("n", "süd")


@pytest.mark.parametrize("suffix", [".sav", ".zsav"])
@pytest.mark.parametrize("wrong", [2, 0, 5, -1])
def test_a_header_that_miscounts_the_records(wrong: int, suffix: str, tmp_path: Path) -> None:
    """-1 says that nobody has counted them."""
    path = written_to(tmp_path / f"t{suffix}", {"code": [1.0, 2.0, 2.0], "text": ["a", "b", "b"]})
    content = bytearray(path.read_bytes())
    assert content[80:84] == (3).to_bytes(4, "little")
    content[80:84] = wrong.to_bytes(4, "little", signed=True)
    path.write_bytes(content)
    if wrong < 0:
        assert read_table(path).total == 3
    else:
        with pytest.raises(InputError, match=r"more records than the \d|cannot be read"):
            read_table(path)


def test_a_table_of_another_version_of_the_reader_is_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_to(tmp_path / "t.sav", {"code": [1.0, 2.0, 2.0]})
    content = {"name": "t", "table": {"path": str(tmp_path / "t.sav")}, "risk": {"min_width": 3}}
    build = Build(BuildConfig.model_validate(content))
    before, version = TABLE.key(build, {}), metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == "pyreadstat" else version(name))
    assert TABLE.key(build, {}) != before
