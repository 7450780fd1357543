"""Every published format, read back by a reader that is not ours, and what a format refuses to carry."""

from __future__ import annotations

import csv as stdlib_csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
import xmlschema
from csvw import CSVW
from hypothesis import assume, example, given
from hypothesis import strategies as hs
from openpyxl.utils.escape import unescape
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io import read_sdmx

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.model.schema import is_plain
from sdc.model.table import Table
from sdc.publish.formats.csv import csv, csvw
from sdc.publish.formats.json_stat import json_stat
from sdc.publish.formats.parquet import parquet
from sdc.publish.formats.px import px
from sdc.publish.formats.sdmx import sdmx_csv, sdmx_structure
from sdc.publish.formats.table import CountTable, Dimension
from sdc.publish.formats.xlsx import xlsx
from sdc.publish.formats.xml import SCHEMA, xml
from sdc.run_format import COUNT, STATUS, TOTAL, in_csv, is_formula

Rows = list[tuple[Any, ...]]

ABOUT = PublicationConfig(
    population="men", period="1981", source="a study", licence="CC-BY-4.0", contact="a desk", notes=("Exact.", "Twice.")
)

NASTY = ["", " ", "a", "01", "001", '"', "'", ",", "a,b", ";", 'say "no"', "a\nb", "\r", "a\r\nb", "\t", "<b>", "&amp;"]
NASTY += ["]]>", "=1+1", "'=x", "-5", "+1", "@x", "|", "#", "\\", "中文", "é", "null", "NaN", "0", "1e3", " a ", "😀"]
NASTY += ["שלום", "مرحبا", "\u200fa", "\u202eabc", "\u00a0", "{}", "_T", "DATA=", "true", "2024-01-01", "x" * 300]
TAME = ["01", "1", "a", "a b", "a-b", "<140", ">=140", "中文", "שלום", "é", "a;b", "it's", "10+", "x=y"]
SEEN = hs.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]).filter(is_plain)
PLAIN = hs.text(SEEN, min_size=1, max_size=4)
ANY = hs.sampled_from(NASTY) | hs.text(hs.characters(codec="utf-8"), max_size=4)


@hs.composite
def tables(draw: hs.DrawFn, texts: hs.SearchStrategy[str] = ANY) -> CountTable:
    """Up to three variables with these names and categories, few or most of their cells with records, or none."""
    names = draw(hs.lists(texts.filter(lambda text: text not in (COUNT, "")), min_size=1, max_size=3, unique=True))
    many = draw(hs.sampled_from([False, False, False, True]))  # one variable has many categories
    dimensions = tuple(draw(dimension(name, texts, many and name == names[0])) for name in names)
    space = [len(d.categories) for d in dimensions]
    cell, count = hs.integers(0, int(np.prod(space)) - 1), hs.sampled_from([1, 2, 10, 2**45])
    drawn = draw(hs.dictionaries(cell, count, max_size=20))
    at, counts = np.array(sorted(drawn), np.int64), np.array([drawn[cell] for cell in sorted(drawn)], np.int64)
    codes = np.array(np.unravel_index(at, space), np.uint16).T.reshape(len(at), len(space))
    about = draw(hs.sampled_from([ABOUT, PublicationConfig()]))
    zeros, totals, chunk = draw(hs.booleans()), draw(hs.booleans()), draw(hs.sampled_from([1, 14, 1 << 18]))
    table = CountTable("001_t", "Workers", dimensions, codes, counts, about, zeros, totals, chunk=chunk)
    if STATUS in names or draw(hs.booleans()):
        return table
    return in_part(table, draw(hs.sets(cell, min_size=1, max_size=4)), draw(hs.sets(hs.sampled_from(names))))


