"""What the verifier reads of formats beside CSV and Parquet: it rejects a file that tells other things than these."""

import io
import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as hs

from sdc.model.errors import ReleaseError
from sdc.publish.formats import FORMATS, CountTable
from sdc.publish.formats.xlsx import xlsx
from sdc.stages.verified import verify_run
from sdc.storage.run_folder import write_json
from sdc.verify.published.formats import listed_in, read_cells, sheets_of
from tests.helpers.count_tables import ABOUT, ANY, TAME, expected, small, tables, written
from tests.integration.verify.forging import (
    Corruption,
    Corruptions,
    copy_of,
    edited,
    in_turn,
    record,
    rejected,
    replacing,
)
from tests.integration.verify.signing import signed_by, yearbook

SUFFIX = {"json-stat": ".json", "px": ".px", "xml": ".xml", "sdmx-csv": ".sdmx.csv"}


@given(tables(ANY | hs.sampled_from(TAME)), hs.sampled_from([*SUFFIX]), hs.sampled_from([0, 1 << 17]))
def test_every_format_is_read_cell_by_cell(table: CountTable, format: str, most_dense: int) -> None:
    """As it was written, but for zeros, which some list and some do not."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("sdc.publish.formats.px"), "MOST_DENSE", most_dense)
        try:
            for suffix, write in FORMATS[format].of_table.items():
                Path(folder, f"001_t{suffix}").write_bytes(written(write(table)))
        except ReleaseError:
            assume(False)
        found = read_cells(Path(folder, f"001_t{SUFFIX[format]}"), format)
    assert found is not None
    variables, cells = found
    assert variables == [v.name for v in table.variables]
    told = {row[:-1]: row[-1] for row in expected(table)}
    assert all(cells.get(cell, 0) == told.get(cell, 0) for cell in cells.keys() | told.keys())


def test_the_structure_that_older_versions_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "001_t.sdmx.csv").write_text(
        "STRUCTURE,STRUCTURE_ID,ACTION,V1,OBS_VALUE,CONF_STATUS\n"
        "datastructure,SDC:T001_t(1.0.0),I,C1,5,F\ndatastructure,SDC:T001_t(1.0.0),I,C2,,C\n"
    )
    (tmp_path / "001_t.sdmx.json").write_text(
        """{"data": {
        "conceptSchemes": [{"id": "CS", "name": "Workers", "concepts": [
            {"id": "V1", "name": "E", "annotations": [{"type": "NAME", "title": "é"}]},
            {"id": "OBS_VALUE", "name": "Number of records"},
            {"id": "CONF_STATUS", "name": "Confidentiality status"}]}],
        "codelists": [
            {"id": "CL_V1", "name": "E", "codes": [
                {"id": "C1", "name": "A", "annotations": [{"type": "CATEGORY", "title": "a"}]},
                {"id": "C2", "name": "-", "annotations": [{"type": "CATEGORY", "title": "-"}]}]},
            {"id": "CL_CONF_STATUS", "name": "Status", "codes": [{"id": "F", "name": "Free (free for publication)"}]}],
        "dataStructures": [{"id": "T001_t", "agencyID": "SDC", "version": "1.0.0", "name": "Workers",
            "dataStructureComponents": {"dimensionList": {"dimensions": [
                {"id": "V1", "localRepresentation": {"enumeration": "urn:Codelist=SDC:CL_V1(1.0.0)"}}]}}}]
        }}""",
        encoding="utf-8",
    )
    assert read_cells(tmp_path / "001_t.sdmx.csv", "sdmx-csv") == (["é"], {("a",): 5, ("-",): None})


@given(tables(ANY | hs.sampled_from(TAME)))
def test_a_workbook_is_read_sheet_by_sheet(table: CountTable) -> None:
    other = small("=1+1", "_x0041", "b", about=ABOUT)
    with TemporaryDirectory() as folder:
        try:
            Path(folder, "tables.xlsx").write_bytes(written(xlsx([table])))
        except ReleaseError:  # of a character that XML has not
            assume(False)
        rows = sheets_of(Path(folder, "tables.xlsx"), ["001_t"])["001_t"]
        Path(folder, "tables.xlsx").write_bytes(written(xlsx([other])))
        others = sheets_of(Path(folder, "tables.xlsx"), ["001_t"])["001_t"]
    assert listed_in(others, 1) == (["A"], {("=1+1",): 5})
    variables, cells = listed_in(rows, len(table.variables))
    assert variables == [v.name for v in table.variables]
    assert cells == {row[:-1]: row[-1] for row in expected(table)}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return yearbook(tmp_path_factory.mktemp("yearbook"), period="1981", source="a study", licence="CC-BY-4.0")


LISTED = rb'<c r="D([0-9]+)"'
CROSSED = rb'(<c r="[A-Z]+[0-9]+") t="inlineStr"><is><t>withheld</t></is></c>'


def hashed_anew(run: Path) -> None:
    signed_by(run / "release", None)


def replaced(end: str, pattern: str, by: str) -> Corruption:
    """The first place in the file of the sub-table in part, or of all tables, that is so."""
    return in_turn(replacing(f"release/{end}" if "/" in end else f"release/*{end}", pattern, by), hashed_anew)


def in_workbook(run: Path, pattern: bytes, by: Any, part: str = "xl/worksheets/sheet", has: bytes = b"") -> None:
    path, content = run / "release" / "tables.xlsx", io.BytesIO()
    with ZipFile(path) as old, ZipFile(content, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.startswith(part) and has in text:
                text = re.sub(pattern, by, text)
            new.writestr(name, text)
    path.write_bytes(content.getvalue())
    hashed_anew(run)


def one_document_fewer(run: Path) -> None:
    """And no file names it."""
    path = "pxapi/v2/tables/area-sex/index.html"
    (run / "release" / path).unlink()
    content = json.loads((run / "release" / "datapackage.json").read_text())
    content["resources"] = [one for one in content["resources"] if one["path"] != path]
    write_json(run / "release" / "datapackage.json", content)
    hashed_anew(run)


def before_data(statement: str) -> Corruption:
    return replaced("_area-age.px", r"\nDATA=\n", f"\n{statement};\nDATA=\n")


def shown_in_workbook(run: Path, pattern: bytes = LISTED, by: bytes = rb'<c r="C\1"><v>1</v></c><c r="D\1"') -> None:
    """A withheld cell has a number."""
    in_workbook(run, pattern, by, has=b"withheld")


def exchanged_sheets(run: Path) -> None:
    """Each name has the other's cells; the files of the sheets are as they were."""
    in_workbook(run, rb"sheet([23])\.xml", lambda one: b"sheet%d.xml" % (5 - int(one[1])), "xl/_rels/workbook")


