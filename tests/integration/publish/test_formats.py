"""Every published format, read back by the standard library and Arrow, and what a format refuses to carry.

`tests/system/publish` reads the same files by libraries for each format.
"""

import csv as stdlib_csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as hs
from openpyxl.utils.escape import unescape

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.publish.formats.csv import csv, csvw
from sdc.publish.formats.json_stat import json_stat
from sdc.publish.formats.parquet import parquet
from sdc.publish.formats.px import px
from sdc.publish.formats.sdmx import sdmx_csv, sdmx_structure
from sdc.publish.formats.table import CountTable, Dimension
from sdc.publish.formats.xlsx import xlsx
from sdc.publish.formats.xml import xml
from sdc.run_format import COUNT, TOTAL
from sdc.verify.published.formats import read_cells
from tests.helpers.count_tables import (
    ABOUT,
    PLAIN,
    TAME,
    Rows,
    as_in_csv,
    expected,
    has_no_xml,
    small,
    tables,
    told,
    with_records,
    written,
)

WIDE = tuple(Dimension(str(v), ("0", "1"), str(v), ("0", "1")) for v in range(62))
SQUARE = tuple(Dimension(v, (c := tuple(map(str, range(1024)))), v, c) for v in "AB")
SAME = Dimension("A", ("a", "b"), "A", ("c", "c"))


def wide(**more: Any) -> CountTable:
    return CountTable("001_t", "", WIDE, np.zeros((1, 62), np.uint16), np.array([1]), **more)


def twice(table: CountTable) -> CountTable:
    (one,) = table.dimensions
    return replace(table, dimensions=(one, replace(one, name="B")), codes=np.zeros((1, 2), np.uint16))


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a column of that name": (lambda: small("a", name="count"), "'count', which is the column of counts"),
    "a category of that name": (lambda: small("a", TOTAL, totals=True), r"'A' has a category '\(total\)' already"),
    "no room for a total": (lambda: small(*map(str, range(65536)), totals=True), "leaves no room for a total"),
    "too many cells": (lambda: wide(zeros=True), f"there are {2**62} cells, which nobody can list"),
    "xml: a character": (lambda: xml(small("a\x00")), "'A' has a character that XML has not"),
    "sdmx: no variable": (lambda: written(sdmx_csv(replace(small("a"), dimensions=()))), "no table without variables"),
    "its structure": (lambda: written(sdmx_structure(replace(small("a"), dimensions=()))), "without sdmx-csv"),
    "sdmx: a character": (
        lambda: written(sdmx_csv(small("\x01"))),
        "or publish without sdmx-csv",
    ),
    "xlsx: a character": (lambda: xlsx([small("a\ufffe")]), "'A' has a character that XML has not"),
    "xlsx: an escape": (lambda: xlsx([small("_x000D_")]), "'A' has a text that Excel reads as an escape"),
    "xlsx: a long text": (lambda: xlsx([small("x" * 32768)]), "'A' has a text of more than 32767 characters"),
    "xlsx: a large count": (lambda: xlsx([replace(small("a"), counts=np.array([10**15]))]), "Excel 15 digits"),
    "xlsx: more rows than a sheet": (
        lambda: xlsx([CountTable("t", "", SQUARE, np.zeros((1, 2), np.uint16), np.array([1]), zeros=True)]),
        "t has 1048576 cells, and a sheet of Excel 1048576 rows",
    ),
    "json-stat: too many cells": (lambda: json_stat(wide()), f"JSON-stat numbers cells, and {2**62} are too many"),
    "px: a quotation mark": (lambda: px(small('say "no"')), "'A' has a text with a quotation mark, .* PX cannot carry"),
    "px: an end of line": (lambda: px(small("a\nb")), "'A' has a text with .*, an end of line or a character that"),
    "px: in the texts": (lambda: px(small("a", about=PublicationConfig(source='"s"'))), "publication has a text with"),
    "px: an empty category": (lambda: px(small("", "a")), "'A' has an empty name or category"),
    "px: a long code": (lambda: px(small("a" * 201)), "'A' has a name or code of more than 200 characters"),
    "px: no variable": (lambda: px(replace(small("a"), dimensions=())), "no table without variables"),
    "px: two categories": (lambda: px(replace(small("a", "b"), dimensions=(SAME,))), "two categories that read the"),
    "px: two variables": (lambda: px(twice(small("a"))), "two variables read the same in PX"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_format_cannot_carry_is_refused(name: str) -> None:
    write, match = REFUSED[name]
    with pytest.raises(ReleaseError, match=match) as caught:
        write()
    assert "say" not in str(caught.value)


@given(tables())
def test_csv_is_read_by_another_reader(table: CountTable) -> None:
    header, *rows = stdlib_csv.reader(io.StringIO(written(csv(table)).decode(), newline=""), strict=True)
    assert header == [*(v.name for v in table.variables), *table.columns]
    assert [told(table, row) for row in rows] == as_in_csv(expected(table))


@given(tables())
def test_parquet_is_read_by_another_reader(table: CountTable) -> None:
    found = pq.read_table(io.BytesIO(written(parquet(table))))
    assert found.column_names == [*(v.name for v in table.variables), *table.columns]
    assert [told(table, row) for row in zip(*found.to_pydict().values(), strict=True)] == expected(table)


@given(tables())
def test_xml_is_read_by_another_reader(table: CountTable) -> None:
    assume(not has_no_xml(table))
    root = ElementTree.fromstring(written(xml(table)))
    assert (root.attrib["title"], root.attrib["records"]) == ("Workers", str(table.records))
    for described, variable in zip(root.iter("variable"), table.variables, strict=True):
        assert described.attrib["name"] == variable.name
        assert [category.text or "" for category in described] == list(variable.categories)
        assert [c.attrib.get("label", c.text or "") for c in described] == list(variable.labels)
    counts = [None if cell[-1].tag == "withheld" else int(cell[-1].text or "") for cell in root.iter("cell")]
    categories = [[c.text or "" for c in cell[:-1]] for cell in root.iter("cell")]
    rows = [(*own, count) for own, count in zip(categories, counts, strict=True)]
    assert rows == expected(table)
    assert all(
        [c.attrib["variable"] for c in cell[:-1]] == [v.name for v in table.variables] for cell in root.iter("cell")
    )


def read_workbook(content: bytes) -> dict[str, Rows]:
    """The rows of each sheet; no cell is anything but text or a number."""
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True)
    found = {sheet.title: list(sheet.iter_rows()) for sheet in book}
    kinds = {cell.data_type for rows in found.values() for row in rows for cell in row if cell.value is not None}
    assert kinds <= {"s", "n", "inlineStr"}
    return {name: [tuple(shown(c.value) for c in row) for row in rows] for name, rows in found.items()}


