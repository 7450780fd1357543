"""Released sub-tables as bytes: every format read back by a reader that is not ours, and which of them is chosen."""

import io
import json
import re
from contextlib import suppress
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import groupby
from unicodedata import east_asian_width
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as hs

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.model.labels import Labels, VariableLabels
from sdc.model.schema import MAX_CATEGORIES, Schema, Variable, is_plain
from sdc.model.table import Table
from sdc.publish.formats.csv import csv
from sdc.publish.formats.json_stat import json_stat
from sdc.publish.formats.xml import xml
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.run_format import COUNT, TOTAL
from sdc.server.web.answers import FORMATS, Answer, Shape, etag, file_name, format_of
from sdc.server.web.problems import Problem
from tests.helpers.count_tables import NASTY, PLAIN, Rows, expected, has_no_xml
from tests.strategies import dense, schema_of

PUBLISHED = {"csv": csv, "jsonstat": json_stat, "xml": xml}
"""By the writers of publication, which tests/integration/publish/test_formats.py reads back."""
SHAPES = [Shape(zeros, totals) for zeros in (False, True) for totals in (False, True)]


@hs.composite
def answers(draw: hs.DrawFn, signs: hs.SearchStrategy[str] = PLAIN) -> Answer:
    """Up to three variables with names as bad as a schema takes, and some records, perhaps none."""
    categories = hs.lists(hs.sampled_from([*filter(is_plain, NASTY)]) | signs, min_size=1, max_size=3, unique=True)
    names = draw(hs.lists(hs.sampled_from(["A", "b c", '"q"', "<i>", "ü&", "中"]), min_size=1, max_size=3, unique=True))
    schema = Schema(tuple(Variable(name, tuple(draw(categories))) for name in names))
    counts = hs.sampled_from([0, 0, 1, 2, 10, 10**6, 2**48])  # of 27 cells at most, whose total is below 2^53
    return Answer(
        draw(hs.sampled_from(["Workers", '<"T">, & so on', "=title", ""])),
        dense(schema, draw(hs.lists(counts, min_size=schema.cells, max_size=schema.cells))),
        draw(hs.sampled_from(SHAPES)),
    )


def names_of(answer: Answer) -> list[str]:
    return [variable.name for variable in answer.table.variables]


def written(answer: Answer, suffix: str, chunk: int = 1 << 18) -> bytes:
    own = replace(answer)
    own.__dict__["table"] = replace(answer.table, chunk=chunk)  # a cached property
    return b"".join(FORMATS[suffix].write(own))


# The readers: what is in a file, by whoever receives it


def read_json(content: bytes) -> Rows:
    found = json.loads(content)
    assert all(list(cell) == [*found["variables"], COUNT] for cell in found["cells"])
    return [tuple(cell.values()) for cell in found["cells"]]


def read_parquet(content: bytes) -> Rows:
    columns = pq.read_table(io.BytesIO(content)).to_pydict()
    return list(zip(*columns.values(), strict=True))


def read_txt(content: bytes) -> Rows:
    """By the columns of the terminal that the rule shows; a wide sign takes two."""
    lines = content.decode().split("\n")[4:-1]
    wide = ["".join(sign + "\0" * (east_asian_width(sign) in "WF") for sign in line) for line in lines]
    edges = [match.span() for match in re.finditer("-+", wide[0])]
    read = [[line[begin:end].replace("\0", "") for begin, end in edges] for line in wide[1:]]
    return [(*(name.rstrip(" ") for name in row[:-1]), int(row[-1])) for row in read]


