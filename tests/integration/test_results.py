"""What results say of themselves: text, pages and frames by names, and figures."""

import base64
import html
import pydoc
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import sdc
from sdc.model.errors import IncompleteTableError, InputError, ReleaseError, SdcError
from sdc.model.release import NOTHING
from sdc.model.table import Table
from tests.helpers.builds import BY_NAME, CZECH_CSV


def picture(figure: Any) -> ElementTree.Element:
    """What the SVG of a figure is, as an image has it."""
    root = ElementTree.fromstring(figure._repr_svg_())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    assert root.attrib["viewBox"] == f"0 0 {width:g} {height:g}"
    parts = [part for part in root if part.tag.endswith("}svg")]
    assert sum(float(part.attrib["height"]) for part in parts) == pytest.approx(height)
    assert base64.b64decode(figure._repr_html_().partition("base64,")[2].partition('"')[0]).decode() == figure.svg
    return root


def titles(root: ElementTree.Element) -> list[str]:
    return [str(one.text) for one in root.iter("{http://www.w3.org/2000/svg}title")]


def test_widths_are_drawn(czech: Table) -> None:
    widths, found = sdc.widths(czech), sdc.find_release(czech, "ordered", min_width=6)
    alone, beside = (picture(widths.plot(min_width=6, release=release)) for release in (None, found))
    assert "A*B*C*D*F: critical width 3" in titles(alone)
    assert "A*B*C*D*F: critical width 3, not released" in titles(beside)
    assert f"A*B*C*D*E: critical width {widths.of('A*B*C*D*E')}, released" in titles(beside)
    crosses = [len(root.findall(".//*[@class='cross']")) for root in (alone, beside)]
    assert crosses == [0, 64 - found.sub_tables_with_total]
    assert widths.plot(min_width=6, release=BY_NAME) == widths.plot(min_width=6, release=found)
    with pytest.raises(InputError, match="min_width = 0, with 64 critical widths; both must be at least 1"):
        widths.plot(min_width=0)
    with pytest.raises(InputError, match="release is of the type int; give a release that was found, or sub-tables"):
        widths.plot(min_width=6, release=3)