def in_part(table: CountTable, withheld: set[int], kept: set[str]) -> CountTable:
    """The same with these cells withheld beside the sub-table over some of its variables, where these are some."""
    space, counts = table.space if not table.totals else replace(table, totals=False).space, table.counts
    is_withheld = np.isin(space.pack(table.codes), sorted(withheld))
    within = []
    if 0 < len(kept) < len(table.dimensions):
        own = [place for place, dimension in enumerate(table.dimensions) if dimension.name in kept]
        first, group = space.keep(own).distinct(table.codes[:, own])
        summed = np.array([counts[group == k].sum() for k in range(len(first))], np.int64)
        dimensions = tuple(table.dimensions[place] for place in own)
        within.append(replace(table, dimensions=dimensions, codes=table.codes[first][:, own], counts=summed))
    shown = replace(table, codes=table.codes[~is_withheld], counts=counts[~is_withheld])
    return shown.without(space.unpack(np.array(sorted(withheld))), within, int(counts.sum()))


@hs.composite
def dimension(draw: hs.DrawFn, name: str, texts: hs.SearchStrategy[str], many: bool) -> Dimension:
    """A variable with up to four categories, or with many; with labels or without."""
    few = hs.lists(texts.filter(lambda text: text != TOTAL), min_size=1, max_size=4, unique=True)
    categories = tuple(f"{n:03}" for n in range(120)) if many else tuple(draw(few))
    labels = tuple(f"{category}." for category in categories) if draw(hs.booleans()) else categories
    unit, note = draw(hs.sampled_from([(None, None), ("years", "of age")]))
    return Dimension(name, categories, draw(hs.sampled_from([name, f"{name}!"])), labels, unit, note)


def expected(table: CountTable) -> Rows:
    """Every cell by adding up what is in it, in order, the total last; zeros where they are wanted.

    None where a cell that is withheld is in it, but for what is told of it elsewhere.
    """
    added: dict[tuple[str, ...], int | None] = {}
    for cell, count in cells(table):
        for asked in product(*((category, TOTAL) if table.totals else (category,) for category in cell)):
            before = added.get(asked, 0)
            added[asked] = None if before is None or count is None else before + count
    added |= {cell: told_elsewhere(table, cell) for cell, count in added.items() if count is None}
    total = (TOTAL,) if table.totals else ()
    every = product(*((*d.categories, *total) for d in table.dimensions))
    return [(*cell, added.get(cell, 0)) for cell in every if table.zeros or added.get(cell, 0) != 0]


def cells(table: CountTable) -> Iterator[tuple[list[str], int | None]]:
    """With records or withheld."""
    told = zip(table.codes.tolist(), table.counts.tolist(), strict=True)
    withheld = [] if table.withheld is None else table.withheld.tolist()
    for code, count in [*told, *((code, None) for code in withheld)]:
        yield [d.categories[c] for d, c in zip(table.dimensions, code, strict=True)], count


def told_elsewhere(table: CountTable, cell: tuple[str, ...]) -> int | None:
    """What a total that has withheld cells in it is known to be."""
    kept = {d.name: category for d, category in zip(table.dimensions, cell, strict=True) if category != TOTAL}
    if not kept:
        return table.records
    for other in table.within:
        names = [d.name for d in other.dimensions]
        if {*kept} <= {*names}:
            own = ((dict(zip(names, own, strict=True)), count) for own, count in cells(other))
            return sum(count or 0 for own, count in own if kept.items() <= own.items())
    return None


def with_records(rows: Rows) -> Rows:
    return [row for row in rows if row[-1] != 0]


def told(table: CountTable, row: Sequence[Any], withheld: str = "withheld", shown: str = "") -> tuple[Any, ...]:
    """A row as it is read, without its status, which says of the count alone whether it is withheld."""
    if table.withheld is None:
        return (*row[:-1], int(row[-1]))
    *cell, count, status = row
    assert (status or "") == (withheld if count in ("", None) else shown)
    return (*cell, None if count in ("", None) else int(count))


def small(*categories: str, name: str = "A", **more: Any) -> CountTable:
    """One variable with these categories, the first of which has 5 records."""
    variable = Dimension(name, categories, name, categories)
    return CountTable("001_t", "Workers", (variable,), np.zeros((1, 1), np.uint16), np.array([5]), **more)


def czech_table(czech: Table, **more: Any) -> CountTable:
    marginal = czech.marginal(0b011001)
    dimensions = tuple(Dimension(v.name, v.categories, v.name, v.categories) for v in marginal.schema.variables)
    return CountTable("001_A-D-E", "Workers", dimensions, marginal.codes, marginal.counts, **more)


