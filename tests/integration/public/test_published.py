"""Tables of counts read back from every format that can be checked, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.config.publication import PublicationConfig
from sdc.model.errors import InputError, ReleaseError
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.public.published import read_published
from sdc.publish.formats import FORMATS, CountTable
from sdc.publish.publication import Texts, write_publication
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.helpers.count_tables import TAME, tables
from tests.integration.verify.forging import edited, json_with

READ = {"csv": ".csv", "parquet": ".parquet", "json-stat": ".json", "px": ".px"}


def of(table: CountTable) -> Table | None:
    """The table that is written, None where its names are none that a table has."""
    try:
        schema = Schema(tuple(Variable(d.name, d.categories) for d in table.dimensions))
        return Table.of(schema, table.codes, table.counts)
    except InputError:
        return None


@given(tables(hs.sampled_from(TAME)))
def test_what_is_written_is_read(table: CountTable) -> None:
    expected = of(table)
    with TemporaryDirectory() as folder:
        for name, suffix in READ.items():
            path = Path(folder, f"t{suffix}")
            try:
                path.write_bytes(b"".join(FORMATS[name].of_table[suffix](table)))
            except ReleaseError:
                continue
            listed = len(table.with_records[1]) or table.zeros or suffix not in (".csv", ".parquet")
            if expected is None or not listed:
                with pytest.raises(InputError):
                    read_published(path)
                continue
            found = read_published(path)[0]
            assert cells(found.table) == cells(expected)
            withheld = [] if table.withheld is None else table.withheld.tolist()
            assert {tuple(found.table.schema.named(cell).values()) for cell in found.suppressed.tolist()} == {
                tuple(expected.schema.named(cell).values()) for cell in withheld
            }
            if found.is_whole:
                assert found.table.schema == expected.schema


def cells(table: Table) -> dict[tuple[str, ...], int]:
    rows = zip(table.codes.tolist(), table.counts.tolist(), strict=True)
    return {tuple(table.schema.named(cell).values()): count for cell, count in rows}


@pytest.mark.parametrize(
    "formats", [("csv",), ("parquet", "csv"), ("csv", "px", "json-stat"), ("csv", "xlsx", "sdmx-csv")]
)
def test_a_release_is_read_table_by_table(tmp_path: Path, czech: Table, formats: tuple[str, ...]) -> None:
    about = PublicationConfig(formats=formats, totals=True, zeros=True)
    release = Release.of([0b000111, 0b111000])
    write_publication(cleared_of(czech, release), SUBJECT, "t", tmp_path, texts=Texts(about, Labels()))
    found = {one.table.schema.names: one for one in read_published(tmp_path)}
    assert set(found) == {tuple("ABC"), tuple("DEF")}
    assert all(one.is_whole for one in found.values())
    assert found[tuple("ABC")].table.digest == czech.marginal(0b000111).digest


@pytest.fixture
def published(tmp_path: Path, czech: Table) -> Path:
    write_publication(cleared_of(czech, Release.of([0b11])), SUBJECT, "t", tmp_path)
    return tmp_path


def damage(folder: Path) -> None:
    next(folder.glob("*.parquet")).write_bytes(b"")
    path = next(folder.glob("*.csv"))
    path.write_text(path.read_text() + " ")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (damage, "was changed after it was published"),
        (json_with("datapackage.json", format=99), "has the format 99, this version reads 1"),
        (edited("datapackage.json", lambda content: content.pop("resources")), "is not the metadata of a release"),
        (
            edited(
                "datapackage.json",
                lambda content: [one.update(format="xml") for one in content["resources"] if "format" in one],
            ),
            "only in formats that sdc does not read; publish it as parquet, csv, json-stat, px",
        ),
    ],
)
def test_a_folder_that_was_changed_is_refused(published: Path, how: Callable[[Path], None], message: str) -> None:
    how(published)
    with pytest.raises(InputError, match=message):
        read_published(published)


STAT = {"version": "2.0", "class": "dataset", "id": ["a"], "size": [2]}
STAT["dimension"] = {"a": {"category": {"index": ["x", "y"]}}}
PX = 'CHARSET="ANSI";\nSTUB="a";\nVALUES("a")="x","y";\n'


def test_one_measure_and_one_period_are_no_variables(tmp_path: Path) -> None:
    """As answers of PxWebApi have them."""
    own = {"Contents": {"category": {"index": {"count": 0}}}, "Time": {"category": {"label": {"2024": "2024"}}}}
    content = {**STAT, "id": ["Contents", "a", "Time"], "size": [1, 2, 1], "dimension": {**STAT["dimension"], **own}}
    content |= {"role": {"metric": ["Contents"], "time": ["Time"]}, "value": [3, 4]}
    (tmp_path / "t.json").write_text(json.dumps(content))
    (found,) = read_published(tmp_path / "t.json")
    assert (found.table.schema.names, found.table.counts.tolist()) == (("a",), [3, 4])
    content["dimension"]["Contents"] = {"category": {"index": {"share": 0}}}
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="its numbers are share, and not exact"):
        read_published(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "a,b\n1,2\n", "no column count"),
        ("t.csv", "a,count\nx,1\nx,2\n", "lists a cell twice"),
        ("t.csv", "a,count\nx,-1\n", "1 cell without a whole count"),
        ("t.csv", "a,count\nx\n", "not one value a column"),
        ("t.csv", "count\n3\n4\n", "has no variable, only count"),
        ("t.csv", "a,count\nx,99999999999999999999\n", "sum to more than"),
        ("t.csv", b"a,count\n\xff,1\n", "cannot be read"),
        ("t.parquet", b"PAR1", "is corrupt"),
        ("t.txt", "", "is not a CSV, Parquet, JSON-stat or PX file"),
        ("t.json", "[]", "is not a table of counts"),
        ("t.json", "{", "cannot be read as JSON"),
        ("t.json", json.dumps({**STAT, "value": [1]}), "1 values of 2 cells"),
        ("t.json", json.dumps({**STAT, "value": {"5": 1}}), "numbers a cell that it does not have"),
        ("t.json", json.dumps({**STAT, "size": [3], "value": [1, 2, 3]}), "do not match its sizes"),
        ("t.json", json.dumps({**STAT, "version": "1.0", "value": [1, 2]}), "not a dataset of JSON-stat 2.0"),
        ("t.json", json.dumps({**STAT, "value": [1, True]}), "without a whole count"),
        ("t.csv", "a,count,weighted_total\nx,1,9\n", "totals of weights, which cannot be judged together with counts"),
        ("t.csv", "a,count,count_rounded_to_3\nx,1,0\n", "numbers are count and count_rounded_to_3, and not one"),
        ("t.csv", "a,count_rounded_to_x\nx,1\n", "its numbers are count_rounded_to_x, and not exact"),
        ("t.csv", "a,count_rounded_to_3\nx,4\n", "counts that are not multiples of 3"),
        (
            "t.csv",
            "a,count_rounded_to_3\nx,3\n",
            "rounded to multiples of 3, and alone does not state .*or list its totals",
        ),
        ("t.json", json.dumps({**STAT, "extension": {"measure": "people"}, "value": [1, 2]}), "people, and not exact"),
        ("t.json", json.dumps({**STAT, "role": {"metric": ["a"]}, "value": [1, 2]}), "several measures, by a"),
        ("t.json", json.dumps({**STAT, "status": ["", "e"], "value": [1, 0]}), "marks cells by the status 'e', which"),
        ("t.json", json.dumps({**STAT, "status": ["", "c"], "value": [1, 0]}), "cells without a value are not"),
        ("t.json", json.dumps({**STAT, "status": {"5": "c"}, "value": {"0": 1}}), "numbers a cell that it does not h"),
        ("t.px", 'CONTVARIABLE="a";\n' + PX + "DATA=\n1 2;", "several contents, by a"),
        ("t.px", PX, "has no DATA"),
        ("t.px", PX + "DATA=\n1;", "1 numbers of 2 cells"),
        ("t.px", PX + 'DATASYMBOL2="withheld";\nDATA=\n1 ".";', "is not a table of counts"),
        ("t.px", 'VALUES("a")="x";DATA=\n1;', "no STUB"),
        ("t.px", 'STUB="a;DATA=\n1;', "is not a table"),
    ],
)
def test_what_is_no_table_of_counts_is_refused(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message):
        read_published(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,count,count_status\nx,1,\ny,,withheld\n"),
        ("t.csv", "a,count\nx,1\ny,\n"),
        ("t.json", json.dumps({**STAT, "status": ["", "c"], "value": [1, None]})),
        ("t.json", json.dumps({**STAT, "status": {"1": "c"}, "value": {"0": 1}})),
        ("t.px", PX + 'DATASYMBOL2="withheld";\nDATA=\n1 "..";'),
        ("t.px", 'DATASYMBOL2="withheld";\n' + PX + 'KEYS("a")=VALUES;\nDATA=\n"x",1\n"y","..";'),
    ],
)
def test_what_is_withheld_is_read_as_that(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    (found,) = read_published(tmp_path / name)
    assert cells(found.table) == {("x",): 1}
    assert [found.table.schema.named(cell) for cell in found.suppressed.tolist()] == [{"a": "y"}]


def test_no_column_of_a_parquet_file_is_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "count": [1], "share": [0.5]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="a category of 'share' is missing or no text"):
        read_published(tmp_path)
    pq.write_table(pa.table({"a": ["x"], "count": [1], "weighted_total": [5]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="publishes totals of weights"):
        read_published(tmp_path)


@pytest.mark.parametrize("other", ["more.xlsx", "notes.pdf", "deeper/t.csv"])
def test_no_file_of_a_folder_is_passed_over(tmp_path: Path, published: Path, other: str) -> None:
    plain = tmp_path / "plain"
    for folder in (plain, published):
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_text("")
    (plain / "t.csv").write_text("a,count\nx,1\n")
    with pytest.raises(InputError, match=f"{other.split('/')[0]} is not a CSV, Parquet.*keep nothing else in their"):
        read_published(plain)
    shutil.rmtree(plain)
    with pytest.raises(InputError, match=f"has {other}, which datapackage.json does not list"):
        read_published(published)


def test_a_table_in_sdmx_alone_is_not_passed_over(tmp_path: Path, published: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in ("t.csv", "t.sdmx.csv"):
        (plain / name).write_text("a,count\nx,1\n")
    assert len(read_published(plain)) == 1
    for folder in (plain, published):
        (folder / "b.sdmx.csv").write_text("STRUCTURE,STRUCTURE_ID,ACTION,b,OBS_VALUE\n")
    with pytest.raises(InputError, match=r"b\.sdmx\.csv is a table in a format that sdc does not read, and no other"):
        read_published(plain)
    with pytest.raises(InputError, match=r"has b\.sdmx\.csv, which datapackage\.json does not list"):
        read_published(published)


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no table of counts as CSV"):
        read_published(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_published(tmp_path / "none")


def test_cells_of_totals_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,count\nx,y,1\nx,T,1\nT,T,1\n")
    assert cells(read_published(path, "T")[0].table) == {("x", "y"): 1}


def test_a_px_file_of_another_program_is_read(tmp_path: Path) -> None:
    text = (
        'CHARSET="ANSI";\nCODEPAGE="iso-8859-1";\nTITLE="a;b=1 "\n"DATA=";\nTITLE[en]="x";\n'
        'STUB="Alter","Geschlecht";\n'
        'HEADING="Jahr";\nVALUES("Alter")="j\u00fcng","alt";\nVALUES("Geschlecht")="m","w";\nVALUES("Jahr")="2020","2021";\n'
        'TIMEVAL("Jahr")=TLIST(A1,"2020"-"2021");\nCODES("Geschlecht")="1","2";\nDATA=\n1 2 \n3 4\n5 6 7 8;'
    )
    path = tmp_path / "t.px"
    path.write_bytes(text.encode("latin-1"))
    found = read_published(path)[0]
    assert found.table.schema.names == ("Alter", "Geschlecht", "Jahr")
    assert found.table.schema.variables[0].categories == ("j\u00fcng", "alt")
    assert found.table.counts.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert np.array_equal(found.table.codes[5], [1, 0, 1])
