"""Every reader that the handbook names, on every kind of content: each cell is what it was, or the format refuses it.

The calls are those of the handbook's page on the published folder.
"""

import csv
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.model.labels import Labels, VariableLabels
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.suppressed_table import SuppressedTable, SuppressedTables
from sdc.model.table import Table
from sdc.publish import gate
from sdc.publish.publication import Texts, check_publication, require_formats, write_publication
from sdc.run_format import TOTAL, in_csv
from tests.helpers.clearing import SUBJECT

Cell: TypeAlias = tuple[str, ...]
Cells: TypeAlias = dict[Cell, int | None]
Reader: TypeAlias = Callable[[Path, str, list[str]], Cells]

FORMATS = ("csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx")


@dataclass(frozen=True)
class Content:
    """Tables of one kind.

    tables   by names of variables; None is a suppressed count
    labels   by variable, of categories
    coarser  the region of each area
    about    settings of the publication
    refused  formats that cannot carry it, each with what it says
    """

    tables: Mapping[Cell, Cells]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    coarser: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


def crossed(*categories: list[str], names: tuple[str, ...] = ("code", "sex")) -> Content:
    """All cells of two variables, with another count each."""
    sexes = ["f", "m"]
    return Content({names: {cell: n for n, cell in enumerate(product(*categories, sexes), start=3)}})


SPARSE = {(f"a{i:02}", f"b{i * 7 % 40:02}", f"c{i * 11 % 40:02}"): i + 3 for i in range(40)}
TOTALS = {
    ("01", "(total)"): 5,
    ("02", "(total)"): 4,
    ("(total)", "f"): 5,
    ("(total)", "m"): 4,
    ("(total)", "(total)"): 9,
}
AREAS = {"n1": "north", "n2": "north", "s1": "south"}
OF_AREAS = {("n1", "f"): 5, ("n1", "m"): 4, ("n2", "f"): 6, ("s1", "m"): 8}
CONTENT = {
    "plain": crossed(["a", "b"]),
    "leading zeros": crossed(["01", "1", "001", "00501"]),
    "only leading zeros": crossed(["01", "02"]),
    "no value": crossed(["NA", "null", "NaN", "None", "N/A", "nan", "NULL", "n/a", "a"]),
    "1 and 1.0": crossed(["1", "1.0", "1.00", "1e0"]),
    "years": crossed(["1990", "2000"]),
    "truth": crossed(["true", "TRUE", "False"]),
    "signs": crossed(["-", "-5", "+5", "=1+1", "=", "@x", "+", "'=x", "a"]),
    "suppressed": Content({("code", "sex"): {("1", "f"): 5, ("1", "m"): None, ("2", "f"): None, ("2", "m"): 7}}),
    "sparse": Content({("x", "y", "z"): SPARSE}),
    "sparse and suppressed": Content({("x", "y", "z"): {**SPARSE, ("a00", "b01", "c00"): None}}),
    "totals": Content(
        {("code", "sex"): {("01", "f"): 5, ("02", "m"): 4, **TOTALS}},
        about={"totals": True, "zeros": True},
    ),
    "levels": Content(
        {
            ("area", "sex"): OF_AREAS,
            ("region", "sex"): {("north", "f"): 11, ("north", "m"): 4, ("south", "m"): 8},
        },
        coarser=AREAS,
    ),
    "300 categories": crossed([f"c{n:03}" for n in range(300)]),
    "letters": crossed(["Åland", "中文", "שלום", "a b", "größe", "😀", "a,b", "a;b", "it's"], names=("Kön/地", "sex")),
    "labels with quotes": Content(
        crossed(["a", "b"]).tables,
        labels={"code": {"a": 'say "no"', "b": "it's, <b>&amp;</b>"}},
        refused={"px": "a quotation mark"},
    ),
    "one variable": Content({("code",): {("a",): 4, ("b",): 5}}),
}