def written(pieces: Any) -> bytes:
    return b"".join(pieces)


# The table


def test_tables_that_no_format_can_list_are_refused() -> None:
    with pytest.raises(ReleaseError, match="a variable is called 'count', which is the column of counts; rename it"):
        small("a", name="count")
    with pytest.raises(ReleaseError, match=r"variable 'A' has a category '\(total\)' already; recode it or"):
        small("a", TOTAL, totals=True)
    with pytest.raises(ReleaseError, match="variable 'A' has 65536 categories, which leaves no room for a total"):
        small(*map(str, range(65536)), totals=True)
    wide = tuple(Dimension(str(v), ("0", "1"), str(v), ("0", "1")) for v in range(62))
    with pytest.raises(ReleaseError, match=f"there are {2**62} cells, which nobody can list; publish without zeros"):
        CountTable("001_t", "", wide, np.zeros((1, 62), np.uint16), np.array([1]), zeros=True)


# CSV and CSV on the Web


def as_in_csv(rows: Rows) -> Rows:
    return [(*map(in_csv, row[:-1]), row[-1]) for row in rows]


@given(tables())
def test_csv_is_read_by_another_reader(table: CountTable) -> None:
    header, *rows = stdlib_csv.reader(io.StringIO(written(csv(table)).decode(), newline=""), strict=True)
    assert header == [*(v.name for v in table.variables), *table.columns]
    assert [told(table, row) for row in rows] == as_in_csv(expected(table))


@given(tables())
@example(small("", "#a", " b ", "_", name="_a~b-c.d"))
def test_csv_on_the_web_describes_the_file(table: CountTable) -> None:
    """Every column is found by its title, with its type; a line that begins with # is no comment."""
    # the reader of the test takes a blank name for none
    assume(all(v.name.strip() == v.name and v.name.isprintable() for v in table.variables))
    with TemporaryDirectory() as folder:
        (Path(folder) / "001_t.csv").write_bytes(written(csv(table)))
        (Path(folder) / "001_t.csv-metadata.json").write_bytes(written(csvw(table)))
        found = CSVW(str(Path(folder) / "001_t.csv"), validate=True)
        rows = [told(table, [*row.values()]) for row in found.tables[0].iterdicts(strict=True)]
    assert not found.warnings
    assert rows == as_in_csv(expected(table))
    for column, variable in zip(found.tables[0].tableSchema.columns, table.variables, strict=False):
        concepts = column.common_props["qb:codeList"]["skos:hasTopConcept"]
        assert [concept["skos:notation"] for concept in concepts] == list(map(in_csv, variable.categories))
        assert [concept["skos:prefLabel"] for concept in concepts] == list(variable.labels)


def test_csv_on_the_web_says_what_it_is_of() -> None:
    found = json.loads(written(csvw(replace(small("a"), about=ABOUT))))
    assert [found[f"dc:{what}"] for what in ("title", "temporal", "source", "license", "publisher", "description")] == [
        "Workers",
        "1981",
        "a study",
        "CC-BY-4.0",
        "a desk",
        "Population: men",
    ]
    assert found["rdfs:comment"] == ["Exact.", "Twice."]
    assert found["tableSchema"]["primaryKey"] == ["A"]


# Parquet


@given(tables())
def test_parquet_is_read_by_another_reader(table: CountTable) -> None:
    found = pq.read_table(io.BytesIO(written(parquet(table))))
    assert found.column_names == [*(v.name for v in table.variables), *table.columns]
    assert [told(table, row) for row in zip(*found.to_pydict().values(), strict=True)] == expected(table)


# XML


def has_no_xml(table: CountTable) -> bool:
    return any(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text) for _, text in table.texts)


@given(tables())
def test_xml_is_read_by_another_reader(table: CountTable) -> None:
    assume(not any(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text) for _, text in table.texts))
    content = written(xml(table))
    xmlschema.XMLSchema(SCHEMA).validate(content)
    root = ElementTree.fromstring(content)
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


