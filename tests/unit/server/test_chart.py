"""The chart of an answer: a bar a cell, as long as its count, and readable without colours and without eyes."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.server.web.answers import Answer, Shape
from sdc.server.web.pages import MAX_BARS, chart
from tests.strategies import dense, schema_of


def drawn(answer: Answer) -> ElementTree.Element:
    figure = chart(answer)
    assert figure is not None
    return ElementTree.fromstring(figure)


def bars_of(root: ElementTree.Element) -> list[tuple[str | None, float]]:
    return [(bar.findtext("title"), float(bar.get("width", "nan"))) for bar in root.findall("rect")]


@given(hs.lists(hs.integers(1, 6), min_size=1, max_size=2), hs.data())
def test_bars_are_as_long_as_their_counts(sizes: list[int], data: hs.DataObject) -> None:
    schema = schema_of(sizes)
    counts = data.draw(hs.lists(hs.integers(0, 1000), min_size=schema.cells, max_size=schema.cells))
    root = drawn(Answer("T", dense(schema, counts)))
    bars = bars_of(root)
    longest = max(max(counts), 1)
    room = max(width for _, width in bars)
    assert [width for _, width in bars] == pytest.approx([room * count / longest for count in counts], abs=0.1)
    texts = [element.text for element in root.findall("text")]
    assert all(f"{count:,}" in texts for count in counts)
    height = float(root.get("viewBox", "").split()[3])
    assert all(0 <= float(element.get("y", "-1")) <= height for element in root.iter() if "y" in element.attrib)


def test_the_chart_of_two_variables_says_what_it_shows(czech: Table) -> None:
    answer = Answer("Czech auto workers", czech.marginal(0b1001), Shape(totals=True))
    root = drawn(answer)
    assert root.findtext("title") == "Czech auto workers: A by D"
    assert root.findtext("desc") == (
        "4 bars, one for each cell of A by D. The longest is 539 of 1,841 records: A = yes, D = <140."
    )
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "chart-title chart-desc"
    assert [title for title, _ in bars_of(root)] == [
        "A = no, D = <140: 515",
        "A = no, D = >=140: 446",
        "A = yes, D = <140: 539",
        "A = yes, D = >=140: 341",
    ]
    shown = [element.text for element in root.findall("text")]
    assert shown == ["A: no", "<140", "515", ">=140", "446", "A: yes", "<140", "539", ">=140", "341"]


def test_nothing_has_a_style_and_no_name_is_markup() -> None:
    names = ("<script>", '" onload="x', "x" * 100)
    table = Table.of(Schema((Variable("<b>", names),)), np.array([[0], [2]]))
    root = drawn(Answer("</title>", table))
    assert not {"style", "fill", "onload"} & {key for element in root.iter() for key in element.attrib}
    assert {element.tag for element in root.iter()} == {"svg", "title", "desc", "rect", "text"}
    assert [element.text for element in root.findall("text")][::2] == ["<script>", '" onload="x', "x" * 29 + "…"]


def test_what_is_too_much_for_a_chart_has_none(czech: Table) -> None:
    assert chart(Answer("T", 1841)) is None
    assert chart(Answer("T", czech.marginal(0b111))) is None
    assert chart(Answer("T", Table.of(schema_of([MAX_BARS + 1]), np.array([[0]])))) is None
    assert chart(Answer("T", Table.of(schema_of([MAX_BARS]), np.array([[0]])))) is not None


def test_a_table_without_records_has_bars_without_length() -> None:
    assert [width for _, width in bars_of(drawn(Answer("T", dense(schema_of([2]), [0, 0]))))] == [0.0, 0.0]