def table_of(content: Content) -> tuple[Table, tuple[SuppressedTable, ...]]:
    """The table of the first cells, with the level of its first variable."""
    names, every = next(iter(content.tables.items()))
    cells = {cell: n for cell, n in every.items() if TOTAL not in cell}
    categories = [sorted({cell[v] for cell in cells}) for v in range(len(names))]
    variables = [Variable(name, tuple(own)) for name, own in zip(names, categories, strict=True)]
    if content.coarser:
        levels = sorted(set(content.coarser.values()))
        groups = tuple(levels.index(content.coarser[area]) for area in categories[0])
        variables.insert(0, Variable("region", tuple(levels), Coarser(names[0], groups)))
    codes = np.array([[own.index(c) for own, c in zip(categories, cell, strict=True)] for cell in cells])
    counts = [2 if n is None else n for n in cells.values()]
    table = Table.of(Schema(tuple(variables)), codes, np.array(counts))
    withheld = np.array([n is None for n in cells.values()])
    if not withheld.any():
        return table, ()
    places = np.sort(table.schema.keys.pack(codes[withheld]))
    return table, (SuppressedTable.at((1 << len(names)) - 1, places, table.schema, table.total),)


def texts_of(content: Content, formats: tuple[str, ...]) -> Texts:
    labels = {name: VariableLabels(categories=dict(own)) for name, own in content.labels.items()}
    children = ("region*sex",) if content.coarser else ()
    about = {"formats": formats, "children": children, "licence": "CC-BY-4.0", "published": "2026-01-01"}
    return Texts(PublicationConfig(**about, **content.about), Labels(labels))


@cache
def folder_with(kind: str, root: Path, formats: tuple[str, ...]) -> tuple[Path, dict[str, Cell]]:
    """A published folder, and the variables of each of its tables by stem."""
    content, folder = CONTENT[kind], root / f"{list(CONTENT).index(kind)}-{len(formats)}"
    folder.mkdir()
    table, parts = table_of(content)
    whole = Release.of([] if parts else [(1 << len(table.schema.variables)) - 1])
    cleared = gate._cleared(SUBJECT, table, whole, 0, None, SuppressedTables(NOTHING, parts))
    texts = texts_of(content, tuple(name for name in formats if name not in content.refused))
    write_publication(cleared, SUBJECT, "hard", folder, texts=texts)
    check_publication(cleared, folder, "hard", texts)
    files = json.loads((folder / "datapackage.json").read_text())["resources"]
    stems = {one["path"].split(".")[0]: tuple(one["sub_table"]) for one in files if "sub_table" in one}
    return folder, stems