def test_xml_says_what_it_is_of() -> None:
    root = ElementTree.fromstring(written(xml(small("a", about=ABOUT))))
    said = [(child.tag, child.text) for child in root if child.tag not in ("variable", "cell")]
    assert said == [
        ("population", "men"),
        ("period", "1981"),
        ("source", "a study"),
        ("licence", "CC-BY-4.0"),
        ("contact", "a desk"),
        ("note", "Exact."),
        ("note", "Twice."),
    ]


def test_xml_refuses_what_it_cannot_carry() -> None:
    with pytest.raises(ReleaseError, match="variable 'A' has a character that XML has not; reword it, or publish with"):
        xml(small("a\x00"))


# SDMX


@given(tables())
@example(small("01", "_T", totals=True))
@example(small("-x", "@a", name="ACTION"))
@example(small("a-b", "c$", name="V2"))
def test_sdmx_csv_is_read_by_its_structure(table: CountTable) -> None:
    """The structure is valid by the schema of SDMX-JSON, and its code lists have all codes of the file."""
    (said,) = sdmx_structures(table)
    header, *rows = stdlib_csv.reader(io.StringIO(written(sdmx_csv(table)).decode(), newline=""), strict=True)
    dimensions = said.components.dimensions
    status = [] if table.withheld is None else ["CONF_STATUS"]
    assert header == ["STRUCTURE", "STRUCTURE_ID", "ACTION", *(d.id for d in dimensions), "OBS_VALUE", *status]
    assert [attribute.id for attribute in said.components.attributes] == status
    assert {tuple(row[:3]) for row in rows} <= {("datastructure", f"SDC:{said.id}(1.0.0)", "I")}
    categories = []
    for found, variable in zip(dimensions, table.variables, strict=True):
        codes = found.local_codes.codes
        assert [code.name or "" for code in codes] == list(variable.labels)
        called = {code.id: annotation(code, "CATEGORY", TOTAL if code.id == "_T" else code.id) for code in codes}
        assert list(called.values()) == list(variable.categories)
        categories.append(called)
    read = [told(table, row[3:], "C", "F") for row in rows]
    assert [(*(of[c] for of, c in zip(categories, row[:-1], strict=True)), row[-1]) for row in read] == expected(table)
    # the reader of the test leaves out the annotations of concepts
    concepts = json.loads(written(sdmx_structure(table)))["data"]["conceptSchemes"][0]["concepts"][: len(dimensions)]
    assert [{a["type"]: a["title"] for a in c["annotations"]} for c in concepts] == [
        {**({"UNIT": v.unit, "NOTE": v.note} if v.unit else {}), "NAME": v.name} for v in table.variables
    ]
    assert not any(is_formula(field) for row in rows for field in row)


def sdmx_structures(table: CountTable) -> Sequence[Any]:
    return read_sdmx(io.BytesIO(written(sdmx_structure(table))), validate=True).get_data_structure_definitions()


def annotation(found: Any, kind: str, default: str = "") -> str:
    return next((a.title or "" for a in found.annotations if a.type == kind), default)


@pytest.mark.parametrize("totals", [False, True])
def test_sdmx_csv_is_read_by_another_reader(totals: bool, czech: Table) -> None:
    table = czech_table(czech, totals=totals, about=ABOUT)
    (found,) = read_sdmx(io.BytesIO(written(sdmx_csv(table))), validate=True).data
    assert found.short_urn == "DataStructure=SDC:T001_A-D-E(1.0.0)"
    codes = {"<140": "C1", ">=140": "C2", "<3": "C1", ">=3": "C2", TOTAL: "_T"}
    rows = [tuple(map(str, row)) for row in found.data.itertuples(index=False)]
    assert rows == [(*(codes.get(c, c) for c in row[:-1]), str(row[-1])) for row in expected(table)]


def test_an_sdmx_structure_says_what_it_is_of() -> None:
    (said,) = sdmx_structures(small("a", about=ABOUT))
    assert said.name == "Workers"
    assert [(a.type, a.title) for a in said.annotations] == [
        ("POPULATION", "men"),
        ("REFERENCE PERIOD", "1981"),
        ("SOURCE", "a study"),
        ("LICENCE", "CC-BY-4.0"),
        ("CONTACT", "a desk"),
        ("NOTE", "Exact."),
        ("NOTE", "Twice."),
    ]