class Page(HTMLParser):
    """The text of each cell of each row."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, str]]] = []
        self.tags: set[str] = set()
        self.feed(content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {key for key, _ in attrs} <= {"class", "scope", "rowspan", "colspan"}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append((tag, ""))

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and self.lasttag in ("td", "th"):
            tag, text = self.rows[-1][-1]
            self.rows[-1][-1] = tag, text + data.rstrip("\n")


def read_html(content: bytes, variables: int) -> Rows:
    page = Page(content)
    assert page.tags <= {"table", "caption", "strong", "br", "thead", "tbody", "tr", "th", "td"}
    body = [([t for tag, t in row if tag == "th"], [int(t) for tag, t in row if tag == "td"]) for row in page.rows]
    if variables < 2:
        return [(*names, *counts) for names, counts in body[1:]]
    across, *rows = body[1:]
    return [(*names, c, n) for names, counts in rows for c, n in zip(across[0], counts, strict=True)]


def crossed(answer: Answer) -> Rows:
    """What a table with the last variable across shows: all cells of the rows that have some."""
    rows = [list(group) for _, group in groupby(expected(replace(answer.table, zeros=True)), key=lambda row: row[:-2])]
    return [cell for row in rows for cell in row if answer.shape.zeros or any(c[-1] for c in row)]


CHUNKS = hs.sampled_from([1, 4, 6, 9, 12, 1 << 18])
"""Of one to three variables these are one cell, two, three, or all."""


@given(answers(), CHUNKS)
def test_what_is_read_back_is_what_was_counted(answer: Answer, chunk: int) -> None:
    assume(not has_no_xml(answer.table))
    for suffix, write in PUBLISHED.items():
        assert written(answer, suffix, chunk) == b"".join(write(answer.table)), suffix
    assert read_json(written(answer, "json", chunk)) == expected(answer.table)
    assert read_parquet(written(answer, "parquet", chunk)) == expected(answer.table)


@given(answers(), CHUNKS)
def test_a_page_shows_the_last_variable_across_and_nothing_in_a_name_is_markup(answer: Answer, chunk: int) -> None:
    shown = read_html(written(answer, "html", chunk), len(names_of(answer)))
    assert shown == (crossed(answer) if len(names_of(answer)) > 1 else expected(answer.table))


@given(answers(hs.text("ab =中", max_size=3)), CHUNKS)
def test_columns_of_text_are_as_wide_as_the_rule_shows(answer: Answer, chunk: int) -> None:
    stripped = [(*(str(name).rstrip(" ") for name in row[:-1]), row[-1]) for row in expected(answer.table)]
    assert read_txt(written(answer, "txt", chunk)) == stripped


@given(answers())
def test_how_many_cells_there_are_is_known_before(answer: Answer) -> None:
    listed = len(expected(answer.table))
    if answer.shape.zeros or not answer.shape.totals:
        assert answer.table.at_most == listed
    else:
        assert listed <= answer.table.at_most <= Answer("", answer.public, Shape(True, True)).table.at_most


def test_a_great_many_cells_are_counted_as_whole_numbers() -> None:
    table = Table.of(schema_of([100] * 30), np.zeros((1, 30), np.int64))
    assert Answer("", table, Shape(totals=True)).table.at_most == 2**30
    with pytest.raises(Problem, match=f"there are {100**30} cells, which nobody can list; ask without zeros"):
        Answer("", table, Shape(zeros=True))
    with pytest.raises(Problem, match=f"JSON-stat numbers cells, and {100**30} are too many"):
        FORMATS["jsonstat"].write(Answer("", table))
    assert written(Answer("", table), "csv").endswith(f"{'0,' * 30}1\n".encode())
    assert read_json(written(Answer("", table), "json")) == [(*["0"] * 30, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("total", [0, 1841])
def test_the_grand_total_has_no_variable_and_one_row(shape: Shape, total: int) -> None:
    answer = Answer("Czech auto workers", total, shape)
    assert answer.table.at_most == 1
    assert written(answer, "csv").split() == [COUNT.encode(), str(total).encode()]
    for read, suffix in ((read_json, "json"), (read_parquet, "parquet"), (read_txt, "txt")):
        assert read(written(answer, suffix)) == [(total,)]
    assert ElementTree.fromstring(written(answer, "xml")).findtext("cell/count") == str(total)
    assert json.loads(written(answer, "jsonstat"))["value"] == [total]
    assert Page(written(answer, "html")).rows == [[("th", "All records"), ("td", str(total))]]


def test_jsonstat_says_the_values_by_place_where_most_cells_are_empty() -> None:
    table = Table.of(schema_of([3, 4]), np.array([[0, 1], [2, 3]]), np.array([5, 7]))
    sparse = json.loads(written(Answer("T", table), "jsonstat"))
    assert sparse["value"] == {"1": 5, "11": 7}
    assert sparse["note"] == ["Cells that have no value have no records."]
    assert (sparse["version"], sparse["class"], sparse["id"], sparse["size"]) == ("2.0", "dataset", ["A", "B"], [3, 4])
    every = json.loads(written(Answer("T", table, Shape(zeros=True)), "jsonstat"))
    assert every["value"] == [0, 5, *[0] * 9, 7]


def test_parquet_has_all_categories_in_order_and_row_groups(czech: Table) -> None:
    file = pq.ParquetFile(io.BytesIO(written(Answer("Workers", czech), "parquet", 14)))
    assert file.num_row_groups == -(-len(czech) // 16)
    column = file.read().column("D").combine_chunks()
    assert column.dictionary.to_pylist() == ["<140", ">=140"]
    assert {b"title": b"Workers", b"records": b"1841"}.items() <= file.schema_arrow.metadata.items()


# What is wrong is said before the first byte


def test_what_cannot_be_written_is_refused() -> None:
    named = Table.of(Schema((Variable(COUNT, ("a",)),)), np.array([[0]]))
    with pytest.raises(ReleaseError, match="a variable is called 'count', which is the column of counts; rename it"):
        Answer("", named)
    totalled = Table.of(Schema((Variable("A", ("a", TOTAL)),)), np.array([[0]]))
    with pytest.raises(Problem, match=r"variable 'A' has a category '\(total\)' already; ask without totals"):
        Answer("", totalled, Shape(totals=True))
    assert read_json(written(Answer("", totalled, Shape(zeros=True)), "json")) == [("a", 1), (TOTAL, 0)]
    large = Table.of(schema_of([MAX_CATEGORIES]), np.array([[0]]))
    with pytest.raises(Problem, match="which leaves no room for a total; ask without totals"):
        Answer("", large, Shape(totals=True))


@pytest.mark.parametrize("where", ["the title", "variable 'B'"])
def test_xml_is_refused_where_it_has_not_the_character(where: str) -> None:
    bad = "a\uffff"
    table = Table.of(Schema((Variable("B", (bad if where == "variable 'B'" else "a",)),)), np.array([[0]]))
    answer = Answer(bad if where == "the title" else "", table)
    with pytest.raises(Problem, match=f"{where} has a character that XML has not; take CSV, JSON or Parquet"):
        FORMATS["xml"].write(answer)
    assert read_json(written(answer, "json"))[0][-1] == 1


# Which format


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "suffix"),
    [
        ("", "json"),
        (" ", "json"),
        ("*/*", "json"),
        (BROWSER, "html"),
        ("text/csv", "csv"),
        ("TEXT/CSV", "csv"),
        ("text/csv; charset=utf-8", "csv"),
        ("text/csv;header=present;q=0.1, application/json;q=0.2", "json"),
        ("text/*", "html"),
        ("text/*, text/html;q=0", "txt"),
        ("text/html;q=0, */*;q=0.1", "json"),
        ("application/*;q=0.5, text/plain", "txt"),
        ("application/vnd.apache.parquet", "parquet"),
        ("application/json-stat+json, application/json;q=0.9", "jsonstat"),
        ("application/xml ; q = 0.3", "xml"),
        ("image/png, text/csv;q=0.001", "csv"),
        ("nonsense,,;;q=, text/csv;q=2, text/plain;q=x, text/html;q=nan, application/xml;q=0.1", "xml"),
    ],
)
def test_the_header_chooses_where_the_address_does_not(accept: str, suffix: str) -> None:
    assert format_of(None, accept) == FORMATS[suffix]
    assert format_of("csv", accept) == FORMATS["csv"]


@pytest.mark.parametrize("accept", ["image/png", "*/*;q=0", "nonsense", ",", "text/csv;q=-1", "application/pdf, x/*"])
def test_a_header_that_names_nothing_that_is_had_is_refused(accept: str) -> None:
    message = f"Accept: {accept!r} names no available format; choose from application/json, text/html"
    with pytest.raises(Problem, match=re.escape(message)):
        format_of(None, accept)


@pytest.mark.parametrize("suffix", ["xls", "", "CSV", "../etc"])
def test_an_unknown_suffix_is_refused(suffix: str) -> None:
    with pytest.raises(Problem, match=f"there is no format '{suffix}'; there are json, html, txt, csv, xml, "):
        format_of(suffix, "text/csv")


@given(hs.text() | hs.text("aeptx/*;,=q.01 "))
@example("\x00")
def test_no_header_does_more_harm(accept: str) -> None:
    with suppress(Problem):
        assert format_of(None, accept) in FORMATS.values()


# What HTTP calls it


def test_the_tag_differs_by_what_was_asked_and_by_nothing_else() -> None:
    asked = [
        ("t", ["A", "B"]), ("u", ["A", "B"]), ("t", ["A"]), ("t", []), ("t", ["A,B"]), ("t", ["B", "A"]),
    ]  # fmt: skip
    tags = [etag(*of, format, shape) for of in asked for format in FORMATS.values() for shape in SHAPES]
    assert len(set(tags)) == len(tags)
    assert all(re.fullmatch('"[0-9a-f]{32}"', tag) for tag in tags)
    assert etag("t", ("A", "B"), FORMATS["csv"], Shape()) == etag("t", ["A", "B"], FORMATS["csv"], Shape())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["A", "B"], "A_B.csv"),
        ([], "table.csv"),
        (["age at death", "größe"], "age-at-death_gr-e.csv"),
        (['"; filename=x', "../../etc", "中"], "filename-x_etc.csv"),
        (["x" * 200], "x" * 80 + ".csv"),
    ],
)
def test_a_download_is_called_by_its_variables(names: list[str], expected: str) -> None:
    assert file_name(names, FORMATS["csv"]) == expected


# Labels, and what the table is of

PUBLIC_STATES = ("a prospective study", "CC-BY-4.0", "the statistics service")
TEXTS = Texts(
    PublicationConfig(
        population="men <& boys>",
        period="1981",
        source=PUBLIC_STATES[0],
        licence=PUBLIC_STATES[1],
        contact=PUBLIC_STATES[2],
        notes=("Counts are exact.",),
    ),
    Labels(
        {
            "A": VariableLabels("Smokes", categories={"no": "never", "yes": "<i>often</i>"}),
            "D": VariableLabels("Systolic pressure", "at the first visit", "mm Hg", {"<140": "low"}),
            "F": VariableLabels("Family history"),
        }
    ),
)
FOOT = [
    "Systolic pressure: at the first visit, mm Hg",
    "Population: men <& boys>",
    "Reference period: 1981",
    *map(": ".join, zip(("Source", "Licence", "Contact"), PUBLIC_STATES, strict=True)),
    "Counts are exact.",
]


@pytest.fixture
def labelled(czech: Table) -> Answer:
    """A and D, with totals."""
    return Answer("Workers", czech.marginal(0b1001), Shape(totals=True), TEXTS)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_csv_and_parquet_keep_the_codes(suffix: str, labelled: Answer) -> None:
    assert written(labelled, suffix) == written(replace(labelled, texts=NO_TEXTS), suffix)


def test_programs_are_told_labels_beside_the_codes(labelled: Answer) -> None:
    assert read_json(written(labelled, "json")) == expected(labelled.table)
    found, root = json.loads(written(labelled, "json")), ElementTree.fromstring(written(labelled, "xml"))
    pressure = {"label": "Systolic pressure", "note": "at the first visit", "unit": "mm Hg"}
    assert found["labels"] == {
        "A": {"label": "Smokes", "categories": {"no": "never", "yes": "<i>often</i>"}},
        "D": {**pressure, "categories": {"<140": "low"}},
    }
    assert found["about"]["population"] == root.findtext("population") == "men <& boys>"
    assert [*found["about"].values()][1:] == ["1981", *PUBLIC_STATES, ["Counts are exact."]]
    smokes, d = root.findall("variable")
    assert [c.get("label") for c in smokes.findall("category")] == ["never", "<i>often</i>", None]
    assert (d.attrib, root.findtext("note")) == ({"name": "D", **pressure}, "Counts are exact.")


def test_jsonstat_has_labels_where_it_has_a_place_for_them(labelled: Answer) -> None:
    found = json.loads(written(labelled, "jsonstat"))
    assert found["dimension"]["D"]["category"]["label"] == {
        "<140": "low",
        ">=140": ">=140",
        TOTAL: TOTAL,
    }
    assert (found["dimension"]["A"]["label"], found["dimension"]["D"]["note"]) == ("Smokes", ["at the first visit"])
    assert found["dimension"]["D"]["extension"] == {"unit": "mm Hg"}
    assert (found["source"], found["note"]) == ("a prospective study", ["Counts are exact."])
    assert found["extension"]["licence"] == "CC-BY-4.0"
    sparse = Answer("", Table.of(schema_of([9, 9]), np.array([[0, 1]])), Shape(), TEXTS)
    assert json.loads(written(sparse, "jsonstat"))["note"][1:] == ["Counts are exact."]


def test_people_read_labels_and_at_the_foot_what_it_is_of(labelled: Answer) -> None:
    text = written(labelled, "txt").decode()
    assert text.startswith("Workers\nSmokes by Systolic pressure: 1,841 records\n\nSmokes ")
    assert re.search("^<i>often</i>  low +539$", text, re.MULTILINE)
    assert text.endswith("\n\n" + "\n".join(FOOT) + "\n")
    page = written(labelled, "html").decode()
    assert '<th scope="row">&lt;i&gt;often&lt;/i&gt;</th>' in page
    assert '<th scope="col" class="total">(total)</th>' in page
    assert [unescape(line) for line in re.findall('<p class="soft">(.*)</p>', page)] == FOOT