def folder_of(kind: str, root: Path) -> tuple[Path, dict[str, Cell]]:
    """With all formats that the content fits."""
    return folder_with(kind, root, FORMATS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


def cells_of(rows: Any, names: list[str]) -> Cells:
    """Cells by the first columns; zeros are left out, and no number is a suppressed count."""
    found = Cells()
    for row in rows:
        *cell, count = row[: len(names) + 1]
        assert all(isinstance(category, str) for category in cell), row
        assert tuple(cell) not in found, row
        found[tuple(cell)] = None if count in ("", None) or count != count else int(count)
    return {cell: n for cell, n in found.items() if n != 0}


def of_frame(frame: Any, names: list[str]) -> Cells:
    columns = [frame.columns[len(names)]] if hasattr(frame, "columns") else []
    return cells_of(frame[[*names, *columns]].itertuples(index=False), names)


def csv_pandas(folder: Path, stem: str, names: list[str]) -> Cells:
    import pandas as pd

    return of_frame(pd.read_csv(folder / f"{stem}.csv", dtype=str, keep_default_na=False), names)


def csv_polars(folder: Path, stem: str, names: list[str]) -> Cells:
    import polars as pl

    return cells_of(pl.read_csv(folder / f"{stem}.csv", infer_schema=False).iter_rows(), names)


def csv_duckdb(folder: Path, stem: str, names: list[str]) -> Cells:
    import duckdb

    path = folder / f"{stem}.csv"
    return cells_of(
        duckdb.sql(
            f"select * from read_csv('{path}', header = true, delim = ',', quote = '\"', all_varchar = true)"
        ).fetchall(),
        names,
    )


def csv_arrow(folder: Path, stem: str, names: list[str]) -> Cells:
    import pyarrow as pa
    from pyarrow import csv as pc

    options = pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    table = pc.read_csv(folder / f"{stem}.csv", convert_options=options)
    return cells_of(zip(*(column.to_pylist() for column in table.columns), strict=True), names)


def csv_csvw(folder: Path, stem: str, names: list[str]) -> Cells:
    from csvw import CSVW

    (table,) = CSVW(str(folder / f"{stem}.csv-metadata.json")).tables
    return cells_of(([*row.values()] for row in table.iterdicts(strict=True)), names)


def csv_frictionless(folder: Path, stem: str, names: list[str]) -> Cells:
    import frictionless

    package = frictionless.Package(str(folder / "datapackage.json"))
    rows = package.get_resource(f"{stem.lower()}.csv").read_rows()
    return cells_of(([*row.to_dict().values()] for row in rows), names)


def parquet_pandas(folder: Path, stem: str, names: list[str]) -> Cells:
    import pandas as pd

    return of_frame(pd.read_parquet(folder / f"{stem}.parquet"), names)


def parquet_polars(folder: Path, stem: str, names: list[str]) -> Cells:
    import polars as pl

    return cells_of(pl.read_parquet(folder / f"{stem}.parquet").iter_rows(), names)


def parquet_duckdb(folder: Path, stem: str, names: list[str]) -> Cells:
    import duckdb

    return cells_of(duckdb.sql(f"select * from '{folder / stem}.parquet'").fetchall(), names)


def parquet_arrow(folder: Path, stem: str, names: list[str]) -> Cells:
    import pyarrow.parquet as pq

    columns = pq.read_table(folder / f"{stem}.parquet").columns
    return cells_of(zip(*(column.to_pylist() for column in columns), strict=True), names)


def json_stat_pyjstat(folder: Path, stem: str, names: list[str]) -> Cells:
    from pyjstat import pyjstat

    content = (folder / f"{stem}.json").read_text(encoding="utf-8")
    frame = pyjstat.Dataset.read(content).write("dataframe", naming="id")
    status = json.loads(content).get("status", {})
    rows = (
        (*row[:-1], row[-1] if row[-1] == row[-1] else None if str(n) in status else 0)
        for n, row in enumerate(frame.itertuples(index=False))
    )
    return cells_of(rows, names)


def px_pyaxis(folder: Path, stem: str, names: list[str]) -> Cells:
    from pyaxis import pyaxis

    frame = pyaxis.parse(str(folder / f"{stem}.px"), encoding="utf-8")["DATA"]
    return cells_of(frame.itertuples(index=False), names)


def sdmx_pysdmx(folder: Path, stem: str, names: list[str]) -> Cells:
    from pysdmx.io import get_datasets, read_sdmx

    structure = folder / f"{stem}.sdmx.xml"
    (found,) = get_datasets(folder / f"{stem}.sdmx.csv", structure)
    lists = read_sdmx(structure).get_codelists()
    categories = [{c.id: TOTAL if c.id == "_T" else c.description or c.id for c in own.codes} for own in lists]
    data = found.data.astype(object).where(found.data.notna(), None)
    return decoded(data.itertuples(index=False), categories, names)


def sdmx_sdmx1(folder: Path, stem: str, names: list[str]) -> Cells:
    import sdmx

    structure = sdmx.read_sdmx(folder / f"{stem}.sdmx.xml")
    (definition,) = structure.structure.values()
    message = sdmx.read_sdmx(folder / f"{stem}.sdmx.csv", structure=definition)
    series = sdmx.to_pandas(message.data[0], dtype=str)
    lists = structure.codelist.values()
    categories = [{c.id: TOTAL if c.id == "_T" else str(c.description) or c.id for c in own} for own in lists]
    keys = (key if isinstance(key, tuple) else (key,) for key in series.index)
    return decoded(((*key, count) for key, count in zip(keys, series, strict=True)), categories, names)


def decoded(rows: Any, categories: list[dict[str, str]], names: list[str]) -> Cells:
    categories = categories[: len(names)]  # the list of the status is the last
    named = ([*(of[str(c)] for of, c in zip(categories, row, strict=False)), *row[len(names) :]] for row in rows)
    return cells_of((row[: len(names) + 1] for row in named), names)


def xml_lxml(folder: Path, stem: str, names: list[str]) -> Cells:
    from lxml import etree

    tree = etree.parse(folder / f"{stem}.xml")
    etree.XMLSchema(etree.parse(folder / "tables.xsd")).assertValid(tree)
    rows = ([*(one.text or "" for one in cell[:-1]), cell[-1].text] for cell in tree.getroot().iter("cell"))
    return cells_of(rows, names)


def xlsx_openpyxl(folder: Path, stem: str, names: list[str]) -> Cells:
    import openpyxl

    rows = openpyxl.load_workbook(folder / "tables.xlsx")[stem[:31]].iter_rows(min_row=2, values_only=True)
    return cells_of(rows, names)


def xlsx_pandas(folder: Path, stem: str, names: list[str]) -> Cells:
    import pandas as pd

    frame = pd.read_excel(folder / "tables.xlsx", sheet_name=stem[:31], dtype=str, keep_default_na=False)
    return of_frame(frame, names)


R_SCRIPT = """
library(rsdmx)
folders <- commandArgs(TRUE)
texts <- function(path) read.csv(path, colClasses = "character", na.strings = character(), check.names = FALSE,
                                 encoding = "UTF-8")
for (path in list.files(folders, "[.]sdmx[.]xml$", full.names = TRUE)) {
  structure <- readSDMX(path, isURL = FALSE)
  definition <- slot(slot(structure, "datastructures"), "datastructures")[[1]]
  cells <- texts(sub("xml$", "csv", path))
  for (dimension in slot(slot(definition, "Components"), "Dimensions")) {
    codes <- as.data.frame(slot(structure, "codelists"), codelistId = slot(dimension, "codelist"))
    category <- codes$id
    for (description in grep("^description", names(codes), value = TRUE)) {
      described <- !is.na(codes[[description]])
      category[described] <- codes[[description]][described]
    }
    category[codes$id == "_T"] <- "(total)"
    column <- slot(dimension, "conceptRef")
    cells[[column]] <- category[match(cells[[column]], codes$id)]
  }
  write.csv(cells[-(1:3)], paste0(path, ".of_r"), row.names = FALSE, fileEncoding = "UTF-8")
  plain <- sub("sdmx[.]xml$", "csv", path)
  write.csv(texts(plain), paste0(plain, ".of_r"), row.names = FALSE, fileEncoding = "UTF-8")
}
"""
NODE_SCRIPT = """
const JSONstat = require("jsonstat-toolkit"), fs = require("fs")
for (const path of process.argv.slice(1)) {
  const dataset = JSONstat(JSON.parse(fs.readFileSync(path, "utf8")))
  const rows = dataset.toTable({ type: "array", field: "id", content: "id", status: true })
  fs.writeFileSync(path + ".of_node", JSON.stringify([dataset.id, rows]))
}
"""
SHEETS = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,true,true,false,false,false,-1"


def needs(*command: str) -> None:
    """Skips the test if this does not run."""
    if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True, timeout=120).returncode:
        pytest.skip(f"{' '.join(command)} does not run here")