@pytest.mark.parametrize("write", [sdmx_csv, sdmx_structure])
def test_sdmx_refuses_a_table_without_variables(write: Any) -> None:
    with pytest.raises(ReleaseError, match="001_t: SDMX has no table without variables; publish without sdmx-csv"):
        written(write(replace(small("a"), dimensions=())))


# A workbook


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
    assert list(found) == ["Contents", "001_t", "002_O", "Data dictionary"]
    header, *rows = found["001_t"]
    assert header == (*(v.name for v in table.variables), *table.columns)
    assert [told(table, row) for row in rows] == expected(table)
    assert found["002_O"] == [("Ö", COUNT), ("=1+1", 5)]
    assert found["Contents"][1][:4] == ("001_t", "Workers", table.listed, table.records)
    own = {v.name: v for v in (*table.variables, *other.variables)}.values()
    codes = [(v.name, place, c) for v in own for place, c in enumerate(v.categories, start=1)]
    assert [row[:3] for row in found["Data dictionary"][1:]] == codes
    assert [row[3] for row in found["Data dictionary"][1:]] == [label for v in own for label in v.labels]


def test_a_workbook_says_what_it_is_of_and_is_the_same_twice() -> None:
    table = small("a", about=ABOUT)
    content = written(xlsx([table]))
    said = [row[0] for row in read_workbook(content)["Contents"][2:]]
    assert said == [*(f"{what}: {text}" for what, text in ABOUT.facts.items()), "Exact.", "Twice."]
    assert content == written(xlsx([table]))
    with ZipFile(io.BytesIO(content)) as file:
        assert {entry.date_time[0] for entry in file.infolist()} == {1980}


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (small("a\ufffe"), "variable 'A' has a character that XML has not; reword it, or publish without xlsx"),
        (small("_x000D_"), "variable 'A' has a text that Excel reads as an escape, such as _x000D_; reword it, or"),
        (small("x" * 32768), "variable 'A' has a text of more than 32767 characters, which no cell of Excel holds"),
        (replace(small("a"), counts=np.array([10**15])), "001_t counts 10.15 records or more, and Excel 15 digits"),
    ],
)
def test_a_workbook_refuses_what_it_cannot_carry(table: CountTable, match: str) -> None:
    with pytest.raises(ReleaseError, match=match):
        xlsx([table])


def test_a_workbook_refuses_more_rows_than_a_sheet_has() -> None:
    square = Dimension("A", tuple(map(str, range(1024))), "A", tuple(map(str, range(1024))))
    dimensions = (square, replace(square, name="B", label="B"))
    table = CountTable("001_t", "", dimensions, np.zeros((1, 2), np.uint16), np.array([1]), zeros=True)
    with pytest.raises(
        ReleaseError, match="001_t has 1048576 cells, and a sheet of Excel 1048576 rows; publish without"
    ):
        xlsx([table])


# JSON-stat


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


@given(tables(hs.sampled_from(TAME)))
def test_json_stat_is_read_into_a_frame(table: CountTable) -> None:
    assume(all(v.label not in ("value", "id") for v in table.variables))
    frame = pyjstat.Dataset.read(written(json_stat(table.with_zeros)).decode()).write("dataframe", naming="id")
    rows = [(*row[:-1], row[-1] if row[-1] == row[-1] else None) for row in frame.itertuples(index=False)]
    assert rows == expected(table.with_zeros)


def test_json_stat_says_what_it_is_of() -> None:
    found = json.loads(written(json_stat(small("a", "b", about=ABOUT))))
    assert (found["label"], found["source"], found["note"]) == ("Workers", "a study", ["Exact.", "Twice."])
    assert found["extension"]["licence"] == "CC-BY-4.0"
    assert json.loads(written(json_stat(small("a", "b", "c", about=ABOUT))))["note"][0] == (
        "Cells that have no value have no records."
    )