def a_text_in_parquet(run: Path) -> None:
    path = min((run / "release").glob("*.parquet"))
    pq.write_table(pq.read_table(path).replace_schema_metadata({"note": "it is 1"}), path)
    hashed_anew(run)


def a_link(run: Path) -> None:
    path = min((run / "release").glob("*.csv"))
    path.rename(run / "elsewhere.csv")
    path.symlink_to(run / "elsewhere.csv")


STATEMENTS = "it has a statement twice, or an unknown one"
OTHER, TEXTS = "has other cells than the table has as CSV or Parquet", "has other labels, titles or texts"
API = "pxapi/v2/tables/area-age/{}"
FORGED: Corruptions = {
    "json-stat shows a count": (replaced("_area-age.json", "null", "1"), "a suppressed cell has a value"),
    "json-stat has another": (replaced("_area-age.json", r'"value":\[([0-9])', r'"value":[9\1'), OTHER),
    "json-stat withholds less": (replaced("_area-age.json", r'"[0-9]+":"c",', ""), "a suppressed cell has a value"),
    "json-stat has another status": (replaced("_area-age.json", ':"c"', ':"e"'), "a status other than that"),
    "px shows a count": (replaced("_area-age.px", r'"\.\."', "1"), OTHER),
    "px has one more": (replaced("_area-age.px", r"DATA=\n", r"DATA=\n1 "), "it has not a number for each cell"),
    "xml shows a count": (replaced("_area-age.xml", "<withheld/>", "<count>1</count>"), OTHER),
    "xml has a cell twice": (replaced("_area-age.xml", r"(<cell>.*</cell>\n)", r"\1\1"), "a cell is there twice"),
    "xml is none": (replaced("_area-age.xml", "</table>", ""), "it cannot be read as xml"),
    "sdmx shows a count": (replaced("_area-age.sdmx.csv", ",,C\n", ",1,F\n"), OTHER),
    "sdmx says that it is free": (replaced("_area-age.sdmx.csv", ",,C\n", ",,F\n"), "a suppressed cell has a value"),
    "sdmx has other codes": (replaced("_area-age.sdmx.xml", 'id="age01"', 'id="age1"'), "age01|other cells"),
    "a workbook shows a count": (shown_in_workbook, OTHER),
    "pxapi shows a count": (replaced(API.format("data"), "null", "1"), "a suppressed cell has a value"),
    "pxapi has another": (replaced(API.format("data"), r'"value":\[([0-9])', r'"value":[9\1'), OTHER),
    "pxapi numbers otherwise": (replaced(API.format("data"), ":0,", ":1,"), "are not numbered in their order"),
    "pxapi hides a variable": (
        replaced(API.format("data"), r'"time":\["Tid"', r'"time":["age"'),
        "more than one category",
    ),
    "pxapi has another label": (replaced(API.format("data"), '"label":"area"', '"label":"place"'), TEXTS),
    "pxapi has another period": (replaced(API.format("data"), ':"1981"', ':"1982"'), TEXTS),
    "pxapi counts other things": (replaced(API.format("data"), '"count":"count"', '"count":"euros"'), TEXTS),
    "pxapi is of another table": (replaced(API.format("data"), 'tableid":"area-age', 'tableid":"area-sex'), TEXTS),
    "its metadata differ": (replaced(API.format("metadata"), "area03", "area3"), "is not that of its data"),
    "its list has other tables": (replaced("pxapi/v2/tables/index.html", '"id":"', '"id":"x'), "has other tables"),
    "its list says more": (replaced("pxapi/v2/tables/index.html", '"source":"', '"source":"x'), "in another way"),
    "its list says more pages": (replaced("pxapi/v2/tables/index.html", 'totalPages":1', 'totalPages":2'), "one page"),
    "its entry differs": (replaced(API.format("index.html"), '"Annual"', '"Other"'), "is not the entry of"),
    "its licence is another": (replaced("pxapi/v2/config", '"license":"', '"license":"x'), "another licence or source"),
    "its documents are fewer": (one_document_fewer, "has other documents than there are tables"),
    "a cross table shows a count": (partial(shown_in_workbook, pattern=CROSSED, by=rb"\1><v>1</v></c>"), OTHER),
    "px has a note on a cell": (before_data('CELLNOTE("area00","age00")="1"'), STATEMENTS),
    "px has two titles": (replaced("_area-age.px", r"(TITLE=)", r'\1"Another";\n\1'), STATEMENTS),
    "px has labels in another language": (before_data('VALUES[en]("area")="x"'), STATEMENTS),
    "px counts thousands": (replaced("_area-age.px", '"records"', '"thousand"'), "has other units or decimals"),
    "px counts others": (replaced("_area-age.px", '"Records"', '"Deaths"'), "has other contents"),
    "px takes a category for the total": (
        replaced("_area-age.px", r"=YES;", '="area00";'),
        "takes another category of area for the total",
    ),
    "a workbook has its sheets exchanged": (exchanged_sheets, "is hidden, or another than readers see"),
    "json-stat has a note on a category": (
        replaced("_area-age.json", r'"category":{', r'"category":{"note":{"age00":["1"]},'),
        "has more than labels and counts",
    ),
    "xml has a style sheet": (
        replaced("_area-age.xml", r"(<table)", r'<?xml-stylesheet href="x"?>\1'),
        "more than a table",
    ),
    "xml has an attribute more": (
        replaced("_area-age.xml", r"<count>", r'<count unit="thousand">'),
        "more than a table",
    ),
    "sdmx has two names": (
        replaced("_area-age.sdmx.xml", r"(</com:Name>)", r'\1<com:Name xml:lang="de">Tote</com:Name>'),
        "more than a table",
    ),
    "csvw is of another file": (
        replaced("_area-age.csv-metadata.json", '"url": "', '"url": "https://other.example/'),
        "describes another table than",
    ),
    "the dictionary has a column more": (
        replaced("data_dictionary.csv", r"note\n", "note,deaths\n"),
        "dictionary has other columns",
    ),
    "the guide has a number more": (
        replaced("README.txt", r"\Z", "\nThe cell has 7777.\n"),
        "says other things of the tables",
    ),
    "the page has a style more": (
        replaced("index.html", "</style>", "td::after{content:'1'}</style>"),
        "more elements than",
    ),
    "the metadata has a key more": (
        in_turn(edited("release/datapackage.json", lambda content: content.update(comment="1")), hashed_anew),
        "'comment', a key that no release has",
    ),
    "pxapi counts thousands": (
        replaced(API.format("data"), '"base":"number"', '"base":"thousand"'),
        "has other labels, titles or texts",
    ),
    "a workbook has another title": (
        partial(in_workbook, pattern=b"<dc:creator>", by=b"<dc:title>1</dc:title><dc:creator>", part="docProps"),
        "has more than sheets",
    ),
    "a workbook names a value": (
        partial(in_workbook, pattern=b"<calcPr", by=b"<definedNames/><calcPr", part="xl/workbook.xml"),
        "has more than sheets",
    ),
    "a workbook has a cell in a column that no sheet has": (
        partial(in_workbook, pattern=b'r="B1"', by=b'r="BBBBBBBBB1"'),
        "outside of all columns",
    ),
    "a workbook has a cell in the last column": (
        partial(in_workbook, pattern=b'r="A12"', by=b'r="XFD12"', has=b'r="A12"'),
        "beside its columns",
    ),
    "a workbook has a comment": (
        partial(in_workbook, pattern=b"<sheetData>", by=b"<!-- 1 --><sheetData>"),
        "has more than sheets",
    ),
    "a workbook shows other numbers": (
        partial(in_workbook, pattern=b'(<cellXfs.*<xf numFmtId=)"0"', by=rb'\1"9"', part="xl/styles"),
        "has more than sheets",
    ),
    "a Parquet file has a text more": (a_text_in_parquet, "has texts beside its columns"),
    "sdmx counts others": (
        replaced("_area-age.sdmx.xml", "Number of records", "Number of deaths"),
        "its measure or its marks have other names",
    ),
    "sdmx says more of withheld counts": (
        replaced("_area-age.sdmx.xml", "withheld; published", "withheld, it is 1; published"),
        "its measure or its marks have other names",
    ),
    "a catalogue has another kind": (
        replaced("ro-crate-metadata.json", '"@type": "Dataset"', '"@type": "Deaths"'),
        "has 'Deaths', and datapackage.json does not",
    ),
    "a catalogue gives its words another meaning": (
        replaced("catalogue.json", '"@context": {', '"@context": {"title": "https://other.example",'),
        "and datapackage.json does not",
    ),
    "pxapi has other lists": (
        replaced(API.format("data"), r'"show":"value"', '"show":"value","codelists":[{"id":"x"}]'),
        TEXTS,
    ),
    "a file is a link": (a_link, "is a link to another place"),
    "a whole table has another": (replaced("_area-sex.xml", r"<count>([0-9])", r"<count>9\1"), OTHER),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_file_that_tells_other_things_is_rejected(name: str, honest: Path, tmp_path: Path) -> None:
    rejected(copy_of(honest, tmp_path), *FORGED[name])


def test_the_published_files_are_made_again_where_the_same_versions_wrote_them(honest: Path, tmp_path: Path) -> None:
    run = copy_of(honest, tmp_path)
    found = verify_run(run, config=honest.parents[2] / "build.yaml")
    assert (found.failures, found.bytes[:5]) == ((), "all a")
    replaced("README.txt", "Tables over fewer", "Tables of fewer")(run)
    record(run)
    failure = verify_run(run).failures[0]
    assert re.search("README.txt is not what sdc .* writes: byte [0-9]+ is another, in line 4", failure)
    edited("manifest.json", lambda content: content["stages"][-1]["by"].update(sdc="0.1.0"))(run)
    other = verify_run(run)
    assert other.verified
    assert re.fullmatch(
        r"written with sdc 0.1.0, here is .*: files .* differently: (.*, )?README.txt(, .*)?;.*, and no other words",
        other.bytes,
    )


def test_the_config_that_a_build_must_be_of_is_given(honest: Path, tmp_path: Path) -> None:
    text = (honest.parents[2] / "build.yaml").read_text().replace("people.csv", str(honest.parents[2] / "people.csv"))
    config = tmp_path / "other.yaml"
    config.write_text(text.replace("variables: {}", "variables: {sex: {categories: {sex00: men, sex01: women}}}"))
    (failure,) = verify_run(honest, config=config).failures
    assert failure.startswith(f"manifest.json has another labels (variables) than {config}")