@cache
def read_by_r(root: Path) -> None:
    """What R reads of all folders, beside what it read."""
    needs("Rscript", "-e", "library(rsdmx)")
    folders = [str(folder_of(kind, root)[0]) for kind in CONTENT]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run(["Rscript", "-e", R_SCRIPT, *folders], check=True, timeout=300, env=environment)


def csv_of(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))[1:]


def csv_r(folder: Path, stem: str, names: list[str]) -> Cells:
    read_by_r(folder.parent)
    return cells_of(csv_of(folder / f"{stem}.csv.of_r"), names)


def sdmx_r(folder: Path, stem: str, names: list[str]) -> Cells:
    read_by_r(folder.parent)
    return cells_of(csv_of(folder / f"{stem}.sdmx.xml.of_r"), names)


@cache
def read_by_node(root: Path) -> None:
    """What jsonstat-toolkit reads of all folders, beside what it read."""
    needs("node", "-e", 'require("jsonstat-toolkit")')
    paths = [folder / f"{stem}.json" for folder, stems in (folder_of(kind, root) for kind in CONTENT) for stem in stems]
    subprocess.run(["node", "-e", NODE_SCRIPT, *map(str, paths)], check=True, timeout=300)


def json_stat_node(folder: Path, stem: str, names: list[str]) -> Cells:
    read_by_node(folder.parent)
    variables, (head, *rows) = json.loads((folder / f"{stem}.json.of_node").read_text(encoding="utf-8"))
    at = [head.index(name) for name in (*variables, "value", "status")]
    assert variables == names
    found = [[row[place] for place in at] for row in rows]
    return cells_of(((*cell, 0 if (count, status) == (None, None) else count) for *cell, count, status in found), names)