def test_json_stat_refuses_cells_that_it_cannot_number() -> None:
    wide = tuple(Dimension(str(v), ("0", "1"), str(v), ("0", "1")) for v in range(62))
    table = CountTable("001_t", "", wide, np.zeros((1, 62), np.uint16), np.array([1]))
    with pytest.raises(ReleaseError, match=f"001_t: JSON-stat numbers cells, and {2**62} are too many; publish it wit"):
        json_stat(table)


# PX

_TEXT = r'"[^"\n]*"'
_TEXTS = rf"{_TEXT}(?:\n?{_TEXT})*"
_STATEMENT = re.compile(rf'([A-Z][A-Z0-9-]*)(?:\(("[^"\n]*")\))?=\n?(?:({_TEXTS}(?:,\n?{_TEXTS})*)|([A-Z0-9]+));\n')
_CELL = re.compile(rf'((?:{_TEXT},\n?)+)([0-9]+|"\.\.") \n')


def read_px(content: bytes) -> tuple[dict[tuple[str, str], list[str]], Rows]:
    """By the grammar of AXIS-VERSION 2013: statements, then data with keys or without; all cells with records."""
    text = content.decode()
    assert max(map(len, text.split("\n"))) < 256
    head, data = text.split("\nDATA=\n", 1)
    said, place = {}, 0
    while place < len(head) + 1:
        match = _STATEMENT.match(head + "\n", place)
        assert match, head[place : place + 80]
        keyword, of, texts, bare = match.groups()
        values = [read_texts(t) for t in re.findall(rf"{_TEXTS}", texts)] if texts is not None else [bare]
        assert said.setdefault((keyword, (of or "").strip('"')), values) is values
        place = match.end()
    variables = said.get(("STUB", ""), []) + said.get(("HEADING", ""), [])
    codes = [said["CODES", name] for name in variables]
    body = data.removesuffix(";\n")
    assert [len(c) for c in codes] == [len(said["VALUES", name]) for name in variables]
    if ("KEYS", variables[0]) in said:
        assert all(said["KEYS", name] == ["CODES"] for name in said["STUB", ""])
        assert "".join(m.group() for m in _CELL.finditer(body)) == body
        cells = [(re.findall(_TEXT, keys), px_number(count)) for keys, count in _CELL.findall(body)]
        return said, [(*(key.strip('"') for key in keys), count) for keys, count in cells]
    assert re.fullmatch(r'(?:(?:[0-9]+|"\.\.") \n?)*', body)
    return said, [(*cell, px_number(n)) for cell, n in zip(product(*codes), body.split(), strict=True)]


def px_number(text: str) -> int | None:
    return None if text == '".."' else int(text)


def read_texts(texts: str) -> str:
    return "".join(part[1:-1] for part in re.findall(_TEXT, texts))


@given(tables(PLAIN | hs.sampled_from(TAME)))
def test_px_is_read_by_its_grammar(table: CountTable) -> None:
    assume('"' not in "".join(text for _, text in table.texts))
    said, rows = read_px(written(px(table)))
    assert with_records(rows) == with_records(expected(table))
    for variable in table.variables:
        assert said["VALUES", variable.label] == list(variable.labels)
        assert said["VARIABLECODE", variable.label] == [variable.name]
        assert said["ELIMINATION", variable.label] == ([TOTAL] if table.totals else ["YES"])
    assert said.get(("DATASYMBOL2", "")) == (None if table.withheld is None else ["withheld"])
    assert said["CHARSET", ""] == ["ANSI"]
    assert said["CODEPAGE", ""] == ["utf-8"]


@pytest.mark.parametrize("totals", [False, True])
def test_px_is_read_by_another_reader(totals: bool, czech: Table, tmp_path: Path) -> None:
    table = czech_table(czech, totals=totals, about=ABOUT)
    (tmp_path / "table.px").write_bytes(written(px(table)))
    found = pyaxis.parse(str(tmp_path / "table.px"), encoding="utf-8")
    rows = [(*row[:-1], int(row[-1])) for row in found["DATA"].itertuples(index=False)]
    assert rows == expected(table)
    assert found["METADATA"]["SOURCE"] == ["a study"]
    assert found["METADATA"]["NOTE"] == ["Population: men # Licence: CC-BY-4.0 # Exact. # Twice."]