def test_many_widths_are_bars() -> None:
    rows = [[str(v == k) for v in range(9)] for k in range(9)]
    table = sdc.read_table(pa.table({f"v{v}": [row[v] for row in rows] for v in range(9)}))
    root = picture(sdc.widths(table).plot(min_width=1))
    words = [str(one.text) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "dimension 9" in words
    assert "released" not in words


def test_a_curve_is_drawn(czech: Table) -> None:
    curve = sdc.risk_utility_curve(czech, NOTHING, min_widths=[6, 10, 60], methods=["ordered"])
    root = picture(curve.plot())
    assert [title for title in titles(root) if "required width" in title] == [
        f"ordered, counts 1 to 2, required width {one.min_width_required}: {one.sub_tables} sub-tables" for one in curve
    ]
    assert "this release: 10" in ElementTree.tostring(picture(curve.plot(min_width=10)), "unicode")
    assert "The upright line" not in ElementTree.tostring(root, "unicode")


def test_a_frontier_is_drawn(czech: Table) -> None:
    root = picture(sdc.find_release(czech, "ordered", min_width=6).plot())
    dark = [box for box in root.iter("{http://www.w3.org/2000/svg}rect") if box.attrib["fill"] == "#2b6ca3"]
    assert [str(box[0].text) for box in dark] == [name for name in BY_NAME for _ in name.split("*")]
    assert "5 variables, 32 cells" in ElementTree.tostring(root, "unicode")


def test_help_and_dir_list_the_verbs_with_their_signatures() -> None:
    assert dir(sdc) == sorted([*sdc.__all__, "__version__"])
    text = pydoc.render_doc(sdc, renderer=pydoc.plaintext)
    assert "critical_widths(table: 'TableLike', *, small_count: 'int' = 2" in text
    assert "find_release(" in text
    assert sdc.widths is sdc.critical_widths
    assert sdc.release is sdc.find_release


def test_results_have_names_and_no_count_in_their_text(czech: Table) -> None:
    found = sdc.find_release(czech, "ordered", min_width=6)
    assert found.frontier == BY_NAME
    widths, bounds = sdc.widths(czech), sdc.cell_bounds(czech, found.release)
    answer = sdc.assess(czech, BY_NAME, min_width=10)
    likely = sdc.posterior(czech, BY_NAME)
    assert repr(found).startswith("FoundRelease: 59 sub-tables and the grand total, within A*B*C*D*E, A*B*D*E*F, ")
    for value, said in (
        (answer, "unsafe"),
        (widths, "64 sub-tables"),
        (bounds, "3 of them exact"),
        (likely, "3 cells"),
    ):
        assert said in repr(value) == str(value)
    assert widths.to_arrow().to_pylist()[-1] == {"sub_table": "A*B*C*D*E*F", "critical_width": widths.of(63)}
    assert widths.of("F*A*B*C*D") == widths.of(["A", "B", "C", "D", "F"]) == 3
    assert "… and 14 more rows" in widths._repr_html_()
    row = bounds.to_arrow().to_pylist()[0]
    assert list(row)[:7] == [*"ABCDEF", "count"]
    assert (row["outer_lower"], row["outer_upper"], row["exact"]) == (0, 10, True)


RESULTS: dict[str, Callable[[Table], Any]] = {
    "assess": lambda table: sdc.assess(table, BY_NAME, min_width=10),
    "attack": lambda table: sdc.attack(BY_NAME, truth=table, seeds=0),
    "what is right of an attack": lambda table: sdc.attack(BY_NAME, truth=table, seeds=0).right,
    "cell_bounds": lambda table: sdc.cell_bounds(table, BY_NAME),
    "round": lambda table: sdc.round(table, "A*B*F", base=5),
    "critical_widths": sdc.critical_widths,
    "decomposable_models": sdc.decomposable_models,
    "enumerate_tables": lambda table: sdc.enumerate_tables(table, BY_NAME),
    "fit": lambda table: sdc.fit(table, ["A*B", "C"]),
    "magnitude_table": lambda table: sdc.magnitude_table(CZECH_CSV, value="count", by=["A", "F"], contributors=3)[0],
    "find_release": lambda table: sdc.find_release(table, "ordered", min_width=6),
    "posterior": lambda table: sdc.posterior(table, BY_NAME),
    "read_table": lambda table: table,
    "redesign": lambda table: sdc.redesign(table, BY_NAME, "A*B*C*D*F", min_width=6, merging=False),
    "risk_utility_curve": lambda table: sdc.risk_utility_curve(
        table, NOTHING, min_widths=[6, 2000], methods=["ordered"]
    ),
    "sharp_bounds": lambda table: sdc.sharp_bounds(table, BY_NAME),
    "super_cell_bounds": lambda table: sdc.super_cell_bounds(table, BY_NAME, "A=no, B=no"),
    "suppress": lambda table: sdc.suppress(table, "A*B*C*D*F", small_count=4, min_width=6),
    "uniques": lambda table: sdc.uniques(table, BY_NAME, fraction=0.1, model="released"),
    "why": lambda table: sdc.why(table, BY_NAME, ["A", "B", "C", "D", "F"], min_width=6),
}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("A*age", r"'A\*age' names the unknown variable 'age'; the table has A, B, C"),
        (["A", "A"], "names 'A' twice"),
        ([], r"a sub-table is written as 'age\*sex' or as the list of its variables; this is a list"),
        (["A", 1], "as the list of its variables; this is a list"),
        (2.5, "as the list of its variables; this is a float"),
        (None, "as the list of its variables; this is a NoneType"),
    ],
)
def test_what_is_no_sub_table(asked: Any, message: str, czech: Table) -> None:
    with pytest.raises(ReleaseError, match=message):
        czech.marginal(asked)
    with pytest.raises(ReleaseError, match=message):
        sdc.why(czech, BY_NAME, asked, min_width=6)