@cache
def read_by_libreoffice(root: Path) -> None:
    """What LibreOffice makes of each sheet of all workbooks, as CSV."""
    needs("soffice", "--version")
    folders = [folder_of(kind, root)[0] for kind in CONTENT]
    books = [shutil.copy(folder / "tables.xlsx", f"{folder}.xlsx") for folder in folders]
    command = ["soffice", f"-env:UserInstallation={(root / 'profile').as_uri()}", "--headless"]
    command += ["--convert-to", SHEETS, "--outdir", str(root), *books]
    subprocess.run(command, check=True, timeout=300, capture_output=True)


def xlsx_libreoffice(folder: Path, stem: str, names: list[str]) -> Cells:
    read_by_libreoffice(folder.parent)
    return cells_of(csv_of(Path(f"{folder}-{stem[:31]}.csv")), names)


READERS: dict[str, tuple[str, Reader]] = {
    "R, CSV": ("csv", csv_r),
    "R rsdmx": ("sdmx-csv", sdmx_r),
    "LibreOffice": ("xlsx", xlsx_libreoffice),
    "pandas, CSV": ("csv", csv_pandas),
    "Polars, CSV": ("csv", csv_polars),
    "DuckDB, CSV": ("csv", csv_duckdb),
    "Arrow, CSV": ("csv", csv_arrow),
    "csvw": ("csv", csv_csvw),
    "frictionless": ("csv", csv_frictionless),
    "pandas, Parquet": ("parquet", parquet_pandas),
    "Polars, Parquet": ("parquet", parquet_polars),
    "DuckDB, Parquet": ("parquet", parquet_duckdb),
    "Arrow, Parquet": ("parquet", parquet_arrow),
    "pyjstat": ("json-stat", json_stat_pyjstat),
    "pyaxis": ("px", px_pyaxis),
    "pysdmx": ("sdmx-csv", sdmx_pysdmx),
    "sdmx1": ("sdmx-csv", sdmx_sdmx1),
    "lxml": ("xml", xml_lxml),
    "openpyxl": ("xlsx", xlsx_openpyxl),
    "pandas, Excel": ("xlsx", xlsx_pandas),
}
if shutil.which("npm"):  # which .ci/run installs it by
    READERS["jsonstat-toolkit"] = ("json-stat", json_stat_node)