def test_px_divides_long_texts_and_long_rows() -> None:
    labelled = replace(small("a", "b").dimensions[0], labels=("x" * 700, "y" * 255))
    said, _ = read_px(written(px(replace(small("a", "b"), dimensions=(labelled,)))))
    assert said["VALUES", "A"] == ["x" * 700, "y" * 255]
    long = Dimension("B", ("c" * 200, "d" * 200), "B", ("c", "d"))
    two = CountTable("t", "", (long, replace(long, name="C", label="C")), np.array([[1, 0]]), np.array([5]))
    assert read_px(written(px(two)))[1] == [("d" * 200, "c" * 200, 5)]
    many = small(*map(str, range(5000)), zeros=True)
    assert len(read_px(written(px(many)))[1]) == 5000


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (
            small('say "no"'),
            "variable 'A' has a text with a quotation mark, .* which PX cannot carry; reword it, or pub",
        ),
        (
            small("a\nb"),
            "variable 'A' has a text with .*, an end of line or a character that is not seen, which",
        ),
        (small("a", about=PublicationConfig(source='"s"')), "publication has a text with a quotation mark"),
        (small("", "a"), "variable 'A' has an empty name or category, which PX cannot carry"),
        (small("a" * 201), "variable 'A' has a name or code of more than 200 characters, which a line of PX cannot"),
        (replace(small("a"), dimensions=()), "001_t: PX has no table without variables; publish without px"),
    ],
)
def test_px_refuses_what_it_cannot_carry(table: CountTable, match: str) -> None:
    with pytest.raises(ReleaseError, match=match) as caught:
        px(table)
    assert "say" not in str(caught.value)


def test_px_refuses_what_would_read_the_same() -> None:
    same = Dimension("A", ("a", "b"), "A", ("c", "c"))
    with pytest.raises(ReleaseError, match="variable 'A' has two categories that read the same in PX; reword it"):
        px(replace(small("a", "b"), dimensions=(same,)))
    two = (small("a").dimensions[0], replace(small("a").dimensions[0], name="B"))
    with pytest.raises(ReleaseError, match="001_t: two variables read the same in PX"):
        px(replace(small("a"), dimensions=two, codes=np.zeros((1, 2), np.uint16)))


# Many categories


@pytest.mark.parametrize("many", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_categories_come_back(many: int, tmp_path: Path) -> None:
    """Municipalities by sex, with leading zeros and commas, through each reader that is not ours."""
    codes = tuple(f"{n:05}" for n in range(many))
    labels = tuple(f"Ort {n}, Kreis {n % 400}" for n in range(many))
    sexes = ("f", "m")
    cells = np.stack(np.divmod(np.arange(2 * many), 2), axis=1).astype(np.uint16)
    dimensions = Dimension("place", codes, "Municipality", labels), Dimension("sex", sexes, "sex", sexes)
    table = CountTable("001_t", "Everybody", dimensions, cells, np.arange(1, 2 * many + 1))
    rows = expected(table)
    _, *found = stdlib_csv.reader(io.StringIO(written(csv(table)).decode(), newline=""), strict=True)
    assert [(*row[:-1], int(row[-1])) for row in found] == rows
    columns = pq.read_table(io.BytesIO(written(parquet(table)))).to_pydict().values()
    assert list(zip(*columns, strict=True)) == rows
    frame = pyjstat.Dataset.read(written(json_stat(table)).decode()).write("dataframe", naming="id")
    assert [tuple(row) for row in frame.itertuples(index=False)] == rows
    (tmp_path / "t.px").write_bytes(written(px(table)))
    read = pyaxis.parse(str(tmp_path / "t.px"), encoding="utf-8")
    assert read["METADATA"]["CODES(Municipality)"] == list(codes)
    assert [int(n) for n in read["DATA"]["DATA"]] == [row[-1] for row in rows]
    assert read_workbook(written(xlsx([table])))["001_t"][1:] == rows
    root = ElementTree.fromstring(written(xml(table)))
    assert len(root.findall("cell")) == 2 * many