def shown(value: Any) -> Any:
    """As Excel shows it, which has `_x000D_` for what XML would make an end of line of."""
    return unescape(value) if isinstance(value, str) else "" if value is None else value


@given(tables())
@example(small("\r", " a ", "a\r\n", "_x", name="_x004_"))
def test_a_workbook_is_read_by_another_reader(table: CountTable) -> None:
    assume(not has_no_xml(table))
    other = replace(small("=1+1", "b", name="Ö"), name="002_O")
    found = read_workbook(written(xlsx([table, other])))
    crossed = ["001_t cross"] * (len(table.variables) > 1)
    assert list(found) == ["Contents", "001_t", *crossed, "002_O", "Data dictionary"]
    assert found["Contents"][1][4] == "".join(crossed)
    header, *rows = found["001_t"]
    assert header == (*(v.name for v in table.variables), *table.columns)
    assert [told(table, row) for row in rows] == expected(table)
    assert found["002_O"] == [("Ö", COUNT), ("=1+1", 5)]
    assert found["Contents"][1][:4] == ("001_t", "Workers", table.listed, table.records)
    own = {v.name: v for v in (*table.variables, *other.variables)}.values()
    codes = [(v.name, place, c) for v in own for place, c in enumerate(v.categories, start=1)]
    assert [row[:3] for row in found["Data dictionary"][1:]] == codes
    assert [row[3] for row in found["Data dictionary"][1:]] == [label for v in own for label in v.labels]


def test_formats_say_what_they_are_of() -> None:
    table = small("a", "b", about=ABOUT)
    for content in (csvw(table), xml(table), json_stat(table), px(table)):
        text = written(content).decode()
        assert all(said in text for said in (*ABOUT.facts.values(), "Exact.", "Twice."))
    contents = [row[0] for row in read_workbook(written(xlsx([table])))["Contents"][2:]]
    assert contents == [*(f"{what}: {text}" for what, text in ABOUT.facts.items()), "Exact.", "Twice."]
    # where cells are left out, it says of which
    assert "have no records" in json.loads(written(json_stat(small("a", "b", "c", about=ABOUT))))["note"][0]