@pytest.mark.parametrize("kind", CONTENT)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_finds_every_cell(reader: str, kind: str, root: Path) -> None:
    content, (format, read) = CONTENT[kind], READERS[reader]
    if format in content.refused:
        table, _ = table_of(content)
        with pytest.raises(ReleaseError, match=content.refused[format]):
            require_formats(table, "hard", texts_of(content, ("csv", format)), [], 0b11)
        return
    folder, stems = folder_of(kind, root)
    assert sorted(stems.values()) == sorted(content.tables)
    for stem, names in stems.items():
        found = read(folder, stem, list(names))
        written = in_csv if format == "csv" else str
        assert found == {tuple(map(written, cell)): n for cell, n in content.tables[names].items()}


@pytest.mark.parametrize("kind", CONTENT)
def test_frictionless_says_valid(kind: str, root: Path) -> None:
    frictionless = pytest.importorskip("frictionless")
    report = frictionless.validate(str(folder_of(kind, root)[0] / "datapackage.json"))
    assert report.valid, report.flatten(["name", "rowNumber", "fieldName", "type", "note"])[:5]


@pytest.mark.parametrize("kind", CONTENT)
@pytest.mark.parametrize("formats", [FORMATS, ("csv",)])
def test_croissant_finds_every_cell_of_what_it_describes(formats: tuple[str, ...], kind: str, root: Path) -> None:
    """From Parquet all tables; from CSV those whose texts no reader takes for numbers or for nothing."""
    folder, stems = folder_with(kind, root, formats)
    dataset = pytest.importorskip("mlcroissant").Dataset(str(folder / "croissant.json"))
    described = {one.uuid: list(dataset.records(one.uuid)) for one in dataset.metadata.record_sets}
    taken_otherwise = {"leading zeros", "only leading zeros", "no value", "1 and 1.0", "truth", "suppressed", "totals"}
    is_left_out = formats == ("csv",) and kind in taken_otherwise | {"signs", "sparse and suppressed"}
    assert list(described) == ([] if is_left_out else list(stems))
    for stem, records in described.items():
        names = stems[stem]
        rows = ([one.decode() if isinstance(one, bytes) else one for one in record.values()] for record in records)
        written = in_csv if formats == ("csv",) else str
        expected = {tuple(map(written, cell)): n for cell, n in CONTENT[kind].tables[names].items()}
        assert cells_of(rows, list(names)) == expected


@pytest.mark.parametrize("kind", CONTENT)
def test_rocrate_finds_every_file(kind: str, root: Path) -> None:
    folder, stems = folder_of(kind, root)
    crate = pytest.importorskip("rocrate.rocrate").ROCrate(folder)
    assert {*stems} <= {one.id.split(".")[0] for one in crate.data_entities}


@pytest.mark.parametrize("kind", CONTENT)
def test_a_cross_table_has_every_cell(kind: str, root: Path) -> None:
    import openpyxl

    folder, stems = folder_of(kind, root)
    book = openpyxl.load_workbook(folder / "tables.xlsx")
    for stem, names in stems.items():
        if len(names) == 1:
            assert f"{stem[:25]} cross" not in book.sheetnames
            continue
        head, *rows = book[f"{stem[:25]} cross"].iter_rows(values_only=True)
        at = len(names) - 1
        listed = (((*row[:at], column), n) for row in rows for column, n in zip(head[at:], row[at:], strict=True))
        assert head[:at] == names[:at]
        found = {cell: None if n == "withheld" else n for cell, n in listed if n != 0}
        assert found == CONTENT[kind].tables[names]


def test_the_handbook_names_these_readers_and_no_others() -> None:
    page = resources.files("sdc.handbook").joinpath("publishing.md").read_text(encoding="utf-8")
    rows = [line.strip("| \n").split(" | ") for line in page.split("| tested with |")[1].splitlines()[2:10]]
    named = {(format.strip("`").replace("csvw", "csv"), one) for format, _, ones in rows for one in ones.split(", ")}
    tested = {(format, name.split(",")[0]) for name, (format, _) in READERS.items()}
    elsewhere = {("csv", "frictionless")}  # under metadata
    assert named | elsewhere == tested | {("json-stat", "jsonstat-toolkit")}
    assert all(name in page for name in ("frictionless validate", "mlcroissant", "rocrate"))