def test_levels_are_columns_of_a_frame() -> None:
    columns = {"major": ["m", "m", "n"], "detail": ["c", "d", "e"], "sex": ["f", "m", "f"]}
    table = sdc.read_table(pa.table(columns), hierarchies={"industry": ["major", "detail"]})
    assert table.to_arrow().to_pydict() == {**columns, "count": [1, 1, 1]}
    assert table.marginal("major").to_arrow().to_pydict() == {"major": ["m", "n"], "count": [2, 1]}
    assert table.marginal(["sex", "detail"]).to_arrow().column_names == ["major", "detail", "sex", "count"]


def test_what_a_rounded_table_is_called_is_no_count(czech: Table) -> None:
    """Neither its text nor its frame tells by how much cells were moved; and a frame of it is taken for no table."""
    rounded = sdc.round(czech.marginal("A*B"), base=7)
    assert repr(rounded) == "4 cells in multiples of 7"
    assert rounded.to_arrow().column_names == ["A", "B", "count_rounded_to_7"]
    with pytest.raises(IncompleteTableError, match="the data frame has rounded counts, 'count_rounded_to_7'"):
        sdc.read_table(rounded.to_arrow())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there(library: str, czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"{library} cannot be imported; install it by python -m pip install") as said:
        getattr(czech, f"to_{library}")()
    assert isinstance(said.value, SdcError)
    assert len(czech.to_arrow()) == 63


def test_a_result_without_names_says_so(czech: Table) -> None:
    answer = sdc.find_release(czech, "ordered", min_width=6).assessment
    with pytest.raises(InputError, match=r"this Assessment has no names yet; call named_by\(table\.schema\)"):
        answer.to_arrow()
    assert answer._repr_html_().startswith("<p>Assessment: safe")
    assert len(answer.named_by(czech.schema).to_arrow()) == 0


def test_names_are_escaped_on_the_page() -> None:
    table = sdc.read_table(pa.table({"<b>": ["<i>", "x", "x"], "c": ["1", "2", "2"]}))
    page = sdc.cell_bounds(table, ["<b>"])._repr_html_()
    assert "<th>&lt;b&gt;</th>" in page
    assert "<i>" not in page


@pytest.mark.parametrize("verb", RESULTS)
def test_every_result_is_a_page(verb: str, czech: Table) -> None:
    result = RESULTS[verb](czech)
    page = result._repr_html_()
    shown = [*result.tables.values()] if verb == "find_release" else [result]
    assert page.count("<tr>") == sum(1 + min(50, len(one.to_arrow())) for one in shown)
    assert html.escape(repr(result)) in page
    assert repr(result) == str(result)
    assert repr(result).startswith(result.headline)
    assert "array(" not in repr(result)


def test_marginals_by_names(czech: Table) -> None:
    named = czech.marginal("C*A")
    assert named == czech.marginal(["A", "C"]) == czech.marginal(0b101)
    assert sdc.read_table(named.to_arrow(), categories={"A": ["no", "yes"], "C": ["no", "yes"]}) == named


def test_what_is_withheld_is_missing() -> None:
    counts = [1, 20, 9, 30, 40, 8, 7, 6, 50]
    table = sdc.read_table(pa.table({"a": [*"xxxyyyzzz"], "b": [*"rstrstrst"], "count": counts}))
    found = sdc.suppress(table, "a*b", small_count=1, min_width=5)
    told = found.to_arrow().column("count").to_pylist()
    assert told[0] is None
    assert 4 <= told.count(None) < 9
    shown = [n for n, hidden in zip(counts, found.suppressed.reshape(-1), strict=True) if not hidden]
    assert [n for n in told if n] == shown
    with pytest.raises(IncompleteTableError, match="missing values"):
        sdc.read_table(found.to_arrow())


def test_names_of_a_figure_are_text_and_no_markup() -> None:
    table = sdc.read_table(pa.table({"<b> & 'c'": ["x", "x", "y"], "d": ["1", "2", "2"]}))
    root = picture(sdc.widths(table).plot(min_width=1))
    assert any(title.startswith("<b> & 'c'*d: critical width") for title in titles(root))