@given(tables())
def test_json_stat_is_read_by_another_reader(table: CountTable) -> None:
    content = written(json_stat(table)).decode()
    found = json.loads(content)
    # in JSON-stat the index is what orders categories; the reader of the test has no order of its own
    assert [found["dimension"][name]["category"]["index"] for name in found["id"]] == [
        list(v.categories) for v in table.variables
    ]
    values = found["value"]
    assert isinstance(values, list) == (2 * table.listed >= table.space.cells)
    places = dict(enumerate(values)) if isinstance(values, list) else {int(k): v for k, v in values.items()}
    status = {int(place): None for place, said in found.get("status", {}).items() if said == "c"}
    assert found.get("extension", {}).get("status") == ({"label": {"c": "withheld"}} if status else None)
    assert {place for place, value in places.items() if value is None} <= {*status}
    places |= status
    every = product(*(v.categories for v in table.variables))
    rows = [(*cell, places[place]) for place, cell in enumerate(every) if place in places]
    assert with_records(rows) == with_records(expected(table))
    assert len(rows) == table.listed or isinstance(values, list)


# PX, by its statements

_TEXTS = r'"[^"\n]*"(?:\n?"[^"\n]*")*'
_STATEMENT = re.compile(
    rf'^([A-Z][A-Z0-9-]*)(?:\(("[^"\n]*")\))?=\n?({_TEXTS}(?:,\n?{_TEXTS})*|[A-Z0-9]+);$', re.MULTILINE
)


def read_px(content: bytes) -> tuple[dict[tuple[str, str], list[str]], Rows]:
    """What it says by keyword and variable; its cells as those who verify it read them."""
    head, _ = content.decode().split("\nDATA=\n", 1)
    assert max(map(len, content.decode().split("\n"))) < 256
    said = {
        (keyword, of.strip('"')): ["".join(re.findall('"([^"]*)"', t)) for t in re.findall(_TEXTS, texts)] or [texts]
        for keyword, of, texts in _STATEMENT.findall(f"{head}\n")
    }
    assert not _STATEMENT.sub("", f"{head}\n").strip()
    with TemporaryDirectory() as folder:
        Path(folder, "t.px").write_bytes(content)
        found = read_cells(Path(folder, "t.px"), "px")
    assert found is not None
    return said, [(*cell, count) for cell, count in found[1].items()]


@given(tables(PLAIN | hs.sampled_from(TAME)), hs.sampled_from([0, 1 << 17]))
def test_px_is_read_by_its_grammar(table: CountTable, most_dense: int) -> None:
    assume('"' not in "".join(text for _, text in table.texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("sdc.publish.formats.px"), "MOST_DENSE", most_dense)
        said, rows = read_px(written(px(table)))
    assert with_records(rows) == with_records(expected(table))
    for variable in table.variables:
        assert said["VALUES", variable.label] == list(variable.labels)
        assert said["VARIABLECODE", variable.label] == [variable.name]
        assert said["ELIMINATION", variable.label] == ([TOTAL] if table.totals else ["YES"])
    assert said.get(("DATASYMBOL2", "")) == (None if table.withheld is None else ["withheld"])
    assert said["CHARSET", ""] == ["ANSI"]
    assert said["CODEPAGE", ""] == ["utf-8"]


def test_px_divides_long_texts_and_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("sdc.publish.formats.px"), "MOST_DENSE", 0)
    labelled = replace(small("a", "b").dimensions[0], labels=("x" * 700, "y" * 255))
    said, _ = read_px(written(px(replace(small("a", "b"), dimensions=(labelled,)))))
    assert said["VALUES", "A"] == ["x" * 700, "y" * 255]
    long = Dimension("B", ("c" * 200, "d" * 200), "B", ("c", "d"))
    two = CountTable("t", "", (long, replace(long, name="C", label="C")), np.array([[1, 0]]), np.array([5]))
    assert read_px(written(px(two)))[1] == [("d" * 200, "c" * 200, 5)]
    many = small(*map(str, range(5000)), zeros=True)
    assert len(read_px(written(px(many)))[1]) == 5000
